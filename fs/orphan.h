/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/orphan.h - inodes without a name that somebody may still use.
 *
 * Such an inode has an orphan item in its own subvolume's tree, so that the next mount finds it after
 * a crash, and a record in the set in memory. fs_forget() and fs_clean_orphans() (ops.h) delete it.
 */
#ifndef COWFS_FS_ORPHAN_H
#define COWFS_FS_ORPHAN_H

#include "fs/inode.h"

struct orphan;

/* A record for orphan_add(), made before the transaction. NULL: no memory. */
struct orphan *orphan_new(const struct inode *in);
void orphan_free(struct orphan *o);		/* NULL is a no-op */
static inline void orphan_freep(struct orphan **o) { orphan_free(*o); }

/* The inode lost its last name: inserts the item and puts the record into the set (*o = NULL). */
int orphan_add(struct txn_handle *tx, const struct inode *in, struct orphan **o);

#endif
