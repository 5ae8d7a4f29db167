/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/truncate.c - changing a file's size, and taking all of a file away (see ops.h).
 *
 * Invariants:
 *   T1  shrinking works from the end of the file, each step lowering disk_size with the items it
 *       drops: a crash in between leaves a file of a size in between;
 *   T2  shrinking needs no new space: what lies behind the new end in its sector stays as it is and
 *       is zeroed when the file grows (inode_prepare_growth), dirty data at once.
 */
#include "fs/file_extent.h"
#include "fs/flush.h"
#include "fs/flusher.h"
#include "fs/ops.h"
#include "fs/read.h"
#include "fs/txn.h"
#include "fs/write.h"

#include <errno.h>

#define STEP_EXTENTS 32u		/* dropped in one transaction step */
/*
 * Paths that a step may change: neighbouring extent items lie in few leaves, none of them less than a
 * third full; one more for the extent that is cut, and one for the inode.
 */
#define STEP_ITEMS 6u

void inode_drop_dirty(struct inode *in, uint64_t size)
{
	struct fs *fs = inode_fs(in);
	uint32_t ss = fs->sectorsize;
	struct delalloc *d = in->dirty;
	uint64_t dropped;

	if (d == NULL)
		return;
	d->wb_cut = min_u64(d->wb_cut, size);
	dropped = delalloc_drop_from(d, align_up(size, ss));
	d->data_rsv -= dropped;
	space_release_data(fs->space, dropped);
	flusher_account(fs, -(int64_t)dropped);
	if (!is_aligned(size, ss) && delalloc_has(d, align_down(size, ss)))
		delalloc_copy(d, size, NULL, align_up(size, ss) - size);
	delalloc_settle(in);
}

/*
 * The last item of the file, if it reaches beyond `size`. 1 with it in *ret_fe (without inline data),
 * 0: none.
 */
static int last_extent(const struct inode *in, uint64_t size, struct file_extent *ret_fe)
{
	scoped(item_done) struct item it;
	struct key key = key_type_max(in->ino, KEY_EXTENT_DATA);
	int err;

	item_init(&it);
	err = tree_seek(in->sv->tree, &key, SEEK_ITEM_LE, &it);
	if (err == -ENOENT || (err == 0 && (it.key.objectid != in->ino || it.key.type != KEY_EXTENT_DATA)))
		return 0;
	if (err < 0)
		return err;
	err = file_extent_parse(in, &it, ret_fe);
	if (err < 0)
		return err;
	ret_fe->inline_data = NULL;
	return file_extent_end(ret_fe) > align_up(size, inode_fs(in)->sectorsize);
}

/* Drops some items from the end; disk_size follows. 1: more to do. A failure has aborted. */
static int shrink_step(struct txn_handle *tx, struct inode *in, uint64_t size)
{
	uint64_t keep = align_up(size, inode_fs(in)->sectorsize);
	struct file_extent fe;
	int more = 0;

	for (unsigned i = 0; i < STEP_EXTENTS; i++) {
		uint64_t from;
		int err;

		more = last_extent(in, size, &fe);
		if (more <= 0)
			break;
		from = max_u64(fe.file_off, keep);
		err = file_drop_extents(tx, in, from, file_extent_end(&fe));
		if (err < 0)
			return err;
		in->disk_size = min_u64(in->disk_size, max_u64(from, size));
	}
	if (more == 0)
		in->disk_size = min_u64(in->disk_size, size);
	if (more >= 0) {
		int err = inode_store(tx, in);

		return err < 0 ? err : more;
	}
	return more;
}

/* Takes the items beyond `size` away, in as many transactions as it needs. */
static int shrink_disk(struct inode *in, uint64_t size)
{
	struct fs *fs = inode_fs(in);
	int ret;

	do {
		struct txn_handle tx;

		ret = txn_start(fs, &tx, STEP_ITEMS, RSV_FREEING);
		if (ret < 0)
			return ret;
		ret = shrink_step(&tx, in, size);
		if (ret < 0)
			txn_abort(fs, ret);
		txn_end(fs, &tx);
	} while (ret > 0);
	return ret;
}

