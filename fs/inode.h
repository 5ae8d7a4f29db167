/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/inode.h - inodes in memory.
 *
 * Invariants:
 *   I1  at most one struct inode for a (subvolume, number) at a time;
 *   I2  `item` is what the tree holds, but for size and nbytes-to-come of dirty data: every change
 *       of metadata goes to the tree in the same transaction that makes it (inode_store);
 *   I3  size is what users see; disk_size is what the tree's inode item says (<= what the file
 *       extents on disk cover); they differ only while file data are dirty;
 *   I4  an inode with dirty data or an operation on it stays; others leave by LRU.
 *
 * Locks: inode->lock (RANK_INODE) shared for reading, exclusive for every change. Two inodes: by
 * (subvolume, number) ascending (inode_lock2).
 */
#ifndef COWFS_FS_INODE_H
#define COWFS_FS_INODE_H

#include <time.h>

#include "fs/fs.h"
#include "fs/subvol.h"
#include "io/locks.h"

#define INO_ROOT 256

struct delalloc;	/* dirty data of one inode; fs/delalloc.h */

struct inode {
	struct subvol *sv;
	uint64_t ino;
	struct rwlock lock;
	_Atomic uint32_t refs;

	/* Host-order copy of the inode item. */
	uint64_t generation;		/* when it was made: the FUSE generation */
	uint64_t transid;		/* last transaction that changed it: fsync looks here */
	uint64_t size, disk_size;
	uint64_t nbytes;
	uint32_t nlink, uid, gid, mode;
	uint64_t rdev, flags, sequence;
	struct timespec atime, mtime, ctime, otime;

	uint64_t next_dir_index;	/* directories; 0: not looked up yet */
	bool no_xattrs;			/* known to have none: answers the kernel's hidden request */
	bool doomed;			/* nlink 0: an orphan item exists */
	struct delalloc *dirty;		/* NULL: no dirty data */
	uint64_t last_extent;		/* allocation hint: end of the last extent written */
	_Atomic int wb_error;		/* failed write-back, reported by the next fsync */

	/* the cache's own */
	struct inode *hash_next, *lru_prev, *lru_next;
	bool in_lru;
};

int inode_cache_new(struct fs *fs);
void inode_cache_free(struct fs *fs);
/* A reference to the inode, loaded if need be. -ENOENT, -ESTALE (generation != 0 and another one), -EUCLEAN, -EIO. */
int inode_get(struct fs *fs, uint64_t subvol, uint64_t ino, struct inode **ret_inode);
struct inode *inode_ref(struct inode *in);
void inode_put(struct inode *in);		/* NULL is a no-op */
static inline void inode_putp(struct inode **in) { inode_put(*in); }
struct fs *inode_fs(const struct inode *in);

/* A new inode object, not in the tree yet: caller fills fields, then inode_insert() in a transaction. */
int inode_new(struct fs *fs, struct subvol *sv, uint64_t ino, struct inode **ret_inode);
int inode_insert(struct txn_handle *tx, struct inode *in);
/* Writes the inode item from the fields (size: disk_size), transid = the handle's. Exclusive lock held. */
int inode_store(struct txn_handle *tx, struct inode *in);
/* Deletes the inode item (and forgets the object once unreferenced). */
int inode_erase(struct txn_handle *tx, struct inode *in);

void inode_lock2(struct inode *a, struct inode *b);	/* exclusive; a == b allowed */
void inode_unlock2(struct inode *a, struct inode *b);

struct timespec fs_now(void);

#endif
