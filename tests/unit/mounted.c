/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/mounted.c - a filesystem on a device in RAM (see mounted.h).
 */
#include "tests/unit/mounted.h"

#include "fs/file_extent.h"
#include "fs/txn.h"
#include "io/compress.h"
#include "io/device_mem.h"
#include "io/rcu.h"

#include <inttypes.h>

void mounted_open(struct mounted *m, const struct fs_options *opt)
{
	struct fs_options defaults;
	struct reason reason;
	int err;

	fs_options_init(&defaults);
	err = fs_open(m->mem, opt != NULL ? opt : &defaults, &m->fs, &reason);
	ck_assert_msg(err == 0, "fs_open gave %d: %s", err, reason.text);
	unit_ok(inode_get(m->fs, m->fs->root_subvol, INO_ROOT, &m->root));
}

void mounted_new(struct mounted *m, uint64_t bytes, const struct mkfs_options *mkfs,
		 const struct fs_options *opt)
{
	struct mkfs_options defaults;
	struct reason reason;
	int err;

	rcu_thread_ensure();
	mkfs_options_init(&defaults);
	unit_ok(device_mem_open("ram", bytes, &m->mem));
	err = mkfs_format(m->mem, mkfs != NULL ? mkfs : &defaults, &reason);
	ck_assert_msg(err == 0, "mkfs_format gave %d: %s", err, reason.text);
	mounted_open(m, opt);
}

void mounted_again(struct mounted *m, const struct fs_options *opt)
{
	struct device *copy;

	unit_ok(txn_sync(m->fs));
	unit_ok(device_mem_clone(m->mem, &copy));
	mounted_done(m);
	m->mem = copy;
	mounted_open(m, opt);
}

void mounted_done(struct mounted *m)
{
	inode_put(m->root);
	unit_ok(fs_close(m->fs));
}

struct inode *mounted_file(struct mounted *m, const char *name)
{
	struct inode *in;

	unit_ok(fs_mknod(m->root, name, S_IFREG | 0644, 0, (struct cred){0, 0}, &in));
	return in;
}

void mounted_write(struct inode *in, uint64_t off, size_t len, uint64_t seed)
{
	scoped(freep) uint8_t *buf = malloc(len);

	unit_fill(buf, len, seed);
	ck_assert_int_eq(fs_write(in, off, buf, len), (ssize_t)len);
}

void mounted_expect(struct inode *in, uint64_t off, size_t len, uint64_t seed)
{
	scoped(freep) uint8_t *want = malloc(len), *got = malloc(len);

	unit_fill(want, len, seed);
	ck_assert_int_eq(fs_read(in, off, got, len), (ssize_t)len);
	ck_assert_mem_eq(got, want, len);
}

void mounted_expect_zero(struct inode *in, uint64_t off, size_t len)
{
	scoped(freep) uint8_t *want = calloc(1, len), *got = malloc(len);

	ck_assert_int_eq(fs_read(in, off, got, len), (ssize_t)len);
	ck_assert_mem_eq(got, want, len);
}

void mounted_resize(struct inode *in, uint64_t size)
{
	struct attr_change ch = {.valid = ATTR_CH_SIZE, .size = size};

	unit_ok(fs_setattr(in, &ch));
}

const char *mounted_map(struct inode *in)
{
	static char text[4096];
	size_t n = 0;
	struct extent_walk w;
	struct file_extent fe;

	text[0] = '\0';
	unit_ok(extent_walk_init(&w, in, 0, UINT64_MAX));
	while (extent_walk_next(&w, &fe) == 1 && n < sizeof(text)) {
		const char *kind = fe.compression != COMPRESS_NONE ?
					   compress_name((enum compress_type)fe.compression) :
				   fe.type == FILE_EXTENT_INLINE  ? "inline" :
				   fe.type == FILE_EXTENT_PREALLOC ? "pre" :
				   fe.disk_bytenr == 0		   ? "hole" : "reg";

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%" PRIu64 "+%" PRIu64 ":%s",
				      n > 0 ? " " : "", fe.file_off / 4096,
				      fe.type == FILE_EXTENT_INLINE ? fe.ram_bytes : fe.len / 4096, kind);
	}
	extent_walk_done(&w);
	return text;
}
