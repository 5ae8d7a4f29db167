/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/chunk.c - the holes of devices, and making chunks (see chunk.h).
 *
 * A chunk comes in two steps: under the space lock its stripes are planned and cut out of the holes,
 * then, without it, the items are inserted. The new group can be allocated from between the two, so
 * the blocks of its own items may lie in it.
 */
#include "alloc/chunk.h"

#include "alloc/group.h"
#include "alloc/reserve.h"
#include "io/fault.h"
#include "io/log.h"
#include "io/super.h"
#include "io/util.h"

#include <errno.h>

/*
 * Devices.
 */

struct device_space *device_space_find(struct chunk_set *cs, uint64_t devid)
{
	for (unsigned i = 0; i < cs->device_count; i++)
		if (cs->devices[i].devid == devid)
			return &cs->devices[i];
	return NULL;
}

static int device_space_init(struct space *sp, const struct volume_device *vd,
			     struct device_space *d)
{
	struct disk_dev_item item;
	uint64_t bytes;
	int err = volume_device_item(sp->vol, vd->devid, &item);

	if (err < 0)
		return err;
	d->devid = vd->devid;
	d->total_bytes = min_u64(disk_dev_item_total_bytes(&item), device_size(vd->dev));
	d->bytes_used = disk_dev_item_bytes_used(&item);
	memcpy(d->uuid, item.uuid, UUID_BYTES);
	bytes = align_down(d->total_bytes, sp->sectorsize);
	free_space_init(&d->holes, 0, bytes, sp->sectorsize, 0);
	if (bytes <= DEVICE_RESERVED_BYTES)
		return 0;
	return free_space_add(&d->holes, DEVICE_RESERVED_BYTES, bytes - DEVICE_RESERVED_BYTES);
}

int chunks_new(struct space *sp, struct chunk_set **ret_chunks)
{
	struct chunk_set *cs = calloc(1, sizeof(*cs));
	int err = 0;

	if (cs == NULL)
		return -ENOMEM;
	mutex_init(&cs->lock, RANK_DELAYED);
	cs->devices = calloc(max_u32(1, sp->vol->device_count), sizeof(*cs->devices));
	if (cs->devices == NULL)
		err = -ENOMEM;
	for (unsigned i = 0; err == 0 && i < sp->vol->device_count; i++) {
		cs->device_count++;
		err = device_space_init(sp, sp->vol->devices[i], &cs->devices[i]);
	}
	if (err < 0) {
		chunks_free(cs);
		return err;
	}
	*ret_chunks = cs;
	return 0;
}

void chunks_free(struct chunk_set *cs)
{
	if (cs == NULL)
		return;
	for (unsigned i = 0; i < cs->device_count; i++)
		free_space_done(&cs->devices[i].holes);
	free(cs->devices);
	while (cs->gone != NULL) {
		struct gone_chunk *gone = cs->gone;

		cs->gone = gone->next;
		free(gone->chunk);
		free(gone);
	}
	mutex_done(&cs->lock);
	free(cs);
}

static int cut_chunk(struct space *sp, const struct chunk *c)
{
	for (unsigned i = 0; i < c->num_stripes; i++) {
		struct device_space *d = device_space_find(sp->chunks, c->stripes[i].devid);
		int err;

		if (d == NULL)
			return -ENODEV;
		err = free_space_remove_any(&d->holes, c->stripes[i].physical, chunk_stripe_bytes(c),
					    NULL);
		if (err < 0)
			return err;
	}
	return 0;
}

static int cut_dev_extents(struct space *sp, struct device_space *d)
{
	struct key first = key_make(d->devid, KEY_DEV_EXTENT, 0);
	struct key last = key_make(d->devid, KEY_DEV_EXTENT, UINT64_MAX);
	scoped(cursor_done) struct cursor c;
	int err;

	cursor_init(&c, sp->trees->dev, &first, &last);
	while ((err = cursor_next(&c)) > 0) {
		const struct disk_dev_extent *de = (const struct disk_dev_extent *)c.item.data;
		uint64_t start = c.item.key.offset;

		if (c.item.size < sizeof(*de) || !is_aligned(start, sp->sectorsize) ||
		    !is_aligned(disk_dev_extent_length(de), sp->sectorsize) ||
		    disk_dev_extent_length(de) > UINT64_MAX - start)
			return corrupt(OBJ_DEV_TREE, NO_ADDRESS, NO_SLOT, "dev extent " KEY_FMT,
				       KEY_ARGS(&c.item.key));
		err = free_space_remove_any(&d->holes, start, disk_dev_extent_length(de), NULL);
		if (err < 0)
			return err;
	}
	return err;
}

