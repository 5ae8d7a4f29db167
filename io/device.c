/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device.c - what all back ends of a device share: range checks and read-only (see device.h).
 */
#include "io/device.h"

#include <errno.h>

static int range_check(const struct device *dev, uint64_t offset, uint64_t len)
{
	if (offset > dev->size_bytes || len > dev->size_bytes - offset)
		return -EIO;
	return 0;
}

size_t iov_bytes(const struct iovec *iov, unsigned count)
{
	size_t sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += iov[i].iov_len;
	return sum;
}

int device_pread(struct device *dev, uint64_t offset, void *buf, size_t len)
{
	int err = range_check(dev, offset, len);

	if (err < 0)
		return err;
	return dev->ops->pread(dev, offset, buf, len);
}

int device_pwrite(struct device *dev, uint64_t offset, const void *buf, size_t len)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return device_pwritev(dev, offset, &iov, 1);
}

int device_pwritev(struct device *dev, uint64_t offset, const struct iovec *iov, unsigned count)
{
	int err;

	if (dev->read_only)
		return -EROFS;
	err = range_check(dev, offset, iov_bytes(iov, count));
	if (err < 0)
		return err;
	return dev->ops->pwritev(dev, offset, iov, count);
}

int device_flush(struct device *dev)
{
	if (dev->read_only)
		return 0;
	return dev->ops->flush(dev);
}

int device_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	int err;

	if (dev->read_only)
		return -EROFS;
	err = range_check(dev, offset, len);
	if (err < 0)
		return err;
	return dev->ops->discard(dev, offset, len);
}

int device_resize(struct device *dev, uint64_t size_bytes)
{
	int err;

	if (dev->read_only)
		return -EROFS;
	if (dev->ops->resize == NULL)
		return -EOPNOTSUPP;
	err = dev->ops->resize(dev, size_bytes);
	if (err < 0)
		return err;
	dev->size_bytes = size_bytes;
	return 0;
}

int device_set_claim(struct device *dev, bool claimed)
{
	return dev->ops->set_claim != NULL ? dev->ops->set_claim(dev, claimed) : -EOPNOTSUPP;
}

void device_close(struct device *dev)
{
	if (dev != NULL)
		dev->ops->close(dev);
}
