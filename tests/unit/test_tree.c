/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_tree.c - trees (btree/tree.h) against a sorted array, at all block sizes, through
 * commits and reopening; space comes from a counter.
 */
#include "btree/tree.h"
#include "io/rcu.h"
#include "tests/unit/mem_volume.h"

#define TREE_ID 7
#define ITEM_TYPE 250	/* a type that no check judges */
#define MODEL_MAX 20000u

/* --- a filesystem with nothing but a volume ------------------------------------------------------- */

struct bench {
	struct volume *vol;
	struct tree_env *env;
	struct txn_handle tx;
	uint64_t next;			/* address of the next block */
	uint64_t bytes;			/* in blocks that are referenced */
	uint32_t leafsize, nodesize;
};

static struct bench *bench_of(struct space *sp)
{
	return (struct bench *)(void *)sp;
}

static int fake_alloc(struct space *sp, struct txn_handle *tx, uint64_t root, uint8_t level,
		      uint64_t hint, uint64_t *ret_bytenr)
{
	struct bench *b = bench_of(sp);
	uint32_t size = level == 0 ? b->leafsize : b->nodesize;

	(void)tx, (void)root, (void)hint;
	*ret_bytenr = align_up(b->next, size);
	b->next = *ret_bytenr + size;
	b->bytes += size;
	return 0;
}

static int fake_free(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref,
		     uint64_t generation)
{
	struct bench *b = bench_of(sp);

	(void)tx, (void)generation;
	ck_assert_uint_eq(ref->len, ref->level == 0 ? b->leafsize : b->nodesize);
	ck_assert_uint_ge(b->bytes, ref->len);
	b->bytes -= ref->len;
	return 0;
}

static const struct space_ops fake_ops = { .alloc_block = fake_alloc, .free_block = fake_free };

static void open_env(struct bench *b, uint64_t transid)
{
	struct tree_env_args args = { .vol = b->vol, .ops = &fake_ops, .space = (void *)b,
				      .transid = transid };

	unit_ok(tree_env_new(&args, &b->env));
	b->tx = (struct txn_handle){ .transid = transid };
}

static void bench_open(struct bench *b, uint32_t leafsize, uint32_t nodesize)
{
	*b = (struct bench){ .leafsize = leafsize, .nodesize = nodesize, .next = MEM_VOLUME_FIRST };
	b->vol = mem_volume_new(leafsize, nodesize, CSUM_CRC32C);
	open_env(b, 10);
}

static void bench_done(struct bench *b)
{
	tree_env_free(b->env);
	volume_close(b->vol);
}

/* Commits and, with reopen, forgets all that is in memory. */
static void commit(struct bench *b, struct tree **t, bool reopen)
{
	struct frozen *f;
	struct tree_root root;

	unit_ok(tree_env_freeze(b->env, b->tx.transid + 1, &f));
	unit_ok(frozen_write(f));
	frozen_free(f);
	b->tx.transid++;
	if (!reopen)
		return;
	root = tree_root(*t);
	tree_close(*t);
	tree_env_free(b->env);
	open_env(b, b->tx.transid);
	unit_ok(tree_open(b->env, TREE_ID, &root, false, 0, t));
}

/* --- the model ------------------------------------------------------------------------------------ */

struct entry {
	struct key key;
	uint32_t size, seed;
};

static struct entry model[MODEL_MAX];
static unsigned model_count;
static uint64_t rnd_state;

static uint32_t rnd(uint32_t below)
{
	rnd_state = rnd_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((rnd_state >> 33) % below);
}

