/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/fake_refs.h - space for trees: addresses from a counter, and a plain list of references.
 *
 * Dropping a reference that is not there, or adding one to an extent that is not, fails the test.
 */
#ifndef COWFS_TESTS_UNIT_FAKE_REFS_H
#define COWFS_TESTS_UNIT_FAKE_REFS_H

#include "btree/ref.h"

struct fake_refs;

struct fake_refs *fake_refs_new(uint64_t first, uint32_t leafsize, uint32_t nodesize);
void fake_refs_free(struct fake_refs *r);

extern const struct space_ops fake_refs_ops;	/* their space is a struct fake_refs */

static inline struct space *fake_refs_space(struct fake_refs *r)
{
	return (struct space *)(void *)r;
}

/* A new data extent with no reference yet. */
uint64_t fake_refs_data(struct fake_refs *r, uint64_t len);

uint64_t fake_refs_flags(struct fake_refs *r, uint64_t bytenr);

/*
 * The walk that judges: fake_refs_expect() tells each reference that the blocks on disk hold, then
 * fake_refs_judge() fails unless these are all there are. forget: before a new walk.
 */
void fake_refs_forget(struct fake_refs *r);
void fake_refs_expect(struct fake_refs *r, const struct extent_ref *ref);
void fake_refs_judge(struct fake_refs *r);

unsigned fake_refs_count(struct fake_refs *r);

#endif
