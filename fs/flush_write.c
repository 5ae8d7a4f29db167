/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flush_write.c - from planned pieces to data on the device: compress, place, write (flush.h).
 *
 * The pieces of all inodes of a batch are placed one after another in as few allocations as there
 * can be, so that many small files go out in one large write. What a piece reads, the chunks under
 * write-back, does not change meanwhile.
 */
#include "fs/flush.h"

#include "fs/extent_cache.h"
#include "fs/file_extent.h"
#include "io/compress.h"
#include "io/csum.h"
#include "io/fault.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define IOV_COUNT 1024u			/* what one system call takes */
#define WRITE_MAX_BYTES (16u << 20)
/* Free space in pieces smaller than this is left alone while the device has room for a new chunk. */
#define SCATTERED_BYTES (1u << 20)
/* The sample of the compression heuristic: this many bytes out of each stretch. */
#define SAMPLE_BYTES 16u
#define SAMPLE_STRETCH 256u
#define FEW_SYMBOLS 64u
#define MANY_SYMBOLS 200u

static struct flush_job *job_of(struct flush_batch *b, const struct piece *p)
{
	return &b->jobs[p->job];
}

/* --- compression --------------------------------------------------------------------------------- */

/* The level asked for is one of the mount's type. */
static unsigned level_of(const struct fs *fs, uint8_t type)
{
	return type == fs->opt.compress_type ? (unsigned)fs->opt.compress_level : COMPRESS_LEVEL_DEFAULT;
}

/* Are the bytes so evenly spread that compressing them is a waste of time? A guess from a sample. */
static bool looks_random(const uint8_t *data, size_t len)
{
	uint32_t count[256] = {0};
	uint32_t total = 0, kinds = 0, busy = 0;

	for (size_t i = 0; i + SAMPLE_BYTES <= len; i += SAMPLE_STRETCH)
		for (unsigned j = 0; j < SAMPLE_BYTES; j++, total++)
			count[data[i + j]]++;
	for (unsigned i = 0; i < 256; i++)
		kinds += count[i] > 0;
	if (kinds < FEW_SYMBOLS)
		return false;
	/* Symbols at least half as frequent as in noise. */
	for (unsigned i = 0; i < 256; i++)
		busy += count[i] * 512 >= total;
	return busy >= MANY_SYMBOLS;
}

/* The piece's bytes in one stretch: in place if one chunk has them, else gathered into buf. */
static const uint8_t *piece_bytes(struct flush_batch *b, const struct piece *p, uint8_t *buf)
{
	struct dirty_chunk *c = dirty_find(&job_of(b, p)->d->wb, p->file_off);
	uint64_t pos = p->file_off, end = p->file_off + p->len;

	if (c->off + c->len >= end)
		return c->data + (pos - c->off);
	for (; pos < end; c = dirty_next(c)) {
		size_t n = (size_t)(min_u64(end, c->off + c->len) - pos);

		memcpy(buf + (pos - p->file_off), c->data + (pos - c->off), n);
		pos += n;
	}
	return buf;
}

/* Compresses a piece if that saves a sector at least; leaves it as it is otherwise. */
static void pack_piece(struct flush_batch *b, struct piece *p, uint8_t *buf)
{
	struct fs *fs = b->fs;
	const struct flush_job *job = job_of(b, p);
	const uint8_t *data;
	size_t packed_len, cap = (size_t)p->len;
	uint8_t *packed;

	if (p->len <= fs->sectorsize)
		return;
	data = piece_bytes(b, p, buf);
	if (looks_random(data, (size_t)p->len))
		return;
	packed = malloc(cap);
	if (packed == NULL)
		return;
	if (compress_extent((enum compress_type)job->compress, level_of(fs, job->compress),
			    fs->sectorsize, data, (size_t)p->len, packed, cap, &packed_len) < 0) {
		free(packed);
		return;
	}
	p->disk_len = align_up(packed_len, fs->sectorsize);
	memset(packed + packed_len, 0, (size_t)p->disk_len - packed_len);
	p->packed = packed;
	p->ram_len = p->len;
	p->compression = job->compress;
}

static void note_feature(struct fs *fs, uint8_t compression)
{
	if (compression == COMPRESS_LZO)
		atomic_fetch_or(&fs->incompat_used, INCOMPAT_COMPRESS_LZO);
	else if (compression == COMPRESS_ZSTD)
		atomic_fetch_or(&fs->incompat_used, INCOMPAT_COMPRESS_ZSTD);
}

static void pack_all(struct flush_batch *b)
{
	scoped(freep) uint8_t *buf = NULL;

	for (size_t i = 0; i < b->piece_count; i++) {
		struct piece *p = &b->pieces[i];
		struct flush_job *job = job_of(b, p);

		p->disk_len = p->len;
		if (job->compress == COMPRESS_NONE || job->err < 0)
			continue;
		if (buf == NULL)
			buf = malloc(COMPRESSED_MAX_BYTES);
		if (buf == NULL)
			return;
		pack_piece(b, p, buf);
		note_feature(b->fs, p->compression);
		if (i == job->first)
			job->incompressible = p->len > b->fs->sectorsize;
		if (p->packed != NULL)
			job->incompressible = false;
	}
}

