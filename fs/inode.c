/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/inode.c - the cache of inodes, and the inode item; see inode.h.
 *
 * A hash table in shards. An object that is being read from the tree is in the table already
 * (LOADING), so that a second thread waits for it instead of reading an item that may be old by
 * the time it is put in. Objects without references stay in their shard's LRU list up to
 * SHARD_LRU_MAX.
 *
 * Locking: shard->lock (RANK_CACHE) covers the chains, the LRU list, `state`, and the step of `refs`
 * to and from 0. lazy_lock (RANK_CACHE) covers the list of inodes with lazy times; never both.
 */
#include "fs/inode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fs/txn.h"
#include "io/log.h"
#include "io/util.h"

#define SHARD_COUNT 64u
#define SHARD_BUCKETS 256u
#define SHARD_LRU_MAX 128u

struct shard {
	struct mutex lock;
	struct cond loaded;
	struct inode *buckets[SHARD_BUCKETS];
	struct inode *lru_first, *lru_last;	/* first: put down longest ago */
	unsigned lru_count;
};

struct inode_cache {
	struct shard shards[SHARD_COUNT];
	struct mutex rename_lock;
	struct mutex lazy_lock;
	struct inode *lazy;		/* each holds a reference */
	unsigned lazy_count;
};

static uint64_t mix(uint64_t subvol, uint64_t ino)
{
	uint64_t h = (ino ^ (subvol << 40) ^ subvol) * 0x9e3779b97f4a7c15ULL;

	return h ^ (h >> 32);
}

static struct shard *shard_of(struct fs *fs, uint64_t subvol, uint64_t ino)
{
	return &fs->inodes->shards[mix(subvol, ino) % SHARD_COUNT];
}

static struct inode **bucket_of(struct shard *s, uint64_t subvol, uint64_t ino)
{
	return &s->buckets[(mix(subvol, ino) / SHARD_COUNT) % SHARD_BUCKETS];
}

struct fs *inode_fs(const struct inode *in)
{
	return in->sv->fs;
}

struct mutex *inode_rename_lock(struct fs *fs)
{
	return &fs->inodes->rename_lock;
}

struct timespec fs_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME_COARSE, &ts);
	return ts;
}

/* --- the table ----------------------------------------------------------------------------------- */

int inode_cache_new(struct fs *fs)
{
	struct inode_cache *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < SHARD_COUNT; i++) {
		mutex_init(&c->shards[i].lock, RANK_CACHE);
		cond_init(&c->shards[i].loaded);
	}
	mutex_init(&c->rename_lock, RANK_RENAME);
	mutex_init(&c->lazy_lock, RANK_CACHE);
	fs->inodes = c;
	return 0;
}

static void inode_free(struct inode *in)
{
	if (in == NULL)
		return;
	dcheck(in->dirty == NULL);
	rwlock_done(&in->lock);
	free(in);
}

static struct inode *pop_lazy(struct inode_cache *c)
{
	struct inode *in;

	mutex_guard(&c->lazy_lock);
	in = c->lazy;
	if (in == NULL)
		return NULL;
	c->lazy = in->lazy_next == in ? NULL : in->lazy_next;
	in->lazy_next = NULL;
	c->lazy_count--;
	return in;
}

void inode_cache_free(struct fs *fs)
{
	struct inode_cache *c = fs->inodes;
	struct inode *lazy;

	if (c == NULL)
		return;
	while ((lazy = pop_lazy(c)) != NULL)
		inode_put(lazy);
	for (unsigned i = 0; i < SHARD_COUNT; i++) {
		struct shard *s = &c->shards[i];

		for (unsigned b = 0; b < SHARD_BUCKETS; b++) {
			struct inode *next;

			for (struct inode *in = s->buckets[b]; in != NULL; in = next) {
				next = in->hash_next;
				inode_free(in);
			}
		}
		cond_done(&s->loaded);
		mutex_done(&s->lock);
	}
	mutex_done(&c->rename_lock);
	mutex_done(&c->lazy_lock);
	free(c);
	fs->inodes = NULL;
}

static void lru_remove(struct shard *s, struct inode *in)
{
	if (!in->in_lru)
		return;
	*(in->lru_prev ? &in->lru_prev->lru_next : &s->lru_first) = in->lru_next;
	*(in->lru_next ? &in->lru_next->lru_prev : &s->lru_last) = in->lru_prev;
	in->in_lru = false;
	s->lru_count--;
}

