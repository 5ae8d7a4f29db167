/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/insert.c - inserting, replacing and editing items, and splitting leaves for room.
 *
 * A full leaf is split where it serves the pattern: behind its end for ascending inserts (the full
 * leaf stays full), at the place of a row of inserts, else in the middle of its bytes.
 */
#include "btree/path.h"

#include <errno.h>
#include <string.h>

#include "io/log.h"
#include "io/util.h"

/* Makes a leaf right behind the path's leaf, empty; the parent points to it under `key`. */
static int add_leaf(struct step *s, struct path *p, const struct key *key, struct node **ret_leaf)
{
	int err = cow_new_node(s, 0, p->nodes[0]->bytenr, ret_leaf);

	if (err < 0)
		return err;
	err = node_insert_child(p->nodes[1], p->slots[1] + 1, key, (*ret_leaf)->bytenr,
				(*ret_leaf)->generation);
	cache_recount(s->t->env, p->nodes[1]);
	return err;
}

static void go_right(struct path *p, struct node *leaf, uint32_t slot)
{
	p->nodes[0] = leaf;
	p->slots[0] = slot;
	p->slots[1]++;
}

/* On-disk bytes of slots [from, to). */
static uint32_t slots_bytes(const struct node *n, uint32_t from, uint32_t to)
{
	uint32_t bytes = 0;

	for (uint32_t i = from; i < to; i++)
		bytes += node_slot_bytes(n, i);
	return bytes;
}

/*
 * Where to cut a leaf that gets `need` bytes at `slot`: items from the returned one on move right.
 * *ret_right: the new item goes to the right part. UINT32_MAX: no cut makes room on either side.
 */
static uint32_t choose_cut(const struct node *n, uint32_t slot, uint32_t need, bool *ret_right)
{
	uint32_t room = n->block_bytes - (uint32_t)sizeof(struct disk_header);
	uint32_t total = slots_bytes(n, 0, n->count);
	uint32_t best = UINT32_MAX, best_diff = UINT32_MAX;
	uint32_t left = 0;

	for (uint32_t cut = 0; cut <= n->count; cut++) {
		for (int right = 0; right < 2; right++) {
			uint32_t l = left + (right ? 0 : need);
			uint32_t r = total - left + (right ? need : 0);
			uint32_t diff = l > r ? l - r : r - l;

			if ((right ? slot < cut : slot > cut) || l > room || r > room || l == 0 || r == 0)
				continue;
			if (diff < best_diff) {
				best_diff = diff;
				best = cut;
				*ret_right = right;
			}
		}
		if (cut < n->count)
			left += node_slot_bytes(n, cut);
	}
	return best;
}

/* The new item gets a leaf of its own in the middle: the last resort for big items. */
static int split_around(struct step *s, struct path *p, const struct key *key)
{
	struct node *n = p->nodes[0];
	uint32_t slot = p->slots[0];
	struct node *tail, *mid;
	int err = add_leaf(s, p, node_key(n, slot), &tail);

	if (err == 0)
		err = node_move(tail, 0, n, slot, n->count - slot);
	if (err == 0)
		err = add_leaf(s, p, key, &mid);
	if (err < 0)
		return err;
	cache_recount(s->t->env, tail);
	go_right(p, mid, 0);
	return 0;
}

/*
 * Splits the path's leaf so that an item of `need` on-disk bytes fits at the path's slot, which
 * moves along.
 */
static int split_leaf(struct step *s, struct path *p, const struct key *key, uint32_t need)
{
	struct tree *t = s->t;
	struct node *n = p->nodes[0];
	uint32_t slot = p->slots[0];
	uint32_t cut;
	bool right = false;
	struct node *leaf;
	int err;

	if (p->top == 0) {
		err = cow_grow_root(s, p, slot == 0 ? key : node_key(n, 0));
		if (err < 0)
			return err;
	}
	if (slot == n->count) {
		err = add_leaf(s, p, key, &leaf);
		if (err == 0)
			go_right(p, leaf, 0);
		return err;
	}
	if (slot > 0 && t->last_bytenr == n->bytenr && t->last_slot + 1 == slot &&
	    need <= node_free_bytes(n) + slots_bytes(n, slot, n->count))
		cut = slot;
	else
		cut = choose_cut(n, slot, need, &right);
	if (cut == UINT32_MAX)
		return split_around(s, p, key);
	err = add_leaf(s, p, right && slot == cut ? key : node_key(n, cut), &leaf);
	if (err == 0)
		err = node_move(leaf, 0, n, cut, n->count - cut);
	if (err < 0)
		return err;
	cache_recount(t->env, leaf);
	if (right)
		go_right(p, leaf, slot - cut);
	return 0;
}

/* Puts an item at the path's slot; makes room first. */
static int put_at(struct step *s, struct path *p, const struct key *key, const void *data,
		  uint32_t size)
{
	uint32_t need = node_item_bytes(size);
	int err = 0;

	/* Before a split, which puts the keys behind this one into the parent. */
	if (p->slots[0] == 0)
		path_fix_low_key(p, 0, key);
	if (need > node_free_bytes(p->nodes[0])) {
		/* Behind the leaf's end a new leaf is better: ascending inserts go on there. */
		if (p->slots[0] < p->nodes[0]->count)
			err = shift_for_room(s, p, key, need);
		if (err == 0)
			err = split_leaf(s, p, key, need);
	}
	if (err >= 0)
		err = node_insert_item(p->nodes[0], p->slots[0], key, data, size);
	if (err < 0)
		return err;
	cache_recount(s->t->env, p->nodes[0]);
	s->t->last_bytenr = p->nodes[0]->bytenr;
	s->t->last_slot = p->slots[0];
	return 0;
}

