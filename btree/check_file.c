/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/check_file.c - inodes, names, file data and checksums: each item by itself, and against the
 * one before it in the leaf. See check.h.
 *
 * Not here: what needs other blocks (a name's inode, an extent's references).
 */
#include <errno.h>
#include <sys/stat.h>

#include "btree/check_priv.h"
#include "io/csum.h"
#include "io/util.h"

#define MODE_BITS (S_IFMT | S_ISUID | S_ISGID | S_ISVTX | 0777u)
/* Flags that a reader must know; of the upper half only a writer must know what is set. */
#define INODE_FLAGS_KNOWN                                                                        \
	(INODE_NODATASUM | INODE_NODATACOW | INODE_READONLY | INODE_NOCOMPRESS | INODE_PREALLOC |    \
	 INODE_SYNC | INODE_IMMUTABLE | INODE_APPEND | INODE_NODUMP | INODE_NOATIME |                \
	 INODE_DIRSYNC | INODE_COMPRESS | INODE_ROOT_ITEM_INIT)
#define INODE_FLAGS_REQUIRED UINT64_C(0xffffffff)

static bool is_inode_number(uint64_t objectid)
{
	return (objectid >= OBJ_FIRST_FREE && objectid <= OBJ_LAST_FREE) ||
	       objectid == OBJ_ROOT_TREE_DIR || objectid == OBJ_FREE_INO;
}

/* In a subvolume's tree everything of an inode comes behind its inode item. */
static int check_follows_inode(const struct subject *s)
{
	if (s->prev == NULL || s->prev->objectid == s->key->objectid || !is_subvol_id(s->n->owner))
		return 0;
	return bad(s, "item (" KEY_FMT ") without an inode item", KEY_ARGS(s->key));
}

static int check_mode(const struct subject *s, uint32_t mode, uint32_t nlink)
{
	if (mode & ~MODE_BITS)
		return bad(s, "an inode of mode %o", mode);
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return nlink <= 1 ? 0 : bad(s, "a directory with %u links", nlink);
	case S_IFREG:
	case S_IFLNK:
	case S_IFCHR:
	case S_IFBLK:
	case S_IFIFO:
	case S_IFSOCK:
		return 0;
	default:
		return bad(s, "an inode of mode %o", mode);
	}
}

int check_inode_item(const struct subject *s)
{
	const struct disk_inode_item *ii = (const void *)s->data;
	uint64_t flags;

	if (!is_inode_number(s->key->objectid) || s->key->offset != 0)
		return bad(s, "an inode item with the key (" KEY_FMT ")", KEY_ARGS(s->key));
	if (s->size != sizeof(*ii))
		return bad(s, "an inode item of %u bytes", s->size);
	if (disk_inode_item_generation(ii) > s->transid || disk_inode_item_transid(ii) > s->transid)
		return bad(s, "an inode of generation %llu, transaction %llu, from the future",
			   (ull)disk_inode_item_generation(ii), (ull)disk_inode_item_transid(ii));
	flags = disk_inode_item_flags(ii);
	if (flags & INODE_FLAGS_REQUIRED & ~INODE_FLAGS_KNOWN)
		return bad(s, "an inode with flags %llx", (ull)flags);
	if (!s->env->rdonly && (flags & ~INODE_FLAGS_REQUIRED & ~INODE_RO_VERITY))
		return bad(s, "an inode with flags %llx that a writer must know", (ull)flags);
	return check_mode(s, disk_inode_item_mode(ii), disk_inode_item_nlink(ii));
}

int check_inode_ref(const struct subject *s)
{
	uint32_t at = 0;
	int err = check_follows_inode(s);

	if (err < 0)
		return err;
	do {
		const struct disk_inode_ref *ref = (const void *)(s->data + at);
		uint32_t len;

		if (s->size - at < sizeof(*ref))
			return bad(s, "an inode ref is cut short");
		len = disk_inode_ref_name_len(ref);
		at += (uint32_t)sizeof(*ref);
		if (len == 0 || len > NAME_MAX_BYTES || len > s->size - at)
			return bad(s, "an inode ref with a name of %u bytes", len);
		at += len;
	} while (at < s->size);
	return 0;
}

int check_inode_extref(const struct subject *s)
{
	uint32_t at = 0;
	int err = check_follows_inode(s);

	if (err < 0)
		return err;
	do {
		const struct disk_inode_extref *ref = (const void *)(s->data + at);
		uint32_t len;

		if (s->size - at < sizeof(*ref))
			return bad(s, "an extended inode ref is cut short");
		len = disk_inode_extref_name_len(ref);
		at += (uint32_t)sizeof(*ref);
		if (len == 0 || len > NAME_MAX_BYTES || len > s->size - at)
			return bad(s, "an extended inode ref with a name of %u bytes", len);
		at += len;
	} while (at < s->size);
	return 0;
}

