/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_subvol_drop.c - deleted subvolumes: dropped at once, in pieces, over crashes, and
 * given up when they are damaged.
 *
 * A snapshot of the mounted subvolume is made by hand and marked as deleted; what the mounted one
 * then changes and deletes is left to the snapshot alone.
 */
#include "fs/subvol_drop.h"

#include <inttypes.h>

#include "fs/root_item.h"
#include "fs/subvol.h"
#include "fs/txn.h"
#include "io/device_mem.h"
#include "io/fault.h"
#include "tests/unit/mounted.h"

#define DEVICE_BYTES (256ull << 20)
#define FILES 900u
#define DELETED_ID 300u
#define ROUNDS_MAX 2000u
#define SNAPSHOT_ITEMS 32u

static void file_name(char *name, size_t size, unsigned i)
{
	snprintf(name, size, "a-name-that-takes-some-room-in-its-leaf-%u", i);
}

static void make_files(struct mounted *m)
{
	for (unsigned i = 0; i < FILES; i++) {
		char name[80];
		struct inode *in;

		file_name(name, sizeof(name), i);
		in = mounted_file(m, name);
		mounted_write(in, 0, i % 3 == 0 ? 8192 : 700, i);
		inode_put(in);
	}
	unit_ok(txn_sync(m->fs));
}

static void remove_files(struct mounted *m, unsigned step)
{
	for (unsigned i = 0; i < FILES; i += step) {
		char name[80];
		int err;

		file_name(name, sizeof(name), i);
		err = fs_unlink(m->root, name);
		ck_assert(err == 0 || err == -ENOENT);
	}
	unit_ok(fs_clean_orphans(m->fs));
	unit_ok(txn_sync(m->fs));
}

static struct key orphan_key(void)
{
	return key_make(OBJ_ORPHAN, KEY_ORPHAN_ITEM, DELETED_ID);
}

/* A snapshot of the mounted subvolume, as it is after its deletion. The last_snapshot it got. */
static uint64_t make_deleted(struct mounted *m, uint32_t refs)
{
	struct key key = orphan_key();
	struct disk_root_item ri;
	struct txn_handle tx;
	struct tree_root root;
	struct subvol *sv;

	unit_ok(subvol_get(m->fs, OBJ_FS_TREE, &sv));
	unit_ok(txn_start(m->fs, &tx, SNAPSHOT_ITEMS, RSV_NORMAL));
	unit_ok(tree_insert(&tx, m->fs->trees.root, &key, NULL, 0));
	unit_ok(tree_copy_root(&tx, sv->tree, DELETED_ID, &root));
	sv->last_snapshot = tx.transid;
	disk_root_item_set_last_snapshot(&sv->root.item, tx.transid);
	ri = sv->root.item;
	disk_root_item_set_refs(&ri, refs);
	disk_root_item_set_bytenr(&ri, root.bytenr);
	disk_root_item_set_level(&ri, root.level);
	disk_root_item_set_generation(&ri, root.generation);
	disk_root_item_set_generation_v2(&ri, root.generation);
	key = key_make(DELETED_ID, KEY_ROOT_ITEM, tx.transid);
	unit_ok(tree_insert(&tx, m->fs->trees.root, &key, &ri, sizeof(ri)));
	txn_end(m->fs, &tx);
	unit_ok(txn_commit(m->fs));
	return tx.transid;
}

static bool is_left(struct mounted *m)
{
	struct key key = orphan_key();
	struct root_record rec;
	struct item it;
	bool orphan, root;

	item_init(&it);
	orphan = tree_get(m->fs->trees.root, &key, &it) == 0;
	item_done(&it);
	root = root_item_find(m->fs->trees.root, DELETED_ID, &rec) == 0;
	ck_assert_int_eq(orphan, root);
	return root;
}

static uint64_t data_used(struct mounted *m)
{
	struct space_stat st;

	space_stat(m->fs->space, &st);
	return st.data_used;
}

static void drop_some(struct mounted *m, unsigned steps)
{
	char fault[40];

	snprintf(fault, sizeof(fault), "subvol.drop:%u", steps + 1);
	unit_ok(fault_set(fault));
	subvol_drop_all(m->fs);
	unit_ok(fault_set(NULL));
	ck_assert_int_eq(atomic_load(&m->fs->error), 0);
}

/* Only what the deleted one held is left; then nothing is. */
static void begin(struct mounted *m, unsigned nodesize)
{
	struct mkfs_options o;
	struct subvol *sv;

	mkfs_options_init(&o);
	o.leafsize = o.nodesize = nodesize;
	mounted_new(m, DEVICE_BYTES, &o, NULL);
	make_files(m);
	make_deleted(m, 0);
	unit_err(subvol_get(m->fs, DELETED_ID, &sv), -ENOENT);
	remove_files(m, 2);
}

static void end(struct mounted *m)
{
	remove_files(m, 1);
	ck_assert_uint_eq(data_used(m), 0);
	mounted_done(m);
}

START_TEST(test_all_at_once)
{
	struct mounted m;
	uint64_t used;

	begin(&m, 4096);
	used = data_used(&m);
	subvol_drop_all(m.fs);
	unit_ok(txn_commit(m.fs));
	ck_assert(!is_left(&m));
	ck_assert_uint_lt(data_used(&m), used);
	mounted_again(&m, NULL);
	end(&m);
}
END_TEST

