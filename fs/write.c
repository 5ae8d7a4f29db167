/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/write.c - taking data into a file's dirty data (see ops.h).
 *
 * Space is reserved before anything changes: data bytes for each sector that becomes dirty, and
 * metadata as its items will take on average. (What a transaction step can take at worst is
 * reserved by the flush, step by step: reserving that for each small file here would claim
 * gigabytes.) Overwriting what is dirty costs nothing.
 */
#include "fs/write.h"

#include "fs/file_extent.h"
#include "fs/flush.h"
#include "fs/flusher.h"
#include "fs/ops.h"
#include "fs/read.h"

#include <errno.h>
#include <limits.h>

/* Items of a new run: a file extent, its split neighbour, an extent item, in half-full leaves. */
#define META_PER_RUN_BYTES 1024u

static uint64_t meta_bytes(const struct fs *fs, uint64_t bytes, unsigned runs)
{
	return runs * (META_PER_RUN_BYTES + 2ull * min_u64(bytes, fs->opt.max_inline)) +
	       bytes / fs->sectorsize * fs->csum_size * 2;
}

/* Reserves for `bytes` more dirty bytes in `runs` new runs. */
static int reserve(struct delalloc *d, uint64_t bytes, unsigned runs)
{
	struct fs *fs = inode_fs(d->in);
	struct txn_handle tx = {.kind = RSV_NORMAL};
	int err;

	if (bytes == 0)
		return 0;
	err = space_reserve_data(fs->space, bytes);
	if (err < 0)
		return err;
	err = space_reserve_meta(fs->space, &tx, meta_bytes(fs, bytes, runs));
	if (err < 0) {
		space_release_data(fs->space, bytes);
		return err;
	}
	d->data_rsv += bytes;
	d->meta_rsv += tx.rsv_bytes;
	return 0;
}

/* The inode's dirty data, made if there are none. delalloc_settle() when the operation is over. */
static struct delalloc *dirty_of(struct inode *in)
{
	if (in->dirty == NULL)
		in->dirty = delalloc_new(in);
	return in->dirty;
}

/* Makes [start, end) present; contents of what is new are undefined. */
static int make_dirty(struct inode *in, uint64_t start, uint64_t end)
{
	struct delalloc *d = dirty_of(in);
	uint64_t missing;
	unsigned runs;
	int err;

	if (d == NULL)
		return -ENOMEM;
	missing = delalloc_missing(d, start, end, &runs);
	if (missing == 0)
		return 0;
	err = reserve(d, missing, runs);
	if (err == 0)
		err = delalloc_fill(d, start, end);
	if (err < 0) {
		delalloc_settle(in);	/* an inode left without dirty data gives reservations back */
		return err;
	}
	flusher_account(inode_fs(in), (int64_t)missing);
	flusher_enlist(inode_fs(in), d);
	return 0;
}

int inode_load_sector(struct inode *in, uint64_t off)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	scoped(freep) uint8_t *buf = NULL;
	int err;

	if (delalloc_has(in->dirty, off))
		return 0;
	buf = malloc(ss);
	if (buf == NULL)
		return -ENOMEM;
	err = inode_read_sector(in, off, buf);
	if (err == 0)
		err = make_dirty(in, off, off + ss);
	if (err < 0)
		return err;
	delalloc_copy(in->dirty, off, buf, ss);
	return 0;
}

/* Does the sector hold anything but zeroes that nobody stored? 1, 0, negative errno. */
static int sector_has_data(struct inode *in, uint64_t off)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	scoped(extent_walk_done) struct extent_walk w = {0};
	const uint8_t *data;
	struct file_extent fe;
	int ret;

	delalloc_at(in->dirty, off, off + ss, &data);
	if (data != NULL)
		return 1;
	ret = extent_walk_init(&w, in, off, off + ss);
	if (ret == 0)
		ret = extent_walk_next(&w, &fe);
	if (ret <= 0)
		return ret;
	return fe.type != FILE_EXTENT_PREALLOC && !file_extent_is_hole(&fe);
}

