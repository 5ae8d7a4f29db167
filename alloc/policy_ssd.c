/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/policy_ssd.c - fill large free clusters from one end (see policy.h).
 *
 * A cluster is one free range; the cursor runs through it. The next cluster for data is the next large
 * one upwards, round the pool, so that writes sweep over the device; for tree blocks it is the lowest
 * one, so that the upper groups run empty and can be given back. Only when no range of the largest
 * class is left anywhere do smaller ones count.
 */
#include "alloc/policy.h"

#include "io/util.h"

/* Least length of a cluster, class by class; the last: anything that holds the wish. */
static const uint64_t data_classes[] = {4u << 20, 512u << 10, 0};
static const uint64_t block_classes[] = {2u << 20, 256u << 10, 0};
#define CLASS_COUNT ARRAY_COUNT(data_classes)

/* The first cluster in address order from `from` on, in the groups that begin below `to`. */
static bool find_cluster(struct group_set *gs, struct pool *pool, const struct alloc_want *w,
			 uint64_t run_min, uint64_t from, uint64_t to, struct alloc_place *ret_place)
{
	struct free_query q = policy_query(w);
	struct group *g = group_find_locked(gs, from);

	if (g == NULL)
		g = group_next_locked(gs, from);
	q.min = w->want;
	q.run_min = run_min;
	q.from = from;
	q.to = to;
	for (; g != NULL && g->start < to; g = RB_NEXT(group_tree, &gs->tree, g)) {
		if (!policy_group_fits(g, pool, w) ||
		    !free_space_first(&g->free, &q, &ret_place->start, &ret_place->len))
			continue;
		ret_place->group = g;
		return true;
	}
	return false;
}

static enum policy_answer ssd_find(struct group_set *gs, struct pool *pool,
				   const struct alloc_want *w, struct alloc_place *ret_place)
{
	bool data = w->use == BG_DATA;
	struct cursor_pos *c = data ? &pool->data_cursor : &pool->block_cursor;
	const uint64_t *classes = data ? data_classes : block_classes;
	uint64_t from = data ? c->pos : 0;

	if (!w->spare_blocks && c->end - c->pos >= w->want &&
	    policy_from_cursor(gs, pool, w, c, ret_place)) {
		c->pos = ret_place->start + ret_place->len;
		return POLICY_FOUND;
	}
	for (unsigned i = 0; i < CLASS_COUNT; i++) {
		uint64_t run_min = max_u64(classes[i], w->want);
		struct group *g;

		if (find_cluster(gs, pool, w, run_min, from, UINT64_MAX, ret_place) ||
		    (from > 0 && find_cluster(gs, pool, w, run_min, 0, UINT64_MAX, ret_place))) {
			if (!w->spare_blocks)
				policy_set_cursor(c, ret_place);
			return POLICY_FOUND;
		}
		g = policy_unloaded(gs, pool, w, run_min);
		if (g != NULL) {
			ret_place->group = g;
			return POLICY_LOAD;
		}
	}
	if (policy_leftovers(gs, pool, w, ret_place))
		return POLICY_FOUND;
	ret_place->group = policy_unloaded(gs, pool, w, w->min);
	return ret_place->group != NULL ? POLICY_LOAD : POLICY_NONE;
}

const struct policy policy_ssd = {
	.name = "ssd",
	.find = ssd_find,
};
