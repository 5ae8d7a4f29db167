/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/check.h - is a node's contents what the format allows?
 *
 * The same function judges a node after it was read and before it is written: what passes here is
 * safe to use without a second look at sizes and ranges, and a bug of ours stops at the commit.
 * Not here: bounds and key order (node_codec.c), checksums (env.c), what needs other blocks.
 */
#ifndef COWFS_BTREE_CHECK_H
#define COWFS_BTREE_CHECK_H

#include "btree/env.h"

/* 0 or -EUCLEAN through corrupt(). */
int check_node(const struct tree_env *env, const struct node *n);

#endif
