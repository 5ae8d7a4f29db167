/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/exercise.c - uses a filesystem that may be anything: reads all of it within limits, then
 * writes to it.
 *
 * Limits: folders may loop, sizes may be near 2^63, so the walk counts entries, names below a folder,
 * bytes and extents, and ends when one is used up. Nothing that the filesystem answers is judged.
 */
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "fs/names.h"
#include "fs/ops.h"
#include "fs/txn.h"
#include "io/util.h"
#include "tests/fuzz/fuzz_image.h"

#define ENTRIES_MAX 400u		/* looked at in all */
#define DIR_ENTRIES_MAX 64u		/* of one directory */
#define DEPTH_MAX 12u
#define FILE_STEPS_MAX 16u		/* data ranges read of one file */
#define READ_BYTES 8192u
#define XATTRS_BYTES 4096u
#define DIRS_WRITTEN_MAX 4u
#define OLD_CHANGED_MAX 24u		/* old entries removed or changed in one directory */
#define WRITE_BYTES 100000u

struct place {
	struct ino_id id;
	unsigned depth;
};

struct walk {
	struct fs *fs;
	struct place dirs[ENTRIES_MAX];
	unsigned dir_count, entries;
	uint8_t buf[WRITE_BYTES];
	char xattrs[XATTRS_BYTES];
};

struct names {
	unsigned count;
	char name[DIR_ENTRIES_MAX][NAME_MAX_BYTES + 1];
};

static int note_entry(const struct dir_entry *e, void *arg)
{
	struct names *n = arg;

	if (n->count == DIR_ENTRIES_MAX)
		return 1;
	memcpy(n->name[n->count], e->name, e->name_len);
	n->name[n->count++][e->name_len] = '\0';
	return 0;
}

static int some_name(struct ino_id dir, const char *name, size_t len, void *arg)
{
	(void)dir, (void)name, (void)len;
	return ++*(unsigned *)arg == DIR_ENTRIES_MAX;
}

static void read_data(struct walk *w, struct inode *in)
{
	uint64_t at = 0;

	for (unsigned i = 0; i < FILE_STEPS_MAX; i++) {
		int64_t data = fs_seek(in, at, true), hole;

		if (data < 0)
			break;
		fs_read(in, (uint64_t)data, w->buf, READ_BYTES);
		hole = fs_seek(in, (uint64_t)data, false);
		if (hole <= data)
			break;
		fs_read(in, (uint64_t)hole - 1, w->buf, READ_BYTES);
		at = (uint64_t)hole;
	}
	fs_read(in, 0, w->buf, WRITE_BYTES);
	if (in->size > READ_BYTES)
		fs_read(in, in->size - READ_BYTES, w->buf, READ_BYTES);
	fs_read(in, in->size / 2, w->buf, READ_BYTES);
}

static void read_xattrs(struct walk *w, struct inode *in)
{
	ssize_t len = fs_listxattr(in, w->xattrs, sizeof(w->xattrs));

	for (ssize_t at = 0; at < len; at += (ssize_t)strlen(w->xattrs + at) + 1)
		fs_getxattr(in, w->xattrs + at, w->buf, sizeof(w->buf));
	fs_getxattr(in, "user.absent", NULL, 0);
}

static void look_at(struct walk *w, struct inode *in, unsigned depth)
{
	unsigned names = 0;
	struct stat st;

	w->entries++;
	fs_getattr(in, &st);
	read_xattrs(w, in);
	inode_for_each_name(in, some_name, &names);
	if (S_ISREG(in->mode))
		read_data(w, in);
	else if (S_ISLNK(in->mode))
		fs_readlink(in, (char *)w->buf, sizeof(w->buf));
	else if (S_ISDIR(in->mode) && depth < DEPTH_MAX && w->dir_count < ENTRIES_MAX)
		w->dirs[w->dir_count++] = (struct place){ { in->sv->id, in->ino }, depth };
}

static void look_into(struct walk *w, const struct place *p)
{
	scoped(inode_putp) struct inode *dir = NULL;
	scoped(inode_putp) struct inode *parent = NULL;
	scoped(freep) struct names *n = calloc(1, sizeof(*n));

	if (n == NULL || inode_get(w->fs, p->id.subvol, p->id.ino, &dir) < 0)
		return;
	fs_parent(dir, &parent);
	fs_readdir(dir, 0, note_entry, n);
	for (unsigned i = 0; i < n->count && w->entries < ENTRIES_MAX; i++) {
		scoped(inode_putp) struct inode *in = NULL;

		if (strcmp(n->name[i], ".") != 0 && strcmp(n->name[i], "..") != 0 &&
		    fs_lookup(dir, n->name[i], &in) == 0)
			look_at(w, in, p->depth + 1);
	}
}

