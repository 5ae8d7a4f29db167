/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_csum_tree.c - checksum items: what is stored is found, items never overlap.
 */
#include "fs/csum_tree.h"

#include "fs/txn.h"
#include "tests/unit/mounted.h"

#define SECTOR 4096u
#define SECTORS 8192u
#define BASE (1ULL << 40)		/* an address that no data have */

static void put(struct mounted *m, uint8_t *want, unsigned first, unsigned count, unsigned seed)
{
	uint8_t *sums = want + 4 * first;
	struct txn_handle tx;

	unit_fill(sums, 4 * count, seed);
	unit_ok(txn_start(m->fs, &tx, 20, RSV_NORMAL));
	unit_ok(csum_insert(m->fs, &tx, BASE + (uint64_t)first * SECTOR, sums, count));
	txn_end(m->fs, &tx);
}

/* Every item ends before the next begins, and all of them hold as many sums as `have` says. */
static void check_items(struct mounted *m, const uint8_t *have)
{
	struct key first = key_make(OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, BASE);
	struct key last = key_make(OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, UINT64_MAX);
	uint64_t end = BASE, sums = 0, want = 0;
	struct cursor c;

	cursor_init(&c, m->fs->trees.csum, &first, &last);
	while (cursor_next(&c) == 1) {
		ck_assert_uint_ge(c.item.key.offset, end);
		end = c.item.key.offset + (uint64_t)c.item.size / 4 * SECTOR;
		sums += c.item.size / 4;
	}
	cursor_done(&c);
	for (unsigned i = 0; i < SECTORS; i++)
		want += have[i];
	ck_assert_uint_eq(sums, want);
}

static void check(struct mounted *m, const uint8_t *want, const uint8_t *have, unsigned first,
		  unsigned count)
{
	uint8_t *sums = malloc(4 * count), *found = malloc(count);

	unit_ok(csum_lookup(m->fs, BASE + (uint64_t)first * SECTOR, count, sums, found));
	for (unsigned i = 0; i < count; i++) {
		ck_assert_uint_eq(found[i], have[first + i]);
		if (found[i])
			ck_assert_mem_eq(sums + 4 * i, want + 4 * (first + i), 4);
	}
	free(sums);
	free(found);
}

START_TEST(test_random_ranges)
{
	uint8_t *want = calloc(SECTORS, 4), *have = calloc(SECTORS, 1);
	struct mounted m;
	unsigned seed = 3;

	mounted_new(&m, 256u << 20, NULL, NULL);
	for (unsigned i = 0; i < 600; i++) {
		unsigned first = (unsigned)rand_r(&seed) % SECTORS;
		unsigned max = rand_r(&seed) % 20 == 0 ? 3000 : 40;
		unsigned count = 1 + (unsigned)rand_r(&seed) % min_u32(max, SECTORS - first);

		put(&m, want, first, count, i);
		memset(have + first, 1, count);
		if (i % 50 == 0)
			check_items(&m, have);
		first = (unsigned)rand_r(&seed) % SECTORS;
		check(&m, want, have, first, min_u32(500, SECTORS - first));
	}
	check(&m, want, have, 0, SECTORS);
	check_items(&m, have);
	/* Not to be committed: the addresses are in no extent. */
	inode_put(m.root);
	fs_crash(m.fs);
	free(want);
	free(have);
}
END_TEST

START_TEST(test_neighbours_are_joined)
{
	uint8_t *want = calloc(SECTORS, 4);
	struct key key = key_make(OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, BASE);
	struct item it;
	struct mounted m;

	mounted_new(&m, 256u << 20, NULL, NULL);
	for (unsigned i = 0; i < 100; i++)
		put(&m, want, i, 1, i);
	item_init(&it);
	unit_ok(tree_get(m.fs->trees.csum, &key, &it));
	ck_assert_uint_eq(it.size, 400);
	item_done(&it);
	inode_put(m.root);
	fs_crash(m.fs);
	free(want);
}
END_TEST

UNIT_MAIN("csum_tree", test_random_ranges, test_neighbours_are_joined)
