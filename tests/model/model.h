/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/model/model.h - what a filesystem must hold, kept in plain memory.
 *
 * A model is a table of nodes (inodes) that name each other by number, so that it can be copied: the
 * copy made at a commit is what must be there after a crash. Functions return 0 or the negative errno
 * that the filesystem must give, and change nothing then.
 *
 * Not here: calling the filesystem (ops.c), comparing (compare.c).
 */
#ifndef COWFS_TESTS_MODEL_MODEL_H
#define COWFS_TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#define NO_NODE UINT32_MAX

struct mentry {
	char *name;
	uint32_t node;
};

struct mxattr {
	char *name;
	uint8_t *value;
	size_t len;
};

struct mnode {
	bool live;			/* has a name, or is held open */
	bool held;			/* somebody keeps it open */
	bool opaque;			/* neither changed nor compared: a stand-in */
	bool subvol_root;
	bool rdonly;			/* of a read-only subvolume */
	uint64_t subvol, ino;
	uint32_t mode, uid, gid, nlink;
	uint64_t rdev;			/* as stat shows it */
	struct timespec atime, mtime, ctime;

	uint8_t *data;			/* files; symbolic links: the target */
	size_t size;			/* directories: as stat shows it */

	uint32_t parent;		/* directories */
	struct mentry *entries;
	unsigned entry_count, entry_cap;

	struct mxattr *xattrs;
	unsigned xattr_count;
};

struct model {
	struct mnode *nodes;
	uint32_t count, cap;
	uint32_t root;
	uint32_t item_max;		/* bytes of an item: names of one hash share one */
};

void model_init(struct model *m, uint32_t item_max);
void model_done(struct model *m);
void model_copy(struct model *to, const struct model *from);
/* Nothing is open any more: nodes without a name are gone. */
void model_drop_held(struct model *m);
/* A node without a name that is not open any more is gone. */
void model_drop(struct model *m, uint32_t node);

static inline struct mnode *model_node(struct model *m, uint32_t n)
{
	return &m->nodes[n];
}

/* A new node without a name. The pointers of model_node() move. */
uint32_t model_add(struct model *m, uint32_t mode);
/* Looks a name up; NO_NODE. */
uint32_t model_find(struct model *m, uint32_t dir, const char *name);
/* Enters a name without any check or count (loading). */
void model_enter(struct model *m, uint32_t dir, const char *name, uint32_t node);

/* What must come of putting a name into a directory, of taking one out. */
int model_may_add(struct model *m, uint32_t dir, const char *name);
/* Names, counts and sizes; times are the caller's. */
void model_link(struct model *m, uint32_t dir, const char *name, uint32_t node);
void model_unlink(struct model *m, uint32_t dir, const char *name);
int model_may_unlink(struct model *m, uint32_t dir, const char *name, bool dir_wanted);
int model_may_rename(struct model *m, uint32_t from, const char *name, uint32_t to,
		     const char *newname, unsigned flags);
/* Does it; *ret_whiteout is the new node (RENAME_WHITEOUT) or NO_NODE. False: nothing was to do. */
bool model_rename(struct model *m, uint32_t from, const char *name, uint32_t to,
		  const char *newname, unsigned flags, uint32_t *ret_whiteout);

void model_resize(struct mnode *n, size_t size);
struct mxattr *model_xattr(struct mnode *n, const char *name);
void model_set_xattr(struct mnode *n, const char *name, const void *value, size_t len);
bool model_remove_xattr(struct mnode *n, const char *name);

/* malloc() and realloc() that end the program when there is no memory. */
void *xmalloc(size_t bytes);
void *xrealloc(void *p, size_t bytes);
void *xmemdup(const void *p, size_t bytes);

#endif
