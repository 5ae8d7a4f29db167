/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/model/ops.c - random operations, done to the filesystem and to the model.
 *
 * Each operation asks the model what must come of it, does it, compares the result, and then changes
 * the model. Times cannot be foretold: those that an operation changes must lie between its begin
 * and its end and are taken into the model; all others must stay.
 */
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "fs/txn.h"
#include "tests/collide.h"
#include "tests/model/run.h"

#define PICK_TRIES 200u
#define LONG_NAMES 24u
#define COLLIDING_NAMES 90u
#define PLAIN_NAMES 60u
#define NAME_BUF (NAME_MAX_BYTES + 2)

uint64_t rnd64(struct run *r)
{
	uint64_t z = (r->rng += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

unsigned rnd(struct run *r, unsigned below)
{
	return (unsigned)(rnd64(r) >> 33) % below;
}

#define note(r, ...) snprintf((r)->last, sizeof((r)->last), __VA_ARGS__)

/* --- picking ------------------------------------------------------------------------------------- */

static void random_name(struct run *r, char name[NAME_BUF])
{
	switch (rnd(r, 20)) {
	case 0:
	case 1:
	case 2:
		collide_name(rnd(r, COLLIDING_NAMES), name);
		return;
	case 3:
	case 4:
		memset(name, 'L', NAME_MAX_BYTES);
		name[NAME_MAX_BYTES] = '\0';
		name[rnd(r, LONG_NAMES)] = 'l';
		return;
	case 5:
		memset(name, 'x', NAME_MAX_BYTES + 1);
		name[NAME_MAX_BYTES + 1] = '\0';
		if (!one_in(r, 4))
			name[1 + rnd(r, NAME_MAX_BYTES)] = '\0';
		return;
	default:
		snprintf(name, NAME_BUF, "n%u", rnd(r, PLAIN_NAMES));
	}
}

/* A random live node of the type (0: any); NO_NODE. */
static uint32_t pick(struct run *r, uint32_t type)
{
	for (unsigned i = 0; i < PICK_TRIES; i++) {
		uint32_t at = rnd(r, r->now.count);
		struct mnode *n = model_node(&r->now, at);

		if (n->live && !n->opaque && (type == 0 || (n->mode & S_IFMT) == type))
			return at;
	}
	return NO_NODE;
}

/* The root more often, so that directories get big. */
static uint32_t pick_dir(struct run *r)
{
	return one_in(r, 3) ? r->now.root : pick(r, S_IFDIR);
}

/* A name: mostly one that is there. False: it names something that is left alone. */
static bool pick_entry(struct run *r, uint32_t dir, char name[NAME_BUF])
{
	struct mnode *d = model_node(&r->now, dir);
	uint32_t node;

	if (d->entry_count == 0 || one_in(r, 10))
		random_name(r, name);
	else
		snprintf(name, NAME_BUF, "%s", d->entries[rnd(r, d->entry_count)].name);
	node = model_find(&r->now, dir, name);
	return node == NO_NODE || !model_node(&r->now, node)->opaque;
}

static unsigned live_nodes(struct run *r)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < r->now.count; i++)
		n += r->now.nodes[i].live;
	return n;
}

/* --- times --------------------------------------------------------------------------------------- */

enum { MTIME = 1, CTIME = 2, ATIME = 4 };

static bool between(struct timespec t, struct timespec from, struct timespec to)
{
	return (t.tv_sec > from.tv_sec || (t.tv_sec == from.tv_sec && t.tv_nsec >= from.tv_nsec)) &&
	       (t.tv_sec < to.tv_sec || (t.tv_sec == to.tv_sec && t.tv_nsec <= to.tv_nsec));
}

