/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/node.c - the in-memory node and its edits; see node.h for the invariants.
 *
 * Dead entries and dead heap bytes stay until room is needed: then everything is copied once into
 * fresh arrays (compact), so that the cost of an edit is constant but for the slot shift.
 */
#include "btree/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/util.h"

#define ENTRIES_MIN 16u
#define HEAP_MIN_BYTES 512u
/* A copy is made to be changed: it has room for one part in so many more. */
#define CLONE_SLACK 8u

static void count_memory(struct node *n)
{
	n->memory = sizeof(*n) + n->entry_cap * (sizeof(*n->entries) + sizeof(*n->slots)) + n->heap_cap;
}

int node_new(uint64_t bytenr, uint8_t level, uint32_t block_bytes, uint64_t owner,
	     uint64_t generation, struct node **ret_node)
{
	struct node *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return -ENOMEM;
	n->bytenr = bytenr;
	n->level = level;
	n->block_bytes = block_bytes;
	n->owner = owner;
	n->generation = generation;
	n->flags = HEADER_WRITTEN;
	n->packed_bytes = sizeof(struct disk_header);
	n->in_order = true;
	count_memory(n);
	*ret_node = n;
	return 0;
}

void node_free(struct node *n)
{
	if (n == NULL)
		return;
	free(n->slots);
	free(n->entries);
	free(n->heap);
	free(n);
}

/*
 * Gives the node arrays for entry_cap entries and heap_cap bytes, without dead entries and bytes.
 */
static int compact(struct node *n, uint32_t entry_cap, uint32_t heap_cap)
{
	scoped(freep) uint16_t *slots = malloc(entry_cap * sizeof(*slots));
	scoped(freep) struct node_entry *entries = malloc(entry_cap * sizeof(*entries));
	scoped(freep) uint8_t *heap = heap_cap ? malloc(heap_cap) : NULL;
	uint32_t used = 0;

	must(entry_cap >= n->count && entry_cap <= UINT16_MAX);
	if (slots == NULL || entries == NULL || (heap == NULL && heap_cap > 0))
		return -ENOMEM;
	for (uint32_t i = 0; i < n->count; i++) {
		const struct node_entry *e = node_at(n, i);

		slots[i] = (uint16_t)i;
		entries[i] = *e;
		if (n->level > 0 || e->item.size == 0)
			continue;
		memcpy(heap + used, n->heap + e->item.off, e->item.size);
		entries[i].item.off = used;
		used += e->item.size;
	}
	free(n->slots);
	free(n->entries);
	free(n->heap);
	n->slots = take(slots);
	n->entries = take(entries);
	n->heap = take(heap);
	n->entry_cap = entry_cap;
	n->entry_used = n->count;
	n->heap_cap = heap_cap;
	n->heap_used = used;
	n->in_order = true;
	count_memory(n);
	return 0;
}

int node_reserve(struct node *n, uint32_t entries, uint32_t heap_bytes)
{
	return compact(n, max_u32(entries, 1), heap_bytes);
}

/* Live bytes of the heap. */
static uint32_t live_bytes(const struct node *n)
{
	if (n->level > 0)
		return 0;
	return n->packed_bytes - (uint32_t)sizeof(struct disk_header) -
	       n->count * (uint32_t)sizeof(struct disk_item);
}

/* Makes room for more entries and heap bytes. */
static int make_room(struct node *n, uint32_t entries, uint32_t bytes)
{
	uint32_t entry_cap = n->entry_cap;
	uint32_t heap_cap = n->heap_cap;

	if (n->entry_used + entries <= entry_cap && n->heap_used + bytes <= heap_cap)
		return 0;
	if (n->count + entries > entry_cap / 4 * 3)
		entry_cap = max_u32(ENTRIES_MIN, (n->count + entries) * 3 / 2);
	if (live_bytes(n) + bytes > heap_cap / 4 * 3 && n->level == 0)
		heap_cap = max_u32(HEAP_MIN_BYTES, (live_bytes(n) + bytes) * 3 / 2);
	return compact(n, entry_cap, heap_cap);
}

