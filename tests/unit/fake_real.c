/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_real.c - the real trees on a device in memory (see fake_space.h).
 *
 * A commit writes the frozen nodes and opens all trees anew in an empty cache, so that what is looked
 * at afterwards comes from the device.
 */
#include <check.h>
#include <string.h>

#include "io/device_mem.h"
#include "io/format.h"
#include "io/util.h"
#include "tests/unit/fake_space.h"

#define DEVICE_BYTES (1ULL << 30)
#define PHYSICAL_BASE (2ULL << 20)

static void add_chunks(struct volume *vol)
{
	uint8_t bytes[sizeof(struct disk_chunk) + sizeof(struct disk_stripe)];
	struct reason reason;

	for (unsigned g = 0; g < FAKE_GROUPS; g++) {
		struct key key = key_make(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM,
					  FAKE_BASE + g * FAKE_GROUP_BYTES);
		struct disk_chunk *chunk = (void *)bytes;
		struct disk_stripe *stripe = (void *)(chunk + 1);

		memset(bytes, 0, sizeof(bytes));
		disk_chunk_set_length(chunk, FAKE_GROUP_BYTES);
		disk_chunk_set_owner(chunk, OBJ_EXTENT_TREE);
		disk_chunk_set_stripe_len(chunk, STRIPE_LEN_BYTES);
		disk_chunk_set_type(chunk, BG_DATA | BG_METADATA);
		disk_chunk_set_io_align(chunk, STRIPE_LEN_BYTES);
		disk_chunk_set_io_width(chunk, STRIPE_LEN_BYTES);
		disk_chunk_set_sector_size(chunk, FAKE_SECTOR);
		disk_chunk_set_num_stripes(chunk, 1);
		disk_chunk_set_sub_stripes(chunk, 1);
		disk_stripe_set_devid(stripe, 1);
		disk_stripe_set_offset(stripe, PHYSICAL_BASE + g * FAKE_GROUP_BYTES);
		ck_assert_msg(volume_add_chunk(vol, &key, bytes, sizeof(bytes), &reason) == 0, "%s",
			      reason.text);
	}
}

static void add_device(struct volume *vol)
{
	struct disk_dev_item item;
	struct device *dev;

	memset(&item, 0, sizeof(item));
	disk_dev_item_set_devid(&item, 1);
	disk_dev_item_set_total_bytes(&item, DEVICE_BYTES);
	disk_dev_item_set_sector_size(&item, FAKE_SECTOR);
	ck_assert_int_eq(device_mem_open("test", DEVICE_BYTES, &dev), 0);
	ck_assert_int_eq(volume_add_device(vol, dev, &item), 0);
}

static void open_env(struct fake_fs *fs)
{
	struct tree_env_args args = {.vol = fs->sp.vol, .ops = &space_tree_ops, .space = &fs->sp,
				     .transid = fs->tx.transid, .cache_bytes = 1 << 20};

	ck_assert_int_eq(tree_env_new(&args, &fs->sp.env), 0);
}

void fake_trees_open(struct fake_fs *fs, bool fst)
{
	struct volume_params params = {.sectorsize = FAKE_SECTOR, .leafsize = FAKE_LEAF,
				       .nodesize = FAKE_LEAF, .mixed = true};

	ck_assert_int_eq(volume_new(&params, &fs->sp.vol), 0);
	add_device(fs->sp.vol);
	add_chunks(fs->sp.vol);
	open_env(fs);
	ck_assert_int_eq(tree_create(fs->sp.env, &fs->tx, OBJ_EXTENT_TREE, false,
				     &fs->trees.extent), 0);
	ck_assert_int_eq(tree_create(fs->sp.env, &fs->tx, OBJ_CSUM_TREE, false, &fs->trees.csum), 0);
	if (fst)
		ck_assert_int_eq(tree_create(fs->sp.env, &fs->tx, OBJ_FREE_SPACE_TREE, false,
					     &fs->trees.free_space), 0);
}

static void close_tree(struct tree **t, struct tree_root *ret_root)
{
	if (*t == NULL)
		return;
	*ret_root = tree_root(*t);
	tree_close(*t);
}

static void reopen_tree(struct fake_fs *fs, struct tree **t, uint64_t id,
			const struct tree_root *root)
{
	if (*t != NULL)
		ck_assert_int_eq(tree_open(fs->sp.env, id, root, false, 0, t), 0);
}

void fake_trees_commit(struct fake_fs *fs)
{
	struct tree_root extent, csum, free_space;
	struct frozen *frozen;

	ck_assert_int_eq(tree_env_freeze(fs->sp.env, fs->tx.transid + 1, &frozen), 0);
	ck_assert_int_eq(frozen_write(frozen), 0);
	frozen_free(frozen);
	close_tree(&fs->trees.extent, &extent);
	close_tree(&fs->trees.csum, &csum);
	close_tree(&fs->trees.free_space, &free_space);
	tree_env_free(fs->sp.env);
	fs->tx.transid++;
	open_env(fs);
	reopen_tree(fs, &fs->trees.extent, OBJ_EXTENT_TREE, &extent);
	reopen_tree(fs, &fs->trees.csum, OBJ_CSUM_TREE, &csum);
	reopen_tree(fs, &fs->trees.free_space, OBJ_FREE_SPACE_TREE, &free_space);
}

void fake_trees_close(struct fake_fs *fs)
{
	struct tree_root root;

	close_tree(&fs->trees.extent, &root);
	close_tree(&fs->trees.csum, &root);
	close_tree(&fs->trees.free_space, &root);
	tree_env_free(fs->sp.env);
	volume_close(fs->sp.vol);
}
