/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/statfs.c - what df shows.
 *
 * Not here: how space is counted (alloc/).
 */
#include <string.h>
#include <sys/statvfs.h>

#include "fs/ops.h"
#include "io/util.h"

/* As the kernel makes it: the halves of the filesystem's uuid, and the subvolume. */
static unsigned long fsid_of(const struct fs *fs)
{
	uint32_t w[4];

	memcpy(w, fs->super.fsid, sizeof(w));
	return (uint64_t)(be32toh(w[0]) ^ be32toh(w[2]) ^ (uint32_t)(fs->root_subvol >> 32)) |
	       (uint64_t)(be32toh(w[1]) ^ be32toh(w[3]) ^ (uint32_t)fs->root_subvol) << 32;
}

int fs_statfs(struct fs *fs, struct statvfs *ret_st)
{
	struct space_stat s;
	uint64_t used, avail;

	space_stat(fs->space, &s);
	used = min_u64(s.total, s.data_used + s.meta_used);
	avail = min_u64(s.avail, s.total);
	*ret_st = (struct statvfs){
		.f_bsize = fs->sectorsize,
		.f_frsize = fs->sectorsize,
		.f_blocks = s.total / fs->sectorsize,
		.f_bfree = max_u64(s.total - used, avail) / fs->sectorsize,
		.f_bavail = avail / fs->sectorsize,
		.f_fsid = fsid_of(fs),
		.f_namemax = NAME_MAX_BYTES,
	};
	return 0;
}

bool fs_nearly_full(struct fs *fs)
{
	struct space_stat s;

	space_stat(fs->space, &s);
	return s.nearly_full;
}
