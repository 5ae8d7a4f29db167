/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_reserve.c - filling filesystems to the last byte, and emptying them again.
 */
#include "tests/unit/engine.h"

#define MIB (1ULL << 20)
#define ITEM_BYTES 1500u
#define MAX_ITEMS 60000u

static uint64_t spread(uint64_t i)
{
	return 1000 + (i * 7919) % MAX_ITEMS;
}

static uint64_t meta_reserved(struct engine *e)
{
	return groups_pool(e->sp->groups, BG_METADATA)->meta_reserved;
}

/* Items until -ENOSPC; how many. The transaction is committed every `every` items. */
static uint64_t fill_items(struct engine *e, uint64_t every, bool in_order)
{
	uint64_t n = 0;
	int err;

	while ((err = engine_put(e, in_order ? 1000 + n : spread(n), ITEM_BYTES)) == 0) {
		ck_assert_uint_lt(++n, MAX_ITEMS);
		if (n % every == 0)
			unit_ok(engine_commit(e));
	}
	ck_assert_int_eq(err, -ENOSPC);
	ck_assert_uint_eq(meta_reserved(e), 0);
	return n;
}

/* Full, committed, emptied in steps that must all succeed, and as much room as before. */
static void fill_and_empty(const struct engine_args *args, uint64_t least)
{
	struct engine e;
	struct space_stat fresh, after;
	uint64_t n, again;

	engine_new(&e, args);
	unit_ok(engine_commit(&e));
	space_stat(e.sp, &fresh);
	n = fill_items(&e, 5000, false);
	ck_assert_msg(n >= least, "only %llu items of %u bytes fit", (unsigned long long)n, ITEM_BYTES);
	unit_ok(engine_commit(&e));
	engine_check(&e);
	for (uint64_t i = 0; i < n; i++)
		unit_ok(engine_delete(&e, spread(i)));
	unit_ok(engine_commit(&e));
	unit_ok(engine_commit(&e));
	engine_check(&e);
	space_stat(e.sp, &after);
	ck_assert_msg(after.avail >= fresh.avail / 100 * 95, "%llu bytes available, %llu when fresh",
		      (unsigned long long)after.avail, (unsigned long long)fresh.avail);
	again = fill_items(&e, 5000, false);
	ck_assert_uint_ge(again, n / 10 * 9);
	unit_ok(engine_commit(&e));
	engine_check(&e);
	ck_assert_uint_eq(e.sp->reserve->overdrawn, 0);
	engine_free(&e);
}

START_TEST(test_full_dup_16k)
{
	fill_and_empty(&(struct engine_args){.device_bytes = 128 * MIB, .dup = true,
					     .metadata_bytes = 12 * MIB}, 22000);
}
END_TEST

START_TEST(test_full_dup_4k)
{
	fill_and_empty(&(struct engine_args){.device_bytes = 128 * MIB, .dup = true,
					     .metadata_bytes = 12 * MIB, .leafsize = 4096,
					     .nodesize = 4096}, 18000);
}
END_TEST

START_TEST(test_full_dup_64k)
{
	fill_and_empty(&(struct engine_args){.device_bytes = 128 * MIB, .dup = true,
					     .metadata_bytes = 12 * MIB, .leafsize = 65536, .nodesize = 65536}, 18000);
}
END_TEST

START_TEST(test_full_two_sizes)
{
	fill_and_empty(&(struct engine_args){.device_bytes = 96 * MIB, .leafsize = 4096,
					     .nodesize = 65536}, 10000);
	fill_and_empty(&(struct engine_args){.device_bytes = 96 * MIB, .leafsize = 65536,
					     .nodesize = 4096}, 10000);
}
END_TEST

START_TEST(test_full_mixed)
{
	fill_and_empty(&(struct engine_args){.device_bytes = 64 * MIB, .mixed = true,
					     .metadata_bytes = 32 * MIB}, 10000);
}
END_TEST

