/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/check_space.c - extents and their references, block groups, chunks, devices, free space. See
 * check.h.
 *
 * Not here: whether a chunk fits its devices (io/volume.h), whether references are true.
 */
#include <errno.h>
#include <stdlib.h>

#include "btree/check_priv.h"
#include "io/chunk_map.h"
#include "io/csum.h"
#include "io/util.h"

/* Bytes of an inline reference of this type; 0: there is no such type. */
static uint32_t inline_ref_bytes(uint8_t type)
{
	switch (type) {
	case KEY_TREE_BLOCK_REF:
	case KEY_SHARED_BLOCK_REF:
	case KEY_EXTENT_OWNER_REF:
		return sizeof(struct disk_extent_inline_ref);
	case KEY_SHARED_DATA_REF:
		return sizeof(struct disk_extent_inline_ref) + sizeof(struct disk_shared_data_ref);
	case KEY_EXTENT_DATA_REF:
		return 1 + sizeof(struct disk_extent_data_ref);
	default:
		return 0;
	}
}

/* The place of a reference among those of its type (descending), and how often it counts. */
struct ref_facts {
	uint64_t seq;
	uint64_t count;
	uint64_t aligned;		/* what must be a multiple of the sector size */
};

static struct ref_facts inline_ref_facts(const struct disk_extent_inline_ref *ref)
{
	const struct disk_extent_data_ref *data = (const void *)&ref->offset;
	const struct disk_shared_data_ref *shared = (const void *)(ref + 1);
	uint64_t offset = disk_extent_inline_ref_offset(ref);

	switch (disk_extent_inline_ref_type(ref)) {
	case KEY_TREE_BLOCK_REF:
		return (struct ref_facts){ .seq = offset, .count = 1 };
	case KEY_SHARED_BLOCK_REF:
		return (struct ref_facts){ .seq = offset, .count = 1, .aligned = offset };
	case KEY_SHARED_DATA_REF:
		return (struct ref_facts){ .seq = offset, .aligned = offset,
					   .count = disk_shared_data_ref_count(shared) };
	case KEY_EXTENT_DATA_REF:
		return (struct ref_facts){
			.seq = hash_extent_data_ref(disk_extent_data_ref_root(data),
						    disk_extent_data_ref_objectid(data),
						    disk_extent_data_ref_offset(data)),
			.count = disk_extent_data_ref_count(data),
			.aligned = disk_extent_data_ref_offset(data),
		};
	default:	/* EXTENT_OWNER_REF is no reference */
		return (struct ref_facts){ .seq = offset };
	}
}

static int check_inline_refs(const struct subject *s, uint32_t at, uint64_t refs)
{
	uint64_t sum = 0, last_seq = UINT64_MAX;
	uint8_t last_type = 0;

	while (at < s->size) {
		const struct disk_extent_inline_ref *ref = (const void *)(s->data + at);
		uint8_t type = disk_extent_inline_ref_type(ref);
		uint32_t bytes = inline_ref_bytes(type);
		struct ref_facts f;

		if (bytes == 0 || bytes > s->size - at)
			return bad(s, "an inline reference of type %u with %u bytes left", type,
				   s->size - at);
		f = inline_ref_facts(ref);
		if (!is_aligned(f.aligned, s->sectorsize))
			return bad(s, "an inline reference of type %u to %llu", type, (ull)f.aligned);
		if (f.count == 0 && type != KEY_EXTENT_OWNER_REF)
			return bad(s, "an inline reference of type %u that counts 0", type);
		if (type < last_type || (type == last_type && f.seq > last_seq))
			return bad(s, "inline references out of order at type %u", type);
		last_type = type;
		last_seq = f.seq;
		sum += f.count;
		at += bytes;
	}
	return sum <= refs ? 0 : bad(s, "%llu references, %llu of them inline", (ull)refs, (ull)sum);
}

/* Bytes of the extent that this key stands for. */
static uint64_t extent_bytes(const struct subject *s, const struct key *key)
{
	if (key->type == KEY_METADATA_ITEM)
		return volume_block_bytes(s->env->vol, (unsigned)key->offset);
	return key->offset;
}

static int check_tree_extent(const struct subject *s)
{
	const struct disk_tree_block_info *info =
		(const void *)(s->data + sizeof(struct disk_extent_item));

	if (s->key->type == KEY_METADATA_ITEM)
		return 0;
	if (s->size < sizeof(struct disk_extent_item) + sizeof(*info))
		return bad(s, "an extent item of %u bytes for a tree block", s->size);
	if (disk_tree_block_info_level(info) >= LEVEL_COUNT)
		return bad(s, "a tree block of level %u", disk_tree_block_info_level(info));
	if (s->key->offset != volume_block_bytes(s->env->vol, disk_tree_block_info_level(info)))
		return bad(s, "a tree block of %llu bytes", (ull)s->key->offset);
	return 0;
}

