/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_locks.c - locks, guards and the check of their order (io/locks.h).
 */
#include "io/locks.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Whether fn(arg) ends by abort(). */
static bool aborts(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
		fn();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void in_order(void)
{
	struct mutex inode, inode2, space;
	struct rwlock dev;

	mutex_init(&inode, RANK_INODE);
	mutex_init(&inode2, RANK_INODE);
	mutex_init(&space, RANK_SPACE);
	rwlock_init(&dev, RANK_DEV);
	{
		mutex_guard(&inode);
		mutex_guard(&inode2);
		mutex_guard(&space);
		read_guard(&dev);
		mutex_assert_held(&space);
	}
	{
		write_guard(&dev);
		rwlock_assert_wrheld(&dev);
		/* A try may go against the order. */
		must(mutex_trylock(&space));
		mutex_unlock(&space);
	}
	rwlock_done(&dev);
	mutex_done(&space);
	mutex_done(&inode2);
	mutex_done(&inode);
}

static void against_order(void)
{
	struct mutex inode, space;

	mutex_init(&inode, RANK_INODE);
	mutex_init(&space, RANK_SPACE);
	mutex_lock(&space);
	mutex_lock(&inode);
}

static void equal_rank(void)
{
	struct mutex a, b;

	mutex_init(&a, RANK_SPACE);
	mutex_init(&b, RANK_SPACE);
	mutex_lock(&a);
	mutex_lock(&b);
}

static void not_held(void)
{
	struct mutex a;

	mutex_init(&a, RANK_SPACE);
	mutex_assert_held(&a);
}

static void held_where_forbidden(void)
{
	struct mutex a;

	mutex_init(&a, RANK_SPACE);
	mutex_lock(&a);
	rank_check_none_from(RANK_SPACE);
}

START_TEST(test_order)
{
	ck_assert(!aborts(in_order));
#ifdef COWFS_DEBUG_CHECKS
	ck_assert(aborts(against_order));
	ck_assert(aborts(equal_rank));
	ck_assert(aborts(not_held));
	ck_assert(aborts(held_where_forbidden));
#else
	ck_assert(!aborts(against_order));
	ck_assert(!aborts(equal_rank));
	ck_assert(!aborts(not_held));
	ck_assert(!aborts(held_where_forbidden));
#endif
}
END_TEST

struct shared {
	struct mutex lock;
	struct cond changed;
	int turn;
};

static void *other_side(void *arg)
{
	struct shared *s = arg;

	mutex_guard(&s->lock);
	for (int i = 0; i < 100; i++) {
		while (s->turn != 1)
			cond_wait(&s->changed, &s->lock);
		s->turn = 0;
		cond_wake_all(&s->changed);
	}
	return NULL;
}

START_TEST(test_cond)
{
	struct shared s = {.turn = 0};
	pthread_t t;

	mutex_init(&s.lock, RANK_TXN);
	cond_init(&s.changed);
	ck_assert_int_eq(pthread_create(&t, NULL, other_side, &s), 0);
	mutex_lock(&s.lock);
	for (int i = 0; i < 100; i++) {
		while (s.turn != 0)
			cond_wait(&s.changed, &s.lock);
		s.turn = 1;
		cond_wake_one(&s.changed);
	}
	mutex_unlock(&s.lock);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_int_eq(s.turn, 0);

	mutex_lock(&s.lock);
	ck_assert(!cond_wait_ms(&s.changed, &s.lock, 10));
	mutex_unlock(&s.lock);
	cond_done(&s.changed);
	mutex_done(&s.lock);
}
END_TEST

struct rw_shared {
	struct rwlock lock;
	_Atomic bool waiting;
	_Atomic bool written;
};

static void *writer(void *arg)
{
	struct rw_shared *s = arg;

	s->waiting = true;
	write_guard(&s->lock);
	s->written = true;
	return NULL;
}

START_TEST(test_writers_first)
{
	struct rw_shared s = {.waiting = false};
	bool closed = false;
	pthread_t t;

	rwlock_init(&s.lock, RANK_DEV);
	rwlock_rdlock(&s.lock);
	ck_assert_int_eq(pthread_create(&t, NULL, writer, &s), 0);
	/* Once the writer waits, nobody else gets in to read. */
	for (int i = 0; i < 2000 && !closed; i++) {
		usleep(1000);
		closed = s.waiting && !rwlock_tryrdlock(&s.lock);
		if (s.waiting && !closed)
			rwlock_rdunlock(&s.lock);
	}
	ck_assert(closed);
	ck_assert(!s.written);
	rwlock_rdunlock(&s.lock);
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert(s.written);
	ck_assert(rwlock_trywrlock(&s.lock));
	ck_assert(!rwlock_tryrdlock(&s.lock));
	rwlock_wrunlock(&s.lock);
	rwlock_done(&s.lock);
}
END_TEST

UNIT_MAIN("locks", test_order, test_cond, test_writers_first)
