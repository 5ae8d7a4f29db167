/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_super.c - judging, choosing and writing superblocks (io/super.h).
 */
#include "io/csum.h"
#include "io/device_mem.h"
#include "io/log.h"
#include "io/super.h"
#include "tests/unit/unit.h"

#define DEVICE_BYTES (200ULL << 20)

static unsigned warnings;

static void count_warnings(enum log_level level, const char *line, void *arg)
{
	(void)line;
	(void)arg;
	warnings += level == LOG_LEVEL_WARN;
}

/* A superblock that nothing is wrong with. */
static struct disk_super good_super(void)
{
	struct disk_super s;

	memset(&s, 0, sizeof(s));
	unit_fill(s.fsid, UUID_BYTES, 1);
	memcpy(s.dev_item.fsid, s.fsid, UUID_BYTES);
	disk_super_set_bytenr(&s, SUPER_OFFSET_0);
	disk_super_set_flags(&s, HEADER_WRITTEN);
	disk_super_set_magic(&s, SUPER_MAGIC);
	disk_super_set_generation(&s, 7);
	disk_super_set_root(&s, 30 << 20);
	disk_super_set_chunk_root(&s, 22 << 20);
	disk_super_set_chunk_root_generation(&s, 7);
	disk_super_set_total_bytes(&s, DEVICE_BYTES);
	disk_super_set_bytes_used(&s, 128 << 10);
	disk_super_set_num_devices(&s, 1);
	disk_super_set_sectorsize(&s, 4096);
	disk_super_set_stripesize(&s, 4096);
	disk_super_set_nodesize(&s, 16384);
	disk_super_set_leafsize(&s, 16384);
	disk_super_set_sys_chunk_array_size(&s, 97);
	disk_super_set_incompat_flags(&s, INCOMPAT_MIXED_BACKREF | INCOMPAT_SKINNY_METADATA);
	disk_dev_item_set_devid(&s.dev_item, 1);
	disk_dev_item_set_total_bytes(&s.dev_item, DEVICE_BYTES);
	return s;
}

/* The verdict on s after its checksum is made right. */
static int judge(struct disk_super *s, struct reason *r)
{
	if (csum_type_known(disk_super_csum_type(s)))
		csum_header_set((enum csum_type)disk_super_csum_type(s), s, sizeof(*s));
	return super_validate(s, SUPER_OFFSET_0, DEVICE_BYTES, "dev", r);
}

START_TEST(test_good)
{
	struct disk_super s = good_super();
	struct reason r = {"untouched"};

	unit_ok(judge(&s, &r));
	ck_assert_str_eq(r.text, "untouched");
	for (unsigned t = 0; t < CSUM_TYPE_COUNT; t++) {
		disk_super_set_csum_type(&s, (uint16_t)t);
		unit_ok(judge(&s, &r));
	}
	unit_ok(super_check_writable(&s, &r));
}
END_TEST

