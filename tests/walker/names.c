/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/names.c - names of inodes from their three sides; see walk.h.
 *
 * A name stands in a DIR_ITEM (by hash), a DIR_INDEX (by number) and, of an inode, in an INODE_REF or
 * INODE_EXTREF. The three must agree in folder, name, child, type and index. The entry of a subvolume
 * has no third side here: the root tree has it.
 */
#include "tests/walker/walk.h"

#include <sys/stat.h>

static struct wname *add_name(struct wname *n, uint64_t dir, const uint8_t *name, uint16_t len)
{
	n->dir = dir;
	n->name = name;
	n->len = len;
	return n;
}

void dir_item_parse(struct walk *w, struct wsubvol *s, const struct witem *it)
{
	bool by_index = it->key.type == KEY_DIR_INDEX;
	uint32_t at = 0;

	while (at < it->size) {
		const struct disk_dir_item *d = (const struct disk_dir_item *)(it->data + at);
		const uint8_t *name = it->data + at + sizeof(*d);
		struct wname *n;
		uint16_t len;

		if (it->size - at < sizeof(*d) ||
		    it->size - at < sizeof(*d) + disk_dir_item_name_len(d) + disk_dir_item_data_len(d)) {
			bad(w, "tree %llu: folder entry " KEY_FMT " ends early", U(s->root->id),
			    KEY_ARGS(&it->key));
			return;
		}
		len = disk_dir_item_name_len(d);
		if (len == 0 || len > NAME_MAX_BYTES || disk_dir_item_data_len(d) != 0 ||
		    disk_dir_item_type(d) == FT_UNKNOWN || disk_dir_item_type(d) >= FT_XATTR ||
		    memchr(name, '/', len) != NULL || memchr(name, 0, len) != NULL)
			bad(w, "tree %llu: folder entry " KEY_FMT " of type %u, a name of %u bytes",
			    U(s->root->id), KEY_ARGS(&it->key), disk_dir_item_type(d), len);
		if (by_index ? at > 0 || it->key.offset < DIR_INDEX_FIRST :
		    it->key.offset != name_hash(name, len))
			bad(w, "tree %llu: folder entry %.*s under key " KEY_FMT, U(s->root->id), len, name,
			    KEY_ARGS(&it->key));
		n = add_name(by_index ? vec_add(&s->indexes) : vec_add(&s->items), it->key.objectid, name,
			     len);
		n->index = by_index ? it->key.offset : 0;
		n->child = disk_key_objectid(&d->location);
		n->type = disk_dir_item_type(d);
		n->is_root = disk_key_type(&d->location) == KEY_ROOT_ITEM;
		if (!n->is_root && (disk_key_type(&d->location) != KEY_INODE_ITEM ||
				    disk_key_offset(&d->location) != 0))
			bad(w, "tree %llu: folder entry " KEY_FMT " leads nowhere", U(s->root->id),
			    KEY_ARGS(&it->key));
		at += (uint32_t)sizeof(*d) + len + disk_dir_item_data_len(d);
	}
}

static void add_ref(struct wsubvol *s, uint64_t dir, uint64_t child, uint64_t index,
		    const uint8_t *name, uint16_t len)
{
	struct wname *n = add_name(vec_add(&s->refs), dir, name, len);

	n->child = child;
	n->index = index;
}

void inode_ref_parse(struct walk *w, struct wsubvol *s, const struct witem *it)
{
	uint32_t at = 0;

	while (at < it->size) {
		const struct disk_inode_ref *d = (const struct disk_inode_ref *)(it->data + at);

		if (it->size - at < sizeof(*d) || disk_inode_ref_name_len(d) == 0 ||
		    it->size - at < sizeof(*d) + disk_inode_ref_name_len(d)) {
			bad(w, "tree %llu: names " KEY_FMT " end early", U(s->root->id),
			    KEY_ARGS(&it->key));
			return;
		}
		add_ref(s, it->key.offset, it->key.objectid, disk_inode_ref_index(d),
			it->data + at + sizeof(*d), disk_inode_ref_name_len(d));
		at += (uint32_t)sizeof(*d) + disk_inode_ref_name_len(d);
	}
}

