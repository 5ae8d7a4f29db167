/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/drop.c - dropping a whole tree that shares blocks with others.
 *
 * The walk goes depth first from the left and works on copies of the blocks on its path, so that it
 * holds nothing of the cache between two blocks, nor between transactions. It has two modes:
 *
 *   DROP     a child with one reference is entered, and freed on the way up, after all that it points
 *            to; one that others share only loses our reference.
 *   UPDATE   the subtree of a shared block that we made: its blocks are referenced by our id
 *            (implicit backrefs), which is going away. They get full backrefs instead, as far down as
 *            they are ours and do not have them; then the shared block loses our reference.
 *
 * Invariants:
 *   D1  in mode DROP the path's blocks below `shared_level` have one reference, ours;
 *   D2  what lies left of the path is dropped; nothing right of it is;
 *   D3  a step ends where `progress` is true: what lies left of it is dropped, nothing else is;
 *   D4  a block that cannot be read, or does not fit where it is, is found before anything is changed
 *       because of it, so that the step can end there by D3. Only `torn` says that it cannot.
 *
 * Locks: the environment's share mutex for one block at a time: nobody else decides about the block's
 * references meanwhile. No lock of the tree: nobody else uses it.
 * Not here: the root item and its orphan item (fs/).
 */
#include <errno.h>
#include <stdlib.h>

#include "btree/path.h"
#include "io/log.h"
#include "io/util.h"

struct drop_walk {
	struct tree *t;
	struct txn_handle *tx;		/* of the running step */
	struct node *nodes[LEVEL_COUNT];	/* copies, owned */
	uint32_t slots[LEVEL_COUNT];
	uint64_t refs[LEVEL_COUNT], flags[LEVEL_COUNT];
	uint8_t top, level;
	bool update;			/* mode UPDATE, for the subtree at shared_level */
	uint8_t shared_level;
	bool updates_over;		/* nothing that needs UPDATE is left */
	struct key update_progress;	/* what lies before was updated */
	struct key progress;
	uint8_t progress_level;
	bool progress_true;		/* D3; not true for a moment between two blocks */
	bool torn;			/* D4; references of one block are being changed */
};

void drop_walk_free(struct drop_walk *w)
{
	if (w == NULL)
		return;
	for (unsigned level = 0; level < LEVEL_COUNT; level++)
		node_free(w->nodes[level]);
	free(w);
}

static int ask(struct drop_walk *w, uint64_t bytenr, uint8_t level)
{
	struct tree_env *env = w->t->env;
	int err = env->ops->block_info(env->space, bytenr, level, &w->refs[level], &w->flags[level]);

	if (err == 0 && w->refs[level] == 0)
		err = corrupt(w->t->id, bytenr, NO_SLOT, "a block in use has no references");
	return err;
}

/* The address to note a reference from the path's block at `level` under: 0 for an implicit one. */
static int parent_of(const struct drop_walk *w, unsigned level, uint64_t *ret_parent)
{
	const struct node *n = w->nodes[level];

	if (w->flags[level] & EXTENT_FLAG_FULL_BACKREF)
		*ret_parent = n->bytenr;
	else if (n->owner == w->t->id)
		*ret_parent = 0;
	else
		return corrupt(w->t->id, n->bytenr, NO_SLOT,
			       "a block made by tree %llu without full references",
			       (unsigned long long)n->owner);
	return 0;
}

/* Drops the reference from the path's block at parent_level to a block one level below it. */
static int drop_ref(struct drop_walk *w, unsigned parent_level, uint64_t bytenr, uint64_t generation,
		    uint8_t level, bool last)
{
	struct tree_env *env = w->t->env;
	struct extent_ref ref = { .bytenr = bytenr, .len = tree_env_block_size(env, level),
				  .level = level, .root = w->t->id, .count = 1 };
	int err = parent_of(w, parent_level, &ref.parent);

	if (err < 0)
		return err;
	ref.type = ref.parent ? KEY_SHARED_BLOCK_REF : KEY_TREE_BLOCK_REF;
	w->torn = true;
	if (last)
		cache_drop_block(env, bytenr, generation);
	err = last ? env->ops->free_block(env->space, w->tx, &ref, generation)
		   : env->ops->dec_ref(env->space, w->tx, &ref);
	w->torn = err < 0;
	return err;
}

static bool at_end(const struct drop_walk *w, unsigned level)
{
	return w->slots[level] >= w->nodes[level]->count;
}

