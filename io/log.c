/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/log.c - messages for people (see log.h).
 *
 * A line is formatted on the stack and handed to the sink in one call; nothing is allocated, so that
 * running out of memory can be reported. Longer lines are cut.
 * Locking: the sink's settings are written before threads start; counters are atomic.
 */
#include "io/log.h"

#include "io/util.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#define LINE_BYTES 1024

static log_sink_fn sink_fn;
static void *sink_arg;
static enum log_level level_max = LOG_LEVEL_INFO;
static const char *program_name = "cowfs";

static _Atomic uint64_t corrupt_total;
static struct log_limit corrupt_limit;

void log_set_sink(log_sink_fn sink, void *arg)
{
	sink_fn = sink;
	sink_arg = arg;
}

void log_set_level(enum log_level max)
{
	level_max = max;
}

void log_set_name(const char *name)
{
	program_name = name;
}

static void emit(enum log_level level, const char *line)
{
	static const char *const marks[] = {"error: ", "warning: ", "", "debug: "};

	if (sink_fn != NULL)
		sink_fn(level, line, sink_arg);
	else
		fprintf(stderr, "%s: %s%s\n", program_name, marks[level], line);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char line[LINE_BYTES];
	va_list ap;

	if (level > level_max)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	emit(level, line);
}

bool log_limit_pass(struct log_limit *limit, uint64_t *ret_left_out)
{
	struct timespec now;
	int64_t second;

	clock_gettime(CLOCK_MONOTONIC, &now);
	second = atomic_load(&limit->second);
	if (second != now.tv_sec &&
	    atomic_compare_exchange_strong(&limit->second, &second, (int64_t)now.tv_sec))
		atomic_store(&limit->lines, 0);
	if (atomic_fetch_add(&limit->lines, 1) >= LOG_BURST) {
		atomic_fetch_add(&limit->left_out, 1);
		return false;
	}
	*ret_left_out = atomic_exchange(&limit->left_out, 0);
	return true;
}

/* Appends to line of LINE_BYTES at *used; what does not fit is cut. */
__attribute__((format(printf, 3, 4)))
static void append(char *line, size_t *used, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(line + *used, LINE_BYTES - *used, fmt, ap);
	va_end(ap);
	if (n > 0)
		*used = min_size(*used + (size_t)n, LINE_BYTES - 1);
}

int corrupt_at(const char *file, int line, uint64_t tree_id, uint64_t logical, int slot,
	       const char *fmt, ...)
{
	char text[LINE_BYTES];
	uint64_t left_out = 0;
	size_t used = 0;
	va_list ap;
	int n;

	atomic_fetch_add(&corrupt_total, 1);
	if (!log_limit_pass(&corrupt_limit, &left_out))
		return -EUCLEAN;

	append(text, &used, "corrupt metadata:");
	if (tree_id != NO_TREE)
		append(text, &used, " tree %lld", (long long)tree_id);
	if (logical != NO_ADDRESS)
		append(text, &used, " block %llu", (unsigned long long)logical);
	if (slot != NO_SLOT)
		append(text, &used, " slot %d", slot);
	append(text, &used, ": ");
	va_start(ap, fmt);
	n = vsnprintf(text + used, LINE_BYTES - used, fmt, ap);
	va_end(ap);
	if (n > 0)
		used = min_size(used + (size_t)n, LINE_BYTES - 1);
	append(text, &used, " [%s:%d]", file, line);
	if (left_out > 0)
		append(text, &used, " (%llu more were not logged)", (unsigned long long)left_out);
	emit(LOG_LEVEL_ERROR, text);
	return -EUCLEAN;
}

uint64_t corrupt_count(void)
{
	return atomic_load(&corrupt_total);
}

void must_failed(const char *expr, const char *file, int line, const char *func)
{
	log_error("bug: %s does not hold in %s [%s:%d]", expr, func, file, line);
	abort();
}
