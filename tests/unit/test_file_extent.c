/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_file_extent.c - EXTENT_DATA items: refusing bad ones, dropping, splitting.
 */
#include "fs/file_extent.h"

#include "fs/txn.h"
#include "tests/unit/mounted.h"

#define SECTOR 4096u

/* An item as it could be on disk, sound until a test changes it. */
static struct disk_file_extent sound(void)
{
	struct disk_file_extent d = {0};

	disk_file_extent_set_generation(&d, 1);
	disk_file_extent_set_ram_bytes(&d, 8 * SECTOR);
	disk_file_extent_set_type(&d, FILE_EXTENT_REG);
	disk_file_extent_set_disk_bytenr(&d, 1u << 20);
	disk_file_extent_set_disk_num_bytes(&d, 8 * SECTOR);
	disk_file_extent_set_offset(&d, 2 * SECTOR);
	disk_file_extent_set_num_bytes(&d, 4 * SECTOR);
	return d;
}

static int parse(struct inode *in, const struct disk_file_extent *d, uint64_t off, uint32_t size)
{
	struct file_extent fe;
	struct item it = {.key = key_make(in->ino, KEY_EXTENT_DATA, off), .size = size};

	it.data = it.small;
	memcpy(it.small, d, min_u32(size, sizeof(*d)));
	return file_extent_parse(in, &it, &fe);
}

#define REFUSED(set)									\
	do {										\
		struct disk_file_extent d = sound();					\
		set;									\
		unit_err(parse(in, &d, SECTOR, sizeof(d)), -EUCLEAN);			\
	} while (0)

