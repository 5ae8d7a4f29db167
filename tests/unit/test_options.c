/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_options.c - mount options and the command line: taken, refused by name, combined.
 */
#include "fs/options.h"

#include "tests/unit/unit.h"

static struct mount_options opt;
static struct reason why;

static int parse_list(const char *list)
{
	mount_options_done(&opt);
	mount_options_init(&opt, true);
	why.text[0] = '\0';
	return mount_options_parse_list(&opt, list, &why);
}

static int parse_line(const char *const *words)
{
	char *argv[16];
	int argc = 0, err;

	mount_options_done(&opt);
	mount_options_init(&opt, false);
	why.text[0] = '\0';
	for (; words[argc] != NULL; argc++)
		argv[argc] = strdup(words[argc]);
	argv[argc] = NULL;
	err = mount_options_parse(&opt, argc, argv, &why);
	while (argc > 0)
		free(argv[--argc]);
	return err;
}

#define LINE(...) parse_line((const char *const[]){"cowfs-fuse", __VA_ARGS__, NULL})

/* Refused, and the one line says `word`. */
#define refused(call, word)								\
	do {										\
		unit_err(call, -EINVAL);						\
		ck_assert_msg(strstr(why.text, word) != NULL, "%s: %s", word, why.text);	\
		ck_assert_ptr_null(strchr(why.text, '\n'));				\
	} while (0)

START_TEST(defaults)
{
	unit_ok(parse_list(""));
	ck_assert(!opt.fs.rdonly);
	ck_assert_int_eq(opt.fs.atime, ATIME_RELATIME);
	ck_assert_int_eq(opt.fs.policy, CHOOSE_BY_DEVICE);
	ck_assert_uint_eq(opt.fs.commit_s, 30);
	ck_assert_uint_eq(opt.fs.max_inline, 2048);
	ck_assert_uint_eq(opt.fs.cache_bytes, 64u << 20);
	ck_assert_uint_eq(opt.fs.subvolid, 0);
	ck_assert(!opt.nosuid);
	unit_ok(LINE("img", "mnt"));		/* an ordinary user */
	ck_assert(opt.nosuid);
	ck_assert(opt.nodev);
	ck_assert(!opt.noexec);
}
END_TEST

START_TEST(everything_that_the_manual_lists)
{
	unit_ok(parse_list("ro,subvol=/a/b/,commit=5,noatime,nodatasum,compress=zstd:7,ssd,"
			   "max_inline=0,nologreplay,nonempty,allow_other,default_permissions,cache=2G"));
	ck_assert(opt.fs.rdonly);
	ck_assert_str_eq(opt.fs.subvol, "a/b");
	ck_assert_uint_eq(opt.fs.commit_s, 5);
	ck_assert_int_eq(opt.fs.atime, ATIME_NONE);
	ck_assert(opt.fs.nodatasum);
	ck_assert(!opt.fs.nodatacow);
	ck_assert_uint_eq(opt.fs.compress_type, COMPRESS_ZSTD);
	ck_assert_int_eq(opt.fs.compress_level, 7);
	ck_assert_int_eq(opt.fs.policy, CHOOSE_SSD);
	ck_assert_uint_eq(opt.fs.max_inline, 0);
	ck_assert(opt.fs.nologreplay);
	ck_assert(opt.nonempty);
	ck_assert(opt.allow_other);
	ck_assert_uint_eq(opt.fs.cache_bytes, UINT64_C(2) << 30);
	unit_ok(parse_list("rotational,nodatacow,subvolid=257,compress=no,max_inline=4K,cache=1m"));
	ck_assert_int_eq(opt.fs.policy, CHOOSE_ROTATIONAL);
	ck_assert(opt.fs.nodatacow);
	ck_assert(opt.fs.nodatasum);
	ck_assert_uint_eq(opt.fs.subvolid, 257);
	ck_assert_uint_eq(opt.fs.max_inline, 4096);
	ck_assert_uint_eq(opt.fs.cache_bytes, 1u << 20);
}
END_TEST

START_TEST(what_mount_hands_on)
{
	unit_ok(parse_list("rw,nosuid,nodev,noexec,sync,dirsync,nodiratime,strictatime,lazytime,"
			   "fsname=a\\,b,subtype=,uhelper=udisks2,relatime"));
	ck_assert(!opt.fs.rdonly);
	ck_assert(opt.nosuid && opt.nodev && opt.noexec);
	ck_assert(opt.sync && opt.fs.sync && opt.dirsync && opt.fs.dirsync);
	ck_assert(opt.fs.nodiratime && opt.fs.lazytime);
	ck_assert_int_eq(opt.fs.atime, ATIME_RELATIME);	/* the last one counts */
	ck_assert_str_eq(opt.fsname, "a,b");
	ck_assert_str_eq(opt.subtype, "");
	unit_ok(parse_list("nosuid,nodev,noexec,suid,dev,exec,sync,async,ro,rw,lazytime,nolazytime"));
	ck_assert(!opt.nosuid && !opt.nodev && !opt.noexec && !opt.sync && !opt.fs.rdonly);
	ck_assert(!opt.fs.lazytime);
}
END_TEST

