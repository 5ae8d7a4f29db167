/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/namei.c - making and removing names: mknod, symlink, link, unlink, rmdir; and readlink.
 *
 * Each operation checks all that can go wrong before its first change of a tree. That first change is
 * the DIR_ITEM, so that -EEXIST and a failed read leave everything as it was; an error after it
 * aborts the transaction.
 *
 * Locking: the directory's lock exclusively, then the victim's (or both in order, then looking
 * again). Renaming is in rename.c.
 */
#include "fs/namei.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "fs/inode_ref.h"
#include "fs/orphan.h"
#include "fs/txn.h"
#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

/* Items changed: DIR_ITEM, DIR_INDEX, INODE_REF, the inode, the directory; and some more each. */
#define CREATE_ITEMS 5u
#define LINK_ITEMS 5u
#define REMOVE_ITEMS 6u

#define COMPRESSION_XATTR "btrfs.compression"

/* --- shared with rename.c ------------------------------------------------------------------------ */

int dir_may_add(const struct inode *dir)
{
	int err = inode_want_write(dir);

	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	if (err < 0)
		return err;
	if (dir->nlink == 0)
		return -ENOENT;
	return dir->flags & INODE_IMMUTABLE ? -EPERM : 0;
}

int dir_may_remove(const struct inode *dir, const struct inode *victim)
{
	int err = inode_want_write(dir);

	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	if (err < 0)
		return err;
	if ((dir->flags | victim->flags) & (INODE_IMMUTABLE | INODE_APPEND))
		return -EPERM;
	return 0;
}

int dir_take_index(struct inode *dir, uint64_t *ret_index)
{
	rwlock_assert_wrheld(&dir->lock);
	if (dir->next_dir_index == 0) {
		int err = dir_index_next(dir->sv->tree, dir->ino, &dir->next_dir_index);

		if (err < 0)
			return err;
	}
	*ret_index = dir->next_dir_index++;
	return 0;
}

void dir_changed(struct inode *dir, const struct timespec *now, int64_t delta_names)
{
	uint64_t bytes = delta_names < 0 ? (uint64_t)-delta_names : (uint64_t)delta_names;

	/* The name counts twice: in DIR_ITEM and in DIR_INDEX. */
	if (delta_names >= 0)
		dir->size += 2 * bytes;
	else
		dir->size -= min_u64(dir->size, 2 * bytes);
	dir->disk_size = dir->size;
	dir->mtime = *now;
	inode_changed(dir, now);
}

int inode_lose_name(struct txn_handle *tx, struct inode *in, const struct timespec *now,
		    struct orphan **orphan)
{
	int err;

	in->nlink--;
	inode_changed(in, now);
	if (in->nlink == 0) {
		in->doomed = true;
		err = orphan_add(tx, in, orphan);
		if (err < 0)
			return err;
	}
	return inode_store(tx, in);
}

static uint64_t inherited_flags(const struct inode *dir, uint32_t mode)
{
	const struct fs_options *opt = &inode_fs(dir)->opt;
	uint64_t flags = 0;

	if (dir->flags & INODE_NOCOMPRESS)
		flags |= INODE_NOCOMPRESS;
	else if (dir->flags & INODE_COMPRESS)
		flags |= INODE_COMPRESS;
	if (dir->flags & INODE_NODATACOW)
		flags |= INODE_NODATACOW | (S_ISREG(mode) ? INODE_NODATASUM : 0);
	if (S_ISREG(mode) && opt->nodatacow)
		flags |= INODE_NODATACOW | INODE_NODATASUM;
	if (S_ISREG(mode) && opt->nodatasum)
		flags |= INODE_NODATASUM;
	return flags;
}

int inode_new_in(struct inode *dir, uint32_t mode, struct cred who, struct inode **ret_inode)
{
	struct inode *in;
	uint64_t ino;
	int err = subvol_new_ino(dir->sv, &ino);

	if (err == 0)
		err = inode_new(inode_fs(dir), dir->sv, ino, &in);
	if (err < 0)
		return err;
	in->mode = mode;
	in->nlink = 1;
	in->uid = who.uid;
	in->gid = who.gid;
	in->flags = inherited_flags(dir, mode);
	if (dir->mode & S_ISGID) {
		in->gid = dir->gid;
		if (S_ISDIR(mode))
			in->mode |= S_ISGID;
	}
	if (S_ISDIR(mode))
		in->next_dir_index = DIR_INDEX_FIRST;
	*ret_inode = in;
	return 0;
}

