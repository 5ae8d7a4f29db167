/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_front.h - what the files of the FUSE front end share. The only header, with fuse_proto.h,
 * that includes libfuse's; nothing outside fs/fuse_*.c includes it.
 *
 * The front end translates requests into calls of fs/ops.h. It holds no filesystem logic: what it
 * knows of an inode is its number (identity.h) and how often the kernel looked it up (fuse_lookup.h).
 *
 * Invariants:
 *   F1  a node id's lookup count is raised before the reply that tells it, and lowered again when
 *       libfuse says that the reply was not taken (the request was interrupted);
 *   F2  each request is answered exactly once, by the thread that read it, or by the late thread on
 *       the descriptor that it was read from;
 *   F3  nothing that invalidates the kernel's caches is called from a request's handler: the kernel
 *       may want other requests answered first (fuse_late.h does it);
 *   F4  between front_enter() and front_leave() f->fs stays; after front_close() it is NULL.
 *
 * Locking: handlers hold no lock when they call into the engine or reply.
 */
#ifndef COWFS_FS_FUSE_FRONT_H
#define COWFS_FS_FUSE_FRONT_H

#define FUSE_USE_VERSION 312
#include <fuse3/fuse_lowlevel.h>

#include "fs/fuse_lookup.h"
#include "fs/identity.h"
#include "fs/ops.h"
#include "fs/options.h"

/* Names, attributes and data never change but through the kernel: it may keep them a day. */
#define CACHE_TIMEOUT_S 86400.0

#define MAX_WRITE_BYTES (1u << 20)
#define WORKERS_MAX 32u

struct late;

/* A thread that handles requests; each on cache lines of its own. */
struct front_thread {
	_Atomic bool busy;		/* between front_enter() and front_leave() */
	_Atomic bool used;
} __attribute__((aligned(64)));

struct front {
	struct fs *fs;			/* NULL: closed */
	struct fuse_session *se;
	struct lookup_table *lookups;
	struct late *late;
	uint64_t mounted;		/* id of the subvolume that is the mount's root */
	bool keep_opens;		/* opens must be seen, to refuse some of them */
	int ready_fd;			/* eventfd: written once the kernel has been answered */
	int gone_fd;			/* eventfd: written when a worker found the mount gone */
	_Atomic bool closing;		/* no request is handled any more */
	_Atomic bool stopping;		/* workers end */
	_Atomic bool closed;
	_Atomic int close_error;	/* of the last commit */
	struct front_thread threads[WORKERS_MAX + 1];
};

extern const struct fuse_lowlevel_ops front_ops;

static inline struct front *front_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static inline struct cred front_cred(fuse_req_t req)
{
	const struct fuse_ctx *ctx = fuse_req_ctx(req);

	return (struct cred){.uid = ctx->uid, .gid = ctx->gid};
}

/* ---- fuse_ops.c: inodes and replies ----------------------------------------------------------- */

/* A reference to the inode of a node id. -ESTALE: there is none (any more); else inode_get()'s. */
int front_inode(struct front *f, fuse_ino_t nodeid, struct inode **ret_inode);

/* The attributes, with the folded number. -EOVERFLOW: it has none. */
int front_getattr(struct front *f, struct inode *in, struct stat *ret_st);

/* What LOOKUP and READDIRPLUS tell of an inode. Does not count. */
int front_fill_entry(struct front *f, struct inode *in, struct fuse_entry_param *ret_entry);

/* Counts one lookup and replies with the inode's entry, or with the error. */
void front_reply_entry(fuse_req_t req, struct inode *in);

/* Replies with err (0 or negative). */
void front_reply_err(fuse_req_t req, int err);

/* `count` lookups of nodeid less; a nameless inode that nobody knows any more is deleted. */
void front_forget(struct front *f, fuse_ino_t nodeid, uint64_t count);

/*
 * Flushes, commits and closes the filesystem, once; later calls return the same. No request is
 * handled from then on; waits for those that are. 0, or the error of the last commit.
 */
int front_close(struct front *f);

/*
 * Before a change of data, size or owner: file capabilities go, as in the kernel's own filesystems,
 * if that was taken over from the kernel. Cheap for inodes without extended attributes.
 */
int front_kill_caps(struct inode *in);

/* ---- fuse_dir.c, fuse_data.c, fuse_xattr.c: handlers ------------------------------------------ */

void front_opendir(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi);
void front_readdir(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t off,
		   struct fuse_file_info *fi);
void front_readdirplus(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t off,
		       struct fuse_file_info *fi);
void front_fsyncdir(fuse_req_t req, fuse_ino_t nodeid, int datasync, struct fuse_file_info *fi);

void front_open(fuse_req_t req, fuse_ino_t nodeid, struct fuse_file_info *fi);
void front_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		  struct fuse_file_info *fi);
void front_read(fuse_req_t req, fuse_ino_t nodeid, size_t size, off_t off,
		struct fuse_file_info *fi);
void front_write(fuse_req_t req, fuse_ino_t nodeid, const char *buf, size_t size, off_t off,
		 struct fuse_file_info *fi);
void front_fsync(fuse_req_t req, fuse_ino_t nodeid, int datasync, struct fuse_file_info *fi);
void front_lseek(fuse_req_t req, fuse_ino_t nodeid, off_t off, int whence,
		 struct fuse_file_info *fi);

void front_setxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, const char *value,
		    size_t size, int flags);
void front_getxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, size_t size);
void front_listxattr(fuse_req_t req, fuse_ino_t nodeid, size_t size);
void front_removexattr(fuse_req_t req, fuse_ino_t nodeid, const char *name);

/* A buffer of the calling thread, of at least `bytes`; the same one at the next call. NULL. */
void *front_buffer(size_t bytes);

/* ---- fuse_session.c: threads ------------------------------------------------------------------ */

/* Enters thread slot `t` if the filesystem is open; false: it is closed or closing. */
bool front_enter(struct front *f, struct front_thread *t);
void front_leave(struct front_thread *t);
/* Waits until no slot but the calling thread's is between enter and leave. f->closing is set. */
void front_quiesce(struct front *f);

/*
 * Starts the workers on the mounted session. They end when the mount goes away, or by
 * session_stop(). They inherit the caller's signal mask.
 */
struct session_threads;
int session_start(struct front *f, struct session_threads **ret_threads);
/* Ends the workers, also those that wait for requests, and frees all. */
void session_stop(struct front *f, struct session_threads *threads);

#endif
