/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/reason.h - why an open or a check failed, in words for the user.
 *
 * Functions that a person's mistake or a damaged disk can make fail take a struct reason beside
 * returning -errno; the program prints it once, where it knows the context. The text is set exactly
 * when an error is returned. Locking: none, a reason belongs to its caller.
 */
#ifndef COWFS_IO_REASON_H
#define COWFS_IO_REASON_H

#define REASON_BYTES 512

struct reason {
	char text[REASON_BYTES];
};

/*
 * Sets the text, printf-style, unless r is NULL; what does not fit is cut. Returns err:
 *
 *	return reason_set(reason, -EINVAL, "%s: not a btrfs filesystem", name);
 */
int reason_set(struct reason *r, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
