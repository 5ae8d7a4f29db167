/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/model/model.c - a POSIX tree in memory; see model.h.
 */
#include "tests/model/model.h"

#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/csum.h"
#include "io/format.h"
#include "io/util.h"

void *xmalloc(size_t bytes)
{
	return xrealloc(NULL, bytes);
}

void *xrealloc(void *p, size_t bytes)
{
	void *n = realloc(p, bytes ? bytes : 1);

	if (n == NULL) {
		fprintf(stderr, "model: out of memory\n");
		exit(2);
	}
	return n;
}

void *xmemdup(const void *p, size_t bytes)
{
	void *n = xmalloc(bytes);

	if (bytes != 0)
		memcpy(n, p, bytes);
	return n;
}

static char *xstrdup(const char *s)
{
	return xmemdup(s, strlen(s) + 1);
}

void model_init(struct model *m, uint32_t item_max)
{
	*m = (struct model){ .item_max = item_max };
}

static void node_clear(struct mnode *n)
{
	for (unsigned i = 0; i < n->entry_count; i++)
		free(n->entries[i].name);
	for (unsigned i = 0; i < n->xattr_count; i++) {
		free(n->xattrs[i].name);
		free(n->xattrs[i].value);
	}
	free(n->entries);
	free(n->xattrs);
	free(n->data);
	*n = (struct mnode){0};
}

void model_done(struct model *m)
{
	for (uint32_t i = 0; i < m->count; i++)
		node_clear(&m->nodes[i]);
	free(m->nodes);
	*m = (struct model){0};
}

static void node_copy(struct mnode *to, const struct mnode *from)
{
	*to = *from;
	if (!from->live) {
		*to = (struct mnode){0};
		return;
	}
	to->data = from->data ? xmemdup(from->data, from->size) : NULL;
	to->entry_cap = from->entry_count;
	to->entries = xmalloc(from->entry_count * sizeof(*to->entries));
	for (unsigned i = 0; i < from->entry_count; i++)
		to->entries[i] = (struct mentry){ xstrdup(from->entries[i].name),
						  from->entries[i].node };
	to->xattrs = xmalloc(from->xattr_count * sizeof(*to->xattrs));
	for (unsigned i = 0; i < from->xattr_count; i++)
		to->xattrs[i] = (struct mxattr){ xstrdup(from->xattrs[i].name),
			xmemdup(from->xattrs[i].value, from->xattrs[i].len), from->xattrs[i].len };
}

void model_copy(struct model *to, const struct model *from)
{
	model_done(to);
	*to = *from;
	to->cap = from->count;
	to->nodes = xmalloc(from->count * sizeof(*to->nodes));
	for (uint32_t i = 0; i < from->count; i++)
		node_copy(&to->nodes[i], &from->nodes[i]);
}

void model_drop_held(struct model *m)
{
	for (uint32_t i = 0; i < m->count; i++) {
		struct mnode *n = &m->nodes[i];

		n->held = false;
		if (n->live && n->nlink == 0)
			node_clear(n);
	}
}

void model_drop(struct model *m, uint32_t node)
{
	node_clear(&m->nodes[node]);
}

uint32_t model_add(struct model *m, uint32_t mode)
{
	uint32_t at = 0;

	while (at < m->count && m->nodes[at].live)
		at++;
	if (at == m->count) {
		if (m->count == m->cap) {
			m->cap = m->cap ? 2 * m->cap : 64;
			m->nodes = xrealloc(m->nodes, m->cap * sizeof(*m->nodes));
		}
		m->count++;
	}
	m->nodes[at] = (struct mnode){ .live = true, .mode = mode, .parent = NO_NODE };
	return at;
}

static struct mentry *find_entry(struct mnode *dir, const char *name)
{
	for (unsigned i = 0; i < dir->entry_count; i++)
		if (strcmp(dir->entries[i].name, name) == 0)
			return &dir->entries[i];
	return NULL;
}

uint32_t model_find(struct model *m, uint32_t dir, const char *name)
{
	struct mentry *e = find_entry(&m->nodes[dir], name);

	return e ? e->node : NO_NODE;
}

