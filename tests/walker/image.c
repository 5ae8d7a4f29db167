/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/image.c - superblocks, chunks and device extents; see walk.h.
 */
#include "tests/walker/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

static bool size_fits(uint32_t size)
{
	return is_pow2(size) && size >= SECTORSIZE_MIN && size <= BLOCKSIZE_MAX;
}

/* What the rest of the walker relies on. */
static bool super_usable(struct walk *w)
{
	const struct disk_super *s = &w->super;

	if (disk_super_magic(s) != SUPER_MAGIC) {
		bad(w, "superblock: no magic number");
		return false;
	}
	if (!csum_type_known(disk_super_csum_type(s))) {
		bad(w, "superblock: unknown checksum type %u", disk_super_csum_type(s));
		return false;
	}
	w->csum_type = (enum csum_type)disk_super_csum_type(s);
	w->csum_bytes = csum_size(w->csum_type);
	if (!csum_header_good(w->csum_type, s, sizeof(*s)))
		bad(w, "superblock: wrong checksum");
	w->sectorsize = disk_super_sectorsize(s);
	w->leafsize = disk_super_leafsize(s);
	w->nodesize = disk_super_nodesize(s);
	if (!size_fits(w->sectorsize) || !size_fits(w->leafsize) || !size_fits(w->nodesize) ||
	    w->sectorsize > w->leafsize || w->sectorsize > w->nodesize) {
		bad(w, "superblock: sector, leaf and node size %u, %u, %u", w->sectorsize, w->leafsize,
		    w->nodesize);
		return false;
	}
	if (disk_super_num_devices(s) != 1) {
		bad(w, "superblock: %llu devices", U(disk_super_num_devices(s)));
		return false;
	}
	if (disk_super_sys_chunk_array_size(s) > SYS_CHUNK_ARRAY_BYTES) {
		bad(w, "superblock: system chunk array of %u bytes", disk_super_sys_chunk_array_size(s));
		return false;
	}
	return true;
}

static void check_features(struct walk *w)
{
	const struct disk_super *s = &w->super;
	uint64_t incompat = disk_super_incompat_flags(s);
	uint64_t known = INCOMPAT_MIXED_BACKREF | INCOMPAT_DEFAULT_SUBVOL | INCOMPAT_MIXED_GROUPS |
			 INCOMPAT_COMPRESS_LZO | INCOMPAT_COMPRESS_ZSTD | INCOMPAT_BIG_METADATA |
			 INCOMPAT_EXTENDED_IREF | INCOMPAT_RAID56 | INCOMPAT_SKINNY_METADATA |
			 INCOMPAT_NO_HOLES | INCOMPAT_METADATA_UUID | INCOMPAT_RAID1C34 |
			 INCOMPAT_SIMPLE_QUOTA | INCOMPAT_COWFS_LEAFSIZE;
	uint64_t ro = disk_super_compat_ro_flags(s);

	w->skinny = incompat & INCOMPAT_SKINNY_METADATA;
	w->no_holes = incompat & INCOMPAT_NO_HOLES;
	w->mixed = incompat & INCOMPAT_MIXED_GROUPS;
	w->free_space_tree = ro & COMPAT_RO_FREE_SPACE_TREE;
	w->group_tree = ro & COMPAT_RO_BLOCK_GROUP_TREE;
	if (incompat & ~known)
		bad(w, "superblock: unknown incompat flags %#llx", U(incompat & ~known));
	if (ro & ~15ull)
		bad(w, "superblock: unknown compat_ro flags %#llx", U(ro & ~15ull));
	if (!(incompat & INCOMPAT_MIXED_BACKREF))
		bad(w, "superblock: MIXED_BACKREF is not set");
	if ((w->leafsize != w->nodesize) != !!(incompat & INCOMPAT_COWFS_LEAFSIZE))
		bad(w, "superblock: leaf size %u, node size %u, bit 62 is %s", w->leafsize, w->nodesize,
		    incompat & INCOMPAT_COWFS_LEAFSIZE ? "set" : "not set");
	if (w->leafsize != w->nodesize && !w->skinny)
		bad(w, "superblock: two sizes without skinny metadata");
	if (max_u32(w->leafsize, w->nodesize) > NODESIZE_MIN && !(incompat & INCOMPAT_BIG_METADATA))
		bad(w, "superblock: large nodes without BIG_METADATA");
	if (w->group_tree && (!w->no_holes || !w->free_space_tree))
		bad(w, "superblock: BLOCK_GROUP_TREE without what it needs");
}

