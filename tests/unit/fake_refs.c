/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_refs.c - see fake_refs.h. A table of lists, one list an address.
 */
#include "tests/unit/fake_refs.h"

#include "io/format.h"
#include "tests/unit/unit.h"

#define BUCKETS 65536u

struct fake_ref {
	struct fake_ref *next;
	uint64_t bytenr, anchor, objectid, offset;
	int64_t count;
	int64_t expected;		/* by the walk */
	uint8_t type;
};

struct fake_extent {
	struct fake_extent *next;
	uint64_t bytenr, len, flags;
	struct fake_ref *refs;
	uint8_t level;
	bool data;
};

struct fake_refs {
	struct fake_extent *table[BUCKETS];
	uint64_t at;
	uint32_t leafsize, nodesize;
	unsigned count;
};

static struct fake_refs *of(struct space *sp)
{
	return (struct fake_refs *)(void *)sp;
}

struct fake_refs *fake_refs_new(uint64_t first, uint32_t leafsize, uint32_t nodesize)
{
	struct fake_refs *r = calloc(1, sizeof(*r));

	ck_assert_ptr_nonnull(r);
	r->at = first;
	r->leafsize = leafsize;
	r->nodesize = nodesize;
	return r;
}

static void free_refs(struct fake_extent *e)
{
	while (e->refs != NULL) {
		struct fake_ref *f = e->refs;

		e->refs = f->next;
		free(f);
	}
}

void fake_refs_free(struct fake_refs *r)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		while (r->table[i] != NULL) {
			struct fake_extent *e = r->table[i];

			r->table[i] = e->next;
			free_refs(e);
			free(e);
		}
	}
	free(r);
}

static struct fake_extent **slot_of(struct fake_refs *r, uint64_t bytenr)
{
	struct fake_extent **p = &r->table[(bytenr >> 12) % BUCKETS];

	while (*p != NULL && (*p)->bytenr != bytenr)
		p = &(*p)->next;
	return p;
}

static struct fake_extent *find(struct fake_refs *r, uint64_t bytenr)
{
	struct fake_extent *e = *slot_of(r, bytenr);

	ck_assert_msg(e != NULL, "no extent at %llu", (unsigned long long)bytenr);
	return e;
}

static struct fake_extent *add_extent(struct fake_refs *r, uint64_t len)
{
	struct fake_extent *e = calloc(1, sizeof(*e));
	struct fake_extent **slot;

	ck_assert_ptr_nonnull(e);
	r->at = align_up(r->at, len);
	e->bytenr = r->at;
	e->len = len;
	r->at += len;
	r->count++;
	slot = slot_of(r, e->bytenr);
	ck_assert_ptr_null(*slot);
	*slot = e;
	return e;
}

static struct fake_ref *get_ref(struct fake_refs *r, const struct extent_ref *ref)
{
	struct fake_extent *e = find(r, ref->bytenr);
	bool shared = ref->type == KEY_SHARED_BLOCK_REF || ref->type == KEY_SHARED_DATA_REF;
	bool data = ref->type == KEY_EXTENT_DATA_REF || ref->type == KEY_SHARED_DATA_REF;
	struct fake_ref *f;
	struct fake_ref want = { .bytenr = ref->bytenr, .type = ref->type,
				 .anchor = shared ? ref->parent : ref->root };

	ck_assert(e->data == data && e->len == ref->len && (data || e->level == ref->level));
	if (ref->type == KEY_EXTENT_DATA_REF) {
		want.objectid = ref->objectid;
		want.offset = ref->offset;
	}
	for (f = e->refs; f != NULL; f = f->next)
		if (f->type == want.type && f->anchor == want.anchor &&
		    f->objectid == want.objectid && f->offset == want.offset)
			return f;
	f = malloc(sizeof(*f));
	ck_assert_ptr_nonnull(f);
	*f = want;
	f->next = e->refs;
	e->refs = f;
	return f;
}

static uint64_t sum(const struct fake_extent *e)
{
	int64_t n = 0;

	for (const struct fake_ref *f = e->refs; f != NULL; f = f->next)
		n += f->count;
	ck_assert_int_ge(n, 0);
	return (uint64_t)n;
}