static int check_data_extent(const struct subject *s, uint64_t flags)
{
	if (s->key->type != KEY_EXTENT_ITEM)
		return bad(s, "a data extent in a metadata item");
	if (s->key->offset == 0 || !is_aligned(s->key->offset, s->sectorsize))
		return bad(s, "a data extent of %llu bytes", (ull)s->key->offset);
	return flags & EXTENT_FLAG_FULL_BACKREF ? bad(s, "a data extent with full references") : 0;
}

int check_extent_item(const struct subject *s)
{
	const struct disk_extent_item *ei = (const void *)s->data;
	uint32_t first = sizeof(*ei);
	uint64_t flags, end;
	bool tree_block;
	int err;

	if (!is_aligned(s->key->objectid, s->sectorsize))
		return bad(s, "an extent at %llu", (ull)s->key->objectid);
	if (s->key->type == KEY_METADATA_ITEM && s->key->offset >= LEVEL_COUNT)
		return bad(s, "a tree block of level %llu", (ull)s->key->offset);
	if (s->size < sizeof(*ei))
		return bad(s, "an extent item of %u bytes", s->size);
	flags = disk_extent_item_flags(ei);
	tree_block = flags & EXTENT_FLAG_TREE_BLOCK;
	if (tree_block == !!(flags & EXTENT_FLAG_DATA))
		return bad(s, "an extent with flags %llx", (ull)flags);
	if (disk_extent_item_generation(ei) > s->transid)
		return bad(s, "an extent of generation %llu, from the future",
			   (ull)disk_extent_item_generation(ei));
	err = tree_block ? check_tree_extent(s) : check_data_extent(s, flags);
	if (err < 0)
		return err;
	if (tree_block && s->key->type == KEY_EXTENT_ITEM)
		first += (uint32_t)sizeof(struct disk_tree_block_info);
	if (add_overflows(s->key->objectid, extent_bytes(s, s->key), &end))
		return bad(s, "an extent that wraps");
	if (s->prev != NULL &&
	    (s->prev->type == KEY_EXTENT_ITEM || s->prev->type == KEY_METADATA_ITEM) &&
	    s->prev->objectid + extent_bytes(s, s->prev) > s->key->objectid)
		return bad(s, "the extent before reaches into this one");
	return check_inline_refs(s, first, disk_extent_item_refs(ei));
}

int check_keyed_ref(const struct subject *s)
{
	const struct disk_shared_data_ref *shared = (const void *)s->data;
	uint32_t want = s->key->type == KEY_SHARED_DATA_REF ? (uint32_t)sizeof(*shared) : 0;

	if (s->size != want)
		return bad(s, "a reference of type %u with %u bytes", s->key->type, s->size);
	if (!is_aligned(s->key->objectid, s->sectorsize))
		return bad(s, "a reference to %llu", (ull)s->key->objectid);
	if (s->key->type != KEY_TREE_BLOCK_REF && !is_aligned(s->key->offset, s->sectorsize))
		return bad(s, "a reference from the block at %llu", (ull)s->key->offset);
	if (want > 0 && disk_shared_data_ref_count(shared) == 0)
		return bad(s, "a reference that counts 0");
	return 0;
}

int check_keyed_data_ref(const struct subject *s)
{
	const struct disk_extent_data_ref *ref = (const void *)s->data;

	if (s->size == 0 || s->size % sizeof(*ref) != 0)
		return bad(s, "a data reference of %u bytes", s->size);
	if (!is_aligned(s->key->objectid, s->sectorsize))
		return bad(s, "a reference to %llu", (ull)s->key->objectid);
	for (uint32_t left = s->size; left > 0; left -= (uint32_t)sizeof(*ref), ref++)
		if (!is_aligned(disk_extent_data_ref_offset(ref), s->sectorsize) ||
		    disk_extent_data_ref_count(ref) == 0)
			return bad(s, "a data reference at %llu that counts %u",
				   (ull)disk_extent_data_ref_offset(ref),
				   disk_extent_data_ref_count(ref));
	return 0;
}

