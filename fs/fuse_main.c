/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_main.c - cowfs-fuse: the daemon that serves one mount.
 *
 * Order: command line, mount point, fork, device, filesystem, mount, threads; then the parent is
 * told and ends. The fork comes before anything that starts threads. Until the mount stands, errors
 * go to the caller's standard error, one line each; from then on to syslog (in the foreground:
 * standard error still). The end of the mount, SIGTERM, SIGINT and SIGHUP all lead to one place:
 * unmount, last commit, exit.
 *
 * Exit status: see EXIT_* and the manual page. Not here: mounting (fuse_mount.c), threads
 * (fuse_session.c), requests.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <time.h>

#include "fs/fuse_late.h"
#include "fs/fuse_mount.h"
#include "io/log.h"
#include "io/rcu.h"
#include "io/util.h"

#define EXIT_NOT_MOUNTED 1
#define EXIT_USAGE 2
#define EXIT_NOT_WRITTEN 3

#define BUSY_WAIT_MS 5000u		/* for a daemon that is still ending */
#define BUSY_PAUSE_MS 50u
#define READY_TIMEOUT_MS 60000
#define GONE_TIMEOUT_MS 2000
#define SUBVOLS_LOOKED_AT 64u

static void syslog_sink(enum log_level level, const char *line, void *arg)
{
	static const int priorities[] = {
		[LOG_LEVEL_ERROR] = LOG_ERR,
		[LOG_LEVEL_WARN] = LOG_WARNING,
		[LOG_LEVEL_INFO] = LOG_INFO,
		[LOG_LEVEL_DEBUG] = LOG_DEBUG,
	};

	(void)arg;
	syslog(priorities[level], "%s", line);
}

/* ---- the device ------------------------------------------------------------------------------- */

/* Whether the file or device of `st` is the source of a mount that exists now. */
static bool is_mounted_source(const struct stat *st)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	scoped(freep) char *line = NULL;
	size_t cap = 0;
	bool found = false;

	if (mounts == NULL)
		return false;
	while (!found && getline(&line, &cap, mounts) > 0) {
		const char *dash = strstr(line, " - ");
		char source[PATH_MAX];
		struct stat other;

		if (dash == NULL || sscanf(dash + 3, "%*s %4095s", source) != 1 || source[0] != '/' ||
		    stat(source, &other) < 0)
			continue;
		found = S_ISBLK(st->st_mode) ?
			S_ISBLK(other.st_mode) && other.st_rdev == st->st_rdev :
			other.st_dev == st->st_dev && other.st_ino == st->st_ino;
	}
	fclose(mounts);
	return found;
}

