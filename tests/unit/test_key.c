/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_key.c - order and neighbours of keys (io/key.h).
 */
#include "io/key.h"
#include "tests/unit/unit.h"

START_TEST(test_order)
{
	/* Ascending; each pair is compared both ways. */
	const struct key keys[] = {
		KEY_MIN,
		{0, 0, 1},
		{0, 1, 0},
		{1, 0, 0},
		{256, KEY_INODE_ITEM, 0},
		{256, KEY_DIR_ITEM, UINT64_MAX},
		{256, KEY_DIR_INDEX, 2},
		{257, 0, 0},
		{OBJ_ORPHAN, KEY_ORPHAN_ITEM, 9},
		KEY_MAX,
	};

	for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
		for (size_t j = 0; j < ARRAY_COUNT(keys); j++) {
			int c = key_cmp(&keys[i], &keys[j]);

			ck_assert_int_eq((c > 0) - (c < 0), (i > j) - (i < j));
			ck_assert(key_equal(&keys[i], &keys[j]) == (i == j));
		}
	}
}
END_TEST

START_TEST(test_neighbours)
{
	struct key k = key_make(5, 255, UINT64_MAX), n;

	ck_assert(key_next(&k, &n));
	ck_assert(key_equal(&n, &(struct key){6, 0, 0}));
	ck_assert(key_prev(&n, &n));
	ck_assert(key_equal(&n, &k));
	k = key_make(5, 1, 7);
	ck_assert(key_next(&k, &n));
	ck_assert(key_equal(&n, &(struct key){5, 1, 8}));
	n = KEY_MAX;
	ck_assert(!key_next(&n, &n));
	ck_assert(key_equal(&n, &KEY_MAX));
	n = KEY_MIN;
	ck_assert(!key_prev(&n, &n));
	ck_assert(key_equal(&n, &KEY_MIN));
}
END_TEST

START_TEST(test_disk)
{
	struct key k = {0x0102030405060708, 0x84, 0x1112131415161718}, back;
	struct disk_key d;
	const uint8_t want[17] = {8, 7, 6, 5, 4, 3, 2, 1, 0x84,
				  0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};

	key_to_disk(&k, &d);
	ck_assert_mem_eq(&d, want, sizeof(want));
	back = key_from_disk(&d);
	ck_assert(key_equal(&k, &back));
}
END_TEST

UNIT_MAIN("key", test_order, test_neighbours, test_disk)
