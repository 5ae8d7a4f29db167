/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/cli.c - the words of mkfs.cowfs's command line; see cli.h.
 *
 * An option is judged by itself when it is read, and all of them together at the end, so that their
 * order does not matter. Of several of a kind the last counts.
 */
#include "mkfs/cli.h"

#include "io/csum.h"
#include "io/util.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <uuid/uuid.h>

/* --- features ------------------------------------------------------------------------------------ */

struct feature {
	const char *name;
	unsigned bit;			/* MKFS_*; 0: always on, unless `mixed` */
	bool mixed;			/* stands for --mixed */
	const char *about;
};

static const struct feature features[] = {
	{ "mixed-bg", 0, true, "data and metadata in the same block groups (as --mixed)" },
	{ "extref", 0, false, "more hard links to a file from one folder (always on)" },
	{ "skinny-metadata", 0, false, "smaller extent items of tree blocks (always on)" },
	{ "no-holes", MKFS_NO_HOLES, false, "holes in files take no items (default)" },
	{ "free-space-tree", MKFS_FREE_SPACE_TREE, false, "free space is kept in a tree (default)" },
	{ "block-group-tree", MKFS_BLOCK_GROUP_TREE, false,
	  "block groups are kept in a tree, for faster mounts (needs the two above)" },
};

static bool feature_on(const struct mkfs_options *o, const struct feature *f)
{
	if (f->mixed)
		return o->mixed;
	return f->bit == 0 || (o->features & f->bit) != 0;
}

void mkfs_feature_names(const struct mkfs_options *o, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < ARRAY_COUNT(features); i++) {
		if (!feature_on(o, &features[i]) || used >= size)
			continue;
		used += (size_t)snprintf(buf + used, size - used, "%s%s", used > 0 ? ", " : "",
					 features[i].name);
	}
}

void mkfs_print_features(FILE *out)
{
	fprintf(out, "Features for -O; a ^ before the name leaves it out:\n");
	for (size_t i = 0; i < ARRAY_COUNT(features); i++)
		fprintf(out, "  %-18s %s\n", features[i].name, features[i].about);
}

static int set_feature(const char *word, struct mkfs_options *o, struct reason *reason)
{
	bool on = word[0] != '^';
	const char *name = on ? word : word + 1;

	for (size_t i = 0; i < ARRAY_COUNT(features); i++) {
		const struct feature *f = &features[i];

		if (strcmp(name, f->name) != 0)
			continue;
		if (f->mixed)
			o->mixed = on;
		else if (on)
			o->features |= f->bit;
		else if (f->bit != 0)
			o->features &= ~f->bit;
		else
			return reason_set(reason, -EINVAL, "-O %s: %s cannot be left out", word, name);
		return 0;
	}
	return reason_set(reason, -EINVAL, "-O %s: unknown feature (-O list-all shows them)", word);
}

static int parse_features(const char *text, struct mkfs_cli *cli, struct reason *reason)
{
	scoped(freep) char *copy = strdup(text);
	char *rest = copy;
	const char *word;
	int err = 0;

	if (copy == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	while (err == 0 && (word = strsep(&rest, ",")) != NULL) {
		if (strcmp(word, "list-all") == 0)
			cli->action = MKFS_LIST_FEATURES;
		else
			err = set_feature(word, &cli->options, reason);
	}
	return err;
}

/* --- values -------------------------------------------------------------------------------------- */

int mkfs_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char suffixes[] = "KMGTPE";
	unsigned long long v;
	unsigned shift = 0;
	const char *suffix;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;		/* strtoull takes signs and blanks */
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno != 0)
		return -ERANGE;
	if (*end != '\0') {
		suffix = strchr(suffixes, toupper((unsigned char)*end));
		if (suffix == NULL || end[1] != '\0')
			return -EINVAL;
		shift = 10 * (unsigned)(suffix - suffixes + 1);
	}
	if (v > UINT64_MAX >> shift)
		return -ERANGE;
	*ret_bytes = v << shift;
	return 0;
}

static int parse_size(const char *text, const char *option, uint32_t *ret_size,
		      struct reason *reason)
{
	uint64_t v;

	if (mkfs_parse_bytes(text, &v) < 0 || !is_pow2(v) || v < SECTORSIZE_MIN || v > BLOCKSIZE_MAX)
		return reason_set(reason, -EINVAL, "%s %s: a power of two from %u to %u is wanted",
				  option, text, SECTORSIZE_MIN, BLOCKSIZE_MAX);
	*ret_size = (uint32_t)v;
	return 0;
}

