/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flush_apply.c - what was written goes into the trees, inode by inode (see flush.h).
 *
 * Invariants:
 *   P1  disk_size grows only over what the same or an earlier step has put into the tree;
 *   P2  a step is reserved in full before it begins: running out of space loses data that were not
 *       promised yet, with an error for fsync, and never aborts a transaction;
 *   P3  every piece that was placed ends as a file extent or is given back.
 *
 * Locks: the inode's, exclusive, from the first step to the end of write-back.
 */
#include "fs/flush.h"

#include "fs/csum_tree.h"
#include "fs/file_extent.h"
#include "fs/flusher.h"
#include "fs/txn.h"
#include "io/log.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Pieces in one transaction step, and the items that one piece and a step may change. */
#define STEP_PIECES 64u
#define ITEMS_PER_PIECE 2u
#define ITEMS_PER_STEP 4u
/* Old items that a long piece replaces: they lie together, so many to a changed leaf. */
#define OLD_ITEMS_PER_LEAF 32u
#define OLD_LEAVES_MAX 256u

/* Lines about lost data; after an abort every dirty file is lost. */
#define LOSS_LINES_MAX 50u

static _Atomic unsigned loss_lines;

/* Where apply stands with one inode. */
struct apply {
	struct flush_batch *b;
	struct flush_job *job;
	struct inode *in;
	uint64_t cut;		/* the file's end as far as this job is concerned */
	uint64_t cut_end;	/* the same, up to the end of the sector */
	bool lost;		/* a piece before this point has failed: disk_size stays below it */
	bool aborted;
};

static void fail(struct flush_job *job, int err)
{
	if (job->err == 0)
		job->err = err;
}

static void piece_return(struct flush_batch *b, struct piece *p, uint64_t keep)
{
	if (p->placed && p->disk_len > keep)
		space_unalloc_data(b->fs->space, p->bytenr + keep, p->disk_len - keep);
	if (keep == 0)
		p->placed = false;
}

/* Whether the piece is to go into the tree; cuts off what a truncation has made superfluous. */
static bool piece_wanted(struct apply *a, struct piece *p)
{
	if (!p->placed)
		return false;
	if (p->err < 0 || p->file_off >= a->cut_end) {
		piece_return(a->b, p, 0);
		return false;
	}
	if (p->len > a->cut_end - p->file_off) {
		p->len = a->cut_end - p->file_off;
		if (p->packed == NULL) {
			piece_return(a->b, p, p->len);
			p->disk_len = p->len;
		}
	}
	return true;
}

static int insert_piece(struct apply *a, struct txn_handle *tx, const struct piece *p)
{
	struct file_extent fe = {
		.file_off = p->file_off,
		.len = p->len,
		.ram_bytes = p->packed != NULL ? p->ram_len : p->disk_len,
		.disk_bytenr = p->bytenr,
		.disk_len = p->disk_len,
		.type = FILE_EXTENT_REG,
		.compression = p->compression,
	};
	int err = file_drop_extents(tx, a->in, p->file_off, p->file_off + p->len);

	return err < 0 ? err : file_insert_extent(tx, a->in, &fe, true);
}

/* Checksums of pieces [from, to), neighbours on disk at once. */
static int insert_sums(struct apply *a, struct txn_handle *tx, size_t from, size_t to)
{
	struct fs *fs = a->b->fs;
	const struct piece *run = NULL;
	uint64_t len = 0;
	int err = 0;

	for (size_t i = from; i < to && err == 0; i++) {
		const struct piece *p = &a->b->pieces[i];

		if (!p->placed || p->sums == NULL)
			continue;
		if (run != NULL && run->bytenr + len == p->bytenr &&
		    run->sums + len / fs->sectorsize * fs->csum_size == p->sums) {
			len += p->disk_len;
			continue;
		}
		if (run != NULL)
			err = csum_insert(fs, tx, run->bytenr, run->sums, (unsigned)(len / fs->sectorsize));
		run = p;
		len = p->disk_len;
	}
	if (run != NULL && err == 0)
		err = csum_insert(fs, tx, run->bytenr, run->sums, (unsigned)(len / fs->sectorsize));
	return err;
}

/* Raises disk_size to `size`, with holes where nothing is, and stores the inode. */
static int store_size(struct apply *a, struct txn_handle *tx, uint64_t size)
{
	uint64_t old = a->in->disk_size;
	int err = 0;

	if (size > old) {
		err = file_fill_gaps(tx, a->in, old, size);
		a->in->disk_size = size;
	}
	return err < 0 ? err : inode_store(tx, a->in);
}

/* Puts pieces [from, to) into the tree. A negative return has aborted the transaction. */
static int step_pieces(struct apply *a, struct txn_handle *tx, size_t from, size_t to)
{
	uint64_t size = a->in->disk_size;
	bool last = to == a->job->first + a->job->count;
	int err = 0;

	for (size_t i = from; i < to && err == 0; i++) {
		struct piece *p = &a->b->pieces[i];

		a->lost |= p->err < 0;
		if (!piece_wanted(a, p))
			continue;
		err = insert_piece(a, tx, p);
		if (err == 0 && !a->lost)
			size = max_u64(size, min_u64(p->file_off + p->len, a->cut));
		a->in->last_extent = p->bytenr + p->disk_len;
	}
	if (err == 0)
		err = insert_sums(a, tx, from, to);
	if (err == 0)
		err = store_size(a, tx, last && !a->lost ? max_u64(size, a->cut) : size);
	return err < 0 ? txn_abort(a->b->fs, err) : 0;
}

