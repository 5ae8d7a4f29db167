/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/csum_cut.c - takes the checksums of a range out of a checksum tree (see csum_cut.h).
 */
#include "alloc/csum_cut.h"

#include <errno.h>

#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

struct csum_cutter {
	struct txn_handle *tx;
	struct tree *csums;
	uint32_t sectorsize;
	uint32_t csum_bytes;
	uint64_t start, end;		/* what is cut */
};

static struct key csum_key(uint64_t logical)
{
	return key_make(OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, logical);
}

/* Is this a checksum item, whole and aligned? Its end then. */
static int csum_item_end(const struct csum_cutter *c, const struct item *it, uint64_t *ret_end)
{
	uint64_t end = 0;

	if (it->size == 0 || it->size % c->csum_bytes != 0 ||
	    !is_aligned(it->key.offset, c->sectorsize) ||
	    add_overflows(it->key.offset, (uint64_t)(it->size / c->csum_bytes) * c->sectorsize, &end))
		return corrupt(tree_id(c->csums), NO_ADDRESS, NO_SLOT,
			       "checksum item " KEY_FMT " of %u bytes", KEY_ARGS(&it->key), it->size);
	*ret_end = end;
	return 0;
}

/* Bytes of item data that the sectors between two addresses take. */
static uint32_t csum_span(const struct csum_cutter *c, uint64_t from, uint64_t to)
{
	return (uint32_t)((to - from) / c->sectorsize) * c->csum_bytes;
}

/*
 * Cuts one item that covers [it->key.offset, end) and overlaps the range. The part behind the range
 * becomes an item of its own. It is inserted before the old item is shortened or deleted, so that
 * readers, which are in no transaction, find the checksums of live data at any moment.
 */
static int cut_item(struct csum_cutter *c, const struct item *it, uint64_t end)
{
	uint64_t begin = it->key.offset;
	struct key tail = csum_key(c->end);

	if (end > c->end) {
		int err = tree_insert(c->tx, c->csums, &tail, it->data + csum_span(c, begin, c->end),
				      csum_span(c, c->end, end));

		if (err < 0)
			return err;
	}
	if (begin < c->start)
		return tree_replace(c->tx, c->csums, &it->key, it->data,
				    csum_span(c, begin, c->start));
	return tree_delete(c->tx, c->csums, &it->key);
}

/* The item that begins before the range and may reach into it. */
static int cut_before(struct csum_cutter *c, struct item *it)
{
	struct key key = csum_key(c->start);
	uint64_t end = 0;
	int err;

	err = tree_seek(c->csums, &key, SEEK_ITEM_LT, it);
	if (err == -ENOENT)
		return 0;
	if (err < 0)
		return err;
	if (it->key.objectid != OBJ_EXTENT_CSUM || it->key.type != KEY_EXTENT_CSUM)
		return 0;
	err = csum_item_end(c, it, &end);
	if (err < 0 || end <= c->start)
		return err;
	return cut_item(c, it, end);
}

int csum_cut(struct txn_handle *tx, struct tree *csums, uint32_t sectorsize, uint32_t csum_bytes,
	     uint64_t start, uint64_t len)
{
	struct csum_cutter c = {.tx = tx, .csums = csums, .sectorsize = sectorsize,
				.csum_bytes = csum_bytes, .start = start, .end = start + len};
	struct key key = csum_key(start), last = csum_key(start + len - 1);
	scoped(item_done) struct item it;
	uint64_t end = 0;
	int err;

	must(is_aligned(start, sectorsize) && is_aligned(len, sectorsize) && len > 0);
	item_init(&it);
	err = cut_before(&c, &it);
	/* Ends: each round deletes an item that begins inside the range. */
	while (err == 0) {
		err = tree_seek(csums, &key, SEEK_ITEM_GE, &it);
		if (err == -ENOENT)
			return 0;
		if (err < 0)
			return err;
		if (key_cmp(&it.key, &last) > 0)
			return 0;
		err = csum_item_end(&c, &it, &end);
		if (err == 0)
			err = cut_item(&c, &it, end);
	}
	return err;
}
