/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_mount.c - mounting and unmounting (see fuse_mount.h).
 */
#include "fs/fuse_mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include <fuse3/fuse_log.h>

#include "fs/fuse_proto.h"
#include "io/log.h"
#include "io/util.h"

#define READ_AHEAD_KB 1024u
#define DIRTY_SHARE_PERCENT 40u		/* of what all filesystems together may leave dirty */

/* ---- the mount point -------------------------------------------------------------------------- */

static int check_empty(const char *point, struct reason *reason)
{
	DIR *dir = opendir(point);
	const struct dirent *e;
	bool empty = true;

	if (dir == NULL)
		return reason_set(reason, -errno, "mount point %s: %s", point, strerror(errno));
	while (empty && (e = readdir(dir)) != NULL)
		empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
	closedir(dir);
	if (!empty)
		return reason_set(reason, -ENOTEMPTY, "mount point %s is not empty (-o nonempty mounts "
				  "over it)", point);
	return 0;
}

int mount_check_point(const struct mount_options *o, struct reason *reason)
{
	struct stat st;

	if (stat(o->mountpoint, &st) < 0) {
		if (errno == ENOENT)
			return reason_set(reason, -ENOENT, "mount point %s does not exist", o->mountpoint);
		if (errno == ENOTCONN)
			return reason_set(reason, -ENOTCONN, "mount point %s: a dead mount is on it; "
					  "unmount it first", o->mountpoint);
		return reason_set(reason, -errno, "mount point %s: %s", o->mountpoint, strerror(errno));
	}
	if (!S_ISDIR(st.st_mode))
		return reason_set(reason, -ENOTDIR, "mount point %s is not a directory", o->mountpoint);
	if (geteuid() != 0 && access(o->mountpoint, W_OK) < 0)
		return reason_set(reason, -errno, "mount point %s: %s", o->mountpoint, strerror(errno));
	return o->nonempty ? 0 : check_empty(o->mountpoint, reason);
}

/* ---- mounting --------------------------------------------------------------------------------- */

/* libfuse's last message while it mounts; shown in our own line. */
static char fuse_message[REASON_BYTES / 2];
static bool fuse_message_kept;

static void fuse_message_sink(enum fuse_log_level level, const char *fmt, va_list args)
{
	char line[REASON_BYTES / 2];

	vsnprintf(line, sizeof(line), fmt, args);
	line[strcspn(line, "\n")] = '\0';
	if (fuse_message_kept)
		memcpy(fuse_message, line, sizeof(line));
	else if (level <= FUSE_LOG_ERR)
		log_error("%s", line);
	else
		log_debug("%s", line);
}

/* Appends text to the option list, with what would end it escaped. */
static void add_escaped(char **at, const char *text)
{
	for (; *text != '\0'; text++) {
		if (*text == ',' || *text == '\\')
			*(*at)++ = '\\';
		*(*at)++ = *text;
	}
	**at = '\0';
}

static char *session_options(const struct mount_options *o, bool block)
{
	const char *source = o->fsname != NULL ? o->fsname : o->source;
	const char *subtype = o->subtype != NULL ? o->subtype : "cowfs";
	char *text = malloc(256 + 2 * (strlen(source) + strlen(subtype)));
	char *at = text;

	if (text == NULL)
		return NULL;
	at = stpcpy(at, "default_permissions");
	at = stpcpy(at, o->fs.rdonly ? ",ro" : ",rw");
	at = stpcpy(at, o->nosuid ? ",nosuid" : ",suid");
	at = stpcpy(at, o->nodev ? ",nodev" : ",dev");
	at = stpcpy(at, o->noexec ? ",noexec" : ",exec");
	/* Access times are kept here; the kernel is told so that the mount shows them. */
	if (o->fs.atime == ATIME_NONE)
		at = stpcpy(at, ",noatime");
	if (o->sync)
		at = stpcpy(at, ",sync");
	if (o->dirsync)
		at = stpcpy(at, ",dirsync");
	if (o->allow_other)
		at = stpcpy(at, ",allow_other");
	if (block)
		at = stpcpy(at, ",blkdev,blksize=4096");
	at = stpcpy(at, ",fsname=");
	add_escaped(&at, source);
	if (subtype[0] != '\0') {
		at = stpcpy(at, ",subtype=");
		add_escaped(&at, subtype);
	}
	return text;
}

