/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/fuzz/base.c - a stored image in RAM, and where its tree blocks lie.
 *
 * Tree blocks are found by looking at every sector: it carries the filesystem's id and the checksum
 * is right. Nothing is asked of the trees, which may be damaged already (but see live.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/csum.h"
#include "io/device_mem.h"
#include "io/super.h"
#include "io/util.h"
#include "tests/fuzz/fuzz_image.h"

#define CHUNK_BYTES DEVICE_MEM_PAGE_BYTES
#define SCAN_BYTES_MAX (1ULL << 30)	/* of a device, for tree blocks */
#define COMMAND_MAX 4096u

static bool all_zero(const uint8_t *buf, size_t len)
{
	return len == 0 || (buf[0] == 0 && memcmp(buf, buf + 1, len - 1) == 0);
}

/* --- reading the file ------------------------------------------------------------------------ */

static int take_file(int fd, struct device *mem)
{
	scoped(freep) uint8_t *buf = malloc(CHUNK_BYTES);
	off_t at = 0;

	if (buf == NULL)
		return -ENOMEM;
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0) {
		off_t end = lseek(fd, at, SEEK_HOLE);

		while (at < end) {
			size_t want = (size_t)min_u64(CHUNK_BYTES, (uint64_t)(end - at));
			ssize_t got = pread(fd, buf, want, at);
			int err = got > 0 ? 0 : -EIO;

			if (err == 0 && !all_zero(buf, (size_t)got))
				err = device_pwrite(mem, (uint64_t)at, buf, (size_t)got);
			if (err < 0)
				return err;
			at += got;
		}
	}
	return 0;
}

static int load_file(const char *path, struct device **ret_mem)
{
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	scoped(device_closep) struct device *mem = NULL;
	struct stat st;
	int err;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	err = device_mem_open(path, (uint64_t)st.st_size, &mem);
	if (err == 0)
		err = take_file(fd, mem);
	if (err == 0)
		*ret_mem = take(mem);
	return err;
}

/* Unpacks into a temporary file, whose holes xz does not keep; take_file() leaves zeroes out. */
static int load_packed(const char *path, struct device **ret_mem)
{
	char command[COMMAND_MAX], name[] = "/tmp/cowfs-fuzz-XXXXXX";
	scoped(closep) int fd = mkstemp(name);
	int err;

	if (fd < 0)
		return -errno;
	if ((size_t)snprintf(command, sizeof(command), "xz -dc '%s' | dd of='%s' bs=64k conv=sparse,notrunc "
			     "iflag=fullblock status=none", path, name) >= sizeof(command))
		err = -ENAMETOOLONG;
	else
		err = system(command) == 0 ? load_file(name, ret_mem) : -EINVAL;
	unlink(name);
	return err;
}

/* --- finding tree blocks --------------------------------------------------------------------- */

struct scan {
	struct fuzz_base *base;
	unsigned room;
	const uint8_t *fsid;
	uint32_t sizes[2];
	uint8_t *buf;			/* BLOCKSIZE_MAX */
};

static int add_block(struct scan *s, uint64_t physical, uint32_t bytes)
{
	const struct disk_header *h = (const struct disk_header *)(const void *)s->buf;
	struct fuzz_base *b = s->base;

	for (unsigned i = 0; i < b->block_count; i++) {
		struct fuzz_block *old = &b->blocks[i];

		if (old->logical != disk_header_bytenr(h))
			continue;
		if (disk_header_generation(h) > old->generation)
			old->copy_count = 0;
		else if (disk_header_generation(h) < old->generation || old->copy_count == BLOCK_COPIES_MAX)
			return 0;
		old->generation = disk_header_generation(h);
		old->bytes = bytes;
		old->copies[old->copy_count++] = physical;
		return 0;
	}
	if (b->block_count == s->room) {
		unsigned room = s->room ? 2 * s->room : 64;
		struct fuzz_block *more = realloc(b->blocks, room * sizeof(*more));

		if (more == NULL)
			return -ENOMEM;
		b->blocks = more;
		s->room = room;
	}
	b->blocks[b->block_count++] = (struct fuzz_block){
		.logical = disk_header_bytenr(h), .generation = disk_header_generation(h),
		.copies = { physical }, .copy_count = 1, .bytes = bytes,
	};
	return 0;
}

static int scan_sector(struct scan *s, uint64_t at)
{
	const struct disk_header *h = (const struct disk_header *)(const void *)s->buf;
	struct device *mem = s->base->mem;
	int err = device_pread(mem, at, s->buf, sizeof(*h));

	if (err < 0 || memcmp(h->fsid, s->fsid, UUID_BYTES) != 0)
		return err;
	for (unsigned i = 0; i < ARRAY_COUNT(s->sizes); i++) {
		if (s->sizes[i] > BLOCKSIZE_MAX || s->sizes[i] < NODESIZE_MIN ||
		    s->sizes[i] > device_size(mem) - at)
			continue;
		err = device_pread(mem, at, s->buf, s->sizes[i]);
		if (err < 0)
			return err;
		if (csum_header_good(s->base->csum_type, s->buf, s->sizes[i]))
			return add_block(s, at, s->sizes[i]);
	}
	return 0;
}

static int find_blocks(struct fuzz_base *base)
{
	struct disk_super super;
	scoped(freep) uint8_t *buf = malloc(BLOCKSIZE_MAX);
	uint64_t end = min_u64(SCAN_BYTES_MAX, device_size(base->mem));
	int err;

	if (buf == NULL)
		return -ENOMEM;
	if (end < SUPER_OFFSET_0 + SUPER_BYTES)
		return 0;
	err = device_pread(base->mem, SUPER_OFFSET_0, &super, sizeof(super));
	if (err < 0 || !csum_type_known(disk_super_csum_type(&super)))
		return err;
	base->csum_type = (enum csum_type)disk_super_csum_type(&super);
	if (!csum_header_good(base->csum_type, &super, sizeof(super)))
		return 0;
	base->super_at = SUPER_OFFSET_0;
	struct scan s = { .base = base, .buf = buf, .fsid = super_metadata_uuid(&super),
			  .sizes = { disk_super_nodesize(&super), disk_super_leafsize(&super) } };
	for (uint64_t at = SUPER_OFFSET_0 + SUPER_BYTES; err == 0 && at + SECTORSIZE_MIN <= end;
	     at += SECTORSIZE_MIN)
		err = scan_sector(&s, at);
	return err == 0 ? fuzz_base_keep_live(base, &super) : err;
}

int fuzz_base_take(struct device *mem, struct fuzz_base *ret_base)
{
	struct fuzz_base base = { .mem = mem };
	int err = find_blocks(&base);

	if (err < 0)
		fuzz_base_done(&base);
	else
		*ret_base = base;
	return err;
}

int fuzz_base_load(const char *path, struct fuzz_base *ret_base)
{
	size_t len = strlen(path);
	struct device *mem;
	int err = len > 3 && strcmp(path + len - 3, ".xz") == 0 ? load_packed(path, &mem)
								: load_file(path, &mem);

	return err < 0 ? err : fuzz_base_take(mem, ret_base);
}

void fuzz_base_done(struct fuzz_base *base)
{
	device_close(base->mem);
	free(base->blocks);
}