/* Takes the named times of a node over, which must be of this operation. */
static void touched(struct run *r, uint32_t node, struct timespec from, unsigned which)
{
	scoped(inode_putp) struct inode *in = run_inode(r, node);
	struct mnode *n = model_node(&r->now, node);
	struct timespec to = fs_now();
	struct stat st;

	check_err(r, fs_getattr(in, &st), 0, "getattr");
	if ((which & MTIME && !between(st.st_mtim, from, to)) ||
	    (which & CTIME && !between(st.st_ctim, from, to)) ||
	    (which & ATIME && !between(st.st_atim, from, to)))
		run_failed(r, "inode %llu: a time is not the time of the operation",
			   (unsigned long long)n->ino);
	if (which & MTIME)
		n->mtime = st.st_mtim;
	if (which & CTIME)
		n->ctime = st.st_ctim;
	if (which & ATIME)
		n->atime = st.st_atim;
}

/* --- making names -------------------------------------------------------------------------------- */

static void created(struct run *r, uint32_t dir, const char *name, struct inode *in,
		    struct mnode fields, struct timespec from)
{
	uint32_t node = model_add(&r->now, fields.mode);
	struct mnode *n = model_node(&r->now, node);

	fields.live = true;
	fields.nlink = 0;
	fields.parent = NO_NODE;
	fields.subvol = in->sv->id;
	fields.ino = in->ino;
	*n = fields;
	model_link(&r->now, dir, name, node);
	touched(r, node, from, MTIME | CTIME | ATIME);
	touched(r, dir, from, MTIME | CTIME);
	compare_node(r, node);
	inode_put(in);
}

/* Owner, group and bits as a new node has them in `dir`. */
static struct mnode new_fields(struct run *r, uint32_t dir, uint32_t mode, struct cred who)
{
	struct mnode *d = model_node(&r->now, dir);
	struct mnode f = { .mode = mode, .uid = who.uid, .gid = who.gid };

	if (d->mode & S_ISGID) {
		f.gid = d->gid;
		if (S_ISDIR(mode))
			f.mode |= S_ISGID;
	}
	return f;
}

static void op_mknod(struct run *r)
{
	static const uint32_t types[] = { S_IFREG, S_IFREG, S_IFREG, S_IFREG, S_IFREG, S_IFDIR,
					  S_IFDIR, S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK };
	uint32_t dir = pick_dir(r);
	uint32_t mode = types[rnd(r, ARRAY_COUNT(types))] | rnd(r, 010000);
	dev_t rdev = makedev(rnd(r, 4096), rnd(r, 1 << 20));
	struct cred who = { rnd(r, 3) * 1000, rnd(r, 3) * 1000 };
	scoped(inode_putp) struct inode *din = NULL;
	struct timespec from = fs_now();
	struct inode *in = NULL;
	struct mnode f;
	char name[NAME_BUF];
	int err, wanted;

	if (dir == NO_NODE || live_nodes(r) >= r->opt.nodes_max)
		return;
	random_name(r, name);
	note(r, "mknod 0%o '%s' in %llu", mode, name,
	     (unsigned long long)model_node(&r->now, dir)->ino);
	wanted = model_may_add(&r->now, dir, name);
	din = run_inode(r, dir);
	err = fs_mknod(din, name, mode, rdev, who, &in);
	check_err(r, err, wanted, "mknod");
	if (err < 0)
		return;
	f = new_fields(r, dir, mode, who);
	if (S_ISCHR(mode) || S_ISBLK(mode))
		f.rdev = rdev;
	created(r, dir, name, in, f, from);
}

