/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_late.c - seeks and evictions, on a thread of their own (see fuse_late.h).
 *
 * The queue of seeks is as long as the kernel lets requests be outstanding. The list of inodes to
 * evict is bounded; when it is full, newcomers show the kernel's view until it drops them by itself.
 */
#include "fs/fuse_late.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "fs/fuse_proto.h"
#include "fs/names.h"
#include "io/log.h"
#include "io/rcu.h"
#include "io/util.h"

#define EVICT_MAX 1024u			/* inodes waited for at once */
#define EVICT_FIRST_MS 5u		/* pause before the second try; doubles */
#define EVICT_LAST_MS 2000u
#define NAMES_MAX 64u			/* names dropped of one inode */

/* A seek to answer, or, without a request, attributes to refresh. */
struct seek_job {
	STAILQ_ENTRY(seek_job) link;
	fuse_req_t req;
	fuse_ino_t nodeid;
	off_t off;
	int whence, reply_fd;
};

struct eviction {
	TAILQ_ENTRY(eviction) link;
	fuse_ino_t nodeid;
	uint64_t due_ms;		/* on the monotonic clock */
	unsigned pause_ms;
};

struct late {
	struct front *f;
	struct mutex lock;		/* of what follows; rank CACHE */
	struct cond wake;
	STAILQ_HEAD(, seek_job) seeks;
	TAILQ_HEAD(, eviction) evictions;
	_Atomic unsigned eviction_count;
	bool stop, running;
	pthread_t thread;
};

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- seeks ------------------------------------------------------------------------------------ */

static void answer_seek(struct late *late, struct front_thread *t, const struct seek_job *s)
{
	struct front *f = late->f;
	int64_t at = -EIO;

	if (s->req == NULL) {
		(void)fuse_lowlevel_notify_inval_inode(f->se, s->nodeid, -1, 0);
		return;
	}
	/* Fails when the inode is not cached there any more: nothing dirty then. */
	(void)fuse_lowlevel_notify_inval_inode(f->se, s->nodeid, 0, 0);
	if (front_enter(f, t)) {
		scoped(inode_putp) struct inode *in = NULL;

		at = s->off < 0 ? -ENXIO : front_inode(f, s->nodeid, &in);
		if (at == 0)
			at = fs_seek(in, (uint64_t)s->off, s->whence == SEEK_DATA);
	}
	proto_set_reply_fd(s->reply_fd);
	if (at < 0)
		front_reply_err(s->req, (int)at);
	else
		fuse_reply_lseek(s->req, (off_t)at);
	proto_set_reply_fd(-1);
	front_leave(t);
}

static int enqueue(struct late *late, const struct seek_job *job)
{
	struct seek_job *s = malloc(sizeof(*s));

	if (s == NULL)
		return -ENOMEM;
	*s = *job;
	mutex_guard(&late->lock);
	STAILQ_INSERT_TAIL(&late->seeks, s, link);
	cond_wake_one(&late->wake);
	return 0;
}

int late_seek(struct late *late, fuse_req_t req, fuse_ino_t nodeid, off_t off, int whence)
{
	return enqueue(late, &(struct seek_job){.req = req, .nodeid = nodeid, .off = off,
						.whence = whence, .reply_fd = proto_reply_fd()});
}

void late_refresh(struct late *late, fuse_ino_t nodeid)
{
	(void)enqueue(late, &(struct seek_job){.nodeid = nodeid});
}

/* ---- evictions -------------------------------------------------------------------------------- */

struct name_list {
	struct { fuse_ino_t parent; char *name; size_t len; } names[NAMES_MAX];
	unsigned count;
	struct front *f;
};

static int note_name(struct ino_id parent, const char *name, size_t len, void *arg)
{
	struct name_list *l = arg;
	uint64_t nodeid;
	char *copy;

	if (l->count == NAMES_MAX)
		return 1;
	copy = strndup(name, len);
	if (copy == NULL)
		return 1;
	if (identity_nodeid(l->f->mounted, parent, &nodeid) < 0) {
		free(copy);
		return 0;
	}
	l->names[l->count].parent = nodeid;
	l->names[l->count].name = copy;
	l->names[l->count++].len = len;
	return 0;
}

/* Has the kernel drop the inode's pages, and the names that keep it in the cache. */
static void drop_from_cache(struct late *late, struct front_thread *t, fuse_ino_t nodeid)
{
	struct front *f = late->f;
	struct name_list *l = calloc(1, sizeof(*l));

	(void)fuse_lowlevel_notify_inval_inode(f->se, nodeid, 0, 0);
	if (l == NULL)
		return;
	l->f = f;
	if (front_enter(f, t)) {
		scoped(inode_putp) struct inode *in = NULL;

		if (front_inode(f, nodeid, &in) == 0)
			(void)inode_for_each_name(in, note_name, l);
	}
	front_leave(t);
	for (unsigned i = 0; i < l->count; i++) {
		(void)fuse_lowlevel_notify_inval_entry(f->se, l->names[i].parent, l->names[i].name,
						       l->names[i].len);
		free(l->names[i].name);
	}
	free(l);
}

