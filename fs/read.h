/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/read.h - bytes of files for fs/ itself.
 *
 * Locks: in->lock held, shared or exclusive, and over the device reads: what is being read cannot be
 * freed meanwhile. No transaction is needed.
 */
#ifndef COWFS_FS_READ_H
#define COWFS_FS_READ_H

#include "fs/inode.h"

/*
 * Reads [off, off + len), which lies below the file's size, as users see it: dirty data over what
 * is on disk, zeroes in holes. `room` >= len bytes at buf may be written to: with room for the rest
 * of the last sector no copy is made. -EIO: no good copy; -EUCLEAN; -ENOMEM.
 */
int inode_read(struct inode *in, uint64_t off, void *buf, size_t len, size_t room);

/* One sector at `off` (a multiple), zeroes from the file's size on. */
int inode_read_sector(struct inode *in, uint64_t off, uint8_t *buf);

#endif