int chunks_load(struct space *sp)
{
	struct chunk_set *cs = sp->chunks;
	uint64_t logical = 0;
	int err = 0;

	for (;;) {
		scoped(freep) struct chunk *c = NULL;

		err = chunk_map_next(&sp->vol->chunks, logical, &c);
		if (err == -ENOENT)
			break;
		if (err == 0)
			err = cut_chunk(sp, c);
		if (err < 0)
			return err;
		logical = c->logical + c->length;
	}
	err = 0;
	for (unsigned i = 0; err == 0 && sp->trees->dev != NULL && i < cs->device_count; i++)
		err = cut_dev_extents(sp, &cs->devices[i]);
	return err;
}

uint64_t chunks_unallocated_locked(const struct space *sp)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < sp->chunks->device_count; i++)
		sum += sp->chunks->devices[i].holes.bytes;
	return sum;
}

uint64_t chunks_device_bytes(const struct space *sp)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < sp->chunks->device_count; i++)
		sum += sp->chunks->devices[i].total_bytes;
	return sum;
}

void chunks_publish_devices(struct space *sp)
{
	for (unsigned i = 0; i < sp->chunks->device_count; i++) {
		struct device_space *d = &sp->chunks->devices[i];
		struct disk_dev_item item;

		if (volume_device_item(sp->vol, d->devid, &item) < 0)
			continue;
		disk_dev_item_set_bytes_used(&item, d->bytes_used);
		volume_set_device_item(sp->vol, d->devid, &item);
	}
}

/*
 * Making one.
 */

/* What must be free for the chunk tree before, and after, a chunk is made or removed. */
static uint64_t system_price(struct space *sp)
{
	uint64_t path = (tree_height(sp->trees->chunk) + 2u) * (uint64_t)sp->groups->block;

	return 4 * path;
}

/* Room for one more system chunk in the superblock? */
static bool sys_array_has_room(struct space *sp, unsigned stripes)
{
	uint64_t logical = 0;
	size_t used = 0;

	for (;;) {
		scoped(freep) struct chunk *c = NULL;

		if (chunk_map_next(&sp->vol->chunks, logical, &c) < 0)
			break;
		if (c->type & BG_SYSTEM)
			used += sizeof(struct disk_key) + chunk_item_bytes(c->num_stripes);
		logical = c->logical + c->length;
	}
	return used + sizeof(struct disk_key) + chunk_item_bytes(stripes) <= SYS_CHUNK_ARRAY_BYTES;
}

/* The planned chunk at the end of the logical space. */
static int chunk_from_plan(struct space *sp, const struct chunk_plan *plan, struct chunk **ret_chunk)
{
	struct chunk *c = calloc(1, sizeof(*c) + plan->num_stripes * sizeof(c->stripes[0]));
	const struct group *last = RB_MAX(group_tree, &sp->groups->tree);

	if (c == NULL)
		return -ENOMEM;
	c->logical = last == NULL ? DEVICE_RESERVED_BYTES
				  : align_up(last->start + last->len, STRIPE_LEN_BYTES);
	c->length = plan->length;
	c->type = plan->type;
	c->owner = OBJ_EXTENT_TREE;
	c->io_align = STRIPE_LEN_BYTES;
	c->io_width = STRIPE_LEN_BYTES;
	c->sector_size = sp->sectorsize;
	c->num_stripes = plan->num_stripes;
	c->sub_stripes = plan->sub_stripes;
	for (unsigned i = 0; i < plan->num_stripes; i++) {
		const struct device_space *d = &sp->chunks->devices[plan->stripes[i].device];

		c->stripes[i].devid = d->devid;
		c->stripes[i].physical = plan->stripes[i].physical;
		memcpy(c->stripes[i].dev_uuid, d->uuid, UUID_BYTES);
	}
	*ret_chunk = c;
	return 0;
}

/* Plans a chunk and cuts it out of the holes. */
static int chunk_claim(struct space *sp, uint64_t type, uint64_t keep, struct chunk **ret_chunk)
{
	scoped(freep) struct chunk *c = NULL;
	struct chunk_plan plan;
	int err;

	mutex_guard(&sp->groups->lock);
	err = chunk_plan_locked(sp, type, keep, &plan);
	if (err == 0)
		err = chunk_from_plan(sp, &plan, &c);
	if (err == 0)
		err = cut_chunk(sp, c);
	if (err < 0)
		return err;
	for (unsigned i = 0; i < c->num_stripes; i++)
		device_space_find(sp->chunks, c->stripes[i].devid)->bytes_used += plan.stripe_bytes;
	*ret_chunk = take(c);
	return 0;
}

