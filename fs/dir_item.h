/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/dir_item.h - the entries of directories and extended attributes as items hold them.
 *
 * A DIR_ITEM lies at the hash of a name and holds an entry for each name with that hash; so does an
 * XATTR_ITEM, whose entries carry a value. A DIR_INDEX lies at the number an entry got when it was
 * made and holds that one entry.
 *
 * Locks: the caller holds the directory's (the inode's) lock: shared to find, exclusive to change.
 * Not here: what the entries point to (lookup.c), the counterpart in the child (inode_ref.h).
 */
#ifndef COWFS_FS_DIR_ITEM_H
#define COWFS_FS_DIR_ITEM_H

#include "btree/tree.h"
#include "io/format.h"

/* An entry within an item's data. */
struct name_entry {
	uint32_t pos, bytes;		/* of the entry, header and value included */
	struct key location;
	uint8_t type;			/* FT_* */
	const char *name;		/* into the item; not terminated */
	uint16_t name_len, data_len;
	const uint8_t *data;
};

/*
 * The entry at byte `pos` of the item's data: 1, or 0 at the end. -EUCLEAN. To walk: begin with 0,
 * go on with ret->pos + ret->bytes.
 */
int name_entry_at(const struct tree *t, const struct item *it, uint32_t pos,
		  struct name_entry *ret_entry);
/* The entry called so in the item; -ENOENT, -EUCLEAN. */
int name_entry_find(const struct tree *t, const struct item *it, const char *name, size_t len,
		    struct name_entry *ret_entry);

/* What goes into a new entry. */
struct name_new {
	const char *name;
	size_t name_len;
	struct key location;
	uint8_t type;
	const void *data;		/* xattr value; NULL with data_len 0 */
	size_t data_len;
};

/* An item and the entry found in it; hit->entry points into hit->item. */
struct name_hit {
	struct item item;
	struct name_entry entry;
};
void name_hit_init(struct name_hit *h);
void name_hit_done(struct name_hit *h);

/* Finds a name at its hash: `type` is KEY_DIR_ITEM or KEY_XATTR_ITEM. -ENOENT, -EUCLEAN. */
int name_find(struct tree *t, uint64_t ino, unsigned type, const char *name, size_t len,
	      struct name_hit *ret_hit);
/*
 * Adds an entry. -EEXIST (the name is there) and -EOVERFLOW (names of one hash fill a leaf) leave
 * everything as it was.
 */
int name_add(struct txn_handle *tx, const struct tree_env *env, struct tree *t, uint64_t ino,
	     unsigned type, const struct name_new *e);
/* Takes a found entry out. The item must be as it was found. */
int name_remove(struct txn_handle *tx, struct tree *t, const struct name_hit *hit);
/* Puts another value in the place of a found entry; -EOVERFLOW leaves everything as it was. */
int name_replace(struct txn_handle *tx, const struct tree_env *env, struct tree *t,
		 const struct name_hit *hit, const struct name_new *e);
/* Lets a found entry point elsewhere. The item must be as it was found; it is edited in place. */
int name_repoint(struct txn_handle *tx, struct tree *t, const struct name_hit *hit,
		 const struct key *location, uint8_t type);

/* The entry with this index; its directory's lock is held exclusively. -EEXIST, -ENOENT. */
int dir_index_add(struct txn_handle *tx, struct tree *t, uint64_t dir, uint64_t index,
		  const struct name_new *e);
int dir_index_remove(struct txn_handle *tx, struct tree *t, uint64_t dir, uint64_t index);
int dir_index_repoint(struct txn_handle *tx, struct tree *t, uint64_t dir, uint64_t index,
		      const struct key *location, uint8_t type);
/* The first index never used in the directory. */
int dir_index_next(struct tree *t, uint64_t dir, uint64_t *ret_index);
/* The index of an entry that nothing but a walk can tell; -ENOENT. */
int dir_index_search(struct tree *t, uint64_t dir, const char *name, size_t len,
		     uint64_t *ret_index);

/* 0, -ENAMETOOLONG, -ENOENT (empty), -EINVAL (has a '/'). "." and ".." are the caller's. */
int name_check(const char *name, size_t *ret_len);
bool name_is_dots(const char *name);

/* FT_* of a mode, and DT_* of an FT_*. */
uint8_t file_type_of_mode(uint32_t mode);
uint8_t dirent_type_of(uint8_t file_type);

#endif
