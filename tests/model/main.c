/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/model/main.c - random operations on the engine, without a mount, against a model.
 *
 *	model --image FILE [--size MIB --nodesize N --leafsize N --mixed] --seed N --ops N ...
 *
 * Makes and formats the image if a size is given, else takes what is in it into the model first.
 * Between operations it commits, closes and opens again, and crashes (what was committed last must be
 * there). After each close the judge's command, if there is one, must find the image sound. The image
 * stays.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fs/txn.h"
#include "io/log.h"
#include "io/reason.h"
#include "tests/model/run.h"

#define COMMAND_MAX 4096u
#define NODESIZE_DEFAULT 16384u

void run_failed(struct run *r, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	fprintf(stderr, "model: seed %llu, operation %llu (%s): ", (unsigned long long)r->opt.seed,
		(unsigned long long)r->op, r->last);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

void run_committed(struct run *r)
{
	model_copy(&r->committed, &r->now);
	r->transid = txn_running(r->fs);
}

static void run_command(struct run *r, const char *command)
{
	char line[COMMAND_MAX];

	fflush(stdout);
	snprintf(line, sizeof(line), "image='%s'; %s", r->opt.image, command);
	if (system(line) != 0)
		run_failed(r, "failed: %s", line);
}

static void run_format(struct run *r)
{
	struct mkfs_options *o = &r->opt.mkfs;
	struct device *dev;
	struct reason reason;
	int err;

	/* As mkfs.cowfs does: one size alone stands for both. */
	if (o->leafsize == 0)
		o->leafsize = o->nodesize ? o->nodesize : NODESIZE_DEFAULT;
	if (o->nodesize == 0)
		o->nodesize = o->leafsize;
	if (o->mixed)
		o->metadata_profile = o->data_profile;
	unlink(r->opt.image);
	err = device_open(r->opt.image, DEVICE_CREATE, &dev, &reason);
	if (err < 0)
		run_failed(r, "cannot make the image: %s", reason.text);
	check_err(r, device_resize(dev, r->opt.size), 0, "resizing the image");
	err = mkfs_format(dev, o, &reason);
	if (err < 0)
		run_failed(r, "cannot format: %s", reason.text);
	device_close(dev);
	if (r->opt.judge != NULL)
		run_command(r, r->opt.judge);
}

static void run_open(struct run *r)
{
	struct device *dev;
	struct reason reason;
	int err = device_open(r->opt.image, 0, &dev, &reason);

	if (err == 0)
		err = fs_open(dev, &r->opt.fs, &r->fs, &reason);
	if (err < 0)
		run_failed(r, "cannot open: %s", reason.text);
	r->transid = txn_running(r->fs);
}

static void run_close(struct run *r)
{
	check_err(r, fs_close(take(r->fs)), 0, "close");
	if (r->opt.judge != NULL)
		run_command(r, r->opt.judge);
}

static void run_remount(struct run *r)
{
	snprintf(r->last, sizeof(r->last), "close and open");
	run_close(r);
	model_drop_held(&r->now);
	run_open(r);
	run_committed(r);
	compare_all(r);
}

static void run_crash(struct run *r)
{
	snprintf(r->last, sizeof(r->last), "crash");
	fs_crash(take(r->fs));
	model_copy(&r->now, &r->committed);
	model_drop_held(&r->now);
	run_open(r);
	run_committed(r);
	compare_all(r);
}

static void run_sync(struct run *r)
{
	snprintf(r->last, sizeof(r->last), "sync");
	check_err(r, txn_sync(r->fs), 0, "sync");
	run_committed(r);
}

static void run_all(struct run *r)
{
	const struct run_options *o = &r->opt;

	for (r->op = 1; r->op <= o->ops; r->op++) {
		run_op(r);
		/* A commit that nobody asked for: what it holds is not known, so make one more. */
		if (txn_running(r->fs) != r->transid)
			run_sync(r);
		if (one_in(r, o->sync_every))
			run_sync(r);
		if (one_in(r, o->compare_every))
			compare_all(r);
		if (one_in(r, o->remount_every))
			run_remount(r);
		if (one_in(r, o->crash_every))
			run_crash(r);
	}
	compare_all(r);
	run_remount(r);
	run_close(r);
}

static void usage(void)
{
	fputs("usage: model --image FILE [--seed N] [--ops N] [--judge COMMAND]\n"
	      "  [--size MIB [--leafsize N] [--nodesize N] [--sectorsize N] [--mixed] [--csum TYPE]\n"
	      "  [--without FEATURES]] (FEATURES: bits of mkfs.h)\n"
	      "  [--remount N] [--crash N] [--sync N] [--compare N] (mean distances; 0: never)\n"
	      "  [--nodes N] [--file-max BYTES] [--compress zlib|lzo|zstd] [--nodatacow]\n"
	      "  [--nodatasum] [--max-inline BYTES] [--rotational] [--subvolid N] [--verbose]\n",
	      stderr);
	exit(2);
}

enum { OPT_IMAGE = 1, OPT_SEED, OPT_OPS, OPT_SIZE, OPT_LEAFSIZE, OPT_NODESIZE, OPT_SECTORSIZE,
	OPT_MIXED, OPT_CSUM, OPT_WITHOUT, OPT_JUDGE, OPT_REMOUNT, OPT_CRASH, OPT_SYNC,
	OPT_COMPARE, OPT_NODES, OPT_FILE_MAX, OPT_COMPRESS, OPT_NODATACOW, OPT_NODATASUM,
	OPT_MAX_INLINE, OPT_ROTATIONAL, OPT_SUBVOLID, OPT_VERBOSE };

static const struct option long_options[] = {
	{ "image", required_argument, NULL, OPT_IMAGE },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "ops", required_argument, NULL, OPT_OPS },
	{ "size", required_argument, NULL, OPT_SIZE },
	{ "leafsize", required_argument, NULL, OPT_LEAFSIZE },
	{ "nodesize", required_argument, NULL, OPT_NODESIZE },
	{ "sectorsize", required_argument, NULL, OPT_SECTORSIZE },
	{ "mixed", no_argument, NULL, OPT_MIXED },
	{ "csum", required_argument, NULL, OPT_CSUM },
	{ "without", required_argument, NULL, OPT_WITHOUT },
	{ "judge", required_argument, NULL, OPT_JUDGE },
	{ "remount", required_argument, NULL, OPT_REMOUNT },
	{ "crash", required_argument, NULL, OPT_CRASH },
	{ "sync", required_argument, NULL, OPT_SYNC },
	{ "compare", required_argument, NULL, OPT_COMPARE },
	{ "nodes", required_argument, NULL, OPT_NODES },
	{ "file-max", required_argument, NULL, OPT_FILE_MAX },
	{ "compress", required_argument, NULL, OPT_COMPRESS },
	{ "nodatacow", no_argument, NULL, OPT_NODATACOW },
	{ "nodatasum", no_argument, NULL, OPT_NODATASUM },
	{ "max-inline", required_argument, NULL, OPT_MAX_INLINE },
	{ "rotational", no_argument, NULL, OPT_ROTATIONAL },
	{ "subvolid", required_argument, NULL, OPT_SUBVOLID },
	{ "verbose", no_argument, NULL, OPT_VERBOSE },
	{ NULL, 0, NULL, 0 },
};