static void op_symlink(struct run *r)
{
	uint32_t dir = pick_dir(r);
	size_t len = one_in(r, 4) ? 1 + rnd(r, 4200) : 1 + rnd(r, 60);
	scoped(freep) char *target = xmalloc(len + 1);
	struct cred who = { rnd(r, 3), rnd(r, 3) };
	scoped(inode_putp) struct inode *din = NULL;
	struct timespec from = fs_now();
	struct inode *in = NULL;
	struct mnode f;
	char name[NAME_BUF];
	int err, wanted;

	if (dir == NO_NODE || live_nodes(r) >= r->opt.nodes_max)
		return;
	random_name(r, name);
	for (size_t i = 0; i < len; i++)
		target[i] = (char)('a' + rnd(r, 26));
	target[len] = '\0';
	note(r, "symlink '%s' of %zu bytes", name, len);
	wanted = len > r->now.item_max - FILE_EXTENT_INLINE_OFFSET || len >= r->fs->sectorsize ?
		-ENAMETOOLONG : model_may_add(&r->now, dir, name);
	din = run_inode(r, dir);
	err = fs_symlink(din, name, target, who, &in);
	check_err(r, err, wanted, "symlink");
	if (err < 0)
		return;
	f = new_fields(r, dir, S_IFLNK | 0777, who);
	f.data = xmemdup(target, len);
	f.size = len;
	created(r, dir, name, in, f, from);
}

static int link_wanted(struct run *r, uint32_t node, uint32_t dir, const char *name)
{
	struct mnode *n = model_node(&r->now, node), *d = model_node(&r->now, dir);
	int err = model_may_add(&r->now, dir, name);

	if (err < 0 && err != -EEXIST && err != -EOVERFLOW)
		return err;
	if (n->subvol != d->subvol)
		return -EXDEV;
	if (S_ISDIR(n->mode))
		return -EPERM;
	if (n->nlink == 0)
		return -ENOENT;
	return err;
}

static void op_link(struct run *r)
{
	uint32_t node = pick(r, one_in(r, 10) ? 0 : S_IFREG), dir = pick_dir(r);
	scoped(inode_putp) struct inode *in = NULL, *din = NULL;
	struct timespec from = fs_now();
	char name[NAME_BUF];
	int err, wanted;

	if (node == NO_NODE || dir == NO_NODE)
		return;
	random_name(r, name);
	note(r, "link of %llu as '%s' in %llu", (unsigned long long)model_node(&r->now, node)->ino,
	     name, (unsigned long long)model_node(&r->now, dir)->ino);
	wanted = link_wanted(r, node, dir, name);
	in = run_inode(r, node);
	din = run_inode(r, dir);
	err = fs_link(in, din, name);
	check_err(r, err, wanted, "link");
	if (err < 0)
		return;
	model_link(&r->now, dir, name, node);
	touched(r, node, from, CTIME);
	touched(r, dir, from, MTIME | CTIME);
}

/* --- removing and moving ------------------------------------------------------------------------- */

/* A name of `node` is about to go: what the filesystem must be told if it was the last. */
struct parting {
	uint32_t node;
	bool gone;
	struct ino_id id;
};

static struct parting part(struct run *r, uint32_t node)
{
	struct parting p = { .node = node };

	if (node != NO_NODE) {
		struct mnode *n = model_node(&r->now, node);

		p.id = (struct ino_id){ n->subvol, n->ino };
		p.gone = (n->nlink == 1 || S_ISDIR(n->mode)) && !n->held;
	}
	return p;
}

/* Some are left for the cleaning at unmount or at the next mount. */
static void parted(struct run *r, const struct parting *p, struct timespec from)
{
	if (p->node == NO_NODE)
		return;
	if (!p->gone)
		touched(r, p->node, from, CTIME);
	else if (!one_in(r, 5))
		check_err(r, fs_forget(r->fs, p->id), 0, "forget");
}

