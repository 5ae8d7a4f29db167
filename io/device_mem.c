/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/device_mem.c - a sparse device in RAM (see device_mem.h).
 *
 * Two levels: a table of groups, each a table of pages; either is NULL where nothing was written.
 */
#include "io/device_mem.h"

#include "io/locks.h"
#include "io/util.h"

#include <errno.h>
#include <string.h>

#define PAGES_IN_GROUP 1024u
#define GROUP_BYTES ((uint64_t)PAGES_IN_GROUP * DEVICE_MEM_PAGE_BYTES)

struct group {
	uint8_t *pages[PAGES_IN_GROUP];
};

struct device_mem {
	struct device dev;
	struct mutex lock;
	uint64_t used_bytes;
	uint64_t group_count;
	struct group **groups;
};

static struct device_mem *of(struct device *dev)
{
	return container_of(dev, struct device_mem, dev);
}

/* The page that holds a byte, or NULL. */
static uint8_t *page_at(struct device_mem *m, uint64_t offset)
{
	struct group *g = m->groups[offset / GROUP_BYTES];

	return g == NULL ? NULL : g->pages[offset % GROUP_BYTES / DEVICE_MEM_PAGE_BYTES];
}

/* The same, made if need be; NULL: out of memory. */
static uint8_t *page_make(struct device_mem *m, uint64_t offset)
{
	struct group **g = &m->groups[offset / GROUP_BYTES];
	uint8_t **page;

	if (*g == NULL)
		*g = calloc(1, sizeof(**g));
	if (*g == NULL)
		return NULL;
	page = &(*g)->pages[offset % GROUP_BYTES / DEVICE_MEM_PAGE_BYTES];
	if (*page == NULL) {
		*page = calloc(1, DEVICE_MEM_PAGE_BYTES);
		if (*page != NULL)
			m->used_bytes += DEVICE_MEM_PAGE_BYTES;
	}
	return *page;
}

/* Bytes from offset to the end of its page, at most len. */
static size_t page_part(uint64_t offset, uint64_t len)
{
	return (size_t)min_u64(len, DEVICE_MEM_PAGE_BYTES - offset % DEVICE_MEM_PAGE_BYTES);
}

static int mem_pread(struct device *dev, uint64_t offset, void *buf, size_t len)
{
	struct device_mem *m = of(dev);
	uint8_t *at = buf;

	mutex_guard(&m->lock);
	while (len > 0) {
		size_t part = page_part(offset, len);
		const uint8_t *page = page_at(m, offset);

		if (page != NULL)
			memcpy(at, page + offset % DEVICE_MEM_PAGE_BYTES, part);
		else
			memset(at, 0, part);
		at += part;
		offset += part;
		len -= part;
	}
	return 0;
}

static int mem_pwritev(struct device *dev, uint64_t offset, const struct iovec *iov, unsigned count)
{
	struct device_mem *m = of(dev);

	mutex_guard(&m->lock);
	for (unsigned i = 0; i < count; i++) {
		const uint8_t *at = iov[i].iov_base;
		size_t len = iov[i].iov_len;

		while (len > 0) {
			size_t part = page_part(offset, len);
			uint8_t *page = page_make(m, offset);

			if (page == NULL)
				return -ENOMEM;
			memcpy(page + offset % DEVICE_MEM_PAGE_BYTES, at, part);
			at += part;
			offset += part;
			len -= part;
		}
	}
	return 0;
}

static int mem_flush(struct device *dev)
{
	(void)dev;
	return 0;
}

static int mem_discard(struct device *dev, uint64_t offset, uint64_t len)
{
	struct device_mem *m = of(dev);

	mutex_guard(&m->lock);
	while (len > 0) {
		size_t part = page_part(offset, len);
		uint8_t *page = page_at(m, offset);

		if (page != NULL)
			memset(page + offset % DEVICE_MEM_PAGE_BYTES, 0, part);
		offset += part;
		len -= part;
	}
	return 0;
}

static void mem_close(struct device *dev)
{
	struct device_mem *m = of(dev);

	for (uint64_t i = 0; m->groups != NULL && i < m->group_count; i++) {
		if (m->groups[i] == NULL)
			continue;
		for (unsigned p = 0; p < PAGES_IN_GROUP; p++)
			free(m->groups[i]->pages[p]);
		free(m->groups[i]);
	}
	free(m->groups);
	mutex_done(&m->lock);
	free(m->dev.name);
	free(m);
}

static const struct device_ops mem_ops = {
	.pread = mem_pread,
	.pwritev = mem_pwritev,
	.flush = mem_flush,
	.discard = mem_discard,
	.close = mem_close,
};

int device_mem_open(const char *name, uint64_t size_bytes, struct device **ret_dev)
{
	scoped(device_closep) struct device *dev = NULL;
	struct device_mem *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return -ENOMEM;
	mutex_init(&m->lock, RANK_DEV);
	m->dev.ops = &mem_ops;
	m->dev.size_bytes = size_bytes;
	m->group_count = div_round_up(size_bytes, GROUP_BYTES);
	dev = &m->dev;
	m->dev.name = strdup(name);
	m->groups = calloc(m->group_count + 1, sizeof(struct group *));
	if (m->dev.name == NULL || m->groups == NULL)
		return -ENOMEM;
	*ret_dev = take(dev);
	return 0;
}

int device_mem_clone(struct device *mem, struct device **ret_dev)
{
	scoped(device_closep) struct device *copy = NULL;
	struct device_mem *from = of(mem);
	int err = device_mem_open(mem->name, mem->size_bytes, &copy);

	if (err < 0)
		return err;
	mutex_guard(&from->lock);
	for (uint64_t g = 0; g < from->group_count; g++) {
		for (unsigned p = 0; from->groups[g] != NULL && p < PAGES_IN_GROUP; p++) {
			const uint8_t *page = from->groups[g]->pages[p];
			uint8_t *to;

			if (page == NULL)
				continue;
			to = page_make(of(copy), g * GROUP_BYTES + p * (uint64_t)DEVICE_MEM_PAGE_BYTES);
			if (to == NULL)
				return -ENOMEM;
			memcpy(to, page, DEVICE_MEM_PAGE_BYTES);
		}
	}
	copy->rotational = mem->rotational;
	*ret_dev = take(copy);
	return 0;
}

uint64_t device_mem_used_bytes(struct device *mem)
{
	mutex_guard(&of(mem)->lock);
	return of(mem)->used_bytes;
}
