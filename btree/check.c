/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/check.c - see check.h. One function for each item type, found through a table.
 */
#include "btree/check.h"

#include <errno.h>
#include <string.h>

#include "io/log.h"
#include "io/util.h"

/* What an item check sees. */
struct subject {
	const struct tree_env *env;
	const struct node *n;
	uint32_t slot;
	const struct key *key;
	const uint8_t *data;
	uint32_t size;
	uint32_t sectorsize;
};

#define bad(s, ...) corrupt((s)->n->owner, (s)->n->bytenr, (int)(s)->slot, __VA_ARGS__)

static int check_inode(const struct subject *s)
{
	struct disk_inode_item ii;

	if (s->size != sizeof(ii))
		return bad(s, "inode item of %u bytes", s->size);
	memcpy(&ii, s->data, sizeof(ii));
	if (s->key->offset != 0)
		return bad(s, "inode item with key offset %llu", (unsigned long long)s->key->offset);
	if (disk_inode_item_generation(&ii) > s->env->transid)
		return bad(s, "inode of generation %llu, from the future",
			   (unsigned long long)disk_inode_item_generation(&ii));
	if ((disk_inode_item_mode(&ii) & 0170000u) == 0040000u && disk_inode_item_nlink(&ii) > 1)
		return bad(s, "a directory with %u links", disk_inode_item_nlink(&ii));
	return 0;
}

static int check_inode_ref(const struct subject *s)
{
	uint32_t at = 0;

	while (at < s->size) {
		struct disk_inode_ref ref;

		if (s->size - at < sizeof(ref))
			return bad(s, "an inode ref is cut short");
		memcpy(&ref, s->data + at, sizeof(ref));
		at += (uint32_t)sizeof(ref);
		if (disk_inode_ref_name_len(&ref) > s->size - at ||
		    disk_inode_ref_name_len(&ref) > NAME_MAX_BYTES)
			return bad(s, "an inode ref with a name of %u bytes", disk_inode_ref_name_len(&ref));
		at += disk_inode_ref_name_len(&ref);
	}
	return 0;
}

static int check_inode_extref(const struct subject *s)
{
	uint32_t at = 0;

	while (at < s->size) {
		struct disk_inode_extref ref;

		if (s->size - at < sizeof(ref))
			return bad(s, "an extended inode ref is cut short");
		memcpy(&ref, s->data + at, sizeof(ref));
		at += (uint32_t)sizeof(ref);
		if (disk_inode_extref_name_len(&ref) > s->size - at ||
		    disk_inode_extref_name_len(&ref) > NAME_MAX_BYTES)
			return bad(s, "an extended inode ref with a name of %u bytes",
				   disk_inode_extref_name_len(&ref));
		at += disk_inode_extref_name_len(&ref);
	}
	return 0;
}

/* DIR_ITEM, DIR_INDEX, XATTR_ITEM. */
static int check_dir_item(const struct subject *s)
{
	bool xattr = s->key->type == KEY_XATTR_ITEM;
	uint32_t at = 0;

	while (at < s->size) {
		struct disk_dir_item d;
		uint32_t name_len, data_len;

		if (s->size - at < sizeof(d))
			return bad(s, "a directory entry is cut short");
		memcpy(&d, s->data + at, sizeof(d));
		at += (uint32_t)sizeof(d);
		name_len = disk_dir_item_name_len(&d);
		data_len = disk_dir_item_data_len(&d);
		if (name_len == 0 || name_len > NAME_MAX_BYTES)
			return bad(s, "a name of %u bytes", name_len);
		if ((!xattr && data_len != 0) || name_len + data_len > s->size - at)
			return bad(s, "an entry of %u + %u bytes in %u", name_len, data_len, s->size - at);
		at += name_len + data_len;
	}
	return at == 0 ? bad(s, "an entry item without entries") : 0;
}

static int check_inline_extent(const struct subject *s, uint8_t compression, uint64_t ram_bytes)
{
	if (s->key->offset != 0)
		return bad(s, "an inline extent at file position %llu", (unsigned long long)s->key->offset);
	if (s->size < FILE_EXTENT_INLINE_OFFSET)
		return bad(s, "an inline extent of %u bytes", s->size);
	if (compression == COMPRESS_NONE && ram_bytes != s->size - FILE_EXTENT_INLINE_OFFSET)
		return bad(s, "an inline extent of %u bytes says %llu",
			   s->size - FILE_EXTENT_INLINE_OFFSET, (unsigned long long)ram_bytes);
	return 0;
}

