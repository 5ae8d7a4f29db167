#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""fill.py DIR small|big [SIZE] - write to DIR until it is full.

small: files of SIZE (1500) bytes, each closed; big: one file. Every error must be ENOSPC, from
whichever call it comes (open, write, close, fsync). What was closed without error is said to be
there: its number, or the size, is printed after the whole was synced; after that everything is read
again, and a file must hold what its size says (all, or for the one that met the end a part).
"""
import errno
import os
import sys

top, kind = sys.argv[1], sys.argv[2]
size = int(sys.argv[3]) if len(sys.argv) > 3 else 1500


def full(f, *args):
    """Call f; whether it met the end."""
    try:
        f(*args)
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise SystemExit(f"{f.__name__}: {errno.errorcode[e.errno]}, not ENOSPC")
        return True
    return False


def content(n, length):
    return (b"%08d" % n) * (length // 8) + b"x" * (length % 8)


def small():
    done, misses, n = [], 0, 0
    while misses < 20:      # the end may come early for one and not for the next
        path = f"{top}/d{n % 10}/{n}"
        n += 1
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except OSError as e:
            if e.errno != errno.ENOSPC:
                raise SystemExit(f"open: {errno.errorcode[e.errno]}, not ENOSPC")
            misses += 1
            continue
        bad = full(os.write, fd, content(n - 1, size))
        bad = full(os.close, fd) or bad
        if bad:
            misses += 1
        else:
            done.append((path, n - 1))
    failed_sync = False
    for path, n in done[-200:]:
        fd = os.open(path, os.O_RDONLY)
        failed_sync = full(os.fsync, fd) or failed_sync
        os.close(fd)
    return done, failed_sync


def big():
    path = f"{top}/big"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
    at = 0
    while True:
        try:
            wrote = os.write(fd, content(at >> 16, 65536))
        except OSError as e:
            if e.errno != errno.ENOSPC:
                raise SystemExit(f"write: {errno.errorcode[e.errno]}, not ENOSPC")
            break
        at += wrote
        if wrote < 65536:
            break
    failed_sync = full(os.fsync, fd)
    failed_sync = full(os.close, fd) or failed_sync
    return at, failed_sync


def main():
    if kind == "big":
        at, failed_sync = big()
        print(at)
        return
    done, failed_sync = small()
    wrong = 0
    for path, n in done:
        try:
            with open(path, "rb") as f:
                data = f.read()
        except OSError as e:
            raise SystemExit(f"{path}: {errno.errorcode[e.errno]} on reading again")
        if data != content(n, size):
            wrong += 1
            if data != content(n, size)[:len(data)]:
                raise SystemExit(f"{path} holds bytes that nobody wrote")
    if wrong and not failed_sync:
        raise SystemExit(f"{wrong} files are short, and no close or fsync said so")
    print(len(done) - wrong)


main()
