/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * io/volume.c - reading and writing logical addresses (see volume.h).
 *
 * Each request is cut into pieces that are contiguous on every device (chunk_map_locate), and each
 * piece becomes one device call a copy. Opening is in volume_open.c.
 */
#include "io/volume.h"

#include "io/csum.h"
#include "io/log.h"
#include "io/super.h"
#include "io/util.h"

#define IOV_SLICE 64u			/* parts of one device write that crosses no piece */

/*
 * Life and devices.
 */

int volume_new(const struct volume_params *params, struct volume **ret_vol)
{
	struct volume *vol = calloc(1, sizeof(*vol));

	if (vol == NULL)
		return -ENOMEM;
	vol->params = *params;
	vol->csum_bytes = csum_size(params->csum_type);
	chunk_map_init(&vol->chunks, params->sectorsize, params->mixed);
	rwlock_init(&vol->devices_lock, RANK_DEV);
	*ret_vol = vol;
	return 0;
}

void volume_close(struct volume *vol)
{
	if (vol == NULL)
		return;
	for (unsigned i = 0; i < vol->device_count; i++) {
		device_close(vol->devices[i]->dev);
		free(vol->devices[i]);
	}
	free(vol->devices);
	chunk_map_done(&vol->chunks);
	rwlock_done(&vol->devices_lock);
	free(vol);
}

struct volume_device *volume_find_device(const struct volume *vol, uint64_t devid)
{
	for (unsigned i = 0; i < vol->device_count; i++)
		if (vol->devices[i]->devid == devid)
			return vol->devices[i];
	return NULL;
}

int volume_add_device(struct volume *vol, struct device *dev, const struct disk_dev_item *item)
{
	uint64_t devid = disk_dev_item_devid(item);
	struct volume_device **more, *d;

	if (volume_find_device(vol, devid) != NULL)
		return -EEXIST;
	more = realloc(vol->devices, (vol->device_count + 1) * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	vol->devices = more;
	d = calloc(1, sizeof(*d));
	if (d == NULL)
		return -ENOMEM;
	d->devid = devid;
	d->dev = dev;
	d->item = *item;
	vol->devices[vol->device_count++] = d;
	return 0;
}

int volume_device_item(struct volume *vol, uint64_t devid, struct disk_dev_item *ret_item)
{
	const struct volume_device *d = volume_find_device(vol, devid);

	if (d == NULL)
		return -ENODEV;
	read_guard(&vol->devices_lock);
	*ret_item = d->item;
	return 0;
}

int volume_set_device_item(struct volume *vol, uint64_t devid, const struct disk_dev_item *item)
{
	struct volume_device *d = volume_find_device(vol, devid);

	if (d == NULL)
		return -ENODEV;
	must(disk_dev_item_devid(item) == devid);
	write_guard(&vol->devices_lock);
	d->item = *item;
	return 0;
}

uint64_t volume_size(const struct volume *vol)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < vol->device_count; i++)
		sum += device_size(vol->devices[i]->dev);
	return sum;
}

bool volume_is_rotational(const struct volume *vol)
{
	for (unsigned i = 0; i < vol->device_count; i++)
		if (device_is_rotational(vol->devices[i]->dev))
			return true;
	return false;
}

/*
 * Chunks.
 */

/* V1 for one stripe. */
static int check_stripe(const struct volume *vol, const struct chunk *c, unsigned i,
			struct reason *reason)
{
	const struct chunk_stripe *s = &c->stripes[i];
	const struct volume_device *d = volume_find_device(vol, s->devid);
	uint64_t size;

	if (d == NULL)
		return reason_set(reason, -ENODEV, "the filesystem needs device %llu, which is missing",
				  (unsigned long long)s->devid);
	size = device_size(d->dev);
	if (s->physical > size || chunk_stripe_bytes(c) > size - s->physical) {
		reason_set(reason, -EUCLEAN, "chunk %llu reaches past the end of device %llu (%s)",
			   (unsigned long long)c->logical, (unsigned long long)s->devid, d->dev->name);
		return corrupt(OBJ_CHUNK_TREE, NO_ADDRESS, NO_SLOT,
			       "chunk %llu reaches past the end of device %llu",
			       (unsigned long long)c->logical, (unsigned long long)s->devid);
	}
	return 0;
}

int volume_add_chunk(struct volume *vol, const struct key *key, const uint8_t *item, size_t size,
		     struct reason *reason)
{
	scoped(freep) struct chunk *c = NULL;
	int err = chunk_decode(key, item, size, vol->params.sectorsize, vol->params.mixed, &c, reason);

