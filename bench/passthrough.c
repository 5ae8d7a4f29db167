/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/passthrough.c - a FUSE filesystem that shows a folder: the limit of what FUSE allows.
 *
 *	passthrough SOURCE MOUNTPOINT
 *
 * Runs in the foreground until it is unmounted. It asks for all that makes FUSE fast (writeback
 * cache, day-long timeouts, readdirplus, cached listings, cloned descriptors), so that what a
 * workload takes here is the price of its requests and of the filesystem below.
 *
 *   P1  An inode is known by its file handle (name_to_handle_at); no descriptor is held for it, and
 *       a hash table finds it, so that the cost of a request does not grow with their number.
 *   P2  The node id is the inode's address; it lives until its lookup count is zero.
 *   P3  A handle of a removed file opens nothing any more. While the file is open, the descriptor of
 *       its last open, remembered in the inode, stands in; after that, setting its times (which the
 *       writeback cache does late) succeeds and does nothing.
 *
 * Locks: one mutex around the table and the lookup counts. A few O_PATH descriptors of folders are
 * kept for each thread (struct dir_cache), named by a serial number that is never used again.
 *
 * Not here: xattrs, since none of the workloads sets any (the answer to all is ENOSYS, which the
 * kernel remembers), locks, ioctls, fallocate. Root only: open_by_handle_at asks for it.
 */
#define FUSE_USE_VERSION 312
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HANDLE_BYTES	24u		/* ext4, btrfs and tmpfs need at most 20 */
#define TABLE_START	(1u << 16)
#define DIR_CACHE	16u
#define TIMEOUT		86400.0