static void check_fields(struct walk *w)
{
	const struct disk_super *s = &w->super;
	const struct disk_dev_item *d = &s->dev_item;
	const uint8_t *id = disk_super_incompat_flags(s) & INCOMPAT_METADATA_UUID ? s->metadata_uuid
									       : s->fsid;
	uint64_t total = disk_super_total_bytes(s);

	if (disk_super_bytenr(s) != SUPER_OFFSET_0)
		bad(w, "superblock: it says it lies at %llu", U(disk_super_bytenr(s)));
	if (disk_super_stripesize(s) != w->sectorsize)
		bad(w, "superblock: stripe size %u", disk_super_stripesize(s));
	if (disk_super_root_level(s) >= LEVEL_COUNT || disk_super_chunk_root_level(s) >= LEVEL_COUNT)
		bad(w, "superblock: levels %u, %u", disk_super_root_level(s),
		    disk_super_chunk_root_level(s));
	if (disk_super_chunk_root_generation(s) > w->generation)
		bad(w, "superblock: the chunk tree is of generation %llu, later than %llu",
		    U(disk_super_chunk_root_generation(s)), U(w->generation));
	if (disk_super_cache_generation(s) > w->generation &&
	    disk_super_cache_generation(s) != UINT64_MAX)
		bad(w, "superblock: cache generation %llu", U(disk_super_cache_generation(s)));
	if (disk_super_uuid_tree_generation(s) > w->generation)
		bad(w, "superblock: uuid tree generation %llu", U(disk_super_uuid_tree_generation(s)));
	if (disk_super_root_dir_objectid(s) != OBJ_ROOT_TREE_DIR)
		bad(w, "superblock: root folder %llu", U(disk_super_root_dir_objectid(s)));
	if (memcmp(d->fsid, id, UUID_BYTES) != 0)
		bad(w, "superblock: the device item has another fsid");
	if (disk_dev_item_total_bytes(d) != total)
		bad(w, "superblock: total bytes %llu, of the device %llu", U(total),
		    U(disk_dev_item_total_bytes(d)));
	if (total > w->size)
		bad(w, "superblock: total bytes %llu in an image of %llu", U(total), U(w->size));
	if (disk_super_bytes_used(s) > total)
		bad(w, "superblock: %llu of %llu bytes used", U(disk_super_bytes_used(s)), U(total));
}

/* The copies must say the same, each with its own place and checksum. */
static void check_mirrors(struct walk *w)
{
	for (unsigned m = 1; m < SUPER_MIRROR_COUNT; m++) {
		uint64_t at = super_offset(m);
		struct disk_super s;

		if (at + SUPER_BYTES > min_u64(w->size, disk_super_total_bytes(&w->super)))
			return;
		memcpy(&s, w->map + at, sizeof(s));
		if (!csum_header_good(w->csum_type, &s, sizeof(s))) {
			bad(w, "superblock mirror %u: wrong checksum", m);
			continue;
		}
		if (disk_super_bytenr(&s) != at)
			bad(w, "superblock mirror %u: it says it lies at %llu", m,
			    U(disk_super_bytenr(&s)));
		disk_super_set_bytenr(&s, disk_super_bytenr(&w->super));
		memcpy(s.csum, w->super.csum, sizeof(s.csum));
		/* Only the first copy follows a log. */
		if (!w->log && memcmp(&s, &w->super, sizeof(s)) != 0)
			bad(w, "superblock mirror %u: differs from the first", m);
	}
}

static void check_backups(struct walk *w)
{
	for (unsigned i = 0; i < ROOT_BACKUP_COUNT; i++) {
		const struct disk_root_backup *b = &w->super.backups[i];

		if (disk_root_backup_tree_root(b) == disk_super_root(&w->super) &&
		    disk_root_backup_tree_root_gen(b) == w->generation &&
		    disk_root_backup_tree_root_level(b) == disk_super_root_level(&w->super) &&
		    disk_root_backup_chunk_root(b) == disk_super_chunk_root(&w->super) &&
		    disk_root_backup_total_bytes(b) == disk_super_total_bytes(&w->super) &&
		    disk_root_backup_bytes_used(b) == disk_super_bytes_used(&w->super) &&
		    disk_root_backup_num_devices(b) == 1)
			return;
	}
	if (!w->log)
		bad(w, "superblock: no backup of generation %llu's roots", U(w->generation));
}

