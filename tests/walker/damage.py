#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""damage.py IMAGE TREE TYPE WHAT OFFSET SIZE [COUNT] - change one item of an image, for tests.

  TREE   id of a tree (1 root, 2 extent, 3 chunk, 4 device, 5 files, 7 checksums, 10 free space)
  TYPE   type of the item; the first one of that type in the tree is taken, or number COUNT (from 0)
  WHAT   data or key: what OFFSET counts in
  SIZE   bytes of the little-endian number there, to which 1 is added; or "-": the item is deleted by
         making its type 250, which no tree has there

Checksums (crc32c) of all copies of the block are made right again.
"""
import struct
import sys

TABLE = []
for n in range(256):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


class Image:
    def __init__(self, f):
        self.f = f
        f.seek(65536)
        sb = f.read(4096)
        self.root, self.chunk_root = struct.unpack_from("<QQ", sb, 0x50)
        self.node, self.leaf, _, array = struct.unpack_from("<IIII", sb, 0x94)
        self.root_level, self.chunk_level = sb[0xC6], sb[0xC7]
        self.chunks = []
        at = 811
        while at < 811 + array:
            start, = struct.unpack_from("<Q", sb, at + 9)
            at += 17
            at += self.add_chunk(start, sb[at:at + 48 + 32 * 4])
        for (_, kind, start), data, _ in self.items(self.chunk_root, self.chunk_level):
            if kind == 228:
                self.add_chunk(start, data)

    def add_chunk(self, start, data):
        length, = struct.unpack_from("<Q", data)
        stripes, = struct.unpack_from("<H", data, 44)
        places = [struct.unpack_from("<Q", data, 48 + 32 * i + 8)[0] for i in range(stripes)]
        self.chunks.append((start, length, places))
        return 48 + 32 * stripes

    def places(self, logical):
        for start, length, places in self.chunks:
            if start <= logical < start + length:
                return [p + logical - start for p in places]
        raise SystemExit(f"no chunk at {logical}")

    def read(self, logical, level):
        self.f.seek(self.places(logical)[0])
        return bytearray(self.f.read(self.node if level else self.leaf))

    def write(self, logical, block):
        struct.pack_into("<I", block, 0, crc32c(block[32:]))
        for place in self.places(logical):
            self.f.seek(place)
            self.f.write(block)

    def items(self, logical, level):
        """(key, data, (block address, item head, data position)) of all items, in order"""
        block = self.read(logical, level)
        for i in range(struct.unpack_from("<I", block, 96)[0]):
            if level:
                yield from self.items(struct.unpack_from("<Q", block, 101 + 33 * i + 17)[0], level - 1)
                continue
            head = 101 + 25 * i
            key = struct.unpack_from("<QBQ", block, head)
            offset, size = struct.unpack_from("<II", block, head + 17)
            yield key, block[101 + offset:101 + offset + size], (logical, head, 101 + offset)

    def tree(self, number):
        if number == 1:
            return self.root, self.root_level
        if number == 3:
            return self.chunk_root, self.chunk_level
        for (objectid, kind, _), data, _ in self.items(self.root, self.root_level):
            if objectid == number and kind == 132:
                return struct.unpack_from("<Q", data, 176)[0], data[238]
        raise SystemExit(f"no tree {number}")


def main():
    path, tree, kind, what, offset, size = sys.argv[1:7]
    count = int(sys.argv[7]) if len(sys.argv) > 7 else 0
    with open(path, "r+b") as f:
        image = Image(f)
        found = [at for key, _, at in image.items(*image.tree(int(tree))) if key[1] == int(kind)]
        if count >= len(found):
            raise SystemExit(f"tree {tree} has {len(found)} items of type {kind}")
        logical, head, data = found[count]
        block = image.read(logical, 0)
        at = (data if what == "data" else head) + int(offset)
        if size == "-":
            block[head + 8] = 250
        else:
            old = int.from_bytes(block[at:at + int(size)], "little")
            new = (old + 1) % (1 << 8 * int(size))
            block[at:at + int(size)] = new.to_bytes(int(size), "little")
        image.write(logical, block)


main()
