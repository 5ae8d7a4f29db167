/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/unit/test_check.c - the judge of nodes (btree/check.h): sound items pass, and each thing that
 * can be wrong with one by itself is found.
 */
#include <sys/stat.h>

#include "btree/check.h"
#include "io/csum.h"
#include "io/log.h"
#include "io/rcu.h"
#include "tests/unit/mem_volume.h"

#define TRANSID 50u
#define BYTENR (UINT64_C(1) << 20)

static struct volume *vol;
static struct tree_env *env;

static void quiet(enum log_level level, const char *line, void *arg)
{
	(void)level, (void)line, (void)arg;
}

static void begin(void)
{
	struct tree_env_args args = { .transid = TRANSID };

	rcu_thread_enter();
	vol = mem_volume_new(16384, 16384, CSUM_CRC32C);
	args.vol = vol;
	unit_ok(tree_env_new(&args, &env));
	log_set_sink(quiet, NULL);
}

static void end(void)
{
	tree_env_free(env);
	volume_close(vol);
}

/* --- items ---------------------------------------------------------------------------------------- */

struct sample {
	struct key key;
	uint32_t size;
	uint8_t data[600];
};

static struct sample inode_item(void)
{
	struct sample s = { .key = key_make(257, KEY_INODE_ITEM, 0), .size = sizeof(struct disk_inode_item) };
	struct disk_inode_item *ii = (void *)s.data;

	disk_inode_item_set_generation(ii, TRANSID);
	disk_inode_item_set_transid(ii, TRANSID);
	disk_inode_item_set_mode(ii, S_IFDIR | 0755);
	disk_inode_item_set_nlink(ii, 1);
	disk_inode_item_set_flags(ii, INODE_NODUMP | INODE_RO_VERITY);
	return s;
}

/* Two names. */
static struct sample inode_ref(void)
{
	struct sample s = { .key = key_make(257, KEY_INODE_REF, 256), .size = 2 * 10 + 3 + 4 };

	disk_inode_ref_set_name_len((void *)s.data, 3);
	disk_inode_ref_set_name_len((void *)(s.data + 13), 4);
	return s;
}

static struct sample inode_extref(void)
{
	struct sample s = { .key = key_make(257, KEY_INODE_EXTREF, 99), .size = 2 * 18 + 3 + 4 };

	disk_inode_extref_set_name_len((void *)s.data, 3);
	disk_inode_extref_set_name_len((void *)(s.data + 21), 4);
	return s;
}

static struct sample entry(unsigned type, uint8_t ftype, struct key location, uint16_t data_len)
{
	struct sample s = { .key = key_make(257, type, name_hash("name", 4)), .size = 30 + 4 + data_len };
	struct disk_dir_item *d = (void *)s.data;

	key_to_disk(&location, &d->location);
	disk_dir_item_set_type(d, ftype);
	disk_dir_item_set_name_len(d, 4);
	disk_dir_item_set_data_len(d, data_len);
	memcpy(d + 1, "name", 4);
	return s;
}

static struct sample dir_item(void)
{
	return entry(KEY_DIR_ITEM, FT_REG_FILE, key_make(300, KEY_INODE_ITEM, 0), 0);
}

static struct sample dir_index(void)
{
	struct sample s = entry(KEY_DIR_INDEX, FT_DIR, key_make(260, KEY_ROOT_ITEM, UINT64_MAX), 0);

	s.key.offset = 2;
	return s;
}

static struct sample xattr_item(void)
{
	return entry(KEY_XATTR_ITEM, FT_XATTR, KEY_MIN, 20);
}

static struct sample file_extent(void)
{
	struct sample s = { .key = key_make(257, KEY_EXTENT_DATA, 8192), .size = 53 };
	struct disk_file_extent *fe = (void *)s.data;

	disk_file_extent_set_type(fe, FILE_EXTENT_REG);
	disk_file_extent_set_disk_bytenr(fe, 1 << 20);
	disk_file_extent_set_disk_num_bytes(fe, 65536);
	disk_file_extent_set_ram_bytes(fe, 65536);
	disk_file_extent_set_offset(fe, 4096);
	disk_file_extent_set_num_bytes(fe, 61440);
	return s;
}