struct put_arg {
	const struct item_vec *v;
	unsigned n, done;
	bool may_exist;			/* tree_put(): insert if it is not there */
};

/* No key of the tree may lie in the range that the rest of the vector takes. */
static bool vec_fits(const struct put_arg *a, const struct path *p)
{
	const struct key *last = &a->v[a->n - 1].key;
	struct key next;

	if (p->slots[0] < p->nodes[0]->count)
		next = *node_key(p->nodes[0], p->slots[0]);
	else if (!path_bound(p, &next))
		return true;
	return key_cmp(last, &next) < 0;
}

static int insert_step(struct step *s, void *arg)
{
	struct put_arg *a = arg;

	while (a->done < a->n) {
		const struct item_vec *v = &a->v[a->done];
		struct path p;
		bool exact;
		int err = path_find_cow(s, &v->key, true, &p, &exact);

		if (err < 0)
			return err;
		if (exact || !vec_fits(a, &p))
			return a->done == 0 ? -EEXIST : -EINVAL;
		for (;;) {
			err = put_at(s, &p, &v->key, v->data, v->size);
			if (err < 0)
				return err;
			a->done++;
			v++;
			/* The next goes right behind, without a descent, while there is room. */
			if (a->done == a->n || node_item_bytes(v->size) > node_free_bytes(p.nodes[0]))
				break;
			p.slots[0]++;
		}
	}
	return 0;
}

static int too_big(const struct tree *t, const struct item_vec *v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (v[i].size > tree_max_item_size(t->env))
			return -EOVERFLOW;
	return 0;
}

int tree_insert_vec(struct txn_handle *tx, struct tree *t, const struct item_vec *v, unsigned n)
{
	struct put_arg a = { .v = v, .n = n };
	int err = too_big(t, v, n);

	return err < 0 ? err : tree_change(tx, t, insert_step, &a);
}

int tree_insert(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
		uint32_t size)
{
	struct item_vec v = { *key, data, size };

	return tree_insert_vec(tx, t, &v, 1);
}

/* --- changing items that are there --------------------------------------------------------------- */

static int replace_step(struct step *s, void *arg)
{
	struct put_arg *a = arg;
	const struct item_vec *v = a->v;
	struct path p;
	struct node *n;
	bool exact;
	uint32_t old;
	int err = path_find_cow(s, &v->key, true, &p, &exact);

	if (err < 0)
		return err;
	if (!exact)
		return a->may_exist ? put_at(s, &p, &v->key, v->data, v->size) : -ENOENT;
	n = p.nodes[0];
	old = node_at(n, p.slots[0])->item.size;
	if (v->size <= old || v->size - old <= node_free_bytes(n)) {
		err = node_resize_item(n, p.slots[0], v->data, v->size);
		cache_recount(s->t->env, n);
		return err;
	}
	node_remove(n, p.slots[0], 1);
	return put_at(s, &p, &v->key, v->data, v->size);
}

int tree_replace(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
		 uint32_t size)
{
	struct item_vec v = { *key, data, size };
	struct put_arg a = { .v = &v, .n = 1 };
	int err = too_big(t, &v, 1);

	return err < 0 ? err : tree_change(tx, t, replace_step, &a);
}

int tree_put(struct txn_handle *tx, struct tree *t, const struct key *key, const void *data,
	     uint32_t size)
{
	struct item_vec v = { *key, data, size };
	struct put_arg a = { .v = &v, .n = 1, .may_exist = true };
	int err = too_big(t, &v, 1);

	return err < 0 ? err : tree_change(tx, t, replace_step, &a);
}

struct edit_arg {
	const struct key *key;
	const struct key *new_key;
	int (*fn)(void *data, uint32_t size, void *arg);
	void *arg;
};

static int edit_step(struct step *s, void *arg)
{
	struct edit_arg *a = arg;
	struct path p;
	bool exact;
	int err = path_find_cow(s, a->key, false, &p, &exact);

	if (err < 0)
		return err;
	if (!exact)
		return -ENOENT;
	return a->fn(node_data(p.nodes[0], p.slots[0]), node_at(p.nodes[0], p.slots[0])->item.size,
		     a->arg);
}

int tree_edit(struct txn_handle *tx, struct tree *t, const struct key *key,
	      int (*fn)(void *data, uint32_t size, void *arg), void *arg)
{
	struct edit_arg a = { .key = key, .fn = fn, .arg = arg };

	return tree_change(tx, t, edit_step, &a);
}

static int rekey_step(struct step *s, void *arg)
{
	struct edit_arg *a = arg;
	struct path p;
	struct key next;
	bool exact;
	int err = path_find_cow(s, a->key, false, &p, &exact);

	if (err < 0)
		return err;
	if (!exact)
		return -ENOENT;
	if (p.slots[0] > 0 && key_cmp(node_key(p.nodes[0], p.slots[0] - 1), a->new_key) >= 0)
		return -EINVAL;
	if (p.slots[0] + 1 < p.nodes[0]->count)
		next = *node_key(p.nodes[0], p.slots[0] + 1);
	else if (!path_bound(&p, &next))
		next = KEY_MAX;
	if (key_cmp(a->new_key, &next) >= 0)
		return -EINVAL;
	node_set_key(p.nodes[0], p.slots[0], a->new_key);
	if (p.slots[0] == 0)
		path_fix_low_key(&p, 0, a->new_key);
	return 0;
}

int tree_rekey(struct txn_handle *tx, struct tree *t, const struct key *old_key,
	       const struct key *new_key)
{
	struct edit_arg a = { .key = old_key, .new_key = new_key };

	return tree_change(tx, t, rekey_step, &a);
}
