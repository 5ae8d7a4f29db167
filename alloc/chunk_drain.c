/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/chunk_drain.c - emptying metadata groups that hold hardly any block (see chunk.h).
 *
 * A few blocks that nothing changes can keep a whole group. So the commit drains groups with hardly
 * any block left, from the highest down, as long as the others have room: new blocks go elsewhere, and
 * the old ones are moved by having the trees COW them, without changing any item. Not the group that
 * this transaction's blocks went to: they are young.
 *
 * What a shared block or an unknown tree holds stays where it is. Not here: removing empty groups
 * (chunk_remove.c).
 */
#include "alloc/chunk.h"

#include "alloc/extent_tree.h"
#include "alloc/group.h"
#include "alloc/reserve.h"
#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>

#define DRAIN_BLOCKS_MAX 16u		/* a group with more is not sparse */

static uint64_t sparse_bytes(const struct group_set *gs)
{
	return (uint64_t)DRAIN_BLOCKS_MAX * gs->block;
}

/* Marks the groups; whether any of them has a block. */
static bool choose_draining(struct space *sp)
{
	struct group_set *gs = sp->groups;
	const struct pool *pool = groups_pool(gs, BG_METADATA);
	uint64_t left, need;
	bool any = false;
	struct group *g;

	mutex_guard(&gs->lock);
	left = pool_blocks_locked(gs, pool);
	need = 2 * reserve_need_locked(sp, 0, true);
	for (g = RB_MAX(group_tree, &gs->tree); g != NULL; g = RB_PREV(group_tree, &gs->tree, g)) {
		uint64_t blocks = g->free.whole * gs->block;

		g->draining = false;
		if (g->pool != pool || !group_open_locked(g) ||
		    pool->block_cursor.pos - g->start < g->len ||
		    g->used + g->handed > sparse_bytes(gs) || left - blocks < need + g->len / 8)
			continue;
		g->draining = true;
		any |= g->used > 0;
		left -= blocks;
	}
	return any;
}

/* The next draining group with blocks from `*at` on, which moves behind it. */
static bool next_draining(struct space *sp, uint64_t *at, struct group_info *ret_info)
{
	struct group *g;

	mutex_guard(&sp->groups->lock);
	for (g = group_next_locked(sp->groups, *at); g != NULL;
	     g = RB_NEXT(group_tree, &sp->groups->tree, g)) {
		if (!g->draining || g->used == 0)
			continue;
		*ret_info = (struct group_info){g->start, g->len, g->used, g->flags};
		*at = g->start + g->len;
		return true;
	}
	return false;
}

/* A block to be moved. */
struct straggler {
	uint64_t bytenr;
	uint64_t root;			/* tree it belongs to */
};

/* An older block that one tree alone refers to. */
static bool movable(const struct extent_image *im, uint64_t transid, uint64_t *ret_root)
{
	uint32_t off = im->first;
	struct inline_ref ref;

	if (!(im->flags & EXTENT_FLAG_TREE_BLOCK) || im->refs != 1 || im->generation >= transid ||
	    !image_next_ref(im, &off, &ref) || ref.id.type != KEY_TREE_BLOCK_REF)
		return false;
	*ret_root = ref.id.anchor;
	return true;
}

static int find_stragglers(struct space *sp, uint64_t transid, const struct group_info *info,
			   struct straggler *list, unsigned *ret_count)
{
	struct key first = key_make(info->start, 0, 0);
	struct key last = key_make(info->start + info->len - 1, UINT8_MAX, UINT64_MAX);
	scoped(cursor_done) struct cursor c;
	unsigned n = 0;
	int err;

