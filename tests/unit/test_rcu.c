/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_rcu.c - registration and deferred callbacks (io/rcu.h).
 */
#include "io/rcu.h"
#include "tests/unit/unit.h"

#include <pthread.h>

struct thing {
	struct rcu_head head;
	int value;
};

static struct thing *current;
static _Atomic unsigned freed;
static _Atomic bool stop;

static void thing_free(struct rcu_head *head)
{
	struct thing *t = container_of(head, struct thing, head);

	rcu_callback_begin(head);
	t->value = -1;
	free(t);
	freed++;
}

static void *reader(void *arg)
{
	unsigned long *rounds = arg;

	rcu_thread_ensure();
	rcu_thread_ensure();
	while (!stop) {
		rcu_read_begin();
		ck_assert_int_ge(rcu_fetch(current)->value, 0);
		rcu_read_end();
		++*rounds;
	}
	return NULL;
}

START_TEST(test_readers_never_see_freed)
{
	unsigned long rounds[2] = {0, 0};
	pthread_t threads[2];

	rcu_thread_enter();
	rcu_thread_enter();
	current = calloc(1, sizeof(*current));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, reader, &rounds[i]), 0);
	for (int i = 1; i <= 2000; i++) {
		struct thing *old = current, *t = calloc(1, sizeof(*t));

		t->value = i;
		rcu_publish(current, t);
		rcu_defer(&old->head, thing_free);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	rcu_drain();
	ck_assert_uint_eq(freed, 2000);
	rcu_wait();
	free(current);
	rcu_thread_leave();
	rcu_thread_leave();
}
END_TEST

UNIT_MAIN("rcu", test_readers_never_see_freed)