/* Something was dropped left of where the path at `level` stands now. */
static void note_progress(struct drop_walk *w, unsigned level)
{
	w->progress_true = !at_end(w, level);
	if (!w->progress_true)
		return;
	w->progress = *node_key(w->nodes[level], w->slots[level]);
	w->progress_level = (uint8_t)level;
}

/* The children of a block in mode UPDATE are noted under it, no longer under our id. */
static int make_full(struct drop_walk *w)
{
	struct tree_env *env = w->t->env;
	const struct node *n = w->nodes[w->level];
	int err;

	w->torn = true;
	err = cow_child_refs(env, w->tx, n, true, true);
	if (err == 0)
		err = cow_child_refs(env, w->tx, n, false, false);
	if (err == 0)
		err = env->ops->set_block_flags(env->space, w->tx, n->bytenr, n->level,
						EXTENT_FLAG_FULL_BACKREF);
	if (err < 0)
		return err;
	w->torn = false;
	w->flags[w->level] |= EXTENT_FLAG_FULL_BACKREF;
	return 0;
}

/* The child that the path's slot points to is shared: is its subtree still to be updated? */
static bool needs_update(const struct drop_walk *w, const struct node *n)
{
	if (n->level == 1 && (w->flags[0] & EXTENT_FLAG_FULL_BACKREF))
		return false;
	return !w->updates_over && key_cmp(node_key(n, w->slots[n->level]), &w->update_progress) >= 0;
}

/*
 * Looks at the next child of the path's lowest block, which has one: enters it, or deals with it from
 * outside and goes past it.
 */
static int step_down(struct drop_walk *w)
{
	uint8_t level = w->level;
	uint8_t below = (uint8_t)(level - 1);
	struct node *n = w->nodes[level];
	struct block_want want = path_want(w->t, n, w->slots[level]);
	uint64_t parent;
	int err = w->update ? 0 : parent_of(w, level, &parent);

	if (err == 0)
		err = ask(w, want.bytenr, below);
	if (err < 0)
		return err;
	if (!w->update && w->refs[below] > 1) {
		if (!needs_update(w, n)) {
			err = drop_ref(w, level, want.bytenr, want.generation, below, false);
			w->slots[level]++;
			note_progress(w, level);
			return err;
		}
		w->update = true;
		w->shared_level = below;
	} else if (w->update && below == 0 && (w->flags[0] & EXTENT_FLAG_FULL_BACKREF)) {
		w->slots[level]++;
		return 0;
	}
	err = cache_copy(w->t->env, &want, &w->nodes[below]);
	if (err < 0)
		return err;
	w->slots[below] = 0;
	w->level = below;
	if (!w->update || w->nodes[below]->owner != w->t->id ||
	    (w->flags[below] & EXTENT_FLAG_FULL_BACKREF))
		return 0;
	return make_full(w);
}

/* What the walk goes on with after the subtree at `level`: the next key to its right. */
static bool next_key(const struct drop_walk *w, unsigned level, struct key *ret_key)
{
	for (unsigned up = level + 1; up <= w->top; up++) {
		if (w->slots[up] + 1 < w->nodes[up]->count) {
			*ret_key = *node_key(w->nodes[up], w->slots[up] + 1);
			return true;
		}
	}
	return false;
}

/*
 * The whole subtree at shared_level is updated: back to mode DROP. *ret_again: meanwhile all others
 * let go of it, so that it has to be dropped itself.
 */
static int end_update(struct drop_walk *w, bool *ret_again)
{
	uint8_t level = w->level;
	int err = ask(w, w->nodes[level]->bytenr, level);

	if (err < 0)
		return err;
	if (!next_key(w, level, &w->update_progress))
		w->updates_over = true;
	w->update = false;
	w->slots[level] = 0;
	*ret_again = level > 0 && w->refs[level] == 1;
	return 0;
}

/* Drops our reference to the path's lowest block, the only one if it was entered to be freed. */
static int drop_block(struct drop_walk *w)
{
	struct tree_env *env = w->t->env;
	uint8_t level = w->level;
	const struct node *n = w->nodes[level];
	bool last = w->refs[level] == 1;
	uint64_t parent;
	int err = 0;

	if (last && level == 0) {
		err = parent_of(w, level, &parent);
		w->torn = err == 0;
		if (err == 0)
			err = cow_child_refs(env, w->tx, n, parent != 0, false);
	}
	if (err < 0)
		return err;
	return drop_ref(w, level == w->top ? level : level + 1u, n->bytenr, n->generation, level, last);
}