/* Inline data shorter than before: rewritten, not split. */
static int shrink_inline(struct inode *in, uint64_t size)
{
	struct fs *fs = inode_fs(in);
	scoped(freep) uint8_t *buf = malloc(fs->sectorsize);
	struct txn_handle tx;
	uint32_t len = (uint32_t)min_u64(size, in->disk_size);
	uint64_t real_size = in->size;
	struct delalloc *dirty = in->dirty;
	int err;

	if (FILE_EXTENT_INLINE_OFFSET + len > tree_max_item_size(fs->env)) {
		/* It was compressed and is too long without: the next flush stores it anew. */
		in->size = size;
		err = inode_load_sector(in, 0);
		return err < 0 ? err : shrink_disk(in, size);
	}
	if (buf == NULL)
		return -ENOMEM;
	/* What the item itself says, whatever is dirty above it. */
	in->dirty = NULL;
	in->size = in->disk_size;
	err = len > 0 ? inode_read(in, 0, buf, len, fs->sectorsize) : 0;
	in->dirty = dirty;
	in->size = real_size;
	if (err == 0)
		err = txn_start(fs, &tx, 4, RSV_FREEING);
	if (err < 0)
		return err;
	err = file_drop_extents(&tx, in, 0, UINT64_MAX);
	if (err == 0 && len > 0)
		err = file_insert_inline(&tx, in, buf, len, COMPRESS_NONE, len);
	in->disk_size = min_u64(in->disk_size, size);
	if (err == 0)
		err = inode_store(&tx, in);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err;
}

/* Brings the size on disk up to that of the file, which has no dirty data. Stores the times too. */
static int raise_disk_size(struct inode *in)
{
	struct fs *fs = inode_fs(in);
	uint64_t old = in->disk_size;
	struct txn_handle tx;
	int err = txn_start(fs, &tx, 3, RSV_FREEING);

	if (err < 0)
		return err;
	in->disk_size = in->size;
	err = file_fill_gaps(&tx, in, old, in->size);
	if (err == 0)
		err = inode_store(&tx, in);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err;
}

static int shrink(struct inode *in, uint64_t size)
{
	struct fs *fs = inode_fs(in);
	int ret = 0;

	inode_drop_dirty(in, size);
	if (size > 0 && size < fs->sectorsize && in->disk_size > size) {
		ret = file_is_inline(in);
		if (ret < 0)
			return ret;
	}
	if (ret > 0)
		ret = shrink_inline(in, size);
	else
		ret = shrink_disk(in, size);
	if (ret < 0)
		return ret;
	in->size = size;
	/* The dirty data that would have raised it may all be gone. */
	return in->dirty == NULL && in->disk_size < size ? raise_disk_size(in) : 0;
}

/* Also for a size that stays: the times are stored. */
static int grow(struct inode *in, uint64_t size)
{
	uint64_t old = in->size;
	int err = size > old ? inode_prepare_growth(in) : 0;

	if (err < 0)
		return err;
	in->size = size;
	if (in->dirty != NULL)
		return 0;	/* the flush brings disk_size up */
	err = raise_disk_size(in);
	if (err < 0)
		in->size = old;
	return err;
}

int inode_set_size(struct inode *in, uint64_t size)
{
	if (!S_ISREG(in->mode))
		return S_ISDIR(in->mode) ? -EISDIR : -EINVAL;
	if (size > INT64_MAX)
		return -EFBIG;
	if (fs_want_write(inode_fs(in)) < 0)
		return -EROFS;
	/* As POSIX has it; the kernel, which keeps the times it shows, sees no change here either. */
	if (size != in->size)
		in->mtime = in->ctime = fs_now();
	in->sequence++;
	return size < in->size ? shrink(in, size) : grow(in, size);
}

int inode_drop_data(struct inode *in)
{
	int err;

	inode_drop_dirty(in, 0);
	err = shrink_disk(in, 0);
	if (err == 0)
		in->size = 0;
	return err;
}