int node_clone(const struct node *n, uint64_t bytenr, uint64_t owner, uint64_t generation,
	       struct node **ret_node)
{
	struct node *c;
	int err = node_new(bytenr, n->level, n->block_bytes, owner, generation, &c);

	if (err < 0)
		return err;
	c->entry_cap = n->entry_used + n->count / CLONE_SLACK + ENTRIES_MIN;
	c->heap_cap = n->level > 0 ? 0 : n->heap_used + n->block_bytes / CLONE_SLACK;
	c->slots = malloc(c->entry_cap * sizeof(*c->slots));
	c->entries = malloc(c->entry_cap * sizeof(*c->entries));
	c->heap = c->heap_cap > 0 ? malloc(c->heap_cap) : NULL;
	if (c->slots == NULL || c->entries == NULL || (c->heap == NULL && c->heap_cap > 0)) {
		node_free(c);
		return -ENOMEM;
	}
	if (n->count > 0)
		memcpy(c->slots, n->slots, n->count * sizeof(*c->slots));
	if (n->entry_used > 0)
		memcpy(c->entries, n->entries, n->entry_used * sizeof(*c->entries));
	if (n->heap_used > 0)
		memcpy(c->heap, n->heap, n->heap_used);
	c->count = n->count;
	c->entry_used = n->entry_used;
	c->heap_used = n->heap_used;
	c->packed_bytes = n->packed_bytes;
	c->in_order = n->in_order;
	count_memory(c);
	*ret_node = c;
	return 0;
}