struct inode {
	struct inode *next;		/* in its chain of the table */
	uint64_t lookups;
	uint64_t serial;
	uint64_t ino;
	mode_t type;
	int open_fd;			/* of the last open, owned by that open; -1 when it was closed */
	struct {
		struct file_handle head;
		unsigned char bytes[HANDLE_BYTES];
	} handle;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct inode **table;
static size_t table_size, table_used;
static uint64_t next_serial;
static struct inode *root;
static int mount_fd;

/* ---- inodes ---- */

static void table_grow(void)
{
	size_t size = table_size != 0 ? table_size * 2 : TABLE_START;
	struct inode **grown = calloc(size, sizeof(*grown));

	if (grown == NULL)
		abort();
	for (size_t i = 0; i < table_size; i++) {
		while (table[i] != NULL) {
			struct inode *inode = table[i];

			table[i] = inode->next;
			inode->next = grown[inode->ino & (size - 1)];
			grown[inode->ino & (size - 1)] = inode;
		}
	}
	free(table);
	table = grown;
	table_size = size;
}

static int same_handle(const struct file_handle *a, const struct file_handle *b)
{
	return a->handle_bytes == b->handle_bytes && a->handle_type == b->handle_type &&
	       memcmp(a->f_handle, b->f_handle, a->handle_bytes) == 0;
}

/* Find or make the inode of a name in dirfd ("" means dirfd itself) and count a lookup of it. */
static int inode_get(int dirfd, const char *name, const struct stat *st, struct inode **ret_inode)
{
	uint64_t ino = st->st_ino;
	struct inode *inode, *fresh = calloc(1, sizeof(*fresh));
	int mount_id;

	if (fresh == NULL)
		return ENOMEM;
	fresh->handle.head.handle_bytes = HANDLE_BYTES;
	if (name_to_handle_at(dirfd, name, &fresh->handle.head, &mount_id,
			      name[0] == '\0' ? AT_EMPTY_PATH : 0) != 0) {
		free(fresh);
		return errno;
	}
	fresh->ino = ino;
	fresh->type = st->st_mode & S_IFMT;
	fresh->lookups = 1;
	fresh->open_fd = -1;

	pthread_mutex_lock(&table_lock);
	for (inode = table[ino & (table_size - 1)]; inode != NULL; inode = inode->next) {
		if (inode->ino == ino && same_handle(&inode->handle.head, &fresh->handle.head))
			break;
	}
	if (inode != NULL) {
		inode->lookups++;
		free(fresh);
	} else {
		inode = fresh;
		inode->serial = ++next_serial;
		inode->next = table[ino & (table_size - 1)];
		table[ino & (table_size - 1)] = inode;
		if (++table_used > table_size)
			table_grow();
	}
	pthread_mutex_unlock(&table_lock);
	*ret_inode = inode;
	return 0;
}

static void inode_forget(struct inode *inode, uint64_t count)
{
	pthread_mutex_lock(&table_lock);
	assert(inode->lookups >= count);
	inode->lookups -= count;
	if (inode->lookups == 0) {
		struct inode **at = &table[inode->ino & (table_size - 1)];

		while (*at != inode)
			at = &(*at)->next;
		*at = inode->next;
		table_used--;
		free(inode);
	}
	pthread_mutex_unlock(&table_lock);
}

static struct inode *inode_of(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? root : (struct inode *)(uintptr_t)ino;
}

/* A new descriptor of the inode; -1 and errno when there is none. */
static int inode_open(struct inode *inode, int flags)
{
	int fd = open_by_handle_at(mount_fd, &inode->handle.head, flags | O_CLOEXEC);

	if (fd < 0 && errno == ESTALE) {
		pthread_mutex_lock(&table_lock);
		fd = inode->open_fd < 0 ? -1 : dup(inode->open_fd);
		pthread_mutex_unlock(&table_lock);
		errno = ESTALE;
	}
	return fd;
}

/* Remember fd as the inode's, or forget it when it is about to be closed. */
static void inode_opened(struct inode *inode, int fd)
{
	pthread_mutex_lock(&table_lock);
	inode->open_fd = fd;
	pthread_mutex_unlock(&table_lock);
}

static void inode_closing(struct inode *inode, int fd)
{
	pthread_mutex_lock(&table_lock);
	if (inode->open_fd == fd)
		inode->open_fd = -1;
	pthread_mutex_unlock(&table_lock);
}

/* A folder's O_PATH descriptor, which the thread's cache keeps and will close. -1 and errno else. */
static int dir_fd(fuse_ino_t ino)
{
	static _Thread_local struct {
		uint64_t serial;
		int fd;
	} cache[DIR_CACHE];
	struct inode *inode = inode_of(ino);
	size_t slot = inode->serial % DIR_CACHE;

	if (cache[slot].serial != inode->serial) {
		int fd = inode_open(inode, O_PATH | O_DIRECTORY);

		if (fd < 0)
			return -1;
		if (cache[slot].serial != 0)
			close(cache[slot].fd);
		cache[slot].fd = fd;
		cache[slot].serial = inode->serial;
	}
	return cache[slot].fd;
}

static int fill_entry(int dirfd, const char *name, struct fuse_entry_param *e)
{
	struct inode *inode;
	int err;

	memset(e, 0, sizeof(*e));
	e->attr_timeout = TIMEOUT;
	e->entry_timeout = TIMEOUT;
	if (fstatat(dirfd, name, &e->attr, AT_SYMLINK_NOFOLLOW) != 0)
		return errno;
	err = inode_get(dirfd, name, &e->attr, &inode);
	if (err == 0)
		e->ino = (fuse_ino_t)(uintptr_t)inode;
	return err;
}

/* ---- requests ---- */

static void op_init(void *data, struct fuse_conn_info *conn)
{
	(void)data;
	conn->want |= conn->capable & (FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_CACHE_SYMLINKS |
				       FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |
				       FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_NO_OPENDIR_SUPPORT);
	conn->max_write = 1u << 20;
	conn->max_background = 64;
	conn->congestion_threshold = 48;
}

static void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e;
	int fd = dir_fd(parent);
	int err = fd < 0 ? errno : fill_entry(fd, name, &e);

	if (err == ENOENT) {		/* a negative entry for the kernel to remember */
		memset(&e, 0, sizeof(e));
		e.entry_timeout = TIMEOUT;
		err = 0;
	}
	if (err != 0)
		fuse_reply_err(req, err);
	else
		fuse_reply_entry(req, &e);
}

static void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	inode_forget(inode_of(ino), count);
	fuse_reply_none(req);
}

static void op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *list)
{
	for (size_t i = 0; i < count; i++)
		inode_forget(inode_of(list[i].ino), list[i].nlookup);
	fuse_reply_none(req);
}