	for (unsigned i = 0; err == 0 && i < c->num_stripes; i++)
		err = check_stripe(vol, c, i, reason);
	if (err < 0)
		return err;
	return chunk_map_add(&vol->chunks, key, item, size, reason);
}

int volume_remove_chunk(struct volume *vol, uint64_t logical)
{
	return chunk_map_remove(&vol->chunks, logical);
}

int volume_num_copies(struct volume *vol, uint64_t logical)
{
	struct chunk_piece piece;
	int err = chunk_map_locate(&vol->chunks, logical, 1, &piece);

	return err < 0 ? err : (int)piece.copies;
}

/*
 * Reading.
 */

int volume_read(struct volume *vol, uint64_t logical, void *buf, size_t len, unsigned mirror)
{
	uint8_t *at = buf;

	while (len > 0) {
		struct chunk_piece piece;
		struct volume_device *d;
		int err = chunk_map_locate(&vol->chunks, logical, len, &piece);

		if (err < 0)
			return err;
		if (mirror >= piece.copies)
			return -EINVAL;
		d = volume_find_device(vol, piece.copy[mirror].devid);
		must(d != NULL);
		err = device_pread(d->dev, piece.copy[mirror].physical, at, (size_t)piece.len);
		if (err < 0) {
			atomic_fetch_add(&d->read_errors, 1);
			return err;
		}
		at += piece.len;
		logical += piece.len;
		len -= (size_t)piece.len;
	}
	return 0;
}

/* Writes one copy of a range anew. */
static int rewrite_copy(struct volume *vol, uint64_t logical, const void *buf, size_t len,
			unsigned mirror)
{
	const uint8_t *at = buf;

	while (len > 0) {
		struct chunk_piece piece;
		struct volume_device *d;
		int err = chunk_map_locate(&vol->chunks, logical, len, &piece);

		if (err < 0)
			return err;
		if (mirror >= piece.copies)
			return -EINVAL;
		d = volume_find_device(vol, piece.copy[mirror].devid);
		must(d != NULL);
		atomic_fetch_add(&d->corruption_errors, 1);
		err = device_pwrite(d->dev, piece.copy[mirror].physical, at, (size_t)piece.len);
		if (err < 0) {
			atomic_fetch_add(&d->write_errors, 1);
			return err;
		}
		at += piece.len;
		logical += piece.len;
		len -= (size_t)piece.len;
	}
	return 0;
}

/* Copies 0 .. good-1 were bad, buf holds the good one. */
static void repair_copies(struct volume *vol, uint64_t logical, const void *buf, size_t len,
			  unsigned good)
{
	static struct log_limit limit;
	uint64_t left_out = 0;
	unsigned mended = 0;

	for (unsigned m = 0; m < good && !vol->params.read_only; m++)
		if (rewrite_copy(vol, logical, buf, len, m) == 0)
			mended++;
	atomic_fetch_add(&vol->repaired_count, mended);
	if (log_limit_pass(&limit, &left_out))
		log_warn("%zu bytes at %llu: %u bad %s, copy %u is good%s", len,
			 (unsigned long long)logical, good, good == 1 ? "copy" : "copies", good,
			 mended == good ? "; repaired" : mended > 0 ? "; not all repaired" : "");
	if (left_out > 0)
		log_warn("%llu more bad copies were not logged", (unsigned long long)left_out);
}

int volume_read_verified(struct volume *vol, uint64_t logical, size_t len, void *buf,
			 volume_verify_fn verify, void *arg)
{
	int copies = volume_num_copies(vol, logical), first_err = 0;

	if (copies < 0)
		return copies;
	for (unsigned m = 0; m < (unsigned)copies; m++) {
		int err = volume_read(vol, logical, buf, len, m);

		if (err == 0)
			err = verify(buf, len, arg);
		if (err == 0) {
			if (m > 0)
				repair_copies(vol, logical, buf, len, m);
			return 0;
		}
		if (first_err == 0)
			first_err = err;
	}
	return first_err;
}

/*
 * Writing.
 */

/* A place in a list of parts. */
struct iov_cursor {
	const struct iovec *iov;
	unsigned count;
	size_t used;			/* bytes of the first part that are done */
};

/* Takes up to len bytes off the cursor into at most IOV_SLICE parts; returns how many bytes. */
static size_t cursor_take(struct iov_cursor *c, size_t len, struct iovec *parts, unsigned *ret_count)
{
	size_t taken = 0;
	unsigned n = 0;

	while (taken < len && n < IOV_SLICE) {
		size_t part = min_size(c->iov->iov_len - c->used, len - taken);

		if (part > 0)
			parts[n++] = (struct iovec){(char *)c->iov->iov_base + c->used, part};
		taken += part;
		c->used += part;
		if (c->used == c->iov->iov_len && c->count > 0) {
			c->iov++;
			c->count--;
			c->used = 0;
		}
	}
	*ret_count = n;
	return taken;
}