/* Items that a step may change, for the reservation. */
static unsigned step_items(const struct apply *a, size_t pos, size_t n)
{
	uint32_t ss = a->b->fs->sectorsize;
	uint64_t len = 0;

	for (size_t i = pos; i < pos + n; i++)
		len += a->b->pieces[i].len;
	len = min_u64(len, a->in->nbytes) / ss / OLD_ITEMS_PER_LEAF;
	return (unsigned)(n * ITEMS_PER_PIECE + min_u64(len, OLD_LEAVES_MAX)) + ITEMS_PER_STEP;
}

/*
 * Joins a transaction for some pieces: fewer of them when metadata space is short, and as a last
 * resort what freeing operations may use.
 */
static int start_step(struct apply *a, struct txn_handle *tx, size_t pos, size_t *n)
{
	struct fs *fs = a->b->fs;
	int err;

	for (;;) {
		err = txn_start(fs, tx, step_items(a, pos, *n), RSV_NORMAL);
		if (err != -ENOSPC || *n <= 1)
			break;
		*n = (*n + 3) / 4;
	}
	if (err == -ENOSPC)
		err = txn_start(fs, tx, step_items(a, pos, *n), RSV_FREEING);
	return err;
}

static void apply_pieces(struct apply *a)
{
	size_t pos = a->job->first, end = pos + a->job->count;

	while (pos < end && a->cut > 0) {
		struct txn_handle tx;
		size_t n = min_size(end - pos, STEP_PIECES);
		int err = start_step(a, &tx, pos, &n);

		if (err == 0) {
			err = step_pieces(a, &tx, pos, pos + n);
			a->aborted = err < 0;
			txn_end(a->b->fs, &tx);
			pos += n;
		}
		if (err < 0) {
			fail(a->job, err);
			break;
		}
	}
	/* After an abort nothing is given back: the extents may be in a tree already. */
	for (; pos < end && !a->aborted; pos++)
		piece_return(a->b, &a->b->pieces[pos], 0);
}

/* A truncation came between: what is left of the inline data becomes dirty again. */
static int redirty_inline(struct apply *a)
{
	struct delalloc *d = a->in->dirty;
	struct fs *fs = a->b->fs;
	struct dirty_chunk *c = dirty_find(&d->wb, 0);
	uint32_t ss = fs->sectorsize;
	int err;

	if (delalloc_has(d, 0))
		return 0;
	err = delalloc_fill(d, 0, ss);
	if (err < 0)
		return err;
	delalloc_copy(d, 0, c->data, a->cut);
	delalloc_copy(d, a->cut, NULL, ss - a->cut);
	d->data_rsv += ss;
	a->b->data_rsv -= ss;
	flusher_account(fs, ss);
	flusher_enlist(fs, d);
	return 0;
}

static void apply_inline(struct apply *a)
{
	struct txn_handle tx;
	size_t n = 0;
	int err;

	if (a->cut == 0)
		return;
	if (a->cut < a->job->size) {
		err = redirty_inline(a);
	} else {
		err = start_step(a, &tx, 0, &n);
		if (err == 0) {
			err = flush_inline_items(&tx, a->in, a->job->inline_data, a->job->inline_len,
						 a->job->inline_compression, (uint32_t)a->job->size);
			if (err < 0)
				txn_abort(a->b->fs, err);
			txn_end(a->b->fs, &tx);
		}
	}
	if (err < 0)
		fail(a->job, err);
}

/* Nothing is dirty any more: the size on disk becomes that of the file. */
static int settle_size(struct apply *a)
{
	struct fs *fs = a->b->fs;
	struct inode *in = a->in;
	struct txn_handle tx;
	int err;

	if (in->disk_size == in->size || in->dirty->dirty_bytes > 0)
		return 0;
	err = txn_start(fs, &tx, ITEMS_PER_STEP + ITEMS_PER_PIECE, RSV_FREEING);
	if (err < 0)
		return err;
	err = store_size(a, &tx, in->size);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err;
}

/* Data are lost: says so, and lets the file show what is stored. */
static void admit_loss(struct apply *a)
{
	struct inode *in = a->in;
	int err = a->job->err;

	atomic_store(&in->wb_error, err == -EROFS ? -EIO : err);
	if (atomic_fetch_add(&loss_lines, 1) < LOSS_LINES_MAX)
		log_error("inode %" PRIu64 " of tree %" PRIu64 ": dirty data lost: %s", in->ino,
			  in->sv->id, strerror(-err));
	if (in->dirty->dirty_bytes == 0)
		in->size = min_u64(in->size, in->disk_size);
}

void flush_apply(struct flush_batch *b, struct flush_job *job)
{
	struct fs *fs = b->fs;
	struct inode *in = job->in;
	struct delalloc *d = job->d;
	struct txn_handle tx = {.kind = RSV_NORMAL, .rsv_bytes = job->meta_rsv};
	struct apply a = {.b = b, .job = job, .in = in};

	write_guard(&in->lock);
	a.cut = min_u64(job->size, d->wb_cut);
	a.cut_end = align_up(a.cut, fs->sectorsize);
	space_release_meta(fs->space, &tx);
	if (job->incompressible && !(in->flags & INODE_COMPRESS))
		in->flags |= INODE_NOCOMPRESS;
	if (job->is_inline)
		apply_inline(&a);
	else
		apply_pieces(&a);
	flusher_account(fs, -(int64_t)d->wb_bytes);
	delalloc_end_wb(d);
	if (job->err == 0)
		job->err = settle_size(&a);
	if (job->err < 0)
		admit_loss(&a);
	delalloc_settle(in);
}
