/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * alloc/free_space.c - a set of byte ranges inside one block group (see free_space.h).
 *
 * Two forms behind the same counters: ranges in two trees (by address, by length), or one bitmap.
 * The front (add, remove, queries) thinks in ranges; run_insert(), run_cut() and free_space_run()
 * know the form.
 */
#include "alloc/free_space.h"

#include "io/util.h"

#include <errno.h>
#include <string.h>

#define RUNS_MAX_LEAST 1024u		/* ranges that are always allowed */
#define BYTES_PER_RUN (1u << 20)	/* and one for each such piece of the group */
#define WORD_BITS 64u

struct free_run {
	RB_ENTRY(free_run) start_link;
	RB_ENTRY(free_run) size_link;
	uint64_t start;
	uint64_t len;
};

static int start_cmp(struct free_run *a, struct free_run *b)
{
	if (a->start == b->start)
		return 0;
	return a->start < b->start ? -1 : 1;
}

static int size_cmp(struct free_run *a, struct free_run *b)
{
	if (a->len != b->len)
		return a->len < b->len ? -1 : 1;
	return start_cmp(a, b);
}

RB_GENERATE_LOCAL(run_start_tree, free_run, start_link, start_cmp)
RB_GENERATE_LOCAL(run_size_tree, free_run, size_link, size_cmp)

void free_space_init(struct free_space *fs, uint64_t start, uint64_t len, uint32_t unit,
		     uint32_t block)
{
	must(is_pow2(unit) && is_aligned(start | len, unit));
	must(block == 0 || (is_pow2(block) && block >= unit));
	memset(fs, 0, sizeof(*fs));
	fs->start = start;
	fs->len = len;
	fs->unit = unit;
	fs->block = block;
	RB_INIT(&fs->by_start);
	RB_INIT(&fs->by_size);
}

static void drop_runs(struct free_space *fs)
{
	struct free_run *r, *next;

	for (r = RB_MIN(run_start_tree, &fs->by_start); r != NULL; r = next) {
		next = RB_NEXT(run_start_tree, &fs->by_start, r);
		RB_REMOVE(run_start_tree, &fs->by_start, r);
		free(r);
	}
	RB_INIT(&fs->by_size);
}

void free_space_done(struct free_space *fs)
{
	drop_runs(fs);
	free(fs->bits);
	free_space_init(fs, fs->start, fs->len, fs->unit, fs->block);
}

void free_space_move(struct free_space *from, struct free_space *to)
{
	must(to->runs == 0 && to->start == from->start && to->len == from->len);
	free_space_done(to);
	*to = *from;
	free_space_init(from, from->start, from->len, from->unit, from->block);
}

uint64_t free_space_runs_max(const struct free_space *fs)
{
	return max_u64(RUNS_MAX_LEAST, fs->len / BYTES_PER_RUN);
}

/* Whole aligned blocks in [s, e). */
static uint64_t whole_blocks(const struct free_space *fs, uint64_t s, uint64_t e)
{
	uint64_t first, last;

	if (fs->block == 0 || s >= e)
		return 0;
	first = align_up(s, fs->block);
	last = align_down(e, fs->block);
	return last > first ? (last - first) / fs->block : 0;
}

/*
 * The bitmap.
 */

static uint64_t bit_of(const struct free_space *fs, uint64_t pos)
{
	return (pos - fs->start) / fs->unit;
}

static uint64_t bit_count(const struct free_space *fs)
{
	return fs->len / fs->unit;
}

/* The first bit at or after `from` that is `value`, or bit_count. */
static uint64_t bit_next(const struct free_space *fs, uint64_t from, bool value)
{
	uint64_t count = bit_count(fs);

	while (from < count) {
		uint64_t word = fs->bits[from / WORD_BITS];

		if (!value)
			word = ~word;
		word >>= from % WORD_BITS;
		if (word != 0)
			return min_u64(count, from + (unsigned)__builtin_ctzll(word));
		from = align_down(from, WORD_BITS) + WORD_BITS;
	}
	return count;
}

