/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/format.h - the btrfs on-disk format (version 1), byte for byte.
 *
 * Integers are those of io/disk_int.h. For each field there is a getter disk_NAME_FIELD(p) and
 * a setter disk_NAME_set_FIELD(p, value), both in host order; uuids, names and nested structures are
 * reached directly. All structures have an alignment of 1: a pointer into any buffer will do.
 *
 * A file system is an array of logical addresses. The chunk tree maps them to stripes on devices; the
 * superblock holds enough of that map (sys_chunk_array) to read the chunk tree itself. Every tree
 * block begins with a disk_header; a leaf goes on with disk_items (their data packed from the end of
 * the block), an inner node with disk_key_ptrs.
 *
 * Invariants: each structure has the size and the last offset asserted below it.
 * Locking: none, these are bytes.
 * Not here: keys in host order (io/key.h), checks of what was read (btree/, io/super.h,
 * io/chunk_map.h).
 */
#ifndef COWFS_IO_FORMAT_H
#define COWFS_IO_FORMAT_H

#include "io/disk_int.h"

/*
 * Constants of the format.
 */

#define UUID_BYTES 16u
#define CSUM_MAX_BYTES 32u
#define LABEL_MAX_BYTES 256u		/* with the terminating zero */
#define NAME_MAX_BYTES 255u
#define XATTR_NAME_MAX_BYTES 255u
#define XATTR_VALUE_MAX_BYTES 65536u	/* the VFS's limit; what fits a leaf is less */
#define LINK_MAX_COUNT 65535u
#define LEVEL_COUNT 8u			/* levels 0 (leaf) .. 7 */
#define SECTORSIZE_MIN 4096u
#define NODESIZE_MIN 4096u
#define BLOCKSIZE_MAX 65536u		/* of a sector, a leaf, a node */
#define STRIPE_LEN_BYTES 65536u		/* the only stripe length there is */
#define COMPRESSED_MAX_BYTES 131072u	/* of file data in one compressed extent */
#define EXTENT_MAX_BYTES (128u << 20)	/* of one data extent */
#define DEVICE_RESERVED_BYTES (1u << 20)	/* no dev extent begins below this */
#define DIR_INDEX_FIRST 2u		/* 0 and 1 stand for "." and ".." */

/* Superblock. */
#define SUPER_MAGIC 0x4d5f53665248425fULL	/* "_BHRfS_M" */
#define SUPER_BYTES 4096u
#define SUPER_MIRROR_COUNT 3u
#define SUPER_OFFSET_0 (64ULL << 10)
#define SUPER_OFFSET_1 (64ULL << 20)
#define SUPER_OFFSET_2 (256ULL << 30)
#define SYS_CHUNK_ARRAY_BYTES 2048u
#define ROOT_BACKUP_COUNT 4u

static inline uint64_t super_offset(unsigned mirror)
{
	return mirror == 0 ? SUPER_OFFSET_0 : mirror == 1 ? SUPER_OFFSET_1 : SUPER_OFFSET_2;
}

/* Checksum algorithms (disk_super.csum_type). */
enum csum_type {
	CSUM_CRC32C = 0,
	CSUM_XXHASH64 = 1,
	CSUM_SHA256 = 2,
	CSUM_BLAKE2B = 3,
	CSUM_TYPE_COUNT
};

/* Flags in tree block headers and in the superblock. */
#define HEADER_WRITTEN (1ULL << 0)
#define HEADER_RELOC (1ULL << 1)
#define HEADER_BACKREF_REV_SHIFT 56
#define HEADER_BACKREF_REV_MASK (0xffULL << HEADER_BACKREF_REV_SHIFT)
#define BACKREF_REV_OLD 0u
#define BACKREF_REV_MIXED 1u
#define SUPER_FLAG_ERROR (1ULL << 2)
#define SUPER_FLAG_SEEDING (1ULL << 32)
#define SUPER_FLAG_METADUMP (1ULL << 33)
#define SUPER_FLAG_METADUMP_V2 (1ULL << 34)
#define SUPER_FLAG_CHANGING_FSID (1ULL << 35)
#define SUPER_FLAG_CHANGING_FSID_V2 (1ULL << 36)
#define SUPER_FLAG_CHANGING_BG_TREE (1ULL << 38)
#define SUPER_FLAG_CHANGING_DATA_CSUM (1ULL << 39)
#define SUPER_FLAG_CHANGING_META_CSUM (1ULL << 40)

/* Features that a reader must know. */
#define INCOMPAT_MIXED_BACKREF (1ULL << 0)
#define INCOMPAT_DEFAULT_SUBVOL (1ULL << 1)
#define INCOMPAT_MIXED_GROUPS (1ULL << 2)
#define INCOMPAT_COMPRESS_LZO (1ULL << 3)
#define INCOMPAT_COMPRESS_ZSTD (1ULL << 4)
#define INCOMPAT_BIG_METADATA (1ULL << 5)
#define INCOMPAT_EXTENDED_IREF (1ULL << 6)
#define INCOMPAT_RAID56 (1ULL << 7)
#define INCOMPAT_SKINNY_METADATA (1ULL << 8)
#define INCOMPAT_NO_HOLES (1ULL << 9)
#define INCOMPAT_METADATA_UUID (1ULL << 10)
#define INCOMPAT_RAID1C34 (1ULL << 11)
#define INCOMPAT_ZONED (1ULL << 12)
#define INCOMPAT_EXTENT_TREE_V2 (1ULL << 13)
#define INCOMPAT_RAID_STRIPE_TREE (1ULL << 14)
#define INCOMPAT_SIMPLE_QUOTA (1ULL << 16)
/* cowfs's own: leafsize differs from nodesize. Set exactly then. */
#define INCOMPAT_COWFS_LEAFSIZE (1ULL << 62)

