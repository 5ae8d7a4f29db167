/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/key.h - tree keys in host order.
 *
 * Keys are ordered by objectid, then type, then offset, all unsigned. Every tree is sorted by them.
 * Locking: none. Not here: what the parts mean for each item type (io/format.h).
 */
#ifndef COWFS_IO_KEY_H
#define COWFS_IO_KEY_H

#include "io/format.h"

#include <stdbool.h>

struct key {
	uint64_t objectid;
	uint8_t type;
	uint64_t offset;
};

#define KEY_MIN ((struct key){0, 0, 0})
#define KEY_MAX ((struct key){UINT64_MAX, UINT8_MAX, UINT64_MAX})

/* For printf: "(" KEY_FMT ")", KEY_ARGS(&key). */
#define KEY_FMT "%llu %u %llu"
#define KEY_ARGS(k) \
	(unsigned long long)(k)->objectid, (unsigned)(k)->type, (unsigned long long)(k)->offset

static inline struct key key_make(uint64_t objectid, unsigned type, uint64_t offset)
{
	return (struct key){objectid, (uint8_t)type, offset};
}

/* < 0, 0 or > 0 as a sorts before, with or after b. */
static inline int key_cmp(const struct key *a, const struct key *b)
{
	if (a->objectid != b->objectid)
		return a->objectid < b->objectid ? -1 : 1;
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return 0;
}

static inline bool key_equal(const struct key *a, const struct key *b)
{
	return a->objectid == b->objectid && a->type == b->type && a->offset == b->offset;
}

/* The first key of an objectid, and the last. */
static inline struct key key_object_min(uint64_t objectid)
{
	return (struct key){objectid, 0, 0};
}

static inline struct key key_object_max(uint64_t objectid)
{
	return (struct key){objectid, UINT8_MAX, UINT64_MAX};
}

/* The first key of an objectid and type, and the last. */
static inline struct key key_type_min(uint64_t objectid, unsigned type)
{
	return (struct key){objectid, (uint8_t)type, 0};
}

static inline struct key key_type_max(uint64_t objectid, unsigned type)
{
	return (struct key){objectid, (uint8_t)type, UINT64_MAX};
}

/* The key right after k into *ret; false, *ret untouched, if k is the greatest there is. */
static inline bool key_next(const struct key *k, struct key *ret)
{
	struct key n = *k;

	if (++n.offset == 0 && ++n.type == 0 && ++n.objectid == 0)
		return false;
	*ret = n;
	return true;
}

/* The key right before k into *ret; false, *ret untouched, if k is the smallest there is. */
static inline bool key_prev(const struct key *k, struct key *ret)
{
	struct key p = *k;

	if (p.offset-- == 0 && p.type-- == 0 && p.objectid-- == 0)
		return false;
	*ret = p;
	return true;
}

static inline struct key key_from_disk(const struct disk_key *d)
{
	return (struct key){disk_key_objectid(d), disk_key_type(d), disk_key_offset(d)};
}

static inline void key_to_disk(const struct key *k, struct disk_key *d)
{
	disk_key_set_objectid(d, k->objectid);
	disk_key_set_type(d, k->type);
	disk_key_set_offset(d, k->offset);
}

#endif