static void read_sys_chunks(struct walk *w)
{
	const uint8_t *at = w->super.sys_chunk_array;
	size_t left = disk_super_sys_chunk_array_size(&w->super);

	while (left > 0) {
		struct key key;
		size_t size;

		if (left < sizeof(struct disk_key) + sizeof(struct disk_chunk)) {
			bad(w, "system chunk array: ends within an entry");
			return;
		}
		key = key_from_disk((const struct disk_key *)at);
		at += sizeof(struct disk_key);
		left -= sizeof(struct disk_key);
		size = sizeof(struct disk_chunk) +
		       sizeof(struct disk_stripe) * disk_chunk_num_stripes((const struct disk_chunk *)at);
		if (key.objectid != OBJ_FIRST_CHUNK_TREE || key.type != KEY_CHUNK_ITEM || size > left) {
			bad(w, "system chunk array: bad entry " KEY_FMT, KEY_ARGS(&key));
			return;
		}
		if (!(disk_chunk_type((const struct disk_chunk *)at) & BG_SYSTEM))
			bad(w, "system chunk array: chunk %llu is no system chunk", U(key.offset));
		chunk_add(w, &key, at, size);
		at += size;
		left -= size;
	}
}

bool image_open(struct walk *w, const char *path)
{
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st) < 0) {
		bad(w, "%s: %s", path, strerror(errno));
		return false;
	}
	w->size = (uint64_t)st.st_size;
	if (w->size < SUPER_OFFSET_0 + SUPER_BYTES) {
		bad(w, "%s: too small for a superblock", path);
		return false;
	}
	map = mmap(NULL, (size_t)w->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED) {
		bad(w, "%s: %s", path, strerror(errno));
		return false;
	}
	w->map = map;
	memcpy(&w->super, w->map + SUPER_OFFSET_0, sizeof(w->super));
	w->generation = disk_super_generation(&w->super);
	w->log = disk_super_log_root(&w->super) != 0;
	if (!super_usable(w))
		return false;
	check_features(w);
	check_fields(w);
	check_mirrors(w);
	check_backups(w);
	read_sys_chunks(w);
	return true;
}

void image_close(struct walk *w)
{
	if (w->map != NULL)
		munmap((void *)(uintptr_t)w->map, (size_t)w->size);
}

/* --- chunks -------------------------------------------------------------------------------------- */

static bool chunk_sane(struct walk *w, const struct key *key, const uint8_t *item, size_t size)
{
	const struct disk_chunk *c = (const struct disk_chunk *)item;
	uint64_t len, type, use, profile;
	unsigned n;

	if (size < sizeof(*c) + sizeof(struct disk_stripe)) {
		bad(w, "chunk %llu: item of %zu bytes", U(key->offset), size);
		return false;
	}
	len = disk_chunk_length(c);
	type = disk_chunk_type(c);
	use = type & BG_TYPE_MASK;
	profile = type & BG_PROFILE_MASK;
	n = disk_chunk_num_stripes(c);
	if (size != sizeof(*c) + n * sizeof(struct disk_stripe) || n == 0 || n > COPIES_MAX) {
		bad(w, "chunk %llu: %u stripes in %zu bytes", U(key->offset), n, size);
		return false;
	}
	if (len == 0 || !is_aligned(len, w->sectorsize) || !is_aligned(key->offset, w->sectorsize) ||
	    len > UINT64_MAX - key->offset) {
		bad(w, "chunk %llu: length %llu", U(key->offset), U(len));
		return false;
	}
	if (type & ~(BG_TYPE_MASK | BG_PROFILE_MASK) || !(profile == 0 || is_pow2(profile)) ||
	    !(is_pow2(use) || (w->mixed && use == (BG_DATA | BG_METADATA))))
		bad(w, "chunk %llu: type %#llx", U(key->offset), U(type));
	if (w->mixed && (use == BG_DATA || use == BG_METADATA))
		bad(w, "chunk %llu: type %#llx among mixed ones", U(key->offset), U(type));
	if (disk_chunk_stripe_len(c) != STRIPE_LEN_BYTES || disk_chunk_owner(c) != OBJ_EXTENT_TREE)
		bad(w, "chunk %llu: stripe length %llu, owner %llu", U(key->offset),
		    U(disk_chunk_stripe_len(c)), U(disk_chunk_owner(c)));
	if (n != (profile == BG_DUP ? 2u : 1u))
		bad(w, "chunk %llu: %u stripes for type %#llx on one device", U(key->offset), n, U(type));
	return true;
}

