/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/tree.h - the COW B-tree that all of the filesystem's trees are.
 *
 * Promises to callers:
 *   T1  no pointer into a node ever leaves btree/: lookups copy items out, in-place edits run in a
 *       callback that is handed the item's bytes for the time of the call;
 *   T2  a call on one tree takes no lock of another tree, except through space_ops.block_info;
 *   T3  a failed change with -EEXIST or -ENOENT left the tree's contents as they were;
 *   T4  any other error of a change may have left COWed nodes behind but never a torn tree; the
 *       caller aborts the transaction (txn_abort) unless it knows better;
 *   T5  no lock is held over device I/O: a search that misses the cache lets go, loads, and starts
 *       over.
 *
 * Locks: callers hold none of rank SHARE or above. Calls with a txn_handle must be inside a
 * transaction (fs/txn.h).
 *
 * Not here: the in-memory node (node.h), its cache (cache.h), what items mean (fs/, alloc/).
 */
#ifndef COWFS_BTREE_TREE_H
#define COWFS_BTREE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "btree/ref.h"
#include "io/key.h"

struct volume;
struct tree;
struct tree_env;

/* What all trees of one filesystem share: cache, dirty nodes, running generation. */
struct tree_env_args {
	struct volume *vol;		/* borrowed; outlives the environment */
	const struct space_ops *ops;	/* NULL: read-only */
	struct space *space;		/* handed to ops; may be set later with tree_env_set_space() */
	uint64_t transid;		/* generation of the running transaction */
	size_t cache_bytes;		/* limit for clean nodes (their real heap is counted) */
	bool rdonly;
};

int tree_env_new(const struct tree_env_args *args, struct tree_env **ret_env);
void tree_env_free(struct tree_env *env);	/* drops all nodes, dirty ones too; NULL is a no-op */
void tree_env_set_space(struct tree_env *env, const struct space_ops *ops, struct space *space);
uint64_t tree_env_transid(const struct tree_env *env);
/* The chunk tree's UUID that every block carries: read with the first block, or set by mkfs. */
void tree_env_set_chunk_uuid(struct tree_env *env, const uint8_t *uuid);
const uint8_t *tree_env_chunk_uuid(const struct tree_env *env);

/* Bytes of a block at this level: leafsize at level 0, nodesize above. */
uint32_t tree_env_block_size(const struct tree_env *env, uint8_t level);

/* Where a tree begins; the fields of a root item (or of the superblock). */
struct tree_root {
	uint64_t bytenr;	/* logical address */
	uint64_t generation;	/* of the root block */
	uint8_t level;
};

/*
 * Opens the tree `id` (its owner in block headers) at `root`. Does no I/O. `shareable`: blocks may
 * be shared with snapshots (subvolume trees), so that a COW of one not newer than last_snapshot
 * asks block_info first.
 */
int tree_open(struct tree_env *env, uint64_t id, const struct tree_root *root, bool shareable,
	      uint64_t last_snapshot, struct tree **ret_tree);
/* A new, empty tree whose root leaf is allocated and dirty (mkfs, new subvolumes, rebuilt trees). */
int tree_create(struct tree_env *env, struct txn_handle *tx, uint64_t id, bool shareable,
		struct tree **ret_tree);
void tree_close(struct tree *t);		/* forgets it; no tree change; NULL is a no-op */

uint64_t tree_id(const struct tree *t);
struct tree_root tree_root(struct tree *t);
uint8_t tree_height(struct tree *t);		/* levels, 1 for a single leaf */
/* Sum of the bytes of blocks added minus freed since open: the caller adds it to root_item.bytes_used. */
int64_t tree_bytes_delta(struct tree *t);
void tree_set_last_snapshot(struct tree *t, uint64_t generation);
/* True if the root block was replaced since the last call (the commit stores the root item then). */
bool tree_take_root_changed(struct tree *t);
/*
 * Snapshot: COWs the root block of `src` if it is older than this transaction, then copies it into a
 * new block, the root of the new tree `id`, which references all that src's root points to. From then
 * on src's last_snapshot is the transaction's number; the caller stores it in both root items and
 * gives it to tree_open() for the new tree. Whoever changes src meanwhile is shut out by the caller.
 */
int tree_copy_root(struct txn_handle *tx, struct tree *src, uint64_t id, struct tree_root *ret_root);

/*
 * An item copied out. Reusable: the buffer grows as needed and small items need no heap.
 * item_init before the first use, item_done after the last; scoped(item_done) works.
 */
struct item {
	struct key key;
	uint32_t size;		/* bytes of data */
	uint32_t cap;
	uint8_t *data;		/* small[] or heap */
	uint8_t small[256];
};

void item_init(struct item *it);
void item_done(struct item *it);

/* The item with exactly this key. -ENOENT if there is none. -EUCLEAN, -EIO, -ENOMEM. */
int tree_get(struct tree *t, const struct key *key, struct item *ret_item);

