/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/mount.c - opening and closing a filesystem; see fs.h.
 *
 * Order: superblock and system chunks (volume_open), chunk tree, root tree, the other global trees,
 * space, then what stands on them. fs_close() and a failed fs_open() undo in the opposite order
 * through one function, teardown(), to which NULL means "not made yet".
 */
#include "fs/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/commit.h"
#include "fs/extent_cache.h"
#include "fs/ops.h"
#include "fs/quota.h"
#include "fs/root_item.h"
#include "fs/subvol.h"
#include "fs/subvol_drop.h"
#include "fs/txn.h"
#include "io/log.h"
#include "io/reason.h"
#include "io/super.h"
#include "io/util.h"

#define GLOBAL_ROOTS_MAX 8u
#define REBUILD_ITEMS 64u		/* reserved for a rebuilt free space tree */

static int copy_options(struct fs_options *to, const struct fs_options *from)
{
	*to = *from;
	if (from->subvol == NULL)
		return 0;
	to->subvol = strdup(from->subvol);
	return to->subvol ? 0 : -ENOMEM;
}

/* --- taking down --------------------------------------------------------------------------------- */

static void close_trees(struct fs *fs)
{
	for (unsigned i = 0; i < fs->root_count; i++)
		tree_close(fs->roots[i].tree);
	free(fs->roots);
	tree_close(fs->trees.root);
	tree_close(fs->trees.chunk);
}

static void teardown(struct fs *fs)
{
	if (fs == NULL)
		return;
	if (fs->flusher)
		flusher_free(fs);
	if (fs->inodes)
		inode_cache_free(fs);
	if (fs->orphans)
		orphan_set_free(fs);
	extent_cache_free(fs);
	subvol_table_free(fs);
	space_free(fs->space);
	close_trees(fs);
	txn_mgr_free(fs);
	tree_env_free(fs->env);
	volume_close(fs->vol);
	fs_options_done(&fs->opt);
	free(fs);
}

static void teardownp(struct fs **fs)
{
	teardown(*fs);
}

/* --- opening ------------------------------------------------------------------------------------- */

static int refuse_log(const struct fs *fs, struct reason *reason)
{
	if (disk_super_log_root(&fs->super) == 0 || (fs->opt.rdonly && fs->opt.nologreplay))
		return 0;
	return reason_set(reason, -EROFS,
			  "the filesystem has a log tree to replay (it was not unmounted cleanly), which "
			  "cowfs cannot do: mount it once with the kernel, or read the last commit with "
			  "-o ro,nologreplay");
}

static int load_chunks(struct fs *fs, struct reason *reason)
{
	struct key first = key_type_min(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM);
	struct key last = key_type_max(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM);
	scoped(cursor_done) struct cursor c;
	int got;

	cursor_init(&c, fs->trees.chunk, &first, &last);
	while ((got = cursor_next(&c)) > 0) {
		int err = volume_add_chunk(fs->vol, &c.item.key, c.item.data, c.item.size, reason);

		if (err < 0)
			return err;
	}
	if (got < 0)
		reason_set(reason, got, "cannot read the chunk tree: %s", strerror(-got));
	return got;
}

static int open_named_trees(struct fs *fs, struct reason *reason)
{
	struct tree_root chunk = {
		.bytenr = disk_super_chunk_root(&fs->super),
		.generation = disk_super_chunk_root_generation(&fs->super),
		.level = disk_super_chunk_root_level(&fs->super),
	};
	struct tree_root root = {
		.bytenr = disk_super_root(&fs->super),
		.generation = disk_super_generation(&fs->super),
		.level = disk_super_root_level(&fs->super),
	};
	int err = tree_open(fs->env, OBJ_CHUNK_TREE, &chunk, false, 0, &fs->trees.chunk);

	if (err == 0)
		err = load_chunks(fs, reason);
	if (err == 0)
		err = tree_open(fs->env, OBJ_ROOT_TREE, &root, false, 0, &fs->trees.root);
	return err;
}

struct global_root {
	uint64_t id;
	const char *name;
	bool required;
	size_t offset;			/* of the pointer in struct meta_trees; SIZE_MAX: none */
};

static const struct global_root global_roots[] = {
	{ OBJ_EXTENT_TREE, "extent", true, offsetof(struct meta_trees, extent) },
	{ OBJ_DEV_TREE, "device", true, offsetof(struct meta_trees, dev) },
	{ OBJ_CSUM_TREE, "checksum", true, offsetof(struct meta_trees, csum) },
	{ OBJ_FREE_SPACE_TREE, "free space", false, offsetof(struct meta_trees, free_space) },
	{ OBJ_BLOCK_GROUP_TREE, "block group", false, offsetof(struct meta_trees, block_group) },
};

static bool wants_root(const struct fs *fs, const struct global_root *g)
{
	uint64_t ro = disk_super_compat_ro_flags(&fs->super);

	if (g->id == OBJ_FREE_SPACE_TREE)
		return ro & COMPAT_RO_FREE_SPACE_TREE;
	if (g->id == OBJ_BLOCK_GROUP_TREE)
		return ro & COMPAT_RO_BLOCK_GROUP_TREE;
	return true;
}

