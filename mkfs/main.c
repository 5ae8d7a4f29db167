/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/main.c - mkfs.cowfs, the program: what it refuses and what it says.
 *
 * Order: options, what the path names, its size, its claim, its contents; only then is anything
 * written, or a file made or made longer.
 */
#include "mkfs/cli.h"
#include "mkfs/probe.h"

#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <uuid/uuid.h>

#define PROGRAM "mkfs.cowfs"

/* What the path names before anything is done to it. */
struct target {
	bool exists;
	bool is_file;
	bool created;			/* by us */
	uint64_t file_bytes;		/* of a file; 0 of a device, which tells after it was opened */
};

static int look_at(const struct mkfs_cli *cli, struct target *ret_target, struct reason *reason)
{
	struct target t = {0};
	struct stat st;

	if (stat(cli->path, &st) == 0) {
		if (S_ISDIR(st.st_mode))
			return reason_set(reason, -EISDIR, "%s: is a directory", cli->path);
		t.exists = true;
		t.is_file = S_ISREG(st.st_mode);
		t.file_bytes = t.is_file ? (uint64_t)st.st_size : 0;
	} else if (errno != ENOENT || cli->options.byte_count == 0) {
		return reason_set(reason, -errno, "%s: %s", cli->path, strerror(errno));
	}
	*ret_target = t;
	return 0;
}

/* Bytes that a file will have: it grows to --byte-count if it is shorter. */
static uint64_t bytes_after(const struct mkfs_options *o, const struct target *t)
{
	return max_u64(t->file_bytes, o->byte_count);
}

static int check_layout(const struct mkfs_cli *cli, uint64_t bytes, struct mkfs_layout *ret_layout,
			struct reason *reason)
{
	struct reason why;
	int err = mkfs_layout(&cli->options, bytes, ret_layout, &why);

	return err < 0 ? reason_set(reason, err, "%s: %.400s", cli->path, why.text) : 0;
}

static int refuse_contents(const struct mkfs_cli *cli, struct probe *ret_probe,
			   struct reason *reason)
{
	int err = probe_device(cli->path, ret_probe, reason);

	if (err < 0 || ret_probe->count == 0 || cli->force)
		return err;
	return reason_set(reason, -EEXIST, "%s: holds %s; -f overwrites it", cli->path,
			  ret_probe->what);
}

/* Opens what is to be formatted, at its full length, once nothing speaks against it. */
static int open_target(const struct mkfs_cli *cli, struct target *t, struct probe *ret_probe,
		       struct mkfs_layout *ret_layout, struct device **ret_dev, struct reason *reason)
{
	scoped(device_closep) struct device *dev = NULL;
	uint64_t bytes = bytes_after(&cli->options, t);
	int err = 0;

	if (!t->exists || t->is_file)
		err = check_layout(cli, bytes, ret_layout, reason);
	if (err == 0)
		err = device_open(cli->path, t->exists ? 0 : DEVICE_CREATE, &dev, reason);
	t->created = err == 0 && !t->exists;
	if (err == 0 && t->exists && !t->is_file)
		err = check_layout(cli, device_size(dev), ret_layout, reason);
	if (err == 0 && t->exists)
		err = refuse_contents(cli, ret_probe, reason);
	if (err < 0)
		return err;
	if (device_size(dev) < bytes) {
		err = device_resize(dev, bytes);
		if (err < 0)
			return reason_set(reason, err, "%s: cannot be made %llu bytes long: %s", cli->path,
					  (unsigned long long)bytes, strerror(-err));
	}
	*ret_dev = take(dev);
	return 0;
}

static void print_bytes(const char *what, uint64_t bytes, const char *more)
{
	static const char units[][4] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	unsigned u = 0;

	while (v >= 1024 && u + 1 < ARRAY_COUNT(units)) {
		v /= 1024;
		u++;
	}
	printf("%-20s%.2f %s%s\n", what, v, units[u], more);
}

