/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/model/run.h - one run: the filesystem, the model, and where the random numbers come from.
 *
 * A run is told by its options alone: the same seed does the same operations. The first difference
 * between filesystem and model ends it with a line that says what was done last.
 */
#ifndef COWFS_TESTS_MODEL_RUN_H
#define COWFS_TESTS_MODEL_RUN_H

#include "fs/fs.h"
#include "fs/ops.h"
#include "mkfs/mkfs.h"
#include "tests/model/model.h"

struct run_options {
	const char *image;
	uint64_t size;			/* bytes: the image is made and formatted; 0: it is there */
	struct mkfs_options mkfs;
	const char *judge;		/* shell command run after each close, $image is the image */
	uint64_t seed;
	unsigned ops;			/* operations in all */
	unsigned remount_every, crash_every, sync_every, compare_every; /* mean; 0: never */
	unsigned nodes_max;
	size_t file_max;		/* bytes */
	bool verbose;
	struct fs_options fs;
};

struct run {
	struct run_options opt;
	uint64_t rng;
	uint64_t op;			/* how many were done */
	char last[1024];			/* what was done last, for the message */
	struct fs *fs;
	struct model now, committed;
	uint64_t transid;		/* running when the last operation ended */
	uint8_t *buf;			/* file_max bytes */
};

uint64_t rnd64(struct run *r);
/* 0 .. below - 1. */
unsigned rnd(struct run *r, unsigned below);
static inline bool one_in(struct run *r, unsigned n) { return n != 0 && rnd(r, n) == 0; }

/* Ends the run: prints seed, operation and message. */
_Noreturn void run_failed(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#define check_err(r, got, wanted, what) \
	do { \
		long got_ = (long)(got), wanted_ = (long)(wanted); \
		if (got_ != wanted_) \
			run_failed((r), "%s gave %ld, must be %ld", (what), got_, wanted_); \
	} while (0)

/* ops.c: one random operation. */
void run_op(struct run *r);
/* Everything done so far becomes what must be there after a crash. */
void run_committed(struct run *r);

/* compare.c */
void compare_all(struct run *r);
void compare_node(struct run *r, uint32_t node);
/* Fills an empty model from the filesystem, subvolumes below the root included. */
void load_all(struct run *r);
/* The inode of a node, with a reference. */
struct inode *run_inode(struct run *r, uint32_t node);

#endif
