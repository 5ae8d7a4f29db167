/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/extent_tree.c - extents and who refers to them, on disk (see extent_tree.h).
 *
 * A head is applied to a copy of its extent item, which is written back once: one descent to read and
 * one to write, however many references change. Keyed references are changed on the way.
 */
#include "alloc/extent_tree.h"

#include <errno.h>

#include "alloc/backref.h"
#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

int extent_lookup(struct space *sp, uint64_t bytenr, uint64_t len, bool data, uint8_t level,
		  struct extent_image *im)
{
	scoped(item_done) struct item it;
	struct key key = key_make(bytenr, KEY_EXTENT_ITEM, len);
	int err = -ENOENT;

	item_init(&it);
	if (!data && sp->skinny) {
		struct key skinny = key_make(bytenr, KEY_METADATA_ITEM, level);

		err = tree_get(sp->trees->extent, &skinny, &it);
	}
	if (err == -ENOENT)
		err = tree_get(sp->trees->extent, &key, &it);
	if (err < 0)
		return err;
	err = image_load(im, &it.key, it.data, it.size);
	if (err < 0)
		return err;
	if (data != ((im->flags & EXTENT_FLAG_DATA) != 0))
		return corrupt(OBJ_EXTENT_TREE, bytenr, NO_SLOT,
			       "extent item " KEY_FMT " is %s", KEY_ARGS(&im->key),
			       data ? "not data" : "data");
	return 0;
}

static int bad_head(const struct ref_head *head, const char *what)
{
	return corrupt(OBJ_EXTENT_TREE, head->bytenr, NO_SLOT,
		       "%s of %llu bytes, level %u: %s (%lld references pending)",
		       head->data ? "data extent" : "tree block", (unsigned long long)head->len,
		       head->level, what, (long long)head->delta);
}

/* Size from which on the kernel puts further references into items of their own. */
static uint32_t inline_limit(const struct space *sp)
{
	uint32_t leaf = tree_env_block_size(sp->env, 0) - (uint32_t)sizeof(struct disk_header);

	return leaf / 16 - (uint32_t)sizeof(struct disk_item);
}

static int add_ref(struct space *sp, struct txn_handle *tx, const struct ref_head *head,
		   struct extent_image *im, const struct delayed_ref *id)
{
	struct inline_ref at;
	uint64_t count;

	if (id->count > UINT32_MAX || (!head->data && id->count != 1))
		return bad_head(head, "too many references of one kind");
	if (image_find_ref(im, id, &at)) {
		count = (uint64_t)at.id.count + (uint64_t)id->count;
		if (!head->data || count > UINT32_MAX)
			return bad_head(head, "too many references of one kind");
		image_set_count(im, &at, (uint32_t)count);
	} else if (im->inline_count == im->refs &&
		   im->size + inline_ref_bytes(id->type) < inline_limit(sp)) {
		/* No keyed references: so none of this identity among them. */
		int err = image_insert_ref(im, at.off, id);

		if (err < 0)
			return err;
	} else {
		int err = backref_add(sp, tx, head->bytenr, id, (uint32_t)id->count);

		if (err < 0)
			return err;
	}
	im->refs += (uint64_t)id->count;
	return 0;
}

static int drop_ref(struct space *sp, struct txn_handle *tx, const struct ref_head *head,
		    struct extent_image *im, const struct delayed_ref *id)
{
	uint64_t count = (uint64_t)-id->count, left = count;
	struct inline_ref at;

	if (count > im->refs || count > UINT32_MAX)
		return bad_head(head, "more references dropped than there are");
	if (image_find_ref(im, id, &at)) {
		uint64_t here = min_u64(left, (uint64_t)at.id.count);

		image_set_count(im, &at, (uint32_t)((uint64_t)at.id.count - here));
		left -= here;
	}
	if (left > 0) {
		int err;

		if (im->inline_count + left > im->refs - (count - left))
			return bad_head(head, "a reference is dropped but not there");
		err = backref_drop(sp, tx, head->bytenr, id, (uint32_t)left);
		if (err < 0)
			return err;
	}
	im->refs -= count;
	return 0;
}

