/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/util.h - assertions, scoped cleanup and arithmetic that every layer uses.
 *
 * must() is checked in every build, dcheck() in debug builds (-Ddebug_checks=true). Both are for the
 * program's own mistakes: what comes from a device or a user is validated and answered by an error.
 * Allocation goes through malloc and calloc; a failure is returned as -ENOMEM.
 * Locking: none.
 */
#ifndef COWFS_IO_UTIL_H
#define COWFS_IO_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* Logs the expression and its place as an error, then aborts (io/log.c). */
_Noreturn void must_failed(const char *expr, const char *file, int line, const char *func);

#define must(x) \
	(__builtin_expect(!!(x), 1) ? (void)0 : must_failed(#x, __FILE__, __LINE__, __func__))

#ifdef COWFS_DEBUG_CHECKS
#define dcheck(x) must(x)
#else
#define dcheck(x) ((void)sizeof(!(x)))
#endif

/* Calls fn(&variable) when the variable goes out of scope. */
#define scoped(fn) __attribute__((cleanup(fn)))

/* The pointer's value; the pointer itself becomes NULL, so that its scoped cleanup does nothing. */
#define take(p) ({ __auto_type take_ = (p); (p) = NULL; take_; })

/* scoped(freep) void *p, of any pointer type. */
static inline void freep(void *p)
{
	free(*(void **)p);
}

/* scoped(closep) int fd; negative is none. */
static inline void closep(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* From a pointer to a member to the structure around it. */
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))

static inline bool is_pow2(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

/* The exponent of a power of two. */
static inline unsigned log2_pow2(uint64_t v)
{
	return (unsigned)__builtin_ctzll(v);
}

/* To a multiple of a power of two. align_up wraps to 0 past 2^64. */
static inline uint64_t align_down(uint64_t v, uint64_t pow2)
{
	return v & ~(pow2 - 1);
}

static inline uint64_t align_up(uint64_t v, uint64_t pow2)
{
	return (v + pow2 - 1) & ~(pow2 - 1);
}

static inline bool is_aligned(uint64_t v, uint64_t pow2)
{
	return (v & (pow2 - 1)) == 0;
}

static inline uint64_t div_round_up(uint64_t v, uint64_t by)
{
	return v / by + (v % by != 0);
}

static inline uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint32_t min_u32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static inline uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* a + b into *ret_sum; true if it does not fit in 64 bits. */
static inline bool add_overflows(uint64_t a, uint64_t b, uint64_t *ret_sum)
{
	return __builtin_add_overflow(a, b, ret_sum);
}

#endif
