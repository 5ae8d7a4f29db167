/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_dir_item.c - entries that share a hash, indices, and names in inodes
 * (fs/dir_item.h, fs/inode_ref.h) on a tree that is an array.
 */
#include <dirent.h>
#include <sys/stat.h>

#include "fs/dir_item.h"
#include "fs/inode_ref.h"
#include "io/log.h"
#include "tests/collide.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/unit.h"

#define DIR 300u
#define LEAF_MAX 3970u		/* item bytes of a leaf of 4 KiB */

uint32_t tree_max_item_size(const struct tree_env *env)
{
	(void)env;
	return LEAF_MAX;
}

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level;
	(void)line;
	(void)arg;
}

static struct txn_handle tx = { .transid = 7 };

static int add(struct tree *t, const char *name, uint64_t ino)
{
	struct name_new e = {
		.name = name, .name_len = strlen(name),
		.location = key_make(ino, KEY_INODE_ITEM, 0), .type = FT_REG_FILE,
	};

	return name_add(&tx, NULL, t, DIR, KEY_DIR_ITEM, &e);
}

static int find(struct tree *t, const char *name, uint64_t *ret_ino)
{
	struct name_hit hit;
	int err;

	name_hit_init(&hit);
	err = name_find(t, DIR, KEY_DIR_ITEM, name, strlen(name), &hit);
	if (err == 0)
		*ret_ino = hit.entry.location.objectid;
	name_hit_done(&hit);
	return err;
}

static int drop(struct tree *t, const char *name)
{
	struct name_hit hit;
	int err;

	name_hit_init(&hit);
	err = name_find(t, DIR, KEY_DIR_ITEM, name, strlen(name), &hit);
	if (err == 0)
		err = name_remove(&tx, t, &hit);
	name_hit_done(&hit);
	return err;
}

START_TEST(one_name)
{
	struct tree *t = fake_tree_new(NULL, OBJ_FS_TREE);
	struct disk_dir_item d;
	uint64_t ino = 0;

	unit_ok(add(t, "readme", 400));
	unit_err(add(t, "readme", 401), -EEXIST);
	unit_ok(find(t, "readme", &ino));
	ck_assert_uint_eq(ino, 400);
	unit_err(find(t, "Readme", &ino), -ENOENT);
	ck_assert_uint_eq(fake_tree_items(t), 1);
	ck_assert_uint_eq(fake_tree_item(t, 0)->size, sizeof(d) + 6);
	memcpy(&d, fake_tree_item(t, 0)->data, sizeof(d));
	ck_assert_uint_eq(disk_dir_item_transid(&d), 7);
	ck_assert_uint_eq(disk_dir_item_type(&d), FT_REG_FILE);
	unit_ok(drop(t, "readme"));
	ck_assert_uint_eq(fake_tree_items(t), 0);
	fake_tree_free(t);
}
END_TEST

/* Names of one hash fill an item up to the size of a leaf, and each can be found and taken out. */
START_TEST(colliding_names)
{
	struct tree *t = fake_tree_new(NULL, OBJ_FS_TREE);
	unsigned n = 0, fit = LEAF_MAX / (sizeof(struct disk_dir_item) + COLLIDE_NAME_LEN);
	char name[COLLIDE_NAME_LEN + 1];
	uint64_t ino = 0;

	for (;; n++) {
		int err;

		collide_name(n, name);
		err = add(t, name, 1000 + n);
		if (err == -EOVERFLOW)
			break;
		unit_ok(err);
		unit_err(add(t, name, 5), -EEXIST);
	}
	ck_assert_uint_eq(n, fit);
	ck_assert_uint_eq(fake_tree_items(t), 1);
	for (unsigned i = 0; i < n; i += 2) {
		collide_name(i, name);
		unit_ok(drop(t, name));
	}
	for (unsigned i = 0; i < n; i++) {
		collide_name(i, name);
		unit_err(find(t, name, &ino), i % 2 ? 0 : -ENOENT);
		if (i % 2)
			ck_assert_uint_eq(ino, 1000 + i);
	}
	for (unsigned i = 1; i < n; i += 2) {
		collide_name(i, name);
		unit_ok(drop(t, name));
	}
	ck_assert_uint_eq(fake_tree_items(t), 0);
	fake_tree_free(t);
}
END_TEST

