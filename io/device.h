/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device.h - a random-access array of bytes: a block device, an image file, or a test's stand-in.
 *
 * Invariants:
 *   D1  a read or a write is done whole or fails; it never goes past size_bytes (-EIO);
 *   D2  a write is durable once a flush that began after the write had returned has succeeded;
 *   D3  a read_only device is never changed: write, discard and resize give -EROFS, flush does
 *       nothing.
 *
 * Back ends: files and block devices (device_file.c), and for tests RAM (device_mem.c), a recorder of
 * writes (device_record.c) and an injector of errors (device_fault.c); the last two stand before
 * another device and own it.
 *
 * Locking: every function but device_close() and device_resize() may be called by any thread at any
 * time. What overlapping concurrent writes leave is undefined. Not here: which device a logical
 * address lies on (io/volume.h).
 */
#ifndef COWFS_IO_DEVICE_H
#define COWFS_IO_DEVICE_H

#include "io/reason.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

struct device;

struct device_ops {
	/* Ranges were checked against size_bytes; all return 0 or -errno. */
	int (*pread)(struct device *dev, uint64_t offset, void *buf, size_t len);
	int (*pwritev)(struct device *dev, uint64_t offset, const struct iovec *iov, unsigned count);
	int (*flush)(struct device *dev);
	int (*discard)(struct device *dev, uint64_t offset, uint64_t len);
	/* NULL: cannot change its size. */
	int (*resize)(struct device *dev, uint64_t size_bytes);
	/* NULL: has no claim to give away. */
	int (*set_claim)(struct device *dev, bool claimed);
	/* Frees dev. */
	void (*close)(struct device *dev);
};

struct device {
	const struct device_ops *ops;
	char *name;			/* for messages; owned, freed by the back end's close */
	uint64_t size_bytes;
	bool read_only;
	bool rotational;		/* of the disk underneath; false when that is not known */
};

/* Reads len bytes at offset. */
int device_pread(struct device *dev, uint64_t offset, void *buf, size_t len);

/* Writes len bytes at offset. */
int device_pwrite(struct device *dev, uint64_t offset, const void *buf, size_t len);

/* Writes all that the count parts of iov hold, one after the other, at offset. */
int device_pwritev(struct device *dev, uint64_t offset, const struct iovec *iov, unsigned count);

/* Makes what was written before durable. */
int device_flush(struct device *dev);

/*
 * Tells that the contents of a range are no longer needed; they are undefined afterwards.
 * -EOPNOTSUPP where the device cannot.
 */
int device_discard(struct device *dev, uint64_t offset, uint64_t len);

/* Makes an image file this long. -EOPNOTSUPP where the device cannot. No other call meanwhile. */
int device_resize(struct device *dev, uint64_t size_bytes);

/*
 * Lets go of a block device's claim, or takes it again, while the device stays open: for handing it
 * to a mount of the kernel's, which claims the device itself. -EBUSY: somebody else has it.
 * -EOPNOTSUPP: not a block device. No other call meanwhile.
 */
int device_set_claim(struct device *dev, bool claimed);

static inline uint64_t device_size(const struct device *dev)
{
	return dev->size_bytes;
}

static inline bool device_is_rotational(const struct device *dev)
{
	return dev->rotational;
}

/* Frees the device and all it holds; NULL is fine. */
void device_close(struct device *dev);

static inline void device_closep(struct device **dev)
{
	device_close(*dev);
}

/* How to open a file or block device. */
enum device_open_flags {
	DEVICE_READ_ONLY = 1 << 0,
	DEVICE_CREATE = 1 << 1,		/* make a regular file of length 0 if there is none */
};

/*
 * Opens a block device or a regular file and claims it for this program, also for reading alone: a
 * block device so that nobody can mount it meanwhile, a file so that no other cowfs opens it. The
 * claim survives fork() and ends with device_close().
 * -EBUSY: mounted, claimed by another program, or (a file) attached to a loop device of the kernel.
 * -EACCES, -EPERM, -EROFS: no permission to write. -ENOTBLK: neither file nor block device.
 */
int device_open(const char *path, unsigned flags, struct device **ret_dev, struct reason *reason);

/* The count of bytes in iov. */
size_t iov_bytes(const struct iovec *iov, unsigned count);

#endif
