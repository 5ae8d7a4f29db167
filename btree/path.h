/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/path.h - inside btree/: trees, and ways from a root to a leaf.
 *
 * Concurrency, for now: one reader-writer lock a tree, held only over memory. What a step needs and
 * cannot have under that lock, a block from the device or the reference count of a block that may be
 * shared, it asks for through struct want and returns -EAGAIN; tree_read() and tree_change() let go,
 * fetch it, and start the step over. So a step changes nothing before it has all that it needs, but
 * for COWed nodes, which mean the same as before. A step runs inside an RCU read section, which keeps
 * the nodes it found; the mutexes that it may wait for there (space, references, cache) are held for
 * a few instructions only.
 *
 * Invariants of a path made for a change:
 *   P1  all its nodes are DIRTY and belong to the running transaction;
 *   P2  when it was made for an insert, each inner node on it has room for two more children.
 */
#ifndef COWFS_BTREE_PATH_H
#define COWFS_BTREE_PATH_H

#include "btree/env.h"

struct tree {
	struct tree_env *env;
	uint64_t id;
	struct rwlock lock;		/* RANK_TREE: everything below, and the contents of nodes */
	struct tree_root root;
	bool shareable;
	bool root_changed;
	uint64_t last_snapshot;
	uint64_t epoch;			/* env's at the last snapshot of this tree, or at its opening */
	int64_t bytes_delta;
	struct drop_walk *drop;		/* of a tree that is being dropped (drop.c) */
	/* Where the last insert went: an insert right behind it is one of a row. */
	uint64_t last_bytenr;
	uint32_t last_slot;
};

struct path {
	struct node *nodes[LEVEL_COUNT];
	uint32_t slots[LEVEL_COUNT];
	uint8_t top;			/* level of the root */
};

/* What a step lacks (see above). */
struct want {
	enum { WANT_NOTHING, WANT_BLOCK, WANT_REFS } what;
	struct block_want block;
	/* The answer to WANT_REFS, good while share_lock is held. */
	bool share_held;
	bool refs_known;
	uint64_t refs_bytenr, refs, refs_flags;
};

struct step {
	struct tree *t;
	struct txn_handle *tx;		/* NULL: reading */
	struct want want;
	/* The block that could not be loaded; wanted once more, it is damaged. */
	uint64_t suspect_bytenr, suspect_generation;
};

typedef int (*step_fn)(struct step *s, void *arg);

/* Runs a step under the shared, or exclusive, lock of the tree until it does not return -EAGAIN. */
int tree_read(struct tree *t, step_fn fn, void *arg);
int tree_change(struct txn_handle *tx, struct tree *t, step_fn fn, void *arg);

/* The root block, not made writable; -EAGAIN. */
int path_root(struct step *s, struct node **ret_root);
/* The way to the leaf where `key` is or would be; slots[0] is the first with a key >= key. */
int path_find(struct step *s, const struct key *key, struct path *p, bool *ret_exact);
/* The same for a change; with for_insert inner nodes are split ahead (P2). */
int path_find_cow(struct step *s, const struct key *key, bool for_insert, struct path *p,
		  bool *ret_exact);
/* The first key behind the leaf of the path; false at the right end of the tree. */
bool path_bound(const struct path *p, struct key *ret_key);
/* Moves to the last item of the leaf before; -ENOENT at the left end. */
int path_prev_leaf(struct step *s, struct path *p);
/* What a parent says of a child. */
struct block_want path_want(const struct tree *t, const struct node *parent, uint32_t slot);
/* A child of an inner node, from the cache; NULL and s->want set if it has to be read. */
struct node *path_child(struct step *s, const struct node *parent, uint32_t slot);
/* `key` is, or is about to be, the first key of nodes[level]: tells the parents. */
void path_fix_low_key(struct path *p, uint8_t level, const struct key *key);

/* True if the node can be changed where it is. */
bool node_writable(const struct step *s, const struct node *n);
/*
 * Adds or drops the references of all that `n` points to: full ones to n itself, or implicit ones of
 * n's owner.
 */
int cow_child_refs(struct tree_env *env, struct txn_handle *tx, const struct node *n, bool full,
		   bool add);
/*
 * Makes *n writable; parent NULL: it is the root. -EAGAIN when it must be known whether it is shared.
 */
int cow_node(struct step *s, struct node *parent, uint32_t slot, struct node **n);
/* NULL is a no-op. */
void drop_walk_free(struct drop_walk *w);
/* A new, empty node of the tree, dirty. */
int cow_new_node(struct step *s, uint8_t level, uint64_t hint, struct node **ret_node);
/* Gives the block of a writable node back; the node is gone. */
int cow_free_node(struct step *s, struct node *n);
/* Puts a root above the root, which becomes its only child, under the key `low`. */
int cow_grow_root(struct step *s, struct path *p, const struct key *low);

/*
 * Makes room for `need` on-disk bytes at the path's slot, which moves along, by moving items to a
 * neighbouring leaf. 1: done; 0: it does not help; -ENOMEM.
 */
int shift_for_room(struct step *s, struct path *p, const struct key *key, uint32_t need);

#endif