/* Features that a writer must know. */
#define COMPAT_RO_FREE_SPACE_TREE (1ULL << 0)
#define COMPAT_RO_FREE_SPACE_TREE_VALID (1ULL << 1)
#define COMPAT_RO_VERITY (1ULL << 2)
#define COMPAT_RO_BLOCK_GROUP_TREE (1ULL << 3)

/* Object ids: trees, */
#define OBJ_ROOT_TREE 1ULL
#define OBJ_EXTENT_TREE 2ULL
#define OBJ_CHUNK_TREE 3ULL
#define OBJ_DEV_TREE 4ULL
#define OBJ_FS_TREE 5ULL
#define OBJ_ROOT_TREE_DIR 6ULL
#define OBJ_CSUM_TREE 7ULL
#define OBJ_QUOTA_TREE 8ULL
#define OBJ_UUID_TREE 9ULL
#define OBJ_FREE_SPACE_TREE 10ULL
#define OBJ_BLOCK_GROUP_TREE 11ULL
#define OBJ_RAID_STRIPE_TREE 12ULL
#define OBJ_REMAP_TREE 13ULL
#define OBJ_TREE_LOG ((uint64_t)-6)
#define OBJ_TREE_LOG_FIXUP ((uint64_t)-7)
#define OBJ_TREE_RELOC ((uint64_t)-8)
#define OBJ_DATA_RELOC_TREE ((uint64_t)-9)
/* and what keys within one tree begin with. */
#define OBJ_DEV_STATS 0ULL
#define OBJ_DEV_ITEMS 1ULL		/* chunk tree: device items */
#define OBJ_EMPTY_SUBVOL_DIR 2ULL	/* inode shown where a snapshot's nested subvolume was */
#define OBJ_BALANCE ((uint64_t)-4)
#define OBJ_ORPHAN ((uint64_t)-5)
#define OBJ_EXTENT_CSUM ((uint64_t)-10)
#define OBJ_FREE_SPACE ((uint64_t)-11)	/* v1 space cache headers in the root tree */
#define OBJ_FREE_INO ((uint64_t)-12)
#define OBJ_CSUM_CHANGE ((uint64_t)-13)
#define OBJ_MULTIPLE ((uint64_t)-255)
#define OBJ_FIRST_FREE 256ULL		/* first inode, first subvolume */
#define OBJ_LAST_FREE ((uint64_t)-256)
#define OBJ_FIRST_CHUNK_TREE 256ULL	/* the objectid of all chunk items */

/* Item types (key.type). */
#define KEY_INODE_ITEM 1u
#define KEY_INODE_REF 12u
#define KEY_INODE_EXTREF 13u
#define KEY_XATTR_ITEM 24u
#define KEY_VERITY_DESC_ITEM 36u
#define KEY_VERITY_MERKLE_ITEM 37u
#define KEY_ORPHAN_ITEM 48u
#define KEY_DIR_LOG_ITEM 60u
#define KEY_DIR_LOG_INDEX 72u
#define KEY_DIR_ITEM 84u
#define KEY_DIR_INDEX 96u
#define KEY_EXTENT_DATA 108u
#define KEY_EXTENT_CSUM 128u
#define KEY_ROOT_ITEM 132u
#define KEY_ROOT_BACKREF 144u
#define KEY_ROOT_REF 156u
#define KEY_EXTENT_ITEM 168u
#define KEY_METADATA_ITEM 169u
#define KEY_EXTENT_OWNER_REF 172u
#define KEY_TREE_BLOCK_REF 176u
#define KEY_EXTENT_DATA_REF 178u
#define KEY_EXTENT_REF_V0 180u
#define KEY_SHARED_BLOCK_REF 182u
#define KEY_SHARED_DATA_REF 184u
#define KEY_BLOCK_GROUP_ITEM 192u
#define KEY_FREE_SPACE_INFO 198u
#define KEY_FREE_SPACE_EXTENT 199u
#define KEY_FREE_SPACE_BITMAP 200u
#define KEY_DEV_EXTENT 204u
#define KEY_DEV_ITEM 216u
#define KEY_CHUNK_ITEM 228u
#define KEY_RAID_STRIPE 230u
#define KEY_QGROUP_STATUS 240u
#define KEY_QGROUP_INFO 242u
#define KEY_QGROUP_LIMIT 244u
#define KEY_QGROUP_RELATION 246u
#define KEY_TEMPORARY_ITEM 248u		/* (OBJ_BALANCE, this, 0): disk_balance_item */
#define KEY_PERSISTENT_ITEM 249u	/* (OBJ_DEV_STATS, this, devid): disk_dev_stats */
#define KEY_DEV_REPLACE 250u
#define KEY_UUID_SUBVOL 251u
#define KEY_UUID_RECEIVED_SUBVOL 252u
#define KEY_STRING_ITEM 253u

