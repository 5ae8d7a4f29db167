/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_delalloc.c - the chunks of dirty data, against plain arrays.
 */
#include "fs/delalloc.h"
#include "tests/unit/unit.h"

#define SECTOR 4096u
#define SECTORS 64u

/* What both layers hold, a byte for each sector: 0 nothing, else the byte all of the sector has. */
struct mirror {
	uint8_t dirty[SECTORS], wb[SECTORS];
	uint64_t cut;
};

static struct delalloc *fresh(struct inode *in)
{
	struct delalloc *d;

	*in = (struct inode){.refs = 1};
	d = delalloc_new(in);
	ck_assert_ptr_nonnull(d);
	return d;
}

static void check(struct delalloc *d, const struct mirror *m)
{
	uint64_t dirty = 0;

	for (unsigned s = 0; s < SECTORS; s++) {
		uint64_t off = (uint64_t)s * SECTOR;
		uint8_t want = m->dirty[s] != 0 ? m->dirty[s] : off < m->cut ? m->wb[s] : 0;
		const uint8_t *data;
		uint64_t n = delalloc_at(d, off, (uint64_t)SECTORS * SECTOR, &data);

		ck_assert_uint_ge(n, SECTOR);
		ck_assert_int_eq(data != NULL, want != 0);
		if (data != NULL)
			ck_assert_uint_eq(data[SECTOR - 1], want);
		ck_assert_int_eq(delalloc_has(d, off), m->dirty[s] != 0);
		dirty += m->dirty[s] != 0 ? SECTOR : 0;
	}
	ck_assert_uint_eq(d->dirty_bytes, dirty);
}

static void put(struct delalloc *d, struct mirror *m, unsigned first, unsigned count, uint8_t byte)
{
	uint8_t *buf = malloc(count * SECTOR);
	unsigned runs;
	uint64_t missing = delalloc_missing(d, first * SECTOR, (first + count) * SECTOR, &runs);
	uint64_t want = 0;

	for (unsigned s = first; s < first + count; s++)
		want += m->dirty[s] == 0 ? SECTOR : 0;
	ck_assert_uint_eq(missing, want);
	memset(buf, byte, count * SECTOR);
	unit_ok(delalloc_fill(d, first * SECTOR, (first + count) * SECTOR));
	delalloc_copy(d, first * SECTOR, buf, count * SECTOR);
	memset(m->dirty + first, byte, count);
	free(buf);
}

START_TEST(test_random)
{
	struct inode in;
	struct delalloc *d = fresh(&in);
	struct mirror m = {.cut = UINT64_MAX};
	unsigned seed = 7;

	for (unsigned i = 0; i < 3000; i++) {
		unsigned first = (unsigned)rand_r(&seed) % SECTORS;
		unsigned count = 1 + (unsigned)rand_r(&seed) % min_u32(SECTORS - first, 9);

		switch (rand_r(&seed) % 8) {
		case 0:
			ck_assert_uint_eq(delalloc_drop_from(d, first * SECTOR) % SECTOR, 0);
			memset(m.dirty + first, 0, SECTORS - first);
			break;
		case 1:
			put(d, &m, first, count, 1);
			unit_ok(delalloc_drop(d, first * SECTOR, (first + count) * SECTOR));
			memset(m.dirty + first, 0, count);
			break;
		case 2:
			if (d->wb_active) {
				delalloc_end_wb(d);
				memset(m.wb, 0, sizeof(m.wb));
			} else {
				delalloc_begin_wb(d);
				memcpy(m.wb, m.dirty, sizeof(m.wb));
				memset(m.dirty, 0, sizeof(m.dirty));
			}
			m.cut = UINT64_MAX;
			break;
		case 3:
			if (d->wb_active)
				m.cut = d->wb_cut = min_u64(d->wb_cut, first * SECTOR);
			break;
		default:
			put(d, &m, first, count, (uint8_t)(1 + rand_r(&seed) % 255));
		}
		check(d, &m);
	}
	delalloc_free(d);
}
END_TEST

START_TEST(test_large_write_is_one_chunk)
{
	struct inode in;
	struct delalloc *d = fresh(&in);
	const uint8_t *data;

	unit_ok(delalloc_fill(d, SECTOR, SECTOR + CHUNK_MAX_BYTES));
	ck_assert_uint_eq(delalloc_at(d, SECTOR, UINT64_MAX, &data), CHUNK_MAX_BYTES);
	ck_assert_ptr_nonnull(data);
	ck_assert_ptr_null(dirty_next(dirty_find(&d->dirty, 0)));
	delalloc_free(d);
}
END_TEST

START_TEST(test_runs_are_counted)
{
	struct inode in;
	struct delalloc *d = fresh(&in);
	unsigned runs;

	ck_assert_uint_eq(delalloc_missing(NULL, 0, SECTOR, &runs), SECTOR);
	ck_assert_uint_eq(runs, 1);
	unit_ok(delalloc_fill(d, 4 * SECTOR, 5 * SECTOR));
	/* Right behind what is there: no run of its own. */
	ck_assert_uint_eq(delalloc_missing(d, 5 * SECTOR, 6 * SECTOR, &runs), SECTOR);
	ck_assert_uint_eq(runs, 0);
	ck_assert_uint_eq(delalloc_missing(d, 2 * SECTOR, 6 * SECTOR, &runs), 3 * SECTOR);
	ck_assert_uint_eq(runs, 1);
	ck_assert_uint_eq(delalloc_missing(d, 4 * SECTOR, 5 * SECTOR, &runs), 0);
	ck_assert_uint_eq(runs, 0);
	delalloc_free(d);
}
END_TEST

UNIT_MAIN("delalloc", test_random, test_large_write_is_one_chunk, test_runs_are_counted)
