/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_log.c - messages and reports of corruption (io/log.h, io/reason.h).
 */
#include "io/log.h"
#include "io/reason.h"
#include "tests/unit/unit.h"

static char last[2048];
static unsigned lines;

static void keep(enum log_level level, const char *line, void *arg)
{
	ck_assert_ptr_eq(arg, &lines);
	ck_assert_int_eq(level, LOG_LEVEL_ERROR);
	snprintf(last, sizeof(last), "%s", line);
	lines++;
}

START_TEST(test_level_and_sink)
{
	log_set_sink(keep, &lines);
	log_debug("not shown at first");
	ck_assert_uint_eq(lines, 0);
	log_error("%d of %s", 3, "them");
	ck_assert_str_eq(last, "3 of them");
	log_set_level(LOG_LEVEL_ERROR);
	log_warn("not shown any more");
	ck_assert_uint_eq(lines, 1);
}
END_TEST

START_TEST(test_long_line_is_cut)
{
	char *text = calloc(1, 100001);

	memset(text, 'x', 100000);
	log_set_sink(keep, &lines);
	log_error("%s", text);
	ck_assert_uint_eq(strlen(last), 1023);
	unit_err(corrupt(5, 4096, 1, "%s", text), -EUCLEAN);
	ck_assert_uint_eq(strlen(last), 1023);
	free(text);
}
END_TEST

START_TEST(test_corrupt)
{
	int err;

	log_set_sink(keep, &lines);
	err = corrupt(256, 30408704, 17, "item of %u bytes", 3u);
	ck_assert_int_eq(err, -EUCLEAN);
	ck_assert_ptr_nonnull(strstr(last, "tree 256"));
	ck_assert_ptr_nonnull(strstr(last, "block 30408704"));
	ck_assert_ptr_nonnull(strstr(last, "slot 17"));
	ck_assert_ptr_nonnull(strstr(last, "item of 3 bytes"));
	ck_assert_ptr_nonnull(strstr(last, "test_log.c:"));
	unit_err(corrupt(NO_TREE, NO_ADDRESS, NO_SLOT, "alone"), -EUCLEAN);
	ck_assert_ptr_null(strstr(last, "slot"));
	ck_assert_ptr_null(strstr(last, "block"));
}
END_TEST

START_TEST(test_corrupt_is_limited)
{
	log_set_sink(keep, &lines);
	for (unsigned i = 0; i < 10000; i++)
		ck_assert_int_eq(corrupt(5, 4096, 0, "again"), -EUCLEAN);
	/* A second may have begun in between, or two. */
	ck_assert_uint_le(lines, 3 * LOG_BURST);
	ck_assert_uint_ge(lines, LOG_BURST);
	ck_assert_uint_eq(corrupt_count(), 10000);
	usleep(1050000);
	lines = 0;
	unit_err(corrupt(5, 4096, 0, "later"), -EUCLEAN);
	ck_assert_uint_eq(lines, 1);
	ck_assert_ptr_nonnull(strstr(last, "more were not logged"));
}
END_TEST

START_TEST(test_reason)
{
	struct reason r;

	ck_assert_int_eq(reason_set(&r, -EINVAL, "%s: no", "x"), -EINVAL);
	ck_assert_str_eq(r.text, "x: no");
	ck_assert_int_eq(reason_set(NULL, -EIO, "nobody asks"), -EIO);
}
END_TEST

UNIT_MAIN("log", test_level_and_sink, test_long_line_is_cut, test_corrupt, test_corrupt_is_limited,
	  test_reason)
