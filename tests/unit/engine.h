/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/engine.h - real trees and real space on a device in RAM, one transaction after the other.
 *
 * What mkfs and fs/ do around btree/ and alloc/, without inodes: chunks at the begin of a device, all
 * trees of space, one more tree (id 5) to put items into, and a commit that writes everything but
 * root items and the superblock. One thread.
 */
#ifndef COWFS_TESTS_UNIT_ENGINE_H
#define COWFS_TESTS_UNIT_ENGINE_H

#include "alloc/chunk.h"
#include "alloc/group.h"
#include "alloc/policy.h"
#include "alloc/reserve.h"
#include "tests/unit/unit.h"

struct engine_args {
	uint64_t device_bytes;
	uint32_t leafsize, nodesize;	/* 0: 16384 */
	bool mixed;
	bool dup;			/* metadata and system */
	bool no_fst;
	enum alloc_policy policy;
	uint64_t metadata_bytes;	/* of the first chunk; 0: 8 MiB */
};

struct engine {
	struct volume *vol;
	struct tree_env *env;
	struct meta_trees trees;
	struct tree *items;
	struct space *sp;
	uint64_t transid;
	unsigned commits;		/* since the start */
	unsigned joined;
};

/* A new filesystem, committed once. */
void engine_new(struct engine *e, const struct engine_args *args);
void engine_free(struct engine *e);
/* Reservation for so many items, and a handle of the running transaction. */
int engine_start(struct engine *e, struct txn_handle *tx, unsigned items, enum rsv_kind kind);
void engine_end(struct engine *e, struct txn_handle *tx);
int engine_commit(struct engine *e);
/*
 * Forgets all that space knows in memory and loads it again from the trees (nothing may be dirty).
 * The handles to trees stay.
 */
void engine_reload(struct engine *e, bool rdonly);

/*
 * Puts an item of `size` bytes under (objectid, an unused type, 0), or deletes it, each in a step of its own.
 * The error of the reservation; any other stops the test.
 */
int engine_put(struct engine *e, uint64_t objectid, uint32_t size);
int engine_delete(struct engine *e, uint64_t objectid);
/* A data extent, referenced by inode 257 at file offset `off`; *ret_len = what it became. */
int engine_write(struct engine *e, uint64_t off, uint64_t len, uint64_t *ret_bytenr,
		 uint64_t *ret_len);
int engine_unwrite(struct engine *e, uint64_t off, uint64_t bytenr, uint64_t len);

/*
 * After a commit: group figures, free space in memory and in the tree, dev extents, chunk items and
 * device items all say the same. Loads all groups.
 */
void engine_check(struct engine *e);

#endif
