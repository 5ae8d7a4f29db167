/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_volume.c - copies, repair, errors and opening (io/volume.h).
 */
#include "io/csum.h"
#include "io/device_fault.h"
#include "io/device_mem.h"
#include "io/log.h"
#include "io/super.h"
#include "io/volume.h"
#include "tests/unit/unit.h"

#define MIB (1ULL << 20)
#define DEVICE_BYTES (128 * MIB)
#define DEVICES 4u

static unsigned warnings;

static void count_warnings(enum log_level level, const char *line, void *arg)
{
	(void)line;
	(void)arg;
	warnings += level == LOG_LEVEL_WARN;
}

static size_t make_item(uint8_t *item, uint64_t type, uint64_t length, unsigned stripes,
			uint64_t physical)
{
	struct disk_chunk *d = (struct disk_chunk *)item;

	memset(item, 0, chunk_item_bytes(stripes));
	disk_chunk_set_length(d, length);
	disk_chunk_set_owner(d, OBJ_EXTENT_TREE);
	disk_chunk_set_stripe_len(d, STRIPE_LEN_BYTES);
	disk_chunk_set_type(d, type);
	disk_chunk_set_sector_size(d, 4096);
	disk_chunk_set_num_stripes(d, (uint16_t)stripes);
	disk_chunk_set_sub_stripes(d, type & BG_RAID10 ? 2 : 1);
	for (unsigned i = 0; i < stripes; i++) {
		struct disk_stripe *s = (struct disk_stripe *)(item + sizeof(*d)) + i;

		disk_stripe_set_devid(s, type & BG_DUP ? 1 : i + 1);
		disk_stripe_set_offset(s, physical + (type & BG_DUP ? i * length : 0));
	}
	return chunk_item_bytes(stripes);
}

static void add_chunk(struct volume *vol, uint64_t logical, uint64_t type, uint64_t length,
		      unsigned stripes, uint64_t physical)
{
	struct key key = {OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, logical};
	uint8_t item[512];
	size_t size = make_item(item, type, length, stripes, physical);

	unit_ok(volume_add_chunk(vol, &key, item, size, NULL));
}

/* A volume over failing devices over RAM; chunks of every profile one after the other from 16 MiB. */
static struct volume *make_volume(struct device **ret_devices, bool read_only)
{
	struct volume_params params = {.sectorsize = 4096, .leafsize = 16384, .nodesize = 16384,
				       .csum_type = CSUM_CRC32C, .read_only = read_only};
	struct volume *vol = NULL;

	log_set_sink(count_warnings, NULL);
	unit_ok(volume_new(&params, &vol));
	for (unsigned i = 0; i < DEVICES; i++) {
		struct device *mem = NULL;
		struct disk_dev_item item;

		memset(&item, 0, sizeof(item));
		disk_dev_item_set_devid(&item, i + 1);
		disk_dev_item_set_total_bytes(&item, DEVICE_BYTES);
		unit_ok(device_mem_open("mem", DEVICE_BYTES, &mem));
		unit_ok(device_fault_open(mem, &ret_devices[i]));
		unit_ok(volume_add_device(vol, ret_devices[i], &item));
	}
	add_chunk(vol, 16 * MIB, BG_METADATA | BG_DUP, 4 * MIB, 2, 1 * MIB);
	add_chunk(vol, 20 * MIB, BG_DATA, 4 * MIB, 1, 16 * MIB);
	add_chunk(vol, 24 * MIB, BG_DATA | BG_RAID0, 4 * MIB, 4, 24 * MIB);
	add_chunk(vol, 28 * MIB, BG_DATA | BG_RAID10, 4 * MIB, 4, 32 * MIB);
	add_chunk(vol, 32 * MIB, BG_DATA | BG_RAID1, 4 * MIB, 2, 40 * MIB);
	add_chunk(vol, 36 * MIB, BG_DATA | BG_RAID1C3, 4 * MIB, 3, 48 * MIB);
	add_chunk(vol, 40 * MIB, BG_DATA | BG_RAID1C4, 4 * MIB, 4, 56 * MIB);
	return vol;
}