static const char *chunk_name(uint64_t type)
{
	if (type & BG_SYSTEM)
		return "System:";
	if ((type & BG_DATA) && (type & BG_METADATA))
		return "Data and metadata:";
	return type & BG_DATA ? "Data:" : "Metadata:";
}

static void print_summary(const struct mkfs_cli *cli, const struct mkfs_layout *l)
{
	const struct mkfs_options *o = &cli->options;
	char text[256];

	uuid_unparse(o->fsid, text);
	printf("%-20s%s\n", "Label:", o->label[0] != '\0' ? o->label : "(none)");
	printf("%-20s%s\n", "UUID:", text);
	if (o->leafsize == o->nodesize)
		printf("%-20s%u\n", "Node size:", o->nodesize);
	else
		printf("%-20s%u and %u\n", "Leaf and node size:", o->leafsize, o->nodesize);
	printf("%-20s%u\n", "Sector size:", o->sectorsize);
	printf("%-20s%s\n", "Checksum:", csum_name(o->csum_type));
	print_bytes("Size:", l->total_bytes, "");
	for (unsigned i = 0; i < l->count; i++) {
		const struct mkfs_chunk *c = &l->chunks[i];

		print_bytes(chunk_name(c->type), c->length, c->type & BG_DUP ? ", dup" : ", single");
		for (unsigned s = 0; cli->talk == MKFS_VERBOSE && s < c->stripes; s++)
			printf("%-20slogical %llu at byte %llu\n", "", (unsigned long long)c->logical,
			       (unsigned long long)c->physical[s]);
	}
	mkfs_feature_names(o, text, sizeof(text));
	printf("%-20s%s\n", "Features:", text);
	if (o->leafsize != o->nodesize || (o->mixed && o->nodesize > o->sectorsize))
		printf("%-20s%s\n", "Note:", "only cowfs can mount this filesystem, the kernel cannot");
}

/* Writes the filesystem on the open device. */
static int write_target(struct mkfs_cli *cli, struct device *dev, const struct probe *found,
			struct reason *reason)
{
	struct reason why;
	int err;

	if (uuid_is_null(cli->options.fsid))
		uuid_generate(cli->options.fsid);
	err = probe_wipe(dev, found);
	if (err < 0)
		return reason_set(reason, err, "%s: cannot wipe what was there: %s", cli->path,
				  strerror(-err));
	err = mkfs_format(dev, &cli->options, &why);
	return err < 0 ? reason_set(reason, err, "%s: %.400s", cli->path, why.text) : 0;
}

static int make(struct mkfs_cli *cli, struct reason *reason)
{
	scoped(device_closep) struct device *dev = NULL;
	struct mkfs_layout layout = {0};
	struct probe found = {0};
	struct target target = {0};
	int err = look_at(cli, &target, reason);

	if (err < 0)
		return err;
	err = open_target(cli, &target, &found, &layout, &dev, reason);
	if (err == 0)
		err = write_target(cli, dev, &found, reason);
	if (err < 0) {
		if (target.created)
			unlink(cli->path);	/* a file of our own making is of no use */
		return err;
	}
	if (cli->talk != MKFS_QUIET)
		print_summary(cli, &layout);
	return 0;
}

int main(int argc, char **argv)
{
	struct mkfs_cli cli;
	struct reason reason;
	int err;

	log_set_name(PROGRAM);
	err = mkfs_cli_parse(argc, argv, &cli, &reason);
	if (err == 0 && cli.action == MKFS_HELP)
		mkfs_print_help(stdout);
	else if (err == 0 && cli.action == MKFS_VERSION)
		printf("%s %s\n", PROGRAM, COWFS_VERSION);
	else if (err == 0 && cli.action == MKFS_LIST_FEATURES)
		mkfs_print_features(stdout);
	else if (err == 0)
		err = make(&cli, &reason);
	if (err < 0) {
		log_error("%s", reason.text);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
