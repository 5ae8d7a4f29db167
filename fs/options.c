/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/options.c - parsing the command line and the mount options (see options.h).
 *
 * One table holds all -o options. An entry says whether a value must follow, may follow or must not,
 * and which function takes it; a function gets the value, NULL when there is none.
 */
#include "fs/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "io/util.h"

#define CACHE_DEFAULT_BYTES (64ull << 20)
#define COMMIT_DEFAULT_S 30u
#define MAX_INLINE_DEFAULT 2048u
#define COMMIT_MAX_S 86400u
#define MAX_INLINE_LIMIT 65536u
#define CACHE_MIN_BYTES (UINT64_C(1) << 20)
#define CACHE_MAX_BYTES (UINT64_C(1) << 44)
#define ZSTD_LEVEL_MAX 15
#define ZLIB_LEVEL_MAX 9
#define SUBVOL_TOP OBJ_FS_TREE

const char mount_options_usage[] =
"usage: cowfs-fuse [-f] [-d] [-o OPTION[,OPTION...]] DEVICE|FILE MOUNTPOINT\n"
"\n"
"Mounts a btrfs filesystem on a block device or in an image file.\n"
"\n"
"  -f             stay in the foreground\n"
"  -d             stay in the foreground and print each request\n"
"  -o OPTIONS     mount options, separated by commas\n"
"  -h, --help     print this text\n"
"  -V, --version  print the version\n"
"\n"
"Mount options:\n"
"  ro, rw                     read-only, read-write (default)\n"
"  subvol=PATH, subvolid=ID   mount this subvolume (default: the one set in the filesystem)\n"
"  commit=SECONDS             time between commits (default 30)\n"
"  noatime, relatime, strictatime, nodiratime, lazytime\n"
"                             when access times are kept (default relatime)\n"
"  nodatacow                  overwrite new files' data in place; no checksums, no compression\n"
"  nodatasum                  no checksums for new files' data\n"
"  compress=zstd[:LEVEL]|zlib[:LEVEL]|lzo|no\n"
"                             compress data that are written (default no)\n"
"  ssd, rotational, nossd     allocation policy (default: by the disk; nossd is rotational)\n"
"  max_inline=BYTES           keep smaller files in the tree (default 2048; 0 never)\n"
"  nologreplay                ignore a log tree; with ro only\n"
"  cache=SIZE                 memory for tree blocks, K, M or G (default 64M)\n"
"  nonempty                   mount over a directory that is not empty\n"
"  allow_other                let other users in (modes are checked always)\n"
"  default_permissions        always on; accepted\n"
"  sync, dirsync              write file data, directory changes, at once\n"
"  suid, nosuid, dev, nodev, exec, noexec\n"
"                             as in mount(8) (root: suid and dev, else nosuid and nodev)\n"
"  fsname=NAME, subtype=NAME  source and type that the mount shows (default: as given, cowfs)\n"
"\n"
"Exit status: 0 unmounted and all written (in the background: mounted), 1 not mounted,\n"
"2 wrong use, 3 the last commit failed.\n";

void fs_options_init(struct fs_options *o)
{
	*o = (struct fs_options){
		.max_inline = MAX_INLINE_DEFAULT,
		.commit_s = COMMIT_DEFAULT_S,
		.cache_bytes = CACHE_DEFAULT_BYTES,
	};
}

void fs_options_done(struct fs_options *o)
{
	free(o->subvol);
	o->subvol = NULL;
}

void mount_options_init(struct mount_options *o, bool root)
{
	*o = (struct mount_options){.nosuid = !root, .nodev = !root};
	fs_options_init(&o->fs);
}

void mount_options_done(struct mount_options *o)
{
	fs_options_done(&o->fs);
	free(o->fsname);
	free(o->subtype);
	free(o->source);
	free(o->mountpoint);
	o->fsname = o->subtype = o->source = o->mountpoint = NULL;
}

