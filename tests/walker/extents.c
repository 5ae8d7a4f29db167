/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/extents.c - extent items, their references and block groups; see walk.h.
 *
 * What the extent tree says is collected here and judged by itself; whether it is true is found out in
 * refs.c.
 */
#include "tests/walker/walk.h"

struct extent_walk {
	size_t index;			/* of the last extent, SIZE_MAX: none */
	uint64_t found;			/* references of it so far */
};

static void finish_extent(struct walk *w, struct extent_walk *ew)
{
	const struct extent *e;

	if (ew->index == SIZE_MAX)
		return;
	e = &w->extents.v[ew->index];
	if (e->refs != ew->found)
		bad(w, "extent %llu: refs %llu, but %llu references", U(e->start), U(e->refs),
		    U(ew->found));
	ew->index = SIZE_MAX;
}

static struct ref *add_ref(struct walk *w, struct extent_walk *ew, uint64_t bytenr, uint8_t type,
			   uint64_t origin, uint64_t count)
{
	struct ref *r = vec_add(&w->refs);

	r->bytenr = bytenr;
	r->type = type;
	r->origin = origin;
	r->count = count;
	ew->found += count;
	if (count == 0)
		bad(w, "extent %llu: a reference of count 0", U(bytenr));
	return r;
}

static void add_data_ref(struct walk *w, struct extent_walk *ew, uint64_t bytenr,
			 const struct disk_extent_data_ref *d)
{
	struct ref *r = add_ref(w, ew, bytenr, KEY_EXTENT_DATA_REF, disk_extent_data_ref_root(d),
				disk_extent_data_ref_count(d));

	r->objectid = disk_extent_data_ref_objectid(d);
	r->offset = disk_extent_data_ref_offset(d);
}

static uint64_t data_ref_hash(const struct disk_extent_data_ref *d)
{
	return hash_extent_data_ref(disk_extent_data_ref_root(d), disk_extent_data_ref_objectid(d),
				    disk_extent_data_ref_offset(d));
}

static size_t inline_ref_size(uint8_t type)
{
	switch (type) {
	case KEY_TREE_BLOCK_REF:
	case KEY_SHARED_BLOCK_REF:
	case KEY_EXTENT_OWNER_REF:
		return sizeof(struct disk_extent_inline_ref);
	case KEY_SHARED_DATA_REF:
		return sizeof(struct disk_extent_inline_ref) + sizeof(struct disk_shared_data_ref);
	case KEY_EXTENT_DATA_REF:
		return offsetof(struct disk_extent_inline_ref, offset) +
		       sizeof(struct disk_extent_data_ref);
	default:
		return 0;
	}
}

static void inline_ref(struct walk *w, struct extent_walk *ew, const struct extent *e,
		       const uint8_t *at, uint8_t type, uint64_t *ret_order)
{
	const struct disk_extent_inline_ref *r = (const struct disk_extent_inline_ref *)at;
	uint64_t offset = disk_extent_inline_ref_offset(r);

	*ret_order = offset;
	if (type == KEY_EXTENT_DATA_REF) {
		const struct disk_extent_data_ref *d = (const void *)&r->offset;

		*ret_order = data_ref_hash(d);
		add_data_ref(w, ew, e->start, d);
	} else if (type == KEY_SHARED_DATA_REF) {
		const struct disk_shared_data_ref *d = (const void *)(at + sizeof(*r));

		add_ref(w, ew, e->start, type, offset, disk_shared_data_ref_count(d));
	} else if (type != KEY_EXTENT_OWNER_REF) {
		add_ref(w, ew, e->start, type, offset, 1);
	}
	if (type != KEY_EXTENT_OWNER_REF &&
	    e->data != (type == KEY_EXTENT_DATA_REF || type == KEY_SHARED_DATA_REF))
		bad(w, "extent %llu: a reference of type %u", U(e->start), type);
}

static void inline_refs(struct walk *w, struct extent_walk *ew, const struct extent *e,
			const uint8_t *at, size_t left)
{
	uint8_t last_type = 0;
	uint64_t last_order = 0;

	while (left > 0) {
		uint8_t type = *at;
		size_t size = inline_ref_size(type);
		uint64_t order;

		if (size == 0 || size > left) {
			bad(w, "extent %llu: inline reference of type %u in %zu bytes", U(e->start), type,
			    left);
			return;
		}
		inline_ref(w, ew, e, at, type, &order);
		if (type < last_type || (type == last_type && order > last_order))
			bad(w, "extent %llu: inline references out of order", U(e->start));
		last_type = type;
		last_order = order;
		at += size;
		left -= size;
	}
}

