/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/volume_open.c - from device paths to a volume whose chunk tree can be read (see volume.h).
 *
 * Each device has a superblock of its own. The newest generation decides; a device that missed the
 * last transactions is used, but said, and what it holds of older blocks is caught by their
 * verification. All devices must belong to one filesystem and none may be missing.
 */
#include "io/volume.h"

#include "io/log.h"
#include "io/super.h"
#include "io/util.h"

#include <inttypes.h>

/* What opening knows; the devices are owned until volume_add_device() takes them. */
struct opening {
	struct device **devices;
	struct disk_super *supers;
	unsigned count;
	unsigned newest;
};

static void opening_done(struct opening *o)
{
	for (unsigned i = 0; o->devices != NULL && i < o->count; i++)
		device_close(o->devices[i]);
	free(o->devices);
	free(o->supers);
}

static int read_supers(struct opening *o, struct reason *reason)
{
	for (unsigned i = 0; i < o->count; i++) {
		int err = super_read(o->devices[i], &o->supers[i], NULL, reason);

		if (err < 0)
			return err;
		if (disk_super_generation(&o->supers[i]) >
		    disk_super_generation(&o->supers[o->newest]))
			o->newest = i;
	}
	return 0;
}

/* One filesystem, nobody twice, nobody missing. */
static int check_members(const struct opening *o, struct reason *reason)
{
	const struct disk_super *newest = &o->supers[o->newest];
	uint64_t wanted = disk_super_num_devices(newest);

	for (unsigned i = 0; i < o->count; i++) {
		const struct disk_super *s = &o->supers[i];

		if (memcmp(s->fsid, newest->fsid, UUID_BYTES) != 0)
			return reason_set(reason, -EINVAL, "%s and %s belong to different filesystems",
					  o->devices[i]->name, o->devices[o->newest]->name);
		if (disk_super_generation(s) != disk_super_generation(newest))
			log_warn("%s: missed the last transactions (generation %" PRIu64
				 ", others have %" PRIu64 ")", o->devices[i]->name,
				 disk_super_generation(s), disk_super_generation(newest));
	}
	if (wanted > o->count)
		return reason_set(reason, -ENODEV, "%s: the filesystem has %" PRIu64 " devices, %" PRIu64
				  " missing", o->devices[o->newest]->name, wanted, wanted - o->count);
	return 0;
}

static void params_from_super(const struct disk_super *super, bool read_only,
			      struct volume_params *ret_params)
{
	struct volume_params p = {
		.sectorsize = disk_super_sectorsize(super),
		.leafsize = disk_super_leafsize(super),
		.nodesize = disk_super_nodesize(super),
		.csum_type = (enum csum_type)disk_super_csum_type(super),
		.mixed = (disk_super_incompat_flags(super) & INCOMPAT_MIXED_GROUPS) != 0,
		.read_only = read_only,
	};

	memcpy(p.fsid, super->fsid, UUID_BYTES);
	memcpy(p.metadata_uuid, super_metadata_uuid(super), UUID_BYTES);
	*ret_params = p;
}

/* The system chunks: keys and chunk items one after the other in the superblock. */
static int add_system_chunks(struct volume *vol, const struct disk_super *super,
			     struct reason *reason)
{
	size_t size = disk_super_sys_chunk_array_size(super), at = 0;

	while (at < size) {
		const uint8_t *p = super->sys_chunk_array + at;
		const struct disk_chunk *chunk = (const struct disk_chunk *)(p + sizeof(struct disk_key));
		struct key key;
		size_t bytes;
		int err;

		if (size - at < sizeof(struct disk_key) + sizeof(*chunk))
			return reason_set(reason, -EUCLEAN, "the superblock's system chunks are damaged");
		key = key_from_disk((const struct disk_key *)p);
		bytes = chunk_item_bytes(disk_chunk_num_stripes(chunk));
		if (bytes > size - at - sizeof(struct disk_key) ||
		    !(disk_chunk_type(chunk) & BG_SYSTEM))
			return reason_set(reason, -EUCLEAN, "the superblock's system chunks are damaged");
		err = volume_add_chunk(vol, &key, (const uint8_t *)chunk, bytes, reason);
		if (err < 0)
			return err;
		at += sizeof(struct disk_key) + bytes;
	}
	return 0;
}

static int add_devices(struct volume *vol, struct opening *o, struct reason *reason)
{
	for (unsigned i = 0; i < o->count; i++) {
		int err = volume_add_device(vol, o->devices[i], &o->supers[i].dev_item);

		if (err == -EEXIST)
			return reason_set(reason, -EINVAL, "%s: another device has its number, %" PRIu64
					  " (a copy?)", o->devices[i]->name,
					  disk_dev_item_devid(&o->supers[i].dev_item));
		if (err < 0)
			return reason_set(reason, err, "out of memory");
		o->devices[i] = NULL;
	}
	return 0;
}

static int open_with(struct opening *o, unsigned flags, struct volume **ret_vol,
		     struct disk_super *ret_super, struct reason *reason)
{
	scoped(volume_closep) struct volume *vol = NULL;
	const struct disk_super *super;
	struct volume_params params;
	int err;

	o->supers = calloc(o->count, sizeof(*o->supers));
	if (o->supers == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	err = read_supers(o, reason);
	if (err == 0)
		err = check_members(o, reason);
	if (err < 0)
		return err;
	super = &o->supers[o->newest];
	if (!(flags & VOLUME_READ_ONLY)) {
		err = super_check_writable(super, reason);
		if (err < 0)
			return err;
	}
	params_from_super(super, (flags & VOLUME_READ_ONLY) != 0, &params);
	if (volume_new(&params, &vol) < 0)
		return reason_set(reason, -ENOMEM, "out of memory");
	err = add_devices(vol, o, reason);
	if (err == 0)
		err = add_system_chunks(vol, super, reason);
	if (err < 0)
		return err;
	*ret_super = *super;
	*ret_vol = take(vol);
	return 0;
}

int volume_open_devices(struct device **devices, unsigned count, unsigned flags,
			struct volume **ret_vol, struct disk_super *ret_super, struct reason *reason)
{
	scoped(opening_done) struct opening o = {.count = count};

	must(count > 0);
	o.devices = calloc(count, sizeof(struct device *));
	if (o.devices == NULL) {
		for (unsigned i = 0; i < count; i++)
			device_close(devices[i]);
		return reason_set(reason, -ENOMEM, "out of memory");
	}
	memcpy(o.devices, devices, count * sizeof(struct device *));
	return open_with(&o, flags, ret_vol, ret_super, reason);
}

int volume_open(const char *const *paths, unsigned count, unsigned flags, struct volume **ret_vol,
		struct disk_super *ret_super, struct reason *reason)
{
	scoped(opening_done) struct opening o = {.count = count};
	unsigned device_flags = flags & VOLUME_READ_ONLY ? DEVICE_READ_ONLY : 0;

	must(count > 0);
	o.devices = calloc(count, sizeof(struct device *));
	if (o.devices == NULL)
		return reason_set(reason, -ENOMEM, "out of memory");
	for (unsigned i = 0; i < count; i++) {
		int err = device_open(paths[i], device_flags, &o.devices[i], reason);

		if (err < 0)
			return err;
	}
	return open_with(&o, flags, ret_vol, ret_super, reason);
}
