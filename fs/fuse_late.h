/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_late.h - the thread for what must not be done while a request is handled.
 *
 * Three things have to make the kernel drop what it has cached of a file, which can wait for other
 * requests of the same kernel:
 *   - SEEK_DATA and SEEK_HOLE: pages that are dirty in the kernel are unknown here; invalidating the
 *     inode's pages has them written first, then the question can be answered;
 *   - a write that took set-id bits off, of which the kernel does not learn by its reply;
 *   - a write-back that failed: the kernel goes on showing pages and a size that were never stored,
 *     until the inode has left its caches; and writes that pass by its cache, of whose times it does
 *     not learn. The thread drops the inode's pages and names, again and again with growing pauses,
 *     until the kernel has forgotten the inode.
 *
 * Locking: one lock of rank CACHE around the queue, held for no call. Not here: workers.
 */
#ifndef COWFS_FS_FUSE_LATE_H
#define COWFS_FS_FUSE_LATE_H

#include "fs/fuse_front.h"

int late_new(struct front *f, struct late **ret_late);
/* Starts the thread; signals must be blocked by the caller. */
int late_start(struct late *late);
/* Ends the thread; requests that wait are answered -EIO. NULL is fine. */
void late_stop(struct late *late);
void late_free(struct late *late);

/* Takes over the request: answered when the kernel has written the file's dirty pages. -ENOMEM. */
int late_seek(struct late *late, fuse_req_t req, fuse_ino_t nodeid, off_t off, int whence);

/* The attributes have changed behind the kernel's back. May do nothing if memory is short. */
void late_refresh(struct late *late, fuse_ino_t nodeid);

/*
 * The kernel shows of this inode what is not so; has it dropped, first in delay_ms (a later call puts
 * that off). Never fails: at worst the kernel keeps its view.
 */
void late_evict(struct late *late, fuse_ino_t nodeid, unsigned delay_ms);

/* The kernel has forgotten the inode: what it learns from now on is right. Cheap. */
void late_forgotten(struct late *late, fuse_ino_t nodeid);

#endif
