/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/fuzz_image.h - hostile images: a stored one, changed as some input bytes say, and used.
 *
 * The changes are of structure: tree blocks and the superblock get fields that a good image would
 * not have, and then the right checksum, so that what lies behind the checksums is put to the test.
 * Same image, same input: same run. Any error is fine; the program must neither crash nor hang nor
 * take memory without bound.
 *
 * Locking: one thread, known to RCU. Not here: what judges the results (there is nothing to judge).
 */
#ifndef COWFS_TESTS_FUZZ_FUZZ_IMAGE_H
#define COWFS_TESTS_FUZZ_FUZZ_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "io/device.h"
#include "io/format.h"
#include "io/log.h"

#define BLOCK_COPIES_MAX 4u

/* A tree block of the base image: where its copies lie on the device. */
struct fuzz_block {
	uint64_t logical, generation;
	uint64_t copies[BLOCK_COPIES_MAX];
	unsigned copy_count;
	uint32_t bytes;
};

struct fuzz_base {
	struct device *mem;
	struct fuzz_block *blocks;	/* the newest of each address */
	unsigned block_count;
	enum csum_type csum_type;
	uint64_t super_at;		/* of the first superblock; 0: there is none that has a good checksum */
};

/*
 * Takes an image (a file with holes, or one packed by xz, told by its name) into RAM and finds its
 * tree blocks. -errno of the file; -EINVAL: xz failed.
 */
int fuzz_base_load(const char *path, struct fuzz_base *ret_base);
/* The same with a device in RAM, which is taken over. */
int fuzz_base_take(struct device *mem, struct fuzz_base *ret_base);
/* Leaves the blocks that are in use. -ENOMEM, -EIO. */
int fuzz_base_keep_live(struct fuzz_base *base, const struct disk_super *super);
void fuzz_base_done(struct fuzz_base *base);

/* The bytes that decide; zeroes when they are used up. */
struct fuzz_input {
	const uint8_t *at;
	size_t left;
};

uint64_t fuzz_take(struct fuzz_input *in, unsigned bytes);

/* Changes `mem`, a copy of the base. */
void fuzz_mutate(const struct fuzz_base *base, struct device *mem, struct fuzz_input *in);

/* Opens what is on `dev` (taken over), looks at it within limits, with `write` changes it; closes. */
void fuzz_exercise(struct device *dev, bool write);

/* All of it: changes a copy, reads it, writes to it, reads the result. Size 0: as the base is. */
void fuzz_image(const struct fuzz_base *base, const uint8_t *data, size_t size);

/* A sink for the log that keeps complaints about the image, which are without end, to itself. */
void fuzz_log(enum log_level level, const char *line, void *arg);

#endif