/* Writes to all copies of a piece at an offset within it; the first error of any. */
static int write_copies(struct volume *vol, const struct chunk_piece *piece, uint64_t within,
			const struct iovec *iov, unsigned count)
{
	int first_err = 0;

	for (unsigned m = 0; m < piece->copies; m++) {
		struct volume_device *d = volume_find_device(vol, piece->copy[m].devid);
		int err;

		must(d != NULL);
		err = device_pwritev(d->dev, piece->copy[m].physical + within, iov, count);
		if (err < 0) {
			atomic_fetch_add(&d->write_errors, 1);
			if (first_err == 0)
				first_err = err;
		}
	}
	return first_err;
}

/* The whole range is in chunks, or -ENOENT. */
static int check_mapped(struct volume *vol, uint64_t logical, uint64_t len)
{
	while (len > 0) {
		struct chunk_piece piece;
		int err = chunk_map_locate(&vol->chunks, logical, len, &piece);

		if (err < 0)
			return err;
		logical += piece.len;
		len -= piece.len;
	}
	return 0;
}

/* A write that lies in several pieces. */
static int write_pieces(struct volume *vol, uint64_t logical, size_t len, struct iov_cursor *cursor)
{
	int first_err = 0, err = check_mapped(vol, logical, len);

	if (err < 0)
		return err;
	while (len > 0) {
		struct chunk_piece piece;
		size_t done = 0;

		err = chunk_map_locate(&vol->chunks, logical, len, &piece);
		if (err < 0)
			return err;
		while (done < piece.len) {
			struct iovec parts[IOV_SLICE];
			unsigned count;
			size_t n = cursor_take(cursor, (size_t)piece.len - done, parts, &count);

			err = write_copies(vol, &piece, done, parts, count);
			if (err < 0 && first_err == 0)
				first_err = err;
			done += n;
		}
		logical += piece.len;
		len -= (size_t)piece.len;
	}
	return first_err;
}

int volume_writev(struct volume *vol, uint64_t logical, const struct iovec *iov, unsigned count)
{
	struct iov_cursor cursor = {.iov = iov, .count = count};
	size_t len = iov_bytes(iov, count);
	struct chunk_piece piece;
	int err;

	if (vol->params.read_only)
		return -EROFS;
	if (len == 0)
		return 0;
	err = chunk_map_locate(&vol->chunks, logical, len, &piece);
	if (err < 0)
		return err;
	if (piece.len == len)
		return write_copies(vol, &piece, 0, iov, count);
	return write_pieces(vol, logical, len, &cursor);
}

int volume_write(struct volume *vol, uint64_t logical, const void *buf, size_t len)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return volume_writev(vol, logical, &iov, 1);
}

int volume_flush(struct volume *vol)
{
	int first_err = 0;

	if (vol->params.read_only)
		return 0;
	for (unsigned i = 0; i < vol->device_count; i++) {
		int err = device_flush(vol->devices[i]->dev);

		if (err < 0) {
			atomic_fetch_add(&vol->devices[i]->flush_errors, 1);
			if (first_err == 0)
				first_err = err;
		}
	}
	return first_err;
}

int volume_discard(struct volume *vol, uint64_t logical, uint64_t len)
{
	int first_err = 0;

	if (vol->params.read_only)
		return -EROFS;
	while (len > 0) {
		struct chunk_piece piece;
		int err = chunk_map_locate(&vol->chunks, logical, len, &piece);

		if (err < 0)
			return err;
		for (unsigned m = 0; m < piece.copies; m++) {
			struct volume_device *d = volume_find_device(vol, piece.copy[m].devid);

			must(d != NULL);
			err = device_discard(d->dev, piece.copy[m].physical, piece.len);
			if (err < 0 && first_err == 0)
				first_err = err;
		}
		logical += piece.len;
		len -= piece.len;
	}
	return first_err;
}

int volume_write_supers(struct volume *vol, const struct disk_super *super, unsigned mirror_count)
{
	struct disk_super copy = *super;
	int first_err = 0;

	if (vol->params.read_only)
		return -EROFS;
	for (unsigned i = 0; i < vol->device_count; i++) {
		struct volume_device *d = vol->devices[i];
		int err = volume_device_item(vol, d->devid, &copy.dev_item);

		must(err == 0);
		err = super_write(d->dev, &copy, mirror_count);
		if (err < 0) {
			atomic_fetch_add(&d->write_errors, 1);
			if (first_err == 0)
				first_err = err;
		}
	}
	return first_err;
}