static int parse_byte_count(const char *text, uint64_t *ret_bytes, struct reason *reason)
{
	uint64_t v;

	if (mkfs_parse_bytes(text, &v) < 0 || v == 0 || v > INT64_MAX)
		return reason_set(reason, -EINVAL, "-b %s: a number of bytes is wanted, with a suffix K, M, "
				  "G or T if you like", text);
	*ret_bytes = v;
	return 0;
}

static int parse_profile(const char *text, const char *option, uint64_t *ret_profile,
			 struct reason *reason)
{
	if (strcasecmp(text, "single") == 0)
		*ret_profile = 0;
	else if (strcasecmp(text, "dup") == 0)
		*ret_profile = BG_DUP;
	else
		return reason_set(reason, -EINVAL, "%s %s: the profiles on one device are single and dup",
				  option, text);
	return 0;
}

static int parse_csum(const char *text, enum csum_type *ret_type, struct reason *reason)
{
	for (unsigned t = 0; t < CSUM_TYPE_COUNT; t++) {
		if (strcasecmp(text, csum_name((enum csum_type)t)) == 0) {
			*ret_type = (enum csum_type)t;
			return 0;
		}
	}
	return reason_set(reason, -EINVAL, "--csum %s: the checksums are crc32c, xxhash, sha256 and blake2",
			  text);
}

static int parse_label(const char *text, char label[LABEL_MAX_BYTES], struct reason *reason)
{
	if (strlen(text) >= LABEL_MAX_BYTES)
		return reason_set(reason, -EINVAL, "-L: the label is longer than %u bytes",
				  LABEL_MAX_BYTES - 1);
	if (strchr(text, '\n') != NULL)
		return reason_set(reason, -EINVAL, "-L: the label contains a newline");
	memset(label, 0, LABEL_MAX_BYTES);
	memcpy(label, text, strlen(text));
	return 0;
}

static int parse_uuid(const char *text, uint8_t fsid[UUID_BYTES], struct reason *reason)
{
	uuid_t id;

	if (uuid_parse(text, id) < 0 || uuid_is_null(id))
		return reason_set(reason, -EINVAL, "-U %s: not a usable uuid", text);
	memcpy(fsid, id, UUID_BYTES);
	return 0;
}

/* --- the line ------------------------------------------------------------------------------------ */

enum { OPTION_CSUM = 256, OPTION_HELP, OPTION_VERSION };

static const char short_options[] = ":l:n:s:L:U:b:m:d:MO:KfqvVh";

static const struct option long_options[] = {
	{ "leafsize", required_argument, NULL, 'l' },
	{ "nodesize", required_argument, NULL, 'n' },
	{ "sectorsize", required_argument, NULL, 's' },
	{ "label", required_argument, NULL, 'L' },
	{ "uuid", required_argument, NULL, 'U' },
	{ "byte-count", required_argument, NULL, 'b' },
	{ "metadata", required_argument, NULL, 'm' },
	{ "data", required_argument, NULL, 'd' },
	{ "mixed", no_argument, NULL, 'M' },
	{ "csum", required_argument, NULL, OPTION_CSUM },
	{ "checksum", required_argument, NULL, OPTION_CSUM },
	{ "features", required_argument, NULL, 'O' },
	{ "nodiscard", no_argument, NULL, 'K' },
	{ "force", no_argument, NULL, 'f' },
	{ "quiet", no_argument, NULL, 'q' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ NULL, 0, NULL, 0 },
};

void mkfs_print_help(FILE *out)
{
	fputs("Usage: mkfs.cowfs [options] DEVICE|FILE\n"
	      "Makes a filesystem in the btrfs format.\n\n"
	      "  -l, --leafsize SIZE     bytes of a leaf, 4K to 64K (default: the node size)\n"
	      "  -n, --nodesize SIZE     bytes of a node, 4K to 64K (default: the leaf size, else 16K)\n"
	      "  -s, --sectorsize SIZE   unit of file data, 4K to 64K (default: 4K)\n"
	      "  -L, --label TEXT        a name, at most 255 bytes\n"
	      "  -U, --uuid UUID         the id (default: a random one)\n"
	      "  -b, --byte-count SIZE   use that many bytes; makes or extends a regular file\n"
	      "  -m, --metadata PROFILE  single or dup (default: dup; single if mixed)\n"
	      "  -d, --data PROFILE      single or dup (default: single)\n"
	      "  -M, --mixed             data and metadata in the same block groups\n"
	      "      --csum TYPE         crc32c (default), xxhash, sha256 or blake2\n"
	      "  -O, --features LIST     features, separated by commas; ^NAME leaves one out;\n"
	      "                          list-all shows them\n"
	      "  -K, --nodiscard         do not discard the device first\n"
	      "  -f, --force             overwrite a filesystem or a partition table\n"
	      "  -q, --quiet             say nothing unless something is wrong\n"
	      "  -v, --verbose           say more\n"
	      "  -V, --version           print the version\n"
	      "  -h, --help              print this\n\n"
	      "Sizes take a suffix K, M, G or T. See mkfs.cowfs(8).\n", out);
}

