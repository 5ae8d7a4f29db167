/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_policy.c - where the two policies put data and tree blocks.
 *
 * A data group is filled by hand, holes are made in it, and the places of the next extents compared.
 */
#include "tests/unit/engine.h"

#define MIB (1ULL << 20)
#define KIB (1ULL << 10)

/* A filesystem whose first data chunk, 8 MiB, is handed out whole; returns where it begins. */
static uint64_t new_full_chunk(struct engine *e, enum alloc_policy policy)
{
	struct alloc_hint hint = {0};
	uint64_t bytenr, len;

	engine_new(e, &(struct engine_args){.device_bytes = 512 * MIB, .policy = policy});
	unit_ok(space_reserve_data(e->sp, 8 * MIB));
	unit_ok(space_alloc_data(e->sp, &hint, 8 * MIB, 8 * MIB, &bytenr, &len));
	return bytenr;
}

static void add_chunk(struct engine *e)
{
	struct txn_handle tx = {.transid = e->transid, .kind = RSV_COMMIT};

	unit_ok(space_alloc_chunk(e->sp, &tx, BG_DATA));
}

static uint64_t alloc(struct engine *e, uint64_t near, uint64_t owner, uint64_t len)
{
	struct alloc_hint hint = {.near = near, .owner = owner};
	uint64_t bytenr, got;

	unit_ok(space_reserve_data(e->sp, len));
	unit_ok(space_alloc_data(e->sp, &hint, len, len, &bytenr, &got));
	ck_assert_uint_eq(got, len);
	return bytenr;
}

START_TEST(test_ssd_fills_from_one_end)
{
	struct engine e;
	uint64_t base = new_full_chunk(&e, POLICY_SSD), at, next;

	/* Holes in the old chunk, a large cluster in a new one: no hole is plugged. */
	space_unalloc_data(e.sp, base + MIB, 64 * KIB);
	space_unalloc_data(e.sp, base + 3 * MIB, 16 * KIB);
	add_chunk(&e);
	at = alloc(&e, 0, 0, 16 * KIB);
	ck_assert_uint_ge(at, base + 8 * MIB);
	for (unsigned i = 0; i < 100; i++) {
		next = alloc(&e, base + MIB, 7, 4 * KIB * (1 + i % 5));
		ck_assert_uint_eq(next, at + (i == 0 ? 16 * KIB : 4 * KIB * (1 + (i - 1) % 5)));
		at = next;
	}
	engine_free(&e);
}
END_TEST

START_TEST(test_ssd_takes_holes_last)
{
	struct engine e;
	uint64_t base = new_full_chunk(&e, POLICY_SSD), bytenr, got;
	struct alloc_hint hint = {0};

	space_unalloc_data(e.sp, base + 1 * MIB, 16 * KIB);
	space_unalloc_data(e.sp, base + 2 * MIB, MIB);
	space_unalloc_data(e.sp, base + 5 * MIB, 64 * KIB);
	/* The largest class first, then down to the smallest hole. */
	ck_assert_uint_eq(alloc(&e, 0, 0, 900 * KIB), base + 2 * MIB);
	ck_assert_uint_eq(alloc(&e, 0, 0, 100 * KIB), base + 2 * MIB + 900 * KIB);
	ck_assert_uint_eq(alloc(&e, 0, 0, 64 * KIB), base + 5 * MIB);
	unit_ok(space_reserve_data(e.sp, 40 * KIB));
	unit_ok(space_alloc_data(e.sp, &hint, 4 * KIB, 40 * KIB, &bytenr, &got));
	ck_assert_uint_eq(bytenr, base + 2 * MIB + 1000 * KIB);
	ck_assert_uint_eq(got, 24 * KIB);
	/* 16 KiB of the 40 are still promised. */
	unit_ok(space_alloc_data(e.sp, &hint, 16 * KIB, 16 * KIB, &bytenr, &got));
	ck_assert_uint_eq(bytenr, base + MIB);
	engine_free(&e);
}
END_TEST