void flush_pack_inline(struct flush_batch *b, struct flush_job *job)
{
	size_t len, cap = job->inline_len;
	uint8_t *packed;

	if (job->compress == COMPRESS_NONE)
		return;
	packed = malloc(cap);
	if (packed == NULL)
		return;
	if (compress_extent((enum compress_type)job->compress, level_of(b->fs, job->compress),
			    b->fs->sectorsize, job->inline_data, cap, packed, cap, &len) < 0) {
		free(packed);
		return;
	}
	job->inline_data = packed;
	job->inline_len = (uint32_t)len;
	job->inline_compression = job->compress;
	note_feature(b->fs, job->compress);
}

/* --- placing ------------------------------------------------------------------------------------- */

/* Space that was allocated and is not given to a piece yet; each lies in one block group. */
struct room {
	uint64_t bytenr, len;
	unsigned number;
};

/* Gives the rest back; it is reserved again. */
static void room_return(struct flush_batch *b, struct room *r)
{
	if (r->len == 0)
		return;
	space_return_data(b->fs->space, r->bytenr, r->len);
	b->data_rsv += r->len;
	r->len = 0;
}

static int room_alloc(struct flush_batch *b, const struct flush_job *job, uint64_t min, uint64_t want,
		      struct room *r)
{
	uint64_t ss = b->fs->sectorsize;
	struct alloc_hint hint = {.near = job->in->last_extent, .owner = job->in->sv->id};
	uint64_t at_least;
	bool grown = false;
	int err;

	want = min_u64(min_u64(want, EXTENT_MAX_BYTES), align_down(b->data_rsv, ss));
	if (fault_point("flush.place") || want < min)
		return -ENOSPC;
	at_least = want;
	for (;;) {
		err = space_alloc_data(b->fs->space, &hint, at_least, want, &r->bytenr, &r->len);
		if (err != -ENOSPC)
			break;
		if (at_least < SCATTERED_BYTES && want >= SCATTERED_BYTES && !grown) {
			grown = true;
			if (space_grow_data(b->fs->space) == 0)
				at_least = want * 2;
		}
		if (at_least == min)
			break;
		at_least = max_u64(min, align_down(at_least / 2, ss));
	}
	if (err < 0)
		return err;
	r->number++;
	b->data_rsv -= r->len;
	extent_cache_forget(b->fs, r->bytenr, r->len);
	return 0;
}

static void piece_fail(struct flush_batch *b, struct piece *p, int err)
{
	struct flush_job *job = job_of(b, p);

	p->err = err;
	if (job->err == 0)
		job->err = err;
}

static void piece_unpack(struct piece *p)
{
	free(p->packed);
	p->packed = NULL;
	p->compression = COMPRESS_NONE;
	p->disk_len = p->len;
}

/* Does the piece continue the last one of the same file, so that both make one extent? */
static bool piece_continues(const struct flush_batch *out, const struct piece *p)
{
	const struct piece *last;

	if (out->piece_count == 0 || !p->placed || p->packed != NULL)
		return false;
	last = &out->pieces[out->piece_count - 1];
	return last->job == p->job && last->room == p->room && last->placed && last->packed == NULL &&
	       last->file_off + last->len == p->file_off && last->bytenr + last->len == p->bytenr &&
	       last->len + p->len <= EXTENT_MAX_BYTES;
}

static int piece_append(struct flush_batch *out, const struct piece *p)
{
	struct piece *last;

	if (!piece_continues(out, p))
		return batch_add_piece(out, p);
	last = &out->pieces[out->piece_count - 1];
	last->len += p->len;
	last->disk_len += p->len;
	return 0;
}

/*
 * Places one planned piece, as several if need be, into `out`. `left` is what this piece and those
 * after it take on disk.
 */
static void place_piece(struct flush_batch *b, struct piece p, uint64_t left, struct room *r,
			struct flush_batch *out)
{
	uint64_t ss = b->fs->sectorsize;

	while (p.len > 0) {
		struct piece part = p;
		bool whole = p.packed != NULL;
		int err = 0;

		if (whole && r->len < p.disk_len)
			room_return(b, r);
		if (r->len == 0 && job_of(b, &p)->err == 0)
			err = room_alloc(b, job_of(b, &p), whole ? p.disk_len : ss, left, r);
		if (err == -ENOSPC && whole) {
			left += p.len - p.disk_len;
			piece_unpack(&p);
			continue;
		}
		if (err < 0)
			piece_fail(b, &part, err);
		part.err = job_of(b, &p)->err;
		part.placed = part.err == 0;
		if (part.placed && !whole)
			part.len = part.disk_len = min_u64(p.len, r->len);
		part.bytenr = r->bytenr;
		part.room = r->number;
		if (piece_append(out, &part) < 0) {
			piece_fail(b, &part, -ENOMEM);
			free(part.packed);
			return;
		}
		if (part.placed) {
			r->bytenr += part.disk_len;
			r->len -= part.disk_len;
			left -= min_u64(left, part.disk_len);
		}
		p.file_off += part.len;
		p.len -= part.len;
		p.disk_len = p.len;
	}
}

