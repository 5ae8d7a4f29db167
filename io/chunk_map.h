/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/chunk_map.h - from logical addresses to stripes on devices.
 *
 * A chunk is a range of logical addresses with its profile: how many copies there are and how they
 * are spread over devices. Supported: SINGLE, DUP, RAID0, RAID1, RAID1C3, RAID1C4, RAID10.
 *
 * Invariants:
 *   C1  chunks do not overlap; ranges do not wrap; all is aligned to sectors;
 *   C2  the stripe count fits the profile, so each byte has 1 .. CHUNK_COPIES_MAX copies;
 *   C3  a chunk does not change once it is in the map; it is only added and removed.
 *
 * Locking: one reader-writer lock inside, rank DEV; what is found is copied out. Not here: whether
 * the devices exist (io/volume.h), the chunk tree's items (alloc/).
 */
#ifndef COWFS_IO_CHUNK_MAP_H
#define COWFS_IO_CHUNK_MAP_H

#include "io/format.h"
#include "io/key.h"
#include "io/locks.h"
#include "io/rbtree.h"
#include "io/reason.h"

#define CHUNK_COPIES_MAX 4u
#define CHUNK_STRIPES_MAX 2048u		/* more do not fit into any leaf */

struct chunk_stripe {
	uint64_t devid;
	uint64_t physical;
	uint8_t dev_uuid[UUID_BYTES];
};

/* Allocated with malloc(); free() it. */
struct chunk {
	uint64_t logical;
	uint64_t length;		/* logical bytes */
	uint64_t type;			/* BG_* */
	uint64_t owner;
	uint32_t io_align;
	uint32_t io_width;
	uint32_t sector_size;
	uint16_t num_stripes;
	uint16_t sub_stripes;
	struct chunk_stripe stripes[];
};

struct chunk_entry;
RB_HEAD(chunk_tree, chunk_entry);

struct chunk_map {
	struct rwlock lock;
	struct chunk_tree tree;
	uint32_t sectorsize;
	bool mixed;			/* chunks may be both data and metadata */
};

/* A range with all its copies in one piece each. */
struct chunk_piece {
	uint64_t len;
	unsigned copies;
	struct {
		uint64_t devid;
		uint64_t physical;
	} copy[CHUNK_COPIES_MAX];
};

void chunk_map_init(struct chunk_map *map, uint32_t sectorsize, bool mixed);
void chunk_map_done(struct chunk_map *map);

/*
 * Adds the chunk of a chunk item, after checking all of it. A chunk that is there already, byte for
 * byte, is no error. -EUCLEAN: damaged, or overlaps another. -EOPNOTSUPP: RAID5 or RAID6.
 */
int chunk_map_add(struct chunk_map *map, const struct key *key, const uint8_t *item, size_t size,
		  struct reason *reason);

/* Takes away the chunk that begins at logical. -ENOENT: there is none. */
int chunk_map_remove(struct chunk_map *map, uint64_t logical);

/* A copy of the chunk that holds logical. -ENOENT, -ENOMEM. */
int chunk_map_find(struct chunk_map *map, uint64_t logical, struct chunk **ret_chunk);

/* A copy of the first chunk that begins at or after logical. -ENOENT: no more. -ENOMEM. */
int chunk_map_next(struct chunk_map *map, uint64_t logical, struct chunk **ret_chunk);

/*
 * Where the bytes from logical on lie: the longest beginning of the range, at most len, whose copies
 * are contiguous. -ENOENT: no chunk there.
 */
int chunk_map_locate(struct chunk_map *map, uint64_t logical, uint64_t len,
		     struct chunk_piece *ret_piece);

/*
 * A chunk item by itself, without a map: checks and decodes it. Errors as chunk_map_add().
 */
int chunk_decode(const struct key *key, const uint8_t *item, size_t size, uint32_t sectorsize,
		 bool mixed, struct chunk **ret_chunk, struct reason *reason);

/* Bytes of the item of a chunk with so many stripes, and the item itself. */
size_t chunk_item_bytes(unsigned num_stripes);
void chunk_encode(const struct chunk *c, uint8_t *item);

/* Copies of each byte with this profile (1 for SINGLE and RAID0). */
unsigned chunk_copies(uint64_t type);

/* Bytes of each of its stripes: the length of its dev extents. */
uint64_t chunk_stripe_bytes(const struct chunk *c);

/*
 * Ranges inside the chunk that lie over superblock copies, or below logical SUPER_OFFSET_0, and must
 * not be allocated; at most max of them into ret_ranges. Returns their count. They may overlap.
 */
struct chunk_range {
	uint64_t logical;
	uint64_t len;
};
#define CHUNK_SUPER_RANGES_MAX 32u
unsigned chunk_super_ranges(const struct chunk *c, struct chunk_range *ret_ranges, unsigned max);

#endif
