/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flush_inline.c - files so short that their data live in the tree (see flush.h).
 *
 * They need no device write, so there is nothing to gain by waiting: stored at once their item comes
 * to lie beside its inode's, which was just made, and leaves fill up well. With compression they
 * wait for a flush like all others.
 */
#include "fs/flush.h"

#include "fs/dir_item.h"
#include "fs/file_extent.h"
#include "fs/flusher.h"
#include "fs/txn.h"
#include "io/compress.h"

#include <string.h>

#define PROPERTY "btrfs.compression"

/* A dropped extent, the item, the inode. */
#define INLINE_ITEMS 4u

/* What the inode's compression property says; zlib, the format's oldest, if there is none. */
static enum compress_type property_compression(const struct inode *in)
{
	scoped(name_hit_done) struct name_hit hit;

	name_hit_init(&hit);
	if (name_find(in->sv->tree, in->ino, KEY_XATTR_ITEM, PROPERTY, strlen(PROPERTY), &hit) < 0)
		return COMPRESS_ZLIB;
	for (unsigned type = COMPRESS_ZLIB; type < COMPRESS_TYPE_COUNT; type++) {
		const char *name = compress_name((enum compress_type)type);

		if (hit.entry.data_len >= strlen(name) &&
		    memcmp(hit.entry.data, name, strlen(name)) == 0)
			return (enum compress_type)type;
	}
	return COMPRESS_ZLIB;
}

enum compress_type flush_compression(const struct inode *in)
{
	enum compress_type type = (enum compress_type)inode_fs(in)->opt.compress_type;

	if (in->flags & (INODE_NODATACOW | INODE_NODATASUM | INODE_NOCOMPRESS))
		return COMPRESS_NONE;
	if (!(in->flags & INODE_COMPRESS))
		return type;
	if (!in->no_xattrs)
		return property_compression(in);
	return type != COMPRESS_NONE ? type : COMPRESS_ZLIB;
}

bool flush_fits_inline(const struct inode *in)
{
	const struct fs *fs = inode_fs(in);
	struct dirty_chunk *c = dirty_find(&in->dirty->dirty, 0);

	return c != NULL && c->off == 0 && in->size > 0 && in->size < fs->sectorsize &&
	       in->size <= fs->opt.max_inline && !(in->flags & INODE_PREALLOC) &&
	       in->size + FILE_EXTENT_INLINE_OFFSET <= tree_max_item_size(fs->env);
}

int flush_inline_items(struct txn_handle *tx, struct inode *in, const void *data, uint32_t len,
		       uint8_t compression, uint32_t ram_bytes)
{
	int err = 0;

	/* Nothing can be there to be dropped in a file without bytes, unless holes are items. */
	if (in->nbytes > 0 || !inode_fs(in)->no_holes)
		err = file_drop_extents(tx, in, 0, UINT64_MAX);
	if (err == 0)
		err = file_insert_inline(tx, in, data, len, compression, ram_bytes);
	if (err < 0)
		return err;
	in->disk_size = max_u64(in->disk_size, ram_bytes);
	return inode_store(tx, in);
}

int flush_inline_now(struct inode *in)
{
	struct fs *fs = inode_fs(in);
	struct delalloc *d = in->dirty;
	struct txn_handle tx = {.kind = RSV_NORMAL};
	int err;

	if (d == NULL || d->wb_active || flush_compression(in) != COMPRESS_NONE ||
	    !flush_fits_inline(in))
		return 0;
	tx.rsv_bytes = d->meta_rsv;
	space_release_meta(fs->space, &tx);
	d->meta_rsv = 0;
	err = txn_start(fs, &tx, INLINE_ITEMS, RSV_NORMAL);
	if (err < 0)
		return err;
	err = flush_inline_items(&tx, in, dirty_find(&d->dirty, 0)->data, (uint32_t)in->size,
				 COMPRESS_NONE, (uint32_t)in->size);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	if (err < 0)
		return err;
	flusher_account(fs, -(int64_t)delalloc_drop_from(d, 0));
	delalloc_settle(in);
	return 0;
}
