/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/model/compare.c - is the filesystem what the model says? And a model from a filesystem.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/run.h"

#define LIST_MAX 65536u

struct inode *run_inode(struct run *r, uint32_t node)
{
	struct mnode *n = model_node(&r->now, node);
	struct inode *in = NULL;
	int err = inode_get(r->fs, n->subvol, n->ino, &in);

	if (err < 0)
		run_failed(r, "inode %llu of subvolume %llu: %s", (unsigned long long)n->ino,
			   (unsigned long long)n->subvol, strerror(-err));
	return in;
}

/* --- attributes ---------------------------------------------------------------------------------- */

static void differ(struct run *r, const struct mnode *n, const char *what, uint64_t got,
		   uint64_t wanted)
{
	run_failed(r, "inode %llu of subvolume %llu: %s is %llu, must be %llu",
		   (unsigned long long)n->ino, (unsigned long long)n->subvol, what,
		   (unsigned long long)got, (unsigned long long)wanted);
}

static void compare_time(struct run *r, const struct mnode *n, const char *what,
			 struct timespec got, struct timespec wanted)
{
	if (got.tv_sec != wanted.tv_sec)
		differ(r, n, what, (uint64_t)got.tv_sec, (uint64_t)wanted.tv_sec);
	if (got.tv_nsec != wanted.tv_nsec)
		differ(r, n, what, (uint64_t)got.tv_nsec, (uint64_t)wanted.tv_nsec);
}

static void compare_stat(struct run *r, const struct mnode *n, struct inode *in)
{
	struct stat st;

	check_err(r, fs_getattr(in, &st), 0, "getattr");
	if (st.st_ino != n->ino)
		differ(r, n, "the number", st.st_ino, n->ino);
	if (st.st_mode != n->mode)
		differ(r, n, "the mode", st.st_mode, n->mode);
	if (st.st_nlink != n->nlink)
		differ(r, n, "the link count", st.st_nlink, n->nlink);
	if (st.st_uid != n->uid)
		differ(r, n, "the owner", st.st_uid, n->uid);
	if (st.st_gid != n->gid)
		differ(r, n, "the group", st.st_gid, n->gid);
	if (st.st_rdev != n->rdev)
		differ(r, n, "the device", st.st_rdev, n->rdev);
	if ((uint64_t)st.st_size != n->size)
		differ(r, n, "the size", (uint64_t)st.st_size, n->size);
	compare_time(r, n, "atime", st.st_atim, n->atime);
	compare_time(r, n, "mtime", st.st_mtim, n->mtime);
	compare_time(r, n, "ctime", st.st_ctim, n->ctime);
}

static void compare_data(struct run *r, const struct mnode *n, struct inode *in)
{
	ssize_t got = fs_read(in, 0, r->buf, n->size + 1);

	if (got != (ssize_t)n->size)
		differ(r, n, "the length read", (uint64_t)got, n->size);
	for (size_t i = 0; i < n->size; i++)
		if (r->buf[i] != n->data[i])
			run_failed(r, "inode %llu of subvolume %llu: byte %zu of %zu is %02x, must be %02x",
				   (unsigned long long)n->ino, (unsigned long long)n->subvol, i, n->size,
				   r->buf[i], n->data[i]);
}

static void compare_xattrs(struct run *r, struct mnode *n, struct inode *in)
{
	scoped(freep) char *list = xmalloc(LIST_MAX);
	scoped(freep) uint8_t *value = xmalloc(XATTR_VALUE_MAX_BYTES);
	ssize_t len = fs_listxattr(in, list, LIST_MAX);
	unsigned count = 0;

	if (len < 0)
		run_failed(r, "listxattr of inode %llu: %s", (unsigned long long)n->ino,
			   strerror((int)-len));
	check_err(r, fs_listxattr(in, NULL, 0), len, "listxattr for the size");
	for (char *p = list; p < list + len; p += strlen(p) + 1, count++) {
		struct mxattr *x = model_xattr(n, p);
		ssize_t got;

		if (x == NULL)
			run_failed(r, "inode %llu has an xattr %s", (unsigned long long)n->ino, p);
		got = fs_getxattr(in, p, value, XATTR_VALUE_MAX_BYTES);
		if (got != (ssize_t)x->len || memcmp(value, x->value, x->len) != 0)
			run_failed(r, "inode %llu: xattr %s has another value (%zd bytes, must be %zu)",
				   (unsigned long long)n->ino, p, got, x->len);
	}
	if (count != n->xattr_count)
		differ(r, n, "the number of xattrs", count, n->xattr_count);
}

