/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/fault.c - named fault points (see fault.h).
 *
 * The list is a small fixed array; a point is looked up by its name, which is slow and only done when
 * there is a list. Passings are counted atomically.
 */
#include "io/fault.h"

#include "io/log.h"
#include "io/util.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define NAME_BYTES 64

struct fault {
	char name[NAME_BYTES];
	unsigned long first;
	bool once;
	_Atomic unsigned long passed;
};

int fault_state = -1;

static struct fault faults[FAULT_POINTS_MAX];
static unsigned fault_count;
static pthread_once_t env_once = PTHREAD_ONCE_INIT;

/* One entry of the list, len bytes at text. */
static int fault_parse(const char *text, size_t len, struct fault *ret)
{
	const char *colon = memchr(text, ':', len);
	size_t name_len = colon != NULL ? (size_t)(colon - text) : len;
	unsigned long first = 1;
	bool once = false;

	if (name_len == 0 || name_len >= NAME_BYTES)
		return -EINVAL;
	if (colon != NULL) {
		const char *digits = colon + 1;
		char *end;

		once = *digits == '=';
		if (once)
			digits++;
		if (*digits < '0' || *digits > '9')
			return -EINVAL;
		first = strtoul(digits, &end, 10);
		if (end != text + len || first == 0)
			return -EINVAL;
	}
	memcpy(ret->name, text, name_len);
	ret->name[name_len] = '\0';
	ret->first = first;
	ret->once = once;
	atomic_store(&ret->passed, 0);
	return 0;
}

static int fault_load(const char *list)
{
	unsigned count = 0;

	while (list != NULL && *list != '\0') {
		size_t len = strcspn(list, ",");

		if (count == FAULT_POINTS_MAX)
			return -EINVAL;
		if (fault_parse(list, len, &faults[count]) < 0)
			return -EINVAL;
		count++;
		list += len;
		if (*list == ',')
			list++;
	}
	fault_count = count;
	__atomic_store_n(&fault_state, count > 0, __ATOMIC_RELEASE);
	return 0;
}

static void fault_load_env(void)
{
	const char *list = getenv("COWFS_FAULT");

	if (fault_load(list) < 0) {
		log_error("COWFS_FAULT=%s makes no sense, ignored", list);
		fault_count = 0;
		__atomic_store_n(&fault_state, 0, __ATOMIC_RELEASE);
	}
}

/* The environment has had its say; a later first passing must not undo fault_set(). */
static void env_done(void)
{
}

int fault_set(const char *list)
{
	struct fault saved[FAULT_POINTS_MAX];
	int err;

	pthread_once(&env_once, env_done);
	memcpy(saved, faults, sizeof(saved));
	err = fault_load(list);
	if (err < 0)
		memcpy(faults, saved, sizeof(saved));
	return err;
}

bool fault_point_slow(const char *name)
{
	pthread_once(&env_once, fault_load_env);
	for (unsigned i = 0; i < fault_count; i++) {
		struct fault *f = &faults[i];
		unsigned long n;

		if (strcmp(f->name, name) != 0)
			continue;
		n = atomic_fetch_add(&f->passed, 1) + 1;
		if (f->once ? n == f->first : n >= f->first)
			return true;
	}
	return false;
}
