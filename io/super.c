/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/super.c - the superblock's copies (see super.h).
 *
 * Checks go from the outside in: magic, checksum type, checksum, features, then each field. The first
 * that fails is the one the user is told, so the order is by how much it explains.
 */
#include "io/super.h"

#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

#include <stdio.h>

/* A filesystem has at least this many tree blocks. */
#define TREE_BLOCKS_MIN 6u

#define FLAGS_KNOWN                                                                              \
	(HEADER_WRITTEN | HEADER_RELOC | SUPER_FLAG_ERROR | SUPER_FLAG_SEEDING |                     \
	 SUPER_FLAG_METADUMP | SUPER_FLAG_METADUMP_V2 | HEADER_BACKREF_REV_MASK)
#define FLAGS_CHANGING                                                                           \
	(SUPER_FLAG_CHANGING_FSID | SUPER_FLAG_CHANGING_FSID_V2 | SUPER_FLAG_CHANGING_BG_TREE |      \
	 SUPER_FLAG_CHANGING_DATA_CSUM | SUPER_FLAG_CHANGING_META_CSUM)

static const char *feature_name(unsigned bit)
{
	switch (1ULL << bit) {
	case INCOMPAT_ZONED:
		return " (zoned)";
	case INCOMPAT_EXTENT_TREE_V2:
		return " (extent tree v2)";
	case INCOMPAT_RAID_STRIPE_TREE:
		return " (raid stripe tree)";
	case INCOMPAT_SIMPLE_QUOTA:
		return " (simple quotas)";
	default:
		return "";
	}
}

/* "12 (zoned), 33": the bits that are set. */
static void bits_to_text(uint64_t bits, bool names, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned bit = 0; bit < 64; bit++) {
		int n;

		if (!(bits & (1ULL << bit)))
			continue;
		n = snprintf(text + used, room - used, "%s%u%s", used > 0 ? ", " : "", bit,
			     names ? feature_name(bit) : "");
		if (n < 0 || (size_t)n >= room - used)
			return;
		used += (size_t)n;
	}
}

/* Magic, checksum type, checksum: is this a superblock at all? */
static int check_identity(const struct disk_super *super, const char *name, struct reason *reason)
{
	unsigned type = disk_super_csum_type(super);

	if (disk_super_magic(super) != SUPER_MAGIC)
		return reason_set(reason, -EINVAL, "%s: not a btrfs filesystem", name);
	if (!csum_type_known(type))
		return reason_set(reason, -EOPNOTSUPP, "%s: superblock with unknown checksum type %u",
				  name, type);
	if (!csum_header_good((enum csum_type)type, super, SUPER_BYTES))
		return reason_set(reason, -EUCLEAN, "%s: superblock with a bad checksum", name);
	return 0;
}

static int check_features(const struct disk_super *super, const char *name, struct reason *reason)
{
	uint64_t incompat = disk_super_incompat_flags(super);
	uint64_t compat_ro = disk_super_compat_ro_flags(super);
	uint64_t flags = disk_super_flags(super);
	uint64_t unknown = incompat & ~SUPER_INCOMPAT_READABLE;
	char bits[256];

	if (unknown != 0) {
		bits_to_text(unknown, true, bits, sizeof(bits));
		return reason_set(reason, -EOPNOTSUPP,
				  "%s: uses features that cowfs does not know, incompat bit %s", name,
				  bits);
	}
	if (flags & FLAGS_CHANGING)
		return reason_set(reason, -EOPNOTSUPP, "%s: in the middle of an offline conversion "
				  "(superblock flags 0x%llx)", name, (unsigned long long)flags);
	if (flags & ~FLAGS_KNOWN)
		return reason_set(reason, -EOPNOTSUPP, "%s: unknown superblock flags 0x%llx", name,
				  (unsigned long long)(flags & ~FLAGS_KNOWN));
	if (compat_ro & COMPAT_RO_BLOCK_GROUP_TREE &&
	    (!(compat_ro & COMPAT_RO_FREE_SPACE_TREE_VALID) || !(incompat & INCOMPAT_NO_HOLES)))
		return reason_set(reason, -EUCLEAN, "%s: superblock has a block group tree without "
				  "free space tree or no-holes", name);
	return 0;
}

static bool block_size_good(uint32_t size, uint32_t min)
{
	return is_pow2(size) && size >= min && size <= BLOCKSIZE_MAX;
}

