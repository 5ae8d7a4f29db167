/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device_file.c - image files and block devices (see device.h), and who else uses them.
 *
 * A block device is claimed by O_EXCL, which the kernel shares with its mounts. A file is claimed by
 * flock(), which belongs to the open file and so survives fork(); the kernel's loop driver does not
 * look at it, therefore files attached to a loop device are refused as well. A loop device opened
 * here locks the file behind it in turn.
 */
#include "io/device.h"

#include "io/sysfs.h"
#include "io/util.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define IOV_BATCH 64u			/* parts handed to the kernel at once */

struct device_file {
	struct device dev;
	int fd;
	int backing_fd;			/* file behind a loop device, locked; or -1 */
	bool is_block;
};

static struct device_file *of(struct device *dev)
{
	return container_of(dev, struct device_file, dev);
}

static int file_pread(struct device *dev, uint64_t offset, void *buf, size_t len)
{
	char *at = buf;

	while (len > 0) {
		ssize_t n = pread(of(dev)->fd, at, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;	/* the file was cut behind our back */
		at += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* Takes n written bytes off the front of the parts. */
static void iov_advance(struct iovec *iov, unsigned *first, unsigned count, size_t n)
{
	while (*first < count && n >= iov[*first].iov_len)
		n -= iov[(*first)++].iov_len;
	if (*first < count) {
		iov[*first].iov_base = (char *)iov[*first].iov_base + n;
		iov[*first].iov_len -= n;
	}
}

static int file_pwritev(struct device *dev, uint64_t offset, const struct iovec *iov, unsigned count)
{
	while (count > 0) {
		unsigned batch = min_u32(count, IOV_BATCH), first = 0;
		struct iovec parts[IOV_BATCH];

		memcpy(parts, iov, batch * sizeof(*iov));
		iov_advance(parts, &first, batch, 0);
		while (first < batch) {
			ssize_t n = pwritev(of(dev)->fd, parts + first, (int)(batch - first),
					    (off_t)offset);

			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				return -errno;
			if (n == 0)
				return -EIO;
			offset += (uint64_t)n;
			iov_advance(parts, &first, batch, (size_t)n);
		}
		iov += batch;
		count -= batch;
	}
	return 0;
}

static int file_flush(struct device *dev)
{
	return fdatasync(of(dev)->fd) < 0 ? -errno : 0;
}

static int file_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	if (of(dev)->is_block) {
		uint64_t range[2] = {offset, len};

		return ioctl(of(dev)->fd, BLKDISCARD, range) < 0 ? -errno : 0;
	}
	if (fallocate(of(dev)->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
		      (off_t)len) < 0)
		return -errno;
	return 0;
}

static int file_resize(struct device *dev, uint64_t size_bytes)
{
	if (of(dev)->is_block)
		return -EOPNOTSUPP;
	if (size_bytes > INT64_MAX)
		return -EFBIG;
	return ftruncate(of(dev)->fd, (off_t)size_bytes) < 0 ? -errno : 0;
}

/* The same device is opened again through the descriptor, whatever its name means by now. */
static int file_set_claim(struct device *dev, bool claimed)
{
	int mode = (dev->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	char path[sizeof("/proc/self/fd/") + 3 * sizeof(int)];
	scoped(closep) int fd = -1;

	if (!of(dev)->is_block)
		return -EOPNOTSUPP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", of(dev)->fd);
	fd = open(path, mode | (claimed ? O_EXCL : 0));
	if (fd < 0)
		return -errno;
	return dup3(fd, of(dev)->fd, O_CLOEXEC) < 0 ? -errno : 0;
}

static void file_close(struct device *dev)
{
	struct device_file *f = of(dev);

	closep(&f->fd);
	closep(&f->backing_fd);
	free(f->dev.name);
	free(f);
}

static const struct device_ops file_ops = {
	.pread = file_pread,
	.pwritev = file_pwritev,
	.flush = file_flush,
	.discard = file_discard,
	.resize = file_resize,
	.set_claim = file_set_claim,
	.close = file_close,
};

static void file_closep(struct device_file **f)
{
	if (*f != NULL)
		file_close(&(*f)->dev);
}

/* The file behind the loop device f is locked too: wholly, or, if only a part is used, shared. */
static int claim_backing_file(struct device_file *f, dev_t rdev, struct reason *reason)
{
	struct loop_backing backing;
	scoped(closep) int fd = -1;

	if (sysfs_loop_backing(rdev, &backing) < 0)
		return 0;		/* no loop device, or its file is out of sight */
	fd = open(backing.path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (flock(fd, (backing.whole ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return reason_set(reason, -EBUSY, "%s: %s, the file behind it, is in use by another "
				  "cowfs", f->dev.name, backing.path);
	f->backing_fd = fd;
	fd = -1;
	return 0;
}

static int claim_block_device(struct device_file *f, const struct stat *st, struct reason *reason)
{
	if (ioctl(f->fd, BLKGETSIZE64, &f->dev.size_bytes) < 0)
		return reason_set(reason, -errno, "%s: its size cannot be told: %s", f->dev.name,
				  strerror(errno));
	f->is_block = true;
	f->dev.rotational = sysfs_rotational(st->st_rdev);
	return claim_backing_file(f, st->st_rdev, reason);
}

static int claim_file(struct device_file *f, const struct stat *st, struct reason *reason)
{
	char loop[NAME_MAX + 1];

	if (flock(f->fd, LOCK_EX | LOCK_NB) < 0)
		return reason_set(reason, errno == EWOULDBLOCK ? -EBUSY : -errno, errno == EWOULDBLOCK ?
				  "%s: in use by another cowfs" : "%s: it cannot be locked", f->dev.name);
	if (sysfs_loop_of_file(st, loop, sizeof(loop)))
		return reason_set(reason, -EBUSY, "%s: in use by the loop device %s", f->dev.name,
				  loop);
	f->dev.size_bytes = (uint64_t)st->st_size;
	f->dev.rotational = sysfs_rotational_of_file(st);
	return 0;
}

static int open_failed(const char *path, unsigned flags, int error, struct reason *reason)
{
	if (error == EBUSY)
		return reason_set(reason, -EBUSY, "%s: mounted or in use by another program", path);
	if ((error == EACCES || error == EPERM || error == EROFS) && !(flags & DEVICE_READ_ONLY) &&
	    access(path, R_OK) == 0)
		return reason_set(reason, -error, "%s: no permission to write (read-only may do): %s",
				  path, strerror(error));
	return reason_set(reason, -error, "%s: %s", path, strerror(error));
}

int device_open(const char *path, unsigned flags, struct device **ret_dev, struct reason *reason)
{
	scoped(file_closep) struct device_file *f = calloc(1, sizeof(*f));
	int mode = (flags & DEVICE_READ_ONLY ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct stat st;
	int err;

	if (f == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	f->dev.ops = &file_ops;
	f->dev.read_only = (flags & DEVICE_READ_ONLY) != 0;
	f->fd = -1;
	f->backing_fd = -1;
	f->dev.name = strdup(path);
	if (f->dev.name == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");

	if (stat(path, &st) == 0) {
		if (!S_ISBLK(st.st_mode) && !S_ISREG(st.st_mode))
			return reason_set(reason, -ENOTBLK, S_ISDIR(st.st_mode) ?
					  "%s: a directory, not a block device or regular file" :
					  "%s: not a block device or regular file", path);
		if (S_ISBLK(st.st_mode))
			mode |= O_EXCL;
	} else if (errno == ENOENT && flags & DEVICE_CREATE) {
		mode |= O_CREAT | O_EXCL;
	}
	f->fd = open(path, mode, 0666);
	if (f->fd < 0)
		return open_failed(path, flags, errno, reason);
	if (fstat(f->fd, &st) < 0)
		return open_failed(path, flags, errno, reason);
	if (S_ISBLK(st.st_mode) && mode & O_EXCL)
		err = claim_block_device(f, &st, reason);
	else if (S_ISREG(st.st_mode))
		err = claim_file(f, &st, reason);
	else
		err = reason_set(reason, -ENOTBLK, "%s: changed while it was opened", path);
	if (err < 0)
		return err;
	*ret_dev = &take(f)->dev;
	return 0;
}
