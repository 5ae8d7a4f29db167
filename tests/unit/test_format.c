/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_format.c - getters and setters of io/format.h against bytes written by hand.
 */
#include "io/format.h"
#include "tests/unit/unit.h"

START_TEST(test_integers)
{
	const uint8_t want[15] = {0x11, 0x33, 0x22, 0x77, 0x66, 0x55, 0x44,
				  0xff, 0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88};
	struct {
		disk8 a;
		disk16 b;
		disk32 c;
		disk64 d;
	} s;

	ck_assert_uint_eq(sizeof(s), 15);
	disk8_set(&s.a, 0x11);
	disk16_set(&s.b, 0x2233);
	disk32_set(&s.c, 0x44556677);
	disk64_set(&s.d, 0x8899aabbccddeeffULL);
	ck_assert_mem_eq(&s, want, sizeof(want));
	ck_assert_uint_eq(disk8_get(&s.a), 0x11);
	ck_assert_uint_eq(disk16_get(&s.b), 0x2233);
	ck_assert_uint_eq(disk32_get(&s.c), 0x44556677);
	ck_assert_uint_eq(disk64_get(&s.d), 0x8899aabbccddeeffULL);
}
END_TEST

START_TEST(test_fields_stay_apart)
{
	struct disk_super s;
	const uint8_t *b = (const uint8_t *)&s;

	memset(&s, 0, sizeof(s));
	disk_super_set_magic(&s, SUPER_MAGIC);
	ck_assert_mem_eq(b + 64, "_BHRfS_M", 8);
	disk_super_set_csum_type(&s, 0x0102);
	disk_super_set_root_level(&s, 3);
	ck_assert_uint_eq(b[196], 2);
	ck_assert_uint_eq(b[197], 1);
	ck_assert_uint_eq(b[198], 3);
	ck_assert_uint_eq(b[199], 0);
	disk_dev_item_set_devid(&s.dev_item, 7);
	ck_assert_uint_eq(b[201], 7);
	ck_assert_uint_eq(disk_super_csum_type(&s), 0x0102);
}
END_TEST

START_TEST(test_super_offsets)
{
	ck_assert_uint_eq(super_offset(0), 65536);
	ck_assert_uint_eq(super_offset(1), 67108864);
	ck_assert_uint_eq(super_offset(2), 274877906944);
}
END_TEST

UNIT_MAIN("format", test_integers, test_fields_stay_apart, test_super_offsets)