static int check_sizes(const struct disk_super *super, const char *name, struct reason *reason)
{
	uint32_t sector = disk_super_sectorsize(super);
	uint32_t node = disk_super_nodesize(super);
	uint32_t leaf = disk_super_leafsize(super);
	uint64_t incompat = disk_super_incompat_flags(super);
	bool own = (incompat & INCOMPAT_COWFS_LEAFSIZE) != 0;

	if (!block_size_good(sector, SECTORSIZE_MIN))
		return reason_set(reason, -EUCLEAN, "%s: superblock with sector size %u", name, sector);
	if (!block_size_good(node, sector))
		return reason_set(reason, -EUCLEAN, "%s: superblock with node size %u", name, node);
	if (!block_size_good(leaf, sector))
		return reason_set(reason, -EUCLEAN, "%s: superblock with leaf size %u", name, leaf);
	if ((leaf != node) != own)
		return reason_set(reason, -EUCLEAN, "%s: superblock with leaf size %u, node size %u and "
				  "feature bit 62 %s", name, leaf, node, own ? "set" : "not set");
	if (own && !(incompat & INCOMPAT_SKINNY_METADATA))
		return reason_set(reason, -EUCLEAN, "%s: superblock with different leaf and node size "
				  "but without skinny metadata", name);
	if (!is_pow2(disk_super_stripesize(super)))
		return reason_set(reason, -EUCLEAN, "%s: superblock with stripe size %u", name,
				  disk_super_stripesize(super));
	if (disk_super_bytes_used(super) < (uint64_t)TREE_BLOCKS_MIN * min_u32(node, leaf))
		return reason_set(reason, -EUCLEAN, "%s: superblock with only %llu bytes used", name,
				  (unsigned long long)disk_super_bytes_used(super));
	return 0;
}

static int check_roots(const struct disk_super *super, const char *name, struct reason *reason)
{
	const struct {
		const char *what;
		uint64_t logical;
		unsigned level;
		bool optional;
	} roots[] = {
		{"tree root", disk_super_root(super), disk_super_root_level(super), false},
		{"chunk root", disk_super_chunk_root(super), disk_super_chunk_root_level(super), false},
		{"log root", disk_super_log_root(super), disk_super_log_root_level(super), true},
	};
	uint32_t sector = disk_super_sectorsize(super);

	for (unsigned i = 0; i < ARRAY_COUNT(roots); i++) {
		if (!is_aligned(roots[i].logical, sector) ||
		    (roots[i].logical == 0 && !roots[i].optional))
			return reason_set(reason, -EUCLEAN, "%s: superblock with its %s at %llu", name,
					  roots[i].what, (unsigned long long)roots[i].logical);
		if (roots[i].level >= LEVEL_COUNT)
			return reason_set(reason, -EUCLEAN, "%s: superblock with a %s of level %u", name,
					  roots[i].what, roots[i].level);
	}
	if (disk_super_chunk_root_generation(super) > disk_super_generation(super))
		return reason_set(reason, -EUCLEAN, "%s: superblock older than its chunk root", name);
	return 0;
}

static int check_devices(const struct disk_super *super, uint64_t device_bytes, const char *name,
			 struct reason *reason)
{
	uint64_t bytes = disk_dev_item_total_bytes(&super->dev_item);
	uint32_t array = disk_super_sys_chunk_array_size(super);

	if (memcmp(super->dev_item.fsid, super_metadata_uuid(super), UUID_BYTES) != 0)
		return reason_set(reason, -EUCLEAN, "%s: superblock whose device belongs to another "
				  "filesystem", name);
	if (disk_super_num_devices(super) == 0 || disk_dev_item_devid(&super->dev_item) == 0)
		return reason_set(reason, -EUCLEAN, "%s: superblock without devices", name);
	if (bytes < SUPER_OFFSET_0 + SUPER_BYTES)
		return reason_set(reason, -EUCLEAN, "%s: superblock with a device of %llu bytes", name,
				  (unsigned long long)bytes);
	if (disk_super_total_bytes(super) < align_down(bytes, disk_super_sectorsize(super)))
		return reason_set(reason, -EUCLEAN, "%s: superblock with %llu bytes in all, %llu of them "
				  "on this device", name,
				  (unsigned long long)disk_super_total_bytes(super),
				  (unsigned long long)bytes);
	if (bytes > device_bytes)
		return reason_set(reason, -EUCLEAN, "%s: truncated: the filesystem has %llu bytes on "
				  "this device, which has only %llu", name, (unsigned long long)bytes,
				  (unsigned long long)device_bytes);
	if (array < sizeof(struct disk_key) + sizeof(struct disk_chunk) + sizeof(struct disk_stripe) ||
	    array > SYS_CHUNK_ARRAY_BYTES)
		return reason_set(reason, -EUCLEAN, "%s: superblock with %u bytes of system chunks", name,
				  array);
	return 0;
}

