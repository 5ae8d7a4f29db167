/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/sysfs.h - what the kernel's /sys tells about disks and loop devices.
 *
 * Everything here is a best effort: where /sys is absent or unreadable the answer is the harmless one
 * (not rotational, no loop device). Locking: none.
 */
#ifndef COWFS_IO_SYSFS_H
#define COWFS_IO_SYSFS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct loop_backing {
	char path[PATH_MAX];
	bool whole;			/* the device shows all of the file, from its first byte */
};

/* The file behind the loop device rdev. -ENOENT: no loop device, or nothing attached. */
int sysfs_loop_backing(dev_t rdev, struct loop_backing *ret_backing);

/* True if the file is attached to a loop device; its name ("loop0") goes to ret_name. */
bool sysfs_loop_of_file(const struct stat *file, char *ret_name, size_t name_bytes);

/* Whether the block device, or the disk that it is a partition of, rotates. */
bool sysfs_rotational(dev_t rdev);

/* Whether the disk under the file system that holds this file rotates. */
bool sysfs_rotational_of_file(const struct stat *file);

#endif
