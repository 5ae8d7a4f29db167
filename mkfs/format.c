/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/format.c - from an open device to a filesystem on it; see mkfs.h.
 *
 * A struct fs without inodes is put together by hand, its trees are made (trees.c), and the commit
 * that the daemon uses does the rest: extents of the tree blocks, root items, nodes, superblocks.
 */
#include "mkfs/mkfs.h"

#include "fs/commit.h"
#include "fs/root_item.h"
#include "fs/subvol.h"
#include "io/csum.h"
#include "io/util.h"
#include "mkfs/borrow.h"
#include "mkfs/trees.h"

#include <errno.h>
#include <string.h>
#include <uuid/uuid.h>

#define FIRST_TRANSID 1u
#define DEVID 1u
#define CACHE_BYTES (16u << 20)
#define WIPE_BYTES (1u << 20)		/* at both ends of the device */

/* --- what was there before ----------------------------------------------------------------------- */

/* Zeroes, written only where something else is: holes of an image file stay holes. */
static int wipe(struct device *dev, uint64_t offset, uint64_t len)
{
	static const uint8_t zeroes[SUPER_BYTES];
	uint8_t buf[SUPER_BYTES];
	uint64_t end = min_u64(offset + len, device_size(dev));

	for (; offset < end; offset += sizeof(buf)) {
		size_t n = (size_t)min_u64(sizeof(buf), end - offset);
		int err = device_pread(dev, offset, buf, n);

		/* What cannot be read may still be there: write in any case. */
		if (err == 0 && memcmp(buf, zeroes, n) == 0)
			continue;
		err = device_pwrite(dev, offset, zeroes, n);
		if (err < 0)
			return err;
	}
	return 0;
}

/*
 * Old superblocks of btrfs first, then both ends of the device, where everybody else has his. What
 * lies behind byte_count is not ours, but for btrfs superblocks, which would still be found.
 */
static int wipe_device(struct device *dev, const struct mkfs_options *o)
{
	uint64_t size = device_size(dev);
	int err = 0;

	if (o->discard) {
		err = device_discard(dev, 0, o->byte_count != 0 ? o->byte_count : size);
		if (err == -EOPNOTSUPP)
			err = 0;
	}
	for (unsigned i = 0; err == 0 && i < SUPER_MIRROR_COUNT; i++)
		err = wipe(dev, super_offset(i), SUPER_BYTES);
	if (err == 0)
		err = wipe(dev, 0, WIPE_BYTES);
	if (err == 0 && o->byte_count == 0)
		err = wipe(dev, align_down(size - WIPE_BYTES, SUPER_BYTES), 2 * WIPE_BYTES);
	if (err == 0)
		err = device_flush(dev);
	return err;
}

/* --- the parts ----------------------------------------------------------------------------------- */

/* mkfs is alone: there is one transaction, and nothing can be gained by committing it early. */
static int hook_join(void *ctx, struct txn_handle *tx)
{
	(void)ctx;
	*tx = (struct txn_handle){ .transid = FIRST_TRANSID, .kind = RSV_COMMIT };
	return 0;
}

static void hook_leave(void *ctx, struct txn_handle *tx)
{
	(void)ctx;
	(void)tx;
}

static int hook_commit(void *ctx)
{
	(void)ctx;
	return -ENOSPC;
}

static void hook_abort(void *ctx, int err)
{
	(void)ctx;
	(void)err;
}

static void destroy(struct fs *fs)
{
	if (fs == NULL)
		return;
	subvol_table_free(fs);
	space_free(fs->space);
	for (unsigned i = 0; i < fs->root_count; i++)
		tree_close(fs->roots[i].tree);
	free(fs->roots);
	tree_close(fs->trees.root);
	tree_close(fs->trees.chunk);
	tree_env_free(fs->env);
	volume_close(fs->vol);
	free(fs);
}

static void destroyp(struct fs **fs)
{
	destroy(*fs);
}

static uint64_t incompat_flags(const struct mkfs_options *o)
{
	uint64_t flags = INCOMPAT_MIXED_BACKREF | INCOMPAT_EXTENDED_IREF | INCOMPAT_SKINNY_METADATA;

	if (o->features & MKFS_NO_HOLES)
		flags |= INCOMPAT_NO_HOLES;
	if (o->mixed)
		flags |= INCOMPAT_MIXED_GROUPS;
	if (max_u32(o->leafsize, o->nodesize) > NODESIZE_MIN)
		flags |= INCOMPAT_BIG_METADATA;
	if (o->leafsize != o->nodesize)
		flags |= INCOMPAT_COWFS_LEAFSIZE;
	return flags;
}

/* All that does not change with the first commit. */
static void fill_super(struct disk_super *s, const struct mkfs_options *o, uint64_t total_bytes,
		       const struct disk_dev_item *item)
{
	uint64_t compat_ro = 0;

	memcpy(s->fsid, item->fsid, UUID_BYTES);
	disk_super_set_flags(s, HEADER_WRITTEN);
	disk_super_set_magic(s, SUPER_MAGIC);
	disk_super_set_total_bytes(s, total_bytes);
	disk_super_set_root_dir_objectid(s, OBJ_ROOT_TREE_DIR);
	disk_super_set_num_devices(s, 1);
	disk_super_set_sectorsize(s, o->sectorsize);
	disk_super_set_nodesize(s, o->nodesize);
	disk_super_set_leafsize(s, o->leafsize);
	disk_super_set_stripesize(s, o->sectorsize);
	disk_super_set_incompat_flags(s, incompat_flags(o));
	disk_super_set_csum_type(s, (uint16_t)o->csum_type);
	s->dev_item = *item;
	memcpy(s->label, o->label, sizeof(s->label));
	if (o->features & MKFS_FREE_SPACE_TREE)
		compat_ro |= COMPAT_RO_FREE_SPACE_TREE | COMPAT_RO_FREE_SPACE_TREE_VALID;
	/* cache_generation stays 0: without the tree there is no v1 cache either, which is on its way out. */
	if (o->features & MKFS_BLOCK_GROUP_TREE)
		compat_ro |= COMPAT_RO_BLOCK_GROUP_TREE;
	disk_super_set_compat_ro_flags(s, compat_ro);
}

