/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_node.c - one node in memory (btree/node.h) against a sorted array, and its on-disk
 * form, also when somebody spoiled it.
 */
#include "btree/node.h"
#include "io/csum.h"
#include "io/log.h"
#include "tests/unit/unit.h"

#define BYTENR (UINT64_C(1) << 20)
#define OWNER 7u
#define ENTRIES_MAX 3000u

static const uint8_t fsid[UUID_BYTES] = "a filesystem id";
static const uint8_t chunk_uuid[UUID_BYTES] = "a chunk tree id";

struct entry {
	struct key key;
	uint32_t size, seed;
	uint64_t bytenr;
};

static struct entry model[ENTRIES_MAX];
static unsigned count;
static uint64_t state;
static uint8_t data[65536], block[65536], again[65536];

static uint32_t rnd(uint32_t below)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((state >> 33) % below);
}

static unsigned model_find(const struct key *key, bool *ret_exact)
{
	unsigned i = 0;

	while (i < count && key_cmp(&model[i].key, key) < 0)
		i++;
	*ret_exact = i < count && key_equal(&model[i].key, key);
	return i;
}

static void model_insert(unsigned at, struct entry e)
{
	ck_assert_uint_lt(count, ENTRIES_MAX);
	memmove(model + at + 1, model + at, (count - at) * sizeof(*model));
	model[at] = e;
	count++;
}

static void model_remove(unsigned at, unsigned n)
{
	memmove(model + at, model + at + n, (count - at - n) * sizeof(*model));
	count -= n;
}

static void check_entry(const struct node *n, uint32_t slot, const struct entry *e)
{
	ck_assert(key_equal(node_key(n, slot), &e->key));
	if (n->level > 0) {
		ck_assert_uint_eq(node_at(n, slot)->child.bytenr, e->bytenr);
		ck_assert_uint_eq(node_at(n, slot)->child.generation, e->seed);
		return;
	}
	ck_assert_uint_eq(node_at(n, slot)->item.size, e->size);
	unit_fill(data, e->size, e->seed);
	ck_assert(e->size == 0 || memcmp(node_data(n, slot), data, e->size) == 0);
}

static void check_against_model(const struct node *n, unsigned from, unsigned number)
{
	uint32_t packed = sizeof(struct disk_header);

	ck_assert_uint_eq(n->count, number);
	for (uint32_t i = 0; i < number; i++) {
		const struct entry *e = &model[from + i];
		uint32_t slot;

		check_entry(n, i, e);
		packed += n->level > 0 ? NODE_CHILD_BYTES : node_item_bytes(e->size);
		ck_assert(node_search(n, &e->key, &slot));
		ck_assert_uint_eq(slot, i);
	}
	ck_assert_uint_eq(n->packed_bytes, packed);
	ck_assert_uint_le(n->heap_used, n->heap_cap);
}

/* Encoded and decoded it is the same; each byte that matters is where the format wants it. */
static void check_codec(const struct node *n)
{
	const struct disk_header *h = (const void *)block;
	struct node *d;

	node_encode(n, fsid, chunk_uuid, block);
	ck_assert_uint_eq(disk_header_nritems(h), n->count);
	ck_assert_uint_eq(disk_header_flags(h), HEADER_WRITTEN | 1ULL << HEADER_BACKREF_REV_SHIFT);
	ck_assert_int_eq(memcmp(h->fsid, fsid, UUID_BYTES), 0);
	ck_assert_int_eq(memcmp(h->chunk_tree_uuid, chunk_uuid, UUID_BYTES), 0);
	unit_ok(node_decode(block, n->block_bytes, &d));
	ck_assert_uint_eq(d->bytenr, n->bytenr);
	ck_assert_uint_eq(d->generation, n->generation);
	ck_assert_uint_eq(d->owner, n->owner);
	ck_assert_uint_eq(d->level, n->level);
	check_against_model(d, 0, count);
	node_encode(d, fsid, chunk_uuid, again);
	ck_assert_int_eq(memcmp(block, again, n->block_bytes), 0);
	node_free(d);
}

