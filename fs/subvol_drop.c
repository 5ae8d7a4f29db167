/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/subvol_drop.c - giving back what deleted subvolumes occupy; see subvol_drop.h.
 *
 * Invariants:
 *   V1  each step is one stay in a transaction and leaves in the root item how far it came;
 *   V2  root item and orphan item go with the last block, in the same step;
 *   V3  a subvolume that is being dropped is in no table: subvol_get() does not open it;
 *   V4  a step that fails before it left anything half done spares the filesystem: what it did is
 *       kept, and that subvolume is left alone until the next mount.
 *
 * Locking: dropper->lock (RANK_CACHE) covers its flags. A tree that is dropped belongs to the thread.
 */
#include "fs/subvol_drop.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fs/root_item.h"
#include "fs/txn.h"
#include "io/fault.h"
#include "io/locks.h"
#include "io/log.h"
#include "io/rcu.h"
#include "io/util.h"

/* A step: so many blocks are visited, for which so many changed items are reserved. */
#define STEP_BLOCKS 4u
#define STEP_ITEMS 64u
/* References that wait for a commit, above which the thread commits: they take memory, and time then. */
#define PENDING_REFS_MAX 32768u
/* After -ENOSPC it tries again later. */
#define NO_SPACE_WAIT_MS 5000u

struct dropper {
	struct mutex lock;
	struct cond wake;
	bool stop;
	pthread_t thread;
};

static bool told_to_stop(struct fs *fs)
{
	struct dropper *d = fs->dropper;

	if (fs_want_write(fs) < 0)
		return true;
	if (d == NULL)
		return false;
	mutex_guard(&d->lock);
	return d->stop;
}

/* Waits until it makes sense to ask for space again; false where there is no thread that could wait. */
static bool wait_for_space(struct fs *fs)
{
	struct dropper *d = fs->dropper;

	if (d == NULL)
		return false;
	mutex_guard(&d->lock);
	if (!d->stop)
		cond_wait_ms(&d->wake, &d->lock, NO_SPACE_WAIT_MS);
	return true;
}

static struct key orphan_key(uint64_t id)
{
	return key_make(OBJ_ORPHAN, KEY_ORPHAN_ITEM, id);
}

/* --- one subvolume ------------------------------------------------------------------------------- */

static int delete_orphan_item(struct fs *fs, struct txn_handle *tx, uint64_t id)
{
	struct key key = orphan_key(id);
	int err = tree_delete(tx, fs->trees.root, &key);

	return err == -ENOENT ? 0 : err;
}

static int store_progress(struct fs *fs, struct txn_handle *tx, struct root_record *rec,
			  const struct drop_progress *p)
{
	struct disk_root_item *ri = &rec->item;

	key_to_disk(&p->key, &ri->drop_progress);
	disk_root_item_set_drop_level(ri, p->level);
	/* The whole item is stored: its second half counts. */
	disk_root_item_set_generation_v2(ri, disk_root_item_generation(ri));
	return tree_replace(tx, fs->trees.root, &rec->key, ri, sizeof(*ri));
}

/* One stay in a transaction: 1 = there is more, 0 = the subvolume is gone. */
static int drop_step(struct fs *fs, struct root_record *rec, struct drop_progress *p)
{
	struct txn_handle tx;
	int got, err;

	got = txn_start(fs, &tx, STEP_ITEMS, RSV_FREEING);
	if (got < 0)
		return got;
	got = tree_drop_step(&tx, rec->tree, p, STEP_BLOCKS);
	if (got < 0 && p->torn) {
		err = got;
	} else if (got != 0) {
		err = store_progress(fs, &tx, rec, p);
	} else {
		err = tree_delete(&tx, fs->trees.root, &rec->key);
		if (err == 0)
			err = delete_orphan_item(fs, &tx, rec->key.objectid);
	}
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err < 0 ? err : got;
}

