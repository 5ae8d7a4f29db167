/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/trees.h - inside mkfs/: the first trees of a filesystem.
 *
 * Locking: one thread.
 */
#ifndef COWFS_MKFS_TREES_H
#define COWFS_MKFS_TREES_H

#include "fs/fs.h"
#include "mkfs/mkfs.h"

/*
 * Creates all trees in fs->trees and fs->roots (with room for MKFS_ROOTS_MAX) and fills them, up to
 * what only the commit knows: where they begin. The chunks are declared; tx is of kind RSV_COMMIT.
 * The caller closes the trees, also after a failure.
 */
#define MKFS_ROOTS_MAX 8u
int mkfs_make_trees(struct fs *fs, struct txn_handle *tx, const struct mkfs_options *o);

#endif