static void compare_link(struct run *r, const struct mnode *n, struct inode *in)
{
	scoped(freep) char *target = xmalloc(n->size + 2);

	check_err(r, fs_readlink(in, target, n->size + 2), 0, "readlink");
	if (strlen(target) != n->size || memcmp(target, n->data, n->size) != 0)
		run_failed(r, "symbolic link %llu has another target", (unsigned long long)n->ino);
}

/* --- directories --------------------------------------------------------------------------------- */

struct listing {
	struct run *r;
	struct mnode *dir;
	bool *seen;			/* one for each entry of the model */
	unsigned dots, names;
	uint64_t cookie;
	bool stopped;
};

static int take_entry(const struct dir_entry *e, void *arg)
{
	struct listing *l = arg;
	char name[NAME_MAX_BYTES + 1];
	struct mnode *child;
	unsigned i;

	if (e->cookie <= l->cookie)
		run_failed(l->r, "readdir: cookie %llu after %llu", (unsigned long long)e->cookie,
			   (unsigned long long)l->cookie);
	if (one_in(l->r, 20)) {
		l->stopped = true;
		return 1;		/* this entry is told again */
	}
	l->cookie = e->cookie;
	if (e->name[0] == '.' && (e->name_len == 1 || (e->name_len == 2 && e->name[1] == '.'))) {
		l->dots++;
		return 0;
	}
	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	for (i = 0; i < l->dir->entry_count; i++)
		if (strcmp(l->dir->entries[i].name, name) == 0)
			break;
	if (i == l->dir->entry_count)
		run_failed(l->r, "directory %llu has an entry %s", (unsigned long long)l->dir->ino, name);
	if (l->seen[i])
		run_failed(l->r, "directory %llu lists %s twice", (unsigned long long)l->dir->ino, name);
	l->seen[i] = true;
	l->names++;
	child = model_node(&l->r->now, l->dir->entries[i].node);
	if (!child->opaque && (e->id.ino != child->ino || e->id.subvol != child->subvol))
		run_failed(l->r, "%s is inode %llu, must be %llu", name, (unsigned long long)e->id.ino,
			   (unsigned long long)child->ino);
	if (!child->opaque && e->type != (child->mode & S_IFMT) >> 12)
		differ(l->r, child, "the type in the directory", e->type, (child->mode & S_IFMT) >> 12);
	return 0;
}

static void compare_dir(struct run *r, uint32_t node, struct inode *in)
{
	struct mnode *dir = model_node(&r->now, node);
	scoped(freep) bool *seen = xmalloc(dir->entry_count);
	struct listing l = { .r = r, .dir = dir, .seen = seen };
	struct inode *parent = NULL;

	memset(seen, 0, dir->entry_count);
	do {
		l.stopped = false;
		check_err(r, fs_readdir(in, l.cookie, take_entry, &l), 0, "readdir");
	} while (l.stopped);
	if (l.dots != 2)
		differ(r, dir, "the number of . and ..", l.dots, 2);
	if (l.names != dir->entry_count)
		differ(r, dir, "the number of entries", l.names, dir->entry_count);
	for (unsigned i = 0; i < dir->entry_count; i++) {
		struct mnode *child = model_node(&r->now, dir->entries[i].node);
		struct inode *found = NULL;

		check_err(r, fs_lookup(in, dir->entries[i].name, &found), 0, "lookup");
		if (!child->opaque && (found->ino != child->ino || found->sv->id != child->subvol))
			run_failed(r, "lookup of %s gave inode %llu, must be %llu", dir->entries[i].name,
				   (unsigned long long)found->ino, (unsigned long long)child->ino);
		inode_put(found);
	}
	if (dir->nlink == 0 || node == r->now.root)
		return;
	check_err(r, fs_lookup(in, "..", &parent), 0, "lookup of ..");
	if (parent->ino != model_node(&r->now, dir->parent)->ino)
		differ(r, dir, "the parent", parent->ino, model_node(&r->now, dir->parent)->ino);
	inode_put(parent);
}

void compare_node(struct run *r, uint32_t node)
{
	struct mnode *n = model_node(&r->now, node);
	scoped(inode_putp) struct inode *in = NULL;

	if (!n->live || n->opaque)
		return;
	in = run_inode(r, node);
	compare_stat(r, n, in);
	compare_xattrs(r, n, in);
	if (S_ISREG(n->mode))
		compare_data(r, n, in);
	else if (S_ISLNK(n->mode))
		compare_link(r, n, in);
	else if (S_ISDIR(n->mode))
		compare_dir(r, node, in);
}

