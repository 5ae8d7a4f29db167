/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/group.h - block groups and the pools they form, in memory.
 *
 * A block group is a chunk seen as space. Groups of one use form a pool: data, metadata, system; with
 * mixed groups data and metadata are the same pool.
 *
 * Invariants, at each release of the lock:
 *   G1  for a LOADED group: len = used + handed + pinned + excluded + free.bytes;
 *   G2  a pool's figures are the sums over its groups; loaded_* over those that may be allocated from;
 *   G3  nothing is ever handed out of a group that is not LOADED;
 *   G4  a group that is leaving (its items were deleted in the running transaction) hands out nothing.
 *
 * States: UNLOADED --group_load()--> LOADED, or BROKEN if the free space on disk contradicts `used`
 * (nothing is allocated there any more). A new group is born LOADED.
 *
 * Locking: group_set.lock, rank SPACE, covers all of this; _locked functions want it held. No I/O is
 * done under it. Not here: which range to take (policy.h), how much may be promised (reserve.h).
 */
#ifndef COWFS_ALLOC_GROUP_H
#define COWFS_ALLOC_GROUP_H

#include "alloc/free_space.h"
#include "alloc/space_priv.h"
#include "io/locks.h"

#include <sys/queue.h>

enum group_state { GROUP_UNLOADED, GROUP_LOADED, GROUP_BROKEN };

struct pool;

/* Ranges freed by one transaction. */
struct pin_set {
	uint64_t transid;		/* 0: none */
	struct free_space ranges;
};

#define PIN_SETS 2u			/* running and committing */

struct group {
	RB_ENTRY(group) link;
	TAILQ_ENTRY(group) dirty_link;
	struct pool *pool;
	uint64_t start;			/* logical address */
	uint64_t len;
	uint64_t flags;			/* BG_* */
	uint64_t used;			/* bytes in extent items */
	uint64_t handed;		/* handed out, no extent item yet */
	uint64_t pinned;
	uint64_t excluded;		/* over superblock copies */
	enum group_state state;
	bool dirty;			/* its item must be written */
	bool leaving;
	bool draining;			/* nearly empty: tree blocks go elsewhere if they can */
	bool loading;			/* a thread reads its free space */
	struct free_space free;
	struct pin_set pins[PIN_SETS];
};

/* Where a policy allocates next. */
struct cursor_pos {
	uint64_t pos;
	uint64_t end;			/* of the cluster; pos == end: none */
};

#define OWNER_SLOTS 64u

struct owner_slot {
	uint64_t owner;
	uint64_t end;			/* of the owner's last extent */
};

enum pool_id { POOL_DATA, POOL_META, POOL_SYSTEM, POOL_COUNT };

struct pool {
	const char *name;
	uint64_t type;			/* BG_DATA | BG_METADATA | BG_SYSTEM bits of new chunks */
	unsigned group_count;
	unsigned unloaded_count;	/* groups that could be loaded */
	uint64_t total;			/* bytes of its groups, leaving ones apart */
	uint64_t used, handed, pinned, excluded;
	uint64_t unloaded_free;		/* should be free in UNLOADED groups */
	uint64_t loaded_free;
	uint64_t loaded_whole;		/* whole aligned blocks in that */
	uint64_t data_reserved;		/* data bytes promised, not yet handed out */
	uint64_t meta_reserved;		/* the same for tree blocks */
	struct cursor_pos data_cursor, block_cursor;
	struct owner_slot owners[OWNER_SLOTS];
};

RB_HEAD(group_tree, group);
TAILQ_HEAD(group_list, group);
RB_PROTOTYPE(group_tree, group, link, )

struct group_set {
	struct mutex lock;
	struct cond changed;		/* a load or the commit's run ended */
	struct group_tree tree;
	struct group_list dirty;
	struct pool pools[POOL_COUNT];
	bool mixed;
	uint32_t unit;			/* sector */
	uint32_t block;			/* the larger of leaf and node size */
	bool commit_running;		/* the commit changes the trees of space */
	pthread_t commit_thread;
	uint64_t commit_seq;		/* counts such runs */
	const struct policy *policy;
};

int groups_new(struct space *sp, struct group_set **ret_groups);
void groups_free(struct group_set *gs);

/* The pool for this use: one of BG_DATA, BG_METADATA, BG_SYSTEM. */
struct pool *groups_pool(struct group_set *gs, uint64_t use);

/* Free in the pool, promised or not; what is not loaded counts, what is pinned does not. */
uint64_t pool_free_locked(const struct pool *p);
/* Bytes of whole tree blocks that can be handed out now. */
uint64_t pool_blocks_locked(const struct group_set *gs, const struct pool *p);

struct group *group_find_locked(struct group_set *gs, uint64_t bytenr);
/* The first that begins at or after the address, or NULL. */
struct group *group_next_locked(struct group_set *gs, uint64_t bytenr);
/* May something be handed out of it? */
bool group_open_locked(const struct group *g);

/*
 * Adds the group of a chunk that is in the volume's map. fresh: all of it is free and the group is
 * LOADED. -EEXIST, -ENOMEM, -EUCLEAN (used > len).
 */
int group_add(struct space *sp, const struct group_info *info, bool fresh);
/* Nothing is handed out of it from now on, and it goes in group_remove(). */
void group_set_leaving_locked(struct group_set *gs, struct group *g);
/* Forgets the group; nothing in it is used or handed out. */
void group_remove_locked(struct group_set *gs, struct group *g);

/* Hands out [start, start + len), free in an open group. -ENOMEM, nothing changed. */
int group_take_locked(struct group *g, uint64_t start, uint64_t len);
/* The reverse: handed out, free again. */
void group_give_back_locked(struct group *g, uint64_t start, uint64_t len);

/* For group_load.c: out of, and into, the pool's figures, around a change of the group. */
void group_figures_take(struct group *g);
void group_figures_put(struct group *g);
/* What should be free in a group that is not loaded. */
uint64_t group_unloaded_free(const struct group *g);
/* Takes the group's ranges over superblock copies out of the set; their bytes. -ENOMEM, -ENOENT. */
int group_exclude_supers(struct space *sp, const struct group *g, struct free_space *free_set,
			 uint64_t *ret_bytes);

/*
 * Reads the free space of the group that begins at `start` from the trees, once. Reads trees: no tree
 * lock held; waits while a commit changes the trees unless the caller is that commit. 0 also if the
 * group turned out BROKEN or is gone; -EIO, -ENOMEM, ...: it stays UNLOADED.
 */
int group_load(struct space *sp, uint64_t start);
/*
 * Loads groups of the pool until whole blocks of that many bytes are free or all are loaded.
 * Returns 0 or the error of the load that failed.
 */
int groups_load_blocks(struct space *sp, uint64_t use, uint64_t bytes);

/* The commit begins, or ends, to change the trees of space; the calling thread is the commit. */
void groups_commit_begin(struct group_set *gs);
void groups_commit_end(struct group_set *gs);

/*
 * Tree blocks of the next transaction begin in a new cluster, the lowest one: so upper groups run
 * empty when there is room below.
 */
void groups_rewind_blocks(struct group_set *gs);

/* What is pinned for transactions up to transid is free again. discard: told to the device before. */
void groups_unpin(struct space *sp, uint64_t transid, bool discard);

/* Whether G1 and G2 hold (between the calls of a transaction, not in the midst of one). */
bool groups_consistent_locked(struct group_set *gs);

#endif
