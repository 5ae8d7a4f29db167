/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/volume.h - the logical address space of one filesystem: its devices and its chunk map.
 *
 * Everything above reads and writes logical addresses through a volume. A write goes to all copies, a
 * read asks one, and volume_read_verified() asks one after the other until the caller is content and
 * mends the bad ones.
 *
 * Invariants:
 *   V1  each stripe of each chunk in the map lies on a device of the volume, inside its size;
 *   V2  geometry, ids and checksum type do not change after volume_open() or volume_new();
 *   V3  nothing is written to the devices of a read_only volume.
 *
 * Locking: any thread may read, write, flush, discard, and add and remove chunks at any time; no lock
 * is held during I/O. Devices are added before other threads use the volume. Not here: which
 * addresses are free (alloc/), caches (btree/, fs/).
 */
#ifndef COWFS_IO_VOLUME_H
#define COWFS_IO_VOLUME_H

#include "io/chunk_map.h"
#include "io/device.h"
#include "io/format.h"
#include "io/key.h"
#include "io/locks.h"
#include "io/reason.h"

#include <stdatomic.h>

struct volume_device {
	uint64_t devid;
	struct device *dev;
	struct disk_dev_item item;	/* under devices_lock; goes into each superblock */
	_Atomic uint64_t read_errors;
	_Atomic uint64_t write_errors;
	_Atomic uint64_t flush_errors;
	_Atomic uint64_t corruption_errors;
};

/* What mkfs and volume_open() know about a filesystem before its first tree is read. */
struct volume_params {
	uint32_t sectorsize;
	uint32_t leafsize;
	uint32_t nodesize;
	enum csum_type csum_type;
	bool mixed;
	bool read_only;
	uint8_t fsid[UUID_BYTES];
	uint8_t metadata_uuid[UUID_BYTES];	/* what blocks carry; = fsid without that feature */
};

struct volume {
	struct volume_params params;
	size_t csum_bytes;			/* of one checksum */
	struct chunk_map chunks;
	struct rwlock devices_lock;		/* rank DEV; of the items of devices */
	struct volume_device **devices;
	unsigned device_count;
	_Atomic uint64_t repaired_count;	/* copies rewritten from a good one */
};

/* Bytes of a tree block of this level. */
static inline uint32_t volume_block_bytes(const struct volume *vol, unsigned level)
{
	return level == 0 ? vol->params.leafsize : vol->params.nodesize;
}

/* A volume without devices and chunks. */
int volume_new(const struct volume_params *params, struct volume **ret_vol);

/* Closes all devices and frees the volume; NULL is fine. Does not flush. */
void volume_close(struct volume *vol);

static inline void volume_closep(struct volume **vol)
{
	volume_close(*vol);
}

enum volume_open_flags {
	VOLUME_READ_ONLY = 1 << 0,
};

/*
 * Opens and claims the devices of an existing filesystem, in any order, and reads their superblocks
 * and the system chunks. *ret_super is the newest one; its device item is that of the device it was
 * read from. Without VOLUME_READ_ONLY a filesystem that cowfs may only read is refused (-EROFS).
 * Other errors: those of device_open() and super_read(); -ENODEV: a device is missing; -EINVAL:
 * devices of different filesystems.
 */
int volume_open(const char *const *paths, unsigned count, unsigned flags, struct volume **ret_vol,
		struct disk_super *ret_super, struct reason *reason);

/* The same with devices that are open; the volume owns them from the call on, also on failure. */
int volume_open_devices(struct device **devices, unsigned count, unsigned flags,
			struct volume **ret_vol, struct disk_super *ret_super,
			struct reason *reason);

/* Adds a device with its item (devid, uuid, sizes); owned from success on. -EEXIST: devid is taken. */
int volume_add_device(struct volume *vol, struct device *dev, const struct disk_dev_item *item);

/* The device item of devid, to be read or replaced (its devid stays). -ENODEV. */
int volume_device_item(struct volume *vol, uint64_t devid, struct disk_dev_item *ret_item);
int volume_set_device_item(struct volume *vol, uint64_t devid, const struct disk_dev_item *item);

/* The device of devid, or NULL. */
struct volume_device *volume_find_device(const struct volume *vol, uint64_t devid);

/*
 * chunk_map_add(), and V1. -ENODEV: on a device that the volume lacks; -EUCLEAN: outside a device.
 */
int volume_add_chunk(struct volume *vol, const struct key *key, const uint8_t *item, size_t size,
		     struct reason *reason);

/* chunk_map_remove(). */
int volume_remove_chunk(struct volume *vol, uint64_t logical);

/* Copies of the byte at logical, 1 .. CHUNK_COPIES_MAX; -ENOENT: not in any chunk. */
int volume_num_copies(struct volume *vol, uint64_t logical);

/*
 * Reads len bytes from copy number mirror (0 is the first). -ENOENT: not all in chunks; -EINVAL: no
 * such copy; else the device's error.
 */
int volume_read(struct volume *vol, uint64_t logical, void *buf, size_t len, unsigned mirror);

/*
 * Whether len bytes at buf are what should be there: 0, or the error to return if no copy is better
 * (-EUCLEAN for metadata, -EIO for data).
 */
typedef int (*volume_verify_fn)(const void *buf, size_t len, void *arg);

/*
 * Reads until verify() accepts a copy; the bad copies before it are then written anew from it, with a
 * warning, unless the volume is read-only. All of the range is taken from the same copy: ranges of
 * which different copies may be good in different parts are read piece by piece. Returns the first
 * copy's error if none is good; buf is undefined then.
 */
int volume_read_verified(struct volume *vol, uint64_t logical, size_t len, void *buf,
			 volume_verify_fn verify, void *arg);

/*
 * Writes to all copies. All are tried; the first error of any is returned. -ENOENT, nothing written:
 * not all in chunks. -EROFS.
 */
int volume_write(struct volume *vol, uint64_t logical, const void *buf, size_t len);
int volume_writev(struct volume *vol, uint64_t logical, const struct iovec *iov, unsigned count);

/* Makes all that was written durable, on all devices. */
int volume_flush(struct volume *vol);

/* Discards all copies. -EOPNOTSUPP: a device cannot. -EROFS. */
int volume_discard(struct volume *vol, uint64_t logical, uint64_t len);

/*
 * Writes the first mirror_count superblock copies of every device, each with that device's item, then
 * nothing: flush before and after is the caller's. -EROFS.
 */
int volume_write_supers(struct volume *vol, const struct disk_super *super, unsigned mirror_count);

/* Bytes on all devices, and whether any of them rotates. */
uint64_t volume_size(const struct volume *vol);
bool volume_is_rotational(const struct volume *vol);

#endif
