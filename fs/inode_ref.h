/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/inode_ref.h - an inode's names, as its own items hold them, and a subvolume's.
 *
 * An INODE_REF lies at the parent's number and holds each name there; when it would outgrow a leaf,
 * further names go to INODE_EXTREF items at the hash of parent and name. A subvolume has one name,
 * in a ROOT_REF (at the parent tree) and a ROOT_BACKREF (at its own) of the root tree.
 *
 * Locks: the caller holds the inode's lock exclusively to change; the parent's for subvolumes.
 */
#ifndef COWFS_FS_INODE_REF_H
#define COWFS_FS_INODE_REF_H

#include "fs/fs.h"

struct ref_hit {
	struct item item;
	uint32_t pos, bytes;	/* of the name's record in the item */
	uint64_t index;		/* the entry's DIR_INDEX */
};
void ref_hit_init(struct ref_hit *h);
void ref_hit_done(struct ref_hit *h);

/* The record of a name; -ENOENT, -EUCLEAN. */
int inode_ref_find(struct tree *t, uint64_t ino, uint64_t parent, const char *name, size_t len,
		   struct ref_hit *ret_hit);
/* 0 if a further name has room, -EMLINK if not. `names` is how many the inode has. */
int inode_ref_room(struct fs *fs, struct tree *t, uint64_t ino, uint64_t parent, const char *name,
		   size_t len, uint32_t names);
/* -EMLINK, -EEXIST: nothing was changed. */
int inode_ref_add(struct txn_handle *tx, struct fs *fs, struct tree *t, uint64_t ino,
		  uint64_t parent, const char *name, size_t len, uint64_t index);
/* Takes a found record out. The item must be as it was found. */
int inode_ref_remove(struct txn_handle *tx, struct tree *t, const struct ref_hit *hit);
/* A directory's parent in its subvolume, from its one name; -ENOENT. */
int inode_ref_parent(struct tree *t, uint64_t ino, uint64_t *ret_parent);
/* The bytes of a single INODE_REF into buf; returns how many. */
#define INODE_REF_BYTES_MAX (sizeof(struct disk_inode_ref) + NAME_MAX_BYTES)
uint32_t inode_ref_bytes(uint8_t *buf, const char *name, size_t len, uint64_t index);

/*
 * The ROOT_REF of subvolume `id` in subvolume `parent`. -ENOENT: there is none, or it tells another
 * place than this name in this directory.
 */
int root_ref_find(struct fs *fs, uint64_t parent, uint64_t id, uint64_t dir, const char *name,
		  size_t len, uint64_t *ret_index);
/* The same without the check of the place: 0, or -ENOENT. */
int root_ref_exists(struct fs *fs, uint64_t parent, uint64_t id);
/* Both records. */
int root_ref_add(struct txn_handle *tx, struct fs *fs, uint64_t parent, uint64_t id, uint64_t dir,
		 const char *name, size_t len, uint64_t index);
int root_ref_remove(struct txn_handle *tx, struct fs *fs, uint64_t parent, uint64_t id);

#endif