static void place_extent(struct walk *w, const struct extent *e)
{
	const struct extent *before = w->extents.n > 1 ? &w->extents.v[w->extents.n - 2] : NULL;
	struct wchunk *c = chunk_of(w, e->start, e->len);

	if (!is_aligned(e->start, w->sectorsize) || !is_aligned(e->len, w->sectorsize) || e->len == 0)
		bad(w, "extent %llu: %llu bytes are no whole sectors", U(e->start), U(e->len));
	if (before != NULL && before->start + before->len > e->start)
		bad(w, "extent %llu: overlaps extent %llu", U(e->start), U(before->start));
	if (c == NULL) {
		bad(w, "extent %llu: %llu bytes, not within one chunk", U(e->start), U(e->len));
		return;
	}
	c->used += e->len;
	if (!(c->type & (e->data ? BG_DATA : BG_METADATA | BG_SYSTEM)))
		bad(w, "extent %llu: %s in a chunk of type %#llx", U(e->start),
		    e->data ? "data" : "a tree block", U(c->type));
}

static void extent_item(struct walk *w, struct extent_walk *ew, const struct witem *it)
{
	const struct disk_extent_item *d = (const struct disk_extent_item *)it->data;
	struct extent *e;
	size_t head = sizeof(*d);

	if (it->size < sizeof(*d)) {
		bad(w, "extent %llu: item of %u bytes", U(it->key.objectid), it->size);
		return;
	}
	e = vec_add(&w->extents);
	e->start = it->key.objectid;
	e->refs = disk_extent_item_refs(d);
	e->generation = disk_extent_item_generation(d);
	e->flags = disk_extent_item_flags(d);
	e->data = e->flags & EXTENT_FLAG_DATA;
	if (e->flags != EXTENT_FLAG_DATA &&
	    (e->flags & ~EXTENT_FLAG_FULL_BACKREF) != EXTENT_FLAG_TREE_BLOCK)
		bad(w, "extent %llu: flags %#llx", U(e->start), U(e->flags));
	if (e->generation > w->generation)
		bad(w, "extent %llu: generation %llu", U(e->start), U(e->generation));
	if (it->key.type == KEY_METADATA_ITEM) {
		if (e->data || !w->skinny || it->key.offset >= LEVEL_COUNT)
			bad(w, "extent %llu: a metadata item of %s, level %llu", U(e->start),
			    e->data ? "data" : "a tree block", U(it->key.offset));
		e->level = (uint8_t)min_u64(it->key.offset, LEVEL_COUNT - 1);
		e->len = e->level == 0 ? w->leafsize : w->nodesize;
	} else {
		e->len = it->key.offset;
	}
	if (!e->data && it->key.type == KEY_EXTENT_ITEM) {
		head += sizeof(struct disk_tree_block_info);
		if (it->size < head) {
			bad(w, "extent %llu: a tree block's item of %u bytes", U(e->start), it->size);
			return;
		}
		e->level = disk_tree_block_info_level((const void *)(it->data + sizeof(*d)));
		if (e->len != (e->level == 0 ? w->leafsize : w->nodesize))
			bad(w, "extent %llu: a tree block of %llu bytes", U(e->start), U(e->len));
	}
	ew->index = w->extents.n - 1;
	ew->found = 0;
	place_extent(w, e);
	inline_refs(w, ew, e, it->data + head, it->size - head);
}

