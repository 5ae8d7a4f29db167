/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_tree.c - trees that are sorted arrays (see fake_space.h).
 *
 * They answer btree/tree.h as far as alloc/ uses it. The first change of a tree in a transaction
 * "COWs" it: one block is made and the old one freed through space_tree_ops, so that the commit's
 * fixed point has something to do.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/format.h"
#include "io/util.h"
#include "tests/unit/fake_tree.h"

static int fake_put(struct item *it, const struct key *key, const void *data, uint32_t size)
{
	uint8_t *copy = malloc(size + 1u);

	must(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	free(it->data);
	it->key = *key;
	it->data = copy;
	it->size = size;
	return 0;
}

static unsigned fake_find(const struct tree *t, const struct key *key, bool *ret_found)
{
	unsigned lo = 0, hi = t->count;

	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;

		if (key_cmp(&t->items[mid].key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret_found = lo < t->count && key_equal(&t->items[lo].key, key);
	return lo;
}

static int fake_cow(struct txn_handle *tx, struct tree *t)
{
	struct extent_ref old = {.type = KEY_TREE_BLOCK_REF, .root = t->id, .bytenr = t->bytenr,
				 .len = FAKE_LEAF, .count = 1};
	uint64_t generation = t->generation;
	int err;

	if (t->sp == NULL || generation == tx->transid)
		return 0;
	err = space_tree_ops.alloc_block(t->sp, tx, t->id, 0, 0, &t->bytenr);
	if (err < 0)
		return err;
	t->generation = tx->transid;
	return generation == 0 ? 0 : space_tree_ops.free_block(t->sp, tx, &old, generation);
}

struct tree *fake_tree_new(struct space *sp, uint64_t id)
{
	struct tree *t = calloc(1, sizeof(*t));

	must(t != NULL);
	t->sp = sp;
	t->id = id;
	return t;
}

void fake_tree_free(struct tree *t)
{
	if (t == NULL)
		return;
	for (unsigned i = 0; i < t->count; i++)
		free(t->items[i].data);
	free(t->items);
	free(t);
}

unsigned fake_tree_items(const struct tree *t)
{
	return t->count;
}

const struct item *fake_tree_item(const struct tree *t, unsigned i)
{
	return &t->items[i];
}

void fake_trees_open(struct fake_fs *fs, bool fst)
{
	fs->trees.extent = fake_tree_new(&fs->sp, OBJ_EXTENT_TREE);
	fs->trees.csum = fake_tree_new(&fs->sp, OBJ_CSUM_TREE);
	if (fst)
		fs->trees.free_space = fake_tree_new(&fs->sp, OBJ_FREE_SPACE_TREE);
}

void fake_trees_commit(struct fake_fs *fs)
{
	fs->tx.transid++;
}

void fake_trees_close(struct fake_fs *fs)
{
	fake_tree_free(fs->trees.extent);
	fake_tree_free(fs->trees.csum);
	fake_tree_free(fs->trees.free_space);
}

uint64_t tree_id(const struct tree *t)
{
	return t->id;
}

uint32_t tree_env_block_size(const struct tree_env *env, uint8_t level)
{
	(void)env;
	(void)level;
	return FAKE_LEAF;
}

void item_init(struct item *it)
{
	*it = (struct item){.data = NULL};
}

void item_done(struct item *it)
{
	free(it->data);
	it->data = NULL;
}

int tree_get(struct tree *t, const struct key *key, struct item *ret_item)
{
	bool found;
	unsigned i = fake_find(t, key, &found);

	if (!found)
		return -ENOENT;
	return fake_put(ret_item, key, t->items[i].data, t->items[i].size);
}

int tree_get_fixed(struct tree *t, const struct key *key, void *buf, uint32_t size)
{
	bool found;
	unsigned i = fake_find(t, key, &found);

	if (!found)
		return -ENOENT;
	if (t->items[i].size != size)
		return -EUCLEAN;
	memcpy(buf, t->items[i].data, size);
	return 0;
}

int tree_seek(struct tree *t, const struct key *key, enum seek how, struct item *ret_item)
{
	bool found;
	unsigned i = fake_find(t, key, &found);

	if (how == SEEK_ITEM_GT)
		i += found;
	else if (how == SEEK_ITEM_LT || (how == SEEK_ITEM_LE && !found))
		i--;			/* wraps to a great number below 0 */
	if (i >= t->count)
		return -ENOENT;
	return fake_put(ret_item, &t->items[i].key, t->items[i].data, t->items[i].size);
}

void cursor_init(struct cursor *c, struct tree *t, const struct key *first, const struct key *last)
{
	*c = (struct cursor){.tree = t, .next = *first, .last = *last};
}

int cursor_next(struct cursor *c)
{
	int err;

	if (c->end)
		return 0;
	err = tree_seek(c->tree, &c->next, SEEK_ITEM_GE, &c->item);
	if (err == -ENOENT || (err == 0 && key_cmp(&c->item.key, &c->last) > 0)) {
		c->end = true;
		return 0;
	}
	c->end = !key_next(&c->item.key, &c->next);
	return err < 0 ? err : 1;
}

void cursor_done(struct cursor *c)
{
	item_done(&c->item);
}

int tree_insert(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
		uint32_t size)
{
	bool found;
	unsigned i;
	int err = fake_cow(tx, t);

	if (err < 0)
		return err;
	i = fake_find(t, key, &found);
	if (found)
		return -EEXIST;
	if (t->count == t->cap) {
		t->cap = t->cap * 2 + 16;
		t->items = realloc(t->items, t->cap * sizeof(*t->items));
		must(t->items != NULL);
	}
	memmove(&t->items[i + 1], &t->items[i], (t->count - i) * sizeof(*t->items));
	t->count++;
	item_init(&t->items[i]);
	return fake_put(&t->items[i], key, data, size);
}

static void fake_remove(struct tree *t, unsigned i)
{
	item_done(&t->items[i]);
	t->count--;
	memmove(&t->items[i], &t->items[i + 1], (t->count - i) * sizeof(*t->items));
}

int tree_delete(struct txn_handle *tx, struct tree *t, const struct key *key)
{
	bool found;
	unsigned i;
	int err = fake_cow(tx, t);

	if (err < 0)
		return err;
	i = fake_find(t, key, &found);
	if (!found)
		return -ENOENT;
	fake_remove(t, i);
	return 0;
}

int tree_delete_range(struct txn_handle *tx, struct tree *t, const struct key *first,
		      const struct key *last, unsigned max, unsigned *ret_n)
{
	bool found;
	unsigned i, n = 0;
	int err = fake_cow(tx, t);

	if (err < 0)
		return err;
	i = fake_find(t, first, &found);
	/* A few at a time, as if leaves were small. */
	while (n < max && n < 7 && i < t->count && key_cmp(&t->items[i].key, last) <= 0) {
		fake_remove(t, i);
		n++;
	}
	*ret_n = n;
	return 0;
}

int tree_edit(struct txn_handle *tx, struct tree *t, const struct key *key,
	      int (*fn)(void *data, uint32_t size, void *arg), void *arg)
{
	bool found;
	unsigned i;
	int err = fake_cow(tx, t);

	if (err < 0)
		return err;
	i = fake_find(t, key, &found);
	return found ? fn(t->items[i].data, t->items[i].size, arg) : -ENOENT;
}

int tree_replace(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
		 uint32_t size)
{
	bool found;
	unsigned i;
	int err = fake_cow(tx, t);

	if (err < 0)
		return err;
	i = fake_find(t, key, &found);
	return found ? fake_put(&t->items[i], key, data, size) : -ENOENT;
}

int tree_rekey(struct txn_handle *tx, struct tree *t, const struct key *old_key,
	       const struct key *new_key)
{
	bool found;
	unsigned i;
	int err = fake_cow(tx, t);

	if (err < 0)
		return err;
	i = fake_find(t, old_key, &found);
	if (!found)
		return -ENOENT;
	if ((i > 0 && key_cmp(&t->items[i - 1].key, new_key) >= 0) ||
	    (i + 1 < t->count && key_cmp(&t->items[i + 1].key, new_key) <= 0))
		return -EINVAL;
	t->items[i].key = *new_key;
	return 0;
}