START_TEST(replace_and_repoint)
{
	struct tree *t = fake_tree_new(NULL, OBJ_FS_TREE);
	struct key elsewhere = key_make(77, KEY_ROOT_ITEM, UINT64_MAX);
	char names[3][COLLIDE_NAME_LEN + 1];
	struct name_new e = { .type = FT_XATTR, .data = "a value", .data_len = 7 };
	struct name_hit hit;
	uint64_t ino = 0;

	name_hit_init(&hit);
	for (unsigned i = 0; i < 3; i++) {
		collide_name(i, names[i]);
		unit_ok(add(t, names[i], 10 + i));
	}
	unit_ok(name_find(t, DIR, KEY_DIR_ITEM, names[1], COLLIDE_NAME_LEN, &hit));
	unit_ok(name_repoint(&tx, t, &hit, &elsewhere, FT_DIR));
	unit_ok(find(t, names[1], &ino));
	ck_assert_uint_eq(ino, 77);
	e.name = names[1];
	e.name_len = COLLIDE_NAME_LEN;
	unit_ok(name_find(t, DIR, KEY_DIR_ITEM, names[1], COLLIDE_NAME_LEN, &hit));
	unit_ok(name_replace(&tx, NULL, t, &hit, &e));
	unit_ok(name_find(t, DIR, KEY_DIR_ITEM, names[1], COLLIDE_NAME_LEN, &hit));
	ck_assert_uint_eq(hit.entry.data_len, 7);
	ck_assert_mem_eq(hit.entry.data, "a value", 7);
	e.data_len = LEAF_MAX;
	unit_err(name_replace(&tx, NULL, t, &hit, &e), -EOVERFLOW);
	for (unsigned i = 0; i < 3; i += 2) {
		unit_ok(find(t, names[i], &ino));
		ck_assert_uint_eq(ino, 10 + i);
	}
	name_hit_done(&hit);
	fake_tree_free(t);
}
END_TEST

START_TEST(damaged_entries)
{
	struct tree *t = fake_tree_new(NULL, OBJ_FS_TREE);
	struct key key = key_make(DIR, KEY_DIR_ITEM, name_hash("x", 1));
	uint8_t buf[sizeof(struct disk_dir_item) + 4] = {0};
	struct disk_dir_item *d = (struct disk_dir_item *)buf;
	uint64_t ino;

	log_set_sink(quiet, NULL);
	for (unsigned size = 1; size <= sizeof(buf); size++) {
		disk_dir_item_set_name_len(d, 5);
		unit_ok(tree_insert(&tx, t, &key, buf, size));
		unit_err(find(t, "x", &ino), -EUCLEAN);
		unit_err(add(t, "x", 5), -EUCLEAN);
		unit_ok(tree_delete(&tx, t, &key));
	}
	disk_dir_item_set_name_len(d, 0);
	unit_ok(tree_insert(&tx, t, &key, buf, sizeof(buf)));
	unit_err(find(t, "x", &ino), -EUCLEAN);
	fake_tree_free(t);
}
END_TEST

START_TEST(indices)
{
	struct tree *t = fake_tree_new(NULL, OBJ_FS_TREE);
	struct name_new e = { .name = "a", .name_len = 1, .location = key_make(9, KEY_INODE_ITEM, 0) };
	uint64_t index = 0;

	unit_ok(dir_index_next(t, DIR, &index));
	ck_assert_uint_eq(index, 2);
	unit_ok(dir_index_add(&tx, t, DIR, 2, &e));
	e.name = "bb";
	e.name_len = 2;
	unit_ok(dir_index_add(&tx, t, DIR, 5, &e));
	unit_ok(dir_index_add(&tx, t, DIR + 1, 900, &e));
	unit_ok(dir_index_next(t, DIR, &index));
	ck_assert_uint_eq(index, 6);
	unit_ok(dir_index_search(t, DIR, "bb", 2, &index));
	ck_assert_uint_eq(index, 5);
	unit_err(dir_index_search(t, DIR, "b", 1, &index), -ENOENT);
	unit_ok(dir_index_remove(&tx, t, DIR, 2));
	unit_err(dir_index_search(t, DIR, "a", 1, &index), -ENOENT);
	fake_tree_free(t);
}
END_TEST

static void name_of(unsigned i, char name[NAME_MAX_BYTES + 1])
{
	memset(name, 'n', NAME_MAX_BYTES);
	name[NAME_MAX_BYTES] = '\0';
	snprintf(name + NAME_MAX_BYTES - 5, 6, "%05u", i);
}

