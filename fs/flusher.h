/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flusher.h - which inodes have dirty data, how much there is, and who writes it out when.
 *
 *	write -> list of dirty inodes -> batch (taken off the list, under write-back) -> clean
 *
 * A thread of its own writes back when a quarter of the limit is dirty or data get old; a writer
 * above the limit, fsync and the commit write back by themselves, several at a time.
 *
 * Locks: flusher->lock (rank CACHE) covers the list and the counters; inode locks may be held.
 */
#ifndef COWFS_FS_FLUSHER_H
#define COWFS_FS_FLUSHER_H

#include "fs/delalloc.h"

/* Dirty bytes, those under write-back counted, above which writers write back themselves. */
#define DIRTY_LIMIT_BYTES (48u << 20)
/* What one batch takes at least, if there is so much, and how many inodes at most. */
#define BATCH_BYTES (32u << 20)
#define BATCH_INODES 1024u

/* Puts the inode into the list unless it is there. in->lock held exclusive. */
void flusher_enlist(struct fs *fs, struct delalloc *d);
void flusher_delist(struct fs *fs, struct delalloc *d);
/* Puts it back at the head: it was taken, but another batch writes that inode. */
void flusher_put_back(struct fs *fs, struct delalloc *d);
/* Counts bytes that became dirty (> 0) or ceased to be (< 0). */
void flusher_account(struct fs *fs, int64_t bytes);
/* Called by writers with no lock held: wakes the thread, or writes back until below the limit. */
void flusher_throttle(struct fs *fs);

/*
 * Takes inodes off the list, oldest first, until BATCH_BYTES or BATCH_INODES, of those that became
 * dirty no later than `seq`; gives references. Returns how many.
 */
unsigned flusher_take(struct fs *fs, uint64_t seq, struct inode **ret_inodes);
/* The order number of the youngest that became dirty; is any in the list that is no younger? */
uint64_t flusher_last_seq(struct fs *fs);
bool flusher_pending(struct fs *fs, uint64_t seq);

/* A count of batches ended, to be read before looking and waited on after. */
uint64_t flusher_batches(struct fs *fs);
/* Waits until the count is not `seen` any more, at most a moment: look again. No locks held. */
void flusher_wait(struct fs *fs, uint64_t seen);

/* A batch's beginning, which gives it a number, and its end. No locks held. */
uint64_t flusher_batch_begin(struct fs *fs);
void flusher_batch_end(struct fs *fs, uint64_t ticket);
/* Waits until all batches that began before the call are over. No locks held. */
void flusher_wait_older(struct fs *fs);

#endif
