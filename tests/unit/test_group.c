/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_group.c - block groups in memory: loading, pinning, and agreement with the trees.
 */
#include "io/log.h"
#include "tests/unit/engine.h"

#define MIB (1ULL << 20)

static void ignore_line(enum log_level level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

/* Items and extents come and go over some commits; everything must agree after each. */
static void churn(const struct engine_args *args)
{
	static struct { uint64_t bytenr, len; } extents[64];
	struct engine e;
	uint64_t seed = 3;

	memset(extents, 0, sizeof(extents));
	engine_new(&e, args);
	engine_check(&e);
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < 150; i++) {
			uint64_t n;

			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			n = seed >> 40;
			unit_ok(engine_put(&e, 1000 + n % 500, 100 + (uint32_t)(n % 1500)));
			n %= 64;
			if (extents[n].len != 0) {
				unit_ok(engine_unwrite(&e, n * MIB, extents[n].bytenr, extents[n].len));
				extents[n].len = 0;
			} else {
				unit_ok(engine_write(&e, n * MIB, 4096 * (1 + n), &extents[n].bytenr,
						     &extents[n].len));
			}
		}
		unit_ok(engine_commit(&e));
		engine_check(&e);
		if (round % 2 == 1) {
			engine_reload(&e, false);
			engine_check(&e);
		}
	}
	engine_free(&e);
}

START_TEST(test_churn_single)
{
	churn(&(struct engine_args){.device_bytes = 256 * MIB});
}
END_TEST

START_TEST(test_churn_4k_rotational)
{
	churn(&(struct engine_args){.device_bytes = 256 * MIB, .leafsize = 4096, .nodesize = 4096,
				    .dup = true, .policy = POLICY_ROTATIONAL});
}
END_TEST

START_TEST(test_churn_mixed_64k)
{
	churn(&(struct engine_args){.device_bytes = 256 * MIB, .leafsize = 65536, .nodesize = 65536,
				    .mixed = true, .metadata_bytes = 48 * MIB});
}
END_TEST

START_TEST(test_churn_two_sizes)
{
	churn(&(struct engine_args){.device_bytes = 256 * MIB, .leafsize = 4096, .nodesize = 65536});
	churn(&(struct engine_args){.device_bytes = 256 * MIB, .leafsize = 65536, .nodesize = 4096});
}
END_TEST

START_TEST(test_churn_without_fst)
{
	churn(&(struct engine_args){.device_bytes = 256 * MIB, .no_fst = true});
}
END_TEST

/* Freed in N: not free for N + 1 until N is out. */
START_TEST(test_pinned_until_done)
{
	struct engine e;
	struct group_info info;
	uint64_t bytenr, len, free_before;
	struct pool *pool;

	engine_new(&e, &(struct engine_args){.device_bytes = 128 * MIB});
	unit_ok(engine_write(&e, 0, MIB, &bytenr, &len));
	unit_ok(engine_commit(&e));
	unit_ok(group_find(e.sp, bytenr, &info));
	ck_assert_uint_eq(info.used, MIB);

	pool = groups_pool(e.sp->groups, BG_DATA);
	free_before = pool_free_locked(pool);
	unit_ok(group_account_free(e.sp, bytenr, MIB));
	unit_ok(space_pin(e.sp, 50, bytenr, MIB));
	groups_unpin(e.sp, 49, false);
	ck_assert_uint_eq(pool->pinned, MIB);
	ck_assert_uint_eq(pool_free_locked(pool), free_before);
	groups_unpin(e.sp, 50, false);
	ck_assert_uint_eq(pool->pinned, 0);
	ck_assert_uint_eq(pool_free_locked(pool), free_before + MIB);
	mutex_lock(&e.sp->groups->lock);
	ck_assert(groups_consistent_locked(e.sp->groups));
	mutex_unlock(&e.sp->groups->lock);
	engine_free(&e);
}
END_TEST