/* What an entry leads to. */
static int check_location(const struct subject *s, const struct key *loc)
{
	if (s->key->type == KEY_XATTR_ITEM)
		return key_equal(loc, &KEY_MIN) ? 0 : bad(s, "an xattr with the location (" KEY_FMT ")",
							  KEY_ARGS(loc));
	if (loc->type == KEY_ROOT_ITEM)
		return check_root_key(s, loc, false);
	if ((loc->type != KEY_INODE_ITEM && loc->type != 0) || !is_inode_number(loc->objectid) ||
	    loc->offset != 0)
		return bad(s, "an entry with the location (" KEY_FMT ")", KEY_ARGS(loc));
	return 0;
}

static int check_entry(const struct subject *s, const struct disk_dir_item *d, uint32_t room)
{
	bool xattr = s->key->type == KEY_XATTR_ITEM;
	uint8_t type = disk_dir_item_type(d) & (uint8_t)~FT_ENCRYPTED;
	uint32_t name_len = disk_dir_item_name_len(d);
	uint32_t data_len = disk_dir_item_data_len(d);
	struct key location = key_from_disk(&d->location);
	int err = check_location(s, &location);

	if (err < 0)
		return err;
	if (type == FT_UNKNOWN || type >= FT_COUNT || (type == FT_XATTR) != xattr)
		return bad(s, "an entry of type %u", type);
	if (name_len == 0 || name_len > (xattr ? XATTR_NAME_MAX_BYTES : NAME_MAX_BYTES))
		return bad(s, "an entry with a name of %u bytes", name_len);
	if ((data_len > 0 && !xattr) || name_len + data_len > room)
		return bad(s, "an entry of %u + %u bytes in %u", name_len, data_len, room);
	if (s->key->type != KEY_DIR_INDEX && s->key->offset != name_hash(d + 1, name_len))
		return bad(s, "an entry under the hash %llx of another name", (ull)s->key->offset);
	return 0;
}

int check_dir_item(const struct subject *s)
{
	uint32_t at = 0;
	int err = check_follows_inode(s);

	if (err < 0)
		return err;
	do {
		const struct disk_dir_item *d = (const void *)(s->data + at);

		if (s->size - at < sizeof(*d))
			return bad(s, "a directory entry is cut short");
		at += (uint32_t)sizeof(*d);
		err = check_entry(s, d, s->size - at);
		if (err < 0)
			return err;
		at += (uint32_t)disk_dir_item_name_len(d) + disk_dir_item_data_len(d);
	} while (at < s->size);
	return 0;
}

static int check_inline_extent(const struct subject *s, const struct disk_file_extent *fe)
{
	uint64_t ram_bytes = disk_file_extent_ram_bytes(fe);
	uint32_t stored = s->size - FILE_EXTENT_INLINE_OFFSET;

	if (s->key->offset != 0)
		return bad(s, "an inline extent at file position %llu", (ull)s->key->offset);
	if (disk_file_extent_compression(fe) == COMPRESS_NONE
		    ? ram_bytes != stored : ram_bytes > COMPRESSED_MAX_BYTES)
		return bad(s, "an inline extent of %u bytes, %llu in memory", stored, (ull)ram_bytes);
	return 0;
}

/* An extent on the device: what is read lies inside what it holds. */
static int check_extent_range(const struct subject *s, const struct disk_file_extent *fe)
{
	uint64_t disk_bytes = disk_file_extent_disk_num_bytes(fe);
	uint64_t ram_bytes = disk_file_extent_ram_bytes(fe);
	uint64_t end;

	if (disk_bytes == 0 || add_overflows(disk_file_extent_disk_bytenr(fe), disk_bytes, &end))
		return bad(s, "a file extent on %llu bytes at %llu", (ull)disk_bytes,
			   (ull)disk_file_extent_disk_bytenr(fe));
	if (add_overflows(disk_file_extent_offset(fe), disk_file_extent_num_bytes(fe), &end))
		return bad(s, "a file extent that wraps");
	if (disk_file_extent_compression(fe) == COMPRESS_NONE)
		return end <= disk_bytes ? 0 : bad(s, "a file extent reads up to %llu of %llu bytes",
						   (ull)end, (ull)disk_bytes);
	if (end > ram_bytes || ram_bytes > COMPRESSED_MAX_BYTES || disk_bytes > COMPRESSED_MAX_BYTES)
		return bad(s, "a compressed extent reads up to %llu of %llu bytes, stored in %llu",
			   (ull)end, (ull)ram_bytes, (ull)disk_bytes);
	return 0;
}