/* Block group types and profiles (disk_chunk.type, disk_block_group_item.flags). No profile: SINGLE. */
#define BG_DATA (1ULL << 0)
#define BG_SYSTEM (1ULL << 1)
#define BG_METADATA (1ULL << 2)
#define BG_RAID0 (1ULL << 3)
#define BG_RAID1 (1ULL << 4)
#define BG_DUP (1ULL << 5)
#define BG_RAID10 (1ULL << 6)
#define BG_RAID5 (1ULL << 7)
#define BG_RAID6 (1ULL << 8)
#define BG_RAID1C3 (1ULL << 9)
#define BG_RAID1C4 (1ULL << 10)
#define BG_TYPE_MASK (BG_DATA | BG_SYSTEM | BG_METADATA)
#define BG_PROFILE_MASK (BG_RAID0 | BG_RAID1 | BG_DUP | BG_RAID10 | BG_RAID5 | BG_RAID6 | \
			 BG_RAID1C3 | BG_RAID1C4)
#define BG_AVAIL_SINGLE (1ULL << 48)	/* in balance filters only */

/* Inode flags (disk_inode_item.flags); the upper half holds flags old kernels may ignore. */
#define INODE_NODATASUM (1ULL << 0)
#define INODE_NODATACOW (1ULL << 1)
#define INODE_READONLY (1ULL << 2)
#define INODE_NOCOMPRESS (1ULL << 3)
#define INODE_PREALLOC (1ULL << 4)
#define INODE_SYNC (1ULL << 5)
#define INODE_IMMUTABLE (1ULL << 6)
#define INODE_APPEND (1ULL << 7)
#define INODE_NODUMP (1ULL << 8)
#define INODE_NOATIME (1ULL << 9)
#define INODE_DIRSYNC (1ULL << 10)
#define INODE_COMPRESS (1ULL << 11)
#define INODE_ROOT_ITEM_INIT (1ULL << 31)	/* in the inode embedded in a root item */
#define INODE_RO_VERITY (1ULL << 32)

/* Root item flags. */
#define ROOT_SUBVOL_RDONLY (1ULL << 0)
#define ROOT_SUBVOL_DEAD (1ULL << 48)

/* File types in directory items. */
enum disk_file_type {
	FT_UNKNOWN = 0,
	FT_REG_FILE = 1,
	FT_DIR = 2,
	FT_CHRDEV = 3,
	FT_BLKDEV = 4,
	FT_FIFO = 5,
	FT_SOCK = 6,
	FT_SYMLINK = 7,
	FT_XATTR = 8,
	FT_COUNT
};
#define FT_ENCRYPTED 0x80u

/* disk_file_extent.type and .compression. */
enum file_extent_type {
	FILE_EXTENT_INLINE = 0,
	FILE_EXTENT_REG = 1,
	FILE_EXTENT_PREALLOC = 2,
	FILE_EXTENT_TYPE_COUNT
};

enum compress_type {
	COMPRESS_NONE = 0,
	COMPRESS_ZLIB = 1,
	COMPRESS_LZO = 2,
	COMPRESS_ZSTD = 3,
	COMPRESS_TYPE_COUNT
};

/* disk_extent_item.flags. */
#define EXTENT_FLAG_DATA (1ULL << 0)
#define EXTENT_FLAG_TREE_BLOCK (1ULL << 1)
#define EXTENT_FLAG_FULL_BACKREF (1ULL << 8)

/* Free space tree: one bit of a bitmap stands for one sector. */
#define FREE_SPACE_USING_BITMAPS (1u << 0)
#define FREE_SPACE_BITMAP_BYTES 256u
#define FREE_SPACE_BITMAP_BITS (FREE_SPACE_BITMAP_BYTES * 8)

/* v1 space cache entries. */
#define FREE_SPACE_EXTENT 1u
#define FREE_SPACE_BITMAP 2u

/*
 * Tree blocks.
 */

struct disk_key {
	disk64 objectid;
	disk8 type;
	disk64 offset;
};
DISK_FIELD(disk_key, objectid, 64)
DISK_FIELD(disk_key, type, 8)
DISK_FIELD(disk_key, offset, 64)
DISK_SIZE(disk_key, 17, offset, 9)

struct disk_header {
	uint8_t csum[CSUM_MAX_BYTES];		/* of all bytes after this field */
	uint8_t fsid[UUID_BYTES];		/* metadata_uuid where that feature is on */
	disk64 bytenr;
	disk64 flags;
	uint8_t chunk_tree_uuid[UUID_BYTES];
	disk64 generation;
	disk64 owner;				/* tree that made the block */
	disk32 nritems;
	disk8 level;
};
DISK_FIELD(disk_header, bytenr, 64)
DISK_FIELD(disk_header, flags, 64)
DISK_FIELD(disk_header, generation, 64)
DISK_FIELD(disk_header, owner, 64)
DISK_FIELD(disk_header, nritems, 32)
DISK_FIELD(disk_header, level, 8)
DISK_SIZE(disk_header, 101, level, 100)

/* Leaf: offset counts from the end of the header. */
struct disk_item {
	struct disk_key key;
	disk32 offset;
	disk32 size;
};
DISK_FIELD(disk_item, offset, 32)
DISK_FIELD(disk_item, size, 32)
DISK_SIZE(disk_item, 25, size, 21)

struct disk_key_ptr {
	struct disk_key key;
	disk64 blockptr;
	disk64 generation;
};
DISK_FIELD(disk_key_ptr, blockptr, 64)
DISK_FIELD(disk_key_ptr, generation, 64)
DISK_SIZE(disk_key_ptr, 33, generation, 25)

/*
 * Devices, chunks, block groups.
 */

