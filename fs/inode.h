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
 *   I4  an inode with dirty data or an operation on it stays; others leave by LRU;
 *   I5  with lazytime the tree's atime may be older than the one here (`lazy`); such an inode stays
 *       until inode_flush_lazy().
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
	uint32_t nlink, uid, gid;
	/* Changed under the lock, also read without it: the type of `mode` stays, bits of `flags` only come. */
	_Atomic uint32_t mode;
	_Atomic uint64_t flags;
	uint64_t rdev, sequence;
	struct timespec atime, mtime, ctime, otime;

	uint64_t next_dir_index;	/* directories; 0: not looked up yet */
	bool no_xattrs;			/* known to have none: answers the kernel's hidden request */
	bool doomed;			/* nlink 0: an orphan item exists */
	struct delalloc *dirty;		/* NULL: no dirty data */
	uint64_t last_extent;		/* allocation hint: end of the last extent written */
	_Atomic int wb_error;		/* failed write-back, reported by the next fsync */

	uint64_t standin_parent;	/* stand-ins only: the directory with the entry; 0 = not known */
	bool lazy;			/* atime differs from the tree's (I5); inode->lock */

	/* the cache's own */
	struct inode *hash_next, *lru_prev, *lru_next, *lazy_next;
	bool in_lru, hashed;
	enum { INODE_READY, INODE_LOADING, INODE_FAILED } state;
};

/*
 * A snapshot holds an entry for each subvolume that lay in its source, but the subvolume is not
 * there (no ROOT_REF). The entry shows an empty directory that takes no changes. It is in no tree;
 * its number in memory, unique within the subvolume, is made from the missing subvolume's id.
 * Its number for people is OBJ_EMPTY_SUBVOL_DIR.
 */
#define INO_STANDIN (1ULL << 62)

static inline uint64_t standin_ino(uint64_t missing_subvol)
{
	return INO_STANDIN | missing_subvol;
}

static inline bool ino_is_standin(uint64_t ino)
{
	return ino >= INO_STANDIN && ino < 2 * INO_STANDIN;
}

int inode_cache_new(struct fs *fs);
void inode_cache_free(struct fs *fs);
/* A reference to the inode, loaded if need be. -ENOENT, -ESTALE (generation != 0 and another one), -EUCLEAN, -EIO. */
int inode_get(struct fs *fs, uint64_t subvol, uint64_t ino, struct inode **ret_inode);
struct inode *inode_ref(struct inode *in);
void inode_put(struct inode *in);		/* NULL is a no-op */
static inline void inode_putp(struct inode **in) { inode_put(*in); }
struct fs *inode_fs(const struct inode *in);

/*
 * A new inode object, not in the tree yet: the caller fills the fields, then inode_insert() in a
 * transaction. A zeroed inode but for its name, the times (now), and no_xattrs.
 */
int inode_new(struct fs *fs, struct subvol *sv, uint64_t ino, struct inode **ret_inode);
/* Inserts the inode item, and makes the object findable by inode_get(). */
int inode_insert(struct txn_handle *tx, struct inode *in);
/*
 * The same with items of the inode that follow the inode item directly (INODE_REF, ...):
 * v[0] is left free for the inode item, v[1..n-1] are the caller's.
 */
int inode_insert_vec(struct txn_handle *tx, struct inode *in, struct item_vec *v, unsigned n);
/* Writes the inode item from the fields (size: disk_size), transid = the handle's. Exclusive lock held. */
int inode_store(struct txn_handle *tx, struct inode *in);
/* Deletes the inode item; the object cannot be found any more and goes with its last reference. */
int inode_erase(struct txn_handle *tx, struct inode *in);
/* Was it erased? in->lock held. */
bool inode_is_erased(const struct inode *in);

/* Host order from disk and back; sizes go both ways as `size` = `disk_size`. -EUCLEAN. */
int inode_from_disk(struct inode *in, const struct disk_inode_item *d);
void inode_to_disk(const struct inode *in, struct disk_inode_item *ret_d);

void inode_lock2(struct inode *a, struct inode *b);	/* exclusive; a == b allowed */
void inode_unlock2(struct inode *a, struct inode *b);

/* Up to INODE_SET_MAX inodes locked exclusively together; NULLs and repetitions are skipped. */
#define INODE_SET_MAX 8u
struct inode_set {
	struct inode *in[INODE_SET_MAX];
	unsigned n;
};
void inode_set_add(struct inode_set *s, struct inode *in);
void inode_set_lock(struct inode_set *s);
/*
 * Locks one more while others are held: at once if it comes after them or is free, else false with
 * nothing changed: unlock all, take them in order with inode_set_lock(), and look again.
 */
bool inode_set_lock_more(struct inode_set *s, struct inode *in);
void inode_set_unlock(struct inode_set *s);	/* empties it; for scoped() */

/* 0, or -EROFS: the mount, the subvolume or the object (a stand-in) takes no changes. */
int inode_want_write(const struct inode *in);
/* sync and dirsync: waits until what was done to `in` is durable if the mount or its flags want it. */
int inode_sync_if_asked(struct inode *in);
/* Counts a change of the inode: ctime = now and the sequence. Exclusive lock held. */
void inode_changed(struct inode *in, const struct timespec *now);

/* Notes that atime is newer than the tree's (lazytime). Exclusive lock held. */
void inode_set_lazy(struct inode *in);
/* Writes all such times to the trees. Callers hold no inode lock and are in no transaction. */
int inode_flush_lazy(struct fs *fs);
/* How many inodes wait for that. */
unsigned inode_lazy_count(struct fs *fs);

/* Held by renames between directories, which change what is below what. */
struct mutex *inode_rename_lock(struct fs *fs);

struct timespec fs_now(void);

#endif
