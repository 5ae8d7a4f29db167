/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/space_stat.c - figures about space, for statfs and for people (see space.h).
 *
 * `avail` is what a big file can still take: free data space, pinned or not, and what is left to
 * become data chunks, but no more than its checksums and extents find metadata for.
 */
#include "alloc/chunk.h"
#include "alloc/group.h"
#include "alloc/policy.h"
#include "alloc/reserve.h"
#include "io/util.h"

#include <inttypes.h>
#include <stdio.h>

#define NEAR_FULL_BYTES (64ULL << 20)
#define NEAR_FULL_META_BYTES (8ULL << 20)
#define DATA_PER_METADATA 400u		/* data bytes for which a byte of metadata is enough */

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Metadata that could still be used, chunks to come counted. */
static uint64_t meta_spare(struct space *sp, const struct pool *meta, uint64_t unallocated)
{
	uint64_t copies = chunk_copies(sp->metadata_profile);
	uint64_t have = meta->loaded_free + meta->unloaded_free + meta->pinned;

	return minus(have + unallocated / copies, reserve_need_locked(sp, 0, true));
}

static void stat_locked(struct space *sp, struct space_stat *s)
{
	struct group_set *gs = sp->groups;
	const struct pool *data = groups_pool(gs, BG_DATA), *meta = groups_pool(gs, BG_METADATA);
	uint64_t profile = sp->mixed ? sp->metadata_profile : sp->data_profile;
	uint64_t copies = chunk_copies(profile), spare, for_data, chunk_data;

	s->data_total = data->total;
	s->data_used = data->used + data->handed;
	s->meta_total = meta->total;
	s->meta_used = meta->used + meta->handed;
	s->data_reserved = data->data_reserved;
	s->meta_reserved = meta->meta_reserved;
	s->unallocated = chunks_unallocated_locked(sp);
	for_data = minus(s->unallocated, reserve_keep_for_metadata_locked(sp));
	chunk_data = align_down(for_data / copies, STRIPE_LEN_BYTES);
	s->avail = minus(pool_free_locked(data) + data->pinned + chunk_data, data->data_reserved);
	spare = meta_spare(sp, meta, s->unallocated - for_data);
	if (sp->mixed)
		s->avail = minus(s->avail, reserve_data_floor_locked(sp));
	else
		s->avail = min_u64(s->avail, spare * DATA_PER_METADATA);
	s->total = chunks_device_bytes(sp) / copies;
	s->nearly_full = s->avail < min_u64(NEAR_FULL_BYTES, s->total / 4) ||
			 meta_spare(sp, meta, s->unallocated) <
				 min_u64(NEAR_FULL_META_BYTES, s->total / 16);
}

void space_stat(struct space *sp, struct space_stat *ret_stat)
{
	mutex_guard(&sp->groups->lock);
	*ret_stat = (struct space_stat){0};
	stat_locked(sp, ret_stat);
}

static void dump_pool(int fd, const struct pool *p)
{
	dprintf(fd, "pool %s: %u groups (%u not loaded), total %" PRIu64 " used %" PRIu64
		" handed %" PRIu64 " pinned %" PRIu64 " excluded %" PRIu64 " free %" PRIu64
		" (%" PRIu64 " not loaded) reserved %" PRIu64 " data, %" PRIu64 " metadata\n",
		p->name, p->group_count, p->unloaded_count, p->total, p->used, p->handed, p->pinned,
		p->excluded, p->loaded_free + p->unloaded_free, p->unloaded_free, p->data_reserved,
		p->meta_reserved);
}

static void dump_group(int fd, const struct group *g)
{
	static const char *const states[] = {"unloaded", "loaded", "broken"};

	dprintf(fd, "group %" PRIu64 " +%" PRIu64 " flags %#" PRIx64 " %s%s: used %" PRIu64
		" handed %" PRIu64 " pinned %" PRIu64 " excluded %" PRIu64 " free %" PRIu64 " in %"
		PRIu64 " runs%s\n", g->start, g->len, g->flags, states[g->state],
		g->leaving ? " leaving" : "", g->used, g->handed, g->pinned, g->excluded,
		g->free.bytes, g->free.runs, g->free.bits != NULL ? " (bitmap)" : "");
}

void space_dump(struct space *sp, int fd)
{
	uint64_t pending = space_pending_refs(sp);
	struct group *g;

	mutex_guard(&sp->groups->lock);
	dprintf(fd, "policy %s, %" PRIu64 " references wait, %" PRIu64 " bytes unallocated\n",
		sp->groups->policy->name, pending, chunks_unallocated_locked(sp));
	dprintf(fd, "trees of space %" PRIu64 " bytes, height %u, must stay free %" PRIu64
		" (global %" PRIu64 "), overdrawn %" PRIu64 "\n", sp->reserve->whole,
		sp->reserve->height, reserve_need_locked(sp, 0, true), reserve_global_locked(sp),
		sp->reserve->overdrawn);
	for (unsigned i = 0; i < POOL_COUNT; i++)
		if (!sp->mixed || i != POOL_META)
			dump_pool(fd, &sp->groups->pools[i]);
	RB_FOREACH(g, group_tree, &sp->groups->tree)
		dump_group(fd, g);
}
