/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/rename.c - moving names.
 *
 * A name that is replaced keeps its DIR_ITEM and DIR_INDEX, which are edited in place to name the
 * moved inode; so do both names of an exchange and the old name of a move that leaves a whiteout.
 *
 * Locking: the rename mutex if the directories differ (what lies below what changes only under it),
 * then both directories and what both names name, in inode order. If the order does not allow it,
 * all are unlocked, locked in order, and the names are looked at again.
 */
#include <errno.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/inode_ref.h"
#include "fs/namei.h"
#include "fs/orphan.h"
#include "fs/txn.h"
#include "io/log.h"
#include "io/util.h"

/* Two DIR_ITEMs, two DIR_INDEXes, up to four name records, four inodes, an orphan, a whiteout's two. */
#define RENAME_ITEMS 15u
#define WHITEOUT_MODE S_IFCHR

/* Directories on the way to the root; a chain on disk that is longer is a loop. */
#define DEPTH_MAX (1u << 20)

/* One of the two names. */
struct side {
	struct inode *dir;
	const char *name;
	size_t len;
	bool found;
	struct name_hit hit;
	struct child child;
	struct inode *in;
	struct ref_hit ref;
	uint64_t index;
};

struct rename {
	struct side from, to;
	unsigned flags;
	struct inode_set set;
	struct orphan *orphan;		/* for a replaced inode's last name */
	struct inode *whiteout;
	uint64_t to_index;		/* of a name that is new */
	struct timespec now;
};

static void side_init(struct side *s, struct inode *dir, const char *name)
{
	s->dir = dir;
	s->name = name;
	name_hit_init(&s->hit);
	ref_hit_init(&s->ref);
}

static void side_done(struct side *s)
{
	inode_put(s->in);
	name_hit_done(&s->hit);
	ref_hit_done(&s->ref);
}

static void rename_done(struct rename *r)
{
	inode_set_unlock(&r->set);
	side_done(&r->from);
	side_done(&r->to);
	orphan_free(r->orphan);
	inode_put(r->whiteout);
}

/* --- looking ------------------------------------------------------------------------------------- */

static int side_find(struct side *s)
{
	struct inode *in;
	int err;

	s->found = false;
	if (!S_ISDIR(s->dir->mode))
		return -ENOTDIR;
	if (ino_is_standin(s->dir->ino))
		return -ENOENT;
	err = child_find(s->dir, s->name, s->len, &s->hit, &s->child, &in);
	if (err < 0)
		return err;
	inode_put(s->in);
	s->in = in;
	s->found = true;
	return 0;
}

/* Locks all four and finds both names; -ENOENT if the first is not there. */
static int rename_lock(struct rename *r)
{
	for (;;) {
		int err;

		inode_set_add(&r->set, r->from.dir);
		inode_set_add(&r->set, r->to.dir);
		inode_set_add(&r->set, r->from.in);
		inode_set_add(&r->set, r->to.in);
		inode_set_lock(&r->set);
		err = side_find(&r->from);
		if (err < 0)
			return err;
		err = side_find(&r->to);
		if (err < 0 && err != -ENOENT)
			return err;
		if (inode_set_lock_more(&r->set, r->from.in) &&
		    (!r->to.found || inode_set_lock_more(&r->set, r->to.in)))
			return 0;
		inode_set_unlock(&r->set);
	}
}

/* 1 if `dir` is `top` or lies below it in their subvolume, 0 if not. The rename mutex is held. */
static int dir_is_below(const struct inode *dir, const struct inode *top)
{
	uint64_t at = dir->ino;

	if (dir->sv != top->sv)
		return 0;
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		int err;

		if (at == top->ino)
			return 1;
		if (at == INO_ROOT)
			return 0;
		err = inode_ref_parent(dir->sv->tree, at, &at);
		if (err < 0)
			return err == -ENOENT ? -EUCLEAN : err;
	}
	return corrupt(dir->sv->id, NO_ADDRESS, NO_SLOT, "directory %llu lies below itself",
		       (unsigned long long)dir->ino);
}

/* 1 if the subvolume `sv` is `top` or lies below it. */
static int subvol_is_below(struct fs *fs, uint64_t sv, uint64_t top)
{
	for (unsigned depth = 0; depth < DEPTH_MAX; depth++) {
		uint64_t dir;
		int err;

		if (sv == top)
			return 1;
		err = subvol_parent(fs, sv, &sv, &dir);
		if (err < 0)
			return err == -ENOENT ? 0 : err;
	}
	return corrupt(OBJ_ROOT_TREE, NO_ADDRESS, NO_SLOT, "subvolume %llu lies below itself",
		       (unsigned long long)sv);
}

/* --- checking ------------------------------------------------------------------------------------ */

