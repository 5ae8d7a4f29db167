/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/cow.c - the copy in copy-on-write, and what it does to references.
 *
 * A node is changed in place only if this transaction made it and no snapshot was taken since (the
 * environment counts snapshots: a node remembers the count at which it was surely unshared). Else
 * its contents move to a new block and the old one loses this tree's reference. When the old block is
 * shared (other trees still point to it) the children get one more parent, and it depends on who made
 * the old block and how its references are noted who is noted as that parent:
 *
 *   refs > 1, ours, implicit backrefs     the old block stays with others: its children get full
 *                                         (shared) backrefs to it, ours stay valid for the copy
 *   refs > 1, otherwise                   the copy's children get implicit references of this tree
 *   refs == 1, FULL_BACKREF               as above, and the old block's full references go
 *   refs == 1                             nothing: the copy takes the old block's place
 *
 * (Facts: the on-disk format's "implicit" and "shared" back references.)
 */
#include "btree/path.h"

#include <errno.h>
#include <string.h>

#include "io/log.h"
#include "io/util.h"

bool node_writable(const struct step *s, const struct node *n)
{
	const struct tree *t = s->t;

	if (n->state != NODE_DIRTY || n->generation != s->tx->transid)
		return false;
	if (!t->shareable || n->bytenr == t->root.bytenr)
		return true;
	return n->owner == t->id && (n->generation > t->last_snapshot || n->epoch >= t->epoch);
}

/* Only blocks below a root are ever shared: a snapshot gets a copy of the root. */
static bool may_be_shared(const struct tree *t, const struct node *n)
{
	return t->shareable && n->bytenr != t->root.bytenr &&
	       (n->generation <= t->last_snapshot || n->owner != t->id || (n->flags & HEADER_RELOC));
}

/* The reference that a file extent item makes; false if it makes none (inline, hole). */
static bool file_extent_ref(const struct node *n, uint32_t slot, struct extent_ref *ret_ref)
{
	const struct node_entry *e = node_at(n, slot);
	struct disk_file_extent fe;

	if (e->key.type != KEY_EXTENT_DATA || e->item.size < sizeof(fe))
		return false;
	memcpy(&fe, node_data(n, slot), sizeof(fe));
	if (disk_file_extent_type(&fe) == FILE_EXTENT_INLINE || disk_file_extent_disk_bytenr(&fe) == 0)
		return false;
	*ret_ref = (struct extent_ref){
		.bytenr = disk_file_extent_disk_bytenr(&fe),
		.len = disk_file_extent_disk_num_bytes(&fe),
		.objectid = e->key.objectid,
		.offset = e->key.offset - disk_file_extent_offset(&fe),
	};
	return true;
}

int cow_child_refs(struct tree_env *env, struct txn_handle *tx, const struct node *n, bool full,
		   bool add)
{
	int (*change)(struct space *, struct txn_handle *, const struct extent_ref *) =
		add ? env->ops->inc_ref : env->ops->dec_ref;

	for (uint32_t i = 0; i < n->count; i++) {
		struct extent_ref ref = {0};
		int err;

		if (n->level == 0) {
			if (!file_extent_ref(n, i, &ref))
				continue;
			ref.type = full ? KEY_SHARED_DATA_REF : KEY_EXTENT_DATA_REF;
		} else {
			ref.bytenr = node_at(n, i)->child.bytenr;
			ref.level = (uint8_t)(n->level - 1);
			ref.len = tree_env_block_size(env, ref.level);
			ref.type = full ? KEY_SHARED_BLOCK_REF : KEY_TREE_BLOCK_REF;
		}
		ref.parent = full ? n->bytenr : 0;
		ref.root = n->owner;
		ref.count = 1;
		err = change(env->space, tx, &ref);
		if (err < 0)
			return err;
	}
	return 0;
}

/* What is known of the references of a block that is about to be COWed. */
struct sharing {
	uint64_t refs, flags;
};

/* The four cases above. */
static int move_refs(struct step *s, const struct node *old, const struct node *copy,
		     const struct sharing *sh)
{
	struct tree_env *env = s->t->env;
	struct txn_handle *tx = s->tx;
	uint64_t refs = sh->refs, flags = sh->flags;
	int err = 0;

	if (old->owner == OBJ_TREE_RELOC && !(flags & EXTENT_FLAG_FULL_BACKREF))
		return corrupt(s->t->id, old->bytenr, NO_SLOT, "a relocated block without full references");
	if (refs > 1 && old->owner == s->t->id && !(flags & EXTENT_FLAG_FULL_BACKREF)) {
		err = cow_child_refs(env, tx, old, true, true);
		if (err == 0)
			err = env->ops->set_block_flags(env->space, s->tx, old->bytenr, old->level,
							EXTENT_FLAG_FULL_BACKREF);
	} else if (refs > 1) {
		err = cow_child_refs(env, tx, copy, false, true);
	} else if (flags & EXTENT_FLAG_FULL_BACKREF) {
		err = cow_child_refs(env, tx, copy, false, true);
		if (err == 0)
			err = cow_child_refs(env, tx, old, true, false);
	}
	return err;
}

/* Drops the tree's reference to a block; the node leaves the cache if it was the last. */
static int release_block(struct step *s, struct node *n, bool last)
{
	struct tree_env *env = s->t->env;
	struct extent_ref ref = {
		.bytenr = n->bytenr,
		.len = n->block_bytes,
		.level = n->level,
		.type = KEY_TREE_BLOCK_REF,
		.root = s->t->id,
		.count = 1,
	};
	uint64_t generation = n->generation;
	uint32_t bytes = n->block_bytes;

	/* First out of the cache: the address may be given out again at once. */
	if (last)
		cache_drop(env, n);
	s->t->bytes_delta -= bytes;
	return env->ops->free_block(env->space, s->tx, &ref, generation);
}

int cow_new_node(struct step *s, uint8_t level, uint64_t hint, struct node **ret_node)
{
	struct tree_env *env = s->t->env;
	uint32_t bytes = tree_env_block_size(env, level);
	uint64_t bytenr;
	int err = env->ops->alloc_block(env->space, s->tx, s->t->id, level, hint, &bytenr);

	if (err < 0)
		return err;
	err = node_new(bytenr, level, bytes, s->t->id, s->tx->transid, ret_node);
	if (err < 0)
		return err;
	err = cache_add_dirty(env, *ret_node);
	if (err == 0)
		s->t->bytes_delta += bytes;
	return err;
}

int cow_free_node(struct step *s, struct node *n)
{
	dcheck(node_writable(s, n));
	return release_block(s, n, true);
}

static void point_to(struct step *s, struct node *parent, uint32_t slot, const struct node *n)
{
	if (parent != NULL) {
		node_set_child(parent, slot, n->bytenr, n->generation);
		return;
	}
	s->t->root = (struct tree_root){ .bytenr = n->bytenr, .generation = n->generation,
					 .level = n->level };
	s->t->root_changed = true;
}

/*
 * Who else points to the node: asked for if it has to be, and then known until one COW later.
 */
static int get_sharing(struct step *s, const struct node *n, struct sharing *ret_sh)
{
	struct want *w = &s->want;

	if (!may_be_shared(s->t, n)) {
		*ret_sh = (struct sharing){ .refs = 1 };
		return 0;
	}
	if (!w->refs_known || w->refs_bytenr != n->bytenr) {
		w->what = WANT_REFS;
		w->block.bytenr = n->bytenr;
		w->block.level = n->level;
		return -EAGAIN;
	}
	w->refs_known = false;
	if (w->refs == 0)
		return corrupt(s->t->id, n->bytenr, NO_SLOT, "a block in use has no references");
	*ret_sh = (struct sharing){ .refs = w->refs, .flags = w->refs_flags };
	return 0;
}

/* The node's contents in a new dirty block of the tree `id`; references are the caller's. */
static int copy_node(struct tree *t, struct txn_handle *tx, uint64_t id, const struct node *old,
		     struct node **ret_copy)
{
	struct tree_env *env = t->env;
	uint64_t bytenr;
	int err = env->ops->alloc_block(env->space, tx, id, old->level, old->bytenr, &bytenr);

	if (err == 0)
		err = node_clone(old, bytenr, id, tx->transid, ret_copy);
	return err < 0 ? err : cache_add_dirty(env, *ret_copy);
}

int cow_node(struct step *s, struct node *parent, uint32_t slot, struct node **n)
{
	struct tree *t = s->t;
	struct node *old = *n;
	struct node *copy;
	struct sharing sh = {0};
	int err;

	if (node_writable(s, old))
		return 0;
	err = get_sharing(s, old, &sh);
	if (err < 0)
		return err;
	if (old->state == NODE_DIRTY && old->generation == s->tx->transid && old->owner == t->id &&
	    sh.refs == 1 && sh.flags == 0) {
		old->epoch = t->env->epoch;	/* a snapshot shared it, but no more */
		return 0;
	}
	err = copy_node(t, s->tx, t->id, old, &copy);
	if (err < 0)
		return err;
	t->bytes_delta += copy->block_bytes;
	err = move_refs(s, old, copy, &sh);
	if (err < 0)
		return err;
	point_to(s, parent, slot, copy);
	*n = copy;
	return release_block(s, old, sh.refs == 1);
}

int cow_grow_root(struct step *s, struct path *p, const struct key *low)
{
	struct node *old = p->nodes[p->top];
	struct node *root;
	int err;

	if (p->top + 1u >= LEVEL_COUNT)
		return -EOVERFLOW;
	err = cow_new_node(s, (uint8_t)(p->top + 1), old->bytenr, &root);
	if (err < 0)
		return err;
	err = node_insert_child(root, 0, low, old->bytenr, old->generation);
	if (err < 0)
		return err;
	cache_recount(s->t->env, root);
	old->epoch = s->t->env->epoch;	/* as a root it was unshared */
	p->top++;
	p->nodes[p->top] = root;
	p->slots[p->top] = 0;
	point_to(s, NULL, 0, root);
	return 0;
}

struct copy_root_arg {
	uint64_t id;
	struct tree_root root;
};

static int copy_root_step(struct step *s, void *arg)
{
	struct tree_env *env = s->t->env;
	struct copy_root_arg *a = arg;
	struct node *root, *copy;
	int err = path_root(s, &root);

	if (err == 0)
		err = cow_node(s, NULL, 0, &root);
	if (err == 0)
		err = copy_node(s->t, s->tx, a->id, root, &copy);
	if (err == 0)
		err = cow_child_refs(env, s->tx, copy, false, true);
	if (err < 0)
		return err;
	s->t->epoch = ++env->epoch;
	if (s->t->last_snapshot < s->tx->transid)
		s->t->last_snapshot = s->tx->transid;
	a->root = (struct tree_root){ .bytenr = copy->bytenr, .generation = copy->generation,
				      .level = copy->level };
	return 0;
}

int tree_copy_root(struct txn_handle *tx, struct tree *src, uint64_t id, struct tree_root *ret_root)
{
	struct copy_root_arg a = { .id = id };
	int err;

	/* The children of the root are shared from now on: nobody may be deciding about them. */
	mutex_guard(&src->env->share_lock);
	err = tree_change(tx, src, copy_root_step, &a);
	if (err == 0)
		*ret_root = a.root;
	return err;
}
