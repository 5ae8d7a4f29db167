/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/seek.c - where a file has data: SEEK_DATA, SEEK_HOLE, st_blocks (see ops.h).
 *
 * Preallocated space counts as a hole, dirty data as data.
 */
#include "fs/delalloc.h"
#include "fs/file_extent.h"
#include "fs/ops.h"

#include <errno.h>

/* Seeks among the items alone in [pos, end): the position found, or `end` if there is none. */
static int seek_disk(const struct inode *in, uint64_t pos, uint64_t end, bool data, uint64_t *ret_pos)
{
	scoped(extent_walk_done) struct extent_walk w = {0};
	struct file_extent fe;
	int ret = extent_walk_init(&w, in, pos, end);

	while (ret >= 0 && pos < end) {
		bool has_data;

		ret = extent_walk_next(&w, &fe);
		if (ret <= 0)
			break;
		if (!data && fe.file_off > pos)
			break;
		pos = max_u64(pos, fe.file_off);
		has_data = !file_extent_is_hole(&fe) && fe.type != FILE_EXTENT_PREALLOC;
		if (has_data == data) {
			*ret_pos = min_u64(pos, end);
			return 0;
		}
		pos = file_extent_end(&fe);
	}
	if (ret < 0)
		return ret;
	*ret_pos = data ? end : min_u64(pos, end);
	return 0;
}

int64_t fs_seek(struct inode *in, uint64_t off, bool data)
{
	uint64_t pos = off;

	if (!S_ISREG(in->mode))
		return -EINVAL;
	read_guard(&in->lock);
	if (off >= in->size)
		return -ENXIO;
	while (pos < in->size) {
		const uint8_t *dirty;
		uint64_t end = pos + delalloc_at(in->dirty, pos, in->size, &dirty), found = pos;
		int err = 0;

		if (dirty != NULL)
			found = data ? pos : end;
		else
			err = seek_disk(in, pos, end, data, &found);
		if (err < 0)
			return err;
		if (found < end)
			return (int64_t)found;
		pos = end;
	}
	return data ? -ENXIO : (int64_t)in->size;
}

uint64_t inode_blocks(struct inode *in)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	uint64_t bytes = align_up(in->nbytes, ss);

	if (in->dirty != NULL) {
		uint64_t dirty = in->dirty->dirty_bytes + in->dirty->wb_bytes;

		/* Dirty data may replace what is counted: never more than the whole file then. */
		bytes = max_u64(bytes, min_u64(bytes + dirty, align_up(in->size, ss)));
	}
	return bytes / 512;
}