int check_block_group(const struct subject *s)
{
	const struct disk_block_group_item *bg = (const void *)s->data;
	uint64_t flags, type, profile, end;

	if (s->size != sizeof(*bg))
		return bad(s, "a block group item of %u bytes", s->size);
	if (s->key->offset == 0 || add_overflows(s->key->objectid, s->key->offset, &end))
		return bad(s, "a block group of %llu bytes", (ull)s->key->offset);
	if (disk_block_group_item_chunk_objectid(bg) != OBJ_FIRST_CHUNK_TREE)
		return bad(s, "a block group of chunk object %llu",
			   (ull)disk_block_group_item_chunk_objectid(bg));
	if (disk_block_group_item_used(bg) > s->key->offset)
		return bad(s, "a block group of %llu bytes uses %llu", (ull)s->key->offset,
			   (ull)disk_block_group_item_used(bg));
	flags = disk_block_group_item_flags(bg);
	type = flags & BG_TYPE_MASK;
	profile = flags & BG_PROFILE_MASK;
	if ((profile != 0 && !is_pow2(profile)) ||
	    (!is_pow2(type) && type != (BG_DATA | BG_METADATA)))
		return bad(s, "a block group with flags %llx", (ull)flags);
	return 0;
}

int check_chunk_item(const struct subject *s)
{
	const struct volume_params *p = &s->env->vol->params;
	scoped(freep) struct chunk *chunk = NULL;
	struct reason reason = {""};
	int err = chunk_decode(s->key, s->data, s->size, p->sectorsize, p->mixed, &chunk, &reason);

	/* What cowfs cannot use is not damaged. */
	if (err == -EOPNOTSUPP)
		return 0;
	return err == -EUCLEAN ? bad(s, "%s", reason.text) : err;
}

int check_dev_item(const struct subject *s)
{
	const struct disk_dev_item *dev = (const void *)s->data;

	if (s->key->objectid != OBJ_DEV_ITEMS || s->size != sizeof(*dev))
		return bad(s, "a device item of %u bytes under the key (" KEY_FMT ")", s->size,
			   KEY_ARGS(s->key));
	if (disk_dev_item_devid(dev) != s->key->offset)
		return bad(s, "device %llu in the item of %llu", (ull)disk_dev_item_devid(dev),
			   (ull)s->key->offset);
	if (disk_dev_item_bytes_used(dev) > disk_dev_item_total_bytes(dev))
		return bad(s, "a device of %llu bytes uses %llu", (ull)disk_dev_item_total_bytes(dev),
			   (ull)disk_dev_item_bytes_used(dev));
	return 0;
}

int check_dev_extent(const struct subject *s)
{
	const struct disk_dev_extent *de = (const void *)s->data;
	const struct disk_dev_extent *before;
	uint64_t end;

	if (s->size != sizeof(*de))
		return bad(s, "a device extent of %u bytes", s->size);
	if (disk_dev_extent_chunk_tree(de) != OBJ_CHUNK_TREE ||
	    disk_dev_extent_chunk_objectid(de) != OBJ_FIRST_CHUNK_TREE)
		return bad(s, "a device extent of chunk tree %llu, object %llu",
			   (ull)disk_dev_extent_chunk_tree(de), (ull)disk_dev_extent_chunk_objectid(de));
	if (!is_aligned(s->key->offset | disk_dev_extent_chunk_offset(de) | disk_dev_extent_length(de),
			s->sectorsize))
		return bad(s, "a device extent with unaligned numbers");
	if (add_overflows(s->key->offset, disk_dev_extent_length(de), &end))
		return bad(s, "a device extent that wraps");
	if (s->prev == NULL || s->prev->objectid != s->key->objectid ||
	    s->prev->type != KEY_DEV_EXTENT)
		return 0;
	before = (const void *)node_data(s->n, s->slot - 1);
	end = s->prev->offset + disk_dev_extent_length(before);
	return end <= s->key->offset ? 0 : bad(s, "the device extent before reaches up to %llu",
					       (ull)end);
}

/* A range in the free space tree. */
static int check_free_range(const struct subject *s)
{
	uint64_t end;

	if (!is_aligned(s->key->objectid | s->key->offset, s->sectorsize) || s->key->offset == 0 ||
	    add_overflows(s->key->objectid, s->key->offset, &end))
		return bad(s, "free space at %llu, %llu bytes", (ull)s->key->objectid,
			   (ull)s->key->offset);
	return 0;
}

int check_free_space_info(const struct subject *s)
{
	if (s->size != sizeof(struct disk_free_space_info))
		return bad(s, "a free space info of %u bytes", s->size);
	return check_free_range(s);
}

int check_free_space_extent(const struct subject *s)
{
	if (s->size != 0)
		return bad(s, "a free space extent of %u bytes", s->size);
	return check_free_range(s);
}

int check_free_space_bitmap(const struct subject *s)
{
	int err = check_free_range(s);

	if (err < 0)
		return err;
	return s->size == div_round_up(s->key->offset / s->sectorsize, 8)
		       ? 0 : bad(s, "a free space bitmap of %u bytes for %llu", s->size,
				 (ull)s->key->offset);
}
