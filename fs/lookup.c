/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/lookup.c - from a name to an inode, and from a directory to its parent.
 *
 * Locking: fs_lookup() holds the directory's lock shared while it reads the entry.
 */
#include <errno.h>
#include <sys/stat.h>

#include "fs/inode_ref.h"
#include "fs/namei.h"
#include "io/log.h"
#include "io/util.h"

static int child_subvol(struct inode *dir, const struct name_entry *e, struct child *ret_child)
{
	uint64_t id = e->location.objectid;
	uint64_t index = 0;
	int err = root_ref_find(inode_fs(dir), dir->sv->id, id, dir->ino, e->name, e->name_len, &index);

	if (err < 0 && err != -ENOENT)
		return err;
	if (id != OBJ_FS_TREE && (id < OBJ_FIRST_FREE || id > OBJ_LAST_FREE))
		return corrupt(dir->sv->id, NO_ADDRESS, NO_SLOT,
			       "an entry of directory %llu names tree %llu",
			       (unsigned long long)dir->ino, (unsigned long long)id);
	if (err == 0) {
		*ret_child = (struct child){ CHILD_SUBVOL, { id, INO_ROOT }, index };
		return 0;
	}
	*ret_child = (struct child){ CHILD_STANDIN, { dir->sv->id, standin_ino(id) }, 0 };
	return 0;
}

int child_resolve(struct inode *dir, const struct name_entry *e, struct child *ret_child)
{
	switch (e->location.type) {
	case KEY_INODE_ITEM:
		*ret_child = (struct child){
			CHILD_INODE, { dir->sv->id, e->location.objectid }, 0
		};
		return 0;
	case KEY_ROOT_ITEM:
		return child_subvol(dir, e, ret_child);
	default:
		return corrupt(dir->sv->id, NO_ADDRESS, NO_SLOT,
			       "an entry of directory %llu names (" KEY_FMT ")",
			       (unsigned long long)dir->ino, KEY_ARGS(&e->location));
	}
}

/* A stand-in takes its owner and times from the directory it is found in. */
static void dress_standin(struct inode *in, const struct inode *dir)
{
	write_guard(&in->lock);
	in->standin_parent = dir->ino;
	in->uid = dir->uid;
	in->gid = dir->gid;
	in->atime = in->mtime = in->ctime = in->otime = dir->mtime;
}

static int check_type(const struct inode *dir, const struct inode *in, uint8_t type)
{
	if (type == FT_UNKNOWN || file_type_of_mode(in->mode) == (type & ~FT_ENCRYPTED))
		return 0;
	return corrupt(dir->sv->id, NO_ADDRESS, NO_SLOT,
		       "an entry of directory %llu calls inode %llu type %u, its mode is 0%o",
		       (unsigned long long)dir->ino, (unsigned long long)in->ino, type, in->mode);
}

int child_find(struct inode *dir, const char *name, size_t len, struct name_hit *ret_hit,
	       struct child *ret_child, struct inode **ret_in)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = name_find(dir->sv->tree, dir->ino, KEY_DIR_ITEM, name, len, ret_hit);

	if (err == 0)
		err = child_resolve(dir, &ret_hit->entry, ret_child);
	if (err == 0)
		err = inode_get(inode_fs(dir), ret_child->id.subvol, ret_child->id.ino, &in);
	if (err == 0)
		err = check_type(dir, in, ret_hit->entry.type);
	if (err < 0)
		return err;
	*ret_in = take(in);
	return 0;
}

int fs_lookup(struct inode *dir, const char *name, struct inode **ret_inode)
{
	scoped(name_hit_done) struct name_hit hit;
	struct child child;
	struct inode *in;
	size_t len;
	int err;

	name_hit_init(&hit);
	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	err = name_check(name, &len);
	if (err < 0)
		return err;
	if (name_is_dots(name)) {
		if (name[1] == '.')
			return fs_parent(dir, ret_inode);
		*ret_inode = inode_ref(dir);
		return 0;
	}
	if (ino_is_standin(dir->ino))
		return -ENOENT;
	rwlock_rdlock(&dir->lock);
	err = child_find(dir, name, len, &hit, &child, &in);
	rwlock_rdunlock(&dir->lock);
	if (err < 0)
		return err;
	if (child.kind == CHILD_STANDIN)
		dress_standin(in, dir);
	*ret_inode = in;
	return 0;
}

int fs_parent(struct inode *dir, struct inode **ret_parent)
{
	struct fs *fs = inode_fs(dir);
	uint64_t subvol = dir->sv->id, ino;
	int err;

	if (!S_ISDIR(dir->mode))
		return -ENOTDIR;
	if (ino_is_standin(dir->ino)) {
		ino = dir->standin_parent ? dir->standin_parent : INO_ROOT;
		return inode_get(fs, subvol, ino, ret_parent);
	}
	if (dir->ino == INO_ROOT)
		err = subvol == fs->root_subvol ? -ENOENT : subvol_parent(fs, subvol, &subvol, &ino);
	else
		err = inode_ref_parent(dir->sv->tree, dir->ino, &ino);
	if (err == -ENOENT && dir->ino == INO_ROOT) {
		*ret_parent = inode_ref(dir);
		return 0;
	}
	if (err < 0)
		return err;
	return inode_get(fs, subvol, ino, ret_parent);
}
