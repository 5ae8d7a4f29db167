/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/backref.c - back references in items of their own (see backref.h).
 */
#include "alloc/backref.h"

#include <errno.h>

#include "io/csum.h"
#include "io/format.h"
#include "io/log.h"
#include "io/util.h"

/* Largest item: the bytes of any keyed reference. */
union backref_bytes {
	struct disk_extent_data_ref data;
	struct disk_shared_data_ref shared;
};

static struct key backref_key(uint64_t bytenr, const struct delayed_ref *id)
{
	uint64_t offset = id->anchor;

	if (id->type == KEY_EXTENT_DATA_REF)
		offset = hash_extent_data_ref(id->anchor, id->objectid, id->offset);
	return key_make(bytenr, id->type, offset);
}

static int bad_backref(const struct key *key, const char *what)
{
	return corrupt(OBJ_EXTENT_TREE, key->objectid, NO_SLOT, "back reference " KEY_FMT ": %s",
		       KEY_ARGS(key), what);
}

/* Bytes of the item, and its encoding with `count`. */
static uint32_t backref_encode(const struct delayed_ref *id, uint32_t count,
			       union backref_bytes *ret_bytes)
{
	switch (id->type) {
	case KEY_EXTENT_DATA_REF:
		disk_extent_data_ref_set_root(&ret_bytes->data, id->anchor);
		disk_extent_data_ref_set_objectid(&ret_bytes->data, id->objectid);
		disk_extent_data_ref_set_offset(&ret_bytes->data, id->offset);
		disk_extent_data_ref_set_count(&ret_bytes->data, count);
		return sizeof(ret_bytes->data);
	case KEY_SHARED_DATA_REF:
		disk_shared_data_ref_set_count(&ret_bytes->shared, count);
		return sizeof(ret_bytes->shared);
	default:
		return 0;
	}
}

/* The count in an item of this identity; 0: the item is another's (a hash collision). */
static int backref_count(const struct item *it, const struct delayed_ref *id, uint32_t *ret_count)
{
	const void *p = it->data;

	if (id->type == KEY_EXTENT_DATA_REF) {
		const struct disk_extent_data_ref *ref = p;

		if (it->size != sizeof(*ref))
			return bad_backref(&it->key, "bad size");
		*ret_count = 0;
		if (disk_extent_data_ref_root(ref) != id->anchor ||
		    disk_extent_data_ref_objectid(ref) != id->objectid ||
		    disk_extent_data_ref_offset(ref) != id->offset)
			return 0;
		*ret_count = disk_extent_data_ref_count(ref);
	} else if (id->type == KEY_SHARED_DATA_REF) {
		if (it->size != sizeof(struct disk_shared_data_ref))
			return bad_backref(&it->key, "bad size");
		*ret_count = disk_shared_data_ref_count(p);
	} else {
		if (it->size != 0)
			return bad_backref(&it->key, "bad size");
		*ret_count = 1;
	}
	if (*ret_count == 0)
		return bad_backref(&it->key, "count 0");
	return 0;
}

static int backref_store(struct space *sp, struct txn_handle *tx, const struct key *key,
			 const struct delayed_ref *id, uint32_t count)
{
	union backref_bytes bytes;
	uint32_t size = backref_encode(id, count, &bytes);

	return tree_replace(tx, sp->trees->extent, key, &bytes, size);
}

int backref_add(struct space *sp, struct txn_handle *tx, uint64_t bytenr,
		const struct delayed_ref *id, uint32_t count)
{
	scoped(item_done) struct item it;
	union backref_bytes bytes;
	struct key key = backref_key(bytenr, id);
	uint32_t there, size = backref_encode(id, count, &bytes);
	int err;

	item_init(&it);
	/* Ends: the extent tree is finite, so is a run of neighbouring offsets. */
	for (;; key.offset++) {
		err = tree_insert(tx, sp->trees->extent, &key, &bytes, size);
		if (err != -EEXIST)
			return err;
		err = tree_get(sp->trees->extent, &key, &it);
		if (err < 0)
			return err;
		err = backref_count(&it, id, &there);
		if (err < 0)
			return err;
		if (there > 0)
			break;
	}
	if (size == 0)
		return bad_backref(&key, "added twice");
	if (there > UINT32_MAX - count)
		return bad_backref(&key, "count overflows");
	return backref_store(sp, tx, &key, id, there + count);
}

int backref_drop(struct space *sp, struct txn_handle *tx, uint64_t bytenr,
		 const struct delayed_ref *id, uint32_t count)
{
	scoped(item_done) struct item it;
	struct key first = backref_key(bytenr, id), key = first;
	uint32_t there;
	int err;

	item_init(&it);
	/* A reference may stand behind a gap, where a colliding one was deleted: look at all that follow. */
	while (count > 0) {
		err = tree_seek(sp->trees->extent, &key, SEEK_ITEM_GE, &it);
		if (err < 0 && err != -ENOENT)
			return err;
		if (err == -ENOENT || it.key.objectid != bytenr || it.key.type != id->type ||
		    (id->type != KEY_EXTENT_DATA_REF && it.key.offset != first.offset))
			return bad_backref(&first, "dropped but not there");
		err = backref_count(&it, id, &there);
		if (err < 0)
			return err;
		if (there > count) {
			return backref_store(sp, tx, &it.key, id, there - count);
		} else if (there > 0) {
			err = tree_delete(tx, sp->trees->extent, &it.key);
			if (err < 0)
				return err;
			count -= there;
		}
		if (count > 0 && !key_next(&it.key, &key))
			return bad_backref(&first, "dropped but not there");
	}
	return 0;
}
