/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/mkfs.h - making a filesystem on a device.
 *
 * All of mkfs.cowfs but its command line; tests format their devices with it too. The first trees are
 * built by the code that the daemon uses, in one transaction, and written by its commit.
 *
 * Invariants:
 *   M1  nothing is written before all options and the size of the device have been judged;
 *   M2  the superblocks are written last, after a flush: an interrupted mkfs leaves no filesystem,
 *       neither the new one nor what was there before.
 *
 * Locking: one thread per device. Not here: the command line (cli.h), what the device holds already
 * (probe.h).
 */
#ifndef COWFS_MKFS_MKFS_H
#define COWFS_MKFS_MKFS_H

#include "io/device.h"
#include "io/format.h"
#include "io/reason.h"

#include <stdbool.h>

enum mkfs_feature {
	MKFS_NO_HOLES = 1 << 0,
	MKFS_FREE_SPACE_TREE = 1 << 1,
	MKFS_BLOCK_GROUP_TREE = 1 << 2,		/* needs both others */
};

struct mkfs_options {
	uint32_t leafsize, nodesize, sectorsize;
	enum csum_type csum_type;
	unsigned features;			/* MKFS_* */
	bool mixed;				/* data and metadata in the same block groups */
	bool discard;				/* tell the device first that all of it is free */
	uint64_t data_profile;			/* 0 (single) or BG_DUP */
	uint64_t metadata_profile;		/* of system chunks too; the same as of data when mixed */
	uint64_t byte_count;			/* bytes of the device to use; 0: all */
	char label[LABEL_MAX_BYTES];
	uint8_t fsid[UUID_BYTES];		/* zeroes: a random one */
};

/* What mkfs.cowfs makes when it is told nothing. */
void mkfs_options_init(struct mkfs_options *o);

/* Whether such a filesystem can be made, on a device that is large enough. -EINVAL. */
int mkfs_options_check(const struct mkfs_options *o, struct reason *reason);

/* The chunks of a new filesystem. */
#define MKFS_CHUNKS_MAX 3u

struct mkfs_chunk {
	uint64_t type;				/* BG_* with its profile */
	uint64_t logical;
	uint64_t length;			/* logical bytes */
	unsigned stripes;
	uint64_t physical[2];
};

struct mkfs_layout {
	uint64_t total_bytes;			/* of the device item and the superblock */
	unsigned count;
	struct mkfs_chunk chunks[MKFS_CHUNKS_MAX];
};

/* Bytes that a device must have at least for these options, which are valid. */
uint64_t mkfs_bytes_min(const struct mkfs_options *o);

/*
 * Lays the first chunks out on device_bytes, of which byte_count may use a part. -ENOSPC: too small;
 * the reason ends with the number of bytes that are needed. The options are valid.
 */
int mkfs_layout(const struct mkfs_options *o, uint64_t device_bytes,
		struct mkfs_layout *ret_layout, struct reason *reason);

/*
 * Makes a filesystem on the device, which stays open and the caller's. What was there is lost, old
 * superblocks first. -EINVAL, -ENOSPC: nothing was written; -EIO, -ENOMEM, ...: the device holds
 * nothing of use.
 */
int mkfs_format(struct device *dev, const struct mkfs_options *o, struct reason *reason);

#endif