static void reply_stat(fuse_req_t req, int fd)
{
	struct stat st;

	if (fstatat(fd, "", &st, AT_EMPTY_PATH) != 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_attr(req, &st, TIMEOUT);
}

static void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int fd = fi != NULL ? (int)fi->fh : inode_open(inode_of(ino), O_PATH);

	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	reply_stat(req, fd);
	if (fi == NULL)
		close(fd);
}

static struct timespec set_time(struct timespec at, int to_set, int set, int now)
{
	if (to_set & now)
		return (struct timespec){ .tv_nsec = UTIME_NOW };
	if (to_set & set)
		return at;
	return (struct timespec){ .tv_nsec = UTIME_OMIT };
}

static int apply_attr(const char *path, struct stat *attr, int to_set)
{
	if ((to_set & FUSE_SET_ATTR_MODE) && chmod(path, attr->st_mode) != 0)
		return errno;
	if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
		uid_t uid = (to_set & FUSE_SET_ATTR_UID) ? attr->st_uid : (uid_t)-1;
		gid_t gid = (to_set & FUSE_SET_ATTR_GID) ? attr->st_gid : (gid_t)-1;

		if (chown(path, uid, gid) != 0)
			return errno;
	}
	if ((to_set & FUSE_SET_ATTR_SIZE) && truncate(path, attr->st_size) != 0)
		return errno;
	if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
		struct timespec times[2] = {
			set_time(attr->st_atim, to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW),
			set_time(attr->st_mtim, to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW),
		};

		if (utimensat(AT_FDCWD, path, times, 0) != 0)
			return errno;
	}
	return 0;
}

/* For a symbolic link, which only the *at() calls with an empty path reach. */
static int apply_link_attr(int fd, struct stat *attr, int to_set)
{
	if (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) {
		uid_t uid = (to_set & FUSE_SET_ATTR_UID) ? attr->st_uid : (uid_t)-1;
		gid_t gid = (to_set & FUSE_SET_ATTR_GID) ? attr->st_gid : (gid_t)-1;

		if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH) != 0)
			return errno;
	}
	if (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) {
		struct timespec times[2] = {
			set_time(attr->st_atim, to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW),
			set_time(attr->st_mtim, to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW),
		};

		if (utimensat(fd, "", times, AT_EMPTY_PATH) != 0)
			return errno;
	}
	return 0;
}

static void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	int fd = inode_open(inode_of(ino), O_PATH | O_NOFOLLOW);
	char path[40];
	struct stat st;
	int err;

	(void)fi;
	if (fd < 0 && errno == ESTALE) {
		struct stat gone = { .st_ino = ino, .st_mode = inode_of(ino)->type };

		fuse_reply_attr(req, &gone, 0);
		return;
	}
	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISLNK(st.st_mode))
		err = apply_link_attr(fd, attr, to_set);
	else
		err = apply_attr(path, attr, to_set);
	if (err != 0)
		fuse_reply_err(req, err);
	else
		reply_stat(req, fd);
	close(fd);
}

static void op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[4097];
	int fd = inode_open(inode_of(ino), O_PATH | O_NOFOLLOW);
	ssize_t length = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);
	int err = errno;

	if (fd >= 0)
		close(fd);
	if (length < 0) {
		fuse_reply_err(req, err);
		return;
	}
	target[length] = '\0';
	fuse_reply_readlink(req, target);
}

/* New files belong to the caller. The ids are the thread's own: glibc's setfsuid changes no other. */
static void become(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	if (ctx->uid != 0) {
		setfsgid(ctx->gid);
		setfsuid(ctx->uid);
	}
}

static void become_root(fuse_req_t req)
{
	if (fuse_req_ctx(req)->uid != 0) {
		setfsuid(0);
		setfsgid(0);
	}
}

static void reply_new(fuse_req_t req, int dirfd, const char *name, int err)
{
	struct fuse_entry_param e;

	if (err == 0)
		err = fill_entry(dirfd, name, &e);
	if (err != 0)
		fuse_reply_err(req, err);
	else
		fuse_reply_entry(req, &e);
}

static void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	int fd = dir_fd(parent), err;

	become(req);
	err = fd < 0 || mknodat(fd, name, mode, rdev) != 0 ? errno : 0;
	become_root(req);
	reply_new(req, fd, name, err);
}

static void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	int fd = dir_fd(parent), err;

	become(req);
	err = fd < 0 || mkdirat(fd, name, mode) != 0 ? errno : 0;
	become_root(req);
	reply_new(req, fd, name, err);
}