/* Key (OBJ_DEV_ITEMS, KEY_DEV_ITEM, devid) in the chunk tree, and embedded in the superblock. */
struct disk_dev_item {
	disk64 devid;
	disk64 total_bytes;
	disk64 bytes_used;
	disk32 io_align;
	disk32 io_width;
	disk32 sector_size;
	disk64 type;
	disk64 generation;
	disk64 start_offset;
	disk32 dev_group;
	disk8 seek_speed;
	disk8 bandwidth;
	uint8_t uuid[UUID_BYTES];
	uint8_t fsid[UUID_BYTES];
};
DISK_FIELD(disk_dev_item, devid, 64)
DISK_FIELD(disk_dev_item, total_bytes, 64)
DISK_FIELD(disk_dev_item, bytes_used, 64)
DISK_FIELD(disk_dev_item, io_align, 32)
DISK_FIELD(disk_dev_item, io_width, 32)
DISK_FIELD(disk_dev_item, sector_size, 32)
DISK_FIELD(disk_dev_item, type, 64)
DISK_FIELD(disk_dev_item, generation, 64)
DISK_FIELD(disk_dev_item, start_offset, 64)
DISK_FIELD(disk_dev_item, dev_group, 32)
DISK_FIELD(disk_dev_item, seek_speed, 8)
DISK_FIELD(disk_dev_item, bandwidth, 8)
DISK_SIZE(disk_dev_item, 98, fsid, 82)

struct disk_stripe {
	disk64 devid;
	disk64 offset;				/* physical byte on that device */
	uint8_t dev_uuid[UUID_BYTES];
};
DISK_FIELD(disk_stripe, devid, 64)
DISK_FIELD(disk_stripe, offset, 64)
DISK_SIZE(disk_stripe, 32, dev_uuid, 16)

/* Key (OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, logical address); num_stripes disk_stripes follow. */
struct disk_chunk {
	disk64 length;				/* logical bytes */
	disk64 owner;				/* OBJ_EXTENT_TREE */
	disk64 stripe_len;
	disk64 type;
	disk32 io_align;
	disk32 io_width;
	disk32 sector_size;
	disk16 num_stripes;
	disk16 sub_stripes;
};
DISK_FIELD(disk_chunk, length, 64)
DISK_FIELD(disk_chunk, owner, 64)
DISK_FIELD(disk_chunk, stripe_len, 64)
DISK_FIELD(disk_chunk, type, 64)
DISK_FIELD(disk_chunk, io_align, 32)
DISK_FIELD(disk_chunk, io_width, 32)
DISK_FIELD(disk_chunk, sector_size, 32)
DISK_FIELD(disk_chunk, num_stripes, 16)
DISK_FIELD(disk_chunk, sub_stripes, 16)
DISK_SIZE(disk_chunk, 48, sub_stripes, 46)

/* Key (devid, KEY_DEV_EXTENT, physical byte) in the device tree. */
struct disk_dev_extent {
	disk64 chunk_tree;
	disk64 chunk_objectid;
	disk64 chunk_offset;
	disk64 length;
	uint8_t chunk_tree_uuid[UUID_BYTES];
};
DISK_FIELD(disk_dev_extent, chunk_tree, 64)
DISK_FIELD(disk_dev_extent, chunk_objectid, 64)
DISK_FIELD(disk_dev_extent, chunk_offset, 64)
DISK_FIELD(disk_dev_extent, length, 64)
DISK_SIZE(disk_dev_extent, 48, chunk_tree_uuid, 32)

/* Key (logical address, KEY_BLOCK_GROUP_ITEM, length). */
struct disk_block_group_item {
	disk64 used;
	disk64 chunk_objectid;
	disk64 flags;
};
DISK_FIELD(disk_block_group_item, used, 64)
DISK_FIELD(disk_block_group_item, chunk_objectid, 64)
DISK_FIELD(disk_block_group_item, flags, 64)
DISK_SIZE(disk_block_group_item, 24, flags, 16)

/* Key (OBJ_DEV_STATS, KEY_PERSISTENT_ITEM, devid) in the device tree. */
struct disk_dev_stats {
	disk64 write_errors;
	disk64 read_errors;
	disk64 flush_errors;
	disk64 corruption_errors;
	disk64 generation_errors;
};
DISK_FIELD(disk_dev_stats, write_errors, 64)
DISK_FIELD(disk_dev_stats, read_errors, 64)
DISK_FIELD(disk_dev_stats, flush_errors, 64)
DISK_FIELD(disk_dev_stats, corruption_errors, 64)
DISK_FIELD(disk_dev_stats, generation_errors, 64)
DISK_SIZE(disk_dev_stats, 40, generation_errors, 32)

/* Key (0, KEY_DEV_REPLACE, 0) in the device tree. */
struct disk_dev_replace_item {
	disk64 src_devid;
	disk64 cursor_left;
	disk64 cursor_right;
	disk64 cont_reading_from_srcdev_mode;
	disk64 replace_state;
	disk64 time_started;
	disk64 time_stopped;
	disk64 num_write_errors;
	disk64 num_uncorrectable_read_errors;
};
DISK_FIELD(disk_dev_replace_item, src_devid, 64)
DISK_FIELD(disk_dev_replace_item, cursor_left, 64)
DISK_FIELD(disk_dev_replace_item, cursor_right, 64)
DISK_FIELD(disk_dev_replace_item, cont_reading_from_srcdev_mode, 64)
DISK_FIELD(disk_dev_replace_item, replace_state, 64)
DISK_FIELD(disk_dev_replace_item, time_started, 64)
DISK_FIELD(disk_dev_replace_item, time_stopped, 64)
DISK_FIELD(disk_dev_replace_item, num_write_errors, 64)
DISK_FIELD(disk_dev_replace_item, num_uncorrectable_read_errors, 64)
DISK_SIZE(disk_dev_replace_item, 72, num_uncorrectable_read_errors, 64)

