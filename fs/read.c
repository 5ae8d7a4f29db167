/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/read.c - reading file data (see read.h and ops.h).
 *
 * A read asks the dirty data first and the extents for the rest. What comes from the device is
 * verified against the checksum tree sector by sector unless the inode has NODATASUM; a copy that
 * fails is mended from a good one (volume_read_verified).
 */
#include "fs/read.h"

#include "fs/csum_tree.h"
#include "fs/delalloc.h"
#include "fs/extent_cache.h"
#include "fs/file_extent.h"
#include "fs/ops.h"
#include "io/compress.h"
#include "io/csum.h"
#include "io/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

/* Sectors verified at a time; also the longest device read is this many sectors. */
#define BATCH_SECTORS 1024u
/* Lines about unreadable data; a damaged disk must not flood the log. */
#define BAD_LINES_MAX 100u

static _Atomic unsigned bad_lines;

struct verify {
	struct fs *fs;
	const uint8_t *sums, *have;
	uint8_t *scratch;		/* room for as many sums */
};

static int verify_sectors(const void *buf, size_t len, void *arg)
{
	const struct verify *v = arg;
	size_t n = len / v->fs->sectorsize;

	if (memchr(v->have, 0, n) != NULL)
		return -EIO;
	csum_sectors((enum csum_type)v->fs->csum_type, buf, v->fs->sectorsize, n, v->scratch);
	return memcmp(v->scratch, v->sums, n * v->fs->csum_size) == 0 ? 0 : -EIO;
}

static int accept_all(const void *buf, size_t len, void *arg)
{
	(void)buf;
	(void)len;
	(void)arg;
	return 0;
}

static int report_bad(const struct inode *in, uint64_t logical, bool have_sum)
{
	if (atomic_fetch_add(&bad_lines, 1) < BAD_LINES_MAX)
		log_error("inode %" PRIu64 " of tree %" PRIu64 ": data at logical %" PRIu64 " %s",
			  in->ino, in->sv->id, logical,
			  have_sum ? "match their checksum in no copy" : "have no checksum");
	return -EIO;
}

/* Different copies may be good in different sectors: each by itself. */
static int read_singly(const struct inode *in, uint64_t logical, unsigned n, uint8_t *out,
		       struct verify v)
{
	struct fs *fs = v.fs;

	for (unsigned i = 0; i < n; i++) {
		int err = volume_read_verified(fs->vol, logical, fs->sectorsize, out, verify_sectors, &v);

		if (err < 0)
			return report_bad(in, logical, *v.have != 0);
		logical += fs->sectorsize;
		out += fs->sectorsize;
		v.sums += fs->csum_size;
		v.have++;
	}
	return 0;
}

static int read_batch(const struct inode *in, uint64_t logical, unsigned n, uint8_t *out)
{
	struct fs *fs = inode_fs(in);
	scoped(freep) uint8_t *mem = malloc(n * (2 * (size_t)fs->csum_size + 1));
	struct verify v = {.fs = fs};
	int err;

	if (mem == NULL)
		return -ENOMEM;
	err = csum_lookup(fs, logical, n, mem, mem + 2 * (size_t)n * fs->csum_size);
	if (err < 0)
		return err;
	v.sums = mem;
	v.scratch = mem + (size_t)n * fs->csum_size;
	v.have = mem + 2 * (size_t)n * fs->csum_size;
	err = volume_read_verified(fs->vol, logical, (size_t)n * fs->sectorsize, out, verify_sectors, &v);
	if (err == 0 || err == -ENOMEM)
		return err;
	return read_singly(in, logical, n, out, v);
}

/* Reads and verifies whole sectors. */
static int read_sectors(const struct inode *in, uint64_t logical, uint64_t len, uint8_t *out)
{
	struct fs *fs = inode_fs(in);

	while (len > 0) {
		unsigned n = (unsigned)min_u64(len / fs->sectorsize, BATCH_SECTORS);
		size_t bytes = (size_t)n * fs->sectorsize;
		int err;

		if (in->flags & INODE_NODATASUM) {
			err = volume_read_verified(fs->vol, logical, bytes, out, accept_all, NULL);
			if (err < 0 && err != -ENOMEM)
				err = -EIO;
		} else {
			err = read_batch(in, logical, n, out);
		}
		if (err < 0)
			return err;
		logical += bytes;
		out += bytes;
		len -= bytes;
	}
	return 0;
}

/* Uncompressed data at file position pos, [pos, pos + len) inside of the extent. */
static int read_plain(const struct inode *in, const struct file_extent *fe, uint64_t pos, size_t len,
		      uint8_t *out, size_t room)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	uint64_t logical = fe->disk_bytenr + fe->offset + (pos - fe->file_off);
	uint64_t start = align_down(logical, ss), end = align_up(logical + len, ss);
	scoped(freep) uint8_t *bounce = NULL;
	int err;

	if (start == logical && end - start <= room)
		return read_sectors(in, start, end - start, out);
	bounce = malloc((size_t)(end - start));
	if (bounce == NULL)
		return -ENOMEM;
	err = read_sectors(in, start, end - start, bounce);
	if (err == 0)
		memcpy(out, bounce + (logical - start), len);
	return err;
}