/* --- making -------------------------------------------------------------------------------------- */

struct creation {
	struct inode *dir, *in;
	const char *name;
	size_t len;
	uint64_t index;
	const char *target;		/* symlinks */
	size_t target_len;
	struct name_hit prop;		/* the directory's compression property, if entry.bytes != 0 */
};

static void creation_done(struct creation *c)
{
	inode_put(c->in);
	name_hit_done(&c->prop);
}

/* Back to the beginning, for another try. */
static void creation_reset(struct creation *c)
{
	creation_done(c);
	c->in = NULL;
	name_hit_init(&c->prop);
}

/* The compression property of a directory goes to the files and directories made in it. */
static int load_prop(struct creation *c)
{
	int err;

	if (!(c->dir->flags & (INODE_COMPRESS | INODE_NOCOMPRESS)) ||
	    !(S_ISREG(c->in->mode) || S_ISDIR(c->in->mode)))
		return 0;
	err = name_find(c->dir->sv->tree, c->dir->ino, KEY_XATTR_ITEM, COMPRESSION_XATTR,
			strlen(COMPRESSION_XATTR), &c->prop);
	return err == -ENOENT ? 0 : err;
}

static uint32_t symlink_bytes(uint8_t *buf, const struct creation *c, uint64_t transid)
{
	struct disk_file_extent d = {0};

	disk_file_extent_set_generation(&d, transid);
	disk_file_extent_set_ram_bytes(&d, c->target_len);
	disk_file_extent_set_type(&d, FILE_EXTENT_INLINE);
	memcpy(buf, &d, FILE_EXTENT_INLINE_OFFSET);
	memcpy(buf + FILE_EXTENT_INLINE_OFFSET, c->target, c->target_len);
	return (uint32_t)(FILE_EXTENT_INLINE_OFFSET + c->target_len);
}

/* The new inode's own items: neighbours in the tree, nothing lies between. */
static int insert_inode_items(struct txn_handle *tx, struct creation *c, uint8_t *symlink)
{
	struct inode *in = c->in;
	uint8_t ref[INODE_REF_BYTES_MAX];
	struct item_vec v[4];
	unsigned n = 1;

	v[n++] = (struct item_vec){
		.key = key_make(in->ino, KEY_INODE_REF, c->dir->ino),
		.data = ref,
		.size = inode_ref_bytes(ref, c->name, c->len, c->index),
	};
	if (c->prop.entry.bytes != 0) {
		in->no_xattrs = false;
		v[n++] = (struct item_vec){
			.key = key_make(in->ino, KEY_XATTR_ITEM, c->prop.item.key.offset),
			.data = c->prop.item.data + c->prop.entry.pos,
			.size = c->prop.entry.bytes,
		};
	}
	if (symlink != NULL)
		v[n++] = (struct item_vec){
			.key = key_make(in->ino, KEY_EXTENT_DATA, 0),
			.data = symlink,
			.size = symlink_bytes(symlink, c, tx->transid),
		};
	return inode_insert_vec(tx, in, v, n);
}

static int create_items(struct txn_handle *tx, struct creation *c, uint8_t *symlink)
{
	struct inode *dir = c->dir, *in = c->in;
	struct fs *fs = inode_fs(dir);
	struct name_new e = {
		.name = c->name,
		.name_len = c->len,
		.location = key_make(in->ino, KEY_INODE_ITEM, 0),
		.type = file_type_of_mode(in->mode),
	};
	int err = name_add(tx, fs->env, dir->sv->tree, dir->ino, KEY_DIR_ITEM, &e);

	if (err < 0)
		return err;
	in->generation = tx->transid;
	err = dir_index_add(tx, dir->sv->tree, dir->ino, c->index, &e);
	if (err == 0)
		err = insert_inode_items(tx, c, symlink);
	if (err == 0) {
		dir_changed(dir, &in->ctime, (int64_t)c->len);
		err = inode_store(tx, dir);
	}
	return err < 0 ? txn_abort(fs, err) : 0;
}

