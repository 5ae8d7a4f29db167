/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/engine.c - real trees and real space on a device in RAM (see engine.h).
 */
#include "tests/unit/engine.h"

#include "io/device_mem.h"

#define MIB (1ULL << 20)
#define SYSTEM_BYTES (4 * MIB)
#define DATA_BYTES (8 * MIB)
#define ITEM_TYPE 33u			/* none that the tree checks */
#define ROUNDS_MAX 64u

static int hook_join(void *ctx, struct txn_handle *tx)
{
	struct engine *e = ctx;

	*tx = (struct txn_handle){.transid = e->transid, .kind = RSV_COMMIT};
	e->joined++;
	return 0;
}

static void hook_leave(void *ctx, struct txn_handle *tx)
{
	struct engine *e = ctx;

	(void)tx;
	e->joined--;
}

static int hook_commit(void *ctx)
{
	return engine_commit(ctx);
}

static int hook_touch(void *ctx, struct txn_handle *tx, uint64_t root, const struct key *key)
{
	struct engine *e = ctx;

	return root == OBJ_FS_TREE ? space_touch(tx, e->items, key) : -ENOENT;
}

static void hook_abort(void *ctx, int err)
{
	(void)ctx;
	ck_abort_msg("a transaction was aborted: %s", strerror(-err));
}

static void new_volume(struct engine *e, const struct engine_args *a)
{
	struct volume_params p = {
		.sectorsize = 4096,
		.leafsize = a->leafsize != 0 ? a->leafsize : 16384,
		.nodesize = a->nodesize != 0 ? a->nodesize : 16384,
		.csum_type = CSUM_CRC32C,
		.mixed = a->mixed,
	};
	struct disk_dev_item item = {0};
	struct device *dev;

	unit_ok(device_mem_open("mem", a->device_bytes, &dev));
	unit_ok(volume_new(&p, &e->vol));
	disk_dev_item_set_devid(&item, 1);
	disk_dev_item_set_total_bytes(&item, a->device_bytes);
	disk_dev_item_set_sector_size(&item, 4096);
	unit_ok(volume_add_device(e->vol, dev, &item));
}

static struct space_args space_args_of(struct engine *e, const struct engine_args *a)
{
	uint64_t meta = a->dup ? BG_DUP : 0;

	return (struct space_args){
		.vol = e->vol,
		.env = e->env,
		.trees = &e->trees,
		.hooks = {
			.join = hook_join,
			.leave = hook_leave,
			.commit = hook_commit,
			.touch = hook_touch,
			.abort = hook_abort,
			.ctx = e,
		},
		.policy = a->policy,
		.mixed = a->mixed,
		.skinny = true,
		.data_profile = a->mixed ? meta : 0,
		.metadata_profile = meta,
		.system_profile = meta,
	};
}

static void boot_chunk(struct engine *e, uint64_t *at, uint64_t flags, uint64_t len)
{
	uint64_t offsets[2] = {*at, *at + len};
	unsigned stripes = chunk_copies(flags);

	unit_ok(space_bootstrap_chunk(e->sp, *at, len, flags, stripes, offsets));
	*at += len * stripes;
}

static void boot_trees(struct engine *e, struct txn_handle *tx, const struct engine_args *a)
{
	struct meta_trees *t = &e->trees;
	struct key keep = key_make(UINT64_MAX, KEY_ORPHAN_ITEM, 0);

	unit_ok(tree_create(e->env, tx, OBJ_CHUNK_TREE, false, &t->chunk));
	unit_ok(tree_create(e->env, tx, OBJ_ROOT_TREE, false, &t->root));
	unit_ok(tree_create(e->env, tx, OBJ_EXTENT_TREE, false, &t->extent));
	unit_ok(tree_create(e->env, tx, OBJ_DEV_TREE, false, &t->dev));
	unit_ok(tree_create(e->env, tx, OBJ_CSUM_TREE, false, &t->csum));
	if (!a->no_fst)
		unit_ok(tree_create(e->env, tx, OBJ_FREE_SPACE_TREE, false, &t->free_space));
	unit_ok(tree_create(e->env, tx, OBJ_FS_TREE, true, &e->items));
	/* These two are never empty on disk. */
	unit_ok(tree_insert(tx, t->root, &keep, NULL, 0));
	unit_ok(tree_insert(tx, e->items, &keep, NULL, 0));
}

