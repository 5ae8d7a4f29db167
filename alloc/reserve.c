/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/reserve.c - promises: how much space may still be used by whom (see reserve.h).
 */
#include "alloc/reserve.h"

#include "alloc/chunk.h"
#include "io/fault.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>

#define PATHS_MAX 8u			/* items with a path of their own */
#define GLOBAL_ITEMS 72u		/* of one large freeing operation */
#define DATA_ITEMS 32u			/* of operations that write back data */
#define ROOT_PATH_BLOCKS 6u		/* of the root tree, in one commit */
#define REF_GROWTH_BYTES 128u		/* new items of one delayed reference, half-filled leaves counted */
#define GROWTH_BLOCKS 3u		/* a split at the end of each tree */
#define COMMITS_MAX 2u			/* before -ENOSPC */
#define ROUNDS_MAX 64u			/* of making chunks, before -ENOSPC */

static struct pool *meta_pool(struct space *sp)
{
	return groups_pool(sp->groups, BG_METADATA);
}

static uint64_t leaf_bytes(const struct space *sp)
{
	return volume_block_bytes(sp->vol, 0);
}

static uint64_t node_bytes(const struct space *sp)
{
	return volume_block_bytes(sp->vol, 1);
}

/*
 * Samples of the trees.
 */

static struct tree *sampled_tree(const struct space *sp, unsigned i)
{
	const struct meta_trees *t = sp->trees;

	switch (i) {
	case 0:
		return t->extent;
	case 1:
		return t->csum;
	case 2:
		return t->free_space;
	default:
		return t->block_group;
	}
}

int reserve_new(struct space *sp, struct reserve **ret_reserve)
{
	struct reserve *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->height = 2;
	r->whole = RESERVE_TREES * (uint64_t)sp->groups->block;
	*ret_reserve = r;
	return 0;
}

void reserve_free(struct reserve *r)
{
	free(r);
}

int reserve_load(struct space *sp)
{
	for (unsigned i = 0; i < RESERVE_TREES; i++) {
		scoped(item_done) struct item it;
		struct tree *t = sampled_tree(sp, i);
		struct key key;
		int err;

		if (t == NULL || sp->trees->root == NULL)
			continue;
		item_init(&it);
		key = key_make(tree_id(t), KEY_ROOT_ITEM, 0);
		err = tree_get(sp->trees->root, &key, &it);
		if (err == -ENOENT)
			continue;
		if (err < 0)
			return err;
		if (it.size < ROOT_ITEM_V1_BYTES)
			return corrupt(OBJ_ROOT_TREE, NO_ADDRESS, NO_SLOT,
				       "root item " KEY_FMT " of %u bytes", KEY_ARGS(&key), it.size);
		sp->reserve->base_bytes[i] =
			disk_root_item_bytes_used((const struct disk_root_item *)it.data);
	}
	reserve_sample(sp);
	return 0;
}

/* The height of a tree of so many bytes whose nodes are half full. */
static unsigned height_of(const struct space *sp, uint64_t bytes)
{
	uint64_t fan = (node_bytes(sp) - sizeof(struct disk_header)) / sizeof(struct disk_key_ptr) / 2;
	uint64_t blocks = div_round_up(bytes, leaf_bytes(sp));
	unsigned height = 1;

	while (blocks > 1 && height < LEVEL_COUNT) {
		blocks = div_round_up(blocks, fan);
		height++;
	}
	return height;
}

void reserve_sample(struct space *sp)
{
	struct reserve *r = sp->reserve;
	uint64_t whole = 0;
	unsigned height = 1;
	struct pool *pool = meta_pool(sp);

	for (unsigned i = 0; i < RESERVE_TREES; i++) {
		struct tree *t = sampled_tree(sp, i);
		uint64_t bytes;

		if (t == NULL)
			continue;
		bytes = r->base_bytes[i] + (uint64_t)tree_bytes_delta(t);
		if (bytes > INT64_MAX || bytes < sp->groups->block)
			bytes = sp->groups->block;
		whole += bytes;
		height = max_u32(height, tree_height(t));
	}
	mutex_guard(&sp->groups->lock);
	r->whole = whole;
	if (!sp->mixed)
		height = max_u32(height, height_of(sp, pool->used + pool->handed));
	r->height = max_u32(height, 2);
}

/*
 * Arithmetic.
 */

static uint64_t item_bytes(const struct space *sp, unsigned items)
{
	uint64_t path = 2 * leaf_bytes(sp) + (sp->reserve->height - 1u) * node_bytes(sp);
	unsigned paths = min_u32(items, PATHS_MAX);

	return paths * path + (items - paths) * (leaf_bytes(sp) / 2) + 2 * node_bytes(sp);
}

uint64_t space_meta_bytes(struct space *sp, unsigned items)
{
	mutex_guard(&sp->groups->lock);
	return item_bytes(sp, items);
}

uint64_t reserve_global_locked(const struct space *sp)
{
	return item_bytes(sp, GLOBAL_ITEMS);
}

