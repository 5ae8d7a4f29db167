/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_names.c - names, attributes and orphans on a whole filesystem in RAM: what random
 * operations (tests/model) do not reach.
 */
#include <dirent.h>
#include <linux/fs.h>
#include <sys/xattr.h>

#include "fs/dir_item.h"
#include "fs/inode_ref.h"
#include "fs/names.h"
#include "fs/txn.h"
#include "io/device_mem.h"
#include "tests/unit/mounted.h"

#define DEVICE_BYTES (256u << 20)

static const struct cred nobody = { 1000, 1000 };

static struct inode *make(struct inode *dir, const char *name, uint32_t mode)
{
	struct inode *in = NULL;

	unit_ok(fs_mknod(dir, name, mode, 0, nobody, &in));
	return in;
}

static void drop(struct mounted *m, struct inode *in)
{
	struct ino_id id = { in->sv->id, in->ino };

	inode_put(in);
	unit_ok(fs_forget(m->fs, id));
}

static void set_flags(struct mounted *m, struct inode *in, uint64_t flags)
{
	struct txn_handle tx;

	unit_ok(txn_start(m->fs, &tx, 1, RSV_NORMAL));
	rwlock_wrlock(&in->lock);
	in->flags = flags;
	unit_ok(inode_store(&tx, in));
	rwlock_wrunlock(&in->lock);
	txn_end(m->fs, &tx);
}

/* What the device holds after a crash now. */
static void crash(struct mounted *m)
{
	struct device *copy;
	struct fs_options opt;

	unit_ok(device_mem_clone(m->mem, &copy));
	inode_put(m->root);
	fs_crash(m->fs);
	m->mem = copy;
	fs_options_init(&opt);
	unit_ok(fs_open(copy, &opt, &m->fs, NULL));
	unit_ok(inode_get(m->fs, m->fs->root_subvol, INO_ROOT, &m->root));
}

START_TEST(flags_forbid)
{
	struct attr_change ch = { .valid = ATTR_CH_MODE, .mode = 0600 };
	struct attr_change touch = { .valid = ATTR_CH_MTIME };
	struct mounted m;
	struct inode *dir, *in, *none = NULL;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	dir = make(m.root, "dir", S_IFDIR | 0755);
	in = make(dir, "file", S_IFREG | 0644);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t flag = i ? INODE_APPEND : INODE_IMMUTABLE;

		set_flags(&m, in, flag);
		unit_err(fs_unlink(dir, "file"), -EPERM);
		unit_err(fs_rename(dir, "file", m.root, "x", 0), -EPERM);
		unit_err(fs_link(in, m.root, "x"), -EPERM);
		unit_err(fs_setattr(in, &ch), -EPERM);
		unit_err(fs_setattr(in, &touch), i ? 0 : -EPERM);
		unit_err(fs_setxattr(in, "user.a", "b", 1, 0), -EPERM);
		set_flags(&m, in, 0);
		set_flags(&m, dir, flag);
		unit_err(fs_unlink(dir, "file"), -EPERM);
		unit_err(fs_rename(dir, "file", m.root, "x", 0), -EPERM);
		unit_err(fs_mknod(dir, "new", S_IFREG, 0, nobody, &none), i ? 0 : -EPERM);
		set_flags(&m, dir, 0);
	}
	inode_put(none);
	dir->sv->rdonly = true;
	unit_err(fs_unlink(dir, "file"), -EROFS);
	unit_err(fs_mknod(dir, "y", S_IFREG, 0, nobody, &none), -EROFS);
	unit_err(fs_setattr(in, &ch), -EROFS);
	unit_err(fs_rename(dir, "file", dir, "y", 0), -EROFS);
	unit_err(fs_setxattr(in, "user.a", "b", 1, 0), -EROFS);
	dir->sv->rdonly = false;
	inode_put(in);
	inode_put(dir);
	mounted_done(&m);
}
END_TEST

