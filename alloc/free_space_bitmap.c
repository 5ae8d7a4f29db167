/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/free_space_bitmap.c - free space of a group in bitmaps, and from one form to the other.
 *
 * The bitmaps of a group follow each other without gaps from its start; each but the last covers
 * fst_bitmap_span() bytes. So the key of the one that holds an address is computed, not searched. Bit
 * i of a bitmap is bit i % 8 of its byte i / 8.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/free_space_priv.h"
#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

static struct key bitmap_key(const struct fst_group *fg, uint64_t at)
{
	uint64_t span = fst_bitmap_span(fg->sp);
	uint64_t start = at - (at - fg->group->start) % span;

	return key_make(start, KEY_FREE_SPACE_BITMAP, min_u64(span, fst_end(fg) - start));
}

static uint32_t bitmap_bytes(const struct fst_group *fg, const struct key *key)
{
	return (uint32_t)div_round_up(key->offset / fg->sp->sectorsize, 8);
}

static bool bit_test(const uint8_t *map, uint64_t bit)
{
	return (map[bit / 8] >> (bit % 8) & 1) != 0;
}

static void bit_assign(uint8_t *map, uint64_t bit, bool set)
{
	uint8_t mask = (uint8_t)(1u << (bit % 8));

	if (set)
		map[bit / 8] |= mask;
	else
		map[bit / 8] &= (uint8_t)~mask;
}

/* Is the sector at the address free? 0, 1, or negative. Outside of the group nothing is. */
static int sector_is_free(struct fst_group *fg, uint64_t at)
{
	uint8_t map[FREE_SPACE_BITMAP_BYTES];
	struct key key;
	int err;

	if (at < fg->group->start || at >= fst_end(fg))
		return 0;
	key = bitmap_key(fg, at);
	err = tree_get_fixed(fg->tree, &key, map, bitmap_bytes(fg, &key));
	if (err == -ENOENT)
		return fst_bad(fg, at, "a bitmap is missing");
	if (err < 0)
		return err;
	return bit_test(map, (at - key.objectid) / fg->sp->sectorsize);
}

struct bit_range {
	uint64_t first, end;		/* bits of one bitmap */
	uint32_t bytes;			/* the bitmap should have */
	bool set;
};

/* For tree_edit(): all bits of the range change, or none was touched. */
static int edit_bits(void *data, uint32_t size, void *arg)
{
	const struct bit_range *range = arg;
	uint8_t *map = data;

	if (size != range->bytes)
		return -EUCLEAN;
	for (uint64_t bit = range->first; bit < range->end; bit++)
		if (bit_test(map, bit) == range->set)
			return -EUCLEAN;
	for (uint64_t bit = range->first; bit < range->end; bit++)
		bit_assign(map, bit, range->set);
	return 0;
}

int fst_bitmap_change(struct fst_group *fg, uint64_t start, uint64_t len, bool set,
		      int *ret_delta)
{
	uint64_t end = start + len, sector = fg->sp->sectorsize;
	int before, after, err;

	if (!is_aligned(start - fg->group->start, sector) || !is_aligned(len, sector))
		return fst_bad(fg, start, "a change is not aligned to sectors");
	before = start > fg->group->start ? sector_is_free(fg, start - sector) : 0;
	if (before < 0)
		return before;
	after = sector_is_free(fg, end);
	if (after < 0)
		return after;
	for (uint64_t at = start; at < end;) {
		struct key key = bitmap_key(fg, at);
		uint64_t stop = min_u64(end, key.objectid + key.offset);
		struct bit_range range = {
			.first = (at - key.objectid) / sector,
			.end = (stop - key.objectid) / sector,
			.bytes = bitmap_bytes(fg, &key),
			.set = set,
		};

		err = tree_edit(fg->tx, fg->tree, &key, edit_bits, &range);
		if (err == -EUCLEAN || err == -ENOENT)
			return fst_bad(fg, at, set ? "a range to be freed is free"
						   : "a range to be used is not free");
		if (err < 0)
			return err;
		at = stop;
	}
	*ret_delta = set ? 1 - before - after : before + after - 1;
	return 0;
}

/* Bytes of one bitmap for the whole group. */
static size_t group_map_bytes(const struct fst_group *fg)
{
	return (size_t)div_round_up(fg->group->len / fg->sp->sectorsize, 8);
}

struct map_filler {
	struct fst_group *fg;
	uint8_t *map;
	uint32_t extents;
};

static int fill_map(void *arg, uint64_t start, uint64_t len)
{
	struct map_filler *filler = arg;
	uint64_t sector = filler->fg->sp->sectorsize;
	uint64_t bit = (start - filler->fg->group->start) / sector;

	if (!is_aligned(start - filler->fg->group->start, sector) || !is_aligned(len, sector))
		return fst_bad(filler->fg, start, "a free extent is not aligned to sectors");
	for (uint64_t i = 0; i < len / sector; i++)
		bit_assign(filler->map, bit + i, true);
	filler->extents++;
	return 0;
}

/* The group's free sectors as one bitmap (free() it). The count in *fg is not looked at. */
static int read_map(struct fst_group *fg, uint8_t **ret_map)
{
	scoped(freep) uint8_t *map = calloc(1, group_map_bytes(fg));
	struct map_filler filler = {.fg = fg, .map = map};
	int err;

	if (map == NULL)
		return -ENOMEM;
	err = fst_walk(fg, fill_map, &filler);
	if (err < 0)
		return err;
	if (filler.extents != fg->extent_count)
		return fst_bad(fg, fg->group->start, "wrong count of free extents");
	*ret_map = take(map);
	return 0;
}

int fst_to_bitmaps(struct fst_group *fg)
{
	scoped(freep) uint8_t *map = NULL;
	uint64_t span = fst_bitmap_span(fg->sp);
	size_t pos = 0;
	int err;

	err = read_map(fg, &map);
	if (err == 0)
		err = fst_delete_items(fg, false);
	fg->flags |= FREE_SPACE_USING_BITMAPS;
	if (err == 0)
		err = fst_store_info(fg, false);
	for (uint64_t at = fg->group->start; err == 0 && at < fst_end(fg); at += span) {
		struct key key = bitmap_key(fg, at);
		uint32_t bytes = bitmap_bytes(fg, &key);

		err = tree_insert(fg->tx, fg->tree, &key, map + pos, bytes);
		pos += bytes;
	}
	return err;
}

int fst_to_extents(struct fst_group *fg)
{
	uint64_t sectors = fg->group->len / fg->sp->sectorsize, bit = 0, first;
	scoped(freep) uint8_t *map = NULL;
	int err;

	err = read_map(fg, &map);
	if (err == 0)
		err = fst_delete_items(fg, false);
	fg->flags &= ~FREE_SPACE_USING_BITMAPS;
	if (err == 0)
		err = fst_store_info(fg, false);
	while (err == 0) {
		struct key key;

		while (bit < sectors && !bit_test(map, bit))
			bit++;
		first = bit;
		while (bit < sectors && bit_test(map, bit))
			bit++;
		if (bit == first)
			break;
		key = key_make(fg->group->start + first * fg->sp->sectorsize,
			       KEY_FREE_SPACE_EXTENT, (bit - first) * fg->sp->sectorsize);
		err = tree_insert(fg->tx, fg->tree, &key, NULL, 0);
	}
	return err;
}
