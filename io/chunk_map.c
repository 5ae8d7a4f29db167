/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/chunk_map.c - the chunk map (see chunk_map.h).
 *
 * Chunks sit in a red-black tree by logical address. A profile is described by two numbers for each
 * chunk: copies (stripes that hold the same bytes, side by side in the stripe array) and columns
 * (groups of such stripes over which addresses go round in steps of STRIPE_LEN_BYTES).
 */
#include "io/chunk_map.h"

#include "io/log.h"
#include "io/util.h"

struct chunk_entry {
	RB_ENTRY(chunk_entry) link;
	struct chunk *chunk;
};

static int entry_cmp(struct chunk_entry *a, struct chunk_entry *b)
{
	if (a->chunk->logical == b->chunk->logical)
		return 0;
	return a->chunk->logical < b->chunk->logical ? -1 : 1;
}

RB_GENERATE_LOCAL(chunk_tree, chunk_entry, link, entry_cmp)

/*
 * Profiles.
 */

unsigned chunk_copies(uint64_t type)
{
	switch (type & BG_PROFILE_MASK) {
	case BG_DUP:
	case BG_RAID1:
	case BG_RAID10:
		return 2;
	case BG_RAID1C3:
		return 3;
	case BG_RAID1C4:
		return 4;
	default:
		return 1;
	}
}

static unsigned columns(const struct chunk *c)
{
	return c->num_stripes / chunk_copies(c->type);
}

uint64_t chunk_stripe_bytes(const struct chunk *c)
{
	return c->length / columns(c);
}

/* Whether a chunk of this profile can have so many stripes. */
static bool stripes_fit(uint64_t type, unsigned num_stripes, unsigned sub_stripes)
{
	switch (type & BG_PROFILE_MASK) {
	case BG_RAID0:
		return num_stripes >= 1;
	case BG_RAID10:
		return num_stripes >= 2 && num_stripes % 2 == 0 && sub_stripes == 2;
	default:
		return num_stripes == chunk_copies(type);
	}
}

/*
 * Decoding.
 */

static int chunk_bad(const struct key *key, struct reason *reason, const char *what, uint64_t value)
{
	reason_set(reason, -EUCLEAN, "chunk %llu is damaged: %s %llu",
		   (unsigned long long)key->offset, what, (unsigned long long)value);
	return corrupt(OBJ_CHUNK_TREE, NO_ADDRESS, NO_SLOT, "chunk %llu: %s %llu",
		       (unsigned long long)key->offset, what, (unsigned long long)value);
}

static int check_type(const struct key *key, uint64_t type, bool mixed, struct reason *reason)
{
	uint64_t use = type & BG_TYPE_MASK, profile = type & BG_PROFILE_MASK;

	if (type & ~(BG_TYPE_MASK | BG_PROFILE_MASK))
		return chunk_bad(key, reason, "unknown type", type);
	if (use == 0 || (use & BG_SYSTEM && use != BG_SYSTEM) ||
	    (use == (BG_DATA | BG_METADATA) && !mixed))
		return chunk_bad(key, reason, "impossible type", type);
	if (profile != 0 && !is_pow2(profile))
		return chunk_bad(key, reason, "several profiles in type", type);
	if (profile & (BG_RAID5 | BG_RAID6))
		return reason_set(reason, -EOPNOTSUPP, "the filesystem has RAID5 or RAID6 chunks, which "
				  "cowfs does not support");
	return 0;
}

static int check_chunk(const struct key *key, const struct disk_chunk *d, size_t size,
		       uint32_t sectorsize, bool mixed, struct reason *reason)
{
	uint64_t length = disk_chunk_length(d), type = disk_chunk_type(d), end;
	unsigned num = disk_chunk_num_stripes(d), sub = disk_chunk_sub_stripes(d);
	int err = check_type(key, type, mixed, reason);

	if (err < 0)
		return err;
	if (num == 0 || num > CHUNK_STRIPES_MAX || size != chunk_item_bytes(num))
		return chunk_bad(key, reason, "stripe count does not fit the item:", num);
	if (!stripes_fit(type, num, sub))
		return chunk_bad(key, reason, "stripe count does not fit the profile:", num);
	if (!is_aligned(key->offset, sectorsize))
		return chunk_bad(key, reason, "not aligned to sectors of", sectorsize);
	if (length == 0 || !is_aligned(length, sectorsize) || add_overflows(key->offset, length, &end))
		return chunk_bad(key, reason, "length", length);
	if (length % (num / chunk_copies(type)) != 0)
		return chunk_bad(key, reason, "length does not go into its stripes:", length);
	if (disk_chunk_stripe_len(d) != STRIPE_LEN_BYTES)
		return chunk_bad(key, reason, "stripe length", disk_chunk_stripe_len(d));
	if (disk_chunk_sector_size(d) != sectorsize)
		return chunk_bad(key, reason, "sector size", disk_chunk_sector_size(d));
	return 0;
}

