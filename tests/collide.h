/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/collide.h - many names of one hash.
 *
 * crc32c is linear: flipping a set of bits in names of one length changes the hash by a number that
 * depends on the set alone. Of the 80 low bits of 40 letters, 48 independent sets change it by 0.
 */
#ifndef COWFS_TESTS_COLLIDE_H
#define COWFS_TESTS_COLLIDE_H

#include <stdint.h>
#include <string.h>

#include "io/csum.h"

#define COLLIDE_NAME_LEN 40u
#define COLLIDE_BITS (2 * COLLIDE_NAME_LEN)
#define COLLIDE_SETS (COLLIDE_BITS - 32)

struct collide_set {
	uint64_t lo, hi;	/* which of the bits */
};

static inline void collide_flip(char *name, const struct collide_set *s)
{
	for (unsigned b = 0; b < COLLIDE_BITS; b++)
		if ((b < 64 ? s->lo >> b : s->hi >> (b - 64)) & 1)
			name[b / 2] = (char)(name[b / 2] ^ (1 << (b % 2)));
}

/* Gauss: rows of (change of the hash, set of bits); rows whose change became 0 are the result. */
static inline void collide_solve(struct collide_set sets[COLLIDE_SETS])
{
	uint32_t change[COLLIDE_BITS];
	struct collide_set row[COLLIDE_BITS];
	char base[COLLIDE_NAME_LEN], name[COLLIDE_NAME_LEN];
	unsigned n = 0;

	memset(base, 'h', sizeof(base));
	for (unsigned b = 0; b < COLLIDE_BITS; b++) {
		row[b] = (struct collide_set){ b < 64 ? 1ULL << b : 0, b < 64 ? 0 : 1ULL << (b - 64) };
		memcpy(name, base, sizeof(name));
		collide_flip(name, &row[b]);
		change[b] = (uint32_t)(name_hash(name, sizeof(name)) ^ name_hash(base, sizeof(base)));
	}
	for (unsigned b = 0; b < COLLIDE_BITS; b++) {
		if (change[b] == 0) {
			if (n < COLLIDE_SETS)
				sets[n++] = row[b];
			continue;
		}
		for (unsigned o = b + 1; o < COLLIDE_BITS; o++) {
			if (!(change[o] & (change[b] & -change[b])))
				continue;
			change[o] ^= change[b];
			row[o].lo ^= row[b].lo;
			row[o].hi ^= row[b].hi;
		}
	}
}

/* The i-th of 2^32 names with the same hash; terminated. */
static inline void collide_name(uint32_t i, char ret_name[COLLIDE_NAME_LEN + 1])
{
	static struct collide_set sets[COLLIDE_SETS];
	static int solved;

	if (!solved) {
		collide_solve(sets);
		solved = 1;
	}
	memset(ret_name, 'h', COLLIDE_NAME_LEN);
	ret_name[COLLIDE_NAME_LEN] = '\0';
	for (unsigned b = 0; b < 32; b++)
		if (i >> b & 1)
			collide_flip(ret_name, &sets[b]);
}

#endif
