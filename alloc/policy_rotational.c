/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/policy_rotational.c - stay near, and fill holes that fit (see policy.h).
 *
 * For data the place sought is, in this order: right behind the file's last extent; the next hole that
 * holds the wish, upwards from there and round its group; the tightest such hole of the other groups,
 * nearest group above first; the longest piece that is left. A file without an extent begins behind
 * its directory's last one. Tree blocks come from a cluster near the block they replace, unless that
 * lies in a group so empty that it could be given back: then from the lowest cluster.
 */
#include "alloc/policy.h"

#include "io/util.h"

#define BLOCK_CLUSTER_BYTES (256u << 10)
#define SPARSE_PART 8u			/* used less than this part: sparse */

static struct owner_slot *owner_slot(struct pool *pool, uint64_t owner)
{
	return &pool->owners[(owner * 0x9e3779b97f4a7c15ULL) >> 58];
}

static uint64_t data_target(struct pool *pool, const struct alloc_want *w)
{
	if (w->near != 0)
		return w->near;
	if (w->owner != 0 && owner_slot(pool, w->owner)->owner == w->owner)
		return owner_slot(pool, w->owner)->end;
	return pool->data_cursor.pos;
}

/* In this group, all of the wish: first upwards from target, then from its begin. */
static bool find_in_group(struct group *g, const struct alloc_want *w, uint64_t run_min,
			  uint64_t target, struct alloc_place *ret_place)
{
	struct free_query q = policy_query(w);

	q.min = w->want;
	q.run_min = run_min;
	q.from = target;
	if (!free_space_first(&g->free, &q, &ret_place->start, &ret_place->len)) {
		q.from = 0;
		if (!free_space_first(&g->free, &q, &ret_place->start, &ret_place->len))
			return false;
	}
	ret_place->group = g;
	return true;
}

/* All of the wish: in the target's group, then upwards round the pool. */
static bool find_near(struct group_set *gs, struct pool *pool, const struct alloc_want *w,
		      uint64_t run_min, uint64_t target, struct alloc_place *ret_place)
{
	struct group *home = group_find_locked(gs, target), *first, *g;

	if (home != NULL && policy_group_fits(home, pool, w) &&
	    find_in_group(home, w, run_min, target, ret_place))
		return true;
	first = group_next_locked(gs, target);
	if (first == NULL)
		first = RB_MIN(group_tree, &gs->tree);
	g = first;
	while (g != NULL) {
		struct free_query q = policy_query(w);

		q.min = w->want;
		q.run_min = run_min;
		if (g != home && policy_group_fits(g, pool, w) &&
		    free_space_best(&g->free, &q, &ret_place->start, &ret_place->len)) {
			ret_place->group = g;
			return true;
		}
		g = RB_NEXT(group_tree, &gs->tree, g);
		if (g == NULL)
			g = RB_MIN(group_tree, &gs->tree);
		if (g == first)
			break;
	}
	return false;
}

static enum policy_answer find_data(struct group_set *gs, struct pool *pool,
				    const struct alloc_want *w, struct alloc_place *ret_place)
{
	uint64_t target = data_target(pool, w);
	struct group *home = group_find_locked(gs, target);
	bool found;

	if (w->may_load && home != NULL && home->pool == pool && home->state == GROUP_UNLOADED &&
	    !home->leaving && home->len - home->used >= w->want) {
		ret_place->group = home;
		return POLICY_LOAD;
	}
	found = find_near(gs, pool, w, 0, target, ret_place);
	if (!found) {
		struct group *g = policy_unloaded(gs, pool, w, w->min);

		if (g != NULL) {
			ret_place->group = g;
			return POLICY_LOAD;
		}
		if (!policy_leftovers(gs, pool, w, ret_place))
			return POLICY_NONE;
	}
	pool->data_cursor.pos = ret_place->start + ret_place->len;
	if (w->owner != 0)
		*owner_slot(pool, w->owner) =
			(struct owner_slot){w->owner, pool->data_cursor.pos};
	return POLICY_FOUND;
}

static enum policy_answer find_block(struct group_set *gs, struct pool *pool,
				     const struct alloc_want *w, struct alloc_place *ret_place)
{
	struct cursor_pos *c = &pool->block_cursor;
	const struct group *home = group_find_locked(gs, w->near);
	uint64_t target = home != NULL && home->used >= home->len / SPARSE_PART ? w->near : 0;

	if (!w->spare_blocks && policy_from_cursor(gs, pool, w, c, ret_place)) {
		c->pos = ret_place->start + ret_place->len;
		return POLICY_FOUND;
	}
	if (!find_near(gs, pool, w, BLOCK_CLUSTER_BYTES, target, ret_place) &&
	    !find_near(gs, pool, w, 0, target, ret_place))
		return POLICY_NONE;
	if (!w->spare_blocks)
		policy_set_cursor(c, ret_place);
	return POLICY_FOUND;
}

static enum policy_answer rotational_find(struct group_set *gs, struct pool *pool,
					  const struct alloc_want *w, struct alloc_place *ret_place)
{
	if (w->use == BG_DATA)
		return find_data(gs, pool, w, ret_place);
	return find_block(gs, pool, w, ret_place);
}

const struct policy policy_rotational = {
	.name = "rotational",
	.find = rotational_find,
};
