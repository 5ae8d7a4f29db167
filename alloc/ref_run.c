/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/ref_run.c - the commit's fixed point: delayed references and block group items.
 *
 * Applying a reference COWs blocks of the extent tree, which makes and frees blocks, which are new
 * delayed references; writing a group's `used` does the same. It ends because a block is COWed once in
 * a transaction: the second time round the leaves are the transaction's own.
 *
 * Heads are applied in address order. Neighbouring extents that enter or leave the free space tree
 * one after the other do so as one range.
 *
 * Locks: none held between steps; the door of the transaction is closed, so nobody else changes
 * the trees of alloc/. Not here: what waits (delayed_ref.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "alloc/csum_cut.h"
#include "alloc/extent_tree.h"
#include "alloc/free_space_tree.h"
#include "io/fault.h"
#include "io/log.h"
#include "io/util.h"

struct ref_run {
	struct space *sp;
	struct txn_handle *tx;
	struct extent_image image;
	/* A change of the free space tree that may still grow: [start, end) of `group`; empty if equal. */
	struct group_info group;
	uint64_t start, end;
	bool free;
};

static int flush_range(struct ref_run *run)
{
	uint64_t start = run->start, len = run->end - run->start;

	if (len == 0)
		return 0;
	run->start = run->end;
	if (run->free)
		return fst_add(run->sp, run->tx, &run->group, start, len);
	return fst_remove(run->sp, run->tx, &run->group, start, len);
}

/* The range becomes free, or used, in the free space tree: now or with the next ones. */
static int change_range(struct ref_run *run, uint64_t start, uint64_t len, bool free)
{
	bool in_group = start >= run->group.start &&
			start - run->group.start < run->group.len;
	int err;

	if (run->start < run->end && in_group && start == run->end && free == run->free) {
		run->end += len;
		return 0;
	}
	err = flush_range(run);
	if (err == 0 && !in_group)
		err = group_find(run->sp, start, &run->group);
	if (err == -ENOENT)
		return corrupt(OBJ_EXTENT_TREE, start, NO_SLOT, "an extent lies in no block group");
	if (err < 0)
		return err;
	run->start = start;
	run->end = start + len;
	run->free = free;
	return 0;
}

/* Accounts for an extent whose item was inserted. */
static int extent_made(struct ref_run *run, const struct ref_head *head)
{
	int err = group_account_alloc(run->sp, head->bytenr, head->len);

	return err < 0 ? err : change_range(run, head->bytenr, head->len, false);
}

/* Accounts for an extent that is gone: its checksums go too, its space waits for the commit. */
static int extent_gone(struct ref_run *run, const struct ref_head *head)
{
	struct space *sp = run->sp;
	int err;

	if (head->data && sp->trees->csum != NULL) {
		err = csum_cut(run->tx, sp->trees->csum, sp->sectorsize, sp->csum_bytes,
			       head->bytenr, head->len);
		if (err < 0)
			return err;
	}
	err = group_account_free(sp, head->bytenr, head->len);
	return err < 0 ? err : space_pin(sp, run->tx->transid, head->bytenr, head->len);
}

static int run_head(struct ref_run *run, struct ref_head *head)
{
	enum extent_change change = EXTENT_KEPT;
	int err;

	if (fault_point("space.run_ref"))
		return -EIO;
	if (!is_aligned(head->bytenr, run->sp->sectorsize) ||
	    !is_aligned(head->len, run->sp->sectorsize) || head->len == 0)
		return corrupt(OBJ_EXTENT_TREE, head->bytenr, NO_SLOT,
			       "an extent of %llu bytes is not aligned to sectors",
			       (unsigned long long)head->len);
	err = extent_apply(run->sp, run->tx, head, &run->image, &change);
	if (err < 0)
		return err;
	switch (change) {
	case EXTENT_KEPT:
		return 0;
	case EXTENT_MADE:
		return extent_made(run, head);
	case EXTENT_GONE:
		err = extent_gone(run, head);
		return err < 0 ? err : change_range(run, head->bytenr, head->len, true);
	case EXTENT_NEVER:
		/* It may have been written, so its space is not reused in this transaction. */
		err = group_account_alloc(run->sp, head->bytenr, head->len);
		return err < 0 ? err : extent_gone(run, head);
	}
	return 0;
}

/* Applies all heads, from the lowest address up, and begins again while new ones come. */
static int run_heads(struct ref_run *run, bool *ret_changed)
{
	struct ref_head *head;
	uint64_t cursor = 0;
	int err = 0;

	while (err == 0) {
		head = refs_take(run->sp->refs, &cursor);
		if (head == NULL) {
			err = flush_range(run);
			cursor = 0;
			if (err == 0 && refs_count(run->sp->refs) == 0)
				return 0;
			continue;
		}
		*ret_changed = true;
		err = run_head(run, head);
		ref_head_free(head);
	}
	return err;
}

static int write_groups(struct ref_run *run, bool *ret_changed)
{
	struct group_info group;
	int err = 0;

	while (err == 0 && group_take_dirty(run->sp, &group)) {
		*ret_changed = true;
		err = block_group_item_update(run->sp, run->tx, &group);
	}
	return err;
}

int refs_run(struct space *sp, struct txn_handle *tx, bool *ret_changed)
{
	struct ref_run run = {.sp = sp, .tx = tx};
	bool wrote;
	int err;

	image_init(&run.image);
	do {
		wrote = false;
		err = run_heads(&run, ret_changed);
		if (err == 0)
			err = write_groups(&run, &wrote);
		*ret_changed |= wrote;
	} while (err == 0 && (wrote || refs_count(sp->refs) > 0));
	image_done(&run.image);
	return err;
}
