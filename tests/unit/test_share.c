/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_share.c - trees that share blocks: snapshots, changes on all sides, dropping.
 *
 * Each tree is held against a sorted array. After commits a walk over the bytes on disk finds out
 * which references there must be, and these must be exactly the ones that the trees asked for.
 */
#include <sys/stat.h>

#include "btree/tree.h"
#include "io/csum.h"
#include "io/rcu.h"
#include "tests/unit/fake_refs.h"
#include "tests/unit/mem_volume.h"

#define TREES 7u
#define ITEMS_MAX 6000u
#define FILLER_TYPE 250	/* a type that no check judges */
#define DATA_BYTES 4096u
#define FIRST_TRANSID 10u

struct entry {
	struct key key;
	uint32_t size, seed;
	uint64_t bytenr;		/* of an EXTENT_DATA's extent */
};

struct member {
	struct tree *tree;
	uint64_t id, last_snapshot;
	unsigned count;
	struct entry items[ITEMS_MAX];
};

struct world {
	struct volume *vol;
	struct tree_env *env;
	struct fake_refs *refs;
	struct txn_handle tx;
	struct member *trees[TREES];
	uint64_t next_id;
	uint32_t inodes;		/* numbers in use */
	uint32_t leafsize, nodesize;
	uint64_t rnd;
	/* A tree that is being dropped. */
	struct member *dying;
	struct drop_progress progress;
};

static uint32_t rnd(struct world *w, uint32_t below)
{
	w->rnd = w->rnd * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((w->rnd >> 33) % below);
}

/* --- the model ------------------------------------------------------------------------------------ */