/* One field is changed at a time; each must be noticed and the reason say so. */
#define EXPECT(set, err, words)								\
	do {										\
		struct disk_super s = good_super();					\
		struct reason r = {""};							\
											\
		set;									\
		unit_err(judge(&s, &r), (err));						\
		ck_assert_msg(strstr(r.text, (words)) != NULL, "%s: \"%s\"", #set, r.text); \
		ck_assert_msg(strncmp(r.text, "dev: ", 5) == 0, "%s", r.text);		\
	} while (0)

START_TEST(test_each_field)
{
	EXPECT(disk_super_set_magic(&s, 1), -EINVAL, "not a btrfs");
	EXPECT(disk_super_set_csum_type(&s, 4), -EOPNOTSUPP, "checksum type 4");
	EXPECT(disk_super_set_bytenr(&s, SUPER_OFFSET_1), -EUCLEAN, "belongs at 67108864");
	EXPECT(disk_super_set_sectorsize(&s, 2048), -EUCLEAN, "sector size 2048");
	EXPECT(disk_super_set_sectorsize(&s, 5000), -EUCLEAN, "sector size 5000");
	EXPECT(disk_super_set_sectorsize(&s, 131072), -EUCLEAN, "sector size");
	EXPECT(disk_super_set_nodesize(&s, 2048), -EUCLEAN, "node size 2048");
	EXPECT(disk_super_set_nodesize(&s, 131072), -EUCLEAN, "node size 131072");
	EXPECT(disk_super_set_leafsize(&s, 0), -EUCLEAN, "leaf size 0");
	EXPECT(disk_super_set_leafsize(&s, 4096), -EUCLEAN, "bit 62 not set");
	EXPECT(disk_super_set_stripesize(&s, 3), -EUCLEAN, "stripe size 3");
	EXPECT(disk_super_set_bytes_used(&s, 5 * 16384), -EUCLEAN, "bytes used");
	EXPECT(disk_super_set_root(&s, 0), -EUCLEAN, "tree root");
	EXPECT(disk_super_set_root(&s, 30000), -EUCLEAN, "tree root");
	EXPECT(disk_super_set_chunk_root(&s, 1), -EUCLEAN, "chunk root");
	EXPECT(disk_super_set_log_root(&s, 1), -EUCLEAN, "log root");
	EXPECT(disk_super_set_root_level(&s, 8), -EUCLEAN, "level 8");
	EXPECT(disk_super_set_chunk_root_level(&s, 255), -EUCLEAN, "level 255");
	EXPECT(disk_super_set_log_root_level(&s, 8), -EUCLEAN, "log root of level 8");
	EXPECT(disk_super_set_chunk_root_generation(&s, 8), -EUCLEAN, "older");
	EXPECT(disk_super_set_num_devices(&s, 0), -EUCLEAN, "without devices");
	EXPECT(disk_super_set_sys_chunk_array_size(&s, 96), -EUCLEAN, "system chunks");
	EXPECT(disk_super_set_sys_chunk_array_size(&s, 2049), -EUCLEAN, "system chunks");
	EXPECT(disk_dev_item_set_total_bytes(&s.dev_item, DEVICE_BYTES + 1), -EUCLEAN, "truncated");
	EXPECT(disk_super_set_total_bytes(&s, 0), -EUCLEAN, "0 bytes in all");
	EXPECT(disk_super_set_total_bytes(&s, DEVICE_BYTES - 4096), -EUCLEAN, "in all");
	EXPECT(disk_dev_item_set_total_bytes(&s.dev_item, 100), -EUCLEAN, "100 bytes");
	EXPECT(disk_dev_item_set_devid(&s.dev_item, 0), -EUCLEAN, "without devices");
	EXPECT(s.dev_item.fsid[3] ^= 1, -EUCLEAN, "another");
	EXPECT(disk_super_set_flags(&s, SUPER_FLAG_CHANGING_FSID_V2), -EOPNOTSUPP, "conversion");
	EXPECT(disk_super_set_flags(&s, 1ULL << 50), -EOPNOTSUPP, "flags 0x4000000000000");
	EXPECT(disk_super_set_compat_ro_flags(&s, COMPAT_RO_BLOCK_GROUP_TREE), -EUCLEAN,
	       "block group tree");
}
END_TEST

START_TEST(test_features)
{
	struct disk_super s = good_super();
	struct reason r = {""};

	disk_super_set_incompat_flags(&s, INCOMPAT_ZONED | (1ULL << 40));
	unit_err(judge(&s, &r), -EOPNOTSUPP);
	ck_assert_ptr_nonnull(strstr(r.text, "bit 12 (zoned), 40"));

	s = good_super();
	disk_super_set_incompat_flags(&s, INCOMPAT_SIMPLE_QUOTA);
	unit_ok(judge(&s, &r));
	unit_err(super_check_writable(&s, &r), -EROFS);
	ck_assert_ptr_nonnull(strstr(r.text, "16"));

	s = good_super();
	disk_super_set_compat_ro_flags(&s, 1ULL << 33);
	unit_ok(judge(&s, &r));
	unit_err(super_check_writable(&s, &r), -EROFS);
	ck_assert_ptr_nonnull(strstr(r.text, "33"));

	s = good_super();
	disk_super_set_flags(&s, SUPER_FLAG_SEEDING);
	unit_ok(judge(&s, &r));
	unit_err(super_check_writable(&s, &r), -EROFS);
}
END_TEST

START_TEST(test_leafsize)
{
	struct disk_super s = good_super();
	struct reason r = {""};
	uint64_t flags = disk_super_incompat_flags(&s);

	disk_super_set_incompat_flags(&s, flags | INCOMPAT_COWFS_LEAFSIZE);
	unit_err(judge(&s, &r), -EUCLEAN);
	disk_super_set_leafsize(&s, 4096);
	unit_ok(judge(&s, &r));
	disk_super_set_leafsize(&s, 65536);
	unit_ok(judge(&s, &r));
	disk_super_set_incompat_flags(&s, (flags | INCOMPAT_COWFS_LEAFSIZE) &
				      ~INCOMPAT_SKINNY_METADATA);
	unit_err(judge(&s, &r), -EUCLEAN);
}
END_TEST

START_TEST(test_metadata_uuid)
{
	struct disk_super s = good_super();
	struct reason r = {""};

	disk_super_set_incompat_flags(&s, INCOMPAT_METADATA_UUID);
	unit_fill(s.metadata_uuid, UUID_BYTES, 2);
	unit_err(judge(&s, &r), -EUCLEAN);
	memcpy(s.dev_item.fsid, s.metadata_uuid, UUID_BYTES);
	unit_ok(judge(&s, &r));
	ck_assert_mem_eq(super_metadata_uuid(&s), s.metadata_uuid, UUID_BYTES);
}
END_TEST

START_TEST(test_mirrors)
{
	scoped(device_closep) struct device *dev = NULL;
	struct disk_super s = good_super(), got;
	struct reason r = {""};
	unsigned mirror = 9;
	uint8_t b;

	log_set_sink(count_warnings, NULL);
	unit_ok(device_mem_open("dev", DEVICE_BYTES, &dev));
	unit_err(super_read(dev, &got, &mirror, &r), -EINVAL);
	ck_assert_str_eq(r.text, "dev: not a btrfs filesystem");
	unit_ok(super_write(dev, &s, SUPER_MIRROR_COUNT));
	unit_ok(super_read(dev, &got, &mirror, &r));
	ck_assert_uint_eq(mirror, 0);
	/* The first copy alone gets newer, then is damaged: the old one is taken, and said. */
	disk_super_set_generation(&s, 8);
	unit_ok(super_write(dev, &s, 1));
	unit_ok(super_read(dev, &got, &mirror, &r));
	ck_assert_uint_eq(disk_super_generation(&got), 8);
	ck_assert_uint_eq(warnings, 0);
	b = 1;
	unit_ok(device_pwrite(dev, SUPER_OFFSET_0 + 1000, &b, 1));
	unit_ok(super_read(dev, &got, &mirror, &r));
	ck_assert_uint_eq(mirror, 1);
	ck_assert_uint_eq(disk_super_generation(&got), 7);
	ck_assert_uint_eq(disk_super_bytenr(&got), SUPER_OFFSET_1);
	ck_assert_uint_eq(warnings, 1);
	/* No good copy is left. */
	unit_ok(device_pwrite(dev, SUPER_OFFSET_1 + 1000, &b, 1));
	unit_err(super_read(dev, &got, &mirror, &r), -EUCLEAN);
	ck_assert_ptr_nonnull(strstr(r.text, "bad checksum"));
}
END_TEST

START_TEST(test_other_filesystem_in_front)
{
	scoped(device_closep) struct device *dev = NULL;
	struct disk_super s = good_super(), got;
	struct reason r = {""};

	/* Another filesystem was made over this one; the copy at 64 MiB is still there. */
	unit_ok(device_mem_open("dev", DEVICE_BYTES, &dev));
	unit_ok(super_write(dev, &s, SUPER_MIRROR_COUNT));
	memset(&s, 0, sizeof(s));
	unit_ok(device_pwrite(dev, SUPER_OFFSET_0, &s, sizeof(s)));
	unit_err(super_read(dev, &got, NULL, &r), -EINVAL);
}
END_TEST

START_TEST(test_large_device_has_three)
{
	scoped(device_closep) struct device *dev = NULL;
	struct disk_super s = good_super(), got;

	ck_assert_uint_eq(super_mirror_count(1 << 20), 1);
	ck_assert_uint_eq(super_mirror_count(DEVICE_BYTES), 2);
	ck_assert_uint_eq(super_mirror_count(300ULL << 30), 3);
	disk_super_set_total_bytes(&s, 300ULL << 30);
	disk_dev_item_set_total_bytes(&s.dev_item, 300ULL << 30);
	unit_ok(device_mem_open("dev", 300ULL << 30, &dev));
	unit_ok(super_write(dev, &s, SUPER_MIRROR_COUNT));
	unit_ok(device_pread(dev, SUPER_OFFSET_2, &got, sizeof(got)));
	ck_assert_uint_eq(disk_super_bytenr(&got), SUPER_OFFSET_2);
	unit_ok(super_validate(&got, SUPER_OFFSET_2, UINT64_MAX, "dev", NULL));
}
END_TEST

START_TEST(test_small_device)
{
	scoped(device_closep) struct device *dev = NULL;
	struct disk_super got;
	struct reason r = {""};

	unit_ok(device_mem_open("dev", 65536, &dev));
	unit_err(super_read(dev, &got, NULL, &r), -EINVAL);
}
END_TEST

UNIT_MAIN("super", test_good, test_each_field, test_features, test_leafsize, test_metadata_uuid,
	  test_mirrors, test_other_filesystem_in_front, test_large_device_has_three,
	  test_small_device)
