/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fs.h - one mounted filesystem: what fs_open() makes and everything in fs/ hangs on.
 *
 * Ownership: struct fs owns the volume, the tree environment, the trees, the space and the caches
 * of subvolumes and inodes; each of them is reached through it and destroyed by fs_close().
 *
 * Not here: transactions (txn.h), subvolume trees (subvol.h), inodes (inode.h), POSIX operations
 * (ops.h), anything of FUSE (fuse_*.c).
 */
#ifndef COWFS_FS_FS_H
#define COWFS_FS_FS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/space.h"
#include "btree/tree.h"
#include "io/device.h"
#include "io/format.h"
#include "io/volume.h"

struct extent_cache;
struct inode_cache;
struct orphan_set;
struct subvol_table;
struct txn_mgr;
struct flusher;
struct dropper;

enum atime_mode { ATIME_RELATIME, ATIME_NONE, ATIME_STRICT };
enum policy_choice { CHOOSE_BY_DEVICE, CHOOSE_SSD, CHOOSE_ROTATIONAL };

/* What a mount was asked for; fs/options.h parses it. Zero-initialise through fs_options_init(). */
struct fs_options {
	bool rdonly;
	bool nologreplay;
	bool nodatacow, nodatasum;	/* nodatacow implies nodatasum and no compression */
	bool nodiratime, lazytime, sync, dirsync;
	enum atime_mode atime;
	enum policy_choice policy;
	uint8_t compress_type;		/* COMPRESS_*, 0 = none */
	int compress_level;		/* 0 = the type's default */
	uint32_t max_inline;		/* bytes; default 2048 */
	unsigned commit_s;		/* seconds between commits; default 30 */
	uint64_t cache_bytes;		/* clean tree nodes; default 64 MiB */
	uint64_t subvolid;		/* 0 = the default subvolume */
	char *subvol;			/* path from the top level; NULL = by id; owned */
};

/* The defaults; and freeing what is owned. fs/options.c */
void fs_options_init(struct fs_options *o);
void fs_options_done(struct fs_options *o);

struct fs {
	struct fs_options opt;
	struct volume *vol;
	struct tree_env *env;
	struct space *space;
	struct meta_trees trees;
	struct root_record *roots;	/* the root items of `trees`; fs/root_item.h */
	unsigned root_count;

	struct disk_super super;	/* of the last commit; changed by the commit only */
	_Atomic uint64_t incompat_used;	/* features that data came to use (COMPRESS_*): the commit adds them */
	uint32_t sectorsize, leafsize, nodesize;
	uint16_t csum_type;
	uint32_t csum_size;
	bool no_holes, skinny;
	_Atomic bool rdonly;		/* asked for, or after an abort */
	_Atomic int error;		/* first error that aborted a transaction, 0 = none */

	struct txn_mgr *txn;
	struct subvol_table *subvols;
	struct inode_cache *inodes;
	struct extent_cache *extents;	/* decompressed data; NULL: nothing is kept */
	struct orphan_set *orphans;
	struct flusher *flusher;	/* dirty file data; NULL when read-only */
	struct dropper *dropper;	/* of deleted subvolumes (subvol_drop.h); NULL: none runs */
	uint64_t root_subvol;		/* id of the mounted subvolume; its root inode is INO_ROOT (256) */
};

/*
 * Opens the filesystem on `dev` (taken over: closed by fs_close, and by fs_open when it fails).
 * Read-write it also deletes orphans. Starts no thread: fs_start() does. Takes a copy of *opt.
 * Why it failed is in `reason`, for a person.
 * -EINVAL, -EUCLEAN, -EOPNOTSUPP, -EROFS, -ENODEV, -ENOENT (no such subvolume), -EIO, -ENOMEM.
 */
int fs_open(struct device *dev, const struct fs_options *opt, struct fs **ret_fs,
	    struct reason *reason);
/* Starts the threads (after the daemon has forked): commit timer, flusher, dropping what was deleted. */
int fs_start(struct fs *fs);
/* Flushes, commits, stops the threads and frees all. Returns the error of the last commit, if any. */
int fs_close(struct fs *fs);
/* Like a power cut: frees all without writing anything more. For tests. */
void fs_crash(struct fs *fs);

/* 0, or -EROFS if the mount is (or became) read-only. */
int fs_want_write(struct fs *fs);

#endif
