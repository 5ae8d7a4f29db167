/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/fuzz_image.c - one run on one hostile image (see fuzz_image.h).
 *
 * The base stays as it is: each run works on copies of it in RAM.
 */
#include "tests/fuzz/fuzz_image.h"

#include <stdio.h>
#include <string.h>

#include "io/device_mem.h"
#include "io/rcu.h"

void fuzz_log(enum log_level level, const char *line, void *arg)
{
	(void)arg;
	/* must() and dcheck() speak so before they abort. */
	if (level == LOG_LEVEL_ERROR && strncmp(line, "bug:", 4) == 0)
		fprintf(stderr, "%s\n", line);
}

uint64_t fuzz_take(struct fuzz_input *in, unsigned bytes)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < bytes && in->left > 0; i++, in->at++, in->left--)
		v |= (uint64_t)*in->at << (8 * i);
	return v;
}

void fuzz_image(const struct fuzz_base *base, const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	struct device *read_only, *written, *again;

	rcu_thread_ensure();
	if (device_mem_clone(base->mem, &read_only) < 0)
		return;
	fuzz_mutate(base, read_only, &in);
	if (device_mem_clone(read_only, &written) == 0)
		fuzz_exercise(written, true);
	if (device_mem_clone(read_only, &again) == 0)
		fuzz_exercise(again, false);
	device_close(read_only);
	rcu_drain();
}
