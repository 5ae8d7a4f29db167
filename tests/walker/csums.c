/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/csums.c - checksum items, and data against them; see walk.h.
 */
#include "tests/walker/walk.h"

static void csum_item(struct walk *w, const struct witem *it, void *arg)
{
	const struct csum_range *before = w->csums.n > 0 ? &w->csums.v[w->csums.n - 1] : NULL;
	struct csum_range *c;
	uint64_t len = it->size / w->csum_bytes * w->sectorsize;

	(void)arg;
	if (it->key.objectid != OBJ_EXTENT_CSUM || it->key.type != KEY_EXTENT_CSUM) {
		bad(w, "checksum tree: unexpected item " KEY_FMT, KEY_ARGS(&it->key));
		return;
	}
	if (it->size == 0 || it->size % w->csum_bytes != 0 ||
	    !is_aligned(it->key.offset, w->sectorsize) || it->key.offset > UINT64_MAX - len) {
		bad(w, "checksums at %llu: %u bytes", U(it->key.offset), it->size);
		return;
	}
	if (before != NULL && before->start + before->len > it->key.offset)
		bad(w, "checksums at %llu: overlap those at %llu", U(it->key.offset), U(before->start));
	c = vec_add(&w->csums);
	c->start = it->key.offset;
	c->len = len;
	c->sums = it->data;
}

void csum_tree_check(struct walk *w, struct wtree *t)
{
	tree_walk(w, t, csum_item, NULL);
}

/* The first range that ends after the address. */
static size_t first_after(const struct walk *w, uint64_t logical)
{
	size_t lo = 0, hi = w->csums.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (w->csums.v[mid].start + w->csums.v[mid].len <= logical)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

uint64_t csum_covered(const struct walk *w, uint64_t start, uint64_t len)
{
	uint64_t covered = 0;

	for (size_t i = first_after(w, start); i < w->csums.n && w->csums.v[i].start < start + len; i++) {
		const struct csum_range *c = &w->csums.v[i];

		covered += min_u64(c->start + c->len, start + len) - max_u64(c->start, start);
	}
	return covered;
}

/* One range of sectors of a data extent, in all copies. */
static void verify(struct walk *w, uint64_t start, uint64_t len, const uint8_t *sums)
{
	for (uint64_t at = 0; at < len; at += w->sectorsize, sums += w->csum_bytes) {
		const uint8_t *data;

		for (unsigned i = 0; (data = bytes_at(w, start + at, w->sectorsize, i)) != NULL; i++) {
			uint8_t sum[CSUM_MAX_BYTES];

			csum_block(w->csum_type, data, w->sectorsize, sum);
			if (memcmp(sum, sums, w->csum_bytes) != 0)
				bad(w, "data at %llu copy %u: wrong checksum", U(start + at), i);
		}
	}
}

void csum_data_check(struct walk *w)
{
	size_t e = 0;

	for (size_t i = 0; i < w->csums.n; i++) {
		const struct csum_range *c = &w->csums.v[i];
		uint64_t pos = c->start, end = c->start + c->len;

		while (pos < end) {
			const struct extent *x;
			uint64_t stop;

			while (e < w->extents.n && (!w->extents.v[e].data ||
						    w->extents.v[e].start + w->extents.v[e].len <= pos))
				e++;
			x = e < w->extents.n ? &w->extents.v[e] : NULL;
			if (x == NULL || x->start > pos) {
				stop = x == NULL ? end : min_u64(end, x->start);
				bad(w, "checksums of %llu to %llu, where no data extent is", U(pos),
				    U(stop));
			} else {
				stop = min_u64(end, x->start + x->len);
				verify(w, pos, stop - pos,
				       c->sums + (pos - c->start) / w->sectorsize * w->csum_bytes);
			}
			pos = stop;
		}
	}
}
