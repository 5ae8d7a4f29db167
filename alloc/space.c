/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/space.c - the life of the space layer, and its part in a commit (see space.h).
 *
 * Not here: figures for statfs and people (space_stat.c).
 */
#include "alloc/chunk.h"
#include "alloc/group.h"
#include "alloc/reserve.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>

static int new_parts(struct space *sp)
{
	int err = groups_new(sp, &sp->groups);

	if (err == 0)
		err = chunks_new(sp, &sp->chunks);
	if (err == 0)
		err = reserve_new(sp, &sp->reserve);
	if (err == 0)
		err = refs_new(&sp->refs);
	return err;
}

int space_new(const struct space_args *args, struct space **ret_space)
{
	struct space *sp = calloc(1, sizeof(*sp));
	int err;

	if (sp == NULL)
		return -ENOMEM;
	*sp = (struct space){
		.vol = args->vol,
		.env = args->env,
		.trees = args->trees,
		.hooks = args->hooks,
		.policy = args->policy,
		.rdonly = args->rdonly,
		.discard = args->discard,
		.mixed = args->mixed,
		.skinny = args->skinny,
		.sectorsize = args->vol->params.sectorsize,
		.csum_bytes = (uint32_t)args->vol->csum_bytes,
		.data_profile = args->data_profile & BG_PROFILE_MASK,
		.metadata_profile = args->metadata_profile & BG_PROFILE_MASK,
		.system_profile = args->system_profile & BG_PROFILE_MASK,
	};
	rwlock_init(&sp->fst_lock, RANK_SHARE);
	err = new_parts(sp);
	if (err < 0) {
		space_free(sp);
		return err;
	}
	*ret_space = sp;
	return 0;
}

void space_free(struct space *sp)
{
	if (sp == NULL)
		return;
	refs_free(sp->refs);
	reserve_free(sp->reserve);
	chunks_free(sp->chunks);
	groups_free(sp->groups);
	rwlock_done(&sp->fst_lock);
	free(sp);
}

/*
 * Loading.
 */

static int load_group_item(struct space *sp, const struct chunk *c)
{
	struct tree *t = sp->trees->block_group != NULL ? sp->trees->block_group
							: sp->trees->extent;
	struct key key = key_make(c->logical, KEY_BLOCK_GROUP_ITEM, c->length);
	struct disk_block_group_item item;
	struct group_info info = {.start = c->logical, .len = c->length};
	int err = tree_get_fixed(t, &key, &item, sizeof(item));

	if (err == -ENOENT)
		return corrupt(tree_id(t), NO_ADDRESS, NO_SLOT, "chunk %llu has no block group item",
			       (unsigned long long)c->logical);
	if (err < 0)
		return err;
	info.used = disk_block_group_item_used(&item);
	info.flags = disk_block_group_item_flags(&item);
	if (info.flags != c->type)
		return corrupt(tree_id(t), NO_ADDRESS, NO_SLOT,
			       "block group %llu has flags %#llx, its chunk %#llx",
			       (unsigned long long)c->logical, (unsigned long long)info.flags,
			       (unsigned long long)c->type);
	return group_add(sp, &info, false);
}

static int load_groups(struct space *sp)
{
	uint64_t logical = 0;

	for (;;) {
		scoped(freep) struct chunk *c = NULL;
		int err = chunk_map_next(&sp->vol->chunks, logical, &c);

		if (err == -ENOENT)
			return 0;
		if (err == 0)
			err = load_group_item(sp, c);
		if (err < 0)
			return err;
		logical = c->logical + c->length;
	}
}

/* Groups that whoever commits first must find loaded. */
static int load_first(struct space *sp)
{
	uint64_t need;
	int err;

	mutex_lock(&sp->groups->lock);
	need = reserve_need_locked(sp, 0, true);
	mutex_unlock(&sp->groups->lock);
	err = groups_load_blocks(sp, BG_METADATA, need);
	if (err == 0)
		err = groups_load_blocks(sp, BG_SYSTEM, 4ull * sp->groups->block);
	return err;
}

int space_load(struct space *sp)
{
	int err = load_groups(sp);

	if (err == 0)
		err = chunks_load(sp);
	if (err == 0)
		err = reserve_load(sp);
	if (err == 0 && !sp->rdonly)
		err = load_first(sp);
	return err;
}

/*
 * The commit.
 */

int space_commit_run(struct space *sp, struct txn_handle *tx, bool *ret_more)
{
	bool changed = false, removed = false;
	int err;

	groups_commit_begin(sp->groups);
	reserve_sample(sp);
	err = refs_run(sp, tx, &changed);
	if (err == 0)
		err = chunks_drain_sparse(sp, tx, &removed);
	if (err == 0)
		err = chunks_remove_empty(sp, tx, &removed);
	if (err < 0) {
		groups_commit_end(sp->groups);
		return err;
	}
	*ret_more = changed || removed;
	return 0;
}

int space_commit_freeze(struct space *sp, uint64_t transid)
{
	(void)transid;			/* what it freed was pinned under its number all along */
	chunks_publish_devices(sp);
	groups_rewind_blocks(sp->groups);
	groups_commit_end(sp->groups);
	return 0;
}

int space_commit_done(struct space *sp, uint64_t transid)
{
	groups_unpin(sp, transid, sp->discard);
	return chunks_commit_done(sp, transid);
}

void space_fill_super(struct space *sp, struct disk_super *super)
{
	uint64_t used = 0;

	chunks_publish_devices(sp);
	mutex_lock(&sp->groups->lock);
	for (unsigned i = 0; i < POOL_COUNT; i++)
		used += sp->groups->pools[i].used;
	mutex_unlock(&sp->groups->lock);
	disk_super_set_bytes_used(super, used);
	if (sp->chunks->device_count > 0)
		volume_device_item(sp->vol, disk_dev_item_devid(&super->dev_item), &super->dev_item);
	chunks_fill_super(sp, super);
}
