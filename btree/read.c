/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/read.c - lookups: items copied out of trees.
 */
#include "btree/path.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/log.h"
#include "io/util.h"

void item_init(struct item *it)
{
	it->key = KEY_MIN;
	it->size = 0;
	it->cap = sizeof(it->small);
	it->data = it->small;
}

void item_done(struct item *it)
{
	if (it->data != it->small)
		free(it->data);
	item_init(it);
}

static int item_copy(struct item *it, const struct node *n, uint32_t slot)
{
	const struct node_entry *e = node_at(n, slot);

	if (e->item.size > it->cap) {
		uint8_t *data = malloc(e->item.size);

		if (data == NULL)
			return -ENOMEM;
		if (it->data != it->small)
			free(it->data);
		it->data = data;
		it->cap = e->item.size;
	}
	it->key = e->key;
	it->size = e->item.size;
	if (e->item.size > 0)
		memcpy(it->data, node_data(n, slot), e->item.size);
	return 0;
}

struct get_arg {
	const struct key *key;
	struct item *item;		/* or: */
	void *buf;
	uint32_t size;
};

static int get_step(struct step *s, void *arg)
{
	struct get_arg *g = arg;
	struct path p;
	bool exact;
	int err = path_find(s, g->key, &p, &exact);

	if (err < 0)
		return err;
	if (!exact)
		return -ENOENT;
	if (g->item != NULL)
		return item_copy(g->item, p.nodes[0], p.slots[0]);
	if (node_at(p.nodes[0], p.slots[0])->item.size != g->size)
		return corrupt(s->t->id, p.nodes[0]->bytenr, (int)p.slots[0],
			       "item of %u bytes where %u are expected",
			       node_at(p.nodes[0], p.slots[0])->item.size, g->size);
	memcpy(g->buf, node_data(p.nodes[0], p.slots[0]), g->size);
	return 0;
}

int tree_get(struct tree *t, const struct key *key, struct item *ret_item)
{
	struct get_arg g = { .key = key, .item = ret_item };

	return tree_read(t, get_step, &g);
}

int tree_get_fixed(struct tree *t, const struct key *key, void *buf, uint32_t size)
{
	struct get_arg g = { .key = key, .buf = buf, .size = size };

	return tree_read(t, get_step, &g);
}

struct seek_arg {
	struct key key;
	enum seek how;
	struct item *item;
};

static int seek_up(struct step *s, struct path *p, bool exact, const struct seek_arg *a)
{
	struct key bound;
	int err;

	if (exact && a->how == SEEK_ITEM_GT)
		p->slots[0]++;
	while (p->slots[0] >= p->nodes[0]->count) {
		if (!path_bound(p, &bound))
			return -ENOENT;
		err = path_find(s, &bound, p, &exact);
		if (err < 0)
			return err;
		/* The leaf that begins with the bound has it at slot 0, so this ends. */
	}
	return item_copy(a->item, p->nodes[0], p->slots[0]);
}

static int seek_down(struct step *s, struct path *p, bool exact, const struct seek_arg *a)
{
	if (!exact || a->how == SEEK_ITEM_LT) {
		if (p->slots[0] == 0) {
			int err = path_prev_leaf(s, p);

			if (err < 0)
				return err;
		} else {
			p->slots[0]--;
		}
	}
	return item_copy(a->item, p->nodes[0], p->slots[0]);
}

static int seek_step(struct step *s, void *arg)
{
	struct seek_arg *a = arg;
	struct path p;
	bool exact;
	int err = path_find(s, &a->key, &p, &exact);

	if (err < 0)
		return err;
	if (a->how == SEEK_ITEM_GE || a->how == SEEK_ITEM_GT)
		return seek_up(s, &p, exact, a);
	return seek_down(s, &p, exact, a);
}

int tree_seek(struct tree *t, const struct key *key, enum seek how, struct item *ret_item)
{
	/* The key may be the caller's item's own. */
	struct seek_arg a = { .key = *key, .how = how, .item = ret_item };

	return tree_read(t, seek_step, &a);
}

/* --- cursors ------------------------------------------------------------------------------------- */

struct copied_item {
	struct key key;
	uint32_t off, size;
};

