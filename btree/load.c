/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/load.c - from the device into the cache; see env.h.
 *
 * A block is trusted after four judgements: its copy (checksum and header, so that another copy is
 * tried if this one is bad), its bounds (node_decode), its place in the tree (what the parent says of
 * it), its contents (check_node). No lock is held while it is read.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "btree/check.h"
#include "btree/env.h"
#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

struct verify_arg {
	struct tree_env *env;
	const struct block_want *want;
};

/* Judges one copy by what can be known without decoding it. */
static int verify_block(const void *buf, size_t len, void *arg)
{
	const struct verify_arg *v = arg;
	const struct block_want *w = v->want;
	const struct volume_params *p = &v->env->vol->params;
	const struct disk_header *h = buf;

	if (!csum_header_good(p->csum_type, buf, len))
		return corrupt(w->owner, w->bytenr, NO_SLOT, "bad checksum");
	if (memcmp(h->fsid, p->metadata_uuid, UUID_BYTES) != 0)
		return corrupt(w->owner, w->bytenr, NO_SLOT, "block of another filesystem");
	if (disk_header_bytenr(h) != w->bytenr)
		return corrupt(w->owner, w->bytenr, NO_SLOT, "block says it is at %llu",
			       (unsigned long long)disk_header_bytenr(h));
	if (disk_header_generation(h) != w->generation)
		return corrupt(w->owner, w->bytenr, NO_SLOT, "generation %llu, its parent says %llu",
			       (unsigned long long)disk_header_generation(h),
			       (unsigned long long)w->generation);
	if (disk_header_level(h) != w->level)
		return corrupt(w->owner, w->bytenr, NO_SLOT, "level %u, its parent says %u",
			       disk_header_level(h), w->level);
	return 0;
}

static int check_place(const struct block_want *w, const struct node *n)
{
	if (!block_owner_fits(w, n->owner))
		return corrupt(w->owner, w->bytenr, NO_SLOT, "block belongs to tree %llu",
			       (unsigned long long)n->owner);
	if (w->has_key && (n->count == 0 || !key_equal(node_key(n, 0), &w->key)))
		return corrupt(w->owner, w->bytenr, 0, "first key is not its parent's (" KEY_FMT ")",
			       KEY_ARGS(&w->key));
	return 0;
}

static int read_block(struct tree_env *env, const struct block_want *want, struct node **ret_node)
{
	uint32_t bytes = tree_env_block_size(env, want->level);
	scoped(freep) uint8_t *buf = NULL;
	scoped(node_freep) struct node *n = NULL;
	struct verify_arg arg = { .env = env, .want = want };
	int err;

	if (!is_aligned(want->bytenr, env->vol->params.sectorsize))
		return corrupt(want->owner, want->bytenr, NO_SLOT, "block address is not aligned");
	buf = aligned_alloc(SECTORSIZE_MIN, bytes);
	if (buf == NULL)
		return -ENOMEM;
	err = volume_read_verified(env->vol, want->bytenr, bytes, buf, verify_block, &arg);
	if (err == -ENOENT)
		return corrupt(want->owner, want->bytenr, NO_SLOT, "block address is in no chunk");
	if (err == 0)
		err = node_decode(buf, bytes, &n);
	if (err == 0)
		err = check_place(want, n);
	if (err == 0)
		err = check_node(env, n);
	if (err < 0)
		return err;
	env_note_chunk_uuid(env, ((const struct disk_header *)buf)->chunk_tree_uuid);
	*ret_node = take(n);
	return 0;
}

int cache_load(struct tree_env *env, const struct block_want *want)
{
	struct node *n;
	int err = read_block(env, want, &n);

	return err < 0 ? err : cache_add_clean(env, n);
}

int cache_copy(struct tree_env *env, const struct block_want *want, struct node **ret_node)
{
	const struct node *n;
	int err = 0;

	rcu_read_begin();
	n = cache_find(env, want);
	if (n != NULL)
		err = node_clone(n, n->bytenr, n->owner, n->generation, ret_node);
	rcu_read_end();
	return n != NULL ? err : read_block(env, want, ret_node);
}
