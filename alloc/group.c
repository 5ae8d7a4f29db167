/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/group.c - block groups and the pools they form (see group.h).
 *
 * Each change of a group runs between group_figures_take() and group_figures_put(): what the group
 * adds to its pool is taken out before and put back after, so G2 cannot drift.
 *
 * Not here: reading a group's free space from the trees (group_load.c).
 */
#include "alloc/group.h"

#include "alloc/policy.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>

static int group_cmp(struct group *a, struct group *b)
{
	if (a->start == b->start)
		return 0;
	return a->start < b->start ? -1 : 1;
}

RB_GENERATE(group_tree, group, link, group_cmp)

/*
 * Figures.
 */

bool group_open_locked(const struct group *g)
{
	return g->state == GROUP_LOADED && !g->leaving;
}

uint64_t group_unloaded_free(const struct group *g)
{
	uint64_t gone = g->used + g->pinned + g->excluded;

	return gone < g->len ? g->len - gone : 0;
}

static void figures_change(const struct group *g, struct pool *p, bool put)
{
	uint64_t sign = put ? 1 : UINT64_MAX;		/* times -1, modulo 2^64 */

	if (g->leaving)
		return;
	p->group_count += (unsigned)sign;
	p->total += sign * g->len;
	p->used += sign * g->used;
	p->handed += sign * g->handed;
	p->pinned += sign * g->pinned;
	p->excluded += sign * g->excluded;
	if (g->state == GROUP_LOADED) {
		p->loaded_free += sign * g->free.bytes;
		p->loaded_whole += sign * g->free.whole;
	} else if (g->state == GROUP_UNLOADED) {
		p->unloaded_count += (unsigned)sign;
		p->unloaded_free += sign * group_unloaded_free(g);
	}
}

void group_figures_take(struct group *g)
{
	figures_change(g, g->pool, false);
}

void group_figures_put(struct group *g)
{
	figures_change(g, g->pool, true);
}

bool groups_consistent_locked(struct group_set *gs)
{
	struct pool sums[POOL_COUNT] = {0};
	struct group *g;

	RB_FOREACH(g, group_tree, &gs->tree) {
		figures_change(g, &sums[g->pool - gs->pools], true);
		if (g->state == GROUP_LOADED &&
		    g->len != g->used + g->handed + g->pinned + g->excluded + g->free.bytes)
			return false;
		if (g->pinned != g->pins[0].ranges.bytes + g->pins[1].ranges.bytes)
			return false;
	}
	for (unsigned i = 0; i < POOL_COUNT; i++) {
		const struct pool *p = &gs->pools[i], *s = &sums[i];

		if (p->total != s->total || p->used != s->used || p->handed != s->handed ||
		    p->pinned != s->pinned || p->excluded != s->excluded ||
		    p->loaded_free != s->loaded_free || p->loaded_whole != s->loaded_whole ||
		    p->unloaded_free != s->unloaded_free || p->group_count != s->group_count ||
		    p->unloaded_count != s->unloaded_count)
			return false;
	}
	return true;
}

uint64_t pool_free_locked(const struct pool *p)
{
	return p->loaded_free + p->unloaded_free;
}

uint64_t pool_blocks_locked(const struct group_set *gs, const struct pool *p)
{
	return p->loaded_whole * gs->block;
}

/*
 * The set.
 */

int groups_new(struct space *sp, struct group_set **ret_groups)
{
	struct group_set *gs = calloc(1, sizeof(*gs));

	if (gs == NULL)
		return -ENOMEM;
	mutex_init(&gs->lock, RANK_SPACE);
	cond_init(&gs->changed);
	RB_INIT(&gs->tree);
	TAILQ_INIT(&gs->dirty);
	gs->mixed = sp->mixed;
	gs->unit = sp->sectorsize;
	gs->block = max_u32(volume_block_bytes(sp->vol, 0), volume_block_bytes(sp->vol, 1));
	gs->policy = sp->policy == POLICY_ROTATIONAL ? &policy_rotational : &policy_ssd;
	gs->pools[POOL_DATA].name = sp->mixed ? "data and metadata" : "data";
	gs->pools[POOL_DATA].type = sp->mixed ? BG_DATA | BG_METADATA : BG_DATA;
	gs->pools[POOL_META].name = "metadata";
	gs->pools[POOL_META].type = BG_METADATA;
	gs->pools[POOL_SYSTEM].name = "system";
	gs->pools[POOL_SYSTEM].type = BG_SYSTEM;
	*ret_groups = gs;
	return 0;
}

