/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_file_data.c - writing, write-back, sizes, holes and reading on a whole filesystem.
 */
#include "fs/delalloc.h"
#include "fs/txn.h"
#include "io/device_mem.h"
#include "io/fault.h"
#include "tests/unit/mounted.h"

#define MIB (1u << 20)
#define DEVICE_BYTES (512u * MIB)

START_TEST(test_short_file_is_inline)
{
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "short");
	mounted_write(in, 0, 1500, 1);
	ck_assert_ptr_null(in->dirty);
	ck_assert_str_eq(mounted_map(in), "0+1500:inline");
	ck_assert_uint_eq(in->nbytes, 1500);
	mounted_expect(in, 0, 1500, 1);
	mounted_resize(in, 700);
	ck_assert_str_eq(mounted_map(in), "0+700:inline");
	mounted_write(in, 10000, 100, 2);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+1:reg 2+1:reg");
	mounted_expect(in, 0, 700, 1);
	mounted_expect_zero(in, 700, 9300);
	ck_assert_uint_eq(in->nbytes, 8192);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_contiguous_data_are_one_extent)
{
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "long");
	for (unsigned i = 0; i < 32; i++)
		mounted_write(in, i * 64 * 1024, 64 * 1024, i);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+512:reg");
	/* A piece in the middle, rewritten: the old extent stays around it. */
	mounted_write(in, 100 * 4096, 4096, 99);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+100:reg 100+1:reg 101+411:reg");
	ck_assert_uint_eq(in->nbytes, 2 * MIB);
	inode_put(in);
	mounted_again(&m, NULL);
	unit_ok(fs_lookup(m.root, "long", &in));
	mounted_expect(in, 100 * 4096, 4096, 99);
	mounted_expect(in, 5 * 64 * 1024, 64 * 1024, 5);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_growth_shows_zeroes)
{
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "grown");
	mounted_write(in, 0, 3 * 4096, 1);
	unit_ok(fs_flush_inode(in));
	mounted_resize(in, 5000);
	mounted_resize(in, 20000);
	mounted_expect(in, 0, 5000, 1);
	mounted_expect_zero(in, 5000, 15000);
	/* The same while the data are dirty. */
	mounted_write(in, 0, 3 * 4096, 2);
	mounted_resize(in, 6000);
	mounted_resize(in, 12000);
	mounted_expect_zero(in, 6000, 6000);
	unit_ok(fs_flush_inode(in));
	mounted_expect_zero(in, 6000, 6000);
	ck_assert_uint_eq(in->disk_size, 12000);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