static int drop_tree(struct fs *fs, struct root_record *rec)
{
	struct drop_progress p = {
		.key = key_from_disk(&rec->item.drop_progress),
		.level = disk_root_item_drop_level(&rec->item),
	};
	int got = 1;

	while (got > 0 && !told_to_stop(fs)) {
		if (fault_point("subvol.drop"))
			return 0;
		got = drop_step(fs, rec, &p);
		if (got == -ENOSPC && wait_for_space(fs))
			got = 1;
		if (got > 0 && space_pending_refs(fs->space) > PENDING_REFS_MAX)
			got = txn_commit(fs) < 0 ? -EIO : 1;
	}
	return got < 0 ? got : 0;
}

/* The item tells of a subvolume that is not there. */
static int drop_orphan_item(struct fs *fs, uint64_t id)
{
	struct txn_handle tx;
	int err = txn_start(fs, &tx, 1, RSV_FREEING);

	if (err < 0)
		return err;
	err = delete_orphan_item(fs, &tx, id);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err;
}

static int drop_subvol(struct fs *fs, uint64_t id)
{
	struct root_record rec;
	int err = root_item_find(fs->trees.root, id, &rec);

	if (err == -ENOENT)
		return drop_orphan_item(fs, id);
	if (err < 0 || disk_root_item_refs(&rec.item) != 0)
		return err;
	err = root_item_open(fs->env, &rec, true);
	if (err < 0)
		return err;
	err = drop_tree(fs, &rec);
	tree_close(rec.tree);
	return err;
}

/* --- all of them --------------------------------------------------------------------------------- */

/* The first subvolume not below `from` that an orphan item tells of; -ENOENT. */
static int next_orphan(struct fs *fs, uint64_t from, uint64_t *ret_id)
{
	struct key key = orphan_key(max_u64(from, OBJ_FIRST_FREE));
	scoped(item_done) struct item it;
	int err;

	item_init(&it);
	err = tree_seek(fs->trees.root, &key, SEEK_ITEM_GE, &it);
	if (err < 0)
		return err;
	if (it.key.objectid != OBJ_ORPHAN || it.key.type != KEY_ORPHAN_ITEM ||
	    it.key.offset > OBJ_LAST_FREE)
		return -ENOENT;
	*ret_id = it.key.offset;
	return 0;
}

void subvol_drop_all(struct fs *fs)
{
	uint64_t id = 0;
	int err;

	for (; (err = next_orphan(fs, id, &id)) == 0 && !told_to_stop(fs); id++) {
		err = drop_subvol(fs, id);
		if (err < 0 && fs_want_write(fs) == 0)
			log_warn("cannot clean up the deleted subvolume %llu, it stays: %s",
				 (unsigned long long)id, strerror(-err));
	}
	if (err < 0 && err != -ENOENT)
		log_warn("cannot look for deleted subvolumes: %s", strerror(-err));
}

static void *dropper_main(void *arg)
{
	rcu_thread_enter();
	subvol_drop_all(arg);
	rcu_thread_leave();
	return NULL;
}

int subvol_drop_start(struct fs *fs)
{
	struct dropper *d;
	uint64_t id;
	int err = next_orphan(fs, 0, &id);

	if (err == -ENOENT)
		return 0;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	mutex_init(&d->lock, RANK_CACHE);
	cond_init(&d->wake);
	fs->dropper = d;
	err = -pthread_create(&d->thread, NULL, dropper_main, fs);
	if (err < 0) {
		fs->dropper = NULL;
		cond_done(&d->wake);
		mutex_done(&d->lock);
		free(d);
	}
	return err;
}

void subvol_drop_stop(struct fs *fs)
{
	struct dropper *d = fs->dropper;

	if (d == NULL)
		return;
	mutex_lock(&d->lock);
	d->stop = true;
	cond_wake_all(&d->wake);
	mutex_unlock(&d->lock);
	pthread_join(d->thread, NULL);
	fs->dropper = NULL;
	cond_done(&d->wake);
	mutex_done(&d->lock);
	free(d);
}