static void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	int fd = dir_fd(parent), err;

	become(req);
	err = fd < 0 || symlinkat(target, fd, name) != 0 ? errno : 0;
	become_root(req);
	reply_new(req, fd, name, err);
}

static void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	int fd = dir_fd(parent), source = inode_open(inode_of(ino), O_PATH | O_NOFOLLOW), err;

	err = fd < 0 || source < 0 || linkat(source, "", fd, name, AT_EMPTY_PATH) != 0 ? errno : 0;
	if (source >= 0)
		close(source);
	reply_new(req, fd, name, err);
}

static void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	int fd = dir_fd(parent);

	fuse_reply_err(req, fd < 0 || unlinkat(fd, name, 0) != 0 ? errno : 0);
}

static void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	int fd = dir_fd(parent);

	fuse_reply_err(req, fd < 0 || unlinkat(fd, name, AT_REMOVEDIR) != 0 ? errno : 0);
}

static void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t newparent,
		      const char *newname, unsigned int flags)
{
	int from = inode_open(inode_of(parent), O_PATH | O_DIRECTORY);
	int to = inode_open(inode_of(newparent), O_PATH | O_DIRECTORY);
	int err = 0;

	if (from < 0 || to < 0 ||
	    syscall(SYS_renameat2, from, name, to, newname, flags) != 0)
		err = errno;
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	fuse_reply_err(req, err);
}

/* With the writeback cache the kernel reads what it writes in part, and appends by itself. */
static int open_flags(int flags)
{
	if ((flags & O_ACCMODE) == O_WRONLY)
		flags = (flags & ~O_ACCMODE) | O_RDWR;
	return flags & ~(O_APPEND | O_NOFOLLOW | O_CREAT | O_EXCL);
}

static void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int fd = inode_open(inode_of(ino), open_flags(fi->flags));

	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	inode_opened(inode_of(ino), fd);
	fi->fh = (uint64_t)fd;
	fi->keep_cache = 1;
	fuse_reply_open(req, fi);
}

static void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct fuse_entry_param e;
	int dirfd = dir_fd(parent), fd = -1, err = 0;

	become(req);
	if (dirfd >= 0)
		fd = openat(dirfd, name, open_flags(fi->flags) | O_CREAT | (fi->flags & O_EXCL) |
			    O_CLOEXEC, mode);
	if (fd < 0)
		err = errno;
	become_root(req);
	if (err == 0)
		err = fill_entry(dirfd, name, &e);
	if (err != 0) {
		if (fd >= 0)
			close(fd);
		fuse_reply_err(req, err);
		return;
	}
	inode_opened(inode_of(e.ino), fd);
	fi->fh = (uint64_t)fd;
	fi->keep_cache = 1;
	fuse_reply_create(req, &e, fi);
}

static void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	inode_closing(inode_of(ino), (int)fi->fh);
	close((int)fi->fh);
	fuse_reply_err(req, 0);
}

static void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	fuse_reply_err(req, (datasync ? fdatasync((int)fi->fh) : fsync((int)fi->fh)) != 0 ? errno : 0);
}

static void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct fuse_bufvec buf = FUSE_BUFVEC_INIT(size);

	(void)ino;
	buf.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	buf.buf[0].fd = (int)fi->fh;
	buf.buf[0].pos = off;
	fuse_reply_data(req, &buf, FUSE_BUF_SPLICE_MOVE);
}

static void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t off,
		     struct fuse_file_info *fi)
{
	ssize_t n = pwrite((int)fi->fh, data, size, off);

	(void)ino;
	if (n < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_write(req, (size_t)n);
}

static void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	int fd = inode_open(inode_of(ino), O_RDONLY | O_DIRECTORY);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir == NULL) {
		fuse_reply_err(req, errno);
		return;
	}
	fi->fh = (uint64_t)(uintptr_t)dir;
	fi->cache_readdir = 1;
	fi->keep_cache = 1;
	fuse_reply_open(req, fi);
}

static void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	closedir((DIR *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

static void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void)ino;
	(void)datasync;
	fuse_reply_err(req, fsync(dirfd((DIR *)(uintptr_t)fi->fh)) != 0 ? errno : 0);
}

