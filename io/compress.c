/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/compress.c - zlib, lzo and zstd extents (see compress.h).
 *
 * Invariants: no input, however made, is read or written outside its buffer; every loop consumes
 * input or ends; work memory does not depend on what the input says.
 * A thread's work memory is made part by part when first needed and freed by a thread-exit
 * destructor.
 */
#include "io/compress.h"

#include "io/util.h"

#include <errno.h>
#include <lzo/lzo1x.h>
#include <pthread.h>
#include <zlib.h>
#include <zstd.h>

#define ZLIB_LEVEL_DEFAULT 3
#define ZSTD_LEVEL_DEFAULT 3
#define ZSTD_WINDOW_LOG_MAX 17		/* the kernel's decoder has room for no more */
#define ZLIB_HEADER_BYTES 2u

#define LZO_LEN_BYTES 4u
/* What n bytes can grow to in the worst case. */
#define LZO_WORST(n) ((n) + (n) / 16 + 64 + 3)

struct workspace {
	z_stream deflate;
	int deflate_level;		/* 0: not set up */
	z_stream inflate;
	bool inflate_ready;
	ZSTD_CCtx *zstd_c;
	ZSTD_DCtx *zstd_d;
	void *lzo_mem;
	uint8_t *lzo_buf;		/* LZO_WORST(BLOCKSIZE_MAX) bytes */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

static void workspace_free(void *mem)
{
	struct workspace *ws = mem;

	if (ws->deflate_level != 0)
		deflateEnd(&ws->deflate);
	if (ws->inflate_ready)
		inflateEnd(&ws->inflate);
	ZSTD_freeCCtx(ws->zstd_c);
	ZSTD_freeDCtx(ws->zstd_d);
	free(ws->lzo_mem);
	free(ws->lzo_buf);
	free(ws);
}

static void setup(void)
{
	must(pthread_key_create(&key, workspace_free) == 0);
	must(lzo_init() == LZO_E_OK);
}

/* The calling thread's work memory, or NULL. */
static struct workspace *workspace_get(void)
{
	struct workspace *ws;

