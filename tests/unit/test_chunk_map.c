/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_chunk_map.c - profiles, validation and the map itself (io/chunk_map.h).
 */
#include "io/chunk_map.h"
#include "io/log.h"
#include "tests/unit/unit.h"

#define SECTOR 4096u
#define MIB (1ULL << 20)
#define ITEM_MAX (sizeof(struct disk_chunk) + 8 * sizeof(struct disk_stripe))

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

/* A chunk item; stripe i lies on device i+1 (DUP: all on 1) at (i+1) * 100 MiB. */
static size_t make_item(uint8_t *item, uint64_t type, uint64_t length, unsigned stripes)
{
	struct disk_chunk *d = (struct disk_chunk *)item;

	memset(item, 0, ITEM_MAX);
	disk_chunk_set_length(d, length);
	disk_chunk_set_owner(d, OBJ_EXTENT_TREE);
	disk_chunk_set_stripe_len(d, STRIPE_LEN_BYTES);
	disk_chunk_set_type(d, type);
	disk_chunk_set_io_align(d, STRIPE_LEN_BYTES);
	disk_chunk_set_io_width(d, STRIPE_LEN_BYTES);
	disk_chunk_set_sector_size(d, SECTOR);
	disk_chunk_set_num_stripes(d, (uint16_t)stripes);
	disk_chunk_set_sub_stripes(d, type & BG_RAID10 ? 2 : 1);
	for (unsigned i = 0; i < stripes; i++) {
		struct disk_stripe *s = (struct disk_stripe *)(item + sizeof(*d)) + i;

		disk_stripe_set_devid(s, type & BG_DUP ? 1 : i + 1);
		disk_stripe_set_offset(s, (i + 1) * 100 * MIB);
		memset(s->dev_uuid, (int)i, UUID_BYTES);
	}
	return chunk_item_bytes(stripes);
}

static int add(struct chunk_map *map, uint64_t logical, const uint8_t *item, size_t size)
{
	struct key key = {OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, logical};

	return chunk_map_add(map, &key, item, size, NULL);
}

/* Copy m of the byte at `at` within the chunk must lie on devid at this byte of its stripe. */
static void expect(struct chunk_map *map, uint64_t at, unsigned m, uint64_t devid, uint64_t stripe,
		   uint64_t within)
{
	struct chunk_piece p;

	unit_ok(chunk_map_locate(map, 16 * MIB + at, 1, &p));
	ck_assert_uint_lt(m, p.copies);
	ck_assert_uint_eq(p.copy[m].devid, devid);
	ck_assert_uint_eq(p.copy[m].physical, stripe * 100 * MIB + within);
}

static void with_profile(struct chunk_map *map, uint64_t profile, unsigned stripes)
{
	uint8_t item[ITEM_MAX];
	size_t size = make_item(item, BG_DATA | profile, 8 * MIB, stripes);

	chunk_map_init(map, SECTOR, false);
	unit_ok(add(map, 16 * MIB, item, size));
}

START_TEST(test_profiles)
{
	struct chunk_map map;
	const uint64_t k64 = 65536, at = 5 * 65536 + 100;

	with_profile(&map, 0, 1);
	expect(&map, at, 0, 1, 1, at);
	chunk_map_done(&map);

	with_profile(&map, BG_DUP, 2);
	expect(&map, at, 0, 1, 1, at);
	expect(&map, at, 1, 1, 2, at);
	chunk_map_done(&map);

	with_profile(&map, BG_RAID1, 2);
	expect(&map, at, 0, 1, 1, at);
	expect(&map, at, 1, 2, 2, at);
	chunk_map_done(&map);

	with_profile(&map, BG_RAID1C3, 3);
	expect(&map, at, 2, 3, 3, at);
	chunk_map_done(&map);

	with_profile(&map, BG_RAID1C4, 4);
	expect(&map, at, 3, 4, 4, at);
	chunk_map_done(&map);

	/* Step 5 over two columns: the second column's third step; over four: the second's second. */
	with_profile(&map, BG_RAID0, 2);
	expect(&map, at, 0, 2, 2, 2 * k64 + 100);
	chunk_map_done(&map);
	with_profile(&map, BG_RAID0, 4);
	expect(&map, at, 0, 2, 2, k64 + 100);
	chunk_map_done(&map);

	/* Two columns of two: step 5 is in the second column. */
	with_profile(&map, BG_RAID10, 4);
	expect(&map, at, 0, 3, 3, 2 * k64 + 100);
	expect(&map, at, 1, 4, 4, 2 * k64 + 100);
	chunk_map_done(&map);
}
END_TEST

