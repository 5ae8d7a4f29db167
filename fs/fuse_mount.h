/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_mount.h - putting the session onto its mount point and taking it off again.
 *
 * A block device is mounted as fuseblk where possible (root, and the source shown is the device):
 * the kernel's superblock then holds the claim on the device, umount(8) waits for the daemon's last
 * commit, and sync requests arrive. Everything else is a plain fuse mount. Locking: main thread only.
 */
#ifndef COWFS_FS_FUSE_MOUNT_H
#define COWFS_FS_FUSE_MOUNT_H

#include "fs/fuse_front.h"
#include "io/device.h"

/* Whether the directory can be mounted over: -ENOENT, -ENOTDIR, -ENOTEMPTY, -ENOTCONN, -EACCES... */
int mount_check_point(const struct mount_options *o, struct reason *reason);

/*
 * Makes f->se and mounts it at `point` (an absolute path). `dev` is the open device that f->fs owns,
 * no I/O going on.
 */
int mount_attach(struct front *f, const struct mount_options *o, const char *point,
		 struct device *dev, struct reason *reason);

/* For the mount with this st_dev: more read-ahead and dirty memory than FUSE gets; root only. */
void mount_tune(dev_t id);

/*
 * Writes the kernel's dirty pages through and unmounts, lazily if it is in use. The workers are
 * running. `id` is the st_dev of the mount; anything else at the mount point is left alone.
 */
void mount_detach(const char *point, dev_t id);

/* Unmounts if that was not done yet, and frees the session. */
void mount_free(struct front *f);

#endif
