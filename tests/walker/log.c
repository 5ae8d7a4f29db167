/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/log.c - log trees that wait for replay; see walk.h.
 *
 * They belong to the transaction after the superblock's, and their blocks lie in space that the extent
 * tree calls free. So they are walked last, when references have been counted.
 */
#include "tests/walker/walk.h"

struct log_walk {
	VEC(struct wtree) trees;
};

static void log_root_item(struct walk *w, const struct witem *it, void *arg)
{
	const struct disk_root_item *d = (const struct disk_root_item *)it->data;
	struct log_walk *l = arg;
	struct wtree *t;

	if (it->key.objectid != OBJ_TREE_LOG || it->key.type != KEY_ROOT_ITEM ||
	    it->size < ROOT_ITEM_V1_BYTES) {
		bad(w, "log: unexpected item " KEY_FMT " of %u bytes", KEY_ARGS(&it->key), it->size);
		return;
	}
	if (root_find(w, it->key.offset) == NULL)
		bad(w, "log: of subvolume %llu, which does not exist", U(it->key.offset));
	t = vec_add(&l->trees);
	t->id = OBJ_TREE_LOG;
	t->bytenr = disk_root_item_bytenr(d);
	t->generation = disk_root_item_generation(d);
	t->level = disk_root_item_level(d);
}

static void log_item(struct walk *w, const struct witem *it, void *arg)
{
	static struct wroot log_root = { .id = OBJ_TREE_LOG };
	struct wsubvol s = { .root = &log_root };

	(void)arg;
	if (it->key.type == KEY_DIR_INDEX)
		dir_item_parse(w, &s, it);
	else if (it->key.type == KEY_INODE_REF)
		inode_ref_parse(w, &s, it);
	else if (it->key.type == KEY_INODE_EXTREF)
		inode_extref_parse(w, &s, it);
	else if (it->key.type == KEY_XATTR_ITEM)
		xattr_parse(w, OBJ_TREE_LOG, it);
	else if (it->key.type == KEY_INODE_ITEM && it->size != sizeof(struct disk_inode_item))
		bad(w, "log: inode %llu of %u bytes", U(it->key.objectid), it->size);
	else if (it->key.type == KEY_EXTENT_DATA && it->size == sizeof(struct disk_file_extent)) {
		const struct disk_file_extent *d = (const struct disk_file_extent *)it->data;
		uint64_t bytenr = disk_file_extent_disk_bytenr(d);

		if (bytenr != 0 && chunk_of(w, bytenr, disk_file_extent_disk_num_bytes(d)) == NULL)
			bad(w, "log: file extent " KEY_FMT " at %llu, in no chunk", KEY_ARGS(&it->key),
			    U(bytenr));
	}
	free(s.items.v);
	free(s.indexes.v);
	free(s.refs.v);
}

void log_check(struct walk *w)
{
	struct wtree t = {
		.id = OBJ_TREE_LOG,
		.bytenr = disk_super_log_root(&w->super),
		.generation = w->generation + 1,
		.level = disk_super_log_root_level(&w->super),
	};
	struct log_walk l = {0};

	w->generation++;
	tree_walk(w, &t, log_root_item, &l);
	for (size_t i = 0; i < l.trees.n; i++)
		tree_walk(w, &l.trees.v[i], log_item, NULL);
	w->generation--;
	free(l.trees.v);
}
