/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/readdir.c - listing a directory.
 *
 * The walk goes over DIR_INDEX items, whose numbers are given out once, upwards: cookies stay good
 * whatever is made and removed meanwhile. It copies a leaf at a time and takes no inode lock: an
 * entry that is removed while its leaf is walked may still be told, as readdir(3) allows.
 */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include "fs/namei.h"
#include "io/util.h"

#define COOKIE_DOT 1u
#define COOKIE_DOTDOT 2u
#define COOKIE_OF_INDEX(index) ((index) + 1)

typedef int (*entry_fn)(const struct dir_entry *e, void *arg);

/* "." and "..", as far as they come after the cookie. */
static int list_dots(struct inode *dir, uint64_t cookie, entry_fn fn, void *arg)
{
	struct dir_entry e = {
		.name = ".", .name_len = 1, .type = DT_DIR,
		.id = { dir->sv->id, dir->ino }, .cookie = COOKIE_DOT,
	};
	scoped(inode_putp) struct inode *parent = NULL;
	int ret;

	if (cookie < COOKIE_DOT) {
		ret = fn(&e, arg);
		if (ret != 0)
			return ret;
	}
	if (cookie >= COOKIE_DOTDOT)
		return 0;
	/* A directory removed while it is open has no parent any more. */
	if (fs_parent(dir, &parent) == 0)
		e.id = (struct ino_id){ parent->sv->id, parent->ino };
	e.name = "..";
	e.name_len = 2;
	e.cookie = COOKIE_DOTDOT;
	return fn(&e, arg);
}

static int list_entry(struct inode *dir, const struct item *it, entry_fn fn, void *arg)
{
	struct name_entry e;
	struct dir_entry out;
	struct child child;
	int err = name_entry_at(dir->sv->tree, it, 0, &e);

	if (err <= 0)
		return err;
	err = child_resolve(dir, &e, &child);
	if (err < 0)
		return err;
	out = (struct dir_entry){
		.name = e.name,
		.name_len = e.name_len,
		.type = dirent_type_of(e.type & (uint8_t)~FT_ENCRYPTED),
		.id = child.id,
		.cookie = COOKIE_OF_INDEX(it->key.offset),
	};
	return fn(&out, arg);
}

int fs_readdir(struct inode *dir, uint64_t cookie, int (*fn)(const struct dir_entry *e, void *arg),
	       void *arg)
{
	struct key first = key_make(dir->ino, KEY_DIR_INDEX, cookie);
	struct key last = key_make(dir->ino, KEY_DIR_INDEX, INT64_MAX - 1);
	scoped(cursor_done) struct cursor c;
	int got = 0;

	if (first.offset < DIR_INDEX_FIRST)
		first.offset = DIR_INDEX_FIRST;
	cursor_init(&c, dir->sv->tree, &first, &last);
	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	got = list_dots(dir, cookie, fn, arg);
	if (got != 0)
		return got < 0 ? got : 0;
	if (ino_is_standin(dir->ino) || cookie > last.offset)
		return 0;
	while ((got = cursor_next(&c)) > 0) {
		int ret = list_entry(dir, &c.item, fn, arg);

		if (ret != 0)
			return ret < 0 ? ret : 0;
	}
	return got;
}
