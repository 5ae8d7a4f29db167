/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/walk.h - an independent judge of images: what its files share.
 *
 * The walker reads an unmounted single-device image and checks every invariant of the format that it
 * knows. It shares no code with the engine but the structures, the checksums and small helpers of io/,
 * so that the two cannot be wrong in the same way. It judges what btrfs check cannot: leaves and nodes
 * of two sizes.
 *
 * The image is mapped; what lies in it is pointed to, never copied. Nothing read from it is trusted:
 * each structure is checked against its bounds first, each tree is walked at most once per block.
 *
 * Order: superblocks and chunks (image.c), each tree block by itself (block.c), the trees of space
 * (groups.c, extents.c, free_space.c, csums.c), the root tree (roots.c), each subvolume (files.c,
 * names.c), then references recomputed from all blocks against the extent tree (refs.c), and last a log
 * that waits for replay (log.c).
 *
 * Locking: one thread.
 */
#ifndef COWFS_TESTS_WALKER_WALK_H
#define COWFS_TESTS_WALKER_WALK_H

#include "io/csum.h"
#include "io/format.h"
#include "io/key.h"
#include "io/util.h"

#include <stdio.h>

/* A growing array. vec_add() gives a new zeroed element, its address good until the next. */
#define VEC(type) struct { type *v; size_t n, cap; }
#define vec_add(a) \
	((a)->v = vec_room((a)->v, (a)->n, &(a)->cap, sizeof(*(a)->v)), &(a)->v[(a)->n++])
#define vec_sort(a, cmp) \
	((a)->n > 1 ? qsort((a)->v, (a)->n, sizeof(*(a)->v), (cmp)) : (void)0)
void *vec_room(void *v, size_t n, size_t *cap, size_t size);

#define COPIES_MAX 4u

struct wchunk {
	uint64_t start, len, type;
	unsigned copies;
	uint64_t physical[COPIES_MAX];
	bool has_group;			/* a block group item was found */
	uint64_t group_used;		/* what it says */
	uint64_t used;			/* bytes in extent items */
	bool has_info;			/* free space tree */
};

struct wtree;

/* A tree block, once for each address. */
struct block {
	uint64_t bytenr, generation, owner;
	const uint8_t *data;		/* the first good copy */
	uint32_t size, nritems;
	uint8_t level;
	bool good;			/* its structure may be relied on */
	unsigned walk;			/* number of the last walk that met it */
	const struct wtree *dropping;	/* a half dropped tree that holds it, or NULL */
};

struct witem {
	struct key key;
	const uint8_t *data;
	uint32_t size;
	const struct block *leaf;
};

/* A tree to be walked. */
struct wtree {
	uint64_t id, bytenr, generation;
	uint8_t level;
	bool shared;			/* blocks of other subvolumes may be in it */
	bool reloc;			/* a relocation tree: its root refers to itself */
	bool dropping;			/* what is left of drop_key is gone */
	uint8_t drop_level;
	struct key drop_key;
	uint64_t bytes;			/* found by the walk */
};

struct extent {
	uint64_t start, len, refs, generation, flags;
	bool data;
	uint8_t level;
};

/* A reference, as the extent tree has it or as it follows from a tree block. */
struct ref {
	uint64_t bytenr;
	uint64_t origin;		/* root, or parent block */
	uint64_t objectid, offset;	/* of data refs by root */
	uint64_t count;
	uint8_t type;			/* KEY_*_REF */
};

struct csum_range {
	uint64_t start, len;
	const uint8_t *sums;
};

struct wroot {
	uint64_t id, offset;		/* of the key */
	struct disk_root_item item;	/* old ones completed with zeroes */
	struct wtree tree;
	bool has_backref;
};

struct root_name {
	uint64_t parent, child, dir, sequence;
	const uint8_t *name;
	uint16_t len;
};

struct dev_extent {
	uint64_t physical, len, chunk;
};

struct walk {
	const uint8_t *map;
	uint64_t size;			/* of the image */
	struct disk_super super;
	uint64_t generation;
	uint32_t sectorsize, leafsize, nodesize;
	enum csum_type csum_type;
	size_t csum_bytes;
	bool skinny, no_holes, mixed, free_space_tree, group_tree;
	bool log;			/* there is a log tree to replay */
	uint64_t error_count;
	uint8_t chunk_uuid[UUID_BYTES];
	bool has_chunk_uuid;
	unsigned walks;
	VEC(struct wchunk) chunks;	/* sorted by start */
	VEC(struct block) blocks;
	size_t *block_hash;		/* index + 1 of blocks; 0: empty */
	size_t hash_size;
	VEC(struct wroot) roots;
	VEC(struct root_name) root_refs, root_backrefs, root_entries;
	VEC(uint64_t) root_orphans;
	VEC(struct extent) extents;	/* ascending */
	VEC(struct ref) refs, expected;
	VEC(struct csum_range) csums;
	VEC(struct dev_extent) dev_extents;
};