void compare_all(struct run *r)
{
	for (uint32_t i = 0; i < r->now.count; i++)
		compare_node(r, i);
}

/* --- loading ------------------------------------------------------------------------------------- */

static void load_xattrs(struct run *r, struct mnode *n, struct inode *in)
{
	scoped(freep) char *list = xmalloc(LIST_MAX);
	scoped(freep) uint8_t *value = xmalloc(XATTR_VALUE_MAX_BYTES);
	ssize_t len = fs_listxattr(in, list, LIST_MAX);

	if (len < 0)
		run_failed(r, "listxattr: %s", strerror((int)-len));
	for (char *p = list; p < list + len; p += strlen(p) + 1) {
		ssize_t got = fs_getxattr(in, p, value, XATTR_VALUE_MAX_BYTES);

		if (got < 0)
			run_failed(r, "getxattr: %s", strerror((int)-got));
		model_set_xattr(n, p, value, (size_t)got);
	}
}

static void load_stat(struct run *r, struct mnode *n, struct inode *in)
{
	struct stat st;

	check_err(r, fs_getattr(in, &st), 0, "getattr");
	n->subvol = in->sv->id;
	n->ino = in->ino;
	n->subvol_root = in->ino == INO_ROOT;
	n->rdonly = in->sv->rdonly;
	n->mode = st.st_mode;
	n->uid = st.st_uid;
	n->gid = st.st_gid;
	n->nlink = (uint32_t)st.st_nlink;
	n->rdev = st.st_rdev;
	n->size = (size_t)st.st_size;
	n->atime = st.st_atim;
	n->mtime = st.st_mtim;
	n->ctime = st.st_ctim;
}

static void load_contents(struct run *r, struct mnode *n, struct inode *in)
{
	if (S_ISREG(n->mode)) {
		if (n->size > r->opt.file_max)
			run_failed(r, "file of %zu bytes: give a greater --file-max", n->size);
		n->data = xmalloc(n->size);
		if (fs_read(in, 0, n->data, n->size) != (ssize_t)n->size)
			run_failed(r, "cannot read inode %llu", (unsigned long long)n->ino);
	} else if (S_ISLNK(n->mode)) {
		n->data = xmalloc(n->size + 1);
		check_err(r, fs_readlink(in, (char *)n->data, n->size + 1), 0, "readlink");
	}
	load_xattrs(r, n, in);
}

struct loading {
	struct run *r;
	uint32_t dir;
};

static int load_entry(const struct dir_entry *e, void *arg)
{
	struct loading *l = arg;
	struct model *m = &l->r->now;
	scoped(inode_putp) struct inode *in = NULL;
	char name[NAME_MAX_BYTES + 1];
	uint32_t node = NO_NODE;

	if (e->cookie <= 2)
		return 0;
	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	for (uint32_t i = 0; i < m->count; i++)
		if (m->nodes[i].live && m->nodes[i].ino == e->id.ino &&
		    m->nodes[i].subvol == e->id.subvol)
			node = i;
	if (node == NO_NODE) {
		check_err(l->r, inode_get(l->r->fs, e->id.subvol, e->id.ino, &in), 0, "inode_get");
		node = model_add(m, in->mode);
		load_stat(l->r, &m->nodes[node], in);
		if (ino_is_standin(in->ino))
			m->nodes[node].opaque = true;
		else
			load_contents(l->r, &m->nodes[node], in);
	}
	model_enter(m, l->dir, name, node);
	return 0;
}

/* Nodes are appended while their directories are listed, so one pass over the table does all. */
void load_all(struct run *r)
{
	struct inode *root = NULL;

	check_err(r, inode_get(r->fs, r->fs->root_subvol, INO_ROOT, &root), 0, "inode_get of the root");
	r->now.root = model_add(&r->now, root->mode);
	load_stat(r, model_node(&r->now, r->now.root), root);
	load_contents(r, model_node(&r->now, r->now.root), root);
	inode_put(root);
	for (uint32_t i = 0; i < r->now.count; i++) {
		struct loading l = { r, i };
		struct inode *in;

		if (!S_ISDIR(r->now.nodes[i].mode) || r->now.nodes[i].opaque)
			continue;
		in = run_inode(r, i);
		check_err(r, fs_readdir(in, 0, load_entry, &l), 0, "readdir");
		inode_put(in);
	}
}
