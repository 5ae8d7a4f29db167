/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/space.h - all of the filesystem's space, as the layers above see it.
 *
 * Invariants:
 *   S1  space is reserved before it is used: an operation that began can finish;
 *   S2  for each of DATA, METADATA, SYSTEM (one pool when mixed):
 *       used + pinned + reserved + may_use <= total;
 *   S3  space freed in transaction N is pinned until N's superblock is on every mirror;
 *   S4  a data extent handed out is in no free list and in no extent item until its first
 *       reference is added; space_unalloc_data() gives it back if that never happens.
 *
 * Files of this folder: group.h (block groups and their free space in memory), policy.h (ssd and
 * rotational), free_space_tree.h (the on-disk twin), chunk.h (chunk allocation and removal),
 * reserve.h (reservations), delayed_ref.h (references waiting for the commit), extent_tree.h
 * (extent items and back references on disk).
 *
 * Locks: unless said otherwise calls take RANK_SPACE and RANK_REF themselves and want no lock of
 * rank TXN or above held.
 */
#ifndef COWFS_ALLOC_SPACE_H
#define COWFS_ALLOC_SPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "btree/ref.h"
#include "btree/tree.h"
#include "io/volume.h"

struct space;

/* The trees that keep space and are kept in it. Owned by fs/ (or mkfs); NULL where absent. */
struct meta_trees {
	struct tree *root;		/* root items */
	struct tree *chunk;
	struct tree *dev;
	struct tree *extent;
	struct tree *csum;
	struct tree *free_space;	/* NULL without FREE_SPACE_TREE */
	struct tree *block_group;	/* NULL: block group items live in the extent tree */
};

enum alloc_policy { POLICY_SSD, POLICY_ROTATIONAL };

/* How alloc/ gets into a transaction when it needs one by itself. fs/txn.c implements these. */
struct space_hooks {
	/* Joins the running transaction without any reservation (kind COMMIT); for chunk allocation. */
	int (*join)(void *ctx, struct txn_handle *tx);
	void (*leave)(void *ctx, struct txn_handle *tx);
	/* Commits the running transaction without flushing file data, so that pinned space returns. */
	int (*commit)(void *ctx);
	/* Marks the running transaction as failed with `err` (< 0). */
	void (*abort)(void *ctx, int err);
	void *ctx;
	/*
	 * space_touch() on the tree of this id, so that a block moves out of a nearly empty group; inside
	 * the commit. -ENOENT: no such tree is in use. NULL: such blocks stay where they are.
	 */
	int (*touch)(void *ctx, struct txn_handle *tx, uint64_t root, const struct key *key);
};

struct space_args {
	struct volume *vol;
	struct tree_env *env;
	struct meta_trees *trees;	/* borrowed; may be filled in later by mkfs */
	struct space_hooks hooks;
	enum alloc_policy policy;
	bool rdonly;
	bool discard;			/* discard what a commit freed */
	bool mixed;			/* superblock has MIXED_GROUPS */
	bool skinny;			/* superblock has SKINNY_METADATA */
	uint64_t data_profile, metadata_profile, system_profile; /* BG_* bits for new chunks, 0 = single */
};

extern const struct space_ops space_tree_ops;	/* for tree_env_set_space() */

int space_new(const struct space_args *args, struct space **ret_space);
/* Reads the block group items, one for each chunk of the map; free space is loaded when first needed. */
int space_load(struct space *sp);
void space_free(struct space *sp);	/* NULL is a no-op */

/*
 * Empties the free space tree and fills it again from the extent tree, for all groups: for a
 * filesystem with FREE_SPACE_TREE but not FREE_SPACE_TREE_VALID, in the first transaction of a
 * mount, before anything else has changed in it. The caller sets the VALID bit.
 */
int free_space_tree_rebuild(struct space *sp, struct txn_handle *tx);

/* --- reservation; see reserve.h for the arithmetic --------------------------------------------- */

/*
 * Metadata bytes that changing `items` items of a tree as high as the highest can cost, with the
 * delayed references that it causes.
 */
uint64_t space_meta_bytes(struct space *sp, unsigned items);
/*
 * Adds `bytes` to the handle's reservation. Outside of any transaction; may allocate a chunk and
 * may commit; the caller may hold inode locks but nothing of rank TXN or above. -ENOSPC.
 */
int space_reserve_meta(struct space *sp, struct txn_handle *tx, uint64_t bytes);
/* Gives back what the handle did not use. Inside or outside the transaction. */
void space_release_meta(struct space *sp, struct txn_handle *tx);

/* Reserves data bytes (a sector multiple); same rules as space_reserve_meta(). -ENOSPC. */
int space_reserve_data(struct space *sp, uint64_t bytes);
void space_release_data(struct space *sp, uint64_t bytes);

