#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""super.py IMAGE EDIT... - change the superblocks of a btrfs image, for tests.

  incompat=BIT    set a bit of the incompat flags         } in all mirrors,
  compat_ro=BIT   set a bit of the compat_ro flags        } with a right checksum
  leafsize=N nodesize=N sectorsize=N
  spoil=MIRROR    flip a byte of one mirror (0, 1, 2) and leave its checksum as it was
  clear=MIRROR    write zeroes over one mirror
"""
import struct
import sys

MIRRORS = [64 << 10, 64 << 20, 256 << 30]
SIZE = 4096


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def change(sb, name, value):
    if name in ("incompat", "compat_ro"):
        at = 0xBC if name == "incompat" else 0xB4
        flags, = struct.unpack_from("<Q", sb, at)
        struct.pack_into("<Q", sb, at, flags | 1 << value)
    else:
        at = {"sectorsize": 0x90, "nodesize": 0x94, "leafsize": 0x98}[name]
        struct.pack_into("<I", sb, at, value)


def main():
    with open(sys.argv[1], "r+b") as f:
        f.seek(0, 2)
        mirrors = [at for at in MIRRORS if at + SIZE <= f.tell()]
        for edit in sys.argv[2:]:
            name, value = edit.split("=")
            value = int(value, 0)
            for n, at in enumerate(mirrors):
                if name in ("spoil", "clear") and n != value:
                    continue
                f.seek(at)
                sb = bytearray(f.read(SIZE))
                if name == "clear":
                    sb = bytearray(SIZE)
                elif name == "spoil":
                    sb[0x12B] ^= 0x40
                else:
                    change(sb, name, value)
                    struct.pack_into("<I", sb, 0, crc32c(sb[32:]))
                f.seek(at)
                f.write(sb)


main()
