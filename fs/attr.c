/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/attr.c - stat and its opposite, and access times.
 *
 * Locking: each call takes the inode's lock.
 */
#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/ops.h"
#include "fs/txn.h"
#include "io/util.h"

/* relatime writes an access time at least this often; lazytime keeps one back no longer. */
#define ATIME_STALE_S (24 * 60 * 60)
/* Inodes whose access time is kept back (lazytime) before they are written. */
#define LAZY_INODES_MAX 1024u

#define KERNEL_MINOR_BITS 20
#define KERNEL_MINOR_MASK ((1u << KERNEL_MINOR_BITS) - 1)

static dev_t rdev_from_disk(uint64_t rdev)
{
	return makedev((unsigned)(rdev >> KERNEL_MINOR_BITS), (unsigned)rdev & KERNEL_MINOR_MASK);
}

int fs_getattr(struct inode *in, struct stat *ret_st)
{
	read_guard(&in->lock);
	*ret_st = (struct stat){
		.st_dev = in->sv->id,
		.st_ino = ino_is_standin(in->ino) ? OBJ_EMPTY_SUBVOL_DIR : in->ino,
		.st_mode = in->mode,
		.st_nlink = in->nlink,
		.st_uid = in->uid,
		.st_gid = in->gid,
		.st_rdev = S_ISCHR(in->mode) || S_ISBLK(in->mode) ? rdev_from_disk(in->rdev) : 0,
		.st_size = (off_t)in->size,
		.st_blksize = (blksize_t)inode_fs(in)->sectorsize,
		.st_blocks = (blkcnt_t)inode_blocks(in),
		.st_atim = in->atime,
		.st_mtim = in->mtime,
		.st_ctim = in->ctime,
	};
	return 0;
}

static int setattr_allowed(const struct inode *in, const struct attr_change *ch)
{
	int err = inode_want_write(in);

	if (err < 0)
		return err;
	if (in->flags & INODE_IMMUTABLE)
		return -EPERM;
	if (in->flags & INODE_APPEND &&
	    ch->valid & (ATTR_CH_MODE | ATTR_CH_UID | ATTR_CH_GID | ATTR_CH_SIZE))
		return -EPERM;
	if (!(ch->valid & ATTR_CH_SIZE))
		return 0;
	if (S_ISDIR(in->mode))
		return -EISDIR;
	if (!S_ISREG(in->mode))
		return -EINVAL;
	return ch->size > INT64_MAX ? -EFBIG : 0;
}

/* Nanoseconds out of range would make the item unreadable. */
static struct timespec time_clamped(struct timespec ts)
{
	if (ts.tv_nsec < 0 || ts.tv_nsec >= 1000000000)
		ts.tv_nsec = 0;
	return ts;
}

static void apply(struct inode *in, const struct attr_change *ch)
{
	struct timespec now = fs_now();

	if (ch->valid & ATTR_CH_MODE)
		in->mode = (in->mode & S_IFMT) | (ch->mode & 07777);
	if (ch->valid & ATTR_CH_KILL_SUID && !S_ISDIR(in->mode)) {
		in->mode &= ~(uint32_t)S_ISUID;
		if (in->mode & S_IXGRP)
			in->mode &= ~(uint32_t)S_ISGID;
	}
	if (ch->valid & ATTR_CH_UID)
		in->uid = ch->uid;
	if (ch->valid & ATTR_CH_GID)
		in->gid = ch->gid;
	if (ch->valid & ATTR_CH_ATIME)
		in->atime = time_clamped(ch->atime);
	if (ch->valid & ATTR_CH_MTIME)
		in->mtime = time_clamped(ch->mtime);
	inode_changed(in, &now);
	if (ch->valid & ATTR_CH_CTIME)
		in->ctime = time_clamped(ch->ctime);
}

static int setattr_locked(struct inode *in, const struct attr_change *ch)
{
	struct fs *fs = inode_fs(in);
	struct txn_handle tx;
	int err;

	write_guard(&in->lock);
	err = setattr_allowed(in, ch);
	if (err == 0 && ch->valid & ATTR_CH_SIZE)
		err = inode_set_size(in, ch->size);
	if (err < 0)
		return err;
	if (!(ch->valid & ~(unsigned)ATTR_CH_SIZE))
		return 0;	/* inode_set_size() changed the times */
	err = txn_start(fs, &tx, 1, RSV_FREEING);
	if (err < 0)
		return err;
	apply(in, ch);
	err = inode_store(&tx, in);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err;
}

int fs_setattr(struct inode *in, const struct attr_change *ch)
{
	bool tried = false;
	int err;

	do
		err = setattr_locked(in, ch);
	while (fs_try_again(inode_fs(in), err, &tried));
	return err < 0 ? err : inode_sync_if_asked(in);
}

/* --- access times -------------------------------------------------------------------------------- */

static int time_cmp(const struct timespec *a, const struct timespec *b)
{
	if (a->tv_sec != b->tv_sec)
		return a->tv_sec < b->tv_sec ? -1 : 1;
	return a->tv_nsec < b->tv_nsec ? -1 : a->tv_nsec > b->tv_nsec;
}

static bool atime_due(const struct inode *in, const struct timespec *now)
{
	const struct fs_options *opt = &inode_fs(in)->opt;

	if (opt->atime == ATIME_NONE || (opt->nodiratime && S_ISDIR(in->mode)) ||
	    in->flags & INODE_NOATIME || inode_want_write(in) < 0)
		return false;
	if (opt->atime == ATIME_STRICT)
		return time_cmp(&in->atime, now) != 0;
	return time_cmp(&in->atime, &in->mtime) <= 0 || time_cmp(&in->atime, &in->ctime) <= 0 ||
	       now->tv_sec - in->atime.tv_sec >= ATIME_STALE_S;
}

static void store_atime(struct inode *in, const struct timespec *now)
{
	struct timespec before = in->atime;
	struct txn_handle tx;
	int err;

	in->atime = *now;
	if (inode_fs(in)->opt.lazytime && now->tv_sec - before.tv_sec < ATIME_STALE_S) {
		inode_set_lazy(in);
		return;
	}
	err = txn_start(inode_fs(in), &tx, 1, RSV_NORMAL);
	if (err < 0) {
		in->atime = before;
		return;
	}
	err = inode_store(&tx, in);
	if (err < 0)
		txn_abort(inode_fs(in), err);
	txn_end(inode_fs(in), &tx);
}

void fs_touch_atime(struct inode *in)
{
	struct timespec now = fs_now();
	bool due;

	rwlock_rdlock(&in->lock);
	due = atime_due(in, &now);
	rwlock_rdunlock(&in->lock);
	if (!due)
		return;
	rwlock_wrlock(&in->lock);
	if (in->nlink != 0 && atime_due(in, &now))
		store_atime(in, &now);
	rwlock_wrunlock(&in->lock);
	if (inode_lazy_count(inode_fs(in)) > LAZY_INODES_MAX)
		(void)inode_flush_lazy(inode_fs(in));
}
