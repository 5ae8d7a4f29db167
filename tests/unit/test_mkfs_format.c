/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_mkfs_format.c - layouts of new filesystems, and mkfs_format() on devices in RAM.
 */
#include "tests/unit/unit.h"

#include "io/device_fault.h"
#include "io/device_mem.h"
#include "io/super.h"
#include "mkfs/mkfs.h"

#define MIB (1ull << 20)

/* Stripes lie side by side from 1 MiB on, inside the device; chunks follow each other. */
static void check_layout(const struct mkfs_options *o, uint64_t bytes)
{
	struct reason reason = {0};
	struct mkfs_layout l;
	uint64_t logical = DEVICE_RESERVED_BYTES, physical = DEVICE_RESERVED_BYTES, types = 0;

	unit_ok(mkfs_layout(o, bytes, &l, &reason));
	ck_assert_uint_eq(l.total_bytes, align_down(bytes, o->sectorsize));
	ck_assert_uint_eq(l.count, o->mixed ? 2 : 3);
	for (unsigned i = 0; i < l.count; i++) {
		const struct mkfs_chunk *c = &l.chunks[i];

		types |= c->type;
		ck_assert_uint_eq(c->logical, logical);
		ck_assert(c->length > 0 && is_aligned(c->length, MIB));
		ck_assert_uint_eq(c->stripes, c->type & BG_DUP ? 2 : 1);
		for (unsigned s = 0; s < c->stripes; s++) {
			ck_assert_uint_eq(c->physical[s], physical);
			physical += c->length;
		}
		logical += c->length;
	}
	ck_assert_uint_le(physical, l.total_bytes);
	ck_assert_uint_eq(types & BG_TYPE_MASK, BG_TYPE_MASK);
}

START_TEST(test_layout)
{
	for (unsigned i = 0; i < 5 * 2 * 4; i++) {
		struct mkfs_options o;
		struct mkfs_layout l;
		struct reason reason = {0};
		uint64_t least;

		mkfs_options_init(&o);
		o.leafsize = o.nodesize = 4096u << i % 5;
		o.mixed = i / 5 % 2;
		o.metadata_profile = i / 10 & 1 ? BG_DUP : 0;
		o.data_profile = o.mixed ? o.metadata_profile : i / 10 & 2 ? BG_DUP : 0;
		least = mkfs_bytes_min(&o);
		unit_err(mkfs_layout(&o, least - 1, &l, &reason), -ENOSPC);
		ck_assert_ptr_nonnull(strstr(reason.text, "at least"));
		check_layout(&o, least);
		check_layout(&o, least + 12345);
		check_layout(&o, 128 * MIB);
		check_layout(&o, 1024 * MIB);
		check_layout(&o, 1ull << 40);
		o.byte_count = 100 * MIB;
		unit_err(mkfs_layout(&o, 100 * MIB - 1, &l, &reason), -EINVAL);
		unit_ok(mkfs_layout(&o, 300 * MIB, &l, &reason));
		ck_assert_uint_eq(l.total_bytes, 100 * MIB);
	}
}
END_TEST

START_TEST(test_format)
{
	struct device *dev;
	struct mkfs_options o;
	struct disk_super super;
	struct reason reason = {0};
	unsigned mirror;

	unit_ok(device_mem_open("mem", 200 * MIB, &dev));
	mkfs_options_init(&o);
	strcpy(o.label, "name");
	o.leafsize = 4096;
	unit_ok(mkfs_format(dev, &o, &reason));
	unit_ok(super_read(dev, &super, &mirror, &reason));
	unit_ok(super_check_writable(&super, &reason));
	ck_assert_uint_eq(mirror, 0);
	ck_assert_str_eq(super.label, "name");
	ck_assert(disk_super_incompat_flags(&super) & INCOMPAT_COWFS_LEAFSIZE);
	ck_assert_uint_eq(disk_super_total_bytes(&super), 200 * MIB);
	ck_assert_uint_gt(disk_super_bytes_used(&super), 0);
	/* Little is written: the device stays sparse. */
	ck_assert_uint_lt(device_mem_used_bytes(dev), 8 * MIB);
	device_close(dev);
}
END_TEST

