/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/delalloc.h - dirty data: what was written to a file and is not on the device yet.
 *
 * An inode's dirty data lie in two layers of chunks, each chunk whole sectors:
 *
 *	dirty	what may still be written to; on top
 *	wb	what a flush is writing out (under write-back); never changes but to shrink as a whole
 *
 * Invariants:
 *   D1  chunks of a layer do not overlap; bytes past the file's size in a chunk of `dirty` are zero
 *       or unreadable (a size that grows zeroes them first);
 *   D2  wb data at or past wb_cut are dead: a truncation removed them while they were written;
 *   D3  data_rsv bytes of data space and meta_rsv of metadata are reserved for `dirty`; data_rsv is
 *       at least the bytes in `dirty`;
 *   D4  in->dirty is not NULL exactly while a layer has chunks; it holds a reference to the inode;
 *   D5  the inode is in the flusher's list exactly while `dirty` has chunks.
 *
 * Locks: in->lock, shared to read, exclusive to change; the list is the flusher's (flusher.h).
 */
#ifndef COWFS_FS_DELALLOC_H
#define COWFS_FS_DELALLOC_H

#include "fs/inode.h"
#include "io/rbtree.h"

/* A longer write makes several chunks. */
#define CHUNK_MAX_BYTES (1u << 20)

struct dirty_chunk {
	RB_ENTRY(dirty_chunk) node;
	uint64_t off;		/* in the file */
	uint32_t len;
	uint8_t data[];
};

RB_HEAD(dirty_tree, dirty_chunk);

struct delalloc {
	struct inode *in;
	struct dirty_tree dirty;
	_Atomic uint64_t dirty_bytes;	/* in `dirty`; the flusher reads it without the lock */
	uint64_t data_rsv, meta_rsv;	/* D3 */

	struct dirty_tree wb;
	uint64_t wb_bytes;
	uint64_t wb_cut;
	bool wb_active;

	/* the flusher's, under its lock */
	struct delalloc *next, *prev;
	uint64_t seq;			/* order of becoming dirty */
	uint64_t since_ms;		/* when, on the monotonic clock */
	bool listed;
};

/* A new one with a reference to the inode, empty and in no list; NULL: out of memory. */
struct delalloc *delalloc_new(struct inode *in);
/* Frees all chunks; the caller has given the reservations back and puts the inode. NULL is a no-op. */
void delalloc_free(struct delalloc *d);

/* The first chunk that ends after `off`, or NULL; the one after a chunk. */
struct dirty_chunk *dirty_find(struct dirty_tree *t, uint64_t off);
struct dirty_chunk *dirty_next(struct dirty_chunk *c);

/*
 * What is at `pos`, looking at most to `end`: the number of bytes from pos on that are alike;
 * *ret_data points to them, or is NULL where nothing is dirty. d may be NULL.
 */
uint64_t delalloc_at(struct delalloc *d, uint64_t pos, uint64_t end, const uint8_t **ret_data);
/* Is the sector at `off` in the upper layer? d may be NULL. */
bool delalloc_has(struct delalloc *d, uint64_t off);

/* Bytes of [start, end) that the upper layer lacks, and how many runs they add to it. */
uint64_t delalloc_missing(struct delalloc *d, uint64_t start, uint64_t end, unsigned *ret_runs);
/* Makes [start, end) (sector multiples) present in the upper layer; new bytes are undefined. -ENOMEM. */
int delalloc_fill(struct delalloc *d, uint64_t start, uint64_t end);
/* Copies bytes into the upper layer, where [off, off + len) is present. src NULL: zeroes. */
void delalloc_copy(struct delalloc *d, uint64_t off, const void *src, uint64_t len);
/* Drops the upper layer from `start` (a sector multiple) on; the bytes dropped. */
uint64_t delalloc_drop_from(struct delalloc *d, uint64_t start);
/* Drops [start, end) (sector multiples) of the upper layer, where all of it is present. -ENOMEM. */
int delalloc_drop(struct delalloc *d, uint64_t start, uint64_t end);
/* Moves the upper layer, which has chunks, to wb, which has none. */
void delalloc_begin_wb(struct delalloc *d);
/* Frees wb. */
void delalloc_end_wb(struct delalloc *d);

#endif
