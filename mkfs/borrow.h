/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/borrow.h - a device that stands for another one and leaves it open when it is closed.
 *
 * A volume owns its devices; this lends it one that stays its owner's.
 * Locking: as the device behind it.
 */
#ifndef COWFS_MKFS_BORROW_H
#define COWFS_MKFS_BORROW_H

#include "io/device.h"

/* A stand-in for `inner`, which must live longer. -ENOMEM. */
int device_borrow(struct device *inner, struct device **ret_dev);

#endif
