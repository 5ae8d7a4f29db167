/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/root_item.c - root items; see root_item.h.
 */
#include "fs/root_item.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "io/log.h"
#include "io/util.h"

int root_item_find(struct tree *root_tree, uint64_t id, struct root_record *ret_rec)
{
	struct key key = key_type_max(id, KEY_ROOT_ITEM);
	struct root_record rec = {0};
	scoped(item_done) struct item it;
	int err;

	item_init(&it);
	err = tree_seek(root_tree, &key, SEEK_ITEM_LE, &it);
	if (err < 0)
		return err;
	if (it.key.objectid != id || it.key.type != KEY_ROOT_ITEM)
		return -ENOENT;
	if (it.size != sizeof(rec.item) && it.size != ROOT_ITEM_V1_BYTES)
		return corrupt(OBJ_ROOT_TREE, NO_ADDRESS, NO_SLOT, "root item of tree %llu has %u bytes",
			       (unsigned long long)id, it.size);
	memcpy(&rec.item, it.data, it.size);
	/* A kernel that knew only the first part may have changed it: then the rest is stale. */
	if (disk_root_item_generation_v2(&rec.item) != disk_root_item_generation(&rec.item))
		memset((uint8_t *)&rec.item + ROOT_ITEM_V1_BYTES, 0,
		       sizeof(rec.item) - ROOT_ITEM_V1_BYTES);
	rec.key = it.key;
	rec.base_bytes = disk_root_item_bytes_used(&rec.item);
	*ret_rec = rec;
	return 0;
}

int root_item_open(struct tree_env *env, struct root_record *rec, bool shareable)
{
	struct tree_root root = {
		.bytenr = disk_root_item_bytenr(&rec->item),
		.generation = disk_root_item_generation(&rec->item),
		.level = disk_root_item_level(&rec->item),
	};

	if (root.level >= LEVEL_COUNT)
		return corrupt(OBJ_ROOT_TREE, NO_ADDRESS, NO_SLOT, "root item of tree %llu has level %u",
			       (unsigned long long)rec->key.objectid, root.level);
	return tree_open(env, rec->key.objectid, &root, shareable,
			 disk_root_item_last_snapshot(&rec->item), &rec->tree);
}

static void stamp_change(struct disk_root_item *item, uint64_t transid)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	disk_root_item_set_ctransid(item, transid);
	disk_timespec_set_sec(&item->ctime, (uint64_t)now.tv_sec);
	disk_timespec_set_nsec(&item->ctime, (uint32_t)now.tv_nsec);
}

int root_item_store(struct tree *root_tree, struct txn_handle *tx, struct root_record *rec,
		    bool stamp, bool *ret_more)
{
	struct tree_root root = tree_root(rec->tree);
	uint64_t bytes = rec->base_bytes + (uint64_t)tree_bytes_delta(rec->tree);
	struct disk_root_item item = rec->item;
	int err;

	if (root.bytenr == disk_root_item_bytenr(&item) &&
	    root.generation == disk_root_item_generation(&item) &&
	    bytes == disk_root_item_bytes_used(&item))
		return 0;
	disk_root_item_set_bytenr(&item, root.bytenr);
	disk_root_item_set_generation(&item, root.generation);
	disk_root_item_set_generation_v2(&item, root.generation);
	disk_root_item_set_level(&item, root.level);
	disk_root_item_set_bytes_used(&item, bytes);
	if (stamp)
		stamp_change(&item, tx->transid);
	err = tree_replace(tx, root_tree, &rec->key, &item, sizeof(item));
	if (err < 0)
		return err;
	rec->item = item;
	*ret_more = true;
	return 0;
}