static int open_global(struct fs *fs, const struct global_root *g, struct reason *reason)
{
	struct root_record *rec = &fs->roots[fs->root_count];
	int err = root_item_find(fs->trees.root, g->id, rec);

	if (err == -ENOENT)
		err = -EUCLEAN;
	if (err == 0)
		err = root_item_open(fs->env, rec, false);
	if (err < 0)
		return reason_set(reason, err, "cannot open the %s tree: %s", g->name, strerror(-err));
	fs->root_count++;
	/* A free space tree that is not valid stays unused until begin_writing() has rebuilt it. */
	if (g->id == OBJ_FREE_SPACE_TREE &&
	    !(disk_super_compat_ro_flags(&fs->super) & COMPAT_RO_FREE_SPACE_TREE_VALID))
		return 0;
	*(struct tree **)(void *)((char *)&fs->trees + g->offset) = rec->tree;
	return 0;
}

static int open_globals(struct fs *fs, struct reason *reason)
{
	static_assert(ARRAY_COUNT(global_roots) <= GLOBAL_ROOTS_MAX, "the records have room");

	fs->roots = calloc(GLOBAL_ROOTS_MAX, sizeof(*fs->roots));
	if (fs->roots == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < ARRAY_COUNT(global_roots); i++) {
		int err = wants_root(fs, &global_roots[i]) ? open_global(fs, &global_roots[i], reason) : 0;

		if (err < 0)
			return err;
	}
	return 0;
}

static enum alloc_policy choose_policy(const struct fs *fs)
{
	switch (fs->opt.policy) {
	case CHOOSE_SSD:
		return POLICY_SSD;
	case CHOOSE_ROTATIONAL:
		return POLICY_ROTATIONAL;
	default:
		return volume_is_rotational(fs->vol) ? POLICY_ROTATIONAL : POLICY_SSD;
	}
}

/* The profile that new chunks of a type get: what the chunks there have. */
static uint64_t profile_of(struct fs *fs, uint64_t type)
{
	uint64_t at = 0;
	uint64_t profile = 0;
	struct chunk *c;

	while (chunk_map_next(&fs->vol->chunks, at, &c) == 0) {
		at = c->logical + c->length;
		if (c->type & type)
			profile = c->type & BG_PROFILE_MASK;
		free(c);
	}
	return profile;
}

static int open_space(struct fs *fs, struct reason *reason)
{
	struct space_args args = {
		.vol = fs->vol,
		.env = fs->env,
		.trees = &fs->trees,
		.hooks = txn_space_hooks(fs),
		.policy = choose_policy(fs),
		.rdonly = fs->opt.rdonly,
		.mixed = disk_super_incompat_flags(&fs->super) & INCOMPAT_MIXED_GROUPS,
		.skinny = disk_super_incompat_flags(&fs->super) & INCOMPAT_SKINNY_METADATA,
		.data_profile = profile_of(fs, BG_DATA),
		.metadata_profile = profile_of(fs, BG_METADATA),
		.system_profile = profile_of(fs, BG_SYSTEM),
	};
	int err = space_new(&args, &fs->space);

	if (err < 0)
		return err;
	if (!fs->opt.rdonly)
		tree_env_set_space(fs->env, &space_tree_ops, fs->space);
	err = space_load(fs->space);
	if (err < 0)
		reason_set(reason, err, "cannot read the block groups: %s", strerror(-err));
	return err;
}

static int find_root_subvol(struct fs *fs, struct reason *reason)
{
	scoped(inode_putp) struct inode *root = NULL;
	int err = 0;

	if (fs->opt.subvol != NULL)
		err = subvol_by_path(fs, fs->opt.subvol, &fs->root_subvol);
	else if (fs->opt.subvolid != 0)
		fs->root_subvol = fs->opt.subvolid;
	else
		err = subvol_default(fs, &fs->root_subvol);
	if (err == 0)
		err = inode_get(fs, fs->root_subvol, INO_ROOT, &root);
	if (err == 0)
		return 0;
	if (fs->opt.subvol != NULL)
		return reason_set(reason, err, "subvol=%s: %s", fs->opt.subvol,
				  err == -ENOENT ? "no such subvolume" :
				  err == -ENOTDIR ? "not a subvolume" : strerror(-err));
	return reason_set(reason, err, "subvolume %llu: %s", (unsigned long long)fs->root_subvol,
			  err == -ENOENT ? "no such subvolume" : strerror(-err));
}

static void take_geometry(struct fs *fs)
{
	uint64_t incompat = disk_super_incompat_flags(&fs->super);

	fs->sectorsize = fs->vol->params.sectorsize;
	fs->leafsize = fs->vol->params.leafsize;
	fs->nodesize = fs->vol->params.nodesize;
	fs->csum_type = (uint16_t)fs->vol->params.csum_type;
	fs->csum_size = (uint32_t)fs->vol->csum_bytes;
	fs->no_holes = incompat & INCOMPAT_NO_HOLES;
	fs->skinny = incompat & INCOMPAT_SKINNY_METADATA;
}

