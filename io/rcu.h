/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/rcu.h - read-copy-update: liburcu's default (memb) flavour under names of our own.
 *
 * A reader runs between rcu_read_begin() and rcu_read_end(); what it fetches with rcu_fetch() stays
 * until it ends. A writer publishes with rcu_publish() and gives old memory to rcu_defer(), whose
 * callback runs on another thread when all readers of now have ended. Sections may nest. They never
 * wait: no lock that can block, no I/O.
 *
 * Every thread that reads calls rcu_thread_enter() first and rcu_thread_leave() before it ends;
 * threads that somebody else starts (libfuse) call rcu_thread_ensure(). No call here before the
 * daemon has forked: callbacks have a thread of their own.
 *
 * ThreadSanitizer cannot see into liburcu. In such a build each call here says what it orders: a
 * release before publishing, before the end of a section and before deferring, an acquire after
 * fetching and in the callback (rcu_callback_begin()).
 */
#ifndef COWFS_IO_RCU_H
#define COWFS_IO_RCU_H

#if defined(__SANITIZE_THREAD__)
#define COWFS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COWFS_TSAN 1
#endif
#endif

#ifdef COWFS_TSAN
#include <sanitizer/tsan_interface.h>
#elif !defined(_LGPL_SOURCE)
#define _LGPL_SOURCE			/* inline fast paths; the licences agree */
#endif
#include <stdint.h>
#include <urcu.h>

/* What all sections and all grace periods are ordered by, for ThreadSanitizer alone. */
extern char rcu_tsan_order;

/* Registers the calling thread; calls nest. */
void rcu_thread_enter(void);
void rcu_thread_leave(void);

/* Registers the calling thread, once, until it ends. */
void rcu_thread_ensure(void);

static inline void rcu_read_begin(void)
{
	rcu_read_lock();
}

static inline void rcu_read_end(void)
{
#ifdef COWFS_TSAN
	__tsan_release(&rcu_tsan_order);
#endif
	rcu_read_unlock();
}

/* Stores v into the pointer p, after all that was written to *v before. */
#define rcu_publish(p, v) __atomic_store_n(&(p), (v), __ATOMIC_RELEASE)

/* Loads the pointer p, before all that is read through it. */
#define rcu_fetch(p) __atomic_load_n(&(p), __ATOMIC_ACQUIRE)

/*
 * For what liburcu's own containers publish: before an object goes in, and before anything is read of
 * one that came out, its comparison function included.
 */
static inline void rcu_publishing(const void *object)
{
#ifdef COWFS_TSAN
	__tsan_release((void *)(uintptr_t)object);
#else
	(void)object;
#endif
}

static inline void rcu_found(const void *object)
{
#ifdef COWFS_TSAN
	__tsan_acquire((void *)(uintptr_t)object);
#else
	(void)object;
#endif
}

/* Calls fn(head) once all sections running now have ended. Never waits. */
static inline void rcu_defer(struct rcu_head *head, void (*fn)(struct rcu_head *head))
{
#ifdef COWFS_TSAN
	__tsan_release(head);
#endif
	call_rcu(head, fn);
}

/* First line of every function given to rcu_defer(). */
static inline void rcu_callback_begin(struct rcu_head *head)
{
#ifdef COWFS_TSAN
	__tsan_acquire(head);
	__tsan_acquire(&rcu_tsan_order);
#else
	(void)head;
#endif
}

/* Waits until all sections running now have ended. Not inside a section. */
static inline void rcu_wait(void)
{
	synchronize_rcu();
#ifdef COWFS_TSAN
	__tsan_acquire(&rcu_tsan_order);
#endif
}

/* Waits until all callbacks deferred before have run. Not inside a section, nor in a callback. */
static inline void rcu_drain(void)
{
	rcu_barrier();
}

#endif
