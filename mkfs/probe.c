/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * mkfs/probe.c - see probe.h.
 */
#include "mkfs/probe.h"

#include "io/util.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static void probe_freep(blkid_probe *pr)
{
	blkid_free_probe(*pr);
}

static const char *value_of(blkid_probe pr, const char *name)
{
	const char *data;

	return blkid_probe_lookup_value(pr, name, &data, NULL) == 0 ? data : NULL;
}

/* Where the signature that was found lies; false if libblkid does not say. */
static bool signature_of(blkid_probe pr, const char *offset_name, const char *magic_name,
			 uint64_t *ret_offset, uint64_t *ret_len)
{
	const char *offset = value_of(pr, offset_name);
	const char *magic;
	size_t len;

	if (offset == NULL || blkid_probe_lookup_value(pr, magic_name, &magic, &len) < 0)
		return false;
	*ret_offset = strtoull(offset, NULL, 10);
	*ret_len = len;
	return true;
}

static void describe(blkid_probe pr, struct probe *p)
{
	const char *type = value_of(pr, "TYPE");
	const char *table = value_of(pr, "PTTYPE");
	const char *usage = value_of(pr, "USAGE");

	if (type != NULL && usage != NULL && strcmp(usage, "filesystem") == 0)
		snprintf(p->what, sizeof(p->what), "a filesystem (%s)", type);
	else if (type != NULL)
		snprintf(p->what, sizeof(p->what), "data of another kind (%s)", type);
	else if (table != NULL)
		snprintf(p->what, sizeof(p->what), "a partition table (%s)", table);
	else
		snprintf(p->what, sizeof(p->what), "something");
}

static int collect(blkid_probe pr, struct probe *p)
{
	int got;

	while ((got = blkid_do_probe(pr)) == 0) {
		uint64_t offset, len;

		if (p->what[0] == '\0')
			describe(pr, p);
		if (p->count == PROBE_SIGNATURES_MAX)
			break;
		if (!signature_of(pr, "SBMAGIC_OFFSET", "SBMAGIC", &offset, &len) &&
		    !signature_of(pr, "PTMAGIC_OFFSET", "PTMAGIC", &offset, &len))
			len = offset = 0;	/* known by its looks alone */
		p->signatures[p->count].offset = offset;
		p->signatures[p->count].len = len;
		p->count++;
	}
	return got < 0 ? -EIO : 0;
}

int probe_device(const char *path, struct probe *ret_probe, struct reason *reason)
{
	scoped(probe_freep) blkid_probe pr = blkid_new_probe();
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct probe p = {0};
	int err;

	if (pr == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	if (fd < 0)
		return reason_set(reason, -errno, "%s: %s", path, strerror(errno));
	if (blkid_probe_set_device(pr, fd, 0, 0) < 0)
		return reason_set(reason, -EIO, "%s: cannot be searched for signatures", path);
	blkid_probe_enable_superblocks(pr, 1);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE |
					      BLKID_SUBLKS_MAGIC | BLKID_SUBLKS_BADCSUM);
	blkid_probe_enable_partitions(pr, 1);
	blkid_probe_set_partitions_flags(pr, BLKID_PARTS_MAGIC | BLKID_PARTS_FORCE_GPT);
	err = collect(pr, &p);
	if (err < 0)
		return reason_set(reason, err, "%s: cannot be searched for signatures", path);
	*ret_probe = p;
	return 0;
}

int probe_wipe(struct device *dev, const struct probe *p)
{
	static const uint8_t zeroes[256];

	for (unsigned i = 0; i < p->count; i++) {
		uint64_t offset = p->signatures[i].offset;
		uint64_t len = min_u64(p->signatures[i].len, sizeof(zeroes));
		int err;

		if (offset > device_size(dev) || len > device_size(dev) - offset)
			continue;
		err = device_pwrite(dev, offset, zeroes, (size_t)len);
		if (err < 0)
			return err;
	}
	return 0;
}