static int open_caches(struct fs *fs)
{
	int err = txn_mgr_new(fs);

	if (err == 0)
		err = subvol_table_new(fs);
	if (err == 0)
		err = inode_cache_new(fs);
	if (err == 0)
		err = orphan_set_new(fs);
	if (err == 0)
		err = extent_cache_new(fs);
	if (err == 0 && !fs->opt.rdonly)
		err = flusher_new(fs);
	return err;
}

static int open_layers(struct fs *fs, struct device *dev, struct reason *reason)
{
	unsigned flags = fs->opt.rdonly ? VOLUME_READ_ONLY : 0;
	struct tree_env_args args;
	int err = volume_open_devices(&dev, 1, flags, &fs->vol, &fs->super, reason);

	if (err < 0)
		return err;
	err = refuse_log(fs, reason);
	if (err < 0)
		return err;
	take_geometry(fs);
	args = (struct tree_env_args){
		.vol = fs->vol,
		.transid = disk_super_generation(&fs->super) + 1,
		.cache_bytes = fs->opt.cache_bytes,
		.rdonly = fs->opt.rdonly,
	};
	err = tree_env_new(&args, &fs->env);
	if (err == 0)
		err = open_named_trees(fs, reason);
	if (err == 0)
		err = open_globals(fs, reason);
	if (err == 0)
		err = open_caches(fs);
	if (err == 0)
		err = open_space(fs, reason);
	if (err == 0)
		err = find_root_subvol(fs, reason);
	return err;
}

/* Makes an invalid free space tree anew; the next commit says that it is valid. */
static int rebuild_free_space(struct fs *fs)
{
	uint64_t ro = disk_super_compat_ro_flags(&fs->super);
	struct txn_handle tx;
	int err;

	if (!(ro & COMPAT_RO_FREE_SPACE_TREE) || (ro & COMPAT_RO_FREE_SPACE_TREE_VALID))
		return 0;
	err = txn_start(fs, &tx, REBUILD_ITEMS, RSV_NORMAL);
	if (err < 0)
		return err;
	for (unsigned i = 0; i < fs->root_count; i++)
		if (fs->roots[i].key.objectid == OBJ_FREE_SPACE_TREE)
			fs->trees.free_space = fs->roots[i].tree;
	err = free_space_tree_rebuild(fs->space, &tx);
	if (err < 0)
		txn_abort(fs, err);
	else
		disk_super_set_compat_ro_flags(&fs->super, ro | COMPAT_RO_FREE_SPACE_TREE_VALID);
	txn_end(fs, &tx);
	return err;
}

/* What a writer owes the filesystem before the first operation. */
static int begin_writing(struct fs *fs, struct reason *reason)
{
	int err = rebuild_free_space(fs);

	if (err == 0)
		err = quota_mark_inconsistent(fs);
	if (err == 0)
		err = fs_clean_orphans(fs);
	if (err < 0)
		reason_set(reason, err, "cannot clean up after the last mount: %s", strerror(-err));
	return err;
}

int fs_open(struct device *dev, const struct fs_options *opt, struct fs **ret_fs,
	    struct reason *reason)
{
	scoped(teardownp) struct fs *fs = calloc(1, sizeof(*fs));
	struct reason dummy;
	int err;

	if (reason == NULL)
		reason = &dummy;
	reason->text[0] = '\0';
	if (fs == NULL) {
		device_close(dev);
		return reason_set(reason, -ENOMEM, "out of memory");
	}
	err = copy_options(&fs->opt, opt);
	if (err < 0) {
		device_close(dev);
		return reason_set(reason, err, "out of memory");
	}
	fs->rdonly = opt->rdonly;
	err = open_layers(fs, dev, reason);
	if (err == 0 && !opt->rdonly)
		err = begin_writing(fs, reason);
	if (err < 0) {
		if (reason->text[0] == '\0')
			reason_set(reason, err, "cannot open the filesystem: %s", strerror(-err));
		return err;
	}
	*ret_fs = take(fs);
	return 0;
}

int fs_start(struct fs *fs)
{
	int err;

	if (fs->opt.rdonly)
		return 0;
	err = flusher_start(fs);
	if (err == 0)
		err = txn_timer_start(fs);
	if (err == 0)
		err = subvol_drop_start(fs);
	return err;
}

/* --- closing ------------------------------------------------------------------------------------- */

static void stop_threads(struct fs *fs)
{
	subvol_drop_stop(fs);
	txn_timer_stop(fs);
	if (fs->flusher)
		flusher_stop(fs);
}

int fs_close(struct fs *fs)
{
	int err = 0;

	if (fs == NULL)
		return 0;
	stop_threads(fs);
	if (!fs->opt.rdonly) {
		err = fs_want_write(fs) < 0 ? -EIO : 0;
		if (err == 0)
			err = txn_sync(fs);
		if (err == 0)
			err = fs_clean_orphans(fs);
		if (err == 0)
			err = txn_commit(fs);
	}
	teardown(fs);
	return err;
}

void fs_crash(struct fs *fs)
{
	if (fs == NULL)
		return;
	stop_threads(fs);
	teardown(fs);
}
