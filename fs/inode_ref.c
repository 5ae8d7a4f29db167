/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/inode_ref.c - INODE_REF, INODE_EXTREF, ROOT_REF and ROOT_BACKREF; see inode_ref.h.
 *
 * INODE_REF and INODE_EXTREF differ in the header of their records alone; struct rec_head tells one
 * from the other, the rest of the code is shared.
 */
#include "fs/inode_ref.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

/* The longest record of a name there is. */
#define EXTREF_BYTES_MAX (sizeof(struct disk_inode_extref) + NAME_MAX_BYTES)

void ref_hit_init(struct ref_hit *h)
{
	item_init(&h->item);
}

void ref_hit_done(struct ref_hit *h)
{
	item_done(&h->item);
}

struct rec_head {
	uint64_t parent, index;
	uint32_t head_bytes, name_len;
};

/* The header of the record at `pos`; false if it is cut. */
static bool read_head(const struct item *it, uint32_t pos, struct rec_head *ret)
{
	if (it->key.type == KEY_INODE_REF) {
		struct disk_inode_ref d;

		if (it->size - pos < sizeof(d))
			return false;
		memcpy(&d, it->data + pos, sizeof(d));
		*ret = (struct rec_head){ it->key.offset, disk_inode_ref_index(&d), sizeof(d),
					  disk_inode_ref_name_len(&d) };
	} else {
		struct disk_inode_extref d;

		if (it->size - pos < sizeof(d))
			return false;
		memcpy(&d, it->data + pos, sizeof(d));
		*ret = (struct rec_head){ disk_inode_extref_parent_objectid(&d),
					  disk_inode_extref_index(&d), sizeof(d),
					  disk_inode_extref_name_len(&d) };
	}
	return ret->name_len <= it->size - pos - ret->head_bytes;
}

/* Finds the record in hit->item. */
static int find_in_item(const struct tree *t, uint64_t parent, const char *name, size_t len,
			struct ref_hit *hit)
{
	const struct item *it = &hit->item;
	struct rec_head h;

	for (uint32_t pos = 0; pos < it->size; pos += h.head_bytes + h.name_len) {
		if (!read_head(it, pos, &h))
			return corrupt(tree_id(t), NO_ADDRESS, NO_SLOT,
				       "(" KEY_FMT "): name cut at byte %u", KEY_ARGS(&it->key), pos);
		if (h.parent != parent || h.name_len != len ||
		    memcmp(it->data + pos + h.head_bytes, name, len) != 0)
			continue;
		hit->pos = pos;
		hit->bytes = h.head_bytes + h.name_len;
		hit->index = h.index;
		return 0;
	}
	return -ENOENT;
}

int inode_ref_find(struct tree *t, uint64_t ino, uint64_t parent, const char *name, size_t len,
		   struct ref_hit *ret_hit)
{
	struct key key = key_make(ino, KEY_INODE_REF, parent);
	int err = tree_get(t, &key, &ret_hit->item);

	if (err == 0)
		err = find_in_item(t, parent, name, len, ret_hit);
	if (err != -ENOENT)
		return err;
	key = key_make(ino, KEY_INODE_EXTREF, extref_hash(parent, name, len));
	err = tree_get(t, &key, &ret_hit->item);
	if (err < 0)
		return err;
	return find_in_item(t, parent, name, len, ret_hit);
}

static bool has_extrefs(const struct fs *fs)
{
	return disk_super_incompat_flags(&fs->super) & INCOMPAT_EXTENDED_IREF;
}

/* 0 if `bytes` more fit the item at `key` (or there is none), -EMLINK if not. */
static int room_at(struct fs *fs, struct tree *t, const struct key *key, size_t bytes)
{
	scoped(item_done) struct item it;
	int err;

	item_init(&it);
	err = tree_get(t, key, &it);
	if (err == -ENOENT)
		return 0;
	if (err < 0)
		return err;
	return it.size + bytes <= tree_max_item_size(fs->env) ? 0 : -EMLINK;
}

