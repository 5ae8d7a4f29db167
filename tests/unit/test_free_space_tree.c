/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_free_space_tree.c - free space on disk (alloc/free_space_tree.h), against a model.
 */
#include "alloc/free_space_priv.h"
#include "io/format.h"
#include "io/log.h"
#include "tests/unit/fake_space.h"
#include "tests/unit/unit.h"

static void ignore_line(enum log_level level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

/* The group that the tests change; its sectors, 1 = free. */
static struct group_info first_group(struct fake_fs *fs)
{
	struct group_info group = {0};

	unit_ok(group_find(&fs->sp, FAKE_BASE, &group));
	return group;
}

struct walk {
	uint64_t start;
	uint8_t free[FAKE_GROUP_SECTORS];
	uint32_t runs;
};

static int walk_fn(void *arg, uint64_t start, uint64_t len)
{
	struct walk *w = arg;

	w->runs++;
	for (uint64_t i = 0; i < len / FAKE_SECTOR; i++)
		w->free[(start - w->start) / FAKE_SECTOR + i] = 1;
	return 0;
}

/* The tree says what the model says, and its count is right. */
static uint32_t compare(struct fake_fs *fs, const uint8_t *model, bool *ret_bitmaps)
{
	struct group_info group = first_group(fs);
	struct walk w = {.start = group.start};
	struct fst_group fg;
	uint32_t runs = 0;

	unit_ok(free_space_tree_load(&fs->sp, &group, walk_fn, &w));
	ck_assert_mem_eq(w.free, model, FAKE_GROUP_SECTORS);
	for (unsigned s = 0; s < FAKE_GROUP_SECTORS; s++)
		runs += model[s] && (s == 0 || !model[s - 1]);
	ck_assert_uint_eq(w.runs, runs);
	unit_ok(fst_open(&fs->sp, &fs->tx, &group, &fg));
	ck_assert_uint_eq(fg.extent_count, runs);
	*ret_bitmaps = (fg.flags & FREE_SPACE_USING_BITMAPS) != 0;
	return runs;
}

static void change(struct fake_fs *fs, uint8_t *model, unsigned at, unsigned n, bool free)
{
	struct group_info group = first_group(fs);
	uint64_t start = group.start + (uint64_t)at * FAKE_SECTOR, len = (uint64_t)n * FAKE_SECTOR;

	if (free)
		unit_ok(fst_add(&fs->sp, &fs->tx, &group, start, len));
	else
		unit_ok(fst_remove(&fs->sp, &fs->tx, &group, start, len));
	memset(model + at, free, n);
}

START_TEST(test_thresholds)
{
	struct space sp = {.sectorsize = 4096};

	/* 1 GiB: 128 bitmaps of 256 bytes and an item head of 25 each. */
	ck_assert_uint_eq(fst_high_threshold(&sp, 1 << 30), 128 * 281 / 25);
	ck_assert_uint_eq(fst_low_threshold(&sp, 1 << 30), 128 * 281 / 25 - 100);
	ck_assert_uint_eq(fst_high_threshold(&sp, 8 << 20), 281 / 25);
	ck_assert_uint_eq(fst_low_threshold(&sp, 8 << 20), 0);
}
END_TEST

/* Of a test group: two bitmaps. The lower threshold is 0. */
#define FST_HIGH (2 * 281 / 25)

START_TEST(test_random_changes)
{
	uint8_t model[FAKE_GROUP_SECTORS];
	struct fake_fs *fs = fake_new(true, true);
	unsigned to_bitmaps = 0;
	bool bitmaps = false;
	uint64_t seed = 7;

	memset(model, 1, sizeof(model));
	for (unsigned i = 0; i < 3000; i++) {
		unsigned at, runs, n = 1;
		bool was = bitmaps;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		at = (unsigned)(seed >> 33) % FAKE_GROUP_SECTORS;
		/* The whole run, or a piece of it, turns over. */
		while (at + n < FAKE_GROUP_SECTORS && model[at + n] == model[at] && n < seed % 40 + 1)
			n++;
		change(fs, model, at, n, !model[at]);
		runs = compare(fs, model, &bitmaps);
		to_bitmaps += bitmaps && !was;
		if (!bitmaps)
			ck_assert_uint_le(runs, FST_HIGH);
		else if (!was)
			ck_assert_uint_gt(runs, FST_HIGH);
	}
	ck_assert_uint_gt(to_bitmaps, 0);
	fake_free(fs);
}
END_TEST

START_TEST(test_bitmaps_and_back)
{
	uint8_t model[FAKE_GROUP_SECTORS];
	/* A group of 16 MiB has no lower threshold but 0: test the turn itself. */
	struct fake_fs *fs = fake_new(true, true);
	struct group_info group = first_group(fs);
	struct fst_group fg;
	bool bitmaps;

	memset(model, 1, sizeof(model));
	for (unsigned at = 3; at < FAKE_GROUP_SECTORS; at += 150)
		change(fs, model, at, 2, false);
	compare(fs, model, &bitmaps);
	ck_assert(bitmaps);
	/* Across the border of two bitmaps. */
	change(fs, model, FREE_SPACE_BITMAP_BITS - 5, 10, false);
	compare(fs, model, &bitmaps);
	change(fs, model, FREE_SPACE_BITMAP_BITS - 5, 10, true);
	compare(fs, model, &bitmaps);
	unit_ok(fst_open(&fs->sp, &fs->tx, &group, &fg));
	unit_ok(fst_to_extents(&fg));
	compare(fs, model, &bitmaps);
	ck_assert(!bitmaps);
	unit_ok(fst_to_bitmaps(&fg));
	compare(fs, model, &bitmaps);
	ck_assert(bitmaps);
	fake_free(fs);
}
END_TEST

START_TEST(test_turning_points)
{
	struct fake_fs *fs = fake_new(true, true);
	struct group_info group = {.start = 1ULL << 40, .len = 128 << 20};
	uint32_t high = fst_high_threshold(&fs->sp, group.len);
	uint32_t low = fst_low_threshold(&fs->sp, group.len);
	struct fst_group fg;

	ck_assert_uint_eq(low, high - FST_HYSTERESIS);
	unit_ok(free_space_tree_add_group(&fs->sp, &fs->tx, &group));
	/* Each sector taken out makes one run more. */
	for (uint64_t i = 0; i < high; i++) {
		unit_ok(fst_open(&fs->sp, &fs->tx, &group, &fg));
		ck_assert_uint_eq(fg.extent_count, i + 1);
		ck_assert_uint_eq(fg.flags, 0);
		unit_ok(fst_remove(&fs->sp, &fs->tx, &group,
				   group.start + (2 * i + 1) * FAKE_SECTOR, FAKE_SECTOR));
	}
	for (uint64_t i = high; i-- > 0;) {
		unit_ok(fst_open(&fs->sp, &fs->tx, &group, &fg));
		ck_assert_uint_eq(fg.extent_count, i + 2);
		ck_assert_uint_eq(fg.flags, i + 2 >= low ? FREE_SPACE_USING_BITMAPS : 0);
		unit_ok(fst_add(&fs->sp, &fs->tx, &group, group.start + (2 * i + 1) * FAKE_SECTOR,
				FAKE_SECTOR));
	}
	fake_free(fs);
}
END_TEST

START_TEST(test_wrong_changes)
{
	struct fake_fs *fs = fake_new(true, true);
	struct group_info group = first_group(fs);
	uint8_t model[FAKE_GROUP_SECTORS];
	bool bitmaps;

	log_set_sink(ignore_line, NULL);
	memset(model, 1, sizeof(model));
	for (unsigned form = 0; form < 2; form++) {
		compare(fs, model, &bitmaps);
		ck_assert_int_eq(bitmaps, form == 1);
		unit_err(fst_add(&fs->sp, &fs->tx, &group, group.start, FAKE_SECTOR), -EUCLEAN);
		if (form == 0)
			change(fs, model, 10, 10, false);
		unit_err(fst_remove(&fs->sp, &fs->tx, &group, group.start + 19 * FAKE_SECTOR,
				    2 * FAKE_SECTOR), -EUCLEAN);
		unit_err(fst_add(&fs->sp, &fs->tx, &group, group.start + 9 * FAKE_SECTOR,
				 2 * FAKE_SECTOR), -EUCLEAN);
		for (unsigned at = 100; at < 3000 && form == 0; at += 100)
			change(fs, model, at, 1, false);
	}
	fake_free(fs);
}
END_TEST

START_TEST(test_groups_come_and_go)
{
	struct fake_fs *fs = fake_new(true, true);
	struct group_info group = first_group(fs), second;
	struct walk w = {.start = group.start};
	struct fake_items before = fake_items(fs->trees.free_space), after;

	unit_ok(group_find(&fs->sp, group.start + group.len, &second));
	unit_ok(free_space_tree_remove_group(&fs->sp, &fs->tx, &group));
	after = fake_items(fs->trees.free_space);
	ck_assert_uint_eq(after.count, before.count - 2);
	fake_items_done(&before);
	fake_items_done(&after);
	log_set_sink(ignore_line, NULL);
	unit_err(free_space_tree_load(&fs->sp, &group, walk_fn, &w), -EUCLEAN);
	w.start = second.start;
	unit_ok(free_space_tree_load(&fs->sp, &second, walk_fn, &w));
	unit_ok(free_space_tree_add_group(&fs->sp, &fs->tx, &group));
	unit_err(free_space_tree_add_group(&fs->sp, &fs->tx, &group), -EUCLEAN);
	fake_free(fs);
}
END_TEST

START_TEST(test_rebuild)
{
	struct fake_fs *fs = fake_new(true, true);
	struct fake_items all;

	for (unsigned i = 0; i < 200; i++) {
		struct extent_ref ref = {.len = FAKE_SECTOR * (1 + i % 3), .root = 5, .count = 1,
					 .objectid = 257, .type = KEY_EXTENT_DATA_REF};

		ref.bytenr = fake_alloc(fs, ref.len);
		unit_ok(space_add_ref(&fs->sp, &fs->tx, &ref, true));
		if (i % 2 == 0)
			unit_ok(space_drop_ref(&fs->sp, &fs->tx, &ref));
	}
	unit_ok(fake_commit(fs));
	fake_check(fs);
	/* Something wrong in it, so that keeping it would show. */
	all = fake_items(fs->trees.free_space);
	for (unsigned i = 0; i < all.count; i++)
		if (all.items[i].key.type == KEY_FREE_SPACE_EXTENT && i % 3 == 0)
			unit_ok(tree_delete(&fs->tx, fs->trees.free_space, &all.items[i].key));
	fake_items_done(&all);
	unit_ok(free_space_tree_rebuild(&fs->sp, &fs->tx));
	unit_ok(fake_commit(fs));
	fake_check(fs);
	fake_free(fs);
}
END_TEST

UNIT_MAIN("free_space_tree", test_thresholds, test_random_changes, test_bitmaps_and_back,
	  test_turning_points, test_wrong_changes, test_groups_come_and_go, test_rebuild)