static int create_locked(struct creation *c, uint32_t mode, uint64_t rdev, struct cred who)
{
	struct fs *fs = inode_fs(c->dir);
	unsigned items = CREATE_ITEMS;
	scoped(freep) uint8_t *symlink = NULL;
	struct txn_handle tx;
	int err;

	write_guard(&c->dir->lock);
	err = dir_may_add(c->dir);
	if (err == 0)
		err = dir_take_index(c->dir, &c->index);
	if (err == 0)
		err = inode_new_in(c->dir, mode, who, &c->in);
	if (err == 0)
		err = load_prop(c);
	if (err < 0)
		return err;
	c->in->rdev = rdev;
	if (c->target != NULL) {
		c->in->size = c->in->nbytes = c->target_len;
		items++;
		symlink = malloc(FILE_EXTENT_INLINE_OFFSET + c->target_len);
		if (symlink == NULL)
			return -ENOMEM;
	}
	if (c->prop.entry.bytes != 0)
		items++;
	err = txn_start(fs, &tx, items, RSV_NORMAL);
	if (err < 0)
		return err;
	err = create_items(&tx, c, symlink);
	txn_end(fs, &tx);
	return err;
}

static int create(struct creation *c, uint32_t mode, uint64_t rdev, struct cred who,
		  struct inode **ret_inode)
{
	int err = name_check(c->name, &c->len);
	bool tried = false;

	if (err == 0 && name_is_dots(c->name))
		err = -EEXIST;
	if (err == 0)
		err = create_locked(c, mode, rdev, who);
	while (fs_try_again(inode_fs(c->dir), err, &tried)) {
		creation_reset(c);
		err = create_locked(c, mode, rdev, who);
	}
	if (err == 0)
		err = inode_sync_if_asked(c->dir);
	if (err < 0)
		return err;
	*ret_inode = take(c->in);
	return 0;
}

/* A device number as the format keeps it. */
static uint64_t rdev_to_disk(uint64_t rdev)
{
	return (uint64_t)major(rdev) << 20 | minor(rdev);
}

int fs_mknod(struct inode *dir, const char *name, uint32_t mode, uint64_t rdev, struct cred who,
	     struct inode **ret_inode)
{
	scoped(creation_done) struct creation c = { .dir = dir, .name = name };
	bool device = S_ISCHR(mode) || S_ISBLK(mode);

	name_hit_init(&c.prop);
	if (file_type_of_mode(mode) == FT_UNKNOWN || S_ISLNK(mode))
		return -EINVAL;
	return create(&c, mode & (S_IFMT | 07777), device ? rdev_to_disk(rdev) : 0, who, ret_inode);
}

int fs_symlink(struct inode *dir, const char *name, const char *target, struct cred who,
	       struct inode **ret_inode)
{
	struct fs *fs = inode_fs(dir);
	scoped(creation_done) struct creation c = {
		.dir = dir, .name = name, .target = target, .target_len = strlen(target),
	};

	name_hit_init(&c.prop);
	if (c.target_len == 0)
		return -ENOENT;
	if (c.target_len > tree_max_item_size(fs->env) - FILE_EXTENT_INLINE_OFFSET ||
	    c.target_len >= fs->sectorsize)
		return -ENAMETOOLONG;
	return create(&c, S_IFLNK | 0777, 0, who, ret_inode);
}

/* --- one name more ------------------------------------------------------------------------------- */

static int link_items(struct txn_handle *tx, struct inode *in, struct inode *dir, const char *name,
		      size_t len, uint64_t index)
{
	struct fs *fs = inode_fs(dir);
	struct timespec now = fs_now();
	struct name_new e = {
		.name = name,
		.name_len = len,
		.location = key_make(in->ino, KEY_INODE_ITEM, 0),
		.type = file_type_of_mode(in->mode),
	};
	int err = name_add(tx, fs->env, dir->sv->tree, dir->ino, KEY_DIR_ITEM, &e);

	if (err < 0)
		return err;
	err = dir_index_add(tx, dir->sv->tree, dir->ino, index, &e);
	if (err == 0)
		err = inode_ref_add(tx, fs, in->sv->tree, in->ino, dir->ino, name, len, index);
	if (err == 0) {
		in->nlink++;
		inode_changed(in, &now);
		err = inode_store(tx, in);
	}
	if (err == 0) {
		dir_changed(dir, &now, (int64_t)len);
		err = inode_store(tx, dir);
	}
	return err < 0 ? txn_abort(fs, err) : 0;
}

