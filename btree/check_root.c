/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/check_root.c - root items and the names of subvolumes. See check.h.
 *
 * Not here: whether the tree that a root item names is there.
 */
#include <errno.h>
#include <string.h>

#include "btree/check_priv.h"
#include "io/util.h"

int check_root_key(const struct subject *s, const struct key *root, bool is_item)
{
	if (root->objectid == 0)
		return bad(s, "a tree number 0");
	if (!is_item)
		return is_subvol_id(root->objectid)
			       ? 0 : bad(s, "an entry that leads to tree %llu", (ull)root->objectid);
	/* A relocation tree is known by the tree that it copies. */
	if (root->objectid == OBJ_TREE_RELOC && !is_subvol_id(root->offset) &&
	    root->offset != OBJ_DATA_RELOC_TREE)
		return bad(s, "a relocation tree of tree %llu", (ull)root->offset);
	return 0;
}

int check_root_item(const struct subject *s)
{
	struct disk_root_item ri = {0};
	struct key drop;
	int err = check_root_key(s, s->key, true);

	if (err < 0)
		return err;
	if (s->size != sizeof(ri) && s->size != ROOT_ITEM_V1_BYTES)
		return bad(s, "a root item of %u bytes", s->size);
	memcpy(&ri, s->data, s->size);
	if (disk_root_item_generation(&ri) > s->transid ||
	    disk_root_item_generation_v2(&ri) > s->transid ||
	    disk_root_item_last_snapshot(&ri) > s->transid)
		return bad(s, "a root of generation %llu, %llu, snapshot at %llu, from the future",
			   (ull)disk_root_item_generation(&ri), (ull)disk_root_item_generation_v2(&ri),
			   (ull)disk_root_item_last_snapshot(&ri));
	if (!is_aligned(disk_root_item_bytenr(&ri), s->sectorsize))
		return bad(s, "a root at %llu", (ull)disk_root_item_bytenr(&ri));
	if (disk_root_item_level(&ri) >= LEVEL_COUNT || disk_root_item_drop_level(&ri) >= LEVEL_COUNT)
		return bad(s, "a root of level %u, dropped at level %u", disk_root_item_level(&ri),
			   disk_root_item_drop_level(&ri));
	drop = key_from_disk(&ri.drop_progress);
	if (drop.objectid != 0 && disk_root_item_drop_level(&ri) == 0)
		return bad(s, "a root half dropped at level 0");
	if (disk_root_item_flags(&ri) & ~(ROOT_SUBVOL_RDONLY | ROOT_SUBVOL_DEAD))
		return bad(s, "a root with flags %llx", (ull)disk_root_item_flags(&ri));
	return 0;
}

int check_root_ref(const struct subject *s)
{
	const struct disk_root_ref *ref = (const void *)s->data;

	if (s->size <= sizeof(*ref))
		return bad(s, "a root ref of %u bytes", s->size);
	if (disk_root_ref_name_len(ref) > NAME_MAX_BYTES ||
	    s->size != sizeof(*ref) + disk_root_ref_name_len(ref))
		return bad(s, "a root ref of %u bytes with a name of %u", s->size,
			   disk_root_ref_name_len(ref));
	return 0;
}
