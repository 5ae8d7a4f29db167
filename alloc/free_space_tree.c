/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/free_space_tree.c - the info item and the free extents of a group (see free_space_tree.h).
 *
 * A change of an extent's ends is a change of its key in place wherever the order of items allows it.
 */
#include "alloc/free_space_tree.h"

#include <errno.h>

#include "alloc/free_space_priv.h"
#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

/* Items deleted in one call of the tree. */
#define FST_DELETE_BATCH 1024u

uint64_t fst_bitmap_span(const struct space *sp)
{
	return (uint64_t)sp->sectorsize * FREE_SPACE_BITMAP_BITS;
}

uint32_t fst_high_threshold(const struct space *sp, uint64_t group_len)
{
	uint64_t bitmaps = div_round_up(group_len, fst_bitmap_span(sp));
	uint64_t bytes = bitmaps * (sizeof(struct disk_item) + FREE_SPACE_BITMAP_BYTES);

	return (uint32_t)min_u64(bytes / sizeof(struct disk_item), UINT32_MAX);
}

uint32_t fst_low_threshold(const struct space *sp, uint64_t group_len)
{
	uint32_t high = fst_high_threshold(sp, group_len);

	return high > FST_HYSTERESIS ? high - FST_HYSTERESIS : 0;
}

int fst_bad(const struct fst_group *fg, uint64_t at, const char *what)
{
	return corrupt(OBJ_FREE_SPACE_TREE, at, NO_SLOT,
		       "free space of block group %llu + %llu: %s",
		       (unsigned long long)fg->group->start, (unsigned long long)fg->group->len, what);
}

static struct key info_key(const struct group_info *group)
{
	return key_make(group->start, KEY_FREE_SPACE_INFO, group->len);
}

int fst_open(struct space *sp, struct txn_handle *tx, const struct group_info *group,
	     struct fst_group *ret_fg)
{
	struct fst_group fg = {.sp = sp, .tx = tx, .tree = sp->trees->free_space, .group = group};
	struct key key = info_key(group);
	struct disk_free_space_info info;
	int err;

	err = tree_get_fixed(fg.tree, &key, &info, sizeof(info));
	if (err == -ENOENT)
		return fst_bad(&fg, group->start, "no info item");
	if (err < 0)
		return err;
	fg.extent_count = disk_free_space_info_extent_count(&info);
	fg.flags = disk_free_space_info_flags(&info);
	if (fg.flags & ~FREE_SPACE_USING_BITMAPS)
		return fst_bad(&fg, group->start, "unknown flags");
	*ret_fg = fg;
	return 0;
}

int fst_store_info(struct fst_group *fg, bool insert)
{
	struct key key = info_key(fg->group);
	struct disk_free_space_info info;

	disk_free_space_info_set_extent_count(&info, fg->extent_count);
	disk_free_space_info_set_flags(&info, fg->flags);
	if (insert)
		return tree_insert(fg->tx, fg->tree, &key, &info, sizeof(info));
	return tree_replace(fg->tx, fg->tree, &key, &info, sizeof(info));
}

int fst_delete_items(struct fst_group *fg, bool with_info)
{
	struct key info = info_key(fg->group), first = info;
	struct key last = key_object_max(fst_end(fg) - 1);
	unsigned n;
	int err;

	if (!with_info && !key_next(&info, &first))
		return fst_bad(fg, fg->group->start, "impossible key");
	do {
		err = tree_delete_range(fg->tx, fg->tree, &first, &last, FST_DELETE_BATCH, &n);
	} while (err == 0 && n > 0);
	return err;
}

/* Adds to the count of free extents, and changes the form of the items where that is due, F2. */
static int adjust_count(struct fst_group *fg, int delta)
{
	bool bitmaps = (fg->flags & FREE_SPACE_USING_BITMAPS) != 0;
	int64_t count = (int64_t)fg->extent_count + delta;

	if (delta == 0)
		return 0;
	if (count < 0 || count > UINT32_MAX)
		return fst_bad(fg, fg->group->start, "wrong count of free extents");
	fg->extent_count = (uint32_t)count;
	if (!bitmaps && fg->extent_count > fst_high_threshold(fg->sp, fg->group->len))
		return fst_to_bitmaps(fg);
	if (bitmaps && fg->extent_count < fst_low_threshold(fg->sp, fg->group->len))
		return fst_to_extents(fg);
	return fst_store_info(fg, false);
}

/*
 * The last free extent of the group that begins at or before `at`: 1, its key and end; 0 if there is
 * none.
 */
