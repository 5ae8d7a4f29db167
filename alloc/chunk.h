/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/chunk.h - making and removing chunks, and the holes they leave on devices.
 *
 * Invariants:
 *   K1  a device's `holes` are what no dev extent covers, from DEVICE_RESERVED_BYTES on; the dev
 *       extents of a removed chunk are a hole only when the removing transaction is on the device;
 *   K2  a chunk's items (chunk, dev extents, block group, free space) come and go in one transaction,
 *       in which also DEV_ITEM.bytes_used follows;
 *   K3  system space for the chunk tree is made before it is needed, so no chunk waits for a chunk.
 *
 * Locking: chunk_set.lock (rank DELAYED) is held while a chunk is made or removed, inside a
 * transaction; holes and bytes_used are under group_set.lock. Not here: when to make one (reserve.h).
 */
#ifndef COWFS_ALLOC_CHUNK_H
#define COWFS_ALLOC_CHUNK_H

#include "alloc/free_space.h"
#include "alloc/space_priv.h"
#include "io/chunk_map.h"
#include "io/locks.h"

#define CHUNK_STRIPES_PLANNED_MAX 32u	/* devices a new chunk spreads over */

struct device_space {
	uint64_t devid;
	uint64_t total_bytes;
	uint64_t bytes_used;		/* by dev extents, removed ones apart */
	uint8_t uuid[UUID_BYTES];
	struct free_space holes;
};

/* A chunk whose items were deleted in transaction `transid`. */
struct gone_chunk {
	struct gone_chunk *next;
	uint64_t transid;
	struct chunk *chunk;		/* owned */
};

struct chunk_set {
	struct mutex lock;
	struct device_space *devices;
	unsigned device_count;
	struct gone_chunk *gone;
	_Atomic uint64_t made;		/* chunks since the start; read without the lock */
};

int chunks_new(struct space *sp, struct chunk_set **ret_chunks);
void chunks_free(struct chunk_set *cs);		/* NULL is a no-op */
/* Finds the holes: what neither a chunk of the map nor a dev extent covers. Reads the device tree. */
int chunks_load(struct space *sp);

/* Bytes of a new chunk of this use when nothing is short: of one stripe, and of the chunk at most. */
struct chunk_limits {
	uint64_t stripe_max;
	uint64_t chunk_max;
};
struct chunk_limits chunk_limits(uint64_t device_bytes, uint64_t use);

/*
 * Where the stripes of a new chunk go. At least `keep` bytes of holes are left over. -ENOSPC.
 * group_set.lock held.
 */
struct chunk_plan {
	uint64_t type;
	uint64_t length;		/* logical bytes */
	uint64_t stripe_bytes;
	uint16_t num_stripes;
	uint16_t sub_stripes;
	struct {
		unsigned device;	/* index */
		uint64_t physical;
	} stripes[CHUNK_STRIPES_PLANNED_MAX];
};
int chunk_plan_locked(struct space *sp, uint64_t type, uint64_t keep, struct chunk_plan *ret_plan);

/* Bytes in holes that a chunk could use. group_set.lock held. */
uint64_t chunks_unallocated_locked(const struct space *sp);
/* Bytes on all devices. */
uint64_t chunks_device_bytes(const struct space *sp);

/*
 * A chunk for the pool of `use` (BG_DATA, ...), unless one was made since `made` was read. Inside a
 * transaction of kind COMMIT, no tree lock held. keep: as chunk_plan_locked(). -ENOSPC: nothing
 * changed; any other error: abort the transaction.
 */
int chunk_make(struct space *sp, struct txn_handle *tx, uint64_t use, uint64_t keep,
	       const uint64_t *made);

/*
 * Commit: deletes the items of empty block groups that nobody will miss (see chunk_remove.c);
 * *ret_changed becomes true if there were any. Any error: abort.
 */
int chunks_remove_empty(struct space *sp, struct txn_handle *tx, bool *ret_changed);
/*
 * Commit, when references have been run: decides which metadata groups shall run empty, and moves old
 * blocks out of them (see chunk_drain.c); *ret_changed becomes true if any was moved. Any error: abort.
 */
int chunks_drain_sparse(struct space *sp, struct txn_handle *tx, bool *ret_changed);
/* The superblock of `transid` is out: the dev extents of chunks removed up to it are holes. */
int chunks_commit_done(struct space *sp, uint64_t transid);
/* bytes_used of all devices into the volume, for the superblocks. */
void chunks_publish_devices(struct space *sp);
/* All system chunks into sys_chunk_array. */
void chunks_fill_super(struct space *sp, struct disk_super *super);

/* For chunk.c, chunk_remove.c and chunk_boot.c. */
int chunk_items_insert(struct space *sp, struct txn_handle *tx, const struct chunk *c);
int chunk_items_delete(struct space *sp, struct txn_handle *tx, const struct chunk *c);
int device_items_update(struct space *sp, struct txn_handle *tx, const struct chunk *c);
struct device_space *device_space_find(struct chunk_set *cs, uint64_t devid);

#endif