static void lru_append(struct shard *s, struct inode *in)
{
	in->lru_prev = s->lru_last;
	in->lru_next = NULL;
	*(s->lru_last ? &s->lru_last->lru_next : &s->lru_first) = in;
	s->lru_last = in;
	in->in_lru = true;
	s->lru_count++;
}

static struct inode *find_locked(struct shard *s, uint64_t subvol, uint64_t ino)
{
	struct inode *in = *bucket_of(s, subvol, ino);

	while (in != NULL && (in->ino != ino || in->sv->id != subvol))
		in = in->hash_next;
	return in;
}

static void hash_locked(struct shard *s, struct inode *in)
{
	struct inode **b = bucket_of(s, in->sv->id, in->ino);

	in->hash_next = *b;
	*b = in;
	in->hashed = true;
}

static void unhash_locked(struct shard *s, struct inode *in)
{
	struct inode **at = bucket_of(s, in->sv->id, in->ino);

	if (!in->hashed)
		return;
	while (*at != in)
		at = &(*at)->hash_next;
	*at = in->hash_next;
	__atomic_store_n(&in->hashed, false, __ATOMIC_RELAXED);
}

static void ref_locked(struct shard *s, struct inode *in)
{
	lru_remove(s, in);
	atomic_fetch_add_explicit(&in->refs, 1, memory_order_relaxed);
}

/* Takes the oldest unreferenced inode out when there are too many; NULL: none. */
static struct inode *evict_locked(struct shard *s)
{
	struct inode *in = s->lru_first;

	if (s->lru_count <= SHARD_LRU_MAX)
		return NULL;
	lru_remove(s, in);
	unhash_locked(s, in);
	return in;
}

struct inode *inode_ref(struct inode *in)
{
	atomic_fetch_add_explicit(&in->refs, 1, memory_order_relaxed);
	return in;
}

void inode_put(struct inode *in)
{
	struct inode *victim = NULL;
	struct shard *s;
	uint32_t refs;

	if (in == NULL)
		return;
	refs = atomic_load_explicit(&in->refs, memory_order_relaxed);
	while (refs > 1)
		if (atomic_compare_exchange_weak_explicit(&in->refs, &refs, refs - 1,
							  memory_order_release, memory_order_relaxed))
			return;
	s = shard_of(inode_fs(in), in->sv->id, in->ino);
	mutex_lock(&s->lock);
	if (atomic_fetch_sub_explicit(&in->refs, 1, memory_order_acq_rel) == 1) {
		if (in->hashed) {
			lru_append(s, in);
			victim = evict_locked(s);
		} else {
			victim = in;
		}
	}
	mutex_unlock(&s->lock);
	inode_free(victim);
}

/* --- the inode item ------------------------------------------------------------------------------ */

static struct timespec time_from_disk(const struct disk_timespec *d)
{
	return (struct timespec){
		.tv_sec = (time_t)disk_timespec_sec(d),
		.tv_nsec = (long)disk_timespec_nsec(d),
	};
}

static void time_to_disk(const struct timespec *ts, struct disk_timespec *d)
{
	disk_timespec_set_sec(d, (uint64_t)ts->tv_sec);
	disk_timespec_set_nsec(d, (uint32_t)ts->tv_nsec);
}

static bool mode_known(uint32_t mode)
{
	return S_ISREG(mode) || S_ISDIR(mode) || S_ISLNK(mode) || S_ISCHR(mode) || S_ISBLK(mode) ||
	       S_ISFIFO(mode) || S_ISSOCK(mode);
}

