/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device_fault.c - a device that fails when it is told to (see device_fault.h).
 */
#include "io/device_fault.h"

#include "io/util.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

struct armed {
	_Atomic uint64_t calls;
	uint64_t first;
	uint64_t fail_count;
	int err;
};

struct device_fault {
	struct device dev;
	struct device *inner;
	struct armed ops[FAULT_OP_COUNT];
};

static struct device_fault *of(struct device *dev)
{
	return container_of(dev, struct device_fault, dev);
}

/* Counts a call; its error if it is one that has to fail. */
static int pass(struct device *dev, enum fault_op op)
{
	struct armed *a = &of(dev)->ops[op];
	uint64_t call = atomic_fetch_add(&a->calls, 1) + 1;

	if (a->first != 0 && call >= a->first && call - a->first < a->fail_count)
		return a->err;
	return 0;
}

static int fault_pread(struct device *dev, uint64_t offset, void *buf, size_t len)
{
	int err = pass(dev, FAULT_READ);

	return err < 0 ? err : device_pread(of(dev)->inner, offset, buf, len);
}

static int fault_pwritev(struct device *dev, uint64_t offset, const struct iovec *iov,
			 unsigned count)
{
	int err = pass(dev, FAULT_WRITE);

	return err < 0 ? err : device_pwritev(of(dev)->inner, offset, iov, count);
}

static int fault_flush(struct device *dev)
{
	int err = pass(dev, FAULT_FLUSH);

	return err < 0 ? err : device_flush(of(dev)->inner);
}

static int fault_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	int err = pass(dev, FAULT_DISCARD);

	return err < 0 ? err : device_discard(of(dev)->inner, offset, len);
}

static void fault_close(struct device *dev)
{
	device_close(of(dev)->inner);
	free(dev->name);
	free(of(dev));
}

static const struct device_ops fault_ops = {
	.pread = fault_pread,
	.pwritev = fault_pwritev,
	.flush = fault_flush,
	.discard = fault_discard,
	.close = fault_close,
};

int device_fault_open(struct device *inner, struct device **ret_dev)
{
	struct device_fault *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -ENOMEM;
	f->dev = (struct device){.ops = &fault_ops, .name = strdup(inner->name),
				 .size_bytes = inner->size_bytes, .read_only = inner->read_only,
				 .rotational = inner->rotational};
	if (f->dev.name == NULL) {
		free(f);
		return -ENOMEM;
	}
	f->inner = inner;
	*ret_dev = &f->dev;
	return 0;
}

void device_fault_arm(struct device *fault, enum fault_op op, uint64_t first, uint64_t fail_count,
		      int err)
{
	struct armed *a = &of(fault)->ops[op];

	atomic_store(&a->calls, 0);
	a->first = first;
	a->fail_count = fail_count;
	a->err = err;
}

uint64_t device_fault_calls(struct device *fault, enum fault_op op)
{
	return atomic_load(&of(fault)->ops[op].calls);
}
