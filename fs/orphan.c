/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/orphan.c - deleting inodes that have no name; see orphan.h.
 *
 * Invariants:
 *   O1  each inode that lost its last name in this mount and is not deleted is in the set;
 *   O2  what is in the set has an orphan item in its tree;
 *   O3  inode item and orphan item go in one transaction, after all file data.
 *
 * Locking: set->lock (RANK_CACHE) covers the table. The inode's lock is held while it is deleted.
 */
#include "fs/orphan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/ops.h"
#include "fs/txn.h"
#include "io/log.h"
#include "io/util.h"

#define SET_BUCKETS 1024u
/* Items other than file data are deleted so many at a time, in so many leaves a transaction. */
#define DELETE_BATCH 64u
#define DELETE_LEAVES 2u

struct orphan {
	uint64_t subvol, ino;
	struct orphan *next;
};

struct orphan_set {
	struct mutex lock;
	_Atomic size_t count;
	bool scanned;			/* the trees were searched for what earlier mounts left */
	struct orphan *buckets[SET_BUCKETS];
};

int orphan_set_new(struct fs *fs)
{
	struct orphan_set *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -ENOMEM;
	mutex_init(&s->lock, RANK_CACHE);
	fs->orphans = s;
	return 0;
}

void orphan_set_free(struct fs *fs)
{
	struct orphan_set *s = fs->orphans;

	if (s == NULL)
		return;
	for (unsigned i = 0; i < SET_BUCKETS; i++) {
		while (s->buckets[i] != NULL) {
			struct orphan *o = s->buckets[i];

			s->buckets[i] = o->next;
			free(o);
		}
	}
	mutex_done(&s->lock);
	free(s);
	fs->orphans = NULL;
}

struct orphan *orphan_new(const struct inode *in)
{
	struct orphan *o = calloc(1, sizeof(*o));

	if (o != NULL) {
		o->subvol = in->sv->id;
		o->ino = in->ino;
	}
	return o;
}

void orphan_free(struct orphan *o)
{
	free(o);
}

static struct orphan **bucket_of(struct orphan_set *s, uint64_t subvol, uint64_t ino)
{
	return &s->buckets[((ino ^ subvol << 7) * 0x9e3779b97f4a7c15ULL) >> 32 & (SET_BUCKETS - 1)];
}

static struct key orphan_key(uint64_t ino)
{
	return key_make(OBJ_ORPHAN, KEY_ORPHAN_ITEM, ino);
}

int orphan_add(struct txn_handle *tx, const struct inode *in, struct orphan **o)
{
	struct orphan_set *s = inode_fs(in)->orphans;
	struct key key = orphan_key(in->ino);
	struct orphan **b = bucket_of(s, in->sv->id, in->ino);
	int err = tree_insert(tx, in->sv->tree, &key, NULL, 0);

	if (err < 0 && err != -EEXIST)
		return err;
	must(*o != NULL);
	mutex_guard(&s->lock);
	(*o)->next = *b;
	*b = take(*o);
	atomic_fetch_add(&s->count, 1);
	return 0;
}

static struct orphan **find_locked(struct orphan_set *s, uint64_t subvol, uint64_t ino)
{
	struct orphan **at = bucket_of(s, subvol, ino);

	while (*at != NULL && ((*at)->subvol != subvol || (*at)->ino != ino))
		at = &(*at)->next;
	return at;
}

static bool set_has(struct orphan_set *s, uint64_t subvol, uint64_t ino)
{
	mutex_guard(&s->lock);
	return *find_locked(s, subvol, ino) != NULL;
}

static void set_remove(struct orphan_set *s, uint64_t subvol, uint64_t ino)
{
	struct orphan **at, *o;

	mutex_guard(&s->lock);
	at = find_locked(s, subvol, ino);
	o = *at;
	if (o == NULL)
		return;
	*at = o->next;
	atomic_fetch_sub(&s->count, 1);
	free(o);
}

/* --- deleting ------------------------------------------------------------------------------------ */

/* Deletes the items behind the inode item, up to a batch: 1 = there may be more, 0 = none is left. */
static int delete_others(struct txn_handle *tx, struct inode *in)
{
	struct key first = key_make(in->ino, KEY_INODE_ITEM + 1, 0);
	struct key last = key_object_max(in->ino);
	unsigned n;

	for (unsigned leaf = 0; leaf < DELETE_LEAVES; leaf++) {
		int err = tree_delete_range(tx, in->sv->tree, &first, &last, DELETE_BATCH, &n);

		if (err < 0)
			return err;
		if (n == 0)
			return 0;
	}
	return 1;
}