static int may_link(const struct inode *in, const struct inode *dir)
{
	int err = dir_may_add(dir);

	if (err < 0)
		return err;
	if (in->sv != dir->sv)
		return -EXDEV;
	if (S_ISDIR(in->mode) || in->flags & (INODE_IMMUTABLE | INODE_APPEND))
		return -EPERM;
	if (in->nlink == 0)
		return -ENOENT;
	return in->nlink >= LINK_MAX_COUNT ? -EMLINK : 0;
}

static int link_locked(struct inode *in, struct inode *dir, const char *name, size_t len)
{
	scoped(inode_set_unlock) struct inode_set set = {0};
	struct fs *fs = inode_fs(dir);
	struct txn_handle tx;
	uint64_t index;
	int err;

	inode_set_add(&set, in);
	inode_set_add(&set, dir);
	inode_set_lock(&set);
	err = may_link(in, dir);
	if (err == 0)
		err = inode_ref_room(fs, in->sv->tree, in->ino, dir->ino, name, len, in->nlink);
	if (err == 0)
		err = dir_take_index(dir, &index);
	if (err == 0)
		err = txn_start(fs, &tx, LINK_ITEMS, RSV_NORMAL);
	if (err < 0)
		return err;
	err = link_items(&tx, in, dir, name, len, index);
	txn_end(fs, &tx);
	return err;
}

int fs_link(struct inode *in, struct inode *dir, const char *name)
{
	size_t len;
	int err = name_check(name, &len);
	bool tried = false;

	if (err == 0 && name_is_dots(name))
		err = -EEXIST;
	if (err == 0)
		do
			err = link_locked(in, dir, name, len);
		while (fs_try_again(inode_fs(dir), err, &tried));
	return err < 0 ? err : inode_sync_if_asked(dir);
}

/* --- one name less ------------------------------------------------------------------------------- */

struct removal {
	struct inode_set set;
	struct inode *dir, *in;
	struct name_hit hit;
	struct ref_hit ref;
	struct child child;
	struct orphan *orphan;
	uint64_t index;
	size_t len;
};

static void removal_done(struct removal *r)
{
	inode_set_unlock(&r->set);
	inode_put(r->in);
	name_hit_done(&r->hit);
	ref_hit_done(&r->ref);
	orphan_free(r->orphan);
}

/*
 * Locks the directory and what the name names. Usually the inode comes after its directory in lock
 * order, or is free; else both are locked in order and the name is looked at again.
 */
static int removal_lock(struct removal *r, const char *name)
{
	for (;;) {
		struct inode *in;
		int err;

		inode_set_add(&r->set, r->dir);
		inode_set_add(&r->set, r->in);
		inode_set_lock(&r->set);
		if (!S_ISDIR(r->dir->mode))
			return -ENOTDIR;
		err = child_find(r->dir, name, r->len, &r->hit, &r->child, &in);
		if (err < 0)
			return err;
		inode_put(r->in);
		r->in = in;
		if (inode_set_lock_more(&r->set, in))
			return 0;
		inode_set_unlock(&r->set);
	}
}

static int removal_check(struct removal *r, bool dir_wanted)
{
	struct inode *in = r->in;
	int err = dir_may_remove(r->dir, in);

	if (err < 0)
		return err;
	if (dir_wanted != S_ISDIR(in->mode))
		return dir_wanted ? -ENOTDIR : -EISDIR;
	if (dir_wanted && in->size != 0)
		return -ENOTEMPTY;
	if (r->child.kind == CHILD_SUBVOL)
		return -EPERM;
	if (r->child.kind == CHILD_INODE && in->nlink == 0)
		return corrupt(in->sv->id, NO_ADDRESS, NO_SLOT, "inode %llu has a name and no link",
			       (unsigned long long)in->ino);
	return 0;
}

