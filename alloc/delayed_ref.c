/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/delayed_ref.c - changes of extent references that wait for the commit (see delayed_ref.h).
 */
#include "alloc/delayed_ref.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "io/format.h"
#include "io/locks.h"
#include "io/log.h"
#include "io/util.h"

RB_HEAD(head_tree, ref_head);

struct ref_set {
	struct mutex lock;
	struct head_tree heads;
	_Atomic uint64_t count;
};

static int cmp_u64(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int ref_cmp(struct delayed_ref *a, struct delayed_ref *b)
{
	int c = cmp_u64(a->type, b->type);

	if (c == 0)
		c = cmp_u64(a->anchor, b->anchor);
	if (c == 0)
		c = cmp_u64(a->objectid, b->objectid);
	return c != 0 ? c : cmp_u64(a->offset, b->offset);
}

static int head_cmp(struct ref_head *a, struct ref_head *b)
{
	return cmp_u64(a->bytenr, b->bytenr);
}

RB_GENERATE_LOCAL(delayed_tree, delayed_ref, link, ref_cmp)
RB_GENERATE_LOCAL(head_tree, ref_head, link, head_cmp)

int refs_new(struct ref_set **ret_refs)
{
	struct ref_set *set = calloc(1, sizeof(*set));

	if (set == NULL)
		return -ENOMEM;
	mutex_init(&set->lock, RANK_REF);
	RB_INIT(&set->heads);
	*ret_refs = set;
	return 0;
}

void ref_head_free(struct ref_head *head)
{
	struct delayed_ref *ref;

	if (head == NULL)
		return;
	while ((ref = RB_ROOT(&head->refs)) != NULL) {
		RB_REMOVE(delayed_tree, &head->refs, ref);
		free(ref);
	}
	free(head);
}

void refs_free(struct ref_set *set)
{
	struct ref_head *head;

	if (set == NULL)
		return;
	while ((head = RB_ROOT(&set->heads)) != NULL) {
		RB_REMOVE(head_tree, &set->heads, head);
		ref_head_free(head);
	}
	mutex_done(&set->lock);
	free(set);
}

static bool type_is_data(uint8_t type)
{
	return type == KEY_EXTENT_DATA_REF || type == KEY_SHARED_DATA_REF;
}

/* The record that `ref` belongs into, without its count. */
static struct delayed_ref ref_identity(const struct extent_ref *ref)
{
	struct delayed_ref id = {.type = ref->type};

	switch (ref->type) {
	case KEY_TREE_BLOCK_REF:
		id.anchor = ref->root;
		break;
	case KEY_EXTENT_DATA_REF:
		id.anchor = ref->root;
		id.objectid = ref->objectid;
		id.offset = ref->offset;
		break;
	case KEY_SHARED_BLOCK_REF:
	case KEY_SHARED_DATA_REF:
		id.anchor = ref->parent;
		break;
	default:
		must(false && "a reference of an unknown type");
	}
	return id;
}

static struct ref_head *head_find(struct ref_set *set, uint64_t bytenr)
{
	struct ref_head key = {.bytenr = bytenr};

	mutex_assert_held(&set->lock);
	return RB_FIND(head_tree, &set->heads, &key);
}

static void head_drop(struct ref_set *set, struct ref_head *head)
{
	RB_REMOVE(head_tree, &set->heads, head);
	atomic_fetch_sub_explicit(&set->count, 1, memory_order_relaxed);
	ref_head_free(head);
}

/* D2: a head that no longer has anything to do goes. */
static void head_settle(struct ref_set *set, struct ref_head *head)
{
	if (RB_EMPTY(&head->refs) && head->flags == 0 && !head->fresh)
		head_drop(set, head);
}

/* The head of the extent, made if there is none. */
static int head_get(struct ref_set *set, uint64_t bytenr, uint64_t len, bool data, uint8_t level,
		    struct ref_head **ret_head)
{
	struct ref_head *head = head_find(set, bytenr);

	if (head != NULL) {
		if (head->len != len || head->data != data || head->level != level)
			return corrupt(OBJ_EXTENT_TREE, bytenr, NO_SLOT,
				       "%s extent of %llu bytes (level %u) is changed as %s extent "
				       "of %llu bytes (level %u)",
				       head->data ? "data" : "tree block",
				       (unsigned long long)head->len, head->level,
				       data ? "data" : "tree block", (unsigned long long)len, level);
		*ret_head = head;
		return 0;
	}
	head = calloc(1, sizeof(*head));
	if (head == NULL)
		return -ENOMEM;
	RB_INIT(&head->refs);
	head->bytenr = bytenr;
	head->len = len;
	head->data = data;
	head->level = level;
	RB_INSERT(head_tree, &set->heads, head);
	atomic_fetch_add_explicit(&set->count, 1, memory_order_relaxed);
	*ret_head = head;
	return 0;
}

/* Adds to the record of this identity, D1. */
static int head_add(struct ref_head *head, const struct delayed_ref *id, int64_t delta)
{
	struct delayed_ref find = *id;
	struct delayed_ref *ref = RB_FIND(delayed_tree, &head->refs, &find);

	if (ref == NULL) {
		ref = malloc(sizeof(*ref));
		if (ref == NULL)
			return -ENOMEM;
		*ref = *id;
		ref->count = delta;
		RB_INSERT(delayed_tree, &head->refs, ref);
	} else {
		ref->count += delta;
		if (ref->count == 0) {
			RB_REMOVE(delayed_tree, &head->refs, ref);
			free(ref);
		}
	}
	head->delta += delta;
	return 0;
}

static int change_locked(struct ref_set *set, const struct extent_ref *ref, int64_t delta,
			 bool fresh, struct ref_head **ret_head)
{
	struct delayed_ref id = ref_identity(ref);
	struct ref_head *head = NULL;
	int err;

	err = head_get(set, ref->bytenr, ref->len, type_is_data(ref->type), ref->level, &head);
	if (err < 0)
		return err;
	err = head_add(head, &id, delta);
	if (err == 0 && fresh)
		head->fresh = true;
	if (err == 0)
		*ret_head = head;
	else
		head_settle(set, head);
	return err;
}

int refs_change(struct ref_set *set, const struct extent_ref *ref, int64_t delta, bool fresh)
{
	struct ref_head *head;
	int err;

	must(delta != 0);
	must(!fresh || delta > 0);
	mutex_guard(&set->lock);
	err = change_locked(set, ref, delta, fresh, &head);
	if (err == 0)
		head_settle(set, head);
	return err;
}

int refs_drop_block(struct ref_set *set, const struct extent_ref *ref, bool *ret_vanished)
{
	struct ref_head *head;
	bool vanished;
	int err;

	must(!type_is_data(ref->type));
	mutex_guard(&set->lock);
	err = change_locked(set, ref, -1, false, &head);
	if (err < 0)
		return err;
	vanished = head->fresh && RB_EMPTY(&head->refs);
	if (vanished)
		head_drop(set, head);
	else
		head_settle(set, head);
	*ret_vanished = vanished;
	return 0;
}

int refs_set_flags(struct ref_set *set, uint64_t bytenr, uint64_t len, uint8_t level,
		   uint64_t flags)
{
	struct ref_head *head;
	int err;

	mutex_guard(&set->lock);
	err = head_get(set, bytenr, len, false, level, &head);
	if (err < 0)
		return err;
	head->flags |= flags;
	head_settle(set, head);
	return 0;
}

struct ref_pending refs_pending(struct ref_set *set, uint64_t bytenr)
{
	struct ref_pending pending = {0};
	const struct ref_head *head;

	mutex_guard(&set->lock);
	head = head_find(set, bytenr);
	if (head != NULL) {
		pending.delta = head->delta;
		pending.flags = head->flags;
		pending.fresh = head->fresh;
	}
	return pending;
}

bool refs_pending_data(struct ref_set *set, uint64_t bytenr, uint64_t root, uint64_t objectid,
		       int64_t *ret_own, int64_t *ret_foreign)
{
	struct ref_head *head;
	struct delayed_ref *ref;
	int64_t own = 0, foreign = 0;
	bool fresh = false;

	mutex_guard(&set->lock);
	head = head_find(set, bytenr);
	if (head != NULL) {
		fresh = head->fresh;
		RB_FOREACH(ref, delayed_tree, &head->refs) {
			if (ref->type == KEY_EXTENT_DATA_REF && ref->anchor == root &&
			    ref->objectid == objectid)
				own += ref->count;
			else
				foreign += ref->count;
		}
	}
	*ret_own = own;
	*ret_foreign = foreign;
	return fresh;
}

struct ref_head *refs_take(struct ref_set *set, uint64_t *cursor)
{
	struct ref_head key = {.bytenr = *cursor};
	struct ref_head *head;

	mutex_guard(&set->lock);
	head = RB_NFIND(head_tree, &set->heads, &key);
	if (head == NULL)
		return NULL;
	RB_REMOVE(head_tree, &set->heads, head);
	atomic_fetch_sub_explicit(&set->count, 1, memory_order_relaxed);
	*cursor = head->bytenr + 1;
	return head;
}

const struct delayed_ref *ref_head_first(struct ref_head *head)
{
	return RB_MIN(delayed_tree, &head->refs);
}

const struct delayed_ref *ref_head_next(const struct delayed_ref *ref)
{
	return delayed_tree_RB_NEXT((struct delayed_ref *)ref);
}

uint64_t refs_count(struct ref_set *set)
{
	return atomic_load_explicit(&set->count, memory_order_relaxed);
}
