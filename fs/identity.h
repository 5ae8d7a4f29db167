/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * fs/identity.h - one 64-bit number for each inode of a mount: st_ino, and FUSE's node id.
 *
 * A mount shows several subvolumes, whose inodes have overlapping numbers, under one st_dev. The
 * rule, without any state, so the same after every remount of the same subvolume:
 *
 *   inode I of the mounted subvolume           I itself, if below 2^62
 *   inode I of any other subvolume S           bit 62 set, bits 59..61 a class c, then S in the
 *                                              next W(c) bits and I in the 59 - W(c) lowest, where
 *                                              W = 11 15 19 23 27 31 39 48 and c is the smallest
 *                                              class in which both fit
 *
 *   stand-in for subvolume M in subvolume S    the same as for inode M of S, and bit 63 set; also if
 *                                              S is mounted (inode.h says what a stand-in is)
 *
 * So up to 2047 subvolumes may hold inode numbers below 2^48, the first 2^23 of them below 2^36,
 * and so on. What fits no class, and what is 2^62 or more in the mounted subvolume, has no number:
 * such an inode is refused (-EOVERFLOW).
 *
 *   R1  different inodes have different numbers;
 *   R2  identity_unfold() is the exact inverse, and refuses every number that is nobody's;
 *   R3  no number is 0; bit 63 is clear but for stand-ins.
 *
 * The node id is the same number, but for the root of the mounted subvolume: FUSE wants 1 there.
 * Locking: none. Not here: generations, which the inode item has.
 */
#ifndef COWFS_FS_IDENTITY_H
#define COWFS_FS_IDENTITY_H

#include "fs/ops.h"

#define NODEID_ROOT 1u

/* The st_ino of an inode in a mount of the subvolume `mounted`. -EOVERFLOW. */
int identity_fold(uint64_t mounted, struct ino_id id, uint64_t *ret_st_ino);

/* The node id. -EOVERFLOW. */
int identity_nodeid(uint64_t mounted, struct ino_id id, uint64_t *ret_nodeid);

/* The inode of a node id. -ESTALE: it is nobody's. */
int identity_unfold(uint64_t mounted, uint64_t nodeid, struct ino_id *ret_id);

#endif
