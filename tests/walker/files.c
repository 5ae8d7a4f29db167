/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/files.c - the inodes of a subvolume, item by item; see walk.h.
 *
 * The items of an inode follow one another, the inode item first, so an inode is judged as they come
 * and once more when the next begins.
 */
#include "tests/walker/walk.h"

#include <sys/stat.h>

struct inode_state {
	bool open;			/* some item of it was seen */
	bool has_item;
	bool has_inline;
	uint64_t ino;
	uint64_t size, nbytes, flags;
	uint32_t nlink, mode;
	uint64_t found_nbytes;
	uint64_t name_bytes;		/* of all entries of a folder */
	uint64_t extent_end;		/* file offset after the last extent */
	uint64_t symlink_bytes;
	bool gap;			/* below i_size, without a hole item */
};

struct file_walk {
	struct wsubvol s;
	uint64_t tree;
	struct inode_state in;
};

static void ino_bad(struct walk *w, const struct file_walk *f, const char *what, uint64_t have,
		    uint64_t want)
{
	bad(w, "tree %llu inode %llu: %s %llu, not %llu", U(f->tree), U(f->in.ino), what, U(have), U(want));
}

/* --- the whole inode ----------------------------------------------------------------------------- */

static void finish_file(struct walk *w, struct file_walk *f)
{
	struct inode_state *in = &f->in;

	if (S_ISREG(in->mode) && in->extent_end < in->size)
		in->gap = true;
	if (!w->no_holes && in->gap && S_ISREG(in->mode) && in->nlink > 0)
		bad(w, "tree %llu inode %llu: a gap without a hole item", U(f->tree), U(in->ino));
	if (in->found_nbytes != in->nbytes)
		ino_bad(w, f, "nbytes", in->nbytes, in->found_nbytes);
	if (S_ISLNK(in->mode) && in->symlink_bytes != in->size)
		ino_bad(w, f, "a symlink of size", in->size, in->symlink_bytes);
}

static void finish_inode(struct walk *w, struct file_walk *f)
{
	struct inode_state *in = &f->in;
	struct winode *i;

	if (!in->open)
		return;
	if (!in->has_item) {
		bad(w, "tree %llu inode %llu: no inode item", U(f->tree), U(in->ino));
	} else {
		if (S_ISDIR(in->mode) && in->name_bytes != in->size)
			ino_bad(w, f, "a folder of size", in->size, in->name_bytes);
		else if (!S_ISDIR(in->mode))
			finish_file(w, f);
		if (!S_ISDIR(in->mode) && in->name_bytes != 0)
			ino_bad(w, f, "no folder, names of", in->name_bytes, 0);
		i = vec_add(&f->s.inodes);
		i->ino = in->ino;
		i->nlink = in->nlink;
		i->mode = in->mode;
	}
	*in = (struct inode_state){0};
}

static bool mode_known(uint32_t mode)
{
	uint32_t t = mode & S_IFMT;

	return t == S_IFREG || t == S_IFDIR || t == S_IFLNK || t == S_IFCHR || t == S_IFBLK ||
	       t == S_IFIFO || t == S_IFSOCK;
}

static void inode_item(struct walk *w, struct file_walk *f, const struct witem *it)
{
	const struct disk_inode_item *d = (const struct disk_inode_item *)it->data;
	struct inode_state *in = &f->in;

	if (it->size != sizeof(*d) || it->key.offset != 0) {
		bad(w, "tree %llu: inode " KEY_FMT " of %u bytes", U(f->tree), KEY_ARGS(&it->key), it->size);
		return;
	}
	in->has_item = true;
	in->size = disk_inode_item_size(d);
	in->nbytes = disk_inode_item_nbytes(d);
	in->flags = disk_inode_item_flags(d);
	in->nlink = disk_inode_item_nlink(d);
	in->mode = disk_inode_item_mode(d);
	if (!mode_known(in->mode) || in->mode & ~(S_IFMT | 07777u))
		bad(w, "tree %llu inode %llu: mode %o", U(f->tree), U(in->ino), in->mode);
	if (in->size > INT64_MAX)
		ino_bad(w, f, "size", in->size, INT64_MAX);
	if (disk_inode_item_generation(d) > w->generation + 1 ||
	    disk_inode_item_transid(d) > w->generation + 1)
		ino_bad(w, f, "generation", disk_inode_item_transid(d), w->generation);
	if (disk_timespec_nsec(&d->atime) >= 1000000000 || disk_timespec_nsec(&d->mtime) >= 1000000000 ||
	    disk_timespec_nsec(&d->ctime) >= 1000000000 || disk_timespec_nsec(&d->otime) >= 1000000000)
		bad(w, "tree %llu inode %llu: nanoseconds beyond a second", U(f->tree), U(in->ino));
	if (in->flags & ~(0xfffull | INODE_ROOT_ITEM_INIT | INODE_RO_VERITY))
		ino_bad(w, f, "flags", in->flags, 0xfff);
}