static void op_unlink(struct run *r)
{
	uint32_t dir = pick_dir(r);
	bool dir_wanted;
	scoped(inode_putp) struct inode *din = NULL;
	struct timespec from = fs_now();
	char name[NAME_BUF];
	struct parting p;
	uint32_t node;
	int err, wanted;

	if (dir == NO_NODE || !pick_entry(r, dir, name))
		return;
	node = model_find(&r->now, dir, name);
	dir_wanted = node != NO_NODE && S_ISDIR(model_node(&r->now, node)->mode);
	if (one_in(r, 20))
		dir_wanted = !dir_wanted;
	note(r, "%s '%s' in %llu", dir_wanted ? "rmdir" : "unlink", name,
	     (unsigned long long)model_node(&r->now, dir)->ino);
	wanted = model_may_unlink(&r->now, dir, name, dir_wanted);
	din = run_inode(r, dir);
	err = dir_wanted ? fs_rmdir(din, name) : fs_unlink(din, name);
	check_err(r, err, wanted, dir_wanted ? "rmdir" : "unlink");
	if (err < 0)
		return;
	p = part(r, node);
	model_unlink(&r->now, dir, name);
	touched(r, dir, from, MTIME | CTIME);
	parted(r, &p, from);
}

/* The whiteout is a node that nobody has seen yet. */
static void meet_whiteout(struct run *r, struct inode *din, const char *name, uint32_t node,
			  struct timespec from)
{
	scoped(inode_putp) struct inode *in = NULL;

	check_err(r, fs_lookup(din, name, &in), 0, "lookup of the whiteout");
	model_node(&r->now, node)->ino = in->ino;
	touched(r, node, from, MTIME | CTIME | ATIME);
	compare_node(r, node);
}

static void rename_done(struct run *r, uint32_t dirs[2], struct inode *din, char names[2][NAME_BUF],
			unsigned flags, struct timespec from)
{
	uint32_t a = model_find(&r->now, dirs[0], names[0]);
	uint32_t b = model_find(&r->now, dirs[1], names[1]);
	struct parting p = part(r, flags & RENAME_EXCHANGE ? NO_NODE : b);
	uint32_t whiteout;

	if (!model_rename(&r->now, dirs[0], names[0], dirs[1], names[1], flags, &whiteout))
		return;
	touched(r, dirs[0], from, MTIME | CTIME);
	touched(r, dirs[1], from, MTIME | CTIME);
	if (!model_node(&r->now, a)->subvol_root)
		touched(r, a, from, CTIME);
	if (flags & RENAME_EXCHANGE && !model_node(&r->now, b)->subvol_root)
		touched(r, b, from, CTIME);
	parted(r, &p, from);
	if (whiteout != NO_NODE)
		meet_whiteout(r, din, names[0], whiteout, from);
}

static void op_rename(struct run *r)
{
	static const unsigned all_flags[] = { 0, 0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE,
					      RENAME_EXCHANGE, RENAME_WHITEOUT,
					      RENAME_NOREPLACE | RENAME_WHITEOUT,
					      RENAME_EXCHANGE | RENAME_NOREPLACE };
	uint32_t dirs[2] = { pick_dir(r), pick_dir(r) };
	unsigned flags = all_flags[rnd(r, ARRAY_COUNT(all_flags))];
	scoped(inode_putp) struct inode *in0 = NULL, *in1 = NULL;
	struct timespec from = fs_now();
	char names[2][NAME_BUF];
	int err, wanted;

	if (one_in(r, 3))
		dirs[1] = dirs[0];
	if (dirs[0] == NO_NODE || dirs[1] == NO_NODE || !pick_entry(r, dirs[0], names[0]))
		return;
	if (one_in(r, 2) || flags & RENAME_EXCHANGE) {
		if (!pick_entry(r, dirs[1], names[1]))
			return;
	} else {
		random_name(r, names[1]);
		if (model_find(&r->now, dirs[1], names[1]) != NO_NODE)
			return;
	}
	if (flags & RENAME_WHITEOUT && live_nodes(r) >= r->opt.nodes_max)
		return;
	note(r, "rename '%s' in %llu to '%s' in %llu, flags %u", names[0],
	     (unsigned long long)model_node(&r->now, dirs[0])->ino, names[1],
	     (unsigned long long)model_node(&r->now, dirs[1])->ino, flags);
	wanted = model_may_rename(&r->now, dirs[0], names[0], dirs[1], names[1], flags);
	in0 = run_inode(r, dirs[0]);
	in1 = run_inode(r, dirs[1]);
	err = fs_rename(in0, names[0], in1, names[1], flags);
	check_err(r, err, wanted, "rename");
	if (err == 0)
		rename_done(r, dirs, in0, names, flags, from);
}

