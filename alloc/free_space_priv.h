/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/free_space_priv.h - what the files of the free space tree share.
 *
 * free_space_tree.c: a group's info item and free extents; free_space_bitmap.c: bitmaps and turning
 * one form into the other; free_space_load.c: reading a group, making, removing, rebuilding.
 */
#ifndef COWFS_ALLOC_FREE_SPACE_PRIV_H
#define COWFS_ALLOC_FREE_SPACE_PRIV_H

#include "alloc/free_space_tree.h"

/* One group's items, and what its info item says. */
struct fst_group {
	struct space *sp;
	struct txn_handle *tx;		/* NULL when only read */
	struct tree *tree;
	const struct group_info *group;
	uint32_t extent_count;
	uint32_t flags;			/* FREE_SPACE_* */
};

static inline uint64_t fst_end(const struct fst_group *fg)
{
	return fg->group->start + fg->group->len;
}

/* Fills in a group from its info item. -EUCLEAN. */
int fst_open(struct space *sp, struct txn_handle *tx, const struct group_info *group,
	     struct fst_group *ret_fg);
/* Writes the info item back; `insert`: for the first time. */
int fst_store_info(struct fst_group *fg, bool insert);
/* Deletes all items of the group, the info item too if `with_info`. */
int fst_delete_items(struct fst_group *fg, bool with_info);
/* Logs damage of the group's items; returns -EUCLEAN. */
int fst_bad(const struct fst_group *fg, uint64_t at, const char *what);

/* Calls fn for each free extent of the group, in order, joined across bitmaps. Counts nothing. */
int fst_walk(struct fst_group *fg, free_range_fn fn, void *arg);

/*
 * Sets or clears the bits of [start, start + len); *ret_delta: change of the count of free runs.
 */
int fst_bitmap_change(struct fst_group *fg, uint64_t start, uint64_t len, bool set,
		      int *ret_delta);
/* Rewrites the group's items in the other form and the info item along. */
int fst_to_bitmaps(struct fst_group *fg);
int fst_to_extents(struct fst_group *fg);

/* Bytes of address space that a whole bitmap covers. */
uint64_t fst_bitmap_span(const struct space *sp);

#endif
