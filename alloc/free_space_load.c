/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/free_space_load.c - whole groups of the free space tree: reading, making, removing, rebuilding.
 */
#include <errno.h>

#include "alloc/free_space_priv.h"
#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

/* Joins what bitmaps tell piece by piece into free extents, across the borders of bitmaps. */
struct run_joiner {
	free_range_fn fn;
	void *arg;
	uint64_t start, end;		/* open run; empty if equal */
};

static int joiner_flush(struct run_joiner *j)
{
	uint64_t start = j->start, len = j->end - j->start;

	j->start = j->end;
	return len == 0 ? 0 : j->fn(j->arg, start, len);
}

static int joiner_add(struct run_joiner *j, uint64_t start, uint64_t len)
{
	int err = 0;

	if (j->start == j->end || j->end != start) {
		err = joiner_flush(j);
		j->start = start;
	}
	j->end = start + len;
	return err;
}

static int walk_bitmap(struct fst_group *fg, const struct item *it, struct run_joiner *j)
{
	uint64_t sector = fg->sp->sectorsize, sectors = it->key.offset / sector;
	int err = 0;

	if (it->size != div_round_up(sectors, 8))
		return fst_bad(fg, it->key.objectid, "bitmap of a wrong size");
	for (uint64_t bit = 0; bit < sectors && err == 0; bit++)
		if (it->data[bit / 8] >> (bit % 8) & 1)
			err = joiner_add(j, it->key.objectid + bit * sector, sector);
	return err;
}

/* One item behind the info item; *at is where the one before it ended. */
static int walk_item(struct fst_group *fg, const struct item *it, struct run_joiner *j,
		     uint64_t *at)
{
	bool bitmaps = (fg->flags & FREE_SPACE_USING_BITMAPS) != 0;
	const struct key *key = &it->key;

	if (key->type != (bitmaps ? KEY_FREE_SPACE_BITMAP : KEY_FREE_SPACE_EXTENT))
		return fst_bad(fg, key->objectid, "item of a wrong type");
	if (key->objectid < *at || key->offset == 0 || key->offset > fst_end(fg) - key->objectid)
		return fst_bad(fg, key->objectid, "items overlap or leave the group");
	*at = key->objectid + key->offset;
	if (bitmaps)
		return walk_bitmap(fg, it, j);
	return j->fn(j->arg, key->objectid, key->offset);
}

int fst_walk(struct fst_group *fg, free_range_fn fn, void *arg)
{
	struct key info = key_make(fg->group->start, KEY_FREE_SPACE_INFO, fg->group->len);
	struct key first = info, last = key_object_max(fst_end(fg) - 1);
	struct run_joiner j = {.fn = fn, .arg = arg};
	scoped(cursor_done) struct cursor c;
	uint64_t at = fg->group->start;
	int err;

	if (!key_next(&info, &first))
		return fst_bad(fg, fg->group->start, "impossible key");
	cursor_init(&c, fg->tree, &first, &last);
	while ((err = cursor_next(&c)) > 0) {
		err = walk_item(fg, &c.item, &j, &at);
		if (err < 0)
			return err;
	}
	return err < 0 ? err : joiner_flush(&j);
}

struct counted_fn {
	free_range_fn fn;
	void *arg;
	uint32_t count;
};

static int count_range(void *arg, uint64_t start, uint64_t len)
{
	struct counted_fn *c = arg;

	c->count++;
	return c->fn(c->arg, start, len);
}

int free_space_tree_load(struct space *sp, const struct group_info *group, free_range_fn fn,
			 void *arg)
{
	struct counted_fn counted = {.fn = fn, .arg = arg};
	struct fst_group fg;
	int err;

	read_guard(&sp->fst_lock);
	err = fst_open(sp, NULL, group, &fg);
	if (err == 0)
		err = fst_walk(&fg, count_range, &counted);
	if (err == 0 && counted.count != fg.extent_count)
		err = fst_bad(&fg, group->start, "wrong count of free extents");
	return err;
}

int group_scan_free(struct space *sp, const struct group_info *group, free_range_fn fn, void *arg)
{
	if (sp->trees->free_space != NULL)
		return free_space_tree_load(sp, group, fn, arg);
	return extent_tree_scan_free(sp, group, fn, arg);
}

int free_space_tree_add_group(struct space *sp, struct txn_handle *tx,
			      const struct group_info *group)
{
	struct fst_group fg = {.sp = sp, .tx = tx, .tree = sp->trees->free_space, .group = group};
	struct key all = key_make(group->start, KEY_FREE_SPACE_EXTENT, group->len);
	int err;

	if (fg.tree == NULL)
		return 0;
	fg.extent_count = 1;
	write_guard(&sp->fst_lock);
	err = fst_store_info(&fg, true);
	if (err == 0)
		err = tree_insert(tx, fg.tree, &all, NULL, 0);
	return err == -EEXIST ? fst_bad(&fg, group->start, "a new group has items") : err;
}

int free_space_tree_remove_group(struct space *sp, struct txn_handle *tx,
				 const struct group_info *group)
{
	struct fst_group fg = {.sp = sp, .tx = tx, .tree = sp->trees->free_space, .group = group};

	if (fg.tree == NULL)
		return 0;
	write_guard(&sp->fst_lock);
	return fst_delete_items(&fg, true);
}

struct rebuilder {
	struct space *sp;
	struct txn_handle *tx;
	const struct group_info *group;
};

static int rebuild_range(void *arg, uint64_t start, uint64_t len)
{
	struct rebuilder *r = arg;

	return fst_add(r->sp, r->tx, r->group, start, len);
}

static int rebuild_group(struct space *sp, struct txn_handle *tx, const struct group_info *group)
{
	struct fst_group fg = {.sp = sp, .tx = tx, .tree = sp->trees->free_space, .group = group};
	struct rebuilder r = {.sp = sp, .tx = tx, .group = group};
	int err = fst_store_info(&fg, true);

	return err < 0 ? err : extent_tree_scan_free(sp, group, rebuild_range, &r);
}

int free_space_tree_rebuild(struct space *sp, struct txn_handle *tx)
{
	struct key first = KEY_MIN, last = KEY_MAX;
	struct group_info group;
	uint64_t at = 0;
	unsigned n;
	int err;

	do {
		err = tree_delete_range(tx, sp->trees->free_space, &first, &last, UINT32_MAX, &n);
	} while (err == 0 && n > 0);
	while (err == 0 && group_next(sp, at, &group) == 0) {
		err = rebuild_group(sp, tx, &group);
		at = group.start + group.len;
	}
	return err;
}
