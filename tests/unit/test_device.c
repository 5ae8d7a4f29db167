/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_device.c - files and the test devices behind the device interface (io/device.h).
 */
#include "io/device.h"
#include "io/device_fault.h"
#include "io/device_mem.h"
#include "io/device_record.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1u << 20)

/* Reads and writes of all shapes against a copy in memory. */
static void exercise(struct device *dev)
{
	static uint8_t model[MIB], buf[MIB];
	uint64_t seed = 1;

	ck_assert_uint_eq(device_size(dev), MIB);
	memset(model, 0, MIB);
	for (int i = 0; i < 300; i++) {
		struct iovec iov[100];
		uint64_t r[2];
		size_t offset, len, at = 0;
		unsigned parts;

		unit_fill(r, sizeof(r), seed++);
		offset = r[0] % MIB;
		len = r[1] % min_size(MIB - offset, 200000) + 1;
		unit_fill(model + offset, len, seed++);
		memcpy(buf + offset, model + offset, len);
		parts = (unsigned)(r[1] >> 32) % ARRAY_COUNT(iov) + 1;
		for (unsigned p = 0; p < parts; p++) {
			size_t n = p == parts - 1 ? len - at : min_size(len - at, len / parts);

			iov[p] = (struct iovec){buf + offset + at, n};
			at += n;
		}
		unit_ok(device_pwritev(dev, offset, iov, parts));
	}
	memset(buf, 0xff, MIB);
	unit_ok(device_pread(dev, 0, buf, MIB));
	ck_assert_mem_eq(buf, model, MIB);
	unit_ok(device_pread(dev, 65530, buf, 12));
	ck_assert_mem_eq(buf, model + 65530, 12);
	unit_ok(device_flush(dev));

	unit_err(device_pread(dev, MIB - 1, buf, 2), -EIO);
	unit_err(device_pread(dev, UINT64_MAX, buf, 2), -EIO);
	unit_err(device_pwrite(dev, MIB, buf, 1), -EIO);
	unit_err(device_discard(dev, 1, MIB), -EIO);
	unit_ok(device_pwrite(dev, MIB, buf, 0));
}

START_TEST(test_mem)
{
	scoped(device_closep) struct device *dev = NULL;
	scoped(device_closep) struct device *copy = NULL;
	uint8_t a[16], b[16];

	unit_ok(device_mem_open("m", MIB, &dev));
	exercise(dev);
	unit_ok(device_mem_clone(dev, &copy));
	unit_ok(device_pread(dev, 1000, a, 16));
	unit_ok(device_pread(copy, 1000, b, 16));
	ck_assert_mem_eq(a, b, 16);
	memset(a, 0x11, 16);
	unit_ok(device_pwrite(dev, 1000, a, 16));
	unit_ok(device_pread(copy, 1000, a, 16));
	ck_assert_mem_eq(a, b, 16);
	unit_err(device_resize(dev, 5), -EOPNOTSUPP);
}
END_TEST

START_TEST(test_mem_is_sparse)
{
	scoped(device_closep) struct device *dev = NULL;
	uint8_t b = 7;

	unit_ok(device_mem_open("m", 1ULL << 40, &dev));
	unit_ok(device_pwrite(dev, (1ULL << 40) - 1, &b, 1));
	unit_ok(device_pwrite(dev, 256ULL << 30, &b, 1));
	b = 0;
	unit_ok(device_pread(dev, 256ULL << 30, &b, 1));
	ck_assert_uint_eq(b, 7);
	unit_ok(device_pread(dev, 255ULL << 30, &b, 1));
	ck_assert_uint_eq(b, 0);
	ck_assert_uint_eq(device_mem_used_bytes(dev), 2 * DEVICE_MEM_PAGE_BYTES);
}
END_TEST

START_TEST(test_file)
{
	scoped(device_closep) struct device *dev = NULL;
	struct reason r = {""};
	char path[64];
	uint8_t b[4096];
	struct stat st;

	unit_temp_file(path);
	ck_assert_int_eq(truncate(path, MIB), 0);
	unit_ok(device_open(path, 0, &dev, &r));
	exercise(dev);
	unit_ok(device_discard(dev, 0, 65536));
	unit_ok(device_pread(dev, 0, b, sizeof(b)));
	for (size_t i = 0; i < sizeof(b); i++)
		ck_assert_uint_eq(b[i], 0);
	unit_ok(device_resize(dev, 2 * MIB));
	ck_assert_uint_eq(device_size(dev), 2 * MIB);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, 2 * MIB);
	unit_ok(device_pwrite(dev, 2 * MIB - 1, b, 1));
	/* Cut by somebody else: an error, not zeroes. */
	ck_assert_int_eq(truncate(path, MIB), 0);
	unit_err(device_pread(dev, MIB - 10, b, 20), -EIO);
	unlink(path);
}
END_TEST

