/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device_fault.h - a device that fails when it is told to, for tests.
 *
 * Each kind of call (read, write, flush, discard) is counted and can be armed to fail at one call, or
 * from one call on. A failing call does nothing to the device below.
 * Locking: counters are atomic; arm while no other thread uses the device.
 */
#ifndef COWFS_IO_DEVICE_FAULT_H
#define COWFS_IO_DEVICE_FAULT_H

#include "io/device.h"

enum fault_op { FAULT_READ, FAULT_WRITE, FAULT_FLUSH, FAULT_DISCARD, FAULT_OP_COUNT };

/* Stands before inner and owns it from success on. */
int device_fault_open(struct device *inner, struct device **ret_dev);

/*
 * Counting from now, calls of this kind from number first (1 is the next one) on fail with err
 * (negative), fail_count of them (UINT64_MAX: for ever). first 0 disarms.
 */
void device_fault_arm(struct device *fault, enum fault_op op, uint64_t first, uint64_t fail_count,
		      int err);

/* Calls of this kind since the last arming. */
uint64_t device_fault_calls(struct device *fault, enum fault_op op);

#endif
