/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_proto.c - reading and answering requests beside libfuse (see fuse_proto.h).
 *
 * A request is looked at before libfuse gets it, a reply on its way out. Offsets and numbers are
 * those of the kernel's protocol 7.45; every length is checked against what was read.
 */
#include "fs/fuse_proto.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <string.h>
#include <sys/ioctl.h>

#include "fs/txn.h"
#include "io/log.h"
#include "io/util.h"

static _Thread_local bool kill_suidgid;

bool proto_kill_suidgid(void)
{
	return kill_suidgid;
}

#if COWFS_FUSE_PROTO

#define FLAG2_DIRECT_IO_ALLOW_MMAP (1u << 4)	/* bit 36 of all flags; headers may lack it */

/* Which INIT request this thread is answering, and what the kernel offered in it. */
static _Thread_local struct {
	uint64_t unique;
	uint32_t flags, flags2;
} init_request;

static _Thread_local int own_fd = -1;		/* cloned; -1: none */
static _Thread_local int reply_fd = -1;		/* where replies of this thread go; -1: the session's */
static _Atomic bool killpriv_v2;

bool proto_kill_caps(void)
{
	return atomic_load_explicit(&killpriv_v2, memory_order_relaxed);
}

int proto_reply_fd(void)
{
	return reply_fd;
}

void proto_set_reply_fd(int fd)
{
	reply_fd = fd;
}

/* ---- replies ---------------------------------------------------------------------------------- */

/* Adds to the INIT reply in iov what the kernel offered and libfuse knows no name for. */
static void widen_init(struct iovec *iov, int count, struct fuse_init_out *copy)
{
	size_t len;

	if (count < 2 || iov[1].iov_len < offsetof(struct fuse_init_out, flags2) + sizeof(uint32_t))
		return;
	len = min_size(iov[1].iov_len, sizeof(*copy));
	memcpy(copy, iov[1].iov_base, len);
	if (init_request.flags & FUSE_HANDLE_KILLPRIV_V2) {
		copy->flags |= FUSE_HANDLE_KILLPRIV_V2;
		atomic_store_explicit(&killpriv_v2, true, memory_order_relaxed);
	}
	if (init_request.flags & FUSE_INIT_EXT && init_request.flags2 & FLAG2_DIRECT_IO_ALLOW_MMAP) {
		copy->flags |= FUSE_INIT_EXT;
		copy->flags2 |= FLAG2_DIRECT_IO_ALLOW_MMAP;
	}
	iov[1].iov_base = copy;
	iov[1].iov_len = len;
}

static ssize_t hook_writev(int fd, struct iovec *iov, int count, void *userdata)
{
	struct fuse_init_out init_out;
	const struct fuse_out_header *out = iov[0].iov_base;

	(void)userdata;
	if (init_request.unique != 0 && count > 0 && iov[0].iov_len == sizeof(*out) &&
	    out->unique == init_request.unique) {
		init_request.unique = 0;
		widen_init(iov, count, &init_out);
	}
	return writev(reply_fd >= 0 ? reply_fd : fd, iov, count);
}

/* libfuse insists on it; requests are read by proto_serve(). */
static ssize_t hook_read(int fd, void *buf, size_t len, void *userdata)
{
	(void)userdata;
	return read(own_fd >= 0 ? own_fd : fd, buf, len);
}

int proto_attach(struct fuse_session *se)
{
	static const struct fuse_custom_io io = {.writev = hook_writev, .read = hook_read};

	return fuse_session_custom_io(se, &io, fuse_session_fd(se));
}

void proto_init(struct fuse_conn_info *conn)
{
	/* Version 1 would have set-id bits cleared on every write, whoever writes. */
	conn->want &= ~(unsigned)FUSE_CAP_HANDLE_KILLPRIV;
}

void proto_thread_enter(struct fuse_session *se)
{
	uint32_t master = (uint32_t)fuse_session_fd(se);
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0 && ioctl(fd, FUSE_DEV_IOC_CLONE, &master) < 0) {
		close(fd);
		fd = -1;
	}
	own_fd = reply_fd = fd;
}

