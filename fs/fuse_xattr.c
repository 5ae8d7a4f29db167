/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/fuse_xattr.c - extended attributes.
 *
 * All namespaces go to the engine as they are; the kernel checks the rights. Before it writes to a
 * file for the first time the kernel asks for security.capability, which most files do not have: an
 * inode known to have no attributes is answered without looking.
 */
#include <errno.h>
#include <string.h>

#include "fs/fuse_proto.h"
#include "io/util.h"

#define XATTR_MAX_BYTES 65536u
#define CAPS_NAME "security.capability"

int front_kill_caps(struct inode *in)
{
	int err;

	if (in->no_xattrs || !proto_kill_caps())
		return 0;
	err = (int)fs_getxattr(in, CAPS_NAME, NULL, 0);
	if (err >= 0)
		err = fs_removexattr(in, CAPS_NAME);
	return err == -ENODATA || err == -EOPNOTSUPP ? 0 : err;
}

void front_setxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, const char *value,
		    size_t size, int flags)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = front_inode(front_of(req), nodeid, &in);

	if (err == 0)
		err = fs_setxattr(in, name, value, size, flags);
	front_reply_err(req, err);
}

void front_getxattr(fuse_req_t req, fuse_ino_t nodeid, const char *name, size_t size)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = front_inode(front_of(req), nodeid, &in);
	void *buf = NULL;
	ssize_t n;

	if (err == 0 && in->no_xattrs && strcmp(name, CAPS_NAME) == 0)
		err = -ENODATA;
	size = min_size(size, XATTR_MAX_BYTES);
	if (err == 0 && size > 0 && (buf = front_buffer(size)) == NULL)
		err = -ENOMEM;
	n = err < 0 ? err : fs_getxattr(in, name, buf, size);
	if (n < 0)
		front_reply_err(req, (int)n);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

void front_listxattr(fuse_req_t req, fuse_ino_t nodeid, size_t size)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = front_inode(front_of(req), nodeid, &in);
	void *buf = NULL;
	ssize_t n;

	size = min_size(size, XATTR_MAX_BYTES);
	if (err == 0 && size > 0 && (buf = front_buffer(size)) == NULL)
		err = -ENOMEM;
	n = err < 0 ? err : fs_listxattr(in, buf, size);
	if (n < 0)
		front_reply_err(req, (int)n);
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)n);
	else
		fuse_reply_buf(req, buf, (size_t)n);
}

void front_removexattr(fuse_req_t req, fuse_ino_t nodeid, const char *name)
{
	scoped(inode_putp) struct inode *in = NULL;
	int err = front_inode(front_of(req), nodeid, &in);

	if (err == 0)
		err = fs_removexattr(in, name);
	front_reply_err(req, err);
}
