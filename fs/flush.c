/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flush.c - batches of dirty inodes: gather, then the steps of flush.h; fsync.
 *
 * Locks: gather and apply take each inode's lock by itself. An inode is in one batch at a time
 * (wb_active); who needs it waits for the end of the other batch (flusher_wait).
 */
#include "fs/flush.h"

#include "fs/flusher.h"
#include "fs/ops.h"
#include "fs/txn.h"
#include "io/compress.h"
#include "io/log.h"

#include <errno.h>
#include <inttypes.h>

int batch_add_piece(struct flush_batch *b, const struct piece *p)
{
	if (b->piece_count == b->piece_cap) {
		size_t cap = max_size(64, b->piece_cap * 2);
		struct piece *bigger = reallocarray(b->pieces, cap, sizeof(*bigger));

		if (bigger == NULL)
			return -ENOMEM;
		b->pieces = bigger;
		b->piece_cap = cap;
	}
	b->pieces[b->piece_count++] = *p;
	return 0;
}

void delalloc_settle(struct inode *in)
{
	struct fs *fs = inode_fs(in);
	struct delalloc *d = in->dirty;
	struct txn_handle tx = {.kind = RSV_NORMAL};

	if (d == NULL || d->dirty_bytes > 0)
		return;
	flusher_delist(fs, d);
	space_release_data(fs->space, d->data_rsv);
	tx.rsv_bytes = d->meta_rsv;
	space_release_meta(fs->space, &tx);
	d->data_rsv = d->meta_rsv = 0;
	if (d->wb_active)
		return;
	in->dirty = NULL;
	delalloc_free(d);
	inode_put(in);
}

/* One piece for each run of chunks, cut at what one extent may hold. */
static int plan_pieces(struct flush_batch *b, struct flush_job *job)
{
	uint64_t max = job->compress != COMPRESS_NONE ? COMPRESSED_MAX_BYTES : EXTENT_MAX_BYTES;
	struct piece p = {.job = (unsigned)(job - b->jobs)};

	job->first = b->piece_count;
	for (struct dirty_chunk *c = dirty_find(&job->d->wb, 0); c != NULL; c = dirty_next(c)) {
		for (uint64_t at = 0; at < c->len;) {
			uint64_t n;

			if (p.len == max || p.file_off + p.len != c->off + at) {
				if (p.len > 0 && batch_add_piece(b, &p) < 0)
					return -ENOMEM;
				p.file_off = c->off + at;
				p.len = 0;
			}
			n = min_u64(c->len - at, max - p.len);
			p.len += n;
			at += n;
		}
	}
	if (p.len > 0 && batch_add_piece(b, &p) < 0)
		return -ENOMEM;
	job->count = b->piece_count - job->first;
	return 0;
}

/* Moves the inode's dirty data under write-back. False: there is nothing to do, or not now. */
static bool gather(struct flush_batch *b, struct inode *in)
{
	struct flush_job *job = &b->jobs[b->job_count];
	struct delalloc *d;

	write_guard(&in->lock);
	d = in->dirty;
	if (d == NULL || d->dirty_bytes == 0)
		return false;
	if (d->wb_active) {
		flusher_put_back(b->fs, d);
		return false;
	}
	if (in->flags & (INODE_NODATACOW | INODE_PREALLOC)) {
		int err = flush_in_place(in);

		if (err < 0)
			atomic_store(&in->wb_error, err);
		d = in->dirty;
		if (d == NULL)
			return true;
	}
	*job = (struct flush_job){
		.in = inode_ref(in),
		.d = d,
		.sums = !(in->flags & INODE_NODATASUM),
		.compress = (uint8_t)flush_compression(in),
		.is_inline = flush_fits_inline(in),
		.size = in->size,
		.data_rsv = d->data_rsv,
		.meta_rsv = d->meta_rsv,
	};
	flusher_delist(b->fs, d);
	delalloc_begin_wb(d);
	d->data_rsv = d->meta_rsv = 0;
	b->data_rsv += job->data_rsv;
	b->job_count++;
	if (job->is_inline) {
		struct dirty_chunk *c = dirty_find(&d->wb, 0);

		job->inline_data = c->data;
		job->inline_len = (uint32_t)in->size;
	} else {
		job->err = plan_pieces(b, job);
	}
	return true;
}