/* ---- values ----------------------------------------------------------------------------------- */

struct mount_option;

struct given {
	const struct mount_option *opt;
	const char *value;		/* NULL: none */
	struct reason *reason;
};

enum value_rule { VALUE_NONE, VALUE_NEEDED };

struct mount_option {
	const char *name;
	enum value_rule value;
	int (*handle)(struct mount_options *o, const struct given *g);
	int arg;			/* the function's own */
};

static int bad_value(const struct given *g, const char *want)
{
	return reason_set(g->reason, -EINVAL, "option %s=%s: %s", g->opt->name, g->value, want);
}

static int parse_number(const char *text, uint64_t max, uint64_t *ret_value)
{
	uint64_t v = 0;

	if (*text == '\0')
		return -EINVAL;
	for (; *text != '\0'; text++) {
		if (*text < '0' || *text > '9' || v > (UINT64_MAX - 9) / 10)
			return -EINVAL;
		v = v * 10 + (uint64_t)(*text - '0');
	}
	if (v > max)
		return -ERANGE;
	*ret_value = v;
	return 0;
}

/* A number of bytes with an optional suffix K, M or G. */
static int parse_size(const char *text, uint64_t max, uint64_t *ret_value)
{
	scoped(freep) char *digits = strdup(text);
	size_t len = strlen(text);
	unsigned shift = 0;
	uint64_t v;
	int err;

	if (digits == NULL)
		return -ENOMEM;
	if (len > 0) {
		switch (toupper((unsigned char)text[len - 1])) {
		case 'K':
			shift = 10;
			break;
		case 'M':
			shift = 20;
			break;
		case 'G':
			shift = 30;
			break;
		}
		if (shift != 0)
			digits[len - 1] = '\0';
	}
	err = parse_number(digits, max >> shift, &v);
	if (err == 0)
		*ret_value = v << shift;
	return err;
}

static int replace(char **to, const char *value)
{
	char *copy = strdup(value);

	if (copy == NULL)
		return -ENOMEM;
	free(*to);
	*to = copy;
	return 0;
}

/* ---- one function for each kind of option ----------------------------------------------------- */

static int take_nothing(struct mount_options *o, const struct given *g)
{
	(void)o;
	(void)g;
	return 0;
}

static int take_rdonly(struct mount_options *o, const struct given *g)
{
	o->fs.rdonly = g->opt->arg != 0;
	return 0;
}

/* From here on arg is the value of the flag, or which of the modes it is. */
static int take_suid(struct mount_options *o, const struct given *g)
{
	o->nosuid = g->opt->arg != 0;
	return 0;
}

static int take_dev(struct mount_options *o, const struct given *g)
{
	o->nodev = g->opt->arg != 0;
	return 0;
}

static int take_exec(struct mount_options *o, const struct given *g)
{
	o->noexec = g->opt->arg != 0;
	return 0;
}

static int take_sync(struct mount_options *o, const struct given *g)
{
	o->sync = o->fs.sync = g->opt->arg != 0;
	return 0;
}

static int take_dirsync(struct mount_options *o, const struct given *g)
{
	(void)g;
	o->dirsync = o->fs.dirsync = true;
	return 0;
}

static int take_atime(struct mount_options *o, const struct given *g)
{
	o->fs.atime = (enum atime_mode)g->opt->arg;
	return 0;
}

static int take_diratime(struct mount_options *o, const struct given *g)
{
	o->fs.nodiratime = g->opt->arg != 0;
	return 0;
}

static int take_lazytime(struct mount_options *o, const struct given *g)
{
	o->fs.lazytime = g->opt->arg != 0;
	return 0;
}

static int take_policy(struct mount_options *o, const struct given *g)
{
	o->fs.policy = (enum policy_choice)g->opt->arg;
	return 0;
}

