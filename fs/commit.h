/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/commit.h - what a commit does to the trees and the device; txn.c decides when.
 *
 * Locking: prepare runs with the door closed and nobody joined; write runs beside the next
 * transaction. One commit at a time.
 */
#ifndef COWFS_FS_COMMIT_H
#define COWFS_FS_COMMIT_H

#include "fs/fs.h"

struct commit {
	uint64_t transid;
	struct frozen *nodes;
	struct disk_super super;
};

/* True if the running transaction changed anything. */
bool commit_needed(struct fs *fs);
/*
 * Runs all that waits to a fixed point, builds the superblock and freezes the dirty nodes; the
 * running generation is transid + 1 afterwards. An error here fails the transaction.
 */
int commit_prepare(struct fs *fs, uint64_t transid, struct commit *ret_commit);
/* Puts the frozen transaction on the device: nodes, flush, superblocks, flush. Frees the nodes. */
int commit_write(struct fs *fs, struct commit *c);

#endif
