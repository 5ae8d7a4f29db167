/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_tree.c - trees (btree/tree.h) against a sorted array, at all block sizes, through
 * commits and reopening; space comes from a counter.
 */
#include "btree/tree.h"
#include "io/csum.h"
#include "io/log.h"
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

/* --- memory ---------------------------------------------------------------------------------------- */

#define BIG_ITEMS 60000u
#define FLAT_ITEMS 15000u	/* one inner node suffices */
#define BIG_BYTES 300u
#define CACHE_FLOOR (8u << 20)	/* the least that an environment grants itself */

static struct tree *big_tree(struct bench *b, uint64_t items)
{
	struct tree *t;

	bench_open(b, 16384, 16384);
	rcu_thread_enter();
	unit_ok(tree_create(b->env, &b->tx, TREE_ID, false, &t));
	for (uint64_t i = 0; i < items; i++) {
		struct key key = key_make(i, ITEM_TYPE, 0);

		unit_fill(bytes, BIG_BYTES, i);
		unit_ok(tree_insert(&b->tx, t, &key, bytes, BIG_BYTES));
	}
	commit(b, &t, true);
	return t;
}

static void check_big(struct tree *t, uint64_t i)
{
	struct key key = key_make(i, ITEM_TYPE, 0);
	uint8_t got[BIG_BYTES], want[BIG_BYTES];

	unit_fill(want, BIG_BYTES, i);
	unit_ok(tree_get_fixed(t, &key, got, BIG_BYTES));
	ck_assert_int_eq(memcmp(got, want, BIG_BYTES), 0);
}

/* A tree of twice the limit is read in all orders; what is in memory stays below the limit. */
START_TEST(cache_has_a_limit)
{
	struct bench b;
	struct tree *t = big_tree(&b, BIG_ITEMS);

	rnd_state = 1;
	for (unsigned i = 0; i < BIG_ITEMS; i++) {
		check_big(t, i % 2 ? i : rnd(BIG_ITEMS));
		if (i % 1000 == 0)
			ck_assert_uint_le(tree_env_cache_bytes(b.env), CACHE_FLOOR);
	}
	ck_assert_uint_ge(tree_env_cache_bytes(b.env), CACHE_FLOOR / 2);
	tree_close(t);
	bench_done(&b);
}
END_TEST

struct reader_arg {
	struct tree *t;
	uint64_t seed;
	_Atomic bool *stop;
	_Atomic uint64_t bad;
};

/* Items below BIG_ITEMS never change; those above come and go, but are whole when they are there. */
static void *read_on(void *arg)
{
	struct reader_arg *a = arg;
	uint64_t seed = a->seed;

	while (!*a->stop) {
		struct key key;
		uint8_t got[BIG_BYTES], want[BIG_BYTES];
		uint64_t i;
		int err;

		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		i = (seed >> 33) % (2 * BIG_ITEMS);
		key = key_make(i, ITEM_TYPE, 0);
		err = tree_get_fixed(a->t, &key, got, BIG_BYTES);
		unit_fill(want, BIG_BYTES, i);
		if (err == 0 ? memcmp(got, want, BIG_BYTES) != 0 : err != -ENOENT || i < BIG_ITEMS)
			a->bad++;
	}
	return NULL;
}

/* Readers go on while the tree changes, commits, and leaves memory. */
START_TEST(readers_beside_a_writer)
{
	enum { READERS = 3 };
	struct bench b;
	struct tree *t = big_tree(&b, BIG_ITEMS);
	_Atomic bool stop = false;
	struct reader_arg args[READERS];
	pthread_t threads[READERS];

	for (unsigned i = 0; i < READERS; i++) {
		args[i] = (struct reader_arg){ .t = t, .seed = i, .stop = &stop };
		ck_assert_int_eq(pthread_create(&threads[i], NULL, read_on, &args[i]), 0);
	}
	rnd_state = 2;
	for (unsigned i = 0; i < 30000; i++) {
		uint64_t n = BIG_ITEMS + rnd(BIG_ITEMS);
		struct key key = key_make(n, ITEM_TYPE, 0);
		int err;

		unit_fill(bytes, BIG_BYTES, n);
		err = rnd(3) ? tree_put(&b.tx, t, &key, bytes, BIG_BYTES)
			     : tree_delete(&b.tx, t, &key);
		ck_assert(err == 0 || err == -ENOENT);
		if (i % 3000 == 0)
			commit(&b, &t, false);
	}
	stop = true;
	for (unsigned i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
		ck_assert_uint_eq(args[i].bad, 0);
	}
	tree_close(t);
	bench_done(&b);
}
END_TEST

/* --- damage ---------------------------------------------------------------------------------------- */

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