START_TEST(test_rotational_stays_near)
{
	struct engine e;
	uint64_t base = new_full_chunk(&e, POLICY_ROTATIONAL);

	add_chunk(&e);
	space_unalloc_data(e.sp, base + MIB, 64 * KIB);
	space_unalloc_data(e.sp, base + 4 * MIB, 256 * KIB);
	space_unalloc_data(e.sp, base + 6 * MIB, 32 * KIB);
	/* Behind the file's last extent; else the next hole upwards that fits; else back round. */
	ck_assert_uint_eq(alloc(&e, base + 4 * MIB, 0, 64 * KIB), base + 4 * MIB);
	ck_assert_uint_eq(alloc(&e, base + 2 * MIB, 0, 32 * KIB), base + 4 * MIB + 64 * KIB);
	ck_assert_uint_eq(alloc(&e, base + 5 * MIB, 0, 16 * KIB), base + 6 * MIB);
	ck_assert_uint_eq(alloc(&e, base + 7 * MIB, 0, 64 * KIB), base + MIB);
	/* Nothing in this group holds it: another one does. */
	ck_assert_uint_ge(alloc(&e, base + 4 * MIB, 0, 512 * KIB), base + 8 * MIB);
	engine_free(&e);
}
END_TEST

START_TEST(test_rotational_gathers_owners)
{
	struct engine e;
	uint64_t base = new_full_chunk(&e, POLICY_ROTATIONAL), a, b;

	space_unalloc_data(e.sp, base + MIB, MIB);
	space_unalloc_data(e.sp, base + 5 * MIB, MIB);
	a = alloc(&e, base + MIB, 11, 16 * KIB);
	b = alloc(&e, base + 5 * MIB, 22, 16 * KIB);
	/* Files without an extent begin behind their directory's last one. */
	ck_assert_uint_eq(alloc(&e, 0, 11, 16 * KIB), a + 16 * KIB);
	ck_assert_uint_eq(alloc(&e, 0, 22, 16 * KIB), b + 16 * KIB);
	ck_assert_uint_eq(alloc(&e, 0, 11, 16 * KIB), a + 32 * KIB);
	engine_free(&e);
}
END_TEST

static void check_blocks_together(enum alloc_policy policy)
{
	struct engine e;
	struct txn_handle tx;
	uint64_t first = 0, last = 0;

	engine_new(&e, &(struct engine_args){.device_bytes = 256 * MIB, .policy = policy,
					     .metadata_bytes = 32 * MIB});
	unit_ok(engine_start(&e, &tx, 30, RSV_NORMAL));
	for (unsigned i = 0; i < 30; i++) {
		uint64_t at;

		unit_ok(space_alloc_block_addr(e.sp, &tx, 16 * KIB, 16 * KIB, 0, false, &at));
		ck_assert(is_aligned(at, 16 * KIB));
		if (i == 0)
			first = at;
		else
			ck_assert_uint_eq(at, last + 16 * KIB);
		last = at;
	}
	for (uint64_t at = first; at <= last; at += 16 * KIB)
		space_free_now(e.sp, at, 16 * KIB);
	engine_end(&e, &tx);
	engine_free(&e);
}

START_TEST(test_blocks_lie_together)
{
	check_blocks_together(POLICY_SSD);
	check_blocks_together(POLICY_ROTATIONAL);
}
END_TEST

/* Small leaves fill up broken blocks before they break another. */
START_TEST(test_leaves_spare_whole_blocks)
{
	struct engine e;
	struct txn_handle tx;
	const struct pool *pool;
	uint64_t at[64], whole;

	engine_new(&e, &(struct engine_args){.device_bytes = 256 * MIB, .leafsize = 4096,
					     .nodesize = 65536, .metadata_bytes = 32 * MIB});
	pool = groups_pool(e.sp->groups, BG_METADATA);
	unit_ok(engine_start(&e, &tx, 20, RSV_NORMAL));
	whole = pool->loaded_whole;
	for (unsigned i = 0; i < 64; i++)
		unit_ok(space_alloc_block_addr(e.sp, &tx, 4096, 4096, 0, false, &at[i]));
	ck_assert_uint_ge(pool->loaded_whole, whole - 4);
	/* Every fourth is freed: the next sixteen go exactly there. */
	whole = pool->loaded_whole;
	for (unsigned i = 0; i < 64; i += 4)
		space_free_now(e.sp, at[i], 4096);
	for (unsigned i = 0; i < 64; i += 4)
		unit_ok(space_alloc_block_addr(e.sp, &tx, 4096, 4096, 0, false, &at[i]));
	ck_assert_uint_ge(pool->loaded_whole, whole);
	for (unsigned i = 0; i < 64; i++)
		space_free_now(e.sp, at[i], 4096);
	engine_end(&e, &tx);
	engine_free(&e);
}
END_TEST

UNIT_MAIN("policy", test_ssd_fills_from_one_end, test_ssd_takes_holes_last,
	  test_rotational_stays_near, test_rotational_gathers_owners, test_blocks_lie_together,
	  test_leaves_spare_whole_blocks)
