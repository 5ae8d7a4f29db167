/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/shift.c - room in a full leaf by moving items to a neighbour, instead of a split.
 *
 * Files are made in a row and their data inserted later, between items that are there: splitting
 * alone would leave every leaf half full for good. A neighbour is used only if it hangs under the
 * same parent, is in memory, and was changed in this transaction anyway; so nothing is COWed for it.
 */
#include "btree/path.h"

#include "io/util.h"

static struct node *writable_neighbour(struct step *s, struct path *p, uint32_t slot)
{
	struct node *parent = p->nodes[1];
	struct node *n;

	if (slot >= parent->count)
		return NULL;
	n = path_child(s, parent, slot);
	return n != NULL && node_writable(s, n) ? n : NULL;
}

/* How many items, from slot `at` on in direction `step`, fit into `room` bytes; at most `max`. */
static uint32_t count_fitting(const struct node *n, uint32_t at, int step, uint32_t max, uint32_t room,
			      uint32_t *ret_bytes)
{
	uint32_t count = 0, bytes = 0;

	for (; count < max; count++, at = (uint32_t)((int)at + step)) {
		uint32_t item = node_slot_bytes(n, at);

		if (bytes + item > room)
			break;
		bytes += item;
	}
	*ret_bytes = bytes;
	return count;
}

/*
 * Moves as much as fits from the leaf's beginning into the left neighbour; all of it lies before the
 * path's slot.
 */
static int shift_left(struct step *s, struct path *p, const struct key *key, uint32_t need)
{
	struct node *leaf = p->nodes[0];
	uint32_t max = min_u32(p->slots[0], leaf->count - 1);
	struct node *left;
	uint32_t count, bytes;
	int err;

	if (p->slots[1] == 0)
		return 0;
	left = writable_neighbour(s, p, p->slots[1] - 1);
	if (left == NULL)
		return 0;
	count = count_fitting(leaf, 0, 1, max, node_free_bytes(left), &bytes);
	if (node_free_bytes(leaf) + bytes < need)
		return 0;
	err = node_move(left, left->count, leaf, 0, count);
	if (err < 0)
		return err;
	cache_recount(s->t->env, left);
	p->slots[0] -= count;
	path_fix_low_key(p, 0, p->slots[0] == 0 ? key : node_key(leaf, 0));
	return 1;
}

/* The same from the leaf's end into the right neighbour, behind the path's slot. */
static int shift_right(struct step *s, struct path *p, uint32_t need)
{
	struct node *leaf = p->nodes[0];
	uint32_t max = min_u32(leaf->count - p->slots[0], leaf->count - 1);
	struct node *right = writable_neighbour(s, p, p->slots[1] + 1);
	uint32_t count, bytes;
	int err;

	if (right == NULL || max == 0)
		return 0;
	count = count_fitting(leaf, leaf->count - 1, -1, max, node_free_bytes(right), &bytes);
	if (node_free_bytes(leaf) + bytes < need)
		return 0;
	err = node_move(right, 0, leaf, leaf->count - count, count);
	if (err < 0)
		return err;
	cache_recount(s->t->env, right);
	node_set_key(p->nodes[1], p->slots[1] + 1, node_key(right, 0));
	return 1;
}

int shift_for_room(struct step *s, struct path *p, const struct key *key, uint32_t need)
{
	int done;

	if (p->top == 0 || p->nodes[0]->count < 2)
		return 0;
	done = shift_left(s, p, key, need);
	return done != 0 ? done : shift_right(s, p, need);
}