void engine_new(struct engine *e, const struct engine_args *a)
{
	uint64_t meta = a->dup ? BG_DUP : 0, at = DEVICE_RESERVED_BYTES;
	uint64_t meta_bytes = a->metadata_bytes != 0 ? a->metadata_bytes : 8 * MIB;
	struct tree_env_args env = {.ops = &space_tree_ops, .transid = 1, .cache_bytes = 64 * MIB};
	struct txn_handle tx = {.transid = 1, .kind = RSV_COMMIT};
	struct space_args args;

	*e = (struct engine){.transid = 1};
	new_volume(e, a);
	env.vol = e->vol;
	unit_ok(tree_env_new(&env, &e->env));
	args = space_args_of(e, a);
	unit_ok(space_new(&args, &e->sp));
	tree_env_set_space(e->env, &space_tree_ops, e->sp);
	boot_chunk(e, &at, BG_SYSTEM | meta, SYSTEM_BYTES);
	boot_chunk(e, &at, BG_METADATA | (a->mixed ? BG_DATA : 0) | meta, meta_bytes);
	if (!a->mixed)
		boot_chunk(e, &at, BG_DATA, DATA_BYTES);
	boot_trees(e, &tx, a);
	unit_ok(space_bootstrap_items(e->sp, &tx));
	unit_ok(engine_commit(e));
}

void engine_free(struct engine *e)
{
	struct meta_trees *t = &e->trees;
	struct tree *all[] = {t->root, t->chunk, t->dev, t->extent, t->csum, t->free_space, e->items};

	for (unsigned i = 0; i < ARRAY_COUNT(all); i++)
		tree_close(all[i]);
	tree_env_free(e->env);
	space_free(e->sp);
	volume_close(e->vol);
}

int engine_start(struct engine *e, struct txn_handle *tx, unsigned items, enum rsv_kind kind)
{
	int err;

	*tx = (struct txn_handle){.kind = kind};
	err = space_reserve_meta(e->sp, tx, space_meta_bytes(e->sp, items));
	tx->transid = e->transid;
	if (err == 0)
		e->joined++;
	return err;
}

void engine_end(struct engine *e, struct txn_handle *tx)
{
	space_release_meta(e->sp, tx);
	e->joined--;
}

int engine_commit(struct engine *e)
{
	struct txn_handle tx = {.transid = e->transid, .kind = RSV_COMMIT};
	struct disk_super super = {0};
	struct frozen *f = NULL;
	bool more = true;

	ck_assert_uint_eq(e->joined, 0);
	for (unsigned i = 0; more; i++) {
		ck_assert_msg(i < ROUNDS_MAX, "the commit does not settle");
		unit_ok(space_commit_run(e->sp, &tx, &more));
	}
	ck_assert_uint_eq(space_pending_refs(e->sp), 0);
	disk_dev_item_set_devid(&super.dev_item, 1);
	space_fill_super(e->sp, &super);
	unit_ok(space_commit_freeze(e->sp, e->transid));
	unit_ok(tree_env_freeze(e->env, e->transid + 1, &f));
	unit_ok(frozen_write(f));
	unit_ok(space_commit_done(e->sp, e->transid));
	frozen_free(f);
	e->transid++;
	e->commits++;
	return 0;
}

void engine_reload(struct engine *e, bool rdonly)
{
	struct space *old = e->sp;
	struct space_args args = {
		.vol = e->vol,
		.env = e->env,
		.trees = &e->trees,
		.hooks = old->hooks,
		.policy = old->policy,
		.mixed = old->mixed,
		.skinny = true,
		.rdonly = rdonly,
		.data_profile = old->data_profile,
		.metadata_profile = old->metadata_profile,
		.system_profile = old->system_profile,
	};

	ck_assert_uint_eq(space_pending_refs(old), 0);
	unit_ok(space_new(&args, &e->sp));
	tree_env_set_space(e->env, &space_tree_ops, e->sp);
	unit_ok(space_load(e->sp));
	space_free(old);
}