static void group_free(struct group *g)
{
	free_space_done(&g->free);
	for (unsigned i = 0; i < PIN_SETS; i++)
		free_space_done(&g->pins[i].ranges);
	free(g);
}

void groups_free(struct group_set *gs)
{
	struct group *g;

	if (gs == NULL)
		return;
	while ((g = RB_MIN(group_tree, &gs->tree)) != NULL) {
		RB_REMOVE(group_tree, &gs->tree, g);
		group_free(g);
	}
	cond_done(&gs->changed);
	mutex_done(&gs->lock);
	free(gs);
}

struct pool *groups_pool(struct group_set *gs, uint64_t use)
{
	if (use & BG_SYSTEM)
		return &gs->pools[POOL_SYSTEM];
	if (gs->mixed || (use & BG_DATA))
		return &gs->pools[POOL_DATA];
	return &gs->pools[POOL_META];
}

struct group *group_next_locked(struct group_set *gs, uint64_t bytenr)
{
	struct group probe = {.start = bytenr};

	mutex_assert_held(&gs->lock);
	return RB_NFIND(group_tree, &gs->tree, &probe);
}

struct group *group_find_locked(struct group_set *gs, uint64_t bytenr)
{
	struct group *g = group_next_locked(gs, bytenr);

	if (g == NULL)
		g = RB_MAX(group_tree, &gs->tree);
	else if (g->start != bytenr)
		g = RB_PREV(group_tree, &gs->tree, g);
	return g != NULL && bytenr - g->start < g->len ? g : NULL;
}

/* The group that holds all of the range, or NULL. */
static struct group *group_around(struct group_set *gs, uint64_t bytenr, uint64_t len)
{
	struct group *g = group_find_locked(gs, bytenr);

	return g != NULL && len <= g->len - (bytenr - g->start) ? g : NULL;
}

static struct group_info info_of(const struct group *g)
{
	return (struct group_info){g->start, g->len, g->used, g->flags};
}

int group_find(struct space *sp, uint64_t bytenr, struct group_info *ret_info)
{
	const struct group *g;

	mutex_guard(&sp->groups->lock);
	g = group_find_locked(sp->groups, bytenr);
	if (g == NULL)
		return -ENOENT;
	*ret_info = info_of(g);
	return 0;
}

int group_next(struct space *sp, uint64_t bytenr, struct group_info *ret_info)
{
	struct group *g;

	mutex_guard(&sp->groups->lock);
	g = group_next_locked(sp->groups, bytenr);
	while (g != NULL && g->leaving)
		g = RB_NEXT(group_tree, &sp->groups->tree, g);
	if (g == NULL)
		return -ENOENT;
	*ret_info = info_of(g);
	return 0;
}

/*
 * Coming and going.
 */

int group_exclude_supers(struct space *sp, const struct group *g, struct free_space *free_set,
			 uint64_t *ret_bytes)
{
	struct chunk_range ranges[CHUNK_SUPER_RANGES_MAX];
	scoped(freep) struct chunk *c = NULL;
	int err = chunk_map_find(&sp->vol->chunks, g->start, &c);
	uint64_t sum = 0;
	unsigned n;

	if (err < 0)
		return err;
	n = chunk_super_ranges(c, ranges, CHUNK_SUPER_RANGES_MAX);
	for (unsigned i = 0; i < n; i++) {
		uint64_t s = align_down(ranges[i].logical, g->free.unit), bytes;
		uint64_t e = align_up(ranges[i].logical + ranges[i].len, g->free.unit);

		err = free_space_remove_any(free_set, s, e - s, &bytes);
		if (err < 0)
			return err;
		sum += bytes;
	}
	*ret_bytes = sum;
	return 0;
}

static void init_sets(const struct group_set *gs, struct group *g)
{
	uint32_t block = g->pool->type == BG_DATA ? 0 : gs->block;

	free_space_init(&g->free, g->start, g->len, gs->unit, block);
	for (unsigned i = 0; i < PIN_SETS; i++)
		free_space_init(&g->pins[i].ranges, g->start, g->len, gs->unit, 0);
}