static int check_fields(const struct subject *s, const struct disk_file_extent *fe)
{
	uint8_t type = disk_file_extent_type(fe);

	if (type >= FILE_EXTENT_TYPE_COUNT)
		return bad(s, "a file extent of type %u", type);
	if (disk_file_extent_compression(fe) >= COMPRESS_TYPE_COUNT)
		return bad(s, "a file extent compressed in way %u", disk_file_extent_compression(fe));
	if (disk_file_extent_encryption(fe) != 0)
		return bad(s, "an encrypted file extent");
	if (type == FILE_EXTENT_INLINE)
		return 0;
	if (s->size != sizeof(*fe))
		return bad(s, "a file extent of %u bytes", s->size);
	if (!is_aligned(disk_file_extent_ram_bytes(fe) | disk_file_extent_disk_bytenr(fe) |
			disk_file_extent_disk_num_bytes(fe) | disk_file_extent_offset(fe) |
			disk_file_extent_num_bytes(fe), s->sectorsize))
		return bad(s, "a file extent with unaligned numbers");
	return 0;
}

/* Where in the file the extent ends, as far as it is known to be sane. */
static uint64_t extent_end(const struct subject *s, const struct key *key,
			   const struct disk_file_extent *fe)
{
	if (disk_file_extent_type(fe) == FILE_EXTENT_INLINE)
		return align_up(disk_file_extent_ram_bytes(fe), s->sectorsize);
	return key->offset + disk_file_extent_num_bytes(fe);
}

static int check_overlap(const struct subject *s)
{
	const struct disk_file_extent *before;
	uint64_t end;

	if (s->prev == NULL || s->prev->objectid != s->key->objectid ||
	    s->prev->type != KEY_EXTENT_DATA)
		return 0;
	before = (const void *)node_data(s->n, s->slot - 1);
	end = extent_end(s, s->prev, before);
	return end <= s->key->offset ? 0 : bad(s, "the file extent before reaches up to %llu",
					       (ull)end);
}

int check_file_extent(const struct subject *s)
{
	const struct disk_file_extent *fe = (const void *)s->data;
	uint64_t end;
	int err = check_follows_inode(s);

	if (err < 0)
		return err;
	if (!is_aligned(s->key->offset, s->sectorsize))
		return bad(s, "a file extent at file position %llu", (ull)s->key->offset);
	if (s->size < FILE_EXTENT_INLINE_OFFSET)
		return bad(s, "a file extent of %u bytes", s->size);
	err = check_fields(s, fe);
	if (err < 0)
		return err;
	if (disk_file_extent_type(fe) == FILE_EXTENT_INLINE)
		return check_inline_extent(s, fe);
	if (disk_file_extent_num_bytes(fe) == 0 ||
	    add_overflows(s->key->offset, disk_file_extent_num_bytes(fe), &end))
		return bad(s, "a file extent of %llu bytes at %llu",
			   (ull)disk_file_extent_num_bytes(fe), (ull)s->key->offset);
	if (disk_file_extent_disk_bytenr(fe) != 0)
		err = check_extent_range(s, fe);
	return err < 0 ? err : check_overlap(s);
}

int check_csum_item(const struct subject *s)
{
	uint32_t csum_bytes = (uint32_t)s->env->vol->csum_bytes;
	uint64_t end;

	if (s->key->objectid != OBJ_EXTENT_CSUM || !is_aligned(s->key->offset, s->sectorsize))
		return bad(s, "checksums under the key (" KEY_FMT ")", KEY_ARGS(s->key));
	if (s->size % csum_bytes != 0 ||
	    add_overflows(s->key->offset, (uint64_t)s->size / csum_bytes * s->sectorsize, &end))
		return bad(s, "checksums of %u bytes in an item of %u", csum_bytes, s->size);
	if (s->prev == NULL || s->prev->type != KEY_EXTENT_CSUM)
		return 0;
	end = s->prev->offset +
	      (uint64_t)node_at(s->n, s->slot - 1)->item.size / csum_bytes * s->sectorsize;
	return end <= s->key->offset ? 0 : bad(s, "the checksums before reach up to %llu", (ull)end);
}