START_TEST(handed_on)
{
	static const char prop[] = "btrfs.compression";
	struct mounted m;
	struct inode *dir, *sub, *in;
	struct name_new e = { .name = prop, .name_len = sizeof(prop) - 1, .type = FT_XATTR,
			      .data = "zstd", .data_len = 4 };
	struct txn_handle tx;
	char value[8];

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	dir = make(m.root, "dir", S_IFDIR | S_ISGID | 0755);
	dir->gid = 77;
	set_flags(&m, dir, INODE_COMPRESS | INODE_NOATIME);
	unit_ok(txn_start(m.fs, &tx, 1, RSV_NORMAL));
	unit_ok(name_add(&tx, m.fs->env, dir->sv->tree, dir->ino, KEY_XATTR_ITEM, &e));
	dir->no_xattrs = false;
	txn_end(m.fs, &tx);
	sub = make(dir, "sub", S_IFDIR | 0755);
	in = make(sub, "file", S_IFREG | 0755);
	ck_assert_uint_eq(sub->mode, S_IFDIR | S_ISGID | 0755);
	ck_assert_uint_eq(in->mode, S_IFREG | 0755);
	ck_assert_uint_eq(in->gid, 77);
	ck_assert_uint_eq(in->uid, 1000);
	ck_assert_uint_eq(in->flags, INODE_COMPRESS);
	ck_assert_int_eq(fs_getxattr(in, prop, value, sizeof(value)), 4);
	ck_assert_mem_eq(value, "zstd", 4);
	inode_put(in);
	set_flags(&m, sub, INODE_NODATACOW);
	in = make(sub, "nocow", S_IFREG | 0644);
	ck_assert_uint_eq(in->flags, INODE_NODATACOW | INODE_NODATASUM);
	ck_assert_int_eq(fs_getxattr(in, prop, value, sizeof(value)), -ENODATA);
	inode_put(in);
	inode_put(sub);
	inode_put(dir);
	mounted_done(&m);
}
END_TEST

START_TEST(loops)
{
	struct mounted m;
	struct inode *a, *b, *c;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	a = make(m.root, "a", S_IFDIR | 0755);
	b = make(a, "b", S_IFDIR | 0755);
	c = make(b, "c", S_IFDIR | 0755);
	unit_err(fs_rename(m.root, "a", a, "x", 0), -EINVAL);
	unit_err(fs_rename(m.root, "a", c, "x", 0), -EINVAL);
	unit_err(fs_rename(m.root, "a", b, "c", RENAME_EXCHANGE), -EINVAL);
	unit_err(fs_rename(b, "c", m.root, "a", RENAME_EXCHANGE), -EINVAL);
	unit_err(fs_rename(b, "c", m.root, "a", 0), -ENOTEMPTY);
	unit_err(fs_rename(a, "b", a, "..", 0), -EBUSY);
	unit_err(fs_rename(a, ".", a, "d", 0), -EBUSY);
	unit_ok(fs_rename(b, "c", m.root, "c", 0));
	unit_ok(fs_rename(m.root, "a", c, "a", 0));
	unit_err(fs_rmdir(m.root, "c"), -ENOTEMPTY);
	unit_err(fs_rmdir(c, "."), -EINVAL);
	unit_err(fs_rmdir(c, ".."), -ENOTEMPTY);
	/* Nothing is made in a directory that was removed. */
	unit_ok(fs_rmdir(a, "b"));
	unit_err(fs_mknod(b, "x", S_IFREG, 0, nobody, &(struct inode *){NULL}), -ENOENT);
	unit_err(fs_rename(m.root, "c", b, "c", 0), -ENOENT);
	drop(&m, b);
	inode_put(a);
	inode_put(c);
	mounted_done(&m);
}
END_TEST

