/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_tree.h - what a fake tree is (see fake_space.h).
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

#endif
