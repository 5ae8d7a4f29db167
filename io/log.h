/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/log.h - messages for people, and the one way to report corruption.
 *
 * A message is one line without a newline. It goes to the sink: standard error with the program's
 * name in front unless another was set (the daemon sets syslog after its fork). Library code stays
 * quiet unless it is the one place that can explain what happened.
 *
 * Locking: none is needed; any thread may log at any time, also with locks held. The sink and the
 * level are set before threads start.
 */
#ifndef COWFS_IO_LOG_H
#define COWFS_IO_LOG_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* line has no newline and lives only for the call. May be called from several threads at once. */
typedef void (*log_sink_fn)(enum log_level level, const char *line, void *arg);

/* Where lines go from now on; NULL: standard error. */
void log_set_sink(log_sink_fn sink, void *arg);

/* The greatest level that is shown; LOG_LEVEL_INFO at the start. */
void log_set_level(enum log_level max);

/* The name put before each line on standard error ("cowfs" at the start). Kept, not copied. */
void log_set_name(const char *name);

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

/*
 * A limit for messages that damage or an attacker can cause without end: LOG_BURST lines in a
 * second. Zeroed static storage; log_limit_pass() says whether the next line may go out, and then
 * how many before it did not.
 */
#define LOG_BURST 20u

struct log_limit {
	_Atomic int64_t second;
	_Atomic unsigned lines;
	_Atomic uint64_t left_out;
};

bool log_limit_pass(struct log_limit *limit, uint64_t *ret_left_out);

/* Where corrupt() stands when there is no tree, no address, no slot. */
#define NO_TREE UINT64_C(0)
#define NO_ADDRESS UINT64_MAX
#define NO_SLOT (-1)

/*
 * Logs that metadata are damaged: tree id, logical address of the block, slot in it, place in the
 * source and a printf-style reason. At most LOG_BURST lines in a second are logged, so that a hostile
 * image cannot flood the log; what was left out is counted. Returns -EUCLEAN, always:
 *
 *	return corrupt(tree_id, logical, slot, "extent item of %zu bytes", size);
 */
#define corrupt(tree_id, logical, slot, ...) \
	corrupt_at(__FILE__, __LINE__, (tree_id), (logical), (slot), __VA_ARGS__)

int corrupt_at(const char *file, int line, uint64_t tree_id, uint64_t logical, int slot,
	       const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* How many times corrupt() was called since the program started. */
uint64_t corrupt_count(void);

#endif
