/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/identity.c - folding (subvolume, inode) into one number; the rule is in identity.h.
 */
#include "fs/identity.h"

#include <errno.h>

#include "io/util.h"

#define STANDIN_BIT 63u
#define FOLDED_BIT 62u
#define CLASS_BIT 59u			/* lowest bit of the class; below it subvolume and inode */
#define CLASS_MASK 7u

/* Bits for the subvolume in each class. */
static const uint8_t subvol_bits[CLASS_MASK + 1] = {11, 15, 19, 23, 27, 31, 39, 48};

static bool fits(uint64_t value, unsigned bits)
{
	return value >> bits == 0;
}

/* The number made of a subvolume and the number of something in it. */
static int pair_up(uint64_t subvol, uint64_t inner, uint64_t *ret_number)
{
	for (uint64_t class = 0; class < ARRAY_COUNT(subvol_bits); class++) {
		unsigned inner_bits = CLASS_BIT - subvol_bits[class];

		if (fits(subvol, subvol_bits[class]) && fits(inner, inner_bits)) {
			*ret_number = UINT64_C(1) << FOLDED_BIT | class << CLASS_BIT |
				subvol << inner_bits | inner;
			return 0;
		}
	}
	return -EOVERFLOW;
}

int identity_fold(uint64_t mounted, struct ino_id id, uint64_t *ret_st_ino)
{
	uint64_t number;
	int err;

	if (id.ino == 0 || id.subvol == 0)
		return -EOVERFLOW;
	if (ino_is_standin(id.ino)) {
		err = pair_up(id.subvol, id.ino & ~INO_STANDIN, &number);
		if (err == 0)
			*ret_st_ino = number | UINT64_C(1) << STANDIN_BIT;
		return err;
	}
	if (id.subvol != mounted)
		return pair_up(id.subvol, id.ino, ret_st_ino);
	if (!fits(id.ino, FOLDED_BIT))
		return -EOVERFLOW;
	*ret_st_ino = id.ino;
	return 0;
}

int identity_nodeid(uint64_t mounted, struct ino_id id, uint64_t *ret_nodeid)
{
	if (id.subvol == mounted && id.ino == INO_ROOT) {
		*ret_nodeid = NODEID_ROOT;
		return 0;
	}
	if (id.subvol == mounted && id.ino == NODEID_ROOT)
		return -EOVERFLOW;		/* no subvolume has it: its number is taken */
	return identity_fold(mounted, id, ret_nodeid);
}

int identity_unfold(uint64_t mounted, uint64_t nodeid, struct ino_id *ret_id)
{
	struct ino_id id = {.subvol = mounted, .ino = nodeid};
	uint64_t again;

	if (nodeid == NODEID_ROOT) {
		id.ino = INO_ROOT;
	} else if (nodeid >> FOLDED_BIT != 0) {
		unsigned inner_bits = CLASS_BIT - subvol_bits[nodeid >> CLASS_BIT & CLASS_MASK];
		uint64_t pair = nodeid & ((UINT64_C(1) << CLASS_BIT) - 1);

		id.subvol = pair >> inner_bits;
		id.ino = pair & ((UINT64_C(1) << inner_bits) - 1);
		if (nodeid >> STANDIN_BIT != 0)
			id.ino |= INO_STANDIN;
	}
	if (identity_nodeid(mounted, id, &again) < 0 || again != nodeid)
		return -ESTALE;
	*ret_id = id;
	return 0;
}
