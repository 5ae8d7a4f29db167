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

/* What verify_block() asks, without a word. */
static bool copy_good(const struct tree_env *env, const struct block_want *w, const void *buf, size_t len)
{
	const struct volume_params *p = &env->vol->params;
	const struct disk_header *h = buf;

	return csum_header_good(p->csum_type, buf, len) &&
	       memcmp(h->fsid, p->metadata_uuid, UUID_BYTES) == 0 &&
	       disk_header_bytenr(h) == w->bytenr && disk_header_generation(h) == w->generation &&
	       disk_header_level(h) == w->level;
}

/* Judges one copy by what can be known without decoding it. */
static int verify_block(const void *buf, size_t len, void *arg)
{
	const struct verify_arg *v = arg;
	const struct block_want *w = v->want;
	const struct volume_params *p = &v->env->vol->params;
	const struct disk_header *h = buf;

	if (copy_good(v->env, w, buf, len))
		return 0;
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
	return corrupt(w->owner, w->bytenr, NO_SLOT, "level %u, its parent says %u",
		       disk_header_level(h), w->level);
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

/* Fills buf with a good copy. */
static int read_copy(struct tree_env *env, const struct block_want *want, uint32_t bytes, uint8_t *buf,
		     bool sure)
{
	struct verify_arg arg = { .env = env, .want = want };
	int err;

	if (!sure)
		return volume_read(env->vol, want->bytenr, buf, bytes, 0) == 0 &&
				       copy_good(env, want, buf, bytes) ? 0 : -ESTALE;
	err = volume_read_verified(env->vol, want->bytenr, bytes, buf, verify_block, &arg);
	return err == -ENOENT
		? corrupt(want->owner, want->bytenr, NO_SLOT, "block address is in no chunk") : err;
}

static int read_block(struct tree_env *env, const struct block_want *want, bool sure,
		      struct node **ret_node)
{
	uint32_t bytes = tree_env_block_size(env, want->level);
	scoped(freep) uint8_t *buf = NULL;
	scoped(node_freep) struct node *n = NULL;
	int err;

	if (!is_aligned(want->bytenr, env->vol->params.sectorsize))
		return corrupt(want->owner, want->bytenr, NO_SLOT, "block address is not aligned");
	buf = aligned_alloc(SECTORSIZE_MIN, bytes);
	if (buf == NULL)
		return -ENOMEM;
	err = read_copy(env, want, bytes, buf, sure);
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

int cache_load(struct tree_env *env, const struct block_want *want, bool sure)
{
	struct node *n;
	int err = read_block(env, want, sure, &n);

	return err < 0 ? err : cache_add_clean(env, n, sure);
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
	return n != NULL ? err : read_block(env, want, true, ret_node);
}