START_TEST(test_in_pieces)
{
	static const unsigned nodesizes[] = { 4096, 16384 };

	for (unsigned n = 0; n < ARRAY_COUNT(nodesizes); n++) {
		struct mounted m;
		unsigned i;

		begin(&m, nodesizes[n]);
		for (i = 0; i < ROUNDS_MAX && is_left(&m); i++) {
			drop_some(&m, 1 + i % 3);
			if (i % 2 == 0)
				mounted_again(&m, NULL);
		}
		ck_assert_uint_gt(i, 4);
		ck_assert_uint_lt(i, ROUNDS_MAX);
		end(&m);
	}
}
END_TEST

/* What was not committed is done again. */
START_TEST(test_crashes)
{
	struct mounted m;
	unsigned i;

	begin(&m, 4096);
	for (i = 0; i < ROUNDS_MAX && is_left(&m); i++) {
		struct device *copy;

		drop_some(&m, 7);
		if (i % 3 != 0)
			unit_ok(txn_commit(m.fs));
		drop_some(&m, 3);
		unit_ok(device_mem_clone(m.mem, &copy));
		inode_put(m.root);
		fs_crash(m.fs);
		m.mem = copy;
		mounted_open(&m, NULL);
	}
	ck_assert_uint_gt(i, 3);
	ck_assert_uint_lt(i, ROUNDS_MAX);
	end(&m);
}
END_TEST

/* Spoils the leaves of the mounted subvolume that are no newer, and begin at a later inode. */
static unsigned spoil_leaves(struct mounted *m, uint64_t generation, uint64_t ino)
{
	unsigned n = 0;

	for (uint64_t at = 1 << 20; at < DEVICE_BYTES; at += 4096) {
		uint8_t block[4096];
		const struct disk_header *h = (const void *)block;
		const struct disk_item *first = (const void *)(block + sizeof(*h));

		unit_ok(device_pread(m->mem, at, block, sizeof(block)));
		if (memcmp(h->fsid, m->fs->super.fsid, sizeof(h->fsid)) != 0 ||
		    disk_header_owner(h) != OBJ_FS_TREE || disk_header_level(h) != 0 ||
		    disk_header_generation(h) > generation ||
		    disk_key_objectid(&first->key) < ino)
			continue;
		block[sizeof(block) / 2] ^= 1;
		unit_ok(device_pwrite(m->mem, at, block, sizeof(block)));
		n++;
	}
	return n;
}

START_TEST(test_damaged)
{
	struct mkfs_options o;
	struct root_record rec;
	struct mounted m;
	struct inode *in;
	uint64_t generation;

	mkfs_options_init(&o);
	o.leafsize = o.nodesize = 4096;
	mounted_new(&m, DEVICE_BYTES, &o, NULL);
	make_files(&m);
	generation = make_deleted(&m, 0);
	remove_files(&m, 1);
	mounted_again(&m, NULL);
	ck_assert_uint_gt(spoil_leaves(&m, generation, 500), 10);
	for (unsigned i = 0; i < 2; i++) {
		subvol_drop_all(m.fs);
		ck_assert_int_eq(atomic_load(&m.fs->error), 0);
		unit_ok(txn_commit(m.fs));
		ck_assert(is_left(&m));
		unit_ok(root_item_find(m.fs->trees.root, DELETED_ID, &rec));
		ck_assert_uint_gt(disk_key_objectid(&rec.item.drop_progress), OBJ_FIRST_FREE);
		ck_assert_uint_ge(disk_root_item_drop_level(&rec.item), 1);
		in = mounted_file(&m, i == 0 ? "still" : "usable");
		inode_put(in);
		mounted_again(&m, NULL);
	}
	mounted_done(&m);
}
END_TEST

/* An orphan item without a root goes; one whose subvolume is in use does no harm. */
START_TEST(test_orphan_items)
{
	struct key key = orphan_key();
	struct txn_handle tx;
	struct mounted m;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	unit_ok(txn_start(m.fs, &tx, 1, RSV_NORMAL));
	unit_ok(tree_insert(&tx, m.fs->trees.root, &key, NULL, 0));
	txn_end(m.fs, &tx);
	subvol_drop_all(m.fs);
	ck_assert(!is_left(&m));
	make_files(&m);
	make_deleted(&m, 1);
	subvol_drop_all(m.fs);
	ck_assert(is_left(&m));
	mounted_done(&m);
}
END_TEST

/* The thread comes and goes with its work. */
START_TEST(test_thread)
{
	struct mounted m;

	begin(&m, 4096);
	unit_ok(subvol_drop_start(m.fs));
	ck_assert_ptr_nonnull(m.fs->dropper);
	subvol_drop_stop(m.fs);
	ck_assert_ptr_null(m.fs->dropper);
	unit_ok(subvol_drop_start(m.fs));
	while (is_left(&m))
		usleep(1000);
	subvol_drop_stop(m.fs);
	unit_ok(subvol_drop_start(m.fs));
	ck_assert_ptr_null(m.fs->dropper);
	end(&m);
}
END_TEST

UNIT_MAIN("subvol_drop", test_all_at_once, test_in_pieces, test_crashes, test_damaged,
	  test_orphan_items, test_thread)