/* Like tree_get() into a buffer of exactly `size` bytes; -EUCLEAN if the item has another size. */
int tree_get_fixed(struct tree *t, const struct key *key, void *buf, uint32_t size);

enum seek { SEEK_ITEM_GE, SEEK_ITEM_GT, SEEK_ITEM_LE, SEEK_ITEM_LT };

/* The nearest item in the given direction; -ENOENT if there is none on that side. */
int tree_seek(struct tree *t, const struct key *key, enum seek how, struct item *ret_item);

/*
 * A walk over [first, last] in key order. Copies a leaf at a time, so it holds nothing between
 * calls and sees changes made meanwhile only beyond the copied leaf. Whoever needs exactness holds
 * the lock that covers these items (an inode lock, say), and calls cursor_reset() after own changes.
 */
struct cursor {
	struct tree *tree;
	struct key next, last;
	struct item item;	/* current; valid after cursor_next() returned 1 */
	struct leaf_copy *leaf;
	uint32_t slot;
	bool end;
};

void cursor_init(struct cursor *c, struct tree *t, const struct key *first, const struct key *last);
/* 1: c->item is the next item; 0: the end; negative errno. */
int cursor_next(struct cursor *c);
/* Drops the copied leaf; the walk goes on after the last returned key, seeing the tree as it is now. */
void cursor_reset(struct cursor *c);
void cursor_done(struct cursor *c);

/* Inserts; -EEXIST if the key is there; -EOVERFLOW if the item can never fit a leaf. */
int tree_insert(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
		uint32_t size);
/*
 * Inserts n items with ascending keys that no other item lies between: one descent for each leaf
 * touched. All or -EEXIST before anything changed.
 */
struct item_vec {
	struct key key;
	const void *data;
	uint32_t size;
};
int tree_insert_vec(struct txn_handle *tx, struct tree *t, const struct item_vec *v, unsigned n);
int tree_delete(struct txn_handle *tx, struct tree *t, const struct key *key);
/* Deletes up to `max` items in [first, last] from the low end, all in one leaf; *ret_n = how many (0 = none left). */
int tree_delete_range(struct txn_handle *tx, struct tree *t, const struct key *first,
		      const struct key *last, unsigned max, unsigned *ret_n);
/* Edits the item's bytes in place (same size). fn's negative return is handed on; it must not have changed anything then. */
int tree_edit(struct txn_handle *tx, struct tree *t, const struct key *key,
	      int (*fn)(void *data, uint32_t size, void *arg), void *arg);
/* Replaces the contents, of another size too; -ENOENT. */
int tree_replace(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
		 uint32_t size);
/* Inserts or replaces. */
int tree_put(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
	     uint32_t size);
/* Changes a key in place; the order of items must not change (-EINVAL). */
int tree_rekey(struct txn_handle *tx, struct tree *t, const struct key *old_key, const struct key *new_key);

/* Largest item data a leaf of this environment can hold, in bytes. */
uint32_t tree_max_item_size(const struct tree_env *env);

/*
 * The commit's side. Order: everything that changes trees has ended; tree_env_freeze() takes the
 * dirty nodes and makes `next_transid` the running generation; then, with other operations going
 * on, frozen_write() puts them on the device in address order in large writes (no flush).
 */
struct frozen;
int tree_env_freeze(struct tree_env *env, uint64_t next_transid, struct frozen **ret_frozen);
int frozen_write(struct frozen *f);
void frozen_free(struct frozen *f);		/* after the superblock is out, or after an abort */
uint64_t tree_env_dirty_bytes(const struct tree_env *env);
uint64_t tree_env_cache_bytes(const struct tree_env *env);
/* Frees clean nodes down to the limit; called by whoever has time. Cheap when below. */
void tree_env_shrink(struct tree_env *env);

/*
 * How far a tree is dropped: what a root item must hold (drop_progress, drop_level) so that it can go
 * on after a crash. All zeroes at the beginning.
 */
struct drop_progress {
	struct key key;
	uint8_t level;
	bool torn;		/* an error left a block half dropped: abort the transaction */
};

/*
 * Drops a subvolume tree that nobody uses any more, a step at a time: blocks that only it references
 * are freed, with the references of what they point to; blocks that others share lose its reference,
 * and what it made of them gets full backrefs. Visits about `budget` blocks, the more of them freed
 * the more delayed references. 1: more to do, and *p says how far it came; while the tree stays open
 * it goes on by itself. 0: all is gone, the root block too.
 * -EIO, -EUCLEAN, -ENOMEM, or what the references give: *p tells what is dropped unless p->torn.
 */
int tree_drop_step(struct txn_handle *tx, struct tree *t, struct drop_progress *p, unsigned budget);

/* Prints the tree's blocks, for gdb and the test failure hook. */
void tree_dump(struct tree *t, int fd);

#endif
