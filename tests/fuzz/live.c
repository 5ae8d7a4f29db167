/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/live.c - which of the tree blocks found on a device are in use.
 *
 * A filesystem that was written to is full of blocks of earlier transactions; to change one of them
 * tests nothing. From the superblock down, block by block; each is looked at once, whatever the
 * pointers say. Where nothing is reached (a damaged image), all blocks stay.
 */
#include <errno.h>

#include "io/util.h"
#include "tests/fuzz/fuzz_image.h"

struct marking {
	struct fuzz_base *base;
	bool *live;
	unsigned *queue, queued;
	uint8_t *buf;			/* BLOCKSIZE_MAX */
};

static void mark(struct marking *m, uint64_t logical)
{
	for (unsigned i = 0; i < m->base->block_count; i++) {
		if (m->base->blocks[i].logical != logical || m->live[i])
			continue;
		m->live[i] = true;
		m->queue[m->queued++] = i;
	}
}

static void mark_root_item(struct marking *m, const struct disk_item *item, uint32_t bytes)
{
	uint64_t at = sizeof(struct disk_header) + (uint64_t)disk_item_offset(item);

	/* Old root items are shorter than the structure. */
	if (disk_key_type(&item->key) != KEY_ROOT_ITEM ||
	    at + offsetof(struct disk_root_item, byte_limit) > bytes)
		return;
	mark(m, disk_root_item_bytenr((const void *)(m->buf + at)));
}

static int mark_children(struct marking *m, const struct fuzz_block *b)
{
	const struct disk_header *h = (const struct disk_header *)(const void *)m->buf;
	const struct disk_item *items = (const void *)(m->buf + sizeof(*h));
	const struct disk_key_ptr *ptrs = (const void *)(m->buf + sizeof(*h));
	int err = device_pread(m->base->mem, b->copies[0], m->buf, b->bytes);
	bool leaf = disk_header_level(h) == 0;
	size_t each = leaf ? sizeof(*items) : sizeof(*ptrs);
	uint32_t count = min_u32(disk_header_nritems(h), (uint32_t)((b->bytes - sizeof(*h)) / each));

	for (uint32_t i = 0; err == 0 && i < count; i++) {
		if (leaf)
			mark_root_item(m, &items[i], b->bytes);
		else
			mark(m, disk_key_ptr_blockptr(&ptrs[i]));
	}
	return err;
}

int fuzz_base_keep_live(struct fuzz_base *base, const struct disk_super *super)
{
	scoped(freep) bool *live = calloc(base->block_count + 1, sizeof(*live));
	scoped(freep) unsigned *queue = calloc(base->block_count + 1, sizeof(*queue));
	scoped(freep) uint8_t *buf = malloc(BLOCKSIZE_MAX);
	struct marking m = { .base = base, .live = live, .queue = queue, .buf = buf };
	unsigned kept = 0;

	if (live == NULL || queue == NULL || buf == NULL)
		return -ENOMEM;
	mark(&m, disk_super_root(super));
	mark(&m, disk_super_chunk_root(super));
	for (unsigned i = 0; i < m.queued; i++) {
		int err = mark_children(&m, &base->blocks[queue[i]]);

		if (err < 0)
			return err;
	}
	for (unsigned i = 0; m.queued > 0 && i < base->block_count; i++)
		if (live[i])
			base->blocks[kept++] = base->blocks[i];
	if (m.queued > 0)
		base->block_count = kept;
	return 0;
}