int super_validate(const struct disk_super *super, uint64_t bytenr, uint64_t device_bytes,
		   const char *name, struct reason *reason)
{
	int err = check_identity(super, name, reason);

	if (err == 0)
		err = check_features(super, name, reason);
	if (err == 0 && disk_super_bytenr(super) != bytenr)
		err = reason_set(reason, -EUCLEAN, "%s: superblock that belongs at %llu but lies at %llu",
				 name, (unsigned long long)disk_super_bytenr(super),
				 (unsigned long long)bytenr);
	if (err == 0)
		err = check_sizes(super, name, reason);
	if (err == 0)
		err = check_roots(super, name, reason);
	if (err == 0)
		err = check_devices(super, device_bytes, name, reason);
	return err;
}

int super_check_writable(const struct disk_super *super, struct reason *reason)
{
	uint64_t incompat = disk_super_incompat_flags(super) & ~SUPER_INCOMPAT_WRITABLE;
	uint64_t compat_ro = disk_super_compat_ro_flags(super) & ~SUPER_COMPAT_RO_WRITABLE;
	char bits[256];

	if (incompat != 0) {
		bits_to_text(incompat, true, bits, sizeof(bits));
		return reason_set(reason, -EROFS, "the filesystem uses features that cowfs can only "
				  "read, incompat bit %s; mount it read-only", bits);
	}
	if (compat_ro != 0) {
		bits_to_text(compat_ro, false, bits, sizeof(bits));
		return reason_set(reason, -EROFS, "the filesystem uses features that cowfs does not "
				  "know, compat_ro bit %s; mount it read-only", bits);
	}
	if (disk_super_flags(super) & SUPER_FLAG_SEEDING)
		return reason_set(reason, -EROFS, "the filesystem is a seed; mount it read-only");
	return 0;
}

/* The newest good copy other than the first. */
static int read_mirrors(struct device *dev, struct disk_super *ret_super, unsigned *ret_mirror)
{
	int found = -ENOENT;

	for (unsigned m = 1; m < SUPER_MIRROR_COUNT; m++) {
		struct disk_super copy;

		if (device_pread(dev, super_offset(m), &copy, sizeof(copy)) < 0 ||
		    super_validate(&copy, super_offset(m), device_size(dev), dev->name, NULL) < 0)
			continue;
		if (found == 0 && disk_super_generation(&copy) <= disk_super_generation(ret_super))
			continue;
		*ret_super = copy;
		*ret_mirror = m;
		found = 0;
	}
	return found;
}

int super_read(struct device *dev, struct disk_super *ret_super, unsigned *ret_mirror,
	       struct reason *reason)
{
	struct disk_super first, other;
	unsigned mirror = 0;
	int err;

	if (device_size(dev) < SUPER_OFFSET_0 + SUPER_BYTES)
		return reason_set(reason, -EINVAL, "%s: not a btrfs filesystem (only %llu bytes)",
				  dev->name, (unsigned long long)device_size(dev));
	err = device_pread(dev, SUPER_OFFSET_0, &first, sizeof(first));
	if (err < 0)
		err = reason_set(reason, err, "%s: superblock cannot be read: %s", dev->name,
				 strerror(-err));
	else
		err = check_identity(&first, dev->name, reason);
	if (err == 0) {
		err = super_validate(&first, SUPER_OFFSET_0, device_size(dev), dev->name, reason);
		if (err < 0)
			return err;
	} else if (err == -EINVAL || read_mirrors(dev, &other, &mirror) < 0) {
		return err;
	} else {
		log_warn("%s: the first superblock is damaged; the copy at %llu MiB is good and used",
			 dev->name, (unsigned long long)(super_offset(mirror) >> 20));
		first = other;
	}
	*ret_super = first;
	if (ret_mirror != NULL)
		*ret_mirror = mirror;
	return 0;
}

unsigned super_mirror_count(uint64_t device_bytes)
{
	unsigned count = 0;

	while (count < SUPER_MIRROR_COUNT && super_offset(count) + SUPER_BYTES < device_bytes)
		count++;
	return count;
}

int super_write(struct device *dev, const struct disk_super *super, unsigned mirror_count)
{
	uint64_t bytes = disk_dev_item_total_bytes(&super->dev_item);
	unsigned count = min_u32(mirror_count, super_mirror_count(bytes));
	enum csum_type type = (enum csum_type)disk_super_csum_type(super);
	struct disk_super copy = *super;
	int first_err = 0;

	must(csum_type_known(type));
	for (unsigned m = 0; m < count; m++) {
		int err;

		disk_super_set_bytenr(&copy, super_offset(m));
		csum_header_set(type, &copy, sizeof(copy));
		err = device_pwrite(dev, super_offset(m), &copy, sizeof(copy));
		if (err < 0 && first_err == 0)
			first_err = err;
	}
	return first_err;
}
