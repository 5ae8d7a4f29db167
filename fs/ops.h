/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/ops.h - the operations of a POSIX filesystem, on inodes, without a mount.
 *
 * The FUSE front end and the engine tests call these and nothing else. All take their own locks and
 * transactions; callers hold none. Permission checks by mode are the caller's (FUSE's
 * default_permissions); what only the filesystem knows is checked here: read-only subvolumes,
 * immutable and append-only inodes, name length, directory emptiness, link limits.
 * All return 0 (or a count) or a negative errno, the one that Linux gives for the call.
 */
#ifndef COWFS_FS_OPS_H
#define COWFS_FS_OPS_H

#include <sys/stat.h>
#include <sys/types.h>

#include "fs/inode.h"

struct cred { uint32_t uid, gid; };

/* Which inode: the subvolume's tree id and the number in it. */
struct ino_id { uint64_t subvol, ino; };

/* --- names: fs/lookup.c, fs/readdir.c, fs/namei.c ---------------------------------------------- */

/* Resolves a name in `dir` (also "." and ".."); crosses into subvolumes. Returns a reference. */
int fs_lookup(struct inode *dir, const char *name, struct inode **ret_inode);
/* The parent directory of a directory, crossing subvolume roots upwards. */
int fs_parent(struct inode *dir, struct inode **ret_parent);

/* mode with S_IFMT: regular, directory, fifo, socket, device. Set-group-id directories hand on group and bit. */
int fs_mknod(struct inode *dir, const char *name, uint32_t mode, uint64_t rdev, struct cred who,
	     struct inode **ret_inode);
int fs_symlink(struct inode *dir, const char *name, const char *target, struct cred who,
	       struct inode **ret_inode);
int fs_link(struct inode *in, struct inode *dir, const char *name);
int fs_unlink(struct inode *dir, const char *name);
int fs_rmdir(struct inode *dir, const char *name);
/* flags: RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT. */
int fs_rename(struct inode *from, const char *name, struct inode *to, const char *newname,
	      unsigned flags);
/* Copies the target with a terminating 0 into buf; -ENAMETOOLONG if it does not fit. */
int fs_readlink(struct inode *in, char *buf, size_t cap);

/*
 * Calls fn for the entries of `dir` with a cookie greater than `cookie`, in cookie order, until
 * it returns non-zero. "." has cookie 1, ".." cookie 2; others their DIR_INDEX + 1 or a rule as
 * stable. The shared lock is not held while fn runs.
 */
struct dir_entry {
	const char *name;	/* not terminated */
	uint16_t name_len;
	uint8_t type;		/* DT_* */
	struct ino_id id;	/* a subvolume's entry names its root */
	uint64_t cookie;
};
int fs_readdir(struct inode *dir, uint64_t cookie, int (*fn)(const struct dir_entry *e, void *arg),
	       void *arg);

/*
 * The kernel, or the test, holds no reference to the inode any more (FORGET): if it has no name
 * left, its data, items and orphan item go. Cheap when it has names.
 */
int fs_forget(struct fs *fs, struct ino_id id);
/* Deletes all orphans that nobody can hold: at mount and at unmount. fs/orphan.c */
int fs_clean_orphans(struct fs *fs);

/* --- attributes: fs/attr.c, fs/xattr.c --------------------------------------------------------- */

struct attr_change {
	unsigned valid;		/* ATTR_* below */
	uint32_t mode, uid, gid;
	uint64_t size;
	struct timespec atime, mtime, ctime;
};
enum { ATTR_CH_MODE = 1, ATTR_CH_UID = 2, ATTR_CH_GID = 4, ATTR_CH_SIZE = 8, ATTR_CH_ATIME = 16,
	ATTR_CH_MTIME = 32, ATTR_CH_CTIME = 64, ATTR_CH_KILL_SUID = 128 };

/* st_ino is the objectid, st_dev the subvolume id: fs/identity.h folds them for a mount. */
int fs_getattr(struct inode *in, struct stat *ret_st);
int fs_setattr(struct inode *in, const struct attr_change *ch);
/* Notes a read for atime (relatime/strictatime as mounted); cheap when nothing is to be done. */
void fs_touch_atime(struct inode *in);

/* Values and lists as getxattr(2): size 0 asks for the length. */
ssize_t fs_getxattr(struct inode *in, const char *name, void *buf, size_t size);
ssize_t fs_listxattr(struct inode *in, char *buf, size_t size);
/* flags: XATTR_CREATE, XATTR_REPLACE. */
int fs_setxattr(struct inode *in, const char *name, const void *value, size_t size, int flags);
int fs_removexattr(struct inode *in, const char *name);

/* --- data: fs/read.c, fs/write.c, fs/truncate.c, fs/flush.c ------------------------------------ */

/* Bytes read, short at the end of the file. */
ssize_t fs_read(struct inode *in, uint64_t off, void *buf, size_t len);
/*
 * Takes the bytes into the dirty data; reserves first, so -ENOSPC comes from here. Size grows, times
 * change. Returns how many: fewer than asked for when space runs out in between; -ENOSPC: none.
 */
ssize_t fs_write(struct inode *in, uint64_t off, const void *buf, size_t len);
/*
 * The same for bytes that a cache above us took earlier. Times stay: whoever keeps that cache knows
 * when the write was, and says so by fs_setattr(), at times before these bytes come.
 */
ssize_t fs_write_late(struct inode *in, uint64_t off, const void *buf, size_t len);
/*
 * Sets the size, and mtime and ctime even if it stays; called by fs_setattr with the exclusive lock
 * held, in no transaction. Shrinking needs no space. fs/truncate.c
 */
int inode_set_size(struct inode *in, uint64_t size);
/*
 * Removes all extents, csums and dirty data of a doomed inode, in steps of one transaction each.
 * Exclusive lock held, in no transaction.
 */
int inode_drop_data(struct inode *in);
/* Writes the inode's dirty data to the device and its extents into the tree (no commit). */
int fs_flush_inode(struct inode *in);
/* Data and metadata durable; returns write-back errors once. Unchanged since the last commit: at once. */
int fs_fsync(struct inode *in, bool datasync);
/* Flushes all dirty data of the filesystem (not a commit). */
int fs_flush_all(struct fs *fs);
/*
 * An operation came to `err`, its locks are dropped. True: that was -ENOSPC for the first time, and
 * dirty data have been written back since, which then take less than was reserved for them: do it
 * once more. *tried is false at the beginning.
 */
bool fs_try_again(struct fs *fs, int err, bool *tried);
/* SEEK_DATA / SEEK_HOLE; -ENXIO past the end. */
int64_t fs_seek(struct inode *in, uint64_t off, bool data);
/* Logical 512-byte blocks for stat, dirty data counted. Lock held. */
uint64_t inode_blocks(struct inode *in);

int flusher_new(struct fs *fs);
int flusher_start(struct fs *fs);
void flusher_stop(struct fs *fs);
void flusher_free(struct fs *fs);

/* --- the whole --------------------------------------------------------------------------------- */

struct statvfs;
int fs_statfs(struct fs *fs, struct statvfs *ret_st);
/* True when new files should be written through, so that write(2) itself reports ENOSPC. */
bool fs_nearly_full(struct fs *fs);

int orphan_set_new(struct fs *fs);
void orphan_set_free(struct fs *fs);

#endif