int inode_ref_room(struct fs *fs, struct tree *t, uint64_t ino, uint64_t parent, const char *name,
		   size_t len, uint32_t names)
{
	struct key key = key_make(ino, KEY_INODE_REF, parent);
	int err;

	/* Few names fit one item, however long. */
	if ((names + 1) * INODE_REF_BYTES_MAX <= tree_max_item_size(fs->env))
		return 0;
	err = room_at(fs, t, &key, sizeof(struct disk_inode_ref) + len);
	if (err != -EMLINK || !has_extrefs(fs))
		return err;
	key = key_make(ino, KEY_INODE_EXTREF, extref_hash(parent, name, len));
	return room_at(fs, t, &key, sizeof(struct disk_inode_extref) + len);
}

uint32_t inode_ref_bytes(uint8_t *buf, const char *name, size_t len, uint64_t index)
{
	struct disk_inode_ref d;

	disk_inode_ref_set_index(&d, index);
	disk_inode_ref_set_name_len(&d, (uint16_t)len);
	memcpy(buf, &d, sizeof(d));
	memcpy(buf + sizeof(d), name, len);
	return (uint32_t)(sizeof(d) + len);
}

static uint32_t extref_bytes(uint8_t *buf, uint64_t parent, const char *name, size_t len,
			     uint64_t index)
{
	struct disk_inode_extref d;

	disk_inode_extref_set_parent_objectid(&d, parent);
	disk_inode_extref_set_index(&d, index);
	disk_inode_extref_set_name_len(&d, (uint16_t)len);
	memcpy(buf, &d, sizeof(d));
	memcpy(buf + sizeof(d), name, len);
	return (uint32_t)(sizeof(d) + len);
}

/* Inserts the record, or puts it behind those that are there. -EMLINK: no room. */
static int add_record(struct txn_handle *tx, struct fs *fs, struct tree *t, const struct key *key,
		      const uint8_t *rec, uint32_t rec_bytes)
{
	int err = tree_insert(tx, t, key, rec, rec_bytes);
	scoped(freep) uint8_t *buf = NULL;
	scoped(item_done) struct item it;

	item_init(&it);
	if (err != -EEXIST)
		return err;
	err = tree_get(t, key, &it);
	if (err < 0)
		return err;
	if (it.size + rec_bytes > tree_max_item_size(fs->env))
		return -EMLINK;
	buf = malloc(it.size + rec_bytes);
	if (buf == NULL)
		return -ENOMEM;
	memcpy(buf, it.data, it.size);
	memcpy(buf + it.size, rec, rec_bytes);
	return tree_replace(tx, t, key, buf, it.size + rec_bytes);
}

int inode_ref_add(struct txn_handle *tx, struct fs *fs, struct tree *t, uint64_t ino,
		  uint64_t parent, const char *name, size_t len, uint64_t index)
{
	struct key key = key_make(ino, KEY_INODE_REF, parent);
	uint8_t rec[EXTREF_BYTES_MAX];
	int err;

	must(len <= NAME_MAX_BYTES);
	err = add_record(tx, fs, t, &key, rec, inode_ref_bytes(rec, name, len, index));
	if (err != -EMLINK || !has_extrefs(fs))
		return err;
	key = key_make(ino, KEY_INODE_EXTREF, extref_hash(parent, name, len));
	return add_record(tx, fs, t, &key, rec, extref_bytes(rec, parent, name, len, index));
}

int inode_ref_remove(struct txn_handle *tx, struct tree *t, const struct ref_hit *hit)
{
	scoped(freep) uint8_t *buf = NULL;
	const struct item *it = &hit->item;
	uint32_t end = hit->pos + hit->bytes;
	uint32_t left = it->size - hit->bytes;

	if (left == 0)
		return tree_delete(tx, t, &it->key);
	buf = malloc(left);
	if (buf == NULL)
		return -ENOMEM;
	memcpy(buf, it->data, hit->pos);
	memcpy(buf + hit->pos, it->data + end, it->size - end);
	return tree_replace(tx, t, &it->key, buf, left);
}

