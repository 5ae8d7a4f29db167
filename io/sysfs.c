/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/sysfs.c - what the kernel tells about disks and loop devices (see sysfs.h).
 */
#include "io/sysfs.h"

#include "io/util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

static void fclosep(FILE **f)
{
	if (*f != NULL)
		fclose(*f);
}

static void closedirp(DIR **d)
{
	if (*d != NULL)
		closedir(*d);
}

/* The first line of a small file, without its newline. */
static int read_line(const char *path, char *buf, size_t bytes)
{
	scoped(fclosep) FILE *f = fopen(path, "re");

	if (f == NULL)
		return -errno;
	if (fgets(buf, (int)bytes, f) == NULL)
		return -ENOENT;
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

int sysfs_loop_backing(dev_t rdev, struct loop_backing *ret_backing)
{
	struct loop_backing b = {.whole = true};
	char path[128], number[32];
	static const char *const parts[] = {"offset", "sizelimit"};

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/loop/backing_file", major(rdev),
		 minor(rdev));
	if (read_line(path, b.path, sizeof(b.path)) < 0)
		return -ENOENT;
	for (unsigned i = 0; i < ARRAY_COUNT(parts); i++) {
		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/loop/%s", major(rdev), minor(rdev),
			 parts[i]);
		if (read_line(path, number, sizeof(number)) == 0 && strcmp(number, "0") != 0)
			b.whole = false;
	}
	*ret_backing = b;
	return 0;
}

/*
 * 1 or 0 as the loop device itself says; -errno if it cannot be asked. Only the device knows for
 * sure: a path may be of another mount namespace, or no longer lead to the file.
 */
static int loop_has_file(const char *name, const struct stat *file)
{
	struct loop_info64 info;
	char path[NAME_MAX + 8];
	scoped(closep) int fd = -1;

	snprintf(path, sizeof(path), "/dev/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || ioctl(fd, LOOP_GET_STATUS64, &info) < 0)
		return -errno;
	return info.lo_inode == file->st_ino && info.lo_device == file->st_dev;
}

static bool path_leads_to(const char *path, const struct stat *file)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_ino == file->st_ino && st.st_dev == file->st_dev;
}

bool sysfs_loop_of_file(const struct stat *file, char *ret_name, size_t name_bytes)
{
	scoped(closedirp) DIR *dir = opendir("/sys/block");
	struct dirent *de;

	while (dir != NULL && (de = readdir(dir)) != NULL) {
		char path[NAME_MAX + 64], backing[PATH_MAX];
		int has;

		if (strncmp(de->d_name, "loop", 4) != 0)
			continue;
		snprintf(path, sizeof(path), "/sys/block/%s/loop/backing_file", de->d_name);
		if (read_line(path, backing, sizeof(backing)) < 0)
			continue;
		has = loop_has_file(de->d_name, file);
		if (has > 0 || (has < 0 && path_leads_to(backing, file))) {
			snprintf(ret_name, name_bytes, "%s", de->d_name);
			return true;
		}
	}
	return false;
}

bool sysfs_rotational(dev_t rdev)
{
	static const char *const places[] = {"queue/rotational", "../queue/rotational"};

	for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
		char path[128], flag[8];

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(rdev), minor(rdev),
			 places[i]);
		if (read_line(path, flag, sizeof(flag)) == 0)
			return strcmp(flag, "1") == 0;
	}
	return false;
}

/*
 * The block device that mountinfo names as the source of the file system with this number. A line
 * is: id, parent, major:minor, root, mount point, options, optional fields, "-", type, source.
 */
static bool mount_source(dev_t fs, dev_t *ret_rdev)
{
	scoped(fclosep) FILE *f = fopen("/proc/self/mountinfo", "re");
	scoped(freep) char *line = NULL;
	size_t room = 0;

	while (f != NULL && getline(&line, &room, f) > 0) {
		unsigned maj, min;
		char source[PATH_MAX];
		const char *dash = strstr(line, " - ");
		struct stat st;

		if (dash == NULL || sscanf(line, "%*u %*u %u:%u", &maj, &min) != 2 ||
		    makedev(maj, min) != fs || sscanf(dash, " - %*s %4095s", source) != 1)
			continue;
		if (stat(source, &st) == 0 && S_ISBLK(st.st_mode)) {
			*ret_rdev = st.st_rdev;
			return true;
		}
	}
	return false;
}

bool sysfs_rotational_of_file(const struct stat *file)
{
	dev_t rdev = file->st_dev;

	/* Major 0: a file system without a device number of its own, like btrfs or overlayfs. */
	if (major(rdev) == 0 && !mount_source(file->st_dev, &rdev))
		return false;
	return sysfs_rotational(rdev);
}