/* --- attributes ---------------------------------------------------------------------------------- */

static struct timespec random_time(struct run *r)
{
	return (struct timespec){ (time_t)(int32_t)rnd64(r), (long)rnd(r, 1000000000) };
}

static void op_setattr(struct run *r)
{
	uint32_t node = pick(r, 0);
	struct attr_change ch = { .valid = rnd(r, 64) & ~(unsigned)ATTR_CH_SIZE };
	scoped(inode_putp) struct inode *in = NULL;
	struct timespec from = fs_now();
	struct mnode *n;
	int err;

	if (node == NO_NODE)
		return;
	n = model_node(&r->now, node);
	ch.mode = rnd(r, 010000);
	ch.uid = rnd(r, 5);
	ch.gid = rnd(r, 5);
	ch.atime = random_time(r);
	ch.mtime = random_time(r);
	if (ch.valid == 0)
		return;
	note(r, "setattr %u of %llu", ch.valid, (unsigned long long)n->ino);
	in = run_inode(r, node);
	err = fs_setattr(in, &ch);
	check_err(r, err, n->rdonly ? -EROFS : 0, "setattr");
	if (err < 0)
		return;
	if (ch.valid & ATTR_CH_MODE)
		n->mode = (n->mode & S_IFMT) | ch.mode;
	if (ch.valid & ATTR_CH_UID)
		n->uid = ch.uid;
	if (ch.valid & ATTR_CH_GID)
		n->gid = ch.gid;
	if (ch.valid & ATTR_CH_ATIME)
		n->atime = ch.atime;
	if (ch.valid & ATTR_CH_MTIME)
		n->mtime = ch.mtime;
	touched(r, node, from, CTIME);
}

static void random_xattr(struct run *r, char name[XATTR_NAME_MAX_BYTES + 1])
{
	static const char *const spaces[] = { "user", "trusted", "security" };

	if (one_in(r, 3)) {
		char tail[COLLIDE_NAME_LEN + 1];

		collide_name(rnd(r, 40), tail);
		snprintf(name, XATTR_NAME_MAX_BYTES + 1, "user.%s", tail);
	} else {
		snprintf(name, XATTR_NAME_MAX_BYTES + 1, "%s.x%u", spaces[rnd(r, ARRAY_COUNT(spaces))],
			 rnd(r, 10));
	}
}

/* Does the value fit the item of the name's hash beside the others? */
static bool xattr_fits(struct run *r, struct mnode *n, const char *name, size_t len)
{
	uint64_t hash = name_hash(name, strlen(name));
	size_t used = sizeof(struct disk_dir_item) + strlen(name) + len;

	for (unsigned i = 0; i < n->xattr_count; i++) {
		const struct mxattr *x = &n->xattrs[i];

		if (strcmp(x->name, name) != 0 && name_hash(x->name, strlen(x->name)) == hash)
			used += sizeof(struct disk_dir_item) + strlen(x->name) + x->len;
	}
	return used <= r->now.item_max;
}

static int xattr_wanted(struct run *r, struct mnode *n, const char *name, size_t len, int flags)
{
	if (sizeof(struct disk_dir_item) + strlen(name) + len > r->now.item_max)
		return -ENOSPC;
	if (n->rdonly)
		return -EROFS;
	if (flags & XATTR_CREATE && model_xattr(n, name))
		return -EEXIST;
	if (flags & XATTR_REPLACE && !model_xattr(n, name))
		return -ENODATA;
	return xattr_fits(r, n, name, len) ? 0 : -ENOSPC;
}

