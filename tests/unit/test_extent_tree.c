/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_extent_tree.c - references applied to the extent tree (alloc/extent_tree.h,
 * alloc/backref.h, alloc/csum_cut.h, alloc/ref_run.c), against a model.
 */
#include "alloc/csum_cut.h"
#include "alloc/extent_tree.h"
#include "io/csum.h"
#include "io/format.h"
#include "io/log.h"
#include "tests/unit/fake_space.h"
#include "tests/unit/unit.h"

static void ignore_line(enum log_level level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

static struct extent_ref data_ref(uint64_t bytenr, uint64_t len, uint64_t objectid, uint64_t offset)
{
	return (struct extent_ref){.bytenr = bytenr, .len = len, .root = 5, .objectid = objectid,
				   .offset = offset, .count = 1, .type = KEY_EXTENT_DATA_REF};
}

static struct delayed_ref id_of(const struct extent_ref *ref)
{
	struct delayed_ref id = {.type = ref->type};

	id.anchor = ref->type == KEY_SHARED_DATA_REF || ref->type == KEY_SHARED_BLOCK_REF
			    ? ref->parent : ref->root;
	if (ref->type == KEY_EXTENT_DATA_REF) {
		id.objectid = ref->objectid;
		id.offset = ref->offset;
	}
	return id;
}

/* The items of one address other than block group items. */
static unsigned items_at(struct fake_fs *fs, uint64_t bytenr)
{
	scoped(fake_items_done) struct fake_items all = fake_items_of(fs->trees.extent, bytenr);
	unsigned n = 0;

	for (unsigned i = 0; i < all.count; i++) {
		const struct key *key = &all.items[i].key;

		n += key->type != KEY_BLOCK_GROUP_ITEM;
	}
	return n;
}

static void life_of_data(bool skinny, bool fst)
{
	struct fake_fs *fs = fake_new(skinny, fst);
	uint64_t bytenr;
	struct extent_ref a, b;
	struct delayed_ref id;

	unit_ok(fake_commit(fs));
	fake_check(fs);
	bytenr = fake_alloc(fs, 5 * FAKE_SECTOR);
	a = data_ref(bytenr, 5 * FAKE_SECTOR, 257, 0);
	b = data_ref(bytenr, 5 * FAKE_SECTOR, 258, UINT64_MAX - 4095);
	unit_ok(space_add_ref(&fs->sp, &fs->tx, &a, true));
	unit_ok(space_add_ref(&fs->sp, &fs->tx, &b, false));
	unit_ok(fake_commit(fs));
	fake_check(fs);
	id = id_of(&a);
	ck_assert_uint_eq(fake_count(fs, bytenr, &id), 1);
	id = id_of(&b);
	ck_assert_uint_eq(fake_count(fs, bytenr, &id), 1);

	b.count = 3;
	unit_ok(space_add_ref(&fs->sp, &fs->tx, &b, false));
	unit_ok(space_drop_ref(&fs->sp, &fs->tx, &a));
	unit_ok(fake_commit(fs));
	fake_check(fs);
	ck_assert_uint_eq(fake_count(fs, bytenr, &id), 4);
	ck_assert_uint_eq(items_at(fs, bytenr), 1);

	b.count = 4;
	unit_ok(space_drop_ref(&fs->sp, &fs->tx, &b));
	unit_ok(fake_commit(fs));
	fake_check(fs);
	ck_assert_uint_eq(items_at(fs, bytenr), 0);
	fake_free(fs);
}

START_TEST(test_life_of_data)
{
	life_of_data(true, true);
	life_of_data(true, false);
	life_of_data(false, true);
}
END_TEST

START_TEST(test_overflow_and_back)
{
	struct fake_fs *fs = fake_new(true, true);
	uint64_t bytenr = fake_alloc(fs, FAKE_SECTOR);

	for (unsigned i = 0; i < 100; i++) {
		struct extent_ref ref = data_ref(bytenr, FAKE_SECTOR, 257 + i, 0);

		unit_ok(space_add_ref(&fs->sp, &fs->tx, &ref, i == 0));
		if (i % 7 == 0) {
			unit_ok(fake_commit(fs));
			fake_check(fs);
		}
	}
	unit_ok(fake_commit(fs));
	fake_check(fs);
	ck_assert_uint_gt(items_at(fs, bytenr), 90);
	for (unsigned i = 0; i < 100; i++) {
		struct extent_ref ref = data_ref(bytenr, FAKE_SECTOR, 257 + i * 37 % 100, 0);

		unit_ok(space_drop_ref(&fs->sp, &fs->tx, &ref));
		if (i % 7 == 0) {
			unit_ok(fake_commit(fs));
			fake_check(fs);
		}
	}
	unit_ok(fake_commit(fs));
	fake_check(fs);
	ck_assert_uint_eq(items_at(fs, bytenr), 0);
	fake_free(fs);
}
END_TEST

/*
 * An offset with which inode `objectid` has the hash `want` in root 5: the hash is linear in the bits
 * of the offset, so a set of bits with independent effects is reduced to the wanted change.
 */
static uint64_t colliding_offset(uint64_t objectid, uint64_t want)
{
	uint64_t zero = hash_extent_data_ref(5, objectid, 0);
	uint64_t effect[64] = {0}, bits[64] = {0}, offset = 0, change = want ^ zero;

	for (unsigned b = 12; b < 64; b++) {
		uint64_t e = hash_extent_data_ref(5, objectid, 1ULL << b) ^ zero;
		uint64_t set = 1ULL << b;

		while (e != 0) {
			unsigned top = 63 - (unsigned)__builtin_clzll(e);

			if (effect[top] == 0) {
				effect[top] = e;
				bits[top] = set;
				break;
			}
			e ^= effect[top];
			set ^= bits[top];
		}
	}
	while (change != 0) {
		unsigned top = 63 - (unsigned)__builtin_clzll(change);

		ck_assert_uint_ne(effect[top], 0);
		change ^= effect[top];
		offset ^= bits[top];
	}
	ck_assert_uint_eq(hash_extent_data_ref(5, objectid, offset), want);
	return offset;
}

START_TEST(test_hash_collisions)
{
	struct fake_fs *fs = fake_new(true, true);
	uint64_t bytenr = fake_alloc(fs, FAKE_SECTOR), want = hash_extent_data_ref(5, 1000, 0);
	struct extent_ref ref[8];

	/* Enough others that there is no room inline. */
	for (unsigned i = 0; i < 20; i++) {
		struct extent_ref other = data_ref(bytenr, FAKE_SECTOR, 300 + i, 0);

		unit_ok(space_add_ref(&fs->sp, &fs->tx, &other, i == 0));
	}
	unit_ok(fake_commit(fs));
	for (unsigned i = 0; i < 8; i++) {
		ref[i] = data_ref(bytenr, FAKE_SECTOR, 1000 + i, colliding_offset(1000 + i, want));
		ref[i].count = i + 1;
		unit_ok(space_add_ref(&fs->sp, &fs->tx, &ref[i], false));
	}
	unit_ok(fake_commit(fs));
	fake_check(fs);
	for (unsigned i = 0; i < 8; i++) {
		struct delayed_ref id = id_of(&ref[i]);

		ck_assert_uint_eq(fake_count(fs, bytenr, &id), i + 1);
	}
	/* From the front, so that each one dropped leaves a gap before the others. */
	for (unsigned i = 0; i < 8; i++) {
		unit_ok(space_drop_ref(&fs->sp, &fs->tx, &ref[i]));
		unit_ok(fake_commit(fs));
		fake_check(fs);
	}
	log_set_sink(ignore_line, NULL);
	unit_ok(space_drop_ref(&fs->sp, &fs->tx, &ref[3]));
	unit_err(fake_commit(fs), -EUCLEAN);
	fake_free(fs);
}
END_TEST

static void drop_unknown(struct extent_ref ref)
{
	struct fake_fs *fs = fake_new(true, true);
	uint64_t bytenr = fake_alloc(fs, FAKE_SECTOR);
	struct extent_ref good = data_ref(bytenr, FAKE_SECTOR, 257, 0);

	ref.bytenr = bytenr;
	unit_ok(space_add_ref(&fs->sp, &fs->tx, &good, true));
	unit_ok(fake_commit(fs));
	unit_ok(space_drop_ref(&fs->sp, &fs->tx, &ref));
	unit_err(fake_commit(fs), -EUCLEAN);
	fake_free(fs);
}

START_TEST(test_wrong_changes)
{
	struct extent_ref ref = data_ref(0, FAKE_SECTOR, 258, 0);

	log_set_sink(ignore_line, NULL);
	drop_unknown(ref);
	ref = data_ref(0, FAKE_SECTOR, 257, 0);
	ref.count = 2;
	drop_unknown(ref);
	ref = data_ref(0, 2 * FAKE_SECTOR, 257, 0);
	drop_unknown(ref);
	ref = (struct extent_ref){.type = KEY_TREE_BLOCK_REF, .root = 5, .len = FAKE_LEAF, .count = 1};
	drop_unknown(ref);
}
END_TEST

/* A model: counts of MODEL_REFS identities for MODEL_EXTENTS extents. */
#define MODEL_EXTENTS 40u
#define MODEL_REFS 60u

struct model {
	struct fake_fs *fs;
	uint64_t bytenr[MODEL_EXTENTS];
	uint32_t count[MODEL_EXTENTS][MODEL_REFS];
	uint64_t seed;
};

static uint32_t draw(struct model *m, uint32_t below)
{
	m->seed = m->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(m->seed >> 33) % below;
}

static struct extent_ref model_ref(struct model *m, unsigned e, unsigned r)
{
	struct extent_ref ref = data_ref(m->bytenr[e], (e % 5 + 1) * FAKE_SECTOR, 257 + r / 4,
					 (r % 4) * 4096);

	if (r % 3 == 0) {
		ref.type = KEY_SHARED_DATA_REF;
		ref.parent = (uint64_t)(r + 1) << 16;
	}
	return ref;
}

static void model_step(struct model *m)
{
	unsigned e = draw(m, MODEL_EXTENTS), r = draw(m, MODEL_REFS);
	bool fresh = m->bytenr[e] == 0;
	struct extent_ref ref;

	if (fresh)
		m->bytenr[e] = fake_alloc(m->fs, (e % 5 + 1) * FAKE_SECTOR);
	ref = model_ref(m, e, r);
	if (!fresh && draw(m, 16) == 0) {
		/* All references of the extent go. */
		for (r = 0; r < MODEL_REFS; r++) {
			ref = model_ref(m, e, r);
			ref.count = m->count[e][r];
			if (ref.count > 0)
				unit_ok(space_drop_ref(&m->fs->sp, &m->fs->tx, &ref));
			m->count[e][r] = 0;
		}
		m->bytenr[e] = 0;
	} else if (fresh || m->count[e][r] == 0 || draw(m, 2) == 0) {
		ref.count = 1 + draw(m, 3);
		unit_ok(space_add_ref(&m->fs->sp, &m->fs->tx, &ref, fresh));
		m->count[e][r] += ref.count;
	} else {
		uint64_t all = 0;

		for (unsigned i = 0; i < MODEL_REFS; i++)
			all += m->count[e][i];
		ref.count = 1 + draw(m, m->count[e][r]);
		if (all == ref.count)
			return;
		unit_ok(space_drop_ref(&m->fs->sp, &m->fs->tx, &ref));
		m->count[e][r] -= ref.count;
	}
}

static void model_compare(struct model *m)
{
	for (unsigned e = 0; e < MODEL_EXTENTS; e++) {
		scoped(fake_items_done) struct fake_items all =
			fake_items_of(m->fs->trees.extent, m->bytenr[e]);

		for (unsigned r = 0; r < MODEL_REFS && m->bytenr[e] != 0; r++) {
			struct extent_ref ref = model_ref(m, e, r);
			struct delayed_ref id = id_of(&ref);

			ck_assert_uint_eq(fake_items_count(&all, &id), m->count[e][r]);
		}
	}
}

static void run_model(bool fst, uint64_t seed)
{
	struct model *m = calloc(1, sizeof(*m));

	ck_assert_ptr_nonnull(m);
	m->fs = fake_new(true, fst);
	m->seed = seed;
	for (unsigned round = 0; round < 60; round++) {
		unsigned steps = draw(m, 100);

		for (unsigned i = 0; i < steps; i++)
			model_step(m);
		unit_ok(fake_commit(m->fs));
		fake_check(m->fs);
	}
	model_compare(m);
	fake_free(m->fs);
	free(m);
}

START_TEST(test_model)
{
	for (uint64_t seed = 1; seed < 4; seed++)
		run_model(seed % 2 == 0, seed);
}
END_TEST

static void block_questions(bool skinny)
{
	const struct space_ops *ops = &space_tree_ops;
	struct fake_fs *fs = fake_new(skinny, true);
	uint64_t bytenr, refs, flags, free_at;
	struct extent_ref own, parent;

	unit_ok(ops->alloc_block(&fs->sp, &fs->tx, 5, 2, 0, &bytenr));
	own = (struct extent_ref){.bytenr = bytenr, .len = FAKE_LEAF, .root = 5, .level = 2,
				  .count = 1, .type = KEY_TREE_BLOCK_REF};
	parent = (struct extent_ref){.bytenr = bytenr, .len = FAKE_LEAF, .parent = 1 << 22,
				     .level = 2, .count = 1, .type = KEY_SHARED_BLOCK_REF};
	for (unsigned committed = 0; committed < 2; committed++) {
		unit_ok(ops->block_info(&fs->sp, bytenr, 2, &refs, &flags));
		ck_assert_uint_eq(refs, 1);
		ck_assert_uint_eq(flags, 0);
		unit_ok(fake_commit(fs));
	}
	unit_ok(ops->inc_ref(&fs->sp, &fs->tx, &parent));
	unit_ok(ops->set_block_flags(&fs->sp, &fs->tx, bytenr, 2, EXTENT_FLAG_FULL_BACKREF));
	for (unsigned committed = 0; committed < 2; committed++) {
		unit_ok(ops->block_info(&fs->sp, bytenr, 2, &refs, &flags));
		ck_assert_uint_eq(refs, 2);
		ck_assert_uint_eq(flags, EXTENT_FLAG_FULL_BACKREF);
		unit_ok(fake_commit(fs));
		fake_check(fs);
	}
	/* Who asks without the tree's lock may come too late: no references, and no error. */
	unit_ok(ops->free_block(&fs->sp, &fs->tx, &own, 10));
	unit_ok(ops->dec_ref(&fs->sp, &fs->tx, &parent));
	for (unsigned committed = 0; committed < 2; committed++) {
		unit_ok(ops->block_info(&fs->sp, bytenr, 2, &refs, &flags));
		ck_assert_uint_eq(refs, 0);
		unit_ok(fake_commit(fs));
		fake_check(fs);
	}
	ck_assert_uint_eq(items_at(fs, bytenr), 0);

	/* Made and freed in one transaction: its address can be had again at once. */
	unit_ok(ops->alloc_block(&fs->sp, &fs->tx, 5, 0, 0, &bytenr));
	own.bytenr = bytenr;
	own.level = 0;
	unit_ok(ops->free_block(&fs->sp, &fs->tx, &own, fs->tx.transid));
	ck_assert_uint_eq(space_pending_refs(&fs->sp), 0);
	unit_ok(ops->alloc_block(&fs->sp, &fs->tx, 5, 0, 0, &free_at));
	ck_assert_uint_eq(free_at, bytenr);
	fake_free(fs);
}

START_TEST(test_block_questions)
{
	block_questions(true);
	block_questions(false);
}
END_TEST

START_TEST(test_unshared)
{
	struct fake_fs *fs = fake_new(true, true);
	uint64_t len = 4 * FAKE_SECTOR, bytenr = fake_alloc(fs, len), born = fs->tx.transid;
	struct extent_ref a = data_ref(bytenr, len, 257, 0), b = data_ref(bytenr, len, 258, 0);

#define UNSHARED(snapshot) space_extent_unshared(&fs->sp, &fs->tx, bytenr, len, 5, 257, (snapshot))
	a.count = 2;
	unit_ok(space_add_ref(&fs->sp, &fs->tx, &a, true));
	ck_assert_int_eq(UNSHARED(0), 1);
	ck_assert_int_eq(UNSHARED(born), 0);
	unit_ok(fake_commit(fs));
	ck_assert_int_eq(UNSHARED(born - 1), 1);
	ck_assert_int_eq(UNSHARED(born), 0);
	unit_ok(space_add_ref(&fs->sp, &fs->tx, &b, false));
	ck_assert_int_eq(UNSHARED(0), 0);
	unit_ok(fake_commit(fs));
	ck_assert_int_eq(UNSHARED(0), 0);
	unit_ok(space_drop_ref(&fs->sp, &fs->tx, &b));
	ck_assert_int_eq(UNSHARED(0), 1);
	log_set_sink(ignore_line, NULL);
	bytenr += FAKE_SECTOR;
	ck_assert_int_eq(UNSHARED(0), -EUCLEAN);
#undef UNSHARED
	fake_free(fs);
}
END_TEST

/* Checksums of sectors [0, CUT_SECTORS) as items of random lengths, then random cuts. */
#define CUT_SECTORS 200u

static void csum_items(struct model *m, const uint8_t *there)
{
	scoped(fake_items_done) struct fake_items all = fake_items(m->fs->trees.csum);
	uint8_t seen[CUT_SECTORS] = {0};
	uint64_t end = 0;

	for (unsigned i = 0; i < all.count; i++) {
		const struct item *it = &all.items[i];

		ck_assert_uint_ge(it->key.offset, end);
		ck_assert_uint_gt(it->size, 0);
		for (uint32_t c = 0; c < it->size / 4; c++) {
			uint64_t sector = it->key.offset / FAKE_SECTOR + c;

			ck_assert_uint_eq(it->data[4 * c], sector & 0xff);
			seen[sector] = 1;
		}
		end = it->key.offset + it->size / 4 * FAKE_SECTOR;
	}
	ck_assert_mem_eq(seen, there, CUT_SECTORS);
}

START_TEST(test_csum_cut)
{
	struct model m = {.fs = fake_new(true, true), .seed = 3};
	uint8_t there[CUT_SECTORS], data[CUT_SECTORS * 4];

	for (unsigned i = 0; i < CUT_SECTORS; i++)
		memset(data + 4 * i, (int)i, 4);
	memset(there, 1, sizeof(there));
	for (unsigned at = 0, n; at < CUT_SECTORS; at += n) {
		struct key key = key_make(OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, (uint64_t)at * FAKE_SECTOR);

		n = min_u32(1 + draw(&m, 20), CUT_SECTORS - at);
		unit_ok(tree_insert(&m.fs->tx, m.fs->trees.csum, &key, data + 4 * at, 4 * n));
	}
	csum_items(&m, there);
	for (unsigned i = 0; i < 100; i++) {
		unsigned at = draw(&m, CUT_SECTORS), n = min_u32(1 + draw(&m, 30), CUT_SECTORS - at);

		if (i % 2 == 0)
			n = 1;
		unit_ok(csum_cut(&m.fs->tx, m.fs->trees.csum, FAKE_SECTOR, 4,
				 (uint64_t)at * FAKE_SECTOR, (uint64_t)n * FAKE_SECTOR));
		memset(there + at, 0, n);
		csum_items(&m, there);
	}
	fake_free(m.fs);
}
END_TEST

START_TEST(test_damaged_items)
{
	struct key key = key_make(1 << 20, KEY_EXTENT_ITEM, 4096);
	scoped(image_done) struct extent_image im;
	struct delayed_ref id = {.type = KEY_EXTENT_DATA_REF, .anchor = 5, .count = 1};
	uint8_t good[256];
	uint32_t size;

	log_set_sink(ignore_line, NULL);
	image_init(&im);
	unit_ok(image_create(&im, &key, 7, EXTENT_FLAG_DATA, false, 0));
	unit_ok(image_insert_ref(&im, im.size, &id));
	im.refs = 1;
	image_store_head(&im);
	size = im.size;
	memcpy(good, im.data, size);
	unit_ok(image_load(&im, &key, good, size));
	for (uint32_t n = 0; n < size; n++)
		if (n != sizeof(struct disk_extent_item))
			unit_err(image_load(&im, &key, good, n), -EUCLEAN);
	for (uint32_t i = 0; i < size; i++) {
		for (unsigned v = 0; v < 256; v++) {
			uint8_t bad[256];

			memcpy(bad, good, size);
			bad[i] = (uint8_t)v;
			/* Whatever it says, it must not reach outside of the item. */
			(void)image_load(&im, &key, bad, size);
		}
	}
}
END_TEST

UNIT_MAIN("extent_tree", test_life_of_data, test_overflow_and_back, test_hash_collisions,
	  test_wrong_changes, test_model, test_block_questions, test_unshared, test_csum_cut,
	  test_damaged_items)