static unsigned model_find(const struct member *m, const struct key *key, bool *ret_exact)
{
	unsigned low = 0, high = m->count;

	while (low < high) {
		unsigned mid = (low + high) / 2;

		if (key_cmp(&m->items[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_exact = low < m->count && key_equal(&m->items[low].key, key);
	return low;
}

static void model_insert(struct member *m, unsigned at, const struct entry *e)
{
	ck_assert_uint_lt(m->count, ITEMS_MAX);
	memmove(m->items + at + 1, m->items + at, (m->count - at) * sizeof(*m->items));
	m->items[at] = *e;
	m->count++;
}

static void model_remove(struct member *m, unsigned at, unsigned n)
{
	memmove(m->items + at, m->items + at + n, (m->count - at - n) * sizeof(*m->items));
	m->count -= n;
}

/* The bytes of an entry; returns their number. */
static uint32_t entry_bytes(const struct entry *e, uint8_t *buf)
{
	struct disk_inode_item ii;
	struct disk_file_extent fe;

	switch (e->key.type) {
	case KEY_INODE_ITEM:
		memset(&ii, 0, sizeof(ii));
		disk_inode_item_set_generation(&ii, FIRST_TRANSID);
		disk_inode_item_set_mode(&ii, S_IFREG | 0644);
		disk_inode_item_set_uid(&ii, e->seed);
		memcpy(buf, &ii, sizeof(ii));
		return sizeof(ii);
	case KEY_EXTENT_DATA:
		memset(&fe, 0, sizeof(fe));
		disk_file_extent_set_type(&fe, FILE_EXTENT_REG);
		disk_file_extent_set_disk_bytenr(&fe, e->bytenr);
		disk_file_extent_set_disk_num_bytes(&fe, DATA_BYTES);
		disk_file_extent_set_num_bytes(&fe, DATA_BYTES);
		disk_file_extent_set_ram_bytes(&fe, DATA_BYTES);
		memcpy(buf, &fe, sizeof(fe));
		return sizeof(fe);
	default:
		unit_fill(buf, e->size, e->seed);
		return e->size;
	}
}

static struct extent_ref data_ref(const struct member *m, const struct entry *e)
{
	return (struct extent_ref){ .bytenr = e->bytenr, .len = DATA_BYTES, .root = m->id,
				    .objectid = e->key.objectid, .offset = e->key.offset,
				    .count = 1, .type = KEY_EXTENT_DATA_REF };
}

static void check_contents(struct member *m)
{
	struct key first = KEY_MIN, last = KEY_MAX;
	static uint8_t buf[65536];
	struct cursor c;
	unsigned i = 0;
	int got;

	cursor_init(&c, m->tree, &first, &last);
	while ((got = cursor_next(&c)) > 0) {
		ck_assert_uint_lt(i, m->count);
		ck_assert(key_equal(&c.item.key, &m->items[i].key));
		ck_assert_uint_eq(c.item.size, entry_bytes(&m->items[i], buf));
		ck_assert_int_eq(memcmp(c.item.data, buf, c.item.size), 0);
		i++;
	}
	ck_assert_int_eq(got, 0);
	ck_assert_uint_eq(i, m->count);
	cursor_done(&c);
}

/* --- the walk over the disk ------------------------------------------------------------------------ */

struct seen {
	uint64_t bytenr;
	bool by_owner, full;
	struct seen *next;
};

static struct seen *seen[4096];

/* The record of a block; *ret_first: nobody came here before. */
static struct seen *see(uint64_t bytenr, bool *ret_first)
{
	struct seen **p = &seen[(bytenr >> 12) % ARRAY_COUNT(seen)];
	struct seen *s = *p;

	while (s != NULL && s->bytenr != bytenr)
		s = s->next;
	*ret_first = s == NULL;
	if (s != NULL)
		return s;
	s = calloc(1, sizeof(*s));
	ck_assert_ptr_nonnull(s);
	s->bytenr = bytenr;
	s->next = *p;
	*p = s;
	return s;
}

/* Implicit references name the block's maker as the one who holds them: it must hold the block. */
static void check_owners(void)
{
	for (unsigned i = 0; i < ARRAY_COUNT(seen); i++)
		for (struct seen *s = seen[i]; s != NULL; s = s->next)
			ck_assert_msg(s->by_owner || s->full,
				      "block %llu without its maker and without full references",
				      (unsigned long long)s->bytenr);
}

static void forget_seen(void)
{
	for (unsigned i = 0; i < ARRAY_COUNT(seen); i++) {
		while (seen[i] != NULL) {
			struct seen *s = seen[i];

			seen[i] = s->next;
			free(s);
		}
	}
}

static void expect_data(struct world *w, const struct disk_header *h, const struct disk_item *it,
			bool full)
{
	const struct disk_file_extent *fe =
		(const void *)((const uint8_t *)(h + 1) + disk_item_offset(it));
	struct key key = key_from_disk(&it->key);
	struct extent_ref ref = { .len = DATA_BYTES, .parent = disk_header_bytenr(h),
				  .root = disk_header_owner(h), .objectid = key.objectid,
				  .offset = key.offset, .count = 1,
				  .type = full ? KEY_SHARED_DATA_REF : KEY_EXTENT_DATA_REF };

	if (key.type != KEY_EXTENT_DATA)
		return;
	ref.bytenr = disk_file_extent_disk_bytenr(fe);
	fake_refs_expect(w->refs, &ref);
}

static const struct disk_header *read_block(struct world *w, const struct extent_ref *at, uint8_t *buf)
{
	const struct disk_header *h = (const void *)buf;

	unit_ok(volume_read(w->vol, at->bytenr, buf, at->len, 0));
	ck_assert(csum_header_good(w->vol->params.csum_type, buf, at->len));
	ck_assert_uint_eq(disk_header_bytenr(h), at->bytenr);
	ck_assert_uint_eq(disk_header_level(h), at->level);
	return h;
}

/* The block that `at` points to, seen from the tree `id`. */
static void walk_block(struct world *w, uint64_t id, const struct extent_ref *at)
{
	scoped(freep) uint8_t *buf = malloc(at->len);
	const struct disk_header *h = read_block(w, at, buf);
	const struct disk_key_ptr *ptr = (const void *)(h + 1);
	const struct disk_item *item = (const void *)(h + 1);
	bool first;
	struct seen *s = see(at->bytenr, &first);

	s->full = fake_refs_flags(w->refs, at->bytenr) & EXTENT_FLAG_FULL_BACKREF;
	s->by_owner |= disk_header_owner(h) == id;
	for (uint32_t i = 0; i < disk_header_nritems(h); i++) {
		struct extent_ref ref = {
			.len = at->level == 1 ? w->leafsize : w->nodesize,
			.level = (uint8_t)(at->level - 1),
			.root = disk_header_owner(h),
			.parent = at->bytenr,
			.count = 1,
			.type = s->full ? KEY_SHARED_BLOCK_REF : KEY_TREE_BLOCK_REF,
		};

		if (at->level == 0) {
			if (first)
				expect_data(w, h, &item[i], s->full);
			continue;
		}
		ref.bytenr = disk_key_ptr_blockptr(&ptr[i]);
		if (first)
			fake_refs_expect(w->refs, &ref);
		walk_block(w, id, &ref);
	}
}

static void check_refs(struct world *w)
{
	fake_refs_forget(w->refs);
	for (unsigned i = 0; i < TREES; i++) {
		struct tree_root root;
		struct extent_ref ref;

		if (w->trees[i] == NULL)
			continue;
		root = tree_root(w->trees[i]->tree);
		ref = (struct extent_ref){ .bytenr = root.bytenr, .level = root.level, .count = 1,
					   .len = root.level == 0 ? w->leafsize : w->nodesize,
					   .root = w->trees[i]->id, .type = KEY_TREE_BLOCK_REF };
		fake_refs_expect(w->refs, &ref);
		walk_block(w, ref.root, &ref);
	}
	fake_refs_judge(w->refs);
	check_owners();
	forget_seen();
}

/* --- the world ------------------------------------------------------------------------------------- */

static void open_env(struct world *w)
{
	struct tree_env_args args = { .vol = w->vol, .ops = &fake_refs_ops,
				      .space = fake_refs_space(w->refs),
				      .transid = w->tx.transid };

	unit_ok(tree_env_new(&args, &w->env));
}

/* The dying tree is taken up again as a root item would tell. */
static void reopen_dying(struct world *w)
{
	struct tree_root root = tree_root(w->dying->tree);

	tree_close(w->dying->tree);
	unit_ok(tree_open(w->env, w->dying->id, &root, true, w->dying->last_snapshot,
			  &w->dying->tree));
}

static void reopen(struct world *w)
{
	struct tree_root roots[TREES], dying_root;

	for (unsigned i = 0; i < TREES; i++) {
		if (w->trees[i] == NULL)
			continue;
		roots[i] = tree_root(w->trees[i]->tree);
		tree_close(w->trees[i]->tree);
	}
	if (w->dying != NULL) {
		dying_root = tree_root(w->dying->tree);
		tree_close(w->dying->tree);
	}
	tree_env_free(w->env);
	open_env(w);
	for (unsigned i = 0; i < TREES; i++)
		if (w->trees[i] != NULL)
			unit_ok(tree_open(w->env, w->trees[i]->id, &roots[i], true,
					  w->trees[i]->last_snapshot, &w->trees[i]->tree));
	if (w->dying != NULL)
		unit_ok(tree_open(w->env, w->dying->id, &dying_root, true, w->dying->last_snapshot,
				  &w->dying->tree));
}

static void commit(struct world *w)
{
	struct frozen *f;

	unit_ok(tree_env_freeze(w->env, w->tx.transid + 1, &f));
	unit_ok(frozen_write(f));
	frozen_free(f);
	w->tx.transid++;
	if (rnd(w, 3) == 0)
		reopen(w);
	for (unsigned i = 0; i < TREES; i++)
		if (w->trees[i] != NULL)
			check_contents(w->trees[i]);
	if (w->dying == NULL)
		check_refs(w);
}

static void world_new(struct world *w, uint32_t leafsize, uint32_t nodesize, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->rnd = seed;
	w->leafsize = leafsize;
	w->nodesize = nodesize;
	w->next_id = OBJ_FIRST_FREE;
	w->vol = mem_volume_new(leafsize, nodesize, CSUM_XXHASH64);
	w->refs = fake_refs_new(MEM_VOLUME_FIRST, leafsize, nodesize);
	w->tx.transid = FIRST_TRANSID;
	rcu_thread_enter();
	open_env(w);
}

static struct member *member_new(struct world *w)
{
	struct member *m = malloc(sizeof(*m));

	ck_assert_ptr_nonnull(m);
	m->id = w->next_id++;
	m->last_snapshot = 0;
	m->count = 0;
	return m;
}

static void world_free(struct world *w)
{
	for (unsigned i = 0; i < TREES; i++) {
		if (w->trees[i] == NULL)
			continue;
		tree_close(w->trees[i]->tree);
		free(w->trees[i]);
	}
	tree_env_free(w->env);
	volume_close(w->vol);
	fake_refs_free(w->refs);
}

/* --- operations ------------------------------------------------------------------------------------ */

static void insert_entry(struct world *w, struct member *m, struct entry e)
{
	static uint8_t buf[65536];
	bool exact;
	unsigned at = model_find(m, &e.key, &exact);
	struct extent_ref ref;

	if (exact) {
		unit_err(tree_insert(&w->tx, m->tree, &e.key, buf, entry_bytes(&e, buf)), -EEXIST);
		return;
	}
	if (e.key.type == KEY_EXTENT_DATA)
		e.bytenr = fake_refs_data(w->refs, DATA_BYTES);
	unit_ok(tree_insert(&w->tx, m->tree, &e.key, buf, entry_bytes(&e, buf)));
	model_insert(m, at, &e);
	if (e.key.type != KEY_EXTENT_DATA)
		return;
	ref = data_ref(m, &e);
	unit_ok(fake_refs_ops.inc_ref(fake_refs_space(w->refs), &w->tx, &ref));
}

/* As a filesystem does: the item goes, whereby its leaf is COWed, then its reference. */
static void drop_entry_ref(struct world *w, const struct member *m, const struct entry *e)
{
	struct extent_ref ref = data_ref(m, e);

	if (e->key.type == KEY_EXTENT_DATA)
		unit_ok(fake_refs_ops.dec_ref(fake_refs_space(w->refs), &w->tx, &ref));
}

static void delete_range(struct world *w, struct member *m, const struct key *first,
			 const struct key *last)
{
	unsigned n;

	do {
		bool exact;
		unsigned at = model_find(m, first, &exact);

		unit_ok(tree_delete_range(&w->tx, m->tree, first, last, 1 + rnd(w, 40), &n));
		for (unsigned i = 0; i < n; i++) {
			ck_assert_int_le(key_cmp(&m->items[at + i].key, last), 0);
			drop_entry_ref(w, m, &m->items[at + i]);
		}
		ck_assert(n > 0 || at == m->count || key_cmp(&m->items[at].key, last) > 0);
		model_remove(m, at, n);
	} while (n > 0);
}

static int set_uid(void *data, uint32_t size, void *arg)
{
	struct disk_inode_item *ii = data;

	ck_assert_uint_eq(size, sizeof(*ii));
	disk_inode_item_set_uid(ii, *(uint32_t *)arg);
	return 0;
}

static void change_tree(struct world *w, struct member *m)
{
	uint64_t ino = OBJ_FIRST_FREE + rnd(w, w->inodes);
	struct entry e = { .key = key_make(ino, KEY_INODE_ITEM, 0), .seed = rnd(w, 1u << 30) };
	bool exact;
	unsigned at = model_find(m, &e.key, &exact);
	struct key last = key_object_max(ino + rnd(w, 3));

	if (!exact) {
		insert_entry(w, m, e);
		return;
	}
	switch (rnd(w, 8)) {
	case 0: case 1: case 2:
		e.key = key_make(ino, KEY_EXTENT_DATA, rnd(w, 64) * DATA_BYTES);
		insert_entry(w, m, e);
		break;
	case 3: case 4:
		e.key = key_make(ino, FILLER_TYPE, rnd(w, 4));
		e.size = rnd(w, 300);
		insert_entry(w, m, e);
		break;
	case 5:
		unit_ok(tree_edit(&w->tx, m->tree, &e.key, set_uid, &e.seed));
		m->items[at].seed = e.seed;
		break;
	case 6:
		e.key.type = KEY_EXTENT_DATA;
		last.objectid = ino;
		last.type = KEY_EXTENT_DATA;
		delete_range(w, m, &e.key, &last);
		break;
	default:
		if (rnd(w, 3) == 0)
			delete_range(w, m, &e.key, &last);
	}
}

static void snapshot(struct world *w, struct member *src, unsigned slot)
{
	struct member *m = member_new(w);
	struct tree_root root;

	unit_ok(tree_copy_root(&w->tx, src->tree, m->id, &root));
	src->last_snapshot = m->last_snapshot = w->tx.transid;
	unit_ok(tree_open(w->env, m->id, &root, true, m->last_snapshot, &m->tree));
	m->count = src->count;
	memcpy(m->items, src->items, src->count * sizeof(*src->items));
	w->trees[slot] = m;
}

static void begin_drop(struct world *w, unsigned slot)
{
	w->dying = w->trees[slot];
	w->trees[slot] = NULL;
	w->progress = (struct drop_progress){0};
}

static void drop_step(struct world *w)
{
	int got = tree_drop_step(&w->tx, w->dying->tree, &w->progress, 1 + rnd(w, 3));

	ck_assert_int_ge(got, 0);
	if (got > 0) {
		if (rnd(w, 2))
			reopen_dying(w);
		return;
	}
	tree_close(w->dying->tree);
	free(w->dying);
	w->dying = NULL;
}

static unsigned live_trees(const struct world *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < TREES; i++)
		n += w->trees[i] != NULL;
	return n;
}

static void one_operation(struct world *w)
{
	unsigned slot = rnd(w, TREES);
	struct member *src = w->trees[rnd(w, TREES)];

	if (w->dying != NULL && rnd(w, 3) == 0) {
		drop_step(w);
	} else if (w->trees[slot] == NULL) {
		if (src != NULL && rnd(w, 40) == 0)
			snapshot(w, src, slot);
	} else if (rnd(w, 700) == 0 && w->dying == NULL && live_trees(w) > 1) {
		begin_drop(w, slot);
	} else {
		change_tree(w, w->trees[slot]);
	}
}

static void random_run(uint32_t leafsize, uint32_t nodesize, unsigned ops, uint64_t seed)
{
	struct world w;
	unsigned i;

	world_new(&w, leafsize, nodesize, seed);
	w.inodes = 60;
	w.trees[0] = member_new(&w);
	unit_ok(tree_create(w.env, &w.tx, w.trees[0]->id, true, &w.trees[0]->tree));
	for (i = 0; i < ops; i++) {
		one_operation(&w);
		if (rnd(&w, 150) == 0)
			commit(&w);
	}
	/* All trees but one go; then what is left is that one's. */
	for (i = 0; i < TREES || w.dying != NULL; i++) {
		while (w.dying != NULL) {
			drop_step(&w);
			if (rnd(&w, 10) == 0)
				commit(&w);
		}
		if (i < TREES && w.trees[i] != NULL && live_trees(&w) > 1)
			begin_drop(&w, i);
	}
	commit(&w);
	check_refs(&w);
	world_free(&w);
}

START_TEST(random_4k)
{
	for (uint64_t seed = 1; seed <= 2; seed++)
		random_run(4096, 4096, 8000, seed);
}
END_TEST

START_TEST(random_16k)
{
	random_run(16384, 16384, 8000, 11);
}
END_TEST

START_TEST(random_two_sizes)
{
	random_run(4096, 16384, 6000, 21);
	random_run(65536, 4096, 6000, 22);
}
END_TEST

/* The whole tree is dropped while nothing else is there: all its extents are gone. */
START_TEST(drop_to_nothing)
{
	struct world w;

	world_new(&w, 4096, 4096, 5);
	w.inodes = 1200;
	w.trees[0] = member_new(&w);
	unit_ok(tree_create(w.env, &w.tx, w.trees[0]->id, true, &w.trees[0]->tree));
	for (unsigned i = 0; i < 20000 && w.trees[0]->count < ITEMS_MAX - 1; i++)
		change_tree(&w, w.trees[0]);
	commit(&w);
	ck_assert_uint_gt(tree_height(w.trees[0]->tree), 2);
	begin_drop(&w, 0);
	while (w.dying != NULL) {
		drop_step(&w);
		if (rnd(&w, 4) == 0)
			commit(&w);
	}
	commit(&w);
	ck_assert_uint_eq(fake_refs_count(w.refs), 0);
	world_free(&w);
}
END_TEST

/* A snapshot and changes on both sides, all in one transaction. */
START_TEST(snapshot_and_change_at_once)
{
	struct world w;

	world_new(&w, 4096, 4096, 6);
	w.inodes = 100;
	w.trees[0] = member_new(&w);
	unit_ok(tree_create(w.env, &w.tx, w.trees[0]->id, true, &w.trees[0]->tree));
	for (unsigned round = 1; round < TREES; round++) {
		for (unsigned i = 0; i < 600; i++)
			change_tree(&w, w.trees[rnd(&w, round)]);
		snapshot(&w, w.trees[rnd(&w, round)], round);
	}
	for (unsigned i = 0; i < 600; i++)
		change_tree(&w, w.trees[rnd(&w, TREES)]);
	commit(&w);
	world_free(&w);
}
END_TEST

UNIT_MAIN("share", random_4k, random_16k, random_two_sizes, drop_to_nothing,
	  snapshot_and_change_at_once)