static struct eviction *find_eviction(struct late *late, fuse_ino_t nodeid)
{
	struct eviction *e;

	TAILQ_FOREACH(e, &late->evictions, link) {
		if (e->nodeid == nodeid)
			return e;
	}
	return NULL;
}

void late_evict(struct late *late, fuse_ino_t nodeid, unsigned delay_ms)
{
	struct eviction *e;
	mutex_guard(&late->lock);

	e = find_eviction(late, nodeid);
	if (e == NULL) {
		e = late->eviction_count < EVICT_MAX ? malloc(sizeof(*e)) : NULL;
		if (e == NULL)
			return;
		e->nodeid = nodeid;
		TAILQ_INSERT_TAIL(&late->evictions, e, link);
		late->eviction_count++;
	}
	e->due_ms = now_ms() + delay_ms;
	e->pause_ms = EVICT_FIRST_MS;
	cond_wake_one(&late->wake);
}

void late_forgotten(struct late *late, fuse_ino_t nodeid)
{
	struct eviction *e;

	if (atomic_load_explicit(&late->eviction_count, memory_order_relaxed) == 0)
		return;
	mutex_guard(&late->lock);
	e = find_eviction(late, nodeid);
	if (e == NULL)
		return;
	TAILQ_REMOVE(&late->evictions, e, link);
	late->eviction_count--;
	free(e);
}

/* An eviction that is due, or NULL and how long to wait for the next. The lock is held. */
static struct eviction *due_eviction(struct late *late, uint64_t *ret_wait_ms)
{
	uint64_t now = now_ms(), wait = UINT32_MAX;
	struct eviction *e;

	TAILQ_FOREACH(e, &late->evictions, link) {
		if (e->due_ms <= now)
			return e;
		wait = min_u64(wait, e->due_ms - now);
	}
	*ret_wait_ms = wait;
	return NULL;
}

/* One try; the lock is let go meanwhile, and the entry may go. */
static void try_eviction(struct late *late, struct front_thread *t, struct eviction *e)
{
	fuse_ino_t nodeid = e->nodeid;

	e->due_ms = now_ms() + e->pause_ms;
	e->pause_ms = min_u32(e->pause_ms * 2, EVICT_LAST_MS);
	mutex_unlock(&late->lock);
	if (lookup_count(late->f->lookups, nodeid) > 0)
		drop_from_cache(late, t, nodeid);
	else
		late_forgotten(late, nodeid);
	mutex_lock(&late->lock);
}

/* ---- the thread ------------------------------------------------------------------------------- */

static void *late_main(void *arg)
{
	struct late *late = arg;
	struct front_thread *t = &late->f->threads[WORKERS_MAX];

	rcu_thread_enter();
	mutex_lock(&late->lock);
	while (!late->stop) {
		struct seek_job *s = STAILQ_FIRST(&late->seeks);
		struct eviction *e;
		uint64_t wait_ms;

		if (s != NULL) {
			STAILQ_REMOVE_HEAD(&late->seeks, link);
			mutex_unlock(&late->lock);
			answer_seek(late, t, s);
			free(s);
			mutex_lock(&late->lock);
			continue;
		}
		e = due_eviction(late, &wait_ms);
		if (e != NULL)
			try_eviction(late, t, e);
		else
			cond_wait_ms(&late->wake, &late->lock, wait_ms);
	}
	mutex_unlock(&late->lock);
	rcu_thread_leave();
	return NULL;
}

int late_new(struct front *f, struct late **ret_late)
{
	struct late *late = calloc(1, sizeof(*late));

	if (late == NULL)
		return -ENOMEM;
	late->f = f;
	mutex_init(&late->lock, RANK_CACHE);
	cond_init(&late->wake);
	STAILQ_INIT(&late->seeks);
	TAILQ_INIT(&late->evictions);
	*ret_late = late;
	return 0;
}

int late_start(struct late *late)
{
	int err = pthread_create(&late->thread, NULL, late_main, late);

	late->running = err == 0;
	return -err;
}

void late_stop(struct late *late)
{
	struct seek_job *s;

	if (late == NULL || !late->running)
		return;
	mutex_lock(&late->lock);
	late->stop = true;
	cond_wake_all(&late->wake);
	mutex_unlock(&late->lock);
	pthread_join(late->thread, NULL);
	late->running = false;
	while ((s = STAILQ_FIRST(&late->seeks)) != NULL) {
		STAILQ_REMOVE_HEAD(&late->seeks, link);
		if (s->req != NULL)
			fuse_reply_err(s->req, EIO);
		free(s);
	}
}

void late_free(struct late *late)
{
	struct eviction *e;

	if (late == NULL)
		return;
	while ((e = TAILQ_FIRST(&late->evictions)) != NULL) {
		TAILQ_REMOVE(&late->evictions, e, link);
		free(e);
	}
	cond_done(&late->wake);
	mutex_done(&late->lock);
	free(late);
}
