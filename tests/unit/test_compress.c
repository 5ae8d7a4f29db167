/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_compress.c - round trips, framing and hostile input of io/compress.h.
 */
#include "io/compress.h"
#include "tests/unit/unit.h"

#include <pthread.h>

#define SECTOR 4096u

static const enum compress_type types[] = {COMPRESS_ZLIB, COMPRESS_LZO, COMPRESS_ZSTD};

static uint8_t in[COMPRESSED_MAX_BYTES], out[COMPRESSED_MAX_BYTES], back[COMPRESSED_MAX_BYTES + 99];

/* Text-like: half of it repeats. */
static void fill_compressible(size_t len, uint64_t seed)
{
	unit_fill(in, len, seed);
	for (size_t i = 0; i < len; i++)
		in[i] = i % 16 < 12 ? (uint8_t)('a' + i / 256 % 26) : (uint8_t)(in[i] & 0x3f);
}

/* On disk: out padded with zeroes to whole sectors, unless inline. */
static size_t pad(size_t len, bool is_inline)
{
	size_t padded = is_inline ? len : (size_t)align_up(len, SECTOR);

	memset(out + len, 0, padded - len);
	return padded;
}

START_TEST(test_round_trip)
{
	static const size_t sizes[] = {100, 1000, 4095, 4096, 4097, 8192, 20000, 65536,
				       131071, 131072};

	for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
		for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
			size_t len = 0, size = sizes[s], disk;
			bool is_inline = size <= SECTOR;

			fill_compressible(size, s);
			unit_ok(compress_extent(types[t], 0, SECTOR, in, size, out, sizeof(out), &len));
			ck_assert_uint_lt(len, size);
			disk = pad(len, is_inline);
			if (!is_inline)
				ck_assert_uint_le(disk + SECTOR, align_up(size, SECTOR));
			memset(back, 0xee, sizeof(back));
			unit_ok(decompress_extent(types[t], SECTOR, out, disk, back, size));
			ck_assert_mem_eq(back, in, size);
			ck_assert_uint_eq(back[size], 0xee);
			/* Less than there is; more than there is. */
			memset(back, 0xee, sizeof(back));
			unit_ok(decompress_extent(types[t], SECTOR, out, disk, back, size / 2));
			ck_assert_mem_eq(back, in, size / 2);
			ck_assert_uint_eq(back[size / 2], 0xee);
			unit_ok(decompress_extent(types[t], SECTOR, out, disk, back, size + 50));
			ck_assert_mem_eq(back, in, size);
			for (size_t i = size; i < size + 50; i++)
				ck_assert_uint_eq(back[i], 0);
			ck_assert_uint_eq(back[size + 50], 0xee);
		}
	}
}
END_TEST

START_TEST(test_levels)
{
	size_t first = 0, last = 0;

	fill_compressible(sizeof(in), 5);
	for (unsigned level = 0; level <= COMPRESS_ZSTD_LEVEL_MAX; level++) {
		size_t len;

		unit_ok(compress_extent(COMPRESS_ZSTD, level, SECTOR, in, sizeof(in), out, sizeof(out),
					&len));
		unit_ok(decompress_extent(COMPRESS_ZSTD, SECTOR, out, len, back, sizeof(in)));
		ck_assert_mem_eq(back, in, sizeof(in));
	}
	for (unsigned level = 1; level <= COMPRESS_ZLIB_LEVEL_MAX; level++) {
		unit_ok(compress_extent(COMPRESS_ZLIB, level, SECTOR, in, sizeof(in), out, sizeof(out),
					&last));
		if (level == 1)
			first = last;
		unit_ok(decompress_extent(COMPRESS_ZLIB, SECTOR, out, last, back, sizeof(in)));
		ck_assert_mem_eq(back, in, sizeof(in));
	}
	ck_assert_uint_lt(last, first);
	ck_assert(compress_level_valid(COMPRESS_ZLIB, 9));
	ck_assert(!compress_level_valid(COMPRESS_ZLIB, 10));
	ck_assert(compress_level_valid(COMPRESS_ZSTD, 15));
	ck_assert(!compress_level_valid(COMPRESS_ZSTD, 16));
	ck_assert(!compress_level_valid(COMPRESS_LZO, 1));
	ck_assert(!compress_level_valid(COMPRESS_NONE, 0));
}
END_TEST