static int take_nodatacow(struct mount_options *o, const struct given *g)
{
	(void)g;
	o->fs.nodatacow = o->fs.nodatasum = true;
	return 0;
}

static int take_nodatasum(struct mount_options *o, const struct given *g)
{
	(void)g;
	o->fs.nodatasum = true;
	return 0;
}

static int take_nologreplay(struct mount_options *o, const struct given *g)
{
	(void)g;
	o->fs.nologreplay = true;
	return 0;
}

static int take_nonempty(struct mount_options *o, const struct given *g)
{
	(void)g;
	o->nonempty = true;
	return 0;
}

static int take_allow_other(struct mount_options *o, const struct given *g)
{
	(void)g;
	o->allow_other = true;
	return 0;
}

static int take_fsname(struct mount_options *o, const struct given *g)
{
	if (g->value[0] == '\0')
		return bad_value(g, "a name must follow");
	return replace(&o->fsname, g->value);
}

static int take_subtype(struct mount_options *o, const struct given *g)
{
	return replace(&o->subtype, g->value);
}

/* Slashes at the ends do not count; what is left of "/" is the top level. */
static int take_subvol(struct mount_options *o, const struct given *g)
{
	const char *path = g->value;
	scoped(freep) char *copy = NULL;
	size_t len;

	if (*path == '\0')
		return bad_value(g, "a path from the top level must follow");
	path += strspn(path, "/");
	copy = strdup(path);
	if (copy == NULL)
		return -ENOMEM;
	for (len = strlen(copy); len > 0 && copy[len - 1] == '/'; len--)
		copy[len - 1] = '\0';
	free(o->fs.subvol);
	o->fs.subvol = NULL;
	o->fs.subvolid = 0;
	if (len == 0)
		o->fs.subvolid = SUBVOL_TOP;
	else
		o->fs.subvol = take(copy);
	return 0;
}

static int take_subvolid(struct mount_options *o, const struct given *g)
{
	uint64_t id;

	if (parse_number(g->value, OBJ_LAST_FREE, &id) < 0)
		return bad_value(g, "not the number of a subvolume");
	if (id == 0)
		id = SUBVOL_TOP;		/* another name of it */
	if (id != SUBVOL_TOP && id < OBJ_FIRST_FREE)
		return bad_value(g, "subvolumes have the number 5 or one from 256 on");
	free(o->fs.subvol);
	o->fs.subvol = NULL;
	o->fs.subvolid = id;
	return 0;
}

static int take_commit(struct mount_options *o, const struct given *g)
{
	uint64_t seconds;

	if (parse_number(g->value, COMMIT_MAX_S, &seconds) < 0 || seconds == 0)
		return bad_value(g, "must be 1 to 86400 seconds");
	o->fs.commit_s = (unsigned)seconds;
	return 0;
}

static int take_max_inline(struct mount_options *o, const struct given *g)
{
	uint64_t bytes;

	if (parse_size(g->value, MAX_INLINE_LIMIT, &bytes) < 0)
		return bad_value(g, "must be 0 to 64K bytes");
	o->fs.max_inline = (uint32_t)bytes;
	return 0;
}

static int take_cache(struct mount_options *o, const struct given *g)
{
	uint64_t bytes;

	if (parse_size(g->value, CACHE_MAX_BYTES, &bytes) < 0 || bytes < CACHE_MIN_BYTES)
		return bad_value(g, "must be a size of at least 1M, as in 512K, 64M or 2G");
	o->fs.cache_bytes = bytes;
	return 0;
}

static const struct compression {
	const char *name;
	uint8_t type;
	int level_max;			/* 0: takes no level */
} compressions[] = {
	{"no", COMPRESS_NONE, 0},
	{"none", COMPRESS_NONE, 0},
	{"zlib", COMPRESS_ZLIB, ZLIB_LEVEL_MAX},
	{"lzo", COMPRESS_LZO, 0},
	{"zstd", COMPRESS_ZSTD, ZSTD_LEVEL_MAX},
};

