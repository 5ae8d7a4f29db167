/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/file_extent.c - EXTENT_DATA items: parse, walk, drop, insert (see file_extent.h).
 *
 * Every change goes to the tree before the references of the extent change: the change COWs the
 * leaf, and if that was shared, COWing is what gives this tree references of its own.
 */
#include "fs/file_extent.h"

#include "io/log.h"

#include <errno.h>
#include <inttypes.h>

#define bad_extent(in, it, ...) \
	corrupt((in)->sv->id, NO_ADDRESS, NO_SLOT, "inode %" PRIu64 ", file extent at %" PRIu64 ": %s", \
		(in)->ino, (it)->key.offset, __VA_ARGS__)

static struct key extent_key(const struct inode *in, uint64_t off)
{
	return key_make(in->ino, KEY_EXTENT_DATA, off);
}

static bool is_extent_of(const struct inode *in, const struct key *k)
{
	return k->objectid == in->ino && k->type == KEY_EXTENT_DATA;
}

static int parse_inline(const struct inode *in, const struct item *it, struct file_extent *fe)
{
	fe->inline_len = it->size - FILE_EXTENT_INLINE_OFFSET;
	fe->inline_data = it->data + FILE_EXTENT_INLINE_OFFSET;
	if (it->key.offset != 0)
		return bad_extent(in, it, "inline, but not at the start of the file");
	if (fe->ram_bytes > COMPRESSED_MAX_BYTES)
		return bad_extent(in, it, "inline data too long");
	if (fe->compression == COMPRESS_NONE && fe->inline_len != fe->ram_bytes)
		return bad_extent(in, it, "inline data of another length than the item");
	fe->len = align_up(fe->ram_bytes, inode_fs(in)->sectorsize);
	return 0;
}

static int parse_regular(const struct inode *in, const struct item *it, struct file_extent *fe)
{
	const struct disk_file_extent *d = (const void *)it->data;
	uint32_t ss = inode_fs(in)->sectorsize;
	uint64_t end;

	if (it->size != sizeof(*d))
		return bad_extent(in, it, "item of a wrong size");
	fe->disk_bytenr = disk_file_extent_disk_bytenr(d);
	fe->disk_len = disk_file_extent_disk_num_bytes(d);
	fe->offset = disk_file_extent_offset(d);
	fe->len = disk_file_extent_num_bytes(d);
	if (fe->len == 0 || !is_aligned(fe->file_off | fe->len, ss) ||
	    add_overflows(fe->file_off, fe->len, &end))
		return bad_extent(in, it, "bad range of the file");
	if (fe->disk_bytenr == 0)
		return fe->compression == COMPRESS_NONE ? 0 : bad_extent(in, it, "compressed hole");
	if (!is_aligned(fe->disk_bytenr | fe->disk_len | fe->offset, ss) || fe->disk_len == 0 ||
	    add_overflows(fe->disk_bytenr, fe->disk_len, &end))
		return bad_extent(in, it, "bad range on disk");
	if (fe->compression == COMPRESS_NONE) {
		if (fe->len > fe->disk_len || fe->offset > fe->disk_len - fe->len)
			return bad_extent(in, it, "range outside of its extent");
		return 0;
	}
	if (fe->type == FILE_EXTENT_PREALLOC)
		return bad_extent(in, it, "compressed and preallocated");
	if (fe->ram_bytes > COMPRESSED_MAX_BYTES || fe->disk_len > COMPRESSED_MAX_BYTES)
		return bad_extent(in, it, "compressed extent too long");
	if (fe->len > fe->ram_bytes || fe->offset > fe->ram_bytes - fe->len)
		return bad_extent(in, it, "range outside of its decompressed extent");
	return 0;
}

