/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/mem_volume.h - a volume in RAM with one big metadata chunk, for tests of trees.
 */
#ifndef COWFS_TESTS_UNIT_MEM_VOLUME_H
#define COWFS_TESTS_UNIT_MEM_VOLUME_H

#include "io/device_mem.h"
#include "io/volume.h"
#include "tests/unit/unit.h"

#define MEM_VOLUME_BYTES (UINT64_C(1) << 32)
#define MEM_VOLUME_FIRST (UINT64_C(1) << 20)	/* the first logical address */

static inline void mem_volume_add_chunk(struct volume *vol)
{
	struct chunk *c = calloc(1, sizeof(*c) + sizeof(c->stripes[0]));
	struct key key = key_make(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, MEM_VOLUME_FIRST);
	uint8_t item[256];

	ck_assert_ptr_nonnull(c);
	*c = (struct chunk){ .logical = MEM_VOLUME_FIRST,
			     .length = MEM_VOLUME_BYTES - 2 * MEM_VOLUME_FIRST,
			     .type = BG_METADATA, .owner = OBJ_EXTENT_TREE,
			     .io_align = STRIPE_LEN_BYTES, .io_width = STRIPE_LEN_BYTES,
			     .sector_size = vol->params.sectorsize, .num_stripes = 1,
			     .sub_stripes = 1 };
	c->stripes[0].devid = 1;
	c->stripes[0].physical = 1 << 20;
	chunk_encode(c, item);
	unit_ok(volume_add_chunk(vol, &key, item, chunk_item_bytes(1), NULL));
	free(c);
}

static inline struct volume *mem_volume_new(uint32_t leafsize, uint32_t nodesize,
					    enum csum_type csum_type)
{
	struct volume_params p = { .sectorsize = 4096, .leafsize = leafsize, .nodesize = nodesize,
				   .csum_type = csum_type };
	struct disk_dev_item item;
	struct volume *vol;
	struct device *dev;

	memset(&item, 0, sizeof(item));
	disk_dev_item_set_devid(&item, 1);
	disk_dev_item_set_total_bytes(&item, MEM_VOLUME_BYTES);
	unit_ok(volume_new(&p, &vol));
	unit_ok(device_mem_open("mem", MEM_VOLUME_BYTES, &dev));
	unit_ok(volume_add_device(vol, dev, &item));
	mem_volume_add_chunk(vol);
	return vol;
}

#endif