START_TEST(as_many_links_as_there_may_be)
{
	struct mounted m;
	struct inode *in, *found;
	char name[32];

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = make(m.root, "l1", S_IFREG | 0644);
	for (unsigned i = 2; i <= LINK_MAX_COUNT; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		unit_ok(fs_link(in, m.root, name));
	}
	unit_err(fs_link(in, m.root, "more"), -EMLINK);
	inode_put(in);
	mounted_again(&m, NULL);
	unit_ok(fs_lookup(m.root, "l60000", &in));
	ck_assert_uint_eq(in->nlink, LINK_MAX_COUNT);
	for (unsigned i = 1; i < LINK_MAX_COUNT; i++) {
		snprintf(name, sizeof(name), "l%u", i);
		unit_ok(fs_unlink(m.root, name));
	}
	ck_assert_uint_eq(in->nlink, 1);
	unit_ok(fs_lookup(m.root, "l65535", &found));
	ck_assert_ptr_eq(found, in);
	inode_put(found);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(orphans_go_after_a_crash)
{
	struct key key;
	struct mounted m;
	struct inode *in, *kept;
	scoped(item_done) struct item it;
	struct txn_handle tx;
	uint64_t ino, kept_ino;

	item_init(&it);
	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	kept = mounted_file(&m, "kept");
	kept_ino = kept->ino;
	in = mounted_file(&m, "gone");
	ino = in->ino;
	mounted_write(in, 0, 100000, 3);
	unit_ok(fs_setxattr(in, "user.a", "b", 1, 0));
	unit_ok(fs_unlink(m.root, "gone"));
	mounted_expect(in, 0, 100000, 3);
	/* An item that names an inode with a name, as older kernels left them. */
	key = key_make(OBJ_ORPHAN, KEY_ORPHAN_ITEM, kept_ino);
	unit_ok(txn_start(m.fs, &tx, 1, RSV_NORMAL));
	unit_ok(tree_insert(&tx, m.root->sv->tree, &key, NULL, 0));
	txn_end(m.fs, &tx);
	unit_ok(txn_sync(m.fs));
	key = key_make(OBJ_ORPHAN, KEY_ORPHAN_ITEM, ino);
	unit_ok(tree_get(m.root->sv->tree, &key, &it));
	inode_put(in);
	inode_put(kept);
	crash(&m);
	unit_err(inode_get(m.fs, m.fs->root_subvol, ino, &in), -ENOENT);
	unit_ok(fs_lookup(m.root, "kept", &kept));
	inode_put(kept);
	key = key_type_min(OBJ_ORPHAN, KEY_ORPHAN_ITEM);
	unit_err(tree_seek(m.root->sv->tree, &key, SEEK_ITEM_GE, &it), -ENOENT);
	key = key_object_min(ino);
	unit_ok(tree_seek(m.root->sv->tree, &key, SEEK_ITEM_GE, &it) == -ENOENT ? 0 :
		it.key.objectid == ino);
	mounted_done(&m);
}
END_TEST

START_TEST(forgotten_at_once)
{
	struct mounted m;
	struct inode *in;
	uint64_t ino;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "f");
	ino = in->ino;
	unit_ok(fs_forget(m.fs, (struct ino_id){ in->sv->id, ino }));	/* has a name: nothing happens */
	unit_ok(fs_unlink(m.root, "f"));
	ck_assert_uint_eq(in->nlink, 0);
	drop(&m, in);
	unit_err(inode_get(m.fs, m.fs->root_subvol, ino, &in), -ENOENT);
	unit_ok(fs_forget(m.fs, (struct ino_id){ m.fs->root_subvol, ino }));
	mounted_done(&m);
}
END_TEST

static struct timespec atime_on_disk(struct inode *in)
{
	struct key key = key_make(in->ino, KEY_INODE_ITEM, 0);
	struct disk_inode_item d;

	unit_ok(tree_get_fixed(in->sv->tree, &key, &d, sizeof(d)));
	return (struct timespec){ .tv_sec = (time_t)disk_timespec_sec(&d.atime) };
}

