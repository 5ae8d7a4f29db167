/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/locks.c - locks that check their order (see locks.h).
 *
 * Each thread counts the locks it holds of each rank. Errors of the pthread calls are program
 * mistakes (a lock used before its init, freed while held) and stop the program.
 */
#include "io/locks.h"

#include <errno.h>
#include <stdatomic.h>
#include <time.h>

#ifdef COWFS_DEBUG_CHECKS

static _Thread_local unsigned held[RANK_COUNT];

/* A thread's own mark: the address of its counters. */
static uintptr_t self_mark(void)
{
	return (uintptr_t)held;
}

void rank_check_none_from(enum lock_rank rank)
{
	for (unsigned r = rank; r < RANK_COUNT; r++)
		must(held[r] == 0);
}

void rank_enter(enum lock_rank rank)
{
	for (unsigned above = (unsigned)rank + 1; above < RANK_COUNT; above++)
		must(held[above] == 0);
	must(held[rank] == 0 || rank == RANK_NODE || rank == RANK_INODE);
	held[rank]++;
}

void rank_entered(enum lock_rank rank)
{
	held[rank]++;
}

void rank_leave(enum lock_rank rank)
{
	must(held[rank] > 0);
	held[rank]--;
}

#define OWNER_SET(l) atomic_store_explicit(&(l)->owner, self_mark(), memory_order_relaxed)
#define OWNER_CLEAR(l) atomic_store_explicit(&(l)->owner, 0, memory_order_relaxed)
#define OWNER_IS_SELF(l) (atomic_load_explicit(&(l)->owner, memory_order_relaxed) == self_mark())

#else

#define OWNER_SET(l) ((void)(l))
#define OWNER_CLEAR(l) ((void)(l))
#define OWNER_IS_SELF(l) ((void)(l), true)

#endif

void mutex_init(struct mutex *m, enum lock_rank rank)
{
	must(rank < RANK_COUNT);
	must(pthread_mutex_init(&m->m, NULL) == 0);
	m->rank = rank;
	OWNER_CLEAR(m);
}

void mutex_done(struct mutex *m)
{
	must(pthread_mutex_destroy(&m->m) == 0);
}

void mutex_lock(struct mutex *m)
{
	rank_enter(m->rank);
	must(pthread_mutex_lock(&m->m) == 0);
	OWNER_SET(m);
}

bool mutex_trylock(struct mutex *m)
{
	int err = pthread_mutex_trylock(&m->m);

	must(err == 0 || err == EBUSY);
	if (err != 0)
		return false;
	rank_entered(m->rank);
	OWNER_SET(m);
	return true;
}

void mutex_unlock(struct mutex *m)
{
	mutex_assert_held(m);
	OWNER_CLEAR(m);
	must(pthread_mutex_unlock(&m->m) == 0);
	rank_leave(m->rank);
}

void mutex_assert_held(const struct mutex *m)
{
	dcheck(OWNER_IS_SELF(m));
}

void rwlock_init(struct rwlock *l, enum lock_rank rank)
{
	pthread_rwlockattr_t attr;

	must(rank < RANK_COUNT);
	must(pthread_rwlockattr_init(&attr) == 0);
	must(pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
	must(pthread_rwlock_init(&l->l, &attr) == 0);
	must(pthread_rwlockattr_destroy(&attr) == 0);
	l->rank = rank;
	OWNER_CLEAR(l);
}

void rwlock_done(struct rwlock *l)
{
	must(pthread_rwlock_destroy(&l->l) == 0);
}

void rwlock_rdlock(struct rwlock *l)
{
	rank_enter(l->rank);
	must(pthread_rwlock_rdlock(&l->l) == 0);
}

void rwlock_rdunlock(struct rwlock *l)
{
	must(pthread_rwlock_unlock(&l->l) == 0);
	rank_leave(l->rank);
}

void rwlock_wrlock(struct rwlock *l)
{
	rank_enter(l->rank);
	must(pthread_rwlock_wrlock(&l->l) == 0);
	OWNER_SET(l);
}

void rwlock_wrunlock(struct rwlock *l)
{
	rwlock_assert_wrheld(l);
	OWNER_CLEAR(l);
	must(pthread_rwlock_unlock(&l->l) == 0);
	rank_leave(l->rank);
}

bool rwlock_tryrdlock(struct rwlock *l)
{
	int err = pthread_rwlock_tryrdlock(&l->l);

	must(err == 0 || err == EBUSY);
	if (err != 0)
		return false;
	rank_entered(l->rank);
	return true;
}

bool rwlock_trywrlock(struct rwlock *l)
{
	int err = pthread_rwlock_trywrlock(&l->l);

	must(err == 0 || err == EBUSY);
	if (err != 0)
		return false;
	rank_entered(l->rank);
	OWNER_SET(l);
	return true;
}

void rwlock_assert_wrheld(const struct rwlock *l)
{
	dcheck(OWNER_IS_SELF(l));
}

void cond_init(struct cond *c)
{
	pthread_condattr_t attr;

	must(pthread_condattr_init(&attr) == 0);
	must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0);
	must(pthread_cond_init(&c->c, &attr) == 0);
	must(pthread_condattr_destroy(&attr) == 0);
}

void cond_done(struct cond *c)
{
	must(pthread_cond_destroy(&c->c) == 0);
}

void cond_wait(struct cond *c, struct mutex *m)
{
	mutex_assert_held(m);
	OWNER_CLEAR(m);
	must(pthread_cond_wait(&c->c, &m->m) == 0);
	OWNER_SET(m);
}

bool cond_wait_ms(struct cond *c, struct mutex *m, uint64_t timeout_ms)
{
	struct timespec until;
	int err;

	mutex_assert_held(m);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(timeout_ms / 1000);
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	OWNER_CLEAR(m);
	err = pthread_cond_timedwait(&c->c, &m->m, &until);
	OWNER_SET(m);
	must(err == 0 || err == ETIMEDOUT);
	return err == 0;
}

void cond_wake_one(struct cond *c)
{
	must(pthread_cond_signal(&c->c) == 0);
}

void cond_wake_all(struct cond *c)
{
	must(pthread_cond_broadcast(&c->c) == 0);
}
