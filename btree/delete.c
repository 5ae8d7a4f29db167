/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/delete.c - deleting items, and keeping nodes from becoming empty or thin.
 *
 * A leaf that would fall below a third joins a neighbour under the same parent if both fit in one.
 * An empty block goes away, up the path; only the last leaf of a tree may be empty. The neighbour is
 * brought into memory and COWed before anything is deleted. Inner nodes join only a neighbour that
 * this transaction has changed anyway: thin inner nodes are legal and rare.
 */
#include "btree/path.h"

#include <errno.h>

#include "io/util.h"

static uint32_t removed_bytes(const struct node *n, uint32_t slot, uint32_t count)
{
	uint32_t bytes = 0;

	for (uint32_t i = slot; i < slot + count; i++)
		bytes += node_slot_bytes(n, i);
	return bytes;
}

/* The neighbour in that slot of the parent if it has room for `more` bytes, made writable. */
static int try_neighbour(struct step *s, struct node *parent, uint32_t slot, uint32_t more,
			 struct node **ret_node)
{
	struct node *other = path_child(s, parent, slot);
	int err;

	if (other == NULL)
		return -EAGAIN;
	if (node_free_bytes(other) < more)
		return 0;
	err = cow_node(s, parent, slot, &other);
	if (err == 0)
		*ret_node = other;
	return err;
}

/*
 * The neighbour that the leaf can join when `bytes` are gone from it, made writable; NULL if none.
 * *ret_left: it is the left one.
 */
static int prepare_neighbour(struct step *s, struct path *p, uint32_t bytes, struct node **ret_node,
			     bool *ret_left)
{
	struct node *leaf = p->nodes[0];
	struct node *parent = p->top > 0 ? p->nodes[1] : NULL;
	uint32_t left_over = leaf->packed_bytes - bytes;
	uint32_t more = left_over - (uint32_t)sizeof(struct disk_header);
	uint32_t slot = parent ? p->slots[1] : 0;
	int err = 0;

	*ret_node = NULL;
	if (parent == NULL || more == 0 || left_over >= leaf->block_bytes / 3)
		return 0;
	*ret_left = slot > 0;
	if (slot > 0)
		err = try_neighbour(s, parent, slot - 1, more, ret_node);
	if (err < 0 || *ret_node != NULL || slot + 1 >= parent->count)
		return err;
	*ret_left = false;
	return try_neighbour(s, parent, slot + 1, more, ret_node);
}

/* Both neighbours at `level` under p->nodes[level + 1]: `right` goes into `left` and away. */
static int join(struct step *s, struct path *p, struct node *left, struct node *right,
		uint32_t right_slot)
{
	uint8_t level = left->level;
	int err = node_move(left, left->count, right, 0, right->count);

	if (err < 0)
		return err;
	cache_recount(s->t->env, left);
	node_remove(p->nodes[level + 1], right_slot, 1);
	return cow_free_node(s, right);
}

/* A thin inner node joins a neighbour that is writable already. */
static int join_inner(struct step *s, struct path *p, uint8_t level)
{
	struct node *n = p->nodes[level];
	struct node *parent = p->nodes[level + 1];
	uint32_t slot = p->slots[level + 1];
	struct node *other;
	bool left = slot > 0;

	if (n->packed_bytes >= n->block_bytes / 4 || parent->count < 2)
		return 0;
	other = path_child(s, parent, left ? slot - 1 : slot + 1);
	if (other == NULL || !node_writable(s, other) ||
	    other->packed_bytes + n->packed_bytes - sizeof(struct disk_header) > n->block_bytes)
		return 0;
	return left ? join(s, p, other, n, slot) : join(s, p, n, other, slot + 1);
}

/* While the root has one child that is writable, the child becomes the root. */
static int collapse_root(struct step *s, struct path *p)
{
	struct tree *t = s->t;

	for (;;) {
		struct node *root = p->nodes[p->top];
		struct node *child;
		int err;

		if (p->top == 0 || root->count != 1)
			return 0;
		child = path_child(s, root, 0);
		if (child == NULL || !node_writable(s, child))
			return 0;
		t->root = (struct tree_root){ .bytenr = child->bytenr,
					      .generation = child->generation,
					      .level = child->level };
		t->root_changed = true;
		err = cow_free_node(s, root);
		if (err < 0)
			return err;
		p->top--;
		p->nodes[p->top] = child;
	}
}