static int check_ranges(const struct subject *s, const struct disk_file_extent *fe)
{
	uint64_t ram = disk_file_extent_ram_bytes(fe);
	uint64_t bytenr = disk_file_extent_disk_bytenr(fe);
	uint64_t disk = disk_file_extent_disk_num_bytes(fe);
	uint64_t off = disk_file_extent_offset(fe);
	uint64_t num = disk_file_extent_num_bytes(fe);
	uint64_t all = ram | bytenr | disk | off | num | s->key->offset;
	uint64_t end;

	if (!is_aligned(all, s->sectorsize) || num == 0)
		return bad(s, "a file extent with unaligned numbers");
	if (add_overflows(s->key->offset, num, &end) || add_overflows(off, num, &end))
		return bad(s, "a file extent that wraps");
	/* What is read lies inside what the extent holds. */
	if (bytenr != 0 && end > ram)
		return bad(s, "a file extent reads %llu of %llu bytes", (unsigned long long)end,
			   (unsigned long long)ram);
	if (bytenr != 0 && (disk == 0 || add_overflows(bytenr, disk, &end)))
		return bad(s, "a file extent on %llu bytes of disk", (unsigned long long)disk);
	if (bytenr != 0 && disk_file_extent_compression(fe) == COMPRESS_NONE && ram > disk)
		return bad(s, "a plain extent of %llu bytes on %llu of disk", (unsigned long long)ram,
			   (unsigned long long)disk);
	return 0;
}

static int check_file_extent(const struct subject *s)
{
	struct disk_file_extent fe = {0};
	uint8_t type;

	if (s->size < FILE_EXTENT_INLINE_OFFSET)
		return bad(s, "a file extent of %u bytes", s->size);
	memcpy(&fe, s->data, min_size(s->size, sizeof(fe)));
	type = disk_file_extent_type(&fe);
	if (type >= FILE_EXTENT_TYPE_COUNT)
		return bad(s, "file extent type %u", type);
	if (disk_file_extent_compression(&fe) >= COMPRESS_TYPE_COUNT)
		return bad(s, "compression type %u", disk_file_extent_compression(&fe));
	if (disk_file_extent_encryption(&fe) != 0)
		return bad(s, "an encrypted file extent");
	if (type == FILE_EXTENT_INLINE)
		return check_inline_extent(s, disk_file_extent_compression(&fe),
					   disk_file_extent_ram_bytes(&fe));
	if (s->size != sizeof(fe))
		return bad(s, "a file extent of %u bytes", s->size);
	return check_ranges(s, &fe);
}

static int check_csum(const struct subject *s)
{
	uint32_t csum = (uint32_t)s->env->vol->csum_bytes;

	if (s->key->objectid != OBJ_EXTENT_CSUM || !is_aligned(s->key->offset, s->sectorsize))
		return bad(s, "checksums with a wrong key (" KEY_FMT ")", KEY_ARGS(s->key));
	if (s->size == 0 || s->size % csum != 0)
		return bad(s, "checksums of %u bytes in an item of %u", csum, s->size);
	if (s->slot > 0) {
		const struct key *prev = node_key(s->n, s->slot - 1);
		uint64_t sectors = node_at(s->n, s->slot - 1)->item.size / csum;

		if (prev->type == KEY_EXTENT_CSUM && prev->offset + sectors * s->sectorsize > s->key->offset)
			return bad(s, "checksums overlap those before");
	}
	return 0;
}

static int check_root_item(const struct subject *s)
{
	struct disk_root_item ri = {0};

	if (s->size != sizeof(ri) && s->size != ROOT_ITEM_V1_BYTES)
		return bad(s, "a root item of %u bytes", s->size);
	memcpy(&ri, s->data, s->size);
	if (disk_root_item_level(&ri) >= LEVEL_COUNT || disk_root_item_drop_level(&ri) >= LEVEL_COUNT)
		return bad(s, "a root item with level %u", disk_root_item_level(&ri));
	if (!is_aligned(disk_root_item_bytenr(&ri), s->sectorsize))
		return bad(s, "a root at %llu", (unsigned long long)disk_root_item_bytenr(&ri));
	return 0;
}

static int check_root_ref(const struct subject *s)
{
	struct disk_root_ref ref;

	if (s->size < sizeof(ref))
		return bad(s, "a root ref of %u bytes", s->size);
	memcpy(&ref, s->data, sizeof(ref));
	if (s->size != sizeof(ref) + disk_root_ref_name_len(&ref))
		return bad(s, "a root ref of %u bytes with a name of %u", s->size,
			   disk_root_ref_name_len(&ref));
	return 0;
}

static int check_extent_item(const struct subject *s)
{
	struct disk_extent_item ei;
	uint32_t min = sizeof(ei);

	memset(&ei, 0, sizeof(ei));
	if (s->size < min)
		return bad(s, "an extent item of %u bytes", s->size);
	memcpy(&ei, s->data, sizeof(ei));
	if (!is_aligned(s->key->objectid, s->sectorsize))
		return bad(s, "an extent at %llu", (unsigned long long)s->key->objectid);
	if (s->key->type == KEY_METADATA_ITEM && s->key->offset >= LEVEL_COUNT)
		return bad(s, "a tree block of level %llu", (unsigned long long)s->key->offset);
	if (s->key->type == KEY_EXTENT_ITEM &&
	    (s->key->offset == 0 || !is_aligned(s->key->offset, s->sectorsize)))
		return bad(s, "an extent of %llu bytes", (unsigned long long)s->key->offset);
	if (disk_extent_item_generation(&ei) > s->env->transid)
		return bad(s, "an extent of generation %llu, from the future",
			   (unsigned long long)disk_extent_item_generation(&ei));
	return 0;
}