/* A size that only dirty data would have stored, when these go. */
START_TEST(test_size_outlives_its_dirty_data)
{
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "sparse");
	mounted_write(in, MIB, 4096, 1);
	mounted_resize(in, MIB / 2);
	ck_assert_ptr_null(in->dirty);
	ck_assert_uint_eq(in->disk_size, MIB / 2);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_holes_are_items_without_no_holes)
{
	struct mkfs_options o;
	struct mounted m;
	struct inode *in;

	mkfs_options_init(&o);
	o.features = 0;
	mounted_new(&m, DEVICE_BYTES, &o, NULL);
	in = mounted_file(&m, "holes");
	mounted_write(in, 40960, 4096, 1);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+10:hole 10+1:reg");
	mounted_resize(in, 20 * 4096 + 1);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+10:hole 10+1:reg 11+10:hole");
	mounted_write(in, 4 * 4096, 4096, 2);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+4:hole 4+1:reg 5+5:hole 10+1:reg 11+10:hole");
	ck_assert_uint_eq(in->nbytes, 8192);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_seek)
{
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "seek");
	mounted_write(in, 10 * 4096, 4096, 1);
	for (unsigned flushed = 0; flushed < 2; flushed++) {
		ck_assert_int_eq(fs_seek(in, 0, true), 10 * 4096);
		ck_assert_int_eq(fs_seek(in, 0, false), 0);
		ck_assert_int_eq(fs_seek(in, 10 * 4096 + 5, true), 10 * 4096 + 5);
		ck_assert_int_eq(fs_seek(in, 10 * 4096 + 5, false), 11 * 4096);
		ck_assert_int_eq(fs_seek(in, 11 * 4096, true), -ENXIO);
		unit_ok(fs_flush_inode(in));
	}
	mounted_resize(in, 20 * 4096);
	ck_assert_int_eq(fs_seek(in, 11 * 4096, true), -ENXIO);
	ck_assert_int_eq(fs_seek(in, 10 * 4096, false), 11 * 4096);
	/* Dirty data behind what is stored. */
	mounted_write(in, 15 * 4096, 4096, 1);
	ck_assert_int_eq(fs_seek(in, 11 * 4096, true), 15 * 4096);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_compression)
{
	struct fs_options opt;
	struct mounted m;
	struct inode *in;
	scoped(freep) uint8_t *text = malloc(MIB), *got = malloc(MIB);

	for (unsigned i = 0; i < MIB; i++)
		text[i] = (uint8_t)"All work and no play makes Jack a dull boy. "[(i + i / 1000) % 44];
	fs_options_init(&opt);
	opt.compress_type = COMPRESS_ZSTD;
	mounted_new(&m, DEVICE_BYTES, NULL, &opt);
	in = mounted_file(&m, "text");
	ck_assert_int_eq(fs_write(in, 0, text, 300000), 300000);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+32:zstd 32+32:zstd 64+10:zstd");
	ck_assert(atomic_load(&m.fs->incompat_used) & INCOMPAT_COMPRESS_ZSTD);
	/* Cut, the extent still decompresses whole. */
	mounted_resize(in, 200000);
	ck_assert_int_eq(fs_read(in, 0, got, MIB), 200000);
	ck_assert_mem_eq(got, text, 200000);
	inode_put(in);
	/* Noise is left alone, and not tried again. */
	in = mounted_file(&m, "noise");
	mounted_write(in, 0, 200000, 3);
	unit_ok(fs_flush_inode(in));
	ck_assert_str_eq(mounted_map(in), "0+49:reg");
	ck_assert(in->flags & INODE_NOCOMPRESS);
	inode_put(in);
	mounted_again(&m, &opt);
	ck_assert(disk_super_incompat_flags(&m.fs->super) & INCOMPAT_COMPRESS_ZSTD);
	mounted_done(&m);
}
END_TEST

START_TEST(test_nodatacow_writes_in_place)
{
	struct fs_options opt;
	struct mounted m;
	struct inode *in;
	uint64_t end;

	fs_options_init(&opt);
	opt.nodatacow = opt.nodatasum = true;
	mounted_new(&m, DEVICE_BYTES, NULL, &opt);
	in = mounted_file(&m, "db");
	mounted_write(in, 0, MIB, 1);
	unit_ok(fs_flush_inode(in));
	end = in->last_extent;
	mounted_write(in, 8192, 4096, 2);
	unit_ok(fs_fsync(in, false));
	ck_assert_str_eq(mounted_map(in), "0+256:reg");
	ck_assert_uint_eq(in->last_extent, end);
	ck_assert_ptr_null(in->dirty);
	mounted_expect(in, 8192, 4096, 2);
	/* Half in place, half behind the end. */
	mounted_write(in, MIB - 4096, 8192, 3);
	unit_ok(fs_fsync(in, false));
	ck_assert_str_eq(mounted_map(in), "0+256:reg 256+1:reg");
	ck_assert_uint_eq(in->disk_size, MIB + 4096);
	mounted_expect(in, MIB - 4096, 8192, 3);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_failed_write_is_told_once)
{
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "lost");
	mounted_write(in, 0, 8192, 1);
	unit_ok(fs_fsync(in, false));
	mounted_write(in, 4096, MIB, 2);
	unit_ok(fault_set("flush.write"));
	unit_err(fs_fsync(in, false), -EIO);
	unit_ok(fault_set(""));
	unit_ok(fs_fsync(in, false));
	/* What is stored is what is shown. */
	ck_assert_uint_eq(in->size, 8192);
	mounted_expect(in, 0, 8192, 1);
	ck_assert_ptr_null(in->dirty);
	/* And the space is there again. */
	mounted_write(in, 4096, MIB, 3);
	unit_ok(fs_fsync(in, false));
	mounted_expect(in, 4096, MIB, 3);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_full_filesystem)
{
	struct mounted m;
	struct inode *in;
	struct space_stat before, after;
	struct ino_id id;
	scoped(freep) uint8_t *buf = malloc(MIB);
	uint64_t off = 0;
	ssize_t n;

	mounted_new(&m, 128 * MIB, NULL, NULL);
	unit_fill(buf, MIB, 1);
	space_stat(m.fs->space, &before);
	in = mounted_file(&m, "big");
	while ((n = fs_write(in, off, buf, MIB)) > 0)
		off += (uint64_t)n;
	ck_assert_int_eq(n, -ENOSPC);
	/* Halving this one's length and rounding up to a sector gives the same length again. */
	ck_assert_int_eq(fs_write(in, off + 205, buf, 7987), -ENOSPC);
	unit_ok(fs_fsync(in, false));
	ck_assert_uint_eq(in->size, off);
	ck_assert_uint_gt(off, 32 * MIB);
	/* Taking away works nevertheless, and what it gives can be used. */
	mounted_resize(in, 1000);
	mounted_write(in, 10000, MIB, 2);
	unit_ok(fs_fsync(in, false));
	id = (struct ino_id){in->sv->id, in->ino};
	inode_put(in);
	unit_ok(fs_unlink(m.root, "big"));
	unit_ok(fs_forget(m.fs, id));
	unit_ok(txn_commit(m.fs));
	space_stat(m.fs->space, &after);
	ck_assert_uint_eq(after.data_used, before.data_used);
	ck_assert_uint_eq(after.data_reserved, 0);
	mounted_done(&m);
}
END_TEST

