/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/names.c - walking an inode's INODE_REF and INODE_EXTREF items (see names.h).
 */
#include "fs/names.h"

#include <errno.h>

#include "io/log.h"
#include "io/util.h"

struct walk {
	struct inode *in;
	int (*fn)(struct ino_id dir, const char *name, size_t len, void *arg);
	void *arg;
	int stop;
};

/* One item: heads of one size, each followed by a name. */
static int walk_item(struct walk *w, const struct item *it)
{
	bool ext = it->key.type == KEY_INODE_EXTREF;
	size_t head = ext ? sizeof(struct disk_inode_extref) : sizeof(struct disk_inode_ref);
	struct ino_id dir = {.subvol = w->in->sv->id, .ino = it->key.offset};

	for (size_t at = 0; at < it->size && w->stop == 0;) {
		const uint8_t *p = it->data + at;
		size_t len;

		if (it->size - at < head)
			return corrupt(w->in->sv->id, NO_ADDRESS, NO_SLOT,
				       "reference of inode %llu cut short", (unsigned long long)w->in->ino);
		if (ext) {
			const struct disk_inode_extref *r = (const void *)p;

			dir.ino = disk_inode_extref_parent_objectid(r);
			len = disk_inode_extref_name_len(r);
		} else {
			len = disk_inode_ref_name_len((const struct disk_inode_ref *)(const void *)p);
		}
		if (len == 0 || it->size - at - head < len)
			return corrupt(w->in->sv->id, NO_ADDRESS, NO_SLOT,
				       "name of %zu bytes in a reference of inode %llu", len,
				       (unsigned long long)w->in->ino);
		w->stop = w->fn(dir, (const char *)p + head, len, w->arg);
		at += head + len;
	}
	return 0;
}

int inode_for_each_name(struct inode *in,
			int (*fn)(struct ino_id dir, const char *name, size_t len, void *arg),
			void *arg)
{
	struct key first = {.objectid = in->ino, .type = KEY_INODE_REF, .offset = 0};
	struct key last = {.objectid = in->ino, .type = KEY_INODE_EXTREF, .offset = UINT64_MAX};
	struct walk w = {.in = in, .fn = fn, .arg = arg};
	scoped(cursor_done) struct cursor c;
	int got;

	cursor_init(&c, in->sv->tree, &first, &last);
	if (in->ino == INO_ROOT)
		return 0;		/* its reference is ".." to itself */
	while (w.stop == 0 && (got = cursor_next(&c)) != 0) {
		int err = got < 0 ? got : walk_item(&w, &c.item);

		if (err < 0)
			return err;
	}
	return 0;
}