static void fill_dev_item(struct disk_dev_item *item, const struct mkfs_options *o,
			  uint64_t total_bytes, const uint8_t *fsid)
{
	disk_dev_item_set_devid(item, DEVID);
	disk_dev_item_set_total_bytes(item, total_bytes);
	disk_dev_item_set_io_align(item, o->sectorsize);
	disk_dev_item_set_io_width(item, o->sectorsize);
	disk_dev_item_set_sector_size(item, o->sectorsize);
	uuid_generate(item->uuid);
	memcpy(item->fsid, fsid, UUID_BYTES);
}

static int open_volume(struct fs *fs, struct device *dev, const struct mkfs_options *o,
		       const struct disk_dev_item *item)
{
	struct volume_params params = {
		.sectorsize = o->sectorsize,
		.leafsize = o->leafsize,
		.nodesize = o->nodesize,
		.csum_type = o->csum_type,
		.mixed = o->mixed,
	};
	struct device *borrowed;
	int err;

	memcpy(params.fsid, item->fsid, UUID_BYTES);
	memcpy(params.metadata_uuid, item->fsid, UUID_BYTES);
	err = volume_new(&params, &fs->vol);
	if (err == 0)
		err = device_borrow(dev, &borrowed);
	if (err < 0)
		return err;
	err = volume_add_device(fs->vol, borrowed, item);
	if (err < 0)
		device_close(borrowed);
	return err;
}

static int open_space(struct fs *fs, const struct mkfs_options *o, const struct mkfs_layout *l)
{
	struct tree_env_args env = {
		.vol = fs->vol,
		.transid = FIRST_TRANSID,
		.cache_bytes = CACHE_BYTES,
	};
	struct space_args args = {
		.vol = fs->vol,
		.trees = &fs->trees,
		.hooks = { hook_join, hook_leave, hook_commit, hook_abort, NULL },
		.policy = POLICY_SSD,
		.mixed = o->mixed,
		.skinny = true,
		.data_profile = o->data_profile,
		.metadata_profile = o->metadata_profile,
		.system_profile = o->metadata_profile,
	};
	uint8_t chunk_uuid[UUID_BYTES];
	int err = tree_env_new(&env, &fs->env);

	if (err < 0)
		return err;
	uuid_generate(chunk_uuid);
	tree_env_set_chunk_uuid(fs->env, chunk_uuid);
	args.env = fs->env;
	err = space_new(&args, &fs->space);
	if (err < 0)
		return err;
	tree_env_set_space(fs->env, &space_tree_ops, fs->space);
	for (unsigned i = 0; err == 0 && i < l->count; i++) {
		const struct mkfs_chunk *c = &l->chunks[i];

		err = space_bootstrap_chunk(fs->space, c->logical, c->length, c->type, c->stripes,
					    c->physical);
	}
	return err;
}

/* --- all of it ----------------------------------------------------------------------------------- */

static int build(struct fs *fs, const struct mkfs_options *o)
{
	struct txn_handle tx = { .transid = FIRST_TRANSID, .kind = RSV_COMMIT };
	struct commit commit;
	int err = mkfs_make_trees(fs, &tx, o);

	if (err == 0)
		err = commit_prepare(fs, FIRST_TRANSID, &commit);
	if (err == 0)
		err = commit_write(fs, &commit);
	return err;
}

static int make(struct device *dev, const struct mkfs_options *o, const struct mkfs_layout *l)
{
	scoped(destroyp) struct fs *fs = calloc(1, sizeof(*fs));
	struct disk_dev_item item = {0};
	uint8_t fsid[UUID_BYTES];
	int err;

	if (fs == NULL)
		return -ENOMEM;
	fs->roots = calloc(MKFS_ROOTS_MAX, sizeof(*fs->roots));
	if (fs->roots == NULL)
		return -ENOMEM;
	memcpy(fsid, o->fsid, UUID_BYTES);
	if (uuid_is_null(fsid))
		uuid_generate(fsid);
	fill_dev_item(&item, o, l->total_bytes, fsid);
	fill_super(&fs->super, o, l->total_bytes, &item);
	fs->sectorsize = o->sectorsize;
	fs->leafsize = o->leafsize;
	fs->nodesize = o->nodesize;
	err = subvol_table_new(fs);
	if (err == 0)
		err = open_volume(fs, dev, o, &item);
	if (err == 0)
		err = open_space(fs, o, l);
	if (err == 0)
		err = build(fs, o);
	return err;
}

int mkfs_format(struct device *dev, const struct mkfs_options *o, struct reason *reason)
{
	struct mkfs_layout layout;
	int err = mkfs_options_check(o, reason);

	if (err == 0)
		err = mkfs_layout(o, device_size(dev), &layout, reason);
	if (err < 0)
		return err;
	err = wipe_device(dev, o);
	if (err < 0)
		return reason_set(reason, err, "cannot wipe what was there: %s", strerror(-err));
	err = make(dev, o, &layout);
	if (err < 0)
		return reason_set(reason, err, "cannot write the filesystem: %s", strerror(-err));
	return 0;
}