START_TEST(test_bad_accounting_is_corruption)
{
	struct engine e;
	uint64_t bytenr, len;

	log_set_sink(ignore_line, NULL);
	engine_new(&e, &(struct engine_args){.device_bytes = 128 * MIB});
	unit_ok(engine_write(&e, 0, MIB, &bytenr, &len));
	unit_ok(engine_commit(&e));
	unit_err(group_account_free(e.sp, 1ULL << 50, 4096), -EUCLEAN);
	unit_err(group_account_free(e.sp, bytenr, 9 * MIB), -EUCLEAN);
	unit_err(group_account_free(e.sp, bytenr, 2 * MIB), -EUCLEAN);
	unit_err(group_account_alloc(e.sp, bytenr, MIB), -EUCLEAN);
	unit_ok(space_pin(e.sp, 9, bytenr, MIB));
	unit_err(space_pin(e.sp, 9, bytenr, 4096), -EUCLEAN);
	engine_free(&e);
}
END_TEST

/* A free space tree that calls used space free: nothing is allocated from that group. */
START_TEST(test_lying_free_space_tree)
{
	struct engine e;
	struct txn_handle tx;
	struct group_info info;
	struct key key;
	struct disk_free_space_info fsi = {0};
	uint64_t bytenr, len;
	struct group *g;

	log_set_sink(ignore_line, NULL);
	engine_new(&e, &(struct engine_args){.device_bytes = 128 * MIB});
	unit_ok(engine_write(&e, 0, MIB, &bytenr, &len));
	unit_ok(engine_commit(&e));
	unit_ok(group_find(e.sp, bytenr, &info));
	unit_ok(engine_start(&e, &tx, 4, RSV_NORMAL));
	key = key_make(bytenr + MIB, KEY_FREE_SPACE_EXTENT, info.start + info.len - bytenr - MIB);
	unit_ok(tree_delete(&tx, e.trees.free_space, &key));
	key = key_make(info.start, KEY_FREE_SPACE_EXTENT, info.len);
	unit_ok(tree_insert(&tx, e.trees.free_space, &key, NULL, 0));
	key = key_make(info.start, KEY_FREE_SPACE_INFO, info.len);
	disk_free_space_info_set_extent_count(&fsi, 1);
	unit_ok(tree_put(&tx, e.trees.free_space, &key, &fsi, sizeof(fsi)));
	engine_end(&e, &tx);
	unit_ok(engine_commit(&e));
	engine_reload(&e, false);
	unit_ok(group_load(e.sp, info.start));
	mutex_lock(&e.sp->groups->lock);
	g = group_find_locked(e.sp->groups, info.start);
	ck_assert_int_eq(g->state, GROUP_BROKEN);
	mutex_unlock(&e.sp->groups->lock);
	/* Another group takes the data. */
	unit_ok(engine_write(&e, MIB, MIB, &bytenr, &len));
	ck_assert(bytenr < info.start || bytenr >= info.start + info.len);
	engine_free(&e);
}
END_TEST

/* No range over a superblock copy is ever handed out. */
START_TEST(test_superblocks_are_left_alone)
{
	struct engine e;
	uint64_t bytenr, len, off = 0;

	engine_new(&e, &(struct engine_args){.device_bytes = 160 * MIB});
	while (engine_write(&e, off, 4 * MIB, &bytenr, &len) == 0) {
		struct chunk *c;
		uint64_t physical;

		unit_ok(chunk_map_find(&e.vol->chunks, bytenr, &c));
		physical = c->stripes[0].physical + (bytenr - c->logical);
		ck_assert_msg(physical + len <= SUPER_OFFSET_1 ||
			      physical >= SUPER_OFFSET_1 + STRIPE_LEN_BYTES,
			      "data over the superblock at 64 MiB");
		free(c);
		off += 4 * MIB;
	}
	ck_assert_uint_gt(off, 100 * MIB);
	unit_ok(engine_commit(&e));
	engine_check(&e);
	engine_free(&e);
}
END_TEST

UNIT_MAIN("group", test_churn_single, test_churn_4k_rotational, test_churn_mixed_64k,
	  test_churn_two_sizes, test_churn_without_fst, test_pinned_until_done,
	  test_bad_accounting_is_corruption, test_lying_free_space_tree,
	  test_superblocks_are_left_alone)
