/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/names.h - the names that an inode has, from its back references.
 *
 * Locking: takes none; a name made or removed meanwhile may be missed or told still. Not here: names
 * of subvolumes' roots (subvol_parent), looking names up (ops.h).
 */
#ifndef COWFS_FS_NAMES_H
#define COWFS_FS_NAMES_H

#include "fs/ops.h"

/*
 * Calls fn for each name (not terminated) and the directory that it is in, until fn returns
 * non-zero. The root of a subvolume has none. -EUCLEAN, -EIO, -ENOMEM.
 */
int inode_for_each_name(struct inode *in,
			int (*fn)(struct ino_id dir, const char *name, size_t len, void *arg),
			void *arg);

#endif