/* The first child of the root, as it is on disk. */
static uint64_t first_child(struct bench *b, struct tree *t, uint8_t *root_buf)
{
	struct tree_root root = tree_root(t);
	const struct disk_key_ptr *ptr = (const void *)(root_buf + sizeof(struct disk_header));

	ck_assert_uint_eq(root.level, 1);
	unit_ok(volume_read(b->vol, root.bytenr, root_buf, b->nodesize, 0));
	return disk_key_ptr_blockptr(&ptr[0]);
}

static void write_block(struct bench *b, uint64_t bytenr, uint8_t *buf, uint32_t len, bool checksum)
{
	if (checksum)
		csum_header_set(b->vol->params.csum_type, buf, len);
	unit_ok(volume_write(b->vol, bytenr, buf, len));
}

/* A leaf spoiled in one way, with its checksum made right, is never taken for what it was. */
START_TEST(damaged_leaf)
{
	static uint8_t root_buf[16384], good[16384], leaf[16384];
	struct disk_header *h = (void *)leaf;
	struct disk_item *item = (void *)(leaf + sizeof(*h));
	struct bench b;
	struct tree *t = big_tree(&b, FLAT_ITEMS);
	uint64_t child;

	log_set_sink(quiet, NULL);
	child = first_child(&b, t, root_buf);
	unit_ok(volume_read(b.vol, child, good, sizeof(good), 0));
	for (unsigned what = 0; what < 8; what++) {
		struct key key = key_make(1, ITEM_TYPE, 0);
		uint8_t got[BIG_BYTES];

		memcpy(leaf, good, sizeof(leaf));
		switch (what) {
		case 0: leaf[5000] ^= 1; break;	/* the checksum stays wrong */
		case 1: h->fsid[3] ^= 1; break;
		case 2: disk_header_set_bytenr(h, child + 16384); break;
		case 3: disk_header_set_generation(h, disk_header_generation(h) - 1); break;
		case 4: disk_header_set_owner(h, TREE_ID + 1); break;
		case 5: disk_header_set_level(h, 1); break;
		case 6: disk_header_set_nritems(h, 0); break;
		case 7: disk_key_set_type(&item[0].key, ITEM_TYPE - 1); break;
		}
		write_block(&b, child, leaf, sizeof(leaf), what != 0);
		unit_err(tree_get_fixed(t, &key, got, BIG_BYTES), -EUCLEAN);
		write_block(&b, child, good, sizeof(good), false);
		unit_ok(tree_get_fixed(t, &key, got, BIG_BYTES));
		commit(&b, &t, true);
	}
	tree_close(t);
	bench_done(&b);
}
END_TEST

/* Pointers that lead to a block which is sound, but another one. */
START_TEST(damaged_pointers)
{
	static uint8_t root_buf[16384];
	struct disk_key_ptr *ptr = (void *)(root_buf + sizeof(struct disk_header));
	struct bench b;
	struct tree *t = big_tree(&b, FLAT_ITEMS);
	struct tree_root root = tree_root(t);

	log_set_sink(quiet, NULL);
	for (unsigned what = 0; what < 4; what++) {
		struct key key = key_make(0, ITEM_TYPE, 0);
		struct key key2;
		uint8_t got[BIG_BYTES], save[sizeof(*ptr)];

		first_child(&b, t, root_buf);
		key2 = key_from_disk(&ptr[2].key);
		memcpy(save, &ptr[2], sizeof(save));
		switch (what) {
		case 0: disk_key_ptr_set_blockptr(&ptr[2], disk_key_ptr_blockptr(&ptr[0])); break;
		case 1: disk_key_ptr_set_blockptr(&ptr[2], root.bytenr); break;
		case 2: disk_key_ptr_set_blockptr(&ptr[2], UINT64_C(1) << 50); break;
		case 3: disk_key_ptr_set_generation(&ptr[2], 1); break;
		}
		write_block(&b, root.bytenr, root_buf, sizeof(root_buf), true);
		/* With the other block in memory, and without. */
		unit_ok(tree_get_fixed(t, &key, got, BIG_BYTES));
		unit_err(tree_get_fixed(t, &key2, got, BIG_BYTES), -EUCLEAN);
		unit_ok(tree_get_fixed(t, &key, got, BIG_BYTES));
		commit(&b, &t, true);
		unit_err(tree_get_fixed(t, &key2, got, BIG_BYTES), -EUCLEAN);
		memcpy(&ptr[2], save, sizeof(save));
		write_block(&b, root.bytenr, root_buf, sizeof(root_buf), true);
		commit(&b, &t, true);
	}
	tree_close(t);
	bench_done(&b);
}
END_TEST

UNIT_MAIN("tree", random_operations, ascending_inserts_pack, cache_has_a_limit, readers_beside_a_writer,
	  damaged_leaf, damaged_pointers)