static void op_setxattr(struct run *r)
{
	static const int all_flags[] = { 0, 0, 0, XATTR_CREATE, XATTR_REPLACE };
	uint32_t node = pick(r, one_in(r, 3) ? S_IFDIR : S_IFREG);
	size_t len = one_in(r, 8) ? rnd(r, 5000) : rnd(r, 120);
	int flags = all_flags[rnd(r, ARRAY_COUNT(all_flags))];
	scoped(freep) uint8_t *value = xmalloc(len);
	char name[XATTR_NAME_MAX_BYTES + 1];
	scoped(inode_putp) struct inode *in = NULL;
	struct timespec from = fs_now();
	int err;

	if (node == NO_NODE)
		return;
	random_xattr(r, name);
	for (size_t i = 0; i < len; i++)
		value[i] = (uint8_t)rnd64(r);
	note(r, "setxattr %s of %llu, %zu bytes, flags %d", name,
	     (unsigned long long)model_node(&r->now, node)->ino, len, flags);
	in = run_inode(r, node);
	err = fs_setxattr(in, name, value, len, flags);
	check_err(r, err, xattr_wanted(r, model_node(&r->now, node), name, len, flags), "setxattr");
	if (err < 0)
		return;
	model_set_xattr(model_node(&r->now, node), name, value, len);
	touched(r, node, from, CTIME);
}

static void op_removexattr(struct run *r)
{
	uint32_t node = pick(r, one_in(r, 3) ? S_IFDIR : S_IFREG);
	char name[XATTR_NAME_MAX_BYTES + 1];
	scoped(inode_putp) struct inode *in = NULL;
	struct timespec from = fs_now();
	struct mnode *n;
	int err;

	if (node == NO_NODE)
		return;
	n = model_node(&r->now, node);
	random_xattr(r, name);
	if (n->xattr_count != 0 && !one_in(r, 4))
		snprintf(name, sizeof(name), "%s", n->xattrs[rnd(r, n->xattr_count)].name);
	if (strncmp(name, "btrfs.", 6) == 0)
		return;
	note(r, "removexattr %s of %llu", name, (unsigned long long)n->ino);
	in = run_inode(r, node);
	err = fs_removexattr(in, name);
	check_err(r, err, n->rdonly ? -EROFS : model_xattr(n, name) ? 0 : -ENODATA, "removexattr");
	if (err < 0)
		return;
	model_remove_xattr(n, name);
	touched(r, node, from, CTIME);
}

/* --- data ---------------------------------------------------------------------------------------- */

static void random_bytes(struct run *r, uint8_t *buf, size_t len)
{
	unsigned kind = rnd(r, 3);
	uint8_t byte = (uint8_t)rnd64(r);

	for (size_t i = 0; i < len; i++)
		buf[i] = kind == 0 ? (uint8_t)rnd64(r) : kind == 1 ? byte : (uint8_t)(i / 7 + byte);
}

static size_t random_offset(struct run *r, const struct mnode *n)
{
	size_t off = one_in(r, 3) ? n->size : rnd(r, (unsigned)(one_in(r, 3) ? r->opt.file_max :
								 n->size + 1));

	if (one_in(r, 3))
		off = off / 4096 * 4096;
	return min_size(off, r->opt.file_max);
}

static void op_write(struct run *r)
{
	static const unsigned lengths[] = { 100, 100, 3000, 9000, 70000, 300000 };
	uint32_t node = pick(r, S_IFREG);
	scoped(inode_putp) struct inode *in = NULL;
	struct timespec from = fs_now();
	struct mnode *n;
	size_t off, len;
	ssize_t got;

	if (node == NO_NODE)
		return;
	n = model_node(&r->now, node);
	off = random_offset(r, n);
	len = 1 + rnd(r, lengths[rnd(r, ARRAY_COUNT(lengths))]);
	if (one_in(r, 4))
		len = align_up(len, 4096);
	len = min_size(len, r->opt.file_max - off);
	if (len == 0)
		return;
	random_bytes(r, r->buf, len);
	note(r, "write %zu at %zu of %llu, size %zu", len, off, (unsigned long long)n->ino, n->size);
	in = run_inode(r, node);
	got = fs_write(in, off, r->buf, len);
	check_err(r, got, n->rdonly ? -EROFS : (ssize_t)len, "write");
	if (got < 0)
		return;
	if (off + len > n->size)
		model_resize(n, off + len);
	memcpy(n->data + off, r->buf, len);
	touched(r, node, from, MTIME | CTIME);
}