	cursor_init(&c, sp->trees->extent, &first, &last);
	while ((err = cursor_next(&c)) > 0 && n < DRAIN_BLOCKS_MAX) {
		scoped(image_done) struct extent_image im;

		image_init(&im);
		if (c.item.key.type != KEY_METADATA_ITEM && c.item.key.type != KEY_EXTENT_ITEM)
			continue;
		err = image_load(&im, &c.item.key, c.item.data, c.item.size);
		if (err < 0)
			return err;
		list[n].bytenr = c.item.key.objectid;
		n += movable(&im, transid, &list[n].root);
	}
	*ret_count = n;
	return err < 0 ? err : 0;
}

/* The first key of a block on the device; false: it cannot be told (the block stays then). */
static bool first_key(struct space *sp, uint64_t bytenr, struct key *ret_key)
{
	const struct disk_header *h;
	size_t len = volume_block_bytes(sp->vol, 0);
	scoped(freep) uint8_t *buf = malloc(sp->groups->block);

	if (buf == NULL || volume_read(sp->vol, bytenr, buf, len, 0) < 0)
		return false;
	h = (const struct disk_header *)buf;
	if (disk_header_level(h) > 0) {
		len = volume_block_bytes(sp->vol, 1);
		if (volume_read(sp->vol, bytenr, buf, len, 0) < 0)
			return false;
	}
	if (!csum_header_good(sp->vol->params.csum_type, buf, len) ||
	    disk_header_bytenr(h) != bytenr)
		return false;
	*ret_key = disk_header_nritems(h) == 0
			   ? KEY_MIN
			   : key_from_disk((const struct disk_key *)(buf + sizeof(*h)));
	return true;
}

static struct tree *tree_of(const struct space *sp, uint64_t root)
{
	const struct meta_trees *t = sp->trees;
	struct tree *const trees[] = {t->root, t->dev, t->extent, t->csum, t->free_space,
				      t->block_group};

	for (unsigned i = 0; i < ARRAY_COUNT(trees); i++)
		if (trees[i] != NULL && tree_id(trees[i]) == root)
			return trees[i];
	return NULL;
}

static int change_nothing(void *data, uint32_t size, void *arg)
{
	(void)data, (void)size, (void)arg;
	return 0;
}

int space_touch(struct txn_handle *tx, struct tree *t, const struct key *key)
{
	struct key probe = key_make(0, KEY_TEMPORARY_ITEM, 0);
	scoped(item_done) struct item it;
	int err;

	item_init(&it);
	err = tree_seek(t, key, SEEK_ITEM_GE, &it);
	if (err == -ENOENT)
		err = tree_seek(t, key, SEEK_ITEM_LT, &it);
	if (err == 0)
		return tree_edit(tx, t, &it.key, change_nothing, NULL);
	if (err != -ENOENT)
		return err;
	err = tree_insert(tx, t, &probe, NULL, 0);
	return err < 0 ? err : tree_delete(tx, t, &probe);
}

static int move_block(struct space *sp, struct txn_handle *tx, const struct straggler *s)
{
	struct tree *t = tree_of(sp, s->root);
	struct key key;
	int err;

	if (!first_key(sp, s->bytenr, &key))
		return 0;
	if (t != NULL)
		return space_touch(tx, t, &key);
	if (sp->hooks.touch == NULL)
		return 0;
	err = sp->hooks.touch(sp->hooks.ctx, tx, s->root, &key);
	return err == -ENOENT ? 0 : err;
}

int chunks_drain_sparse(struct space *sp, struct txn_handle *tx, bool *ret_changed)
{
	struct straggler list[DRAIN_BLOCKS_MAX];
	struct group_info info;
	uint64_t at = 0;

	if (sp->mixed || !choose_draining(sp))
		return 0;
	while (next_draining(sp, &at, &info)) {
		unsigned n;
		int err = find_stragglers(sp, tx->transid, &info, list, &n);

		for (unsigned i = 0; err == 0 && i < n; i++)
			err = move_block(sp, tx, &list[i]);
		if (err < 0)
			return err;
	}
	*ret_changed |= space_pending_refs(sp) > 0;
	return 0;
}