struct disk_balance_args {
	disk64 profiles;
	disk64 usage;
	disk64 devid;
	disk64 pstart;
	disk64 pend;
	disk64 vstart;
	disk64 vend;
	disk64 target;
	disk64 flags;
	disk64 limit;
	disk32 stripes_min;
	disk32 stripes_max;
	disk64 unused[6];
};
DISK_FIELD(disk_balance_args, profiles, 64)
DISK_FIELD(disk_balance_args, usage, 64)
DISK_FIELD(disk_balance_args, devid, 64)
DISK_FIELD(disk_balance_args, pstart, 64)
DISK_FIELD(disk_balance_args, pend, 64)
DISK_FIELD(disk_balance_args, vstart, 64)
DISK_FIELD(disk_balance_args, vend, 64)
DISK_FIELD(disk_balance_args, target, 64)
DISK_FIELD(disk_balance_args, flags, 64)
DISK_FIELD(disk_balance_args, limit, 64)
DISK_FIELD(disk_balance_args, stripes_min, 32)
DISK_FIELD(disk_balance_args, stripes_max, 32)
DISK_SIZE(disk_balance_args, 136, unused, 88)

/* Key (OBJ_BALANCE, KEY_TEMPORARY_ITEM, 0) in the root tree. */
struct disk_balance_item {
	disk64 flags;
	struct disk_balance_args data;
	struct disk_balance_args meta;
	struct disk_balance_args sys;
	disk64 unused[4];
};
DISK_FIELD(disk_balance_item, flags, 64)
DISK_SIZE(disk_balance_item, 448, unused, 416)

/*
 * Superblock.
 */

struct disk_root_backup {
	disk64 tree_root;
	disk64 tree_root_gen;
	disk64 chunk_root;
	disk64 chunk_root_gen;
	disk64 extent_root;
	disk64 extent_root_gen;
	disk64 fs_root;
	disk64 fs_root_gen;
	disk64 dev_root;
	disk64 dev_root_gen;
	disk64 csum_root;
	disk64 csum_root_gen;
	disk64 total_bytes;
	disk64 bytes_used;
	disk64 num_devices;
	disk64 unused_64[4];
	disk8 tree_root_level;
	disk8 chunk_root_level;
	disk8 extent_root_level;
	disk8 fs_root_level;
	disk8 dev_root_level;
	disk8 csum_root_level;
	disk8 unused_8[10];
};
DISK_FIELD(disk_root_backup, tree_root, 64)
DISK_FIELD(disk_root_backup, tree_root_gen, 64)
DISK_FIELD(disk_root_backup, chunk_root, 64)
DISK_FIELD(disk_root_backup, chunk_root_gen, 64)
DISK_FIELD(disk_root_backup, extent_root, 64)
DISK_FIELD(disk_root_backup, extent_root_gen, 64)
DISK_FIELD(disk_root_backup, fs_root, 64)
DISK_FIELD(disk_root_backup, fs_root_gen, 64)
DISK_FIELD(disk_root_backup, dev_root, 64)
DISK_FIELD(disk_root_backup, dev_root_gen, 64)
DISK_FIELD(disk_root_backup, csum_root, 64)
DISK_FIELD(disk_root_backup, csum_root_gen, 64)
DISK_FIELD(disk_root_backup, total_bytes, 64)
DISK_FIELD(disk_root_backup, bytes_used, 64)
DISK_FIELD(disk_root_backup, num_devices, 64)
DISK_FIELD(disk_root_backup, tree_root_level, 8)
DISK_FIELD(disk_root_backup, chunk_root_level, 8)
DISK_FIELD(disk_root_backup, extent_root_level, 8)
DISK_FIELD(disk_root_backup, fs_root_level, 8)
DISK_FIELD(disk_root_backup, dev_root_level, 8)
DISK_FIELD(disk_root_backup, csum_root_level, 8)
DISK_SIZE(disk_root_backup, 168, unused_8, 158)