/* Busy only because the daemon of the last mount, which is gone, has not ended yet? */
static bool may_become_free(const char *path)
{
	scoped(closep) int fd = -1;
	struct stat st;

	if (stat(path, &st) < 0 || is_mounted_source(&st))
		return false;
	if (S_ISBLK(st.st_mode))
		return true;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static int open_device(const struct mount_options *o, struct device **ret_dev, struct reason *reason)
{
	const struct timespec pause = {.tv_nsec = BUSY_PAUSE_MS * 1000000L};
	unsigned flags = o->fs.rdonly ? DEVICE_READ_ONLY : 0;
	unsigned waited_ms = 0;
	int err = device_open(o->source, flags, ret_dev, reason);

	while (err == -EBUSY && waited_ms < BUSY_WAIT_MS && may_become_free(o->source)) {
		nanosleep(&pause, NULL);
		waited_ms += BUSY_PAUSE_MS;
		err = device_open(o->source, flags, ret_dev, reason);
	}
	if ((err == -EACCES || err == -EPERM || err == -EROFS) && !o->fs.rdonly &&
	    access(o->source, R_OK) == 0)
		reason_set(reason, err, "%s: no permission to write; -o ro mounts it read-only",
			   o->source);
	return err;
}

/* ---- serving ---------------------------------------------------------------------------------- */

struct daemon {
	struct mount_options opt;
	char *point;			/* absolute path of the mount point */
	dev_t below;			/* st_dev of what it was before */
	struct front front;
	struct session_threads *threads;
	int signal_fd;
	int report_fd;			/* to the waiting parent; -1 in the foreground */
};

static int count_or_find_rdonly(struct fs *fs, uint64_t id, void *arg)
{
	unsigned *left = arg;
	struct subvol *sv;

	if (subvol_get(fs, id, &sv) == 0 && sv->rdonly)
		return 1;
	return --*left == 0;
}

/*
 * Opens need to be seen if one may have to be refused: there is a read-only subvolume, or there are
 * too many to look at.
 */
static bool must_keep_opens(struct fs *fs)
{
	unsigned left = SUBVOLS_LOOKED_AT;

	return fs_want_write(fs) == 0 && subvol_for_each(fs, count_or_find_rdonly, &left) != 0;
}

static int front_setup(struct daemon *d, struct fs *fs)
{
	struct front *f = &d->front;
	int err = lookup_table_new(&f->lookups);

	f->fs = fs;
	f->mounted = fs->root_subvol;
	f->keep_opens = must_keep_opens(fs);
	if (err == 0)
		err = late_new(f, &f->late);
	f->ready_fd = eventfd(0, EFD_CLOEXEC);
	f->gone_fd = eventfd(0, EFD_CLOEXEC);
	if (err == 0 && (f->ready_fd < 0 || f->gone_fd < 0))
		err = -errno;
	return err;
}

static int start_threads(struct daemon *d)
{
	int err = fs_start(d->front.fs);

	if (err == 0)
		err = late_start(d->front.late);
	if (err == 0)
		err = session_start(&d->front, &d->threads);
	return err;
}

/* The first of the descriptors that has something to say within timeout_ms (-1: ever); or -1. */
static int wait_any(const int *fds, unsigned count, int timeout_ms)
{
	struct pollfd polls[3];

	for (unsigned i = 0; i < count; i++)
		polls[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	while (poll(polls, count, timeout_ms) < 0) {
		if (errno != EINTR)
			return -1;
	}
	for (unsigned i = 0; i < count; i++) {
		if (polls[i].revents != 0)
			return fds[i];
	}
	return -1;
}

/* The parent may end; nobody reads our standard error from now on. */
static void leave_caller(struct daemon *d)
{
	const char ok = 0;
	int null;

	if (d->opt.foreground)
		return;
	openlog("cowfs-fuse", LOG_PID, LOG_DAEMON);
	log_set_sink(syslog_sink, NULL);
	if (write(d->report_fd, &ok, 1) != 1)
		log_warn("the caller has not waited for the mount");
	close(d->report_fd);
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
	if (chdir("/") < 0)
		log_debug("cannot leave the working directory: %s", strerror(errno));
}

/* Serves until the mount is gone or a signal asks to end. The threads are running. */
static int serve(struct daemon *d, struct reason *reason)
{
	const int first[] = {d->front.ready_fd, d->signal_fd, d->front.gone_fd};
	const int later[] = {d->front.gone_fd, d->signal_fd};
	struct stat st = {.st_dev = d->below};
	int which = wait_any(first, 3, READY_TIMEOUT_MS);

	if (which < 0)
		return reason_set(reason, -EIO, "the kernel did not begin to use the mount");
	if (stat(d->point, &st) < 0)
		log_debug("%s: %s", d->point, strerror(errno));
	if (which != d->signal_fd) {
		if (st.st_dev != d->below)	/* not gone again already */
			mount_tune(st.st_dev);
		leave_caller(d);
		which = wait_any(later, 2, -1);
	}
	if (which == d->signal_fd && st.st_dev != d->below) {
		mount_detach(d->point, st.st_dev);
		(void)wait_any(later, 1, GONE_TIMEOUT_MS);
	}
	return 0;
}

static void front_done(struct front *f)
{
	late_free(f->late);
	lookup_table_free(f->lookups);
	closep(&f->ready_fd);
	closep(&f->gone_fd);
}

static int fail(const struct daemon *d, const struct reason *reason)
{
	size_t len = strlen(d->opt.source);

	if (strncmp(reason->text, d->opt.source, len) == 0 || strstr(reason->text, d->point) != NULL)
		log_error("%s", reason->text);
	else
		log_error("%s: %s", d->opt.source, reason->text);
	return EXIT_NOT_MOUNTED;
}

static int run(struct daemon *d)
{
	struct reason reason = {.text = ""};
	struct front *f = &d->front;
	struct device *dev;
	struct fs *fs;
	int err = open_device(&d->opt, &dev, &reason);

	if (err == 0)
		err = fs_open(dev, &d->opt.fs, &fs, &reason);
	if (err < 0)
		return fail(d, &reason);
	err = front_setup(d, fs);
	if (err == 0)
		err = mount_attach(f, &d->opt, d->point, dev, &reason);
	else
		reason_set(&reason, err, "%s", strerror(-err));
	if (err < 0) {
		fs_crash(fs);		/* the device may be somebody else's by now */
		front_done(f);
		return fail(d, &reason);
	}
	err = start_threads(d);
	if (err < 0)
		reason_set(&reason, err, "cannot start threads: %s", strerror(-err));
	else
		err = serve(d, &reason);

	session_stop(f, d->threads);
	late_stop(f->late);
	(void)front_close(f);
	mount_free(f);
	front_done(f);
	if (err < 0)
		return fail(d, &reason);
	return atomic_load(&f->close_error) < 0 ? EXIT_NOT_WRITTEN : 0;
}

/* ---- starting --------------------------------------------------------------------------------- */

/* In the parent: waits until the daemon has mounted, or has ended with an error that it has told. */
static int wait_for_daemon(pid_t pid, int fd)
{
	int status;
	char byte;
	ssize_t n;

	do
		n = read(fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 1)
		return 0;
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			return EXIT_NOT_MOUNTED;
	}
	if (WIFSIGNALED(status))
		log_error("the daemon was ended by signal %d before it had mounted", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : EXIT_NOT_MOUNTED;
}

/* -1: go on, as the daemon; else the status to exit with. */
static int go_to_background(struct daemon *d)
{
	int pipe_fds[2];
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		log_error("cannot start the daemon: %s", strerror(errno));
		return EXIT_NOT_MOUNTED;
	}
	if (pid > 0) {
		close(pipe_fds[1]);
		return wait_for_daemon(pid, pipe_fds[0]);
	}
	close(pipe_fds[0]);
	d->report_fd = pipe_fds[1];
	setsid();
	return -1;
}

static int take_signals(struct daemon *d)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	d->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return d->signal_fd < 0 ? -errno : 0;
}

