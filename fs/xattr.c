/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/xattr.c - extended attributes.
 *
 * They are entries of XATTR_ITEMs (dir_item.h), several where names hash alike. The kernel asks for
 * security.capability before writes; `no_xattrs` answers that without a search once it is known.
 *
 * Locking: the inode's lock, shared to read.
 * Not here: who may see or change which (the kernel's).
 */
#include <errno.h>
#include <string.h>
#include <sys/xattr.h>

#include "fs/dir_item.h"
#include "fs/ops.h"
#include "fs/txn.h"
#include "io/csum.h"
#include "io/util.h"

#define XATTR_ITEMS 2u		/* the XATTR_ITEM and the inode */

static bool has_prefix(const char *name, const char *prefix)
{
	return strncmp(name, prefix, strlen(prefix)) == 0 && name[strlen(prefix)] != '\0';
}

static int check_name(const char *name, size_t *ret_len)
{
	size_t len = strnlen(name, XATTR_NAME_MAX_BYTES + 1);

	if (len == 0 || len > XATTR_NAME_MAX_BYTES)
		return -ERANGE;
	*ret_len = len;
	return 0;
}

/* The namespaces that can be read: btrfs.* are properties of the format. */
static bool readable(const char *name)
{
	return has_prefix(name, "user.") || has_prefix(name, "trusted.") ||
	       has_prefix(name, "security.") || has_prefix(name, "system.") ||
	       has_prefix(name, "btrfs.");
}

static bool known_bare(const struct inode *in)
{
	return __atomic_load_n(&in->no_xattrs, __ATOMIC_RELAXED);
}

/* After a name was not found: has the inode none at all? */
static int note_if_bare(struct inode *in)
{
	struct key first = key_type_min(in->ino, KEY_XATTR_ITEM);
	scoped(item_done) struct item it;
	int err;

	item_init(&it);
	err = tree_seek(in->sv->tree, &first, SEEK_ITEM_GE, &it);
	if (err < 0 && err != -ENOENT)
		return err;
	if (err == -ENOENT || it.key.objectid != in->ino || it.key.type != KEY_XATTR_ITEM)
		__atomic_store_n(&in->no_xattrs, true, __ATOMIC_RELAXED);
	return 0;
}

ssize_t fs_getxattr(struct inode *in, const char *name, void *buf, size_t size)
{
	scoped(name_hit_done) struct name_hit hit;
	size_t len;
	int err = check_name(name, &len);

	name_hit_init(&hit);
	if (err < 0)
		return err;
	if (!readable(name))
		return -EOPNOTSUPP;
	if (known_bare(in))
		return -ENODATA;
	read_guard(&in->lock);
	err = name_find(in->sv->tree, in->ino, KEY_XATTR_ITEM, name, len, &hit);
	if (err == -ENOENT) {
		err = note_if_bare(in);
		return err < 0 ? err : -ENODATA;
	}
	if (err < 0)
		return err;
	if (size == 0)
		return hit.entry.data_len;
	if (size < hit.entry.data_len)
		return -ERANGE;
	memcpy(buf, hit.entry.data, hit.entry.data_len);
	return hit.entry.data_len;
}

/* Appends the names of one item; *used counts also what has no room when size is 0. */
static int list_item(struct inode *in, const struct item *it, char *buf, size_t size, size_t *used)
{
	struct name_entry e;
	uint32_t pos = 0;
	int got;

	while ((got = name_entry_at(in->sv->tree, it, pos, &e)) > 0) {
		pos = e.pos + e.bytes;
		if (size != 0) {
			if (size - *used < e.name_len + 1u)
				return -ERANGE;
			memcpy(buf + *used, e.name, e.name_len);
			buf[*used + e.name_len] = '\0';
		}
		*used += e.name_len + 1u;
	}
	return got;
}

ssize_t fs_listxattr(struct inode *in, char *buf, size_t size)
{
	struct key first = key_type_min(in->ino, KEY_XATTR_ITEM);
	struct key last = key_type_max(in->ino, KEY_XATTR_ITEM);
	scoped(cursor_done) struct cursor c;
	size_t used = 0;
	int got = 0;

	cursor_init(&c, in->sv->tree, &first, &last);
	if (known_bare(in))
		return 0;
	read_guard(&in->lock);
	while ((got = cursor_next(&c)) > 0) {
		int err = list_item(in, &c.item, buf, size, &used);

		if (err < 0)
			return err;
	}
	if (got < 0)
		return got;
	if (used == 0)
		__atomic_store_n(&in->no_xattrs, true, __ATOMIC_RELAXED);
	return (ssize_t)used;
}

/* --- changing ------------------------------------------------------------------------------------ */

static int may_change(const struct inode *in, const char *name)
{
	int err = inode_want_write(in);

	if (err < 0)
		return err;
	if (!readable(name) || has_prefix(name, "btrfs."))
		return -EOPNOTSUPP;
	return in->flags & (INODE_IMMUTABLE | INODE_APPEND) ? -EPERM : 0;
}

/* The change itself, then the inode; in a transaction. `e` NULL: remove. */
static int change_items(struct txn_handle *tx, struct inode *in, const struct name_hit *hit,
			bool found, const struct name_new *e)
{
	struct fs *fs = inode_fs(in);
	struct timespec now = fs_now();
	struct tree *t = in->sv->tree;
	int err;

	if (e == NULL)
		err = name_remove(tx, t, hit);
	else if (found)
		err = name_replace(tx, fs->env, t, hit, e);
	else
		err = name_add(tx, fs->env, t, in->ino, KEY_XATTR_ITEM, e);
	if (err < 0)
		return err == -EOVERFLOW ? -ENOSPC : err;
	if (e != NULL)
		__atomic_store_n(&in->no_xattrs, false, __ATOMIC_RELAXED);
	inode_changed(in, &now);
	err = inode_store(tx, in);
	return err < 0 ? txn_abort(fs, err) : 0;
}

static int change(struct inode *in, const char *name, size_t len, const struct name_new *e,
		  int flags)
{
	scoped(name_hit_done) struct name_hit hit;
	struct txn_handle tx;
	bool found;
	int err;

	name_hit_init(&hit);
	write_guard(&in->lock);
	err = may_change(in, name);
	if (err < 0)
		return err;
	err = known_bare(in) ? -ENOENT :
	      name_find(in->sv->tree, in->ino, KEY_XATTR_ITEM, name, len, &hit);
	if (err < 0 && err != -ENOENT)
		return err;
	found = err == 0;
	if (found && flags & XATTR_CREATE)
		return -EEXIST;
	if (!found && flags & XATTR_REPLACE)
		return -ENODATA;
	err = txn_start(inode_fs(in), &tx, XATTR_ITEMS, e ? RSV_NORMAL : RSV_FREEING);
	if (err < 0)
		return err;
	err = change_items(&tx, in, &hit, found, e);
	txn_end(inode_fs(in), &tx);
	return err;
}

int fs_setxattr(struct inode *in, const char *name, const void *value, size_t size, int flags)
{
	struct name_new e = { .name = name, .type = FT_XATTR, .data = value, .data_len = size };
	int err = check_name(name, &e.name_len);
	bool tried = false;

	if (err < 0)
		return err;
	if (flags & ~(XATTR_CREATE | XATTR_REPLACE))
		return -EINVAL;
	if (size > XATTR_VALUE_MAX_BYTES)
		return -E2BIG;
	if (sizeof(struct disk_dir_item) + e.name_len + size >
	    tree_max_item_size(inode_fs(in)->env))
		return -ENOSPC;
	do
		err = change(in, name, e.name_len, &e, flags);
	while (fs_try_again(inode_fs(in), err, &tried));
	return err < 0 ? err : inode_sync_if_asked(in);
}

int fs_removexattr(struct inode *in, const char *name)
{
	size_t len;
	int err = check_name(name, &len);

	if (err == 0)
		err = change(in, name, len, NULL, XATTR_REPLACE);
	return err < 0 ? err : inode_sync_if_asked(in);
}