struct disk_super {
	uint8_t csum[CSUM_MAX_BYTES];		/* of all bytes after this field */
	uint8_t fsid[UUID_BYTES];
	disk64 bytenr;				/* physical place of this copy */
	disk64 flags;
	disk64 magic;
	disk64 generation;
	disk64 root;
	disk64 chunk_root;
	disk64 log_root;
	disk64 log_root_transid;		/* unused, 0 */
	disk64 total_bytes;
	disk64 bytes_used;
	disk64 root_dir_objectid;
	disk64 num_devices;
	disk32 sectorsize;
	disk32 nodesize;
	disk32 leafsize;
	disk32 stripesize;
	disk32 sys_chunk_array_size;
	disk64 chunk_root_generation;
	disk64 compat_flags;
	disk64 compat_ro_flags;
	disk64 incompat_flags;
	disk16 csum_type;
	disk8 root_level;
	disk8 chunk_root_level;
	disk8 log_root_level;
	struct disk_dev_item dev_item;		/* of the device this copy lies on */
	char label[LABEL_MAX_BYTES];
	disk64 cache_generation;
	disk64 uuid_tree_generation;
	uint8_t metadata_uuid[UUID_BYTES];
	disk64 nr_global_roots;			/* only with extent tree v2 */
	disk64 reserved[27];
	uint8_t sys_chunk_array[SYS_CHUNK_ARRAY_BYTES];	/* disk_key, disk_chunk, stripes; repeated */
	struct disk_root_backup backups[ROOT_BACKUP_COUNT];
	uint8_t padding[565];
};
DISK_FIELD(disk_super, bytenr, 64)
DISK_FIELD(disk_super, flags, 64)
DISK_FIELD(disk_super, magic, 64)
DISK_FIELD(disk_super, generation, 64)
DISK_FIELD(disk_super, root, 64)
DISK_FIELD(disk_super, chunk_root, 64)
DISK_FIELD(disk_super, log_root, 64)
DISK_FIELD(disk_super, log_root_transid, 64)
DISK_FIELD(disk_super, total_bytes, 64)
DISK_FIELD(disk_super, bytes_used, 64)
DISK_FIELD(disk_super, root_dir_objectid, 64)
DISK_FIELD(disk_super, num_devices, 64)
DISK_FIELD(disk_super, sectorsize, 32)
DISK_FIELD(disk_super, nodesize, 32)
DISK_FIELD(disk_super, leafsize, 32)
DISK_FIELD(disk_super, stripesize, 32)
DISK_FIELD(disk_super, sys_chunk_array_size, 32)
DISK_FIELD(disk_super, chunk_root_generation, 64)
DISK_FIELD(disk_super, compat_flags, 64)
DISK_FIELD(disk_super, compat_ro_flags, 64)
DISK_FIELD(disk_super, incompat_flags, 64)
DISK_FIELD(disk_super, csum_type, 16)
DISK_FIELD(disk_super, root_level, 8)
DISK_FIELD(disk_super, chunk_root_level, 8)
DISK_FIELD(disk_super, log_root_level, 8)
DISK_FIELD(disk_super, cache_generation, 64)
DISK_FIELD(disk_super, uuid_tree_generation, 64)
DISK_FIELD(disk_super, nr_global_roots, 64)
DISK_SIZE(disk_super, 4096, padding, 3531)
static_assert(offsetof(struct disk_super, dev_item) == 201, "dev_item begins at byte 201");
static_assert(offsetof(struct disk_super, sys_chunk_array) == 811, "sys chunks begin at byte 811");

/*
 * Extent tree.
 */

/* Key (logical, KEY_EXTENT_ITEM, length) or (logical, KEY_METADATA_ITEM, level); refs follow. */
struct disk_extent_item {
	disk64 refs;
	disk64 generation;
	disk64 flags;
};
DISK_FIELD(disk_extent_item, refs, 64)
DISK_FIELD(disk_extent_item, generation, 64)
DISK_FIELD(disk_extent_item, flags, 64)
DISK_SIZE(disk_extent_item, 24, flags, 16)

/* Follows the extent item of a tree block unless skinny. */
struct disk_tree_block_info {
	struct disk_key key;
	disk8 level;
};
DISK_FIELD(disk_tree_block_info, level, 8)
DISK_SIZE(disk_tree_block_info, 18, level, 17)

/*
 * type is a KEY_*_REF. TREE_BLOCK_REF: offset is the root. SHARED_BLOCK_REF: the parent block.
 * SHARED_DATA_REF: the parent leaf, and a disk_shared_data_ref follows. EXTENT_OWNER_REF: the root.
 * EXTENT_DATA_REF: a disk_extent_data_ref begins where offset stands.
 */
struct disk_extent_inline_ref {
	disk8 type;
	disk64 offset;
};
DISK_FIELD(disk_extent_inline_ref, type, 8)
DISK_FIELD(disk_extent_inline_ref, offset, 64)
DISK_SIZE(disk_extent_inline_ref, 9, offset, 1)

/* offset is the file position minus the offset within the extent, modulo 2^64. */
struct disk_extent_data_ref {
	disk64 root;
	disk64 objectid;
	disk64 offset;
	disk32 count;
};
DISK_FIELD(disk_extent_data_ref, root, 64)
DISK_FIELD(disk_extent_data_ref, objectid, 64)
DISK_FIELD(disk_extent_data_ref, offset, 64)
DISK_FIELD(disk_extent_data_ref, count, 32)
DISK_SIZE(disk_extent_data_ref, 28, count, 24)

struct disk_shared_data_ref {
	disk32 count;
};
DISK_FIELD(disk_shared_data_ref, count, 32)
DISK_SIZE(disk_shared_data_ref, 4, count, 0)

struct disk_extent_owner_ref {
	disk64 root_id;
};
DISK_FIELD(disk_extent_owner_ref, root_id, 64)
DISK_SIZE(disk_extent_owner_ref, 8, root_id, 0)

/*
 * Free space tree and v1 space cache.
 */

/* Key (logical, KEY_FREE_SPACE_INFO, length of the block group). */
struct disk_free_space_info {
	disk32 extent_count;
	disk32 flags;
};
DISK_FIELD(disk_free_space_info, extent_count, 32)
DISK_FIELD(disk_free_space_info, flags, 32)
DISK_SIZE(disk_free_space_info, 8, flags, 4)

/* Key (OBJ_FREE_SPACE, 0, logical address of the block group) in the root tree. */
struct disk_free_space_header {
	struct disk_key location;
	disk64 generation;
	disk64 num_entries;
	disk64 num_bitmaps;
};
DISK_FIELD(disk_free_space_header, generation, 64)
DISK_FIELD(disk_free_space_header, num_entries, 64)
DISK_FIELD(disk_free_space_header, num_bitmaps, 64)
DISK_SIZE(disk_free_space_header, 41, num_bitmaps, 33)

