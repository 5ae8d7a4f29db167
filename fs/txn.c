/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/txn.c - who may change trees when; see txn.h for the states.
 *
 * Invariants:
 *   X1  `joined` operations belong to `running`; while `door_closed` none is added;
 *   X2  one thread at a time commits (`committing`); who needs the same commit waits for it;
 *   X3  durable < running, and durable + 1 == running unless a commit is being written;
 *   X4  no transaction >= failed_from is ever written.
 *
 * Locking: mgr->lock (RANK_TXN) covers all fields and is never held while trees are touched.
 */
#include "fs/txn.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fs/commit.h"
#include "fs/ops.h"
#include "fs/subvol.h"
#include "io/locks.h"
#include "io/log.h"
#include "io/rcu.h"
#include "io/util.h"

/* Dirty tree nodes that make the timer thread commit early, and that make operations wait for it. */
#define DIRTY_KICK_BYTES (80u << 20)
#define DIRTY_WAIT_BYTES (112u << 20)

struct txn_mgr {
	struct mutex lock;
	struct cond changed;		/* any field below */
	uint64_t running;
	uint64_t durable;		/* last transaction whose superblock is out */
	uint64_t failed_from;		/* UINT64_MAX: none failed */
	unsigned joined;
	bool door_closed;
	bool committing;
	bool stop;			/* the timer thread ends */
	bool kick;			/* the timer thread commits now */
	bool timer_running;
	pthread_t timer;
};

static int mgr_error(const struct fs *fs)
{
	int err = atomic_load(&fs->error);

	return err < 0 ? -EIO : 0;
}

int fs_want_write(struct fs *fs)
{
	return atomic_load(&fs->rdonly) ? -EROFS : 0;
}

uint64_t txn_running(struct fs *fs)
{
	struct txn_mgr *m = fs->txn;

	mutex_guard(&m->lock);
	return m->running;
}

static void txn_fail(struct fs *fs, int err, uint64_t from)
{
	struct txn_mgr *m = fs->txn;
	int none = 0;

	atomic_compare_exchange_strong(&fs->error, &none, err);
	atomic_store(&fs->rdonly, true);
	mutex_guard(&m->lock);
	m->failed_from = min_u64(m->failed_from, from);
	cond_wake_all(&m->changed);
}

int txn_abort_at(struct fs *fs, int err, const char *file, int line)
{
	if (atomic_load(&fs->error) == 0)
		log_error("transaction aborted (%s at %s:%d): the filesystem is read-only now, what was "
			  "committed before is safe", strerror(-err), file, line);
	txn_fail(fs, err, txn_running(fs));
	return err;
}

/* --- joining and leaving ------------------------------------------------------------------------- */

static int join(struct fs *fs, struct txn_handle *tx)
{
	struct txn_mgr *m = fs->txn;

	mutex_guard(&m->lock);
	while (m->door_closed)
		cond_wait(&m->changed, &m->lock);
	if (mgr_error(fs) < 0)
		return -EROFS;
	m->joined++;
	tx->transid = m->running;
	tx->txn = fs;
	return 0;
}

static void leave(struct fs *fs)
{
	struct txn_mgr *m = fs->txn;

	mutex_guard(&m->lock);
	must(m->joined > 0);
	if (--m->joined == 0 && m->door_closed)
		cond_wake_all(&m->changed);
}

static void kick_timer(struct fs *fs)
{
	struct txn_mgr *m = fs->txn;

	mutex_guard(&m->lock);
	if (m->kick)
		return;
	m->kick = true;
	cond_wake_all(&m->changed);
}

/* Bounds the memory of dirty nodes: asks for a commit early, and waits for it when it is late. */
static int throttle(struct fs *fs)
{
	uint64_t dirty = tree_env_dirty_bytes(fs->env);

	if (dirty > DIRTY_WAIT_BYTES)
		return txn_commit(fs);
	if (dirty > DIRTY_KICK_BYTES)
		kick_timer(fs);
	return 0;
}

int txn_start(struct fs *fs, struct txn_handle *tx, unsigned items, enum rsv_kind kind)
{
	int err = fs_want_write(fs);

	if (err == 0)
		err = throttle(fs);
	if (err < 0)
		return err;
	*tx = (struct txn_handle){ .kind = kind };
	err = space_reserve_meta(fs->space, tx, space_meta_bytes(fs->space, items));
	if (err < 0)
		return err;
	err = join(fs, tx);
	if (err < 0)
		space_release_meta(fs->space, tx);
	return err;
}

void txn_end(struct fs *fs, struct txn_handle *tx)
{
	space_release_meta(fs->space, tx);
	leave(fs);
}

static int hook_join(void *ctx, struct txn_handle *tx)
{
	*tx = (struct txn_handle){ .kind = RSV_COMMIT };
	return join(ctx, tx);
}

static void hook_leave(void *ctx, struct txn_handle *tx)
{
	(void)tx;
	leave(ctx);
}

static int hook_commit(void *ctx)
{
	return txn_commit(ctx);
}

static int hook_touch(void *ctx, struct txn_handle *tx, uint64_t root, const struct key *key)
{
	struct fs *fs = ctx;
	struct subvol *sv;
	int err;

	for (unsigned i = 0; i < fs->root_count; i++)
		if (fs->roots[i].key.objectid == root)
			return space_touch(tx, fs->roots[i].tree, key);
	if (root != OBJ_FS_TREE && (root < OBJ_FIRST_FREE || root > OBJ_LAST_FREE))
		return -ENOENT;
	err = subvol_get(fs, root, &sv);
	return err < 0 ? err : space_touch(tx, sv->tree, key);
}

