/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/namei.h - what lookup.c, readdir.c, namei.c and rename.c share: from an entry to what it names.
 *
 * Not here: entries as bytes (dir_item.h), the operations (ops.h).
 */
#ifndef COWFS_FS_NAMEI_H
#define COWFS_FS_NAMEI_H

#include "fs/dir_item.h"
#include "fs/inode.h"
#include "fs/ops.h"

enum child_kind {
	CHILD_INODE,		/* of the directory's own subvolume */
	CHILD_SUBVOL,		/* the root of another one */
	CHILD_STANDIN,		/* see INO_STANDIN in inode.h */
};

struct child {
	enum child_kind kind;
	struct ino_id id;
	uint64_t index;		/* CHILD_SUBVOL: the entry's DIR_INDEX, from the ROOT_REF */
};

/* What an entry of `dir` names. Its inode need not exist. -EUCLEAN, -EIO. */
int child_resolve(struct inode *dir, const struct name_entry *e, struct child *ret_child);

/*
 * Finds `name` in `dir` and gets what it names, with a reference in *ret_in. -ENOENT. The
 * directory's lock is held; hit->item stays as it is in the tree while the lock is held exclusively.
 */
int child_find(struct inode *dir, const char *name, size_t len, struct name_hit *ret_hit,
	       struct child *ret_child, struct inode **ret_in);

/* May a name be put into `dir`, taken out of it? -ENOTDIR, -ENOENT (removed), -EROFS, -EPERM. */
int dir_may_add(const struct inode *dir);
int dir_may_remove(const struct inode *dir, const struct inode *victim);

/* The index for the next entry; dir->lock is held exclusively. */
int dir_take_index(struct inode *dir, uint64_t *ret_index);

/* Counts a change of the directory's entries: times, sequence, and size by `delta` bytes of names. */
void dir_changed(struct inode *dir, const struct timespec *now, int64_t delta_names);

/* A new inode as it comes to be in `dir`: flags and group handed on. Not in the tree yet. */
int inode_new_in(struct inode *dir, uint32_t mode, struct cred who, struct inode **ret_inode);

/*
 * One name less for `in`, in a transaction: ctime, and an orphan if it was the last. *orphan was made
 * by orphan_new(); it is taken over if used.
 */
struct orphan;
int inode_lose_name(struct txn_handle *tx, struct inode *in, const struct timespec *now,
		    struct orphan **orphan);

#endif
