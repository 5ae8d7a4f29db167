/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/dir_item.c - entries in DIR_ITEM, DIR_INDEX and XATTR_ITEM; see dir_item.h.
 *
 * New entries of an item go to its end. Items are built in a buffer and put into the tree whole.
 */
#include "fs/dir_item.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

/* --- reading ------------------------------------------------------------------------------------- */

int name_entry_at(const struct tree *t, const struct item *it, uint32_t pos,
		  struct name_entry *ret_entry)
{
	struct disk_dir_item d;
	uint32_t name_len, data_len;

	if (pos >= it->size)
		return 0;
	if (it->size - pos < sizeof(d))
		return corrupt(tree_id(t), NO_ADDRESS, NO_SLOT, "(" KEY_FMT "): entry cut at byte %u",
			       KEY_ARGS(&it->key), pos);
	memcpy(&d, it->data + pos, sizeof(d));
	name_len = disk_dir_item_name_len(&d);
	data_len = disk_dir_item_data_len(&d);
	if (name_len == 0 || name_len > NAME_MAX_BYTES ||
	    name_len + data_len > it->size - pos - (uint32_t)sizeof(d))
		return corrupt(tree_id(t), NO_ADDRESS, NO_SLOT,
			       "(" KEY_FMT "): entry at byte %u has %u + %u bytes", KEY_ARGS(&it->key),
			       pos, name_len, data_len);
	*ret_entry = (struct name_entry){
		.pos = pos,
		.bytes = (uint32_t)sizeof(d) + name_len + data_len,
		.location = key_from_disk(&d.location),
		.type = disk_dir_item_type(&d),
		.name = (const char *)it->data + pos + sizeof(d),
		.name_len = (uint16_t)name_len,
		.data_len = (uint16_t)data_len,
		.data = it->data + pos + sizeof(d) + name_len,
	};
	return 1;
}

int name_entry_find(const struct tree *t, const struct item *it, const char *name, size_t len,
		    struct name_entry *ret_entry)
{
	struct name_entry e;
	uint32_t pos = 0;
	int got;

	while ((got = name_entry_at(t, it, pos, &e)) > 0) {
		if (e.name_len == len && memcmp(e.name, name, len) == 0) {
			*ret_entry = e;
			return 0;
		}
		pos = e.pos + e.bytes;
	}
	return got < 0 ? got : -ENOENT;
}

void name_hit_init(struct name_hit *h)
{
	item_init(&h->item);
	h->entry = (struct name_entry){0};
}

void name_hit_done(struct name_hit *h)
{
	item_done(&h->item);
}

int name_find(struct tree *t, uint64_t ino, unsigned type, const char *name, size_t len,
	      struct name_hit *ret_hit)
{
	struct key key = key_make(ino, type, name_hash(name, len));
	int err = tree_get(t, &key, &ret_hit->item);

	if (err < 0)
		return err;
	return name_entry_find(t, &ret_hit->item, name, len, &ret_hit->entry);
}

/* --- changing ------------------------------------------------------------------------------------ */

static size_t new_bytes(const struct name_new *e)
{
	return sizeof(struct disk_dir_item) + e->name_len + e->data_len;
}

static void put_entry(uint8_t *at, const struct name_new *e, uint64_t transid)
{
	struct disk_dir_item d;

	key_to_disk(&e->location, &d.location);
	disk_dir_item_set_transid(&d, transid);
	disk_dir_item_set_data_len(&d, (uint16_t)e->data_len);
	disk_dir_item_set_name_len(&d, (uint16_t)e->name_len);
	disk_dir_item_set_type(&d, e->type);
	memcpy(at, &d, sizeof(d));
	memcpy(at + sizeof(d), e->name, e->name_len);
	if (e->data_len != 0)
		memcpy(at + sizeof(d) + e->name_len, e->data, e->data_len);
}