void model_enter(struct model *m, uint32_t dir, const char *name, uint32_t node)
{
	struct mnode *d = &m->nodes[dir];

	if (d->entry_count == d->entry_cap) {
		d->entry_cap = d->entry_cap ? 2 * d->entry_cap : 8;
		d->entries = xrealloc(d->entries, d->entry_cap * sizeof(*d->entries));
	}
	d->entries[d->entry_count++] = (struct mentry){ xstrdup(name), node };
	if (S_ISDIR(m->nodes[node].mode))
		m->nodes[node].parent = dir;
}

/* Is there room in the item of the name's hash, not counting `without`? */
static bool hash_room(struct model *m, uint32_t dir, const char *name)
{
	struct mnode *d = &m->nodes[dir];
	uint64_t hash = name_hash(name, strlen(name));
	size_t used = sizeof(struct disk_dir_item) + strlen(name);

	for (unsigned i = 0; i < d->entry_count; i++) {
		const char *other = d->entries[i].name;

		if (name_hash(other, strlen(other)) == hash)
			used += sizeof(struct disk_dir_item) + strlen(other);
	}
	return used <= m->item_max;
}

static int dir_writable(const struct mnode *d)
{
	if (!S_ISDIR(d->mode))
		return -ENOTDIR;
	if (d->rdonly)
		return -EROFS;
	return d->nlink == 0 ? -ENOENT : 0;
}

