/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/commit.c - from dirty trees to a superblock that names them; see commit.h.
 *
 * The fixed point: running delayed references changes the extent, free space and checksum trees;
 * their new roots change the root tree; each of these COWs makes new delayed references. It ends
 * because a block is COWed once in a transaction, so that a round which moves nothing comes.
 */
#include "fs/commit.h"

#include <errno.h>
#include <string.h>

#include "fs/root_item.h"
#include "fs/subvol.h"
#include "io/fault.h"
#include "io/log.h"
#include "io/super.h"
#include "io/util.h"

/* Rounds of the fixed point; a handful is normal, so many mean that something never settles. */
#define COMMIT_ROUNDS_MAX 64u

bool commit_needed(struct fs *fs)
{
	return tree_env_dirty_bytes(fs->env) > 0 || space_pending_refs(fs->space) > 0;
}

static int store_roots(struct fs *fs, struct txn_handle *tx, bool *ret_more)
{
	for (unsigned i = 0; i < fs->root_count; i++) {
		int err = root_item_store(fs->trees.root, tx, &fs->roots[i], false, ret_more);

		if (err < 0)
			return err;
	}
	return subvol_commit_roots(fs, tx, ret_more);
}

static int settle(struct fs *fs, struct txn_handle *tx)
{
	for (unsigned round = 0; round < COMMIT_ROUNDS_MAX; round++) {
		bool space_more = false;
		bool roots_more = false;
		int err = space_commit_run(fs->space, tx, &space_more);

		if (err == 0)
			err = store_roots(fs, tx, &roots_more);
		if (err < 0)
			return err;
		if (!space_more && !roots_more && space_pending_refs(fs->space) == 0)
			return 0;
	}
	log_error("transaction %llu does not settle in %u rounds", (unsigned long long)tx->transid,
		  COMMIT_ROUNDS_MAX);
	return -EUCLEAN;
}

static const struct root_record *find_record(const struct fs *fs, uint64_t id)
{
	for (unsigned i = 0; i < fs->root_count; i++)
		if (fs->roots[i].key.objectid == id)
			return &fs->roots[i];
	return NULL;
}

/* The oldest of the four backups makes room for one of this commit. */
static void fill_backup(struct fs *fs, struct disk_super *super, uint64_t transid)
{
	struct disk_root_backup *b = &super->backups[transid % ROOT_BACKUP_COUNT];
	struct tree_root root = tree_root(fs->trees.root);
	struct tree_root chunk = tree_root(fs->trees.chunk);
	const struct root_record *rec;
	struct root_record fs_root;

	memset(b, 0, sizeof(*b));
	disk_root_backup_set_tree_root(b, root.bytenr);
	disk_root_backup_set_tree_root_gen(b, root.generation);
	disk_root_backup_set_tree_root_level(b, root.level);
	disk_root_backup_set_chunk_root(b, chunk.bytenr);
	disk_root_backup_set_chunk_root_gen(b, chunk.generation);
	disk_root_backup_set_chunk_root_level(b, chunk.level);
#define BACKUP(name, rec)                                                                        \
	do {                                                                                     \
		disk_root_backup_set_##name(b, disk_root_item_bytenr(&(rec)->item));             \
		disk_root_backup_set_##name##_gen(b, disk_root_item_generation(&(rec)->item));   \
		disk_root_backup_set_##name##_level(b, disk_root_item_level(&(rec)->item));      \
	} while (0)
	rec = find_record(fs, OBJ_EXTENT_TREE);
	if (rec)
		BACKUP(extent_root, rec);
	rec = find_record(fs, OBJ_DEV_TREE);
	if (rec)
		BACKUP(dev_root, rec);
	rec = find_record(fs, OBJ_CSUM_TREE);
	if (rec)
		BACKUP(csum_root, rec);
	if (root_item_find(fs->trees.root, OBJ_FS_TREE, &fs_root) == 0)
		BACKUP(fs_root, &fs_root);
#undef BACKUP
	disk_root_backup_set_total_bytes(b, disk_super_total_bytes(super));
	disk_root_backup_set_bytes_used(b, disk_super_bytes_used(super));
	disk_root_backup_set_num_devices(b, disk_super_num_devices(super));
}

static void fill_super(struct fs *fs, uint64_t transid, struct disk_super *super)
{
	struct tree_root root = tree_root(fs->trees.root);
	struct tree_root chunk = tree_root(fs->trees.chunk);

	/* Subvolumes are not made or dropped without their UUID items: a tree once right stays so. */
	if (disk_super_uuid_tree_generation(super) == disk_super_generation(super))
		disk_super_set_uuid_tree_generation(super, transid);
	disk_super_set_incompat_flags(super, disk_super_incompat_flags(super) |
						     atomic_load(&fs->incompat_used));
	disk_super_set_generation(super, transid);
	disk_super_set_root(super, root.bytenr);
	disk_super_set_root_level(super, root.level);
	disk_super_set_chunk_root(super, chunk.bytenr);
	disk_super_set_chunk_root_level(super, chunk.level);
	disk_super_set_chunk_root_generation(super, chunk.generation);
	space_fill_super(fs->space, super);
	fill_backup(fs, super, transid);
}

int commit_prepare(struct fs *fs, uint64_t transid, struct commit *ret_commit)
{
	struct txn_handle tx = { .transid = transid, .kind = RSV_COMMIT, .txn = fs };
	int err = settle(fs, &tx);

	if (err < 0)
		return err;
	ret_commit->transid = transid;
	ret_commit->super = fs->super;
	fill_super(fs, transid, &ret_commit->super);
	err = space_commit_freeze(fs->space, transid);
	if (err < 0)
		return err;
	return tree_env_freeze(fs->env, transid + 1, &ret_commit->nodes);
}

static int write_out(struct fs *fs, struct commit *c)
{
	int err = fault_point("commit.nodes") ? -EIO : 0;

	if (err == 0)
		err = frozen_write(c->nodes);
	if (err == 0)
		err = volume_flush(fs->vol);
	if (err == 0)
		err = fault_point("commit.super") ? -EIO : 0;
	if (err == 0)
		err = volume_write_supers(fs->vol, &c->super, SUPER_MIRROR_COUNT);
	if (err == 0)
		err = volume_flush(fs->vol);
	return err;
}

int commit_write(struct fs *fs, struct commit *c)
{
	int err = write_out(fs, c);

	if (err == 0) {
		fs->super = c->super;
		err = space_commit_done(fs->space, c->transid);
	}
	frozen_free(c->nodes);
	c->nodes = NULL;
	return err;
}
