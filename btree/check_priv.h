/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/check_priv.h - inside check*.c: what the check of one item sees.
 *
 * A check reads its item's bytes only after it has seen that they are there. Locking: none of its
 * own, the node does not change meanwhile.
 */
#ifndef COWFS_BTREE_CHECK_PRIV_H
#define COWFS_BTREE_CHECK_PRIV_H

#include "btree/check.h"
#include "io/log.h"

struct subject {
	const struct tree_env *env;
	const struct node *n;
	uint32_t slot;
	const struct key *key;
	const struct key *prev;		/* of the item before in this leaf; NULL: this is the first */
	const uint8_t *data;		/* disk structures may be laid over it: their alignment is 1 */
	uint32_t size;
	uint32_t sectorsize;
	uint64_t transid;		/* no generation is greater */
};

/* Reports what is wrong with the item, printf-style; -EUCLEAN. */
#define bad(s, ...) corrupt((s)->n->owner, (s)->n->bytenr, (int)(s)->slot, __VA_ARGS__)

typedef unsigned long long ull;

/* check_file.c: inodes, names, file data, checksums. */
int check_inode_item(const struct subject *s);
int check_inode_ref(const struct subject *s);
int check_inode_extref(const struct subject *s);
int check_dir_item(const struct subject *s);	/* and DIR_INDEX, XATTR_ITEM */
int check_file_extent(const struct subject *s);
int check_csum_item(const struct subject *s);

/* check_root.c: roots of trees, and their names. */
int check_root_item(const struct subject *s);
int check_root_ref(const struct subject *s);	/* and ROOT_BACKREF */
/* Whether a root item, or a directory entry that leads to one, may name this tree. */
int check_root_key(const struct subject *s, const struct key *root, bool is_item);

/* check_space.c: extents, block groups, chunks, devices, free space. */
int check_extent_item(const struct subject *s);	/* and METADATA_ITEM */
int check_keyed_ref(const struct subject *s);	/* TREE_BLOCK_REF, SHARED_BLOCK_REF, SHARED_DATA_REF */
int check_keyed_data_ref(const struct subject *s);	/* EXTENT_DATA_REF */
int check_block_group(const struct subject *s);
int check_chunk_item(const struct subject *s);
int check_dev_item(const struct subject *s);
int check_dev_extent(const struct subject *s);
int check_free_space_info(const struct subject *s);
int check_free_space_extent(const struct subject *s);
int check_free_space_bitmap(const struct subject *s);

#endif
