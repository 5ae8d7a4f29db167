/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/stress/main.c - many threads on one filesystem, without a mount.
 *
 *	stress IMAGE SECONDS THREADS SEED [SIZE_MIB NODESIZE]
 *
 * Each thread does random operations on a few directories that all share, so that creating, linking,
 * renaming and removing meet each other, and writes and reads files whose bytes all carry the number
 * of the file, so that data in the wrong place are seen. The timer and the flusher run. What an
 * operation returns must be one of the errors that a race can cause. At the end everything is
 * closed; whether the image is sound is for a judge to say.
 *
 * As FUSE does, the test counts who uses an inode, and tells the filesystem when nobody does (uses).
 */
#include <errno.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fs/ops.h"
#include "fs/txn.h"
#include "io/rcu.h"
#include "mkfs/mkfs.h"

#define DIRS 6u
#define NAMES 24u
#define THREADS_MAX 64u
#define FILE_BYTES_MAX 200000u
#define INODES_MAX (4u << 20)

/* Uses of each inode, by its number; looking up and counting are one step. */
static unsigned uses[INODES_MAX];
static _Atomic uint64_t seen_max;
static pthread_mutex_t uses_lock = PTHREAD_MUTEX_INITIALIZER;

struct worker {
	struct fs *fs;
	pthread_t thread;
	uint64_t rng;
	time_t end;
	unsigned long ops;
	uint8_t buf[FILE_BYTES_MAX];
};

static unsigned rnd(struct worker *w, unsigned below)
{
	w->rng = w->rng * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(w->rng >> 33) % below;
}

_Noreturn static void die(const char *what, long err)
{
	fprintf(stderr, "stress: %s: %ld (%s)\n", what, err, strerror((int)(err < 0 ? -err : err)));
	abort();
}

/* Fails unless err is 0 or one of those that another thread's doing explains. */
static void expect(const char *what, long err)
{
	static const int fine[] = { ENOENT, EEXIST, ENOTEMPTY, ENOTDIR, EISDIR, EINVAL, EPERM, EMLINK,
				    EBUSY, ENOSPC };

	if (err >= 0)
		return;
	for (unsigned i = 0; i < ARRAY_COUNT(fine); i++)
		if (err == -fine[i])
			return;
	die(what, err);
}

static const char *some_name(struct worker *w, char buf[16])
{
	snprintf(buf, 16, "n%u", rnd(w, NAMES));
	return buf;
}

static void use(struct inode *in)
{
	if (in->ino >= INODES_MAX)
		die("the test is too long", (long)in->ino);
	uses[in->ino]++;
	if (in->ino > seen_max)
		seen_max = in->ino;
}

static struct inode *find(struct inode *dir, const char *name)
{
	struct inode *in = NULL;

	pthread_mutex_lock(&uses_lock);
	expect("lookup", fs_lookup(dir, name, &in));
	if (in != NULL)
		use(in);
	pthread_mutex_unlock(&uses_lock);
	return in;
}

/* Ends a use. An inode without name and use is deleted. */
static void leave(struct worker *w, struct inode *in)
{
	struct ino_id id;
	struct stat st;
	bool last;

	if (in == NULL)
		return;
	id = (struct ino_id){ in->sv->id, in->ino };
	pthread_mutex_lock(&uses_lock);
	last = --uses[in->ino] == 0;
	if (last)
		fs_getattr(in, &st);
	pthread_mutex_unlock(&uses_lock);
	inode_put(in);
	if (last && st.st_nlink == 0)
		expect("forget", fs_forget(w->fs, id));
}

/* The root, one of the directories in it, or one below such a one. */
static struct inode *some_dir(struct worker *w)
{
	struct inode *at = NULL;

	if (inode_get(w->fs, w->fs->root_subvol, INO_ROOT, &at) < 0)
		die("the root", ENOENT);
	pthread_mutex_lock(&uses_lock);
	use(at);
	pthread_mutex_unlock(&uses_lock);
	for (unsigned depth = rnd(w, 3); depth > 0; depth--) {
		struct inode *next;
		char name[16];

		snprintf(name, sizeof(name), "d%u", rnd(w, DIRS));
		next = find(at, name);
		if (next == NULL)
			break;
		leave(w, at);
		at = next;
	}
	return at;
}

