/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/mutate.c - changes of tree blocks and of the superblock that keep the checksums right.
 *
 * A change takes one field, of a header, of an item's head, of an item's data or of a pointer to a
 * child, and gives it a value that programs get wrong: a limit, a power of two, a neighbour's value,
 * one more, one less. All copies of a block are changed alike.
 */
#include <string.h>

#include "io/csum.h"
#include "io/util.h"
#include "tests/fuzz/fuzz_image.h"

#define MUTATIONS_MAX 8u

/* Where a change goes in a block. */
struct place {
	uint32_t off;
	unsigned width;			/* bytes: 1, 2, 4, 8 */
};

static const struct place header_fields[] = {
	{ offsetof(struct disk_header, bytenr), 8 },
	{ offsetof(struct disk_header, flags), 8 },
	{ offsetof(struct disk_header, generation), 8 },
	{ offsetof(struct disk_header, owner), 8 },
	{ offsetof(struct disk_header, nritems), 4 },
	{ offsetof(struct disk_header, level), 1 },
	{ offsetof(struct disk_header, fsid), 8 },
};

static const struct place item_fields[] = {
	{ offsetof(struct disk_key, objectid), 8 },
	{ offsetof(struct disk_key, type), 1 },
	{ offsetof(struct disk_key, offset), 8 },
	{ offsetof(struct disk_item, offset), 4 },
	{ offsetof(struct disk_item, size), 4 },
};

static const struct place pointer_fields[] = {
	{ offsetof(struct disk_key, objectid), 8 },
	{ offsetof(struct disk_key, type), 1 },
	{ offsetof(struct disk_key, offset), 8 },
	{ offsetof(struct disk_key_ptr, blockptr), 8 },
	{ offsetof(struct disk_key_ptr, generation), 8 },
};

static const struct place super_fields[] = {
	{ offsetof(struct disk_super, flags), 8 },
	{ offsetof(struct disk_super, generation), 8 },
	{ offsetof(struct disk_super, root), 8 },
	{ offsetof(struct disk_super, chunk_root), 8 },
	{ offsetof(struct disk_super, log_root), 8 },
	{ offsetof(struct disk_super, total_bytes), 8 },
	{ offsetof(struct disk_super, bytes_used), 8 },
	{ offsetof(struct disk_super, num_devices), 8 },
	{ offsetof(struct disk_super, sectorsize), 4 },
	{ offsetof(struct disk_super, nodesize), 4 },
	{ offsetof(struct disk_super, leafsize), 4 },
	{ offsetof(struct disk_super, stripesize), 4 },
	{ offsetof(struct disk_super, sys_chunk_array_size), 4 },
	{ offsetof(struct disk_super, chunk_root_generation), 8 },
	{ offsetof(struct disk_super, compat_ro_flags), 8 },
	{ offsetof(struct disk_super, incompat_flags), 8 },
	{ offsetof(struct disk_super, csum_type), 2 },
	{ offsetof(struct disk_super, root_level), 1 },
	{ offsetof(struct disk_super, chunk_root_level), 1 },
};

static const uint64_t odd_values[] = {
	0, 1, 2, 3, 5, 6, 7, 8, 9, 11, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0xffff, 0x10000, 0x1000, 0xfff,
	0x1001, 0x4000, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, 0xfffff000, INT64_MAX,
	(uint64_t)INT64_MAX + 1, UINT64_MAX, UINT64_MAX - 4095, UINT64_MAX - 255, (uint64_t)-5,
	(uint64_t)-9, 1ULL << 40, 1ULL << 62, (1ULL << 63) - 4096, 256, 257, 1u << 20, 128u << 20,
};

static uint64_t field_get(const uint8_t *at, unsigned width)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < width; i++)
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