int model_may_add(struct model *m, uint32_t dir, const char *name)
{
	int err;

	if (strlen(name) > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	err = dir_writable(&m->nodes[dir]);
	if (err < 0)
		return err;
	if (find_entry(&m->nodes[dir], name) != NULL)
		return -EEXIST;
	return hash_room(m, dir, name) ? 0 : -EOVERFLOW;
}

void model_link(struct model *m, uint32_t dir, const char *name, uint32_t node)
{
	model_enter(m, dir, name, node);
	m->nodes[dir].size += 2 * strlen(name);
	m->nodes[node].nlink++;
}

static void lose_name(struct mnode *n)
{
	n->nlink--;
	if (n->nlink == 0 && !n->held)
		node_clear(n);
}

void model_unlink(struct model *m, uint32_t dir, const char *name)
{
	struct mnode *d = &m->nodes[dir];
	struct mentry *e = find_entry(d, name);
	struct mnode *n = &m->nodes[e->node];

	d->size -= 2 * strlen(name);
	free(e->name);
	*e = d->entries[--d->entry_count];
	lose_name(n);
}

int model_may_unlink(struct model *m, uint32_t dir, const char *name, bool dir_wanted)
{
	struct mnode *d = &m->nodes[dir];
	struct mentry *e;
	struct mnode *n;

	if (strlen(name) > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	e = find_entry(d, name);
	if (e == NULL)
		return -ENOENT;
	n = &m->nodes[e->node];
	if (d->rdonly)
		return -EROFS;
	if (dir_wanted != S_ISDIR(n->mode))
		return dir_wanted ? -ENOTDIR : -EISDIR;
	if (dir_wanted && n->entry_count != 0)
		return -ENOTEMPTY;
	return n->subvol_root ? -EPERM : 0;
}

/* Is `dir` the node `top` or below it? Asked within a subvolume, unless `top` is the root of one. */
static bool is_below(struct model *m, uint32_t dir, uint32_t top)
{
	if (m->nodes[dir].subvol != m->nodes[top].subvol && !m->nodes[top].subvol_root)
		return false;
	while (dir != NO_NODE && dir != top)
		dir = m->nodes[dir].parent;
	return dir == top;
}

static int rename_kinds(struct model *m, uint32_t from, uint32_t a, uint32_t to, uint32_t b,
			unsigned flags)
{
	struct mnode *na = &m->nodes[a];
	struct mnode *nb = b == NO_NODE ? NULL : &m->nodes[b];

	if (from != to) {
		if (S_ISDIR(na->mode) && is_below(m, to, a))
			return -EINVAL;
		if (nb && S_ISDIR(nb->mode) && !nb->subvol_root && is_below(m, from, b))
			return flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
	}
	if (m->nodes[from].subvol != m->nodes[to].subvol &&
	    (!na->subvol_root || flags & (RENAME_EXCHANGE | RENAME_WHITEOUT)))
		return -EXDEV;
	if (nb == NULL || flags & RENAME_EXCHANGE)
		return 0;
	if (S_ISDIR(na->mode) != S_ISDIR(nb->mode))
		return S_ISDIR(na->mode) ? -ENOTDIR : -EISDIR;
	if (nb->subvol_root || (S_ISDIR(nb->mode) && nb->entry_count != 0))
		return -ENOTEMPTY;
	return 0;
}

int model_may_rename(struct model *m, uint32_t from, const char *name, uint32_t to,
		     const char *newname, unsigned flags)
{
	uint32_t a, b;
	int err;

	if (strlen(name) > NAME_MAX_BYTES || strlen(newname) > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (flags & RENAME_EXCHANGE && flags & (RENAME_NOREPLACE | RENAME_WHITEOUT))
		return -EINVAL;
	a = model_find(m, from, name);
	b = model_find(m, to, newname);
	if (a == NO_NODE)
		return -ENOENT;
	if (a == b && !(flags & RENAME_NOREPLACE))
		return 0;
	if (m->nodes[from].rdonly)
		return -EROFS;
	if (b != NO_NODE && flags & RENAME_NOREPLACE)
		return -EEXIST;
	if (b == NO_NODE && flags & RENAME_EXCHANGE)
		return -ENOENT;
	err = dir_writable(&m->nodes[to]);
	if (err == 0)
		err = rename_kinds(m, from, a, to, b, flags);
	if (err == 0 && b == NO_NODE && !hash_room(m, to, newname))
		err = -EOVERFLOW;
	return err;
}

static void exchange(struct model *m, uint32_t from, struct mentry *ea, uint32_t to,
		     struct mentry *eb)
{
	uint32_t t = ea->node;

	ea->node = eb->node;
	eb->node = t;
	if (S_ISDIR(m->nodes[ea->node].mode))
		m->nodes[ea->node].parent = from;
	if (S_ISDIR(m->nodes[eb->node].mode))
		m->nodes[eb->node].parent = to;
}

bool model_rename(struct model *m, uint32_t from, const char *name, uint32_t to,
		  const char *newname, unsigned flags, uint32_t *ret_whiteout)
{
	uint32_t a = model_find(m, from, name), b = model_find(m, to, newname);

	*ret_whiteout = NO_NODE;
	if (a == b)
		return false;
	if (flags & RENAME_EXCHANGE) {
		exchange(m, from, find_entry(&m->nodes[from], name), to,
			 find_entry(&m->nodes[to], newname));
		return true;
	}
	if (b != NO_NODE)
		model_unlink(m, to, newname);
	model_link(m, to, newname, a);
	model_unlink(m, from, name);
	if (flags & RENAME_WHITEOUT) {
		*ret_whiteout = model_add(m, S_IFCHR);
		m->nodes[*ret_whiteout].subvol = m->nodes[from].subvol;
		m->nodes[*ret_whiteout].uid = m->nodes[a].uid;
		m->nodes[*ret_whiteout].gid =
			m->nodes[from].mode & S_ISGID ? m->nodes[from].gid : m->nodes[a].gid;
		model_link(m, from, name, *ret_whiteout);
	}
	return true;
}

void model_resize(struct mnode *n, size_t size)
{
	n->data = xrealloc(n->data, size);
	if (size > n->size)
		memset(n->data + n->size, 0, size - n->size);
	n->size = size;
}

struct mxattr *model_xattr(struct mnode *n, const char *name)
{
	for (unsigned i = 0; i < n->xattr_count; i++)
		if (strcmp(n->xattrs[i].name, name) == 0)
			return &n->xattrs[i];
	return NULL;
}

void model_set_xattr(struct mnode *n, const char *name, const void *value, size_t len)
{
	struct mxattr *x = model_xattr(n, name);

	if (x == NULL) {
		n->xattrs = xrealloc(n->xattrs, (n->xattr_count + 1) * sizeof(*n->xattrs));
		x = &n->xattrs[n->xattr_count++];
		*x = (struct mxattr){ .name = xstrdup(name) };
	}
	free(x->value);
	x->value = xmemdup(value, len);
	x->len = len;
}

bool model_remove_xattr(struct mnode *n, const char *name)
{
	struct mxattr *x = model_xattr(n, name);

	if (x == NULL)
		return false;
	free(x->name);
	free(x->value);
	*x = n->xattrs[--n->xattr_count];
	return true;
}