static struct sample compressed_extent(void)
{
	struct sample s = file_extent();
	struct disk_file_extent *fe = (void *)s.data;

	disk_file_extent_set_compression(fe, COMPRESS_ZSTD);
	disk_file_extent_set_disk_num_bytes(fe, 4096);
	return s;
}

static struct sample inline_extent(void)
{
	struct sample s = { .key = key_make(257, KEY_EXTENT_DATA, 0), .size = 21 + 100 };

	disk_file_extent_set_ram_bytes((void *)s.data, 100);
	return s;
}

static struct sample hole(void)
{
	struct sample s = file_extent();

	disk_file_extent_set_disk_bytenr((void *)s.data, 0);
	disk_file_extent_set_disk_num_bytes((void *)s.data, 0);
	disk_file_extent_set_offset((void *)s.data, 0);
	return s;
}

static struct sample csum_item(void)
{
	return (struct sample){ .key = key_make(OBJ_EXTENT_CSUM, KEY_EXTENT_CSUM, 1 << 20), .size = 40 };
}

static struct sample root_item(void)
{
	struct sample s = { .key = key_make(257, KEY_ROOT_ITEM, 0), .size = sizeof(struct disk_root_item) };
	struct disk_root_item *ri = (void *)s.data;

	disk_root_item_set_generation(ri, TRANSID);
	disk_root_item_set_generation_v2(ri, TRANSID);
	disk_root_item_set_last_snapshot(ri, TRANSID);
	disk_root_item_set_bytenr(ri, 1 << 20);
	disk_root_item_set_level(ri, 7);
	disk_root_item_set_drop_level(ri, 1);
	disk_key_set_objectid(&ri->drop_progress, 300);
	disk_root_item_set_flags(ri, ROOT_SUBVOL_RDONLY | ROOT_SUBVOL_DEAD);
	return s;
}

static struct sample root_ref(void)
{
	struct sample s = { .key = key_make(5, KEY_ROOT_REF, 257), .size = 18 + 4 };

	disk_root_ref_set_name_len((void *)s.data, 4);
	return s;
}

static uint8_t *put_ref(uint8_t *at, uint8_t type, uint64_t offset)
{
	disk_extent_inline_ref_set_type((void *)at, type);
	disk_extent_inline_ref_set_offset((void *)at, offset);
	return at + sizeof(struct disk_extent_inline_ref);
}

static uint8_t *put_data_ref(uint8_t *at, uint64_t objectid, uint32_t number)
{
	struct disk_extent_data_ref *ref = (void *)(at + 1);

	*at = KEY_EXTENT_DATA_REF;
	disk_extent_data_ref_set_root(ref, 5);
	disk_extent_data_ref_set_objectid(ref, objectid);
	disk_extent_data_ref_set_offset(ref, UINT64_MAX - 4095);
	disk_extent_data_ref_set_count(ref, number);
	return at + 1 + sizeof(*ref);
}

/* Two data references (at 24 and 53) and a shared one (at 82), three keyed ones elsewhere. */
static struct sample data_extent(void)
{
	struct sample s = { .key = key_make(1 << 20, KEY_EXTENT_ITEM, 65536) };
	struct disk_extent_item *ei = (void *)s.data;
	bool swap = hash_extent_data_ref(5, 257, UINT64_MAX - 4095) <
		    hash_extent_data_ref(5, 258, UINT64_MAX - 4095);
	uint8_t *at = s.data + sizeof(*ei);

	disk_extent_item_set_refs(ei, 10);
	disk_extent_item_set_generation(ei, TRANSID);
	disk_extent_item_set_flags(ei, EXTENT_FLAG_DATA);
	at = put_data_ref(at, swap ? 258 : 257, 2);
	at = put_data_ref(at, swap ? 257 : 258, 1);
	at = put_ref(at, KEY_SHARED_DATA_REF, 1 << 22);
	disk_shared_data_ref_set_count((void *)at, 4);
	s.size = (uint32_t)(at + 4 - s.data);
	return s;
}

/* References at 24, 33 and 42. */
static struct sample metadata_item(void)
{
	struct sample s = { .key = key_make(1 << 20, KEY_METADATA_ITEM, 1) };
	struct disk_extent_item *ei = (void *)s.data;
	uint8_t *at = s.data + sizeof(*ei);