/* What the commit needs if `bytes` of blocks are still to be changed before it. */
static uint64_t commit_need(struct space *sp, uint64_t bytes)
{
	uint64_t block = sp->groups->block;
	uint64_t refs = space_pending_refs(sp) + 2 * div_round_up(bytes, leaf_bytes(sp));
	uint64_t touched = min_u64(refs * 2 * (leaf_bytes(sp) + node_bytes(sp)), sp->reserve->whole);
	uint64_t growth = (refs + 2 * (touched / leaf_bytes(sp))) * REF_GROWTH_BYTES;

	return touched + align_up(growth, block) + (GROWTH_BLOCKS + ROOT_PATH_BLOCKS) * block;
}

uint64_t reserve_need_locked(struct space *sp, uint64_t bytes, bool with_global)
{
	uint64_t promised = meta_pool(sp)->meta_reserved + bytes;

	if (with_global)
		promised += reserve_global_locked(sp);
	return promised + commit_need(sp, promised);
}

/* Do blocks of another size, or sectors, share the pool with whole blocks? */
static bool shared_sizes(const struct space *sp)
{
	return leaf_bytes(sp) != node_bytes(sp) ||
	       (sp->mixed && sp->groups->block != sp->groups->unit);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Bytes of metadata that can still be promised, counted before `need`. */
static uint64_t meta_have(struct space *sp)
{
	const struct pool *pool = meta_pool(sp);
	uint64_t have = pool_blocks_locked(sp->groups, pool);

	if (sp->mixed)
		have = min_u64(have, minus(pool_free_locked(pool), pool->data_reserved));
	return shared_sizes(sp) ? minus(have, sp->groups->block) : have;
}

static bool meta_fits(struct space *sp, uint64_t bytes, bool with_global)
{
	return meta_have(sp) >= reserve_need_locked(sp, bytes, with_global);
}

uint64_t reserve_data_floor_locked(struct space *sp)
{
	if (!sp->mixed)
		return 0;
	return reserve_need_locked(sp, item_bytes(sp, DATA_ITEMS), true) + sp->groups->block;
}

static bool data_fits(struct space *sp, uint64_t bytes)
{
	const struct pool *pool = groups_pool(sp->groups, BG_DATA);
	uint64_t have = minus(pool_free_locked(pool), pool->data_reserved);

	return minus(have, reserve_data_floor_locked(sp)) >= bytes;
}

void reserve_pay_block_locked(struct space *sp, struct txn_handle *tx, uint64_t len)
{
	struct pool *pool = meta_pool(sp);
	uint64_t paid = min_u64(tx->rsv_bytes, len);

	tx->rsv_bytes -= paid;
	pool->meta_reserved -= paid;
	if (tx->kind != RSV_COMMIT)
		sp->reserve->overdrawn += len - paid;
}

uint64_t reserve_keep_for_metadata_locked(struct space *sp)
{
	const struct pool *meta = meta_pool(sp), *data = groups_pool(sp->groups, BG_DATA);
	uint64_t spare = minus(meta_have(sp) + meta->unloaded_free,
			       reserve_need_locked(sp, 0, true));
	uint64_t wanted = max_u64(data->total / 256, 32ull * sp->groups->block);

	if (sp->mixed || spare >= wanted)
		return 0;
	return align_up(wanted - spare, STRIPE_LEN_BYTES) *
	       chunk_copies(meta->type | sp->metadata_profile);
}

/*
 * Making room.
 */

/* A chunk for this use, unless somebody made one since `made`. -ENOSPC: the devices are full. */
static int grow(struct space *sp, uint64_t use, uint64_t made)
{
	struct txn_handle tx = {.kind = RSV_COMMIT};
	struct chunk_plan plan;
	uint64_t keep, profile;
	int err;

	if (sp->hooks.join == NULL)
		return -ENOSPC;
	profile = (use & BG_METADATA) || sp->mixed ? sp->metadata_profile : sp->data_profile;
	mutex_lock(&sp->groups->lock);
	keep = use == BG_DATA ? reserve_keep_for_metadata_locked(sp) : 0;
	err = chunk_plan_locked(sp, groups_pool(sp->groups, use)->type | profile, keep, &plan);
	mutex_unlock(&sp->groups->lock);
	if (err < 0)
		return err;
	err = sp->hooks.join(sp->hooks.ctx, &tx);
	if (err < 0)
		return err;
	err = chunk_make(sp, &tx, use, keep, &made);
	if (err < 0 && err != -ENOSPC)
		sp->hooks.abort(sp->hooks.ctx, err);
	sp->hooks.leave(sp->hooks.ctx, &tx);
	return err;
}

int space_grow_data(struct space *sp)
{
	uint64_t made;

	rank_check_none_from(RANK_TXN);
	mutex_lock(&sp->groups->lock);
	made = sp->chunks->made;
	mutex_unlock(&sp->groups->lock);
	return grow(sp, BG_DATA, made);
}

/* Would a commit give space back? */
static bool commit_helps(struct space *sp)
{
	bool pinned;

	if (sp->hooks.commit == NULL)
		return false;
	mutex_lock(&sp->groups->lock);
	pinned = sp->groups->pools[POOL_DATA].pinned + sp->groups->pools[POOL_META].pinned > 0;
	mutex_unlock(&sp->groups->lock);
	return pinned || space_pending_refs(sp) > 0;
}

/* What was tried for one reservation. */
struct attempt {
	unsigned rounds;
	unsigned commits;
	bool no_chunk;
};

/* Makes a chunk; 0: try again. `made` as read together with the failed try. */
static int try_grow(struct space *sp, uint64_t use, uint64_t made, struct attempt *a)
{
	int err;

	if (a->no_chunk || a->rounds++ >= ROUNDS_MAX)
		return -ENOSPC;
	err = grow(sp, use, made);
	a->no_chunk = err == -ENOSPC;
	return err;
}

/* Commits; 0: try again. */
static int try_commit(struct space *sp, struct attempt *a)
{
	if (a->commits++ >= COMMITS_MAX || !commit_helps(sp))
		return -ENOSPC;
	a->no_chunk = false;		/* it may give a chunk back */
	return sp->hooks.commit(sp->hooks.ctx);
}

/*
 * Metadata.
 */

static bool try_meta(struct space *sp, struct txn_handle *tx, uint64_t bytes, bool with_global,
		     uint64_t *ret_made)
{
	mutex_guard(&sp->groups->lock);
	*ret_made = sp->chunks->made;
	if (!meta_fits(sp, bytes, with_global))
		return false;
	meta_pool(sp)->meta_reserved += bytes;
	tx->rsv_bytes += bytes;
	return true;
}

static void take_meta(struct space *sp, struct txn_handle *tx, uint64_t bytes)
{
	mutex_guard(&sp->groups->lock);
	meta_pool(sp)->meta_reserved += bytes;
	tx->rsv_bytes += bytes;
}

/* Loads groups until the promise could be kept, as far as there are any. */
static int load_for(struct space *sp, uint64_t bytes)
{
	uint64_t need;

	mutex_lock(&sp->groups->lock);
	need = meta_pool(sp)->unloaded_count == 0
		       ? 0
		       : reserve_need_locked(sp, bytes, true) + 2ull * sp->groups->block;
	mutex_unlock(&sp->groups->lock);
	return need == 0 ? 0 : groups_load_blocks(sp, BG_METADATA, need);
}

int space_reserve_meta(struct space *sp, struct txn_handle *tx, uint64_t bytes)
{
	struct attempt a = {0};
	uint64_t made;
	int err;

	if (tx->kind == RSV_COMMIT) {
		take_meta(sp, tx, bytes);
		return 0;
	}
	if (fault_point("space.reserve"))
		return -ENOSPC;
	rank_check_none_from(RANK_TXN);
	for (;;) {
		if (try_meta(sp, tx, bytes, true, &made))
			return 0;
		err = load_for(sp, bytes);
		if (err < 0)
			return err;
		reserve_sample(sp);
		if (try_meta(sp, tx, bytes, true, &made))
			return 0;
		err = try_grow(sp, BG_METADATA, made, &a);
		if (err == -ENOSPC) {
			if (tx->kind == RSV_FREEING && try_meta(sp, tx, bytes, false, &made))
				return 0;
			err = try_commit(sp, &a);
		}
		if (err < 0)
			return err;
	}
}

void space_release_meta(struct space *sp, struct txn_handle *tx)
{
	struct pool *pool = meta_pool(sp);

	mutex_guard(&sp->groups->lock);
	must(pool->meta_reserved >= tx->rsv_bytes);
	pool->meta_reserved -= tx->rsv_bytes;
	tx->rsv_bytes = 0;
}

/*
 * Data.
 */

int space_reserve_data(struct space *sp, uint64_t bytes)
{
	struct pool *pool = groups_pool(sp->groups, BG_DATA);
	struct attempt a = {0};
	int err;

	must(is_aligned(bytes, sp->sectorsize));
	if (fault_point("space.reserve_data"))
		return -ENOSPC;
	for (;;) {
		uint64_t made;

		mutex_lock(&sp->groups->lock);
		made = sp->chunks->made;
		if (data_fits(sp, bytes)) {
			pool->data_reserved += bytes;
			mutex_unlock(&sp->groups->lock);
			return 0;
		}
		mutex_unlock(&sp->groups->lock);
		err = try_grow(sp, BG_DATA, made, &a);
		if (err == -ENOSPC)
			err = try_commit(sp, &a);
		if (err < 0)
			return err;
	}
}

void space_release_data(struct space *sp, uint64_t bytes)
{
	struct pool *pool = groups_pool(sp->groups, BG_DATA);

	mutex_guard(&sp->groups->lock);
	must(pool->data_reserved >= bytes);
	pool->data_reserved -= bytes;
}
