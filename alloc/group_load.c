/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/group_load.c - a group's free space, from the trees into memory (see group.h).
 *
 * The trees are read without a lock, while operations go on. Only a commit changes what they say about
 * a group that is not loaded, so a reading counts if no commit ran from its begin to its end; then
 * `used` and the free ranges must agree to the byte.
 */
#include "alloc/group.h"

#include "io/log.h"
#include "io/util.h"

#include <errno.h>

#define LOAD_WAIT_MS 100u
#define LOAD_WAITS_MAX 600u		/* a commit that takes longer than a minute */
#define LOAD_TRIES_MAX 16u

void groups_commit_begin(struct group_set *gs)
{
	mutex_guard(&gs->lock);
	if (!gs->commit_running)
		gs->commit_seq++;
	gs->commit_running = true;
	gs->commit_thread = pthread_self();
}

void groups_commit_end(struct group_set *gs)
{
	mutex_guard(&gs->lock);
	gs->commit_running = false;
	cond_wake_all(&gs->changed);
}

/*
 * Takes what must not be handed out, pinned ranges and superblock copies, from what the trees call
 * free, and compares the rest with the group's figures.
 */
static int adopt_free(struct space *sp, struct group *g, struct free_space *scanned)
{
	uint64_t pos, s, e, room;
	int err = group_exclude_supers(sp, g, scanned, &g->excluded);

	for (unsigned i = 0; i < PIN_SETS && err == 0; i++) {
		pos = g->start;
		while (err == 0 && free_space_run(&g->pins[i].ranges, pos, &s, &e)) {
			err = free_space_remove_any(scanned, s, e - s, NULL);
			pos = e;
		}
	}
	if (err < 0)
		return err;
	room = g->len - min_u64(g->len, g->used + g->pinned + g->excluded);
	if (scanned->bytes > room) {
		g->state = GROUP_BROKEN;
		corrupt(OBJ_FREE_SPACE_TREE, NO_ADDRESS, NO_SLOT,
			"block group %llu: %llu bytes are free by the free space, %llu by what is used; "
			"nothing will be allocated there", (unsigned long long)g->start,
			(unsigned long long)scanned->bytes, (unsigned long long)room);
		return 0;
	}
	if (scanned->bytes < room)
		log_warn("block group %llu: %llu free bytes are in no list of free space",
			 (unsigned long long)g->start, (unsigned long long)(room - scanned->bytes));
	g->excluded += room - scanned->bytes;
	free_space_move(scanned, &g->free);
	g->state = GROUP_LOADED;
	return 0;
}

struct scan {
	struct free_space *set;
	uint64_t start;
};

static int scan_add(void *arg, uint64_t start, uint64_t len)
{
	struct scan *scan = arg;
	int err = free_space_add(scan->set, start, len);

	if (err == -EINVAL)
		return corrupt(OBJ_FREE_SPACE_TREE, NO_ADDRESS, NO_SLOT,
			       "free space %llu, %llu bytes, does not fit block group %llu",
			       (unsigned long long)start, (unsigned long long)len,
			       (unsigned long long)scan->start);
	return err;
}

/* Waits for the end of a commit's run. -EAGAIN: it did not come. */
static int wait_commit(struct group_set *gs)
{
	for (unsigned i = 0; gs->commit_running && !pthread_equal(gs->commit_thread, pthread_self());
	     i++) {
		if (i == LOAD_WAITS_MAX)
			return -EAGAIN;
		cond_wait_ms(&gs->changed, &gs->lock, LOAD_WAIT_MS);
	}
	return 0;
}

/* One reading, begun and ended while no commit changed the trees. -EAGAIN: one did. Lock held. */
static int load_once(struct space *sp, struct group *g)
{
	struct group_set *gs = sp->groups;
	struct group_info info;
	struct free_space set;
	struct scan scan = {&set, g->start};
	uint64_t seq;
	int err = wait_commit(gs);

	if (err < 0)
		return err;
	seq = gs->commit_seq;
	info = (struct group_info){g->start, g->len, g->used, g->flags};
	free_space_init(&set, g->start, g->len, g->free.unit, g->free.block);
	mutex_unlock(&gs->lock);
	err = group_scan_free(sp, &info, scan_add, &scan);
	mutex_lock(&gs->lock);
	if (gs->commit_seq != seq) {
		err = -EAGAIN;		/* what was read, an error too, may be torn */
	} else if (err == -EUCLEAN) {
		group_figures_take(g);
		g->state = GROUP_BROKEN;
		group_figures_put(g);
		err = 0;
	} else if (err == 0) {
		group_figures_take(g);
		err = adopt_free(sp, g, &set);
		group_figures_put(g);
	}
	free_space_done(&set);
	return err;
}

int group_load(struct space *sp, uint64_t start)
{
	struct group_set *gs = sp->groups;
	struct group *g;
	int err = -EAGAIN;

	mutex_guard(&gs->lock);
	g = group_find_locked(gs, start);
	while (g != NULL && g->loading) {
		cond_wait(&gs->changed, &gs->lock);
		g = group_find_locked(gs, start);
	}
	if (g == NULL || g->state != GROUP_UNLOADED || g->leaving)
		return 0;
	g->loading = true;		/* keeps it from leaving */
	for (unsigned i = 0; i < LOAD_TRIES_MAX && err == -EAGAIN; i++)
		err = load_once(sp, g);
	g->loading = false;
	cond_wake_all(&gs->changed);
	return err;
}

/* The unloaded group with the most free bytes. */
static struct group *emptiest_unloaded(struct group_set *gs, const struct pool *p)
{
	struct group *g, *best = NULL;

	RB_FOREACH(g, group_tree, &gs->tree)
		if (g->pool == p && g->state == GROUP_UNLOADED && !g->leaving &&
		    (best == NULL || group_unloaded_free(g) > group_unloaded_free(best)))
			best = g;
	return best;
}

int groups_load_blocks(struct space *sp, uint64_t use, uint64_t bytes)
{
	struct group_set *gs = sp->groups;
	const struct pool *p = groups_pool(gs, use);

	for (;;) {
		const struct group *g = NULL;
		uint64_t start = 0;
		int err;

		mutex_lock(&gs->lock);
		if (p->unloaded_count > 0 && pool_blocks_locked(gs, p) < bytes)
			g = emptiest_unloaded(gs, p);
		if (g != NULL)
			start = g->start;
		mutex_unlock(&gs->lock);
		if (g == NULL)
			return 0;
		err = group_load(sp, start);
		if (err < 0)
			return err;
	}
}