struct leaf_copy {
	uint32_t count, item_cap;
	uint32_t bytes, byte_cap;
	struct copied_item *items;
	uint8_t *data;
	struct key bound;		/* where the next leaf begins */
	bool has_bound;
};

void cursor_init(struct cursor *c, struct tree *t, const struct key *first, const struct key *last)
{
	memset(c, 0, sizeof(*c));
	c->tree = t;
	c->next = *first;
	c->last = *last;
	item_init(&c->item);
}

void cursor_reset(struct cursor *c)
{
	if (c->leaf != NULL)
		c->leaf->count = 0;
	c->slot = 0;
	if (c->leaf != NULL)
		c->leaf->has_bound = false;
}

void cursor_done(struct cursor *c)
{
	if (c->leaf != NULL) {
		free(c->leaf->items);
		free(c->leaf->data);
		free(c->leaf);
		c->leaf = NULL;
	}
	item_init(&c->item);
}

/* Room for what a leaf holds from `slot` on. */
static int copy_reserve(struct leaf_copy *l, uint32_t items, uint32_t bytes)
{
	if (items > l->item_cap) {
		free(l->items);
		l->items = malloc(items * sizeof(*l->items));
		l->item_cap = l->items ? items : 0;
	}
	if (bytes > l->byte_cap) {
		free(l->data);
		l->data = malloc(bytes);
		l->byte_cap = l->data ? bytes : 0;
	}
	return items <= l->item_cap && bytes <= l->byte_cap ? 0 : -ENOMEM;
}

static int copy_leaf(struct cursor *c, const struct node *n, uint32_t slot)
{
	struct leaf_copy *l = c->leaf;
	uint32_t end = slot;
	uint32_t bytes = 0;
	int err;

	while (end < n->count && key_cmp(node_key(n, end), &c->last) <= 0)
		bytes += node_at(n, end++)->item.size;
	err = copy_reserve(l, end - slot, bytes);
	if (err < 0)
		return err;
	l->bytes = 0;
	for (l->count = 0; slot < end; slot++) {
		const struct node_entry *e = node_at(n, slot);

		l->items[l->count++] = (struct copied_item){ e->key, l->bytes, e->item.size };
		if (e->item.size > 0)
			memcpy(l->data + l->bytes, n->heap + e->item.off, e->item.size);
		l->bytes += e->item.size;
	}
	return 0;
}

static int cursor_step(struct step *s, void *arg)
{
	struct cursor *c = arg;
	struct path p;
	bool exact;
	int err = path_find(s, &c->next, &p, &exact);

	if (err < 0)
		return err;
	c->leaf->has_bound = path_bound(&p, &c->leaf->bound);
	return copy_leaf(c, p.nodes[0], p.slots[0]);
}

/* Copies the next leaf that has an item in the range; sets c->end if there is none. */
static int cursor_fill(struct cursor *c)
{
	if (c->leaf == NULL) {
		c->leaf = calloc(1, sizeof(*c->leaf));
		if (c->leaf == NULL)
			return -ENOMEM;
	}
	c->slot = 0;
	c->leaf->count = 0;
	while (c->leaf->count == 0) {
		int err;

		if (key_cmp(&c->next, &c->last) > 0) {
			c->end = true;
			return 0;
		}
		err = tree_read(c->tree, cursor_step, c);
		if (err < 0)
			return err;
		if (c->leaf->count > 0)
			return 0;
		if (!c->leaf->has_bound || key_cmp(&c->leaf->bound, &c->last) > 0) {
			c->end = true;
			return 0;
		}
		c->next = c->leaf->bound;
	}
	return 0;
}

/* Gives the current copied item to the caller without copying it again. */
static void cursor_show(struct cursor *c, const struct copied_item *i)
{
	c->item.key = i->key;
	c->item.size = i->size;
	c->item.data = c->leaf->data + i->off;	/* borrowed: good until the next call */
}

int cursor_next(struct cursor *c)
{
	if (c->end)
		return 0;
	if (c->leaf == NULL || c->slot >= c->leaf->count) {
		int err;

		err = cursor_fill(c);
		if (err < 0)
			return err;
		if (c->end)
			return 0;
	}
	cursor_show(c, &c->leaf->items[c->slot++]);
	if (!key_next(&c->item.key, &c->next))
		c->end = c->slot >= c->leaf->count;
	return 1;
}