/* One past the last bit before `to` that is clear, or 0: where the run of set bits up to `to` begins. */
static uint64_t bit_run_begin(const struct free_space *fs, uint64_t to)
{
	while (to > 0) {
		uint64_t word = ~fs->bits[(to - 1) / WORD_BITS];
		unsigned use = (unsigned)((to - 1) % WORD_BITS) + 1;

		if (use < WORD_BITS)
			word &= (1ULL << use) - 1;
		if (word != 0)
			return align_down(to - 1, WORD_BITS) + WORD_BITS -
			       (unsigned)__builtin_clzll(word);
		to = align_down(to - 1, WORD_BITS);
	}
	return 0;
}

static void bits_fill(struct free_space *fs, uint64_t start, uint64_t len, bool value)
{
	uint64_t at = bit_of(fs, start), end = at + len / fs->unit;

	while (at < end) {
		uint64_t n = min_u64(end - at, WORD_BITS - at % WORD_BITS);
		uint64_t mask = (n == WORD_BITS ? ~0ULL : (1ULL << n) - 1) << (at % WORD_BITS);

		if (value)
			fs->bits[at / WORD_BITS] |= mask;
		else
			fs->bits[at / WORD_BITS] &= ~mask;
		at += n;
	}
}

static bool bits_run(const struct free_space *fs, uint64_t pos, uint64_t *ret_start,
		     uint64_t *ret_end)
{
	uint64_t first = bit_next(fs, bit_of(fs, pos), true), end;

	if (first >= bit_count(fs))
		return false;
	end = bit_next(fs, first, false);
	*ret_start = fs->start + bit_run_begin(fs, first + 1) * fs->unit;
	*ret_end = fs->start + end * fs->unit;
	return true;
}

/*
 * Ranges in trees.
 */

static struct free_run *run_find(const struct free_space *fs, uint64_t pos)
{
	struct free_space *w = (struct free_space *)(uintptr_t)fs;	/* the macros lack const */
	struct free_run probe = {.start = pos}, *r, *before;

	r = RB_NFIND(run_start_tree, &w->by_start, &probe);
	if (r != NULL && r->start == pos)
		return r;
	before = r != NULL ? RB_PREV(run_start_tree, &w->by_start, r)
			   : RB_MAX(run_start_tree, &w->by_start);
	if (before != NULL && before->start + before->len > pos)
		return before;
	return r;
}

bool free_space_run(const struct free_space *fs, uint64_t pos, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct free_run *r;

	pos = max_u64(pos, fs->start);
	if (fs->runs == 0 || pos - fs->start >= fs->len)
		return false;
	if (fs->bits != NULL)
		return bits_run(fs, pos, ret_start, ret_end);
	r = run_find(fs, pos);
	if (r == NULL)
		return false;
	*ret_start = r->start;
	*ret_end = r->start + r->len;
	return true;
}