/*
 * A name may have been given to another inode between looking it up and removing or replacing it;
 * that one has no use here that could end. The kernel would not let this happen.
 */
static void sweep(struct worker *w)
{
	for (uint64_t ino = INO_ROOT + 1; ino < INODES_MAX; ino++) {
		bool used;

		pthread_mutex_lock(&uses_lock);
		used = uses[ino] != 0;
		pthread_mutex_unlock(&uses_lock);
		if (!used)
			expect("forget", fs_forget(w->fs, (struct ino_id){ w->fs->root_subvol, ino }));
		if (ino > seen_max)
			return;
	}
}

static void op_make(struct worker *w, struct inode *dir, const char *name)
{
	struct cred who = { 0, 0 };
	struct inode *in = NULL;
	char dname[16];

	switch (rnd(w, 6)) {
	case 0:
		snprintf(dname, sizeof(dname), "d%u", rnd(w, DIRS));
		expect("mkdir", fs_mknod(dir, dname, S_IFDIR | 0755, 0, who, &in));
		break;
	case 1:
		expect("symlink", fs_symlink(dir, name, "somewhere", who, &in));
		break;
	default:
		expect("mknod", fs_mknod(dir, name, S_IFREG | 0644, 0, who, &in));
	}
	inode_put(in);		/* not used, and so not looked at, before somebody finds it */
}

static void op_remove(struct worker *w, struct inode *dir, const char *name)
{
	struct inode *in;
	char dname[16];

	if (rnd(w, 8) == 0) {
		snprintf(dname, sizeof(dname), "d%u", rnd(w, DIRS));
		name = dname;
	}
	in = find(dir, name);
	if (in == NULL)
		return;
	expect("remove", S_ISDIR(in->mode) ? fs_rmdir(dir, name) : fs_unlink(dir, name));
	leave(w, in);
}

static void op_move(struct worker *w, struct inode *dir, const char *name)
{
	static const unsigned flags[] = { 0, 0, 0, RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT };
	struct inode *to = some_dir(w), *victim;
	char newname[16];

	if (rnd(w, 4) == 0) {
		snprintf(newname, sizeof(newname), "d%u", rnd(w, DIRS));
		name = rnd(w, 2) ? "d0" : "d1";
	} else {
		some_name(w, newname);
	}
	victim = find(to, newname);
	expect("rename", fs_rename(dir, name, to, newname, flags[rnd(w, ARRAY_COUNT(flags))]));
	leave(w, victim);
	leave(w, to);
}

static void op_link(struct worker *w, struct inode *dir, const char *name)
{
	struct inode *to = some_dir(w), *in = find(dir, name);
	char newname[16];

	if (in != NULL) {
		expect("link", fs_link(in, to, some_name(w, newname)));
		leave(w, in);
	}
	leave(w, to);
}

static void op_data(struct worker *w, struct inode *in)
{
	unsigned len = 1 + rnd(w, rnd(w, 3) ? 3000 : FILE_BYTES_MAX - 1);
	unsigned off = rnd(w, FILE_BYTES_MAX - len + 1);
	uint8_t byte = (uint8_t)(1 + in->ino % 255);
	struct attr_change ch = { .valid = ATTR_CH_SIZE, .size = off };
	ssize_t got;

	switch (rnd(w, 8)) {
	case 0:
	case 1:
	case 2:
		memset(w->buf, byte, len);
		expect("write", fs_write(in, off, w->buf, len));
		break;
	case 3:
		expect("truncate", fs_setattr(in, &ch));
		break;
	case 4:
		expect("flush", fs_flush_inode(in));
		break;
	case 5:
		if (rnd(w, 20) == 0)
			expect("fsync", fs_fsync(in, false));
		break;
	default:
		got = fs_read(in, off, w->buf, len);
		expect("read", got);
		for (ssize_t i = 0; i < got; i++)
			if (w->buf[i] != 0 && w->buf[i] != byte)
				die("a byte of another file", w->buf[i]);
	}
}

