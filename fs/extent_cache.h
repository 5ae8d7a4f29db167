/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/extent_cache.h - the last compressed extents that were read, decompressed.
 *
 * A file is read in pieces smaller than its compressed extents; without this each piece would read
 * and decompress the whole extent again. Small: EXTENT_CACHE_COUNT extents of at most 128 KiB.
 *
 * An entry is named by its address and the generation of the file extent. Whoever writes to an
 * address calls extent_cache_forget() first, since within one transaction an address can be used
 * twice.
 *
 * Locks: one of its own (rank CACHE); any thread may call.
 */
#ifndef COWFS_FS_EXTENT_CACHE_H
#define COWFS_FS_EXTENT_CACHE_H

#include "fs/fs.h"

#define EXTENT_CACHE_COUNT 32u

/* Decompressed data; read-only while a reference is held. */
struct cached_extent {
	_Atomic unsigned refs;
	uint64_t bytenr, generation;
	uint64_t used;			/* the cache's clock at the last use */
	uint32_t len;
	uint8_t data[];
};

/* Makes fs->extents; -ENOMEM. extent_cache_free() is fine without one. */
int extent_cache_new(struct fs *fs);
void extent_cache_free(struct fs *fs);

/* A reference to the extent's data, or NULL. */
struct cached_extent *extent_cache_get(struct fs *fs, uint64_t bytenr, uint64_t generation);
/* Room for `len` bytes, with one reference, not in the cache yet; NULL: out of memory. */
struct cached_extent *cached_extent_new(uint64_t bytenr, uint64_t generation, uint32_t len);
/* Puts a filled extent into the cache, which takes a reference of its own. */
void extent_cache_add(struct fs *fs, struct cached_extent *e);
void cached_extent_put(struct cached_extent *e);	/* NULL is a no-op */
static inline void cached_extent_putp(struct cached_extent **e) { cached_extent_put(*e); }

/* Drops what lies in [bytenr, bytenr + len): other data are about to be written there. */
void extent_cache_forget(struct fs *fs, uint64_t bytenr, uint64_t len);

#endif
