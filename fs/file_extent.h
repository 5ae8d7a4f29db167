/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/file_extent.h - EXTENT_DATA items: where the bytes of a file are.
 *
 * Invariants that the functions here keep:
 *   X1  the items of an inode do not overlap; regular ones begin and end at sector multiples;
 *   X2  an inline item is at file offset 0, shorter than a sector, and the only one;
 *   X3  in->nbytes is the sum of what the items cover, holes not counted (inline: ram_bytes);
 *   X4  each item with a disk_bytenr holds one reference to that extent, keyed by file offset minus
 *       extent offset;
 *   X5  without no_holes, items cover the file up to its disk_size without a gap.
 *
 * Locks: in->lock, shared to read, exclusive to change. Nothing here stores the inode item: callers
 * do (inode_store), in the same transaction. Not here: reading the bytes (read.h), dirty data
 * (delalloc.h).
 */
#ifndef COWFS_FS_FILE_EXTENT_H
#define COWFS_FS_FILE_EXTENT_H

#include "fs/inode.h"

struct file_extent {
	uint64_t file_off;	/* key.offset */
	uint64_t len;		/* bytes of the file; an inline one's rounded up to a sector */
	uint64_t generation;
	uint64_t ram_bytes;	/* decompressed length of the whole extent */
	uint64_t disk_bytenr;	/* 0: a hole */
	uint64_t disk_len;	/* bytes on disk of the whole extent */
	uint64_t offset;	/* of file_off within the (decompressed) extent */
	uint8_t type;		/* enum file_extent_type */
	uint8_t compression;	/* enum compress_type */
	uint32_t inline_len;	/* bytes at inline_data */
	const uint8_t *inline_data;	/* in the item that was parsed */
};

static inline uint64_t file_extent_end(const struct file_extent *fe)
{
	return fe->file_off + fe->len;
}

/* Neither data nor zeroes that were promised space: no disk_bytenr, not inline. */
static inline bool file_extent_is_hole(const struct file_extent *fe)
{
	return fe->type != FILE_EXTENT_INLINE && fe->disk_bytenr == 0;
}

/* Reads and checks an item of the inode. -EUCLEAN. */
int file_extent_parse(const struct inode *in, const struct item *it, struct file_extent *ret_fe);

/* A walk over the items that touch [from, to) in order; see extent_walk_next(). */
struct extent_walk {
	const struct inode *in;
	uint64_t to;
	uint64_t end;		/* of the last item returned */
	struct item first;
	bool have_first, have_cursor, started;
	struct cursor cursor;
};

/* Finds the first item; no item is no error. extent_walk_done() after it in any case. */
int extent_walk_init(struct extent_walk *w, const struct inode *in, uint64_t from, uint64_t to);
/* 1: *ret_fe is the next one (its inline_data live until the next call); 0: the end. -EUCLEAN, -EIO. */
int extent_walk_next(struct extent_walk *w, struct file_extent *ret_fe);
void extent_walk_done(struct extent_walk *w);

/*
 * Takes [start, end), sector multiples (end may be UINT64_MAX), out of the file's items: trims,
 * splits, deletes, drops references, and lowers in->nbytes. Leaves a gap. A part of an inline item
 * cannot be taken (-EUCLEAN).
 */
int file_drop_extents(struct txn_handle *tx, struct inode *in, uint64_t start, uint64_t end);

/*
 * Inserts an item where nothing is; raises in->nbytes. Regular and prealloc: adds one reference
 * (fresh: the extent is not in the extent tree yet); disk_bytenr 0 inserts a hole. generation is
 * the handle's whatever *fe says.
 */
int file_insert_extent(struct txn_handle *tx, struct inode *in, const struct file_extent *fe,
		       bool fresh);
/* `data` is as stored (compressed or not); ram_bytes its length when decompressed. */
int file_insert_inline(struct txn_handle *tx, struct inode *in, const void *data, uint32_t len,
		       uint8_t compression, uint32_t ram_bytes);

/*
 * Without no_holes: inserts hole items into the gaps of [start, end), rounded to sectors. With
 * no_holes nothing.
 */
int file_fill_gaps(struct txn_handle *tx, struct inode *in, uint64_t start, uint64_t end);

/* 1 if the file's data are an inline item, 0 if not. */
int file_is_inline(const struct inode *in);

#endif
