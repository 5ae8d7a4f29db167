/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/delalloc.c - chunks of dirty data (see delalloc.h).
 *
 * Each chunk is one allocation: a sequential writer makes chunks of up to 1 MiB, a random one of a
 * sector. Contiguous chunks are not merged, since a flush gathers them anyway.
 */
#include "fs/delalloc.h"

#include <errno.h>
#include <string.h>

static int chunk_cmp(struct dirty_chunk *a, struct dirty_chunk *b)
{
	return a->off < b->off ? -1 : a->off > b->off;
}

RB_GENERATE_LOCAL(dirty_tree, dirty_chunk, node, chunk_cmp)

static uint64_t chunk_end(const struct dirty_chunk *c)
{
	return c->off + c->len;
}

struct delalloc *delalloc_new(struct inode *in)
{
	struct delalloc *d = calloc(1, sizeof(*d));

	if (d == NULL)
		return NULL;
	d->in = inode_ref(in);
	RB_INIT(&d->dirty);
	RB_INIT(&d->wb);
	d->wb_cut = UINT64_MAX;
	return d;
}

static void tree_clear(struct dirty_tree *t)
{
	struct dirty_chunk *c;

	while ((c = RB_ROOT(t)) != NULL) {
		RB_REMOVE(dirty_tree, t, c);
		free(c);
	}
}

void delalloc_free(struct delalloc *d)
{
	if (d == NULL)
		return;
	tree_clear(&d->dirty);
	tree_clear(&d->wb);
	free(d);
}

struct dirty_chunk *dirty_find(struct dirty_tree *t, uint64_t off)
{
	struct dirty_chunk *c = RB_ROOT(t), *best = NULL;

	while (c != NULL) {
		if (chunk_end(c) > off) {
			best = c;
			c = RB_LEFT(c, node);
		} else {
			c = RB_RIGHT(c, node);
		}
	}
	return best;
}

struct dirty_chunk *dirty_next(struct dirty_chunk *c)
{
	return RB_NEXT(dirty_tree, NULL, c);
}

/* Like delalloc_at() in one layer. */
static uint64_t layer_at(struct dirty_tree *t, uint64_t pos, uint64_t end, const uint8_t **ret_data)
{
	struct dirty_chunk *c = dirty_find(t, pos);

	*ret_data = NULL;
	if (c == NULL || c->off >= end)
		return end - pos;
	if (c->off > pos)
		return c->off - pos;
	*ret_data = c->data + (pos - c->off);
	return min_u64(end, chunk_end(c)) - pos;
}

uint64_t delalloc_at(struct delalloc *d, uint64_t pos, uint64_t end, const uint8_t **ret_data)
{
	uint64_t n = end - pos;

	*ret_data = NULL;
	if (d == NULL)
		return n;
	n = layer_at(&d->dirty, pos, end, ret_data);
	if (*ret_data != NULL || !d->wb_active || pos >= d->wb_cut)
		return n;
	return layer_at(&d->wb, pos, min_u64(pos + n, d->wb_cut), ret_data);
}

bool delalloc_has(struct delalloc *d, uint64_t off)
{
	struct dirty_chunk *c = d == NULL ? NULL : dirty_find(&d->dirty, off);

	return c != NULL && c->off <= off;
}

uint64_t delalloc_missing(struct delalloc *d, uint64_t start, uint64_t end, unsigned *ret_runs)
{
	uint64_t missing = 0;

	*ret_runs = 0;
	if (d == NULL) {
		*ret_runs = 1;
		return end - start;
	}
	for (uint64_t pos = start; pos < end;) {
		const uint8_t *data;
		uint64_t n = layer_at(&d->dirty, pos, end, &data);

		if (data == NULL) {
			missing += n;
			if (pos == 0 || !delalloc_has(d, pos - 1))
				++*ret_runs;
		}
		pos += n;
	}
	return missing;
}

/* Chunks for a gap, chained in `list`. */
static int chunks_for_gap(uint64_t start, uint64_t end, struct dirty_tree *list)
{
	while (start < end) {
		uint32_t len = (uint32_t)min_u64(end - start, CHUNK_MAX_BYTES);
		struct dirty_chunk *c = malloc(sizeof(*c) + len);

		if (c == NULL)
			return -ENOMEM;
		c->off = start;
		c->len = len;
		RB_INSERT(dirty_tree, list, c);
		start += len;
	}
	return 0;
}

