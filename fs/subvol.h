/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/subvol.h - subvolume trees and their root items.
 *
 * A subvol is found by its tree id, opened when first needed, and lives until fs_close(): pointers
 * stay good. Root items of changed trees are written by the commit (subvol_commit_roots).
 */
#ifndef COWFS_FS_SUBVOL_H
#define COWFS_FS_SUBVOL_H

#include "fs/fs.h"
#include "fs/root_item.h"
#include "io/locks.h"

struct subvol {
	uint64_t id;
	struct tree *tree;		/* = root.tree */
	struct fs *fs;
	struct root_record root;	/* changed by the commit only */
	bool rdonly;			/* ROOT_SUBVOL_RDONLY */
	uint64_t last_snapshot;
	struct mutex ino_lock;		/* RANK_DELAYED: next_ino */
	uint64_t next_ino;		/* 0: not looked up yet */
	struct subvol *next;		/* hash chain; the table's own */
};

int subvol_table_new(struct fs *fs);
void subvol_table_free(struct fs *fs);
/* -ENOENT if there is no such subvolume (or it is being deleted, refs 0). */
int subvol_get(struct fs *fs, uint64_t id, struct subvol **ret_subvol);
/* A fresh inode number of the subvolume; -ENOSPC when they are used up. May read the tree. */
int subvol_new_ino(struct subvol *sv, uint64_t *ret_ino);
/* Id of the subvolume at a path from the top level ("a/b"); -ENOENT, -ENOTDIR. */
int subvol_by_path(struct fs *fs, const char *path, uint64_t *ret_id);
/* The default subvolume's id (the "default" entry of the root tree's directory). */
int subvol_default(struct fs *fs, uint64_t *ret_id);
/* The subvolume that holds the directory entry of `id`, from its ROOT_BACKREF; -ENOENT at the top. */
int subvol_parent(struct fs *fs, uint64_t id, uint64_t *ret_parent, uint64_t *ret_dir);
/* Stores the root items of all subvolumes whose tree changed. The door is closed. */
int subvol_commit_roots(struct fs *fs, struct txn_handle *tx, bool *ret_more);
/* Calls fn for each subvolume found in the root tree (also not opened ones), in id order. */
int subvol_for_each(struct fs *fs, int (*fn)(struct fs *fs, uint64_t id, void *arg), void *arg);

#endif