START_TEST(test_bad_items_are_refused)
{
	struct disk_file_extent good = sound();
	struct mounted m;
	struct inode *in;

	mounted_new(&m, 256u << 20, NULL, NULL);
	in = mounted_file(&m, "f");
	unit_ok(parse(in, &good, SECTOR, sizeof(good)));
	unit_err(parse(in, &good, SECTOR, sizeof(good) - 1), -EUCLEAN);
	unit_err(parse(in, &good, SECTOR, sizeof(good) + 1), -EUCLEAN);
	unit_err(parse(in, &good, SECTOR, 20), -EUCLEAN);
	unit_err(parse(in, &good, 100, sizeof(good)), -EUCLEAN);
	unit_err(parse(in, &good, (uint64_t)0 - SECTOR, sizeof(good)), -EUCLEAN);
	REFUSED(disk_file_extent_set_type(&d, 3));
	REFUSED(disk_file_extent_set_compression(&d, COMPRESS_TYPE_COUNT));
	REFUSED(disk_file_extent_set_encryption(&d, 1));
	REFUSED(disk_file_extent_set_num_bytes(&d, 0));
	REFUSED(disk_file_extent_set_num_bytes(&d, 100));
	REFUSED(disk_file_extent_set_num_bytes(&d, 7 * SECTOR));
	REFUSED(disk_file_extent_set_offset(&d, 5 * SECTOR));
	REFUSED(disk_file_extent_set_offset(&d, 1));
	REFUSED(disk_file_extent_set_disk_bytenr(&d, 5));
	REFUSED(disk_file_extent_set_disk_num_bytes(&d, 0));
	/* Compressed: the offset counts in what it decompresses to, and that is bounded. */
	good = sound();
	disk_file_extent_set_compression(&good, COMPRESS_ZSTD);
	disk_file_extent_set_disk_num_bytes(&good, SECTOR);
	unit_ok(parse(in, &good, SECTOR, sizeof(good)));
	disk_file_extent_set_ram_bytes(&good, 5 * SECTOR);
	unit_err(parse(in, &good, SECTOR, sizeof(good)), -EUCLEAN);
	disk_file_extent_set_ram_bytes(&good, 1u << 30);
	unit_err(parse(in, &good, SECTOR, sizeof(good)), -EUCLEAN);
	/* Inline: at the begin of the file only, as long as it says. */
	good = sound();
	disk_file_extent_set_type(&good, FILE_EXTENT_INLINE);
	disk_file_extent_set_ram_bytes(&good, 10);
	unit_ok(parse(in, &good, 0, FILE_EXTENT_INLINE_OFFSET + 10));
	unit_err(parse(in, &good, 0, FILE_EXTENT_INLINE_OFFSET + 11), -EUCLEAN);
	unit_err(parse(in, &good, SECTOR, FILE_EXTENT_INLINE_OFFSET + 10), -EUCLEAN);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

static void drop(struct mounted *m, struct inode *in, uint64_t from, uint64_t to)
{
	struct txn_handle tx;

	rwlock_wrlock(&in->lock);
	unit_ok(txn_start(m->fs, &tx, 20, RSV_NORMAL));
	unit_ok(file_drop_extents(&tx, in, from * SECTOR, to == UINT64_MAX ? to : to * SECTOR));
	unit_ok(inode_store(&tx, in));
	txn_end(m->fs, &tx);
	rwlock_wrunlock(&in->lock);
}

START_TEST(test_drop)
{
	struct mounted m;
	struct inode *in;
	struct space_stat stat;

	mounted_new(&m, 256u << 20, NULL, NULL);
	in = mounted_file(&m, "f");
	mounted_write(in, 0, 100 * SECTOR, 1);
	unit_ok(fs_flush_inode(in));
	drop(&m, in, 40, 60);
	ck_assert_str_eq(mounted_map(in), "0+40:reg 60+40:reg");
	ck_assert_uint_eq(in->nbytes, 80 * SECTOR);
	drop(&m, in, 30, 40);
	drop(&m, in, 55, 65);
	ck_assert_str_eq(mounted_map(in), "0+30:reg 65+35:reg");
	mounted_expect(in, 0, 30 * SECTOR, 1);
	mounted_expect_zero(in, 30 * SECTOR, 35 * SECTOR);
	drop(&m, in, 10, 70);
	ck_assert_str_eq(mounted_map(in), "0+10:reg 70+30:reg");
	drop(&m, in, 0, 10);
	drop(&m, in, 90, UINT64_MAX);
	ck_assert_str_eq(mounted_map(in), "70+20:reg");
	ck_assert_uint_eq(in->nbytes, 20 * SECTOR);
	unit_ok(txn_sync(m.fs));
	space_stat(m.fs->space, &stat);
	ck_assert_uint_ge(stat.data_used, 100 * SECTOR);
	/* The last piece takes the whole extent along. */
	drop(&m, in, 0, UINT64_MAX);
	ck_assert_str_eq(mounted_map(in), "");
	ck_assert_uint_eq(in->nbytes, 0);
	unit_ok(txn_sync(m.fs));
	space_stat(m.fs->space, &stat);
	ck_assert_uint_eq(stat.data_used, 0);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(test_walk_from_the_middle)
{
	struct mounted m;
	struct inode *in;
	struct extent_walk w;
	struct file_extent fe;

	mounted_new(&m, 256u << 20, NULL, NULL);
	in = mounted_file(&m, "f");
	for (unsigned i = 0; i < 500; i++)
		mounted_write(in, (uint64_t)i * 2 * SECTOR, SECTOR, i);
	unit_ok(fs_flush_inode(in));
	unit_ok(extent_walk_init(&w, in, 300 * SECTOR + 7, 700 * SECTOR));
	for (unsigned i = 150; i < 350; i++) {
		ck_assert_int_eq(extent_walk_next(&w, &fe), 1);
		ck_assert_uint_eq(fe.file_off, (uint64_t)i * 2 * SECTOR);
	}
	ck_assert_int_eq(extent_walk_next(&w, &fe), 0);
	extent_walk_done(&w);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

UNIT_MAIN("file_extent", test_bad_items_are_refused, test_drop, test_walk_from_the_middle)