/* --- extents ------------------------------------------------------------------------------------- */

static void inline_extent(struct walk *w, struct file_walk *f, const struct witem *it)
{
	const struct disk_file_extent *d = (const struct disk_file_extent *)it->data;
	struct inode_state *in = &f->in;
	uint64_t ram = disk_file_extent_ram_bytes(d);
	uint64_t len = it->size - FILE_EXTENT_INLINE_OFFSET;
	bool packed = disk_file_extent_compression(d) != COMPRESS_NONE;

	if (it->key.offset != 0)
		ino_bad(w, f, "an inline extent at", it->key.offset, 0);
	if (packed ? len == 0 || ram == 0 : ram != len)
		ino_bad(w, f, "ram bytes of an inline extent", ram, len);
	if (ram > w->sectorsize || (ram == w->sectorsize && !packed && !S_ISLNK(in->mode)))
		ino_bad(w, f, "ram bytes of an inline extent", ram, w->sectorsize);
	if (S_ISLNK(in->mode) && packed)
		bad(w, "tree %llu inode %llu: a compressed symlink", U(f->tree), U(in->ino));
	in->has_inline = true;
	in->symlink_bytes = ram;
	in->found_nbytes += ram;
	in->extent_end = align_up(ram, w->sectorsize);
}

static void check_csums(struct walk *w, struct file_walk *f, const struct disk_file_extent *d)
{
	uint64_t start = disk_file_extent_disk_bytenr(d), len = disk_file_extent_num_bytes(d), covered;

	if (disk_file_extent_compression(d) != COMPRESS_NONE)
		len = disk_file_extent_disk_num_bytes(d);
	else
		start += disk_file_extent_offset(d);
	covered = csum_covered(w, start, len);
	if (disk_file_extent_type(d) == FILE_EXTENT_PREALLOC || f->in.flags & INODE_NODATASUM) {
		if (covered != 0)
			bad(w, "tree %llu inode %llu: checksums of %llu bytes at %llu that should have none",
			    U(f->tree), U(f->in.ino), U(covered), U(start));
	} else if (covered != len) {
		bad(w, "tree %llu inode %llu: checksums of %llu of the %llu bytes at %llu", U(f->tree),
		    U(f->in.ino), U(covered), U(len), U(start));
	}
}

static bool compression_allowed(const struct walk *w, unsigned type)
{
	uint64_t flags = disk_super_incompat_flags(&w->super);

	return type <= COMPRESS_ZLIB ||
	       (type == COMPRESS_LZO && flags & INCOMPAT_COMPRESS_LZO) ||
	       (type == COMPRESS_ZSTD && flags & INCOMPAT_COMPRESS_ZSTD);
}

static void disk_extent(struct walk *w, struct file_walk *f, const struct disk_file_extent *d)
{
	uint64_t disk_len = disk_file_extent_disk_num_bytes(d), ram = disk_file_extent_ram_bytes(d);
	uint64_t len = disk_file_extent_num_bytes(d), offset = disk_file_extent_offset(d), end;
	bool packed = disk_file_extent_compression(d) != COMPRESS_NONE;

	if (!is_aligned(disk_file_extent_disk_bytenr(d), w->sectorsize) || disk_len == 0 ||
	    !is_aligned(disk_len, w->sectorsize) || !is_aligned(offset, w->sectorsize) ||
	    !is_aligned(ram, w->sectorsize))
		ino_bad(w, f, "an unaligned extent at", disk_file_extent_disk_bytenr(d), disk_len);
	if (add_overflows(offset, len, &end) || end > ram)
		ino_bad(w, f, "an extent's end at", end, ram);
	if (packed ? ram > COMPRESSED_MAX_BYTES || disk_len > ram : ram != disk_len)
		ino_bad(w, f, "ram bytes of an extent", ram, disk_len);
	if (extent_find(w, disk_file_extent_disk_bytenr(d)) == NULL)
		bad(w, "tree %llu inode %llu: an extent at %llu, where none is", U(f->tree), U(f->in.ino),
		    U(disk_file_extent_disk_bytenr(d)));
	f->in.found_nbytes += len;
	check_csums(w, f, d);
}