/* The node at `level` lost its last entry: it goes, and so does an ancestor left without children. */
static int remove_empty(struct step *s, struct path *p, uint8_t level)
{
	while (level < p->top && p->nodes[level]->count == 0) {
		int err = cow_free_node(s, p->nodes[level]);

		if (err < 0)
			return err;
		level++;
		node_remove(p->nodes[level], p->slots[level], 1);
	}
	if (p->slots[level] == 0 && p->nodes[level]->count > 0)
		path_fix_low_key(p, level, node_key(p->nodes[level], 0));
	return level < p->top ? join_inner(s, p, level) : 0;
}

/* True if the leaf is all that the tree has. */
static bool only_leaf(const struct path *p)
{
	for (unsigned level = 1; level <= p->top; level++)
		if (p->nodes[level]->count > 1)
			return false;
	return true;
}

/* Takes `count` items from the path's slot on. */
static int remove_items(struct step *s, struct path *p, uint32_t count)
{
	struct node *leaf = p->nodes[0];
	struct node *other;
	bool left = false;
	int err = prepare_neighbour(s, p, removed_bytes(leaf, p->slots[0], count), &other, &left);

	if (err < 0)
		return err;
	s->t->last_bytenr = 0;
	node_remove(leaf, p->slots[0], count);
	if (leaf->count == 0) {
		if (!only_leaf(p))
			err = remove_empty(s, p, 0);
	} else {
		if (p->slots[0] == 0)
			path_fix_low_key(p, 0, node_key(leaf, 0));
		if (other != NULL)
			err = left ? join(s, p, other, leaf, p->slots[1])
				   : join(s, p, leaf, other, p->slots[1] + 1);
		if (err == 0 && other != NULL && p->top > 1)
			err = join_inner(s, p, 1);
	}
	return err < 0 ? err : collapse_root(s, p);
}

static int delete_step(struct step *s, void *arg)
{
	struct path p;
	bool exact;
	int err = path_find_cow(s, arg, false, &p, &exact);

	if (err < 0)
		return err;
	return exact ? remove_items(s, &p, 1) : -ENOENT;
}

int tree_delete(struct txn_handle *tx, struct tree *t, const struct key *key)
{
	struct key k = *key;

	return tree_change(tx, t, delete_step, &k);
}

struct range_arg {
	struct key first;
	const struct key *last;
	unsigned max, n;
};

static int delete_range_step(struct step *s, void *arg)
{
	struct range_arg *a = arg;
	struct path p;
	struct key bound;
	bool exact;
	int err;

	/* Finds the first item without COW: the range is often empty. */
	for (;;) {
		err = path_find(s, &a->first, &p, &exact);
		if (err < 0)
			return err;
		if (p.slots[0] < p.nodes[0]->count)
			break;
		if (!path_bound(&p, &bound) || key_cmp(&bound, a->last) > 0)
			return 0;
		a->first = bound;
	}
	if (key_cmp(node_key(p.nodes[0], p.slots[0]), a->last) > 0)
		return 0;
	err = path_find_cow(s, &a->first, false, &p, &exact);
	if (err < 0)
		return err;
	for (uint32_t i = p.slots[0]; i < p.nodes[0]->count && a->n < a->max; i++, a->n++)
		if (key_cmp(node_key(p.nodes[0], i), a->last) > 0)
			break;
	err = remove_items(s, &p, a->n);
	if (err == -EAGAIN)
		a->n = 0;
	return err;
}

int tree_delete_range(struct txn_handle *tx, struct tree *t, const struct key *first,
		      const struct key *last, unsigned max, unsigned *ret_n)
{
	struct range_arg a = { .first = *first, .last = last, .max = max };
	int err = max > 0 ? tree_change(tx, t, delete_range_step, &a) : 0;

	if (err == 0)
		*ret_n = a.n;
	return err;
}
