/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_tree.h - a tree that is a sorted array of items; answers btree/tree.h as far as its
 * users among the tests need.
 */
#ifndef COWFS_TESTS_UNIT_FAKE_TREE_H
#define COWFS_TESTS_UNIT_FAKE_TREE_H

#include "tests/unit/fake_space.h"

struct tree {
	struct space *sp;		/* NULL: never COWed */
	uint64_t id;
	uint64_t bytenr, generation;	/* of its one block; generation 0: there is none yet */
	struct item *items;
	unsigned count, cap;
};

struct tree *fake_tree_new(struct space *sp, uint64_t id);
void fake_tree_free(struct tree *t);
unsigned fake_tree_items(const struct tree *t);
const struct item *fake_tree_item(const struct tree *t, unsigned i);

#endif