/* One transaction: 1 = call again, 0 = the inode is gone. */
static int delete_step(struct inode *in)
{
	struct fs *fs = inode_fs(in);
	struct key key = orphan_key(in->ino);
	struct txn_handle tx;
	int more = 0, err;

	err = txn_start(fs, &tx, 2 + DELETE_LEAVES, RSV_FREEING);
	if (err < 0)
		return err;
	if (!in->no_xattrs)
		more = delete_others(&tx, in);
	err = more < 0 ? more : 0;
	if (more == 0) {
		err = tree_delete(&tx, in->sv->tree, &key);
		if (err == -ENOENT)
			err = 0;
		if (err == 0)
			err = inode_erase(&tx, in);
	}
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err < 0 ? err : more;
}

static int delete_inode(struct inode *in)
{
	int more;

	write_guard(&in->lock);
	if (inode_is_erased(in))
		return 0;
	more = inode_drop_data(in);
	if (more < 0)
		return more;
	do
		more = delete_step(in);
	while (more > 0);
	return more;
}

int fs_forget(struct fs *fs, struct ino_id id)
{
	scoped(inode_putp) struct inode *in = NULL;
	struct orphan_set *s = fs->orphans;
	int err;

	if (atomic_load(&s->count) == 0 || !set_has(s, id.subvol, id.ino))
		return 0;
	err = inode_get(fs, id.subvol, id.ino, &in);
	if (err == 0)
		err = delete_inode(in);		/* what is in the set has no name and gets none */
	if (err == 0 || err == -ENOENT)
		set_remove(s, id.subvol, id.ino);
	return err == -ENOENT ? 0 : err;
}

/* --- all of them --------------------------------------------------------------------------------- */

/* The item alone goes: its inode is not there, or has a name (older kernels marked truncates so). */
static int drop_item(struct subvol *sv, uint64_t ino)
{
	struct key key = orphan_key(ino);
	struct txn_handle tx;
	int err = txn_start(sv->fs, &tx, 1, RSV_FREEING);

	if (err < 0)
		return err;
	err = tree_delete(&tx, sv->tree, &key);
	txn_end(sv->fs, &tx);
	return err == -ENOENT ? 0 : err;
}

static int clean_one(struct subvol *sv, uint64_t ino)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = inode_get(sv->fs, sv->id, ino, &in);

	if (err == -ENOENT || (err == 0 && in->nlink != 0))
		return drop_item(sv, ino);
	if (err < 0)
		return err;
	return delete_inode(in);
}

static int clean_subvol(struct fs *fs, uint64_t id, void *arg)
{
	struct key first = key_type_min(OBJ_ORPHAN, KEY_ORPHAN_ITEM);
	struct key last = key_type_max(OBJ_ORPHAN, KEY_ORPHAN_ITEM);
	scoped(cursor_done) struct cursor c;
	struct subvol *sv;
	int got;

	(void)arg;
	got = subvol_get(fs, id, &sv);
	cursor_init(&c, got < 0 ? NULL : sv->tree, &first, &last);
	if (got < 0)
		return got == -ENOENT ? 0 : got;
	while ((got = cursor_next(&c)) > 0) {
		uint64_t ino = c.item.key.offset;
		int err = clean_one(sv, ino);

		/* A damaged inode stays as it is; whoever reads it is told. */
		if (err == -EUCLEAN && fs_want_write(fs) == 0) {
			log_warn("cannot delete the orphaned inode %llu of subvolume %llu: %s",
				 (unsigned long long)ino, (unsigned long long)id, strerror(-err));
			continue;
		}
		if (err < 0)
			return err;
	}
	return got;
}

/* Any record of the set; false if it is empty. */
static bool set_first(struct orphan_set *s, struct ino_id *ret_id)
{
	mutex_guard(&s->lock);
	for (unsigned i = 0; i < SET_BUCKETS && atomic_load(&s->count) != 0; i++) {
		struct orphan *o = s->buckets[i];

		if (o == NULL)
			continue;
		*ret_id = (struct ino_id){ o->subvol, o->ino };
		return true;
	}
	return false;
}

int fs_clean_orphans(struct fs *fs)
{
	struct orphan_set *s = fs->orphans;
	struct ino_id id;
	int err = inode_flush_lazy(fs);

	while (err == 0 && set_first(s, &id))
		err = fs_forget(fs, id);
	if (err < 0 || s->scanned)
		return err;
	err = subvol_for_each(fs, clean_subvol, NULL);
	if (err == 0)
		s->scanned = true;
	return err;
}
