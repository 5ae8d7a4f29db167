/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_dir.c - directory listings.
 *
 * Offsets are the engine's cookies, so a listing goes on rightly whatever was deleted meanwhile, and
 * no state is kept between calls: opendir is answered ENOSYS, which also lets the kernel cache the
 * listing. READDIRPLUS counts a lookup for each entry that fitted, but not for "." and "..".
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/fuse.h>
#include <string.h>

#include "fs/fuse_front.h"
#include "io/util.h"

#define LISTING_MAX_BYTES (1u << 20)
#define NO_NUMBER UINT64_MAX		/* st_ino of an entry whose inode has none; never a node id */

void front_opendir(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi)
{
	(void)nodeid;
	(void)fi;
	fuse_reply_err(req, ENOSYS);
}

struct listing {
	struct front *f;
	fuse_req_t req;
	bool plus;
	char *buf;
	size_t size, used;
	int err;
};

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* All that is known from the directory entry alone: number and type. Node id 0: do not look it up. */
static void entry_from_name(struct front *f, const struct dir_entry *e, struct fuse_entry_param *p)
{
	uint64_t number;

	*p = (struct fuse_entry_param){.attr.st_mode = (mode_t)DTTOIF(e->type)};
	p->attr.st_ino = identity_fold(f->mounted, e->id, &number) == 0 ? number : NO_NUMBER;
}

/* An inode that cannot be read is still listed; looking it up will say what is wrong with it. */
static void entry_from_inode(struct front *f, const struct dir_entry *e, struct fuse_entry_param *p)
{
	scoped(inode_putp) struct inode *in = NULL;

	if (inode_get(f->fs, e->id.subvol, e->id.ino, &in) == 0)
		(void)front_fill_entry(f, in, p);
}

static int add_entry(const struct dir_entry *e, void *arg)
{
	struct listing *l = arg;
	struct fuse_entry_param p;
	char name[NAME_MAX + 1];
	char *at = l->buf + l->used;
	size_t room = l->size - l->used, need;

	if (e->name_len > NAME_MAX) {
		l->err = -EUCLEAN;
		return 1;
	}
	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	entry_from_name(l->f, e, &p);
	if (!l->plus) {
		need = fuse_add_direntry(l->req, at, room, name, &p.attr, (off_t)e->cookie);
	} else {
		need = fuse_add_direntry_plus(l->req, NULL, 0, name, NULL, 0);
		if (need > room)
			return 1;
		if (!is_dots(name))
			entry_from_inode(l->f, e, &p);
		if (p.ino != 0 && lookup_add(l->f->lookups, p.ino) < 0)
			p.ino = 0;
		need = fuse_add_direntry_plus(l->req, at, room, name, &p, (off_t)e->cookie);
	}
	if (need > room)
		return 1;
	l->used += need;
	return 0;
}

/* The reply was not taken: the lookups in it did not happen. */
static void uncount(const struct listing *l)
{
	for (size_t at = 0; at + FUSE_NAME_OFFSET_DIRENTPLUS <= l->used;) {
		struct fuse_direntplus d;

		memcpy(&d, l->buf + at, FUSE_NAME_OFFSET_DIRENTPLUS);
		if (d.entry_out.nodeid != 0)
			front_forget(l->f, d.entry_out.nodeid, 1);
		at += FUSE_DIRENTPLUS_SIZE(&d);
	}
}

static void list(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t off, bool plus)
{
	struct listing l = {
		.f = front_of(req),
		.req = req,
		.plus = plus,
		.size = min_size(size, LISTING_MAX_BYTES),
	};
	scoped(inode_putp) struct inode *dir = NULL;
	int err = front_inode(l.f, nodeid, &dir);

	if (err == 0 && !S_ISDIR(dir->mode))
		err = -ENOTDIR;
	if (err == 0) {
		l.buf = front_buffer(l.size);
		err = l.buf != NULL ? fs_readdir(dir, (uint64_t)off, add_entry, &l) : -ENOMEM;
	}
	if (l.err < 0)
		err = l.err;
	if (err < 0 && l.used == 0) {
		front_reply_err(req, err);
		return;
	}
	fs_touch_atime(dir);
	/* An error after the first entries comes again, by itself, with the next request. */
	if (fuse_reply_buf(req, l.buf, l.used) < 0 && plus)
		uncount(&l);
}

void front_readdir(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t off,
		   struct fuse_file_info *fi)
{
	(void)fi;
	list(req, nodeid, size, off, false);
}

void front_readdirplus(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t off,
		       struct fuse_file_info *fi)
{
	(void)fi;
	list(req, nodeid, size, off, true);
}

void front_fsyncdir(fuse_req_t req, fuse_ino_t nodeid, int datasync, struct fuse_file_info *fi)
{
	front_fsync(req, nodeid, datasync, fi);
}
