/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/block_group_item.c - the items of block groups.
 *
 * (start, BLOCK_GROUP_ITEM, length), in the block group tree if there is one, else in the extent
 * tree, where it stands behind the extent that begins at the same address.
 */
#include <errno.h>

#include "alloc/space_priv.h"
#include "io/format.h"
#include "io/log.h"

static struct tree *item_tree(const struct space *sp)
{
	return sp->trees->block_group != NULL ? sp->trees->block_group : sp->trees->extent;
}

static struct key item_key(const struct group_info *group)
{
	return key_make(group->start, KEY_BLOCK_GROUP_ITEM, group->len);
}

static struct disk_block_group_item item_encode(const struct group_info *group)
{
	struct disk_block_group_item item;

	disk_block_group_item_set_used(&item, group->used);
	disk_block_group_item_set_chunk_objectid(&item, OBJ_FIRST_CHUNK_TREE);
	disk_block_group_item_set_flags(&item, group->flags);
	return item;
}

int block_group_item_insert(struct space *sp, struct txn_handle *tx,
			    const struct group_info *group)
{
	struct disk_block_group_item item = item_encode(group);
	struct key key = item_key(group);

	return tree_insert(tx, item_tree(sp), &key, &item, sizeof(item));
}

int block_group_item_update(struct space *sp, struct txn_handle *tx,
			    const struct group_info *group)
{
	struct disk_block_group_item item = item_encode(group);
	struct key key = item_key(group);
	int err = tree_replace(tx, item_tree(sp), &key, &item, sizeof(item));

	if (err == -ENOENT)
		return corrupt(tree_id(item_tree(sp)), NO_ADDRESS, NO_SLOT,
			       "block group item " KEY_FMT " is missing", KEY_ARGS(&key));
	return err;
}

int block_group_item_delete(struct space *sp, struct txn_handle *tx,
			    const struct group_info *group)
{
	struct key key = item_key(group);

	return tree_delete(tx, item_tree(sp), &key);
}