int delalloc_fill(struct delalloc *d, uint64_t start, uint64_t end)
{
	struct dirty_tree fresh = RB_INITIALIZER(&fresh);
	struct dirty_chunk *c;

	for (uint64_t pos = start; pos < end;) {
		const uint8_t *data;
		uint64_t n = layer_at(&d->dirty, pos, end, &data);
		int err = data == NULL ? chunks_for_gap(pos, pos + n, &fresh) : 0;

		if (err < 0) {
			tree_clear(&fresh);
			return err;
		}
		pos += n;
	}
	while ((c = RB_ROOT(&fresh)) != NULL) {
		RB_REMOVE(dirty_tree, &fresh, c);
		RB_INSERT(dirty_tree, &d->dirty, c);
		d->dirty_bytes += c->len;
	}
	return 0;
}

void delalloc_copy(struct delalloc *d, uint64_t off, const void *src, uint64_t len)
{
	struct dirty_chunk *c = dirty_find(&d->dirty, off);
	const uint8_t *from = src;

	while (len > 0) {
		size_t at, n;

		must(c != NULL && c->off <= off);
		at = (size_t)(off - c->off);
		n = (size_t)min_u64(len, c->len - at);
		if (from != NULL) {
			memcpy(c->data + at, from, n);
			from += n;
		} else {
			memset(c->data + at, 0, n);
		}
		off += n;
		len -= n;
		if (len > 0)
			c = dirty_next(c);
	}
}

uint64_t delalloc_drop_from(struct delalloc *d, uint64_t start)
{
	uint64_t before = d->dirty_bytes;
	struct dirty_chunk *c = dirty_find(&d->dirty, start);

	if (c != NULL && c->off < start) {
		d->dirty_bytes -= chunk_end(c) - start;
		c->len = (uint32_t)(start - c->off);
		c = dirty_next(c);
	}
	while (c != NULL) {
		struct dirty_chunk *next = dirty_next(c);

		RB_REMOVE(dirty_tree, &d->dirty, c);
		d->dirty_bytes -= c->len;
		free(c);
		c = next;
	}
	return before - d->dirty_bytes;
}

/* A new chunk of what a chunk has from `at` on. */
static struct dirty_chunk *chunk_tail(const struct dirty_chunk *c, uint64_t at)
{
	uint32_t skip = (uint32_t)(at - c->off);
	struct dirty_chunk *tail = malloc(sizeof(*tail) + c->len - skip);

	if (tail == NULL)
		return NULL;
	tail->off = at;
	tail->len = c->len - skip;
	memcpy(tail->data, c->data + skip, tail->len);
	return tail;
}

int delalloc_drop(struct delalloc *d, uint64_t start, uint64_t end)
{
	struct dirty_chunk *c = dirty_find(&d->dirty, start), *next;

	for (; c != NULL && c->off < end; c = next) {
		struct dirty_chunk *tail = NULL;

		next = dirty_next(c);
		if (chunk_end(c) > end) {
			tail = chunk_tail(c, end);
			if (tail == NULL)
				return -ENOMEM;
		}
		if (c->off < start) {
			d->dirty_bytes -= chunk_end(c) - start;
			c->len = (uint32_t)(start - c->off);
		} else {
			d->dirty_bytes -= c->len;
			RB_REMOVE(dirty_tree, &d->dirty, c);
			free(c);
		}
		if (tail != NULL) {
			d->dirty_bytes += tail->len;
			RB_INSERT(dirty_tree, &d->dirty, tail);
		}
	}
	return 0;
}

void delalloc_begin_wb(struct delalloc *d)
{
	must(!d->wb_active);
	d->wb = d->dirty;
	d->wb_bytes = d->dirty_bytes;
	d->wb_cut = UINT64_MAX;
	d->wb_active = true;
	RB_INIT(&d->dirty);
	d->dirty_bytes = 0;
}

void delalloc_end_wb(struct delalloc *d)
{
	tree_clear(&d->wb);
	d->wb_bytes = 0;
	d->wb_cut = UINT64_MAX;
	d->wb_active = false;
}
