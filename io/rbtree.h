/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/rbtree.h - BSD's red-black trees for one source file.
 *
 * libbsd's RB_GENERATE_STATIC wants a macro that Linux does not have; RB_GENERATE_LOCAL is the same
 * with the attribute spelt out. Declare with RB_HEAD and RB_ENTRY as usual. Locking: the caller's.
 */
#ifndef COWFS_IO_RBTREE_H
#define COWFS_IO_RBTREE_H

#include <bsd/sys/tree.h>

/* The functions of a tree, static; int cmp(struct type *a, struct type *b). No semicolon after it. */
#define RB_GENERATE_LOCAL(name, type, field, cmp) \
	RB_GENERATE_INTERNAL(name, type, field, cmp, __attribute__((unused)) static)

#endif
