/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/write.h - what changes of a file's size need of the dirty data.
 *
 * Locks: in->lock exclusive. May read from the device and reserve space; no transaction is open.
 */
#ifndef COWFS_FS_WRITE_H
#define COWFS_FS_WRITE_H

#include "fs/inode.h"

/* Makes the sector at `off` dirty with the contents it has, zeroes past the file's end. -ENOSPC, -EIO. */
int inode_load_sector(struct inode *in, uint64_t off);

/*
 * Before the size grows past the sector it ends in: bytes behind the old end become zero, inline
 * data become dirty, so that the next flush stores them otherwise. Cheap when neither is needed.
 */
int inode_prepare_growth(struct inode *in);

/* Drops dirty data from `size` on, those under write-back too; the size is the caller's. */
void inode_drop_dirty(struct inode *in, uint64_t size);

#endif
