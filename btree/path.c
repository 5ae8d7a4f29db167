/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/path.c - descending a tree; see path.h.
 */
#include "btree/path.h"

#include <errno.h>
#include <string.h>

#include "io/log.h"
#include "io/util.h"

/* A step starts over once for each block that it misses; more means that loading makes no headway. */
#define RESTARTS_MAX 100000u

static int fetch_refs(struct step *s)
{
	struct tree_env *env = s->t->env;
	struct want *w = &s->want;
	int err;

	if (!w->share_held) {
		mutex_lock(&env->share_lock);
		w->share_held = true;
	}
	err = env->ops->block_info(env->space, w->block.bytenr, w->block.level, &w->refs,
				   &w->refs_flags);
	if (err < 0)
		return err;
	w->refs_known = true;
	w->refs_bytenr = w->block.bytenr;
	return 0;
}

static int fetch_block(struct step *s)
{
	const struct block_want *w = &s->want.block;
	bool sure = s->suspect_bytenr == w->bytenr && s->suspect_generation == w->generation;
	int err = cache_load(s->t->env, w, sure);

	if (err != -ESTALE)
		return err;
	s->suspect_bytenr = w->bytenr;
	s->suspect_generation = w->generation;
	return 0;
}

static int fetch(struct step *s)
{
	switch (s->want.what) {
	case WANT_BLOCK:
		return fetch_block(s);
	case WANT_REFS:
		return fetch_refs(s);
	default:
		return corrupt(s->t->id, NO_ADDRESS, NO_SLOT, "a step asked for nothing");
	}
}

int tree_read(struct tree *t, step_fn fn, void *arg)
{
	struct step s = { .t = t };

	rcu_thread_ensure();
	for (unsigned i = 0; i < RESTARTS_MAX; i++) {
		int err;

		rwlock_rdlock(&t->lock);
		rcu_read_begin();
		err = fn(&s, arg);
		rcu_read_end();
		rwlock_rdunlock(&t->lock);
		if (err != -EAGAIN)
			return err;
		err = fetch(&s);
		if (err < 0)
			return err;
	}
	return -EIO;
}

int tree_change(struct txn_handle *tx, struct tree *t, step_fn fn, void *arg)
{
	struct step s = { .t = t, .tx = tx };
	int err = -EIO;

	rcu_thread_ensure();
	for (unsigned i = 0; i < RESTARTS_MAX; i++) {
		rwlock_wrlock(&t->lock);
		rcu_read_begin();
		err = fn(&s, arg);
		rcu_read_end();
		rwlock_wrunlock(&t->lock);
		if (err != -EAGAIN)
			break;
		err = fetch(&s);
		if (err < 0)
			break;
	}
	if (s.want.share_held)
		mutex_unlock(&t->env->share_lock);
	return err;
}

static struct node *find_or_want(struct step *s, const struct block_want *w)
{
	struct node *n = cache_find(s->t->env, w);

	if (n == NULL) {
		s->want.what = WANT_BLOCK;
		s->want.block = *w;
	}
	return n;
}

static struct node *root_node(struct step *s)
{
	const struct tree *t = s->t;
	struct block_want w = {
		.bytenr = t->root.bytenr,
		.generation = t->root.generation,
		.level = t->root.level,
		.owner = t->id,
		.shareable = t->shareable,
	};

	return find_or_want(s, &w);
}

int path_root(struct step *s, struct node **ret_root)
{
	struct node *n = root_node(s);

	if (n == NULL)
		return -EAGAIN;
	*ret_root = n;
	return 0;
}

struct block_want path_want(const struct tree *t, const struct node *parent, uint32_t slot)
{
	const struct node_entry *e = node_at(parent, slot);

	return (struct block_want){
		.bytenr = e->child.bytenr,
		.generation = e->child.generation,
		.level = (uint8_t)(parent->level - 1),
		.owner = t->id,
		.shareable = t->shareable,
		.has_key = true,
		.key = e->key,
	};
}

struct node *path_child(struct step *s, const struct node *parent, uint32_t slot)
{
	struct block_want w = path_want(s->t, parent, slot);

	return find_or_want(s, &w);
}