/* A new entry behind those the item has. */
static int append_entry(struct txn_handle *tx, const struct tree_env *env, struct tree *t,
			const struct key *key, const struct name_new *e)
{
	scoped(item_done) struct item it;
	scoped(freep) uint8_t *buf = NULL;
	struct name_entry found;
	size_t bytes;
	int err;

	item_init(&it);
	err = tree_get(t, key, &it);
	if (err < 0)
		return err;
	err = name_entry_find(t, &it, e->name, e->name_len, &found);
	if (err != -ENOENT)
		return err < 0 ? err : -EEXIST;
	bytes = it.size + new_bytes(e);
	if (bytes > tree_max_item_size(env))
		return -EOVERFLOW;
	buf = malloc(bytes);
	if (buf == NULL)
		return -ENOMEM;
	memcpy(buf, it.data, it.size);
	put_entry(buf + it.size, e, tx->transid);
	return tree_replace(tx, t, key, buf, (uint32_t)bytes);
}

int name_add(struct txn_handle *tx, const struct tree_env *env, struct tree *t, uint64_t ino,
	     unsigned type, const struct name_new *e)
{
	struct key key = key_make(ino, type, name_hash(e->name, e->name_len));
	uint8_t small[sizeof(struct disk_dir_item) + NAME_MAX_BYTES];
	scoped(freep) uint8_t *heap = NULL;
	uint8_t *buf = small;
	size_t bytes = new_bytes(e);
	int err;

	if (bytes > tree_max_item_size(env))
		return -EOVERFLOW;
	if (bytes > sizeof(small)) {
		buf = heap = malloc(bytes);
		if (heap == NULL)
			return -ENOMEM;
	}
	put_entry(buf, e, tx->transid);
	err = tree_insert(tx, t, &key, buf, (uint32_t)bytes);
	if (err == -EEXIST)
		err = append_entry(tx, env, t, &key, e);
	return err;
}

int name_remove(struct txn_handle *tx, struct tree *t, const struct name_hit *hit)
{
	scoped(freep) uint8_t *buf = NULL;
	const struct item *it = &hit->item;
	uint32_t end = hit->entry.pos + hit->entry.bytes;
	uint32_t left = it->size - hit->entry.bytes;

	if (left == 0)
		return tree_delete(tx, t, &it->key);
	buf = malloc(left);
	if (buf == NULL)
		return -ENOMEM;
	memcpy(buf, it->data, hit->entry.pos);
	memcpy(buf + hit->entry.pos, it->data + end, it->size - end);
	return tree_replace(tx, t, &it->key, buf, left);
}

int name_replace(struct txn_handle *tx, const struct tree_env *env, struct tree *t,
		 const struct name_hit *hit, const struct name_new *e)
{
	scoped(freep) uint8_t *buf = NULL;
	const struct item *it = &hit->item;
	uint32_t pos = hit->entry.pos, end = pos + hit->entry.bytes;
	size_t bytes = it->size - hit->entry.bytes + new_bytes(e);

	if (bytes > tree_max_item_size(env))
		return -EOVERFLOW;
	buf = malloc(bytes);
	if (buf == NULL)
		return -ENOMEM;
	memcpy(buf, it->data, pos);
	put_entry(buf + pos, e, tx->transid);
	memcpy(buf + pos + new_bytes(e), it->data + end, it->size - end);
	return tree_replace(tx, t, &it->key, buf, (uint32_t)bytes);
}

struct repoint {
	uint32_t pos;
	const struct key *location;
	uint64_t transid;
	uint8_t type;
};

static int repoint_bytes(void *data, uint32_t size, void *arg)
{
	const struct repoint *r = arg;
	struct disk_dir_item d;

	if (size < r->pos + sizeof(d))
		return -EUCLEAN;
	memcpy(&d, (uint8_t *)data + r->pos, sizeof(d));
	key_to_disk(r->location, &d.location);
	disk_dir_item_set_transid(&d, r->transid);
	disk_dir_item_set_type(&d, r->type);
	memcpy((uint8_t *)data + r->pos, &d, sizeof(d));
	return 0;
}

int name_repoint(struct txn_handle *tx, struct tree *t, const struct name_hit *hit,
		 const struct key *location, uint8_t type)
{
	struct repoint r = { hit->entry.pos, location, tx->transid, type };

	return tree_edit(tx, t, &hit->item.key, repoint_bytes, &r);
}

/* --- indices ------------------------------------------------------------------------------------- */