int inode_ref_parent(struct tree *t, uint64_t ino, uint64_t *ret_parent)
{
	struct key key = key_type_min(ino, KEY_INODE_REF);
	scoped(item_done) struct item it;
	struct rec_head h;
	int err;

	item_init(&it);
	err = tree_seek(t, &key, SEEK_ITEM_GE, &it);
	if (err < 0)
		return err;
	if (it.key.objectid != ino || it.key.type > KEY_INODE_EXTREF)
		return -ENOENT;
	if (!read_head(&it, 0, &h))
		return corrupt(tree_id(t), NO_ADDRESS, NO_SLOT, "(" KEY_FMT "): name cut",
			       KEY_ARGS(&it.key));
	*ret_parent = h.parent;
	return 0;
}

/* --- subvolumes ---------------------------------------------------------------------------------- */

int root_ref_exists(struct fs *fs, uint64_t parent, uint64_t id)
{
	struct key key = key_make(parent, KEY_ROOT_REF, id);
	scoped(item_done) struct item it;

	item_init(&it);
	return tree_get(fs->trees.root, &key, &it);
}

int root_ref_find(struct fs *fs, uint64_t parent, uint64_t id, uint64_t dir, const char *name,
		  size_t len, uint64_t *ret_index)
{
	struct key key = key_make(parent, KEY_ROOT_REF, id);
	scoped(item_done) struct item it;
	struct disk_root_ref d;
	int err;

	item_init(&it);
	err = tree_get(fs->trees.root, &key, &it);
	if (err < 0)
		return err;
	if (it.size < sizeof(d))
		return corrupt(OBJ_ROOT_TREE, NO_ADDRESS, NO_SLOT, "(" KEY_FMT "): %u bytes",
			       KEY_ARGS(&key), it.size);
	memcpy(&d, it.data, sizeof(d));
	if (disk_root_ref_dirid(&d) != dir || disk_root_ref_name_len(&d) != len ||
	    it.size != sizeof(d) + len || memcmp(it.data + sizeof(d), name, len) != 0)
		return -ENOENT;
	*ret_index = disk_root_ref_sequence(&d);
	return 0;
}

int root_ref_add(struct txn_handle *tx, struct fs *fs, uint64_t parent, uint64_t id, uint64_t dir,
		 const char *name, size_t len, uint64_t index)
{
	struct key ref = key_make(parent, KEY_ROOT_REF, id);
	struct key back = key_make(id, KEY_ROOT_BACKREF, parent);
	uint8_t buf[sizeof(struct disk_root_ref) + NAME_MAX_BYTES];
	uint32_t bytes = (uint32_t)(sizeof(struct disk_root_ref) + len);
	struct disk_root_ref d;
	int err;

	must(len <= NAME_MAX_BYTES);
	disk_root_ref_set_dirid(&d, dir);
	disk_root_ref_set_sequence(&d, index);
	disk_root_ref_set_name_len(&d, (uint16_t)len);
	memcpy(buf, &d, sizeof(d));
	memcpy(buf + sizeof(d), name, len);
	err = tree_insert(tx, fs->trees.root, &back, buf, bytes);
	if (err < 0)
		return err;
	return tree_insert(tx, fs->trees.root, &ref, buf, bytes);
}

int root_ref_remove(struct txn_handle *tx, struct fs *fs, uint64_t parent, uint64_t id)
{
	struct key ref = key_make(parent, KEY_ROOT_REF, id);
	struct key back = key_make(id, KEY_ROOT_BACKREF, parent);
	int err = tree_delete(tx, fs->trees.root, &back);

	if (err < 0)
		return err;
	return tree_delete(tx, fs->trees.root, &ref);
}