static int take_compress(struct mount_options *o, const struct given *g)
{
	size_t len = strcspn(g->value, ":");

	for (size_t i = 0; i < ARRAY_COUNT(compressions); i++) {
		const struct compression *c = &compressions[i];
		uint64_t level = 0;

		if (strlen(c->name) != len || strncmp(c->name, g->value, len) != 0)
			continue;
		if (g->value[len] == ':') {
			if (c->level_max == 0)
				return bad_value(g, "takes no level");
			if (parse_number(g->value + len + 1, (uint64_t)c->level_max, &level) < 0 ||
			    level == 0)
				return bad_value(g, c->type == COMPRESS_ZSTD ? "levels are 1 to 15" :
						 "levels are 1 to 9");
		}
		o->fs.compress_type = c->type;
		o->fs.compress_level = (int)level;
		return 0;
	}
	return bad_value(g, "must be zstd[:LEVEL], zlib[:LEVEL], lzo or no");
}

static const struct mount_option options[] = {
	{"allow_other", VALUE_NONE, take_allow_other, 0},
	{"async", VALUE_NONE, take_sync, 0},
	{"atime", VALUE_NONE, take_atime, ATIME_RELATIME},
	{"cache", VALUE_NEEDED, take_cache, 0},
	{"commit", VALUE_NEEDED, take_commit, 0},
	{"compress", VALUE_NEEDED, take_compress, 0},
	{"default_permissions", VALUE_NONE, take_nothing, 0},
	{"defaults", VALUE_NONE, take_nothing, 0},
	{"dev", VALUE_NONE, take_dev, 0},
	{"diratime", VALUE_NONE, take_diratime, 0},
	{"dirsync", VALUE_NONE, take_dirsync, 0},
	{"exec", VALUE_NONE, take_exec, 0},
	{"fsname", VALUE_NEEDED, take_fsname, 0},
	{"lazytime", VALUE_NONE, take_lazytime, 1},
	{"max_inline", VALUE_NEEDED, take_max_inline, 0},
	{"noatime", VALUE_NONE, take_atime, ATIME_NONE},
	{"nodatacow", VALUE_NONE, take_nodatacow, 0},
	{"nodatasum", VALUE_NONE, take_nodatasum, 0},
	{"nodev", VALUE_NONE, take_dev, 1},
	{"nodiratime", VALUE_NONE, take_diratime, 1},
	{"noexec", VALUE_NONE, take_exec, 1},
	{"nolazytime", VALUE_NONE, take_lazytime, 0},
	{"nologreplay", VALUE_NONE, take_nologreplay, 0},
	{"nonempty", VALUE_NONE, take_nonempty, 0},
	{"nossd", VALUE_NONE, take_policy, CHOOSE_ROTATIONAL},
	{"nostrictatime", VALUE_NONE, take_atime, ATIME_RELATIME},
	{"nosuid", VALUE_NONE, take_suid, 1},
	{"relatime", VALUE_NONE, take_atime, ATIME_RELATIME},
	{"ro", VALUE_NONE, take_rdonly, 1},
	{"rotational", VALUE_NONE, take_policy, CHOOSE_ROTATIONAL},
	{"rw", VALUE_NONE, take_rdonly, 0},
	{"ssd", VALUE_NONE, take_policy, CHOOSE_SSD},
	{"strictatime", VALUE_NONE, take_atime, ATIME_STRICT},
	{"subtype", VALUE_NEEDED, take_subtype, 0},
	{"subvol", VALUE_NEEDED, take_subvol, 0},
	{"subvolid", VALUE_NEEDED, take_subvolid, 0},
	{"suid", VALUE_NONE, take_suid, 0},
	{"sync", VALUE_NONE, take_sync, 1},
	{"uhelper", VALUE_NEEDED, take_nothing, 0},	/* which program umount(8) asks: mount(8) notes it */
};

