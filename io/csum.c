/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/csum.c - checksums and hashes (see csum.h).
 *
 * crc32c comes from ISA-L, xxhash from libxxhash, the cryptographic ones from libgcrypt, which is set
 * up at the first use of either.
 */
#include "io/csum.h"

#include "io/util.h"

#include <isa-l/crc.h>
#include <gcrypt.h>
#include <limits.h>
#include <pthread.h>
#include <xxhash.h>

static const struct {
	const char *name;
	uint8_t size;
} csums[CSUM_TYPE_COUNT] = {
	[CSUM_CRC32C] = {"crc32c", 4},
	[CSUM_XXHASH64] = {"xxhash", 8},
	[CSUM_SHA256] = {"sha256", 32},
	[CSUM_BLAKE2B] = {"blake2", 32},
};

static pthread_once_t gcrypt_once = PTHREAD_ONCE_INIT;

static void gcrypt_setup(void)
{
	if (gcry_control(GCRYCTL_INITIALIZATION_FINISHED_P))
		return;
	must(gcry_check_version(NULL) != NULL);
	gcry_control(GCRYCTL_DISABLE_SECMEM, 0);
	gcry_control(GCRYCTL_INITIALIZATION_FINISHED, 0);
}

size_t csum_size(enum csum_type type)
{
	must(csum_type_known(type));
	return csums[type].size;
}

const char *csum_name(enum csum_type type)
{
	must(csum_type_known(type));
	return csums[type].name;
}

uint32_t crc32c(uint32_t seed, const void *buf, size_t len)
{
	const uint8_t *at = buf;

	while (len > 0) {
		size_t part = min_size(len, INT_MAX);

		seed = crc32_iscsi((unsigned char *)(uintptr_t)at, (int)part, seed);
		at += part;
		len -= part;
	}
	return seed;
}

/* csum_size(type) bytes at out. */
static void csum_raw(enum csum_type type, const void *buf, size_t len, uint8_t *out)
{
	switch (type) {
	case CSUM_CRC32C:
		disk32_set((disk32 *)out, ~crc32c(UINT32_MAX, buf, len));
		return;
	case CSUM_XXHASH64:
		disk64_set((disk64 *)out, XXH64(buf, len, 0));
		return;
	case CSUM_SHA256:
		pthread_once(&gcrypt_once, gcrypt_setup);
		gcry_md_hash_buffer(GCRY_MD_SHA256, out, buf, len);
		return;
	case CSUM_BLAKE2B:
		pthread_once(&gcrypt_once, gcrypt_setup);
		gcry_md_hash_buffer(GCRY_MD_BLAKE2B_256, out, buf, len);
		return;
	case CSUM_TYPE_COUNT:
		break;
	}
	must(csum_type_known(type));
}

void csum_block(enum csum_type type, const void *buf, size_t len, uint8_t out[CSUM_MAX_BYTES])
{
	memset(out, 0, CSUM_MAX_BYTES);
	csum_raw(type, buf, len, out);
}

void csum_sectors(enum csum_type type, const void *buf, uint32_t sectorsize, size_t count,
		  uint8_t *out)
{
	size_t size = csum_size(type);

	for (size_t i = 0; i < count; i++)
		csum_raw(type, (const uint8_t *)buf + i * sectorsize, sectorsize, out + i * size);
}

void csum_header_set(enum csum_type type, void *block, size_t len)
{
	must(len > CSUM_MAX_BYTES);
	csum_block(type, (uint8_t *)block + CSUM_MAX_BYTES, len - CSUM_MAX_BYTES, block);
}

bool csum_header_good(enum csum_type type, const void *block, size_t len)
{
	uint8_t csum[CSUM_MAX_BYTES];

	must(len > CSUM_MAX_BYTES);
	csum_raw(type, (const uint8_t *)block + CSUM_MAX_BYTES, len - CSUM_MAX_BYTES, csum);
	return memcmp(csum, block, csum_size(type)) == 0;
}

uint64_t name_hash(const void *name, size_t len)
{
	return crc32c((uint32_t)~1u, name, len);
}

uint64_t extref_hash(uint64_t parent_objectid, const void *name, size_t len)
{
	return crc32c((uint32_t)parent_objectid, name, len);
}

uint64_t hash_extent_data_ref(uint64_t root, uint64_t objectid, uint64_t offset)
{
	disk64 part;
	uint32_t high, low;

	disk64_set(&part, root);
	high = crc32c(UINT32_MAX, &part, sizeof(part));
	disk64_set(&part, objectid);
	low = crc32c(UINT32_MAX, &part, sizeof(part));
	disk64_set(&part, offset);
	low = crc32c(low, &part, sizeof(part));
	return ((uint64_t)high << 31) ^ low;
}