START_TEST(test_file_read_only)
{
	scoped(device_closep) struct device *dev = NULL;
	struct reason r = {""};
	char path[64];
	uint8_t b = 1;

	unit_temp_file(path);
	ck_assert_int_eq(truncate(path, MIB), 0);
	unit_ok(device_open(path, DEVICE_READ_ONLY, &dev, &r));
	unit_err(device_pwrite(dev, 0, &b, 1), -EROFS);
	unit_err(device_discard(dev, 0, 4096), -EROFS);
	unit_err(device_resize(dev, 4096), -EROFS);
	unit_ok(device_flush(dev));
	unit_ok(device_pread(dev, 0, &b, 1));
	ck_assert_uint_eq(b, 0);
	unlink(path);
}
END_TEST

START_TEST(test_file_is_claimed)
{
	struct device *dev = NULL, *other = NULL;
	struct reason r = {""};
	char path[64], link_path[80];

	unit_temp_file(path);
	snprintf(link_path, sizeof(link_path), "%s-link", path);
	ck_assert_int_eq(truncate(path, MIB), 0);
	ck_assert_int_eq(link(path, link_path), 0);
	for (unsigned flags = 0; flags <= DEVICE_READ_ONLY; flags++) {
		pid_t pid;
		int status;

		unit_ok(device_open(path, flags, &dev, &r));
		unit_err(device_open(path, 0, &other, &r), -EBUSY);
		unit_err(device_open(link_path, DEVICE_READ_ONLY, &other, &r), -EBUSY);
		ck_assert_ptr_nonnull(strstr(r.text, "in use"));
		ck_assert_ptr_null(other);
		/* The claim is handed on to a child, as to a daemon. */
		pid = fork();
		if (pid == 0) {
			usleep(200000);
			_exit(0);
		}
		device_close(dev);
		unit_err(device_open(path, 0, &other, &r), -EBUSY);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		unit_ok(device_open(path, flags, &dev, &r));
		device_close(dev);
	}
	unlink(path);
	unlink(link_path);
}
END_TEST

START_TEST(test_open_refuses)
{
	struct device *dev = NULL;
	struct reason r = {""};
	char path[64];

	unit_err(device_open("/nonexistent/image", 0, &dev, &r), -ENOENT);
	ck_assert_ptr_nonnull(strstr(r.text, "/nonexistent/image"));
	unit_err(device_open("/tmp", 0, &dev, &r), -ENOTBLK);
	unit_err(device_open("/dev/null", 0, &dev, &r), -ENOTBLK);
	unit_temp_file(path);
	unlink(path);
	unit_err(device_open(path, 0, &dev, &r), -ENOENT);
	unit_ok(device_open(path, DEVICE_CREATE, &dev, &r));
	ck_assert_uint_eq(device_size(dev), 0);
	unit_ok(device_resize(dev, MIB));
	device_close(dev);
	if (geteuid() != 0) {
		ck_assert_int_eq(chmod(path, 0400), 0);
		unit_err(device_open(path, 0, &dev, &r), -EACCES);
		ck_assert_ptr_nonnull(strstr(r.text, "read-only"));
	}
	unlink(path);
}
END_TEST

/* Only a machine whose kernel lends out loop devices can show this. */
START_TEST(test_loop_device_is_noticed)
{
	struct device *dev = NULL;
	struct reason r = {""};
	char path[64], command[200], loop[64] = "";
	FILE *p;

	unit_temp_file(path);
	ck_assert_int_eq(truncate(path, 4 * MIB), 0);
	snprintf(command, sizeof(command), "losetup -f --show %s 2>/dev/null", path);
	p = popen(command, "r");
	if (p == NULL || fgets(loop, sizeof(loop), p) == NULL)
		loop[0] = '\0';
	if (p != NULL)
		pclose(p);
	loop[strcspn(loop, "\n")] = '\0';
	if (loop[0] == '\0') {
		fprintf(stderr, "skipped: no loop device to be had\n");
		unlink(path);
		return;
	}
	unit_err(device_open(path, DEVICE_READ_ONLY, &dev, &r), -EBUSY);
	ck_assert_ptr_nonnull(strstr(r.text, loop + strlen("/dev/")));
	unit_ok(device_open(loop, 0, &dev, &r));
	ck_assert_uint_eq(device_size(dev), 4 * MIB);
	{
		struct device *other = NULL;
		int fd = open(path, O_RDONLY | O_CLOEXEC);

		unit_err(device_open(loop, DEVICE_READ_ONLY, &other, &r), -EBUSY);
		/* The file behind it is locked too. */
		ck_assert_int_ne(flock(fd, LOCK_EX | LOCK_NB), 0);
		close(fd);
	}
	device_close(dev);
	snprintf(command, sizeof(command), "losetup -d %s", loop);
	ck_assert_int_eq(system(command), 0);
	unlink(path);
}
END_TEST

