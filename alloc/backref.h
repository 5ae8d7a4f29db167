/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/backref.h - back references in items of their own.
 *
 * They lie right behind the extent item: (bytenr, KEY_*_REF, root or parent), and for
 * EXTENT_DATA_REF (bytenr, type, hash) where the offset goes up by one while another reference with
 * the same hash stands there.
 *
 * Locks: the caller is the only one who changes the extent tree. Not here: inline references.
 */
#ifndef COWFS_ALLOC_BACKREF_H
#define COWFS_ALLOC_BACKREF_H

#include "alloc/delayed_ref.h"

/*
 * Adds `count` to the keyed reference of this identity, made if there is none. -EUCLEAN if a tree
 * block reference is there already; else the tree's errors.
 */
int backref_add(struct space *sp, struct txn_handle *tx, uint64_t bytenr,
		const struct delayed_ref *id, uint32_t count);

/* Takes `count` away; an item that gets to 0 is deleted. -EUCLEAN if not so many are there. */
int backref_drop(struct space *sp, struct txn_handle *tx, uint64_t bytenr,
		 const struct delayed_ref *id, uint32_t count);

#endif
