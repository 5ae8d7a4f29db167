/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flush_in_place.c - NODATACOW and preallocated extents are written where they are (flush.h).
 *
 * An extent qualifies if this inode alone has it: asked after its leaf was COWed in the running
 * transaction, since sharing through a snapshot sits in the leaf. A preallocated one becomes
 * a regular one once the data are on the device. What does not qualify stays dirty and is COWed.
 *
 * Locks: in->lock exclusive all the time, over the device writes too, so that nothing here can be
 * freed meanwhile.
 */
#include "fs/flush.h"

#include "fs/csum_tree.h"
#include "fs/file_extent.h"
#include "fs/flusher.h"
#include "fs/txn.h"
#include "io/csum.h"
#include "io/fault.h"

#include <errno.h>

#define GROUP_EXTENTS 32u		/* judged, written and converted at a time */
#define ITEMS_PER_EXTENT 5u

struct target {
	struct file_extent fe;
	uint64_t from, to;		/* dirty range of the file inside of it */
	bool ok;
};

static bool qualifies(const struct inode *in, const struct file_extent *fe)
{
	if (fe->disk_bytenr == 0 || fe->compression != COMPRESS_NONE)
		return false;
	return fe->type == FILE_EXTENT_PREALLOC ||
	       (fe->type == FILE_EXTENT_REG && (in->flags & INODE_NODATACOW));
}

/* Candidates in the run [start, end) of dirty data; *ret_pos: where to look on. */
static int find_targets(struct inode *in, uint64_t start, uint64_t end, struct target *t, unsigned *ret_n,
			uint64_t *ret_pos)
{
	scoped(extent_walk_done) struct extent_walk w = {0};
	struct file_extent fe;
	unsigned n = 0;
	int ret = extent_walk_init(&w, in, start, end);

	*ret_pos = end;
	while (ret >= 0 && n < GROUP_EXTENTS) {
		ret = extent_walk_next(&w, &fe);
		if (ret <= 0)
			break;
		if (!qualifies(in, &fe))
			continue;
		t[n] = (struct target){.fe = fe, .from = max_u64(start, fe.file_off),
				       .to = min_u64(end, file_extent_end(&fe))};
		*ret_pos = t[n++].to;
	}
	if (ret < 0)
		return ret;
	if (n < GROUP_EXTENTS)
		*ret_pos = end;
	*ret_n = n;
	return 0;
}

static int touch(void *data, uint32_t size, void *arg)
{
	(void)data;
	(void)size;
	(void)arg;
	return 0;
}

static int judge(struct inode *in, struct target *t, unsigned n)
{
	struct fs *fs = inode_fs(in);
	struct txn_handle tx;
	int ret = txn_start(fs, &tx, n, RSV_NORMAL);

	if (ret < 0)
		return ret;
	for (unsigned i = 0; i < n && ret >= 0; i++) {
		struct key key = key_make(in->ino, KEY_EXTENT_DATA, t[i].fe.file_off);

		ret = tree_edit(&tx, in->sv->tree, &key, touch, NULL);
		if (ret == 0)
			ret = space_extent_unshared(fs->space, &tx, t[i].fe.disk_bytenr, t[i].fe.disk_len,
						    in->sv->id, in->ino, in->sv->last_snapshot);
		t[i].ok = ret > 0;
	}
	if (ret < 0)
		txn_abort(fs, ret);
	txn_end(fs, &tx);
	return ret < 0 ? ret : 0;
}

static int write_target(struct inode *in, const struct target *t)
{
	struct fs *fs = inode_fs(in);
	uint64_t base = t->fe.disk_bytenr + t->fe.offset - t->fe.file_off;
	struct dirty_chunk *c = dirty_find(&in->dirty->dirty, t->from);
	int err = fault_point("flush.write") ? -EIO : 0;

	for (uint64_t pos = t->from; pos < t->to && err == 0; c = dirty_next(c)) {
		uint64_t n = min_u64(t->to, c->off + c->len) - pos;

		err = volume_write(fs->vol, base + pos, c->data + (pos - c->off), (size_t)n);
		pos += n;
	}
	return err;
}

static int insert_sums(struct txn_handle *tx, struct inode *in, const struct target *t)
{
	struct fs *fs = inode_fs(in);
	uint64_t base = t->fe.disk_bytenr + t->fe.offset - t->fe.file_off;
	struct dirty_chunk *c = dirty_find(&in->dirty->dirty, t->from);
	int err = 0;

	for (uint64_t pos = t->from; pos < t->to && err == 0; c = dirty_next(c)) {
		uint64_t n = min_u64(t->to, c->off + c->len) - pos;
		size_t sectors = (size_t)(n / fs->sectorsize);
		scoped(freep) uint8_t *sums = malloc(sectors * fs->csum_size);

		if (sums == NULL)
			return -ENOMEM;
		csum_sectors((enum csum_type)fs->csum_type, c->data + (pos - c->off), fs->sectorsize, sectors,
			     sums);
		err = csum_insert(fs, tx, base + pos, sums, (unsigned)sectors);
		pos += n;
	}
	return err;
}