static void op_truncate(struct run *r)
{
	uint32_t node = pick(r, S_IFREG);
	struct attr_change ch = { .valid = ATTR_CH_SIZE };
	scoped(inode_putp) struct inode *in = NULL;
	struct timespec from = fs_now();
	struct mnode *n;
	size_t size;
	int err;

	if (node == NO_NODE)
		return;
	n = model_node(&r->now, node);
	size = one_in(r, 4) ? 0 : random_offset(r, n);
	if (size == n->size)
		return;
	ch.size = size;
	note(r, "truncate %llu from %zu to %zu", (unsigned long long)n->ino, n->size, size);
	in = run_inode(r, node);
	err = fs_setattr(in, &ch);
	check_err(r, err, n->rdonly ? -EROFS : 0, "truncate");
	if (err < 0)
		return;
	model_resize(n, size);
	touched(r, node, from, MTIME | CTIME);
}

static void op_read(struct run *r)
{
	uint32_t node = pick(r, S_IFREG);
	scoped(inode_putp) struct inode *in = NULL;
	struct mnode *n;
	size_t off, len, wanted;
	ssize_t got;

	if (node == NO_NODE)
		return;
	n = model_node(&r->now, node);
	off = random_offset(r, n);
	len = min_size(1 + rnd(r, one_in(r, 2) ? 5000 : 200000), r->opt.file_max);
	wanted = off < n->size ? min_size(len, n->size - off) : 0;
	note(r, "read %zu at %zu of %llu, size %zu", len, off, (unsigned long long)n->ino, n->size);
	in = run_inode(r, node);
	got = fs_read(in, off, r->buf, len);
	check_err(r, got, wanted, "read");
	for (size_t i = 0; i < wanted; i++)
		if (r->buf[i] != n->data[off + i])
			run_failed(r, "byte %zu is %02x, must be %02x", off + i, r->buf[i],
				   n->data[off + i]);
}

static void op_seek(struct run *r)
{
	uint32_t node = pick(r, S_IFREG);
	scoped(inode_putp) struct inode *in = NULL;
	struct mnode *n;
	size_t off, end;
	int64_t data, hole;

	if (node == NO_NODE || model_node(&r->now, node)->size == 0)
		return;
	n = model_node(&r->now, node);
	off = rnd(r, (unsigned)n->size);
	note(r, "seek from %zu of %llu, size %zu", off, (unsigned long long)n->ino, n->size);
	in = run_inode(r, node);
	data = fs_seek(in, off, true);
	hole = fs_seek(in, off, false);
	if (data < 0 && data != -ENXIO)
		check_err(r, data, off, "seek for data");
	if (hole < (int64_t)off || hole > (int64_t)n->size)
		check_err(r, hole, off, "seek for a hole");
	end = data < 0 ? n->size : (size_t)data;
	for (size_t i = off; i < end; i++)
		if (n->data[i] != 0)
			run_failed(r, "byte %zu is data, seek gave %lld", i, (long long)data);
	check_err(r, fs_seek(in, n->size, true), -ENXIO, "seek for data at the end");
}

