/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/subvol_drop.h - giving back what deleted subvolumes occupy.
 *
 * A subvolume that was deleted has lost its names; its root item has no references and an orphan item
 * in the root tree tells of it. Its tree is dropped after a read-write mount by a thread of its own,
 * there only while there is something to drop. How far it came is in the root item, so that an
 * unmount or a crash costs nothing but time; the next mount goes on.
 *
 * Not here: the walk over the tree (btree/drop.c); deleting a subvolume.
 */
#ifndef COWFS_FS_SUBVOL_DROP_H
#define COWFS_FS_SUBVOL_DROP_H

#include "fs/fs.h"

/* Starts the thread if the root tree has an orphan item. Read-write mounts only. -EAGAIN, -ENOMEM. */
int subvol_drop_start(struct fs *fs);
/* Ends it between two steps. No-op if it does not run. */
void subvol_drop_stop(struct fs *fs);
/*
 * What the thread does: drops all deleted subvolumes until it is told to stop. A subvolume that is
 * damaged is left as it is, with a line in the log. No locks held.
 */
void subvol_drop_all(struct fs *fs);

#endif