int dir_index_add(struct txn_handle *tx, struct tree *t, uint64_t dir, uint64_t index,
		  const struct name_new *e)
{
	struct key key = key_make(dir, KEY_DIR_INDEX, index);
	uint8_t buf[sizeof(struct disk_dir_item) + NAME_MAX_BYTES];

	must(e->data_len == 0);
	must(e->name_len <= NAME_MAX_BYTES);
	put_entry(buf, e, tx->transid);
	return tree_insert(tx, t, &key, buf, (uint32_t)new_bytes(e));
}

int dir_index_remove(struct txn_handle *tx, struct tree *t, uint64_t dir, uint64_t index)
{
	struct key key = key_make(dir, KEY_DIR_INDEX, index);

	return tree_delete(tx, t, &key);
}

int dir_index_repoint(struct txn_handle *tx, struct tree *t, uint64_t dir, uint64_t index,
		      const struct key *location, uint8_t type)
{
	struct key key = key_make(dir, KEY_DIR_INDEX, index);
	struct repoint r = { 0, location, tx->transid, type };

	return tree_edit(tx, t, &key, repoint_bytes, &r);
}

int dir_index_next(struct tree *t, uint64_t dir, uint64_t *ret_index)
{
	struct key key = key_type_max(dir, KEY_DIR_INDEX);
	scoped(item_done) struct item it;
	int err;

	item_init(&it);
	err = tree_seek(t, &key, SEEK_ITEM_LE, &it);
	if (err < 0 && err != -ENOENT)
		return err;
	*ret_index = DIR_INDEX_FIRST;
	if (err == 0 && it.key.objectid == dir && it.key.type == KEY_DIR_INDEX) {
		if (it.key.offset == UINT64_MAX)
			return corrupt(tree_id(t), NO_ADDRESS, NO_SLOT, "directory %llu has no index left",
				       (unsigned long long)dir);
		*ret_index = max_u64(it.key.offset + 1, DIR_INDEX_FIRST);
	}
	return 0;
}

int dir_index_search(struct tree *t, uint64_t dir, const char *name, size_t len,
		     uint64_t *ret_index)
{
	struct key first = key_type_min(dir, KEY_DIR_INDEX), last = key_type_max(dir, KEY_DIR_INDEX);
	scoped(cursor_done) struct cursor c;
	struct name_entry e;
	int got;

	cursor_init(&c, t, &first, &last);
	while ((got = cursor_next(&c)) > 0) {
		int err = name_entry_find(t, &c.item, name, len, &e);

		if (err == -ENOENT)
			continue;
		if (err == 0)
			*ret_index = c.item.key.offset;
		return err;
	}
	return got < 0 ? got : -ENOENT;
}

/* --- names and types ----------------------------------------------------------------------------- */

int name_check(const char *name, size_t *ret_len)
{
	size_t len = strnlen(name, NAME_MAX_BYTES + 1);

	if (len == 0)
		return -ENOENT;
	if (len > NAME_MAX_BYTES)
		return -ENAMETOOLONG;
	if (memchr(name, '/', len) != NULL)
		return -EINVAL;
	*ret_len = len;
	return 0;
}

bool name_is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

uint8_t file_type_of_mode(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return FT_REG_FILE;
	case S_IFDIR:
		return FT_DIR;
	case S_IFCHR:
		return FT_CHRDEV;
	case S_IFBLK:
		return FT_BLKDEV;
	case S_IFIFO:
		return FT_FIFO;
	case S_IFSOCK:
		return FT_SOCK;
	case S_IFLNK:
		return FT_SYMLINK;
	default:
		return FT_UNKNOWN;
	}
}

uint8_t dirent_type_of(uint8_t file_type)
{
	static const uint8_t types[FT_COUNT] = {
		[FT_UNKNOWN] = DT_UNKNOWN, [FT_REG_FILE] = DT_REG, [FT_DIR] = DT_DIR,
		[FT_CHRDEV] = DT_CHR, [FT_BLKDEV] = DT_BLK, [FT_FIFO] = DT_FIFO,
		[FT_SOCK] = DT_SOCK, [FT_SYMLINK] = DT_LNK, [FT_XATTR] = DT_UNKNOWN,
	};

	return file_type < FT_COUNT ? types[file_type] : DT_UNKNOWN;
}
