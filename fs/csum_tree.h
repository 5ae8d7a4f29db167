/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/csum_tree.h - checksums of file data: EXTENT_CSUM items, one checksum a sector.
 *
 * Items never overlap and never are bigger than a leaf takes. Cutting a range out when its extent
 * is freed is alloc/'s (csum_delete.h), since that happens at the commit.
 */
#ifndef COWFS_FS_CSUM_TREE_H
#define COWFS_FS_CSUM_TREE_H

#include "fs/fs.h"

/* Stores `n` checksums of csum_size bytes for the sectors from `bytenr`, joining neighbours. */
int csum_insert(struct fs *fs, struct txn_handle *tx, uint64_t bytenr, const uint8_t *sums,
		unsigned n);
/*
 * Copies the checksums of n sectors; missing ones are told by a 0 in the byte map `ret_have`.
 */
int csum_lookup(struct fs *fs, uint64_t bytenr, unsigned n, uint8_t *ret_sums, uint8_t *ret_have);

#endif
