/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/env.h - inside btree/: the environment that trees share, and the cache of nodes in it.
 *
 * Invariants:
 *   E1  at most one node for a logical address is in the hash table;
 *   E2  a DIRTY node is in `dirty` and in the table; a FROZEN one belongs to a struct frozen and is
 *       in the table unless its block was freed meanwhile; a CLEAN or LOST one is in the list of
 *       that name and in the table;
 *   E3  only CLEAN nodes are evicted; whatever leaves the table is freed through RCU.
 *
 * Locking: lookups run inside an RCU read section and take nothing. env->lock (RANK_CACHE) covers the
 * lists, the states and the counters; it is held for a few instructions, never over I/O.
 * Not here: searching (path.h), what a commit does with frozen nodes (freeze.c).
 */
#ifndef COWFS_BTREE_ENV_H
#define COWFS_BTREE_ENV_H

#include "btree/node.h"
#include "io/locks.h"
#include "io/volume.h"

TAILQ_HEAD(node_list, node);

struct tree_env {
	struct volume *vol;
	const struct space_ops *ops;
	struct space *space;
	_Atomic uint64_t transid;
	_Atomic uint64_t epoch;		/* counts snapshots: tells who was shared since it was made */
	bool rdonly;
	_Atomic bool has_chunk_uuid;
	uint8_t chunk_uuid[UUID_BYTES];

	struct mutex share_lock;	/* RANK_SHARE: one COW of a possibly shared block at a time */
	struct mutex lock;		/* RANK_CACHE */
	struct cds_lfht *table;
	struct node_list clean, dirty;
	struct node_list lost;		/* kept, since the device lacks them */
	size_t clean_bytes, limit_bytes;
	_Atomic uint64_t dirty_bytes;
};

/* What a parent (or a root item) says of a block. */
struct block_want {
	uint64_t bytenr;
	uint64_t generation;
	uint64_t owner;			/* tree that looks for it */
	uint8_t level;
	bool shareable;			/* another subvolume may have made it */
	bool has_key;
	struct key key;			/* first key, unless it is a root */
};

/* Trees that snapshots are made of: their blocks may be shared. */
static inline bool is_subvol_id(uint64_t id)
{
	return id == OBJ_FS_TREE || (id >= OBJ_FIRST_FREE && id <= OBJ_LAST_FREE);
}

/* Whether a block of this owner may be where it is wanted. */
static inline bool block_owner_fits(const struct block_want *want, uint64_t owner)
{
	return owner == want->owner || (want->shareable && is_subvol_id(owner));
}

/*
 * The cached node, or NULL; a clean one that is not what its parent says counts as missing and is
 * dropped: it is stale, or the reading will tell what is wrong. Inside an RCU read section.
 */
struct node *cache_find(struct tree_env *env, const struct block_want *want);
/*
 * Takes a block over that was read. Another one of its address is in use: -EUCLEAN if sure, else
 * -ESTALE.
 */
int cache_add_clean(struct tree_env *env, struct node *n, bool sure);
/*
 * Reads, verifies and caches the block. -EIO, -EUCLEAN, -ENOMEM. No lock, no read section.
 *
 * The tree's lock was let go before, so the block may have been freed and its place used again:
 * without `sure` anything wrong is answered by -ESTALE, and nothing is logged or repaired. The caller
 * looks again, and is sure if the tree still wants the very same block.
 */
int cache_load(struct tree_env *env, const struct block_want *want, bool sure);
/*
 * A copy of the block that belongs to the caller (node_free); what is read for it is not cached.
 * Errors as cache_load().
 */
int cache_copy(struct tree_env *env, const struct block_want *want, struct node **ret_node);
/*
 * Takes over a new node of the running transaction; replaces a stale one at its address. -EUCLEAN,
 * the node freed, if that one is in use: the block was no free space.
 */
int cache_add_dirty(struct tree_env *env, struct node *n);
/* The node's block was freed, or is no longer this tree's: it leaves the table (and the dirty list). */
void cache_drop(struct tree_env *env, struct node *n);
/* The same by address and generation; nothing happens if the block is not in memory. */
void cache_drop_block(struct tree_env *env, uint64_t bytenr, uint64_t generation);
/* Counts the memory of a changed dirty node anew. */
void cache_recount(struct tree_env *env, struct node *n);
void node_free_rcu(struct node *n);
/* What becomes of a frozen node when its commit has ended. env->lock is held. */
void cache_thaw(struct tree_env *env, struct node *n, bool written);
/* The first block that was read tells the chunk tree's UUID. */
void env_note_chunk_uuid(struct tree_env *env, const uint8_t *uuid);

#endif