/*
 * Changes.
 */

int engine_put(struct engine *e, uint64_t objectid, uint32_t size)
{
	struct key key = key_make(objectid, ITEM_TYPE, 0);
	scoped(freep) uint8_t *data = malloc(size);
	struct txn_handle tx;
	int err = engine_start(e, &tx, 1, RSV_NORMAL);

	if (err < 0)
		return err;
	unit_fill(data, size, objectid);
	unit_ok(tree_put(&tx, e->items, &key, data, size));
	engine_end(e, &tx);
	return 0;
}

int engine_delete(struct engine *e, uint64_t objectid)
{
	struct key key = key_make(objectid, ITEM_TYPE, 0);
	struct txn_handle tx;
	int err = engine_start(e, &tx, 1, RSV_FREEING);

	if (err < 0)
		return err;
	unit_ok(tree_delete(&tx, e->items, &key));
	engine_end(e, &tx);
	return 0;
}

static struct extent_ref data_ref(uint64_t off, uint64_t bytenr, uint64_t len)
{
	return (struct extent_ref){.bytenr = bytenr, .len = len, .root = OBJ_FS_TREE, .objectid = 257,
				   .offset = off, .count = 1, .type = KEY_EXTENT_DATA_REF};
}

int engine_write(struct engine *e, uint64_t off, uint64_t len, uint64_t *ret_bytenr,
		 uint64_t *ret_len)
{
	struct alloc_hint hint = {0};
	struct txn_handle tx;
	struct extent_ref ref;
	uint64_t bytenr, got;
	int err = space_reserve_data(e->sp, len);

	if (err < 0)
		return err;
	err = engine_start(e, &tx, 2, RSV_NORMAL);
	if (err < 0) {
		space_release_data(e->sp, len);
		return err;
	}
	for (uint64_t min = len;; min = align_up(min / 2, 4096)) {
		err = space_alloc_data(e->sp, &hint, min, len, &bytenr, &got);
		if (err == 0)
			break;
		ck_assert_int_eq(err, -ENOSPC);
		ck_assert_msg(min > 4096, "reserved data space is not there");
	}
	ref = data_ref(off, bytenr, got);
	unit_ok(space_add_ref(e->sp, &tx, &ref, true));
	engine_end(e, &tx);
	space_release_data(e->sp, len - got);
	*ret_bytenr = bytenr;
	*ret_len = got;
	return 0;
}

int engine_unwrite(struct engine *e, uint64_t off, uint64_t bytenr, uint64_t len)
{
	struct extent_ref ref = data_ref(off, bytenr, len);
	struct txn_handle tx;
	int err = engine_start(e, &tx, 1, RSV_FREEING);

	if (err < 0)
		return err;
	unit_ok(space_drop_ref(e->sp, &tx, &ref));
	engine_end(e, &tx);
	return 0;
}

/*
 * Checks.
 */

struct range_sum {
	struct free_space set;
};

static int sum_range(void *arg, uint64_t start, uint64_t len)
{
	struct range_sum *sum = arg;

	return free_space_add(&sum->set, start, len);
}