void proto_thread_leave(void)
{
	if (own_fd >= 0)
		close(own_fd);
	own_fd = reply_fd = -1;
}

/* ---- requests --------------------------------------------------------------------------------- */

/* The 32-bit word at an offset into the arguments; 0 if the request is too short for it. */
static uint32_t arg32(const uint8_t *request, size_t len, size_t offset)
{
	uint32_t v = 0;

	offset += sizeof(struct fuse_in_header);
	if (offset + sizeof(v) <= len)
		memcpy(&v, request + offset, sizeof(v));
	return v;
}

static void note_request(const struct fuse_in_header *in, const uint8_t *request, size_t len)
{
	kill_suidgid = false;
	switch (in->opcode) {
	case FUSE_INIT:
		init_request.unique = in->unique;
		init_request.flags = arg32(request, len, offsetof(struct fuse_init_in, flags));
		init_request.flags2 = arg32(request, len, offsetof(struct fuse_init_in, flags2));
		break;
	case FUSE_WRITE:
		kill_suidgid = arg32(request, len, offsetof(struct fuse_write_in, write_flags)) &
			FUSE_WRITE_KILL_SUIDGID;
		break;
	case FUSE_SETATTR:
		kill_suidgid = arg32(request, len, offsetof(struct fuse_setattr_in, valid)) &
			FATTR_KILL_SUIDGID;
		break;
	}
}

static void answer_syncfs(struct front *f, const struct fuse_in_header *in)
{
	struct fuse_out_header out = {.len = sizeof(out), .unique = in->unique};
	int err = fs_want_write(f->fs) < 0 ? 0 : txn_sync(f->fs);

	out.error = err < 0 ? err : 0;
	if (write(reply_fd >= 0 ? reply_fd : fuse_session_fd(f->se), &out, sizeof(out)) < 0 &&
	    errno != ENOENT)
		log_warn("cannot answer a sync request: %s", strerror(errno));
}

int proto_serve(struct front *f, struct front_thread *t, void *buffer)
{
	int fd = own_fd >= 0 ? own_fd : fuse_session_fd(f->se);
	ssize_t n = read(fd, buffer, PROTO_BUFFER_BYTES);
	struct fuse_in_header in;
	struct fuse_buf buf = {.mem = buffer};

	if (n < 0)
		return errno == EINTR || errno == EAGAIN || errno == ENOENT ? 0 : -errno;
	if ((size_t)n < sizeof(in))
		return n == 0 ? -ENODEV : -EIO;
	memcpy(&in, buffer, sizeof(in));
	if (!front_enter(f, t))
		return 1;		/* the mount is being given up, and its requests with it */
	note_request(&in, buffer, (size_t)n);
	if (in.opcode == FUSE_SYNCFS) {
		answer_syncfs(f, &in);
	} else {
		buf.size = (size_t)n;
		fuse_session_process_buf(f->se, &buf);
	}
	front_leave(t);
	return 1;
}

#else

bool proto_kill_caps(void)
{
	return false;
}

int proto_reply_fd(void)
{
	return -1;
}

void proto_set_reply_fd(int fd)
{
	(void)fd;
}

int proto_attach(struct fuse_session *se)
{
	(void)se;
	return 0;
}

void proto_init(struct fuse_conn_info *conn)
{
	/* The kernel then clears set-id bits by itself. */
	conn->want &= ~(unsigned)FUSE_CAP_HANDLE_KILLPRIV;
}

void proto_thread_enter(struct fuse_session *se)
{
	(void)se;
}

void proto_thread_leave(void)
{
}

int proto_serve(struct front *f, struct front_thread *t, void *buffer)
{
	static _Thread_local struct fuse_buf buf;
	int n;

	(void)buffer;
	n = fuse_session_receive_buf(f->se, &buf);
	if (n == 0)
		return -ENODEV;
	if (n < 0)
		return n == -EINTR || n == -EAGAIN || n == -ENOENT ? 0 : n;
	if (!front_enter(f, t))
		return 1;
	fuse_session_process_buf(f->se, &buf);
	front_leave(t);
	return 1;
}

#endif