	must(pthread_once(&once, setup) == 0);
	ws = pthread_getspecific(key);
	if (ws != NULL)
		return ws;
	ws = calloc(1, sizeof(*ws));
	if (ws != NULL && pthread_setspecific(key, ws) != 0) {
		free(ws);
		return NULL;
	}
	return ws;
}

/*
 * zlib.
 */

static int deflate_prepare(struct workspace *ws, int level)
{
	if (ws->deflate_level == level)
		return deflateReset(&ws->deflate) == Z_OK ? 0 : -EIO;
	if (ws->deflate_level != 0)
		deflateEnd(&ws->deflate);
	memset(&ws->deflate, 0, sizeof(ws->deflate));
	ws->deflate_level = 0;
	if (deflateInit(&ws->deflate, level) != Z_OK)
		return -ENOMEM;
	ws->deflate_level = level;
	return 0;
}

static int zlib_compress(struct workspace *ws, unsigned level, const void *in, size_t in_len,
			 void *out, size_t cap, size_t *ret_len)
{
	int err = deflate_prepare(ws, level == 0 ? ZLIB_LEVEL_DEFAULT : (int)level);

	if (err < 0)
		return err;
	ws->deflate.next_in = (Bytef *)(uintptr_t)in;
	ws->deflate.avail_in = (uInt)in_len;
	ws->deflate.next_out = out;
	ws->deflate.avail_out = (uInt)cap;
	if (deflate(&ws->deflate, Z_FINISH) != Z_STREAM_END)
		return -E2BIG;
	*ret_len = cap - ws->deflate.avail_out;
	return 0;
}

static int zlib_decompress(struct workspace *ws, const uint8_t *in, size_t in_len, uint8_t *out,
			   size_t out_len)
{
	int window, res;

	/*
	 * Like the kernel, the stream's own checksum is not looked at (the sectors have theirs), so
	 * the header is read here and the rest inflated raw.
	 */
	if (in_len <= ZLIB_HEADER_BYTES || (in[0] & 0x0f) != Z_DEFLATED || in[0] >> 4 > 7 ||
	    in[1] & 0x20 || (in[0] << 8 | in[1]) % 31 != 0)
		return -EIO;
	window = -((in[0] >> 4) + 8);
	if (!ws->inflate_ready) {
		if (inflateInit2(&ws->inflate, -MAX_WBITS) != Z_OK)
			return -ENOMEM;
		ws->inflate_ready = true;
	}
	if (inflateReset2(&ws->inflate, window) != Z_OK)
		return -EIO;
	ws->inflate.next_in = (Bytef *)(uintptr_t)(in + ZLIB_HEADER_BYTES);
	ws->inflate.avail_in = (uInt)(in_len - ZLIB_HEADER_BYTES);
	ws->inflate.next_out = out;
	ws->inflate.avail_out = (uInt)out_len;
	res = inflate(&ws->inflate, Z_SYNC_FLUSH);
	if (res == Z_MEM_ERROR)
		return -ENOMEM;
	if (ws->inflate.avail_out > 0 && res != Z_STREAM_END)
		return -EIO;
	memset(out + out_len - ws->inflate.avail_out, 0, ws->inflate.avail_out);
	return 0;
}

/*
 * zstd.
 */

static int zstd_compress(struct workspace *ws, unsigned level, const void *in, size_t in_len,
			 void *out, size_t cap, size_t *ret_len)
{
	size_t n;

	if (ws->zstd_c == NULL)
		ws->zstd_c = ZSTD_createCCtx();
	if (ws->zstd_c == NULL)
		return -ENOMEM;
	ZSTD_CCtx_reset(ws->zstd_c, ZSTD_reset_session_and_parameters);
	ZSTD_CCtx_setParameter(ws->zstd_c, ZSTD_c_compressionLevel,
			       level == 0 ? ZSTD_LEVEL_DEFAULT : (int)level);
	ZSTD_CCtx_setParameter(ws->zstd_c, ZSTD_c_windowLog, ZSTD_WINDOW_LOG_MAX);
	n = ZSTD_compress2(ws->zstd_c, out, cap, in, in_len);
	if (ZSTD_isError(n))
		return -E2BIG;
	*ret_len = n;
	return 0;
}

static int zstd_decompress(struct workspace *ws, const void *in, size_t in_len, uint8_t *out,
			   size_t out_len)
{
	ZSTD_inBuffer src = {.src = in, .size = in_len};
	ZSTD_outBuffer dst = {.dst = out, .size = out_len};

	if (ws->zstd_d == NULL) {
		ws->zstd_d = ZSTD_createDCtx();
		if (ws->zstd_d == NULL)
			return -ENOMEM;
		ZSTD_DCtx_setParameter(ws->zstd_d, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
	}
	ZSTD_DCtx_reset(ws->zstd_d, ZSTD_reset_session_only);
	while (dst.pos < dst.size) {
		size_t in_before = src.pos, out_before = dst.pos;
		size_t left = ZSTD_decompressStream(ws->zstd_d, &dst, &src);

		if (ZSTD_isError(left))
			return -EIO;
		if (left == 0)
			break;		/* the frame has ended */
		if (src.pos == in_before && dst.pos == out_before)
			return -EIO;	/* it never does */
	}
	memset(out + dst.pos, 0, dst.size - dst.pos);
	return 0;
}

/*
 * lzo.
 */

static int lzo_prepare(struct workspace *ws)
{
	if (ws->lzo_mem == NULL)
		ws->lzo_mem = malloc(LZO1X_1_MEM_COMPRESS);
	if (ws->lzo_buf == NULL)
		ws->lzo_buf = malloc(LZO_WORST(BLOCKSIZE_MAX));
	return ws->lzo_mem == NULL || ws->lzo_buf == NULL ? -ENOMEM : 0;
}

/* Where the next length field can begin: not where it would cross into the next sector. */
static size_t lzo_next_header(size_t at, uint32_t sectorsize)
{
	size_t left = sectorsize - at % sectorsize;

	return left < LZO_LEN_BYTES ? at + left : at;
}

static int lzo_compress(struct workspace *ws, uint32_t sectorsize, const uint8_t *in, size_t in_len,
			uint8_t *out, size_t cap, size_t *ret_len)
{
	size_t done = 0, at = LZO_LEN_BYTES;
	int err = lzo_prepare(ws);

	if (err < 0)
		return err;
	if (cap < LZO_LEN_BYTES)
		return -E2BIG;
	while (done < in_len) {
		size_t part = min_size(in_len - done, sectorsize);
		size_t header = lzo_next_header(at, sectorsize);
		lzo_uint n;

		if (lzo1x_1_compress(in + done, part, ws->lzo_buf, &n, ws->lzo_mem) != LZO_E_OK)
			return -EIO;
		if (header > cap || n + LZO_LEN_BYTES > cap - header)
			return -E2BIG;
		memset(out + at, 0, header - at);
		disk32_set((disk32 *)(out + header), (uint32_t)n);
		memcpy(out + header + LZO_LEN_BYTES, ws->lzo_buf, n);
		at = header + LZO_LEN_BYTES + n;
		done += part;
		/* Two sectors are enough to see that it does not shrink. */
		if (done > 2 * (size_t)sectorsize && at > done)
			return -E2BIG;
	}
	disk32_set((disk32 *)out, (uint32_t)at);
	*ret_len = at;
	return 0;
}

static int lzo_decompress(struct workspace *ws, uint32_t sectorsize, const uint8_t *in,
			  size_t in_len, uint8_t *out, size_t out_len)
{
	size_t worst = LZO_WORST((size_t)sectorsize), at = LZO_LEN_BYTES, done = 0;
	size_t total;
	int err = lzo_prepare(ws);

	if (err < 0)
		return err;
	if (in_len < 2 * LZO_LEN_BYTES)
		return -EIO;
	total = disk32_get((const disk32 *)in);
	/* All sectors on disk are used. */
	if (total > in_len || align_up(total, sectorsize) < in_len)
		return -EIO;
	while (at < total && done < out_len) {
		bool direct = out_len - done >= worst;
		uint8_t *to = direct ? out + done : ws->lzo_buf;
		lzo_uint n = worst;
		size_t len;

		if (total - at < LZO_LEN_BYTES)
			return -EIO;
		len = disk32_get((const disk32 *)(in + at));
		at += LZO_LEN_BYTES;
		if (len > worst || len > in_len - at)
			return -EIO;
		if (lzo1x_decompress_safe(in + at, len, to, &n, NULL) != LZO_E_OK)
			return -EIO;
		at = lzo_next_header(at + len, sectorsize);
		n = min_size(n, out_len - done);
		if (!direct)
			memcpy(out + done, to, n);
		done += n;
	}
	memset(out + done, 0, out_len - done);
	return 0;
}

/*
 * All together.
 */

const char *compress_name(enum compress_type type)
{
	static const char *const names[COMPRESS_TYPE_COUNT] = {
		[COMPRESS_NONE] = "none",
		[COMPRESS_ZLIB] = "zlib",
		[COMPRESS_LZO] = "lzo",
		[COMPRESS_ZSTD] = "zstd",
	};

	must(type < COMPRESS_TYPE_COUNT);
	return names[type];
}

bool compress_level_valid(enum compress_type type, unsigned level)
{
	switch (type) {
	case COMPRESS_ZLIB:
		return level <= COMPRESS_ZLIB_LEVEL_MAX;
	case COMPRESS_ZSTD:
		return level <= COMPRESS_ZSTD_LEVEL_MAX;
	case COMPRESS_LZO:
		return level == 0;
	case COMPRESS_NONE:
	case COMPRESS_TYPE_COUNT:
		break;
	}
	return false;
}

/* The greatest compressed size that is worth it. */
static size_t useful_bytes(size_t in_len, uint32_t sectorsize)
{
	if (in_len <= sectorsize)
		return in_len - 1;
	return (size_t)align_up(in_len, sectorsize) - sectorsize;
}

int compress_extent(enum compress_type type, unsigned level, uint32_t sectorsize, const void *in,
		    size_t in_len, void *out, size_t out_cap, size_t *ret_len)
{
	struct workspace *ws = workspace_get();
	size_t cap;

	must(in_len > 0 && in_len <= COMPRESSED_MAX_BYTES);
	must(compress_level_valid(type, level));
	if (ws == NULL)
		return -ENOMEM;
	cap = min_size(out_cap, useful_bytes(in_len, sectorsize));
	if (cap == 0)
		return -E2BIG;
	switch (type) {
	case COMPRESS_ZLIB:
		return zlib_compress(ws, level, in, in_len, out, cap, ret_len);
	case COMPRESS_ZSTD:
		return zstd_compress(ws, level, in, in_len, out, cap, ret_len);
	default:
		return lzo_compress(ws, sectorsize, in, in_len, out, cap, ret_len);
	}
}

int decompress_extent(enum compress_type type, uint32_t sectorsize, const void *in, size_t in_len,
		      void *out, size_t out_len)
{
	struct workspace *ws = workspace_get();

	must(type > COMPRESS_NONE && type < COMPRESS_TYPE_COUNT);
	if (ws == NULL)
		return -ENOMEM;
	if (out_len == 0)
		return 0;
	if (in_len > UINT32_MAX || out_len > UINT32_MAX)
		return -EIO;
	switch (type) {
	case COMPRESS_ZLIB:
		return zlib_decompress(ws, in, in_len, out, out_len);
	case COMPRESS_ZSTD:
		return zstd_decompress(ws, in, in_len, out, out_len);
	default:
		return lzo_decompress(ws, sectorsize, in, in_len, out, out_len);
	}
}
