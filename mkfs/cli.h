/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/cli.h - the command line of mkfs.cowfs.
 *
 * Locking: none; getopt(3) has static state, so one command line at a time.
 */
#ifndef COWFS_MKFS_CLI_H
#define COWFS_MKFS_CLI_H

#include "mkfs/mkfs.h"

#include <stdio.h>

enum mkfs_action { MKFS_MAKE, MKFS_HELP, MKFS_VERSION, MKFS_LIST_FEATURES };

enum mkfs_talk { MKFS_QUIET, MKFS_NORMAL, MKFS_VERBOSE };

struct mkfs_cli {
	enum mkfs_action action;
	struct mkfs_options options;	/* valid, if the action is MKFS_MAKE */
	const char *path;		/* into argv */
	bool force;			/* overwrite what is there */
	enum mkfs_talk talk;
};

/* Parses a command line, argv[0] included. -EINVAL and why. */
int mkfs_cli_parse(int argc, char **argv, struct mkfs_cli *ret_cli, struct reason *reason);

/* A number of bytes with an optional suffix K, M, G, T, P or E, in either case. -EINVAL, -ERANGE. */
int mkfs_parse_bytes(const char *text, uint64_t *ret_bytes);

void mkfs_print_help(FILE *out);
void mkfs_print_features(FILE *out);

/* The names of the features that are on, separated by commas. */
void mkfs_feature_names(const struct mkfs_options *o, char *buf, size_t size);

#endif
