/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/csum_tree.c - checksums of file data (see csum_tree.h).
 *
 * An item (OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, logical) is a bare array. New items are at most a
 * quarter of a leaf and ITEM_BYTES_MAX, so that appending to one, which rewrites it, stays cheap;
 * items made by others may be as big as a leaf.
 */
#include "fs/csum_tree.h"

#include "fs/txn.h"
#include "io/log.h"

#include <errno.h>
#include <inttypes.h>

#define ITEM_BYTES_MAX 4096u
#define APPEND_BYTES_MAX 2048u		/* an item longer than this is not appended to */

static struct key csum_key(uint64_t bytenr)
{
	return key_make(OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, bytenr);
}

static bool is_csum(const struct key *k)
{
	return k->objectid == OBJ_EXTENT_CSUM && k->type == KEY_EXTENT_CSUM;
}

static int check_item(struct fs *fs, const struct item *it, uint64_t *ret_end)
{
	if (it->size == 0 || it->size % fs->csum_size != 0 || !is_aligned(it->key.offset, fs->sectorsize) ||
	    add_overflows(it->key.offset, (uint64_t)(it->size / fs->csum_size) * fs->sectorsize, ret_end))
		return corrupt(OBJ_CSUM_TREE, NO_ADDRESS, NO_SLOT,
			       "checksum item at %" PRIu64 " of %" PRIu32 " bytes", it->key.offset,
			       it->size);
	return 0;
}

/* The csum item at or before `bytenr`: its end in *ret_end. -ENOENT: none. */
static int item_before(struct fs *fs, uint64_t bytenr, struct item *it, uint64_t *ret_end)
{
	struct key key = csum_key(bytenr);
	int err = tree_seek(fs->trees.csum, &key, SEEK_ITEM_LE, it);

	if (err < 0)
		return err;
	if (!is_csum(&it->key))
		return -ENOENT;
	return check_item(fs, it, ret_end);
}

/* Where the next item after `bytenr` begins, at most `limit`. */
static int next_start(struct fs *fs, uint64_t bytenr, uint64_t limit, uint64_t *ret_start)
{
	scoped(item_done) struct item it;
	struct key key = csum_key(bytenr);
	int err;

	item_init(&it);
	err = tree_seek(fs->trees.csum, &key, SEEK_ITEM_GT, &it);
	if (err < 0 && err != -ENOENT)
		return err;
	*ret_start = err == 0 && is_csum(&it.key) ? min_u64(it.key.offset, limit) : limit;
	return 0;
}

struct overwrite {
	uint32_t at, len;
	const uint8_t *sums;
};

static int overwrite_sums(void *data, uint32_t size, void *arg)
{
	const struct overwrite *o = arg;

	if (o->at > size || o->len > size - o->at)
		return -EUCLEAN;
	memcpy((uint8_t *)data + o->at, o->sums, o->len);
	return 0;
}

static int append_sums(struct fs *fs, struct txn_handle *tx, const struct item *it,
		       const uint8_t *sums, uint32_t len)
{
	uint8_t buf[ITEM_BYTES_MAX];

	memcpy(buf, it->data, it->size);
	memcpy(buf + it->size, sums, len);
	return tree_replace(tx, fs->trees.csum, &it->key, buf, it->size + len);
}

/* Stores some sums from bytenr on, at most `n`; *ret_n tells how many. */
static int insert_step(struct fs *fs, struct txn_handle *tx, uint64_t bytenr, const uint8_t *sums,
		       unsigned n, unsigned *ret_n)
{
	uint32_t cs = fs->csum_size;
	uint32_t max = min_u32(ITEM_BYTES_MAX, tree_max_item_size(fs->env) / 4) / cs * cs;
	scoped(item_done) struct item it;
	struct key key = csum_key(bytenr);
	uint64_t end = 0, limit = bytenr + (uint64_t)n * fs->sectorsize;
	int err;

	item_init(&it);
	err = item_before(fs, bytenr, &it, &end);
	if (err < 0 && err != -ENOENT)
		return err;
	if (err == 0 && end > bytenr) {
		unsigned m = (unsigned)((min_u64(end, limit) - bytenr) / fs->sectorsize);
		struct overwrite o = {(uint32_t)((bytenr - it.key.offset) / fs->sectorsize) * cs,
				      m * cs, sums};

		*ret_n = m;
		return tree_edit(tx, fs->trees.csum, &it.key, overwrite_sums, &o);
	}
	if (err == 0 && end == bytenr && it.size < min_u32(APPEND_BYTES_MAX, max)) {
		err = next_start(fs, it.key.offset, limit, &limit);
		if (err < 0)
			return err;
		n = min_u32((max - it.size) / cs, (uint32_t)((limit - bytenr) / fs->sectorsize));
		*ret_n = n;
		return append_sums(fs, tx, &it, sums, n * cs);
	}
	err = next_start(fs, bytenr, limit, &limit);
	if (err < 0)
		return err;
	n = min_u32(max / cs, (uint32_t)((limit - bytenr) / fs->sectorsize));
	*ret_n = n;
	return tree_insert(tx, fs->trees.csum, &key, sums, n * cs);
}

int csum_insert(struct fs *fs, struct txn_handle *tx, uint64_t bytenr, const uint8_t *sums,
		unsigned n)
{
	while (n > 0) {
		unsigned done = 0;
		int err = insert_step(fs, tx, bytenr, sums, n, &done);

		if (err < 0)
			return err;
		bytenr += (uint64_t)done * fs->sectorsize;
		sums += (size_t)done * fs->csum_size;
		n -= done;
	}
	return 0;
}

/* Copies what an item has of the n sectors from bytenr. */
static void copy_sums(struct fs *fs, const struct item *it, uint64_t item_end, uint64_t bytenr,
		      unsigned n, uint8_t *sums, uint8_t *have)
{
	uint64_t from = max_u64(it->key.offset, bytenr);
	uint64_t to = min_u64(item_end, bytenr + (uint64_t)n * fs->sectorsize);
	size_t first, count;

	if (from >= to)
		return;
	first = (size_t)((from - bytenr) / fs->sectorsize);
	count = (size_t)((to - from) / fs->sectorsize);
	memcpy(sums + first * fs->csum_size,
	       it->data + (size_t)((from - it->key.offset) / fs->sectorsize) * fs->csum_size,
	       count * fs->csum_size);
	memset(have + first, 1, count);
}

int csum_lookup(struct fs *fs, uint64_t bytenr, unsigned n, uint8_t *ret_sums, uint8_t *ret_have)
{
	uint64_t limit = bytenr + (uint64_t)n * fs->sectorsize, end = bytenr;
	scoped(item_done) struct item it;
	scoped(cursor_done) struct cursor c = {0};
	struct key first, last = csum_key(limit - 1);
	int ret;

	item_init(&it);
	memset(ret_have, 0, n);
	if (fs->trees.csum == NULL || n == 0)
		return 0;
	ret = item_before(fs, bytenr, &it, &end);
	if (ret == 0)
		copy_sums(fs, &it, end, bytenr, n, ret_sums, ret_have);
	else if (ret != -ENOENT)
		return ret;
	if (end >= limit)
		return 0;
	first = csum_key(bytenr + 1);
	cursor_init(&c, fs->trees.csum, &first, &last);
	while ((ret = cursor_next(&c)) == 1) {
		ret = check_item(fs, &c.item, &end);
		if (ret < 0)
			return ret;
		copy_sums(fs, &c.item, end, bytenr, n, ret_sums, ret_have);
	}
	return ret;
}
