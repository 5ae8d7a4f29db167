/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_space.c - block groups in memory for tests, and the judge (see fake_space.h).
 */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/csum.h"
#include "io/format.h"
#include "io/util.h"
#include "tests/unit/fake_space.h"

static struct fake_fs *fs_of(struct space *sp)
{
	return container_of(sp, struct fake_fs, sp);
}

static struct group_info info_of(struct fake_fs *fs, unsigned g)
{
	return (struct group_info){.start = FAKE_BASE + g * FAKE_GROUP_BYTES, .len = FAKE_GROUP_BYTES,
				   .used = fs->used[g], .flags = BG_DATA | BG_METADATA};
}

int group_find(struct space *sp, uint64_t bytenr, struct group_info *ret_info)
{
	if (bytenr < FAKE_BASE || bytenr >= FAKE_BASE + FAKE_GROUPS * FAKE_GROUP_BYTES)
		return -ENOENT;
	*ret_info = info_of(fs_of(sp), (unsigned)((bytenr - FAKE_BASE) / FAKE_GROUP_BYTES));
	return 0;
}

int group_next(struct space *sp, uint64_t bytenr, struct group_info *ret_info)
{
	for (unsigned g = 0; g < FAKE_GROUPS; g++) {
		*ret_info = info_of(fs_of(sp), g);
		if (ret_info->start >= bytenr)
			return 0;
	}
	return -ENOENT;
}

/* All sectors of the range go from one state to another. */
static unsigned move_range(struct fake_fs *fs, uint64_t bytenr, uint64_t len, enum fake_state from,
			   enum fake_state to)
{
	unsigned g = (unsigned)((bytenr - FAKE_BASE) / FAKE_GROUP_BYTES);
	uint64_t first = (bytenr - FAKE_BASE) % FAKE_GROUP_BYTES / FAKE_SECTOR;
	unsigned wrong = 0;

	ck_assert_uint_lt(g, FAKE_GROUPS);
	ck_assert_uint_le(first + len / FAKE_SECTOR, FAKE_GROUP_SECTORS);
	for (uint64_t i = 0; i < len / FAKE_SECTOR; i++) {
		wrong += fs->state[g][first + i] != from;
		fs->state[g][first + i] = (uint8_t)to;
	}
	ck_assert_uint_eq(wrong, 0);
	return g;
}

int group_account_alloc(struct space *sp, uint64_t bytenr, uint64_t len)
{
	unsigned g = move_range(fs_of(sp), bytenr, len, FAKE_OUT, FAKE_USED);

	fs_of(sp)->used[g] += len;
	fs_of(sp)->dirty[g] = true;
	return 0;
}

int group_account_free(struct space *sp, uint64_t bytenr, uint64_t len)
{
	unsigned g = move_range(fs_of(sp), bytenr, len, FAKE_USED, FAKE_USED);

	fs_of(sp)->used[g] -= len;
	fs_of(sp)->dirty[g] = true;
	return 0;
}

int space_pin(struct space *sp, uint64_t transid, uint64_t bytenr, uint64_t len)
{
	ck_assert_uint_eq(transid, fs_of(sp)->tx.transid);
	move_range(fs_of(sp), bytenr, len, FAKE_USED, FAKE_PINNED);
	return 0;
}

void space_free_now(struct space *sp, uint64_t bytenr, uint64_t len)
{
	move_range(fs_of(sp), bytenr, len, FAKE_OUT, FAKE_FREE);
}

bool group_take_dirty(struct space *sp, struct group_info *ret_info)
{
	for (unsigned g = 0; g < FAKE_GROUPS; g++) {
		if (!fs_of(sp)->dirty[g])
			continue;
		fs_of(sp)->dirty[g] = false;
		*ret_info = info_of(fs_of(sp), g);
		return true;
	}
	return false;
}

uint64_t fake_alloc(struct fake_fs *fs, uint64_t len)
{
	unsigned want = (unsigned)(len / FAKE_SECTOR), run = 0;

	for (unsigned g = 0; g < FAKE_GROUPS; g++, run = 0) {
		for (unsigned s = 0; s < FAKE_GROUP_SECTORS; s++) {
			run = fs->state[g][s] == FAKE_FREE ? run + 1 : 0;
			if (run == want) {
				uint64_t bytenr = info_of(fs, g).start +
						  (uint64_t)(s + 1 - want) * FAKE_SECTOR;

				move_range(fs, bytenr, len, FAKE_FREE, FAKE_OUT);
				return bytenr;
			}
		}
	}
	return 0;
}

int space_alloc_block_addr(struct space *sp, struct txn_handle *tx, uint64_t len, uint64_t align,
			   uint64_t hint, bool system, uint64_t *ret_bytenr)
{
	(void)tx, (void)align, (void)hint, (void)system;
	*ret_bytenr = fake_alloc(fs_of(sp), len);
	return *ret_bytenr == 0 ? -ENOSPC : 0;
}

