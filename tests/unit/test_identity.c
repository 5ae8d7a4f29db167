/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_identity.c - numbers for inodes: the rule, its inverse, and that none repeats.
 */
#include "fs/identity.h"

#include "tests/unit/unit.h"

#define MOUNTED UINT64_C(300)

static uint64_t fold(uint64_t subvol, uint64_t ino)
{
	uint64_t number = 0;

	unit_ok(identity_fold(MOUNTED, (struct ino_id){subvol, ino}, &number));
	return number;
}

START_TEST(mounted_subvolume_keeps_its_numbers)
{
	uint64_t nodeid;

	ck_assert_uint_eq(fold(MOUNTED, 256), 256);
	ck_assert_uint_eq(fold(MOUNTED, 12345678901), 12345678901);
	ck_assert_uint_eq(fold(MOUNTED, (UINT64_C(1) << 62) - 1), (UINT64_C(1) << 62) - 1);
	unit_ok(identity_nodeid(MOUNTED, (struct ino_id){MOUNTED, 256}, &nodeid));
	ck_assert_uint_eq(nodeid, 1);
	unit_ok(identity_nodeid(MOUNTED, (struct ino_id){MOUNTED, 257}, &nodeid));
	ck_assert_uint_eq(nodeid, 257);
}
END_TEST

START_TEST(others_are_folded_by_the_written_rule)
{
	/* class 0: 11 bits of subvolume, 48 of inode */
	ck_assert_uint_eq(fold(5, 256), UINT64_C(1) << 62 | UINT64_C(5) << 48 | 256);
	ck_assert_uint_eq(fold(2047, 257), UINT64_C(1) << 62 | UINT64_C(2047) << 48 | 257);
	/* class 1: 15 and 44 */
	ck_assert_uint_eq(fold(2048, 257),
			  UINT64_C(1) << 62 | UINT64_C(1) << 59 | UINT64_C(2048) << 44 | 257);
	/* class 7: 48 and 11 */
	ck_assert_uint_eq(fold((UINT64_C(1) << 48) - 1, 2047), UINT64_C(1) << 62 |
			  UINT64_C(7) << 59 | ((UINT64_C(1) << 48) - 1) << 11 | 2047);
	/* a stand-in, also in the mounted subvolume */
	ck_assert_uint_eq(fold(MOUNTED, standin_ino(260)),
			  UINT64_C(3) << 62 | MOUNTED << 48 | 260);
}
END_TEST

static const uint64_t subvols[] = {
	5, 256, 257, MOUNTED, 2047, 2048, 32767, 32768, 1u << 19, 1u << 23, (1u << 23) - 1, 1u << 27,
	UINT64_C(1) << 31, UINT64_C(1) << 39, (UINT64_C(1) << 48) - 1, UINT64_C(1) << 48, UINT64_MAX,
};

static const uint64_t inodes[] = {
	1, 2, 255, 256, 257, 2047, 2048, 65535, 1u << 20, 1u << 28, UINT64_C(1) << 32,
	(UINT64_C(1) << 36) - 1, UINT64_C(1) << 36, UINT64_C(1) << 40, UINT64_C(1) << 44,
	(UINT64_C(1) << 48) - 1, UINT64_C(1) << 48, (UINT64_C(1) << 62) - 1, UINT64_C(1) << 62,
	(UINT64_C(1) << 62) | 256, (UINT64_C(1) << 62) | 300, UINT64_C(1) << 63, UINT64_MAX,
};

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

START_TEST(numbers_are_unique_and_reversible)
{
	static uint64_t seen[ARRAY_COUNT(subvols) * ARRAY_COUNT(inodes)];
	size_t count = 0;

	for (size_t s = 0; s < ARRAY_COUNT(subvols); s++) {
		for (size_t i = 0; i < ARRAY_COUNT(inodes); i++) {
			struct ino_id id = {subvols[s], inodes[i]}, back;
			uint64_t nodeid, number;

			if (identity_nodeid(MOUNTED, id, &nodeid) < 0)
				continue;
			unit_ok(identity_fold(MOUNTED, id, &number));
			ck_assert_uint_ne(number, 0);
			unit_ok(identity_unfold(MOUNTED, nodeid, &back));
			ck_assert_uint_eq(back.subvol, id.subvol);
			ck_assert_uint_eq(back.ino, id.ino);
			seen[count++] = nodeid;
		}
	}
	ck_assert_uint_gt(count, 150);
	qsort(seen, count, sizeof(seen[0]), compare);
	for (size_t i = 1; i < count; i++)
		ck_assert_uint_ne(seen[i - 1], seen[i]);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
	uint64_t number = 77;

	unit_err(identity_fold(MOUNTED, (struct ino_id){MOUNTED, UINT64_C(1) << 63}, &number),
		 -EOVERFLOW);
	unit_err(identity_fold(MOUNTED, (struct ino_id){2048, UINT64_C(1) << 44}, &number), -EOVERFLOW);
	unit_err(identity_fold(MOUNTED, (struct ino_id){UINT64_C(1) << 48, 256}, &number), -EOVERFLOW);
	unit_err(identity_fold(MOUNTED, (struct ino_id){MOUNTED, 0}, &number), -EOVERFLOW);
	unit_err(identity_nodeid(MOUNTED, (struct ino_id){MOUNTED, 1}, &number), -EOVERFLOW);
	ck_assert_uint_eq(number, 77);
}
END_TEST

START_TEST(numbers_of_nobody_are_stale)
{
	static const uint64_t nobody[] = {
		0,
		256,						/* the root's is 1 */
		UINT64_C(1) << 62,				/* subvolume 0, inode 0 */
		UINT64_C(1) << 62 | MOUNTED << 48 | 257,	/* the mounted one is not folded */
		UINT64_C(1) << 62 | UINT64_C(1) << 59 | UINT64_C(5) << 44 | 257, /* class 0 would do */
		UINT64_C(1) << 63 | 257,
		UINT64_C(3) << 62 | UINT64_C(1) << 59 | UINT64_C(5) << 44 | 257,
	};
	struct ino_id id = {1, 1};

	for (size_t i = 0; i < ARRAY_COUNT(nobody); i++)
		unit_err(identity_unfold(MOUNTED, nobody[i], &id), -ESTALE);
	ck_assert_uint_eq(id.subvol, 1);
}
END_TEST

/* Any 64 bits are either somebody's and fold back to themselves, or refused. */
START_TEST(random_numbers_fold_back)
{
	uint64_t numbers[4096];

	unit_fill(numbers, sizeof(numbers), 1);
	for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
		uint64_t nodeid = numbers[i] >> (i % 64), again;
		struct ino_id id;

		if (identity_unfold(MOUNTED, nodeid, &id) < 0)
			continue;
		unit_ok(identity_nodeid(MOUNTED, id, &again));
		ck_assert_uint_eq(again, nodeid);
	}
}
END_TEST

UNIT_MAIN("identity", mounted_subvolume_keeps_its_numbers, others_are_folded_by_the_written_rule,
	  numbers_are_unique_and_reversible, what_does_not_fit_is_refused,
	  numbers_of_nobody_are_stale, random_numbers_fold_back)
