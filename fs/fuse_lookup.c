/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_lookup.c - the table of lookup counts (see fuse_lookup.h).
 *
 * Node ids are spread over shards by a hash; each shard has a lock and an open-addressed table with
 * linear probing, whose size is a power of two. Deleting closes the gap by moving later entries of
 * the probe run back, so there are no tombstones. A shard that gets too full doubles; one that gets
 * too empty halves, and is left as it is when there is no memory for that.
 */
#include "fs/fuse_lookup.h"

#include <errno.h>

#include "io/locks.h"

#define SHARD_BITS 6u
#define SHARD_COUNT (1u << SHARD_BITS)
#define SLOTS_MIN 16u			/* of a shard; not shrunk below */

struct slot {
	uint64_t nodeid;		/* 0: free */
	uint64_t count;
};

struct shard {
	struct mutex lock;
	struct slot *slots;
	uint64_t used, mask;		/* mask: number of slots - 1 */
} __attribute__((aligned(64)));

struct lookup_table {
	struct shard shards[SHARD_COUNT];
};

/* Mixes all bits into all bits; node ids are nearly consecutive. */
static uint64_t hash(uint64_t v)
{
	v ^= v >> 32;
	v *= UINT64_C(0x9e3779b97f4a7c15);
	v ^= v >> 29;
	v *= UINT64_C(0xbf58476d1ce4e5b9);
	return v ^ v >> 32;
}

static struct shard *shard_of(struct lookup_table *t, uint64_t nodeid)
{
	return &t->shards[hash(nodeid) >> (64 - SHARD_BITS)];
}

/* The slot of nodeid, or the free one where it would go. There is always a free one. */
static struct slot *find(struct slot *slots, uint64_t mask, uint64_t nodeid)
{
	uint64_t i = hash(nodeid) & mask;

	while (slots[i].nodeid != 0 && slots[i].nodeid != nodeid)
		i = (i + 1) & mask;
	return &slots[i];
}

static int resize(struct shard *s, uint64_t slot_count)
{
	struct slot *slots = calloc(slot_count, sizeof(*slots));

	if (slots == NULL)
		return -ENOMEM;
	for (uint64_t i = 0; i <= s->mask; i++) {
		if (s->slots[i].nodeid != 0)
			*find(slots, slot_count - 1, s->slots[i].nodeid) = s->slots[i];
	}
	free(s->slots);
	s->slots = slots;
	s->mask = slot_count - 1;
	return 0;
}

int lookup_table_new(struct lookup_table **ret_table)
{
	struct lookup_table *t = aligned_alloc(64, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	*t = (struct lookup_table){0};
	for (unsigned i = 0; i < SHARD_COUNT; i++) {
		struct shard *s = &t->shards[i];

		mutex_init(&s->lock, RANK_CACHE);
		s->mask = SLOTS_MIN - 1;
		s->slots = calloc(SLOTS_MIN, sizeof(*s->slots));
		if (s->slots == NULL) {
			for (unsigned k = 0; k <= i; k++) {
				free(t->shards[k].slots);
				mutex_done(&t->shards[k].lock);
			}
			free(t);
			return -ENOMEM;
		}
	}
	*ret_table = t;
	return 0;
}

void lookup_table_free(struct lookup_table *t)
{
	if (t == NULL)
		return;
	for (unsigned i = 0; i < SHARD_COUNT; i++) {
		free(t->shards[i].slots);
		mutex_done(&t->shards[i].lock);
	}
	free(t);
}

int lookup_add(struct lookup_table *t, uint64_t nodeid)
{
	struct shard *s = shard_of(t, nodeid);
	struct slot *slot;
	mutex_guard(&s->lock);

	dcheck(nodeid != 0);
	slot = find(s->slots, s->mask, nodeid);
	if (slot->nodeid == 0) {
		if ((s->used + 1) * 4 > (s->mask + 1) * 3) {
			int err = resize(s, (s->mask + 1) * 2);

			if (err < 0)
				return err;
			slot = find(s->slots, s->mask, nodeid);
		}
		slot->nodeid = nodeid;
		s->used++;
	}
	slot->count++;
	return 0;
}

/* Empties slot i, then moves back what only lay behind it because it was taken. */
static void erase(struct shard *s, uint64_t i)
{
	uint64_t gap = i;

	for (uint64_t k = (i + 1) & s->mask; s->slots[k].nodeid != 0; k = (k + 1) & s->mask) {
		uint64_t home = hash(s->slots[k].nodeid) & s->mask;

		if (((k - home) & s->mask) >= ((k - gap) & s->mask)) {
			s->slots[gap] = s->slots[k];
			gap = k;
		}
	}
	s->slots[gap] = (struct slot){0};
	s->used--;
}

uint64_t lookup_drop(struct lookup_table *t, uint64_t nodeid, uint64_t count)
{
	struct shard *s = shard_of(t, nodeid);
	struct slot *slot;
	mutex_guard(&s->lock);

	slot = find(s->slots, s->mask, nodeid);
	if (slot->nodeid == 0)
		return 0;
	if (slot->count > count) {
		slot->count -= count;
		return slot->count;
	}
	erase(s, (uint64_t)(slot - s->slots));
	if (s->mask + 1 > SLOTS_MIN && s->used * 8 < s->mask + 1)
		(void)resize(s, (s->mask + 1) / 2);
	return 0;
}

uint64_t lookup_count(struct lookup_table *t, uint64_t nodeid)
{
	struct shard *s = shard_of(t, nodeid);
	mutex_guard(&s->lock);

	return find(s->slots, s->mask, nodeid)->count;
}

uint64_t lookup_nodes(struct lookup_table *t)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < SHARD_COUNT; i++) {
		mutex_guard(&t->shards[i].lock);
		n += t->shards[i].used;
	}
	return n;
}

uint64_t lookup_bytes(struct lookup_table *t)
{
	uint64_t n = sizeof(*t);

	for (unsigned i = 0; i < SHARD_COUNT; i++) {
		mutex_guard(&t->shards[i].lock);
		n += (t->shards[i].mask + 1) * sizeof(struct slot);
	}
	return n;
}
