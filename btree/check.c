/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/check.c - the judge of nodes; see check.h. One function for each item type, found through a
 * table; types that are not in it are let through, as the format's other readers do.
 */
#include <errno.h>

#include "btree/check_priv.h"
#include "io/util.h"

typedef int (*check_fn)(const struct subject *s);

static const check_fn checks[UINT8_MAX + 1] = {
	[KEY_INODE_ITEM] = check_inode_item,
	[KEY_INODE_REF] = check_inode_ref,
	[KEY_INODE_EXTREF] = check_inode_extref,
	[KEY_XATTR_ITEM] = check_dir_item,
	[KEY_DIR_ITEM] = check_dir_item,
	[KEY_DIR_INDEX] = check_dir_item,
	[KEY_EXTENT_DATA] = check_file_extent,
	[KEY_EXTENT_CSUM] = check_csum_item,
	[KEY_ROOT_ITEM] = check_root_item,
	[KEY_ROOT_REF] = check_root_ref,
	[KEY_ROOT_BACKREF] = check_root_ref,
	[KEY_EXTENT_ITEM] = check_extent_item,
	[KEY_METADATA_ITEM] = check_extent_item,
	[KEY_TREE_BLOCK_REF] = check_keyed_ref,
	[KEY_SHARED_BLOCK_REF] = check_keyed_ref,
	[KEY_SHARED_DATA_REF] = check_keyed_ref,
	[KEY_EXTENT_DATA_REF] = check_keyed_data_ref,
	[KEY_BLOCK_GROUP_ITEM] = check_block_group,
	[KEY_CHUNK_ITEM] = check_chunk_item,
	[KEY_DEV_ITEM] = check_dev_item,
	[KEY_DEV_EXTENT] = check_dev_extent,
	[KEY_FREE_SPACE_INFO] = check_free_space_info,
	[KEY_FREE_SPACE_EXTENT] = check_free_space_extent,
	[KEY_FREE_SPACE_BITMAP] = check_free_space_bitmap,
};

static int check_inner(const struct tree_env *env, const struct node *n)
{
	if (n->count == 0)
		return corrupt(n->owner, n->bytenr, NO_SLOT, "an empty inner node");
	for (uint32_t i = 0; i < n->count; i++) {
		const struct node_entry *e = node_at(n, i);

		if (e->child.bytenr == 0 || !is_aligned(e->child.bytenr, env->vol->params.sectorsize))
			return corrupt(n->owner, n->bytenr, (int)i, "a pointer to address %llu",
				       (ull)e->child.bytenr);
		if (e->child.generation > n->generation)
			return corrupt(n->owner, n->bytenr, (int)i,
				       "a child of generation %llu, newer than %llu",
				       (ull)e->child.generation, (ull)n->generation);
	}
	return 0;
}

/* Trees that begin with something and never lose it. */
static bool may_be_empty(const struct node *n)
{
	if (n->flags & HEADER_RELOC)
		return true;
	switch (n->owner) {
	case 0:
	case OBJ_ROOT_TREE:
	case OBJ_EXTENT_TREE:
	case OBJ_CHUNK_TREE:
	case OBJ_DEV_TREE:
	case OBJ_FS_TREE:
	case OBJ_DATA_RELOC_TREE:
		return false;
	default:
		return true;
	}
}

static int check_leaf(const struct tree_env *env, const struct node *n)
{
	struct subject s = {
		.env = env,
		.n = n,
		.sectorsize = env->vol->params.sectorsize,
		.transid = env->transid,
	};

	if (n->count == 0 && !may_be_empty(n))
		return corrupt(n->owner, n->bytenr, NO_SLOT, "a tree that is never empty is");
	for (; s.slot < n->count; s.slot++) {
		int err;

		s.prev = s.slot > 0 ? s.key : NULL;
		s.key = node_key(n, s.slot);
		s.data = node_data(n, s.slot);
		s.size = node_at(n, s.slot)->item.size;
		if (s.prev != NULL && key_cmp(s.prev, s.key) >= 0)
			return bad(&s, "keys out of order at (" KEY_FMT ")", KEY_ARGS(s.key));
		err = checks[s.key->type] != NULL ? checks[s.key->type](&s) : 0;
		if (err < 0)
			return err;
	}
	return 0;
}

int check_node(const struct tree_env *env, const struct node *n)
{
	return n->level == 0 ? check_leaf(env, n) : check_inner(env, n);
}
