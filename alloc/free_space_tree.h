/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/free_space_tree.h - free space on disk.
 *
 * Per block group: one item (start, FREE_SPACE_INFO, length) with a count of free extents and a flag,
 * then either (start, FREE_SPACE_EXTENT, length) without data for each free extent, or, where that
 * would take more bytes, (start, FREE_SPACE_BITMAP, length) items that cover the group, one bit a
 * sector, set = free.
 *
 * Invariants after each change:
 *   F1  neighbouring free extents are one; extent_count counts them, in bitmaps the runs of set bits;
 *   F2  a group turns to bitmaps when its extents take more item heads than its bitmaps take bytes,
 *       and back when there are FST_HYSTERESIS extents fewer than that.
 *
 * Locks: the commit changes it, and the thread that makes a chunk, each inside the transaction and
 * in groups of its own. space->fst_lock (rank SHARE) keeps a group still while it is loaded; calls
 * here take it. Space in memory is another matter (group_find()).
 */
#ifndef COWFS_ALLOC_FREE_SPACE_TREE_H
#define COWFS_ALLOC_FREE_SPACE_TREE_H

#include "alloc/space_priv.h"

#define FST_HYSTERESIS 100u

/* Extent counts beyond which a group turns to bitmaps, and below which it turns back. */
uint32_t fst_high_threshold(const struct space *sp, uint64_t group_len);
uint32_t fst_low_threshold(const struct space *sp, uint64_t group_len);

/*
 * [start, start + len) of the group becomes free, or no longer is. No-ops without a free space tree.
 * -EUCLEAN if it was so already, or the group's items are damaged.
 */
int fst_add(struct space *sp, struct txn_handle *tx, const struct group_info *group,
	    uint64_t start, uint64_t len);
int fst_remove(struct space *sp, struct txn_handle *tx, const struct group_info *group,
	       uint64_t start, uint64_t len);

#endif