static int check_loop(struct rename *r)
{
	struct side *a = &r->from, *b = &r->to;
	int below = 0;

	if (a->dir == b->dir)
		return 0;
	if (S_ISDIR(a->in->mode))
		below = a->child.kind == CHILD_SUBVOL ?
			subvol_is_below(inode_fs(a->dir), b->dir->sv->id, a->child.id.subvol) :
			dir_is_below(b->dir, a->in);
	if (below == 0 && b->found && S_ISDIR(b->in->mode) && b->child.kind == CHILD_INODE) {
		below = dir_is_below(a->dir, b->in);
		if (below > 0 && !(r->flags & RENAME_EXCHANGE))
			return -ENOTEMPTY;
	}
	return below > 0 ? -EINVAL : below;
}

static int check_kinds(struct rename *r)
{
	struct side *a = &r->from, *b = &r->to;

	if (a->dir->sv != b->dir->sv &&
	    (a->child.kind != CHILD_SUBVOL || r->flags & (RENAME_EXCHANGE | RENAME_WHITEOUT)))
		return -EXDEV;
	if (a->child.kind == CHILD_STANDIN)
		return -ENOTEMPTY;	/* what the kernel says */
	if (!b->found)
		return 0;
	if (r->flags & RENAME_EXCHANGE)
		return b->child.kind == CHILD_STANDIN ? -ENOTEMPTY : 0;
	if (S_ISDIR(a->in->mode) && !S_ISDIR(b->in->mode))
		return -ENOTDIR;
	if (!S_ISDIR(a->in->mode) && S_ISDIR(b->in->mode))
		return -EISDIR;
	if (b->child.kind == CHILD_SUBVOL || (S_ISDIR(b->in->mode) && b->in->size != 0))
		return -ENOTEMPTY;
	if (b->child.kind == CHILD_INODE && b->in->nlink == 0)
		return corrupt(b->dir->sv->id, NO_ADDRESS, NO_SLOT,
			       "inode %llu has a name and no link", (unsigned long long)b->in->ino);
	return 0;
}

static int rename_check(struct rename *r)
{
	struct side *a = &r->from, *b = &r->to;
	int err = dir_may_remove(a->dir, a->in);

	if (err == 0 && b->found && r->flags & RENAME_NOREPLACE)
		err = -EEXIST;
	if (err == 0 && !b->found && r->flags & RENAME_EXCHANGE)
		err = -ENOENT;
	if (err == 0)
		err = b->found ? dir_may_remove(b->dir, b->in) : dir_may_add(b->dir);
	if (err == 0)
		err = check_loop(r);
	if (err == 0)
		err = check_kinds(r);
	return err;
}

/* The record of the name in what it names, and the entry's index. */
static int side_find_ref(struct side *s)
{
	int err;

	switch (s->child.kind) {
	case CHILD_SUBVOL:
		s->index = s->child.index;
		return 0;
	case CHILD_STANDIN:
		return dir_index_search(s->dir->sv->tree, s->dir->ino, s->name, s->len, &s->index);
	default:
		err = inode_ref_find(s->dir->sv->tree, s->in->ino, s->dir->ino, s->name, s->len,
				     &s->ref);
		s->index = s->ref.index;
		if (err != -ENOENT)
			return err;
		return corrupt(s->dir->sv->id, NO_ADDRESS, NO_SLOT,
			       "inode %llu does not know its name in directory %llu",
			       (unsigned long long)s->in->ino, (unsigned long long)s->dir->ino);
	}
}

/* Room for the record of what `s` names at the other name. */
static int check_room(const struct side *s, const struct side *other)
{
	if (s->child.kind != CHILD_INODE)
		return 0;
	return inode_ref_room(inode_fs(s->dir), s->dir->sv->tree, s->in->ino, other->dir->ino,
			      other->name, other->len, s->in->nlink);
}

static int rename_prepare(struct rename *r)
{
	struct side *a = &r->from, *b = &r->to;
	struct cred owner = { a->in->uid, a->in->gid };
	int err = side_find_ref(a);

	if (err == 0)
		err = check_room(a, b);
	if (err == 0 && b->found)
		err = side_find_ref(b);
	if (err == 0 && r->flags & RENAME_EXCHANGE)
		err = check_room(b, a);
	if (err == 0 && !b->found)
		err = dir_take_index(b->dir, &r->to_index);
	if (err == 0 && r->flags & RENAME_WHITEOUT)
		err = inode_new_in(a->dir, WHITEOUT_MODE, owner, &r->whiteout);
	if (err < 0)
		return err;
	if (b->found && !(r->flags & RENAME_EXCHANGE) && b->child.kind == CHILD_INODE &&
	    b->in->nlink == 1) {
		r->orphan = orphan_new(b->in);
		if (r->orphan == NULL)
			return -ENOMEM;
	}
	return 0;
}

