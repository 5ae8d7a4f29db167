/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/inline_ref.c - the bytes of one extent item, taken apart and changed in memory (see
 * inline_ref.h).
 */
#include "alloc/inline_ref.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/csum.h"
#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

#define IMAGE_BYTES_MIN 256u

void image_init(struct extent_image *im)
{
	*im = (struct extent_image){.data = NULL};
}

void image_done(struct extent_image *im)
{
	free(im->data);
	im->data = NULL;
	im->size = im->cap = 0;
}

static int image_reserve(struct extent_image *im, uint32_t size)
{
	uint32_t cap = max_u32(max_u32(im->cap * 2, size), IMAGE_BYTES_MIN);
	uint8_t *data;

	if (size <= im->cap)
		return 0;
	data = realloc(im->data, cap);
	if (data == NULL)
		return -ENOMEM;
	im->data = data;
	im->cap = cap;
	return 0;
}

uint32_t inline_ref_bytes(uint8_t type)
{
	switch (type) {
	case KEY_TREE_BLOCK_REF:
	case KEY_SHARED_BLOCK_REF:
		return sizeof(struct disk_extent_inline_ref);
	case KEY_SHARED_DATA_REF:
		return sizeof(struct disk_extent_inline_ref) + sizeof(struct disk_shared_data_ref);
	case KEY_EXTENT_DATA_REF:
		return offsetof(struct disk_extent_inline_ref, offset) +
		       sizeof(struct disk_extent_data_ref);
	default:
		return 0;
	}
}

/* Decodes the reference at `off`, of which all bytes are there. */
static void ref_decode(const struct extent_image *im, uint32_t off, struct inline_ref *ret_ref)
{
	const void *p = im->data + off;
	const struct disk_extent_inline_ref *ref = p;
	struct inline_ref r = {.off = off};

	r.id.type = disk_extent_inline_ref_type(ref);
	r.size = inline_ref_bytes(r.id.type);
	if (r.id.type == KEY_EXTENT_DATA_REF) {
		const void *q = &ref->offset;
		const struct disk_extent_data_ref *data = q;

		r.id.anchor = disk_extent_data_ref_root(data);
		r.id.objectid = disk_extent_data_ref_objectid(data);
		r.id.offset = disk_extent_data_ref_offset(data);
		r.id.count = disk_extent_data_ref_count(data);
	} else {
		const void *q = ref + 1;

		r.id.anchor = disk_extent_inline_ref_offset(ref);
		r.id.count = r.id.type == KEY_SHARED_DATA_REF ? disk_shared_data_ref_count(q) : 1;
	}
	*ret_ref = r;
}

static void ref_encode(struct extent_image *im, uint32_t off, const struct delayed_ref *id)
{
	void *p = im->data + off;
	struct disk_extent_inline_ref *ref = p;

	disk_extent_inline_ref_set_type(ref, id->type);
	if (id->type == KEY_EXTENT_DATA_REF) {
		void *q = &ref->offset;
		struct disk_extent_data_ref *data = q;

		disk_extent_data_ref_set_root(data, id->anchor);
		disk_extent_data_ref_set_objectid(data, id->objectid);
		disk_extent_data_ref_set_offset(data, id->offset);
		disk_extent_data_ref_set_count(data, (uint32_t)id->count);
	} else {
		void *q = ref + 1;

		disk_extent_inline_ref_set_offset(ref, id->anchor);
		if (id->type == KEY_SHARED_DATA_REF)
			disk_shared_data_ref_set_count(q, (uint32_t)id->count);
	}
}

bool image_next_ref(const struct extent_image *im, uint32_t *off, struct inline_ref *ret_ref)
{
	if (*off >= im->size)
		return false;
	ref_decode(im, *off, ret_ref);
	*off += ret_ref->size;
	return true;
}

static int bad_item(const struct extent_image *im, const char *what, uint64_t value)
{
	return corrupt(OBJ_EXTENT_TREE, im->key.objectid, NO_SLOT,
		       "extent item " KEY_FMT ": %s (%llu)", KEY_ARGS(&im->key), what,
		       (unsigned long long)value);
}

/* Checks the references from im->first on and sums their counts, I1 and I2. */
static int check_refs(struct extent_image *im)
{
	bool data = (im->flags & EXTENT_FLAG_DATA) != 0;
	uint32_t off = im->first;
	struct inline_ref ref;

	im->inline_count = 0;
	while (off < im->size) {
		uint8_t type = im->data[off];
		uint32_t size = inline_ref_bytes(type);
		bool data_type = type == KEY_EXTENT_DATA_REF || type == KEY_SHARED_DATA_REF;

		if (size == 0 || data_type != data)
			return bad_item(im, "inline reference of a wrong type", type);
		if (size > im->size - off)
			return bad_item(im, "inline reference is cut off", type);
		ref_decode(im, off, &ref);
		if (ref.id.count == 0)
			return bad_item(im, "inline reference with count 0", type);
		im->inline_count += (uint64_t)ref.id.count;
		off += size;
	}
	if (im->inline_count > im->refs)
		return bad_item(im, "more inline references than references", im->inline_count);
	return 0;
}