/* Nothing is written when it is refused. */
START_TEST(test_refused)
{
	struct device *dev;
	struct mkfs_options o;
	struct reason reason = {0};

	unit_ok(device_mem_open("mem", 200 * MIB, &dev));
	mkfs_options_init(&o);
	o.nodesize = 5000;
	unit_err(mkfs_format(dev, &o, &reason), -EINVAL);
	mkfs_options_init(&o);
	o.sectorsize = 32768;
	unit_err(mkfs_format(dev, &o, &reason), -EINVAL);
	mkfs_options_init(&o);
	o.features = MKFS_BLOCK_GROUP_TREE;
	unit_err(mkfs_format(dev, &o, &reason), -EINVAL);
	mkfs_options_init(&o);
	memset(o.label, 'x', sizeof(o.label));
	unit_err(mkfs_format(dev, &o, &reason), -EINVAL);
	mkfs_options_init(&o);
	o.byte_count = 1 * MIB;
	unit_err(mkfs_format(dev, &o, &reason), -ENOSPC);
	ck_assert_uint_eq(device_mem_used_bytes(dev), 0);
	device_close(dev);
}
END_TEST

/* An old filesystem is gone, all of its mirrors too, before the new one begins. */
START_TEST(test_old_super)
{
	struct device *mem, *dev;
	struct mkfs_options o;
	struct disk_super super;
	struct reason reason = {0};

	unit_ok(device_mem_open("mem", 200 * MIB, &mem));
	mkfs_options_init(&o);
	unit_ok(mkfs_format(mem, &o, &reason));
	unit_ok(device_fault_open(mem, &dev));
	/* Wiping goes through; the first block of the new trees does not. */
	o.byte_count = 50 * MIB;
	device_fault_arm(dev, FAULT_FLUSH, 2, UINT64_MAX, -EIO);
	unit_err(mkfs_format(dev, &o, &reason), -EIO);
	device_fault_arm(dev, FAULT_FLUSH, 0, 0, 0);
	unit_err(super_read(dev, &super, NULL, &reason), -EINVAL);
	unit_ok(device_pread(dev, SUPER_OFFSET_1, &super, sizeof(super)));
	ck_assert_uint_ne(disk_super_magic(&super), SUPER_MAGIC);
	unit_ok(mkfs_format(dev, &o, &reason));
	unit_ok(super_read(dev, &super, NULL, &reason));
	ck_assert_uint_eq(disk_super_total_bytes(&super), 50 * MIB);
	device_close(dev);
}
END_TEST

/* Every write fails once: mkfs says so each time, and the next try succeeds. */
START_TEST(test_errors)
{
	struct device *mem, *dev;
	struct mkfs_options o;
	struct disk_super super;
	struct reason reason = {0};
	uint64_t writes;

	unit_ok(device_mem_open("mem", 200 * MIB, &mem));
	unit_ok(device_fault_open(mem, &dev));
	mkfs_options_init(&o);
	device_fault_arm(dev, FAULT_WRITE, 0, 0, 0);
	unit_ok(mkfs_format(dev, &o, &reason));
	unit_ok(mkfs_format(dev, &o, &reason));
	writes = device_fault_calls(dev, FAULT_WRITE);
	ck_assert_uint_gt(writes, 4);
	for (uint64_t n = 1; n <= writes; n++) {
		int err;

		device_fault_arm(dev, FAULT_WRITE, n, 1, -EIO);
		err = mkfs_format(dev, &o, &reason);
		if (device_fault_calls(dev, FAULT_WRITE) >= n)
			unit_err(err, -EIO);
		else
			unit_ok(err);
	}
	device_fault_arm(dev, FAULT_WRITE, 0, 0, 0);
	unit_ok(mkfs_format(dev, &o, &reason));
	unit_ok(super_read(dev, &super, NULL, &reason));
	device_close(dev);
}
END_TEST

UNIT_MAIN("mkfs_format", test_layout, test_format, test_refused, test_old_super, test_errors)