int group_add(struct space *sp, const struct group_info *info, bool fresh)
{
	struct group_set *gs = sp->groups;
	struct group *g;
	int err;

	if (info->used > info->len || !is_aligned(info->start | info->len, gs->unit))
		return corrupt(OBJ_EXTENT_TREE, NO_ADDRESS, NO_SLOT,
			       "block group %llu: %llu of %llu bytes used",
			       (unsigned long long)info->start, (unsigned long long)info->used,
			       (unsigned long long)info->len);
	g = calloc(1, sizeof(*g));
	if (g == NULL)
		return -ENOMEM;
	g->start = info->start;
	g->len = info->len;
	g->used = info->used;
	g->flags = info->flags;
	g->pool = groups_pool(gs, info->flags);
	init_sets(gs, g);
	err = free_space_add(&g->free, g->start, g->len);
	if (err == 0)
		err = group_exclude_supers(sp, g, &g->free, &g->excluded);
	if (err < 0) {
		group_free(g);
		return err;
	}
	if (fresh)
		g->state = GROUP_LOADED;
	else
		free_space_done(&g->free);

	mutex_guard(&gs->lock);
	if (RB_INSERT(group_tree, &gs->tree, g) != NULL) {
		group_free(g);
		return -EEXIST;
	}
	group_figures_put(g);
	return 0;
}

static void clear_dirty(struct group_set *gs, struct group *g)
{
	if (g->dirty)
		TAILQ_REMOVE(&gs->dirty, g, dirty_link);
	g->dirty = false;
}

void group_set_leaving_locked(struct group_set *gs, struct group *g)
{
	mutex_assert_held(&gs->lock);
	must(g->used == 0 && g->handed == 0 && !g->leaving);
	clear_dirty(gs, g);
	group_figures_take(g);
	g->leaving = true;
}

void group_remove_locked(struct group_set *gs, struct group *g)
{
	mutex_assert_held(&gs->lock);
	must(g->used == 0 && g->handed == 0 && !g->loading);
	if (!g->leaving)
		group_set_leaving_locked(gs, g);
	RB_REMOVE(group_tree, &gs->tree, g);
	group_free(g);
}

/*
 * The life of a range.
 */

int group_take_locked(struct group *g, uint64_t start, uint64_t len)
{
	int err;

	must(group_open_locked(g));
	group_figures_take(g);
	err = free_space_remove(&g->free, start, len);
	if (err == 0)
		g->handed += len;
	group_figures_put(g);
	return err;
}

void group_give_back_locked(struct group *g, uint64_t start, uint64_t len)
{
	int err;

	must(g->handed >= len && g->state == GROUP_LOADED);
	group_figures_take(g);
	g->handed -= len;
	err = free_space_add(&g->free, start, len);
	if (err < 0) {
		must(err == -ENOMEM);
		g->excluded += len;	/* lost until the next mount */
	}
	group_figures_put(g);
}

void groups_rewind_blocks(struct group_set *gs)
{
	mutex_guard(&gs->lock);
	for (unsigned i = 0; i < POOL_COUNT; i++)
		gs->pools[i].block_cursor = (struct cursor_pos){0};
}

static void mark_dirty(struct group_set *gs, struct group *g)
{
	if (!g->dirty)
		TAILQ_INSERT_TAIL(&gs->dirty, g, dirty_link);
	g->dirty = true;
}

static int outside(uint64_t bytenr, uint64_t len)
{
	return corrupt(OBJ_EXTENT_TREE, NO_ADDRESS, NO_SLOT,
		       "extent %llu, %llu bytes, is not inside one block group",
		       (unsigned long long)bytenr, (unsigned long long)len);
}

int group_account_alloc(struct space *sp, uint64_t bytenr, uint64_t len)
{
	struct group_set *gs = sp->groups;
	struct group *g;

	mutex_guard(&gs->lock);
	g = group_around(gs, bytenr, len);
	if (g == NULL)
		return outside(bytenr, len);
	if (g->handed < len)
		return corrupt(OBJ_EXTENT_TREE, NO_ADDRESS, NO_SLOT,
			       "extent %llu, %llu bytes, was never handed out",
			       (unsigned long long)bytenr, (unsigned long long)len);
	group_figures_take(g);
	g->handed -= len;
	g->used += len;
	group_figures_put(g);
	mark_dirty(gs, g);
	return 0;
}

