/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/subvol.c - the table of opened subvolumes; see subvol.h.
 *
 * Locking: table->lock (RANK_CACHE) covers the hash chains. A subvol is looked up in the root tree
 * without it; of two threads that open the same one at once, the later throws its own away.
 */
#include "fs/subvol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/ops.h"
#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

#define SUBVOL_BUCKETS 256u

struct subvol_table {
	struct mutex lock;
	struct subvol *buckets[SUBVOL_BUCKETS];
};

static struct subvol **bucket_of(struct subvol_table *t, uint64_t id)
{
	return &t->buckets[id % SUBVOL_BUCKETS];
}

static bool is_subvol_id(uint64_t id)
{
	return id == OBJ_FS_TREE || (id >= OBJ_FIRST_FREE && id <= OBJ_LAST_FREE);
}

int subvol_table_new(struct fs *fs)
{
	struct subvol_table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return -ENOMEM;
	mutex_init(&t->lock, RANK_CACHE);
	fs->subvols = t;
	return 0;
}

static void subvol_free(struct subvol *sv)
{
	if (sv == NULL)
		return;
	tree_close(sv->tree);
	mutex_done(&sv->ino_lock);
	free(sv);
}

static void subvol_freep(struct subvol **sv)
{
	subvol_free(*sv);
}

void subvol_table_free(struct fs *fs)
{
	struct subvol_table *t = fs->subvols;

	if (t == NULL)
		return;
	for (unsigned i = 0; i < SUBVOL_BUCKETS; i++) {
		while (t->buckets[i] != NULL) {
			struct subvol *sv = t->buckets[i];

			t->buckets[i] = sv->next;
			subvol_free(sv);
		}
	}
	mutex_done(&t->lock);
	free(t);
	fs->subvols = NULL;
}

static struct subvol *find_locked(struct subvol_table *t, uint64_t id)
{
	struct subvol *sv = *bucket_of(t, id);

	while (sv != NULL && sv->id != id)
		sv = sv->next;
	return sv;
}

static int subvol_open(struct fs *fs, uint64_t id, struct subvol **ret_subvol)
{
	scoped(subvol_freep) struct subvol *sv = calloc(1, sizeof(*sv));
	int err;

	if (sv == NULL)
		return -ENOMEM;
	mutex_init(&sv->ino_lock, RANK_DELAYED);
	sv->id = id;
	sv->fs = fs;
	err = root_item_find(fs->trees.root, id, &sv->root);
	if (err < 0)
		return err;
	if (disk_root_item_refs(&sv->root.item) == 0)
		return -ENOENT;
	err = root_item_open(fs->env, &sv->root, true);
	if (err < 0)
		return err;
	sv->tree = sv->root.tree;
	sv->rdonly = disk_root_item_flags(&sv->root.item) & ROOT_SUBVOL_RDONLY;
	sv->last_snapshot = disk_root_item_last_snapshot(&sv->root.item);
	*ret_subvol = take(sv);
	return 0;
}

int subvol_get(struct fs *fs, uint64_t id, struct subvol **ret_subvol)
{
	struct subvol_table *t = fs->subvols;
	scoped(subvol_freep) struct subvol *fresh = NULL;
	struct subvol *sv;
	int err;

	if (!is_subvol_id(id))
		return -ENOENT;
	mutex_lock(&t->lock);
	sv = find_locked(t, id);
	mutex_unlock(&t->lock);
	if (sv == NULL) {
		err = subvol_open(fs, id, &fresh);
		if (err < 0)
			return err;
		mutex_guard(&t->lock);
		sv = find_locked(t, id);
		if (sv == NULL) {
			sv = take(fresh);
			sv->next = *bucket_of(t, id);
			*bucket_of(t, id) = sv;
		}
	}
	*ret_subvol = sv;
	return 0;
}

int subvol_new_ino(struct subvol *sv, uint64_t *ret_ino)
{
	struct key past = key_make(OBJ_LAST_FREE, UINT8_MAX, UINT64_MAX);
	scoped(item_done) struct item it;
	int err;

	item_init(&it);
	mutex_guard(&sv->ino_lock);
	if (sv->next_ino == 0) {
		err = tree_seek(sv->tree, &past, SEEK_ITEM_LE, &it);
		if (err < 0)
			return err;
		sv->next_ino = max_u64(it.key.objectid, OBJ_FIRST_FREE) + 1;
	}
	if (sv->next_ino > OBJ_LAST_FREE)
		return -ENOSPC;
	*ret_ino = sv->next_ino++;
	return 0;
}