static int start(struct daemon *d)
{
	struct reason reason = {.text = ""};
	struct stat st;
	int err = mount_check_point(&d->opt, &reason);

	if (err < 0) {
		log_error("%s", reason.text);
		return EXIT_NOT_MOUNTED;
	}
	d->point = realpath(d->opt.mountpoint, NULL);
	if (d->point == NULL) {
		log_error("mount point %s: %s", d->opt.mountpoint, strerror(errno));
		return EXIT_NOT_MOUNTED;
	}
	if (!d->opt.foreground) {
		int status = go_to_background(d);

		if (status >= 0)
			return status;
	}
	if (stat(d->point, &st) == 0)
		d->below = st.st_dev;
	err = take_signals(d);
	if (err < 0) {
		log_error("signals: %s", strerror(-err));
		return EXIT_NOT_MOUNTED;
	}
	umask(0);
	/* Writing must not wait for memory that only more of our own writing frees; needs privilege. */
	(void)prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	rcu_thread_enter();
	err = run(d);
	rcu_thread_leave();
	return err;
}

int main(int argc, char **argv)
{
	static struct daemon d = {.signal_fd = -1, .report_fd = -1};
	struct reason reason = {.text = ""};
	int status;

	log_set_name("cowfs-fuse");
	mount_options_init(&d.opt, geteuid() == 0);
	if (mount_options_parse(&d.opt, argc, argv, &reason) < 0) {
		log_error("%s", reason.text);
		status = EXIT_USAGE;
	} else if (d.opt.help) {
		fputs(mount_options_usage, stdout);
		status = 0;
	} else if (d.opt.version) {
		printf("cowfs-fuse %s (libfuse %s)\n", COWFS_VERSION, fuse_pkgversion());
		status = 0;
	} else {
		if (d.opt.debug)
			log_set_level(LOG_LEVEL_DEBUG);
		status = start(&d);
	}
	closep(&d.signal_fd);
	free(d.point);
	mount_options_done(&d.opt);
	return status;
}
