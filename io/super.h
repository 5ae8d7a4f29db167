/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/super.h - the superblock: reading, judging and writing its copies.
 *
 * In memory a superblock is its bytes on disk (struct disk_super). Up to three copies lie on each
 * device (super_offset()), as many as fit.
 *
 * Invariants of a superblock that super_validate() accepts:
 *   S1  sector, leaf and node size are powers of two in 4 KiB .. 64 KiB, sector the smallest;
 *   S2  leaf and node size differ exactly if INCOMPAT_COWFS_LEAFSIZE is set, and then
 *       INCOMPAT_SKINNY_METADATA is too;
 *   S3  all incompat bits are in SUPER_INCOMPAT_READABLE, all flags are known;
 *   S4  root addresses are sector-aligned and not 0 (log_root may be), levels below LEVEL_COUNT;
 *   S5  its device item fits the device it was read from.
 *
 * Locking: none, superblocks belong to their caller. Not here: several devices (io/volume.h), what
 * sys_chunk_array says (io/chunk_map.h).
 */
#ifndef COWFS_IO_SUPER_H
#define COWFS_IO_SUPER_H

#include "io/device.h"
#include "io/format.h"
#include "io/reason.h"

/* Features that cowfs can read, and those it can write. */
#define SUPER_INCOMPAT_WRITABLE                                                                  \
	(INCOMPAT_MIXED_BACKREF | INCOMPAT_DEFAULT_SUBVOL | INCOMPAT_MIXED_GROUPS |                  \
	 INCOMPAT_COMPRESS_LZO | INCOMPAT_COMPRESS_ZSTD | INCOMPAT_BIG_METADATA |                    \
	 INCOMPAT_EXTENDED_IREF | INCOMPAT_RAID56 | INCOMPAT_SKINNY_METADATA | INCOMPAT_NO_HOLES |   \
	 INCOMPAT_METADATA_UUID | INCOMPAT_RAID1C34 | INCOMPAT_COWFS_LEAFSIZE)
#define SUPER_INCOMPAT_READABLE (SUPER_INCOMPAT_WRITABLE | INCOMPAT_SIMPLE_QUOTA)
#define SUPER_COMPAT_RO_WRITABLE                                                                 \
	(COMPAT_RO_FREE_SPACE_TREE | COMPAT_RO_FREE_SPACE_TREE_VALID | COMPAT_RO_VERITY |            \
	 COMPAT_RO_BLOCK_GROUP_TREE)

/*
 * Reads the superblock and validates it. If the first copy cannot be read or has a bad checksum, the
 * newest good other copy is taken and a warning logged. *ret_mirror (NULL: not wanted) says which.
 * A device whose first copy lacks the magic number is not a btrfs filesystem, whatever the others say.
 *
 * -EINVAL: not a btrfs filesystem, or too small for one. -EUCLEAN: damaged. -EOPNOTSUPP: features
 * that cowfs cannot read, each named by its bit. -EIO: unreadable. The reason begins with the name of
 * the device.
 */
int super_read(struct device *dev, struct disk_super *ret_super, unsigned *ret_mirror,
	       struct reason *reason);

/*
 * Judges one copy that should lie at bytenr of a device of device_bytes (UINT64_MAX: unknown), name
 * for messages. Errors as above.
 */
int super_validate(const struct disk_super *super, uint64_t bytenr, uint64_t device_bytes,
		   const char *name, struct reason *reason);

/* 0 if cowfs may write to the filesystem, else -EROFS and why. */
int super_check_writable(const struct disk_super *super, struct reason *reason);

/* How many copies fit into a device of this size (disk_dev_item.total_bytes). */
unsigned super_mirror_count(uint64_t device_bytes);

/*
 * Writes the first mirror_count copies, as far as the size in the device item has room, each with its
 * own bytenr and checksum. Does not flush. Tries all; returns the first error.
 */
int super_write(struct device *dev, const struct disk_super *super, unsigned mirror_count);

/* The id that tree blocks and device items carry: metadata_uuid if that feature is on, else fsid. */
static inline const uint8_t *super_metadata_uuid(const struct disk_super *super)
{
	return disk_super_incompat_flags(super) & INCOMPAT_METADATA_UUID ? super->metadata_uuid
									 : super->fsid;
}

#endif