START_TEST(the_last_of_two_counts)
{
	unit_ok(parse_list("ssd,nossd"));
	ck_assert_int_eq(opt.fs.policy, CHOOSE_ROTATIONAL);
	unit_ok(parse_list("subvol=x,subvolid=256"));
	ck_assert_ptr_null(opt.fs.subvol);
	ck_assert_uint_eq(opt.fs.subvolid, 256);
	unit_ok(parse_list("subvolid=256,subvol=x"));
	ck_assert_str_eq(opt.fs.subvol, "x");
	ck_assert_uint_eq(opt.fs.subvolid, 0);
	unit_ok(parse_list("compress=lzo,compress=no"));
	ck_assert_uint_eq(opt.fs.compress_type, COMPRESS_NONE);
}
END_TEST

START_TEST(names_of_the_top_level)
{
	unit_ok(parse_list("subvol=/"));
	ck_assert_uint_eq(opt.fs.subvolid, 5);
	ck_assert_ptr_null(opt.fs.subvol);
	unit_ok(parse_list("subvolid=0"));
	ck_assert_uint_eq(opt.fs.subvolid, 5);
	unit_ok(parse_list("subvolid=5"));
	ck_assert_uint_eq(opt.fs.subvolid, 5);
}
END_TEST

START_TEST(unknown_ones_are_named)
{
	static const char *const bad[] = {
		"dax", "inlinecrypt", "acl", "compress-force=zstd", "degraded", "autodefrag", "remount",
		"r", "rox", "RO", "subvolidx=5", "space_cache=v2", "max_threads=3",
	};

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		refused(parse_list(bad[i]), bad[i]);
	refused(parse_list("noatime,frobnicate=3,ro"), "frobnicate=3");
	refused(LINE("-o", "ro", "-x", "img", "mnt"), "-x");
	refused(LINE("--frob", "img", "mnt"), "--frob");
}
END_TEST

START_TEST(senseless_values_are_named)
{
	static const char *const bad[] = {
		"commit=0", "commit=", "commit=-1", "commit=1h", "commit=99999999999999999999", "subvolid=6",
		"subvolid=x", "subvolid=18446744073709551615", "subvol=", "compress=gzip", "compress=lzo:1",
		"compress=zstd:0", "compress=zstd:16", "compress=zlib:10", "compress=zstd:", "compress=zstdx",
		"max_inline=65537", "max_inline=x", "cache=0", "cache=1000", "cache=1T", "cache=",
		"cache=99999999999G", "fsname=",
	};

	for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
		refused(parse_list(bad[i]), bad[i]);
	refused(parse_list("commit"), "commit");
	refused(parse_list("compress"), "compress");
	refused(parse_list("ro=1"), "ro");
	refused(parse_list("ssd=yes"), "ssd");
}
END_TEST

START_TEST(impossible_pairs_are_refused)
{
	refused(LINE("-o", "nologreplay", "img", "mnt"), "nologreplay");
	unit_ok(LINE("-o", "nologreplay,ro", "img", "mnt"));
	refused(LINE("-o", "nodatacow,compress=zstd", "img", "mnt"), "nodatacow");
	unit_ok(LINE("-o", "nodatacow,compress=no", "img", "mnt"));
}
END_TEST

START_TEST(lines_in_any_order)
{
	unit_ok(LINE("-f", "-o", "ro", "img", "mnt"));
	ck_assert(opt.foreground && opt.fs.rdonly && !opt.debug);
	ck_assert_str_eq(opt.source, "img");
	ck_assert_str_eq(opt.mountpoint, "mnt");
	unit_ok(LINE("img", "mnt", "-o", "rw,noatime", "-o", "commit=7"));
	ck_assert_int_eq(opt.fs.atime, ATIME_NONE);
	ck_assert_uint_eq(opt.fs.commit_s, 7);
	ck_assert_str_eq(opt.mountpoint, "mnt");
	unit_ok(LINE("-d", "img", "-oro", "mnt"));
	ck_assert(opt.debug && opt.foreground && opt.fs.rdonly);
	unit_ok(LINE("--", "-img", "mnt"));
	ck_assert_str_eq(opt.source, "-img");
	unit_ok(LINE("--help"));
	ck_assert(opt.help);
	unit_ok(LINE("--version"));
	ck_assert(opt.version);
	refused(LINE("img"), "mount point");
	refused(LINE("-f"), "missing");
	refused(LINE("img", "mnt", "third"), "third");
	refused(LINE("img", "mnt", "-o"), "-o");
}
END_TEST

/* The text of --help names each option that is not only there for mount(8). */
START_TEST(help_is_complete)
{
	static const char *const words[] = {
		"ro", "rw", "subvol=", "subvolid=", "commit=", "noatime", "relatime", "strictatime",
		"nodiratime", "lazytime", "nodatacow", "nodatasum", "compress=", "ssd", "rotational", "nossd",
		"max_inline=", "nologreplay", "cache=", "nonempty", "allow_other", "default_permissions",
		"sync", "dirsync", "suid", "nodev", "noexec", "fsname=", "subtype=", "-f", "-d",
	};

	for (size_t i = 0; i < ARRAY_COUNT(words); i++)
		ck_assert_ptr_nonnull(strstr(mount_options_usage, words[i]));
}
END_TEST

UNIT_MAIN("options", defaults, everything_that_the_manual_lists, what_mount_hands_on,
	  the_last_of_two_counts, names_of_the_top_level, unknown_ones_are_named,
	  senseless_values_are_named, impossible_pairs_are_refused, lines_in_any_order,
	  help_is_complete)
