/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/extent_tree.h - extents and who refers to them, on disk.
 *
 * Each extent in use has one item, (bytenr, EXTENT_ITEM, length) or, for a tree block of a filesystem
 * with skinny metadata, (bytenr, METADATA_ITEM, level). Such a filesystem may still hold tree blocks
 * in the old form.
 *
 * Invariants after a commit:
 *   X1  the item's refs are the sum of the counts of its references, inline and keyed;
 *   X2  an extent without references has no item, no checksums, and is free in the free space tree;
 *   X3  a block group's `used` is the sum of the lengths of its extents.
 *
 * Locks: changes are made by the commit alone. Not here: waiting changes (delayed_ref.h).
 */
#ifndef COWFS_ALLOC_EXTENT_TREE_H
#define COWFS_ALLOC_EXTENT_TREE_H

#include "alloc/delayed_ref.h"
#include "alloc/inline_ref.h"

/*
 * Loads the extent item of the address into an initialized image. `len` in bytes; `level` counts if
 * !data. -ENOENT: there is none; -EUCLEAN: damaged, or of the other kind; else the tree's errors.
 */
int extent_lookup(struct space *sp, uint64_t bytenr, uint64_t len, bool data, uint8_t level,
		  struct extent_image *im);

/* What a head's changes did to the extent. */
enum extent_change {
	EXTENT_KEPT,		/* it was there and still is */
	EXTENT_MADE,		/* its item was inserted */
	EXTENT_GONE,		/* its item was deleted */
	EXTENT_NEVER,		/* fresh, and dropped before it got an item */
};

/*
 * Applies all that a head holds to the extent tree. The caller accounts for what *ret_change says.
 * After an error the transaction must be aborted.
 */
int extent_apply(struct space *sp, struct txn_handle *tx, struct ref_head *head,
		 struct extent_image *im, enum extent_change *ret_change);

#endif
