/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_space.h - block groups that are arrays of sectors, to test alloc/'s disk half.
 *
 * The groups hand out addresses from the low end and check that no range is in two states. The trees
 * are the real ones on a device in memory (fake_real.c) or sorted arrays (fake_tree.c): the same tests
 * run on both, so that a failure tells which side it comes from.
 */
#ifndef COWFS_TESTS_UNIT_FAKE_SPACE_H
#define COWFS_TESTS_UNIT_FAKE_SPACE_H

#include "alloc/delayed_ref.h"
#include "alloc/extent_tree.h"
#include "alloc/free_space_tree.h"
#include "alloc/space_priv.h"

#define FAKE_SECTOR 4096u
#define FAKE_GROUPS 3u
#define FAKE_GROUP_SECTORS 4096u	/* 16 MiB each */
#define FAKE_BASE (1u << 20)
#define FAKE_GROUP_BYTES ((uint64_t)FAKE_GROUP_SECTORS * FAKE_SECTOR)
#define FAKE_LEAF 4096u			/* block size at all levels */

enum fake_state { FAKE_FREE, FAKE_OUT, FAKE_USED, FAKE_PINNED };

struct fake_fs {
	struct space sp;
	struct meta_trees trees;
	struct txn_handle tx;
	uint8_t state[FAKE_GROUPS][FAKE_GROUP_SECTORS];
	uint64_t used[FAKE_GROUPS];
	bool dirty[FAKE_GROUPS];
};

/* One test's world; `fst`: with a free space tree. The groups' items are there, all is free. */
struct fake_fs *fake_new(bool skinny, bool fst);
void fake_free(struct fake_fs *fs);

/* Hands out a range like space_alloc_data(); 0 if there is none. */
uint64_t fake_alloc(struct fake_fs *fs, uint64_t len);

/* refs_run(), then the next transaction begins and what was pinned is free. */
int fake_commit(struct fake_fs *fs);

/*
 * Checks everything there is to check between trees and memory after a commit: sums of references,
 * order of inline references, `used` of groups, free space tree = gaps between extents = states.
 */
void fake_check(struct fake_fs *fs);

/* References of this identity in the extent tree, inline and keyed. */
uint64_t fake_count(struct fake_fs *fs, uint64_t bytenr, const struct delayed_ref *id);

/* A copy of all items of a tree. */
struct fake_items {
	struct item *items;
	unsigned count;
};

struct fake_items fake_items(struct tree *t);
struct fake_items fake_items_of(struct tree *t, uint64_t objectid);
void fake_items_done(struct fake_items *items);

/* fake_count() in the items of one extent. */
uint64_t fake_items_count(const struct fake_items *all, const struct delayed_ref *id);

/* --- of the trees: fake_tree.c or fake_real.c -------------------------------------------------- */

/* Makes an empty extent and checksum tree and, `fst`, a free space tree. */
void fake_trees_open(struct fake_fs *fs, bool fst);
/* What the transaction wrote is on the device and read anew from there; the next one begins. */
void fake_trees_commit(struct fake_fs *fs);
void fake_trees_close(struct fake_fs *fs);

#endif