static void extent_item(struct walk *w, struct file_walk *f, const struct witem *it)
{
	const struct disk_file_extent *d = (const struct disk_file_extent *)it->data;
	struct inode_state *in = &f->in;
	uint64_t len, end, start = it->key.offset;
	uint8_t type;

	if (it->size < FILE_EXTENT_INLINE_OFFSET) {
		bad(w, "tree %llu: file extent " KEY_FMT " of %u bytes", U(f->tree), KEY_ARGS(&it->key),
		    it->size);
		return;
	}
	type = disk_file_extent_type(d);
	if (type > FILE_EXTENT_PREALLOC || (type != FILE_EXTENT_INLINE && it->size != sizeof(*d)) ||
	    !is_aligned(start, w->sectorsize)) {
		bad(w, "tree %llu: file extent " KEY_FMT " of type %u, %u bytes", U(f->tree),
		    KEY_ARGS(&it->key), type, it->size);
		return;
	}
	if (disk_file_extent_generation(d) > w->generation || disk_file_extent_encryption(d) != 0 ||
	    disk_file_extent_other_encoding(d) != 0 ||
	    !compression_allowed(w, disk_file_extent_compression(d)) ||
	    (type == FILE_EXTENT_PREALLOC && disk_file_extent_compression(d) != 0))
		bad(w, "tree %llu: file extent " KEY_FMT " generation %llu, compression %u", U(f->tree),
		    KEY_ARGS(&it->key), U(disk_file_extent_generation(d)), disk_file_extent_compression(d));
	if (!S_ISREG(in->mode) && !S_ISLNK(in->mode))
		ino_bad(w, f, "mode of something with an extent", in->mode, S_IFREG);
	if (start < in->extent_end)
		ino_bad(w, f, "an extent overlaps the one before it at", start, in->extent_end);
	if (start > in->extent_end && in->extent_end < in->size)
		in->gap = true;
	if (type == FILE_EXTENT_INLINE) {
		inline_extent(w, f, it);
		return;
	}
	len = disk_file_extent_num_bytes(d);
	if (len == 0 || !is_aligned(len, w->sectorsize) || add_overflows(start, len, &end)) {
		ino_bad(w, f, "an extent of length", len, w->sectorsize);
		return;
	}
	in->extent_end = end;
	if (disk_file_extent_disk_bytenr(d) != 0)
		disk_extent(w, f, d);
	else if (type == FILE_EXTENT_PREALLOC || disk_file_extent_disk_num_bytes(d) != 0)
		ino_bad(w, f, "a hole with disk bytes", disk_file_extent_disk_num_bytes(d), 0);
}

/* --- the walk ------------------------------------------------------------------------------------ */

static void dir_entries(struct walk *w, struct file_walk *f, const struct witem *it)
{
	size_t items = f->s.items.n, indexes = f->s.indexes.n;

	dir_item_parse(w, &f->s, it);
	while (items < f->s.items.n)
		f->in.name_bytes += f->s.items.v[items++].len;
	while (indexes < f->s.indexes.n)
		f->in.name_bytes += f->s.indexes.v[indexes++].len;
}

static void file_item(struct walk *w, const struct witem *it, void *arg)
{
	struct file_walk *f = arg;
	uint64_t *orphan;

	if (it->key.type == KEY_ORPHAN_ITEM && it->key.objectid == OBJ_ORPHAN) {
		finish_inode(w, f);
		orphan = vec_add(&f->s.orphans);
		*orphan = it->key.offset;
		return;
	}
	if (f->in.open && f->in.ino != it->key.objectid)
		finish_inode(w, f);
	f->in.open = true;
	f->in.ino = it->key.objectid;
	if (f->in.ino < OBJ_FIRST_FREE || f->in.ino > OBJ_LAST_FREE)
		bad(w, "tree %llu: item " KEY_FMT " of no inode", U(f->tree), KEY_ARGS(&it->key));
	switch (it->key.type) {
	case KEY_INODE_ITEM:
		inode_item(w, f, it);
		break;
	case KEY_INODE_REF:
		inode_ref_parse(w, &f->s, it);
		break;
	case KEY_INODE_EXTREF:
		inode_extref_parse(w, &f->s, it);
		break;
	case KEY_XATTR_ITEM:
		xattr_parse(w, f->tree, it);
		break;
	case KEY_DIR_ITEM:
	case KEY_DIR_INDEX:
		dir_entries(w, f, it);
		break;
	case KEY_EXTENT_DATA:
		extent_item(w, f, it);
		break;
	case KEY_VERITY_DESC_ITEM:
	case KEY_VERITY_MERKLE_ITEM:
		break;
	default:
		bad(w, "tree %llu: unexpected item " KEY_FMT, U(f->tree), KEY_ARGS(&it->key));
	}
}

void files_check(struct walk *w, struct wroot *r)
{
	struct file_walk f = { .s.root = r, .tree = r->id };

	/* Of a half dropped subvolume only the blocks count. */
	tree_walk(w, &r->tree, r->tree.dropping ? NULL : file_item, &f);
	finish_inode(w, &f);
	if (!r->tree.dropping)
		names_check(w, &f.s);
	free(f.s.items.v);
	free(f.s.indexes.v);
	free(f.s.refs.v);
	free(f.s.inodes.v);
	free(f.s.orphans.v);
}