START_TEST(test_not_worth_it)
{
	size_t len;

	unit_fill(in, sizeof(in), 9);
	for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
		unit_err(compress_extent(types[t], 0, SECTOR, in, sizeof(in), out, sizeof(out), &len),
			 -E2BIG);
		unit_err(compress_extent(types[t], 0, SECTOR, in, 1000, out, sizeof(out), &len), -E2BIG);
		unit_err(compress_extent(types[t], 0, SECTOR, in, 1, out, sizeof(out), &len), -E2BIG);
	}
	/* The last sector of three is easy, the others are not: the room given must not be passed. */
	memset(in + 2 * SECTOR, 0, SECTOR);
	for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
		memset(out, 0xcc, sizeof(out));
		unit_err(compress_extent(types[t], 0, SECTOR, in, 3 * SECTOR, out, 100, &len), -E2BIG);
		for (size_t i = 100; i < 200; i++)
			ck_assert_uint_eq(out[i], 0xcc);
	}
}
END_TEST

START_TEST(test_lzo_framing)
{
	size_t len, at = 4, segments = 0;

	/* Each sector shrinks to a little over half, so that headers come near sector ends. */
	unit_fill(in, sizeof(in), 11);
	for (size_t i = 0; i < sizeof(in); i++)
		if (i % SECTOR > 2048 + i / SECTOR * 3)
			in[i] = 0;
	unit_ok(compress_extent(COMPRESS_LZO, 0, SECTOR, in, sizeof(in), out, sizeof(out), &len));
	ck_assert_uint_eq(disk32_get((disk32 *)out), len);
	while (at < len) {
		size_t left = SECTOR - at % SECTOR;

		if (left < 4) {
			for (size_t i = 0; i < left; i++)
				ck_assert_uint_eq(out[at + i], 0);
			at += left;
		}
		ck_assert_uint_eq(at / SECTOR, (at + 3) / SECTOR);
		at += 4 + disk32_get((disk32 *)(out + at));
		segments++;
	}
	ck_assert_uint_eq(at, len);
	ck_assert_uint_eq(segments, sizeof(in) / SECTOR);
	unit_ok(decompress_extent(COMPRESS_LZO, SECTOR, out, pad(len, false), back, sizeof(in)));
	ck_assert_mem_eq(back, in, sizeof(in));

	/* An inline extent has one segment that ends where the item does. */
	fill_compressible(2000, 1);
	unit_ok(compress_extent(COMPRESS_LZO, 0, SECTOR, in, 2000, out, sizeof(out), &len));
	ck_assert_uint_eq(disk32_get((disk32 *)out), len);
	ck_assert_uint_eq(disk32_get((disk32 *)(out + 4)), len - 8);
}
END_TEST

START_TEST(test_lzo_bad_headers)
{
	size_t len, disk;

	fill_compressible(30000, 3);
	unit_ok(compress_extent(COMPRESS_LZO, 0, SECTOR, in, 30000, out, sizeof(out), &len));
	disk = pad(len, false);
	disk32_set((disk32 *)out, (uint32_t)disk + 1);
	unit_err(decompress_extent(COMPRESS_LZO, SECTOR, out, disk, back, 30000), -EIO);
	disk32_set((disk32 *)out, 0);
	unit_err(decompress_extent(COMPRESS_LZO, SECTOR, out, disk, back, 30000), -EIO);
	disk32_set((disk32 *)out, UINT32_MAX);
	unit_err(decompress_extent(COMPRESS_LZO, SECTOR, out, disk, back, 30000), -EIO);
	disk32_set((disk32 *)out, (uint32_t)len);
	disk32_set((disk32 *)(out + 4), UINT32_MAX - 2);
	unit_err(decompress_extent(COMPRESS_LZO, SECTOR, out, disk, back, 30000), -EIO);
	disk32_set((disk32 *)(out + 4), 0);
	unit_err(decompress_extent(COMPRESS_LZO, SECTOR, out, disk, back, 30000), -EIO);
	unit_err(decompress_extent(COMPRESS_LZO, SECTOR, out, 7, back, 30000), -EIO);
}
END_TEST

