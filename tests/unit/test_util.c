/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_util.c - arithmetic and scoped cleanup (io/util.h).
 */
#include "io/util.h"
#include "tests/unit/unit.h"

#include <fcntl.h>

START_TEST(test_arithmetic)
{
	uint64_t sum = 5;

	ck_assert_uint_eq(align_down(8191, 4096), 4096);
	ck_assert_uint_eq(align_up(4097, 4096), 8192);
	ck_assert_uint_eq(align_up(4096, 4096), 4096);
	ck_assert_uint_eq(align_up(0, 4096), 0);
	ck_assert(is_aligned(UINT64_MAX - 4095, 4096));
	ck_assert(!is_aligned(1, 2));
	ck_assert(is_pow2(1) && is_pow2(1ULL << 63));
	ck_assert(!is_pow2(0) && !is_pow2(3));
	ck_assert_uint_eq(log2_pow2(1ULL << 40), 40);
	ck_assert_uint_eq(div_round_up(UINT64_MAX, 2), 1ULL << 63);
	ck_assert_uint_eq(div_round_up(0, 3), 0);
	ck_assert(!add_overflows(1, 2, &sum));
	ck_assert_uint_eq(sum, 3);
	ck_assert(add_overflows(UINT64_MAX, 1, &sum));
	ck_assert_uint_eq(min_u64(UINT64_MAX, 1), 1);
	ck_assert_uint_eq(max_u32(UINT32_MAX, 1), UINT32_MAX);
}
END_TEST

START_TEST(test_cleanup)
{
	int kept;
	char *text = strdup("text"), *taken;

	{
		scoped(closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		scoped(closep) int none = -1;

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(none, -1);
		kept = fd;
	}
	ck_assert_int_eq(fcntl(kept, F_GETFD), -1);
	{
		scoped(freep) char *owner = text;

		taken = take(owner);
		ck_assert_ptr_null(owner);
	}
	ck_assert_str_eq(taken, "text");
	free(taken);
}
END_TEST

UNIT_MAIN("util", test_arithmetic, test_cleanup)