/* A reference that has an item of its own. */
static void keyed_ref(struct walk *w, struct extent_walk *ew, const struct witem *it)
{
	uint64_t bytenr = it->key.objectid;
	uint8_t type = it->key.type;
	size_t size = type == KEY_EXTENT_DATA_REF ? sizeof(struct disk_extent_data_ref) :
		      type == KEY_SHARED_DATA_REF ? sizeof(struct disk_shared_data_ref) : 0;
	const struct extent *e = ew->index != SIZE_MAX ? &w->extents.v[ew->index] : NULL;

	if (e == NULL || e->start != bytenr) {
		bad(w, "extent tree: reference " KEY_FMT " without its extent", KEY_ARGS(&it->key));
		return;
	}
	if (it->size != size) {
		bad(w, "extent %llu: reference of type %u in %u bytes", U(bytenr), type, it->size);
		return;
	}
	if (e->data != (size != 0))
		bad(w, "extent %llu: a reference of type %u", U(bytenr), type);
	if (type == KEY_EXTENT_DATA_REF) {
		const struct disk_extent_data_ref *d = (const struct disk_extent_data_ref *)it->data;

		/* Hashes may collide: the key is then the next free one. */
		if (it->key.offset - data_ref_hash(d) > 64)
			bad(w, "extent %llu: reference " KEY_FMT " under a wrong hash", U(bytenr),
			    KEY_ARGS(&it->key));
		add_data_ref(w, ew, bytenr, d);
	} else if (type == KEY_SHARED_DATA_REF) {
		add_ref(w, ew, bytenr, type, it->key.offset,
			disk_shared_data_ref_count((const struct disk_shared_data_ref *)it->data));
	} else {
		add_ref(w, ew, bytenr, type, it->key.offset, 1);
	}
}

static void group_item(struct walk *w, const struct witem *it, void *arg)
{
	const struct disk_block_group_item *d = (const struct disk_block_group_item *)it->data;
	struct wchunk *c = chunk_of(w, it->key.objectid, it->key.offset);

	(void)arg;
	if (it->key.type != KEY_BLOCK_GROUP_ITEM || it->size != sizeof(*d)) {
		bad(w, "block group item " KEY_FMT " of %u bytes", KEY_ARGS(&it->key), it->size);
		return;
	}
	if (c == NULL || c->start != it->key.objectid || c->len != it->key.offset) {
		bad(w, "block group %llu, %llu bytes: no such chunk", U(it->key.objectid),
		    U(it->key.offset));
		return;
	}
	if (disk_block_group_item_chunk_objectid(d) != OBJ_FIRST_CHUNK_TREE ||
	    disk_block_group_item_flags(d) != c->type)
		bad(w, "block group %llu: flags %#llx, its chunk has %#llx", U(c->start),
		    U(disk_block_group_item_flags(d)), U(c->type));
	c->has_group = true;
	c->group_used = disk_block_group_item_used(d);
}

static void extent_tree_item(struct walk *w, const struct witem *it, void *arg)
{
	struct extent_walk *ew = arg;

	switch (it->key.type) {
	case KEY_EXTENT_ITEM:
	case KEY_METADATA_ITEM:
		finish_extent(w, ew);
		extent_item(w, ew, it);
		break;
	case KEY_TREE_BLOCK_REF:
	case KEY_SHARED_BLOCK_REF:
	case KEY_EXTENT_DATA_REF:
	case KEY_SHARED_DATA_REF:
		keyed_ref(w, ew, it);
		break;
	case KEY_BLOCK_GROUP_ITEM:
		if (w->group_tree)
			bad(w, "block group %llu: in the extent tree", U(it->key.objectid));
		group_item(w, it, NULL);
		break;
	default:
		bad(w, "extent tree: unexpected item " KEY_FMT, KEY_ARGS(&it->key));
	}
}

void extent_tree_check(struct walk *w, struct wtree *t)
{
	struct extent_walk ew = { .index = SIZE_MAX };

	tree_walk(w, t, extent_tree_item, &ew);
	finish_extent(w, &ew);
}

void block_group_tree_check(struct walk *w, struct wtree *t)
{
	tree_walk(w, t, group_item, NULL);
}

void block_groups_check(struct walk *w)
{
	uint64_t used = 0;

	for (size_t i = 0; i < w->chunks.n; i++) {
		const struct wchunk *c = &w->chunks.v[i];

		used += c->used;
		if (!c->has_group)
			bad(w, "chunk %llu: no block group item", U(c->start));
		else if (c->group_used != c->used)
			bad(w, "block group %llu: used %llu, its extents have %llu", U(c->start),
			    U(c->group_used), U(c->used));
	}
	if (used != disk_super_bytes_used(&w->super))
		bad(w, "superblock: %llu bytes used, extents have %llu",
		    U(disk_super_bytes_used(&w->super)), U(used));
}

const struct extent *extent_find(struct walk *w, uint64_t start)
{
	size_t lo = 0, hi = w->extents.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (w->extents.v[mid].start <= start)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > 0 && w->extents.v[lo - 1].start == start ? &w->extents.v[lo - 1] : NULL;
}