int subvol_by_path(struct fs *fs, const char *path, uint64_t *ret_id)
{
	scoped(inode_putp) struct inode *at = NULL;
	char name[NAME_MAX_BYTES + 1];
	int err = inode_get(fs, OBJ_FS_TREE, INO_ROOT, &at);

	if (err < 0)
		return err;
	for (const char *p = path + strspn(path, "/"); *p != '\0'; p += strspn(p, "/")) {
		struct inode *next = NULL;
		size_t len = strcspn(p, "/");

		if (len > NAME_MAX_BYTES)
			return -ENAMETOOLONG;
		memcpy(name, p, len);
		name[len] = '\0';
		err = fs_lookup(at, name, &next);
		if (err < 0)
			return err;
		inode_put(at);
		at = next;
		p += len;
	}
	if (at->ino != INO_ROOT)
		return -ENOTDIR;
	*ret_id = at->sv->id;
	return 0;
}

int subvol_default(struct fs *fs, uint64_t *ret_id)
{
	struct key key = key_make(OBJ_ROOT_TREE_DIR, KEY_DIR_ITEM, name_hash("default", 7));
	scoped(item_done) struct item it;
	struct disk_dir_item d;
	int err;

	item_init(&it);
	err = tree_get(fs->trees.root, &key, &it);
	if (err == -ENOENT) {
		*ret_id = OBJ_FS_TREE;
		return 0;
	}
	if (err < 0)
		return err;
	if (it.size < sizeof(d) + 7)
		return corrupt(OBJ_ROOT_TREE, NO_ADDRESS, NO_SLOT, "default subvolume entry of %u bytes",
			       it.size);
	memcpy(&d, it.data, sizeof(d));
	*ret_id = disk_key_objectid(&d.location);
	return 0;
}

int subvol_parent(struct fs *fs, uint64_t id, uint64_t *ret_parent, uint64_t *ret_dir)
{
	struct key key = key_type_min(id, KEY_ROOT_BACKREF);
	scoped(item_done) struct item it;
	struct disk_root_ref ref;
	int err;

	item_init(&it);
	err = tree_seek(fs->trees.root, &key, SEEK_ITEM_GE, &it);
	if (err < 0)
		return err;
	if (it.key.objectid != id || it.key.type != KEY_ROOT_BACKREF)
		return -ENOENT;
	if (it.size < sizeof(ref))
		return corrupt(OBJ_ROOT_TREE, NO_ADDRESS, NO_SLOT, "root backref of %u bytes", it.size);
	memcpy(&ref, it.data, sizeof(ref));
	*ret_parent = it.key.offset;
	*ret_dir = disk_root_ref_dirid(&ref);
	return 0;
}

int subvol_commit_roots(struct fs *fs, struct txn_handle *tx, bool *ret_more)
{
	struct subvol_table *t = fs->subvols;

	/* The door is closed: nobody can add a subvolume whose tree has changed. */
	for (unsigned i = 0; i < SUBVOL_BUCKETS; i++) {
		mutex_lock(&t->lock);
		struct subvol *sv = t->buckets[i];
		mutex_unlock(&t->lock);

		for (; sv != NULL; sv = sv->next) {
			int err = root_item_store(fs->trees.root, tx, &sv->root, true, ret_more);

			if (err < 0)
				return err;
		}
	}
	return 0;
}

int subvol_for_each(struct fs *fs, int (*fn)(struct fs *fs, uint64_t id, void *arg), void *arg)
{
	uint64_t next = OBJ_FS_TREE;
	scoped(item_done) struct item it;

	item_init(&it);
	for (;;) {
		struct key key = key_make(next, KEY_ROOT_ITEM, 0);
		int err = tree_seek(fs->trees.root, &key, SEEK_ITEM_GE, &it);

		if (err == -ENOENT || (err == 0 && it.key.objectid > OBJ_LAST_FREE))
			return 0;
		if (err < 0)
			return err;
		if (it.key.objectid > next && it.key.type < KEY_ROOT_ITEM) {
			next = it.key.objectid;	/* its root item may follow */
			continue;
		}
		next = it.key.objectid;
		if (it.key.type == KEY_ROOT_ITEM && is_subvol_id(next)) {
			err = fn(fs, next, arg);
			if (err != 0)
				return err;
		}
		next++;
	}
}
