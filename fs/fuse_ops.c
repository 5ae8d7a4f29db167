/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_ops.c - the table of handlers, and those for names, attributes and the whole.
 *
 * Every handler has the same shape: node ids to inodes, one call of fs/ops.h, one reply. Data are in
 * fuse_data.c, directory listings in fuse_dir.c, extended attributes in fuse_xattr.c.
 *
 * Not implemented, so that the kernel falls back or refuses: fallocate (EOPNOTSUPP), copy_file_range
 * (copied by the kernel), tmpfile (EOPNOTSUPP), locks (kept by the kernel, right for one host).
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>

#include "fs/fuse_late.h"
#include "fs/fuse_proto.h"
#include "io/log.h"
#include "io/util.h"

#define MAX_BACKGROUND 64u

/* ---- inodes and replies ----------------------------------------------------------------------- */

void front_reply_err(fuse_req_t req, int err)
{
	fuse_reply_err(req, err < 0 ? -err : 0);
}

int front_inode(struct front *f, fuse_ino_t nodeid, struct inode **ret_inode)
{
	struct ino_id id;
	int err = identity_unfold(f->mounted, nodeid, &id);

	if (err == 0)
		err = inode_get(f->fs, id.subvol, id.ino, ret_inode);
	return err == -ENOENT ? -ESTALE : err;
}

int front_getattr(struct front *f, struct inode *in, struct stat *ret_st)
{
	struct stat st;
	uint64_t number;
	int err = identity_fold(f->mounted, (struct ino_id){in->sv->id, in->ino}, &number);

	if (err == 0)
		err = fs_getattr(in, &st);
	if (err < 0)
		return err;
	st.st_ino = number;
	st.st_dev = 0;
	*ret_st = st;
	return 0;
}

int front_fill_entry(struct front *f, struct inode *in, struct fuse_entry_param *ret_entry)
{
	struct fuse_entry_param e = {
		.generation = in->generation,
		.attr_timeout = CACHE_TIMEOUT_S,
		.entry_timeout = CACHE_TIMEOUT_S,
	};
	uint64_t nodeid;
	int err = identity_nodeid(f->mounted, (struct ino_id){in->sv->id, in->ino}, &nodeid);

	if (err == 0)
		err = front_getattr(f, in, &e.attr);
	if (err < 0)
		return err;
	e.ino = nodeid;
	*ret_entry = e;
	return 0;
}

void front_reply_entry(fuse_req_t req, struct inode *in)
{
	struct front *f = front_of(req);
	struct fuse_entry_param e;
	int err = front_fill_entry(f, in, &e);

	if (err == 0)
		err = lookup_add(f->lookups, e.ino);
	if (err < 0)
		front_reply_err(req, err);
	else if (fuse_reply_entry(req, &e) < 0)
		front_forget(f, e.ino, 1);
}

void front_forget(struct front *f, fuse_ino_t nodeid, uint64_t count)
{
	struct ino_id id;
	int err;

	if (lookup_drop(f->lookups, nodeid, count) > 0)
		return;
	late_forgotten(f->late, nodeid);
	if (identity_unfold(f->mounted, nodeid, &id) < 0)
		return;
	err = fs_forget(f->fs, id);
	if (err < 0 && err != -EROFS)
		log_warn("inode %llu of subvolume %llu, which has no name, stays until the next mount: %s",
			 (unsigned long long)id.ino, (unsigned long long)id.subvol, strerror(-err));
}

int front_close(struct front *f)
{
	if (!atomic_exchange(&f->closing, true)) {
		int err;

		front_quiesce(f);
		err = fs_close(f->fs);
		f->fs = NULL;
		if (err < 0)
			log_error("the last changes could not be written: %s", strerror(-err));
		atomic_store(&f->close_error, err);
		atomic_store(&f->closed, true);
	}
	return atomic_load(&f->close_error);
}

/* ---- the connection --------------------------------------------------------------------------- */

static void front_init(void *userdata, struct fuse_conn_info *conn)
{
	struct front *f = userdata;
	unsigned want = FUSE_CAP_ASYNC_READ | FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_IOCTL_DIR |
		FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_ASYNC_DIO |
		FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_CACHE_SYMLINKS |
		FUSE_CAP_NO_OPEN_SUPPORT | FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_EXPLICIT_INVAL_DATA;

	/* Not wanted: ATOMIC_O_TRUNC (opens are not seen), AUTO_INVAL_DATA (nobody else writes). */
	conn->want = conn->capable & want;
	proto_init(conn);
	conn->max_write = MAX_WRITE_BYTES;
	conn->max_background = MAX_BACKGROUND;
	conn->congestion_threshold = MAX_BACKGROUND * 3 / 4;
	conn->time_gran = 1;
	if (eventfd_write(f->ready_fd, 1) < 0)
		log_warn("cannot report the mount as ready: %s", strerror(errno));
}