START_TEST(test_record)
{
	scoped(device_closep) struct device *rec = NULL;
	scoped(device_closep) struct device *target = NULL;
	struct device *mem = NULL;
	uint8_t a[3] = {1, 2, 3}, b[3];

	unit_ok(device_mem_open("m", MIB, &mem));
	unit_ok(device_record_open(mem, &rec));
	exercise(rec);
	device_record_clear(rec);
	unit_ok(device_pwrite(rec, 10, a, 3));
	unit_ok(device_flush(rec));
	unit_ok(device_pwrite(rec, 11, a, 1));
	unit_ok(device_discard(rec, 12, 1));
	unit_err(device_pwrite(rec, MIB, a, 1), -EIO);
	ck_assert_uint_eq(device_record_count(rec), 4);
	ck_assert_int_eq(device_record_event(rec, 0)->kind, RECORD_WRITE);
	ck_assert_int_eq(device_record_event(rec, 1)->kind, RECORD_FLUSH);
	ck_assert_uint_eq(device_record_event(rec, 2)->offset, 11);
	ck_assert_uint_eq(device_record_event(rec, 2)->data[0], 1);
	ck_assert_int_eq(device_record_event(rec, 3)->kind, RECORD_DISCARD);

	unit_ok(device_mem_open("t", MIB, &target));
	unit_ok(device_record_replay(rec, 2, target));
	unit_ok(device_pread(target, 10, b, 3));
	ck_assert_mem_eq(b, ((uint8_t[]){1, 2, 3}), 3);
	unit_ok(device_record_replay_one(rec, 2, target));
	unit_ok(device_pread(target, 10, b, 3));
	ck_assert_mem_eq(b, ((uint8_t[]){1, 1, 3}), 3);
	unit_ok(device_record_replay(rec, 4, target));
	unit_ok(device_pread(target, 10, b, 3));
	ck_assert_mem_eq(b, ((uint8_t[]){1, 1, 0}), 3);
}
END_TEST

START_TEST(test_fault_device)
{
	scoped(device_closep) struct device *dev = NULL;
	struct device *mem = NULL;
	uint8_t b = 5, got;

	unit_ok(device_mem_open("m", MIB, &mem));
	unit_ok(device_fault_open(mem, &dev));
	exercise(dev);
	device_fault_arm(dev, FAULT_WRITE, 2, 1, -ENOSPC);
	unit_ok(device_pwrite(dev, 0, &b, 1));
	b = 6;
	unit_err(device_pwrite(dev, 0, &b, 1), -ENOSPC);
	unit_ok(device_pread(dev, 0, &got, 1));
	ck_assert_uint_eq(got, 5);
	unit_ok(device_pwrite(dev, 0, &b, 1));
	ck_assert_uint_eq(device_fault_calls(dev, FAULT_WRITE), 3);
	device_fault_arm(dev, FAULT_FLUSH, 1, UINT64_MAX, -EIO);
	for (int i = 0; i < 5; i++)
		unit_err(device_flush(dev), -EIO);
	device_fault_arm(dev, FAULT_FLUSH, 0, 0, 0);
	unit_ok(device_flush(dev));
	device_fault_arm(dev, FAULT_READ, 1, 1, -EIO);
	device_fault_arm(dev, FAULT_DISCARD, 1, 1, -EIO);
	unit_err(device_pread(dev, 0, &got, 1), -EIO);
	unit_err(device_discard(dev, 0, 1), -EIO);
}
END_TEST

UNIT_MAIN("device", test_mem, test_mem_is_sparse, test_file, test_file_read_only,
	  test_file_is_claimed, test_open_refuses, test_loop_device_is_noticed, test_record,
	  test_fault_device)
