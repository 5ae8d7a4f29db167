/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/hostile.c - fuzz_image() on images and seeds, the same each time.
 *
 *	hostile [--seed N] [--runs N] [--limit SECONDS] [--verbose] IMAGE...
 *
 * Each image is used as it is if --runs is 0 (the default), else --runs times with changes made from
 * seeds N, N + 1, ... Runs are done by a child process, so that one that crashes, hangs past the limit
 * or leaks does not end the others; each such run is one line with the seed that shows it again.
 * Exit 0: none. 1: some. 2: the command line or an image is wrong.
 *
 * Not here: a limit for memory, which is the caller's (ulimit, or the sanitizer's own).
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/log.h"
#include "io/util.h"
#include "tests/fuzz/fuzz_image.h"

#define INPUT_BYTES_MIN 8u
#define INPUT_BYTES_MAX 96u

struct options {
	uint64_t seed;
	unsigned runs, limit_s;
	bool verbose;
};

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static void run_seed(const struct fuzz_base *base, uint64_t seed)
{
	uint8_t input[INPUT_BYTES_MAX];
	uint64_t state = seed;
	size_t size = INPUT_BYTES_MIN + next_random(&state) % (INPUT_BYTES_MAX - INPUT_BYTES_MIN + 1);

	for (size_t i = 0; i < size; i++)
		input[i] = (uint8_t)next_random(&state);
	fuzz_image(base, input, size);
}

/* In the child: the runs from *at on; *at says how far it came. */
_Noreturn static void run_some(const struct options *o, const struct fuzz_base *base,
			       volatile uint64_t *at)
{
	if (!o->verbose)
		log_set_sink(fuzz_log, NULL);
	if (o->runs == 0) {
		alarm(o->limit_s);
		fuzz_image(base, NULL, 0);
		*at += 1;
	}
	for (; o->runs > 0 && *at < o->seed + o->runs; *at += 1) {
		alarm(o->limit_s);
		run_seed(base, *at);
	}
	alarm(0);
	exit(0);
}

static bool failed(const char *image, const struct options *o, uint64_t at, uint64_t end, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return false;
	printf("FAIL  %s", image);
	if (o->runs > 0 && at < end)
		printf(" --seed %llu --runs 1", (unsigned long long)at);
	else if (o->runs > 0)
		printf(" --seed %llu --runs %u", (unsigned long long)o->seed, o->runs);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		printf(": longer than %u s\n", o->limit_s);
	else if (WIFSIGNALED(status))
		printf(": %s\n", strsignal(WTERMSIG(status)));
	else
		printf(": %s\n", at < end ? "exit by a sanitizer" : "at the end: leaks?");
	fflush(stdout);
	return true;
}

/* Returns how many runs failed; -errno. */
static int run_image(const char *image, const struct options *o, volatile uint64_t *at)
{
	uint64_t end = o->seed + (o->runs ? o->runs : 1);
	struct fuzz_base base;
	int failures = 0;
	int err = fuzz_base_load(image, &base);

	if (err < 0)
		return err;
	*at = o->seed;
	do {
		int status;
		pid_t child = fork();

		if (child == 0)
			run_some(o, &base, at);
		if (child < 0 || waitpid(child, &status, 0) != child)
			return -errno;
		if (failed(image, o, *at, end, status))
			failures++;
		if (*at < end && WIFEXITED(status) && WEXITSTATUS(status) == 0)
			return -EPROTO;
		*at += 1;
	} while (*at < end);
	fuzz_base_done(&base);
	return failures;
}

static const struct option long_options[] = {
	{ "seed", required_argument, NULL, 's' },
	{ "runs", required_argument, NULL, 'r' },
	{ "limit", required_argument, NULL, 'l' },
	{ "verbose", no_argument, NULL, 'v' },
	{ NULL, 0, NULL, 0 },
};

int main(int argc, char **argv)
{
	struct options o = { .limit_s = 20 };
	volatile uint64_t *at = mmap(NULL, sizeof(*at), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int c, failures = 0;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		switch (c) {
		case 's':
			o.seed = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			o.runs = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'l':
			o.limit_s = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'v':
			o.verbose = true;
			break;
		default:
			optind = argc;
		}
	}
	if (optind == argc || at == MAP_FAILED) {
		fputs("usage: hostile [--seed N] [--runs N] [--limit SECONDS] [--verbose] IMAGE...\n", stderr);
		return 2;
	}
	log_set_name("hostile");
	for (; optind < argc; optind++) {
		int got = run_image(argv[optind], &o, at);

		if (got < 0) {
			fprintf(stderr, "hostile: %s: %s\n", argv[optind], strerror(-got));
			return 2;
		}
		failures += got;
	}
	return failures > 0;
}
