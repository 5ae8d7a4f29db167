/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_delayed_ref.c - references that wait (alloc/delayed_ref.h).
 */
#include "alloc/delayed_ref.h"
#include "io/format.h"
#include "io/log.h"
#include "tests/unit/unit.h"

static struct extent_ref data_ref(uint64_t bytenr, uint64_t root, uint64_t objectid, uint64_t offset)
{
	return (struct extent_ref){.bytenr = bytenr, .len = 8192, .root = root,
				   .objectid = objectid, .offset = offset, .count = 1,
				   .type = KEY_EXTENT_DATA_REF};
}

static struct extent_ref block_ref(uint64_t bytenr, uint8_t type, uint64_t anchor)
{
	return (struct extent_ref){.bytenr = bytenr, .len = 4096, .root = anchor, .parent = anchor,
				   .count = 1, .type = type, .level = 1};
}

static void ignore_line(enum log_level level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

static struct ref_set *set_new(void)
{
	struct ref_set *set = NULL;

	unit_ok(refs_new(&set));
	return set;
}

START_TEST(test_same_ref_cancels)
{
	struct ref_set *set = set_new();
	struct extent_ref a = data_ref(1 << 20, 5, 257, 0), b = data_ref(1 << 20, 5, 257, 4096);

	unit_ok(refs_change(set, &a, -1, false));
	unit_ok(refs_change(set, &a, 1, false));
	ck_assert_uint_eq(refs_count(set), 0);

	/* Another reference of the same extent does not cancel it. */
	unit_ok(refs_change(set, &a, -1, false));
	unit_ok(refs_change(set, &b, 1, false));
	ck_assert_uint_eq(refs_count(set), 1);
	ck_assert_int_eq(refs_pending(set, 1 << 20).delta, 0);
	unit_ok(refs_change(set, &a, 1, false));
	unit_ok(refs_change(set, &b, -1, false));
	ck_assert_uint_eq(refs_count(set), 0);
	refs_free(set);
}
END_TEST

START_TEST(test_block_vanishes)
{
	struct ref_set *set = set_new();
	struct extent_ref own = block_ref(1 << 20, KEY_TREE_BLOCK_REF, 5);
	struct extent_ref parent = block_ref(1 << 20, KEY_SHARED_BLOCK_REF, 1 << 21);
	bool vanished = true;

	unit_ok(refs_change(set, &own, 1, true));
	unit_ok(refs_change(set, &parent, 1, false));
	unit_ok(refs_drop_block(set, &own, &vanished));
	ck_assert(!vanished);
	ck_assert(refs_pending(set, 1 << 20).fresh);
	unit_ok(refs_drop_block(set, &parent, &vanished));
	ck_assert(vanished);
	ck_assert_uint_eq(refs_count(set), 0);

	/* One that has an item already does not vanish. */
	unit_ok(refs_drop_block(set, &own, &vanished));
	ck_assert(!vanished);
	ck_assert_uint_eq(refs_count(set), 1);
	refs_free(set);
}
END_TEST

START_TEST(test_fresh_data_stays)
{
	struct ref_set *set = set_new();
	struct extent_ref a = data_ref(1 << 20, 5, 257, 0);
	struct ref_pending pending;

	unit_ok(refs_change(set, &a, 1, true));
	unit_ok(refs_change(set, &a, -1, false));
	pending = refs_pending(set, 1 << 20);
	ck_assert(pending.fresh);
	ck_assert_int_eq(pending.delta, 0);
	ck_assert_uint_eq(refs_count(set), 1);
	refs_free(set);
}
END_TEST

START_TEST(test_disagreement)
{
	struct ref_set *set = set_new();
	struct extent_ref a = data_ref(1 << 20, 5, 257, 0);
	struct extent_ref b = block_ref(1 << 20, KEY_TREE_BLOCK_REF, 5);

	log_set_sink(ignore_line, NULL);
	unit_ok(refs_change(set, &a, 1, true));
	unit_err(refs_change(set, &b, 1, false), -EUCLEAN);
	a.len += 4096;
	unit_err(refs_change(set, &a, 1, false), -EUCLEAN);
	ck_assert_uint_eq(refs_count(set), 1);
	refs_free(set);
}
END_TEST

START_TEST(test_flags)
{
	struct ref_set *set = set_new();
	struct ref_head *head;
	uint64_t cursor = 0;

	unit_ok(refs_set_flags(set, 1 << 20, 4096, 1, EXTENT_FLAG_FULL_BACKREF));
	ck_assert_uint_eq(refs_pending(set, 1 << 20).flags, EXTENT_FLAG_FULL_BACKREF);
	head = refs_take(set, &cursor);
	ck_assert_ptr_nonnull(head);
	ck_assert_ptr_null(ref_head_first(head));
	ck_assert_uint_eq(head->flags, EXTENT_FLAG_FULL_BACKREF);
	ref_head_free(head);
	ck_assert_uint_eq(refs_count(set), 0);
	refs_free(set);
}
END_TEST

START_TEST(test_taken_in_order)
{
	struct ref_set *set = set_new();
	uint64_t cursor = 0, last = 0;
	struct ref_head *head;
	unsigned n = 0;

	for (unsigned i = 0; i < 1000; i++) {
		struct extent_ref a = data_ref((i * 7919ULL % 1000 + 1) << 20, 5, 257, i % 3);

		a.count = 2;
		unit_ok(refs_change(set, &a, a.count, false));
	}
	while ((head = refs_take(set, &cursor)) != NULL) {
		ck_assert_uint_gt(head->bytenr, last);
		ck_assert_int_eq(head->delta, 2);
		last = head->bytenr;
		ref_head_free(head);
		n++;
	}
	ck_assert_uint_eq(n, 1000);
	refs_free(set);
}
END_TEST

START_TEST(test_owners)
{
	struct ref_set *set = set_new();
	struct extent_ref a = data_ref(1 << 20, 5, 257, 0), b = data_ref(1 << 20, 5, 258, 0);
	struct extent_ref shared = {.bytenr = 1 << 20, .len = 8192, .parent = 1 << 22, .count = 3,
				    .type = KEY_SHARED_DATA_REF};
	int64_t own, foreign;

	unit_ok(refs_change(set, &a, 2, true));
	unit_ok(refs_change(set, &b, 1, false));
	unit_ok(refs_change(set, &shared, 3, false));
	ck_assert(refs_pending_data(set, 1 << 20, 5, 257, &own, &foreign));
	ck_assert_int_eq(own, 2);
	ck_assert_int_eq(foreign, 4);
	ck_assert(!refs_pending_data(set, 2 << 20, 5, 257, &own, &foreign));
	ck_assert_int_eq(own, 0);
	ck_assert_int_eq(foreign, 0);
	refs_free(set);
}
END_TEST

UNIT_MAIN("delayed_ref", test_same_ref_cancels, test_block_vanishes, test_fresh_data_stays,
	  test_disagreement, test_flags, test_taken_in_order, test_owners)