/* Reports one violation, one line. */
void bad(struct walk *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define U(x) ((unsigned long long)(x))

/* --- image.c ------------------------------------------------------------------------------------- */

/* Maps and judges the superblocks; false: nothing more can be done. */
bool image_open(struct walk *w, const char *path);
void image_close(struct walk *w);
/* Adds the chunk of an item (system array, chunk tree), or reports what is wrong with it. */
void chunk_add(struct walk *w, const struct key *key, const uint8_t *item, size_t size);
/* The chunk that holds all of the range, or NULL. */
struct wchunk *chunk_of(struct walk *w, uint64_t logical, uint64_t len);
/* Copy number `copy` of the range; NULL: not in a chunk, no such copy, or beyond the image. */
const uint8_t *bytes_at(struct walk *w, uint64_t logical, uint64_t len, unsigned copy);
/* Chunk tree: device item, chunks against the system array; before any other tree. */
void chunk_tree_check(struct walk *w);
/* Chunks against device extents. */
void dev_tree_check(struct walk *w, struct wtree *t);

/* --- block.c ------------------------------------------------------------------------------------- */

typedef void (*item_fn)(struct walk *w, const struct witem *it, void *arg);

/* Calls fn for each item of the tree, in order; reports what is wrong with its blocks. */
void tree_walk(struct walk *w, struct wtree *t, item_fn fn, void *arg);
struct block *block_find(struct walk *w, uint64_t bytenr);
/* Whether all below this pointer was dropped already. */
bool block_dropped(const struct wtree *t, const struct block *b, uint32_t slot);
/* Items and pointers of a block that is good. */
void block_item(const struct block *b, uint32_t slot, struct witem *ret);
void block_ptr(const struct block *b, uint32_t slot, struct key *ret_key, uint64_t *ret_bytenr,
	       uint64_t *ret_generation);

/* --- space --------------------------------------------------------------------------------------- */

void extent_tree_check(struct walk *w, struct wtree *t);	/* extents.c */
void block_group_tree_check(struct walk *w, struct wtree *t);
void block_groups_check(struct walk *w);			/* after all extents are known */
const struct extent *extent_find(struct walk *w, uint64_t start);
void free_space_check(struct walk *w, struct wtree *t);		/* free_space.c */
void csum_tree_check(struct walk *w, struct wtree *t);		/* csums.c */
void csum_data_check(struct walk *w);
/* Bytes of the range that have checksums. */
uint64_t csum_covered(const struct walk *w, uint64_t start, uint64_t len);
void refs_check(struct walk *w);				/* refs.c */
void log_check(struct walk *w);					/* log.c */

/* --- trees of files ------------------------------------------------------------------------------ */

void root_tree_check(struct walk *w, struct wtree *t);		/* roots.c */
struct wroot *root_find(struct walk *w, uint64_t id);
void root_names_check(struct walk *w);				/* after all subvolumes */
void uuid_tree_check(struct walk *w, struct wtree *t);
void quota_tree_check(struct walk *w, struct wtree *t);
void files_check(struct walk *w, struct wroot *r);		/* files.c */

/* One name of one inode, seen from one of three sides. */
struct wname {
	uint64_t dir, index, child;
	const uint8_t *name;
	uint16_t len;
	uint8_t type;			/* FT_* */
	bool is_root;			/* the child is a subvolume */
};

struct winode {
	uint64_t ino;
	uint32_t nlink, refs, mode;
};

struct wsubvol {
	struct wroot *root;
	VEC(struct wname) items, indexes, refs;
	VEC(struct winode) inodes;	/* ascending */
	VEC(uint64_t) orphans;
};

struct winode *inode_find(struct wsubvol *s, uint64_t ino);
/* Entries, indexes and back references agree, and so do link counts (names.c). */
void names_check(struct walk *w, struct wsubvol *s);
/* Parses items with names; what they hold is added to the subvolume. */
void dir_item_parse(struct walk *w, struct wsubvol *s, const struct witem *it);
void inode_ref_parse(struct walk *w, struct wsubvol *s, const struct witem *it);
void inode_extref_parse(struct walk *w, struct wsubvol *s, const struct witem *it);
void xattr_parse(struct walk *w, uint64_t tree, const struct witem *it);

#endif
