/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_proto.h - the FUSE protocol where libfuse (3.14) does not reach.
 *
 * With -Dfuse_proto=enabled (needs libfuse 3.13 for its I/O hooks):
 *   - each worker reads from and replies on a descriptor of its own, cloned from the session's;
 *   - flags are added to the INIT reply if the kernel offers them: HANDLE_KILLPRIV_V2 (ends the
 *     kernel's hidden request for security.capability before each write; clearing set-id bits and
 *     file capabilities becomes our duty) and DIRECT_IO_ALLOW_MMAP (files that bypass the page
 *     cache can be mapped shared);
 *   - what a request says about set-id bits, and libfuse hides, is kept for its handler;
 *   - SYNCFS (sent on fuseblk mounts) is answered by a commit.
 * Without it all workers share the session's descriptor, the kernel clears set-id bits itself, and
 * the above is not asked for.
 *
 * Locking: all state is per thread. Not here: what handlers do.
 */
#ifndef COWFS_FS_FUSE_PROTO_H
#define COWFS_FS_FUSE_PROTO_H

#include "fs/fuse_front.h"

/* Bytes that a buffer for requests must have. */
#define PROTO_BUFFER_BYTES (MAX_WRITE_BYTES + 4096u)

/* Takes over the I/O of a mounted session. */
int proto_attach(struct fuse_session *se);

/* The wishes for INIT that libfuse knows no names for; from its init handler. */
void proto_init(struct fuse_conn_info *conn);

/* Opens the calling thread's own descriptor; without it the session's is used. */
void proto_thread_enter(struct fuse_session *se);
void proto_thread_leave(void);

/*
 * Reads one request into `buffer` (PROTO_BUFFER_BYTES) and handles it, in one front_enter() of t.
 * 1; 0 when nothing came (interrupted by a signal); -ENODEV: the mount is gone; other errors.
 */
int proto_serve(struct front *f, struct front_thread *t, void *buffer);

/* The request asks for set-user-id and set-group-id bits to be cleared. Valid while it is handled. */
bool proto_kill_suidgid(void);

/* Whether file capabilities are ours to clear at this request. */
bool proto_kill_caps(void);

/* The descriptor that the thread replies on, and to reply on another's for some time. */
int proto_reply_fd(void);
void proto_set_reply_fd(int fd);

#endif