void chunk_add(struct walk *w, const struct key *key, const uint8_t *item, size_t size)
{
	const struct disk_chunk *c = (const struct disk_chunk *)item;
	const struct disk_stripe *stripes = (const struct disk_stripe *)(item + sizeof(*c));
	struct wchunk *have, new = {0};
	size_t at;

	if (!chunk_sane(w, key, item, size))
		return;
	new.start = key->offset;
	new.len = disk_chunk_length(c);
	new.type = disk_chunk_type(c);
	new.copies = disk_chunk_num_stripes(c);
	for (unsigned i = 0; i < new.copies; i++) {
		uint64_t physical = disk_stripe_offset(&stripes[i]);

		new.physical[i] = physical;
		if (disk_stripe_devid(&stripes[i]) != disk_dev_item_devid(&w->super.dev_item) ||
		    memcmp(stripes[i].dev_uuid, w->super.dev_item.uuid, UUID_BYTES) != 0)
			bad(w, "chunk %llu: a stripe on another device", U(new.start));
		if (!is_aligned(physical, w->sectorsize) || physical > w->size ||
		    new.len > w->size - physical ||
		    physical + new.len > disk_super_total_bytes(&w->super))
			bad(w, "chunk %llu: a stripe at %llu, beyond the device", U(new.start), U(physical));
	}
	have = chunk_of(w, new.start, 1);
	if (have != NULL) {
		if (memcmp(have, &new, offsetof(struct wchunk, has_group)) != 0)
			bad(w, "chunk %llu: differs from chunk %llu", U(new.start), U(have->start));
		return;
	}
	(void)vec_add(&w->chunks);
	for (at = w->chunks.n - 1; at > 0 && w->chunks.v[at - 1].start > new.start; at--)
		w->chunks.v[at] = w->chunks.v[at - 1];
	w->chunks.v[at] = new;
	if (at + 1 < w->chunks.n && w->chunks.v[at + 1].start < new.start + new.len)
		bad(w, "chunk %llu: overlaps the next", U(new.start));
}

struct wchunk *chunk_of(struct walk *w, uint64_t logical, uint64_t len)
{
	size_t lo = 0, hi = w->chunks.n;
	struct wchunk *c;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (w->chunks.v[mid].start <= logical)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0)
		return NULL;
	c = &w->chunks.v[lo - 1];
	if (logical - c->start >= c->len || len > c->len - (logical - c->start))
		return NULL;
	return c;
}

const uint8_t *bytes_at(struct walk *w, uint64_t logical, uint64_t len, unsigned copy)
{
	const struct wchunk *c = chunk_of(w, logical, len);
	uint64_t physical;

	if (c == NULL || copy >= c->copies)
		return NULL;
	physical = c->physical[copy] + (logical - c->start);
	if (physical > w->size || len > w->size - physical)
		return NULL;
	return w->map + physical;
}

struct chunk_walk {
	unsigned devices;
};

static void chunk_tree_item(struct walk *w, const struct witem *it, void *arg)
{
	struct chunk_walk *cw = arg;
	size_t before = w->chunks.n;

	if (it->key.type == KEY_CHUNK_ITEM && it->key.objectid == OBJ_FIRST_CHUNK_TREE) {
		chunk_add(w, &it->key, it->data, it->size);
		if (w->chunks.n > before && it->size >= sizeof(struct disk_chunk) &&
		    disk_chunk_type((const struct disk_chunk *)it->data) & BG_SYSTEM)
			bad(w, "chunk %llu: a system chunk that the superblock does not name",
			    U(it->key.offset));
	} else if (it->key.type == KEY_DEV_ITEM && it->key.objectid == OBJ_DEV_ITEMS) {
		cw->devices++;
		if (it->size != sizeof(struct disk_dev_item))
			bad(w, "device item of %u bytes", it->size);
		else if (it->key.offset != disk_dev_item_devid(&w->super.dev_item) ||
			 memcmp(it->data, &w->super.dev_item, it->size) != 0)
			bad(w, "device item " KEY_FMT " differs from that in the superblock",
			    KEY_ARGS(&it->key));
	} else {
		bad(w, "chunk tree: unexpected item " KEY_FMT, KEY_ARGS(&it->key));
	}
}

void chunk_tree_check(struct walk *w)
{
	struct wtree t = {
		.id = OBJ_CHUNK_TREE,
		.bytenr = disk_super_chunk_root(&w->super),
		.generation = disk_super_chunk_root_generation(&w->super),
		.level = disk_super_chunk_root_level(&w->super),
	};
	struct chunk_walk cw = {0};
	size_t from_array = w->chunks.n;

	tree_walk(w, &t, chunk_tree_item, &cw);
	if (cw.devices != 1)
		bad(w, "chunk tree: %u device items", cw.devices);
	if (w->chunks.n < from_array || w->chunks.n == 0)
		bad(w, "chunk tree: no chunks");
}