static void change(struct fake_refs *r, const struct extent_ref *ref, int64_t n)
{
	struct fake_ref *f = get_ref(r, ref);
	struct fake_extent **slot = slot_of(r, ref->bytenr);
	struct fake_extent *e = *slot;

	f->count += n;
	ck_assert_msg(f->count >= 0, "reference of type %u from %llu to %llu dropped, but not there",
		      ref->type, (unsigned long long)f->anchor, (unsigned long long)ref->bytenr);
	if (sum(e) > 0)
		return;
	*slot = e->next;
	free_refs(e);
	free(e);
	r->count--;
}

static int fake_alloc(struct space *sp, struct txn_handle *tx, uint64_t root, uint8_t level,
		      uint64_t hint, uint64_t *ret_bytenr)
{
	struct fake_refs *r = of(sp);
	uint32_t len = level == 0 ? r->leafsize : r->nodesize;
	struct fake_extent *e = add_extent(r, len);
	struct extent_ref ref = { .bytenr = e->bytenr, .len = len, .type = KEY_TREE_BLOCK_REF,
				  .root = root, .level = level };

	(void)tx, (void)hint;
	e->level = level;
	change(r, &ref, 1);
	*ret_bytenr = e->bytenr;
	return 0;
}

static int fake_drop_block(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref,
			   uint64_t generation)
{
	(void)tx, (void)generation;
	change(of(sp), ref, -1);
	return 0;
}

static int fake_inc(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref)
{
	(void)tx;
	change(of(sp), ref, ref->count);
	return 0;
}

static int fake_dec(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref)
{
	(void)tx;
	change(of(sp), ref, -(int64_t)ref->count);
	return 0;
}

static int fake_info(struct space *sp, uint64_t bytenr, uint8_t level, uint64_t *ret_refs,
		     uint64_t *ret_flags)
{
	struct fake_extent *e = find(of(sp), bytenr);

	ck_assert_uint_eq(e->level, level);
	*ret_refs = sum(e);
	*ret_flags = e->flags;
	return 0;
}

static int fake_set_flags(struct space *sp, struct txn_handle *tx, uint64_t bytenr, uint8_t level,
			  uint64_t flags)
{
	struct fake_extent *e = find(of(sp), bytenr);

	(void)tx;
	ck_assert_uint_eq(e->level, level);
	e->flags |= flags;
	return 0;
}

const struct space_ops fake_refs_ops = {
	.alloc_block = fake_alloc,
	.free_block = fake_drop_block,
	.inc_ref = fake_inc,
	.dec_ref = fake_dec,
	.block_info = fake_info,
	.set_block_flags = fake_set_flags,
};

uint64_t fake_refs_data(struct fake_refs *r, uint64_t len)
{
	struct fake_extent *e = add_extent(r, len);

	e->data = true;
	return e->bytenr;
}

uint64_t fake_refs_flags(struct fake_refs *r, uint64_t bytenr)
{
	return find(r, bytenr)->flags;
}

void fake_refs_forget(struct fake_refs *r)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct fake_extent *e = r->table[i]; e != NULL; e = e->next)
			for (struct fake_ref *f = e->refs; f != NULL; f = f->next)
				f->expected = 0;
}

void fake_refs_expect(struct fake_refs *r, const struct extent_ref *ref)
{
	get_ref(r, ref)->expected += ref->count;
}

void fake_refs_judge(struct fake_refs *r)
{
	for (unsigned i = 0; i < BUCKETS; i++)
		for (struct fake_extent *e = r->table[i]; e != NULL; e = e->next)
			for (struct fake_ref *f = e->refs; f != NULL; f = f->next)
				ck_assert_msg(f->count == f->expected,
					      "extent %llu: %lld references of type %u from %llu, "
					      "found %lld",
					      (unsigned long long)f->bytenr, (long long)f->count,
					      f->type, (unsigned long long)f->anchor,
					      (long long)f->expected);
}

unsigned fake_refs_count(struct fake_refs *r)
{
	return r->count;
}