static int make_one(struct space *sp, struct txn_handle *tx, uint64_t type, uint64_t keep)
{
	scoped(freep) struct chunk *c = NULL;
	scoped(freep) uint8_t *item = NULL;
	struct group_info info;
	struct key key;
	int err;

	if ((type & BG_SYSTEM) && !sys_array_has_room(sp, chunk_copies(type)))
		return -ENOSPC;
	err = chunk_claim(sp, type, keep, &c);
	if (err < 0)
		return err;
	item = calloc(1, chunk_item_bytes(c->num_stripes));
	if (item == NULL)
		return -ENOMEM;
	chunk_encode(c, item);
	key = key_make(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, c->logical);
	err = volume_add_chunk(sp->vol, &key, item, chunk_item_bytes(c->num_stripes), NULL);
	if (err < 0)
		return err;
	info = (struct group_info){c->logical, c->length, 0, c->type};
	err = group_add(sp, &info, true);
	if (err == 0)
		err = chunk_items_insert(sp, tx, c);
	if (err == 0)
		sp->chunks->made++;
	/* Something changed: not "nothing left", which the caller may take lightly. */
	return err == -ENOSPC ? -EIO : err;
}

static uint64_t profile_for(const struct space *sp, uint64_t type)
{
	if (type & BG_SYSTEM)
		return sp->system_profile;
	return type & BG_METADATA ? sp->metadata_profile : sp->data_profile;
}

/* Metadata for the items of a chunk: device, extent (or block group) and free space tree. */
static bool items_affordable(struct space *sp)
{
	struct group_set *gs = sp->groups;
	uint64_t price;

	mutex_guard(&gs->lock);
	price = 3ull * (sp->reserve->height + 1) * gs->block;
	return pool_blocks_locked(gs, groups_pool(gs, BG_METADATA)) >= price;
}

/* K3. -ENOSPC: not enough system space even for one chunk. */
static int make_system_space(struct space *sp, struct txn_handle *tx)
{
	struct group_set *gs = sp->groups;
	struct pool *pool = groups_pool(gs, BG_SYSTEM);
	uint64_t price = system_price(sp), have;
	int err = groups_load_blocks(sp, BG_SYSTEM, price);

	if (err < 0)
		return err;
	mutex_lock(&gs->lock);
	have = pool_blocks_locked(gs, pool);
	mutex_unlock(&gs->lock);
	if (have >= price)
		return 0;
	if (have < price / 4)
		return -ENOSPC;
	err = make_one(sp, tx, pool->type | profile_for(sp, pool->type), 0);
	return err == -ENOSPC && have >= price / 2 ? 0 : err;
}

int chunk_make(struct space *sp, struct txn_handle *tx, uint64_t use, uint64_t keep,
	       const uint64_t *made)
{
	struct pool *pool = groups_pool(sp->groups, use);
	int err;

	mutex_guard(&sp->chunks->lock);
	if (made != NULL && sp->chunks->made != *made)
		return 0;
	if (fault_point("space.chunk"))
		return -ENOSPC;
	if (!items_affordable(sp))
		return -ENOSPC;
	if (!(use & BG_SYSTEM)) {
		err = make_system_space(sp, tx);
		if (err < 0)
			return err;
	}
	return make_one(sp, tx, pool->type | profile_for(sp, pool->type), keep);
}

int space_alloc_chunk(struct space *sp, struct txn_handle *tx, uint64_t flags)
{
	return chunk_make(sp, tx, flags & BG_TYPE_MASK, 0, NULL);
}

/*
 * The superblock.
 */

void chunks_fill_super(struct space *sp, struct disk_super *super)
{
	size_t size = 0;
	uint64_t logical = 0;

	memset(super->sys_chunk_array, 0, sizeof(super->sys_chunk_array));
	for (;;) {
		scoped(freep) struct chunk *c = NULL;
		const struct group *g;
		bool leaving;
		struct key key;
		size_t bytes;

		if (chunk_map_next(&sp->vol->chunks, logical, &c) < 0)
			break;
		logical = c->logical + c->length;
		if (!(c->type & BG_SYSTEM))
			continue;
		mutex_lock(&sp->groups->lock);
		g = group_find_locked(sp->groups, c->logical);
		leaving = g == NULL || g->leaving;
		mutex_unlock(&sp->groups->lock);
		if (leaving)
			continue;
		bytes = sizeof(struct disk_key) + chunk_item_bytes(c->num_stripes);
		must(size + bytes <= SYS_CHUNK_ARRAY_BYTES);
		key = key_make(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, c->logical);
		key_to_disk(&key, (struct disk_key *)(super->sys_chunk_array + size));
		chunk_encode(c, super->sys_chunk_array + size + sizeof(struct disk_key));
		size += bytes;
	}
	disk_super_set_sys_chunk_array_size(super, (uint32_t)size);
}
