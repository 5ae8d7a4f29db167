/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/reserve.h - promises: how much space may still be used by whom.
 *
 * Data: a byte reserved is a byte of the data pool.
 *
 * Metadata: what must stay free in the pool is, at any time, the sum of
 *   handles  what running operations reserved and did not use yet;
 *   commit   what the next commit needs to write what waits: for each delayed reference the blocks
 *            that it can touch in the extent and the free space tree, but never more than these
 *            trees as a whole (a block is COWed once a transaction), the growth of both, and the
 *            paths of the root tree; for what is waiting now and for what is promised;
 *   global   the price of one large freeing operation; only RSV_FREEING and RSV_COMMIT may use it.
 * It is counted in whole tree blocks of loaded groups, since only these can be handed out under tree
 * locks.
 *
 * An item costs a path: by the height of the highest tree there is, a leaf and its nodes, and one
 * block more for a split. Beyond the first few, items of one operation are taken to be neighbours:
 * two of them in a leaf, under the same nodes.
 *
 * Before -ENOSPC: load groups, make a chunk, dip into the global reserve if the kind may, commit (that
 * frees what is pinned and what waits to be freed), each at most a few times.
 *
 * Locking: group_set.lock; *_locked want it held. Heights and sizes of trees are sampled outside of it.
 */
#ifndef COWFS_ALLOC_RESERVE_H
#define COWFS_ALLOC_RESERVE_H

#include "alloc/group.h"

/* Trees that a commit changes because of references. */
#define RESERVE_TREES 4u		/* extent, csum, free space, block group */

struct reserve {
	uint64_t base_bytes[RESERVE_TREES];	/* their sizes when they were opened */
	uint64_t whole;			/* their sizes now, as sampled */
	unsigned height;		/* of the highest tree, as estimated */
	uint64_t overdrawn;		/* bytes of blocks beyond a handle's reservation */
};

int reserve_new(struct space *sp, struct reserve **ret_reserve);
void reserve_free(struct reserve *r);		/* NULL is a no-op */
/* Reads the sizes of the trees from their root items. */
int reserve_load(struct space *sp);
/* Samples heights and sizes again. No lock of rank TREE or above held. */
void reserve_sample(struct space *sp);

/* What must stay free for metadata if `bytes` more are promised, with or without the global reserve. */
uint64_t reserve_need_locked(struct space *sp, uint64_t bytes, bool with_global);
/* What the handle's reservation pays for a tree block, and the rest out of what is free. */
void reserve_pay_block_locked(struct space *sp, struct txn_handle *tx, uint64_t len);
/* The global reserve in bytes. */
uint64_t reserve_global_locked(const struct space *sp);
/*
 * Free bytes of the data pool that data may not take: in a mixed one what metadata need, the operation
 * that puts the data into a tree included.
 */
uint64_t reserve_data_floor_locked(struct space *sp);
/* Device bytes that data must leave to metadata when it takes a chunk. */
uint64_t reserve_keep_for_metadata_locked(struct space *sp);

#endif
