/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/env.h - inside btree/: the environment that trees share, and the cache of nodes in it.
 *
 * Invariants:
 *   E1  at most one node for a logical address is in the hash table;
 *   E2  a DIRTY node is in `dirty` and in the table; a FROZEN one belongs to a struct frozen and is
 *       in the table unless its block was freed meanwhile; a CLEAN one is in `clean` and the table;
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
	bool rdonly;
	_Atomic bool has_chunk_uuid;
	uint8_t chunk_uuid[UUID_BYTES];

	struct mutex share_lock;	/* RANK_SHARE: one COW of a possibly shared block at a time */
	struct mutex lock;		/* RANK_CACHE */
	struct cds_lfht *table;
	struct node_list clean, dirty;
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

/*
 * The cached node, or NULL; a stale clean one (another generation) counts as missing and is dropped.
 * Inside an RCU read section.
 */
struct node *cache_find(struct tree_env *env, const struct block_want *want);
/* Reads, verifies and caches the block. -EIO, -EUCLEAN, -ENOMEM. No lock, no read section. */
int cache_load(struct tree_env *env, const struct block_want *want);
/* A new node of the running transaction; replaces whatever was cached at its address. */
void cache_add_dirty(struct tree_env *env, struct node *n);
/* The node's block was freed, or is no longer this tree's: it leaves the table (and the dirty list). */
void cache_drop(struct tree_env *env, struct node *n);
/* Counts the memory of a changed dirty node anew. */
void cache_recount(struct tree_env *env, struct node *n);
void node_free_rcu(struct node *n);

#endif
