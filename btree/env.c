/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/env.c - the shared environment and the node cache; see env.h.
 *
 * The cache is liburcu's lock-free hash table by logical address. Clean nodes stand in a list that a
 * clock hand walks: a node that was used since the hand passed gets another round.
 */
#include "btree/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "btree/check.h"
#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

#define TABLE_BUCKETS_MIN 1024u
#define TABLE_BUCKETS_MAX (1u << 20)
/* Whole paths of several threads fit, or a step would wait for what another's loading evicts. */
#define CACHE_BYTES_MIN (8u << 20)
/* Nodes that one shrink may look at: it never becomes a stall. */
#define CLOCK_STEPS_MAX 4096u

int tree_env_new(const struct tree_env_args *args, struct tree_env **ret_env)
{
	struct tree_env *env = calloc(1, sizeof(*env));

	if (env == NULL)
		return -ENOMEM;
	env->table = cds_lfht_new(TABLE_BUCKETS_MIN, TABLE_BUCKETS_MIN, TABLE_BUCKETS_MAX,
				  CDS_LFHT_AUTO_RESIZE, NULL);
	if (env->table == NULL) {
		free(env);
		return -ENOMEM;
	}
	env->vol = args->vol;
	env->ops = args->ops;
	env->space = args->space;
	env->transid = args->transid;
	env->rdonly = args->rdonly;
	env->limit_bytes = max_size(args->cache_bytes, CACHE_BYTES_MIN);
	mutex_init(&env->share_lock, RANK_SHARE);
	mutex_init(&env->lock, RANK_CACHE);
	TAILQ_INIT(&env->clean);
	TAILQ_INIT(&env->dirty);
	*ret_env = env;
	return 0;
}

void tree_env_free(struct tree_env *env)
{
	struct cds_lfht_iter iter;
	struct node *n;

	if (env == NULL)
		return;
	rcu_thread_ensure();
	rcu_read_begin();
	cds_lfht_for_each_entry(env->table, &iter, n, hash)
		if (cds_lfht_del(env->table, &n->hash) == 0)
			node_free_rcu(n);
	rcu_read_end();
	rcu_drain();
	cds_lfht_destroy(env->table, NULL);
	mutex_done(&env->share_lock);
	mutex_done(&env->lock);
	free(env);
}

void tree_env_set_space(struct tree_env *env, const struct space_ops *ops, struct space *space)
{
	env->ops = ops;
	env->space = space;
}

uint64_t tree_env_transid(const struct tree_env *env)
{
	return env->transid;
}

uint32_t tree_env_block_size(const struct tree_env *env, uint8_t level)
{
	return volume_block_bytes(env->vol, level);
}

uint32_t tree_max_item_size(const struct tree_env *env)
{
	return tree_env_block_size(env, 0) - (uint32_t)sizeof(struct disk_header) -
	       (uint32_t)sizeof(struct disk_item);
}

void tree_env_set_chunk_uuid(struct tree_env *env, const uint8_t *uuid)
{
	memcpy(env->chunk_uuid, uuid, UUID_BYTES);
	env->has_chunk_uuid = true;
}

const uint8_t *tree_env_chunk_uuid(const struct tree_env *env)
{
	return env->chunk_uuid;
}

/* --- the table ----------------------------------------------------------------------------------- */

static unsigned long hash_of(uint64_t bytenr)
{
	return (unsigned long)((bytenr >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 16);
}

static int match_bytenr(struct cds_lfht_node *h, const void *key)
{
	return container_of(h, struct node, hash)->bytenr == *(const uint64_t *)key;
}

static void node_reclaim(struct rcu_head *head)
{
	rcu_callback_begin(head);
	node_free(container_of(head, struct node, rcu));
}

void node_free_rcu(struct node *n)
{
	rcu_defer(&n->rcu, node_reclaim);
}

static struct node *lookup(struct tree_env *env, uint64_t bytenr)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *h;

	cds_lfht_lookup(env->table, hash_of(bytenr), match_bytenr, &bytenr, &iter);
	h = cds_lfht_iter_get_node(&iter);
	return h ? container_of(h, struct node, hash) : NULL;
}

static void drop_clean_locked(struct tree_env *env, struct node *n)
{
	TAILQ_REMOVE(&env->clean, n, link);
	env->clean_bytes -= n->memory;
	if (cds_lfht_del(env->table, &n->hash) == 0)
		node_free_rcu(n);
}

struct node *cache_find(struct tree_env *env, const struct block_want *want)
{
	struct node *n = lookup(env, want->bytenr);

	if (n == NULL)
		return NULL;
	if (n->generation == want->generation && n->level == want->level) {
		if (!atomic_load_explicit(&n->used, memory_order_relaxed))
			atomic_store_explicit(&n->used, true, memory_order_relaxed);
		return n;
	}
	mutex_guard(&env->lock);
	/* Still the one in the table? Somebody else may have dropped it. */
	if (n->state == NODE_CLEAN && n->hashed && lookup(env, want->bytenr) == n) {
		n->hashed = false;
		drop_clean_locked(env, n);
	}
	return NULL;
}

static void shrink_locked(struct tree_env *env)
{
	for (unsigned i = 0; i < CLOCK_STEPS_MAX && env->clean_bytes > env->limit_bytes; i++) {
		struct node *n = TAILQ_FIRST(&env->clean);

		if (n == NULL)
			return;
		if (atomic_exchange(&n->used, false)) {
			TAILQ_REMOVE(&env->clean, n, link);
			TAILQ_INSERT_TAIL(&env->clean, n, link);
			continue;
		}
		n->hashed = false;
		drop_clean_locked(env, n);
	}
}