/* The child to take for a key: the last whose key is not greater, or the first of all. */
static uint32_t child_slot(const struct node *n, const struct key *key)
{
	uint32_t slot;

	if (node_search(n, key, &slot))
		return slot;
	return slot > 0 ? slot - 1 : 0;
}

int path_find(struct step *s, const struct key *key, struct path *p, bool *ret_exact)
{
	struct node *n = root_node(s);

	p->top = s->t->root.level;
	for (;;) {
		if (n == NULL)
			return -EAGAIN;
		p->nodes[n->level] = n;
		if (n->level == 0)
			break;
		p->slots[n->level] = child_slot(n, key);
		n = path_child(s, n, p->slots[n->level]);
	}
	*ret_exact = node_search(n, key, &p->slots[0]);
	return 0;
}

bool path_bound(const struct path *p, struct key *ret_key)
{
	for (unsigned level = 1; level <= p->top; level++) {
		const struct node *n = p->nodes[level];

		if (p->slots[level] + 1 < n->count) {
			*ret_key = *node_key(n, p->slots[level] + 1);
			return true;
		}
	}
	return false;
}

int path_prev_leaf(struct step *s, struct path *p)
{
	unsigned level = 1;

	while (level <= p->top && p->slots[level] == 0)
		level++;
	if (level > p->top)
		return -ENOENT;
	p->slots[level]--;
	for (; level > 0; level--) {
		struct node *n = path_child(s, p->nodes[level], p->slots[level]);

		if (n == NULL)
			return -EAGAIN;
		p->nodes[level - 1] = n;
		if (n->count == 0)
			return corrupt(s->t->id, n->bytenr, NO_SLOT, "an empty block below the root");
		p->slots[level - 1] = n->count - 1;
	}
	return 0;
}

void path_fix_low_key(struct path *p, uint8_t level, const struct key *key)
{
	for (unsigned up = level + 1u; up <= p->top; up++) {
		node_set_key(p->nodes[up], p->slots[up], key);
		if (p->slots[up] != 0)
			return;
	}
}

/* --- for changes --------------------------------------------------------------------------------- */

/*
 * Splits the inner node of the path at `level` in two; the path goes on in the part with the key.
 * A key behind all others leaves the left part nearly full: more of its kind are likely to follow.
 */
static int split_inner(struct step *s, struct path *p, uint8_t level, const struct key *key)
{
	struct node *n = p->nodes[level];
	bool last = child_slot(n, key) == n->count - 1;
	uint32_t half = last ? n->count - 1 : n->count / 2;
	struct node *right;
	int err;

	if (level == p->top) {
		err = cow_grow_root(s, p, node_key(n, 0));
		if (err < 0)
			return err;
	}
	err = cow_new_node(s, level, n->bytenr, &right);
	if (err < 0)
		return err;
	err = node_move(right, 0, n, half, n->count - half);
	if (err < 0)
		return err;
	err = node_insert_child(p->nodes[level + 1], p->slots[level + 1] + 1, node_key(right, 0),
				right->bytenr, right->generation);
	if (err < 0)
		return err;
	cache_recount(s->t->env, right);
	if (key_cmp(key, node_key(right, 0)) >= 0) {
		p->nodes[level] = right;
		p->slots[level + 1]++;
	}
	return 0;
}

int path_find_cow(struct step *s, const struct key *key, bool for_insert, struct path *p,
		  bool *ret_exact)
{
	struct node *parent = NULL;
	struct node *n = root_node(s);
	int err;

	p->top = s->t->root.level;
	for (;;) {
		uint8_t level;

		if (n == NULL)
			return -EAGAIN;
		level = n->level;
		err = cow_node(s, parent, parent ? p->slots[level + 1] : 0, &n);
		if (err < 0)
			return err;
		p->nodes[level] = n;
		if (level == 0)
			break;
		if (for_insert && node_free_bytes(n) < 2 * NODE_CHILD_BYTES) {
			err = split_inner(s, p, level, key);
			if (err < 0)
				return err;
			n = p->nodes[level];
		}
		p->slots[level] = child_slot(n, key);
		parent = n;
		n = path_child(s, n, p->slots[level]);
	}
	*ret_exact = node_search(n, key, &p->slots[0]);
	return 0;
}
