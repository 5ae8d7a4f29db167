/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/tree.c - opening, creating and describing trees.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "btree/path.h"
#include "io/log.h"
#include "io/util.h"

static int tree_alloc(struct tree_env *env, uint64_t id, bool shareable, struct tree **ret_tree)
{
	struct tree *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	t->env = env;
	t->id = id;
	t->shareable = shareable;
	t->epoch = env->epoch;
	rwlock_init(&t->lock, RANK_TREE);
	*ret_tree = t;
	return 0;
}

int tree_open(struct tree_env *env, uint64_t id, const struct tree_root *root, bool shareable,
	      uint64_t last_snapshot, struct tree **ret_tree)
{
	struct tree *t;
	int err;

	if (root->level >= LEVEL_COUNT)
		return corrupt(id, root->bytenr, NO_SLOT, "a root of level %u", root->level);
	err = tree_alloc(env, id, shareable, &t);
	if (err < 0)
		return err;
	t->root = *root;
	t->last_snapshot = last_snapshot;
	*ret_tree = t;
	return 0;
}

static int create_step(struct step *s, void *arg)
{
	struct tree *t = s->t;
	struct node *root;
	int err = cow_new_node(s, 0, 0, &root);

	(void)arg;
	if (err < 0)
		return err;
	t->root = (struct tree_root){ .bytenr = root->bytenr, .generation = root->generation };
	t->root_changed = true;
	return 0;
}

int tree_create(struct tree_env *env, struct txn_handle *tx, uint64_t id, bool shareable,
		struct tree **ret_tree)
{
	struct tree *t;
	int err = tree_alloc(env, id, shareable, &t);

	if (err < 0)
		return err;
	err = tree_change(tx, t, create_step, NULL);
	if (err < 0) {
		tree_close(t);
		return err;
	}
	*ret_tree = t;
	return 0;
}

void tree_close(struct tree *t)
{
	if (t == NULL)
		return;
	drop_walk_free(t->drop);
	rwlock_done(&t->lock);
	free(t);
}

uint64_t tree_id(const struct tree *t)
{
	return t->id;
}

struct tree_root tree_root(struct tree *t)
{
	read_guard(&t->lock);
	return t->root;
}

uint8_t tree_height(struct tree *t)
{
	return (uint8_t)(tree_root(t).level + 1);
}

int64_t tree_bytes_delta(struct tree *t)
{
	read_guard(&t->lock);
	return t->bytes_delta;
}

void tree_set_last_snapshot(struct tree *t, uint64_t generation)
{
	write_guard(&t->lock);
	t->last_snapshot = generation;
}

bool tree_take_root_changed(struct tree *t)
{
	bool changed;

	write_guard(&t->lock);
	changed = t->root_changed;
	t->root_changed = false;
	return changed;
}

void tree_dump(struct tree *t, int fd)
{
	struct key first = KEY_MIN, last = KEY_MAX;
	scoped(cursor_done) struct cursor c;
	int got;

	cursor_init(&c, t, &first, &last);
	dprintf(fd, "tree %llu height %u\n", (unsigned long long)t->id, tree_height(t));
	while ((got = cursor_next(&c)) > 0)
		dprintf(fd, "  (" KEY_FMT ") size %u\n", KEY_ARGS(&c.item.key), c.item.size);
	if (got < 0)
		dprintf(fd, "  error %d\n", got);
}