static void insert_one(struct node *n, uint32_t max_size)
{
	struct entry e = { .key = key_make(rnd(300), (unsigned)rnd(3), rnd(4)), .seed = rnd(1u << 20),
			   .size = n->level > 0 ? 0 : rnd(rnd(4) ? max_size / 20 : max_size),
			   .bytenr = (uint64_t)(rnd(1u << 20) + 1) * 4096 };
	uint32_t need = n->level > 0 ? NODE_CHILD_BYTES : node_item_bytes(e.size);
	bool exact;
	unsigned at = model_find(&e.key, &exact);
	uint32_t slot;

	ck_assert(node_search(n, &e.key, &slot) == exact);
	ck_assert_uint_eq(slot, at);
	if (exact || need > node_free_bytes(n))
		return;
	unit_fill(data, e.size, e.seed);
	if (n->level > 0)
		unit_ok(node_insert_child(n, at, &e.key, e.bytenr, e.seed));
	else
		unit_ok(node_insert_item(n, at, &e.key, data, e.size));
	model_insert(at, e);
}

static void change_one(struct node *n, uint32_t max_size)
{
	unsigned at = rnd(count);
	struct entry *e = &model[at];
	uint32_t size = rnd(max_size / 10);

	if (n->level > 0) {
		e->bytenr = (uint64_t)(rnd(1u << 20) + 1) * 4096;
		node_set_child(n, at, e->bytenr, e->seed);
		return;
	}
	if (size > e->size && size - e->size > node_free_bytes(n))
		return;
	e->seed = rnd(1u << 20);
	e->size = size;
	unit_fill(data, size, e->seed);
	unit_ok(node_resize_item(n, at, data, size));
}

/* Parts of a node move to another and back. */
static void move_some(struct node *n)
{
	struct node *other;
	unsigned from = rnd(count), number = rnd(count - from) + 1;

	unit_ok(node_new(BYTENR * 2, n->level, n->block_bytes, OWNER, 10, &other));
	unit_ok(node_move(other, 0, n, from, number));
	check_against_model(other, from, number);
	ck_assert_uint_eq(n->count, count - number);
	unit_ok(node_move(n, from, other, 0, number));
	ck_assert_uint_eq(other->count, 0);
	ck_assert_uint_eq(other->packed_bytes, sizeof(struct disk_header));
	node_free(other);
}

static void copy_it(struct node **n)
{
	struct node *copy;

	unit_ok(node_clone(*n, (*n)->bytenr, OWNER, 11, &copy));
	node_free(*n);
	*n = copy;
}

static void random_run(uint32_t bytes, uint8_t level, unsigned steps)
{
	uint32_t max_size = bytes / 4;
	struct node *n;

	count = 0;
	state = bytes + level;
	unit_ok(node_new(BYTENR, level, bytes, OWNER, 10, &n));
	for (unsigned i = 0; i < steps; i++) {
		unsigned at = count > 0 ? rnd(count) : 0;
		unsigned number = count > 0 ? min_u32(rnd(3) + 1, count - at) : 0;

		switch (rnd(20)) {
		default:
			insert_one(n, max_size);
			break;
		case 0: case 1: case 2: case 3:
			node_remove(n, at, number);
			if (number > 0)
				model_remove(at, number);
			break;
		case 4: case 5: case 6:
			if (count > 0)
				change_one(n, max_size);
			break;
		case 7:
			if (count > 0)
				move_some(n);
			break;
		case 8:
			copy_it(&n);
		}
		if (i % 16 == 0)
			check_against_model(n, 0, count);
		if (i % 64 == 0 && (level == 0 || count > 0))
			check_codec(n);
	}
	node_free(n);
}

START_TEST(random_leaf)
{
	for (uint32_t bytes = 4096; bytes <= 65536; bytes *= 2)
		random_run(bytes, 0, 3000);
}
END_TEST

START_TEST(random_inner)
{
	for (uint32_t bytes = 4096; bytes <= 65536; bytes *= 2)
		random_run(bytes, (uint8_t)(1 + bytes / 32768), 3000);
}
END_TEST

