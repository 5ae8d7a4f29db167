/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/compress.h - compressed file data in the format's framings: zlib, lzo, zstd.
 *
 * At most COMPRESSED_MAX_BYTES of file data make one compressed extent. zlib and zstd are plain
 * streams (zstd: one frame, window at most 128 KiB). lzo, which has no framing of its own, is
 *
 *	length of all (4 bytes, itself included)
 *	{ length of a segment (4 bytes, itself not included), segment } ...
 *
 * with one segment for each sector of file data; a segment's length field never crosses a sector
 * boundary of the compressed data, up to three zero bytes go before it instead. On disk the last
 * sector is filled up with zeroes; an inline extent is not.
 *
 * Locking: none; each thread has work memory of its own, kept until it ends. Not here: whether data
 * are worth compressing (fs/).
 */
#ifndef COWFS_IO_COMPRESS_H
#define COWFS_IO_COMPRESS_H

#include "io/format.h"

#include <stdbool.h>

/* Level 0 stands for the default of each type. lzo has no levels. */
#define COMPRESS_LEVEL_DEFAULT 0u
#define COMPRESS_ZLIB_LEVEL_MAX 9u
#define COMPRESS_ZSTD_LEVEL_MAX 15u

/* "none", "zlib", "lzo", "zstd". */
const char *compress_name(enum compress_type type);

/* Whether this type (not NONE) can be asked for this level. */
bool compress_level_valid(enum compress_type type, unsigned level);

/*
 * Compresses in_len bytes (1 .. COMPRESSED_MAX_BYTES) into at most out_cap bytes at out.
 * -E2BIG: not worth it: more than out_cap, or not at least one sector less on disk; for input of one
 * sector or less, which only an inline extent can profit from: not smaller. out is undefined then.
 * -ENOMEM. type is not NONE, level is valid.
 */
int compress_extent(enum compress_type type, unsigned level, uint32_t sectorsize, const void *in,
		    size_t in_len, void *out, size_t out_cap, size_t *ret_len);

/*
 * Decompresses in_len bytes (all of the extent on disk, padding included, or all of the inline data)
 * and gives exactly out_len bytes: zeroes follow if there is less, the rest is dropped if there is
 * more. -EIO: damaged; out is undefined then. -ENOMEM. type is not NONE.
 */
int decompress_extent(enum compress_type type, uint32_t sectorsize, const void *in, size_t in_len,
		      void *out, size_t out_len);

#endif