struct disk_free_space_entry {
	disk64 offset;
	disk64 bytes;
	disk8 type;
};
DISK_FIELD(disk_free_space_entry, offset, 64)
DISK_FIELD(disk_free_space_entry, bytes, 64)
DISK_FIELD(disk_free_space_entry, type, 8)
DISK_SIZE(disk_free_space_entry, 17, type, 16)

/*
 * Inodes, names, file data. (Checksum items, key (OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, logical), are
 * bare arrays of checksums, one for each sector.)
 */

struct disk_timespec {
	disk64 sec;				/* signed */
	disk32 nsec;
};
DISK_FIELD(disk_timespec, sec, 64)
DISK_FIELD(disk_timespec, nsec, 32)
DISK_SIZE(disk_timespec, 12, nsec, 8)

struct disk_inode_item {
	disk64 generation;
	disk64 transid;
	disk64 size;
	disk64 nbytes;
	disk64 block_group;
	disk32 nlink;
	disk32 uid;
	disk32 gid;
	disk32 mode;
	disk64 rdev;
	disk64 flags;
	disk64 sequence;
	disk64 reserved[4];
	struct disk_timespec atime;
	struct disk_timespec ctime;
	struct disk_timespec mtime;
	struct disk_timespec otime;
};
DISK_FIELD(disk_inode_item, generation, 64)
DISK_FIELD(disk_inode_item, transid, 64)
DISK_FIELD(disk_inode_item, size, 64)
DISK_FIELD(disk_inode_item, nbytes, 64)
DISK_FIELD(disk_inode_item, block_group, 64)
DISK_FIELD(disk_inode_item, nlink, 32)
DISK_FIELD(disk_inode_item, uid, 32)
DISK_FIELD(disk_inode_item, gid, 32)
DISK_FIELD(disk_inode_item, mode, 32)
DISK_FIELD(disk_inode_item, rdev, 64)
DISK_FIELD(disk_inode_item, flags, 64)
DISK_FIELD(disk_inode_item, sequence, 64)
DISK_SIZE(disk_inode_item, 160, otime, 148)

/* Key (inode, KEY_INODE_REF, parent); the name follows; an item holds several. */
struct disk_inode_ref {
	disk64 index;
	disk16 name_len;
};
DISK_FIELD(disk_inode_ref, index, 64)
DISK_FIELD(disk_inode_ref, name_len, 16)
DISK_SIZE(disk_inode_ref, 10, name_len, 8)

/* Key (inode, KEY_INODE_EXTREF, hash of parent and name); the name follows; several in an item. */
struct disk_inode_extref {
	disk64 parent_objectid;
	disk64 index;
	disk16 name_len;
};
DISK_FIELD(disk_inode_extref, parent_objectid, 64)
DISK_FIELD(disk_inode_extref, index, 64)
DISK_FIELD(disk_inode_extref, name_len, 16)
DISK_SIZE(disk_inode_extref, 18, name_len, 16)

/* DIR_ITEM, DIR_INDEX and XATTR_ITEM; the name, then the data (xattr value) follow. */
struct disk_dir_item {
	struct disk_key location;
	disk64 transid;
	disk16 data_len;
	disk16 name_len;
	disk8 type;
};
DISK_FIELD(disk_dir_item, transid, 64)
DISK_FIELD(disk_dir_item, data_len, 16)
DISK_FIELD(disk_dir_item, name_len, 16)
DISK_FIELD(disk_dir_item, type, 8)
DISK_SIZE(disk_dir_item, 30, type, 29)

/* Key (inode, KEY_DIR_LOG_ITEM or KEY_DIR_LOG_INDEX, first) in a log tree. */
struct disk_dir_log_item {
	disk64 end;
};
DISK_FIELD(disk_dir_log_item, end, 64)
DISK_SIZE(disk_dir_log_item, 8, end, 0)

/*
 * Key (inode, KEY_EXTENT_DATA, file position). With type INLINE the data begin where disk_bytenr
 * stands (FILE_EXTENT_INLINE_OFFSET); disk_bytenr 0 is a hole.
 */
struct disk_file_extent {
	disk64 generation;
	disk64 ram_bytes;
	disk8 compression;
	disk8 encryption;
	disk16 other_encoding;
	disk8 type;
	disk64 disk_bytenr;
	disk64 disk_num_bytes;
	disk64 offset;
	disk64 num_bytes;
};
DISK_FIELD(disk_file_extent, generation, 64)
DISK_FIELD(disk_file_extent, ram_bytes, 64)
DISK_FIELD(disk_file_extent, compression, 8)
DISK_FIELD(disk_file_extent, encryption, 8)
DISK_FIELD(disk_file_extent, other_encoding, 16)
DISK_FIELD(disk_file_extent, type, 8)
DISK_FIELD(disk_file_extent, disk_bytenr, 64)
DISK_FIELD(disk_file_extent, disk_num_bytes, 64)
DISK_FIELD(disk_file_extent, offset, 64)
DISK_FIELD(disk_file_extent, num_bytes, 64)
DISK_SIZE(disk_file_extent, 53, num_bytes, 45)
#define FILE_EXTENT_INLINE_OFFSET 21u
static_assert(offsetof(struct disk_file_extent, disk_bytenr) == FILE_EXTENT_INLINE_OFFSET,
	      "inline data follow the type byte");