#define FIRST (16 * MIB)
#define SPACE (28 * MIB)

START_TEST(test_model)
{
	static uint8_t model[28 << 20], buf[28 << 20];
	struct device *devices[DEVICES];
	scoped(volume_closep) struct volume *vol = make_volume(devices, false);
	uint64_t seed = 1;

	for (int i = 0; i < 200; i++) {
		struct iovec iov[200];
		uint64_t r[2];
		size_t at, len, done = 0;
		unsigned parts;

		unit_fill(r, sizeof(r), seed++);
		at = r[0] % SPACE;
		len = r[1] % min_u64(SPACE - at, 6 * MIB) + 1;
		unit_fill(model + at, len, seed++);
		parts = (unsigned)(r[1] >> 40) % ARRAY_COUNT(iov) + 1;
		for (unsigned p = 0; p < parts; p++) {
			size_t n = p == parts - 1 ? len - done : len / parts;

			iov[p] = (struct iovec){model + at + done, n};
			done += n;
		}
		unit_ok(volume_writev(vol, FIRST + at, iov, parts));
	}
	unit_ok(volume_flush(vol));
	unit_ok(volume_read(vol, FIRST, buf, SPACE, 0));
	ck_assert_mem_eq(buf, model, SPACE);
	/* All other copies, chunk by chunk. */
	for (uint64_t c = 0; c < 7; c++) {
		int copies = volume_num_copies(vol, FIRST + c * 4 * MIB);

		ck_assert_int_eq(copies, ((int[]){2, 1, 1, 2, 2, 3, 4})[c]);
		for (unsigned m = 1; m < (unsigned)copies; m++) {
			memset(buf, 0, 4 * MIB);
			unit_ok(volume_read(vol, FIRST + c * 4 * MIB, buf, 4 * MIB, m));
			ck_assert_mem_eq(buf, model + c * 4 * MIB, 4 * MIB);
		}
		unit_err(volume_read(vol, FIRST + c * 4 * MIB, buf, 1, (unsigned)copies), -EINVAL);
	}
}
END_TEST

START_TEST(test_outside)
{
	struct device *devices[DEVICES];
	scoped(volume_closep) struct volume *vol = make_volume(devices, false);
	uint8_t b[8192] = {1};

	unit_err(volume_num_copies(vol, 0), -ENOENT);
	unit_err(volume_read(vol, FIRST - 1, b, 2, 0), -ENOENT);
	unit_err(volume_read(vol, FIRST + SPACE - 1, b, 2, 0), -ENOENT);
	unit_err(volume_write(vol, FIRST + SPACE - 4096, b, 8192), -ENOENT);
	/* Nothing of it was written. */
	unit_ok(volume_read(vol, FIRST + SPACE - 4096, b, 4096, 0));
	ck_assert_uint_eq(b[0], 0);
	unit_ok(volume_write(vol, FIRST, b, 0));
	unit_ok(volume_remove_chunk(vol, FIRST));
	unit_err(volume_write(vol, FIRST, b, 1), -ENOENT);
}
END_TEST

/* Content is good if all bytes are arg's. */
static int all_equal(const void *buf, size_t len, void *arg)
{
	const uint8_t *at = buf;

	for (size_t i = 0; i < len; i++)
		if (at[i] != *(uint8_t *)arg)
			return -EUCLEAN;
	return 0;
}

