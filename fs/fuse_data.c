/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_data.c - opening, reading and writing files.
 *
 * Opens. An open is answered ENOSYS, after which the kernel opens and closes files without asking:
 * nothing is kept for an open file, and O_TRUNC comes as a SETATTR. Only where some subvolume is
 * read-only (f->keep_opens) opens stay requests, since then some must be refused. CREATE is always
 * sent.
 *
 * Full filesystems. The kernel takes writes into its cache and writes them back later, so that
 * ENOSPC would come from close or fsync. When space is scarce a new file is therefore created with
 * direct I/O: its writes come here at once, and write(2) says ENOSPC. What the cache had taken
 * nevertheless and could not be stored is dropped from it (late_evict), so that the file shows what
 * it really holds.
 *
 * Times. The kernel keeps mtime and ctime of files and sends them by SETATTR where they differ from
 * what it knows; so a WRITE does not set them. Only for the files of the last paragraph it keeps
 * none: there a WRITE sets them, and the kernel is made to ask again.
 *
 * Set-id bits and file capabilities. A write that passes by the kernel's cache says whether set-id
 * bits must go, but the kernel does not look whether they went: it is told (late_refresh). Before
 * cached writes it sees to both by a SETATTR and a REMOVEXATTR.
 */
#include <errno.h>
#include <fcntl.h>

#include "fs/fuse_late.h"
#include "fs/fuse_proto.h"
#include "io/util.h"

#define READ_MAX_BYTES (1u << 20)
#define FH_DIRECT 1u			/* handle of a file created with direct I/O; all others have 0 */
#define DIRECT_EVICT_MS 20u		/* pause in writing after which the kernel is shown the times */

static int check_open(struct inode *in, int flags)
{
	if ((flags & O_ACCMODE) == O_RDONLY && !(flags & O_TRUNC))
		return 0;
	if (in->sv->rdonly || fs_want_write(in->sv->fs) < 0)
		return -EROFS;
	if (in->flags & INODE_IMMUTABLE)
		return -EPERM;
	if (in->flags & INODE_APPEND && (flags & O_TRUNC || !(flags & O_APPEND)))
		return -EPERM;
	return 0;
}

void front_open(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *in = NULL;
	int err;

	if (!f->keep_opens) {
		fuse_reply_err(req, ENOSYS);
		return;
	}
	err = front_inode(f, nodeid, &in);
	if (err == 0)
		err = check_open(in, fi->flags);
	if (err < 0) {
		front_reply_err(req, err);
		return;
	}
	fi->keep_cache = 1;
	fuse_reply_open(req, fi);
}

/* The name is there although the kernel thought it was not. */
static int open_existing(struct inode *dir, const char *name, int flags, struct inode **ret_inode)
{
	static const struct attr_change to_nothing = {.valid = ATTR_CH_SIZE};
	scoped(inode_putp) struct inode *in = NULL;
	int err = flags & O_EXCL ? -EEXIST : fs_lookup(dir, name, &in);

	if (err == 0)
		err = check_open(in, flags);
	if (err == 0 && !S_ISREG(in->mode))
		err = -EEXIST;
	if (err == 0 && flags & O_TRUNC)
		err = fs_setattr(in, &to_nothing);
	if (err < 0)
		return err;
	*ret_inode = take(in);
	return 0;
}

void front_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		  struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *dir = NULL, *in = NULL;
	struct fuse_entry_param e;
	int err = front_inode(f, parent, &dir);

	if (err == 0)
		err = fs_mknod(dir, name, (mode & ~(mode_t)S_IFMT) | S_IFREG, 0, front_cred(req), &in);
	if (err == -EEXIST)
		err = open_existing(dir, name, fi->flags, &in);
	if (err == 0)
		err = front_fill_entry(f, in, &e);
	if (err == 0)
		err = lookup_add(f->lookups, e.ino);
	if (err < 0) {
		front_reply_err(req, err);
		return;
	}
	fi->keep_cache = 1;
	fi->direct_io = fs_nearly_full(f->fs);
	fi->fh = fi->direct_io ? FH_DIRECT : 0;
	if (fuse_reply_create(req, &e, fi) < 0)
		front_forget(f, e.ino, 1);
}

void front_read(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t off,
		struct fuse_file_info *fi)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = front_inode(front_of(req), nodeid, &in);
	void *buf;
	ssize_t n;

	(void)fi;
	size = min_size(size, READ_MAX_BYTES);
	buf = front_buffer(size);
	if (err == 0 && buf == NULL)
		err = -ENOMEM;
	n = err < 0 ? err : fs_read(in, (uint64_t)off, buf, size);
	if (n < 0) {
		front_reply_err(req, (int)n);
		return;
	}
	fs_touch_atime(in);
	fuse_reply_buf(req, buf, (size_t)n);
}

/* What a write by somebody without privileges takes from the file, if the kernel left that to us. */
static int drop_privileges(struct front *f, fuse_ino_t nodeid, struct inode *in)
{
	static const struct attr_change kill = {.valid = ATTR_CH_KILL_SUID};
	int err = front_kill_caps(in);
	bool has_bits;

	if (err < 0 || !proto_kill_suidgid())
		return err;
	rwlock_rdlock(&in->lock);
	has_bits = in->mode & (S_ISUID | S_ISGID);
	rwlock_rdunlock(&in->lock);
	if (!has_bits)
		return 0;
	err = fs_setattr(in, &kill);
	if (err == 0)
		late_refresh(f->late, nodeid);
	return err;
}

void front_write(fuse_req_t req, fuse_ino_t nodeid, const char *buf, size_t size, off_t off,
		 struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *in = NULL;
	bool cached = fi->writepage, direct = fi->fh == FH_DIRECT && !cached;
	size_t done = 0;
	int err = front_inode(f, nodeid, &in);

	if (err == 0 && !cached)
		err = drop_privileges(f, nodeid, in);
	while (err == 0 && done < size) {
		uint64_t at = (uint64_t)off + done;
		ssize_t n = direct ? fs_write(in, at, buf + done, size - done) :
				     fs_write_late(in, at, buf + done, size - done);

		if (n <= 0)
			err = n < 0 ? (int)n : -EIO;
		else
			done += (size_t)n;
	}
	if (err < 0 && cached)
		late_evict(f->late, nodeid, 0);
	else if (direct)
		late_evict(f->late, nodeid, DIRECT_EVICT_MS);
	if (err < 0 && (done == 0 || cached))
		front_reply_err(req, err);
	else
		fuse_reply_write(req, done);
}

void front_fsync(fuse_req_t req, fuse_ino_t nodeid, int datasync, struct fuse_file_info *fi)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = front_inode(front_of(req), nodeid, &in);

	(void)fi;
	if (err == 0)
		err = fs_fsync(in, datasync != 0);
	front_reply_err(req, err);
}

void front_lseek(fuse_req_t req, fuse_ino_t nodeid, off_t off, int whence,
		 struct fuse_file_info *fi)
{
	int err = -EINVAL;

	(void)fi;
	if (whence == SEEK_DATA || whence == SEEK_HOLE)
		err = late_seek(front_of(req)->late, req, nodeid, off, whence);
	if (err < 0)
		front_reply_err(req, err);
}