	disk_extent_item_set_refs(ei, 3);
	disk_extent_item_set_flags(ei, EXTENT_FLAG_TREE_BLOCK | EXTENT_FLAG_FULL_BACKREF);
	at = put_ref(at, KEY_TREE_BLOCK_REF, 257);
	at = put_ref(at, KEY_TREE_BLOCK_REF, 5);
	at = put_ref(at, KEY_SHARED_BLOCK_REF, 1 << 22);
	s.size = (uint32_t)(at - s.data);
	return s;
}

static struct sample fat_tree_extent(void)
{
	struct sample s = { .key = key_make(1 << 20, KEY_EXTENT_ITEM, 16384) };
	struct disk_extent_item *ei = (void *)s.data;

	disk_extent_item_set_refs(ei, 1);
	disk_extent_item_set_flags(ei, EXTENT_FLAG_TREE_BLOCK);
	disk_tree_block_info_set_level((void *)(ei + 1), 7);
	s.size = (uint32_t)(put_ref(s.data + 24 + 18, KEY_TREE_BLOCK_REF, 5) - s.data);
	return s;
}

static struct sample keyed_block_ref(void)
{
	return (struct sample){ .key = key_make(1 << 20, KEY_SHARED_BLOCK_REF, 1 << 22) };
}

static struct sample keyed_shared_ref(void)
{
	struct sample s = { .key = key_make(1 << 20, KEY_SHARED_DATA_REF, 1 << 22), .size = 4 };

	disk_shared_data_ref_set_count((void *)s.data, 1);
	return s;
}

static struct sample keyed_data_ref(void)
{
	struct sample s = { .key = key_make(1 << 20, KEY_EXTENT_DATA_REF, 77), .size = 28 };

	disk_extent_data_ref_set_count((void *)s.data, 1);
	return s;
}

static struct sample block_group(void)
{
	struct sample s = { .key = key_make(1 << 20, KEY_BLOCK_GROUP_ITEM, 1 << 23),
			    .size = sizeof(struct disk_block_group_item) };
	struct disk_block_group_item *bg = (void *)s.data;

	disk_block_group_item_set_used(bg, 1 << 23);
	disk_block_group_item_set_chunk_objectid(bg, OBJ_FIRST_CHUNK_TREE);
	disk_block_group_item_set_flags(bg, BG_METADATA | BG_DUP);
	return s;
}

static struct sample chunk_item(void)
{
	struct sample s = { .key = key_make(OBJ_FIRST_CHUNK_TREE, KEY_CHUNK_ITEM, 1 << 20), .size = 80 };
	struct disk_chunk *c = (void *)s.data;

	disk_chunk_set_length(c, 1 << 23);
	disk_chunk_set_owner(c, OBJ_EXTENT_TREE);
	disk_chunk_set_stripe_len(c, STRIPE_LEN_BYTES);
	disk_chunk_set_type(c, BG_DATA);
	disk_chunk_set_io_align(c, STRIPE_LEN_BYTES);
	disk_chunk_set_io_width(c, STRIPE_LEN_BYTES);
	disk_chunk_set_sector_size(c, 4096);
	disk_chunk_set_num_stripes(c, 1);
	disk_stripe_set_devid((void *)(c + 1), 1);
	disk_stripe_set_offset((void *)(c + 1), 1 << 20);
	return s;
}

static struct sample dev_item(void)
{
	struct sample s = { .key = key_make(OBJ_DEV_ITEMS, KEY_DEV_ITEM, 1), .size = 98 };

	disk_dev_item_set_devid((void *)s.data, 1);
	disk_dev_item_set_total_bytes((void *)s.data, 100);
	disk_dev_item_set_bytes_used((void *)s.data, 100);
	return s;
}

static struct sample dev_extent(void)
{
	struct sample s = { .key = key_make(1, KEY_DEV_EXTENT, 1 << 20),
			    .size = sizeof(struct disk_dev_extent) };

	disk_dev_extent_set_chunk_tree((void *)s.data, OBJ_CHUNK_TREE);
	disk_dev_extent_set_chunk_objectid((void *)s.data, OBJ_FIRST_CHUNK_TREE);
	disk_dev_extent_set_chunk_offset((void *)s.data, 1 << 20);
	disk_dev_extent_set_length((void *)s.data, 1 << 23);
	return s;
}