void inode_extref_parse(struct walk *w, struct wsubvol *s, const struct witem *it)
{
	uint32_t at = 0;

	while (at < it->size) {
		const struct disk_inode_extref *d = (const struct disk_inode_extref *)(it->data + at);
		const uint8_t *name = it->data + at + sizeof(*d);
		uint64_t parent;

		if (it->size - at < sizeof(*d) || disk_inode_extref_name_len(d) == 0 ||
		    it->size - at < sizeof(*d) + disk_inode_extref_name_len(d)) {
			bad(w, "tree %llu: names " KEY_FMT " end early", U(s->root->id),
			    KEY_ARGS(&it->key));
			return;
		}
		parent = disk_inode_extref_parent_objectid(d);
		if (extref_hash(parent, name, disk_inode_extref_name_len(d)) != it->key.offset)
			bad(w, "tree %llu: names " KEY_FMT " under a wrong hash", U(s->root->id),
			    KEY_ARGS(&it->key));
		add_ref(s, parent, it->key.objectid, disk_inode_extref_index(d), name,
			disk_inode_extref_name_len(d));
		at += (uint32_t)sizeof(*d) + disk_inode_extref_name_len(d);
	}
}

void xattr_parse(struct walk *w, uint64_t tree, const struct witem *it)
{
	uint32_t at = 0;

	while (at < it->size) {
		const struct disk_dir_item *d = (const struct disk_dir_item *)(it->data + at);
		const uint8_t *name = it->data + at + sizeof(*d);

		if (it->size - at < sizeof(*d) ||
		    it->size - at < sizeof(*d) + disk_dir_item_name_len(d) + disk_dir_item_data_len(d)) {
			bad(w, "tree %llu: attribute " KEY_FMT " ends early", U(tree), KEY_ARGS(&it->key));
			return;
		}
		if (disk_dir_item_name_len(d) == 0 || disk_dir_item_type(d) != FT_XATTR ||
		    it->key.offset != name_hash(name, disk_dir_item_name_len(d)))
			bad(w, "tree %llu: attribute " KEY_FMT " of type %u, %u bytes of name", U(tree),
			    KEY_ARGS(&it->key), disk_dir_item_type(d), disk_dir_item_name_len(d));
		at += (uint32_t)sizeof(*d) + disk_dir_item_name_len(d) + disk_dir_item_data_len(d);
	}
}

/* --- the three sides ----------------------------------------------------------------------------- */

static int name_cmp(const void *a, const void *b)
{
	const struct wname *x = a, *y = b;
	int c;

	if (x->dir != y->dir)
		return x->dir < y->dir ? -1 : 1;
	c = memcmp(x->name, y->name, min_u32(x->len, y->len));
	return c != 0 ? c : (int)x->len - (int)y->len;
}

struct winode *inode_find(struct wsubvol *s, uint64_t ino)
{
	size_t lo = 0, hi = s->inodes.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (s->inodes.v[mid].ino < ino)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < s->inodes.n && s->inodes.v[lo].ino == ino ? &s->inodes.v[lo] : NULL;
}

static uint8_t type_of_mode(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return FT_REG_FILE;
	case S_IFDIR:
		return FT_DIR;
	case S_IFCHR:
		return FT_CHRDEV;
	case S_IFBLK:
		return FT_BLKDEV;
	case S_IFIFO:
		return FT_FIFO;
	case S_IFSOCK:
		return FT_SOCK;
	case S_IFLNK:
		return FT_SYMLINK;
	default:
		return FT_UNKNOWN;
	}
}

static void name_bad(struct walk *w, const struct wsubvol *s, const struct wname *n, const char *what)
{
	bad(w, "tree %llu: name %.*s in folder %llu, of %llu: %s", U(s->root->id), n->len, n->name,
	    U(n->dir), U(n->child), what);
}

