#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""sample_tree.py DIR [SEED] - fill DIR with a few hundred files, folders and links of many kinds.

The same seed gives the same tree, times included. Device nodes, owners and attributes outside
"user." are made by root only.
"""
import os
import random
import socket
import stat
import sys


def put(path, data, r):
    with open(path, "wb") as f:
        f.write(data)
    when = r.randrange(10**18, 2 * 10**18)
    os.utime(path, ns=(when, when))


def text(r, size):
    words = [b"tree", b"leaf", b"node", b"extent", b"chunk", b"key", b"item", b"root", b"\n"]
    out = b" ".join(r.choice(words) for _ in range(size // 4 + 1))
    return out[:size]


def sizes(top, r):
    os.mkdir(top)
    for size in [0, 1, 100, 2047, 2048, 2049, 4095, 4096, 4097, 8192, 65535, 65537, 300000, 2000000]:
        put(f"{top}/noise{size}", r.randbytes(size), r)
        put(f"{top}/text{size}", text(r, size), r)
    with open(f"{top}/sparse", "wb") as f:
        for at in [0, 5000, 1 << 20, 10 << 20]:
            f.seek(at)
            f.write(r.randbytes(3000))
        f.truncate((20 << 20) + 17)


def names(top, r):
    os.mkdir(top)
    odd = [b"a", b"x" * 255, b"with space", b"new\nline", b"\xff\xfe\x01", b"%41", "\u00fcml\u00e4ut".encode(), b"-n", b"*"]
    for name in odd:
        put(top.encode() + b"/" + name, name, r)
    for i in range(300):
        put(f"{top}/file-{i:04}-{r.randrange(10**9)}", r.randbytes(r.randrange(0, 3000)), r)
    for i in range(0, 300, 3):
        victim = sorted(n for n in os.listdir(top) if n.startswith(f"file-{i:04}"))[0]
        os.unlink(f"{top}/{victim}")


def links(top, r):
    os.mkdir(top)
    put(f"{top}/one", b"one file, many names", r)
    for i in range(120):
        os.link(f"{top}/one", f"{top}/{'n' * (i + 1)}-{i}")
    os.symlink("one", f"{top}/short")
    os.symlink("x" * 1000, f"{top}/long")
    os.symlink("nowhere", f"{top}/dangling")


def kinds(top, r):
    os.mkdir(top)
    os.mkfifo(f"{top}/fifo", 0o640)
    here = os.getcwd()
    os.chdir(top)
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("socket")
    os.chdir(here)
    for mode in [0o000, 0o400, 0o644, 0o755, 0o1777, 0o2755, 0o4755]:
        put(f"{top}/mode{mode:04o}", b"m", r)
        os.chmod(f"{top}/mode{mode:04o}", mode)
    if os.geteuid() == 0:
        os.mknod(f"{top}/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.mknod(f"{top}/block", stat.S_IFBLK | 0o600, os.makedev(300, 70000))
        put(f"{top}/owner", b"o", r)
        os.chown(f"{top}/owner", 1234, 4000000000)


def xattrs(top, r):
    os.mkdir(top)
    for i in range(20):
        path = f"{top}/{i}"
        put(path, b"", r)
        for j in range(i):
            os.setxattr(path, f"user.attribute{j}", r.randbytes(r.choice([0, 1, 50, 1000])))
    if os.geteuid() == 0:
        os.setxattr(top, "trusted.here", b"only root sees this")


def deep(top, r):
    for i in range(40):
        top = f"{top}/{'d' * (i % 5 + 1)}"
        os.mkdir(top)
        put(f"{top}/f", b"%d" % i, r)


def main():
    top = sys.argv[1]
    r = random.Random(sys.argv[2] if len(sys.argv) > 2 else "sample")
    sizes(f"{top}/sizes", r)
    names(f"{top}/names", r)
    links(f"{top}/links", r)
    kinds(f"{top}/kinds", r)
    xattrs(f"{top}/xattrs", r)
    os.mkdir(f"{top}/deep")
    deep(f"{top}/deep", r)


main()
