/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device_record.h - a device that remembers each write, flush and discard, for crash tests.
 *
 * Events are numbered from 0 in the order in which they are durable at the latest: a write is
 * recorded after the device below has taken it and before the caller goes on, a flush before the
 * device below begins it. So everything recorded before a flush that succeeded is on the medium; of
 * the events after the last flush any subset may be, in any order.
 *
 * Locking: one lock inside; any thread may read and write. The event functions want no writers.
 */
#ifndef COWFS_IO_DEVICE_RECORD_H
#define COWFS_IO_DEVICE_RECORD_H

#include "io/device.h"

enum record_kind { RECORD_WRITE, RECORD_FLUSH, RECORD_DISCARD };

struct record_event {
	enum record_kind kind;
	uint64_t offset;
	uint64_t len;
	uint8_t *data;			/* of a write, len bytes; else NULL */
};

/* Stands before inner and owns it from success on. */
int device_record_open(struct device *inner, struct device **ret_dev);

/* How many events there are, and one of them (valid until the recording is cleared). */
size_t device_record_count(struct device *record);
const struct record_event *device_record_event(struct device *record, size_t index);

/* Does one event, or the first count of them, to target. A discard that target cannot do is left out. */
int device_record_replay_one(struct device *record, size_t index, struct device *target);
int device_record_replay(struct device *record, size_t count, struct device *target);

/* Forgets all events. */
void device_record_clear(struct device *record);

#endif