START_TEST(test_repair)
{
	struct device *devices[DEVICES];
	scoped(volume_closep) struct volume *vol = make_volume(devices, false);
	uint64_t at = 40 * MIB + 16384;
	uint8_t b[16384], seven = 7, bad = 8;

	memset(b, 7, sizeof(b));
	unit_ok(volume_write(vol, at, b, sizeof(b)));
	unit_ok(volume_read_verified(vol, at, sizeof(b), b, all_equal, &seven));
	ck_assert_uint_eq(warnings, 0);
	/* Copies 0 and 1 are spoiled, 0 cannot even be read; both are mended. */
	unit_ok(device_pwrite(devices[0], 56 * MIB + 16384 + 5, &bad, 1));
	unit_ok(device_pwrite(devices[1], 56 * MIB + 2 * 16384 - 1, &bad, 1));
	device_fault_arm(devices[0], FAULT_READ, 1, 1, -EIO);
	memset(b, 0, sizeof(b));
	unit_ok(volume_read_verified(vol, at, sizeof(b), b, all_equal, &seven));
	unit_ok(all_equal(b, sizeof(b), &seven));
	ck_assert_uint_eq(warnings, 1);
	ck_assert_uint_eq(vol->repaired_count, 2);
	for (unsigned m = 0; m < 4; m++) {
		unit_ok(volume_read(vol, at, b, sizeof(b), m));
		unit_ok(all_equal(b, sizeof(b), &seven));
	}
	ck_assert_uint_eq(volume_find_device(vol, 1)->read_errors, 1);
	ck_assert_uint_eq(volume_find_device(vol, 1)->corruption_errors, 1);
	/* No copy is good. */
	unit_err(volume_read_verified(vol, at, sizeof(b), b, all_equal, &bad), -EUCLEAN);
	device_fault_arm(devices[0], FAULT_READ, 1, UINT64_MAX, -EIO);
	unit_err(volume_read_verified(vol, 20 * MIB, 4096, b, all_equal, &seven), -EIO);
}
END_TEST

START_TEST(test_read_only_repairs_nothing)
{
	struct device *devices[DEVICES];
	scoped(volume_closep) struct volume *vol = make_volume(devices, true);
	uint8_t b[4096], seven = 7;
	struct disk_super s = {0};

	memset(b, 7, sizeof(b));
	unit_ok(device_pwrite(devices[0], 5 * MIB, b, sizeof(b)));
	memset(b, 0, sizeof(b));
	device_fault_arm(devices[0], FAULT_WRITE, 0, 0, 0);
	unit_ok(volume_read_verified(vol, FIRST, sizeof(b), b, all_equal, &seven));
	ck_assert_uint_eq(device_fault_calls(devices[0], FAULT_WRITE), 0);
	unit_err(volume_write(vol, FIRST, b, 1), -EROFS);
	unit_err(volume_discard(vol, FIRST, 4096), -EROFS);
	unit_err(volume_write_supers(vol, &s, 3), -EROFS);
	unit_ok(volume_flush(vol));
	ck_assert_uint_eq(device_fault_calls(devices[0], FAULT_FLUSH), 0);
}
END_TEST

START_TEST(test_write_errors)
{
	struct device *devices[DEVICES];
	scoped(volume_closep) struct volume *vol = make_volume(devices, false);
	uint8_t b[4096], nine = 9;

	memset(b, 9, sizeof(b));
	device_fault_arm(devices[1], FAULT_WRITE, 1, UINT64_MAX, -ENOSPC);
	unit_err(volume_write(vol, 40 * MIB, b, sizeof(b)), -ENOSPC);
	/* The other copies were written all the same. */
	for (unsigned m = 0; m < 4; m++) {
		unit_ok(volume_read(vol, 40 * MIB, b, sizeof(b), m));
		ck_assert_int_eq(all_equal(b, sizeof(b), &nine), m == 1 ? -EUCLEAN : 0);
	}
	ck_assert_uint_eq(volume_find_device(vol, 2)->write_errors, 1);
	device_fault_arm(devices[2], FAULT_FLUSH, 1, 1, -EIO);
	unit_err(volume_flush(vol), -EIO);
	ck_assert_uint_eq(device_fault_calls(devices[3], FAULT_FLUSH), 1);
	device_fault_arm(devices[0], FAULT_DISCARD, 1, 1, -EOPNOTSUPP);
	unit_err(volume_discard(vol, FIRST, 4096), -EOPNOTSUPP);
	unit_ok(volume_discard(vol, FIRST, 4096));
}
END_TEST