/* --- changing ------------------------------------------------------------------------------------ */

/* Lets the name of `s` name what `what` names. */
static int side_repoint(struct txn_handle *tx, const struct side *s, const struct side *what)
{
	struct key loc = what->hit.entry.location;
	int err = name_repoint(tx, s->dir->sv->tree, &s->hit, &loc, what->hit.entry.type);

	if (err < 0)
		return err;
	return dir_index_repoint(tx, s->dir->sv->tree, s->dir->ino, s->index, &loc,
				 what->hit.entry.type);
}

/* The records in what `a` names: from its own place to that of `b`. */
static int move_ref(struct txn_handle *tx, const struct side *a, const struct side *b,
		    uint64_t index)
{
	struct fs *fs = inode_fs(a->dir);
	uint64_t id = a->child.id.subvol;
	int err;

	if (a->child.kind == CHILD_SUBVOL) {
		err = root_ref_remove(tx, fs, a->dir->sv->id, id);
		if (err < 0)
			return err;
		return root_ref_add(tx, fs, b->dir->sv->id, id, b->dir->ino, b->name, b->len, index);
	}
	err = inode_ref_remove(tx, a->dir->sv->tree, &a->ref);
	if (err < 0)
		return err;
	return inode_ref_add(tx, fs, a->dir->sv->tree, a->in->ino, b->dir->ino, b->name, b->len,
			     index);
}

static int store_moved(struct txn_handle *tx, const struct side *s, const struct timespec *now)
{
	if (s->child.kind != CHILD_INODE)
		return 0;
	inode_changed(s->in, now);
	return inode_store(tx, s->in);
}

static int store_dirs(struct txn_handle *tx, struct rename *r, int64_t from_names,
		      int64_t to_names)
{
	struct inode *from = r->from.dir, *to = r->to.dir;
	int err;

	if (from == to) {
		dir_changed(from, &r->now, from_names + to_names);
		return inode_store(tx, from);
	}
	dir_changed(from, &r->now, from_names);
	err = inode_store(tx, from);
	if (err < 0)
		return err;
	dir_changed(to, &r->now, to_names);
	return inode_store(tx, to);
}

static int exchange_items(struct txn_handle *tx, struct rename *r)
{
	struct side *a = &r->from, *b = &r->to;
	int err = side_repoint(tx, b, a);

	if (err == 0)
		err = side_repoint(tx, a, b);
	if (err == 0)
		err = move_ref(tx, a, b, b->index);
	if (err == 0)
		err = move_ref(tx, b, a, a->index);
	if (err == 0)
		err = store_moved(tx, a, &r->now);
	if (err == 0)
		err = store_moved(tx, b, &r->now);
	if (err == 0)
		err = store_dirs(tx, r, 0, 0);
	return err < 0 ? txn_abort(inode_fs(a->dir), err) : 0;
}

/* The replaced name's inode loses it. */
static int drop_replaced(struct txn_handle *tx, struct rename *r)
{
	struct side *b = &r->to;
	int err;

	if (b->child.kind != CHILD_INODE)
		return 0;
	err = inode_ref_remove(tx, b->dir->sv->tree, &b->ref);
	if (err < 0)
		return err;
	return inode_lose_name(tx, b->in, &r->now, &r->orphan);
}

/* The first change: nothing has happened if it fails. */
static int put_new_name(struct txn_handle *tx, struct rename *r, bool *ret_clean)
{
	struct side *a = &r->from, *b = &r->to;
	struct name_new e = {
		.name = b->name,
		.name_len = b->len,
		.location = a->hit.entry.location,
		.type = a->hit.entry.type,
	};
	int err;

	if (b->found) {
		r->to_index = b->index;
		*ret_clean = false;
		err = side_repoint(tx, b, a);
		return err < 0 ? err : drop_replaced(tx, r);
	}
	err = name_add(tx, inode_fs(b->dir)->env, b->dir->sv->tree, b->dir->ino, KEY_DIR_ITEM, &e);
	*ret_clean = err < 0;
	if (err < 0)
		return err;
	return dir_index_add(tx, b->dir->sv->tree, b->dir->ino, r->to_index, &e);
}

/* The old name goes. Its item may hold the new name too, if the hashes are the same. */
static int take_old_name(struct txn_handle *tx, struct rename *r)
{
	struct side *a = &r->from, *b = &r->to;
	struct tree *t = a->dir->sv->tree;
	int err;

	if (a->dir == b->dir) {
		err = name_find(t, a->dir->ino, KEY_DIR_ITEM, a->name, a->len, &a->hit);
		if (err < 0)
			return err;
	}
	err = name_remove(tx, t, &a->hit);
	if (err < 0)
		return err;
	return dir_index_remove(tx, t, a->dir->ino, a->index);
}

