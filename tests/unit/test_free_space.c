/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_free_space.c - ranges in memory (alloc/free_space.h) against an array of sectors.
 */
#include "alloc/free_space.h"
#include "tests/unit/unit.h"

#define UNIT 4096u
#define SECTORS 20000u
#define BLOCK 16384u
#define BASE (3ULL << 30)

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return *seed >> 33;
}

static uint64_t at(uint64_t sector)
{
	return BASE + sector * UNIT;
}

/* Everything the set says, from the array. */
static void check_against(const struct free_space *fs, const bool *model)
{
	uint64_t bytes = 0, runs = 0, whole = 0, pos = BASE, s, e;

	for (uint64_t i = 0; i < SECTORS; i++) {
		bytes += model[i] ? UNIT : 0;
		runs += model[i] && (i == 0 || !model[i - 1]);
		if (i % 4 == 0 && i + 4 <= SECTORS)
			whole += model[i] && model[i + 1] && model[i + 2] && model[i + 3];
	}
	ck_assert_uint_eq(fs->bytes, bytes);
	ck_assert_uint_eq(fs->runs, runs);
	ck_assert_uint_eq(fs->whole, whole);
	for (uint64_t i = 0; i < SECTORS;) {
		uint64_t end = i;

		while (end < SECTORS && model[end])
			end++;
		if (end > i) {
			ck_assert(free_space_run(fs, pos, &s, &e));
			ck_assert_uint_eq(s, at(i));
			ck_assert_uint_eq(e, at(end));
			ck_assert(free_space_run(fs, at(end - 1), &s, &e));
			ck_assert_uint_eq(s, at(i));
			ck_assert_uint_ge(fs->longest, e - s);
			pos = e;
		}
		i = end + 1;
	}
	ck_assert(!free_space_run(fs, pos, &s, &e));
}

static bool model_all(const bool *model, uint64_t first, uint64_t n, bool value)
{
	for (uint64_t i = first; i < first + n; i++)
		if (model[i] != value)
			return false;
	return true;
}

static void step(struct free_space *fs, bool *model, uint64_t *seed, uint64_t longest, unsigned add)
{
	uint64_t first = next_random(seed) % SECTORS;
	uint64_t n = 1 + next_random(seed) % min_u64(longest, SECTORS - first);
	bool value = next_random(seed) % 100 < add;
	int err;

	if (value)
		err = free_space_add(fs, at(first), n * UNIT);
	else
		err = free_space_remove(fs, at(first), n * UNIT);
	if (model_all(model, first, n, !value)) {
		ck_assert_int_eq(err, 0);
		for (uint64_t i = first; i < first + n; i++)
			model[i] = value;
	} else {
		ck_assert_int_eq(err, value ? -EINVAL : -ENOENT);
	}
}

START_TEST(test_against_model)
{
	static bool model[SECTORS];
	struct free_space fs;
	uint64_t seed = 7;
	bool saw_bits = false;

	free_space_init(&fs, BASE, (uint64_t)SECTORS * UNIT, UNIT, BLOCK);
	for (unsigned i = 0; i < 60000; i++) {
		/* Short ranges fragment it until it becomes a bitmap, long ones clear it again. */
		bool build = i < 25000 || (i > 40000 && i < 55000);

		step(&fs, model, &seed, build ? 2 : 900, build ? 70 : 50);
		saw_bits |= fs.bits != NULL;
		if (i % 3000 == 0)
			check_against(&fs, model);
		if (!build) {
			uint64_t bytes, first = next_random(&seed) % (SECTORS - 500), had = 0;

			for (uint64_t k = first; k < first + 500; k++) {
				had += model[k] ? UNIT : 0;
				model[k] = false;
			}
			unit_ok(free_space_remove_any(&fs, at(first), 500ull * UNIT, &bytes));
			ck_assert_uint_eq(bytes, had);
		}
	}
	check_against(&fs, model);
	ck_assert(saw_bits);
	ck_assert_msg(fs.runs > free_space_runs_max(&fs) / 4 || fs.bits == NULL,
		      "a bitmap of %llu ranges", (unsigned long long)fs.runs);
	free_space_done(&fs);
	ck_assert_uint_eq(fs.bytes, 0);
}
END_TEST

