/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device_mem.h - a device in RAM, for tests (see device.h).
 *
 * Only pages that were written take memory: a device of a terabyte is cheap. What was never written
 * reads as zeroes. Flush does nothing. Locking: one lock inside, any thread may call.
 */
#ifndef COWFS_IO_DEVICE_MEM_H
#define COWFS_IO_DEVICE_MEM_H

#include "io/device.h"

#define DEVICE_MEM_PAGE_BYTES (64u << 10)

/* A new device full of zeroes. */
int device_mem_open(const char *name, uint64_t size_bytes, struct device **ret_dev);

/* A copy of a device in RAM as it is now. */
int device_mem_clone(struct device *mem, struct device **ret_dev);

/* Memory the contents take. */
uint64_t device_mem_used_bytes(struct device *mem);

#endif