START_TEST(test_chunks_fit_devices)
{
	struct device *devices[DEVICES];
	scoped(volume_closep) struct volume *vol = make_volume(devices, false);
	struct key key = {OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, 100 * MIB};
	struct reason r = {""};
	uint8_t item[512];
	size_t size = make_item(item, BG_DATA, 4 * MIB, 1, DEVICE_BYTES - 4 * MIB + 4096);

	unit_err(volume_add_chunk(vol, &key, item, size, &r), -EUCLEAN);
	size = make_item(item, BG_DATA, 4 * MIB, 1, UINT64_MAX - 8 * MIB + 1);
	unit_err(volume_add_chunk(vol, &key, item, size, &r), -EUCLEAN);
	size = make_item(item, BG_DATA | BG_RAID0, 5 * MIB, 5, MIB);
	unit_err(volume_add_chunk(vol, &key, item, size, &r), -ENODEV);
	ck_assert_ptr_nonnull(strstr(r.text, "device 5"));
	size = make_item(item, BG_DATA, 4 * MIB, 1, DEVICE_BYTES - 4 * MIB);
	unit_ok(volume_add_chunk(vol, &key, item, size, &r));
}
END_TEST

/* A superblock for device number devid of count, with one system chunk on device 1. */
static struct disk_super make_super(uint64_t devid, uint64_t count, uint64_t generation)
{
	struct disk_super s;
	struct key key = {OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, 16 * MIB};
	size_t size;

	memset(&s, 0, sizeof(s));
	disk_super_set_magic(&s, SUPER_MAGIC);
	disk_super_set_generation(&s, generation);
	disk_super_set_root(&s, 30 << 20);
	disk_super_set_chunk_root(&s, 16 << 20);
	disk_super_set_total_bytes(&s, count * DEVICE_BYTES);
	disk_super_set_bytes_used(&s, 128 << 10);
	disk_super_set_num_devices(&s, count);
	disk_super_set_sectorsize(&s, 4096);
	disk_super_set_stripesize(&s, 4096);
	disk_super_set_nodesize(&s, 16384);
	disk_super_set_leafsize(&s, 16384);
	disk_dev_item_set_devid(&s.dev_item, devid);
	disk_dev_item_set_total_bytes(&s.dev_item, DEVICE_BYTES);
	key_to_disk(&key, (struct disk_key *)s.sys_chunk_array);
	size = make_item(s.sys_chunk_array + sizeof(struct disk_key), BG_SYSTEM, 4 * MIB, 1, 8 * MIB);
	disk_super_set_sys_chunk_array_size(&s, (uint32_t)(sizeof(struct disk_key) + size));
	return s;
}

static struct device *make_member(uint64_t devid, uint64_t count, uint64_t generation)
{
	struct disk_super s = make_super(devid, count, generation);
	struct device *dev = NULL;

	unit_ok(device_mem_open("mem", DEVICE_BYTES, &dev));
	unit_ok(super_write(dev, &s, SUPER_MIRROR_COUNT));
	return dev;
}

