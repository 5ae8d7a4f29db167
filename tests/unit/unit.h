/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/unit.h - what every unit test file shares: its main() and a scratch folder.
 *
 * A file tests/unit/test_NAME.c holds START_TEST functions and ends with
 *
 *	UNIT_MAIN("NAME", test_one, test_two)
 *
 * and NAME is added to the list in tests/unit/meson.build. Each test runs in a process of its own
 * (Check forks), so no test may start an RCU thread before that.
 */
#ifndef COWFS_TESTS_UNIT_H
#define COWFS_TESTS_UNIT_H

#include "io/util.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define UNIT_MAIN(name, ...)								\
	int main(void)									\
	{										\
		const TTest *const unit_tests[] = {__VA_ARGS__};			\
		Suite *unit_suite = suite_create(name);					\
		TCase *unit_case = tcase_create(name);					\
		SRunner *unit_runner;							\
		int unit_failed;							\
											\
		tcase_set_timeout(unit_case, 120);					\
		for (size_t unit_i = 0; unit_i < ARRAY_COUNT(unit_tests); unit_i++)	\
			tcase_add_test(unit_case, unit_tests[unit_i]);			\
		suite_add_tcase(unit_suite, unit_case);					\
		unit_runner = srunner_create(unit_suite);				\
		srunner_run_all(unit_runner, CK_NORMAL);				\
		unit_failed = srunner_ntests_failed(unit_runner);			\
		srunner_free(unit_runner);						\
		return unit_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;			\
	}

/* A call that must return 0. */
#define unit_ok(call)									\
	do {										\
		int unit_res = (call);							\
		ck_assert_msg(unit_res == 0, "%s gave %d (%s)", #call, unit_res,	\
			      strerror(-unit_res));					\
	} while (0)

/* A call that must return this error (negative). */
#define unit_err(call, err)								\
	do {										\
		int unit_res = (call);							\
		ck_assert_msg(unit_res == (err), "%s gave %d, not %d", #call, unit_res, (err)); \
	} while (0)

/* Bytes that look random but are the same for the same seed. */
static inline void unit_fill(void *buf, size_t len, uint64_t seed)
{
	uint8_t *at = buf;

	for (size_t i = 0; i < len; i++) {
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		at[i] = (uint8_t)(seed >> 56);
	}
}

/* The path of a new empty file; unlink() it. */
static inline void unit_temp_file(char path[64])
{
	int fd;

	strcpy(path, "/tmp/cowfs-unit-XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

#endif