static void op_attr(struct worker *w, struct inode *in)
{
	struct attr_change ch = { .valid = ATTR_CH_MODE | ATTR_CH_MTIME, .mode = rnd(w, 01000) };
	char name[32], value[64];

	snprintf(name, sizeof(name), "user.x%u", rnd(w, 5));
	switch (rnd(w, 4)) {
	case 0:
		expect("setattr", fs_setattr(in, &ch));
		break;
	case 1:
		expect("setxattr", fs_setxattr(in, name, value, rnd(w, sizeof(value)), 0));
		break;
	case 2:
		if (fs_getxattr(in, name, value, sizeof(value)) == -EUCLEAN)
			die("getxattr", -EUCLEAN);
		break;
	default:
		fs_touch_atime(in);
	}
}

static int count_entry(const struct dir_entry *e, void *arg)
{
	(void)e;
	++*(unsigned *)arg;
	return 0;
}

static void op_inode(struct worker *w, struct inode *dir, const char *name)
{
	struct inode *in = find(dir, name);
	unsigned entries = 0;

	if (in == NULL)
		return;
	if (rnd(w, 4) == 0)
		op_attr(w, in);
	else if (S_ISREG(in->mode))
		op_data(w, in);
	else if (S_ISDIR(in->mode))
		expect("readdir", fs_readdir(in, 0, count_entry, &entries));
	leave(w, in);
}

static void *work(void *arg)
{
	struct worker *w = arg;
	char name[16];

	rcu_thread_enter();
	while (time(NULL) < w->end) {
		struct inode *dir = some_dir(w);
		unsigned entries = 0;

		some_name(w, name);
		switch (rnd(w, 10)) {
		case 0:
		case 1:
			op_make(w, dir, name);
			break;
		case 2:
			op_remove(w, dir, name);
			break;
		case 3:
			op_move(w, dir, name);
			break;
		case 4:
			op_link(w, dir, name);
			break;
		case 5:
			expect("readdir", fs_readdir(dir, 0, count_entry, &entries));
			break;
		default:
			op_inode(w, dir, name);
		}
		if (rnd(w, 5000) == 0)
			expect("sync", txn_sync(w->fs));
		if (rnd(w, 1000) == 0)
			sweep(w);
		leave(w, dir);
		w->ops++;
	}
	rcu_thread_leave();
	return NULL;
}

static struct fs *open_image(const char *image, uint64_t size, uint32_t nodesize)
{
	struct mkfs_options mkfs;
	struct fs_options opt;
	struct device *dev;
	struct reason reason;
	struct fs *fs;

	mkfs_options_init(&mkfs);
	mkfs.leafsize = mkfs.nodesize = nodesize;
	if (size != 0) {
		unlink(image);
		if (device_open(image, DEVICE_CREATE, &dev, &reason) < 0 ||
		    device_resize(dev, size) < 0 || mkfs_format(dev, &mkfs, &reason) < 0)
			die("cannot format", EIO);
		device_close(dev);
	}
	fs_options_init(&opt);
	opt.commit_s = 1;
	if (device_open(image, 0, &dev, &reason) < 0 || fs_open(dev, &opt, &fs, &reason) < 0) {
		fprintf(stderr, "stress: %s\n", reason.text);
		exit(1);
	}
	if (fs_start(fs) < 0)
		die("cannot start", EIO);
	return fs;
}

int main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	unsigned threads, seconds, total_ops = 0;
	struct fs *fs;
	int err;

	if (argc != 5 && argc != 7) {
		fputs("usage: stress IMAGE SECONDS THREADS SEED [SIZE_MIB NODESIZE]\n", stderr);
		return 2;
	}
	seconds = (unsigned)atoi(argv[2]);
	threads = min_u32((unsigned)atoi(argv[3]), THREADS_MAX);
	fs = open_image(argv[1], argc == 7 ? strtoull(argv[5], NULL, 0) << 20 : 0,
			argc == 7 ? (uint32_t)atoi(argv[6]) : 0);
	for (unsigned i = 0; i < threads; i++) {
		workers[i] = (struct worker){ .fs = fs, .end = time(NULL) + seconds };
		workers[i].rng = strtoull(argv[4], NULL, 0) * THREADS_MAX + i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
			die("pthread_create", errno);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		total_ops += (unsigned)workers[i].ops;
	}
	err = fs_close(fs);
	if (err < 0)
		die("close", err);
	printf("stress: %u operations by %u threads\n", total_ops, threads);
	return 0;
}
