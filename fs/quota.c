/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/quota.c - see quota.h.
 *
 * The quota tree is opened for this alone: its record joins fs->roots only when the item changes, so
 * that the commit stores its new root.
 */
#include "fs/quota.h"

#include <errno.h>
#include <string.h>

#include "fs/root_item.h"
#include "fs/txn.h"
#include "io/log.h"
#include "io/util.h"

static int set_inconsistent(void *data, uint32_t size, void *arg)
{
	struct disk_qgroup_status *st = data;

	(void)arg;
	if (size < QGROUP_STATUS_V1_BYTES)
		return corrupt(OBJ_QUOTA_TREE, NO_ADDRESS, NO_SLOT, "quota status of %u bytes", size);
	disk_qgroup_status_set_flags(st, disk_qgroup_status_flags(st) | QGROUP_STATUS_INCONSISTENT);
	return 0;
}

static int status_flags(struct tree *t, const struct key *key, uint64_t *ret_flags)
{
	scoped(item_done) struct item it;
	struct disk_qgroup_status st = {0};
	int err;

	item_init(&it);
	err = tree_get(t, key, &it);
	if (err < 0)
		return err;
	if (it.size < QGROUP_STATUS_V1_BYTES)
		return corrupt(OBJ_QUOTA_TREE, NO_ADDRESS, NO_SLOT, "quota status of %u bytes", it.size);
	memcpy(&st, it.data, min_size(it.size, sizeof(st)));
	*ret_flags = disk_qgroup_status_flags(&st);
	return 0;
}

int quota_mark_inconsistent(struct fs *fs)
{
	struct key key = key_make(0, KEY_QGROUP_STATUS, 0);
	struct root_record *rec = &fs->roots[fs->root_count];
	struct txn_handle tx;
	uint64_t flags = 0;
	int err = root_item_find(fs->trees.root, OBJ_QUOTA_TREE, rec);

	if (err == 0)
		err = root_item_open(fs->env, rec, false);
	if (err < 0)
		return err == -ENOENT ? 0 : err;
	fs->root_count++;	/* closed with the others */
	err = status_flags(rec->tree, &key, &flags);
	if (err < 0)
		return err == -ENOENT ? 0 : err;
	if (!(flags & QGROUP_STATUS_ON) || (flags & QGROUP_STATUS_INCONSISTENT))
		return 0;
	err = txn_start(fs, &tx, 1, RSV_NORMAL);
	if (err < 0)
		return err;
	err = tree_edit(&tx, rec->tree, &key, set_inconsistent, NULL);
	if (err < 0)
		txn_abort(fs, err);
	txn_end(fs, &tx);
	return err;
}
