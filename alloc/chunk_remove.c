/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/chunk_remove.c - giving empty block groups back to the device (see chunk.h).
 *
 * Done by the commit, when its references have been run and nothing is handed out behind the closed
 * door. A group goes if nothing in it is used or handed out, it is not the last of its pool, and the
 * others have room enough without it, what this commit frees counted:
 *   data      as much free as the group is long, so that the next files need no new chunk;
 *   metadata  what must stay free (reserve.h), twice, and an eighth of the group;
 *   system    what a chunk costs, several times over.
 * The freed range stays in the map, and the device extents stay taken, until the superblock is out.
 */
#include "alloc/chunk.h"

#include "alloc/group.h"
#include "alloc/reserve.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>

#define REMOVALS_MAX 64u		/* in one round of a commit */
#define SYSTEM_KEEP_BLOCKS 64u

/* Would the pool do without this empty group? */
static bool dispensable(struct space *sp, const struct group *g)
{
	struct group_set *gs = sp->groups;
	const struct pool *p = g->pool;
	uint64_t data_free = 0, blocks = 0;

	if (p->group_count <= 1)
		return false;
	if (p->type & BG_DATA) {
		uint64_t others = pool_free_locked(p) + p->pinned - g->pinned -
				  (g->state == GROUP_LOADED ? g->free.bytes : group_unloaded_free(g));

		data_free = g->len + p->data_reserved;
		if (others < data_free)
			return false;
	}
	if (p->type == BG_DATA)
		return true;
	blocks = pool_blocks_locked(gs, p) + p->pinned - g->pinned -
		 (g->state == GROUP_LOADED ? g->free.whole * gs->block : 0);
	if (p->type & BG_SYSTEM)
		return blocks >= (uint64_t)SYSTEM_KEEP_BLOCKS * gs->block;
	return blocks >= data_free + 2 * reserve_need_locked(sp, 0, true) + g->len / 8;
}

/* The highest empty group that can go; it is marked as leaving. False: none. */
static bool choose_empty(struct space *sp, uint64_t *ret_start)
{
	struct group_set *gs = sp->groups;
	struct group *g;

	mutex_guard(&gs->lock);
	for (g = RB_MAX(group_tree, &gs->tree); g != NULL; g = RB_PREV(group_tree, &gs->tree, g)) {
		if (g->used != 0 || g->handed != 0 || g->leaving || g->loading ||
		    g->state == GROUP_BROKEN || !dispensable(sp, g))
			continue;
		group_set_leaving_locked(gs, g);
		*ret_start = g->start;
		return true;
	}
	return false;
}

static int remove_one(struct space *sp, struct txn_handle *tx, uint64_t start)
{
	struct chunk_set *cs = sp->chunks;
	scoped(freep) struct gone_chunk *gone = calloc(1, sizeof(*gone));
	int err;

	if (gone == NULL)
		return -ENOMEM;
	err = chunk_map_find(&sp->vol->chunks, start, &gone->chunk);
	if (err < 0)
		return err;
	mutex_lock(&sp->groups->lock);
	for (unsigned i = 0; i < gone->chunk->num_stripes; i++) {
		struct device_space *d = device_space_find(cs, gone->chunk->stripes[i].devid);

		d->bytes_used -= min_u64(d->bytes_used, chunk_stripe_bytes(gone->chunk));
	}
	mutex_unlock(&sp->groups->lock);
	err = chunk_items_delete(sp, tx, gone->chunk);
	gone->transid = tx->transid;
	gone->next = cs->gone;
	cs->gone = take(gone);
	return err;
}

int chunks_remove_empty(struct space *sp, struct txn_handle *tx, bool *ret_changed)
{
	uint64_t start;
	int err = 0;

	mutex_guard(&sp->chunks->lock);
	for (unsigned i = 0; err == 0 && i < REMOVALS_MAX && choose_empty(sp, &start); i++) {
		if (i == 0)
			err = groups_load_blocks(sp, BG_SYSTEM, sp->groups->block * 4ull);
		if (err == 0)
			err = remove_one(sp, tx, start);
		*ret_changed = true;
	}
	return err;
}

/* The chunk's range is unmapped and its device extents are holes again. */
static int release(struct space *sp, const struct chunk *c)
{
	struct group *g;
	int err = 0;

	if (sp->discard)
		volume_discard(sp->vol, c->logical, c->length);
	mutex_guard(&sp->groups->lock);
	g = group_find_locked(sp->groups, c->logical);
	if (g != NULL)
		group_remove_locked(sp->groups, g);
	volume_remove_chunk(sp->vol, c->logical);
	for (unsigned i = 0; err == 0 && i < c->num_stripes; i++) {
		struct device_space *d = device_space_find(sp->chunks, c->stripes[i].devid);

		err = free_space_add(&d->holes, c->stripes[i].physical, chunk_stripe_bytes(c));
	}
	return err == -EINVAL ? -EUCLEAN : err;
}

int chunks_commit_done(struct space *sp, uint64_t transid)
{
	struct chunk_set *cs = sp->chunks;
	struct gone_chunk **link = &cs->gone;
	int err = 0;

	mutex_guard(&cs->lock);
	while (*link != NULL && err == 0) {
		struct gone_chunk *gone = *link;

		if (gone->transid > transid) {
			link = &gone->next;
			continue;
		}
		err = release(sp, gone->chunk);
		*link = gone->next;
		free(gone->chunk);
		free(gone);
	}
	return err;
}