/* Leaves the path's lowest block; 0 when that was the root. */
static int step_up(struct drop_walk *w)
{
	uint8_t level = w->level;
	bool again = false;
	int err = 0;

	if (w->update && level == w->shared_level)
		err = end_update(w, &again);
	if (err == 0 && !again && !w->update)
		err = drop_block(w);
	if (err < 0)
		return err;
	if (again)
		return 1;
	node_free(w->nodes[level]);
	w->nodes[level] = NULL;
	if (level == w->top)
		return 0;
	w->level = (uint8_t)(level + 1);
	w->slots[w->level]++;
	if (!w->update)
		note_progress(w, w->level);
	return 1;
}

/* True if the block at the path's end has a child that has to be looked at. */
static bool goes_down(const struct drop_walk *w)
{
	const struct node *n = w->nodes[w->level];

	if (w->level == 0 || at_end(w, w->level))
		return false;
	if (w->update)
		return n->owner == w->t->id;
	return w->refs[w->level] == 1;
}

static struct block_want root_want(const struct tree *t)
{
	return (struct block_want){ .bytenr = t->root.bytenr, .generation = t->root.generation,
				    .level = t->root.level, .owner = t->id,
				    .shareable = t->shareable };
}

/* Builds the path that was interrupted at `key` and `level`, or that of the beginning. */
static int walk_begin(struct drop_walk *w, const struct key *key, uint8_t level)
{
	struct tree *t = w->t;
	struct block_want want = root_want(t);
	bool fresh = key_equal(key, &KEY_MIN);

	if (!fresh && (level == 0 || level > t->root.level))
		return corrupt(t->id, t->root.bytenr, NO_SLOT, "a tree half dropped at level %u", level);
	w->top = t->root.level;
	w->update_progress = w->progress = *key;
	w->progress_level = level;
	w->progress_true = true;
	for (w->level = w->top;; w->level--) {
		int err = cache_copy(t->env, &want, &w->nodes[w->level]);
		bool exact;

		if (err == 0)
			err = ask(w, want.bytenr, w->level);
		if (err < 0)
			return err;
		if (fresh)
			return 0;
		exact = node_search(w->nodes[w->level], key, &w->slots[w->level]);
		if (!exact && w->slots[w->level] > 0)
			w->slots[w->level]--;
		if (w->level == level)
			return 0;
		if (w->refs[w->level] > 1)
			return corrupt(t->id, want.bytenr, NO_SLOT, "a tree half dropped in a shared block");
		want = path_want(t, w->nodes[w->level], w->slots[w->level]);
	}
}

static int get_walk(struct txn_handle *tx, struct tree *t, const struct drop_progress *p)
{
	struct drop_walk *w = t->drop;
	int err;

	if (w == NULL) {
		w = calloc(1, sizeof(*w));
		if (w == NULL)
			return -ENOMEM;
		w->t = t;
		err = walk_begin(w, &p->key, p->level);
		if (err < 0) {
			drop_walk_free(w);
			return err;
		}
		t->drop = w;
	}
	w->tx = tx;
	return 0;
}

/* 1: there is more, 0: nothing is left. */
static int visit_block(struct drop_walk *w)
{
	int err;

	mutex_guard(&w->t->env->share_lock);
	if (!goes_down(w))
		return step_up(w);
	err = step_down(w);
	return err < 0 ? err : 1;
}

int tree_drop_step(struct txn_handle *tx, struct tree *t, struct drop_progress *p, unsigned budget)
{
	struct drop_walk *w;
	int got;

	rcu_thread_ensure();
	p->torn = false;
	mutex_lock(&t->env->share_lock);
	got = get_walk(tx, t, p);
	mutex_unlock(&t->env->share_lock);
	if (got < 0)
		return got;
	w = t->drop;
	got = 1;
	for (unsigned i = 0; got > 0 && (i < max_u32(budget, 1) || !w->progress_true); i++)
		got = visit_block(w);
	if (got != 0) {
		p->key = w->progress;
		p->level = w->progress_level;
		p->torn = got < 0 && (w->torn || !w->progress_true);
	}
	if (got <= 0) {
		drop_walk_free(w);
		t->drop = NULL;
	}
	return got;
}