static struct sample fst_info(void)
{
	return (struct sample){ .key = key_make(1 << 20, KEY_FREE_SPACE_INFO, 1 << 23), .size = 8 };
}

static struct sample fst_extent(void)
{
	return (struct sample){ .key = key_make(1 << 20, KEY_FREE_SPACE_EXTENT, 4096) };
}

static struct sample fst_bitmap(void)
{
	return (struct sample){ .key = key_make(1 << 20, KEY_FREE_SPACE_BITMAP, 9 * 4096), .size = 2 };
}

/* --- judging -------------------------------------------------------------------------------------- */

static int judge(uint64_t owner, const struct sample *items, unsigned n)
{
	struct node *leaf;
	uint32_t bytes = 0;
	int err;

	for (unsigned i = 0; i < n; i++)
		bytes += items[i].size;
	unit_ok(node_new(BYTENR, 0, 16384, owner, TRANSID, &leaf));
	/* No byte more than needed: a sanitizer sees who reads on. */
	unit_ok(node_reserve(leaf, n, bytes));
	for (unsigned i = 0; i < n; i++)
		unit_ok(node_insert_item(leaf, i, &items[i].key, items[i].data, items[i].size));
	err = check_node(env, leaf);
	node_free(leaf);
	return err;
}

/* A field of the item set to a value, or the key's, or another size. */
struct spoil {
	enum { END, BYTES, OBJECTID, OFFSET, GROW } what;
	uint32_t at, width;
	uint64_t value;
};

#define FIELD(type, field, v) \
	{ BYTES, offsetof(struct type, field), sizeof(((struct type *)0)->field), (uint64_t)(v) }
/* The same in a structure that begins at byte `base` of the item. */
#define FIELD_AT(base, type, field, v) \
	{ BYTES, (base) + offsetof(struct type, field), sizeof(((struct type *)0)->field), (uint64_t)(v) }
#define KEY_OBJECTID(v) { OBJECTID, .value = (uint64_t)(v) }
#define KEY_OFFSET(v) { OFFSET, .value = (uint64_t)(v) }
#define SIZE_BY(delta) { GROW, .value = (uint64_t)(delta) }

static void spoil(struct sample *s, const struct spoil *p)
{
	switch (p->what) {
	case BYTES:
		for (uint32_t i = 0; i < p->width; i++)
			s->data[p->at + i] = (uint8_t)(p->value >> 8 * i);
		break;
	case OBJECTID:
		s->key.objectid = p->value;
		break;
	case OFFSET:
		s->key.offset = p->value;
		break;
	default:
		s->size += (uint32_t)p->value;
	}
}