int group_account_free(struct space *sp, uint64_t bytenr, uint64_t len)
{
	struct group_set *gs = sp->groups;
	struct group *g;

	mutex_guard(&gs->lock);
	g = group_around(gs, bytenr, len);
	if (g == NULL)
		return outside(bytenr, len);
	if (g->used < len)
		return corrupt(OBJ_EXTENT_TREE, NO_ADDRESS, NO_SLOT,
			       "block group %llu: %llu bytes freed, but only %llu are used",
			       (unsigned long long)g->start, (unsigned long long)len,
			       (unsigned long long)g->used);
	group_figures_take(g);
	g->used -= len;
	group_figures_put(g);
	mark_dirty(gs, g);
	return 0;
}

bool group_take_dirty(struct space *sp, struct group_info *ret_info)
{
	struct group_set *gs = sp->groups;
	struct group *g;

	mutex_guard(&gs->lock);
	g = TAILQ_FIRST(&gs->dirty);
	if (g == NULL)
		return false;
	clear_dirty(gs, g);
	*ret_info = info_of(g);
	return true;
}

void space_free_now(struct space *sp, uint64_t bytenr, uint64_t len)
{
	struct group *g;

	mutex_guard(&sp->groups->lock);
	g = group_around(sp->groups, bytenr, len);
	must(g != NULL);
	group_give_back_locked(g, bytenr, len);
}

/*
 * Pinning.
 */

/* The set of the transaction. With all sets taken the newest one waits for this one too. */
static struct pin_set *pin_set_for(struct group *g, uint64_t transid)
{
	struct pin_set *newest = &g->pins[0];

	for (unsigned i = 0; i < PIN_SETS; i++)
		if (g->pins[i].transid == transid)
			return &g->pins[i];
	for (unsigned i = 0; i < PIN_SETS; i++) {
		if (g->pins[i].transid == 0) {
			g->pins[i].transid = transid;
			return &g->pins[i];
		}
		if (g->pins[i].transid > newest->transid)
			newest = &g->pins[i];
	}
	newest->transid = max_u64(newest->transid, transid);
	return newest;
}

int space_pin(struct space *sp, uint64_t transid, uint64_t bytenr, uint64_t len)
{
	struct group *g;
	int err;

	mutex_guard(&sp->groups->lock);
	g = group_around(sp->groups, bytenr, len);
	if (g == NULL)
		return outside(bytenr, len);
	err = free_space_add(&pin_set_for(g, transid)->ranges, bytenr, len);
	if (err == -EINVAL)
		return corrupt(OBJ_EXTENT_TREE, NO_ADDRESS, NO_SLOT,
			       "extent %llu, %llu bytes, is freed twice",
			       (unsigned long long)bytenr, (unsigned long long)len);
	if (err < 0)
		return err;
	group_figures_take(g);
	g->pinned += len;
	group_figures_put(g);
	return 0;
}

/* The ranges of a set become free. */
static void unpin_set(struct group *g, struct pin_set *set)
{
	uint64_t pos = g->start, s, e;

	group_figures_take(g);
	while (free_space_run(&set->ranges, pos, &s, &e)) {
		pos = e;
		if (g->state != GROUP_LOADED)
			continue;
		if (free_space_add(&g->free, s, e - s) < 0) {
			log_warn("block group %llu: %llu freed bytes stay unused until the next mount",
				 (unsigned long long)g->start, (unsigned long long)(e - s));
			g->excluded += e - s;
		}
	}
	g->pinned -= set->ranges.bytes;
	free_space_done(&set->ranges);
	set->transid = 0;
	group_figures_put(g);
}

static void discard_set(struct space *sp, struct group *g, const struct pin_set *set)
{
	uint64_t pos = g->start, s, e;

	while (sp->discard && free_space_run(&set->ranges, pos, &s, &e)) {
		pos = e;
		mutex_unlock(&sp->groups->lock);
		if (volume_discard(sp->vol, s, e - s) == -EOPNOTSUPP) {
			log_warn("the device cannot discard; going on without");
			sp->discard = false;
		}
		mutex_lock(&sp->groups->lock);
	}
}

void groups_unpin(struct space *sp, uint64_t transid, bool discard)
{
	struct group_set *gs = sp->groups;
	struct group *g;

	/* The lock may be let go while discarding: sets of written transactions change no more, and
	 * groups are removed by the calling thread alone. */
	mutex_guard(&gs->lock);
	RB_FOREACH(g, group_tree, &gs->tree) {
		for (unsigned i = 0; i < PIN_SETS; i++) {
			struct pin_set *set = &g->pins[i];

			if (set->transid == 0 || set->transid > transid)
				continue;
			if (discard)
				discard_set(sp, g, set);
			unpin_set(g, set);
		}
	}
}
