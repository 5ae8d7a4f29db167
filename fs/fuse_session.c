/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_session.c - the worker threads.
 *
 * libfuse's own loop offers no place to register a thread with RCU, starts and ends threads as it
 * likes, and does not say when none is at work; so the workers are our own: a fixed number, each
 * with a request buffer and, where the protocol file can give it, a descriptor of its own.
 *
 * Closing. A thread at work says so in its slot (front_enter) before it looks whether the mount is
 * closing; front_close() says that it is closing before it looks who is at work. With both orders
 * sequentially consistent, one of the two sees the other.
 *
 * A worker that waits for a request is ended by a signal, sent again until it is gone, since one may
 * come just before it begins to wait.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "fs/fuse_late.h"
#include "fs/fuse_proto.h"
#include "io/log.h"
#include "io/rcu.h"
#include "io/util.h"

#define WORKERS_MIN 4u			/* a seek or an eviction needs others to go on */
#define WAKE_SIGNAL SIGUSR2
#define WAKE_AGAIN_NS 5000000
#define QUIESCE_PAUSE_NS 1000000

struct worker {
	struct front *f;
	struct front_thread *slot;
	pthread_t thread;
};

struct session_threads {
	struct worker workers[WORKERS_MAX];
	unsigned count;
};

static _Thread_local struct front_thread *own_slot;
static _Thread_local struct { void *mem; size_t bytes; } own_buffer;

void *front_buffer(size_t bytes)
{
	if (own_buffer.bytes < bytes) {
		free(own_buffer.mem);
		own_buffer.mem = malloc(bytes);
		own_buffer.bytes = own_buffer.mem != NULL ? bytes : 0;
	}
	return own_buffer.mem;
}

bool front_enter(struct front *f, struct front_thread *t)
{
	own_slot = t;
	atomic_store(&t->busy, true);
	if (!atomic_load(&f->closing))
		return true;
	atomic_store(&t->busy, false);
	return false;
}

void front_leave(struct front_thread *t)
{
	atomic_store_explicit(&t->busy, false, memory_order_release);
}

void front_quiesce(struct front *f)
{
	const struct timespec pause = {.tv_nsec = QUIESCE_PAUSE_NS};

	for (size_t i = 0; i < ARRAY_COUNT(f->threads); i++) {
		while (&f->threads[i] != own_slot && atomic_load(&f->threads[i].busy))
			nanosleep(&pause, NULL);
	}
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct front *f = w->f;
	void *buffer = malloc(PROTO_BUFFER_BYTES);
	int got = buffer != NULL ? 0 : -ENOMEM;

	rcu_thread_enter();
	proto_thread_enter(f->se);
	while (got >= 0 && !atomic_load(&f->stopping))
		got = proto_serve(f, w->slot, buffer);
	if (got < 0 && got != -ENODEV)
		log_error("reading requests: %s", strerror(-got));
	if (got < 0 && eventfd_write(f->gone_fd, 1) < 0)
		log_error("cannot report the end of the mount: %s", strerror(errno));
	proto_thread_leave();
	rcu_thread_leave();
	free(own_buffer.mem);
	free(buffer);
	return NULL;
}

static unsigned worker_count(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < (long)WORKERS_MIN)
		return WORKERS_MIN;
	return cpus > (long)WORKERS_MAX ? WORKERS_MAX : (unsigned)cpus;
}

/* Only there to end a read; without SA_RESTART. */
static void on_wake(int sig)
{
	(void)sig;
}

int session_start(struct front *f, struct session_threads **ret_threads)
{
	struct sigaction wake = {.sa_handler = on_wake};
	struct session_threads *s = calloc(1, sizeof(*s));
	unsigned count = worker_count();

	if (s == NULL)
		return -ENOMEM;
	sigemptyset(&wake.sa_mask);
	sigaction(WAKE_SIGNAL, &wake, NULL);
	while (s->count < count) {
		struct worker *w = &s->workers[s->count];
		int err;

		w->f = f;
		w->slot = &f->threads[s->count];
		err = pthread_create(&w->thread, NULL, worker_main, w);
		if (err != 0 && s->count < WORKERS_MIN) {
			session_stop(f, s);
			return -err;
		}
		if (err != 0)
			break;
		s->count++;
	}
	*ret_threads = s;
	return 0;
}

static void end_worker(struct worker *w)
{
	struct timespec until;

	do {
		pthread_kill(w->thread, WAKE_SIGNAL);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += WAKE_AGAIN_NS;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
	} while (pthread_timedjoin_np(w->thread, NULL, &until) != 0);
}

void session_stop(struct front *f, struct session_threads *threads)
{
	if (threads == NULL)
		return;
	atomic_store(&f->stopping, true);
	for (unsigned i = 0; i < threads->count; i++)
		end_worker(&threads->workers[i]);
	free(threads);
}
