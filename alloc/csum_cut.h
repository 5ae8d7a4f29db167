/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/csum_cut.h - takes the checksums of a range out of a checksum tree.
 *
 * A checksum item, key (OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, logical), covers one sector for each
 * checksum in it, and items do not overlap. Cutting deletes the items inside the range and shortens
 * or splits those that reach beyond it. Works on any tree of such items (log trees too).
 *
 * Locks: the caller keeps others from changing checksums of the range and its neighbours' items.
 */
#ifndef COWFS_ALLOC_CSUM_CUT_H
#define COWFS_ALLOC_CSUM_CUT_H

#include <stdint.h>

#include "btree/tree.h"

/*
 * Cuts [start, start + len), sector multiples, out of `csums`. What is not there is no error.
 * -EUCLEAN for a damaged item, else the tree's errors.
 */
int csum_cut(struct txn_handle *tx, struct tree *csums, uint32_t sectorsize, uint32_t csum_bytes,
	     uint64_t start, uint64_t len);

#endif