/* One file that takes all that is left; what statfs said is what it got. */
static void fill_data(const struct engine_args *args)
{
	static struct { uint64_t bytenr, len; } ext[40000];
	struct space_stat before, full;
	uint64_t sum = 0, n = 0, piece = MIB;
	struct engine e;

	engine_new(&e, args);
	unit_ok(engine_commit(&e));
	space_stat(e.sp, &before);
	while (piece >= 4096) {
		int err = engine_write(&e, n << 30, piece, &ext[n].bytenr, &ext[n].len);

		if (err < 0) {
			ck_assert_int_eq(err, -ENOSPC);
			piece /= 2;
			continue;
		}
		sum += ext[n++].len;
		if (n % 64 == 0)
			unit_ok(engine_commit(&e));
	}
	ck_assert_msg(before.avail >= sum / 100 * 95 && before.avail <= sum / 100 * 110,
		      "statfs said %llu, %llu were written", (unsigned long long)before.avail,
		      (unsigned long long)sum);
	space_stat(e.sp, &full);
	ck_assert(full.nearly_full);
	ck_assert_uint_lt(full.avail, MIB);
	ck_assert_uint_eq(full.data_reserved, 0);
	unit_ok(engine_commit(&e));
	engine_check(&e);
	while (n-- > 0)
		unit_ok(engine_unwrite(&e, n << 30, ext[n].bytenr, ext[n].len));
	unit_ok(engine_commit(&e));
	unit_ok(engine_commit(&e));
	engine_check(&e);
	space_stat(e.sp, &full);
	ck_assert_uint_eq(full.data_used, args->mixed ? full.meta_used : 0);
	ck_assert_uint_ge(full.avail, before.avail / 100 * 95);
	engine_free(&e);
}

START_TEST(test_data_full)
{
	fill_data(&(struct engine_args){.device_bytes = 256 * MIB, .dup = true});
	fill_data(&(struct engine_args){.device_bytes = 256 * MIB, .leafsize = 65536, .nodesize = 65536,
					.dup = true, .policy = POLICY_ROTATIONAL});
	fill_data(&(struct engine_args){.device_bytes = 1024 * MIB, .leafsize = 4096, .nodesize = 4096});
}
END_TEST

START_TEST(test_data_full_mixed)
{
	fill_data(&(struct engine_args){.device_bytes = 128 * MIB, .mixed = true, .leafsize = 4096,
					.nodesize = 4096, .metadata_bytes = 32 * MIB});
	fill_data(&(struct engine_args){.device_bytes = 128 * MIB, .mixed = true, .leafsize = 65536,
					.nodesize = 65536, .metadata_bytes = 32 * MIB});
}
END_TEST

/* Small data extents everywhere, every second one freed: the holes are used again. */
START_TEST(test_fragmented_data)
{
	static uint64_t at[20000];
	struct engine e;
	uint64_t n = 0, len, again = 0;

	engine_new(&e, &(struct engine_args){.device_bytes = 96 * MIB});
	while (engine_write(&e, n << 20, 8192, &at[n], &len) == 0) {
		ck_assert_uint_lt(++n, ARRAY_COUNT(at));
		if (n % 1000 == 0)
			unit_ok(engine_commit(&e));
	}
	for (uint64_t i = 0; i < n; i += 2)
		unit_ok(engine_unwrite(&e, i << 20, at[i], 8192));
	unit_ok(engine_commit(&e));
	engine_check(&e);
	while (again < n / 2 && engine_write(&e, (n + again) << 20, 8192, &at[0], &len) == 0)
		again++;
	ck_assert_uint_ge(again, n / 2 - 64);
	unit_ok(engine_commit(&e));
	engine_check(&e);
	engine_free(&e);
}
END_TEST

START_TEST(test_release_gives_back)
{
	struct engine e;
	struct txn_handle tx;
	uint64_t bytes;

	engine_new(&e, &(struct engine_args){.device_bytes = 128 * MIB});
	unit_ok(engine_start(&e, &tx, 3, RSV_NORMAL));
	bytes = space_meta_bytes(e.sp, 3);
	ck_assert_uint_eq(tx.rsv_bytes, bytes);
	ck_assert_uint_eq(meta_reserved(&e), bytes);
	engine_end(&e, &tx);
	ck_assert_uint_eq(tx.rsv_bytes, 0);
	ck_assert_uint_eq(meta_reserved(&e), 0);
	ck_assert_uint_gt(space_meta_bytes(e.sp, 10), space_meta_bytes(e.sp, 1));

	unit_ok(space_reserve_data(e.sp, 8 * MIB));
	unit_err(space_reserve_data(e.sp, 128 * MIB), -ENOSPC);
	space_release_data(e.sp, 8 * MIB);
	ck_assert_uint_eq(groups_pool(e.sp->groups, BG_DATA)->data_reserved, 0);
	engine_free(&e);
}
END_TEST

UNIT_MAIN("reserve", test_full_dup_16k, test_full_dup_4k, test_full_dup_64k, test_full_two_sizes,
	  test_full_mixed, test_data_full, test_data_full_mixed, test_fragmented_data,
	  test_release_gives_back)