bool node_search(const struct node *n, const struct key *key, uint32_t *ret_slot)
{
	bool in_order = n->in_order;
	uint32_t low = 0;
	uint32_t high = n->count;

	while (low < high) {
		uint32_t mid = (low + high) / 2;
		int cmp = key_cmp(&n->entries[in_order ? mid : n->slots[mid]].key, key);

		if (cmp == 0) {
			*ret_slot = mid;
			return true;
		}
		if (cmp < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_slot = low;
	return false;
}

/* Opens `slot` for a new entry, for which make_room() was called. */
static struct node_entry *open_slot(struct node *n, uint32_t slot, const struct key *key)
{
	struct node_entry *e = &n->entries[n->entry_used];

	must(slot <= n->count);
	dcheck(slot == 0 || key_cmp(node_key(n, slot - 1), key) < 0);
	dcheck(slot == n->count || key_cmp(key, node_key(n, slot)) < 0);
	n->in_order = n->in_order && slot == n->count && n->entry_used == n->count;
	memmove(n->slots + slot + 1, n->slots + slot, (n->count - slot) * sizeof(*n->slots));
	n->slots[slot] = (uint16_t)n->entry_used++;
	n->count++;
	e->key = *key;
	return e;
}

static uint32_t put_data(struct node *n, const void *data, uint32_t size)
{
	uint32_t off = n->heap_used;

	if (size > 0) {
		memcpy(n->heap + off, data, size);
		n->heap_used += size;
	}
	return off;
}

int node_insert_item(struct node *n, uint32_t slot, const struct key *key, const void *data,
		     uint32_t size)
{
	struct node_entry *e;
	int err;

	must(n->level == 0 && node_item_bytes(size) <= node_free_bytes(n));
	err = make_room(n, 1, size);
	if (err < 0)
		return err;
	e = open_slot(n, slot, key);
	e->item.size = size;
	e->item.off = put_data(n, data, size);
	n->packed_bytes += node_item_bytes(size);
	return 0;
}

int node_insert_child(struct node *n, uint32_t slot, const struct key *key, uint64_t bytenr,
		      uint64_t generation)
{
	struct node_entry *e;
	int err;

	must(n->level > 0 && NODE_CHILD_BYTES <= node_free_bytes(n));
	err = make_room(n, 1, 0);
	if (err < 0)
		return err;
	e = open_slot(n, slot, key);
	e->child.bytenr = bytenr;
	e->child.generation = generation;
	n->packed_bytes += NODE_CHILD_BYTES;
	return 0;
}

int node_resize_item(struct node *n, uint32_t slot, const void *data, uint32_t size)
{
	struct node_entry *e = &n->entries[n->slots[slot]];
	uint32_t old = e->item.size;

	must(n->level == 0 && slot < n->count);
	must(size <= old || size - old <= node_free_bytes(n));
	if (size <= old) {
		if (size > 0)
			memcpy(n->heap + e->item.off, data, size);
	} else {
		int err = make_room(n, 0, size);

		if (err < 0)
			return err;
		e = &n->entries[n->slots[slot]];	/* compaction moves entries */
		e->item.off = put_data(n, data, size);
	}
	e->item.size = size;
	n->packed_bytes = n->packed_bytes + size - old;
	return 0;
}

void node_remove(struct node *n, uint32_t slot, uint32_t count)
{
	must(slot + count <= n->count);
	if (count == 0)
		return;
	for (uint32_t i = slot; i < slot + count; i++)
		n->packed_bytes -= node_slot_bytes(n, i);
	n->in_order = n->in_order && slot + count == n->count;
	memmove(n->slots + slot, n->slots + slot + count,
		(n->count - slot - count) * sizeof(*n->slots));
	n->count -= count;
}

void node_set_key(struct node *n, uint32_t slot, const struct key *key)
{
	n->entries[n->slots[slot]].key = *key;
}

void node_set_child(struct node *n, uint32_t slot, uint64_t bytenr, uint64_t generation)
{
	struct node_entry *e = &n->entries[n->slots[slot]];

	must(n->level > 0);
	e->child.bytenr = bytenr;
	e->child.generation = generation;
}

int node_move(struct node *dst, uint32_t to, struct node *src, uint32_t from, uint32_t count)
{
	uint32_t bytes = 0;
	uint32_t packed = 0;
	int err;

	must(dst->level == src->level && from + count <= src->count && to <= dst->count);
	for (uint32_t i = from; i < from + count; i++) {
		packed += node_slot_bytes(src, i);
		bytes += src->level == 0 ? node_at(src, i)->item.size : 0;
	}
	must(packed <= node_free_bytes(dst));
	err = make_room(dst, count, bytes);
	if (err < 0)
		return err;
	dst->in_order = dst->in_order && to == dst->count && dst->entry_used == dst->count;
	memmove(dst->slots + to + count, dst->slots + to, (dst->count - to) * sizeof(*dst->slots));
	for (uint32_t i = 0; i < count; i++) {
		const struct node_entry *s = node_at(src, from + i);
		struct node_entry *d = &dst->entries[dst->entry_used];

		*d = *s;
		if (src->level == 0)
			d->item.off = put_data(dst, src->heap + s->item.off, s->item.size);
		dst->slots[to + i] = (uint16_t)dst->entry_used++;
	}
	dst->count += count;
	dst->packed_bytes += packed;
	node_remove(src, from, count);
	return 0;
}

void node_dump(const struct node *n, int fd)
{
	dprintf(fd, "block %llu level %u owner %llu generation %llu items %u free %u state %d\n",
		(unsigned long long)n->bytenr, n->level, (unsigned long long)n->owner,
		(unsigned long long)n->generation, n->count, node_free_bytes(n), (int)n->state);
	for (uint32_t i = 0; i < n->count; i++) {
		const struct node_entry *e = node_at(n, i);

		if (n->level == 0)
			dprintf(fd, "  %u key (" KEY_FMT ") size %u\n", i, KEY_ARGS(&e->key),
				e->item.size);
		else
			dprintf(fd, "  %u key (" KEY_FMT ") block %llu generation %llu\n", i,
				KEY_ARGS(&e->key), (unsigned long long)e->child.bytenr,
				(unsigned long long)e->child.generation);
	}
}
