/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_chunk.c - sizes and places of chunks, making and removing them.
 */
#include "tests/unit/engine.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

START_TEST(test_limits_are_the_kernels)
{
	ck_assert_uint_eq(chunk_limits(100 * GIB, BG_DATA).stripe_max, GIB);
	ck_assert_uint_eq(chunk_limits(100 * GIB, BG_METADATA).stripe_max, GIB);
	ck_assert_uint_eq(chunk_limits(50 * GIB, BG_METADATA).stripe_max, 256 * MIB);
	ck_assert_uint_eq(chunk_limits(50 * GIB, BG_SYSTEM).stripe_max, 32 * MIB);
	ck_assert_uint_eq(chunk_limits(GIB, BG_DATA).chunk_max, GIB / 10);
}
END_TEST

static struct chunk_plan plan(struct engine *e, uint64_t type, uint64_t keep)
{
	struct chunk_plan p;

	mutex_lock(&e->sp->groups->lock);
	unit_ok(chunk_plan_locked(e->sp, type, keep, &p));
	mutex_unlock(&e->sp->groups->lock);
	return p;
}

static void set_holes(struct engine *e, const uint64_t *ranges, unsigned n)
{
	struct free_space *holes = &e->sp->chunks->devices[0].holes;

	free_space_done(holes);
	for (unsigned i = 0; i < n; i++)
		unit_ok(free_space_add(holes, ranges[2 * i], ranges[2 * i + 1]));
}

START_TEST(test_plans)
{
	struct engine e;
	struct chunk_plan p;
	uint64_t holes[] = {100 * MIB, 4 * MIB, 200 * MIB + 4096, 10 * MIB, 300 * MIB, 30 * MIB};

	engine_new(&e, &(struct engine_args){.device_bytes = GIB});
	set_holes(&e, holes, 3);
	/* As long as the longest hole, aligned inside it. */
	p = plan(&e, BG_DATA, 0);
	ck_assert_uint_eq(p.length, 30 * MIB);
	ck_assert_uint_eq(p.stripes[0].physical, 300 * MIB);
	/* Two copies share the longest hole, or take two when that makes them longer. */
	p = plan(&e, BG_METADATA | BG_DUP, 0);
	ck_assert_uint_eq(p.num_stripes, 2);
	ck_assert_uint_eq(p.length, 15 * MIB);
	holes[1] = 28 * MIB;
	set_holes(&e, holes, 3);
	p = plan(&e, BG_METADATA | BG_DUP, 0);
	ck_assert_uint_eq(p.length, 28 * MIB);
	ck_assert_uint_eq(p.stripes[0].physical, 100 * MIB);
	ck_assert_uint_eq(p.stripes[1].physical, 300 * MIB);
	/* What must be kept is kept. */
	p = plan(&e, BG_DATA, 60 * MIB);
	ck_assert_uint_eq(p.length, 8 * MIB);
	mutex_lock(&e.sp->groups->lock);
	unit_err(chunk_plan_locked(e.sp, BG_DATA, 68 * MIB, &p), -ENOSPC);
	unit_err(chunk_plan_locked(e.sp, BG_METADATA | BG_RAID1, 0, &p), -ENOSPC);
	mutex_unlock(&e.sp->groups->lock);
	engine_free(&e);
}
END_TEST

static unsigned groups_in(struct engine *e, uint64_t use)
{
	return groups_pool(e->sp->groups, use)->group_count;
}