/* item, index, ref: the sides that exist; at least one does. */
static void check_name(struct walk *w, struct wsubvol *s, const struct wname *item,
		       const struct wname *index, const struct wname *ref)
{
	const struct wname *any = item ? item : index ? index : ref;
	const struct wname *entry = item ? item : index;
	const struct winode *dir = inode_find(s, any->dir), *child;
	struct root_name *root;

	if (item == NULL)
		name_bad(w, s, any, "no DIR_ITEM");
	if (index == NULL)
		name_bad(w, s, any, "no DIR_INDEX");
	if (dir == NULL || !S_ISDIR(dir->mode))
		name_bad(w, s, any, "not in a folder");
	if (item != NULL && index != NULL &&
	    (item->child != index->child || item->type != index->type || item->is_root != index->is_root))
		name_bad(w, s, any, "DIR_ITEM and DIR_INDEX differ");
	if (entry != NULL && entry->is_root) {
		root = vec_add(&w->root_entries);
		root->parent = s->root->id;
		root->child = entry->child;
		root->dir = entry->dir;
		root->sequence = index != NULL ? index->index : 0;
		root->name = entry->name;
		root->len = entry->len;
		if (ref != NULL || entry->type != FT_DIR)
			name_bad(w, s, any, "a subvolume with an inode reference, or no folder");
		return;
	}
	if (ref == NULL)
		name_bad(w, s, any, "no INODE_REF");
	else if (entry != NULL && ref->child != entry->child)
		name_bad(w, s, any, "its INODE_REF is another inode's");
	else if (index != NULL && ref->index != index->index)
		name_bad(w, s, any, "INODE_REF has another index");
	child = inode_find(s, any->child);
	if (child == NULL)
		name_bad(w, s, any, "no such inode");
	else if (entry != NULL && entry->type != type_of_mode(child->mode))
		name_bad(w, s, any, "another type than the inode has");
}

static void check_links(struct walk *w, struct wsubvol *s)
{
	for (size_t i = 0; i < s->refs.n; i++) {
		struct winode *in = inode_find(s, s->refs.v[i].child);

		if (in != NULL)
			in->refs++;
	}
	for (size_t i = 0; i < s->inodes.n; i++) {
		const struct winode *in = &s->inodes.v[i];
		bool orphan = false;

		for (size_t j = 0; in->nlink == 0 && j < s->orphans.n; j++)
			orphan |= s->orphans.v[j] == in->ino;
		if (in->nlink == 0 && !orphan)
			bad(w, "tree %llu inode %llu: no names and no orphan", U(s->root->id), U(in->ino));
		if (in->refs != in->nlink && !(S_ISDIR(in->mode) && orphan))
			bad(w, "tree %llu inode %llu: nlink %u, %u names", U(s->root->id), U(in->ino),
			    in->nlink, in->refs);
		if (S_ISDIR(in->mode) && in->nlink > 1)
			bad(w, "tree %llu inode %llu: a folder with nlink %u", U(s->root->id), U(in->ino),
			    in->nlink);
	}
	for (size_t j = 0; j < s->orphans.n; j++)
		if (inode_find(s, s->orphans.v[j]) == NULL)
			bad(w, "tree %llu: orphan %llu without an inode", U(s->root->id),
			    U(s->orphans.v[j]));
}

static const struct wname *take_name(const struct wname *v, size_t n, size_t *at,
				     const struct wname *least)
{
	if (*at >= n || name_cmp(&v[*at], least) != 0)
		return NULL;
	return &v[(*at)++];
}

void names_check(struct walk *w, struct wsubvol *s)
{
	size_t i = 0, j = 0, k = 0;

	vec_sort(&s->items, name_cmp);
	vec_sort(&s->indexes, name_cmp);
	vec_sort(&s->refs, name_cmp);
	while (i < s->items.n || j < s->indexes.n || k < s->refs.n) {
		const struct wname *least = i < s->items.n ? &s->items.v[i] : NULL;
		const struct wname *item, *index, *ref;

		if (j < s->indexes.n && (least == NULL || name_cmp(&s->indexes.v[j], least) < 0))
			least = &s->indexes.v[j];
		if (k < s->refs.n && (least == NULL || name_cmp(&s->refs.v[k], least) < 0))
			least = &s->refs.v[k];
		item = take_name(s->items.v, s->items.n, &i, least);
		index = take_name(s->indexes.v, s->indexes.n, &j, least);
		ref = take_name(s->refs.v, s->refs.n, &k, least);
		/* The root folder is its own parent, under a name that no folder holds. */
		if (item == NULL && index == NULL && ref->dir == ref->child && ref->len == 2 &&
		    memcmp(ref->name, "..", 2) == 0 && ref->dir == OBJ_FIRST_FREE)
			continue;
		check_name(w, s, item, index, ref);
	}
	check_links(w, s);
}