/* Drops first: they make room inline. */
static int apply_refs(struct space *sp, struct txn_handle *tx, struct ref_head *head,
		      struct extent_image *im)
{
	const struct delayed_ref *ref;
	int err = 0;

	for (ref = ref_head_first(head); ref != NULL && err == 0; ref = ref_head_next(ref))
		if (ref->count < 0)
			err = drop_ref(sp, tx, head, im, ref);
	for (ref = ref_head_first(head); ref != NULL && err == 0; ref = ref_head_next(ref))
		if (ref->count > 0)
			err = add_ref(sp, tx, head, im, ref);
	return err;
}

/* An empty image for a fresh extent. */
static int image_fresh(const struct space *sp, const struct txn_handle *tx,
		       const struct ref_head *head, struct extent_image *im)
{
	bool skinny = !head->data && sp->skinny;
	struct key key = skinny ? key_make(head->bytenr, KEY_METADATA_ITEM, head->level)
				: key_make(head->bytenr, KEY_EXTENT_ITEM, head->len);
	uint64_t flags = head->data ? EXTENT_FLAG_DATA : EXTENT_FLAG_TREE_BLOCK;

	return image_create(im, &key, tx->transid, flags, !head->data && !skinny, head->level);
}

int extent_apply(struct space *sp, struct txn_handle *tx, struct ref_head *head,
		 struct extent_image *im, enum extent_change *ret_change)
{
	struct tree *tree = sp->trees->extent;
	int err;

	if (head->fresh)
		err = image_fresh(sp, tx, head, im);
	else
		err = extent_lookup(sp, head->bytenr, head->len, head->data, head->level, im);
	if (err == -ENOENT)
		return bad_head(head, "changed but not in the extent tree");
	if (err == 0)
		err = apply_refs(sp, tx, head, im);
	if (err < 0)
		return err;

	im->flags |= head->flags;
	if (im->refs == 0) {
		if (im->size != im->first)
			return bad_head(head, "no references left, but some inline");
		*ret_change = head->fresh ? EXTENT_NEVER : EXTENT_GONE;
		return head->fresh ? 0 : tree_delete(tx, tree, &im->key);
	}
	image_store_head(im);
	*ret_change = head->fresh ? EXTENT_MADE : EXTENT_KEPT;
	if (!head->fresh)
		return tree_replace(tx, tree, &im->key, im->data, im->size);
	err = tree_insert(tx, tree, &im->key, im->data, im->size);
	return err == -EEXIST ? bad_head(head, "handed out but already in the extent tree") : err;
}

int extent_tree_scan_free(struct space *sp, const struct group_info *group, free_range_fn fn,
			  void *arg)
{
	struct key first = key_object_min(group->start);
	struct key last = key_object_max(group->start + group->len - 1);
	uint64_t end = group->start + group->len, at = group->start, len;
	scoped(cursor_done) struct cursor c;
	int err;

	cursor_init(&c, sp->trees->extent, &first, &last);
	while ((err = cursor_next(&c)) > 0) {
		const struct key *key = &c.item.key;

		if (key->type == KEY_EXTENT_ITEM)
			len = key->offset;
		else if (key->type == KEY_METADATA_ITEM && key->offset < LEVEL_COUNT)
			len = tree_env_block_size(sp->env, (uint8_t)key->offset);
		else
			continue;
		if (key->objectid < at || len == 0 || len > end - key->objectid)
			return corrupt(OBJ_EXTENT_TREE, key->objectid, NO_SLOT,
				       "extent item " KEY_FMT " overlaps another or leaves its group",
				       KEY_ARGS(key));
		if (key->objectid > at) {
			err = fn(arg, at, key->objectid - at);
			if (err < 0)
				return err;
		}
		at = key->objectid + len;
	}
	if (err == 0 && at < end)
		err = fn(arg, at, end - at);
	return err;
}
