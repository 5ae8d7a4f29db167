/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_mkfs_cli.c - the command line of mkfs.cowfs: what is understood, what is refused.
 */
#include "tests/unit/unit.h"

#include "mkfs/cli.h"

#define WORDS_MAX 24u

/* Parses "mkfs.cowfs " + line, split at blanks. */
static int parse(const char *line, struct mkfs_cli *cli, struct reason *reason)
{
	static char copy[1024];
	char *argv[WORDS_MAX + 1], *rest = copy, *word;
	int argc = 0;

	snprintf(copy, sizeof(copy), "mkfs.cowfs %s", line);
	while ((word = strsep(&rest, " ")) != NULL)
		if (*word != '\0')
			argv[argc++] = word;
	argv[argc] = NULL;
	return mkfs_cli_parse(argc, argv, cli, reason);
}

static struct mkfs_cli good(const char *line)
{
	struct reason reason = {0};
	struct mkfs_cli cli;
	int err = parse(line, &cli, &reason);

	ck_assert_msg(err == 0, "%s: %s", line, reason.text);
	return cli;
}

/* Refused, and the reason is one line that names `word`. */
static void refused(const char *line, const char *word)
{
	struct reason reason = {0};
	struct mkfs_cli cli;
	int err = parse(line, &cli, &reason);

	ck_assert_msg(err == -EINVAL, "%s gave %d", line, err);
	ck_assert_msg(strstr(reason.text, word) != NULL, "%s: '%s' does not name %s", line, reason.text,
		      word);
	ck_assert_ptr_null(strchr(reason.text, '\n'));
}

START_TEST(test_bytes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} sizes[] = {
		{ "0", 0 }, { "1", 1 }, { "4096", 4096 }, { "4K", 4096 }, { "4k", 4096 },
		{ "3M", 3ull << 20 }, { "7g", 7ull << 30 }, { "2T", 2ull << 40 }, { "1P", 1ull << 50 },
		{ "15E", 15ull << 60 }, { "18446744073709551615", UINT64_MAX },
	};
	static const char *const wrong[] = {
		"", "K", "-1", "+1", " 1", "1 ", "1KK", "1KiB", "1x", "0x10", "1.5M", "4K-",
	};
	uint64_t v = 77;

	for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
		unit_ok(mkfs_parse_bytes(sizes[i].text, &v));
		ck_assert_uint_eq(v, sizes[i].bytes);
	}
	v = 77;
	for (size_t i = 0; i < ARRAY_COUNT(wrong); i++)
		unit_err(mkfs_parse_bytes(wrong[i], &v), -EINVAL);
	unit_err(mkfs_parse_bytes("18446744073709551616", &v), -ERANGE);
	unit_err(mkfs_parse_bytes("16E", &v), -ERANGE);
	unit_err(mkfs_parse_bytes("99999999999999999999K", &v), -ERANGE);
	ck_assert_uint_eq(v, 77);
}
END_TEST

START_TEST(test_defaults)
{
	static const uint8_t zeroes[UUID_BYTES];
	struct mkfs_cli cli = good("image");
	const struct mkfs_options *o = &cli.options;

	ck_assert_int_eq(cli.action, MKFS_MAKE);
	ck_assert_str_eq(cli.path, "image");
	ck_assert(!cli.force && cli.talk == MKFS_NORMAL);
	ck_assert_uint_eq(o->leafsize, 16384);
	ck_assert_uint_eq(o->nodesize, 16384);
	ck_assert_uint_eq(o->sectorsize, 4096);
	ck_assert_int_eq(o->csum_type, CSUM_CRC32C);
	ck_assert_uint_eq(o->features, MKFS_NO_HOLES | MKFS_FREE_SPACE_TREE);
	ck_assert_uint_eq(o->metadata_profile, BG_DUP);
	ck_assert_uint_eq(o->data_profile, 0);
	ck_assert(!o->mixed && o->discard && o->byte_count == 0 && o->label[0] == '\0');
	ck_assert_mem_eq(o->fsid, zeroes, UUID_BYTES);
}
END_TEST

START_TEST(test_sizes)
{
	static const struct {
		const char *line;
		uint32_t leaf, node, sector;
	} cases[] = {
		{ "-n 4096 i", 4096, 4096, 4096 },
		{ "-l 64K i", 65536, 65536, 4096 },
		{ "-l 4K -n 64k i", 4096, 65536, 4096 },
		{ "--nodesize 4K --leafsize=32K i", 32768, 4096, 4096 },
		{ "-n 4K -n 8K i", 8192, 8192, 4096 },
		{ "-s 64K i", 65536, 65536, 65536 },
		{ "-s 8K i", 16384, 16384, 8192 },
		{ "-M i", 4096, 4096, 4096 },
		{ "-M -s 8K i", 8192, 8192, 8192 },
		{ "-M -n 16K i", 16384, 16384, 4096 },
	};

	for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
		struct mkfs_cli cli = good(cases[i].line);

		ck_assert_uint_eq(cli.options.leafsize, cases[i].leaf);
		ck_assert_uint_eq(cli.options.nodesize, cases[i].node);
		ck_assert_uint_eq(cli.options.sectorsize, cases[i].sector);
	}
	refused("-n 5000 i", "5000");
	refused("-n 2K i", "2K");
	refused("-n 128K i", "128K");
	refused("-l 0 i", "-l 0");
	refused("-l banana i", "banana");
	refused("-n -4096 i", "-4096");
	refused("-s 2048 i", "2048");
	refused("-s 16K -n 4K i", "16384");
	refused("-s 16K -l 4K -n 16K i", "leaf");
	refused("-s 16K -l 16K -n 8K i", "node");
}
END_TEST

