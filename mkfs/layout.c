/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/layout.c - where the first chunks lie, and how small a filesystem can be; see mkfs.h.
 *
 * From DEVICE_RESERVED_BYTES on the device holds, without gaps: the system chunk, the metadata chunk
 * and the data chunk (or one for both), each with all its stripes. The rest is left to whoever needs
 * it first. A tenth of the device goes to metadata, within limits; small filesystems get small system
 * chunks, as their chunk trees stay small and each byte of them is missing elsewhere.
 *
 * Locking: none. Not here: superblock copies inside chunks, which the allocator steps over.
 */
#include "mkfs/mkfs.h"

#include "io/util.h"

#include <errno.h>
#include <string.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

#define SMALL_DEVICE_BYTES GIB
#define LARGE_DEVICE_BYTES (50 * GIB)
#define SYSTEM_BYTES (8 * MIB)
/* The kernel adds a system chunk when fewer than some 24 nodes are free in it. */
#define SYSTEM_NODES_MIN 64u
#define SYSTEM_BYTES_MIN (2 * MIB)
#define METADATA_NODES_MIN 256u
#define METADATA_BYTES_MIN (8 * MIB)
#define METADATA_BYTES_MAX (256 * MIB)
#define METADATA_BYTES_MAX_LARGE GIB
#define DATA_BYTES (8 * MIB)

static unsigned copies(uint64_t profile)
{
	return profile & BG_DUP ? 2 : 1;
}

static uint32_t largest_block(const struct mkfs_options *o)
{
	return max_u32(o->leafsize, o->nodesize);
}

static uint64_t system_bytes(const struct mkfs_options *o, uint64_t total)
{
	if (total >= SMALL_DEVICE_BYTES)
		return SYSTEM_BYTES;
	return max_u64(SYSTEM_BYTES_MIN, (uint64_t)SYSTEM_NODES_MIN * largest_block(o));
}

static uint64_t metadata_bytes_min(const struct mkfs_options *o)
{
	return max_u64(METADATA_BYTES_MIN, (uint64_t)METADATA_NODES_MIN * largest_block(o));
}

static uint64_t metadata_bytes(const struct mkfs_options *o, uint64_t total)
{
	uint64_t most = total >= LARGE_DEVICE_BYTES ? METADATA_BYTES_MAX_LARGE : METADATA_BYTES_MAX;
	uint64_t room = (total - mkfs_bytes_min(o)) / copies(o->metadata_profile);
	uint64_t want = max_u64(metadata_bytes_min(o), total / 10);

	/* What a small device has beyond the minimum is all that can be added. */
	want = min_u64(want, metadata_bytes_min(o) + room);
	return align_down(min_u64(want, most), MIB);
}

uint64_t mkfs_bytes_min(const struct mkfs_options *o)
{
	uint64_t bytes = DEVICE_RESERVED_BYTES;

	bytes += copies(o->metadata_profile) * (system_bytes(o, 0) + metadata_bytes_min(o));
	if (!o->mixed)
		bytes += copies(o->data_profile) * DATA_BYTES;
	return bytes;
}

/* The next chunk, right behind the one before it. */
static void add_chunk(struct mkfs_layout *l, uint64_t use, uint64_t profile, uint64_t length)
{
	struct mkfs_chunk *c = &l->chunks[l->count];
	uint64_t physical = DEVICE_RESERVED_BYTES;

	c->logical = DEVICE_RESERVED_BYTES;
	if (l->count > 0) {
		const struct mkfs_chunk *before = c - 1;

		c->logical = before->logical + before->length;
		physical = before->physical[before->stripes - 1] + before->length;
	}
	c->type = use | profile;
	c->length = length;
	c->stripes = copies(profile);
	for (unsigned i = 0; i < c->stripes; i++)
		c->physical[i] = physical + i * length;
	l->count++;
}

int mkfs_layout(const struct mkfs_options *o, uint64_t device_bytes,
		struct mkfs_layout *ret_layout, struct reason *reason)
{
	struct mkfs_layout l = {0};
	uint64_t bytes = o->byte_count != 0 ? o->byte_count : device_bytes;

	if (bytes > device_bytes)
		return reason_set(reason, -EINVAL, "a filesystem of %llu bytes does not fit: the device "
				  "has %llu bytes", (unsigned long long)bytes,
				  (unsigned long long)device_bytes);
	if (bytes < mkfs_bytes_min(o))
		return reason_set(reason, -ENOSPC, "%llu bytes are too small for such a filesystem, which "
				  "needs at least %llu", (unsigned long long)bytes,
				  (unsigned long long)mkfs_bytes_min(o));
	l.total_bytes = align_down(bytes, o->sectorsize);
	add_chunk(&l, BG_SYSTEM, o->metadata_profile, system_bytes(o, l.total_bytes));
	add_chunk(&l, BG_METADATA | (o->mixed ? BG_DATA : 0), o->metadata_profile,
		  metadata_bytes(o, l.total_bytes));
	if (!o->mixed)
		add_chunk(&l, BG_DATA, o->data_profile, DATA_BYTES);
	*ret_layout = l;
	return 0;
}
