/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/block.c - tree blocks and the walk over a tree; see walk.h.
 *
 * A block is judged when it is met first and remembered; a tree that comes back to a block of its own
 * has it named and left alone, so that no walk is longer than there are blocks.
 */
#include "tests/walker/walk.h"

#include <stdarg.h>

#define HASH_MIN 1024u

void *vec_room(void *v, size_t n, size_t *cap, size_t size)
{
	if (n == *cap) {
		*cap = *cap < 16 ? 16 : *cap * 2;
		v = realloc(v, *cap * size);
		if (v == NULL) {
			fprintf(stderr, "walk: out of memory\n");
			exit(2);
		}
	}
	memset((char *)v + n * size, 0, size);
	return v;
}

#define ERRORS_SHOWN_MAX 200u

void bad(struct walk *w, const char *fmt, ...)
{
	va_list ap;

	if (++w->error_count > ERRORS_SHOWN_MAX)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* --- all blocks ---------------------------------------------------------------------------------- */

static size_t hash_slot(const struct walk *w, uint64_t bytenr)
{
	size_t at = (size_t)((bytenr >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (w->hash_size - 1);

	while (w->block_hash[at] != 0 && w->blocks.v[w->block_hash[at] - 1].bytenr != bytenr)
		at = (at + 1) & (w->hash_size - 1);
	return at;
}

struct block *block_find(struct walk *w, uint64_t bytenr)
{
	size_t at;

	if (w->hash_size == 0)
		return NULL;
	at = hash_slot(w, bytenr);
	return w->block_hash[at] != 0 ? &w->blocks.v[w->block_hash[at] - 1] : NULL;
}

static struct block *block_new(struct walk *w, uint64_t bytenr)
{
	struct block *b;

	if (w->blocks.n * 2 >= w->hash_size) {
		w->hash_size = w->hash_size == 0 ? HASH_MIN : w->hash_size * 2;
		free(w->block_hash);
		w->block_hash = calloc(w->hash_size, sizeof(*w->block_hash));
		must(w->block_hash != NULL);
		for (size_t i = 0; i < w->blocks.n; i++)
			w->block_hash[hash_slot(w, w->blocks.v[i].bytenr)] = i + 1;
	}
	b = vec_add(&w->blocks);
	b->bytenr = bytenr;
	/* The slot is free: the caller looked. */
	w->block_hash[hash_slot(w, bytenr)] = w->blocks.n;
	return b;
}

/* --- one block ----------------------------------------------------------------------------------- */

static const struct disk_item *item_head(const struct block *b, uint32_t slot)
{
	return (const struct disk_item *)(b->data + sizeof(struct disk_header)) + slot;
}

static const struct disk_key_ptr *ptr_head(const struct block *b, uint32_t slot)
{
	return (const struct disk_key_ptr *)(b->data + sizeof(struct disk_header)) + slot;
}

void block_item(const struct block *b, uint32_t slot, struct witem *ret)
{
	const struct disk_item *h = item_head(b, slot);

	ret->key = key_from_disk(&h->key);
	ret->data = b->data + sizeof(struct disk_header) + disk_item_offset(h);
	ret->size = disk_item_size(h);
	ret->leaf = b;
}

void block_ptr(const struct block *b, uint32_t slot, struct key *ret_key, uint64_t *ret_bytenr,
	       uint64_t *ret_generation)
{
	const struct disk_key_ptr *p = ptr_head(b, slot);

	*ret_key = key_from_disk(&p->key);
	*ret_bytenr = disk_key_ptr_blockptr(p);
	*ret_generation = disk_key_ptr_generation(p);
}

static struct key key_of(const struct block *b, uint32_t slot)
{
	return key_from_disk(b->level == 0 ? &item_head(b, slot)->key : &ptr_head(b, slot)->key);
}

/* Item data are packed from the end of the block, in the order of the items. */
static bool leaf_packed(struct walk *w, const struct block *b)
{
	uint64_t end = b->size - sizeof(struct disk_header);

	if (b->nritems > end / sizeof(struct disk_item)) {
		bad(w, "block %llu: %u items", U(b->bytenr), b->nritems);
		return false;
	}
	for (uint32_t i = 0; i < b->nritems; i++) {
		const struct disk_item *h = item_head(b, i);
		uint64_t offset = disk_item_offset(h);

		if (offset + disk_item_size(h) != end) {
			bad(w, "block %llu slot %u: data of %u bytes at %llu do not end at %llu",
			    U(b->bytenr), i, disk_item_size(h), U(offset), U(end));
			return false;
		}
		end = offset;
	}
	if (end < b->nritems * sizeof(struct disk_item)) {
		bad(w, "block %llu: data overlap the items", U(b->bytenr));
		return false;
	}
	return true;
}

static bool node_pointers(struct walk *w, const struct block *b)
{
	uint64_t room = (b->size - sizeof(struct disk_header)) / sizeof(struct disk_key_ptr);

	if (b->nritems == 0 || b->nritems > room) {
		bad(w, "block %llu: %u pointers", U(b->bytenr), b->nritems);
		return false;
	}
	for (uint32_t i = 0; i < b->nritems; i++) {
		struct key key;
		uint64_t bytenr, generation;

		block_ptr(b, i, &key, &bytenr, &generation);
		if (bytenr == 0 || !is_aligned(bytenr, w->sectorsize)) {
			bad(w, "block %llu slot %u: pointer %llu", U(b->bytenr), i, U(bytenr));
			return false;
		}
		if (generation > b->generation)
			bad(w, "block %llu slot %u: a child of generation %llu, later than %llu",
			    U(b->bytenr), i, U(generation), U(b->generation));
	}
	return true;
}

static bool keys_ascend(struct walk *w, const struct block *b)
{
	for (uint32_t i = 1; i < b->nritems; i++) {
		struct key before = key_of(b, i - 1), key = key_of(b, i);

		if (key_cmp(&before, &key) >= 0) {
			bad(w, "block %llu slot %u: key " KEY_FMT " after " KEY_FMT, U(b->bytenr), i,
			    KEY_ARGS(&key), KEY_ARGS(&before));
			return false;
		}
	}
	return true;
}

static void check_header(struct walk *w, const struct block *b)
{
	const struct disk_header *h = (const struct disk_header *)b->data;
	const uint8_t *id = disk_super_incompat_flags(&w->super) & INCOMPAT_METADATA_UUID ?
			    w->super.metadata_uuid : w->super.fsid;
	uint64_t flags = disk_header_flags(h);

	if (disk_header_bytenr(h) != b->bytenr)
		bad(w, "block %llu: it says it lies at %llu", U(b->bytenr), U(disk_header_bytenr(h)));
	if (memcmp(h->fsid, id, UUID_BYTES) != 0)
		bad(w, "block %llu: of another filesystem", U(b->bytenr));
	if (!w->has_chunk_uuid) {
		memcpy(w->chunk_uuid, h->chunk_tree_uuid, UUID_BYTES);
		w->has_chunk_uuid = true;
	} else if (memcmp(h->chunk_tree_uuid, w->chunk_uuid, UUID_BYTES) != 0) {
		bad(w, "block %llu: another chunk tree's uuid", U(b->bytenr));
	}
	if (!(flags & HEADER_WRITTEN) || flags >> HEADER_BACKREF_REV_SHIFT != BACKREF_REV_MIXED ||
	    flags & ~(HEADER_WRITTEN | HEADER_RELOC | HEADER_BACKREF_REV_MASK))
		bad(w, "block %llu: header flags %#llx", U(b->bytenr), U(flags));
	if (b->generation > w->generation)
		bad(w, "block %llu: generation %llu, later than %llu", U(b->bytenr), U(b->generation),
		    U(w->generation));
	if (b->bytenr / STRIPE_LEN_BYTES != (b->bytenr + b->size - 1) / STRIPE_LEN_BYTES)
		bad(w, "block %llu: crosses a 64 KiB border", U(b->bytenr));
}

/* Compares all copies; the first one with a right checksum is the block. */
static bool choose_copy(struct walk *w, struct block *b)
{
	const uint8_t *data;
	unsigned i;

	for (i = 0; (data = bytes_at(w, b->bytenr, b->size, i)) != NULL; i++) {
		if (!csum_header_good(w->csum_type, data, b->size)) {
			bad(w, "block %llu copy %u: wrong checksum", U(b->bytenr), i);
			continue;
		}
		if (b->data == NULL)
			b->data = data;
		else if (memcmp(b->data, data, b->size) != 0)
			bad(w, "block %llu copy %u: differs", U(b->bytenr), i);
	}
	if (i == 0)
		bad(w, "block %llu: in no chunk", U(b->bytenr));
	return b->data != NULL;
}

static void block_read(struct walk *w, struct block *b, uint8_t level)
{
	const struct disk_header *h;

	b->level = level;
	b->size = level == 0 ? w->leafsize : w->nodesize;
	if (!choose_copy(w, b))
		return;
	h = (const struct disk_header *)b->data;
	b->generation = disk_header_generation(h);
	b->owner = disk_header_owner(h);
	b->nritems = disk_header_nritems(h);
	check_header(w, b);
	if (disk_header_level(h) != level) {
		bad(w, "block %llu: level %u, not %u", U(b->bytenr), disk_header_level(h), level);
		return;
	}
	b->good = (level == 0 ? leaf_packed(w, b) : node_pointers(w, b)) && keys_ascend(w, b);
}

/* --- the walk ------------------------------------------------------------------------------------ */

struct frame {
	size_t block;			/* index */
	uint32_t slot;
};

struct walk_state {
	struct wtree *t;
	unsigned number;
	struct frame frames[LEVEL_COUNT];
	unsigned depth;
	bool has_last;
	struct key last;		/* key of the last item seen */
};

static void check_owner(struct walk *w, const struct wtree *t, const struct block *b)
{
	bool file_tree = b->owner == OBJ_FS_TREE || b->owner == OBJ_DATA_RELOC_TREE ||
			 b->owner == OBJ_TREE_RELOC ||
			 (b->owner >= OBJ_FIRST_FREE && b->owner <= OBJ_LAST_FREE);

	if (t->shared || t->reloc ? !file_tree : b->owner != t->id)
		bad(w, "block %llu: in tree %llu, but made by %llu", U(b->bytenr), U(t->id), U(b->owner));
}

/* Goes down into a block; false: it cannot be used. */
static bool enter(struct walk *w, struct walk_state *s, uint64_t bytenr, uint8_t level,
		  uint64_t generation, const struct key *first)
{
	struct block *b = block_find(w, bytenr);

	if (b == NULL) {
		b = block_new(w, bytenr);
		block_read(w, b, level);
	}
	if (b->walk == s->number) {
		bad(w, "block %llu: twice in tree %llu", U(bytenr), U(s->t->id));
		return false;
	}
	b->walk = s->number;
	s->t->bytes += b->size;
	if (s->t->dropping)
		b->dropping = s->t;
	if (!b->good)
		return false;
	if (b->level != level || b->generation != generation) {
		bad(w, "block %llu: level %u, generation %llu, its parent in tree %llu says %u, %llu",
		    U(bytenr), b->level, U(b->generation), U(s->t->id), level, U(generation));
		return false;
	}
	check_owner(w, s->t, b);
	if (b->nritems == 0 && first != NULL)
		bad(w, "block %llu: an empty leaf below a node", U(bytenr));
	if (b->nritems > 0 && first != NULL) {
		struct key key = key_of(b, 0);

		if (!key_equal(&key, first))
			bad(w, "block %llu: begins with " KEY_FMT ", its parent says " KEY_FMT,
			    U(bytenr), KEY_ARGS(&key), KEY_ARGS(first));
	}
	s->frames[s->depth].block = (size_t)(b - w->blocks.v);
	s->frames[s->depth].slot = 0;
	s->depth++;
	return true;
}

static void leaf_items(struct walk *w, struct walk_state *s, item_fn fn, void *arg)
{
	const struct block *b = &w->blocks.v[s->frames[s->depth - 1].block];

	for (uint32_t i = 0; i < b->nritems; i++) {
		struct witem it;

		block_item(b, i, &it);
		if (s->has_last && key_cmp(&s->last, &it.key) >= 0)
			bad(w, "block %llu slot %u: key " KEY_FMT " comes after " KEY_FMT " in tree %llu",
			    U(b->bytenr), i, KEY_ARGS(&it.key), KEY_ARGS(&s->last), U(s->t->id));
		s->last = it.key;
		s->has_last = true;
		if (fn != NULL)
			fn(w, &it, arg);
	}
}

bool block_dropped(const struct wtree *t, const struct block *b, uint32_t slot)
{
	struct key key = key_of(b, slot), next;

	if (!t->dropping || b->level < t->drop_level)
		return false;
	if (b->level == t->drop_level)
		return key_cmp(&key, &t->drop_key) < 0;
	if (slot + 1 >= b->nritems)
		return false;
	next = key_of(b, slot + 1);
	return key_cmp(&next, &t->drop_key) <= 0;
}

void tree_walk(struct walk *w, struct wtree *t, item_fn fn, void *arg)
{
	struct walk_state s = { .t = t, .number = ++w->walks };
	struct key first;
	uint64_t bytenr, generation;

	t->bytes = 0;
	if (t->level >= LEVEL_COUNT || !is_aligned(t->bytenr, w->sectorsize)) {
		bad(w, "tree %llu: root %llu on level %u", U(t->id), U(t->bytenr), t->level);
		return;
	}
	if (!enter(w, &s, t->bytenr, t->level, t->generation, NULL))
		return;
	while (s.depth > 0) {
		struct frame *f = &s.frames[s.depth - 1];
		const struct block *b = &w->blocks.v[f->block];

		if (b->level == 0) {
			leaf_items(w, &s, fn, arg);
			s.depth--;
		} else if (f->slot == b->nritems) {
			s.depth--;
		} else if (block_dropped(t, b, f->slot)) {
			f->slot++;
		} else {
			block_ptr(b, f->slot++, &first, &bytenr, &generation);
			enter(w, &s, bytenr, (uint8_t)(b->level - 1), generation, &first);
		}
	}
}