int file_extent_parse(const struct inode *in, const struct item *it, struct file_extent *ret_fe)
{
	const struct disk_file_extent *d = (const void *)it->data;
	struct file_extent fe = {.file_off = it->key.offset};
	int err;

	if (it->size < FILE_EXTENT_INLINE_OFFSET)
		return bad_extent(in, it, "item too short");
	fe.generation = disk_file_extent_generation(d);
	fe.ram_bytes = disk_file_extent_ram_bytes(d);
	fe.type = disk_file_extent_type(d);
	fe.compression = disk_file_extent_compression(d);
	if (fe.type >= FILE_EXTENT_TYPE_COUNT || fe.compression >= COMPRESS_TYPE_COUNT)
		return bad_extent(in, it, "unknown type or compression");
	if (disk_file_extent_encryption(d) != 0 || disk_file_extent_other_encoding(d) != 0)
		return bad_extent(in, it, "unknown encoding");
	err = fe.type == FILE_EXTENT_INLINE ? parse_inline(in, it, &fe) : parse_regular(in, it, &fe);
	if (err < 0)
		return err;
	*ret_fe = fe;
	return 0;
}

int extent_walk_init(struct extent_walk *w, const struct inode *in, uint64_t from, uint64_t to)
{
	struct key key = extent_key(in, from);
	int err;

	*w = (struct extent_walk){.in = in, .to = to, .end = from};
	item_init(&w->first);
	err = tree_seek(in->sv->tree, &key, SEEK_ITEM_LE, &w->first);
	if (err < 0 && err != -ENOENT)
		return err;
	w->have_first = err == 0 && is_extent_of(in, &w->first.key);
	return 0;
}

/* The item before or at the start of the walk. 1: it reaches into the range; 0: not. */
static int walk_first(struct extent_walk *w, struct file_extent *fe)
{
	int err;

	if (!w->have_first)
		return 0;
	err = file_extent_parse(w->in, &w->first, fe);
	if (err < 0)
		return err;
	if (file_extent_end(fe) <= w->end)
		return 0;
	w->end = file_extent_end(fe);
	return 1;
}

int extent_walk_next(struct extent_walk *w, struct file_extent *ret_fe)
{
	int ret;

	if (!w->started) {
		w->started = true;
		ret = walk_first(w, ret_fe);
		if (ret != 0)
			return ret;
	}
	if (w->end >= w->to)
		return 0;
	if (!w->have_cursor) {
		struct key first = extent_key(w->in, w->end), last = extent_key(w->in, w->to - 1);

		if (w->have_first && w->first.key.offset >= first.offset)
			first.offset = w->first.key.offset + 1;
		cursor_init(&w->cursor, w->in->sv->tree, &first, &last);
		w->have_cursor = true;
	}
	ret = cursor_next(&w->cursor);
	if (ret <= 0)
		return ret;
	ret = file_extent_parse(w->in, &w->cursor.item, ret_fe);
	if (ret < 0)
		return ret;
	if (ret_fe->file_off < w->end)
		return bad_extent(w->in, &w->cursor.item, "overlaps the one before");
	w->end = file_extent_end(ret_fe);
	return 1;
}

void extent_walk_done(struct extent_walk *w)
{
	if (w->have_cursor)
		cursor_done(&w->cursor);
	item_done(&w->first);
}

static struct extent_ref data_ref(const struct inode *in, const struct file_extent *fe)
{
	return (struct extent_ref){
		.bytenr = fe->disk_bytenr,
		.len = fe->disk_len,
		.root = in->sv->id,
		.objectid = in->ino,
		.offset = fe->file_off - fe->offset,
		.count = 1,
		.type = KEY_EXTENT_DATA_REF,
	};
}

static void nbytes_drop(struct inode *in, uint64_t bytes)
{
	in->nbytes -= min_u64(bytes, in->nbytes);
}

