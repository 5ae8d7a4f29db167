/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/ref.h - the words in which trees speak about space: references and transaction handles.
 *
 * Trees need space and space is kept in trees. The circle is cut here: btree/ declares what it
 * needs (struct space_ops), alloc/ implements it, and neither includes the other's internals.
 *
 * Not here: how references are stored (alloc/), how transactions begin and end (fs/txn.h).
 */
#ifndef COWFS_BTREE_REF_H
#define COWFS_BTREE_REF_H

#include <stdbool.h>
#include <stdint.h>

struct space;

/* Who may use what when metadata space is short. */
enum rsv_kind {
	RSV_NORMAL,	/* ordinary operations: ENOSPC when nothing unreserved is left */
	RSV_FREEING,	/* unlink, truncate, orphan cleaning: may dip into the global reserve */
	RSV_COMMIT,	/* the commit itself: draws on the global and delayed-ref reserves, never fails for space */
};

/*
 * One operation inside the running transaction. Filled by txn_start() (fs/txn.h), which also
 * reserves; every function that changes a tree takes one. Belongs to one thread.
 */
struct txn_handle {
	uint64_t transid;	/* generation of the transaction that this operation belongs to */
	uint64_t rsv_bytes;	/* metadata bytes reserved for this handle and not yet turned into blocks */
	enum rsv_kind kind;
	void *txn;		/* fs/txn.c's own; NULL for mkfs and tests that drive one transaction by hand */
};

/*
 * One reference to an extent, as the extent tree knows it. `type` is the key type of the
 * back reference and tells which fields count:
 *   KEY_TREE_BLOCK_REF   root                       KEY_SHARED_BLOCK_REF  parent
 *   KEY_EXTENT_DATA_REF  root, objectid, offset     KEY_SHARED_DATA_REF   parent
 */
struct extent_ref {
	uint64_t bytenr;	/* logical address of the extent */
	uint64_t len;		/* bytes */
	uint64_t parent;	/* logical address of the tree block that holds the pointer */
	uint64_t root;		/* id of the tree */
	uint64_t objectid;	/* inode number */
	uint64_t offset;	/* file offset minus extent offset, modulo 2^64 */
	uint32_t count;		/* references to add or drop, > 0 */
	uint8_t type;
	uint8_t level;		/* of a tree block; 0 for data */
};

/*
 * What btree/ asks of alloc/. All may be called with tree locks held: they take only the space and
 * ref locks, never a tree lock, and never do I/O; block_info() is the exception: it searches the
 * extent tree and is called with RANK_SHARE held and no tree lock.
 * All return 0 or a negative errno; a failure after the first change aborts the transaction (the
 * caller of the tree operation does that).
 */
struct space_ops {
	/*
	 * A new tree block of the tree `root` at `level`, charged to the handle's reservation, near
	 * `hint` (0 = anywhere). Records the first TREE_BLOCK_REF. -ENOSPC only if the reservation
	 * was wrong.
	 */
	int (*alloc_block)(struct space *sp, struct txn_handle *tx, uint64_t root, uint8_t level,
			   uint64_t hint, uint64_t *ret_bytenr);
	/*
	 * Drops the tree's reference to a block (ref->type TREE_BLOCK_REF or SHARED_BLOCK_REF).
	 * `generation` is the block's: one made in this transaction and dropped again vanishes
	 * without a trace in the extent tree.
	 */
	int (*free_block)(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref,
			  uint64_t generation);
	/* Adds, or drops, ref->count references (data extents and tree blocks). */
	int (*inc_ref)(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref);
	int (*dec_ref)(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref);
	/*
	 * Reference count and EXTENT_FLAG_* of a tree block, pending delayed refs counted. A block
	 * that nobody uses has 0: the tree is not locked while it is asked, so another thread may
	 * just have replaced the block; only who still finds it in the tree can call that damage.
	 */
	int (*block_info)(struct space *sp, uint64_t bytenr, uint8_t level, uint64_t *ret_refs,
			  uint64_t *ret_flags);
	/* Sets flags (FULL_BACKREF) on a tree block's extent item. */
	int (*set_block_flags)(struct space *sp, struct txn_handle *tx, uint64_t bytenr,
			       uint8_t level, uint64_t flags);
};

#endif