static void field_set(uint8_t *at, unsigned width, uint64_t v)
{
	for (unsigned i = 0; i < width; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

/* A new value for a field; `other` is one of a like field. */
static uint64_t new_value(struct fuzz_input *in, uint64_t old, uint64_t other)
{
	static const uint64_t steps[] = { 1, 1, 2, 8, 16, 255, 256, 4096, 16384, 65536 };

	switch (fuzz_take(in, 1) % 8) {
	case 0:
		return old + steps[fuzz_take(in, 1) % ARRAY_COUNT(steps)];
	case 1:
		return old - steps[fuzz_take(in, 1) % ARRAY_COUNT(steps)];
	case 2:
		return old ^ 1ULL << fuzz_take(in, 1) % 64;
	case 3:
		return fuzz_take(in, 8);
	case 4:
	case 5:
		return other;
	default:
		return odd_values[fuzz_take(in, 1) % ARRAY_COUNT(odd_values)];
	}
}

static void change_field(struct fuzz_input *in, uint8_t *buf, struct place p, uint32_t other_off)
{
	uint64_t old = field_get(buf + p.off, p.width), other = field_get(buf + other_off, p.width);

	field_set(buf + p.off, p.width, new_value(in, old, other));
}

/* Some field that is not told by name: four bytes more often than not lie on one. */
static struct place some_place(struct fuzz_input *in, uint32_t from, uint32_t len)
{
	static const uint8_t widths[] = { 1, 1, 2, 4, 8, 8, 8, 8 };
	unsigned width = widths[fuzz_take(in, 1) % ARRAY_COUNT(widths)];
	uint32_t off = (uint32_t)fuzz_take(in, 2);

	while (width > len)
		width /= 2;
	return (struct place){ from + off % (len - width + 1), width };
}

static void change_item(struct fuzz_input *in, uint8_t *buf, uint32_t bytes, uint32_t slots, uint32_t each,
			const struct place *fields, unsigned field_count)
{
	uint32_t slot = (uint32_t)fuzz_take(in, 2) % slots, near = slot + 1 < slots ? slot + 1 : 0;
	uint32_t at = (uint32_t)sizeof(struct disk_header) + slot * each;
	uint32_t other = (uint32_t)sizeof(struct disk_header) + near * each;
	struct place p = fields[fuzz_take(in, 1) % field_count];
	uint8_t how = (uint8_t)fuzz_take(in, 1);
	const struct disk_item *item = (const void *)(buf + at);
	uint32_t data, size;

	/* In a leaf mostly the data of the item. */
	if (each == sizeof(*item) && how % 8 < 6) {
		data = (uint32_t)sizeof(struct disk_header) + disk_item_offset(item);
		size = disk_item_size(item);
		if (data < bytes && size > 0 && size <= bytes - data) {
			p = some_place(in, data, min_u32(size, 256));
			change_field(in, buf, p, data + (p.off - data) / p.width * p.width % (size - p.width + 1));
			return;
		}
	}
	if (how == 255) {
		memcpy(buf + at, buf + other, each);
		return;
	}
	change_field(in, buf, (struct place){ at + p.off, p.width }, other + p.off);
}

static void change_block(struct fuzz_input *in, uint8_t *buf, uint32_t bytes)
{
	const struct disk_header *h = (const void *)buf;
	bool leaf = disk_header_level(h) == 0;
	uint32_t each = leaf ? sizeof(struct disk_item) : sizeof(struct disk_key_ptr);
	uint32_t slots = min_u32(disk_header_nritems(h), (bytes - (uint32_t)sizeof(*h)) / each);
	uint8_t how = (uint8_t)fuzz_take(in, 1);

	if (how % 16 == 0 || slots == 0) {
		struct place p = header_fields[fuzz_take(in, 1) % ARRAY_COUNT(header_fields)];

		change_field(in, buf, p, offsetof(struct disk_header, generation));
	} else if (how % 16 == 1) {
		change_field(in, buf, some_place(in, sizeof(*h), bytes - (uint32_t)sizeof(*h)), sizeof(*h));
	} else if (leaf) {
		change_item(in, buf, bytes, slots, each, item_fields, ARRAY_COUNT(item_fields));
	} else {
		change_item(in, buf, bytes, slots, each, pointer_fields, ARRAY_COUNT(pointer_fields));
	}
}

/* One block's bytes become another's, at an address where the trees expect something else. */
static void copy_block(const struct fuzz_base *base, struct device *mem, uint8_t *buf,
		       const struct fuzz_block *to, struct fuzz_input *in)
{
	const struct fuzz_block *from = &base->blocks[fuzz_take(in, 2) % base->block_count];
	struct disk_header *h = (void *)buf;

	if (from->bytes != to->bytes || device_pread(mem, from->copies[0], buf, from->bytes) < 0)
		return;
	disk_header_set_bytenr(h, to->logical);
}

static void mutate_block(const struct fuzz_base *base, struct device *mem, uint8_t *buf,
			 struct fuzz_input *in)
{
	const struct fuzz_block *b = &base->blocks[fuzz_take(in, 2) % base->block_count];

	if (device_pread(mem, b->copies[0], buf, b->bytes) < 0)
		return;
	if (fuzz_take(in, 1) == 255)
		copy_block(base, mem, buf, b, in);
	else
		change_block(in, buf, b->bytes);
	csum_header_set(base->csum_type, buf, b->bytes);
	for (unsigned i = 0; i < b->copy_count; i++)
		device_pwrite(mem, b->copies[i], buf, b->bytes);
}

static void mutate_super(const struct fuzz_base *base, struct device *mem, uint8_t *buf,
			 struct fuzz_input *in)
{
	struct place p = super_fields[fuzz_take(in, 1) % ARRAY_COUNT(super_fields)];

	if (device_pread(mem, base->super_at, buf, SUPER_BYTES) < 0)
		return;
	switch (fuzz_take(in, 1) % 4) {
	case 0:
		p = some_place(in, CSUM_MAX_BYTES, SUPER_BYTES - CSUM_MAX_BYTES);
		break;
	case 1:
		p = some_place(in, offsetof(struct disk_super, sys_chunk_array), 100);
		break;
	}
	change_field(in, buf, p, offsetof(struct disk_super, root));
	csum_header_set(base->csum_type, buf, SUPER_BYTES);
	device_pwrite(mem, base->super_at, buf, SUPER_BYTES);
}

void fuzz_mutate(const struct fuzz_base *base, struct device *mem, struct fuzz_input *in)
{
	scoped(freep) uint8_t *buf = malloc(BLOCKSIZE_MAX);

	if (buf == NULL)
		return;
	for (unsigned i = 0; i < MUTATIONS_MAX && in->left > 0; i++) {
		if (fuzz_take(in, 1) % 16 == 0) {
			if (base->super_at != 0)
				mutate_super(base, mem, buf, in);
		} else if (base->block_count > 0) {
			mutate_block(base, mem, buf, in);
		}
	}
}