START_TEST(test_bad_data_are_not_returned)
{
	struct mounted m;
	struct inode *in;
	uint8_t got[8192], bad[4096];
	uint64_t logical;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "victim");
	mounted_write(in, 0, 8192, 1);
	unit_ok(fs_fsync(in, false));
	logical = in->last_extent - 4096;
	memset(bad, 0x5a, sizeof(bad));
	unit_ok(volume_write(m.fs->vol, logical, bad, sizeof(bad)));
	ck_assert_int_eq(fs_read(in, 4096, got, 4096), -EIO);
	ck_assert_int_eq(fs_read(in, 0, got, 4096), 4096);
	ck_assert_int_eq(fs_read(in, 0, got, 8192), -EIO);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

/* Overwrites one sector of the first copy on the device itself. */
static void spoil_first_copy(struct mounted *m, uint64_t logical)
{
	struct chunk_piece piece;
	uint8_t bad[4096];

	memset(bad, 0xa5, sizeof(bad));
	unit_ok(chunk_map_locate(&m->fs->vol->chunks, logical, sizeof(bad), &piece));
	unit_ok(device_pwrite(m->mem, piece.copy[0].physical, bad, sizeof(bad)));
}

START_TEST(test_bad_copies_are_mended)
{
	struct mkfs_options o;
	struct mounted m;
	struct inode *in;
	uint64_t end;

	mkfs_options_init(&o);
	o.data_profile = BG_DUP;
	mounted_new(&m, DEVICE_BYTES, &o, NULL);
	in = mounted_file(&m, "twice");
	mounted_write(in, 0, 64 * 1024, 1);
	unit_ok(fs_fsync(in, false));
	end = in->last_extent;
	spoil_first_copy(&m, end - 8192);
	mounted_expect(in, 0, 64 * 1024, 1);
	ck_assert_uint_ge(atomic_load(&m.fs->vol->repaired_count), 1);
	mounted_expect(in, 0, 64 * 1024, 1);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

UNIT_MAIN("file_data", test_short_file_is_inline, test_contiguous_data_are_one_extent,
	  test_growth_shows_zeroes, test_size_outlives_its_dirty_data,
	  test_holes_are_items_without_no_holes, test_seek, test_compression,
	  test_nodatacow_writes_in_place, test_failed_write_is_told_once, test_full_filesystem,
	  test_bad_data_are_not_returned, test_bad_copies_are_mended)