START_TEST(test_pieces)
{
	struct chunk_map map;
	struct chunk_piece p;

	with_profile(&map, BG_RAID0, 2);
	unit_ok(chunk_map_locate(&map, 16 * MIB + 100, MIB, &p));
	ck_assert_uint_eq(p.len, 65536 - 100);
	chunk_map_done(&map);

	with_profile(&map, BG_DUP, 2);
	unit_ok(chunk_map_locate(&map, 16 * MIB + 100, MIB, &p));
	ck_assert_uint_eq(p.len, MIB);
	unit_ok(chunk_map_locate(&map, 23 * MIB + 100, 2 * MIB, &p));
	ck_assert_uint_eq(p.len, MIB - 100);
	unit_err(chunk_map_locate(&map, 24 * MIB, 1, &p), -ENOENT);
	unit_err(chunk_map_locate(&map, 16 * MIB - 1, 1, &p), -ENOENT);
	chunk_map_done(&map);
}
END_TEST

START_TEST(test_add_remove_iterate)
{
	struct chunk_map map;
	uint8_t item[ITEM_MAX], again[ITEM_MAX];
	size_t size = make_item(item, BG_DATA, 4 * MIB, 1);
	struct chunk *c = NULL;

	log_set_sink(quiet, NULL);
	chunk_map_init(&map, SECTOR, false);
	unit_ok(add(&map, 16 * MIB, item, size));
	unit_ok(add(&map, 16 * MIB, item, size));
	unit_ok(add(&map, 24 * MIB, item, size));
	unit_err(add(&map, 14 * MIB, item, size), -EUCLEAN);
	unit_err(add(&map, 18 * MIB, item, size), -EUCLEAN);
	unit_err(add(&map, 21 * MIB, item, size), -EUCLEAN);
	unit_ok(add(&map, 20 * MIB, item, size));
	unit_ok(add(&map, 12 * MIB, item, size));
	disk_stripe_set_offset((struct disk_stripe *)(item + sizeof(struct disk_chunk)), 5 * MIB);
	unit_err(add(&map, 16 * MIB, item, size), -EUCLEAN);

	unit_ok(chunk_map_next(&map, 0, &c));
	ck_assert_uint_eq(c->logical, 12 * MIB);
	free(c);
	unit_ok(chunk_map_next(&map, 16 * MIB + 1, &c));
	ck_assert_uint_eq(c->logical, 20 * MIB);
	free(c);
	unit_err(chunk_map_next(&map, 24 * MIB + 1, &c), -ENOENT);
	unit_ok(chunk_map_find(&map, 20 * MIB - 1, &c));
	ck_assert_uint_eq(c->logical, 16 * MIB);
	chunk_encode(c, again);
	make_item(item, BG_DATA, 4 * MIB, 1);
	ck_assert_mem_eq(again, item, size);
	free(c);

	unit_err(chunk_map_remove(&map, 17 * MIB), -ENOENT);
	unit_ok(chunk_map_remove(&map, 16 * MIB));
	unit_err(chunk_map_find(&map, 16 * MIB, &c), -ENOENT);
	unit_ok(add(&map, 16 * MIB, item, size));
	chunk_map_done(&map);
}
END_TEST

#define EXPECT(set, err)								\
	do {										\
		uint8_t item[ITEM_MAX];							\
		size_t size = make_item(item, BG_DATA | BG_RAID10, 8 * MIB, 4);		\
		struct disk_chunk *d = (struct disk_chunk *)item;			\
		struct disk_stripe *s = (struct disk_stripe *)(item + sizeof(*d));	\
		struct key key = {OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, 16 * MIB};	\
		struct chunk *c = NULL;							\
		int res;								\
											\
		(void)d;								\
		(void)s;								\
		set;									\
		res = chunk_decode(&key, item, size, SECTOR, false, &c, NULL);		\
		ck_assert_msg(res == (err), "%s gave %d", #set, res);			\
		ck_assert((c != NULL) == (res == 0));					\
		free(c);								\
	} while (0)

START_TEST(test_each_field)
{
	log_set_sink(quiet, NULL);
	EXPECT((void)0, 0);
	EXPECT(key.objectid++, -EUCLEAN);
	EXPECT(key.type--, -EUCLEAN);
	EXPECT(key.offset++, -EUCLEAN);
	EXPECT(key.offset = UINT64_MAX - SECTOR + 1, -EUCLEAN);
	EXPECT(size--, -EUCLEAN);
	EXPECT(size = 47, -EUCLEAN);
	EXPECT(size = 0, -EUCLEAN);
	EXPECT(disk_chunk_set_length(d, 0), -EUCLEAN);
	EXPECT(disk_chunk_set_length(d, 8 * MIB + 1), -EUCLEAN);
	EXPECT(disk_chunk_set_length(d, UINT64_MAX - SECTOR + 1), -EUCLEAN);
	EXPECT(disk_chunk_set_stripe_len(d, 32768), -EUCLEAN);
	EXPECT(disk_chunk_set_stripe_len(d, 0), -EUCLEAN);
	EXPECT(disk_chunk_set_sector_size(d, 512), -EUCLEAN);
	EXPECT(disk_chunk_set_num_stripes(d, 0), -EUCLEAN);
	EXPECT(disk_chunk_set_num_stripes(d, 2), -EUCLEAN);
	EXPECT(disk_chunk_set_num_stripes(d, 65535), -EUCLEAN);
	EXPECT(disk_chunk_set_num_stripes(d, 3); size = chunk_item_bytes(3), -EUCLEAN);
	EXPECT(disk_chunk_set_sub_stripes(d, 1), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_RAID10), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_DATA), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_DATA | BG_DUP), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_DATA | BG_METADATA | BG_RAID10), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_DATA | BG_SYSTEM | BG_RAID10), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_DATA | BG_RAID10 | BG_RAID1), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_DATA | (1ULL << 20)), -EUCLEAN);
	EXPECT(disk_chunk_set_type(d, BG_DATA | BG_RAID5), -EOPNOTSUPP);
	EXPECT(disk_chunk_set_type(d, BG_DATA | BG_RAID6), -EOPNOTSUPP);
	EXPECT(disk_stripe_set_offset(s + 3, 1), -EUCLEAN);
	EXPECT(disk_stripe_set_offset(s + 3, UINT64_MAX - SECTOR + 1), -EUCLEAN);
}
END_TEST

