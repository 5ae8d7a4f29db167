/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/inline_ref.h - the bytes of one extent item, taken apart and changed in memory.
 *
 * An extent item is a head (struct disk_extent_item), for a tree block in the old, fat form a
 * struct disk_tree_block_info, and then back references inline, ordered by type ascending, then by
 * hash (EXTENT_DATA_REF) or by root or parent, descending. References that found no room stand in
 * items of their own (backref.h).
 *
 * Invariants of a loaded struct extent_image:
 *   I1  all inline references lie inside, have a known type that fits the kind, and counts > 0;
 *   I2  inline_count is the sum of their counts; refs - inline_count is what keyed items hold.
 *
 * Locks: none, an image belongs to its user. Not here: where items are kept (extent_tree.h).
 */
#ifndef COWFS_ALLOC_INLINE_REF_H
#define COWFS_ALLOC_INLINE_REF_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/delayed_ref.h"
#include "io/key.h"

struct extent_image {
	struct key key;			/* of the item */
	uint8_t *data;			/* owned */
	uint32_t size, cap;
	uint32_t first;			/* where inline references begin */
	uint64_t refs, generation, flags;	/* copied out; image_store_head() puts them back */
	uint64_t inline_count;
};

void image_init(struct extent_image *im);
void image_done(struct extent_image *im);

/* Takes over an item from disk, after checking all of it. -EUCLEAN, -ENOMEM. */
int image_load(struct extent_image *im, const struct key *key, const uint8_t *data, uint32_t size);

/* An item without references; `fat`: with a tree_block_info of `level`. -ENOMEM. */
int image_create(struct extent_image *im, const struct key *key, uint64_t generation,
		 uint64_t flags, bool fat, uint8_t level);

/* Writes refs, generation and flags into the bytes. */
void image_store_head(struct extent_image *im);

/* One inline reference. */
struct inline_ref {
	struct delayed_ref id;		/* identity, and its count */
	uint32_t off, size;		/* bytes in the item */
};

/* The reference at *off, which moves behind it; false at the end. Only for a loaded image. */
bool image_next_ref(const struct extent_image *im, uint32_t *off, struct inline_ref *ret_ref);

/* Where the reference with this identity is; false: it is not inline, ret_ref->off is its place. */
bool image_find_ref(const struct extent_image *im, const struct delayed_ref *id,
		    struct inline_ref *ret_ref);

/* Inserts a reference with id->count at the place image_find_ref() told. -ENOMEM. */
int image_insert_ref(struct extent_image *im, uint32_t off, const struct delayed_ref *id);

/* Changes the count of a found data reference to `count`; 0 removes a reference of any type. */
void image_set_count(struct extent_image *im, const struct inline_ref *ref, uint32_t count);

/* Bytes of an inline reference of this type; 0: there is no such type. */
uint32_t inline_ref_bytes(uint8_t type);

#endif