static unsigned model_find(const struct key *key, bool *ret_exact)
{
	unsigned low = 0, high = model_count;

	while (low < high) {
		unsigned mid = (low + high) / 2;

		if (key_cmp(&model[mid].key, key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	*ret_exact = low < model_count && key_equal(&model[low].key, key);
	return low;
}

static void model_put(unsigned at, bool exact, const struct key *key, uint32_t size, uint32_t seed)
{
	if (!exact) {
		memmove(model + at + 1, model + at, (model_count - at) * sizeof(*model));
		model_count++;
	}
	model[at] = (struct entry){ *key, size, seed };
}

static void model_remove(unsigned at, unsigned n)
{
	memmove(model + at, model + at + n, (model_count - at - n) * sizeof(*model));
	model_count -= n;
}

static uint8_t bytes[65536];

static void check_item(const struct item *it, const struct entry *e)
{
	ck_assert(key_equal(&it->key, &e->key));
	ck_assert_uint_eq(it->size, e->size);
	unit_fill(bytes, e->size, e->seed);
	ck_assert_int_eq(memcmp(bytes, it->data, e->size), 0);
}

static void check_all(struct tree *t)
{
	struct key first = KEY_MIN, last = KEY_MAX;
	struct cursor c;
	unsigned i = 0;

	cursor_init(&c, t, &first, &last);
	while (cursor_next(&c) > 0)
		check_item(&c.item, &model[i++]);
	ck_assert_uint_eq(i, model_count);
	cursor_done(&c);
}

static void check_seeks(struct tree *t, const struct key *key)
{
	bool exact;
	unsigned at = model_find(key, &exact);
	struct item it;

	item_init(&it);
	for (int how = SEEK_ITEM_GE; how <= SEEK_ITEM_LT; how++) {
		long want = how == SEEK_ITEM_GE ? (long)at :
			    how == SEEK_ITEM_GT ? (long)at + exact :
			    how == SEEK_ITEM_LE ? (long)at - !exact : (long)at - 1;
		int err = tree_seek(t, key, (enum seek)how, &it);

		if (want < 0 || want >= (long)model_count) {
			ck_assert_int_eq(err, -ENOENT);
		} else {
			ck_assert_int_eq(err, 0);
			check_item(&it, &model[want]);
		}
	}
	item_done(&it);
}

static int flip(void *data, uint32_t size, void *arg)
{
	unit_fill(data, size, *(uint32_t *)arg);
	return 0;
}

static void one_operation(struct bench *b, struct tree *t, uint32_t keys, uint32_t max_size)
{
	struct key key = key_make(rnd(keys), ITEM_TYPE, rnd(3));
	uint32_t size = rnd(8) == 0 ? rnd(max_size + 1) : rnd(max_size / 16 + 1);
	uint32_t seed = rnd(1u << 30);
	bool exact;
	unsigned at = model_find(&key, &exact);
	unsigned n;

	unit_fill(bytes, size, seed);
	switch (rnd(10)) {
	case 0: case 1: case 2:
		unit_err(tree_insert(&b->tx, t, &key, bytes, size), exact ? -EEXIST : 0);
		if (!exact)
			model_put(at, false, &key, size, seed);
		break;
	case 3:
		unit_ok(tree_put(&b->tx, t, &key, bytes, size));
		model_put(at, exact, &key, size, seed);
		break;
	case 4:
		unit_err(tree_replace(&b->tx, t, &key, bytes, size), exact ? 0 : -ENOENT);
		if (exact)
			model_put(at, true, &key, size, seed);
		break;
	case 5:
		unit_err(tree_edit(&b->tx, t, &key, flip, &seed), exact ? 0 : -ENOENT);
		if (exact)
			model[at].seed = seed;
		break;
	case 6: case 7:
		unit_err(tree_delete(&b->tx, t, &key), exact ? 0 : -ENOENT);
		if (exact)
			model_remove(at, 1);
		break;
	case 8: {
		struct key last = key_make(key.objectid + rnd(20), ITEM_TYPE, rnd(3));

		unit_ok(tree_delete_range(&b->tx, t, &key, &last, 1 + rnd(30), &n));
		for (unsigned i = 0; i < n; i++)
			ck_assert_int_le(key_cmp(&model[at + i].key, &last), 0);
		if (n == 0)
			ck_assert(at == model_count || key_cmp(&model[at].key, &last) > 0);
		model_remove(at, n);
		break;
	}
	default:
		check_seeks(t, &key);
	}
}

static void random_run(uint32_t leafsize, uint32_t nodesize, uint32_t keys, unsigned ops)
{
	struct bench b;
	struct tree *t;

	model_count = 0;
	rnd_state = leafsize * 31 + nodesize + keys;
	bench_open(&b, leafsize, nodesize);
	rcu_thread_enter();
	unit_ok(tree_create(b.env, &b.tx, TREE_ID, false, &t));
	for (unsigned i = 0; i < ops; i++) {
		one_operation(&b, t, keys, tree_max_item_size(b.env));
		if (i % 997 == 996) {
			commit(&b, &t, rnd(2));
			check_all(t);
		}
	}
	/* Empty again: one leaf is left, and no block was lost on the way. */
	while (model_count > 0) {
		struct key key = model[rnd(model_count)].key;
		bool exact;

		unit_ok(tree_delete(&b.tx, t, &key));
		model_remove(model_find(&key, &exact), 1);
	}
	check_all(t);
	commit(&b, &t, true);
	check_all(t);
	ck_assert_uint_le(b.bytes, leafsize + LEVEL_COUNT * nodesize);
	tree_close(t);
	bench_done(&b);
}

START_TEST(random_operations)
{
	static const uint32_t sizes[][2] = { { 4096, 4096 }, { 16384, 16384 }, { 65536, 65536 },
					     { 4096, 65536 }, { 65536, 4096 }, { 4096, 16384 } };

	for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
		random_run(sizes[i][0], sizes[i][1], 4000, 12000);
		random_run(sizes[i][0], sizes[i][1], 60, 3000);
	}
}
END_TEST

/* Ascending inserts fill the leaves that they leave behind. */
START_TEST(ascending_inserts_pack)
{
	struct bench b;
	struct tree *t;
	uint8_t data[100] = {0};

	bench_open(&b, 16384, 16384);
	rcu_thread_enter();
	unit_ok(tree_create(b.env, &b.tx, TREE_ID, false, &t));
	for (uint64_t i = 0; i < 10000; i++) {
		struct item_vec v[2] = { { key_make(i, ITEM_TYPE, 0), data, 100 },
					 { key_make(i, ITEM_TYPE, 1), data, 50 } };

		unit_ok(tree_insert_vec(&b.tx, t, v, 2));
	}
	ck_assert_uint_le(b.bytes, 10000ull * 200 * 105 / 100);
	tree_close(t);
	bench_done(&b);
}
END_TEST

UNIT_MAIN("tree", random_operations, ascending_inserts_pack)
