/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bench/randover.c - random overwrites of laid-out files.
 *
 *	randover layout DIR FILES MIB		write FILES files of MIB MiB in order, fsync each
 *	randover pass DIR FILES MIB WRITE_MIB SEED
 *						overwrite WRITE_MIB MiB in blocks of 4 KiB, each at a
 *						random place of a random file; fsync all at the end
 *
 * Prints the seconds taken, the fsyncs included. Nothing is compared: the contents are noise.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BLOCK	4096u
#define CHUNK	(1u << 20)
#define FILES	64

static uint64_t state;

static uint64_t next_random(void)		/* xorshift64* */
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * 2685821657736338717u;
}

static void fill(unsigned char *buf, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t v = next_random();

		memcpy(buf + i, &v, 8);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void put(int fd, const unsigned char *buf, size_t size, uint64_t at)
{
	if (pwrite(fd, buf, size, (off_t)at) != (ssize_t)size)
		die("pwrite");
}

int main(int argc, char **argv)
{
	static unsigned char buf[CHUNK];
	int fds[FILES], layout = argc == 5 && strcmp(argv[1], "layout") == 0;
	uint64_t files, bytes;
	double start;

	if (!layout && !(argc == 7 && strcmp(argv[1], "pass") == 0)) {
		fprintf(stderr, "usage: randover layout DIR FILES MIB | pass DIR FILES MIB WRITE_MIB SEED\n");
		return 2;
	}
	files = strtoul(argv[3], NULL, 10);
	bytes = strtoul(argv[4], NULL, 10) << 20;
	if (files == 0 || files > FILES || bytes == 0)
		return 2;
	state = layout ? 88172645463325252u : strtoul(argv[6], NULL, 10) * 2654435761u + 1;
	for (uint64_t i = 0; i < files; i++) {
		char path[4096];

		snprintf(path, sizeof(path), "%s/random%02u", argv[2], (unsigned int)i);
		fds[i] = open(path, O_RDWR | (layout ? O_CREAT | O_TRUNC : 0), 0644);
		if (fds[i] < 0)
			die(path);
	}
	fill(buf, sizeof(buf));
	start = now();
	if (layout) {
		for (uint64_t i = 0; i < files; i++) {
			for (uint64_t at = 0; at < bytes; at += CHUNK)
				put(fds[i], buf, CHUNK, at);
		}
	} else {
		uint64_t n = (strtoul(argv[5], NULL, 10) << 20) / BLOCK;

		while (n-- > 0) {
			uint64_t where = next_random();
			uint64_t at = (where >> 8) % (bytes / BLOCK) * BLOCK;

			memcpy(buf, &where, sizeof(where));
			put(fds[(where & 255u) % files], buf + where % 64 * 8, BLOCK, at);
		}
	}
	for (uint64_t i = 0; i < files; i++) {
		if (fsync(fds[i]) != 0)
			die("fsync");
	}
	printf("%.3f\n", now() - start);
	return 0;
}
