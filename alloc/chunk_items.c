/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/chunk_items.c - a chunk's items in the trees, and what mkfs does before there are any.
 *
 * Chunk tree: CHUNK_ITEM, and the device items' bytes_used. Device tree: one DEV_EXTENT a stripe. The
 * block group item and the group's free space lie in trees of their own (block_group_item.c,
 * free_space_tree.c). All come and go together (K2).
 *
 * Locking: inside a transaction, no tree lock held; chunk_set.lock held (mkfs: one thread).
 */
#include "alloc/chunk.h"

#include "alloc/group.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>

static struct key chunk_key(const struct chunk *c)
{
	return key_make(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, c->logical);
}

static struct key dev_extent_key(const struct chunk_stripe *s)
{
	return key_make(s->devid, KEY_DEV_EXTENT, s->physical);
}

static int set_bytes_used(void *data, uint32_t size, void *arg)
{
	if (size != sizeof(struct disk_dev_item))
		return corrupt(OBJ_CHUNK_TREE, NO_ADDRESS, NO_SLOT, "device item of %u bytes", size);
	disk_dev_item_set_bytes_used(data, *(const uint64_t *)arg);
	return 0;
}

int device_items_update(struct space *sp, struct txn_handle *tx, const struct chunk *c)
{
	for (unsigned i = 0; i < c->num_stripes; i++) {
		const struct device_space *d = device_space_find(sp->chunks, c->stripes[i].devid);
		struct key key = key_make(OBJ_DEV_ITEMS, KEY_DEV_ITEM, d->devid);
		uint64_t used = d->bytes_used;
		int err;

		if (i > 0 && c->stripes[i - 1].devid == d->devid)
			continue;
		err = tree_edit(tx, sp->trees->chunk, &key, set_bytes_used, &used);
		if (err == -ENOENT)
			return corrupt(OBJ_CHUNK_TREE, NO_ADDRESS, NO_SLOT,
				       "no device item of device %llu", (unsigned long long)d->devid);
		if (err < 0)
			return err;
	}
	return 0;
}

static int insert_dev_extents(struct space *sp, struct txn_handle *tx, const struct chunk *c)
{
	for (unsigned i = 0; i < c->num_stripes; i++) {
		struct key key = dev_extent_key(&c->stripes[i]);
		struct disk_dev_extent de = {0};
		int err;

		disk_dev_extent_set_chunk_tree(&de, OBJ_CHUNK_TREE);
		disk_dev_extent_set_chunk_objectid(&de, OBJ_FIRST_CHUNK_TREE);
		disk_dev_extent_set_chunk_offset(&de, c->logical);
		disk_dev_extent_set_length(&de, chunk_stripe_bytes(c));
		memcpy(de.chunk_tree_uuid, tree_env_chunk_uuid(sp->env), UUID_BYTES);
		err = tree_insert(tx, sp->trees->dev, &key, &de, sizeof(de));
		if (err < 0)
			return err;
	}
	return 0;
}

int chunk_items_insert(struct space *sp, struct txn_handle *tx, const struct chunk *c)
{
	struct group_info info = {c->logical, c->length, 0, c->type};
	size_t bytes = chunk_item_bytes(c->num_stripes);
	scoped(freep) uint8_t *item = calloc(1, bytes);
	struct key key = chunk_key(c);
	int err;

	if (item == NULL)
		return -ENOMEM;
	chunk_encode(c, item);
	err = tree_insert(tx, sp->trees->chunk, &key, item, (uint32_t)bytes);
	if (err == 0)
		err = device_items_update(sp, tx, c);
	if (err == 0)
		err = insert_dev_extents(sp, tx, c);
	if (err == 0)
		err = block_group_item_insert(sp, tx, &info);
	if (err == 0)
		err = free_space_tree_add_group(sp, tx, &info);
	return err;
}