struct fake_fs *fake_new(bool skinny, bool fst)
{
	struct fake_fs *fs = calloc(1, sizeof(*fs));

	ck_assert_ptr_nonnull(fs);
	fs->tx = (struct txn_handle){.transid = 10, .kind = RSV_COMMIT};
	fs->sp.trees = &fs->trees;
	fs->sp.skinny = skinny;
	fs->sp.sectorsize = FAKE_SECTOR;
	fs->sp.csum_bytes = 4;
	rwlock_init(&fs->sp.fst_lock, RANK_SHARE);
	ck_assert_int_eq(refs_new(&fs->sp.refs), 0);
	fake_trees_open(fs, fst);
	for (unsigned g = 0; g < FAKE_GROUPS; g++) {
		struct group_info info = info_of(fs, g);

		ck_assert_int_eq(block_group_item_insert(&fs->sp, &fs->tx, &info), 0);
		ck_assert_int_eq(free_space_tree_add_group(&fs->sp, &fs->tx, &info), 0);
	}
	return fs;
}

void fake_free(struct fake_fs *fs)
{
	fake_trees_close(fs);
	refs_free(fs->sp.refs);
	rwlock_done(&fs->sp.fst_lock);
	free(fs);
}

int fake_commit(struct fake_fs *fs)
{
	bool changed = false;
	int err = refs_run(&fs->sp, &fs->tx, &changed);

	if (err < 0)
		return err;
	ck_assert_uint_eq(space_pending_refs(&fs->sp), 0);
	for (unsigned g = 0; g < FAKE_GROUPS; g++)
		for (unsigned s = 0; s < FAKE_GROUP_SECTORS; s++)
			if (fs->state[g][s] == FAKE_PINNED)
				fs->state[g][s] = FAKE_FREE;
	fake_trees_commit(fs);
	return 0;
}

static struct fake_items items_between(struct tree *t, struct key first, struct key last)
{
	struct fake_items all = {0};
	struct cursor c;
	int more;

	cursor_init(&c, t, &first, &last);
	while ((more = cursor_next(&c)) > 0) {
		struct item *it;

		all.items = realloc(all.items, (all.count + 1) * sizeof(*it));
		ck_assert_ptr_nonnull(all.items);
		it = &all.items[all.count++];
		*it = (struct item){.key = c.item.key, .size = c.item.size};
		it->data = malloc(it->size + 1u);
		ck_assert_ptr_nonnull(it->data);
		if (it->size > 0)
			memcpy(it->data, c.item.data, it->size);
	}
	ck_assert_int_eq(more, 0);
	cursor_done(&c);
	return all;
}

struct fake_items fake_items(struct tree *t)
{
	return items_between(t, KEY_MIN, KEY_MAX);
}

struct fake_items fake_items_of(struct tree *t, uint64_t objectid)
{
	return items_between(t, key_object_min(objectid), key_object_max(objectid));
}

void fake_items_done(struct fake_items *items)
{
	for (unsigned i = 0; i < items->count; i++)
		free(items->items[i].data);
	free(items->items);
}

uint64_t fake_count(struct fake_fs *fs, uint64_t bytenr, const struct delayed_ref *id)
{
	scoped(fake_items_done) struct fake_items all = fake_items_of(fs->trees.extent, bytenr);

	return fake_items_count(&all, id);
}

uint64_t fake_items_count(const struct fake_items *all, const struct delayed_ref *id)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < all->count; i++) {
		const struct item *it = &all->items[i];
		const void *p = it->data;

		if (it->key.type == KEY_EXTENT_ITEM || it->key.type == KEY_METADATA_ITEM) {
			scoped(image_done) struct extent_image im;
			struct inline_ref ref;

			image_init(&im);
			ck_assert_int_eq(image_load(&im, &it->key, it->data, it->size), 0);
			if (image_find_ref(&im, id, &ref))
				count += (uint64_t)ref.id.count;
		} else if (it->key.type != id->type) {
			continue;
		} else if (id->type == KEY_EXTENT_DATA_REF) {
			const struct disk_extent_data_ref *ref = p;

			if (disk_extent_data_ref_root(ref) == id->anchor &&
			    disk_extent_data_ref_objectid(ref) == id->objectid &&
			    disk_extent_data_ref_offset(ref) == id->offset)
				count += disk_extent_data_ref_count(ref);
		} else if (it->key.offset == id->anchor) {
			count += id->type == KEY_SHARED_DATA_REF ? disk_shared_data_ref_count(p) : 1;
		}
	}
	return count;
}

