/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/free_space.h - a set of byte ranges inside one block group, in memory.
 *
 * Used for what is free in a group and for what waits for a commit to become free.
 *
 * Invariants:
 *   F1  ranges are multiples of `unit`, lie inside [start, start + len), and do not touch each other;
 *   F2  bytes, runs and whole are exact at all times;
 *   F3  memory is bounded: more than free_space_runs_max() ranges are kept as a bitmap, one bit for
 *       each unit; far fewer are turned back into ranges.
 *
 * A `block` is a power of two, 0 if not wanted: aligned free blocks of that size are counted, so that
 * a pool with two block sizes can keep whole ones in reserve.
 *
 * Locking: the caller's (rank SPACE). Not here: which range to take (policy.h), the on-disk twin
 * (free_space_tree.h).
 */
#ifndef COWFS_ALLOC_FREE_SPACE_H
#define COWFS_ALLOC_FREE_SPACE_H

#include "io/rbtree.h"

#include <stdbool.h>
#include <stdint.h>

struct free_run;
RB_HEAD(run_start_tree, free_run);
RB_HEAD(run_size_tree, free_run);

struct free_space {
	uint64_t start;			/* logical address */
	uint64_t len;
	uint32_t unit;
	uint32_t block;
	uint64_t bytes;			/* sum of all ranges */
	uint64_t runs;			/* their number */
	uint64_t whole;			/* aligned blocks that are free as a whole */
	uint64_t longest;		/* no range is longer; an upper bound */
	struct run_start_tree by_start;	/* unless bits is set */
	struct run_size_tree by_size;
	uint64_t *bits;			/* bit i: [start + i * unit, + unit) */
};

/* An empty set. start and len are multiples of unit. Takes no memory yet. */
void free_space_init(struct free_space *fs, uint64_t start, uint64_t len, uint32_t unit,
		     uint32_t block);
/* Frees the memory; the set is empty afterwards. */
void free_space_done(struct free_space *fs);
/* Makes b the holder of a's ranges and a empty. b must be empty. Same geometry. */
void free_space_move(struct free_space *from, struct free_space *to);

uint64_t free_space_runs_max(const struct free_space *fs);

/* Adds a range. -EINVAL: outside, unaligned, or partly there already (nothing changed). -ENOMEM. */
int free_space_add(struct free_space *fs, uint64_t start, uint64_t len);
/* Takes a range out that is there as a whole, else -ENOENT (nothing changed). -ENOMEM. */
int free_space_remove(struct free_space *fs, uint64_t start, uint64_t len);
/* Takes out whatever of the range is there; *ret_bytes (NULL: not wanted) tells how much. -ENOMEM. */
int free_space_remove_any(struct free_space *fs, uint64_t start, uint64_t len, uint64_t *ret_bytes);

/* The range that holds pos, whole, or else the first one behind it. False: there is none. */
bool free_space_run(const struct free_space *fs, uint64_t pos, uint64_t *ret_start,
		    uint64_t *ret_end);

struct free_query {
	uint64_t from;			/* nothing below this */
	uint64_t to;			/* nothing from here on; UINT64_MAX: to the end */
	uint64_t min;			/* bytes at least, > 0 */
	uint64_t want;			/* bytes at most */
	uint64_t align;			/* of the start; a power of two >= unit */
	uint64_t run_min;		/* only in ranges at least this long; 0: any */
	bool spare_blocks;		/* no byte of a block that is free as a whole */
};

/* The first place that fits, in address order. */
bool free_space_first(struct free_space *fs, const struct free_query *q, uint64_t *ret_start,
		      uint64_t *ret_len);
/* The place in the shortest range that can hold `want`, or else in the longest that holds `min`. */
bool free_space_best(struct free_space *fs, const struct free_query *q, uint64_t *ret_start,
		     uint64_t *ret_len);

#endif