int chunk_decode(const struct key *key, const uint8_t *item, size_t size, uint32_t sectorsize,
		 bool mixed, struct chunk **ret_chunk, struct reason *reason)
{
	const struct disk_chunk *d = (const struct disk_chunk *)item;
	scoped(freep) struct chunk *c = NULL;
	unsigned num;
	int err;

	if (key->objectid != OBJ_FIRST_CHUNK_TREE || key->type != KEY_CHUNK_ITEM)
		return chunk_bad(key, reason, "key of type", key->type);
	if (size < sizeof(*d))
		return chunk_bad(key, reason, "item bytes", size);
	err = check_chunk(key, d, size, sectorsize, mixed, reason);
	if (err < 0)
		return err;
	num = disk_chunk_num_stripes(d);
	c = calloc(1, sizeof(*c) + num * sizeof(c->stripes[0]));
	if (c == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	c->logical = key->offset;
	c->length = disk_chunk_length(d);
	c->type = disk_chunk_type(d);
	c->owner = disk_chunk_owner(d);
	c->io_align = disk_chunk_io_align(d);
	c->io_width = disk_chunk_io_width(d);
	c->sector_size = disk_chunk_sector_size(d);
	c->num_stripes = (uint16_t)num;
	c->sub_stripes = disk_chunk_sub_stripes(d);
	for (unsigned i = 0; i < num; i++) {
		const struct disk_stripe *s = (const struct disk_stripe *)(item + sizeof(*d)) + i;
		struct chunk_stripe *to = &c->stripes[i];
		uint64_t end;

		to->devid = disk_stripe_devid(s);
		to->physical = disk_stripe_offset(s);
		memcpy(to->dev_uuid, s->dev_uuid, UUID_BYTES);
		if (!is_aligned(to->physical, sectorsize) ||
		    add_overflows(to->physical, chunk_stripe_bytes(c), &end))
			return chunk_bad(key, reason, "stripe at", to->physical);
	}
	*ret_chunk = take(c);
	return 0;
}

size_t chunk_item_bytes(unsigned num_stripes)
{
	return sizeof(struct disk_chunk) + num_stripes * sizeof(struct disk_stripe);
}

void chunk_encode(const struct chunk *c, uint8_t *item)
{
	struct disk_chunk *d = (struct disk_chunk *)item;

	disk_chunk_set_length(d, c->length);
	disk_chunk_set_owner(d, c->owner);
	disk_chunk_set_stripe_len(d, STRIPE_LEN_BYTES);
	disk_chunk_set_type(d, c->type);
	disk_chunk_set_io_align(d, c->io_align);
	disk_chunk_set_io_width(d, c->io_width);
	disk_chunk_set_sector_size(d, c->sector_size);
	disk_chunk_set_num_stripes(d, c->num_stripes);
	disk_chunk_set_sub_stripes(d, c->sub_stripes);
	for (unsigned i = 0; i < c->num_stripes; i++) {
		struct disk_stripe *s = (struct disk_stripe *)(item + sizeof(*d)) + i;

		disk_stripe_set_devid(s, c->stripes[i].devid);
		disk_stripe_set_offset(s, c->stripes[i].physical);
		memcpy(s->dev_uuid, c->stripes[i].dev_uuid, UUID_BYTES);
	}
}

/*
 * The map.
 */

void chunk_map_init(struct chunk_map *map, uint32_t sectorsize, bool mixed)
{
	rwlock_init(&map->lock, RANK_DEV);
	RB_INIT(&map->tree);
	map->sectorsize = sectorsize;
	map->mixed = mixed;
}

static void entry_free(struct chunk_entry *e)
{
	free(e->chunk);
	free(e);
}

void chunk_map_done(struct chunk_map *map)
{
	struct chunk_entry *e;

	while ((e = RB_MIN(chunk_tree, &map->tree)) != NULL) {
		RB_REMOVE(chunk_tree, &map->tree, e);
		entry_free(e);
	}
	rwlock_done(&map->lock);
}

/* The first entry that begins at or after logical. */
static struct chunk_entry *entry_from(struct chunk_map *map, uint64_t logical)
{
	struct chunk at = {.logical = logical};
	struct chunk_entry probe = {.chunk = &at};

	return RB_NFIND(chunk_tree, &map->tree, &probe);
}

/* The entry whose range holds logical, or NULL. */
static struct chunk_entry *entry_holding(struct chunk_map *map, uint64_t logical)
{
	struct chunk_entry *e = entry_from(map, logical);

	if (e == NULL || e->chunk->logical != logical)
		e = e == NULL ? RB_MAX(chunk_tree, &map->tree) : RB_PREV(chunk_tree, &map->tree, e);
	if (e == NULL || logical - e->chunk->logical >= e->chunk->length)
		return NULL;
	return e;
}

static bool chunk_same(const struct chunk *a, const struct chunk *b)
{
	if (a->logical != b->logical || a->length != b->length || a->type != b->type ||
	    a->num_stripes != b->num_stripes)
		return false;
	for (unsigned i = 0; i < a->num_stripes; i++)
		if (a->stripes[i].devid != b->stripes[i].devid ||
		    a->stripes[i].physical != b->stripes[i].physical)
			return false;
	return true;
}

int chunk_map_add(struct chunk_map *map, const struct key *key, const uint8_t *item, size_t size,
		  struct reason *reason)
{
	scoped(freep) struct chunk *c = NULL;
	scoped(freep) struct chunk_entry *e = NULL;
	struct chunk_entry *other;
	int err = chunk_decode(key, item, size, map->sectorsize, map->mixed, &c, reason);

	if (err < 0)
		return err;
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");

	write_guard(&map->lock);
	other = entry_holding(map, c->logical);
	if (other != NULL && chunk_same(other->chunk, c))
		return 0;
	if (other == NULL) {
		other = entry_from(map, c->logical);
		if (other != NULL && other->chunk->logical - c->logical >= c->length)
			other = NULL;
	}
	if (other != NULL)
		return chunk_bad(key, reason, "overlaps chunk", other->chunk->logical);
	e->chunk = take(c);
	RB_INSERT(chunk_tree, &map->tree, take(e));
	return 0;
}

int chunk_map_remove(struct chunk_map *map, uint64_t logical)
{
	struct chunk_entry *e;

	write_guard(&map->lock);
	e = entry_from(map, logical);
	if (e == NULL || e->chunk->logical != logical)
		return -ENOENT;
	RB_REMOVE(chunk_tree, &map->tree, e);
	entry_free(e);
	return 0;
}

static int chunk_copy(const struct chunk_entry *e, struct chunk **ret_chunk)
{
	size_t bytes;
	struct chunk *c;

	if (e == NULL)
		return -ENOENT;
	bytes = sizeof(*c) + e->chunk->num_stripes * sizeof(c->stripes[0]);
	c = malloc(bytes);
	if (c == NULL)
		return -ENOMEM;
	memcpy(c, e->chunk, bytes);
	*ret_chunk = c;
	return 0;
}

int chunk_map_find(struct chunk_map *map, uint64_t logical, struct chunk **ret_chunk)
{
	read_guard(&map->lock);
	return chunk_copy(entry_holding(map, logical), ret_chunk);
}

int chunk_map_next(struct chunk_map *map, uint64_t logical, struct chunk **ret_chunk)
{
	read_guard(&map->lock);
	return chunk_copy(entry_from(map, logical), ret_chunk);
}

int chunk_map_locate(struct chunk_map *map, uint64_t logical, uint64_t len,
		     struct chunk_piece *ret_piece)
{
	const struct chunk_entry *e;
	const struct chunk *c;
	uint64_t at, part, within;
	unsigned cols, first;

	read_guard(&map->lock);
	e = entry_holding(map, logical);
	if (e == NULL)
		return -ENOENT;
	c = e->chunk;
	cols = columns(c);
	at = logical - c->logical;
	part = c->length - at;
	if (cols == 1) {
		first = 0;
		within = at;
	} else {
		uint64_t step = at / STRIPE_LEN_BYTES, rest = at % STRIPE_LEN_BYTES;

		first = (unsigned)(step % cols);
		within = step / cols * STRIPE_LEN_BYTES + rest;
		part = min_u64(part, STRIPE_LEN_BYTES - rest);
	}
	ret_piece->len = min_u64(len, part);
	ret_piece->copies = chunk_copies(c->type);
	for (unsigned i = 0; i < ret_piece->copies; i++) {
		const struct chunk_stripe *s = &c->stripes[first * ret_piece->copies + i];

		ret_piece->copy[i].devid = s->devid;
		ret_piece->copy[i].physical = s->physical + within;
	}
	return 0;
}

/*
 * Superblock copies inside chunks.
 */

struct range_list {
	struct chunk_range *ranges;
	unsigned count;
	unsigned max;
};

static void add_range(struct range_list *list, const struct chunk *c, uint64_t at, uint64_t len)
{
	if (list->count < list->max && at < c->length)
		list->ranges[list->count++] =
			(struct chunk_range){c->logical + at, min_u64(len, c->length - at)};
}

unsigned chunk_super_ranges(const struct chunk *c, struct chunk_range *ret_ranges, unsigned max)
{
	struct range_list list = {.ranges = ret_ranges, .max = max};
	unsigned copies = chunk_copies(c->type), cols = columns(c);

	if (c->logical < SUPER_OFFSET_0)
		add_range(&list, c, 0, SUPER_OFFSET_0 - c->logical);
	for (unsigned m = 0; m < SUPER_MIRROR_COUNT; m++) {
		for (unsigned i = 0; i < c->num_stripes; i++) {
			uint64_t within = super_offset(m) - c->stripes[i].physical, step;

			if (super_offset(m) < c->stripes[i].physical ||
			    within >= chunk_stripe_bytes(c))
				continue;
			step = within / STRIPE_LEN_BYTES * cols + i / copies;
			if (cols == 1)
				add_range(&list, c, within, STRIPE_LEN_BYTES);
			else
				add_range(&list, c, step * STRIPE_LEN_BYTES + within % STRIPE_LEN_BYTES,
					  STRIPE_LEN_BYTES);
		}
	}
	return list.count;
}