/* The old name stays and names a whiteout. */
static int put_whiteout(struct txn_handle *tx, struct rename *r)
{
	struct side *a = &r->from;
	struct inode *w = r->whiteout;
	struct key loc = key_make(w->ino, KEY_INODE_ITEM, 0);
	struct tree *t = a->dir->sv->tree;
	uint8_t ref[INODE_REF_BYTES_MAX];
	struct item_vec v[2];
	struct name_hit hit;
	int err;

	w->generation = tx->transid;
	v[1] = (struct item_vec){
		.key = key_make(w->ino, KEY_INODE_REF, a->dir->ino),
		.data = ref,
		.size = inode_ref_bytes(ref, a->name, a->len, a->index),
	};
	err = inode_insert_vec(tx, w, v, ARRAY_COUNT(v));
	if (err < 0)
		return err;
	name_hit_init(&hit);
	err = name_find(t, a->dir->ino, KEY_DIR_ITEM, a->name, a->len, &hit);
	if (err == 0)
		err = name_repoint(tx, t, &hit, &loc, FT_CHRDEV);
	name_hit_done(&hit);
	if (err < 0)
		return err;
	return dir_index_repoint(tx, t, a->dir->ino, a->index, &loc, FT_CHRDEV);
}

static int move_items(struct txn_handle *tx, struct rename *r)
{
	struct side *a = &r->from, *b = &r->to;
	bool clean = false;
	int err = put_new_name(tx, r, &clean);

	if (err < 0 && clean)
		return err;
	if (err == 0)
		err = move_ref(tx, a, b, r->to_index);
	if (err == 0)
		err = r->whiteout ? put_whiteout(tx, r) : take_old_name(tx, r);
	if (err == 0)
		err = store_moved(tx, a, &r->now);
	if (err == 0)
		err = store_dirs(tx, r, r->whiteout ? 0 : -(int64_t)a->len,
				 b->found ? 0 : (int64_t)b->len);
	return err < 0 ? txn_abort(inode_fs(a->dir), err) : 0;
}

/* --- the whole ----------------------------------------------------------------------------------- */

/* Names of one inode, or one name: POSIX wants nothing to happen. */
static bool nothing_to_do(const struct rename *r)
{
	return r->to.found && r->from.in == r->to.in &&
	       !(r->flags & RENAME_NOREPLACE);
}

static int rename_locked(struct rename *r)
{
	struct fs *fs = inode_fs(r->from.dir);
	struct txn_handle tx;
	int err = rename_lock(r);

	if (err == 0 && nothing_to_do(r))
		return 0;
	if (err == 0)
		err = rename_check(r);
	if (err == 0)
		err = rename_prepare(r);
	if (err == 0)
		err = txn_start(fs, &tx, RENAME_ITEMS, RSV_NORMAL);
	if (err < 0)
		return err;
	r->now = fs_now();
	err = r->flags & RENAME_EXCHANGE ? exchange_items(&tx, r) : move_items(&tx, r);
	txn_end(fs, &tx);
	return err;
}

static int rename_sides(struct inode *from, const char *name, size_t len, struct inode *to,
			const char *newname, size_t newlen, unsigned flags)
{
	scoped(rename_done) struct rename r = { .flags = flags };
	int err;

	side_init(&r.from, from, name);
	side_init(&r.to, to, newname);
	r.from.len = len;
	r.to.len = newlen;
	if (from == to)
		return rename_locked(&r);
	mutex_lock(inode_rename_lock(inode_fs(from)));
	err = rename_locked(&r);
	inode_set_unlock(&r.set);
	mutex_unlock(inode_rename_lock(inode_fs(from)));
	return err;
}

int fs_rename(struct inode *from, const char *name, struct inode *to, const char *newname,
	      unsigned flags)
{
	size_t len, newlen;
	int err = name_check(name, &len);
	bool tried = false;

	if (err == 0)
		err = name_check(newname, &newlen);
	if (err < 0)
		return err;
	if (flags & ~(unsigned)(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT))
		return -EINVAL;
	if (flags & RENAME_EXCHANGE && flags & (RENAME_NOREPLACE | RENAME_WHITEOUT))
		return -EINVAL;
	if (name_is_dots(name))
		return -EBUSY;
	if (name_is_dots(newname))
		return flags & RENAME_NOREPLACE ? -EEXIST : -EBUSY;
	do
		err = rename_sides(from, name, len, to, newname, newlen, flags);
	while (fs_try_again(inode_fs(from), err, &tried));
	if (err == 0)
		err = inode_sync_if_asked(to);
	if (err == 0 && from != to)
		err = inode_sync_if_asked(from);
	return err;
}