START_TEST(test_made_and_removed)
{
	struct engine e;
	struct txn_handle tx;
	uint64_t before;

	engine_new(&e, &(struct engine_args){.device_bytes = 512 * MIB, .dup = true,
					     .metadata_bytes = 32 * MIB});
	before = e.sp->chunks->devices[0].bytes_used;
	tx = (struct txn_handle){.transid = e.transid, .kind = RSV_COMMIT};
	unit_ok(space_alloc_chunk(e.sp, &tx, BG_DATA));
	unit_ok(space_alloc_chunk(e.sp, &tx, BG_METADATA));
	unit_ok(space_alloc_chunk(e.sp, &tx, BG_SYSTEM));
	ck_assert_uint_eq(groups_in(&e, BG_DATA), 2);
	ck_assert_uint_eq(groups_in(&e, BG_METADATA), 2);
	ck_assert_uint_eq(groups_in(&e, BG_SYSTEM), 2);
	/* The commit sees that nobody needs them; their space is free when it is out. */
	unit_ok(engine_commit(&e));
	engine_check(&e);
	ck_assert_uint_eq(groups_in(&e, BG_DATA), 1);
	ck_assert_uint_eq(groups_in(&e, BG_METADATA), 1);
	ck_assert_uint_eq(groups_in(&e, BG_SYSTEM), 1);
	ck_assert_uint_le(e.sp->chunks->devices[0].bytes_used, before + 64 * MIB);
	engine_reload(&e, false);
	engine_check(&e);
	engine_free(&e);
}
END_TEST

/* A removed chunk's place on the device is taken again only when the removal is durable. */
START_TEST(test_removed_stays_taken_until_done)
{
	struct engine e;
	struct txn_handle tx;
	uint64_t holes, unallocated;
	bool more;

	engine_new(&e, &(struct engine_args){.device_bytes = 512 * MIB});
	holes = e.sp->chunks->devices[0].holes.bytes;
	tx = (struct txn_handle){.transid = e.transid, .kind = RSV_COMMIT};
	unit_ok(space_alloc_chunk(e.sp, &tx, BG_DATA));
	unallocated = e.sp->chunks->devices[0].holes.bytes;
	ck_assert_uint_lt(unallocated, holes);
	unit_ok(space_commit_run(e.sp, &tx, &more));
	ck_assert_uint_eq(groups_in(&e, BG_DATA), 1);
	ck_assert_uint_eq(e.sp->chunks->devices[0].holes.bytes, unallocated);
	unit_ok(engine_commit(&e));
	ck_assert_uint_gt(e.sp->chunks->devices[0].holes.bytes, unallocated);
	engine_check(&e);
	engine_free(&e);
}
END_TEST

START_TEST(test_superblock_lists_system_chunks)
{
	struct engine e;
	struct disk_super super = {0};
	struct txn_handle tx;
	size_t one = sizeof(struct disk_key) + chunk_item_bytes(2);
	struct space_stat st;

	engine_new(&e, &(struct engine_args){.device_bytes = 512 * MIB, .dup = true});
	disk_dev_item_set_devid(&super.dev_item, 1);
	space_fill_super(e.sp, &super);
	ck_assert_uint_eq(disk_super_sys_chunk_array_size(&super), one);
	space_stat(e.sp, &st);
	ck_assert_uint_eq(disk_super_bytes_used(&super),
			  st.data_used + st.meta_used + groups_pool(e.sp->groups, BG_SYSTEM)->used);
	ck_assert_uint_eq(disk_dev_item_bytes_used(&super.dev_item),
			  e.sp->chunks->devices[0].bytes_used);
	tx = (struct txn_handle){.transid = e.transid, .kind = RSV_COMMIT};
	unit_ok(space_alloc_chunk(e.sp, &tx, BG_SYSTEM));
	space_fill_super(e.sp, &super);
	ck_assert_uint_eq(disk_super_sys_chunk_array_size(&super), 2 * one);
	engine_free(&e);
}
END_TEST

/* System chunks come in time, however many chunks are made. */
START_TEST(test_many_chunks)
{
	struct engine e;
	uint64_t bytenr, len, n = 0;

	engine_new(&e, &(struct engine_args){.device_bytes = 40 * GIB, .leafsize = 4096,
					     .nodesize = 4096});
	while (groups_in(&e, BG_DATA) < 40 && engine_write(&e, n << 30, 128 * MIB, &bytenr, &len) == 0)
		n++;
	unit_ok(engine_commit(&e));
	ck_assert_uint_ge(n, 280);
	engine_check(&e);
	engine_free(&e);
}
END_TEST

UNIT_MAIN("chunk", test_limits_are_the_kernels, test_plans, test_made_and_removed,
	  test_removed_stays_taken_until_done, test_superblock_lists_system_chunks, test_many_chunks)