static int run_new(struct free_space *fs, uint64_t start, uint64_t len)
{
	struct free_run *r = malloc(sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->start = start;
	r->len = len;
	RB_INSERT(run_start_tree, &fs->by_start, r);
	RB_INSERT(run_size_tree, &fs->by_size, r);
	return 0;
}

static void run_delete(struct free_space *fs, struct free_run *r)
{
	RB_REMOVE(run_start_tree, &fs->by_start, r);
	RB_REMOVE(run_size_tree, &fs->by_size, r);
	free(r);
}

static void run_resize(struct free_space *fs, struct free_run *r, uint64_t start, uint64_t len)
{
	RB_REMOVE(run_size_tree, &fs->by_size, r);
	r->start = start;		/* neighbours keep their order: ranges never overlap */
	r->len = len;
	RB_INSERT(run_size_tree, &fs->by_size, r);
}

/*
 * Changing form. A failed allocation leaves the form as it is.
 */

static void to_bits(struct free_space *fs)
{
	struct free_run *r;

	fs->bits = calloc(div_round_up(bit_count(fs), WORD_BITS), sizeof(*fs->bits));
	if (fs->bits == NULL)
		return;
	RB_FOREACH(r, run_start_tree, &fs->by_start)
		bits_fill(fs, r->start, r->len, true);
	drop_runs(fs);
}

static void to_runs(struct free_space *fs)
{
	uint64_t *bits = fs->bits, pos = fs->start, s, e;

	while (bits_run(fs, pos, &s, &e)) {
		if (run_new(fs, s, e - s) < 0) {
			drop_runs(fs);
			return;
		}
		pos = e;
		if (pos - fs->start >= fs->len)
			break;
	}
	fs->bits = NULL;
	free(bits);
}

static void choose_form(struct free_space *fs)
{
	if (fs->bits == NULL && fs->runs > free_space_runs_max(fs))
		to_bits(fs);
	else if (fs->bits != NULL && fs->runs < free_space_runs_max(fs) / 4)
		to_runs(fs);
}

/*
 * Adding and removing.
 */

static bool range_good(const struct free_space *fs, uint64_t start, uint64_t len)
{
	return len > 0 && is_aligned(start | len, fs->unit) && start >= fs->start &&
	       start - fs->start < fs->len && len <= fs->len - (start - fs->start);
}

/* Puts [start, end) in, where [s, start) and [end, e) are there already. */
static int run_insert(struct free_space *fs, uint64_t s, uint64_t start, uint64_t end, uint64_t e)
{
	struct free_run *left, *right;

	if (fs->bits != NULL) {
		bits_fill(fs, start, end - start, true);
		return 0;
	}
	left = s < start ? run_find(fs, s) : NULL;
	right = end < e ? run_find(fs, end) : NULL;
	if (left == NULL && right == NULL)
		return run_new(fs, start, end - start);
	if (left == NULL) {
		run_resize(fs, right, s, e - s);
		return 0;
	}
	if (right != NULL)
		run_delete(fs, right);
	run_resize(fs, left, s, e - s);
	return 0;
}

int free_space_add(struct free_space *fs, uint64_t start, uint64_t len)
{
	uint64_t end = start + len, s = start, e = end, rs, re;
	int err;

	if (!range_good(fs, start, len))
		return -EINVAL;
	if (start > fs->start && free_space_run(fs, start - fs->unit, &rs, &re) && rs < start) {
		if (re > start)
			return -EINVAL;
		s = rs;
	}
	if (free_space_run(fs, start, &rs, &re)) {
		if (rs < end)
			return -EINVAL;
		if (rs == end)
			e = re;
	}
	err = run_insert(fs, s, start, end, e);
	if (err < 0)
		return err;
	fs->bytes += len;
	fs->runs = fs->runs + 1 - (s < start) - (end < e);
	fs->whole += whole_blocks(fs, s, e) - whole_blocks(fs, s, start) - whole_blocks(fs, end, e);
	fs->longest = max_u64(fs->longest, e - s);
	choose_form(fs);
	return 0;
}

/* Takes [start, end) out of the range [s, e). */
static int run_cut(struct free_space *fs, uint64_t s, uint64_t start, uint64_t end, uint64_t e)
{
	struct free_run *r;

	if (fs->bits != NULL) {
		bits_fill(fs, start, end - start, false);
		return 0;
	}
	r = run_find(fs, s);
	if (s == start && end == e) {
		run_delete(fs, r);
	} else if (s == start) {
		run_resize(fs, r, end, e - end);
	} else {
		run_resize(fs, r, s, start - s);
		if (end < e && run_new(fs, end, e - end) < 0) {
			run_resize(fs, r, s, e - s);
			return -ENOMEM;
		}
	}
	return 0;
}

int free_space_remove(struct free_space *fs, uint64_t start, uint64_t len)
{
	uint64_t end = start + len, s, e;
	int err;

	if (!range_good(fs, start, len) || !free_space_run(fs, start, &s, &e) || s > start || e < end)
		return -ENOENT;
	err = run_cut(fs, s, start, end, e);
	if (err < 0)
		return err;
	fs->bytes -= len;
	fs->runs = fs->runs - 1 + (s < start) + (end < e);
	fs->whole -= whole_blocks(fs, s, e) - whole_blocks(fs, s, start) - whole_blocks(fs, end, e);
	if (fs->runs == 0)
		fs->longest = 0;
	choose_form(fs);
	return 0;
}

int free_space_remove_any(struct free_space *fs, uint64_t start, uint64_t len, uint64_t *ret_bytes)
{
	uint64_t pos = start, end = start + len, before = fs->bytes, s, e;

	while (pos < end && free_space_run(fs, pos, &s, &e) && s < end) {
		int err;

		s = max_u64(s, pos);
		e = min_u64(e, end);
		err = free_space_remove(fs, s, e - s);
		if (err < 0)
			return err;
		pos = e;
	}
	if (ret_bytes != NULL)
		*ret_bytes = before - fs->bytes;
	return 0;
}

/*
 * Queries.
 */

/* Where in [s, e) the query's bytes can lie. */
static bool fit_in(const struct free_space *fs, const struct free_query *q, uint64_t s, uint64_t e,
		   uint64_t *ret_start, uint64_t *ret_len)
{
	uint64_t at;

	s = max_u64(s, q->from);
	e = min_u64(e, q->to);
	at = align_up(s, q->align);
	if (at < s || at >= e || e - at < q->min)
		return false;
	*ret_start = at;
	*ret_len = min_u64(align_down(q->want, fs->unit), e - at);
	return true;
}

static bool fit(const struct free_space *fs, const struct free_query *q, uint64_t s, uint64_t e,
		uint64_t *ret_start, uint64_t *ret_len)
{
	uint64_t first, last;

	if (e - s < q->run_min || e - s < q->min)
		return false;
	if (!q->spare_blocks || whole_blocks(fs, s, e) == 0)
		return fit_in(fs, q, s, e, ret_start, ret_len);
	first = align_up(s, fs->block);
	last = align_down(e, fs->block);
	return fit_in(fs, q, s, first, ret_start, ret_len) ||
	       fit_in(fs, q, last, e, ret_start, ret_len);
}

bool free_space_first(struct free_space *fs, const struct free_query *q, uint64_t *ret_start,
		      uint64_t *ret_len)
{
	uint64_t pos = max_u64(q->from, fs->start), s, e, longest = 0;
	bool all = pos == fs->start;

	if (fs->longest < max_u64(q->run_min, q->min))
		return false;
	while (pos < q->to && free_space_run(fs, pos, &s, &e) && s < q->to) {
		if (fit(fs, q, s, e, ret_start, ret_len))
			return true;
		longest = max_u64(longest, e - s);
		pos = e;
		if (pos - fs->start >= fs->len)
			break;
	}
	if (all && q->to - fs->start >= fs->len)
		fs->longest = longest;	/* every range was seen */
	return false;
}

static bool best_in_runs(struct free_space *fs, const struct free_query *q, uint64_t *ret_start,
			 uint64_t *ret_len)
{
	struct free_run probe = {.len = max_u64(q->want, q->run_min)}, *from, *r;

	from = RB_NFIND(run_size_tree, &fs->by_size, &probe);
	for (r = from; r != NULL; r = RB_NEXT(run_size_tree, &fs->by_size, r))
		if (fit(fs, q, r->start, r->start + r->len, ret_start, ret_len) &&
		    *ret_len == align_down(q->want, fs->unit))
			return true;
	for (r = RB_MAX(run_size_tree, &fs->by_size); r != NULL && r->len >= q->min;
	     r = RB_PREV(run_size_tree, &fs->by_size, r))
		if (fit(fs, q, r->start, r->start + r->len, ret_start, ret_len))
			return true;
	return false;
}

bool free_space_best(struct free_space *fs, const struct free_query *q, uint64_t *ret_start,
		     uint64_t *ret_len)
{
	uint64_t pos = fs->start, want = align_down(q->want, fs->unit), s, e, at, len;
	uint64_t best = UINT64_MAX, most = 0;

	if (fs->longest < max_u64(q->run_min, q->min))
		return false;
	if (fs->bits == NULL)
		return best_in_runs(fs, q, ret_start, ret_len);
	while (pos - fs->start < fs->len && free_space_run(fs, pos, &s, &e)) {
		pos = e;
		if (!fit(fs, q, s, e, &at, &len))
			continue;
		if (len == want ? e - s < best : best == UINT64_MAX && len > most) {
			best = len == want ? e - s : best;
			most = len;
			*ret_start = at;
			*ret_len = len;
		}
	}
	return most > 0;
}
