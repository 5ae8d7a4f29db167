/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/target.c - fuzz_image() for libFuzzer. COWFS_FUZZ_IMAGE names the image that is changed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/log.h"
#include "tests/fuzz/fuzz_image.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fuzz_base base;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *image = getenv("COWFS_FUZZ_IMAGE");
	int err = image ? fuzz_base_load(image, &base) : -ENOENT;

	(void)argc, (void)argv;
	if (err < 0) {
		fprintf(stderr, "COWFS_FUZZ_IMAGE: %s\n", strerror(-err));
		exit(2);
	}
	log_set_sink(fuzz_log, NULL);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_image(&base, data, size);
	return 0;
}
