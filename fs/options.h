/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/options.h - the command line of cowfs-fuse and the -o options of a mount.
 *
 * Every option is either taken, with an effect or because mount(8) hands it on to every helper, or
 * refused by name. Of contradicting options the last one counts where mount(8) works so (ro and rw,
 * suid and nosuid, the atime modes, the allocation policies); what can never work together is
 * refused. Locking: none. Not here: anything of libfuse, nor whether the filesystem can follow.
 */
#ifndef COWFS_FS_OPTIONS_H
#define COWFS_FS_OPTIONS_H

#include "fs/fs.h"
#include "io/reason.h"

struct mount_options {
	struct fs_options fs;
	bool foreground;		/* -f */
	bool debug;			/* -d; in the foreground as well */
	bool help, version;		/* then nothing else is filled in */
	bool allow_other;
	bool nonempty;			/* mount over a directory that is not empty */
	bool nosuid, nodev, noexec;
	bool sync, dirsync;		/* for the kernel, beside those in fs */
	char *fsname;			/* what the mount shows as its source; NULL: source; owned */
	char *subtype;			/* NULL: cowfs; empty: none; owned */
	char *source;			/* device or image; owned */
	char *mountpoint;		/* owned */
};

/*
 * Sets the defaults: nosuid and nodev unless the caller is root, as mount(8) has it.
 */
void mount_options_init(struct mount_options *o, bool root);
void mount_options_done(struct mount_options *o);

/*
 * Takes one comma separated list as after -o (a backslash takes the special meaning off the next
 * character). -EINVAL: the reason names the option and what is wrong with it. -ENOMEM.
 */
int mount_options_parse_list(struct mount_options *o, const char *list, struct reason *reason);

/*
 * Takes the whole command line, options before and after the two names, and checks that the options
 * go together. -EINVAL, -ENOMEM.
 */
int mount_options_parse(struct mount_options *o, int argc, char **argv, struct reason *reason);

/* What --help prints. */
extern const char mount_options_usage[];

#endif
