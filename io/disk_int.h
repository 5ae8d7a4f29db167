/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/disk_int.h - little-endian integers as they lie on disk, and accessors for fields made of them.
 *
 * Invariants: an integer has an alignment of 1; it is read and changed through its functions alone,
 * which speak host order, so that using one without a conversion does not compile.
 * Locking: none, these are bytes. Not here: the structures of the format (io/format.h).
 */
#ifndef COWFS_IO_DISK_INT_H
#define COWFS_IO_DISK_INT_H

#include <assert.h>
#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t disk8;
typedef struct { uint8_t b[2]; } disk16;
typedef struct { uint8_t b[4]; } disk32;
typedef struct { uint8_t b[8]; } disk64;

static inline uint8_t disk8_get(const disk8 *f)
{
	return *f;
}

static inline void disk8_set(disk8 *f, uint8_t v)
{
	*f = v;
}

static inline uint16_t disk16_get(const disk16 *f)
{
	uint16_t v;

	memcpy(&v, f->b, sizeof(v));
	return le16toh(v);
}

static inline void disk16_set(disk16 *f, uint16_t v)
{
	v = htole16(v);
	memcpy(f->b, &v, sizeof(v));
}

static inline uint32_t disk32_get(const disk32 *f)
{
	uint32_t v;

	memcpy(&v, f->b, sizeof(v));
	return le32toh(v);
}

static inline void disk32_set(disk32 *f, uint32_t v)
{
	v = htole32(v);
	memcpy(f->b, &v, sizeof(v));
}

static inline uint64_t disk64_get(const disk64 *f)
{
	uint64_t v;

	memcpy(&v, f->b, sizeof(v));
	return le64toh(v);
}

static inline void disk64_set(disk64 *f, uint64_t v)
{
	v = htole64(v);
	memcpy(f->b, &v, sizeof(v));
}

#define DISK_FIELD(type, field, bits)						\
	static inline uint##bits##_t type##_##field(const struct type *p)	\
	{ return disk##bits##_get(&p->field); }					\
	static inline void type##_set_##field(struct type *p, uint##bits##_t v)	\
	{ disk##bits##_set(&p->field, v); }

#define DISK_SIZE(type, size, last, last_offset)				\
	static_assert(sizeof(struct type) == (size), #type " has another size on disk"); \
	static_assert(offsetof(struct type, last) == (last_offset),		\
		      #type "." #last " is elsewhere on disk");

#endif