static void extent_to_disk(const struct file_extent *fe, uint64_t generation,
			   struct disk_file_extent *d)
{
	memset(d, 0, sizeof(*d));
	disk_file_extent_set_generation(d, generation);
	disk_file_extent_set_ram_bytes(d, fe->ram_bytes);
	disk_file_extent_set_compression(d, fe->compression);
	disk_file_extent_set_type(d, fe->type);
	disk_file_extent_set_disk_bytenr(d, fe->disk_bytenr);
	disk_file_extent_set_disk_num_bytes(d, fe->disk_len);
	disk_file_extent_set_offset(d, fe->offset);
	disk_file_extent_set_num_bytes(d, fe->len);
}

static int edit_extent(void *data, uint32_t size, void *arg)
{
	if (size != sizeof(struct disk_file_extent))
		return -EUCLEAN;
	memcpy(data, arg, size);
	return 0;
}

/* Cuts what lies in [start, end) out of one item that it does not cover whole. */
static int trim_extent(struct txn_handle *tx, struct inode *in, const struct file_extent *fe,
		       uint64_t start, uint64_t end)
{
	struct fs *fs = inode_fs(in);
	struct tree *t = in->sv->tree;
	struct key key = extent_key(in, fe->file_off);
	bool keep_head = fe->file_off < start, keep_tail = file_extent_end(fe) > end;
	struct disk_file_extent d;
	struct file_extent head = *fe, tail = *fe;
	struct key tail_key = extent_key(in, end);
	int err;

	if (keep_head)
		head.len = start - fe->file_off;
	if (keep_tail) {
		tail.file_off = end;
		tail.len = file_extent_end(fe) - end;
		if (!file_extent_is_hole(fe))
			tail.offset += end - fe->file_off;
	}
	if (keep_head) {
		extent_to_disk(&head, tx->transid, &d);
		err = tree_edit(tx, t, &key, edit_extent, &d);
		if (err < 0)
			return err;
	} else {
		err = tree_rekey(tx, t, &key, &tail_key);
		if (err < 0)
			return err;
	}
	if (keep_tail) {
		extent_to_disk(&tail, tx->transid, &d);
		err = keep_head ? tree_insert(tx, t, &tail_key, &d, sizeof(d)) :
				  tree_edit(tx, t, &tail_key, edit_extent, &d);
		if (err < 0)
			return err;
	}
	if (file_extent_is_hole(fe))
		return 0;
	nbytes_drop(in, min_u64(end, file_extent_end(fe)) - max_u64(start, fe->file_off));
	if (keep_head && keep_tail) {
		struct extent_ref ref = data_ref(in, fe);

		return space_add_ref(fs->space, tx, &ref, false);
	}
	return 0;
}

static int drop_extent(struct txn_handle *tx, struct inode *in, const struct file_extent *fe,
		       uint64_t start, uint64_t end)
{
	struct key key = extent_key(in, fe->file_off);
	struct extent_ref ref = data_ref(in, fe);
	int err;

	if (fe->file_off < start || file_extent_end(fe) > end) {
		if (fe->type == FILE_EXTENT_INLINE)
			return corrupt(in->sv->id, NO_ADDRESS, NO_SLOT,
				       "inode %" PRIu64 ": part of inline data to be dropped", in->ino);
		return trim_extent(tx, in, fe, start, end);
	}
	err = tree_delete(tx, in->sv->tree, &key);
	if (err < 0)
		return err;
	if (fe->type == FILE_EXTENT_INLINE) {
		nbytes_drop(in, fe->ram_bytes);
		return 0;
	}
	if (file_extent_is_hole(fe))
		return 0;
	nbytes_drop(in, fe->len);
	return space_drop_ref(inode_fs(in)->space, tx, &ref);
}

int file_drop_extents(struct txn_handle *tx, struct inode *in, uint64_t start, uint64_t end)
{
	scoped(item_done) struct item it;
	struct file_extent fe;
	struct key key = extent_key(in, start);
	enum seek how = SEEK_ITEM_LE;
	uint64_t pos = start;

	item_init(&it);
	while (pos < end) {
		int err = tree_seek(in->sv->tree, &key, how, &it);
		bool first = how == SEEK_ITEM_LE;

		if (err < 0 && err != -ENOENT)
			return err;
		how = SEEK_ITEM_GE;
		if (err < 0 || !is_extent_of(in, &it.key) || it.key.offset >= end) {
			if (first)
				continue;
			break;
		}
		err = file_extent_parse(in, &it, &fe);
		if (err < 0)
			return err;
		if (file_extent_end(&fe) > start) {
			err = drop_extent(tx, in, &fe, start, end);
			if (err < 0)
				return err;
			pos = file_extent_end(&fe);
		}
		key.offset = pos;
	}
	return 0;
}

