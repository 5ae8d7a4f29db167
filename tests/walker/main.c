/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tests/walker/main.c - walk IMAGE: reports each broken invariant of the format in one line.
 *
 * Exit 0: none; 1: some; 2: wrong use. See walk.h.
 */
#include "tests/walker/walk.h"

static void check_tree(struct walk *w, struct wroot *r)
{
	switch (r->id) {
	case OBJ_EXTENT_TREE:
	case OBJ_CSUM_TREE:
	case OBJ_BLOCK_GROUP_TREE:
		break;			/* done first */
	case OBJ_DEV_TREE:
		dev_tree_check(w, &r->tree);
		break;
	case OBJ_FREE_SPACE_TREE:
		free_space_check(w, &r->tree);
		break;
	case OBJ_UUID_TREE:
		uuid_tree_check(w, &r->tree);
		break;
	case OBJ_QUOTA_TREE:
		quota_tree_check(w, &r->tree);
		break;
	case OBJ_TREE_RELOC:
		tree_walk(w, &r->tree, NULL, NULL);
		break;
	default:
		if (r->tree.shared)
			files_check(w, r);
		else
			bad(w, "root tree: unknown tree %llu", U(r->id));
	}
	if (!r->tree.dropping && !r->tree.reloc &&
	    disk_root_item_bytes_used(&r->item) != r->tree.bytes)
		bad(w, "tree %llu: %llu bytes used, its blocks have %llu", U(r->id),
		    U(disk_root_item_bytes_used(&r->item)), U(r->tree.bytes));
}

static struct wroot *need(struct walk *w, uint64_t id, bool wanted)
{
	struct wroot *r = root_find(w, id);

	if (r == NULL && wanted)
		bad(w, "root tree: no tree %llu", U(id));
	else if (r != NULL && !wanted)
		bad(w, "root tree: tree %llu without its feature", U(id));
	return r;
}

static void check_all(struct walk *w)
{
	struct wtree root = {
		.id = OBJ_ROOT_TREE,
		.bytenr = disk_super_root(&w->super),
		.generation = w->generation,
		.level = disk_super_root_level(&w->super),
	};
	struct wroot *extent, *csum, *group;

	chunk_tree_check(w);
	root_tree_check(w, &root);
	extent = need(w, OBJ_EXTENT_TREE, true);
	csum = need(w, OBJ_CSUM_TREE, true);
	group = need(w, OBJ_BLOCK_GROUP_TREE, w->group_tree);
	need(w, OBJ_FREE_SPACE_TREE, w->free_space_tree);
	need(w, OBJ_DEV_TREE, true);
	need(w, OBJ_FS_TREE, true);
	if (extent != NULL)
		extent_tree_check(w, &extent->tree);
	if (group != NULL)
		block_group_tree_check(w, &group->tree);
	block_groups_check(w);
	if (csum != NULL)
		csum_tree_check(w, &csum->tree);
	csum_data_check(w);
	for (size_t i = 0; i < w->roots.n; i++)
		check_tree(w, &w->roots.v[i]);
	root_names_check(w);
	refs_check(w);
	if (w->log)
		log_check(w);
}

static void release(struct walk *w)
{
	free(w->chunks.v);
	free(w->blocks.v);
	free(w->block_hash);
	free(w->roots.v);
	free(w->root_refs.v);
	free(w->root_backrefs.v);
	free(w->root_entries.v);
	free(w->root_orphans.v);
	free(w->extents.v);
	free(w->refs.v);
	free(w->expected.v);
	free(w->csums.v);
	free(w->dev_extents.v);
	image_close(w);
}

int main(int argc, char **argv)
{
	struct walk w = {0};

	if (argc != 2) {
		fprintf(stderr, "usage: walk IMAGE\n");
		return 2;
	}
	if (image_open(&w, argv[1]))
		check_all(&w);
	if (w.error_count > 0)
		printf("%llu errors\n", U(w.error_count));
	release(&w);
	return w.error_count > 0 ? 1 : 0;
}