/* --- device extents ------------------------------------------------------------------------------ */

static void dev_tree_item(struct walk *w, const struct witem *it, void *arg)
{
	static const uint8_t none[UUID_BYTES];
	const struct disk_dev_extent *d = (const struct disk_dev_extent *)it->data;
	struct dev_extent *e;

	(void)arg;
	if (it->key.type == KEY_PERSISTENT_ITEM && it->key.objectid == OBJ_DEV_STATS) {
		if (it->size % 8 != 0 || it->size > sizeof(struct disk_dev_stats))
			bad(w, "device statistics of %u bytes", it->size);
		return;
	}
	if (it->key.type == KEY_DEV_REPLACE)
		return;
	if (it->key.type != KEY_DEV_EXTENT ||
	    it->key.objectid != disk_dev_item_devid(&w->super.dev_item)) {
		bad(w, "device tree: unexpected item " KEY_FMT, KEY_ARGS(&it->key));
		return;
	}
	if (it->size != sizeof(*d)) {
		bad(w, "device extent %llu of %u bytes", U(it->key.offset), it->size);
		return;
	}
	/* Where the kernel made it the uuid is zeroes. */
	if (disk_dev_extent_chunk_tree(d) != OBJ_CHUNK_TREE ||
	    disk_dev_extent_chunk_objectid(d) != OBJ_FIRST_CHUNK_TREE ||
	    (memcmp(d->chunk_tree_uuid, w->chunk_uuid, UUID_BYTES) != 0 &&
	     memcmp(d->chunk_tree_uuid, none, UUID_BYTES) != 0))
		bad(w, "device extent %llu: of another chunk tree", U(it->key.offset));
	e = vec_add(&w->dev_extents);
	e->physical = it->key.offset;
	e->len = disk_dev_extent_length(d);
	e->chunk = disk_dev_extent_chunk_offset(d);
}

static int dev_extent_cmp(const void *a, const void *b)
{
	const struct dev_extent *x = a, *y = b;

	return x->physical < y->physical ? -1 : x->physical > y->physical;
}

static void compare_dev_extents(struct walk *w, const struct dev_extent *want, size_t n)
{
	size_t i = 0, j = 0;

	while (i < n || j < w->dev_extents.n) {
		const struct dev_extent *a = i < n ? &want[i] : NULL;
		const struct dev_extent *b = j < w->dev_extents.n ? &w->dev_extents.v[j] : NULL;
		int c = a == NULL ? 1 : b == NULL ? -1 : dev_extent_cmp(a, b);

		if (c < 0)
			bad(w, "chunk %llu: its stripe at %llu has no device extent", U(a->chunk),
			    U(a->physical));
		else if (c > 0)
			bad(w, "device extent %llu: no chunk has a stripe there", U(b->physical));
		else if (a->len != b->len || a->chunk != b->chunk)
			bad(w, "device extent %llu: %llu bytes of chunk %llu, not %llu of %llu",
			    U(b->physical), U(b->len), U(b->chunk), U(a->len), U(a->chunk));
		i += c <= 0;
		j += c >= 0;
	}
}

void dev_tree_check(struct walk *w, struct wtree *t)
{
	VEC(struct dev_extent) want = {0};
	uint64_t used = 0, end = DEVICE_RESERVED_BYTES;

	tree_walk(w, t, dev_tree_item, NULL);
	for (size_t i = 0; i < w->chunks.n; i++) {
		for (unsigned s = 0; s < w->chunks.v[i].copies; s++) {
			struct dev_extent *e = vec_add(&want);

			e->physical = w->chunks.v[i].physical[s];
			e->len = w->chunks.v[i].len;
			e->chunk = w->chunks.v[i].start;
		}
	}
	vec_sort(&want, dev_extent_cmp);
	compare_dev_extents(w, want.v, want.n);
	for (size_t i = 0; i < w->dev_extents.n; i++) {
		const struct dev_extent *e = &w->dev_extents.v[i];

		if (e->physical < end)
			bad(w, "device extent %llu: overlaps the one before, or begins below 1 MiB",
			    U(e->physical));
		end = e->physical + e->len;
		used += e->len;
	}
	if (used != disk_dev_item_bytes_used(&w->super.dev_item))
		bad(w, "device item: %llu bytes used, device extents have %llu",
		    U(disk_dev_item_bytes_used(&w->super.dev_item)), U(used));
	free(want.v);
}
