/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/delayed_ref.h - changes of extent references that wait for the commit.
 *
 * An extent with pending changes has a head, found by its address; below it lies one record for each
 * reference that changes, with the net count. +1 and -1 of the same reference meet in one record and
 * cancel, so most of what a transaction does to an extent never reaches the extent tree.
 *
 * Invariants:
 *   D1  no record has count 0;
 *   D2  a head has a record, or flags to set, or is fresh (its extent item is not there yet);
 *   D3  all changes of one extent agree about its length, kind and level, else -EUCLEAN.
 *
 * Locks: one mutex of rank REF inside. A head that was taken out belongs to the taker alone.
 * Not here: what a change does to the extent tree (extent_tree.h).
 */
#ifndef COWFS_ALLOC_DELAYED_REF_H
#define COWFS_ALLOC_DELAYED_REF_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/space_priv.h"
#include "io/rbtree.h"

struct delayed_ref {
	RB_ENTRY(delayed_ref) link;
	uint64_t anchor;		/* root, or parent block for the shared types */
	uint64_t objectid;		/* EXTENT_DATA_REF only, as is offset */
	uint64_t offset;
	int64_t count;			/* net change, never 0 */
	uint8_t type;			/* KEY_*_REF */
};

RB_HEAD(delayed_tree, delayed_ref);

struct ref_head {
	RB_ENTRY(ref_head) link;
	struct delayed_tree refs;
	uint64_t bytenr;
	uint64_t len;			/* bytes */
	uint64_t flags;			/* to be set in the extent item */
	int64_t delta;			/* sum of the counts */
	uint8_t level;			/* of a tree block */
	bool data;
	bool fresh;			/* the extent item is still to be inserted */
};

/* What waits for one extent. */
struct ref_pending {
	int64_t delta;
	uint64_t flags;
	bool fresh;
};

/* Adds `delta` (not 0) references; `fresh`: the extent was handed out in this transaction and has
 * no item yet. -ENOMEM, -EUCLEAN. */
int refs_change(struct ref_set *set, const struct extent_ref *ref, int64_t delta, bool fresh);

/*
 * Drops one reference of a tree block of this transaction. *ret_vanished: it was the last one of a
 * block without an extent item, and nothing is left to do in the extent tree.
 */
int refs_drop_block(struct ref_set *set, const struct extent_ref *ref, bool *ret_vanished);

/* Sets flags in the extent item of a tree block. -ENOMEM, -EUCLEAN. */
int refs_set_flags(struct ref_set *set, uint64_t bytenr, uint64_t len, uint8_t level,
		   uint64_t flags);

/* What waits for the extent at the address; all zero if nothing does. */
struct ref_pending refs_pending(struct ref_set *set, uint64_t bytenr);

/*
 * Pending changes of a data extent, parted into those by the inode (root, objectid) itself and by
 * all others. Returns whether the extent is fresh.
 */
bool refs_pending_data(struct ref_set *set, uint64_t bytenr, uint64_t root, uint64_t objectid,
		       int64_t *ret_own, int64_t *ret_foreign);

/*
 * Takes out the head with the lowest address >= *cursor and moves the cursor behind it; NULL: there
 * is none. The caller frees it with ref_head_free().
 */
struct ref_head *refs_take(struct ref_set *set, uint64_t *cursor);
void ref_head_free(struct ref_head *head);	/* NULL is a no-op */

/* Walks the records of a head taken out, in order of type and identity. */
const struct delayed_ref *ref_head_first(struct ref_head *head);
const struct delayed_ref *ref_head_next(const struct delayed_ref *ref);

/* Heads that wait. */
uint64_t refs_count(struct ref_set *set);

#endif
