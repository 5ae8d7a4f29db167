/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/txn.h - transactions: joining, committing, aborting.
 *
 * States of a transaction (function that makes the step):
 *   RUNNING --commit closes the door, waits for the joined--> CLOSED --freeze--> FROZEN
 *   --nodes, flush, superblocks, flush--> WRITTEN.   Any --txn_abort()--> FAILED.
 * While one is FROZEN the next is RUNNING. An operation joins for one short step and never takes
 * an inode lock or waits for a commit inside.
 *
 * Locks: txn_start() wants nothing of rank TXN or above; inode locks may be held.
 */
#ifndef COWFS_FS_TXN_H
#define COWFS_FS_TXN_H

#include "fs/fs.h"

/*
 * Reserves metadata for changing `items` items (each with the delayed refs it may cause), then
 * joins the running transaction. -ENOSPC, -EROFS, or the error of an earlier abort (-EIO).
 */
int txn_start(struct fs *fs, struct txn_handle *tx, unsigned items, enum rsv_kind kind);
/* Leaves; gives the unused reservation back. */
void txn_end(struct fs *fs, struct txn_handle *tx);
/*
 * The operation failed after changing something: fails the transaction (the mount turns read-only,
 * one line is logged with file and line). Returns err.
 */
int txn_abort_at(struct fs *fs, int err, const char *file, int line);
#define txn_abort(fs, err) txn_abort_at(fs, err, __FILE__, __LINE__)

/*
 * Makes everything done before the call durable: flushes dirty file data, commits (or shares a
 * commit that begins after the call), waits until the superblocks are out.
 */
int txn_sync(struct fs *fs);
/* The same without flushing file data: for callers that flushed what they need, or need space. */
int txn_commit(struct fs *fs);
/*
 * Waits until everything up to transaction `transid` is durable: commits it if it is running, waits
 * if it is being written, returns at once if it is out already.
 */
int txn_commit_upto(struct fs *fs, uint64_t transid);
/* The running transaction's number; a hint unless a handle is held. */
uint64_t txn_running(struct fs *fs);

/* How alloc/ gets at transactions. */
struct space_hooks txn_space_hooks(struct fs *fs);

/* For fs_open/fs_close. */
int txn_mgr_new(struct fs *fs);
void txn_mgr_free(struct fs *fs);
int txn_timer_start(struct fs *fs);
void txn_timer_stop(struct fs *fs);

#endif
