/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/flusher.c - the list of dirty inodes and the thread that empties it (see flusher.h).
 *
 * Invariants:
 *   L1  the list is ordered by the time of becoming dirty (seq), but for what was put back at its
 *       head because another batch writes the same inode;
 *   L2  active[i] != 0 exactly while the batch with that ticket runs.
 */
#include "fs/flusher.h"

#include "fs/flush.h"
#include "fs/ops.h"
#include "fs/txn.h"
#include "io/log.h"
#include "io/rcu.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#define KICK_BYTES (DIRTY_LIMIT_BYTES / 4)
#define AGE_MS 5000u			/* older data are written back */
#define TICK_MS 1000u
#define WAIT_MS 100u
#define ACTIVE_MAX 64u			/* batches at a time; more wait */

struct flusher {
	struct mutex lock;
	struct cond work;		/* something for the thread */
	struct cond over;		/* a batch ended */
	struct delalloc *first, *last;
	uint64_t seq;
	uint64_t batches;		/* ended */
	uint64_t ticket;		/* of the last batch begun */
	uint64_t active[ACTIVE_MAX];
	_Atomic uint64_t dirty_bytes;
	bool stop, running;
	pthread_t thread;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void list_add(struct flusher *f, struct delalloc *d)
{
	d->prev = f->last;
	d->next = NULL;
	if (f->last != NULL)
		f->last->next = d;
	else
		f->first = d;
	f->last = d;
	d->listed = true;
}

static void list_del(struct flusher *f, struct delalloc *d)
{
	if (d->prev != NULL)
		d->prev->next = d->next;
	else
		f->first = d->next;
	if (d->next != NULL)
		d->next->prev = d->prev;
	else
		f->last = d->prev;
	d->next = d->prev = NULL;
	d->listed = false;
}

void flusher_enlist(struct fs *fs, struct delalloc *d)
{
	struct flusher *f = fs->flusher;

	mutex_guard(&f->lock);
	if (d->listed)
		return;
	d->seq = ++f->seq;
	d->since_ms = now_ms();
	list_add(f, d);
}

void flusher_put_back(struct fs *fs, struct delalloc *d)
{
	struct flusher *f = fs->flusher;

	mutex_guard(&f->lock);
	if (d->listed)
		return;
	d->next = f->first;
	d->prev = NULL;
	if (f->first != NULL)
		f->first->prev = d;
	else
		f->last = d;
	f->first = d;
	d->listed = true;
}

void flusher_delist(struct fs *fs, struct delalloc *d)
{
	struct flusher *f = fs->flusher;

	mutex_guard(&f->lock);
	if (d->listed)
		list_del(f, d);
}

void flusher_account(struct fs *fs, int64_t bytes)
{
	atomic_fetch_add(&fs->flusher->dirty_bytes, (uint64_t)bytes);
}

void flusher_throttle(struct fs *fs)
{
	struct flusher *f = fs->flusher;

	if (atomic_load(&f->dirty_bytes) < KICK_BYTES)
		return;
	mutex_lock(&f->lock);
	cond_wake_one(&f->work);
	mutex_unlock(&f->lock);
	while (atomic_load(&f->dirty_bytes) > DIRTY_LIMIT_BYTES) {
		uint64_t seen = flusher_batches(fs);

		/* Nothing to take: others are writing it all. */
		if (flush_some(fs, UINT64_MAX) == 0 &&
		    atomic_load(&f->dirty_bytes) > DIRTY_LIMIT_BYTES)
			flusher_wait(fs, seen);
	}
}

unsigned flusher_take(struct fs *fs, uint64_t seq, struct inode **ret_inodes)
{
	struct flusher *f = fs->flusher;
	uint64_t bytes = 0;
	unsigned n = 0;

	mutex_guard(&f->lock);
	while (f->first != NULL && f->first->seq <= seq && n < BATCH_INODES && bytes < BATCH_BYTES) {
		struct delalloc *d = f->first;

		bytes += d->dirty_bytes;
		ret_inodes[n++] = inode_ref(d->in);
		list_del(f, d);
	}
	return n;
}

uint64_t flusher_last_seq(struct fs *fs)
{
	mutex_guard(&fs->flusher->lock);
	return fs->flusher->seq;
}

bool flusher_pending(struct fs *fs, uint64_t seq)
{
	mutex_guard(&fs->flusher->lock);
	return fs->flusher->first != NULL && fs->flusher->first->seq <= seq;
}

uint64_t flusher_batches(struct fs *fs)
{
	mutex_guard(&fs->flusher->lock);
	return fs->flusher->batches;
}

void flusher_wait(struct fs *fs, uint64_t seen)
{
	struct flusher *f = fs->flusher;

	mutex_guard(&f->lock);
	if (f->batches == seen)
		cond_wait_ms(&f->over, &f->lock, WAIT_MS);
}

uint64_t flusher_batch_begin(struct fs *fs)
{
	struct flusher *f = fs->flusher;

	mutex_guard(&f->lock);
	for (;;) {
		for (unsigned i = 0; i < ACTIVE_MAX; i++)
			if (f->active[i] == 0)
				return f->active[i] = ++f->ticket;
		cond_wait(&f->over, &f->lock);
	}
}

void flusher_batch_end(struct fs *fs, uint64_t ticket)
{
	struct flusher *f = fs->flusher;

	mutex_guard(&f->lock);
	for (unsigned i = 0; i < ACTIVE_MAX; i++)
		if (f->active[i] == ticket)
			f->active[i] = 0;
	f->batches++;
	cond_wake_all(&f->over);
}

static bool older_active(const struct flusher *f, uint64_t ticket)
{
	for (unsigned i = 0; i < ACTIVE_MAX; i++)
		if (f->active[i] != 0 && f->active[i] <= ticket)
			return true;
	return false;
}

void flusher_wait_older(struct fs *fs)
{
	struct flusher *f = fs->flusher;
	uint64_t ticket;

	mutex_guard(&f->lock);
	ticket = f->ticket;
	while (older_active(f, ticket))
		cond_wait(&f->over, &f->lock);
}

/* --- the thread ---------------------------------------------------------------------------------- */

/* Waits for something to do: the order number up to which to write back; 0: stop. */
static uint64_t thread_wait(struct flusher *f)
{
	mutex_guard(&f->lock);
	while (!f->stop) {
		uint64_t now = now_ms();
		struct delalloc *old = f->first;

		if (old != NULL && atomic_load(&f->dirty_bytes) >= KICK_BYTES)
			return UINT64_MAX;
		if (old != NULL && now - old->since_ms >= AGE_MS) {
			while (old->next != NULL && now - old->next->since_ms >= AGE_MS)
				old = old->next;
			return old->seq;
		}
		cond_wait_ms(&f->work, &f->lock, TICK_MS);
	}
	return 0;
}

static void *thread_main(void *arg)
{
	struct fs *fs = arg;
	uint64_t seq;

	rcu_thread_enter();
	while ((seq = thread_wait(fs->flusher)) != 0) {
		uint64_t seen = flusher_batches(fs);

		/* Taken by another batch already: nothing can be done before that one is over. */
		if (flush_some(fs, seq) == 0)
			flusher_wait(fs, seen);
	}
	rcu_thread_leave();
	return NULL;
}

int flusher_new(struct fs *fs)
{
	struct flusher *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -ENOMEM;
	mutex_init(&f->lock, RANK_CACHE);
	cond_init(&f->work);
	cond_init(&f->over);
	fs->flusher = f;
	return 0;
}

int flusher_start(struct fs *fs)
{
	struct flusher *f = fs->flusher;
	int err = -pthread_create(&f->thread, NULL, thread_main, fs);

	f->running = err == 0;
	return err;
}

void flusher_stop(struct fs *fs)
{
	struct flusher *f = fs->flusher;

	if (!f->running)
		return;
	mutex_lock(&f->lock);
	f->stop = true;
	cond_wake_all(&f->work);
	mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	f->running = false;
}

void flusher_free(struct fs *fs)
{
	struct flusher *f = fs->flusher;
	struct delalloc *d;

	if (f == NULL)
		return;
	/* What is still dirty is lost: after a crash by intent or an aborted transaction. */
	while ((d = f->first) != NULL) {
		struct inode *in = d->in;

		list_del(f, d);
		in->dirty = NULL;
		delalloc_free(d);
		inode_put(in);
	}
	cond_done(&f->over);
	cond_done(&f->work);
	mutex_done(&f->lock);
	free(f);
	fs->flusher = NULL;
}