START_TEST(test_zlib_checksum_is_not_looked_at)
{
	size_t len;

	fill_compressible(9000, 3);
	unit_ok(compress_extent(COMPRESS_ZLIB, 0, SECTOR, in, 9000, out, sizeof(out), &len));
	out[len - 1] ^= 0xff;
	unit_ok(decompress_extent(COMPRESS_ZLIB, SECTOR, out, len, back, 9100));
	ck_assert_mem_eq(back, in, 9000);
	/* Cut short: damaged, unless all that was wanted is there. */
	unit_err(decompress_extent(COMPRESS_ZLIB, SECTOR, out, len / 2, back, 9000), -EIO);
	unit_ok(decompress_extent(COMPRESS_ZLIB, SECTOR, out, len / 2, back, 100));
}
END_TEST

START_TEST(test_zstd_window_is_limited)
{
	/* A frame head that asks for a window of 1 GiB, then an empty last block. */
	static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 20 << 3, 0x01, 0x00, 0x00};
	static const uint8_t small[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3, 0x01, 0x00, 0x00};

	unit_err(decompress_extent(COMPRESS_ZSTD, SECTOR, frame, sizeof(frame), back, 100), -EIO);
	unit_ok(decompress_extent(COMPRESS_ZSTD, SECTOR, small, sizeof(small), back, 100));
	ck_assert_uint_eq(back[99], 0);
	/* Cut in the middle. */
	unit_err(decompress_extent(COMPRESS_ZSTD, SECTOR, small, 8, back, 100), -EIO);
}
END_TEST

/* Damaged input of exact size on the heap: a sanitizer build sees every step outside. */
START_TEST(test_hostile)
{
	for (size_t t = 0; t < ARRAY_COUNT(types); t++) {
		for (uint64_t round = 0; round < 3000; round++) {
			uint64_t r[3];
			size_t size, len, disk, want;
			uint8_t *bad, *to;

			unit_fill(r, sizeof(r), round);
			size = r[0] % 20000 + 500;
			fill_compressible(size, round);
			if (compress_extent(types[t], 0, SECTOR, in, size, out, sizeof(out), &len) < 0)
				continue;
			disk = pad(len, round % 2 == 0);
			bad = malloc(disk);
			memcpy(bad, out, disk);
			for (uint64_t flips = r[1] % 4 + 1; flips > 0; flips--) {
				unit_fill(r, sizeof(r), r[0]);
				bad[r[1] % (round % 3 == 0 ? min_size(16, disk) : disk)] ^= (uint8_t)r[2];
			}
			want = r[2] % 3 == 0 ? size / 3 + 1 : size;
			to = malloc(want);
			(void)decompress_extent(types[t], SECTOR, bad, r[2] % 5 == 0 ? disk / 2 : disk,
						to, want);
			free(to);
			free(bad);
		}
	}
}
END_TEST

static void *one_thread(void *arg)
{
	uint8_t *mine = malloc(20000), *packed = malloc(20000), *again = malloc(20000);
	bool *good = arg;

	memset(mine, 'x', 20000);
	unit_fill(mine, 3000, (uint64_t)(uintptr_t)arg);
	*good = true;
	for (int i = 0; i < 50; i++) {
		enum compress_type type = types[i % 3];
		size_t len;

		*good = *good &&
			compress_extent(type, 0, SECTOR, mine, 20000, packed, 20000, &len) == 0 &&
			decompress_extent(type, SECTOR, packed, len, again, 20000) == 0 &&
			memcmp(mine, again, 20000) == 0;
	}
	free(mine);
	free(packed);
	free(again);
	return NULL;
}

START_TEST(test_threads)
{
	pthread_t threads[4];
	bool good[4];

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, one_thread, &good[i]), 0);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		ck_assert(good[i]);
	}
}
END_TEST

UNIT_MAIN("compress", test_round_trip, test_levels, test_not_worth_it, test_lzo_framing,
	  test_lzo_bad_headers, test_zlib_checksum_is_not_looked_at, test_zstd_window_is_limited,
	  test_hostile, test_threads)