void flush_place(struct flush_batch *b)
{
	struct flush_batch out = {.fs = b->fs};
	struct room r = {0};
	uint64_t left = 0;

	pack_all(b);
	for (size_t i = 0; i < b->piece_count; i++)
		left += b->pieces[i].disk_len;
	for (unsigned j = 0; j < b->job_count; j++) {
		struct flush_job *job = &b->jobs[j];
		size_t first = out.piece_count;

		for (size_t i = job->first; i < job->first + job->count; i++) {
			uint64_t disk_len = b->pieces[i].disk_len;

			place_piece(b, b->pieces[i], left, &r, &out);
			left -= disk_len;
		}
		job->first = first;
		job->count = out.piece_count - first;
	}
	room_return(b, &r);
	free(b->pieces);
	b->pieces = out.pieces;
	b->piece_count = out.piece_count;
	b->piece_cap = out.piece_cap;
}

/* --- writing ------------------------------------------------------------------------------------- */

/* One device write in the making: pieces [first, next) of the batch. */
struct gather_write {
	struct iovec iov[IOV_COUNT];
	unsigned count;
	uint64_t bytenr, len;
	size_t first;
};

static void write_out(struct flush_batch *b, struct gather_write *w, size_t next)
{
	int err;

	if (w->count == 0)
		return;
	err = fault_point("flush.write") ? -EIO :
					   volume_writev(b->fs->vol, w->bytenr, w->iov, w->count);
	for (size_t i = w->first; err < 0 && i < next; i++)
		if (b->pieces[i].placed)
			piece_fail(b, &b->pieces[i], err);
	w->count = 0;
	w->len = 0;
}

/* Adds bytes at `bytenr` to the write, which goes out first if they do not fit to it. */
static void write_add(struct flush_batch *b, struct gather_write *w, size_t i, uint64_t bytenr,
		      const void *data, size_t len)
{
	if (w->count == IOV_COUNT || w->bytenr + w->len != bytenr || w->len >= WRITE_MAX_BYTES)
		write_out(b, w, bytenr == b->pieces[i].bytenr ? i : i + 1);
	if (w->count == 0) {
		w->bytenr = bytenr;
		w->first = i;
	}
	w->iov[w->count++] = (struct iovec){(void *)(uintptr_t)data, len};
	w->len += len;
}

static void sum_into(struct flush_batch *b, const struct piece *p, uint64_t at, const void *data,
		     uint64_t len)
{
	struct fs *fs = b->fs;

	if (p->sums != NULL)
		csum_sectors((enum csum_type)fs->csum_type, data, fs->sectorsize,
			     (size_t)(len / fs->sectorsize),
			     p->sums + (size_t)(at / fs->sectorsize) * fs->csum_size);
}

static void write_piece(struct flush_batch *b, struct gather_write *w, size_t i)
{
	const struct piece *p = &b->pieces[i];
	uint64_t pos = p->file_off, end = p->file_off + p->len;
	struct dirty_chunk *c;

	if (p->packed != NULL) {
		sum_into(b, p, 0, p->packed, p->disk_len);
		write_add(b, w, i, p->bytenr, p->packed, (size_t)p->disk_len);
		return;
	}
	for (c = dirty_find(&job_of(b, p)->d->wb, pos); pos < end; c = dirty_next(c)) {
		uint64_t n = min_u64(end, c->off + c->len) - pos;
		const uint8_t *data = c->data + (pos - c->off);

		sum_into(b, p, pos - p->file_off, data, n);
		write_add(b, w, i, p->bytenr + (pos - p->file_off), data, (size_t)n);
		pos += n;
	}
}

/* Memory for the checksums of all pieces that get some. */
static int alloc_sums(struct flush_batch *b)
{
	size_t total = 0;

	for (size_t i = 0; i < b->piece_count; i++)
		total += (size_t)(b->pieces[i].disk_len / b->fs->sectorsize) * b->fs->csum_size;
	b->sums = malloc(total + 1);
	if (b->sums == NULL)
		return -ENOMEM;
	total = 0;
	for (size_t i = 0; i < b->piece_count; i++) {
		struct piece *p = &b->pieces[i];

		if (job_of(b, p)->sums)
			p->sums = b->sums + total;
		total += (size_t)(p->disk_len / b->fs->sectorsize) * b->fs->csum_size;
	}
	return 0;
}

void flush_write(struct flush_batch *b)
{
	scoped(freep) struct gather_write *w = NULL;
	int err;

	if (b->piece_count == 0)
		return;
	w = malloc(sizeof(*w));
	err = w == NULL ? -ENOMEM : alloc_sums(b);
	if (err < 0) {
		for (size_t i = 0; i < b->piece_count; i++)
			piece_fail(b, &b->pieces[i], err);
		return;
	}
	w->count = 0;
	w->len = 0;
	for (size_t i = 0; i < b->piece_count; i++)
		if (b->pieces[i].placed)
			write_piece(b, w, i);
	write_out(b, w, b->piece_count);
}