static const struct {
	const char *name;
	struct sample (*make)(void);
	struct spoil spoils[20];
} cases[] = {
	{ "inode_item", inode_item, {
		KEY_OBJECTID(1), KEY_OBJECTID(UINT64_MAX), KEY_OFFSET(1), SIZE_BY(-1), SIZE_BY(1),
		FIELD(disk_inode_item, generation, TRANSID + 1),
		FIELD(disk_inode_item, transid, TRANSID + 1),
		FIELD(disk_inode_item, mode, 0755), FIELD(disk_inode_item, mode, S_IFREG | 1 << 20),
		FIELD(disk_inode_item, mode, 0170755), FIELD(disk_inode_item, nlink, 2),
		FIELD(disk_inode_item, flags, 1 << 12),
		FIELD(disk_inode_item, flags, UINT64_C(1) << 33) } },
	{ "inode_ref", inode_ref, {
		SIZE_BY(-1), SIZE_BY(1), SIZE_BY(-27),
		FIELD(disk_inode_ref, name_len, 0), FIELD(disk_inode_ref, name_len, 18),
		FIELD_AT(13, disk_inode_ref, name_len, 5), FIELD_AT(13, disk_inode_ref, name_len, 256) } },
	{ "inode_extref", inode_extref, {
		SIZE_BY(-1), SIZE_BY(1), FIELD(disk_inode_extref, name_len, 0),
		FIELD(disk_inode_extref, name_len, 300),
		FIELD_AT(21, disk_inode_extref, name_len, 5) } },
	{ "dir_item", dir_item, {
		KEY_OFFSET(1), SIZE_BY(-1), SIZE_BY(1), SIZE_BY(-34),
		FIELD(disk_dir_item, type, 0), FIELD(disk_dir_item, type, FT_XATTR),
		FIELD(disk_dir_item, type, FT_COUNT), FIELD(disk_dir_item, name_len, 0),
		FIELD(disk_dir_item, name_len, 5), FIELD(disk_dir_item, name_len, 3),
		FIELD(disk_dir_item, data_len, 1),
		FIELD(disk_dir_item, location.objectid, 255),
		FIELD(disk_dir_item, location.offset, 1), FIELD(disk_dir_item, location.type, 12) } },
	{ "dir_index", dir_index, {
		FIELD(disk_dir_item, location.objectid, 0), FIELD(disk_dir_item, location.objectid, 2),
		FIELD(disk_dir_item, type, FT_XATTR) } },
	{ "xattr_item", xattr_item, {
		KEY_OFFSET(1), SIZE_BY(-1), FIELD(disk_dir_item, type, FT_REG_FILE),
		FIELD(disk_dir_item, location.objectid, 1), FIELD(disk_dir_item, data_len, 21) } },
	{ "file_extent", file_extent, {
		KEY_OFFSET(8193), KEY_OFFSET(UINT64_MAX - 8191), SIZE_BY(-1), SIZE_BY(1), SIZE_BY(-40),
		FIELD(disk_file_extent, type, 3), FIELD(disk_file_extent, compression, 4),
		FIELD(disk_file_extent, encryption, 1),
		FIELD(disk_file_extent, disk_bytenr, (1 << 20) + 512),
		FIELD(disk_file_extent, disk_bytenr, UINT64_MAX - 4095),
		FIELD(disk_file_extent, disk_num_bytes, 0),
		FIELD(disk_file_extent, disk_num_bytes, 61440), FIELD(disk_file_extent, offset, 8192),
		FIELD(disk_file_extent, offset, 100), FIELD(disk_file_extent, num_bytes, 0),
		FIELD(disk_file_extent, num_bytes, 65536), FIELD(disk_file_extent, ram_bytes, 1) } },
	{ "compressed_extent", compressed_extent, {
		FIELD(disk_file_extent, ram_bytes, 61440), FIELD(disk_file_extent, ram_bytes, 1 << 20),
		FIELD(disk_file_extent, disk_num_bytes, 1 << 20) } },
	{ "inline_extent", inline_extent, {
		KEY_OFFSET(4096), SIZE_BY(1), SIZE_BY(-101), FIELD(disk_file_extent, ram_bytes, 99) } },
	{ "hole", hole, { FIELD(disk_file_extent, num_bytes, 0), FIELD(disk_file_extent, num_bytes, 1) } },
	{ "csum_item", csum_item, {
		KEY_OBJECTID(1), KEY_OFFSET(1), KEY_OFFSET(UINT64_MAX - 4095), SIZE_BY(1) } },
	{ "root_item", root_item, {
		KEY_OBJECTID(0), KEY_OBJECTID(OBJ_TREE_RELOC), SIZE_BY(-1), SIZE_BY(1),
		FIELD(disk_root_item, generation, TRANSID + 1),
		FIELD(disk_root_item, generation_v2, TRANSID + 1),
		FIELD(disk_root_item, last_snapshot, TRANSID + 1), FIELD(disk_root_item, bytenr, 1),
		FIELD(disk_root_item, level, 8), FIELD(disk_root_item, drop_level, 8),
		FIELD(disk_root_item, drop_level, 0), FIELD(disk_root_item, flags, 2) } },
	{ "root_ref", root_ref, {
		SIZE_BY(-1), SIZE_BY(1), SIZE_BY(-4), FIELD(disk_root_ref, name_len, 3) } },
	{ "data_extent", data_extent, {
		KEY_OBJECTID(1), KEY_OFFSET(0), KEY_OFFSET(100), SIZE_BY(1), SIZE_BY(-1), SIZE_BY(-80),
		FIELD(disk_extent_item, refs, 6), FIELD(disk_extent_item, generation, TRANSID + 1),
		FIELD(disk_extent_item, flags, 0), FIELD(disk_extent_item, flags, 3),
		FIELD(disk_extent_item, flags, EXTENT_FLAG_DATA | EXTENT_FLAG_FULL_BACKREF),
		FIELD_AT(25, disk_extent_data_ref, count, 0),
		FIELD_AT(25, disk_extent_data_ref, offset, 1),
		FIELD_AT(82, disk_extent_inline_ref, type, 1),
		FIELD_AT(82, disk_extent_inline_ref, offset, 1),
		FIELD_AT(91, disk_shared_data_ref, count, 0),
		FIELD_AT(91, disk_shared_data_ref, count, UINT32_MAX) } },
	{ "metadata_item", metadata_item, {
		KEY_OFFSET(8), FIELD(disk_extent_item, refs, 2),
		FIELD(disk_extent_item, flags, EXTENT_FLAG_DATA),
		FIELD_AT(33, disk_extent_inline_ref, offset, 258),
		FIELD_AT(24, disk_extent_inline_ref, type, KEY_SHARED_BLOCK_REF),
		FIELD_AT(42, disk_extent_inline_ref, offset, 1) } },
	{ "fat_tree_extent", fat_tree_extent, {
		KEY_OFFSET(4096), SIZE_BY(-10), FIELD_AT(24, disk_tree_block_info, level, 8) } },
	{ "keyed_block_ref", keyed_block_ref, { KEY_OBJECTID(1), KEY_OFFSET(1), SIZE_BY(1) } },
	{ "keyed_shared_ref", keyed_shared_ref, {
		SIZE_BY(-1), SIZE_BY(1), FIELD(disk_shared_data_ref, count, 0) } },
	{ "keyed_data_ref", keyed_data_ref, {
		KEY_OBJECTID(1), SIZE_BY(-28), SIZE_BY(1), FIELD(disk_extent_data_ref, count, 0),
		FIELD(disk_extent_data_ref, offset, 1) } },
	{ "block_group", block_group, {
		KEY_OFFSET(0), KEY_OFFSET(UINT64_MAX), SIZE_BY(-1),
		FIELD(disk_block_group_item, used, (1 << 23) + 1),
		FIELD(disk_block_group_item, chunk_objectid, 255),
		FIELD(disk_block_group_item, flags, BG_DUP),
		FIELD(disk_block_group_item, flags, BG_DATA | BG_SYSTEM),
		FIELD(disk_block_group_item, flags, BG_DATA | BG_DUP | BG_RAID1) } },
	{ "chunk_item", chunk_item, {
		KEY_OFFSET(1), SIZE_BY(-1), SIZE_BY(-40), FIELD(disk_chunk, num_stripes, 0),
		FIELD(disk_chunk, num_stripes, 2), FIELD(disk_chunk, length, 0),
		FIELD(disk_chunk, stripe_len, 4096), FIELD(disk_chunk, type, 0) } },
	{ "dev_item", dev_item, {
		KEY_OBJECTID(2), KEY_OFFSET(2), SIZE_BY(-1), FIELD(disk_dev_item, bytes_used, 101) } },
	{ "dev_extent", dev_extent, {
		KEY_OFFSET(1), KEY_OFFSET(UINT64_MAX - 4095), SIZE_BY(1),
		FIELD(disk_dev_extent, chunk_tree, 2), FIELD(disk_dev_extent, chunk_objectid, 1),
		FIELD(disk_dev_extent, chunk_offset, 1), FIELD(disk_dev_extent, length, 1) } },
	{ "fst_info", fst_info, { KEY_OBJECTID(1), KEY_OFFSET(0), SIZE_BY(1) } },
	{ "fst_extent", fst_extent, { KEY_OFFSET(1), KEY_OFFSET(UINT64_MAX - 4095), SIZE_BY(1) } },
	{ "fst_bitmap", fst_bitmap, { KEY_OFFSET(8 * 4096), SIZE_BY(1) } },
};

