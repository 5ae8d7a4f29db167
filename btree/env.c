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

#include "io/log.h"
#include "io/util.h"

/*
 * The table has a fixed size, so that no thread but the callers' own is needed: one bucket for each
 * block of BUCKET_BYTES that the limit allows, as a power of two.
 */
#define BUCKET_BYTES 8192u
#define TABLE_BUCKETS_MAX (1u << 20)
/* Whole paths of several threads fit, or a step would wait for what another's loading evicts. */
#define CACHE_BYTES_MIN (8u << 20)
/* Nodes that one shrink may look at: it never becomes a stall. */
#define CLOCK_STEPS_MAX 4096u

static unsigned long table_buckets(size_t limit_bytes)
{
	unsigned long buckets = 1;

	while (buckets < limit_bytes / BUCKET_BYTES && buckets < TABLE_BUCKETS_MAX)
		buckets *= 2;
	return buckets;
}

int tree_env_new(const struct tree_env_args *args, struct tree_env **ret_env)
{
	struct tree_env *env = calloc(1, sizeof(*env));
	unsigned long buckets;

	if (env == NULL)
		return -ENOMEM;
	env->limit_bytes = max_size(args->cache_bytes, CACHE_BYTES_MIN);
	buckets = table_buckets(env->limit_bytes);
	env->table = cds_lfht_new(buckets, buckets, buckets, 0, NULL);
	if (env->table == NULL) {
		free(env);
		return -ENOMEM;
	}
	env->vol = args->vol;
	env->ops = args->ops;
	env->space = args->space;
	env->transid = args->transid;
	env->rdonly = args->rdonly;
	mutex_init(&env->share_lock, RANK_SHARE);
	mutex_init(&env->lock, RANK_CACHE);
	TAILQ_INIT(&env->clean);
	TAILQ_INIT(&env->dirty);
	TAILQ_INIT(&env->lost);
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

void env_note_chunk_uuid(struct tree_env *env, const uint8_t *uuid)
{
	if (env->has_chunk_uuid)
		return;
	mutex_guard(&env->lock);
	if (!env->has_chunk_uuid)
		tree_env_set_chunk_uuid(env, uuid);
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
	const struct node *n = container_of(h, struct node, hash);

	rcu_found(n);
	return n->bytenr == *(const uint64_t *)key;
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
	n->hashed = false;
	TAILQ_REMOVE(&env->clean, n, link);
	env->clean_bytes -= n->memory;
	must(cds_lfht_del(env->table, &n->hash) == 0);
	node_free_rcu(n);
}

/*
 * What the parent says against what the node is. A node of ours needs no check of its first key: it
 * was right when the parent was told, and only changes together with it.
 */
static bool is_wanted(const struct node *n, const struct block_want *want)
{
	if (n->generation != want->generation || n->level != want->level)
		return false;
	if (n->owner != want->owner && !block_owner_fits(want, n->owner))
		return false;
	return !want->has_key || n->state == NODE_DIRTY || key_equal(&n->low, &want->key);
}

struct node *cache_find(struct tree_env *env, const struct block_want *want)
{
	struct node *n = lookup(env, want->bytenr);

	if (n == NULL)
		return NULL;
	if (is_wanted(n, want)) {
		if (!atomic_load_explicit(&n->used, memory_order_relaxed))
			atomic_store_explicit(&n->used, true, memory_order_relaxed);
		return n;
	}
	mutex_guard(&env->lock);
	if (n->state == NODE_CLEAN && n->hashed)
		drop_clean_locked(env, n);
	return NULL;
}

static void shrink_locked(struct tree_env *env)
{
	/* Dirty nodes, which cannot go, take their part of the limit. */
	size_t limit = env->limit_bytes - min_size(env->dirty_bytes, env->limit_bytes - CACHE_BYTES_MIN);

	for (unsigned i = 0; i < CLOCK_STEPS_MAX && env->clean_bytes > limit; i++) {
		struct node *n = TAILQ_FIRST(&env->clean);

		if (n == NULL)
			return;
		if (atomic_exchange(&n->used, false)) {
			TAILQ_REMOVE(&env->clean, n, link);
			TAILQ_INSERT_TAIL(&env->clean, n, link);
			continue;
		}
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

int cache_add_clean(struct tree_env *env, struct node *n, bool sure)
{
	uint64_t bytenr = n->bytenr, owner = n->owner;
	struct node *there;
	bool twice = false;

	n->state = NODE_CLEAN;
	n->used = true;
	if (n->count > 0)
		n->low = *node_key(n, 0);
	rcu_read_begin();
	mutex_lock(&env->lock);
	there = lookup(env, bytenr);
	if (there != NULL && there->generation != n->generation) {
		/* Clean: a reader brought it back after the block had been freed. */
		twice = there->state != NODE_CLEAN;
		if (!twice) {
			drop_clean_locked(env, there);
			there = NULL;
		}
	}
	if (there == NULL) {
		n->hashed = true;
		rcu_publishing(n);
		cds_lfht_add(env->table, hash_of(bytenr), &n->hash);
		TAILQ_INSERT_TAIL(&env->clean, n, link);
		env->clean_bytes += n->memory;
		shrink_locked(env);
	} else {
		node_free(n);		/* another thread was faster */
	}
	mutex_unlock(&env->lock);
	rcu_read_end();
	if (!twice)
		return 0;
	return sure ? corrupt(owner, bytenr, NO_SLOT, "a block that is in use was free space") : -ESTALE;
}

int cache_add_dirty(struct tree_env *env, struct node *n)
{
	struct node *there;

	mutex_guard(&env->lock);
	there = lookup(env, n->bytenr);
	if (there != NULL && there->state != NODE_CLEAN) {
		int err = corrupt(n->owner, n->bytenr, NO_SLOT, "a block that is in use was free space");

		node_free(n);
		return err;
	}
	if (there != NULL)
		drop_clean_locked(env, there);
	n->state = NODE_DIRTY;
	n->used = true;
	n->hashed = true;
	n->epoch = env->epoch;
	rcu_publishing(n);
	cds_lfht_add(env->table, hash_of(n->bytenr), &n->hash);
	TAILQ_INSERT_TAIL(&env->dirty, n, link);
	n->counted = n->memory;
	env->dirty_bytes += n->counted;
	return 0;
}

static void drop_locked(struct tree_env *env, struct node *n)
{
	if (!n->hashed)
		return;
	if (n->state == NODE_CLEAN) {
		drop_clean_locked(env, n);
		return;
	}
	n->hashed = false;
	must(cds_lfht_del(env->table, &n->hash) == 0);
	/* A frozen one is freed by its struct frozen, after it was written. */
	if (n->state == NODE_FROZEN)
		return;
	if (n->state == NODE_DIRTY) {
		TAILQ_REMOVE(&env->dirty, n, link);
		env->dirty_bytes -= n->counted;
	} else {
		TAILQ_REMOVE(&env->lost, n, link);
	}
	node_free_rcu(n);
}

void cache_drop(struct tree_env *env, struct node *n)
{
	mutex_guard(&env->lock);
	drop_locked(env, n);
}

void cache_drop_block(struct tree_env *env, uint64_t bytenr, uint64_t generation)
{
	struct node *n;

	rcu_read_begin();
	mutex_lock(&env->lock);
	n = lookup(env, bytenr);
	if (n != NULL && n->generation == generation)
		drop_locked(env, n);
	mutex_unlock(&env->lock);
	rcu_read_end();
}

void cache_thaw(struct tree_env *env, struct node *n, bool written)
{
	mutex_assert_held(&env->lock);
	if (!n->hashed) {
		node_free_rcu(n);
	} else if (written) {
		n->state = NODE_CLEAN;
		TAILQ_INSERT_TAIL(&env->clean, n, link);
		env->clean_bytes += n->memory;
	} else {
		n->state = NODE_LOST;
		TAILQ_INSERT_TAIL(&env->lost, n, link);
	}
}

void cache_recount(struct tree_env *env, struct node *n)
{
	if (n->state != NODE_DIRTY || n->memory == n->counted)
		return;
	env->dirty_bytes += n->memory - n->counted;
	n->counted = n->memory;
}

uint64_t tree_env_dirty_bytes(const struct tree_env *env)
{
	return env->dirty_bytes;
}

uint64_t tree_env_cache_bytes(const struct tree_env *env)
{
	return env->clean_bytes + env->dirty_bytes;
}
