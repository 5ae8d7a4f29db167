/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/trees.c - the first trees of a filesystem; see trees.h.
 *
 *	root tree	a root item for each tree but itself and the chunk tree; the folder 6, whose entry
 *			"default" names the subvolume that is mounted
 *	chunk, device,	what space_bootstrap_items() puts there, and what the commit adds about
 *	extent, free	tree blocks
 *	space, block
 *	group tree
 *	5, -9		the top level subvolume and the kernel's place for relocation: a root folder each
 *	UUID tree	the id of subvolume 5
 *	checksum tree	empty
 */
#include "mkfs/trees.h"

#include "fs/root_item.h"
#include "io/csum.h"
#include "io/util.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <uuid/uuid.h>

#define DIR_MODE (S_IFDIR | 0755)

static void stamp(struct disk_timespec *t)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	disk_timespec_set_sec(t, (uint64_t)now.tv_sec);
	disk_timespec_set_nsec(t, (uint32_t)now.tv_nsec);
}

/* An empty folder and its own parent; it belongs to the caller, so that a user can use what he made. */
static int make_root_dir(struct tree *t, struct txn_handle *tx, uint64_t ino)
{
	static const char name[] = "..";
	struct {
		struct disk_inode_ref ref;
		char name[sizeof(name) - 1];
	} ref = {0};
	struct disk_inode_item inode = {0};
	struct key key = key_make(ino, KEY_INODE_ITEM, 0);
	int err;

	disk_inode_item_set_generation(&inode, tx->transid);
	disk_inode_item_set_transid(&inode, tx->transid);
	disk_inode_item_set_nlink(&inode, 1);
	disk_inode_item_set_mode(&inode, DIR_MODE);
	disk_inode_item_set_uid(&inode, getuid());
	disk_inode_item_set_gid(&inode, getgid());
	stamp(&inode.atime);
	inode.ctime = inode.atime;
	inode.mtime = inode.atime;
	inode.otime = inode.atime;
	err = tree_insert(tx, t, &key, &inode, sizeof(inode));
	if (err < 0)
		return err;
	disk_inode_ref_set_name_len(&ref.ref, sizeof(name) - 1);
	memcpy(ref.name, name, sizeof(name) - 1);
	key = key_make(ino, KEY_INODE_REF, ino);
	return tree_insert(tx, t, &key, &ref, sizeof(ref));
}

/* The entry that says which subvolume is mounted when none is asked for. */
static int make_default_entry(struct tree *root, struct txn_handle *tx)
{
	static const char name[] = "default";
	struct {
		struct disk_dir_item dir;
		char name[sizeof(name) - 1];
	} item = {0};
	struct key location = key_make(OBJ_FS_TREE, KEY_ROOT_ITEM, UINT64_MAX);
	struct key key = key_make(OBJ_ROOT_TREE_DIR, KEY_DIR_ITEM, name_hash(name, sizeof(name) - 1));

	key_to_disk(&location, &item.dir.location);
	disk_dir_item_set_name_len(&item.dir, sizeof(name) - 1);
	disk_dir_item_set_type(&item.dir, FT_DIR);
	memcpy(item.name, name, sizeof(name) - 1);
	return tree_insert(tx, root, &key, &item, sizeof(item));
}

static int make_uuid_entry(struct tree *t, struct txn_handle *tx, const uint8_t *uuid, uint64_t id)
{
	disk64 halves[2], value;
	struct key key;

	static_assert(sizeof(halves) == UUID_BYTES, "a uuid is two key halves");
	memcpy(halves, uuid, UUID_BYTES);
	disk64_set(&value, id);
	key = key_make(disk64_get(&halves[0]), KEY_UUID_SUBVOL, disk64_get(&halves[1]));
	return tree_insert(tx, t, &key, &value, sizeof(value));
}

/*
 * A root item that names no block yet; root_item_store() does that in the commit. The embedded inode
 * stands for the root folder where a subvolume is shown without its tree.
 */
