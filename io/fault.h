/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/fault.h - named places where a test can make the program fail.
 *
 *	if (fault_point("space.reserve"))
 *		return -ENOSPC;
 *
 * The environment variable COWFS_FAULT holds a list, name[:n][,name[:n]...]: the point called name
 * says true from its n-th passing on (first: 1, the default); name:=n says true at the n-th alone.
 * Without the variable a point costs one load and one branch.
 *
 * Locking: none is needed. The list is read once, at the first point passed; tests may set another
 * with fault_set() while no other thread passes a point.
 */
#ifndef COWFS_IO_FAULT_H
#define COWFS_IO_FAULT_H

#include <stdbool.h>

#define FAULT_POINTS_MAX 16u

/* 0 none, 1 some, -1 not yet read from the environment. */
extern int fault_state;

bool fault_point_slow(const char *name);

static inline bool fault_point(const char *name)
{
	if (__builtin_expect(__atomic_load_n(&fault_state, __ATOMIC_RELAXED) == 0, 1))
		return false;
	return fault_point_slow(name);
}

/* Replaces the list; NULL or "" for none. -EINVAL, nothing changed, if it cannot be read. */
int fault_set(const char *list);

#endif