START_TEST(each_field)
{
	begin();
	for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
		struct sample s = cases[i].make();

		ck_assert_msg(judge(257, &s, 1) == 0, "%s refused", cases[i].name);
		for (const struct spoil *p = cases[i].spoils; p->what != END; p++) {
			s = cases[i].make();
			spoil(&s, p);
			ck_assert_msg(judge(257, &s, 1) == -EUCLEAN, "%s: change %u not found",
				      cases[i].name, (unsigned)(p - cases[i].spoils));
		}
	}
	end();
}
END_TEST

/* Whatever follows an item must not begin before it ends. */
START_TEST(neighbours)
{
	static struct sample (*const make[])(void) = { file_extent, inline_extent, csum_item,
						       data_extent, metadata_item, dev_extent };
	static const uint64_t length[] = { 61440, 4096, 40960, 65536, 16384, 1 << 23 };

	begin();
	for (unsigned i = 0; i < ARRAY_COUNT(make); i++) {
		struct sample two[2] = { make[i](), make[i]() };
		uint64_t *at = two[1].key.type == KEY_EXTENT_ITEM || two[1].key.type == KEY_METADATA_ITEM
				       ? &two[1].key.objectid : &two[1].key.offset;

		if (two[0].key.type == KEY_EXTENT_DATA)
			two[1] = file_extent();
		*at = (two[0].key.type == KEY_EXTENT_ITEM || two[0].key.type == KEY_METADATA_ITEM
			       ? two[0].key.objectid : two[0].key.offset) + length[i];
		ck_assert_msg(judge(257, two, 2) == 0, "pair %u refused", i);
		*at -= 4096;
		/* Only what is longer than a sector can overlap and still come behind. */
		ck_assert_msg(length[i] == 4096 || judge(257, two, 2) == -EUCLEAN, "pair %u overlaps",
			      i);
	}
	end();
}
END_TEST