/* Options that leave something for the end. */
struct given {
	uint32_t leafsize, nodesize;	/* 0: not given */
	bool data, metadata;
};

static int bad_option(int c, int argc, char **argv, struct reason *reason)
{
	const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";

	if (c == ':')
		return reason_set(reason, -EINVAL, "%s: an argument is missing (see --help)", word);
	if (optopt > 0 && optopt < 256)
		return reason_set(reason, -EINVAL, "-%c: unknown option (see --help)", optopt);
	return reason_set(reason, -EINVAL, "%s: unknown option (see --help)", word);
}

static int take_flag(int c, struct mkfs_cli *cli)
{
	switch (c) {
	case 'M':
		cli->options.mixed = true;
		return 0;
	case 'K':
		cli->options.discard = false;
		return 0;
	case 'f':
		cli->force = true;
		return 0;
	case 'q':
		cli->talk = MKFS_QUIET;
		return 0;
	case 'v':
		cli->talk = MKFS_VERBOSE;
		return 0;
	case 'V':
	case OPTION_VERSION:
		cli->action = MKFS_VERSION;
		return 0;
	case 'h':
	case OPTION_HELP:
		cli->action = MKFS_HELP;
		return 0;
	default:
		return -EINVAL;
	}
}

static int take_value(int c, const char *arg, struct mkfs_cli *cli, struct given *given,
		      struct reason *reason)
{
	struct mkfs_options *o = &cli->options;

	switch (c) {
	case 'l':
		return parse_size(arg, "-l", &given->leafsize, reason);
	case 'n':
		return parse_size(arg, "-n", &given->nodesize, reason);
	case 's':
		return parse_size(arg, "-s", &o->sectorsize, reason);
	case 'L':
		return parse_label(arg, o->label, reason);
	case 'U':
		return parse_uuid(arg, o->fsid, reason);
	case 'b':
		return parse_byte_count(arg, &o->byte_count, reason);
	case 'm':
		given->metadata = true;
		return parse_profile(arg, "-m", &o->metadata_profile, reason);
	case 'd':
		given->data = true;
		return parse_profile(arg, "-d", &o->data_profile, reason);
	case 'O':
		return parse_features(arg, cli, reason);
	case OPTION_CSUM:
		return parse_csum(arg, &o->csum_type, reason);
	default:
		return -EINVAL;
	}
}

/* What follows from what was given for what was not. */
static void fill_in(struct mkfs_options *o, const struct given *given)
{
	if (given->leafsize == 0 && given->nodesize == 0) {
		/* The kernel takes mixed groups only with nodes of one sector. */
		o->nodesize = o->mixed ? o->sectorsize : max_u32(o->nodesize, o->sectorsize);
		o->leafsize = o->nodesize;
	} else {
		o->leafsize = given->leafsize != 0 ? given->leafsize : given->nodesize;
		o->nodesize = given->nodesize != 0 ? given->nodesize : given->leafsize;
	}
	if (!o->mixed)
		return;
	if (!given->metadata)
		o->metadata_profile = given->data ? o->data_profile : 0;
	if (!given->data)
		o->data_profile = o->metadata_profile;
}

int mkfs_cli_parse(int argc, char **argv, struct mkfs_cli *ret_cli, struct reason *reason)
{
	struct mkfs_cli cli = { .talk = MKFS_NORMAL };
	struct given given = {0};
	int c, err = 0;

	mkfs_options_init(&cli.options);
	optind = 0;			/* glibc: begin anew */
	opterr = 0;
	while (err == 0 && (c = getopt_long(argc, argv, short_options, long_options, NULL)) != -1) {
		if (c == '?' || c == ':')
			err = bad_option(c, argc, argv, reason);
		else if (optarg == NULL)
			err = take_flag(c, &cli);
		else
			err = take_value(c, optarg, &cli, &given, reason);
	}
	if (err < 0)
		return err;
	if (cli.action == MKFS_MAKE) {
		if (argc - optind != 1)
			return reason_set(reason, -EINVAL, argc == optind ?
					  "no device or file was named (see --help)" :
					  "more than one device or file was named: %s",
					  argc == optind ? "" : argv[optind + 1]);
		cli.path = argv[optind];
		fill_in(&cli.options, &given);
		err = mkfs_options_check(&cli.options, reason);
		if (err < 0)
			return err;
	}
	*ret_cli = cli;
	return 0;
}