START_TEST(test_open)
{
	struct device *devices[2] = {make_member(2, 2, 6), make_member(1, 2, 7)};
	scoped(volume_closep) struct volume *vol = NULL;
	struct disk_super super, written;
	struct disk_dev_item item;
	struct reason r = {""};

	log_set_sink(count_warnings, NULL);
	unit_ok(volume_open_devices(devices, 2, 0, &vol, &super, &r));
	ck_assert_uint_eq(disk_super_generation(&super), 7);
	ck_assert_uint_eq(warnings, 1);
	ck_assert_int_eq(volume_num_copies(vol, 16 * MIB), 1);
	ck_assert_uint_eq(volume_size(vol), 2 * DEVICE_BYTES);
	ck_assert_uint_eq(volume_block_bytes(vol, 1), 16384);

	/* Each device gets its own item. */
	unit_ok(volume_device_item(vol, 2, &item));
	disk_dev_item_set_bytes_used(&item, 77);
	unit_ok(volume_set_device_item(vol, 2, &item));
	unit_err(volume_device_item(vol, 3, &item), -ENODEV);
	disk_super_set_generation(&super, 8);
	unit_ok(volume_write_supers(vol, &super, SUPER_MIRROR_COUNT));
	for (unsigned i = 0; i < 2; i++) {
		unit_ok(super_read(devices[i], &written, NULL, &r));
		ck_assert_uint_eq(disk_super_generation(&written), 8);
		ck_assert_uint_eq(disk_dev_item_devid(&written.dev_item), 2 - i);
		ck_assert_uint_eq(disk_dev_item_bytes_used(&written.dev_item), i == 0 ? 77 : 0);
	}
}
END_TEST

static int try_open(struct device *a, struct device *b, struct reason *r)
{
	struct device *devices[2] = {a, b};
	struct volume *vol = NULL;
	struct disk_super super;
	int err = volume_open_devices(devices, b == NULL ? 1 : 2, 0, &vol, &super, r);

	volume_close(vol);
	return err;
}

START_TEST(test_open_refuses)
{
	struct disk_super s = make_super(1, 1, 7);
	struct device *other;
	struct reason r = {""};

	log_set_sink(count_warnings, NULL);
	unit_ok(try_open(make_member(1, 1, 7), NULL, &r));
	unit_err(try_open(make_member(1, 2, 7), NULL, &r), -ENODEV);
	ck_assert_ptr_nonnull(strstr(r.text, "2 devices, 1 missing"));
	unit_err(try_open(make_member(1, 2, 7), make_member(1, 2, 7), &r), -EINVAL);
	unit_err(try_open(make_member(2, 1, 7), NULL, &r), -ENODEV);

	s.fsid[0] = 1;
	s.dev_item.fsid[0] = 1;
	unit_ok(device_mem_open("other", DEVICE_BYTES, &other));
	unit_ok(super_write(other, &s, 1));
	unit_err(try_open(make_member(2, 2, 7), other, &r), -EINVAL);
	ck_assert_ptr_nonnull(strstr(r.text, "different filesystems"));
}
END_TEST

START_TEST(test_system_chunks_are_judged)
{
	struct reason r = {""};

	log_set_sink(count_warnings, NULL);
	for (int what = 0; what < 5; what++) {
		struct disk_super s = make_super(1, 1, 7);
		struct disk_chunk *c =
			(struct disk_chunk *)(s.sys_chunk_array + sizeof(struct disk_key));
		struct device *dev = NULL;

		switch (what) {
		case 0:
			disk_super_set_sys_chunk_array_size(&s, 98);
			break;
		case 1:
			disk_chunk_set_num_stripes(c, 65535);
			break;
		case 2:
			disk_chunk_set_num_stripes(c, 0);
			break;
		case 3:
			disk_chunk_set_type(c, BG_DATA);
			break;
		case 4:
			disk_super_set_sys_chunk_array_size(&s, SYS_CHUNK_ARRAY_BYTES);
			break;
		}
		unit_ok(device_mem_open("mem", DEVICE_BYTES, &dev));
		unit_ok(super_write(dev, &s, 1));
		unit_err(try_open(dev, NULL, &r), -EUCLEAN);
	}
}
END_TEST

UNIT_MAIN("volume", test_model, test_outside, test_repair, test_read_only_repairs_nothing,
	  test_write_errors, test_chunks_fit_devices, test_open, test_open_refuses,
	  test_system_chunks_are_judged)