static void look_around(struct walk *w)
{
	scoped(inode_putp) struct inode *root = NULL;
	struct statvfs st;

	fs_statfs(w->fs, &st);
	if (inode_get(w->fs, w->fs->root_subvol, INO_ROOT, &root) < 0)
		return;
	look_at(w, root, 0);
	for (unsigned i = 0; i < w->dir_count && w->entries < ENTRIES_MAX; i++)
		look_into(w, &w->dirs[i]);
}

static void change_old(struct walk *w, struct inode *dir, const char *name, unsigned i)
{
	struct attr_change ch = { .valid = ATTR_CH_SIZE };
	scoped(inode_putp) struct inode *in = NULL;
	struct ino_id id;

	if (fs_lookup(dir, name, &in) < 0)
		return;
	id = (struct ino_id){ in->sv->id, in->ino };
	if (S_ISREG(in->mode)) {
		fs_write(in, i % 2 ? in->size : in->size / 2, w->buf, READ_BYTES);
		fs_flush_inode(in);
		ch.size = in->size / 3;
		fs_setattr(in, &ch);
	}
	fs_setxattr(in, "user.fuzz", name, strlen(name), 0);
	fs_touch_atime(in);
	if (i % 4 == 1)
		fs_link(in, dir, "fuzz-link");
	if (i % 4 == 2)
		fs_rename(dir, name, dir, "fuzz-renamed", 0);
	else if (S_ISDIR(in->mode) ? fs_rmdir(dir, name) == 0 : fs_unlink(dir, name) == 0)
		fs_forget(w->fs, id);
}

static void make_new(struct walk *w, struct inode *dir)
{
	scoped(inode_putp) struct inode *file = NULL;
	scoped(inode_putp) struct inode *small = NULL;
	scoped(inode_putp) struct inode *link = NULL;
	scoped(inode_putp) struct inode *sub = NULL;
	struct cred who = { 0, 0 };

	if (fs_mknod(dir, "fuzz-file", S_IFREG | 0644, 0, who, &file) == 0) {
		fs_write(file, 0, w->buf, WRITE_BYTES);
		fs_fsync(file, false);
		fs_write(file, WRITE_BYTES / 2, w->buf, READ_BYTES);
	}
	if (fs_mknod(dir, "fuzz-small", S_IFREG | 0644, 0, who, &small) == 0)
		fs_write(small, 0, w->buf, 100);
	fs_symlink(dir, "fuzz-symlink", "somewhere", who, &link);
	fs_mknod(dir, "fuzz-dir", S_IFDIR | 0755, 0, who, &sub);
	if (sub != NULL && small != NULL)
		fs_link(small, sub, "fuzz-link");
}

static void write_around(struct walk *w)
{
	scoped(freep) struct names *n = calloc(1, sizeof(*n));

	for (unsigned i = 0; n != NULL && i < w->dir_count && i < DIRS_WRITTEN_MAX; i++) {
		scoped(inode_putp) struct inode *dir = NULL;

		if (inode_get(w->fs, w->dirs[i].id.subvol, w->dirs[i].id.ino, &dir) < 0)
			continue;
		make_new(w, dir);
		n->count = 0;
		fs_readdir(dir, 2, note_entry, n);
		for (unsigned k = 0; k < n->count && k < OLD_CHANGED_MAX; k++)
			change_old(w, dir, n->name[k], k);
		txn_sync(w->fs);
	}
}

void fuzz_exercise(struct device *dev, bool write)
{
	scoped(freep) struct walk *w = calloc(1, sizeof(*w));
	struct fs_options opt;
	struct reason reason;

	if (w == NULL) {
		device_close(dev);
		return;
	}
	fs_options_init(&opt);
	opt.rdonly = !write;
	opt.nologreplay = !write;
	opt.subvolid = OBJ_FS_TREE;
	if (fs_open(dev, &opt, &w->fs, &reason) == 0) {
		memset(w->buf, 'x', sizeof(w->buf));
		look_around(w);
		if (write)
			write_around(w);
		fs_close(w->fs);
	}
	fs_options_done(&opt);
}
