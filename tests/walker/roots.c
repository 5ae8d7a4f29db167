/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/roots.c - the root tree, and what names and identifies subvolumes; see walk.h.
 */
#include "tests/walker/walk.h"

static bool is_subvolume(uint64_t id)
{
	return id == OBJ_FS_TREE || (id >= OBJ_FIRST_FREE && id <= OBJ_LAST_FREE);
}

struct wroot *root_find(struct walk *w, uint64_t id)
{
	for (size_t i = 0; i < w->roots.n; i++)
		if (w->roots.v[i].id == id)
			return &w->roots.v[i];
	return NULL;
}

/* --- items --------------------------------------------------------------------------------------- */

static void root_item(struct walk *w, const struct witem *it)
{
	struct wroot *r;
	const struct disk_root_item *d;

	if (it->size != sizeof(*d) && it->size != ROOT_ITEM_V1_BYTES) {
		bad(w, "root item " KEY_FMT " of %u bytes", KEY_ARGS(&it->key), it->size);
		return;
	}
	r = vec_add(&w->roots);
	r->id = it->key.objectid;
	r->offset = it->key.offset;
	memcpy(&r->item, it->data, it->size);
	d = &r->item;
	if (disk_root_item_generation_v2(d) != disk_root_item_generation(d))
		memset((uint8_t *)&r->item + ROOT_ITEM_V1_BYTES, 0, sizeof(*d) - ROOT_ITEM_V1_BYTES);
	r->tree = (struct wtree){
		.id = r->id,
		.bytenr = disk_root_item_bytenr(d),
		.generation = disk_root_item_generation(d),
		.level = disk_root_item_level(d),
		.shared = is_subvolume(r->id) || r->id == OBJ_DATA_RELOC_TREE,
		.reloc = r->id == OBJ_TREE_RELOC,
		.drop_level = disk_root_item_drop_level(d),
		.drop_key = key_from_disk(&d->drop_progress),
	};
	r->tree.dropping = r->tree.drop_key.objectid != 0 && disk_root_item_refs(d) == 0;
	if (r->tree.generation > w->generation || disk_root_item_last_snapshot(d) > w->generation)
		bad(w, "root %llu: generation %llu, last snapshot %llu", U(r->id), U(r->tree.generation),
		    U(disk_root_item_last_snapshot(d)));
	if (r->tree.dropping && r->tree.drop_level > r->tree.level)
		bad(w, "root %llu: drop level %u", U(r->id), r->tree.drop_level);
	if (disk_root_item_flags(d) & ~(ROOT_SUBVOL_RDONLY | ROOT_SUBVOL_DEAD))
		bad(w, "root %llu: flags %#llx", U(r->id), U(disk_root_item_flags(d)));
	if ((!is_subvolume(r->id) || r->id == OBJ_FS_TREE) && !r->tree.reloc &&
	    disk_root_item_refs(d) != 1)
		bad(w, "root %llu: refs %u", U(r->id), disk_root_item_refs(d));
	if (is_subvolume(r->id) && disk_root_item_root_dirid(d) != OBJ_FIRST_FREE)
		bad(w, "root %llu: root folder %llu", U(r->id), U(disk_root_item_root_dirid(d)));
}

static void root_ref(struct walk *w, const struct witem *it)
{
	const struct disk_root_ref *d = (const struct disk_root_ref *)it->data;
	bool back = it->key.type == KEY_ROOT_BACKREF;
	struct root_name *n;

	if (it->size < sizeof(*d) || it->size != sizeof(*d) + disk_root_ref_name_len(d) ||
	    disk_root_ref_name_len(d) == 0) {
		bad(w, "root reference " KEY_FMT " of %u bytes", KEY_ARGS(&it->key), it->size);
		return;
	}
	n = back ? vec_add(&w->root_backrefs) : vec_add(&w->root_refs);
	n->parent = back ? it->key.offset : it->key.objectid;
	n->child = back ? it->key.objectid : it->key.offset;
	n->dir = disk_root_ref_dirid(d);
	n->sequence = disk_root_ref_sequence(d);
	n->name = it->data + sizeof(*d);
	n->len = disk_root_ref_name_len(d);
}

/* The entry "default" of folder 6. */
static void default_entry(struct walk *w, const struct witem *it)
{
	const struct disk_dir_item *d = (const struct disk_dir_item *)it->data;
	const uint8_t *name = it->data + sizeof(*d);

	if (it->key.objectid != OBJ_ROOT_TREE_DIR || it->size != sizeof(*d) + 7 ||
	    disk_dir_item_name_len(d) != 7 || disk_dir_item_data_len(d) != 0 ||
	    memcmp(name, "default", 7) != 0 || it->key.offset != name_hash(name, 7) ||
	    disk_dir_item_type(d) != FT_DIR || disk_key_type(&d->location) != KEY_ROOT_ITEM)
		bad(w, "root tree: folder entry " KEY_FMT, KEY_ARGS(&it->key));
	/* Whether that subvolume exists is asked when all root items are known. */
}

struct root_walk {
	uint64_t default_id;
};