void tree_env_shrink(struct tree_env *env)
{
	rcu_thread_ensure();
	rcu_read_begin();
	mutex_lock(&env->lock);
	shrink_locked(env);
	mutex_unlock(&env->lock);
	rcu_read_end();
}

static void cache_add_clean(struct tree_env *env, struct node *n)
{
	struct cds_lfht_node *h;

	rcu_read_begin();
	mutex_lock(&env->lock);
	n->state = NODE_CLEAN;
	n->used = true;
	h = cds_lfht_add_unique(env->table, hash_of(n->bytenr), match_bytenr, &n->bytenr, &n->hash);
	if (h == &n->hash) {
		n->hashed = true;
		TAILQ_INSERT_TAIL(&env->clean, n, link);
		env->clean_bytes += n->memory;
		shrink_locked(env);
	} else {
		node_free(n);		/* another thread was faster */
	}
	mutex_unlock(&env->lock);
	rcu_read_end();
}

void cache_add_dirty(struct tree_env *env, struct node *n)
{
	struct cds_lfht_node *h;

	mutex_guard(&env->lock);
	n->state = NODE_DIRTY;
	n->used = true;
	n->hashed = true;
	h = cds_lfht_add_replace(env->table, hash_of(n->bytenr), match_bytenr, &n->bytenr, &n->hash);
	if (h != NULL) {
		struct node *old = container_of(h, struct node, hash);

		/* A stale copy that a reader brought back after the block had been freed. */
		must(old->state == NODE_CLEAN);
		old->hashed = false;
		TAILQ_REMOVE(&env->clean, old, link);
		env->clean_bytes -= old->memory;
		node_free_rcu(old);
	}
	TAILQ_INSERT_TAIL(&env->dirty, n, link);
	n->counted = n->memory;
	env->dirty_bytes += n->counted;
}

void cache_drop(struct tree_env *env, struct node *n)
{
	mutex_guard(&env->lock);
	if (!n->hashed)
		return;
	n->hashed = false;
	if (n->state == NODE_CLEAN) {
		drop_clean_locked(env, n);
		return;
	}
	cds_lfht_del(env->table, &n->hash);
	if (n->state == NODE_DIRTY) {
		TAILQ_REMOVE(&env->dirty, n, link);
		env->dirty_bytes -= n->counted;
		node_free_rcu(n);
	}
	/* A frozen one is freed by its struct frozen, after it was written. */
}

void cache_recount(struct tree_env *env, struct node *n)
{
	if (n->state != NODE_DIRTY || n->memory == n->counted)
		return;
	env->dirty_bytes += n->memory - n->counted;
	n->counted = n->memory;
}

/* --- loading ------------------------------------------------------------------------------------- */

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
	uint8_t sum[CSUM_MAX_BYTES];

	csum_block(p->csum_type, (const uint8_t *)buf + CSUM_MAX_BYTES, len - CSUM_MAX_BYTES, sum);
	if (memcmp(sum, h->csum, csum_size(p->csum_type)) != 0)
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
	bool is_subvol = n->owner == OBJ_FS_TREE ||
			 (n->owner >= OBJ_FIRST_FREE && n->owner <= OBJ_LAST_FREE);

	if (w->shareable ? !is_subvol && n->owner != w->owner : n->owner != w->owner)
		return corrupt(w->owner, w->bytenr, NO_SLOT, "block belongs to tree %llu",
			       (unsigned long long)n->owner);
	if (w->has_key && (n->count == 0 || !key_equal(node_key(n, 0), &w->key)))
		return corrupt(w->owner, w->bytenr, 0, "first key is not its parent's (" KEY_FMT ")",
			       KEY_ARGS(&w->key));
	return 0;
}

int cache_load(struct tree_env *env, const struct block_want *want)
{
	uint32_t bytes = tree_env_block_size(env, want->level);
	scoped(freep) uint8_t *buf = NULL;
	struct verify_arg arg = { .env = env, .want = want };
	struct node *n;
	int err;

	if (!is_aligned(want->bytenr, env->vol->params.sectorsize))
		return corrupt(want->owner, want->bytenr, NO_SLOT, "block address is not aligned");
	buf = aligned_alloc(4096, bytes);
	if (buf == NULL)
		return -ENOMEM;
	err = volume_read_verified(env->vol, want->bytenr, bytes, buf, verify_block, &arg);
	if (err == -ENOENT)
		return corrupt(want->owner, want->bytenr, NO_SLOT, "block address is in no chunk");
	if (err < 0)
		return err;
	err = node_decode(buf, bytes, &n);
	if (err < 0)
		return err;
	err = check_place(want, n);
	if (err == 0)
		err = check_node(env, n);
	if (err < 0) {
		node_free(n);
		return err;
	}
	if (!env->has_chunk_uuid)
		tree_env_set_chunk_uuid(env, ((const struct disk_header *)buf)->chunk_tree_uuid);
	cache_add_clean(env, n);
	return 0;
}

uint64_t tree_env_dirty_bytes(const struct tree_env *env)
{
	return env->dirty_bytes;
}

uint64_t tree_env_cache_bytes(const struct tree_env *env)
{
	return env->clean_bytes + env->dirty_bytes;
}