/* Comes before umount(8) returns where the kernel sends it (fuseblk), else from the session's end. */
static void front_destroy(void *userdata)
{
	(void)front_close(userdata);
}

static void front_statfs(fuse_req_t req, fuse_ino_t nodeid)
{
	struct front *f = front_of(req);
	struct statvfs st = {0};
	int err = fs_statfs(f->fs, &st);

	(void)nodeid;
	if (err < 0)
		front_reply_err(req, err);
	else
		fuse_reply_statfs(req, &st);
}

/* ---- names ------------------------------------------------------------------------------------ */

static void front_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *dir = NULL, *in = NULL;
	int err = front_inode(f, parent, &dir);

	/* "." of anything, also of a file, is how the kernel turns a handle into an inode. */
	if (err == 0 && strcmp(name, ".") == 0)
		in = inode_ref(dir);
	else if (err == 0)
		err = fs_lookup(dir, name, &in);
	if (err == -ENOENT) {
		struct fuse_entry_param none = {.entry_timeout = CACHE_TIMEOUT_S};

		fuse_reply_entry(req, &none);
	} else if (err < 0) {
		front_reply_err(req, err);
	} else {
		front_reply_entry(req, in);
	}
}

static void front_forget_one(fuse_req_t req, fuse_ino_t nodeid, uint64_t count)
{
	front_forget(front_of(req), nodeid, count);
	fuse_reply_none(req);
}

static void front_forget_many(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		front_forget(front_of(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

static void make_node(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *dir = NULL, *in = NULL;
	int err = front_inode(f, parent, &dir);

	if (err == 0)
		err = fs_mknod(dir, name, mode, rdev, front_cred(req), &in);
	if (err < 0)
		front_reply_err(req, err);
	else
		front_reply_entry(req, in);
}

static void front_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
			dev_t rdev)
{
	make_node(req, parent, name, mode, rdev);
}

static void front_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	make_node(req, parent, name, (mode & ~(mode_t)S_IFMT) | S_IFDIR, 0);
}

static void front_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *dir = NULL, *in = NULL;
	int err = front_inode(f, parent, &dir);

	if (err == 0)
		err = fs_symlink(dir, name, target, front_cred(req), &in);
	if (err < 0)
		front_reply_err(req, err);
	else
		front_reply_entry(req, in);
}

static void front_link(fuse_req_t req, fuse_ino_t nodeid, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *in = NULL, *dir = NULL;
	int err = front_inode(f, nodeid, &in);

	if (err == 0)
		err = front_inode(f, parent, &dir);
	if (err == 0)
		err = fs_link(in, dir, name);
	if (err < 0)
		front_reply_err(req, err);
	else
		front_reply_entry(req, in);
}

static void front_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *dir = NULL;
	int err = front_inode(f, parent, &dir);

	if (err == 0)
		err = fs_unlink(dir, name);
	front_reply_err(req, err);
}

static void front_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *dir = NULL;
	int err = front_inode(f, parent, &dir);

	if (err == 0)
		err = fs_rmdir(dir, name);
	front_reply_err(req, err);
}

static void front_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
			 const char *newname, unsigned flags)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *from = NULL, *to = NULL;
	int err = front_inode(f, parent, &from);

	if (err == 0)
		err = front_inode(f, newparent, &to);
	if (err == 0)
		err = fs_rename(from, name, to, newname, flags);
	front_reply_err(req, err);
}

static void front_readlink(fuse_req_t req, fuse_ino_t nodeid)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *in = NULL;
	char target[PATH_MAX];
	int err = front_inode(f, nodeid, &in);

	if (err == 0)
		err = fs_readlink(in, target, sizeof(target));
	if (err < 0) {
		front_reply_err(req, err);
		return;
	}
	fs_touch_atime(in);
	fuse_reply_readlink(req, target);
}

/* ---- attributes ------------------------------------------------------------------------------- */

static void front_getattr_op(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *in = NULL;
	struct stat st;
	int err = front_inode(f, nodeid, &in);

	(void)fi;
	if (err == 0)
		err = front_getattr(f, in, &st);
	if (err < 0)
		front_reply_err(req, err);
	else
		fuse_reply_attr(req, &st, CACHE_TIMEOUT_S);
}