/* --- data extents ------------------------------------------------------------------------------ */

struct alloc_hint {
	uint64_t near;		/* logical address of the file's last extent, 0 = none */
	uint64_t owner;		/* subvolume id mixed with directory inode: spreads or gathers files */
};

/*
 * Turns `want` reserved data bytes into an extent of min..want bytes (sector multiples). The
 * rest stays reserved. May load a block group's free space (I/O); no tree lock held. -ENOSPC if
 * nothing of at least min bytes is left contiguous (the caller halves min down to a sector).
 */
int space_alloc_data(struct space *sp, const struct alloc_hint *hint, uint64_t min, uint64_t want,
		     uint64_t *ret_bytenr, uint64_t *ret_len);
/*
 * Makes a data chunk although there is free space, because what there is is scattered; never of
 * device space that metadata will need. Outside of any transaction. -ENOSPC.
 */
int space_grow_data(struct space *sp);
/* Gives back (part of) an extent that never got a reference; it is free at once. */
void space_unalloc_data(struct space *sp, uint64_t bytenr, uint64_t len);

/* The same, and the bytes are reserved again, as if they had never been handed out. */
void space_return_data(struct space *sp, uint64_t bytenr, uint64_t len);

/*
 * References of data extents; delayed. The first add of a fresh extent makes its item
 * (generation = tx->transid). Inside a transaction; tree locks may be held.
 * The last drop frees it: csums of the range are deleted when the ref is run at commit, and the
 * space is pinned.
 */
int space_add_ref(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref, bool fresh);
int space_drop_ref(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref);

/*
 * Is the data extent referenced only by this root and inode, with all references counted, pending
 * ones too, and not older than the root's last snapshot? Inside a transaction, after the leaf that
 * holds the file extent was COWed in it. 1, 0 or a negative errno.
 */
int space_extent_unshared(struct space *sp, struct txn_handle *tx, uint64_t bytenr, uint64_t len,
			  uint64_t root, uint64_t objectid, uint64_t last_snapshot);

/* --- the commit's side ------------------------------------------------------------------------- */

/*
 * Runs everything that waits (delayed refs, free space tree, csums of freed extents, block group
 * items, empty groups given back) until nothing new arises in alloc/'s trees; *ret_more tells
 * whether anything was changed, so that the caller, who stores root items, goes round again.
 * The door of the transaction is closed; tx->kind is RSV_COMMIT.
 */
int space_commit_run(struct space *sp, struct txn_handle *tx, bool *ret_more);
/* After tree_env_freeze: sets what transaction `transid` freed aside, under its number. */
int space_commit_freeze(struct space *sp, uint64_t transid);
/* The superblock of `transid` is on all mirrors: its pinned space is free again (and discarded). */
int space_commit_done(struct space *sp, uint64_t transid);
/* Delayed references waiting: the commit timer looks at it. */
uint64_t space_pending_refs(struct space *sp);
/* Writes bytes_used, the device item and sys_chunk_array into the superblock that is being prepared. */
void space_fill_super(struct space *sp, struct disk_super *super);

/* Has the tree COW the path to the item at or after the key; no item changes. */
int space_touch(struct txn_handle *tx, struct tree *t, const struct key *key);

/* --- chunks ------------------------------------------------------------------------------------ */

/* A new chunk of type `flags` (BG_DATA/BG_METADATA/BG_SYSTEM, profile added). Inside a transaction. -ENOSPC. */
int space_alloc_chunk(struct space *sp, struct txn_handle *tx, uint64_t flags);

/*
 * mkfs: declares the chunk [logical, logical + len) of `flags` at the given device offsets before
 * any tree exists; its items are inserted by space_bootstrap_items() once the trees are there.
 */
int space_bootstrap_chunk(struct space *sp, uint64_t logical, uint64_t len, uint64_t flags,
			  unsigned stripes, const uint64_t *dev_offsets);
int space_bootstrap_items(struct space *sp, struct txn_handle *tx);

/* --- figures ----------------------------------------------------------------------------------- */

struct space_stat {
	uint64_t data_total, data_used;		/* logical bytes */
	uint64_t meta_total, meta_used;
	uint64_t data_reserved, meta_reserved;
	uint64_t unallocated;			/* device bytes in no chunk */
	uint64_t avail;				/* data bytes that a user can still write, all profiles considered */
	uint64_t total;				/* device bytes as df should show them, profile considered */
	bool nearly_full;			/* new files should be written through */
};

void space_stat(struct space *sp, struct space_stat *ret_stat);
void space_dump(struct space *sp, int fd);

#endif