static void root_tree_item(struct walk *w, const struct witem *it, void *arg)
{
	struct root_walk *rw = arg;
	uint64_t *orphan;

	switch (it->key.type) {
	case KEY_ROOT_ITEM:
		root_item(w, it);
		break;
	case KEY_ROOT_REF:
	case KEY_ROOT_BACKREF:
		root_ref(w, it);
		break;
	case KEY_ORPHAN_ITEM:
		orphan = vec_add(&w->root_orphans);
		*orphan = it->key.offset;
		break;
	case KEY_DIR_ITEM:
		default_entry(w, it);
		if (it->size >= sizeof(struct disk_dir_item))
			rw->default_id = disk_key_objectid((const struct disk_key *)it->data);
		break;
	case KEY_INODE_ITEM:
		if (it->size != sizeof(struct disk_inode_item))
			bad(w, "root tree: inode %llu of %u bytes", U(it->key.objectid), it->size);
		break;
	case KEY_INODE_REF:
	case KEY_EXTENT_DATA:
		break;			/* folder 6, and files of a v1 space cache */
	case 0:
		if (it->key.objectid != OBJ_FREE_SPACE ||
		    it->size != sizeof(struct disk_free_space_header))
			bad(w, "root tree: space cache header " KEY_FMT, KEY_ARGS(&it->key));
		break;
	case KEY_TEMPORARY_ITEM:
		if (it->key.objectid != OBJ_BALANCE || it->size != sizeof(struct disk_balance_item))
			bad(w, "root tree: balance item " KEY_FMT, KEY_ARGS(&it->key));
		break;
	default:
		bad(w, "root tree: unexpected item " KEY_FMT, KEY_ARGS(&it->key));
	}
}

static bool is_orphan(const struct walk *w, uint64_t id)
{
	for (size_t i = 0; i < w->root_orphans.n; i++)
		if (w->root_orphans.v[i] == id)
			return true;
	return false;
}

void root_tree_check(struct walk *w, struct wtree *t)
{
	struct root_walk rw = {0};

	tree_walk(w, t, root_tree_item, &rw);
	if (rw.default_id == 0 || root_find(w, rw.default_id) == NULL)
		bad(w, "root tree: the default subvolume is %llu", U(rw.default_id));
	for (size_t i = 0; i < w->roots.n; i++) {
		const struct wroot *r = &w->roots.v[i];

		if (is_subvolume(r->id) && disk_root_item_refs(&r->item) == 0 && !is_orphan(w, r->id))
			bad(w, "root %llu: no references, but no orphan", U(r->id));
	}
}

/* --- names of subvolumes ------------------------------------------------------------------------- */

static int root_name_cmp(const void *a, const void *b)
{
	const struct root_name *x = a, *y = b;
	int c;

	if (x->child != y->child)
		return x->child < y->child ? -1 : 1;
	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x->dir != y->dir)
		return x->dir < y->dir ? -1 : 1;
	if (x->sequence != y->sequence)
		return x->sequence < y->sequence ? -1 : 1;
	c = memcmp(x->name, y->name, min_u32(x->len, y->len));
	return c != 0 ? c : (int)x->len - (int)y->len;
}

static const struct root_name *name_find(const struct root_name *v, size_t n,
					 const struct root_name *name)
{
	return n == 0 ? NULL : bsearch(name, v, n, sizeof(*v), root_name_cmp);
}

static void check_named(struct walk *w, const struct root_name *n)
{
	struct wroot *r = root_find(w, n->child);

	if (name_find(w->root_refs.v, w->root_refs.n, n) == NULL)
		bad(w, "subvolume %llu: its back reference to %llu has no match", U(n->child), U(n->parent));
	if (r == NULL)
		bad(w, "subvolume %llu: named, but not there", U(n->child));
	else if (r->has_backref)
		bad(w, "subvolume %llu: named twice", U(n->child));
	else
		r->has_backref = true;
}

void root_names_check(struct walk *w)
{
	static const uint8_t none[UUID_BYTES];

	vec_sort(&w->root_refs, root_name_cmp);
	vec_sort(&w->root_backrefs, root_name_cmp);
	vec_sort(&w->root_entries, root_name_cmp);
	for (size_t i = 0; i < w->root_backrefs.n; i++)
		check_named(w, &w->root_backrefs.v[i]);
	for (size_t i = 0; i < w->root_refs.n; i++) {
		const struct root_name *n = &w->root_refs.v[i];

		if (name_find(w->root_backrefs.v, w->root_backrefs.n, n) == NULL)
			bad(w, "subvolume %llu: no back reference to %llu", U(n->child), U(n->parent));
		if (name_find(w->root_entries.v, w->root_entries.n, n) == NULL)
			bad(w, "subvolume %llu: no folder entry %.*s in %llu", U(n->child), n->len, n->name,
			    U(n->parent));
	}
	for (size_t i = 0; i < w->root_entries.n; i++) {
		const struct root_name *n = &w->root_entries.v[i];
		const struct wroot *p = root_find(w, n->parent);

		/* A snapshot has entries of what was nested in its source. */
		if (name_find(w->root_refs.v, w->root_refs.n, n) == NULL &&
		    (p == NULL || memcmp(p->item.parent_uuid, none, UUID_BYTES) == 0))
			bad(w, "tree %llu: entry %.*s of subvolume %llu has no reference", U(n->parent),
			    n->len, n->name, U(n->child));
	}
	for (size_t i = 0; i < w->roots.n; i++) {
		const struct wroot *r = &w->roots.v[i];
		uint32_t refs = disk_root_item_refs(&r->item);

		if (is_subvolume(r->id) && r->id != OBJ_FS_TREE && refs != (r->has_backref ? 1 : 0))
			bad(w, "subvolume %llu: refs %u, %s", U(r->id), refs,
			    r->has_backref ? "named once" : "without a name");
	}
}