/* A leaf full of empty items and an inner node full of pointers: the most there can be. */
START_TEST(filled_up)
{
	for (uint8_t level = 0; level < 2; level++) {
		struct node *n;
		uint64_t i;

		count = 0;
		unit_ok(node_new(BYTENR, level, 65536, OWNER, 10, &n));
		for (i = 0; node_free_bytes(n) >= (level ? NODE_CHILD_BYTES : node_item_bytes(0)); i++) {
			struct entry e = { .key = key_make(i, 1, 0), .bytenr = (i + 1) * 4096 };

			if (level > 0)
				unit_ok(node_insert_child(n, count, &e.key, e.bytenr, 0));
			else
				unit_ok(node_insert_item(n, count, &e.key, NULL, 0));
			model_insert(count, e);
		}
		ck_assert_uint_eq(i, level ? 1982 : 2617);
		check_codec(n);
		node_free(n);
	}
}
END_TEST

/* --- spoiled blocks ------------------------------------------------------------------------------- */

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

static void build(uint8_t level)
{
	struct node *n;

	unit_ok(node_new(BYTENR, level, 4096, OWNER, 10, &n));
	for (uint64_t i = 0; i < 20; i++) {
		struct key key = key_make(i, 1, 0);

		if (level > 0)
			unit_ok(node_insert_child(n, (uint32_t)i, &key, (i + 1) * 4096, 9));
		else
			unit_ok(node_insert_item(n, (uint32_t)i, &key, data, (uint32_t)i));
	}
	node_encode(n, fsid, chunk_uuid, block);
	node_free(n);
}

static void refused(void)
{
	struct node *n;

	unit_err(node_decode(block, 4096, &n), -EUCLEAN);
}

START_TEST(spoiled_leaf)
{
	struct disk_header *h = (void *)block;
	struct disk_item *item = (void *)(h + 1);

	log_set_sink(quiet, NULL);
	build(0);
	disk_header_set_nritems(h, 160);
	refused();
	build(0);
	disk_header_set_nritems(h, UINT32_MAX);
	refused();
	build(0);
	disk_header_set_level(h, 8);
	refused();
	build(0);
	disk_item_set_offset(&item[3], disk_item_offset(&item[3]) + 1);
	refused();
	build(0);
	disk_item_set_size(&item[3], 4000);
	refused();
	build(0);
	disk_item_set_size(&item[3], UINT32_MAX);
	refused();
	build(0);
	disk_item_set_offset(&item[19], UINT32_MAX);
	refused();
	build(0);
	disk_key_set_objectid(&item[5].key, 4);
	refused();
	build(0);
	disk_key_set_objectid(&item[5].key, 7);
	refused();
	/* Data that reach into the items. */
	build(0);
	disk_item_set_size(&item[19], disk_item_offset(&item[18]) - 20 * 25 + 1);
	disk_item_set_offset(&item[19], 20 * 25 - 1);
	refused();
}
END_TEST

START_TEST(spoiled_inner)
{
	struct disk_header *h = (void *)block;
	struct disk_key_ptr *ptr = (void *)(h + 1);

	log_set_sink(quiet, NULL);
	build(1);
	disk_header_set_nritems(h, 0);
	refused();
	build(1);
	disk_header_set_nritems(h, 122);
	refused();
	build(1);
	disk_key_ptr_set_blockptr(&ptr[19], 0);
	refused();
	build(1);
	disk_key_set_type(&ptr[4].key, 0);
	disk_key_set_objectid(&ptr[4].key, 3);
	refused();
}
END_TEST

/* Random bytes are refused or make a node that is sound. */
START_TEST(random_damage)
{
	log_set_sink(quiet, NULL);
	state = 3;
	for (unsigned i = 0; i < 20000; i++) {
		uint8_t level = (uint8_t)rnd(2);
		struct node *n;

		build(level);
		for (unsigned k = rnd(3) + 1; k > 0; k--)
			block[96 + rnd(700)] = (uint8_t)rnd(256);
		if (node_decode(block, 4096, &n) < 0)
			continue;
		ck_assert_uint_le(n->packed_bytes, 4096);
		for (uint32_t s = 0; s < n->count && n->level == 0; s++)
			ck_assert_uint_le(node_at(n, s)->item.off + node_at(n, s)->item.size,
					  n->heap_used);
		node_encode(n, fsid, chunk_uuid, again);
		node_free(n);
	}
}
END_TEST

UNIT_MAIN("node", random_leaf, random_inner, filled_up, spoiled_leaf, spoiled_inner, random_damage)