/* The order the kernel wants: type ascending, then hash, root or parent descending. */
static void check_order(const struct extent_image *im)
{
	struct inline_ref ref;
	uint64_t rank, last_rank = UINT64_MAX;
	uint32_t off = im->first;
	uint8_t last_type = 0;

	while (image_next_ref(im, &off, &ref)) {
		rank = ref.id.type == KEY_EXTENT_DATA_REF
			       ? hash_extent_data_ref(ref.id.anchor, ref.id.objectid, ref.id.offset)
			       : ref.id.anchor;
		ck_assert_uint_ge(ref.id.type, last_type);
		if (ref.id.type == last_type)
			ck_assert_uint_le(rank, last_rank);
		last_type = ref.id.type;
		last_rank = rank;
	}
	ck_assert_uint_lt(im->size, (FAKE_LEAF - sizeof(struct disk_header)) / 16 -
					    sizeof(struct disk_item));
}

/* Counts in the items of back references that follow an extent item. */
static uint64_t keyed_sum(const struct fake_items *t, unsigned i)
{
	uint64_t sum = 0, bytenr = t->items[i].key.objectid;

	for (i++; i < t->count && t->items[i].key.objectid == bytenr; i++) {
		const void *p = t->items[i].data;

		switch (t->items[i].key.type) {
		case KEY_EXTENT_DATA_REF:
			sum += disk_extent_data_ref_count(p);
			break;
		case KEY_SHARED_DATA_REF:
			sum += disk_shared_data_ref_count(p);
			break;
		case KEY_TREE_BLOCK_REF:
		case KEY_SHARED_BLOCK_REF:
			sum++;
			break;
		default:
			ck_assert_uint_eq(t->items[i].key.type, KEY_BLOCK_GROUP_ITEM);
		}
	}
	return sum;
}

struct sector_map {
	struct fake_fs *fs;
	uint8_t free[FAKE_GROUPS][FAKE_GROUP_SECTORS];
	uint64_t last_end;
};

static int mark_free(void *arg, uint64_t start, uint64_t len)
{
	struct sector_map *map = arg;
	unsigned g = (unsigned)((start - FAKE_BASE) / FAKE_GROUP_BYTES);

	ck_assert_uint_gt(len, 0);
	/* Neighbours are one, unless a group begins between them. */
	if (start == map->last_end)
		ck_assert_uint_eq((start - FAKE_BASE) % FAKE_GROUP_BYTES, 0);
	for (uint64_t at = start; at < start + len; at += FAKE_SECTOR)
		map->free[g][(at - FAKE_BASE) % FAKE_GROUP_BYTES / FAKE_SECTOR] = 1;
	map->last_end = start + len;
	return 0;
}

static void check_free(struct fake_fs *fs, bool fst)
{
	struct sector_map *map = calloc(1, sizeof(*map));
	unsigned wrong = 0;

	ck_assert_ptr_nonnull(map);
	map->fs = fs;
	for (unsigned g = 0; g < FAKE_GROUPS; g++) {
		struct group_info info = info_of(fs, g);

		if (fst)
			ck_assert_int_eq(free_space_tree_load(&fs->sp, &info, mark_free, map), 0);
		else
			ck_assert_int_eq(extent_tree_scan_free(&fs->sp, &info, mark_free, map), 0);
		for (unsigned s = 0; s < FAKE_GROUP_SECTORS; s++)
			wrong += map->free[g][s] != (fs->state[g][s] != FAKE_USED);
	}
	ck_assert_uint_eq(wrong, 0);
	free(map);
}

void fake_check(struct fake_fs *fs)
{
	scoped(fake_items_done) struct fake_items all = fake_items(fs->trees.extent);
	uint64_t used[FAKE_GROUPS] = {0};
	unsigned groups = 0;

	for (unsigned i = 0; i < all.count; i++) {
		const struct item *it = &all.items[i];
		scoped(image_done) struct extent_image im;

		image_init(&im);
		if (it->key.type == KEY_BLOCK_GROUP_ITEM) {
			const void *p = it->data;

			ck_assert_uint_eq(disk_block_group_item_used(p), fs->used[groups++]);
		}
		if (it->key.type != KEY_EXTENT_ITEM && it->key.type != KEY_METADATA_ITEM)
			continue;
		ck_assert_int_eq(image_load(&im, &it->key, it->data, it->size), 0);
		check_order(&im);
		ck_assert_uint_eq(im.refs, im.inline_count + keyed_sum(&all, i));
		used[(it->key.objectid - FAKE_BASE) / FAKE_GROUP_BYTES] +=
			it->key.type == KEY_EXTENT_ITEM ? it->key.offset : FAKE_LEAF;
	}
	ck_assert_uint_eq(groups, FAKE_GROUPS);
	for (unsigned g = 0; g < FAKE_GROUPS; g++)
		ck_assert_uint_eq(used[g], fs->used[g]);
	check_free(fs, false);
	if (fs->trees.free_space != NULL)
		check_free(fs, true);
}
