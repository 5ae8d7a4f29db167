/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/rcu.c - registration of threads with RCU (see rcu.h).
 *
 * A thread counts its registrations; the first one and the last one reach liburcu. A thread
 * registered by rcu_thread_ensure() holds one more, given back by a thread-exit destructor.
 */
#include "io/rcu.h"

#include "io/util.h"

#include <pthread.h>

char rcu_tsan_order;

static _Thread_local unsigned registrations;
static _Thread_local bool ensured;
static pthread_once_t exit_once = PTHREAD_ONCE_INIT;
static pthread_key_t exit_key;

void rcu_thread_enter(void)
{
	if (registrations++ == 0)
		rcu_register_thread();
}

void rcu_thread_leave(void)
{
	must(registrations > 0);
	if (--registrations == 0)
		rcu_unregister_thread();
}

static void leave_at_exit(void *mark)
{
	(void)mark;
	rcu_thread_leave();
}

static void exit_key_create(void)
{
	must(pthread_key_create(&exit_key, leave_at_exit) == 0);
}

void rcu_thread_ensure(void)
{
	if (ensured)
		return;
	must(pthread_once(&exit_once, exit_key_create) == 0);
	must(pthread_setspecific(exit_key, &ensured) == 0);
	rcu_thread_enter();
	ensured = true;
}
