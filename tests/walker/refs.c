/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/refs.c - references recomputed from all tree blocks; see walk.h.
 *
 * Each block that any tree reaches refers once to what it points to: by its own address if its extent
 * item says FULL_BACKREF, else by the tree that made it. Each root item refers to its root block. The
 * sum of these must be what the extent tree holds, no more and no less.
 */
#include "tests/walker/walk.h"

static struct ref *expect(struct walk *w, uint64_t bytenr, uint8_t type, uint64_t origin)
{
	struct ref *r = vec_add(&w->expected);

	r->bytenr = bytenr;
	r->type = type;
	r->origin = origin;
	r->count = 1;
	return r;
}

static void expect_data(struct walk *w, const struct block *b, bool full, const struct witem *it)
{
	const struct disk_file_extent *d = (const struct disk_file_extent *)it->data;
	const struct extent *e;
	struct ref *r;
	uint64_t bytenr;

	if (it->size != sizeof(*d) || disk_file_extent_type(d) == FILE_EXTENT_INLINE)
		return;
	bytenr = disk_file_extent_disk_bytenr(d);
	if (bytenr == 0)
		return;
	e = extent_find(w, bytenr);
	if (e != NULL && (!e->data || e->len != disk_file_extent_disk_num_bytes(d)))
		bad(w, "block %llu: file extent " KEY_FMT " names %llu bytes at %llu, which %s %llu",
		    U(b->bytenr), KEY_ARGS(&it->key), U(disk_file_extent_disk_num_bytes(d)), U(bytenr),
		    e->data ? "has" : "is no data and has", U(e->len));
	r = expect(w, bytenr, full ? KEY_SHARED_DATA_REF : KEY_EXTENT_DATA_REF,
		   full ? b->bytenr : b->owner);
	if (!full) {
		r->objectid = it->key.objectid;
		r->offset = it->key.offset - disk_file_extent_offset(d);
	}
}

static void block_refs(struct walk *w, const struct block *b)
{
	const struct extent *e = extent_find(w, b->bytenr);
	bool full = false;

	if (e == NULL) {
		bad(w, "block %llu of tree %llu: no extent item", U(b->bytenr), U(b->owner));
	} else {
		full = e->flags & EXTENT_FLAG_FULL_BACKREF;
		if (e->data || e->level != b->level)
			bad(w, "block %llu: its extent item says %s, level %u, not %u", U(b->bytenr),
			    e->data ? "data" : "tree block", e->level, b->level);
		if (e->generation > b->generation)
			bad(w, "block %llu: generation %llu, its extent item %llu", U(b->bytenr),
			    U(b->generation), U(e->generation));
	}
	if (!b->good)
		return;
	for (uint32_t i = 0; i < b->nritems; i++) {
		if (b->level == 0) {
			struct witem it;

			block_item(b, i, &it);
			if (it.key.type == KEY_EXTENT_DATA)
				expect_data(w, b, full, &it);
		} else {
			struct key key;
			uint64_t bytenr, generation;

			if (b->dropping != NULL && block_dropped(b->dropping, b, i))
				continue;
			block_ptr(b, i, &key, &bytenr, &generation);
			expect(w, bytenr, full ? KEY_SHARED_BLOCK_REF : KEY_TREE_BLOCK_REF,
			       full ? b->bytenr : b->owner);
		}
	}
}

static int ref_cmp(const void *a, const void *b)
{
	const struct ref *x = a, *y = b;

	if (x->bytenr != y->bytenr)
		return x->bytenr < y->bytenr ? -1 : 1;
	if (x->type != y->type)
		return x->type < y->type ? -1 : 1;
	if (x->origin != y->origin)
		return x->origin < y->origin ? -1 : 1;
	if (x->objectid != y->objectid)
		return x->objectid < y->objectid ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Equal ones become one with their counts added. */
static size_t merge_refs(struct ref *v, size_t n)
{
	size_t out = 0;

	for (size_t i = 0; i < n; i++) {
		if (out > 0 && ref_cmp(&v[out - 1], &v[i]) == 0)
			v[out - 1].count += v[i].count;
		else
			v[out++] = v[i];
	}
	return out;
}

static void report(struct walk *w, const struct ref *r, uint64_t have, uint64_t want)
{
	bad(w, "extent %llu: reference of type %u by %llu (%llu %llu) counted %llu, found %llu",
	    U(r->bytenr), r->type, U(r->origin), U(r->objectid), U(r->offset), U(have), U(want));
}

void refs_check(struct walk *w)
{
	size_t i = 0, j = 0;

	for (size_t k = 0; k < w->blocks.n; k++)
		block_refs(w, &w->blocks.v[k]);
	expect(w, disk_super_root(&w->super), KEY_TREE_BLOCK_REF, OBJ_ROOT_TREE);
	expect(w, disk_super_chunk_root(&w->super), KEY_TREE_BLOCK_REF, OBJ_CHUNK_TREE);
	for (size_t k = 0; k < w->roots.n; k++) {
		const struct wtree *t = &w->roots.v[k].tree;

		expect(w, t->bytenr, t->reloc ? KEY_SHARED_BLOCK_REF : KEY_TREE_BLOCK_REF,
		       t->reloc ? t->bytenr : t->id);
	}
	vec_sort(&w->refs, ref_cmp);
	vec_sort(&w->expected, ref_cmp);
	w->expected.n = merge_refs(w->expected.v, w->expected.n);
	while (i < w->refs.n || j < w->expected.n) {
		const struct ref *a = i < w->refs.n ? &w->refs.v[i] : NULL;
		const struct ref *b = j < w->expected.n ? &w->expected.v[j] : NULL;
		int c = a == NULL ? 1 : b == NULL ? -1 : ref_cmp(a, b);

		if (c < 0)
			report(w, a, a->count, 0);
		else if (c > 0)
			report(w, b, 0, b->count);
		else if (a->count != b->count)
			report(w, a, a->count, b->count);
		i += c <= 0;
		j += c >= 0;
	}
}
