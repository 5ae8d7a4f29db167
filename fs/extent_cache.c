/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/extent_cache.c - the last compressed extents that were read (see extent_cache.h).
 *
 * Invariants: an entry in the table holds one reference for the table; data do not change once the
 * entry is in it.
 */
#include "fs/extent_cache.h"

#include "io/locks.h"

#include <errno.h>

struct extent_cache {
	struct mutex lock;		/* rank CACHE: all below */
	uint64_t clock;
	struct cached_extent *slot[EXTENT_CACHE_COUNT];
};

int extent_cache_new(struct fs *fs)
{
	struct extent_cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	mutex_init(&c->lock, RANK_CACHE);
	fs->extents = c;
	return 0;
}

void extent_cache_free(struct fs *fs)
{
	struct extent_cache *c = fs->extents;

	if (c == NULL)
		return;
	for (unsigned i = 0; i < EXTENT_CACHE_COUNT; i++)
		cached_extent_put(c->slot[i]);
	mutex_done(&c->lock);
	free(c);
	fs->extents = NULL;
}

struct cached_extent *extent_cache_get(struct fs *fs, uint64_t bytenr, uint64_t generation)
{
	struct extent_cache *c = fs->extents;

	if (c == NULL)
		return NULL;
	mutex_guard(&c->lock);
	for (unsigned i = 0; i < EXTENT_CACHE_COUNT; i++) {
		struct cached_extent *e = c->slot[i];

		if (e == NULL || e->bytenr != bytenr || e->generation != generation)
			continue;
		e->used = ++c->clock;
		atomic_fetch_add(&e->refs, 1);
		return e;
	}
	return NULL;
}

struct cached_extent *cached_extent_new(uint64_t bytenr, uint64_t generation, uint32_t len)
{
	struct cached_extent *e = malloc(sizeof(*e) + len);

	if (e == NULL)
		return NULL;
	atomic_init(&e->refs, 1);
	e->bytenr = bytenr;
	e->generation = generation;
	e->used = 0;
	e->len = len;
	return e;
}

void extent_cache_add(struct fs *fs, struct cached_extent *e)
{
	struct extent_cache *c = fs->extents;
	struct cached_extent *old;
	unsigned victim = 0;

	if (c == NULL)
		return;
	mutex_lock(&c->lock);
	for (unsigned i = 0; i < EXTENT_CACHE_COUNT; i++) {
		if (c->slot[i] == NULL) {
			victim = i;
			break;
		}
		if (c->slot[i]->used < c->slot[victim]->used)
			victim = i;
	}
	old = c->slot[victim];
	atomic_fetch_add(&e->refs, 1);
	e->used = ++c->clock;
	c->slot[victim] = e;
	mutex_unlock(&c->lock);
	cached_extent_put(old);
}

void cached_extent_put(struct cached_extent *e)
{
	if (e != NULL && atomic_fetch_sub(&e->refs, 1) == 1)
		free(e);
}

void extent_cache_forget(struct fs *fs, uint64_t bytenr, uint64_t len)
{
	struct extent_cache *c = fs->extents;

	if (c == NULL)
		return;
	mutex_guard(&c->lock);
	for (unsigned i = 0; i < EXTENT_CACHE_COUNT; i++) {
		struct cached_extent *e = c->slot[i];

		if (e == NULL || e->bytenr < bytenr || e->bytenr - bytenr >= len)
			continue;
		c->slot[i] = NULL;
		cached_extent_put(e);
	}
}
