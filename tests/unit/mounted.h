/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/mounted.h - a whole filesystem on a device in RAM, opened, for tests of fs/.
 *
 * No threads run in it (fs_start is not called): write-back happens when a test asks for it. One
 * test, one filesystem, one thread.
 */
#ifndef COWFS_TESTS_UNIT_MOUNTED_H
#define COWFS_TESTS_UNIT_MOUNTED_H

#include "fs/ops.h"
#include "mkfs/mkfs.h"
#include "tests/unit/unit.h"

struct mounted {
	struct fs *fs;
	struct device *mem;		/* what lies below; closed by fs_close() */
	struct inode *root;
};

/* Formats `bytes` of RAM and opens it; NULL: the defaults of mkfs and of a mount. */
void mounted_new(struct mounted *m, uint64_t bytes, const struct mkfs_options *mkfs,
		 const struct fs_options *opt);
/* Opens what is on the device m->mem. */
void mounted_open(struct mounted *m, const struct fs_options *opt);
/* Closes and opens again what is on the device. The inodes of the test are put before. */
void mounted_again(struct mounted *m, const struct fs_options *opt);
void mounted_done(struct mounted *m);

/* A new empty file in the root directory. */
struct inode *mounted_file(struct mounted *m, const char *name);
/* Writes `len` bytes made from `seed`; they must all be taken. */
void mounted_write(struct inode *in, uint64_t off, size_t len, uint64_t seed);
/* They must be what is read there. */
void mounted_expect(struct inode *in, uint64_t off, size_t len, uint64_t seed);
void mounted_expect_zero(struct inode *in, uint64_t off, size_t len);
void mounted_resize(struct inode *in, uint64_t size);
/* The file's items as one line: "OFF+LEN:KIND ..." in sectors (inline: bytes), kinds reg, pre, hole, inline, zstd, ... */
const char *mounted_map(struct inode *in);

#endif