START_TEST(test_profiles)
{
	struct mkfs_cli cli = good("-m single -d DUP i");

	ck_assert_uint_eq(cli.options.metadata_profile, 0);
	ck_assert_uint_eq(cli.options.data_profile, BG_DUP);
	cli = good("-M i");
	ck_assert(cli.options.mixed && cli.options.metadata_profile == 0 &&
		  cli.options.data_profile == 0);
	cli = good("-d dup -M i");
	ck_assert(cli.options.metadata_profile == BG_DUP && cli.options.data_profile == BG_DUP);
	cli = good("-m dup -M i");
	ck_assert(cli.options.metadata_profile == BG_DUP && cli.options.data_profile == BG_DUP);
	refused("-M -m single -d dup i", "mixed");
	refused("-d raid1 i", "raid1");
	refused("-m triple i", "triple");
}
END_TEST

START_TEST(test_features)
{
	struct mkfs_cli cli = good("-O block-group-tree i");
	char names[256];

	ck_assert_uint_eq(cli.options.features, MKFS_NO_HOLES | MKFS_FREE_SPACE_TREE |
						MKFS_BLOCK_GROUP_TREE);
	cli = good("-O ^no-holes,^free-space-tree i");
	ck_assert_uint_eq(cli.options.features, 0);
	mkfs_feature_names(&cli.options, names, sizeof(names));
	ck_assert_ptr_null(strstr(names, "no-holes"));
	cli = good("-O ^no-holes -O no-holes,extref,skinny-metadata i");
	ck_assert_uint_eq(cli.options.features, MKFS_NO_HOLES | MKFS_FREE_SPACE_TREE);
	mkfs_feature_names(&cli.options, names, 8);
	ck_assert_uint_lt(strlen(names), 8);
	cli = good("-O mixed-bg i");
	ck_assert(cli.options.mixed && cli.options.nodesize == 4096);
	cli = good("-O list-all");
	ck_assert_int_eq(cli.action, MKFS_LIST_FEATURES);
	refused("-O no-such-feature i", "no-such-feature");
	refused("-O ^extref i", "extref");
	refused("-O no-holes, i", "unknown");
	refused("-O block-group-tree,^no-holes i", "no-holes");
	refused("-O ^free-space-tree,block-group-tree i", "free-space-tree");
}
END_TEST

START_TEST(test_words)
{
	struct mkfs_cli cli = good("-f -K -q -L label --csum XXHASH -b 300M "
				   "-U 01234567-89ab-cdef-0123-456789abcdef i");
	struct reason reason;
	char *argv[] = { (char *)"mkfs.cowfs", (char *)"-L", NULL, (char *)"i", NULL };
	char text[LABEL_MAX_BYTES + 1];

	ck_assert(cli.force && !cli.options.discard && cli.talk == MKFS_QUIET);
	ck_assert_str_eq(cli.options.label, "label");
	ck_assert_int_eq(cli.options.csum_type, CSUM_XXHASH64);
	ck_assert_uint_eq(cli.options.byte_count, 300ull << 20);
	ck_assert_uint_eq(cli.options.fsid[0], 0x01);
	ck_assert_uint_eq(cli.options.fsid[15], 0xef);
	ck_assert_int_eq(good("i -v --csum sha256").talk, MKFS_VERBOSE);
	ck_assert_int_eq(good("--help").action, MKFS_HELP);
	ck_assert_int_eq(good("-V").action, MKFS_VERSION);
	ck_assert_int_eq(good("--csum blake2 -- i").options.csum_type, CSUM_BLAKE2B);

	memset(text, 'x', sizeof(text));
	text[LABEL_MAX_BYTES] = '\0';
	argv[2] = text;
	unit_err(mkfs_cli_parse(4, argv, &cli, &reason), -EINVAL);
	text[LABEL_MAX_BYTES - 1] = '\0';
	unit_ok(mkfs_cli_parse(4, argv, &cli, &reason));
	ck_assert_uint_eq(strlen(cli.options.label), LABEL_MAX_BYTES - 1);
	text[7] = '\n';
	unit_err(mkfs_cli_parse(4, argv, &cli, &reason), -EINVAL);

	refused("", "no device");
	refused("i j", "j");
	refused("-Q i", "-Q");
	refused("--frobnicate i", "--frobnicate");
	refused("i -n", "-n");
	refused("--label", "--label");
	refused("--csum md5 i", "md5");
	refused("-U not-a-uuid i", "not-a-uuid");
	refused("-U 00000000-0000-0000-0000-000000000000 i", "0000");
	refused("-b 12xyz i", "12xyz");
	refused("-b -5 i", "-5");
	refused("-b 0 i", "-b 0");
	refused("-b 9E i", "9E");
}
END_TEST

UNIT_MAIN("mkfs_cli", test_bytes, test_defaults, test_sizes, test_profiles, test_features, test_words)
