/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/node.h - one tree block in memory.
 *
 * The block on disk is an encoding; this is the working structure. Entries and item data stay where
 * they were put; `slots` holds their indices in key order, so that an insert moves two bytes for
 * each later item. Item data lie in a heap that grows until it is compacted.
 *
 * Invariants:
 *   N1  keys ascend strictly along slots[0 .. count);
 *   N2  packed_bytes is what the contents need on disk, never more than the block has;
 *   N3  in a leaf, every entry's data lie inside heap[0 .. heap_used);
 *   N4  only a node in state DIRTY is changed, and its generation is the running transaction's;
 *   N5  `low` is the first key of a node that is not DIRTY.
 *
 * States: CLEAN (as on disk), DIRTY (of the running transaction), FROZEN (being written), LOST (should
 * have been written, but was not). A new or COWed node is DIRTY; tree_env_freeze() makes it FROZEN;
 * when its commit has ended it is CLEAN, or LOST if the writing failed.
 *
 * Locking: the lock of the tree covers the contents; the cache's lock the state. A node is freed
 * through RCU, so a pointer found in the cache is good until the read section ends.
 * Not here: searching down a tree (path.h), which nodes are in memory (cache.h), what items mean
 * (check.h).
 */
#ifndef COWFS_BTREE_NODE_H
#define COWFS_BTREE_NODE_H

#include <bsd/sys/queue.h>

#include "btree/tree.h"
#include "io/format.h"
#include "io/key.h"
#include "io/rcu.h"

#include <urcu/rculfhash.h>

enum node_state { NODE_CLEAN, NODE_DIRTY, NODE_FROZEN, NODE_LOST };

struct node_entry {
	struct key key;
	union {
		struct {
			uint32_t off;		/* in the heap */
			uint32_t size;
		} item;				/* leaf */
		struct {
			uint64_t bytenr;
			uint64_t generation;
		} child;			/* inner node */
	};
};

struct node {
	struct cds_lfht_node hash;
	struct rcu_head rcu;
	TAILQ_ENTRY(node) link;		/* in the cache's clean, dirty or frozen list */
	uint64_t bytenr;
	uint64_t generation;
	uint64_t owner;
	uint64_t flags;			/* HEADER_* without the backref revision */
	uint64_t epoch;			/* env's, when the node was last known to be unshared */
	struct key low;
	_Atomic enum node_state state;
	uint8_t level;
	bool hashed;			/* in the cache */
	bool in_order;			/* slots[i] == i: searches need not look at slots */
	_Atomic bool used;		/* the clock hand's mark */
	uint32_t block_bytes;
	uint32_t packed_bytes;		/* header included */
	uint32_t count;
	uint32_t entry_used, entry_cap;	/* entries in use, also dead ones */
	uint32_t heap_used, heap_cap;
	uint16_t *slots;		/* entry_cap of them */
	struct node_entry *entries;
	uint8_t *heap;
	size_t memory;			/* bytes of heap memory */
	size_t counted;			/* of these, what the cache has counted */
};

/* An empty node with this header. */
int node_new(uint64_t bytenr, uint8_t level, uint32_t block_bytes, uint64_t owner,
	     uint64_t generation, struct node **ret_node);
/* The same contents under another header. */
int node_clone(const struct node *n, uint64_t bytenr, uint64_t owner, uint64_t generation,
	       struct node **ret_node);
void node_free(struct node *n);		/* at once; NULL is a no-op */

static inline void node_freep(struct node **n)
{
	node_free(*n);
}

static inline const struct node_entry *node_at(const struct node *n, uint32_t slot)
{
	return &n->entries[n->slots[slot]];
}

static inline const struct key *node_key(const struct node *n, uint32_t slot)
{
	return &node_at(n, slot)->key;
}

static inline uint8_t *node_data(const struct node *n, uint32_t slot)
{
	return n->heap + node_at(n, slot)->item.off;
}

static inline uint32_t node_free_bytes(const struct node *n)
{
	return n->block_bytes - n->packed_bytes;
}

/* On-disk bytes that an item of `size` data bytes takes, or a child pointer. */
static inline uint32_t node_item_bytes(uint32_t size)
{
	return (uint32_t)sizeof(struct disk_item) + size;
}
#define NODE_CHILD_BYTES ((uint32_t)sizeof(struct disk_key_ptr))

/* On-disk bytes of what is in a slot. */
static inline uint32_t node_slot_bytes(const struct node *n, uint32_t slot)
{
	return n->level == 0 ? node_item_bytes(node_at(n, slot)->item.size) : NODE_CHILD_BYTES;
}

/* First slot with a key >= key (count if none); true if it is equal. */
bool node_search(const struct node *n, const struct key *key, uint32_t *ret_slot);

/* Makes room at once for what a block holds, before it is filled. -ENOMEM. */
int node_reserve(struct node *n, uint32_t entries, uint32_t heap_bytes);
/*
 * Changes. The caller has checked that there is room (node_free_bytes) and that the key fits the
 * order. -ENOMEM leaves the node as it was.
 */
int node_insert_item(struct node *n, uint32_t slot, const struct key *key, const void *data,
		     uint32_t size);
int node_insert_child(struct node *n, uint32_t slot, const struct key *key, uint64_t bytenr,
		      uint64_t generation);
int node_resize_item(struct node *n, uint32_t slot, const void *data, uint32_t size);
void node_remove(struct node *n, uint32_t slot, uint32_t count);
void node_set_key(struct node *n, uint32_t slot, const struct key *key);
void node_set_child(struct node *n, uint32_t slot, uint64_t bytenr, uint64_t generation);
/* Moves slots [from, from + count) of src to slot `to` of dst. */
int node_move(struct node *dst, uint32_t to, struct node *src, uint32_t from, uint32_t count);

/*
 * The on-disk form. Encoding packs the block, checksum excepted. Decoding checks the header's
 * arithmetic and all bounds; -EUCLEAN through corrupt().
 */
void node_encode(const struct node *n, const uint8_t *fsid, const uint8_t *chunk_uuid, uint8_t *buf);
int node_decode(const uint8_t *buf, uint32_t block_bytes, struct node **ret_node);

void node_dump(const struct node *n, int fd);

#endif