static int check_fixed(const struct subject *s, uint32_t size, const char *what)
{
	return s->size == size ? 0 : bad(s, "%s of %u bytes", what, s->size);
}

static int check_block_group(const struct subject *s)
{
	struct disk_block_group_item bg;

	if (s->size != sizeof(bg) || s->key->offset == 0)
		return bad(s, "a block group item of %u bytes", s->size);
	memcpy(&bg, s->data, sizeof(bg));
	if (disk_block_group_item_used(&bg) > s->key->offset)
		return bad(s, "a block group of %llu bytes uses %llu", (unsigned long long)s->key->offset,
			   (unsigned long long)disk_block_group_item_used(&bg));
	return 0;
}

static int check_dev_extent(const struct subject *s)
{
	return check_fixed(s, sizeof(struct disk_dev_extent), "a device extent");
}

static int check_dev_item(const struct subject *s)
{
	return check_fixed(s, sizeof(struct disk_dev_item), "a device item");
}

static int check_free_space_info(const struct subject *s)
{
	return check_fixed(s, sizeof(struct disk_free_space_info), "a free space info");
}

static int check_free_space_extent(const struct subject *s)
{
	return check_fixed(s, 0, "a free space extent");
}

static int check_free_space_bitmap(const struct subject *s)
{
	return s->size >= 1 && s->size <= FREE_SPACE_BITMAP_BYTES
		? 0 : bad(s, "a free space bitmap of %u bytes", s->size);
}

static int check_chunk(const struct subject *s)
{
	return s->size >= sizeof(struct disk_chunk) ? 0 : bad(s, "a chunk item of %u bytes", s->size);
}

typedef int (*check_fn)(const struct subject *s);

static const check_fn checks[UINT8_MAX + 1] = {
	[KEY_INODE_ITEM] = check_inode,
	[KEY_INODE_REF] = check_inode_ref,
	[KEY_INODE_EXTREF] = check_inode_extref,
	[KEY_XATTR_ITEM] = check_dir_item,
	[KEY_DIR_ITEM] = check_dir_item,
	[KEY_DIR_INDEX] = check_dir_item,
	[KEY_EXTENT_DATA] = check_file_extent,
	[KEY_EXTENT_CSUM] = check_csum,
	[KEY_ROOT_ITEM] = check_root_item,
	[KEY_ROOT_REF] = check_root_ref,
	[KEY_ROOT_BACKREF] = check_root_ref,
	[KEY_EXTENT_ITEM] = check_extent_item,
	[KEY_METADATA_ITEM] = check_extent_item,
	[KEY_BLOCK_GROUP_ITEM] = check_block_group,
	[KEY_FREE_SPACE_INFO] = check_free_space_info,
	[KEY_FREE_SPACE_EXTENT] = check_free_space_extent,
	[KEY_FREE_SPACE_BITMAP] = check_free_space_bitmap,
	[KEY_DEV_EXTENT] = check_dev_extent,
	[KEY_DEV_ITEM] = check_dev_item,
	[KEY_CHUNK_ITEM] = check_chunk,
};

static int check_inner(const struct tree_env *env, const struct node *n)
{
	for (uint32_t i = 0; i < n->count; i++) {
		const struct node_entry *e = node_at(n, i);

		if (!is_aligned(e->child.bytenr, env->vol->params.sectorsize))
			return corrupt(n->owner, n->bytenr, (int)i, "a pointer to address %llu",
				       (unsigned long long)e->child.bytenr);
		if (e->child.generation > n->generation)
			return corrupt(n->owner, n->bytenr, (int)i, "a child of generation %llu, newer than %llu",
				       (unsigned long long)e->child.generation,
				       (unsigned long long)n->generation);
	}
	return n->count > 0 ? 0 : corrupt(n->owner, n->bytenr, NO_SLOT, "an empty inner node");
}

int check_node(const struct tree_env *env, const struct node *n)
{
	if (n->level > 0)
		return check_inner(env, n);
	for (uint32_t i = 0; i < n->count; i++) {
		struct subject s = {
			.env = env,
			.n = n,
			.slot = i,
			.key = node_key(n, i),
			.data = node_data(n, i),
			.size = node_at(n, i)->item.size,
			.sectorsize = env->vol->params.sectorsize,
		};
		int err = checks[s.key->type] ? checks[s.key->type](&s) : 0;

		if (err < 0)
			return err;
	}
	return 0;
}
