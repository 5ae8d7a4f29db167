/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/options.c - what a new filesystem is like, and what makes no sense; see mkfs.h.
 *
 * Locking: none. Not here: words of the command line (cli.c).
 */
#include "mkfs/mkfs.h"

#include "io/csum.h"
#include "io/util.h"

#include <errno.h>
#include <string.h>

#define NODESIZE_DEFAULT 16384u

void mkfs_options_init(struct mkfs_options *o)
{
	*o = (struct mkfs_options){
		.leafsize = NODESIZE_DEFAULT,
		.nodesize = NODESIZE_DEFAULT,
		.sectorsize = SECTORSIZE_MIN,
		.csum_type = CSUM_CRC32C,
		.features = MKFS_NO_HOLES | MKFS_FREE_SPACE_TREE,
		.discard = true,
		.metadata_profile = BG_DUP,
	};
}

static int check_size(uint32_t size, const char *what, struct reason *reason)
{
	if (is_pow2(size) && size >= SECTORSIZE_MIN && size <= BLOCKSIZE_MAX)
		return 0;
	return reason_set(reason, -EINVAL, "a %s size of %u: it must be a power of two from %u to %u",
			  what, size, SECTORSIZE_MIN, BLOCKSIZE_MAX);
}

static int check_sizes(const struct mkfs_options *o, struct reason *reason)
{
	uint32_t least = min_u32(o->leafsize, o->nodesize);
	int err = check_size(o->sectorsize, "sector", reason);

	if (err == 0)
		err = check_size(o->leafsize, "leaf", reason);
	if (err == 0)
		err = check_size(o->nodesize, "node", reason);
	if (err == 0 && o->sectorsize > least)
		err = reason_set(reason, -EINVAL, "the sector size of %u is larger than the %s size of %u",
				 o->sectorsize, o->leafsize == least ? "leaf" : "node", least);
	return err;
}

static int check_profiles(const struct mkfs_options *o, struct reason *reason)
{
	if ((o->data_profile | o->metadata_profile) & ~BG_DUP)
		return reason_set(reason, -EINVAL, "profiles other than single and dup take several "
				  "devices");
	if (o->mixed && o->data_profile != o->metadata_profile)
		return reason_set(reason, -EINVAL, "mixed block groups have one profile, for data and "
				  "metadata");
	return 0;
}

static int check_features(const struct mkfs_options *o, struct reason *reason)
{
	const unsigned needs = MKFS_NO_HOLES | MKFS_FREE_SPACE_TREE;

	if (o->features & MKFS_BLOCK_GROUP_TREE && (o->features & needs) != needs)
		return reason_set(reason, -EINVAL, "the feature block-group-tree needs no-holes and "
				  "free-space-tree");
	return 0;
}

int mkfs_options_check(const struct mkfs_options *o, struct reason *reason)
{
	int err = check_sizes(o, reason);

	if (err == 0)
		err = check_profiles(o, reason);
	if (err == 0)
		err = check_features(o, reason);
	if (err < 0)
		return err;
	if (!csum_type_known(o->csum_type))
		return reason_set(reason, -EINVAL, "unknown checksum type %u", (unsigned)o->csum_type);
	if (memchr(o->label, '\0', sizeof(o->label)) == NULL)
		return reason_set(reason, -EINVAL, "the label is longer than %u bytes",
				  LABEL_MAX_BYTES - 1);
	if (strchr(o->label, '\n') != NULL)
		return reason_set(reason, -EINVAL, "the label contains a newline");
	return 0;
}