/* Key (inode, KEY_VERITY_DESC_ITEM, 0). */
struct disk_verity_descriptor {
	disk64 size;
	disk64 reserved[2];
	disk8 encryption;
};
DISK_FIELD(disk_verity_descriptor, size, 64)
DISK_FIELD(disk_verity_descriptor, encryption, 8)
DISK_SIZE(disk_verity_descriptor, 25, encryption, 24)

/*
 * Roots and subvolumes.
 */

/* Key (tree, KEY_ROOT_ITEM, 0 or, for a snapshot, its transid). Old ones end after level. */
struct disk_root_item {
	struct disk_inode_item inode;
	disk64 generation;
	disk64 root_dirid;
	disk64 bytenr;
	disk64 byte_limit;
	disk64 bytes_used;
	disk64 last_snapshot;
	disk64 flags;
	disk32 refs;
	struct disk_key drop_progress;
	disk8 drop_level;
	disk8 level;
	/* All that follows is valid only if this equals generation. */
	disk64 generation_v2;
	uint8_t uuid[UUID_BYTES];
	uint8_t parent_uuid[UUID_BYTES];
	uint8_t received_uuid[UUID_BYTES];
	disk64 ctransid;
	disk64 otransid;
	disk64 stransid;
	disk64 rtransid;
	struct disk_timespec ctime;
	struct disk_timespec otime;
	struct disk_timespec stime;
	struct disk_timespec rtime;
	disk64 reserved[8];
};
DISK_FIELD(disk_root_item, generation, 64)
DISK_FIELD(disk_root_item, root_dirid, 64)
DISK_FIELD(disk_root_item, bytenr, 64)
DISK_FIELD(disk_root_item, byte_limit, 64)
DISK_FIELD(disk_root_item, bytes_used, 64)
DISK_FIELD(disk_root_item, last_snapshot, 64)
DISK_FIELD(disk_root_item, flags, 64)
DISK_FIELD(disk_root_item, refs, 32)
DISK_FIELD(disk_root_item, drop_level, 8)
DISK_FIELD(disk_root_item, level, 8)
DISK_FIELD(disk_root_item, generation_v2, 64)
DISK_FIELD(disk_root_item, ctransid, 64)
DISK_FIELD(disk_root_item, otransid, 64)
DISK_FIELD(disk_root_item, stransid, 64)
DISK_FIELD(disk_root_item, rtransid, 64)
DISK_SIZE(disk_root_item, 439, reserved, 375)
#define ROOT_ITEM_V1_BYTES 239u
static_assert(offsetof(struct disk_root_item, generation_v2) == ROOT_ITEM_V1_BYTES,
	      "the first version ends after level");

/* Key (parent tree, KEY_ROOT_REF, tree), or (tree, KEY_ROOT_BACKREF, parent tree); a name follows. */
struct disk_root_ref {
	disk64 dirid;
	disk64 sequence;
	disk16 name_len;
};
DISK_FIELD(disk_root_ref, dirid, 64)
DISK_FIELD(disk_root_ref, sequence, 64)
DISK_FIELD(disk_root_ref, name_len, 16)
DISK_SIZE(disk_root_ref, 18, name_len, 16)

/*
 * Quotas.
 */

/* Key (0, KEY_QGROUP_STATUS, 0). enable_gen is there only with simple quotas. */
struct disk_qgroup_status {
	disk64 version;
	disk64 generation;
	disk64 flags;
	disk64 rescan;
	disk64 enable_gen;
};
DISK_FIELD(disk_qgroup_status, version, 64)
DISK_FIELD(disk_qgroup_status, generation, 64)
DISK_FIELD(disk_qgroup_status, flags, 64)
DISK_FIELD(disk_qgroup_status, rescan, 64)
DISK_FIELD(disk_qgroup_status, enable_gen, 64)
DISK_SIZE(disk_qgroup_status, 40, enable_gen, 32)
#define QGROUP_STATUS_V1_BYTES 32u
#define QGROUP_STATUS_ON (1ULL << 0)
#define QGROUP_STATUS_RESCAN (1ULL << 1)
#define QGROUP_STATUS_INCONSISTENT (1ULL << 2)
#define QGROUP_STATUS_SIMPLE (1ULL << 3)

/* Key (0, KEY_QGROUP_INFO, qgroup). */
struct disk_qgroup_info {
	disk64 generation;
	disk64 rfer;
	disk64 rfer_cmpr;
	disk64 excl;
	disk64 excl_cmpr;
};
DISK_FIELD(disk_qgroup_info, generation, 64)
DISK_FIELD(disk_qgroup_info, rfer, 64)
DISK_FIELD(disk_qgroup_info, rfer_cmpr, 64)
DISK_FIELD(disk_qgroup_info, excl, 64)
DISK_FIELD(disk_qgroup_info, excl_cmpr, 64)
DISK_SIZE(disk_qgroup_info, 40, excl_cmpr, 32)

/* Key (0, KEY_QGROUP_LIMIT, qgroup). */
struct disk_qgroup_limit {
	disk64 flags;
	disk64 max_rfer;
	disk64 max_excl;
	disk64 rsv_rfer;
	disk64 rsv_excl;
};
DISK_FIELD(disk_qgroup_limit, flags, 64)
DISK_FIELD(disk_qgroup_limit, max_rfer, 64)
DISK_FIELD(disk_qgroup_limit, max_excl, 64)
DISK_FIELD(disk_qgroup_limit, rsv_rfer, 64)
DISK_FIELD(disk_qgroup_limit, rsv_excl, 64)
DISK_SIZE(disk_qgroup_limit, 40, rsv_excl, 32)

#endif