static uint8_t compress_type(const char *name)
{
	if (strcmp(name, "zlib") == 0)
		return COMPRESS_ZLIB;
	if (strcmp(name, "lzo") == 0)
		return COMPRESS_LZO;
	if (strcmp(name, "zstd") != 0)
		usage();
	return COMPRESS_ZSTD;
}

static void parse_fs_option(struct fs_options *o, int c)
{
	switch (c) {
	case OPT_COMPRESS:
		o->compress_type = compress_type(optarg);
		break;
	case OPT_NODATACOW:
		o->nodatacow = o->nodatasum = true;
		break;
	case OPT_NODATASUM:
		o->nodatasum = true;
		break;
	case OPT_MAX_INLINE:
		o->max_inline = (uint32_t)strtoul(optarg, NULL, 0);
		break;
	case OPT_ROTATIONAL:
		o->policy = CHOOSE_ROTATIONAL;
		break;
	case OPT_SUBVOLID:
		o->subvolid = strtoull(optarg, NULL, 0);
		break;
	default:
		usage();
	}
}

static bool parse_mkfs_option(struct run_options *o, int c, unsigned number)
{
	switch (c) {
	case OPT_SIZE:
		o->size = (uint64_t)number << 20;
		return true;
	case OPT_LEAFSIZE:
		o->mkfs.leafsize = number;
		return true;
	case OPT_NODESIZE:
		o->mkfs.nodesize = number;
		return true;
	case OPT_SECTORSIZE:
		o->mkfs.sectorsize = number;
		return true;
	case OPT_MIXED:
		o->mkfs.mixed = true;
		return true;
	case OPT_CSUM:
		o->mkfs.csum_type = (enum csum_type)number;
		return true;
	case OPT_WITHOUT:
		o->mkfs.features &= ~number;
		return true;
	default:
		return false;
	}
}

static void parse_option(struct run_options *o, int c)
{
	unsigned number = optarg ? (unsigned)strtoul(optarg, NULL, 0) : 0;

	if (parse_mkfs_option(o, c, number))
		return;
	switch (c) {
	case OPT_IMAGE:
		o->image = optarg;
		break;
	case OPT_SEED:
		o->seed = strtoull(optarg, NULL, 0);
		break;
	case OPT_OPS:
		o->ops = number;
		break;
	case OPT_JUDGE:
		o->judge = optarg;
		break;
	case OPT_REMOUNT:
		o->remount_every = number;
		break;
	case OPT_CRASH:
		o->crash_every = number;
		break;
	case OPT_SYNC:
		o->sync_every = number;
		break;
	case OPT_COMPARE:
		o->compare_every = number;
		break;
	case OPT_NODES:
		o->nodes_max = number;
		break;
	case OPT_FILE_MAX:
		o->file_max = number;
		break;
	case OPT_VERBOSE:
		o->verbose = true;
		break;
	default:
		parse_fs_option(&o->fs, c);
	}
}

int main(int argc, char **argv)
{
	struct run r = { .opt = {
		.seed = 1, .ops = 1000, .remount_every = 400, .crash_every = 400, .sync_every = 100,
		.compare_every = 200, .nodes_max = 300, .file_max = 1u << 20,
	} };
	int c;

	fs_options_init(&r.opt.fs);
	mkfs_options_init(&r.opt.mkfs);
	r.opt.mkfs.leafsize = r.opt.mkfs.nodesize = 0;
	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse_option(&r.opt, c);
	if (r.opt.image == NULL || optind != argc)
		usage();
	log_set_name("model");
	r.rng = r.opt.seed;
	r.buf = xmalloc(r.opt.file_max + 1);
	if (r.opt.size != 0)
		run_format(&r);
	run_open(&r);
	model_init(&r.now, tree_max_item_size(r.fs->env));
	load_all(&r);
	run_committed(&r);
	compare_all(&r);
	run_all(&r);
	printf("model: seed %llu, %u operations: as the model says\n",
	       (unsigned long long)r.opt.seed, r.opt.ops);
	model_done(&r.now);
	model_done(&r.committed);
	free(r.buf);
	return 0;
}
