/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/probe.h - what a device holds already, as far as libblkid knows it.
 *
 * Locking: none. Not here: whether the device is in use (io/device.h).
 */
#ifndef COWFS_MKFS_PROBE_H
#define COWFS_MKFS_PROBE_H

#include "io/device.h"

#include <stdbool.h>

/* Signatures of one device that are remembered; there are rarely more than three. */
#define PROBE_SIGNATURES_MAX 32u
#define PROBE_NAME_BYTES 64u

struct probe {
	char what[PROBE_NAME_BYTES];	/* "an ext4 filesystem", ...; of the first */
	unsigned count;
	struct {
		uint64_t offset;
		uint64_t len;
	} signatures[PROBE_SIGNATURES_MAX];
};

/*
 * Looks for filesystems, RAID members and partition tables; none gives count 0. The device is opened
 * once more by its name, for reading. -errno.
 */
int probe_device(const char *path, struct probe *ret_probe, struct reason *reason);

/* Writes zeroes over all signatures. */
int probe_wipe(struct device *dev, const struct probe *p);

#endif
