/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/space_refs.c - what trees and files ask about references, answered from what waits and from
 * the extent tree.
 *
 * Changes are only noted (delayed_ref.h). Questions read the extent tree first and what waits after:
 * nothing moves from one to the other while they run, since only the commit does that, behind the
 * closed door of the transaction that the asker is in.
 */
#include <errno.h>

#include "alloc/delayed_ref.h"
#include "alloc/extent_tree.h"
#include "alloc/inline_ref.h"
#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

static int tree_alloc_block(struct space *sp, struct txn_handle *tx, uint64_t root, uint8_t level,
			    uint64_t hint, uint64_t *ret_bytenr)
{
	uint32_t len = tree_env_block_size(sp->env, level);
	struct extent_ref ref = {.type = KEY_TREE_BLOCK_REF, .root = root, .level = level,
				 .len = len, .count = 1};
	int err;

	err = space_alloc_block_addr(sp, tx, len, len, hint, root == OBJ_CHUNK_TREE, &ref.bytenr);
	if (err < 0)
		return err;
	err = refs_change(sp->refs, &ref, 1, true);
	if (err < 0) {
		space_free_now(sp, ref.bytenr, len);
		return err;
	}
	*ret_bytenr = ref.bytenr;
	return 0;
}

static int tree_free_block(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref,
			   uint64_t generation)
{
	bool vanished = false;
	int err;

	if (generation != tx->transid)
		return refs_change(sp->refs, ref, -1, false);
	err = refs_drop_block(sp->refs, ref, &vanished);
	if (err == 0 && vanished)
		space_free_now(sp, ref->bytenr, ref->len);
	return err;
}

static int tree_inc_ref(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref)
{
	(void)tx;
	return refs_change(sp->refs, ref, ref->count, false);
}

static int tree_dec_ref(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref)
{
	(void)tx;
	return refs_change(sp->refs, ref, -(int64_t)ref->count, false);
}

static int tree_block_info(struct space *sp, uint64_t bytenr, uint8_t level, uint64_t *ret_refs,
			   uint64_t *ret_flags)
{
	uint32_t len = tree_env_block_size(sp->env, level);
	struct ref_pending pending = refs_pending(sp->refs, bytenr);
	scoped(image_done) struct extent_image im;
	int64_t refs;
	int err;

	image_init(&im);
	if (!pending.fresh) {
		err = extent_lookup(sp, bytenr, len, false, level, &im);
		if (err < 0 && err != -ENOENT)
			return err;
		pending = refs_pending(sp->refs, bytenr);
	}
	if (__builtin_add_overflow((int64_t)im.refs, pending.delta, &refs) || refs < 0)
		return corrupt(OBJ_EXTENT_TREE, bytenr, NO_SLOT,
			       "tree block of level %u has %llu references and %lld pending",
			       level, (unsigned long long)im.refs, (long long)pending.delta);
	*ret_refs = (uint64_t)refs;
	*ret_flags = (im.flags | pending.flags) & EXTENT_FLAG_FULL_BACKREF;
	return 0;
}

static int tree_set_block_flags(struct space *sp, struct txn_handle *tx, uint64_t bytenr,
				uint8_t level, uint64_t flags)
{
	(void)tx;
	return refs_set_flags(sp->refs, bytenr, tree_env_block_size(sp->env, level), level, flags);
}

const struct space_ops space_tree_ops = {
	.alloc_block = tree_alloc_block,
	.free_block = tree_free_block,
	.inc_ref = tree_inc_ref,
	.dec_ref = tree_dec_ref,
	.block_info = tree_block_info,
	.set_block_flags = tree_set_block_flags,
};

int space_add_ref(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref, bool fresh)
{
	(void)tx;
	return refs_change(sp->refs, ref, ref->count, fresh);
}

int space_drop_ref(struct space *sp, struct txn_handle *tx, const struct extent_ref *ref)
{
	(void)tx;
	return refs_change(sp->refs, ref, -(int64_t)ref->count, false);
}

uint64_t space_pending_refs(struct space *sp)
{
	return refs_count(sp->refs);
}

/* References of the inode itself, inline, and of all others; keyed ones count as others'. */
static void count_owners(const struct extent_image *im, uint64_t root, uint64_t objectid,
			 int64_t *own, int64_t *foreign)
{
	uint32_t off = im->first;
	struct inline_ref ref;

	while (image_next_ref(im, &off, &ref)) {
		if (ref.id.type == KEY_EXTENT_DATA_REF && ref.id.anchor == root &&
		    ref.id.objectid == objectid)
			*own += ref.id.count;
		else
			*foreign += ref.id.count;
	}
	*foreign += (int64_t)(im->refs - im->inline_count);
}

int space_extent_unshared(struct space *sp, struct txn_handle *tx, uint64_t bytenr, uint64_t len,
			  uint64_t root, uint64_t objectid, uint64_t last_snapshot)
{
	scoped(image_done) struct extent_image im;
	int64_t own, foreign;
	int err;

	image_init(&im);
	if (refs_pending_data(sp->refs, bytenr, root, objectid, &own, &foreign)) {
		if (tx->transid <= last_snapshot)
			return 0;
		return own > 0 && foreign == 0;
	}
	err = extent_lookup(sp, bytenr, len, true, 0, &im);
	if (err == -ENOENT)
		return corrupt(OBJ_EXTENT_TREE, bytenr, NO_SLOT,
			       "data extent of %llu bytes is not in the extent tree",
			       (unsigned long long)len);
	if (err < 0)
		return err;
	if (im.generation <= last_snapshot)
		return 0;
	refs_pending_data(sp->refs, bytenr, root, objectid, &own, &foreign);
	count_owners(&im, root, objectid, &own, &foreign);
	return own > 0 && foreign == 0;
}