static int try_mount(struct front *f, const struct mount_options *o, const char *point, bool block,
		     struct reason *reason)
{
	scoped(freep) char *options = session_options(o, block);
	char *argv[] = {(char *)"cowfs-fuse", (char *)"-o", options, (char *)"-d", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(o->debug ? 4 : 3, argv);
	int err = 0;

	if (options == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	fuse_message[0] = '\0';
	fuse_message_kept = true;
	f->se = fuse_session_new(&args, &front_ops, sizeof(front_ops), f);
	fuse_opt_free_args(&args);
	if (f->se == NULL || fuse_session_mount(f->se, point) != 0)
		err = -EIO;
	else
		err = proto_attach(f->se);
	fuse_message_kept = false;
	if (err == 0)
		return 0;
	if (f->se != NULL)
		fuse_session_destroy(f->se);
	f->se = NULL;
	return reason_set(reason, err, "cannot mount at %s%s%s", point, fuse_message[0] ? ": " : "",
			  fuse_message);
}

/*
 * The claim on the device goes over to the kernel's superblock. Between letting it go and mounting
 * somebody else may take the device; then the mount fails, and nothing is written any more.
 */
static int mount_block(struct front *f, const struct mount_options *o, const char *point,
		       struct device *dev, struct reason *reason)
{
	int err = device_set_claim(dev, false);

	if (err < 0)
		return err;
	err = try_mount(f, o, point, true, reason);
	if (err < 0 && device_set_claim(dev, true) < 0)
		return reason_set(reason, -EBUSY, "%s: somebody else took the device while it was being "
				  "mounted", o->source);
	return err;
}

int mount_attach(struct front *f, const struct mount_options *o, const char *point,
		 struct device *dev, struct reason *reason)
{
	struct stat st;

	fuse_set_log_func(fuse_message_sink);
	if (geteuid() == 0 && o->fsname == NULL && stat(o->source, &st) == 0 && S_ISBLK(st.st_mode)) {
		int err = mount_block(f, o, point, dev, reason);

		if (err == 0 || err == -EBUSY)
			return err;
	}
	return try_mount(f, o, point, false, reason);
}

static void write_setting(dev_t id, const char *name, unsigned value)
{
	char path[128], text[16];
	scoped(closep) int fd = -1;
	int len;

	snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/%s", major(id), minor(id), name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	len = snprintf(text, sizeof(text), "%u", value);
	if (fd >= 0 && write(fd, text, (size_t)len) < 0)
		log_debug("%s: %s", path, strerror(errno));
}

void mount_tune(dev_t id)
{
	if (geteuid() != 0)
		return;
	write_setting(id, "read_ahead_kb", READ_AHEAD_KB);
	write_setting(id, "max_ratio", DIRTY_SHARE_PERCENT);
	write_setting(id, "strict_limit", 0);
}

/* ---- unmounting ------------------------------------------------------------------------------- */

/* An ordinary user's way. The mount point is an absolute path. */
static int fusermount(const char *point, bool lazy)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		if (null >= 0)
			dup2(null, STDERR_FILENO);
		if (lazy)
			execlp("fusermount3", "fusermount3", "-u", "-q", "-z", point, (char *)NULL);
		else
			execlp("fusermount3", "fusermount3", "-u", "-q", point, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EBUSY;
}

static int unmount(const char *point, bool lazy)
{
	if (geteuid() != 0)
		return fusermount(point, lazy);
	return umount2(point, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) < 0 ? -errno : 0;
}

void mount_detach(const char *point, dev_t id)
{
	scoped(closep) int fd = open(point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	int err;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != id)
		return;
	if (syncfs(fd) < 0)
		log_warn("not all of the kernel's dirty pages could be written: %s", strerror(errno));
	close(fd);
	fd = -1;
	err = unmount(point, false);
	if (err < 0)
		err = unmount(point, true);
	if (err < 0)
		log_warn("cannot unmount %s: %s", point, strerror(-err));
}

void mount_free(struct front *f)
{
	if (f->se == NULL)
		return;
	fuse_session_unmount(f->se);
	fuse_session_destroy(f->se);
	f->se = NULL;
}
