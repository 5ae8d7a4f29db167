/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/root_item.h - root items: where the root tree says that another tree begins.
 *
 * Locking: a record is read when its tree is opened and changed by the commit alone, with the door
 * of the transaction closed. Not here: the root tree and the chunk tree, which the superblock names.
 */
#ifndef COWFS_FS_ROOT_ITEM_H
#define COWFS_FS_ROOT_ITEM_H

#include "btree/tree.h"
#include "io/format.h"

struct root_record {
	struct tree *tree;
	struct key key;			/* of the root item */
	struct disk_root_item item;	/* as stored; old short items are completed with zeroes */
	uint64_t base_bytes;		/* bytes_used when the tree was opened */
};

/*
 * Finds the newest root item of tree `id` in the root tree; ret_rec->tree is NULL.
 * -ENOENT: there is none. -EUCLEAN.
 */
int root_item_find(struct tree *root_tree, uint64_t id, struct root_record *ret_rec);

/* Opens the record's tree. Shareable (subvolume) trees take last_snapshot from the item. */
int root_item_open(struct tree_env *env, struct root_record *rec, bool shareable);

/*
 * Stores the item if its tree moved, grew or shrank since; sets *ret_more then. `stamp` also writes
 * the change times that subvolumes carry.
 */
int root_item_store(struct tree *root_tree, struct txn_handle *tx, struct root_record *rec,
		    bool stamp, bool *ret_more);

#endif