/* Names of an inode in one directory: the item fills up, further names have items of their own. */
START_TEST(many_links)
{
	struct fs fs = {0};
	struct tree *t = fake_tree_new(NULL, OBJ_FS_TREE);
	unsigned fit = LEAF_MAX / INODE_REF_BYTES_MAX;
	char name[NAME_MAX_BYTES + 1];
	struct ref_hit hit;

	ref_hit_init(&hit);
	for (unsigned i = 0; i < fit; i++) {
		name_of(i, name);
		unit_ok(inode_ref_room(&fs, t, 500, DIR, name, NAME_MAX_BYTES, i));
		unit_ok(inode_ref_add(&tx, &fs, t, 500, DIR, name, NAME_MAX_BYTES, 2 + i));
	}
	name_of(fit, name);
	unit_err(inode_ref_room(&fs, t, 500, DIR, name, NAME_MAX_BYTES, fit), -EMLINK);
	unit_err(inode_ref_add(&tx, &fs, t, 500, DIR, name, NAME_MAX_BYTES, 2), -EMLINK);
	ck_assert_uint_eq(fake_tree_items(t), 1);
	disk_super_set_incompat_flags(&fs.super, INCOMPAT_EXTENDED_IREF);
	for (unsigned i = fit; i < 3 * fit; i++) {
		name_of(i, name);
		unit_ok(inode_ref_room(&fs, t, 500, DIR, name, NAME_MAX_BYTES, i));
		unit_ok(inode_ref_add(&tx, &fs, t, 500, DIR, name, NAME_MAX_BYTES, 2 + i));
	}
	ck_assert_uint_eq(fake_tree_items(t), 1 + 2 * fit);
	for (unsigned i = 0; i < 3 * fit; i++) {
		name_of(i, name);
		unit_ok(inode_ref_find(t, 500, DIR, name, NAME_MAX_BYTES, &hit));
		ck_assert_uint_eq(hit.index, 2 + i);
		unit_err(inode_ref_find(t, 500, DIR + 1, name, NAME_MAX_BYTES, &hit), -ENOENT);
		unit_ok(inode_ref_find(t, 500, DIR, name, NAME_MAX_BYTES, &hit));
		unit_ok(inode_ref_remove(&tx, t, &hit));
		unit_err(inode_ref_find(t, 500, DIR, name, NAME_MAX_BYTES, &hit), -ENOENT);
	}
	ck_assert_uint_eq(fake_tree_items(t), 0);
	ref_hit_done(&hit);
	fake_tree_free(t);
}
END_TEST

START_TEST(parents)
{
	struct fs fs = {0};
	struct tree *t = fake_tree_new(NULL, OBJ_FS_TREE);
	uint64_t parent = 0;

	unit_err(inode_ref_parent(t, 500, &parent), -ENOENT);
	unit_ok(inode_ref_add(&tx, &fs, t, 501, 9, "x", 1, 2));
	unit_err(inode_ref_parent(t, 500, &parent), -ENOENT);
	unit_ok(inode_ref_add(&tx, &fs, t, 500, DIR, "x", 1, 2));
	unit_ok(inode_ref_parent(t, 500, &parent));
	ck_assert_uint_eq(parent, DIR);
	fake_tree_free(t);
}
END_TEST

START_TEST(checked_names)
{
	char name[NAME_MAX_BYTES + 2];
	size_t len = 0;

	memset(name, 'a', sizeof(name));
	name[NAME_MAX_BYTES + 1] = '\0';
	unit_err(name_check(name, &len), -ENAMETOOLONG);
	unit_ok(name_check(name + 1, &len));
	ck_assert_uint_eq(len, NAME_MAX_BYTES);
	unit_err(name_check("", &len), -ENOENT);
	unit_err(name_check("a/b", &len), -EINVAL);
	ck_assert(name_is_dots(".") && name_is_dots(".."));
	ck_assert(!name_is_dots("...") && !name_is_dots(".a") && !name_is_dots(""));
	ck_assert_uint_eq(dirent_type_of(file_type_of_mode(S_IFSOCK | 0600)), DT_SOCK);
	ck_assert_uint_eq(dirent_type_of(99), DT_UNKNOWN);
}
END_TEST

UNIT_MAIN("dir_item", one_name, colliding_names, replace_and_repoint, damaged_entries, indices,
	  many_links, parents, checked_names)