/* Times that relatime wants to change: atime before mtime, both long ago. */
static void set_times(struct inode *in, time_t atime, time_t mtime)
{
	struct attr_change ch = { .valid = ATTR_CH_ATIME | ATTR_CH_MTIME | ATTR_CH_CTIME,
				  .atime.tv_sec = atime, .mtime.tv_sec = mtime, .ctime.tv_sec = mtime };

	unit_ok(fs_setattr(in, &ch));
}

START_TEST(access_times)
{
	time_t now = fs_now().tv_sec;
	struct fs_options opt;
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "f");
	set_times(in, now - 100, now - 50);
	fs_touch_atime(in);
	ck_assert_int_ge(in->atime.tv_sec, now);
	set_times(in, now - 50, now - 100);
	fs_touch_atime(in);
	ck_assert_int_eq(in->atime.tv_sec, now - 50);
	set_times(in, now - 90000, now - 100000);
	fs_touch_atime(in);
	ck_assert_int_ge(atime_on_disk(in).tv_sec, now);
	set_times(in, now - 50, now - 100);
	m.fs->opt.atime = ATIME_STRICT;
	fs_touch_atime(in);
	ck_assert_int_ge(in->atime.tv_sec, now);
	set_times(in, now - 50, now - 100);
	m.fs->opt.lazytime = true;
	fs_touch_atime(in);
	ck_assert_int_ge(in->atime.tv_sec, now);
	ck_assert_int_eq(atime_on_disk(in).tv_sec, now - 50);
	ck_assert_uint_eq(inode_lazy_count(m.fs), 1);
	inode_put(in);
	inode_put(m.root);
	unit_ok(inode_flush_lazy(m.fs));
	unit_ok(inode_get(m.fs, m.fs->root_subvol, INO_ROOT, &m.root));
	fs_options_init(&opt);
	opt.atime = ATIME_NONE;
	mounted_again(&m, &opt);
	unit_ok(fs_lookup(m.root, "f", &in));
	ck_assert_int_ge(in->atime.tv_sec, now);
	set_times(in, 5, 10);
	fs_touch_atime(in);
	ck_assert_int_eq(in->atime.tv_sec, 5);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