static void op_fsync(struct run *r)
{
	uint32_t node = pick(r, one_in(r, 4) ? S_IFDIR : S_IFREG);
	scoped(inode_putp) struct inode *in = NULL;
	uint64_t before = txn_running(r->fs);

	if (node == NO_NODE)
		return;
	note(r, "fsync of %llu", (unsigned long long)model_node(&r->now, node)->ino);
	in = run_inode(r, node);
	/* With all data out, what the fsync commits is all that the model knows. */
	check_err(r, fs_flush_all(r->fs), 0, "flush");
	check_err(r, fs_fsync(in, one_in(r, 2)), 0, "fsync");
	if (txn_running(r->fs) != before)
		run_committed(r);
}

static void op_flush(struct run *r)
{
	uint32_t node = pick(r, S_IFREG);
	scoped(inode_putp) struct inode *in = NULL;

	if (node == NO_NODE)
		return;
	note(r, "flush of %llu", (unsigned long long)model_node(&r->now, node)->ino);
	in = run_inode(r, node);
	check_err(r, fs_flush_inode(in), 0, "flush");
}

/* --- the rest ------------------------------------------------------------------------------------ */

static void op_hold(struct run *r)
{
	uint32_t node = pick(r, 0);
	struct mnode *n;

	if (node == NO_NODE || node == r->now.root || model_node(&r->now, node)->subvol_root)
		return;
	n = model_node(&r->now, node);
	note(r, "%s %llu", n->held ? "close" : "open", (unsigned long long)n->ino);
	n->held = !n->held;
	if (!n->held && n->nlink == 0) {
		struct ino_id id = { n->subvol, n->ino };

		model_drop(&r->now, node);
		check_err(r, fs_forget(r->fs, id), 0, "forget");
	}
}

static void op_lookup(struct run *r)
{
	uint32_t dir = pick_dir(r), node;
	scoped(inode_putp) struct inode *din = NULL, *in = NULL;
	char name[NAME_BUF];
	int err;

	if (dir == NO_NODE)
		return;
	random_name(r, name);
	note(r, "lookup '%s'", name);
	node = model_find(&r->now, dir, name);
	din = run_inode(r, dir);
	err = fs_lookup(din, name, &in);
	check_err(r, err, strlen(name) > NAME_MAX_BYTES ? -ENAMETOOLONG : node == NO_NODE ? -ENOENT : 0,
		  "lookup");
	if (node != NO_NODE && !model_node(&r->now, node)->opaque)
		check_err(r, in->ino, model_node(&r->now, node)->ino, "lookup");
}

static void op_statfs(struct run *r)
{
	struct statvfs st;

	note(r, "statfs");
	check_err(r, fs_statfs(r->fs, &st), 0, "statfs");
	if (st.f_blocks == 0 || st.f_bfree > st.f_blocks || st.f_bavail > st.f_bfree ||
	    st.f_namemax != NAME_MAX_BYTES)
		run_failed(r, "statfs: %lu blocks, %lu free, %lu available", (unsigned long)st.f_blocks,
			   (unsigned long)st.f_bfree, (unsigned long)st.f_bavail);
}

static const struct {
	void (*fn)(struct run *r);
	unsigned weight;
} all_ops[] = {
	{ op_mknod, 16 }, { op_symlink, 3 }, { op_link, 8 }, { op_unlink, 10 }, { op_rename, 12 },
	{ op_setattr, 6 }, { op_setxattr, 8 }, { op_removexattr, 3 }, { op_write, 20 },
	{ op_truncate, 6 }, { op_read, 6 }, { op_seek, 2 }, { op_fsync, 1 }, { op_flush, 3 },
	{ op_hold, 4 }, { op_lookup, 3 }, { op_statfs, 1 },
};

void run_op(struct run *r)
{
	unsigned sum = 0, at, i = 0;

	for (i = 0; i < ARRAY_COUNT(all_ops); i++)
		sum += all_ops[i].weight;
	at = rnd(r, sum);
	for (i = 0; at >= all_ops[i].weight; i++)
		at -= all_ops[i].weight;
	all_ops[i].fn(r);
	if (r->opt.verbose)
		printf("%llu: %s\n", (unsigned long long)r->op, r->last);
}