int inode_prepare_growth(struct inode *in)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	uint64_t last;
	int ret;

	/* A whole last sector needs nothing, unless it may be an inline item, which ends here. */
	if (in->size == 0 || (is_aligned(in->size, ss) && in->size > ss))
		return 0;
	last = align_down(in->size - 1, ss);
	if (delalloc_has(in->dirty, last))
		return 0;
	ret = sector_has_data(in, last);
	return ret <= 0 ? ret : inode_load_sector(in, last);
}

/* Loads the first and last sector of a write that covers them in part. */
static int load_edges(struct inode *in, uint64_t off, uint64_t end)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	uint64_t first = align_down(off, ss), last = align_down(end, ss);
	int err = 0;

	if (off != first)
		err = inode_load_sector(in, first);
	/* What lies past the file's end is zero: a write up to it covers the sector. */
	if (err == 0 && end != last && (last != first || off == first))
		err = inode_load_sector(in, last);
	return err;
}

static int write_locked(struct inode *in, uint64_t off, const void *buf, size_t len, bool late)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	uint64_t end = off + len, first = align_down(off, ss);
	int err = 0;

	/* The sector of the old end is left behind unless this write covers it. */
	if (end > align_up(in->size, ss) && in->size > 0 && align_down(in->size - 1, ss) < first)
		err = inode_prepare_growth(in);
	if (err == 0)
		err = load_edges(in, off, end);
	if (err == 0)
		err = make_dirty(in, first, align_up(end, ss));
	if (err < 0) {
		delalloc_settle(in);
		return err;
	}
	delalloc_copy(in->dirty, off, buf, len);
	in->size = max_u64(in->size, end);
	if (!late)
		in->mtime = in->ctime = fs_now();
	in->sequence++;
	return 0;
}

static int may_write(const struct inode *in)
{
	int err = fs_want_write(inode_fs(in));

	if (err < 0)
		return err;
	if (in->sv->rdonly)
		return -EROFS;
	if (S_ISDIR(in->mode))
		return -EISDIR;
	if (!S_ISREG(in->mode))
		return -EINVAL;
	return in->flags & INODE_IMMUTABLE ? -EPERM : 0;
}

static int write_once(struct inode *in, uint64_t off, const void *buf, size_t len, bool late)
{
	bool was_empty, taken;
	int err;

	write_guard(&in->lock);
	was_empty = in->size == 0;
	err = may_write(in);
	if (err == 0)
		err = write_locked(in, off, buf, len, late);
	taken = err == 0;
	if (taken)
		err = flush_inline_now(in);
	if (err != -ENOSPC || !taken)
		return err;
	if (!was_empty)
		return 0;	/* dirty data as any other */
	/* A new small file that finds no room says so at once. */
	inode_drop_dirty(in, 0);
	in->size = 0;
	return err;
}

/* About half of a write that found no room, ending at a sector; 0: it is in one sector already. */
static size_t shorter_write(uint64_t off, size_t len, uint32_t ss)
{
	uint64_t end = min_u64(align_up(off + len / 2, ss), align_down(off + len - 1, ss));

	return end > off ? (size_t)(end - off) : 0;
}

static ssize_t write_bytes(struct inode *in, uint64_t off, const void *buf, size_t len, bool late)
{
	struct fs *fs = inode_fs(in);
	uint64_t end;
	bool tried = false;
	int err;

	if (len > SSIZE_MAX || add_overflows(off, len, &end) || end > INT64_MAX)
		return -EFBIG;
	if (fs->flusher == NULL)
		return -EROFS;
	if (len == 0)
		return 0;
	flusher_throttle(fs);
	for (;;) {
		err = write_once(in, off, buf, len, late);
		if (fs_try_again(fs, err, &tried))
			continue;
		if (err != -ENOSPC || shorter_write(off, len, fs->sectorsize) == 0)
			break;
		len = shorter_write(off, len, fs->sectorsize);
	}
	if (err < 0)
		return err;
	if (fs->opt.sync || in->flags & INODE_SYNC) {
		err = fs_fsync(in, false);
		if (err < 0)
			return err;
	}
	return (ssize_t)len;
}

ssize_t fs_write(struct inode *in, uint64_t off, const void *buf, size_t len)
{
	return write_bytes(in, off, buf, len, false);
}

ssize_t fs_write_late(struct inode *in, uint64_t off, const void *buf, size_t len)
{
	return write_bytes(in, off, buf, len, true);
}