int file_insert_extent(struct txn_handle *tx, struct inode *in, const struct file_extent *fe,
		       bool fresh)
{
	struct key key = extent_key(in, fe->file_off);
	struct extent_ref ref = data_ref(in, fe);
	struct disk_file_extent d;
	int err;

	extent_to_disk(fe, tx->transid, &d);
	err = tree_insert(tx, in->sv->tree, &key, &d, sizeof(d));
	if (err < 0 || file_extent_is_hole(fe))
		return err;
	in->nbytes += fe->len;
	return space_add_ref(inode_fs(in)->space, tx, &ref, fresh);
}

int file_insert_inline(struct txn_handle *tx, struct inode *in, const void *data, uint32_t len,
		       uint8_t compression, uint32_t ram_bytes)
{
	struct key key = extent_key(in, 0);
	struct file_extent fe = {.type = FILE_EXTENT_INLINE, .compression = compression,
				 .ram_bytes = ram_bytes};
	struct disk_file_extent d;
	scoped(freep) uint8_t *buf = malloc(FILE_EXTENT_INLINE_OFFSET + (size_t)len);
	int err;

	if (buf == NULL)
		return -ENOMEM;
	extent_to_disk(&fe, tx->transid, &d);
	memcpy(buf, &d, FILE_EXTENT_INLINE_OFFSET);
	memcpy(buf + FILE_EXTENT_INLINE_OFFSET, data, len);
	err = tree_insert(tx, in->sv->tree, &key, buf, FILE_EXTENT_INLINE_OFFSET + len);
	if (err < 0)
		return err;
	in->nbytes += ram_bytes;
	return 0;
}

static int insert_hole(struct txn_handle *tx, struct inode *in, uint64_t start, uint64_t end)
{
	struct file_extent hole = {.file_off = start, .len = end - start, .ram_bytes = end - start,
				   .type = FILE_EXTENT_REG};

	return end > start ? file_insert_extent(tx, in, &hole, false) : 0;
}

int file_fill_gaps(struct txn_handle *tx, struct inode *in, uint64_t start, uint64_t end)
{
	uint32_t ss = inode_fs(in)->sectorsize;
	scoped(extent_walk_done) struct extent_walk w = {0};
	struct file_extent fe;
	uint64_t pos = align_down(start, ss);
	int ret;

	if (inode_fs(in)->no_holes)
		return 0;
	end = align_up(end, ss);
	ret = extent_walk_init(&w, in, pos, end);
	if (ret < 0)
		return ret;
	while (pos < end) {
		ret = extent_walk_next(&w, &fe);
		if (ret < 0)
			return ret;
		if (ret == 0)
			break;
		if (fe.type == FILE_EXTENT_INLINE)
			return 0;
		ret = insert_hole(tx, in, pos, max_u64(pos, fe.file_off));
		if (ret < 0)
			return ret;
		pos = file_extent_end(&fe);
	}
	return insert_hole(tx, in, pos, end);
}

int file_is_inline(const struct inode *in)
{
	scoped(item_done) struct item it;
	struct key key = extent_key(in, 0);
	struct file_extent fe;
	int err;

	item_init(&it);
	err = tree_get(in->sv->tree, &key, &it);
	if (err == -ENOENT)
		return 0;
	if (err < 0)
		return err;
	err = file_extent_parse(in, &it, &fe);
	if (err < 0)
		return err;
	return fe.type == FILE_EXTENT_INLINE;
}