/* Free: [0,10) [20,24) [40,41) [100,400), in sectors. */
static void fill_some(struct free_space *fs)
{
	free_space_init(fs, BASE, (uint64_t)SECTORS * UNIT, UNIT, BLOCK);
	unit_ok(free_space_add(fs, at(100), 300 * UNIT));
	unit_ok(free_space_add(fs, at(0), 10 * UNIT));
	unit_ok(free_space_add(fs, at(20), 4 * UNIT));
	unit_ok(free_space_add(fs, at(40), UNIT));
}

/* The same as a bitmap: many single sectors far behind. */
static void fill_bits(struct free_space *fs)
{
	fill_some(fs);
	for (uint64_t i = 0; fs->bits == NULL; i++)
		unit_ok(free_space_add(fs, at(10000 + 2 * i), UNIT));
}

static void check_queries(struct free_space *fs)
{
	struct free_query q = {.to = UINT64_MAX, .min = 2 * UNIT, .want = 2 * UNIT, .align = UNIT};
	uint64_t s = 0, len = 0;

	ck_assert(free_space_first(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(0));
	q.from = at(9);
	ck_assert(free_space_first(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(20));
	q.run_min = 5 * UNIT;
	ck_assert(free_space_first(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(100));
	q.to = at(100);
	ck_assert(!free_space_first(fs, &q, &s, &len));

	/* The tightest range that holds all, or the longest that holds a part. */
	q = (struct free_query){.to = UINT64_MAX, .min = UNIT, .want = 4 * UNIT, .align = UNIT};
	ck_assert(free_space_best(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(20));
	ck_assert_uint_eq(len, 4 * UNIT);
	q.want = 1000 * UNIT;
	ck_assert(free_space_best(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(100));
	ck_assert_uint_eq(len, 300 * UNIT);
	q.min = 301 * UNIT;
	ck_assert(!free_space_best(fs, &q, &s, &len));

	/* Aligned: [20,24) is a block, [0,10) holds two and two sectors that are none. */
	q = (struct free_query){.from = at(10), .to = UINT64_MAX, .min = BLOCK, .want = BLOCK,
				.align = BLOCK};
	ck_assert(free_space_first(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(20));
	q = (struct free_query){.to = UINT64_MAX, .min = UNIT, .want = UNIT, .align = UNIT,
				.spare_blocks = true};
	ck_assert(free_space_first(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(8));
	q.from = at(10);
	ck_assert(free_space_first(fs, &q, &s, &len));
	ck_assert_uint_eq(s, at(40));
}

START_TEST(test_queries_on_ranges)
{
	struct free_space fs;

	fill_some(&fs);
	check_queries(&fs);
	ck_assert(fs.bits == NULL);
	free_space_done(&fs);
}
END_TEST

START_TEST(test_queries_on_bitmap)
{
	struct free_space fs;

	fill_bits(&fs);
	check_queries(&fs);
	ck_assert(fs.bits != NULL);
	free_space_done(&fs);
}
END_TEST

START_TEST(test_refuses_bad_ranges)
{
	struct free_space fs, other;

	fill_some(&fs);
	unit_err(free_space_add(&fs, at(0) - UNIT, UNIT), -EINVAL);
	unit_err(free_space_add(&fs, at(SECTORS), UNIT), -EINVAL);
	unit_err(free_space_add(&fs, at(SECTORS - 1), 2 * UNIT), -EINVAL);
	unit_err(free_space_add(&fs, at(50) + 1, UNIT), -EINVAL);
	unit_err(free_space_add(&fs, at(50), 0), -EINVAL);
	unit_err(free_space_add(&fs, at(12), 9 * UNIT), -EINVAL);
	unit_err(free_space_add(&fs, at(50), UINT64_MAX - UNIT + 1), -EINVAL);
	unit_err(free_space_remove(&fs, at(9), 2 * UNIT), -ENOENT);
	ck_assert_uint_eq(fs.bytes, 315 * UNIT);

	free_space_init(&other, BASE, (uint64_t)SECTORS * UNIT, UNIT, BLOCK);
	free_space_move(&fs, &other);
	ck_assert_uint_eq(fs.bytes, 0);
	ck_assert_uint_eq(other.bytes, 315 * UNIT);
	free_space_done(&other);
	free_space_done(&fs);
}
END_TEST

UNIT_MAIN("free_space", test_against_model, test_queries_on_ranges, test_queries_on_bitmap,
	  test_refuses_bad_ranges)