static void batch_done(struct flush_batch *b)
{
	for (size_t i = 0; i < b->piece_count; i++)
		free(b->pieces[i].packed);
	for (unsigned i = 0; i < b->job_count; i++) {
		if (b->jobs[i].inline_compression != COMPRESS_NONE)
			free(b->jobs[i].inline_data);
		inode_put(b->jobs[i].in);
	}
	free(b->pieces);
	free(b->sums);
	free(b->jobs);
}

/* Writes back the inodes, those that another batch has left out; *ret_n tells how many were not. */
static int flush_inodes(struct fs *fs, struct inode **inodes, unsigned n, unsigned *ret_n)
{
	scoped(batch_done) struct flush_batch b = {.fs = fs};
	uint64_t ticket = flusher_batch_begin(fs);
	unsigned done = 0;
	int err = 0;

	b.jobs = calloc(n, sizeof(*b.jobs));
	if (b.jobs == NULL)
		err = -ENOMEM;
	for (unsigned i = 0; i < n && err == 0; i++)
		done += gather(&b, inodes[i]);
	for (unsigned i = 0; i < b.job_count; i++)
		if (b.jobs[i].is_inline)
			flush_pack_inline(&b, &b.jobs[i]);
	flush_place(&b);
	flush_write(&b);
	for (unsigned i = 0; i < b.job_count; i++) {
		flush_apply(&b, &b.jobs[i]);
		if (err == 0)
			err = b.jobs[i].err;
	}
	space_release_data(fs->space, b.data_rsv);
	flusher_batch_end(fs, ticket);
	*ret_n = done;
	return err;
}

static int flush_upto(struct fs *fs, uint64_t seq, unsigned *ret_n)
{
	scoped(freep) struct inode **inodes = calloc(BATCH_INODES, sizeof(struct inode *));
	unsigned n;
	int err = 0;

	*ret_n = 0;
	if (inodes == NULL)
		return -ENOMEM;
	n = flusher_take(fs, seq, inodes);
	if (n > 0)
		err = flush_inodes(fs, inodes, n, ret_n);
	for (unsigned i = 0; i < n; i++)
		inode_put(inodes[i]);
	return err;
}

unsigned flush_some(struct fs *fs, uint64_t seq)
{
	unsigned n;

	(void)flush_upto(fs, seq, &n);	/* told by each inode's wb_error */
	return n;
}

int fs_flush_all(struct fs *fs)
{
	uint64_t seq;
	int first = 0;

	if (fs->flusher == NULL)
		return 0;
	seq = flusher_last_seq(fs);
	while (flusher_pending(fs, seq)) {
		uint64_t seen = flusher_batches(fs);
		unsigned n;
		int err = flush_upto(fs, seq, &n);

		if (first == 0)
			first = err;
		if (err == -ENOMEM)
			return err;
		if (n == 0)
			flusher_wait(fs, seen);
	}
	flusher_wait_older(fs);
	return first;
}

bool fs_try_again(struct fs *fs, int err, bool *tried)
{
	if (err != -ENOSPC || *tried || fs->flusher == NULL)
		return false;
	*tried = true;
	(void)fs_flush_all(fs);		/* told by each inode's wb_error */
	return true;
}

enum wb_state { WB_CLEAN, WB_DIRTY, WB_ACTIVE };

static enum wb_state wb_state(struct inode *in)
{
	read_guard(&in->lock);
	if (in->dirty == NULL)
		return WB_CLEAN;
	return in->dirty->wb_active ? WB_ACTIVE : WB_DIRTY;
}

int fs_flush_inode(struct inode *in)
{
	struct fs *fs = inode_fs(in);

	if (fs->flusher == NULL)
		return 0;
	for (;;) {
		uint64_t seen = flusher_batches(fs);
		enum wb_state state = wb_state(in);
		unsigned n = 0;

		if (state == WB_CLEAN)
			return 0;
		if (state == WB_DIRTY) {
			int err = flush_inodes(fs, &in, 1, &n);

			if (err < 0 || n > 0)
				return err;
		} else {
			flusher_wait(fs, seen);
		}
	}
}

int fs_fsync(struct inode *in, bool datasync)
{
	struct fs *fs = inode_fs(in);
	uint64_t transid;
	int err, wb;

	(void)datasync;		/* a commit has both, and times alone make none */
	err = fs_flush_inode(in);
	wb = atomic_exchange(&in->wb_error, 0);
	if (wb < 0)
		err = wb;
	rwlock_rdlock(&in->lock);
	transid = in->transid;
	rwlock_rdunlock(&in->lock);
	if (err < 0)
		return err;
	return atomic_load(&fs->error) < 0 ? -EIO : txn_commit_upto(fs, transid);
}
