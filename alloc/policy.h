/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/policy.h - where in the free space the next extent goes.
 *
 * A policy only chooses: it looks at open, loaded groups and moves its own cursors in the pool; the
 * caller takes the range. Two exist:
 *   ssd         fills large free clusters from one end, in address order, and plugs small holes only
 *               when no large cluster is left; seeks cost nothing;
 *   rotational  continues the file's last extent or stays near it (or near its directory's), and
 *               fills holes that fit.
 * Tree blocks come out of clusters in both, so that the nodes of one commit lie side by side.
 *
 * Locking: called with group_set.lock held. No I/O.
 */
#ifndef COWFS_ALLOC_POLICY_H
#define COWFS_ALLOC_POLICY_H

#include "alloc/group.h"

struct alloc_want {
	uint64_t use;			/* BG_DATA, BG_METADATA or BG_SYSTEM */
	uint64_t min;			/* bytes */
	uint64_t want;
	uint64_t align;
	uint64_t near;			/* logical address, 0: anywhere */
	uint64_t owner;			/* 0: nobody's */
	bool spare_blocks;		/* leave whole aligned blocks alone */
	bool may_load;			/* the caller can load a group and ask again */
};

struct alloc_place {
	struct group *group;
	uint64_t start;
	uint64_t len;
};

enum policy_answer {
	POLICY_NONE,			/* nothing of min bytes */
	POLICY_FOUND,
	POLICY_LOAD,			/* load ret->group, then ask again */
};

struct policy {
	const char *name;
	enum policy_answer (*find)(struct group_set *gs, struct pool *pool,
				   const struct alloc_want *w, struct alloc_place *ret_place);
};

extern const struct policy policy_ssd;
extern const struct policy policy_rotational;

/* The query of a wish in one group, beginning anywhere. */
struct free_query policy_query(const struct alloc_want *w);
/* May the wish be met from this group? */
bool policy_group_fits(const struct group *g, const struct pool *pool, const struct alloc_want *w);
/* The first unloaded group of the pool that should have this many bytes free, or NULL. */
struct group *policy_unloaded(struct group_set *gs, const struct pool *pool,
			      const struct alloc_want *w, uint64_t bytes);
/* The rest of a cluster. */
bool policy_from_cursor(struct group_set *gs, const struct pool *pool, const struct alloc_want *w,
			const struct cursor_pos *c, struct alloc_place *ret_place);
/* Remembers the cluster around a place that was just chosen. */
void policy_set_cursor(struct cursor_pos *c, const struct alloc_place *place);
/* Anything of min bytes: the longest piece in the first group that has one. */
bool policy_leftovers(struct group_set *gs, const struct pool *pool, const struct alloc_want *w,
		      struct alloc_place *ret_place);

#endif