static int extent_before(struct fst_group *fg, uint64_t at, struct key *ret_key, uint64_t *ret_end)
{
	struct key key = key_object_max(at);
	scoped(item_done) struct item it;
	uint64_t end;
	int err;

	item_init(&it);
	err = tree_seek(fg->tree, &key, SEEK_ITEM_LE, &it);
	if (err == -ENOENT || (err == 0 && it.key.objectid < fg->group->start))
		return fst_bad(fg, at, "the info item vanished");
	if (err < 0)
		return err;
	if (it.key.type == KEY_FREE_SPACE_INFO)
		return 0;
	if (it.key.type != KEY_FREE_SPACE_EXTENT || it.key.offset == 0 ||
	    add_overflows(it.key.objectid, it.key.offset, &end) || end > fst_end(fg))
		return fst_bad(fg, it.key.objectid, "bad free extent");
	*ret_key = it.key;
	*ret_end = end;
	return 1;
}

static struct key extent_key(uint64_t start, uint64_t end)
{
	return key_make(start, KEY_FREE_SPACE_EXTENT, end - start);
}

static int extents_remove(struct fst_group *fg, uint64_t start, uint64_t end, int *ret_delta)
{
	struct key found, head, tail;
	uint64_t found_end;
	int err;

	err = extent_before(fg, start, &found, &found_end);
	if (err < 0)
		return err;
	if (err == 0 || found_end < end)
		return fst_bad(fg, start, "a range to be used is not free");
	head = extent_key(found.objectid, start);
	tail = extent_key(end, found_end);
	if (head.offset == 0 && tail.offset == 0) {
		*ret_delta = -1;
		return tree_delete(fg->tx, fg->tree, &found);
	}
	*ret_delta = 0;
	if (head.offset == 0)
		return tree_rekey(fg->tx, fg->tree, &found, &tail);
	err = tree_rekey(fg->tx, fg->tree, &found, &head);
	if (err < 0 || tail.offset == 0)
		return err;
	*ret_delta = 1;
	return tree_insert(fg->tx, fg->tree, &tail, NULL, 0);
}

static int extents_add(struct fst_group *fg, uint64_t start, uint64_t end, int *ret_delta)
{
	struct key left, right, all;
	uint64_t left_end, right_end;
	bool join_left, join_right;
	int err;

	/* Whatever begins before `end` must end before `start`. */
	err = extent_before(fg, end - 1, &left, &left_end);
	if (err < 0)
		return err;
	if (err > 0 && left_end > start)
		return fst_bad(fg, start, "a range to be freed is free");
	join_left = err > 0 && left_end == start;
	join_right = false;
	if (end < fst_end(fg)) {
		err = extent_before(fg, end, &right, &right_end);
		if (err < 0)
			return err;
		join_right = err > 0 && right.objectid == end;
	}
	all = extent_key(join_left ? left.objectid : start, join_right ? right_end : end);
	*ret_delta = 1 - join_left - join_right;
	if (join_left && join_right) {
		err = tree_delete(fg->tx, fg->tree, &right);
		if (err < 0)
			return err;
	}
	if (join_left)
		return tree_rekey(fg->tx, fg->tree, &left, &all);
	if (join_right)
		return tree_rekey(fg->tx, fg->tree, &right, &all);
	return tree_insert(fg->tx, fg->tree, &all, NULL, 0);
}

static int fst_change(struct space *sp, struct txn_handle *tx, const struct group_info *group,
		      uint64_t start, uint64_t len, bool free)
{
	struct fst_group fg;
	int delta = 0, err;

	if (sp->trees->free_space == NULL)
		return 0;
	must(len > 0 && start >= group->start && len <= group->len - (start - group->start));
	err = fst_open(sp, tx, group, &fg);
	if (err < 0)
		return err;
	if (fg.flags & FREE_SPACE_USING_BITMAPS)
		err = fst_bitmap_change(&fg, start, len, free, &delta);
	else if (free)
		err = extents_add(&fg, start, start + len, &delta);
	else
		err = extents_remove(&fg, start, start + len, &delta);
	return err < 0 ? err : adjust_count(&fg, delta);
}

int fst_add(struct space *sp, struct txn_handle *tx, const struct group_info *group,
	    uint64_t start, uint64_t len)
{
	write_guard(&sp->fst_lock);
	return fst_change(sp, tx, group, start, len, true);
}

int fst_remove(struct space *sp, struct txn_handle *tx, const struct group_info *group,
	       uint64_t start, uint64_t len)
{
	write_guard(&sp->fst_lock);
	return fst_change(sp, tx, group, start, len, false);
}
