/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/reason.c - why something failed, in words (see reason.h).
 */
#include "io/reason.h"

#include <stdarg.h>
#include <stdio.h>

int reason_set(struct reason *r, int err, const char *fmt, ...)
{
	if (r != NULL) {
		va_list ap;

		va_start(ap, fmt);
		vsnprintf(r->text, sizeof(r->text), fmt, ap);
		va_end(ap);
	}
	return err;
}
