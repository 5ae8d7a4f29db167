/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/csum.h - the checksums and hashes of the format.
 *
 * Blocks, superblocks and data sectors carry one of four checksums; names and extent references are
 * hashed with plain crc32c under seeds of their own.
 * Locking: none, any thread may call.
 */
#ifndef COWFS_IO_CSUM_H
#define COWFS_IO_CSUM_H

#include "io/format.h"

#include <stdbool.h>

/* True for an enum csum_type that exists. */
static inline bool csum_type_known(unsigned type)
{
	return type < CSUM_TYPE_COUNT;
}

/* Bytes one checksum takes: 4, 8 or 32. The type is known. */
size_t csum_size(enum csum_type type);

/* "crc32c", "xxhash", "sha256", "blake2". */
const char *csum_name(enum csum_type type);

/* The checksum of len bytes into out, zeroes up to CSUM_MAX_BYTES. */
void csum_block(enum csum_type type, const void *buf, size_t len, uint8_t out[CSUM_MAX_BYTES]);

/*
 * One checksum for each of count sectors at buf, packed as in a checksum item: count * csum_size()
 * bytes at out.
 */
void csum_sectors(enum csum_type type, const void *buf, uint32_t sectorsize, size_t count,
		  uint8_t *out);

/*
 * The checksum of a tree block or superblock (all bytes after the checksum field) of len bytes is put
 * into its first bytes, or compared with them.
 */
void csum_header_set(enum csum_type type, void *block, size_t len);
bool csum_header_good(enum csum_type type, const void *block, size_t len);

/* Plain crc32c (Castagnoli) without inversion before or after. */
uint32_t crc32c(uint32_t seed, const void *buf, size_t len);

/* key.offset of DIR_ITEM and XATTR_ITEM. */
uint64_t name_hash(const void *name, size_t len);

/* key.offset of INODE_EXTREF. */
uint64_t extref_hash(uint64_t parent_objectid, const void *name, size_t len);

/* key.offset of EXTENT_DATA_REF, and the order of its inline form. */
uint64_t hash_extent_data_ref(uint64_t root, uint64_t objectid, uint64_t offset);

#endif