static void hook_abort(void *ctx, int err)
{
	txn_abort(ctx, err);
}

struct space_hooks txn_space_hooks(struct fs *fs)
{
	return (struct space_hooks){
		.join = hook_join,
		.leave = hook_leave,
		.commit = hook_commit,
		.touch = hook_touch,
		.abort = hook_abort,
		.ctx = fs,
	};
}

/* --- committing ---------------------------------------------------------------------------------- */

/*
 * Becomes the one that commits `target`; false if that has been done (or has failed) meanwhile.
 * On true the door is closed and nobody is joined.
 */
static bool close_door(struct fs *fs, uint64_t target, int *ret_err)
{
	struct txn_mgr *m = fs->txn;

	mutex_guard(&m->lock);
	while (m->committing && m->durable < target && m->failed_from > target)
		cond_wait(&m->changed, &m->lock);
	if (m->failed_from <= target) {
		*ret_err = mgr_error(fs);
		return false;
	}
	*ret_err = 0;
	if (m->durable >= target)
		return false;
	m->committing = true;
	m->door_closed = true;
	while (m->joined > 0)
		cond_wait(&m->changed, &m->lock);
	return true;
}

static void open_door(struct fs *fs, bool next)
{
	struct txn_mgr *m = fs->txn;

	mutex_guard(&m->lock);
	if (next)
		m->running++;
	m->door_closed = false;
	cond_wake_all(&m->changed);
}

static void commit_over(struct fs *fs, uint64_t durable)
{
	struct txn_mgr *m = fs->txn;

	mutex_guard(&m->lock);
	m->committing = false;
	m->durable = max_u64(m->durable, durable);
	cond_wake_all(&m->changed);
}

static int commit_closed(struct fs *fs, uint64_t transid)
{
	struct commit c = {0};
	int err;

	if (mgr_error(fs) < 0 || !commit_needed(fs)) {
		open_door(fs, false);
		commit_over(fs, transid - 1);
		return mgr_error(fs);
	}
	err = commit_prepare(fs, transid, &c);
	if (err < 0)
		txn_abort(fs, err);
	open_door(fs, err == 0);
	if (err == 0) {
		err = commit_write(fs, &c);
		if (err < 0) {
			log_error("cannot write transaction %llu: %s", (unsigned long long)transid,
				  strerror(-err));
			txn_fail(fs, err, transid);
		}
	}
	commit_over(fs, err == 0 ? transid : 0);
	return err < 0 ? -EIO : 0;
}

int txn_commit_upto(struct fs *fs, uint64_t transid)
{
	int err;

	if (fs->txn == NULL)
		return 0;
	if (!close_door(fs, transid, &err))
		return err;
	/* Only the running transaction can be open here: older ones are durable (X3). */
	return commit_closed(fs, txn_running(fs));
}

int txn_commit(struct fs *fs)
{
	return txn_commit_upto(fs, txn_running(fs));
}

int txn_sync(struct fs *fs)
{
	int flush_err = fs_flush_all(fs);
	int err = txn_commit(fs);

	return err < 0 ? err : flush_err;
}

/* --- the timer ----------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* True to go on; sleeps until the next commit is due. *ret_kicked: dirty nodes, not time, ask for it. */
static bool timer_wait(struct fs *fs, bool *ret_kicked)
{
	struct txn_mgr *m = fs->txn;
	uint64_t due_ms = now_ms() + fs->opt.commit_s * 1000ull;

	mutex_guard(&m->lock);
	while (!m->kick && !m->stop) {
		uint64_t ms = now_ms();

		if (ms >= due_ms)
			break;
		cond_wait_ms(&m->changed, &m->lock, due_ms - ms);
	}
	*ret_kicked = m->kick;
	m->kick = false;
	return !m->stop;
}

static void *timer_main(void *arg)
{
	struct fs *fs = arg;
	bool kicked;

	rcu_thread_enter();
	while (timer_wait(fs, &kicked)) {
		int err = kicked ? txn_commit(fs) : txn_sync(fs);

		if (err < 0 && mgr_error(fs) == 0)
			log_error("periodic commit: %s", strerror(-err));
		tree_env_shrink(fs->env);
	}
	rcu_thread_leave();
	return NULL;
}

int txn_timer_start(struct fs *fs)
{
	struct txn_mgr *m = fs->txn;
	int err = -pthread_create(&m->timer, NULL, timer_main, fs);

	m->timer_running = err == 0;
	return err;
}

void txn_timer_stop(struct fs *fs)
{
	struct txn_mgr *m = fs->txn;

	if (m == NULL || !m->timer_running)
		return;
	mutex_lock(&m->lock);
	m->stop = true;
	cond_wake_all(&m->changed);
	mutex_unlock(&m->lock);
	pthread_join(m->timer, NULL);
	m->timer_running = false;
}

int txn_mgr_new(struct fs *fs)
{
	struct txn_mgr *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return -ENOMEM;
	mutex_init(&m->lock, RANK_TXN);
	cond_init(&m->changed);
	m->durable = disk_super_generation(&fs->super);
	m->running = m->durable + 1;
	m->failed_from = UINT64_MAX;
	fs->txn = m;
	return 0;
}

void txn_mgr_free(struct fs *fs)
{
	struct txn_mgr *m = fs->txn;

	if (m == NULL)
		return;
	must(m->joined == 0);
	cond_done(&m->changed);
	mutex_done(&m->lock);
	free(m);
	fs->txn = NULL;
}
