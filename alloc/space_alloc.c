/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/space_alloc.c - handing out free space: data extents and tree blocks.
 *
 * The policy chooses, the group gives, the reservation pays. Where tree blocks of two sizes, or tree
 * blocks and sectors, share a pool, the smaller ones first use what is no whole aligned block, so that
 * the larger ones that were promised still find theirs.
 *
 * Locking: group_set.lock inside; it is let go while a group is loaded.
 */
#include "alloc/policy.h"
#include "alloc/reserve.h"
#include "io/fault.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>

/*
 * Tree blocks.
 */

/* Groups that were to run empty are needed after all; whether there were any. */
static bool stop_draining(struct group_set *gs, const struct pool *pool)
{
	struct group *g;
	bool any = false;

	RB_FOREACH(g, group_tree, &gs->tree) {
		any |= g->pool == pool && g->draining;
		g->draining &= g->pool != pool;
	}
	return any;
}

static enum policy_answer find_block(struct group_set *gs, struct pool *pool, struct alloc_want *w,
				     struct alloc_place *ret_place)
{
	enum policy_answer answer;

	w->spare_blocks = w->want < gs->block;
	answer = gs->policy->find(gs, pool, w, ret_place);
	if (answer == POLICY_NONE && w->spare_blocks) {
		w->spare_blocks = false;
		answer = gs->policy->find(gs, pool, w, ret_place);
	}
	return answer;
}

int space_alloc_block_addr(struct space *sp, struct txn_handle *tx, uint64_t len, uint64_t align,
			   uint64_t hint, bool system, uint64_t *ret_bytenr)
{
	struct group_set *gs = sp->groups;
	struct pool *pool = groups_pool(gs, system ? BG_SYSTEM : BG_METADATA);
	struct alloc_want w = {
		.use = system ? BG_SYSTEM : BG_METADATA,
		.min = len,
		.want = len,
		.align = max_u64(len, align),
		.near = hint,
	};
	struct alloc_place place;
	enum policy_answer answer;
	int err;

	if (fault_point("space.alloc_block"))
		return -ENOSPC;
	mutex_guard(&gs->lock);
	answer = find_block(gs, pool, &w, &place);
	if (answer == POLICY_NONE && stop_draining(gs, pool))
		answer = find_block(gs, pool, &w, &place);
	if (answer != POLICY_FOUND)
		return -ENOSPC;
	err = group_take_locked(place.group, place.start, len);
	if (err < 0)
		return err;
	if (!system)
		reserve_pay_block_locked(sp, tx, len);
	*ret_bytenr = place.start;
	return 0;
}

/*
 * Data.
 */

/* Whether `want` bytes of data may come out of whole blocks that tree blocks were promised. */
static bool blocks_to_spare(struct space *sp, const struct pool *pool, uint64_t want)
{
	struct group_set *gs = sp->groups;

	if (!gs->mixed || gs->block == gs->unit)
		return true;
	return pool_blocks_locked(gs, pool) >= want + reserve_need_locked(sp, 0, false) + gs->block;
}

/* Finds a place, loading groups as the policy asks. Lock held, let go meanwhile. */
static enum policy_answer find_loading(struct space *sp, struct pool *pool, struct alloc_want *w,
				       struct alloc_place *ret_place)
{
	struct group_set *gs = sp->groups;
	enum policy_answer answer;

	while ((answer = gs->policy->find(gs, pool, w, ret_place)) == POLICY_LOAD) {
		uint64_t start = ret_place->group->start;
		int err;

		mutex_unlock(&gs->lock);
		err = group_load(sp, start);
		mutex_lock(&gs->lock);
		if (err < 0)
			w->may_load = false;	/* make do with what is loaded */
	}
	return answer;
}

int space_alloc_data(struct space *sp, const struct alloc_hint *hint, uint64_t min, uint64_t want,
		     uint64_t *ret_bytenr, uint64_t *ret_len)
{
	struct group_set *gs = sp->groups;
	struct pool *pool = groups_pool(gs, BG_DATA);
	struct alloc_want w = {
		.use = BG_DATA,
		.min = min,
		.want = want,
		.align = gs->unit,
		.near = hint->near,
		.owner = hint->owner,
		.may_load = true,
	};
	struct alloc_place place;
	enum policy_answer answer;
	int err;

	must(min > 0 && min <= want && is_aligned(min | want, gs->unit));
	if (fault_point("space.alloc_data"))
		return -ENOSPC;
	mutex_guard(&gs->lock);
	must(pool->data_reserved >= want);
	w.spare_blocks = !blocks_to_spare(sp, pool, want);
	answer = find_loading(sp, pool, &w, &place);
	if (answer != POLICY_FOUND)
		return -ENOSPC;
	err = group_take_locked(place.group, place.start, place.len);
	if (err < 0)
		return err;
	pool->data_reserved -= place.len;
	*ret_bytenr = place.start;
	*ret_len = place.len;
	return 0;
}

void space_unalloc_data(struct space *sp, uint64_t bytenr, uint64_t len)
{
	space_free_now(sp, bytenr, len);
}

void space_return_data(struct space *sp, uint64_t bytenr, uint64_t len)
{
	struct group *g;

	mutex_guard(&sp->groups->lock);
	g = group_find_locked(sp->groups, bytenr);
	must(g != NULL && len <= g->len - (bytenr - g->start));
	group_give_back_locked(g, bytenr, len);
	g->pool->data_reserved += len;
}
