/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/space_priv.h - what the files of alloc/ share and nobody else sees.
 *
 * Space in memory (block groups, free and pinned ranges, reservations, chunks) and space on disk
 * (delayed references, extent tree, free space tree, block group items) meet here. The life of a
 * range, and the call that moves it on:
 *
 *   free --space_alloc_block_addr, space_alloc_data--> handed out
 *   handed out --group_account_alloc (its extent item was inserted)--> used
 *   used --group_account_free, space_pin (its extent item was deleted)--> pinned
 *   pinned --space_commit_done--> free
 *   handed out --space_free_now (it never reached the extent tree nor the device)--> free
 *
 * The commit is the only thread that runs delayed references, so the only one that changes the
 * extent tree. The free space tree and the block group items are changed by it and, when a chunk
 * comes, by the thread that makes the chunk.
 *
 * Locks: each function takes what it needs; those marked "no I/O" may be called with tree latches held.
 */
#ifndef COWFS_ALLOC_SPACE_PRIV_H
#define COWFS_ALLOC_SPACE_PRIV_H

#include "alloc/space.h"
#include "io/locks.h"

struct group_set;
struct chunk_set;
struct reserve;
struct ref_set;

struct space {
	struct volume *vol;
	struct tree_env *env;
	struct meta_trees *trees;	/* borrowed */
	struct space_hooks hooks;
	enum alloc_policy policy;
	bool rdonly;
	bool discard;
	bool mixed;
	bool skinny;			/* superblock has SKINNY_METADATA */
	uint32_t sectorsize;
	uint32_t csum_bytes;		/* of one sector */
	uint64_t data_profile, metadata_profile, system_profile;

	struct group_set *groups;	/* groups.h */
	struct chunk_set *chunks;	/* chunk.h */
	struct reserve *reserve;	/* reserve.h */
	struct ref_set *refs;		/* delayed_ref.h */
	/* Read: a group's items in the free space tree are being loaded. Write: they are changed. */
	struct rwlock fst_lock;		/* rank SHARE; space_new() makes it */
};

/* A block group as the trees know it. */
struct group_info {
	uint64_t start;			/* logical address */
	uint64_t len;			/* bytes */
	uint64_t used;			/* bytes in extent items */
	uint64_t flags;			/* BG_* */
};

/* --- space in memory --------------------------------------------------------------------------- */

/* The group that holds the address. No I/O. -ENOENT. */
int group_find(struct space *sp, uint64_t bytenr, struct group_info *ret_info);

/* The first group that begins at or after the address. No I/O. -ENOENT. */
int group_next(struct space *sp, uint64_t bytenr, struct group_info *ret_info);

/*
 * An extent item of a handed out range was inserted, or one was deleted: changes the group's `used`
 * and marks its item dirty. The range lies in one group, else -EUCLEAN. No I/O.
 */
int group_account_alloc(struct space *sp, uint64_t bytenr, uint64_t len);
int group_account_free(struct space *sp, uint64_t bytenr, uint64_t len);

/* A range freed by transaction `transid` waits for that to be on the device. No I/O. */
int space_pin(struct space *sp, uint64_t transid, uint64_t bytenr, uint64_t len);

/* A handed out range that was never written nor accounted is free at once. No I/O. */
void space_free_now(struct space *sp, uint64_t bytenr, uint64_t len);

/* Takes one group whose item must be written off the dirty list; false: there is none. No I/O. */
bool group_take_dirty(struct space *sp, struct group_info *ret_info);

/*
 * An address for a tree block of `len` bytes, aligned to `align`, charged to the handle. `system`:
 * for the chunk tree. Groups whose free space is not loaded are not asked. No I/O. -ENOSPC.
 */
int space_alloc_block_addr(struct space *sp, struct txn_handle *tx, uint64_t len, uint64_t align,
			   uint64_t hint, bool system, uint64_t *ret_bytenr);

/* --- space on disk ----------------------------------------------------------------------------- */

/* Delayed references (delayed_ref.c). refs_free also drops what waits; NULL is a no-op. */
int refs_new(struct ref_set **ret_refs);
void refs_free(struct ref_set *refs);

/*
 * Runs delayed references in address order and writes the items of dirty groups until neither is
 * left; *ret_changed becomes true if anything was done (it is never set to false). The door of the
 * transaction is closed and tx->kind is RSV_COMMIT. After an error the transaction must be aborted.
 */
int refs_run(struct space *sp, struct txn_handle *tx, bool *ret_changed);

/* Called for free ranges in ascending order; a negative return ends the walk and is handed on. */
typedef int (*free_range_fn)(void *arg, uint64_t start, uint64_t len);

/*
 * The free ranges of a group as its trees on disk have them: from the free space tree, or, without
 * one, as the gaps between extent items. Pinned ranges count as free, superblock copies too: the
 * caller takes them out. Reads trees: no tree latch and no lock of rank SPACE or above held.
 */
int group_scan_free(struct space *sp, const struct group_info *group, free_range_fn fn, void *arg);
int free_space_tree_load(struct space *sp, const struct group_info *group, free_range_fn fn,
			 void *arg);
int extent_tree_scan_free(struct space *sp, const struct group_info *group, free_range_fn fn,
			  void *arg);

/* A new group, all free, enters the free space tree, or an empty one leaves it. No-ops without one. */
int free_space_tree_add_group(struct space *sp, struct txn_handle *tx,
			      const struct group_info *group);
int free_space_tree_remove_group(struct space *sp, struct txn_handle *tx,
				 const struct group_info *group);

/* The item of a block group, in the block group tree or else in the extent tree. */
int block_group_item_insert(struct space *sp, struct txn_handle *tx,
			    const struct group_info *group);
int block_group_item_update(struct space *sp, struct txn_handle *tx,
			    const struct group_info *group);
int block_group_item_delete(struct space *sp, struct txn_handle *tx,
			    const struct group_info *group);

#endif