/* What SETATTR asks for, in the engine's words. */
static struct attr_change change_of(const struct stat *st, int to_set)
{
	static const struct { int fuse; unsigned change; } bits[] = {
		{FUSE_SET_ATTR_MODE, ATTR_CH_MODE},
		{FUSE_SET_ATTR_UID, ATTR_CH_UID},
		{FUSE_SET_ATTR_GID, ATTR_CH_GID},
		{FUSE_SET_ATTR_SIZE, ATTR_CH_SIZE},
		{FUSE_SET_ATTR_ATIME, ATTR_CH_ATIME},
		{FUSE_SET_ATTR_ATIME_NOW, ATTR_CH_ATIME},
		{FUSE_SET_ATTR_MTIME, ATTR_CH_MTIME},
		{FUSE_SET_ATTR_MTIME_NOW, ATTR_CH_MTIME},
		{FUSE_SET_ATTR_CTIME, ATTR_CH_CTIME},
	};
	struct attr_change ch = {
		.mode = st->st_mode,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = (uint64_t)st->st_size,
		.atime = to_set & FUSE_SET_ATTR_ATIME_NOW ? fs_now() : st->st_atim,
		.mtime = to_set & FUSE_SET_ATTR_MTIME_NOW ? fs_now() : st->st_mtim,
		.ctime = st->st_ctim,
	};

	for (size_t i = 0; i < ARRAY_COUNT(bits); i++) {
		if (to_set & bits[i].fuse)
			ch.valid |= bits[i].change;
	}
	return ch;
}

static void front_setattr(fuse_req_t req, fuse_ino_t nodeid, struct stat *attr, int to_set,
			  struct fuse_file_info *fi)
{
	struct front *f = front_of(req);
	scoped(inode_putp) struct inode *in = NULL;
	struct attr_change ch = change_of(attr, to_set);
	struct stat st;
	int err = front_inode(f, nodeid, &in);

	(void)fi;
	/* With HANDLE_KILLPRIV_V2 a change of nothing at all is how the kernel begins a write. */
	if (proto_kill_suidgid() || (ch.valid == 0 && proto_kill_caps()))
		ch.valid |= ATTR_CH_KILL_SUID;
	if (err == 0 && attr->st_size < 0 && to_set & FUSE_SET_ATTR_SIZE)
		err = -EFBIG;
	if (err == 0 && ch.valid & (ATTR_CH_UID | ATTR_CH_GID | ATTR_CH_SIZE))
		err = front_kill_caps(in);
	if (err == 0)
		err = fs_setattr(in, &ch);
	if (err == 0)
		err = front_getattr(f, in, &st);
	if (err < 0)
		front_reply_err(req, err);
	else
		fuse_reply_attr(req, &st, CACHE_TIMEOUT_S);
}

static void front_ioctl(fuse_req_t req, fuse_ino_t nodeid, unsigned cmd, void *arg,
			struct fuse_file_info *fi, unsigned flags, const void *in_buf,
			size_t in_bytes, size_t out_bytes)
{
	(void)nodeid, (void)cmd, (void)arg, (void)fi, (void)flags;
	(void)in_buf, (void)in_bytes, (void)out_bytes;
	fuse_reply_err(req, ENOTTY);
}

const struct fuse_lowlevel_ops front_ops = {
	.init = front_init,
	.destroy = front_destroy,
	.lookup = front_lookup,
	.forget = front_forget_one,
	.forget_multi = front_forget_many,
	.getattr = front_getattr_op,
	.setattr = front_setattr,
	.readlink = front_readlink,
	.mknod = front_mknod,
	.mkdir = front_mkdir,
	.unlink = front_unlink,
	.rmdir = front_rmdir,
	.symlink = front_symlink,
	.rename = front_rename,
	.link = front_link,
	.open = front_open,
	.create = front_create,
	.read = front_read,
	.write = front_write,
	.fsync = front_fsync,
	.lseek = front_lseek,
	.opendir = front_opendir,
	.readdir = front_readdir,
	.readdirplus = front_readdirplus,
	.fsyncdir = front_fsyncdir,
	.statfs = front_statfs,
	.setxattr = front_setxattr,
	.getxattr = front_getxattr,
	.listxattr = front_listxattr,
	.removexattr = front_removexattr,
	.ioctl = front_ioctl,
};