/* Takes the head apart and finds where references begin. */
static int check_head(struct extent_image *im)
{
	const void *p = im->data;
	const struct disk_extent_item *head = p;
	uint64_t kind;

	if (im->size < sizeof(*head))
		return bad_item(im, "too short", im->size);
	im->refs = disk_extent_item_refs(head);
	im->generation = disk_extent_item_generation(head);
	im->flags = disk_extent_item_flags(head);
	im->first = sizeof(*head);
	kind = im->flags & (EXTENT_FLAG_DATA | EXTENT_FLAG_TREE_BLOCK);
	if (kind != EXTENT_FLAG_DATA && kind != EXTENT_FLAG_TREE_BLOCK)
		return bad_item(im, "neither data nor tree block, flags", im->flags);
	if (im->key.type == KEY_METADATA_ITEM && kind != EXTENT_FLAG_TREE_BLOCK)
		return bad_item(im, "not a tree block, flags", im->flags);
	if (im->refs == 0)
		return bad_item(im, "no references", 0);
	if (im->key.type == KEY_EXTENT_ITEM && kind == EXTENT_FLAG_TREE_BLOCK) {
		if (im->size - im->first < sizeof(struct disk_tree_block_info))
			return bad_item(im, "too short for a tree block", im->size);
		im->first += (uint32_t)sizeof(struct disk_tree_block_info);
	}
	return 0;
}

int image_load(struct extent_image *im, const struct key *key, const uint8_t *data, uint32_t size)
{
	int err = image_reserve(im, size);

	if (err < 0)
		return err;
	memcpy(im->data, data, size);
	im->size = size;
	im->key = *key;
	err = check_head(im);
	return err < 0 ? err : check_refs(im);
}

int image_create(struct extent_image *im, const struct key *key, uint64_t generation,
		 uint64_t flags, bool fat, uint8_t level)
{
	uint32_t size = sizeof(struct disk_extent_item);
	int err;

	if (fat)
		size += (uint32_t)sizeof(struct disk_tree_block_info);
	err = image_reserve(im, size);
	if (err < 0)
		return err;
	memset(im->data, 0, size);
	if (fat) {
		void *p = im->data + sizeof(struct disk_extent_item);

		disk_tree_block_info_set_level(p, level);
	}
	im->key = *key;
	im->size = im->first = size;
	im->refs = 0;
	im->inline_count = 0;
	im->generation = generation;
	im->flags = flags;
	return 0;
}

void image_store_head(struct extent_image *im)
{
	void *p = im->data;
	struct disk_extent_item *head = p;

	disk_extent_item_set_refs(head, im->refs);
	disk_extent_item_set_generation(head, im->generation);
	disk_extent_item_set_flags(head, im->flags);
}

/* What references of one type are ordered by, descending. */
static uint64_t ref_rank(const struct delayed_ref *id)
{
	if (id->type == KEY_EXTENT_DATA_REF)
		return hash_extent_data_ref(id->anchor, id->objectid, id->offset);
	return id->anchor;
}

bool image_find_ref(const struct extent_image *im, const struct delayed_ref *id,
		    struct inline_ref *ret_ref)
{
	uint64_t rank = ref_rank(id);
	uint32_t off = im->first;
	struct inline_ref ref;

	while (image_next_ref(im, &off, &ref)) {
		if (ref.id.type < id->type)
			continue;
		if (ref.id.type > id->type)
			goto absent;
		if (ref.id.anchor == id->anchor && ref.id.objectid == id->objectid &&
		    ref.id.offset == id->offset) {
			*ret_ref = ref;
			return true;
		}
		if (ref_rank(&ref.id) < rank)
			goto absent;
	}
	ref.off = im->size;
absent:
	*ret_ref = (struct inline_ref){.off = ref.off};
	return false;
}

int image_insert_ref(struct extent_image *im, uint32_t off, const struct delayed_ref *id)
{
	uint32_t size = inline_ref_bytes(id->type);
	int err;

	must(size > 0 && off >= im->first && off <= im->size);
	err = image_reserve(im, im->size + size);
	if (err < 0)
		return err;
	memmove(im->data + off + size, im->data + off, im->size - off);
	im->size += size;
	ref_encode(im, off, id);
	im->inline_count += (uint64_t)id->count;
	return 0;
}

void image_set_count(struct extent_image *im, const struct inline_ref *ref, uint32_t count)
{
	struct delayed_ref id = ref->id;

	im->inline_count += count;
	im->inline_count -= (uint64_t)id.count;
	if (count == 0) {
		uint32_t end = ref->off + ref->size;

		memmove(im->data + ref->off, im->data + end, im->size - end);
		im->size -= ref->size;
		return;
	}
	must(id.type == KEY_EXTENT_DATA_REF || id.type == KEY_SHARED_DATA_REF);
	id.count = count;
	ref_encode(im, ref->off, &id);
}