START_TEST(test_mixed)
{
	struct key key = {OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, 16 * MIB};
	uint8_t item[ITEM_MAX];
	size_t size = make_item(item, BG_DATA | BG_METADATA, MIB, 1);
	struct chunk *c = NULL;

	log_set_sink(quiet, NULL);
	unit_ok(chunk_decode(&key, item, size, SECTOR, true, &c, NULL));
	free(c);
	unit_err(chunk_decode(&key, item, size, SECTOR, false, &c, NULL), -EUCLEAN);
}
END_TEST

/* Stripe i at physical[i], against addresses worked out by hand. */
static unsigned ranges_of(uint64_t logical, uint64_t profile, unsigned stripes,
			  const uint64_t *physical, struct chunk_range *ret)
{
	struct key key = {OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, logical};
	uint8_t item[ITEM_MAX];
	size_t size = make_item(item, BG_DATA | profile, 64 * MIB, stripes);
	struct chunk *c = NULL;
	unsigned count;

	for (unsigned i = 0; i < stripes; i++)
		disk_stripe_set_offset((struct disk_stripe *)(item + sizeof(struct disk_chunk)) + i,
				       physical[i]);
	unit_ok(chunk_decode(&key, item, size, SECTOR, false, &c, NULL));
	count = chunk_super_ranges(c, ret, CHUNK_SUPER_RANGES_MAX);
	free(c);
	return count;
}

START_TEST(test_super_ranges)
{
	struct chunk_range r[CHUNK_SUPER_RANGES_MAX];

	ck_assert_uint_eq(ranges_of(1024 * MIB, 0, 1, (uint64_t[]){MIB}, r), 1);
	ck_assert_uint_eq(r[0].logical, (1024 + 63) * MIB);
	ck_assert_uint_eq(r[0].len, 65536);
	ck_assert_uint_eq(ranges_of(1024 * MIB, 0, 1, (uint64_t[]){65 * MIB}, r), 0);
	ck_assert_uint_eq(ranges_of(1024 * MIB, BG_DUP, 2, (uint64_t[]){200 * MIB, 10 * MIB}, r), 1);
	ck_assert_uint_eq(r[0].logical, (1024 + 54) * MIB);
	/* 4 MiB into the second of two columns is step 64 of it, so step 129 of the chunk. */
	ck_assert_uint_eq(ranges_of(1024 * MIB, BG_RAID0, 2, (uint64_t[]){300 * MIB, 60 * MIB}, r), 1);
	ck_assert_uint_eq(r[0].logical, 1024 * MIB + 129 * 65536);
	ck_assert_uint_eq(r[0].len, 65536);
	/* An old mkfs put the first chunk at 0. */
	ck_assert_uint_eq(ranges_of(0, 0, 1, (uint64_t[]){0}, r), 2);
	ck_assert_uint_eq(r[0].logical, 0);
	ck_assert_uint_eq(r[0].len, 65536);
	ck_assert_uint_eq(r[1].logical, 65536);
}
END_TEST

UNIT_MAIN("chunk_map", test_profiles, test_pieces, test_add_remove_iterate, test_each_field,
	  test_mixed, test_super_ranges)
