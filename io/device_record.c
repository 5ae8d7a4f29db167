/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device_record.c - a device that remembers its writes (see device_record.h).
 */
#include "io/device_record.h"

#include "io/locks.h"
#include "io/util.h"

#include <errno.h>
#include <string.h>

struct device_record {
	struct device dev;
	struct device *inner;
	struct mutex lock;
	struct record_event *events;
	size_t count;
	size_t room;
};

static struct device_record *of(struct device *dev)
{
	return container_of(dev, struct device_record, dev);
}

/* Takes over data, also on failure. */
static int record(struct device_record *r, enum record_kind kind, uint64_t offset, uint64_t len,
		  uint8_t *data)
{
	mutex_guard(&r->lock);
	if (r->count == r->room) {
		size_t room = r->room == 0 ? 256 : r->room * 2;
		struct record_event *more = realloc(r->events, room * sizeof(*more));

		if (more == NULL) {
			free(data);
			return -ENOMEM;
		}
		r->events = more;
		r->room = room;
	}
	r->events[r->count++] =
		(struct record_event){.kind = kind, .offset = offset, .len = len, .data = data};
	return 0;
}

static int record_pread(struct device *dev, uint64_t offset, void *buf, size_t len)
{
	return device_pread(of(dev)->inner, offset, buf, len);
}

static int record_pwritev(struct device *dev, uint64_t offset, const struct iovec *iov,
			  unsigned count)
{
	size_t len = iov_bytes(iov, count), at = 0;
	scoped(freep) uint8_t *data = malloc(len + 1);
	int err;

	if (data == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		if (iov[i].iov_len > 0)
			memcpy(data + at, iov[i].iov_base, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	err = device_pwrite(of(dev)->inner, offset, data, len);
	if (err < 0)
		return err;
	return record(of(dev), RECORD_WRITE, offset, len, take(data));
}

static int record_flush(struct device *dev)
{
	int err = record(of(dev), RECORD_FLUSH, 0, 0, NULL);

	if (err < 0)
		return err;
	return device_flush(of(dev)->inner);
}

static int record_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	int err = device_discard(of(dev)->inner, offset, len);

	if (err < 0)
		return err;
	return record(of(dev), RECORD_DISCARD, offset, len, NULL);
}

void device_record_clear(struct device *rec)
{
	struct device_record *r = of(rec);

	mutex_guard(&r->lock);
	for (size_t i = 0; i < r->count; i++)
		free(r->events[i].data);
	r->count = 0;
}

static void record_close(struct device *dev)
{
	struct device_record *r = of(dev);

	device_record_clear(dev);
	free(r->events);
	device_close(r->inner);
	mutex_done(&r->lock);
	free(r->dev.name);
	free(r);
}

static const struct device_ops record_ops = {
	.pread = record_pread,
	.pwritev = record_pwritev,
	.flush = record_flush,
	.discard = record_discard,
	.close = record_close,
};

int device_record_open(struct device *inner, struct device **ret_dev)
{
	struct device_record *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->dev = (struct device){.ops = &record_ops, .name = strdup(inner->name),
				 .size_bytes = inner->size_bytes, .read_only = inner->read_only,
				 .rotational = inner->rotational};
	if (r->dev.name == NULL) {
		free(r);
		return -ENOMEM;
	}
	r->inner = inner;
	mutex_init(&r->lock, RANK_DEV);
	*ret_dev = &r->dev;
	return 0;
}

size_t device_record_count(struct device *rec)
{
	mutex_guard(&of(rec)->lock);
	return of(rec)->count;
}

const struct record_event *device_record_event(struct device *rec, size_t index)
{
	must(index < of(rec)->count);
	return &of(rec)->events[index];
}

int device_record_replay_one(struct device *rec, size_t index, struct device *target)
{
	const struct record_event *e = device_record_event(rec, index);
	int err;

	switch (e->kind) {
	case RECORD_WRITE:
		return device_pwrite(target, e->offset, e->data, e->len);
	case RECORD_DISCARD:
		err = device_discard(target, e->offset, e->len);
		return err == -EOPNOTSUPP ? 0 : err;
	case RECORD_FLUSH:
		break;
	}
	return 0;
}

int device_record_replay(struct device *rec, size_t count, struct device *target)
{
	for (size_t i = 0; i < count; i++) {
		int err = device_record_replay_one(rec, i, target);

		if (err < 0)
			return err;
	}
	return 0;
}
