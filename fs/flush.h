/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flush.h - writing dirty data out, many inodes at a time.
 *
 * A batch goes through these steps, each in one function:
 *
 *	gather	(flush.c)	under each inode's lock: its dirty data become wb; pieces are planned
 *	place	(flush_write.c)	compress, find space: pieces get addresses, neighbours one after another
 *	write	(flush_write.c)	checksums, then few large device writes
 *	apply	(flush_apply.c)	under each inode's lock: items, references, checksums, inode
 *
 * No lock is held between gather and apply. Nothing goes into a tree before its data are on the
 * device (written, not flushed: the commit does that).
 *
 * In between a truncation may have cut the data (D2 in delalloc.h): apply looks.
 */
#ifndef COWFS_FS_FLUSH_H
#define COWFS_FS_FLUSH_H

#include "fs/delalloc.h"

/* What becomes one file extent. */
struct piece {
	unsigned job;		/* index in the batch */
	unsigned room;		/* pieces of one allocation may be joined */
	int err;		/* 0, or why it has not been written */
	uint8_t compression;
	bool placed;
	uint64_t file_off, len;	/* bytes of the file, sector multiples */
	uint64_t bytenr;	/* where on disk */
	uint64_t disk_len;	/* bytes there */
	uint64_t ram_len;	/* compressed: decompressed length of the extent */
	uint8_t *packed;	/* compressed data, padded; NULL: the bytes of the chunks. Owned. */
	uint8_t *sums;		/* in the batch's memory; NULL: none */
};

struct flush_job {
	struct inode *in;	/* with a reference */
	struct delalloc *d;
	bool sums;		/* data get checksums */
	uint8_t compress;	/* enum compress_type wanted */
	bool incompressible;	/* tried, and nothing became smaller */
	bool is_inline;
	uint8_t inline_compression;
	uint32_t inline_len;
	uint8_t *inline_data;	/* owned if compressed, else in a chunk */
	uint64_t size;		/* of the file when it was gathered */
	uint64_t data_rsv, meta_rsv;
	size_t first, count;	/* its pieces, in order of file_off */
	int err;		/* first failure */
};

struct flush_batch {
	struct fs *fs;
	struct flush_job *jobs;
	unsigned job_count;
	struct piece *pieces;
	size_t piece_count, piece_cap;
	uint64_t data_rsv;	/* left of all jobs */
	uint8_t *sums;		/* memory of all pieces' checksums */
};

/* Adds a copy of *p; -ENOMEM. */
int batch_add_piece(struct flush_batch *b, const struct piece *p);

/*
 * Gives every piece a place (or err), splitting pieces where space is fragmented, then writes them.
 * Errors are noted in the pieces.
 */
void flush_place(struct flush_batch *b);
void flush_write(struct flush_batch *b);
/* Compresses the job's inline data if that is wanted and makes them smaller. */
void flush_pack_inline(struct flush_batch *b, struct flush_job *job);

/* The compression that the inode's data should get. */
enum compress_type flush_compression(const struct inode *in);
/*
 * Is all of the file dirty, in its first sector and short enough to live in an item? Not beside
 * preallocated space, where no inline item may be.
 */
bool flush_fits_inline(const struct inode *in);
/* Replaces what the file has by an inline item and stores the inode; ram_bytes is its new length. */
int flush_inline_items(struct txn_handle *tx, struct inode *in, const void *data, uint32_t len,
		       uint8_t compression, uint32_t ram_bytes);
/*
 * Stores the file inline now if that is possible; else it stays dirty, which is 0 too. -ENOSPC: it
 * stays dirty. in->lock held exclusive, no transaction.
 */
int flush_inline_now(struct inode *in);

/* Puts what was written into the trees, gives back what was not needed, ends write-back. */
void flush_apply(struct flush_batch *b, struct flush_job *job);

/*
 * For inodes with NODATACOW or preallocated space: writes dirty data into the unshared extents that
 * they have, and takes them out of the dirty data. in->lock held exclusive. Errors of the device go
 * to in->wb_error, the data are dropped then.
 */
int flush_in_place(struct inode *in);

/* Writes back one batch of inodes that became dirty no later than `seq`; how many it had in hand. */
unsigned flush_some(struct fs *fs, uint64_t seq);

/*
 * Clears up after a change of the dirty data: an inode with none gives its reservations and its
 * struct delalloc back. in->lock held exclusive; the caller has a reference of its own.
 */
void delalloc_settle(struct inode *in);

#endif
