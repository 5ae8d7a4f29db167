/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/node_codec.c - a tree block between its on-disk form and a node.
 *
 * Decoding trusts nothing: every bound is checked before it is used. What the contents mean is
 * judged elsewhere (check.h), and so is the checksum (cache.c), which comes before all.
 */
#include "btree/node.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/log.h"
#include "io/util.h"

static void encode_leaf(const struct node *n, uint8_t *body, uint32_t body_bytes)
{
	struct disk_item *item = (void *)body;
	uint32_t end = body_bytes;

	for (uint32_t i = 0; i < n->count; i++, item++) {
		const struct node_entry *e = node_at(n, i);

		end -= e->item.size;
		key_to_disk(&e->key, &item->key);
		disk_item_set_offset(item, end);
		disk_item_set_size(item, e->item.size);
		if (e->item.size > 0)
			memcpy(body + end, n->heap + e->item.off, e->item.size);
	}
}

static void encode_inner(const struct node *n, uint8_t *body)
{
	struct disk_key_ptr *ptr = (void *)body;

	for (uint32_t i = 0; i < n->count; i++, ptr++) {
		const struct node_entry *e = node_at(n, i);

		key_to_disk(&e->key, &ptr->key);
		disk_key_ptr_set_blockptr(ptr, e->child.bytenr);
		disk_key_ptr_set_generation(ptr, e->child.generation);
	}
}

void node_encode(const struct node *n, const uint8_t *fsid, const uint8_t *chunk_uuid, uint8_t *buf)
{
	struct disk_header *h = (void *)buf;
	uint32_t body = n->block_bytes - (uint32_t)sizeof(*h);

	must(n->packed_bytes <= n->block_bytes);
	memset(buf, 0, n->block_bytes);
	memcpy(h->fsid, fsid, UUID_BYTES);
	memcpy(h->chunk_tree_uuid, chunk_uuid, UUID_BYTES);
	disk_header_set_bytenr(h, n->bytenr);
	disk_header_set_flags(h, n->flags | HEADER_WRITTEN |
				 ((uint64_t)BACKREF_REV_MIXED << HEADER_BACKREF_REV_SHIFT));
	disk_header_set_generation(h, n->generation);
	disk_header_set_owner(h, n->owner);
	disk_header_set_nritems(h, n->count);
	disk_header_set_level(h, n->level);
	if (n->level == 0)
		encode_leaf(n, buf + sizeof(*h), body);
	else
		encode_inner(n, buf + sizeof(*h));
}

/* Bytes of item data: from the last item's to the end of the block, if that is sane. */
static uint32_t data_bytes(const struct disk_item *items, uint32_t count, uint32_t body_bytes)
{
	uint32_t off = count > 0 ? disk_item_offset(&items[count - 1]) : body_bytes;

	return off < body_bytes ? body_bytes - off : 0;
}

static int decode_leaf(const uint8_t *body, uint32_t body_bytes, uint32_t count, struct node *n)
{
	const struct disk_item *item = (const void *)body;
	uint32_t end = body_bytes;
	int err;

	if (count > body_bytes / sizeof(*item))
		return corrupt(n->owner, n->bytenr, NO_SLOT, "%u items do not fit a leaf", count);
	err = node_reserve(n, count, data_bytes(item, count, body_bytes));
	if (err < 0)
		return err;
	for (uint32_t i = 0; i < count; i++, item++) {
		struct key key = key_from_disk(&item->key);
		uint32_t off = disk_item_offset(item);
		uint32_t size = disk_item_size(item);

		/* Data are packed downwards from the end without gaps, and stop above the items. */
		if (size > end || off != end - size || off < count * sizeof(*item))
			return corrupt(n->owner, n->bytenr, (int)i, "item data at %u size %u, expected to end at %u",
				       off, size, end);
		if (i > 0 && key_cmp(node_key(n, i - 1), &key) >= 0)
			return corrupt(n->owner, n->bytenr, (int)i, "keys out of order at (" KEY_FMT ")",
				       KEY_ARGS(&key));
		err = node_insert_item(n, i, &key, body + off, size);
		if (err < 0)
			return err;
		end = off;
	}
	return 0;
}

static int decode_inner(const uint8_t *body, uint32_t body_bytes, uint32_t count, struct node *n)
{
	const struct disk_key_ptr *ptr = (const void *)body;
	int err;

	if (count == 0 || count > body_bytes / sizeof(*ptr))
		return corrupt(n->owner, n->bytenr, NO_SLOT, "an inner node of %u pointers", count);
	err = node_reserve(n, count, 0);
	if (err < 0)
		return err;
	for (uint32_t i = 0; i < count; i++, ptr++) {
		struct key key = key_from_disk(&ptr->key);

		if (i > 0 && key_cmp(node_key(n, i - 1), &key) >= 0)
			return corrupt(n->owner, n->bytenr, (int)i, "keys out of order at (" KEY_FMT ")",
				       KEY_ARGS(&key));
		if (disk_key_ptr_blockptr(ptr) == 0)
			return corrupt(n->owner, n->bytenr, (int)i, "a pointer to address 0");
		err = node_insert_child(n, i, &key, disk_key_ptr_blockptr(ptr),
					disk_key_ptr_generation(ptr));
		if (err < 0)
			return err;
	}
	return 0;
}

int node_decode(const uint8_t *buf, uint32_t block_bytes, struct node **ret_node)
{
	const struct disk_header *h = (const void *)buf;
	const uint8_t *body = buf + sizeof(*h);
	uint32_t body_bytes = block_bytes - (uint32_t)sizeof(*h);
	uint32_t count = disk_header_nritems(h);
	struct node *n;
	int err;

	if (disk_header_level(h) >= LEVEL_COUNT)
		return corrupt(disk_header_owner(h), disk_header_bytenr(h), NO_SLOT, "level %u",
			       disk_header_level(h));
	err = node_new(disk_header_bytenr(h), disk_header_level(h), block_bytes, disk_header_owner(h),
		       disk_header_generation(h), &n);
	if (err < 0)
		return err;
	n->flags = disk_header_flags(h) & ~HEADER_BACKREF_REV_MASK;
	if (n->level == 0)
		err = decode_leaf(body, body_bytes, count, n);
	else
		err = decode_inner(body, body_bytes, count, n);
	if (err < 0) {
		node_free(n);
		return err;
	}
	*ret_node = n;
	return 0;
}