/* ---- lists and lines -------------------------------------------------------------------------- */

static int take_option(struct mount_options *o, const char *text, struct reason *reason)
{
	size_t len = strcspn(text, "=");
	struct given g = {.value = text[len] == '=' ? text + len + 1 : NULL, .reason = reason};

	for (size_t i = 0; i < ARRAY_COUNT(options); i++) {
		g.opt = &options[i];
		if (strlen(g.opt->name) != len || strncmp(g.opt->name, text, len) != 0)
			continue;
		if (g.value == NULL && g.opt->value == VALUE_NEEDED)
			return reason_set(reason, -EINVAL, "option %s: a value must follow", g.opt->name);
		if (g.value != NULL && g.opt->value == VALUE_NONE)
			return reason_set(reason, -EINVAL, "option %s: takes no value", g.opt->name);
		return g.opt->handle(o, &g);
	}
	return reason_set(reason, -EINVAL, "unknown option: %s", text);
}

int mount_options_parse_list(struct mount_options *o, const char *list, struct reason *reason)
{
	scoped(freep) char *one = malloc(strlen(list) + 1);
	size_t len = 0;
	int err = 0;

	if (one == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	for (;; list++) {
		if (*list == '\\' && list[1] != '\0') {
			one[len++] = *++list;
		} else if (*list != ',' && *list != '\0') {
			one[len++] = *list;
		} else {
			one[len] = '\0';
			if (len > 0)
				err = take_option(o, one, reason);
			if (err == -ENOMEM)
				return reason_set(reason, err, "out of memory");
			if (err < 0 || *list == '\0')
				return err;
			len = 0;
		}
	}
}

static int check_together(const struct mount_options *o, struct reason *reason)
{
	if (o->fs.nologreplay && !o->fs.rdonly)
		return reason_set(reason, -EINVAL, "option nologreplay: works with ro only");
	if (o->fs.nodatacow && o->fs.compress_type != COMPRESS_NONE)
		return reason_set(reason, -EINVAL, "options nodatacow and compress exclude each other");
	return 0;
}

static int take_names(struct mount_options *o, int count, char **names, struct reason *reason)
{
	if (count < 1)
		return reason_set(reason, -EINVAL, "the device or image and the mount point are missing "
				  "(--help tells more)");
	if (count < 2)
		return reason_set(reason, -EINVAL, "the mount point is missing (--help tells more)");
	if (count > 2)
		return reason_set(reason, -EINVAL, "%s: one name too many (--help tells more)", names[2]);
	if (replace(&o->source, names[0]) < 0 || replace(&o->mountpoint, names[1]) < 0)
		return reason_set(reason, -ENOMEM, "out of memory");
	return 0;
}

int mount_options_parse(struct mount_options *o, int argc, char **argv, struct reason *reason)
{
	static const struct option long_names[] = {
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	int c;

	optind = 0;
	opterr = 0;
	while ((c = getopt_long(argc, argv, ":fdo:hV", long_names, NULL)) != -1) {
		int err = 0;

		switch (c) {
		case 'f':
			o->foreground = true;
			break;
		case 'd':
			o->foreground = o->debug = true;
			break;
		case 'o':
			err = mount_options_parse_list(o, optarg, reason);
			break;
		case 'h':
			o->help = true;
			return 0;
		case 'V':
			o->version = true;
			return 0;
		case ':':
			err = reason_set(reason, -EINVAL, "-%c: a value must follow", optopt);
			break;
		default:
			err = optopt != 0 ?
				reason_set(reason, -EINVAL, "unknown option: -%c", optopt) :
				reason_set(reason, -EINVAL, "unknown option: %s", argv[optind - 1]);
		}
		if (err < 0)
			return err;
	}
	if (take_names(o, argc - optind, argv + optind, reason) < 0)
		return -EINVAL;
	return check_together(o, reason);
}
