/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_fault.c - named fault points (io/fault.h).
 */
#include "io/fault.h"
#include "io/log.h"
#include "tests/unit/unit.h"

START_TEST(test_none)
{
	unsetenv("COWFS_FAULT");
	ck_assert(!fault_point("a"));
	ck_assert_int_eq(fault_state, 0);
}
END_TEST

START_TEST(test_environment)
{
	setenv("COWFS_FAULT", "a,b:3,c:=2", 1);
	for (int i = 1; i <= 5; i++) {
		ck_assert(fault_point("a"));
		ck_assert(fault_point("b") == (i >= 3));
		ck_assert(fault_point("c") == (i == 2));
		ck_assert(!fault_point("ab"));
	}
}
END_TEST

START_TEST(test_set)
{
	setenv("COWFS_FAULT", "a", 1);
	unit_ok(fault_set("b"));
	ck_assert(!fault_point("a"));
	ck_assert(fault_point("b"));
	unit_err(fault_set("c:0"), -EINVAL);
	unit_err(fault_set("c:x"), -EINVAL);
	unit_err(fault_set(":1"), -EINVAL);
	unit_err(fault_set("c:1x"), -EINVAL);
	ck_assert(fault_point("b"));
	unit_ok(fault_set(NULL));
	ck_assert(!fault_point("b"));
}
END_TEST

static void drop_line(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	++*(int *)arg;
}

START_TEST(test_senseless_environment)
{
	int lines = 0;

	log_set_sink(drop_line, &lines);
	setenv("COWFS_FAULT", "a:b", 1);
	ck_assert(!fault_point("a"));
	ck_assert_int_eq(lines, 1);
}
END_TEST

UNIT_MAIN("fault", test_none, test_environment, test_set, test_senseless_environment)