static int read_compressed(const struct inode *in, const struct file_extent *fe, uint64_t pos,
			   size_t len, uint8_t *out)
{
	struct fs *fs = inode_fs(in);
	scoped(cached_extent_putp) struct cached_extent *e =
		extent_cache_get(fs, fe->disk_bytenr, fe->generation);
	size_t at = (size_t)(fe->offset + (pos - fe->file_off));

	if (e == NULL || e->len != fe->ram_bytes) {
		scoped(freep) uint8_t *packed = malloc((size_t)fe->disk_len);
		int err;

		cached_extent_put(e);
		e = cached_extent_new(fe->disk_bytenr, fe->generation, (uint32_t)fe->ram_bytes);
		if (packed == NULL || e == NULL)
			return -ENOMEM;
		err = read_sectors(in, fe->disk_bytenr, fe->disk_len, packed);
		if (err < 0)
			return err;
		err = decompress_extent((enum compress_type)fe->compression, fs->sectorsize, packed,
					(size_t)fe->disk_len, e->data, e->len);
		if (err < 0)
			return err;
		extent_cache_add(fs, e);
	}
	memcpy(out, e->data + at, len);
	return 0;
}

static int read_inline(const struct inode *in, const struct file_extent *fe, uint64_t pos, size_t len,
		       uint8_t *out)
{
	size_t ram = (size_t)fe->ram_bytes, n;
	scoped(freep) uint8_t *plain = NULL;
	const uint8_t *data = fe->inline_data;

	if (fe->compression != COMPRESS_NONE) {
		int err;

		plain = malloc(ram);
		if (plain == NULL)
			return -ENOMEM;
		err = decompress_extent((enum compress_type)fe->compression, inode_fs(in)->sectorsize,
					fe->inline_data, fe->inline_len, plain, ram);
		if (err < 0)
			return err;
		data = plain;
	}
	n = pos < ram ? min_size(len, ram - (size_t)pos) : 0;
	memcpy(out, data + (n > 0 ? pos : 0), n);
	memset(out + n, 0, len - n);
	return 0;
}

static int read_extent(const struct inode *in, const struct file_extent *fe, uint64_t pos, size_t len,
		       uint8_t *out, size_t room)
{
	if (fe->type == FILE_EXTENT_INLINE)
		return read_inline(in, fe, pos, len, out);
	if (fe->type == FILE_EXTENT_PREALLOC || fe->disk_bytenr == 0) {
		memset(out, 0, len);
		return 0;
	}
	if (fe->compression != COMPRESS_NONE)
		return read_compressed(in, fe, pos, len, out);
	return read_plain(in, fe, pos, len, out, room);
}

/* What is on disk, dirty data left aside. */
static int read_disk(const struct inode *in, uint64_t off, size_t len, uint8_t *out, size_t room)
{
	scoped(extent_walk_done) struct extent_walk w = {0};
	uint64_t pos = off, end = off + len;
	struct file_extent fe;
	int ret = extent_walk_init(&w, in, off, end);

	while (ret >= 0 && pos < end) {
		uint64_t from, to;

		ret = extent_walk_next(&w, &fe);
		if (ret <= 0)
			break;
		from = max_u64(fe.file_off, pos);
		to = min_u64(file_extent_end(&fe), end);
		memset(out + (pos - off), 0, (size_t)(from - pos));
		ret = read_extent(in, &fe, from, (size_t)(to - from), out + (from - off),
				  room - (size_t)(from - off));
		pos = to;
	}
	if (ret < 0)
		return ret;
	memset(out + (pos - off), 0, (size_t)(end - pos));
	return 0;
}

int inode_read(struct inode *in, uint64_t off, void *buf, size_t len, size_t room)
{
	uint8_t *out = buf;
	uint64_t end = off + len;

	for (uint64_t pos = off; pos < end;) {
		const uint8_t *data;
		size_t n = (size_t)delalloc_at(in->dirty, pos, end, &data);
		size_t at = (size_t)(pos - off);

		if (data != NULL) {
			memcpy(out + at, data, n);
		} else {
			int err = read_disk(in, pos, n, out + at, room - at);

			if (err < 0)
				return err;
		}
		pos += n;
	}
	return 0;
}

int inode_read_sector(struct inode *in, uint64_t off, uint8_t *buf)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	size_t n = off < in->size ? (size_t)min_u64(ss, in->size - off) : 0;
	int err = n > 0 ? inode_read(in, off, buf, n, ss) : 0;

	if (err == 0)
		memset(buf + n, 0, ss - n);
	return err;
}

ssize_t fs_read(struct inode *in, uint64_t off, void *buf, size_t len)
{
	size_t n;
	int err;

	if (S_ISDIR(in->mode))
		return -EISDIR;
	if (!S_ISREG(in->mode) && !S_ISLNK(in->mode))
		return -EINVAL;
	read_guard(&in->lock);
	if (off >= in->size || len == 0)
		return 0;
	n = (size_t)min_u64(min_u64(len, in->size - off), SSIZE_MAX);
	err = inode_read(in, off, buf, n, len);
	return err < 0 ? err : (ssize_t)n;
}
