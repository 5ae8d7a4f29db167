/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_lookup.h - how many lookups of each node id the kernel holds.
 *
 * The kernel counts every reply that gave it a node id and gives the counts back with FORGET; while
 * a count is above zero the inode may be used although it has no name. A count must be raised before
 * its reply is sent, since FORGET can follow at once, and lowered again if the reply was not taken.
 *
 * Invariants:
 *   L1  a node id is in the table exactly while its count is above 0;
 *   L2  an entry is 16 bytes, and a table grows when 3/4 full, by doubling: 22 to 43 bytes for each
 *       inode that the kernel knows; it halves when 7/8 empty.
 *
 * Locking: any thread at any time; inside a few dozen locks of rank CACHE, by node id. Not here: what
 * happens to an inode whose count fell to zero.
 */
#ifndef COWFS_FS_FUSE_LOOKUP_H
#define COWFS_FS_FUSE_LOOKUP_H

#include <stdint.h>

struct lookup_table;

int lookup_table_new(struct lookup_table **ret_table);
void lookup_table_free(struct lookup_table *t);		/* NULL is fine */

/* One lookup more. nodeid is not 0. -ENOMEM: nothing changed. */
int lookup_add(struct lookup_table *t, uint64_t nodeid);

/*
 * `count` lookups less. Returns what is left; 0 also for a node id that is not in the table. More
 * than there were (a mistake of the other side) leaves 0.
 */
uint64_t lookup_drop(struct lookup_table *t, uint64_t nodeid, uint64_t count);

/* The count of a node id; 0 when unknown. */
uint64_t lookup_count(struct lookup_table *t, uint64_t nodeid);

/* How many node ids are known, and the bytes that the table takes; each moment another number. */
uint64_t lookup_nodes(struct lookup_table *t);
uint64_t lookup_bytes(struct lookup_table *t);

#endif
