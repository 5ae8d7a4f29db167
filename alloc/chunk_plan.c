/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/chunk_plan.c - how large a new chunk is and where its stripes go (see chunk.h).
 *
 * A profile asks for a number of devices and of stripes on each; a stripe is as long as the chunk's
 * limits allow, or as the holes do. Planning changes nothing. Called with group_set.lock held.
 */
#include "alloc/chunk.h"

#include "alloc/group.h"
#include "io/util.h"

#include <errno.h>

#define CHUNK_MIN_STRIPE_BYTES STRIPE_LEN_BYTES
#define LARGE_DEVICE_BYTES (50ULL << 30)

/* How a profile spreads. */
struct spread {
	unsigned devs_min;
	unsigned devs_max;		/* 0: all */
	unsigned devs_step;
	unsigned dev_stripes;		/* on each device */
	uint16_t sub_stripes;
};

static struct spread spread_of(uint64_t type)
{
	switch (type & BG_PROFILE_MASK) {
	case BG_DUP:
		return (struct spread){1, 1, 1, 2, 1};
	case BG_RAID0:
		return (struct spread){1, 0, 1, 1, 1};
	case BG_RAID1:
		return (struct spread){2, 2, 2, 1, 1};
	case BG_RAID1C3:
		return (struct spread){3, 3, 3, 1, 1};
	case BG_RAID1C4:
		return (struct spread){4, 4, 4, 1, 1};
	case BG_RAID10:
		return (struct spread){2, 0, 2, 1, 2};
	default:
		return (struct spread){1, 1, 1, 1, 1};
	}
}

struct chunk_limits chunk_limits(uint64_t device_bytes, uint64_t use)
{
	struct chunk_limits l;

	if (use & BG_DATA) {
		l = (struct chunk_limits){1ULL << 30, 10ULL << 30};
	} else if (use & BG_METADATA) {
		l.stripe_max = device_bytes > LARGE_DEVICE_BYTES ? 1ULL << 30 : 256ULL << 20;
		l.chunk_max = l.stripe_max;
	} else {
		l = (struct chunk_limits){32ULL << 20, 64ULL << 20};
	}
	l.chunk_max = min_u64(l.chunk_max, device_bytes / 10);
	return l;
}

/* Whole stripes' worth of a hole. */
static uint64_t usable(uint64_t s, uint64_t e)
{
	s = align_up(s, STRIPE_LEN_BYTES);
	e = align_down(e, STRIPE_LEN_BYTES);
	return s < e ? e - s : 0;
}

/* The longest stripe of which `count` (1 or 2) fit into the device's holes. */
static uint64_t longest_stripe(const struct device_space *d, unsigned count)
{
	uint64_t first = 0, second = 0, pos = 0, s, e;

	while (free_space_run(&d->holes, pos, &s, &e)) {
		uint64_t len = usable(s, e);

		if (len > first) {
			second = first;
			first = len;
		} else if (len > second) {
			second = len;
		}
		pos = e;
	}
	if (count == 1)
		return first;
	return max_u64(second, align_down(first / 2, STRIPE_LEN_BYTES));
}

struct candidate {
	unsigned device;
	uint64_t stripe_max;
};

/* Devices with room for a stripe, most room first. */
static unsigned find_candidates(const struct chunk_set *cs, unsigned dev_stripes,
				struct candidate *c)
{
	unsigned n = 0;

	for (unsigned i = 0; i < cs->device_count && n < CHUNK_STRIPES_PLANNED_MAX; i++) {
		struct candidate add = {i, longest_stripe(&cs->devices[i], dev_stripes)};
		unsigned at = n;

		if (add.stripe_max < CHUNK_MIN_STRIPE_BYTES)
			continue;
		while (at > 0 && c[at - 1].stripe_max < add.stripe_max) {
			c[at] = c[at - 1];
			at--;
		}
		c[at] = add;
		n++;
	}
	return n;
}

/* The lowest places for the stripes of one device. */
static int place_stripes(struct device_space *d, unsigned device, unsigned count,
			 struct chunk_plan *plan)
{
	struct free_query q = {
		.to = UINT64_MAX,
		.min = plan->stripe_bytes,
		.want = plan->stripe_bytes,
		.align = STRIPE_LEN_BYTES,
	};

	for (unsigned i = 0; i < count; i++) {
		uint64_t start, len;

		if (!free_space_first(&d->holes, &q, &start, &len))
			return -ENOSPC;
		plan->stripes[plan->num_stripes].device = device;
		plan->stripes[plan->num_stripes].physical = start;
		plan->num_stripes++;
		q.from = start + len;
	}
	return 0;
}

int chunk_plan_locked(struct space *sp, uint64_t type, uint64_t keep, struct chunk_plan *ret_plan)
{
	struct chunk_set *cs = sp->chunks;
	struct chunk_limits limits = chunk_limits(chunks_device_bytes(sp), type);
	struct spread spread = spread_of(type);
	struct candidate c[CHUNK_STRIPES_PLANNED_MAX];
	struct chunk_plan plan = {.type = type, .sub_stripes = spread.sub_stripes};
	unsigned devs = find_candidates(cs, spread.dev_stripes, c), columns;
	uint64_t unallocated = chunks_unallocated_locked(sp), stripe;

	devs = min_u32(devs, spread.devs_max != 0 ? spread.devs_max : CHUNK_STRIPES_PLANNED_MAX);
	devs -= devs % spread.devs_step;
	if (devs < spread.devs_min || unallocated <= keep)
		return -ENOSPC;
	columns = devs * spread.dev_stripes / chunk_copies(type);
	stripe = min_u64(limits.stripe_max, limits.chunk_max / columns);
	stripe = min_u64(stripe, c[devs - 1].stripe_max);
	stripe = min_u64(stripe, (unallocated - keep) / (devs * spread.dev_stripes));
	plan.stripe_bytes = align_down(stripe, STRIPE_LEN_BYTES);
	plan.length = plan.stripe_bytes * columns;
	if (plan.stripe_bytes < CHUNK_MIN_STRIPE_BYTES)
		return -ENOSPC;
	for (unsigned i = 0; i < devs; i++) {
		int err = place_stripes(&cs->devices[c[i].device], c[i].device, spread.dev_stripes,
					&plan);

		if (err < 0)
			return err;
	}
	*ret_plan = plan;
	return 0;
}