int inode_from_disk(struct inode *in, const struct disk_inode_item *d)
{
	uint32_t mode = disk_inode_item_mode(d);
	uint64_t size = disk_inode_item_size(d);

	if (!mode_known(mode) || (mode & ~(uint32_t)(S_IFMT | 07777)) != 0)
		return corrupt(in->sv->id, NO_ADDRESS, NO_SLOT, "inode %llu has the mode 0%o",
			       (unsigned long long)in->ino, mode);
	if (size > INT64_MAX)
		return corrupt(in->sv->id, NO_ADDRESS, NO_SLOT, "inode %llu has %llu bytes",
			       (unsigned long long)in->ino, (unsigned long long)size);
	if (S_ISDIR(mode) && disk_inode_item_nlink(d) > 1)
		return corrupt(in->sv->id, NO_ADDRESS, NO_SLOT, "directory %llu has %u links",
			       (unsigned long long)in->ino, disk_inode_item_nlink(d));
	in->generation = disk_inode_item_generation(d);
	in->transid = disk_inode_item_transid(d);
	in->size = in->disk_size = size;
	in->nbytes = disk_inode_item_nbytes(d);
	in->nlink = disk_inode_item_nlink(d);
	in->uid = disk_inode_item_uid(d);
	in->gid = disk_inode_item_gid(d);
	in->mode = mode;
	in->rdev = disk_inode_item_rdev(d);
	in->flags = disk_inode_item_flags(d);
	in->sequence = disk_inode_item_sequence(d);
	in->atime = time_from_disk(&d->atime);
	in->mtime = time_from_disk(&d->mtime);
	in->ctime = time_from_disk(&d->ctime);
	in->otime = time_from_disk(&d->otime);
	in->doomed = in->nlink == 0;
	return 0;
}

void inode_to_disk(const struct inode *in, struct disk_inode_item *ret_d)
{
	memset(ret_d, 0, sizeof(*ret_d));
	disk_inode_item_set_generation(ret_d, in->generation);
	disk_inode_item_set_transid(ret_d, in->transid);
	disk_inode_item_set_size(ret_d, in->disk_size);
	disk_inode_item_set_nbytes(ret_d, in->nbytes);
	disk_inode_item_set_nlink(ret_d, in->nlink);
	disk_inode_item_set_uid(ret_d, in->uid);
	disk_inode_item_set_gid(ret_d, in->gid);
	disk_inode_item_set_mode(ret_d, in->mode);
	disk_inode_item_set_rdev(ret_d, in->rdev);
	disk_inode_item_set_flags(ret_d, in->flags);
	disk_inode_item_set_sequence(ret_d, in->sequence);
	time_to_disk(&in->atime, &ret_d->atime);
	time_to_disk(&in->mtime, &ret_d->mtime);
	time_to_disk(&in->ctime, &ret_d->ctime);
	time_to_disk(&in->otime, &ret_d->otime);
}

static struct key inode_key(const struct inode *in)
{
	return key_make(in->ino, KEY_INODE_ITEM, 0);
}

/* --- getting one --------------------------------------------------------------------------------- */

int inode_new(struct fs *fs, struct subvol *sv, uint64_t ino, struct inode **ret_inode)
{
	struct inode *in = calloc(1, sizeof(*in));

	(void)fs;
	if (in == NULL)
		return -ENOMEM;
	in->sv = sv;
	in->ino = ino;
	in->refs = 1;
	in->no_xattrs = true;
	in->atime = in->mtime = in->ctime = in->otime = fs_now();
	rwlock_init(&in->lock, RANK_INODE);
	*ret_inode = in;
	return 0;
}

/* An object that no tree holds; see INO_STANDIN. */
static void fill_standin(struct inode *in)
{
	in->mode = S_IFDIR | 0755;
	in->nlink = 1;
	in->no_xattrs = true;
}

static int inode_load(struct inode *in)
{
	struct key key = inode_key(in);
	struct disk_inode_item d;
	int err;

	if (ino_is_standin(in->ino)) {
		fill_standin(in);
		return 0;
	}
	err = tree_get_fixed(in->sv->tree, &key, &d, sizeof(d));
	if (err < 0)
		return err;
	in->no_xattrs = false;
	return inode_from_disk(in, &d);
}

/*
 * The object in the table with one more reference, or NULL. One that is being read is waited for;
 * if that failed it is gone from the table, and the caller reads it itself.
 */
static struct inode *find_ready_locked(struct shard *s, uint64_t subvol, uint64_t ino)
{
	struct inode *in;

	while ((in = find_locked(s, subvol, ino)) != NULL && in->state == INODE_LOADING)
		cond_wait(&s->loaded, &s->lock);
	if (in != NULL)
		ref_locked(s, in);
	return in;
}