/* Finds the entry's index and prepares the orphan. */
static int removal_prepare(struct removal *r, const char *name)
{
	struct tree *t = r->dir->sv->tree;
	int err;

	if (r->child.kind == CHILD_STANDIN)
		return dir_index_search(t, r->dir->ino, name, r->len, &r->index);
	err = inode_ref_find(t, r->in->ino, r->dir->ino, name, r->len, &r->ref);
	if (err == -ENOENT)
		return corrupt(r->dir->sv->id, NO_ADDRESS, NO_SLOT,
			       "inode %llu does not know its name in directory %llu",
			       (unsigned long long)r->in->ino, (unsigned long long)r->dir->ino);
	if (err < 0)
		return err;
	r->index = r->ref.index;
	if (r->in->nlink == 1) {
		r->orphan = orphan_new(r->in);
		if (r->orphan == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int removal_items(struct txn_handle *tx, struct removal *r)
{
	struct inode *dir = r->dir;
	struct fs *fs = inode_fs(dir);
	struct timespec now = fs_now();
	int err = name_remove(tx, dir->sv->tree, &r->hit);

	if (err < 0)
		return err;
	err = dir_index_remove(tx, dir->sv->tree, dir->ino, r->index);
	if (err == 0 && r->child.kind == CHILD_INODE) {
		err = inode_ref_remove(tx, dir->sv->tree, &r->ref);
		if (err == 0)
			err = inode_lose_name(tx, r->in, &now, &r->orphan);
	}
	if (err == 0) {
		dir_changed(dir, &now, -(int64_t)r->len);
		err = inode_store(tx, dir);
	}
	return err < 0 ? txn_abort(fs, err) : 0;
}

static int remove_name(struct inode *dir, const char *name, size_t len, bool dir_wanted)
{
	scoped(removal_done) struct removal r = { .dir = dir, .len = len };
	struct fs *fs = inode_fs(dir);
	struct txn_handle tx;
	int err;

	name_hit_init(&r.hit);
	ref_hit_init(&r.ref);
	if (ino_is_standin(dir->ino))
		return -ENOENT;
	err = removal_lock(&r, name);
	if (err == 0)
		err = removal_check(&r, dir_wanted);
	if (err == 0)
		err = removal_prepare(&r, name);
	if (err == 0)
		err = txn_start(fs, &tx, REMOVE_ITEMS, RSV_FREEING);
	if (err < 0)
		return err;
	err = removal_items(&tx, &r);
	txn_end(fs, &tx);
	return err;
}

int fs_unlink(struct inode *dir, const char *name)
{
	size_t len;
	int err = name_check(name, &len);

	if (err == 0 && name_is_dots(name))
		err = -EISDIR;
	if (err == 0)
		err = remove_name(dir, name, len, false);
	return err < 0 ? err : inode_sync_if_asked(dir);
}

int fs_rmdir(struct inode *dir, const char *name)
{
	size_t len;
	int err = name_check(name, &len);

	if (err == 0 && name_is_dots(name))
		err = len == 1 ? -EINVAL : -ENOTEMPTY;
	if (err == 0)
		err = remove_name(dir, name, len, true);
	return err < 0 ? err : inode_sync_if_asked(dir);
}

/* --- symbolic links ------------------------------------------------------------------------------ */

int fs_readlink(struct inode *in, char *buf, size_t cap)
{
	struct key key = key_make(in->ino, KEY_EXTENT_DATA, 0);
	scoped(item_done) struct item it;
	struct disk_file_extent d = {0};
	size_t len;
	int err;

	item_init(&it);
	if (!S_ISLNK(in->mode))
		return -EINVAL;
	err = tree_get(in->sv->tree, &key, &it);
	if (err < 0)
		return err == -ENOENT ? corrupt(in->sv->id, NO_ADDRESS, NO_SLOT,
						"symbolic link %llu has no target",
						(unsigned long long)in->ino) : err;
	if (it.size > FILE_EXTENT_INLINE_OFFSET)
		memcpy(&d, it.data, FILE_EXTENT_INLINE_OFFSET);
	len = it.size > FILE_EXTENT_INLINE_OFFSET ? it.size - FILE_EXTENT_INLINE_OFFSET : 0;
	if (len == 0 || disk_file_extent_type(&d) != FILE_EXTENT_INLINE ||
	    disk_file_extent_compression(&d) != COMPRESS_NONE || len != in->size)
		return corrupt(in->sv->id, NO_ADDRESS, NO_SLOT,
			       "symbolic link %llu: target of %zu bytes, size %llu",
			       (unsigned long long)in->ino, len, (unsigned long long)in->size);
	if (len >= cap)
		return -ENAMETOOLONG;
	memcpy(buf, it.data + FILE_EXTENT_INLINE_OFFSET, len);
	buf[len] = '\0';
	return 0;
}