/* --- uuids and quotas ---------------------------------------------------------------------------- */

struct uuid_walk {
	VEC(struct key) seen;		/* uuid and subvolume: offset and objectid are its halves */
	VEC(uint64_t) ids;
};

static void uuid_item(struct walk *w, const struct witem *it, void *arg)
{
	struct uuid_walk *u = arg;
	disk64 halves[2];

	if ((it->key.type != KEY_UUID_SUBVOL && it->key.type != KEY_UUID_RECEIVED_SUBVOL) ||
	    it->size == 0 || it->size % sizeof(disk64) != 0) {
		bad(w, "uuid tree: item " KEY_FMT " of %u bytes", KEY_ARGS(&it->key), it->size);
		return;
	}
	disk64_set(&halves[0], it->key.objectid);
	disk64_set(&halves[1], it->key.offset);
	for (uint32_t at = 0; at < it->size; at += sizeof(disk64)) {
		uint64_t id = disk64_get((const disk64 *)(it->data + at));
		const struct wroot *r = root_find(w, id);
		struct key *k;
		uint64_t *seen;

		if (r == NULL ||
		    memcmp(it->key.type == KEY_UUID_SUBVOL ? r->item.uuid : r->item.received_uuid, halves,
			   UUID_BYTES) != 0)
			bad(w, "uuid tree: item " KEY_FMT " names subvolume %llu, which has another",
			    KEY_ARGS(&it->key), U(id));
		k = vec_add(&u->seen);
		*k = it->key;
		seen = vec_add(&u->ids);
		*seen = id;
	}
}

static bool uuid_seen(const struct uuid_walk *u, uint8_t type, const uint8_t *uuid, uint64_t id)
{
	disk64 halves[2];

	memcpy(halves, uuid, UUID_BYTES);
	for (size_t i = 0; i < u->seen.n; i++)
		if (u->ids.v[i] == id && u->seen.v[i].type == type &&
		    u->seen.v[i].objectid == disk64_get(&halves[0]) &&
		    u->seen.v[i].offset == disk64_get(&halves[1]))
			return true;
	return false;
}

void uuid_tree_check(struct walk *w, struct wtree *t)
{
	static const uint8_t none[UUID_BYTES];
	struct uuid_walk u = {0};

	/* An outdated tree is filled again by the kernel. */
	if (disk_super_uuid_tree_generation(&w->super) != w->generation) {
		tree_walk(w, t, NULL, NULL);
		return;
	}
	tree_walk(w, t, uuid_item, &u);
	for (size_t i = 0; i < w->roots.n; i++) {
		const struct wroot *r = &w->roots.v[i];

		if (!is_subvolume(r->id) || disk_root_item_refs(&r->item) == 0)
			continue;
		if (memcmp(r->item.uuid, none, UUID_BYTES) != 0 &&
		    !uuid_seen(&u, KEY_UUID_SUBVOL, r->item.uuid, r->id))
			bad(w, "uuid tree: nothing about subvolume %llu", U(r->id));
		if (memcmp(r->item.received_uuid, none, UUID_BYTES) != 0 &&
		    !uuid_seen(&u, KEY_UUID_RECEIVED_SUBVOL, r->item.received_uuid, r->id))
			bad(w, "uuid tree: nothing about what subvolume %llu was received as", U(r->id));
	}
	free(u.seen.v);
	free(u.ids.v);
}

static void quota_item(struct walk *w, const struct witem *it, void *arg)
{
	uint32_t want = it->key.type == KEY_QGROUP_INFO ? sizeof(struct disk_qgroup_info) :
			it->key.type == KEY_QGROUP_LIMIT ? sizeof(struct disk_qgroup_limit) : 0;

	(void)arg;
	if (it->key.type == KEY_QGROUP_STATUS ?
	    it->size != QGROUP_STATUS_V1_BYTES && it->size != sizeof(struct disk_qgroup_status) :
	    it->size != want || (want == 0 && it->key.type != KEY_QGROUP_RELATION))
		bad(w, "quota tree: item " KEY_FMT " of %u bytes", KEY_ARGS(&it->key), it->size);
}

void quota_tree_check(struct walk *w, struct wtree *t)
{
	tree_walk(w, t, quota_item, NULL);
}