/* The extent tree, the free space tree and memory know the same free ranges. */
static void check_group(struct engine *e, const struct group_info *info)
{
	struct range_sum by_extents, by_tree;
	struct group *g;
	uint64_t pos = info->start, s, end;

	free_space_init(&by_extents.set, info->start, info->len, 4096, 0);
	free_space_init(&by_tree.set, info->start, info->len, 4096, 0);
	unit_ok(extent_tree_scan_free(e->sp, info, sum_range, &by_extents));
	unit_ok(group_scan_free(e->sp, info, sum_range, &by_tree));
	ck_assert_uint_eq(by_extents.set.bytes, info->len - info->used);
	ck_assert_uint_eq(by_tree.set.bytes, by_extents.set.bytes);
	ck_assert_uint_eq(by_tree.set.runs, by_extents.set.runs);
	unit_ok(group_load(e->sp, info->start));
	mutex_guard(&e->sp->groups->lock);
	g = group_find_locked(e->sp->groups, info->start);
	ck_assert_int_eq(g->state, GROUP_LOADED);
	ck_assert_uint_eq(g->handed, 0);
	ck_assert_uint_eq(g->free.bytes + g->excluded, by_tree.set.bytes);
	while (free_space_run(&g->free, pos, &s, &end)) {
		unit_ok(free_space_remove(&by_extents.set, s, end - s));
		pos = end;
	}
	free_space_done(&by_extents.set);
	free_space_done(&by_tree.set);
}

/* Items of the chunk and the device tree against the chunk map; bytes of dev extents. */
static void check_chunks(struct engine *e)
{
	struct device_space *d = &e->sp->chunks->devices[0];
	struct key dev_key = key_make(OBJ_DEV_ITEMS, KEY_DEV_ITEM, 1);
	uint64_t logical = 0, bytes = 0, chunks = 0, extents = 0;
	struct key first = key_make(1, KEY_DEV_EXTENT, 0), last = key_make(1, KEY_DEV_EXTENT, UINT64_MAX);
	struct disk_dev_item item;
	struct chunk *c;
	struct cursor cur;

	while (chunk_map_next(&e->vol->chunks, logical, &c) == 0) {
		struct key key = key_make(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, c->logical);
		uint8_t want[256], got[256];

		memset(want, 0, sizeof(want));
		chunk_encode(c, want);
		unit_ok(tree_get_fixed(e->trees.chunk, &key, got,
				       (uint32_t)chunk_item_bytes(c->num_stripes)));
		ck_assert_int_eq(memcmp(want, got, chunk_item_bytes(c->num_stripes)), 0);
		for (unsigned i = 0; i < c->num_stripes; i++) {
			struct disk_dev_extent de;
			struct key dk = key_make(1, KEY_DEV_EXTENT, c->stripes[i].physical);

			unit_ok(tree_get_fixed(e->trees.dev, &dk, &de, sizeof(de)));
			ck_assert_uint_eq(disk_dev_extent_length(&de), chunk_stripe_bytes(c));
			ck_assert_uint_eq(disk_dev_extent_chunk_offset(&de), c->logical);
			ck_assert_uint_ge(c->stripes[i].physical, DEVICE_RESERVED_BYTES);
			bytes += chunk_stripe_bytes(c);
			chunks++;
		}
		logical = c->logical + c->length;
		free(c);
	}
	cursor_init(&cur, e->trees.dev, &first, &last);
	while (cursor_next(&cur) == 1)
		extents++;
	cursor_done(&cur);
	ck_assert_uint_eq(chunks, extents);
	unit_ok(tree_get_fixed(e->trees.chunk, &dev_key, &item, sizeof(item)));
	ck_assert_uint_eq(disk_dev_item_bytes_used(&item), bytes);
	ck_assert_uint_eq(d->bytes_used, bytes);
	ck_assert_uint_eq(d->holes.bytes, align_down(d->total_bytes, 4096) - DEVICE_RESERVED_BYTES - bytes);
}

void engine_check(struct engine *e)
{
	struct group_info info = {0};

	ck_assert_uint_eq(space_pending_refs(e->sp), 0);
	while (group_next(e->sp, info.start + info.len, &info) == 0) {
		struct key key = key_make(info.start, KEY_BLOCK_GROUP_ITEM, info.len);
		struct disk_block_group_item item;

		unit_ok(tree_get_fixed(e->trees.extent, &key, &item, sizeof(item)));
		ck_assert_uint_eq(disk_block_group_item_used(&item), info.used);
		ck_assert_uint_eq(disk_block_group_item_flags(&item), info.flags);
		check_group(e, &info);
	}
	check_chunks(e);
	mutex_guard(&e->sp->groups->lock);
	ck_assert(groups_consistent_locked(e->sp->groups));
}