/* One entry; its size, or more than room when it does not fit. */
static size_t add_dirent(fuse_req_t req, int fd, const struct dirent *d, char *at, size_t room, int plus)
{
	int dots = strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0;
	struct fuse_entry_param e = {
		.attr = { .st_ino = d->d_ino, .st_mode = (mode_t)d->d_type << 12 },
	};
	size_t size;

	if (!plus)
		return fuse_add_direntry(req, at, room, d->d_name, &e.attr, d->d_off);
	if (!dots && fill_entry(fd, d->d_name, &e) != 0)
		return 0;			/* gone meanwhile */
	size = fuse_add_direntry_plus(req, at, room, d->d_name, &e, d->d_off);
	if (size > room && !dots)
		inode_forget(inode_of(e.ino), 1);
	return size;
}

static void reply_listing(fuse_req_t req, size_t size, off_t off, struct fuse_file_info *fi, int plus)
{
	DIR *dir = (DIR *)(uintptr_t)fi->fh;
	char *buf = malloc(size);
	size_t used = 0;
	struct dirent *d;

	if (buf == NULL) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	if (telldir(dir) != off)
		seekdir(dir, off);
	while ((d = readdir(dir)) != NULL) {
		size_t n = add_dirent(req, dirfd(dir), d, buf + used, size - used, plus);

		if (n > size - used)
			break;
		used += n;
		off = d->d_off;
	}
	if (d != NULL)
		seekdir(dir, off);
	fuse_reply_buf(req, buf, used);
	free(buf);
}

static void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	(void)ino;
	reply_listing(req, size, off, fi, 0);
}

static void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
			   struct fuse_file_info *fi)
{
	(void)ino;
	reply_listing(req, size, off, fi, 1);
}

static void op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st;

	(void)ino;
	if (fstatvfs(mount_fd, &st) != 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_statfs(req, &st);
}

static const struct fuse_lowlevel_ops ops = {
	.init = op_init, .lookup = op_lookup, .forget = op_forget, .forget_multi = op_forget_multi,
	.getattr = op_getattr, .setattr = op_setattr, .readlink = op_readlink, .mknod = op_mknod,
	.mkdir = op_mkdir, .symlink = op_symlink, .link = op_link, .unlink = op_unlink,
	.rmdir = op_rmdir, .rename = op_rename, .open = op_open, .create = op_create,
	.release = op_release, .fsync = op_fsync, .read = op_read, .write = op_write,
	.opendir = op_opendir, .releasedir = op_releasedir, .fsyncdir = op_fsyncdir,
	.readdir = op_readdir, .readdirplus = op_readdirplus, .statfs = op_statfs,
};

static int open_source(const char *path)
{
	struct stat st;

	mount_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount_fd < 0 || fstat(mount_fd, &st) != 0) {
		perror(path);
		return -1;
	}
	table_grow();
	if (inode_get(mount_fd, "", &st, &root) != 0) {
		fprintf(stderr, "%s: no file handles\n", path);
		return -1;
	}
	return 0;
}

static int serve(struct fuse_args *args, const char *mountpoint)
{
	struct fuse_session *se = fuse_session_new(args, &ops, sizeof(ops), NULL);
	struct fuse_loop_config *config = fuse_loop_cfg_create();
	int err = 1;

	if (se != NULL && config != NULL && fuse_set_signal_handlers(se) == 0) {
		if (fuse_session_mount(se, mountpoint) == 0) {
			fuse_loop_cfg_set_clone_fd(config, 1);
			fuse_loop_cfg_set_max_threads(config, 10);
			err = fuse_session_loop_mt(se, config) != 0;
			fuse_session_unmount(se);
		}
		fuse_remove_signal_handlers(se);
	}
	if (se != NULL)
		fuse_session_destroy(se);
	fuse_loop_cfg_destroy(config);
	return err;
}

int main(int argc, char **argv)
{
	char *words[] = { argv[0], (char *)"-o", (char *)"allow_other,default_permissions,suid,dev,fsname=passthrough" };
	struct fuse_args args = FUSE_ARGS_INIT(3, words);
	struct rlimit files;

	if (argc != 3) {
		fprintf(stderr, "usage: passthrough SOURCE MOUNTPOINT\n");
		return 2;
	}
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	umask(0);
	if (open_source(argv[1]) != 0)
		return 1;
	return serve(&args, argv[2]);
}
