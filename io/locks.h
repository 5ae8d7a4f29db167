/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/locks.h - the lock order of the whole program, and locks that check it.
 *
 * A thread takes locks in ascending rank. Equal rank only for
 *   INODE  by subvolume, then inode number;
 *   NODE   parent before child, then left to right by key.
 *
 *   MOUNT    state of the mount as a whole: options, the list of subvolumes
 *   RENAME   one rename between directories at a time
 *   INODE    an inode's contents and attributes
 *   TXN      joining a transaction, opening and closing its door
 *   DELAYED  the record of one delayed inode in one transaction
 *   SHARE    who shares an extent, while that is decided and used
 *   TREE     a tree's root pointer and height; one tree at a time
 *   NODE     a tree block's latch
 *   SPACE    block groups and their free space
 *   REF      delayed references
 *   CACHE    lists and counters of caches
 *   DEV      chunk map, device lists
 *
 * No device I/O is done under a lock of rank SPACE, REF or CACHE, nor under one that a reader of
 * another inode could need. A blocking lock of lower rank than one already held is a bug; debug
 * builds (-Ddebug_checks=true) stop there. A try-lock may be taken in any order.
 */
#ifndef COWFS_IO_LOCKS_H
#define COWFS_IO_LOCKS_H

#include "io/util.h"

#include <pthread.h>
#include <stdint.h>

enum lock_rank {
	RANK_MOUNT,
	RANK_RENAME,
	RANK_INODE,
	RANK_TXN,
	RANK_DELAYED,
	RANK_SHARE,
	RANK_TREE,
	RANK_NODE,
	RANK_SPACE,
	RANK_REF,
	RANK_CACHE,
	RANK_DEV,
	RANK_COUNT
};

/*
 * Bookkeeping of ranks, also for locks of another make (a node's latch). rank_enter goes before the
 * lock is waited for, rank_entered after a successful try. All are empty in release builds.
 */
#ifdef COWFS_DEBUG_CHECKS
void rank_enter(enum lock_rank rank);
void rank_entered(enum lock_rank rank);
void rank_leave(enum lock_rank rank);
/* Stops the program if the calling thread holds a lock of this rank or of a higher one. */
void rank_check_none_from(enum lock_rank rank);
#else
static inline void rank_enter(enum lock_rank rank)
{
	(void)rank;
}

static inline void rank_entered(enum lock_rank rank)
{
	(void)rank;
}

static inline void rank_leave(enum lock_rank rank)
{
	(void)rank;
}

static inline void rank_check_none_from(enum lock_rank rank)
{
	(void)rank;
}
#endif

/*
 * A mutex: not recursive, unlocked by the thread that locked it.
 */
struct mutex {
	pthread_mutex_t m;
	enum lock_rank rank;
#ifdef COWFS_DEBUG_CHECKS
	_Atomic uintptr_t owner;		/* mark of the holding thread, 0 if free */
#endif
};

void mutex_init(struct mutex *m, enum lock_rank rank);
void mutex_done(struct mutex *m);
void mutex_lock(struct mutex *m);
void mutex_unlock(struct mutex *m);
/* True if the lock was free and is held now. */
bool mutex_trylock(struct mutex *m);
/* Debug builds stop unless the calling thread holds the lock. */
void mutex_assert_held(const struct mutex *m);

static inline struct mutex *mutex_hold(struct mutex *m)
{
	mutex_lock(m);
	return m;
}

static inline void mutex_unlockp(struct mutex **m)
{
	if (*m != NULL)
		mutex_unlock(*m);
}

/*
 * A reader-writer lock that prefers writers: a waiting writer keeps new readers out, so read locks
 * must not be nested either.
 */
struct rwlock {
	pthread_rwlock_t l;
	enum lock_rank rank;
#ifdef COWFS_DEBUG_CHECKS
	_Atomic uintptr_t owner;		/* mark of the writing thread, 0 if none */
#endif
};

void rwlock_init(struct rwlock *l, enum lock_rank rank);
void rwlock_done(struct rwlock *l);
void rwlock_rdlock(struct rwlock *l);
void rwlock_rdunlock(struct rwlock *l);
void rwlock_wrlock(struct rwlock *l);
void rwlock_wrunlock(struct rwlock *l);
/* True if the lock could be had at once and is held now. */
bool rwlock_tryrdlock(struct rwlock *l);
bool rwlock_trywrlock(struct rwlock *l);
/* Debug builds stop unless the calling thread holds the lock for writing. */
void rwlock_assert_wrheld(const struct rwlock *l);

static inline struct rwlock *rwlock_hold_read(struct rwlock *l)
{
	rwlock_rdlock(l);
	return l;
}

static inline struct rwlock *rwlock_hold_write(struct rwlock *l)
{
	rwlock_wrlock(l);
	return l;
}

static inline void rwlock_rdunlockp(struct rwlock **l)
{
	if (*l != NULL)
		rwlock_rdunlock(*l);
}

static inline void rwlock_wrunlockp(struct rwlock **l)
{
	if (*l != NULL)
		rwlock_wrunlock(*l);
}

/*
 * Guards: a declaration that holds the lock to the end of the scope.
 *
 *	mutex_guard(&space->lock);
 */
#define GUARD_NAME2(line) guard_##line
#define GUARD_NAME(line) GUARD_NAME2(line)
#define mutex_guard(m) \
	scoped(mutex_unlockp) __attribute__((unused)) struct mutex *GUARD_NAME(__LINE__) = \
		mutex_hold(m)
#define read_guard(l) \
	scoped(rwlock_rdunlockp) __attribute__((unused)) struct rwlock *GUARD_NAME(__LINE__) = \
		rwlock_hold_read(l)
#define write_guard(l) \
	scoped(rwlock_wrunlockp) __attribute__((unused)) struct rwlock *GUARD_NAME(__LINE__) = \
		rwlock_hold_write(l)

/*
 * A condition variable. Waits may end without a wake: test the condition in a loop.
 */
struct cond {
	pthread_cond_t c;
};

void cond_init(struct cond *c);
void cond_done(struct cond *c);
/* Lets go of m, waits to be woken, takes m again. */
void cond_wait(struct cond *c, struct mutex *m);
/* The same for at most timeout_ms milliseconds; false when the time was up. */
bool cond_wait_ms(struct cond *c, struct mutex *m, uint64_t timeout_ms);
void cond_wake_one(struct cond *c);
void cond_wake_all(struct cond *c);

#endif