START_TEST(modes_killed)
{
	struct attr_change ch = { .valid = ATTR_CH_KILL_SUID };
	struct mounted m;
	struct inode *in;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = make(m.root, "x", S_IFREG | S_ISUID | S_ISGID | 0755);
	unit_ok(fs_setattr(in, &ch));
	ck_assert_uint_eq(in->mode, S_IFREG | 0755);
	inode_put(in);
	in = make(m.root, "y", S_IFREG | S_ISUID | S_ISGID | 0705);
	unit_ok(fs_setattr(in, &ch));
	ck_assert_uint_eq(in->mode, S_IFREG | S_ISGID | 0705);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

struct count {
	unsigned n;
	uint64_t last, standin;
};

static int count_entries(const struct dir_entry *e, void *arg)
{
	struct count *c = arg;

	c->n++;
	c->last = e->cookie;
	if (ino_is_standin(e->id.ino))
		c->standin = e->id.ino;
	return 0;
}

/* An entry of a subvolume that is not there. */
START_TEST(stand_ins)
{
	struct name_new e = { .name = "sub", .name_len = 3, .type = FT_DIR,
			      .location = key_make(999, KEY_ROOT_ITEM, UINT64_MAX) };
	struct attr_change ch = { .valid = ATTR_CH_MODE };
	struct count c = {0};
	struct txn_handle tx;
	struct mounted m;
	struct inode *in, *up;
	struct stat st;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	unit_ok(txn_start(m.fs, &tx, 3, RSV_NORMAL));
	unit_ok(name_add(&tx, m.fs->env, m.root->sv->tree, INO_ROOT, KEY_DIR_ITEM, &e));
	unit_ok(dir_index_add(&tx, m.root->sv->tree, INO_ROOT, 7, &e));
	rwlock_wrlock(&m.root->lock);
	m.root->size = m.root->disk_size = 6;
	unit_ok(inode_store(&tx, m.root));
	rwlock_wrunlock(&m.root->lock);
	txn_end(m.fs, &tx);

	unit_ok(fs_lookup(m.root, "sub", &in));
	unit_ok(fs_getattr(in, &st));
	ck_assert_uint_eq(st.st_ino, 2);
	ck_assert_uint_eq(st.st_mode, S_IFDIR | 0755);
	ck_assert_int_eq(st.st_size, 0);
	unit_ok(fs_readdir(in, 0, count_entries, &c));
	ck_assert_uint_eq(c.n, 2);
	unit_ok(fs_parent(in, &up));
	ck_assert_ptr_eq(up, m.root);
	inode_put(up);
	unit_err(fs_lookup(in, "x", &up), -ENOENT);
	unit_err(fs_unlink(in, "x"), -ENOENT);
	unit_err(fs_mknod(in, "x", S_IFREG, 0, nobody, &up), -EROFS);
	unit_err(fs_setattr(in, &ch), -EROFS);
	unit_err(fs_setxattr(in, "user.a", "b", 1, 0), -EROFS);
	ck_assert_int_eq(fs_listxattr(in, NULL, 0), 0);
	unit_err(fs_rename(m.root, "sub", m.root, "x", 0), -ENOTEMPTY);
	unit_err(fs_unlink(m.root, "sub"), -EISDIR);
	unit_ok(fs_readdir(m.root, 0, count_entries, &c));
	ck_assert_uint_eq(c.standin, in->ino);
	inode_put(in);
	unit_ok(fs_rmdir(m.root, "sub"));
	unit_err(fs_lookup(m.root, "sub", &in), -ENOENT);
	ck_assert_uint_eq(m.root->size, 0);
	mounted_done(&m);
}
END_TEST

/* Cookies stay good, and new entries come after those that were seen. */
START_TEST(cookies)
{
	struct count c = {0}, again = {0};
	struct mounted m;
	char name[16];

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	for (unsigned i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		inode_put(mounted_file(&m, name));
	}
	unit_ok(fs_readdir(m.root, 0, count_entries, &c));
	ck_assert_uint_eq(c.n, 1002);
	for (unsigned i = 0; i < 999; i += 2) {
		snprintf(name, sizeof(name), "f%u", i);
		unit_ok(fs_unlink(m.root, name));
	}
	unit_ok(fs_readdir(m.root, c.last, count_entries, &again));
	ck_assert_uint_eq(again.n, 0);
	inode_put(mounted_file(&m, "f0"));
	unit_ok(fs_readdir(m.root, c.last, count_entries, &again));
	ck_assert_uint_eq(again.n, 1);
	ck_assert_uint_gt(again.last, c.last);
	again.n = 0;
	unit_ok(fs_readdir(m.root, UINT64_MAX, count_entries, &again));
	ck_assert_uint_eq(again.n, 0);
	mounted_done(&m);
}
END_TEST

START_TEST(xattr_limits)
{
	scoped(freep) char *big = calloc(1, 70000);
	char name[XATTR_NAME_MAX_BYTES + 2], list[64];
	struct mounted m;
	struct inode *in;
	uint32_t max;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = mounted_file(&m, "f");
	max = tree_max_item_size(m.fs->env) - (uint32_t)sizeof(struct disk_dir_item) - 6;
	ck_assert(in->no_xattrs);
	unit_err((int)fs_getxattr(in, "user.a", NULL, 0), -ENODATA);
	unit_err(fs_setxattr(in, "user.a", big, 70000, 0), -E2BIG);
	unit_err(fs_setxattr(in, "user.a", big, max + 1, 0), -ENOSPC);
	unit_ok(fs_setxattr(in, "user.a", big, max, 0));
	ck_assert_int_eq(fs_getxattr(in, "user.a", NULL, 0), max);
	unit_err((int)fs_getxattr(in, "user.a", big, max - 1), -ERANGE);
	unit_err(fs_setxattr(in, "user.a", "", 0, XATTR_CREATE), -EEXIST);
	unit_ok(fs_setxattr(in, "user.a", "", 0, XATTR_REPLACE));
	ck_assert_int_eq(fs_getxattr(in, "user.a", big, 10), 0);
	unit_err(fs_setxattr(in, "user.b", "", 0, XATTR_REPLACE), -ENODATA);
	unit_err(fs_setxattr(in, "other.b", "", 0, 0), -EOPNOTSUPP);
	unit_err(fs_setxattr(in, "user.", "", 0, 0), -EOPNOTSUPP);
	memset(name, 'n', sizeof(name));
	memcpy(name, "user.", 5);
	name[XATTR_NAME_MAX_BYTES + 1] = '\0';
	unit_err(fs_setxattr(in, name, "", 0, 0), -ERANGE);
	name[XATTR_NAME_MAX_BYTES] = '\0';
	unit_ok(fs_setxattr(in, name, "", 0, 0));
	ck_assert_int_eq(fs_listxattr(in, NULL, 0), 7 + 256);
	unit_err((int)fs_listxattr(in, list, sizeof(list)), -ERANGE);
	unit_ok(fs_removexattr(in, name));
	unit_err(fs_removexattr(in, name), -ENODATA);
	ck_assert_int_eq(fs_listxattr(in, list, sizeof(list)), 7);
	ck_assert_mem_eq(list, "user.a", 7);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

/* More inodes than the cache keeps: each is read again as it was. */
START_TEST(more_inodes_than_cached)
{
	struct mounted m;
	char name[16];

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	for (unsigned i = 0; i < 20000; i++) {
		struct inode *in;

		snprintf(name, sizeof(name), "f%u", i);
		in = make(m.root, name, S_IFREG | (i % 01000));
		inode_put(in);
	}
	for (unsigned i = 0; i < 20000; i++) {
		struct inode *in, *twice;

		snprintf(name, sizeof(name), "f%u", i);
		unit_ok(fs_lookup(m.root, name, &in));
		unit_ok(inode_get(m.fs, in->sv->id, in->ino, &twice));
		ck_assert_ptr_eq(in, twice);
		ck_assert_uint_eq(in->mode, S_IFREG | (i % 01000));
		inode_put(twice);
		inode_put(in);
	}
	unit_err(inode_get(m.fs, m.fs->root_subvol, 255, &(struct inode *){NULL}), -ENOENT);
	unit_err(inode_get(m.fs, m.fs->root_subvol, 100000, &(struct inode *){NULL}), -ENOENT);
	unit_err(inode_get(m.fs, 12345, 257, &(struct inode *){NULL}), -ENOENT);
	mounted_done(&m);
}
END_TEST

static int count_name(struct ino_id dir, const char *name, size_t len, void *arg)
{
	ck_assert_uint_eq(dir.ino, INO_ROOT);
	ck_assert_uint_eq(len, 1);
	ck_assert_int_eq(name[0], 'f');
	++*(unsigned *)arg;
	return 0;
}

START_TEST(names_of_an_inode)
{
	struct mounted m;
	struct inode *in;
	unsigned n = 0;

	mounted_new(&m, DEVICE_BYTES, NULL, NULL);
	in = make(m.root, "f", S_IFREG | 0644);
	unit_ok(inode_for_each_name(in, count_name, &n));
	ck_assert_uint_eq(n, 1);
	unit_ok(inode_for_each_name(m.root, count_name, &n));
	ck_assert_uint_eq(n, 1);
	inode_put(in);
	mounted_done(&m);
}
END_TEST

UNIT_MAIN("names", flags_forbid, handed_on, loops, as_many_links_as_there_may_be,
	  orphans_go_after_a_crash, forgotten_at_once, access_times, modes_killed, stand_ins, cookies,
	  xattr_limits, more_inodes_than_cached, names_of_an_inode)
