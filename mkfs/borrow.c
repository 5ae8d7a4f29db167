/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/borrow.c - see borrow.h.
 */
#include "mkfs/borrow.h"

#include "io/util.h"

#include <errno.h>
#include <string.h>

struct borrowed {
	struct device dev;
	struct device *inner;
};

static struct device *inner_of(struct device *dev)
{
	return container_of(dev, struct borrowed, dev)->inner;
}

static int borrowed_pread(struct device *dev, uint64_t offset, void *buf, size_t len)
{
	return device_pread(inner_of(dev), offset, buf, len);
}

static int borrowed_pwritev(struct device *dev, uint64_t offset, const struct iovec *iov,
			    unsigned count)
{
	return device_pwritev(inner_of(dev), offset, iov, count);
}

static int borrowed_flush(struct device *dev)
{
	return device_flush(inner_of(dev));
}

static int borrowed_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	return device_discard(inner_of(dev), offset, len);
}

static void borrowed_close(struct device *dev)
{
	free(dev->name);
	free(container_of(dev, struct borrowed, dev));
}

static const struct device_ops borrowed_ops = {
	.pread = borrowed_pread,
	.pwritev = borrowed_pwritev,
	.flush = borrowed_flush,
	.discard = borrowed_discard,
	.close = borrowed_close,
};

int device_borrow(struct device *inner, struct device **ret_dev)
{
	struct borrowed *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return -ENOMEM;
	b->dev = *inner;
	b->dev.ops = &borrowed_ops;
	b->dev.name = strdup(inner->name);
	if (b->dev.name == NULL) {
		free(b);
		return -ENOMEM;
	}
	b->inner = inner;
	*ret_dev = &b->dev;
	return 0;
}