static int load_fresh(struct shard *s, struct inode *in)
{
	int err = inode_load(in);

	mutex_lock(&s->lock);
	in->state = err < 0 ? INODE_FAILED : INODE_READY;
	if (err < 0)
		unhash_locked(s, in);
	cond_wake_all(&s->loaded);
	mutex_unlock(&s->lock);
	if (err < 0)
		inode_put(in);
	return err;
}

static int get_any(struct fs *fs, uint64_t subvol, uint64_t ino, struct inode **ret_inode)
{
	struct shard *s = shard_of(fs, subvol, ino);
	struct inode *fresh = NULL;
	struct subvol *sv;
	struct inode *in;
	int err;

	mutex_lock(&s->lock);
	in = find_ready_locked(s, subvol, ino);
	mutex_unlock(&s->lock);
	if (in != NULL) {
		*ret_inode = in;
		return 0;
	}
	err = subvol_get(fs, subvol, &sv);
	if (err < 0)
		return err;
	err = inode_new(fs, sv, ino, &fresh);
	if (err < 0)
		return err;
	mutex_lock(&s->lock);
	in = find_ready_locked(s, subvol, ino);
	if (in == NULL) {
		fresh->state = INODE_LOADING;
		hash_locked(s, fresh);
	}
	mutex_unlock(&s->lock);
	if (in != NULL) {
		inode_free(fresh);
		*ret_inode = in;
		return 0;
	}
	err = load_fresh(s, fresh);
	if (err == 0)
		*ret_inode = fresh;
	return err;
}

int inode_get(struct fs *fs, uint64_t subvol, uint64_t ino, struct inode **ret_inode)
{
	if (ino < OBJ_FIRST_FREE || ino > OBJ_LAST_FREE)
		return -ENOENT;
	return get_any(fs, subvol, ino, ret_inode);
}

/* --- changing ------------------------------------------------------------------------------------ */

int inode_insert_vec(struct txn_handle *tx, struct inode *in, struct item_vec *v, unsigned n)
{
	struct shard *s = shard_of(inode_fs(in), in->sv->id, in->ino);
	struct disk_inode_item d;
	int err;

	in->transid = tx->transid;
	in->disk_size = in->size;
	inode_to_disk(in, &d);
	v[0] = (struct item_vec){ .key = inode_key(in), .data = &d, .size = sizeof(d) };
	mutex_lock(&s->lock);
	/* Somebody may be asking for this number just now; he will not find it in the tree. */
	while (find_locked(s, in->sv->id, in->ino) != NULL &&
	       find_locked(s, in->sv->id, in->ino)->state == INODE_LOADING)
		cond_wait(&s->loaded, &s->lock);
	if (find_locked(s, in->sv->id, in->ino) != NULL) {
		mutex_unlock(&s->lock);
		return -EEXIST;
	}
	hash_locked(s, in);
	mutex_unlock(&s->lock);
	err = tree_insert_vec(tx, in->sv->tree, v, n);
	if (err < 0) {
		mutex_lock(&s->lock);
		unhash_locked(s, in);
		mutex_unlock(&s->lock);
	}
	return err;
}

int inode_insert(struct txn_handle *tx, struct inode *in)
{
	struct item_vec v[1];

	return inode_insert_vec(tx, in, v, 1);
}

static int put_bytes(void *data, uint32_t size, void *arg)
{
	if (size != sizeof(struct disk_inode_item))
		return -EUCLEAN;
	memcpy(data, arg, size);
	return 0;
}

int inode_store(struct txn_handle *tx, struct inode *in)
{
	struct key key = inode_key(in);
	struct disk_inode_item d;

	rwlock_assert_wrheld(&in->lock);
	in->transid = tx->transid;
	in->lazy = false;
	inode_to_disk(in, &d);
	return tree_edit(tx, in->sv->tree, &key, put_bytes, &d);
}

int inode_erase(struct txn_handle *tx, struct inode *in)
{
	struct shard *s = shard_of(inode_fs(in), in->sv->id, in->ino);
	struct key key = inode_key(in);
	int err = tree_delete(tx, in->sv->tree, &key);

	if (err < 0)
		return err;
	mutex_guard(&s->lock);
	unhash_locked(s, in);
	return 0;
}

bool inode_is_erased(const struct inode *in)
{
	return __atomic_load_n(&in->hashed, __ATOMIC_RELAXED) == false;
}

