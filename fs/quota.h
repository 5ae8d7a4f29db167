/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/quota.h - quota groups, which cowfs does not count.
 *
 * A filesystem with quotas switched on is marked so that the kernel counts anew after cowfs wrote.
 */
#ifndef COWFS_FS_QUOTA_H
#define COWFS_FS_QUOTA_H

#include "fs/fs.h"

/*
 * Sets INCONSISTENT in the quota status item, if there is one and it is not set yet. Outside of any
 * transaction.
 */
int quota_mark_inconsistent(struct fs *fs);

#endif