static int make_root_item(struct fs *fs, struct txn_handle *tx, struct root_record *rec,
			  bool subvolume)
{
	struct disk_root_item *item = &rec->item;

	disk_inode_item_set_generation(&item->inode, 1);
	disk_inode_item_set_size(&item->inode, 3);
	disk_inode_item_set_nlink(&item->inode, 1);
	disk_inode_item_set_nbytes(&item->inode, fs->nodesize);
	disk_inode_item_set_mode(&item->inode, DIR_MODE);
	disk_root_item_set_refs(item, 1);
	if (subvolume) {
		disk_inode_item_set_flags(&item->inode, INODE_ROOT_ITEM_INIT);
		disk_root_item_set_root_dirid(item, OBJ_FIRST_FREE);
		disk_root_item_set_ctransid(item, tx->transid);
		disk_root_item_set_otransid(item, tx->transid);
		stamp(&item->ctime);
		item->otime = item->ctime;
	}
	return tree_insert(tx, fs->trees.root, &rec->key, item, sizeof(*item));
}

/* An empty tree with its record; *ret_tree (NULL: not wanted) borrows it. */
static int make_tree(struct fs *fs, struct txn_handle *tx, uint64_t id, bool subvolume,
		     struct tree **ret_tree)
{
	struct root_record *rec = &fs->roots[fs->root_count];
	int err = tree_create(fs->env, tx, id, subvolume, &rec->tree);

	if (err < 0)
		return err;
	must(fs->root_count < MKFS_ROOTS_MAX);
	fs->root_count++;
	rec->key = key_make(id, KEY_ROOT_ITEM, 0);
	if (ret_tree != NULL)
		*ret_tree = rec->tree;
	return 0;
}

static int make_space_trees(struct fs *fs, struct txn_handle *tx, const struct mkfs_options *o)
{
	struct meta_trees *t = &fs->trees;
	int err = tree_create(fs->env, tx, OBJ_CHUNK_TREE, false, &t->chunk);

	if (err == 0)
		err = tree_create(fs->env, tx, OBJ_ROOT_TREE, false, &t->root);
	if (err == 0)
		err = make_tree(fs, tx, OBJ_EXTENT_TREE, false, &t->extent);
	if (err == 0)
		err = make_tree(fs, tx, OBJ_DEV_TREE, false, &t->dev);
	if (err == 0)
		err = make_tree(fs, tx, OBJ_CSUM_TREE, false, &t->csum);
	if (err == 0 && o->features & MKFS_FREE_SPACE_TREE)
		err = make_tree(fs, tx, OBJ_FREE_SPACE_TREE, false, &t->free_space);
	if (err == 0 && o->features & MKFS_BLOCK_GROUP_TREE)
		err = make_tree(fs, tx, OBJ_BLOCK_GROUP_TREE, false, &t->block_group);
	if (err == 0)
		err = space_bootstrap_items(fs->space, tx);
	return err;
}

static int make_subvolumes(struct fs *fs, struct txn_handle *tx)
{
	struct root_record *top = &fs->roots[fs->root_count];
	struct tree *t;
	int err = make_tree(fs, tx, OBJ_FS_TREE, true, &t);

	if (err == 0)
		err = make_root_dir(t, tx, OBJ_FIRST_FREE);
	if (err == 0)
		err = make_tree(fs, tx, OBJ_DATA_RELOC_TREE, true, &t);
	if (err == 0)
		err = make_root_dir(t, tx, OBJ_FIRST_FREE);
	if (err == 0)
		err = make_tree(fs, tx, OBJ_UUID_TREE, false, &t);
	if (err < 0)
		return err;
	uuid_generate(top->item.uuid);
	return make_uuid_entry(t, tx, top->item.uuid, OBJ_FS_TREE);
}

int mkfs_make_trees(struct fs *fs, struct txn_handle *tx, const struct mkfs_options *o)
{
	int err = make_space_trees(fs, tx, o);

	if (err == 0)
		err = make_subvolumes(fs, tx);
	if (err == 0)
		err = make_root_dir(fs->trees.root, tx, OBJ_ROOT_TREE_DIR);
	if (err == 0)
		err = make_default_entry(fs->trees.root, tx);
	for (unsigned i = 0; err == 0 && i < fs->root_count; i++) {
		uint64_t id = fs->roots[i].key.objectid;

		err = make_root_item(fs, tx, &fs->roots[i],
				     id == OBJ_FS_TREE || id == OBJ_DATA_RELOC_TREE);
	}
	return err;
}
