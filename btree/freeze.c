/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * btree/freeze.c - the dirty nodes of a transaction on their way to the device.
 *
 * Freezing takes the list of dirty nodes; from then on nobody changes them (the next transaction
 * COWs them), so they are encoded and written without locks. A frozen node whose block is freed
 * meanwhile leaves the cache but is written all the same: the transaction being written needs it.
 */
#include "btree/env.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "btree/check.h"
#include "io/csum.h"
#include "io/log.h"
#include "io/util.h"

#define WRITE_RUN_BYTES (1u << 20)

struct frozen {
	struct tree_env *env;
	struct node **nodes;
	size_t count;
	bool written;
};

int tree_env_freeze(struct tree_env *env, uint64_t next_transid, struct frozen **ret_frozen)
{
	struct frozen *f = calloc(1, sizeof(*f));
	struct node *n;
	size_t count = 0;

	if (f == NULL)
		return -ENOMEM;
	mutex_guard(&env->lock);
	TAILQ_FOREACH(n, &env->dirty, link)
		count++;
	f->env = env;
	f->nodes = malloc(max_size(count, 1) * sizeof(*f->nodes));
	if (f->nodes == NULL) {
		free(f);
		return -ENOMEM;
	}
	while ((n = TAILQ_FIRST(&env->dirty)) != NULL) {
		TAILQ_REMOVE(&env->dirty, n, link);
		/* In this order: readers look at `low` of a node that is not DIRTY (N5). */
		if (n->count > 0)
			n->low = *node_key(n, 0);
		n->state = NODE_FROZEN;
		f->nodes[f->count++] = n;
	}
	env->dirty_bytes = 0;
	env->transid = next_transid;
	*ret_frozen = f;
	return 0;
}

static int by_bytenr(const void *a, const void *b)
{
	uint64_t x = (*(struct node *const *)a)->bytenr;
	uint64_t y = (*(struct node *const *)b)->bytenr;

	return x < y ? -1 : x > y;
}

static int encode(struct tree_env *env, const struct node *n, uint8_t *buf)
{
	const struct volume_params *p = &env->vol->params;
	int err = check_node(env, n);

	if (err < 0) {
		log_error("block %llu of tree %llu is wrong and was not written",
			  (unsigned long long)n->bytenr, (unsigned long long)n->owner);
		return err;
	}
	node_encode(n, p->metadata_uuid, env->chunk_uuid, buf);
	csum_header_set(p->csum_type, buf, n->block_bytes);
	return 0;
}

int frozen_write(struct frozen *f)
{
	scoped(freep) uint8_t *buf = aligned_alloc(4096, WRITE_RUN_BYTES);
	size_t i = 0;

	if (buf == NULL)
		return -ENOMEM;
	qsort(f->nodes, f->count, sizeof(*f->nodes), by_bytenr);
	while (i < f->count) {
		uint64_t start = f->nodes[i]->bytenr;
		uint32_t len = 0;
		int err;

		/* A run of blocks that touch, as long as the buffer takes. */
		while (i < f->count && f->nodes[i]->bytenr == start + len &&
		       len + f->nodes[i]->block_bytes <= WRITE_RUN_BYTES) {
			err = encode(f->env, f->nodes[i], buf + len);
			if (err < 0)
				return err;
			len += f->nodes[i++]->block_bytes;
		}
		err = volume_write(f->env->vol, start, buf, len);
		if (err < 0)
			return err;
	}
	f->written = true;
	return 0;
}

void frozen_free(struct frozen *f)
{
	struct tree_env *env;

	if (f == NULL)
		return;
	env = f->env;
	mutex_lock(&env->lock);
	for (size_t i = 0; i < f->count; i++)
		cache_thaw(env, f->nodes[i], f->written);
	mutex_unlock(&env->lock);
	free(f->nodes);
	free(f);
	tree_env_shrink(env);
}