void inode_changed(struct inode *in, const struct timespec *now)
{
	in->ctime = *now;
	in->sequence++;
}

int inode_want_write(const struct inode *in)
{
	if (in->sv->rdonly || ino_is_standin(in->ino))
		return -EROFS;
	return fs_want_write(inode_fs(in));
}

int inode_sync_if_asked(struct inode *in)
{
	const struct fs_options *opt = &inode_fs(in)->opt;
	uint64_t flags = INODE_SYNC | (S_ISDIR(in->mode) ? INODE_DIRSYNC : 0);

	if (!opt->sync && !(opt->dirsync && S_ISDIR(in->mode)) && !(in->flags & flags))
		return 0;
	return txn_commit(inode_fs(in));
}

/* --- lazy times ---------------------------------------------------------------------------------- */

void inode_set_lazy(struct inode *in)
{
	struct inode_cache *c = inode_fs(in)->inodes;

	rwlock_assert_wrheld(&in->lock);
	if (in->lazy)
		return;
	in->lazy = true;
	mutex_guard(&c->lazy_lock);
	if (in->lazy_next != NULL)
		return;		/* still queued from before */
	in->lazy_next = c->lazy ? c->lazy : in;	/* the last one points to itself */
	c->lazy = inode_ref(in);
	c->lazy_count++;
}

unsigned inode_lazy_count(struct fs *fs)
{
	mutex_guard(&fs->inodes->lazy_lock);
	return fs->inodes->lazy_count;
}

static int store_lazy(struct inode *in)
{
	struct txn_handle tx;
	int err;

	write_guard(&in->lock);
	if (!in->lazy || inode_is_erased(in))
		return 0;
	err = txn_start(inode_fs(in), &tx, 1, RSV_FREEING);
	if (err < 0)
		return err;
	err = inode_store(&tx, in);
	txn_end(inode_fs(in), &tx);
	return err;
}

int inode_flush_lazy(struct fs *fs)
{
	struct inode *in;
	int ret = 0;

	while ((in = pop_lazy(fs->inodes)) != NULL) {
		int err = store_lazy(in);

		if (err < 0 && ret == 0)
			ret = err;
		inode_put(in);
	}
	return ret;
}

/* --- locking several ----------------------------------------------------------------------------- */

static int inode_order(const struct inode *a, const struct inode *b)
{
	if (a->sv->id != b->sv->id)
		return a->sv->id < b->sv->id ? -1 : 1;
	return a->ino < b->ino ? -1 : a->ino > b->ino;
}

void inode_lock2(struct inode *a, struct inode *b)
{
	if (inode_order(a, b) > 0) {
		struct inode *t = a;

		a = b;
		b = t;
	}
	rwlock_wrlock(&a->lock);
	if (a != b)
		rwlock_wrlock(&b->lock);
}

void inode_unlock2(struct inode *a, struct inode *b)
{
	rwlock_wrunlock(&a->lock);
	if (a != b)
		rwlock_wrunlock(&b->lock);
}

void inode_set_add(struct inode_set *s, struct inode *in)
{
	unsigned at;

	if (in == NULL)
		return;
	for (unsigned i = 0; i < s->n; i++)
		if (s->in[i] == in)
			return;
	must(s->n < INODE_SET_MAX);
	for (at = s->n; at > 0 && inode_order(in, s->in[at - 1]) < 0; at--)
		s->in[at] = s->in[at - 1];
	s->in[at] = in;
	s->n++;
}

void inode_set_lock(struct inode_set *s)
{
	for (unsigned i = 0; i < s->n; i++)
		rwlock_wrlock(&s->in[i]->lock);
}

bool inode_set_lock_more(struct inode_set *s, struct inode *in)
{
	unsigned before = s->n;

	for (unsigned i = 0; i < s->n; i++)
		if (s->in[i] == in)
			return true;
	if (s->n == 0 || inode_order(s->in[s->n - 1], in) < 0)
		rwlock_wrlock(&in->lock);
	else if (!rwlock_trywrlock(&in->lock))
		return false;
	inode_set_add(s, in);
	dcheck(s->n == before + 1);
	(void)before;
	return true;
}

void inode_set_unlock(struct inode_set *s)
{
	while (s->n > 0)
		rwlock_wrunlock(&s->in[--s->n]->lock);
}
