/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/policy.c - what the allocation policies have in common (see policy.h).
 */
#include "alloc/policy.h"

#include "io/util.h"

struct free_query policy_query(const struct alloc_want *w)
{
	return (struct free_query){
		.to = UINT64_MAX,
		.min = w->min,
		.want = w->want,
		.align = w->align,
		.spare_blocks = w->spare_blocks,
	};
}

bool policy_group_fits(const struct group *g, const struct pool *pool, const struct alloc_want *w)
{
	return g->pool == pool && (g->flags & w->use) && group_open_locked(g) && !g->draining;
}

struct group *policy_unloaded(struct group_set *gs, const struct pool *pool,
			      const struct alloc_want *w, uint64_t bytes)
{
	struct group *g;

	if (!w->may_load || pool->unloaded_count == 0)
		return NULL;
	RB_FOREACH(g, group_tree, &gs->tree)
		if (g->pool == pool && g->state == GROUP_UNLOADED && !g->leaving &&
		    (g->flags & w->use) && g->len - g->used >= bytes)
			return g;
	return NULL;
}

bool policy_from_cursor(struct group_set *gs, const struct pool *pool, const struct alloc_want *w,
			const struct cursor_pos *c, struct alloc_place *ret_place)
{
	struct free_query q = policy_query(w);
	struct group *g;

	if (c->pos >= c->end)
		return false;
	g = group_find_locked(gs, c->pos);
	if (g == NULL || !policy_group_fits(g, pool, w))
		return false;
	q.from = c->pos;
	q.to = c->end;
	if (!free_space_first(&g->free, &q, &ret_place->start, &ret_place->len))
		return false;
	ret_place->group = g;
	return true;
}

void policy_set_cursor(struct cursor_pos *c, const struct alloc_place *place)
{
	uint64_t s, e;

	if (!free_space_run(&place->group->free, place->start, &s, &e))
		return;
	c->pos = place->start + place->len;
	c->end = e;
}

bool policy_leftovers(struct group_set *gs, const struct pool *pool, const struct alloc_want *w,
		      struct alloc_place *ret_place)
{
	struct free_query q = policy_query(w);
	struct group *g;

	RB_FOREACH(g, group_tree, &gs->tree) {
		if (!policy_group_fits(g, pool, w) ||
		    !free_space_best(&g->free, &q, &ret_place->start, &ret_place->len))
			continue;
		ret_place->group = g;
		return true;
	}
	return false;
}
