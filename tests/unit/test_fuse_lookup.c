/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_fuse_lookup.c - the table of lookup counts against an array.
 */
#include "fs/fuse_lookup.h"

#include <pthread.h>

#include "tests/unit/unit.h"

START_TEST(counts_go_up_and_down)
{
	struct lookup_table *t;

	unit_ok(lookup_table_new(&t));
	ck_assert_uint_eq(lookup_count(t, 257), 0);
	ck_assert_uint_eq(lookup_drop(t, 257, 1), 0);
	unit_ok(lookup_add(t, 257));
	unit_ok(lookup_add(t, 257));
	unit_ok(lookup_add(t, 1));
	ck_assert_uint_eq(lookup_count(t, 257), 2);
	ck_assert_uint_eq(lookup_nodes(t), 2);
	ck_assert_uint_eq(lookup_drop(t, 257, 1), 1);
	ck_assert_uint_eq(lookup_drop(t, 257, 1), 0);
	ck_assert_uint_eq(lookup_count(t, 257), 0);
	ck_assert_uint_eq(lookup_nodes(t), 1);
	ck_assert_uint_eq(lookup_drop(t, 1, 1000), 0);
	ck_assert_uint_eq(lookup_nodes(t), 0);
	lookup_table_free(t);
	lookup_table_free(NULL);
}
END_TEST

#define MODEL_IDS 3000u
#define MODEL_STEPS 200000u

START_TEST(random_steps_match_an_array)
{
	static uint64_t model[MODEL_IDS];
	uint64_t random[1024], known = 0;
	struct lookup_table *t;

	unit_ok(lookup_table_new(&t));
	for (unsigned step = 0; step < MODEL_STEPS; step++) {
		uint64_t r, id, n;

		if (step % ARRAY_COUNT(random) == 0)
			unit_fill(random, sizeof(random), step);
		r = random[step % ARRAY_COUNT(random)];
		id = r % MODEL_IDS;
		/* The first half mostly adds, the second mostly drops: the table grows and shrinks. */
		if ((r >> 32) % 4 == 0 ? step < MODEL_STEPS / 2 : step >= MODEL_STEPS / 2) {
			n = (r >> 40) % 3 + 1;
			model[id] = model[id] > n ? model[id] - n : 0;
			ck_assert_uint_eq(lookup_drop(t, id * 4096 + 1, n), model[id]);
		} else {
			unit_ok(lookup_add(t, id * 4096 + 1));
			model[id]++;
		}
	}
	for (unsigned id = 0; id < MODEL_IDS; id++) {
		ck_assert_uint_eq(lookup_count(t, id * UINT64_C(4096) + 1), model[id]);
		known += model[id] != 0;
	}
	ck_assert_uint_eq(lookup_nodes(t), known);
	lookup_table_free(t);
}
END_TEST

START_TEST(memory_is_bounded_and_given_back)
{
	const uint64_t count = 200000;
	struct lookup_table *t;
	uint64_t empty;

	unit_ok(lookup_table_new(&t));
	empty = lookup_bytes(t);
	for (uint64_t id = 256; id < 256 + count; id++)
		unit_ok(lookup_add(t, id));
	ck_assert_uint_le(lookup_bytes(t), count * 44 + empty);
	for (uint64_t id = 256; id < 256 + count; id++)
		ck_assert_uint_eq(lookup_drop(t, id, 1), 0);
	ck_assert_uint_le(lookup_bytes(t), empty);
	lookup_table_free(t);
}
END_TEST

#define THREADS 4u
#define ROUNDS 50000u

static void *add_and_drop(void *arg)
{
	struct lookup_table *t = arg;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		must(lookup_add(t, i % 977 + 1) == 0);
		if (i >= 977)
			lookup_drop(t, i % 977 + 1, 1);
	}
	return NULL;
}

START_TEST(threads_lose_no_count)
{
	pthread_t threads[THREADS];
	struct lookup_table *t;

	unit_ok(lookup_table_new(&t));
	for (unsigned i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, add_and_drop, t), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (uint64_t id = 1; id <= 977; id++)
		ck_assert_uint_eq(lookup_count(t, id), THREADS);
	lookup_table_free(t);
}
END_TEST

UNIT_MAIN("fuse_lookup", counts_go_up_and_down, random_steps_match_an_array,
	  memory_is_bounded_and_given_back, threads_lose_no_count)