/* The written part of a preallocated extent becomes a regular item of its own. */
static int convert(struct txn_handle *tx, struct inode *in, const struct target *t)
{
	struct file_extent fe = t->fe;
	struct extent_ref ref = {
		.bytenr = fe.disk_bytenr,
		.len = fe.disk_len,
		.root = in->sv->id,
		.objectid = in->ino,
		.offset = fe.file_off - fe.offset,
		.count = 1,
		.type = KEY_EXTENT_DATA_REF,
	};
	struct fs *fs = inode_fs(in);
	int err;

	fe.type = FILE_EXTENT_REG;
	fe.offset += t->from - fe.file_off;
	fe.file_off = t->from;
	fe.len = t->to - t->from;
	/* One reference more while it changes: the extent must not fall to none between the two. */
	err = space_add_ref(fs->space, tx, &ref, false);
	if (err == 0)
		err = file_drop_extents(tx, in, t->from, t->to);
	if (err == 0)
		err = file_insert_extent(tx, in, &fe, false);
	if (err == 0)
		err = space_drop_ref(fs->space, tx, &ref);
	if (err == 0 && !(in->flags & INODE_NODATASUM))
		err = insert_sums(tx, in, t);
	return err;
}

/* Where the dirty data begin that the targets leave over; UINT64_MAX: nowhere. */
static uint64_t first_left(struct inode *in, const struct target *t, unsigned n)
{
	struct dirty_chunk *c;
	uint64_t pos = 0;

	for (unsigned i = 0; (c = dirty_find(&in->dirty->dirty, pos)) != NULL;) {
		pos = max_u64(pos, c->off);
		while (i < n && (!t[i].ok || t[i].to <= pos))
			i++;
		if (i == n || t[i].from > pos)
			return pos;
		pos = t[i].to;
	}
	return UINT64_MAX;
}

/* Tells the tree of what was written; disk_size grows as far as no dirty data come before. */
static int record(struct inode *in, const struct target *t, unsigned n)
{
	struct fs *fs = inode_fs(in);
	uint64_t left = first_left(in, t, n);
	uint64_t old = in->disk_size, size = left == UINT64_MAX ? in->size : old;
	struct txn_handle tx;
	int err = txn_start(fs, &tx, n * ITEMS_PER_EXTENT + 2, RSV_FREEING);

	if (err < 0)
		return err;
	for (unsigned i = 0; i < n && err == 0; i++) {
		if (!t[i].ok)
			continue;
		if (t[i].fe.type == FILE_EXTENT_PREALLOC)
			err = convert(&tx, in, &t[i]);
		if (left >= t[i].to)
			size = max_u64(size, min_u64(t[i].to, in->size));
	}
	if (err == 0 && size > old)
		err = file_fill_gaps(&tx, in, old, size);
	in->disk_size = size;
	if (err == 0)
		err = inode_store(&tx, in);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err;
}

/* The range is no longer dirty, whether it was written or is given up. */
static int drop_targets(struct inode *in, const struct target *t, unsigned n)
{
	struct fs *fs = inode_fs(in);
	struct delalloc *d = in->dirty;

	for (unsigned i = 0; i < n; i++) {
		int err;

		if (!t[i].ok)
			continue;
		err = delalloc_drop(d, t[i].from, t[i].to);
		if (err < 0)
			return err;
		flusher_account(fs, -(int64_t)(t[i].to - t[i].from));
		space_release_data(fs->space, t[i].to - t[i].from);
		d->data_rsv -= t[i].to - t[i].from;
	}
	return 0;
}

static int flush_group(struct inode *in, struct target *t, unsigned n)
{
	int err, failed = 0;

	/* What cannot be judged is not in place: the COW that follows meets the same trouble or not. */
	if (n == 0 || judge(in, t, n) < 0)
		return 0;
	for (unsigned i = 0; i < n && failed == 0; i++)
		if (t[i].ok)
			failed = write_target(in, &t[i]);
	err = failed == 0 ? record(in, t, n) : failed;
	failed = drop_targets(in, t, n);
	return err < 0 ? err : failed;
}

int flush_in_place(struct inode *in)
{
	struct delalloc *d = in->dirty;
	struct target t[GROUP_EXTENTS];
	struct dirty_chunk *c;
	uint64_t pos = 0;

	while ((c = dirty_find(&d->dirty, pos)) != NULL) {
		uint64_t start = max_u64(pos, c->off), end = c->off + c->len, next;
		unsigned n = 0;
		int err;

		while ((c = dirty_next(c)) != NULL && c->off == end)
			end += c->len;
		if (find_targets(in, start, end, t, &n, &next) < 0)
			break;
		err = flush_group(in, t, n);
		if (err < 0)
			return err;
		pos = next;
	}
	delalloc_settle(in);
	return 0;
}
