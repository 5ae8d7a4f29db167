/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/free_space.c - the free space tree against the extents; see walk.h.
 *
 * For each block group the gaps between its extents are computed; what the tree says, as extents or as
 * bits, must be exactly these, merged, and counted right.
 */
#include "tests/walker/walk.h"

struct range {
	uint64_t start, len;
};

struct group_free {
	struct wchunk *chunk;		/* NULL: none is open */
	uint32_t flags, count;		/* what its info item says */
	uint64_t bitmap_end;		/* up to where bitmaps were seen */
	VEC(struct range) found;
};

static void add_free(struct group_free *g, uint64_t start, uint64_t len)
{
	struct range *r;

	if (g->found.n > 0) {
		r = &g->found.v[g->found.n - 1];
		if (r->start + r->len == start && g->flags & FREE_SPACE_USING_BITMAPS) {
			r->len += len;
			return;
		}
	}
	r = vec_add(&g->found);
	r->start = start;
	r->len = len;
}

static void expect_free(struct walk *w, struct group_free *g, size_t *at, uint64_t start, uint64_t end)
{
	const struct range *r = *at < g->found.n ? &g->found.v[*at] : NULL;

	if (start == end)
		return;
	if (r == NULL || r->start != start || r->len != end - start)
		bad(w, "free space of group %llu: %llu to %llu is free, the tree says %llu to %llu",
		    U(g->chunk->start), U(start), U(end), r ? U(r->start) : 0,
		    r ? U(r->start + r->len) : 0);
	(*at)++;
}

static void finish_group(struct walk *w, struct group_free *g)
{
	struct wchunk *c = g->chunk;
	uint64_t pos;
	size_t at = 0, lo = 0, hi = w->extents.n;

	if (c == NULL)
		return;
	if (g->count != g->found.n)
		bad(w, "free space of group %llu: %u extents counted, there are %zu", U(c->start),
		    g->count, g->found.n);
	if (g->flags & FREE_SPACE_USING_BITMAPS && g->bitmap_end != c->start + c->len)
		bad(w, "free space of group %llu: bitmaps end at %llu", U(c->start), U(g->bitmap_end));
	pos = c->start;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (w->extents.v[mid].start < c->start)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < w->extents.n && w->extents.v[lo].start < c->start + c->len; lo++) {
		const struct extent *e = &w->extents.v[lo];

		expect_free(w, g, &at, pos, max_u64(pos, e->start));
		pos = max_u64(pos, e->start + e->len);
	}
	expect_free(w, g, &at, pos, max_u64(pos, c->start + c->len));
	if (at != g->found.n)
		bad(w, "free space of group %llu: %zu ranges, the tree has %zu", U(c->start), at,
		    g->found.n);
	g->chunk = NULL;
	g->found.n = 0;
}

static void info_item(struct walk *w, struct group_free *g, const struct witem *it)
{
	const struct disk_free_space_info *d = (const struct disk_free_space_info *)it->data;
	struct wchunk *c = chunk_of(w, it->key.objectid, it->key.offset);

	if (c == NULL || c->start != it->key.objectid || c->len != it->key.offset) {
		bad(w, "free space: info of group %llu, %llu bytes, which does not exist",
		    U(it->key.objectid), U(it->key.offset));
		return;
	}
	if (it->size != sizeof(*d)) {
		bad(w, "free space of group %llu: info of %u bytes", U(c->start), it->size);
		return;
	}
	g->chunk = c;
	g->count = disk_free_space_info_extent_count(d);
	g->flags = disk_free_space_info_flags(d);
	g->bitmap_end = c->start;
	c->has_info = true;
	if (g->flags & ~FREE_SPACE_USING_BITMAPS)
		bad(w, "free space of group %llu: flags %#x", U(c->start), g->flags);
}

static void bitmap_item(struct walk *w, struct group_free *g, const struct witem *it)
{
	uint64_t bits = it->key.offset / w->sectorsize;

	if (it->key.objectid != g->bitmap_end || it->size != div_round_up(bits, 8)) {
		bad(w, "free space: bitmap " KEY_FMT " of %u bytes after %llu", KEY_ARGS(&it->key),
		    it->size, U(g->bitmap_end));
		return;
	}
	g->bitmap_end += it->key.offset;
	for (uint64_t i = 0; i < bits; i++)
		if (it->data[i / 8] >> (i % 8) & 1)
			add_free(g, it->key.objectid + i * w->sectorsize, w->sectorsize);
}

static void free_space_item(struct walk *w, const struct witem *it, void *arg)
{
	struct group_free *g = arg;
	uint64_t end = it->key.objectid + it->key.offset;
	bool bitmaps;

	if (it->key.type == KEY_FREE_SPACE_INFO) {
		finish_group(w, g);
		info_item(w, g, it);
		return;
	}
	if (it->key.type != KEY_FREE_SPACE_EXTENT && it->key.type != KEY_FREE_SPACE_BITMAP) {
		bad(w, "free space: unexpected item " KEY_FMT, KEY_ARGS(&it->key));
		return;
	}
	if (g->chunk == NULL || end < it->key.objectid || end > g->chunk->start + g->chunk->len) {
		bad(w, "free space: item " KEY_FMT " in no group", KEY_ARGS(&it->key));
		return;
	}
	bitmaps = g->flags & FREE_SPACE_USING_BITMAPS;
	if (bitmaps != (it->key.type == KEY_FREE_SPACE_BITMAP)) {
		bad(w, "free space of group %llu: an item of type %u", U(g->chunk->start), it->key.type);
		return;
	}
	if (bitmaps)
		bitmap_item(w, g, it);
	else if (it->size != 0)
		bad(w, "free space: extent " KEY_FMT " has %u bytes", KEY_ARGS(&it->key), it->size);
	else
		add_free(g, it->key.objectid, it->key.offset);
}

void free_space_check(struct walk *w, struct wtree *t)
{
	struct group_free g = {0};
	bool valid = disk_super_compat_ro_flags(&w->super) & COMPAT_RO_FREE_SPACE_TREE_VALID;

	/* Without the mark nobody believes it: only its blocks count. */
	tree_walk(w, t, valid ? free_space_item : NULL, &g);
	finish_group(w, &g);
	for (size_t i = 0; valid && i < w->chunks.n; i++)
		if (!w->chunks.v[i].has_info)
			bad(w, "free space: nothing about group %llu", U(w->chunks.v[i].start));
	free(g.found.v);
}