START_TEST(items_without_inode)
{
	struct sample two[2];

	begin();
	two[0] = inode_item();
	two[1] = file_extent();
	unit_ok(judge(257, two, 2));
	two[1].key.objectid = 258;
	unit_err(judge(257, two, 2), -EUCLEAN);
	/* Log trees hold what they need. */
	unit_ok(judge(OBJ_TREE_LOG, two, 2));
	end();
}
END_TEST

START_TEST(empty_trees)
{
	begin();
	unit_ok(judge(OBJ_CSUM_TREE, NULL, 0));
	unit_ok(judge(OBJ_UUID_TREE, NULL, 0));
	unit_ok(judge(257, NULL, 0));
	for (uint64_t id = 0; id <= OBJ_FS_TREE; id++)
		unit_err(judge(id, NULL, 0), -EUCLEAN);
	end();
}
END_TEST

START_TEST(inner_nodes)
{
	struct node *n;
	struct key key = key_make(1, 1, 1);

	begin();
	unit_ok(node_new(BYTENR, 1, 16384, OBJ_FS_TREE, TRANSID, &n));
	unit_err(check_node(env, n), -EUCLEAN);
	unit_ok(node_insert_child(n, 0, &key, 1 << 20, TRANSID));
	unit_ok(check_node(env, n));
	node_set_child(n, 0, 1 << 20, TRANSID + 1);
	unit_err(check_node(env, n), -EUCLEAN);
	node_set_child(n, 0, (1 << 20) + 512, TRANSID);
	unit_err(check_node(env, n), -EUCLEAN);
	node_set_child(n, 0, 0, TRANSID);
	unit_err(check_node(env, n), -EUCLEAN);
	node_free(n);
	end();
}
END_TEST

/* Random bytes under every key type: never a read past the item. */
START_TEST(random_items)
{
	uint64_t seed = 1;

	begin();
	for (unsigned i = 0; i < 60000; i++) {
		struct sample s = cases[i % ARRAY_COUNT(cases)].make();
		uint8_t r[16];

		unit_fill(r, sizeof(r), seed++);
		if (r[0] < 80)
			s.size = r[1];
		for (unsigned k = 0; k < r[2] % 4u; k++)
			s.data[r[3 + k] % max_u32(s.size, 1)] = r[8 + k];
		judge(r[15] & 1 ? 257 : OBJ_EXTENT_TREE, &s, 1);
	}
	end();
}
END_TEST

UNIT_MAIN("check", each_field, neighbours, items_without_inode, empty_trees, inner_nodes, random_items)