int chunk_items_delete(struct space *sp, struct txn_handle *tx, const struct chunk *c)
{
	struct group_info info = {c->logical, c->length, 0, c->type};
	struct key key = chunk_key(c);
	int err = free_space_tree_remove_group(sp, tx, &info);

	if (err == 0)
		err = block_group_item_delete(sp, tx, &info);
	for (unsigned i = 0; err == 0 && i < c->num_stripes; i++) {
		struct key ext = dev_extent_key(&c->stripes[i]);

		err = tree_delete(tx, sp->trees->dev, &ext);
	}
	if (err == 0)
		err = tree_delete(tx, sp->trees->chunk, &key);
	if (err == 0)
		err = device_items_update(sp, tx, c);
	return err;
}

/*
 * mkfs.
 */

static int boot_cut_holes(struct space *sp, const struct chunk *c)
{
	mutex_guard(&sp->groups->lock);
	for (unsigned i = 0; i < c->num_stripes; i++) {
		struct device_space *d = device_space_find(sp->chunks, c->stripes[i].devid);
		int err = free_space_remove(&d->holes, c->stripes[i].physical,
					    chunk_stripe_bytes(c));

		if (err < 0)
			return err == -ENOENT ? -EINVAL : err;
		d->bytes_used += chunk_stripe_bytes(c);
	}
	return 0;
}

int space_bootstrap_chunk(struct space *sp, uint64_t logical, uint64_t len, uint64_t flags,
			  unsigned stripes, const uint64_t *dev_offsets)
{
	const struct device_space *d = &sp->chunks->devices[0];
	size_t bytes = chunk_item_bytes(stripes);
	scoped(freep) uint8_t *item = calloc(1, bytes);
	scoped(freep) struct chunk *c = calloc(1, sizeof(*c) + stripes * sizeof(c->stripes[0]));
	struct group_info info = {logical, len, 0, flags};
	struct key key;
	int err;

	if (c == NULL || item == NULL)
		return -ENOMEM;
	*c = (struct chunk){
		.logical = logical,
		.length = len,
		.type = flags,
		.owner = OBJ_EXTENT_TREE,
		.io_align = STRIPE_LEN_BYTES,
		.io_width = STRIPE_LEN_BYTES,
		.sector_size = sp->sectorsize,
		.num_stripes = (uint16_t)stripes,
		.sub_stripes = 1,
	};
	for (unsigned i = 0; i < stripes; i++) {
		c->stripes[i].devid = d->devid;
		c->stripes[i].physical = dev_offsets[i];
		memcpy(c->stripes[i].dev_uuid, d->uuid, UUID_BYTES);
	}
	chunk_encode(c, item);
	key = chunk_key(c);
	err = volume_add_chunk(sp->vol, &key, item, bytes, NULL);
	if (err == 0)
		err = boot_cut_holes(sp, c);
	if (err == 0)
		err = group_add(sp, &info, true);
	if (err == 0)
		chunks_publish_devices(sp);
	return err;
}

static int boot_insert_devices(struct space *sp, struct txn_handle *tx)
{
	for (unsigned i = 0; i < sp->chunks->device_count; i++) {
		struct key key = key_make(OBJ_DEV_ITEMS, KEY_DEV_ITEM, sp->chunks->devices[i].devid);
		struct disk_dev_item item;
		int err = volume_device_item(sp->vol, sp->chunks->devices[i].devid, &item);

		if (err == 0)
			err = tree_put(tx, sp->trees->chunk, &key, &item, sizeof(item));
		if (err < 0)
			return err;
	}
	return 0;
}

int space_bootstrap_items(struct space *sp, struct txn_handle *tx)
{
	uint64_t logical = 0;
	int err = boot_insert_devices(sp, tx);

	while (err == 0) {
		scoped(freep) struct chunk *c = NULL;

		err = chunk_map_next(&sp->vol->chunks, logical, &c);
		if (err == -ENOENT)
			return 0;
		if (err < 0)
			return err;
		logical = c->logical + c->length;
		err = chunk_items_insert(sp, tx, c);
	}
	return err;
}
