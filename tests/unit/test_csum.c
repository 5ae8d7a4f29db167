/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_csum.c - checksums and hashes against published vectors (io/csum.h).
 */
#include "io/csum.h"
#include "tests/unit/unit.h"

static void expect(enum csum_type type, const char *text, const char *hex)
{
	uint8_t csum[CSUM_MAX_BYTES];
	char got[2 * CSUM_MAX_BYTES + 1] = "";

	csum_block(type, text, strlen(text), csum);
	for (size_t i = 0; i < csum_size(type); i++)
		sprintf(got + 2 * i, "%02x", csum[i]);
	ck_assert_str_eq(got, hex);
	for (size_t i = csum_size(type); i < CSUM_MAX_BYTES; i++)
		ck_assert_uint_eq(csum[i], 0);
}

START_TEST(test_vectors)
{
	/* RFC 3720 and FIPS 180; xxHash's own; blake2b with 32 bytes of output. */
	expect(CSUM_CRC32C, "123456789", "839206e3");
	expect(CSUM_CRC32C, "", "00000000");
	expect(CSUM_XXHASH64, "", "99e9d85137db46ef");
	expect(CSUM_XXHASH64, "abc", "990977adf52cbc44");
	expect(CSUM_SHA256, "abc",
	       "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	expect(CSUM_BLAKE2B, "abc",
	       "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
}
END_TEST

START_TEST(test_crc32c_in_parts)
{
	uint8_t buf[1000];
	uint32_t whole;

	unit_fill(buf, sizeof(buf), 1);
	whole = crc32c(UINT32_MAX, buf, sizeof(buf));
	for (size_t cut = 0; cut <= sizeof(buf); cut += 37)
		ck_assert_uint_eq(crc32c(crc32c(UINT32_MAX, buf, cut), buf + cut, sizeof(buf) - cut),
				  whole);
}
END_TEST

START_TEST(test_sectors)
{
	uint8_t buf[3 * 4096], packed[3 * CSUM_MAX_BYTES + 1], one[CSUM_MAX_BYTES];

	unit_fill(buf, sizeof(buf), 2);
	for (unsigned t = 0; t < CSUM_TYPE_COUNT; t++) {
		size_t size = csum_size((enum csum_type)t);

		packed[3 * size] = 0x5a;
		csum_sectors((enum csum_type)t, buf, 4096, 3, packed);
		ck_assert_uint_eq(packed[3 * size], 0x5a);
		for (size_t i = 0; i < 3; i++) {
			csum_block((enum csum_type)t, buf + i * 4096, 4096, one);
			ck_assert_mem_eq(packed + i * size, one, size);
		}
	}
}
END_TEST

START_TEST(test_header)
{
	uint8_t block[4096];

	for (unsigned t = 0; t < CSUM_TYPE_COUNT; t++) {
		unit_fill(block, sizeof(block), 3);
		csum_header_set((enum csum_type)t, block, sizeof(block));
		ck_assert(csum_header_good((enum csum_type)t, block, sizeof(block)));
		block[4095] ^= 1;
		ck_assert(!csum_header_good((enum csum_type)t, block, sizeof(block)));
		block[4095] ^= 1;
		block[0] ^= 0x80;
		ck_assert(!csum_header_good((enum csum_type)t, block, sizeof(block)));
	}
}
END_TEST

START_TEST(test_hashes)
{
	/* As the kernel wrote them: key (256 DIR_ITEM 2378154706) is the name "default". */
	ck_assert_uint_eq(name_hash("default", 7), 2378154706u);
	ck_assert_uint_eq(extref_hash(UINT32_MAX - 1, "default", 7), 2378154706u);
	ck_assert_uint_eq(extref_hash((7ULL << 32) | (UINT32_MAX - 1), "default", 7), 2378154706u);
	ck_assert_uint_ne(hash_extent_data_ref(5, 257, 0), hash_extent_data_ref(5, 0, 257));
	ck_assert_uint_ne(hash_extent_data_ref(5, 257, 0), hash_extent_data_ref(257, 5, 0));
}
END_TEST

UNIT_MAIN("csum", test_vectors, test_crc32c_in_parts, test_sectors, test_header, test_hashes)
