/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/pass_times.h"

/* Fewer passes of a kind show no median worth the name. */
#define KIND_PASSES_MIN 5u
/* Calls of a pass whose last rank is known: fewer are no rule. */
#define RULED_CALLS_MIN 16u

void pass_times_init(struct pass_times *times, struct arena *arena)
{
	*times = (struct pass_times){.arena = arena};
}

static unsigned log2_of(uint64_t value)
{
	return value ? 63u - (unsigned)__builtin_clzll(value) : 0;
}

/* Where the kind is, or where it belongs. */
static size_t place_of(const struct pass_times *times, const struct pass_facts *pass)
{
	const struct pass_kind *kinds = times->kinds;
	unsigned bytes_log2 = log2_of(pass->bytes);
	size_t i = 0;

	while (i < times->nkinds && i < PASS_TIMES_KINDS - 1 &&
	       (kinds[i].calls != pass_calls(pass) || kinds[i].bytes_log2 != bytes_log2))
		i++;
	return i;
}

size_t pass_times_kind(const struct pass_times *times, const struct pass_facts *pass)
{
	size_t i = place_of(times, pass);

	return pass->whole && i < times->nkinds ? i : PASS_TIMES_KINDS;
}

/* NULL: no memory. */
static struct pass_kind *kind_of(struct pass_times *times, const struct pass_facts *pass)
{
	struct pass_kind *kinds = times->kinds;
	size_t i = place_of(times, pass);

	if (i < times->nkinds)
		return &kinds[i];
	kinds[i].ns = arena_alloc(times->arena, sizeof(*kinds[i].ns));
	if (!kinds[i].ns)
		return NULL;
	kinds[i].calls = pass_calls(pass);
	kinds[i].bytes_log2 = log2_of(pass->bytes);
	times->nkinds++;
	return &kinds[i];
}

static void keep_slowest(struct pass_kind *kind, const struct pass_facts *pass)
{
	uint64_t duration_ns = pass->end_ns - pass->start_ns;
	size_t i = kind->nslowest;

	if (i == PASS_TIMES_SLOWEST && kind->slowest[i - 1].duration_ns >= duration_ns)
		return;
	if (i < PASS_TIMES_SLOWEST)
		kind->nslowest++;
	else
		i--;
	for (; i > 0 && kind->slowest[i - 1].duration_ns < duration_ns; i--)
		kind->slowest[i] = kind->slowest[i - 1];
	kind->slowest[i] = (struct slow_pass){
		.pass = pass->pass,
		.first_seq = pass->first_seq,
		.last_seq = pass->last_seq,
		.start_ns = pass->start_ns,
		.duration_ns = duration_ns,
		.time_ns = pass->time_ns,
		.wait_ns = pass->wait_ns,
		.waited_for = pass->waited_for,
		.waited_for_ns = pass->waited_for_ns,
		.unseen = pass->unseen,
		.late_calls = pass->late_calls,
		.rescued_calls = pass->rescued_calls,
	};
}

static void note_run(struct pass_times *times, const struct pass_facts *pass, uint32_t ruler)
{
	struct pass_run *run = &times->newest[ruler];

	if (!run->passes || pass->pass > run->last_pass + 2)
		*run = (struct pass_run){.first_pass = pass->pass, .first_seq = pass->first_seq};
	run->passes++;
	run->last_pass = pass->pass;
	run->last_seq = pass->last_seq;
	if (run->passes >= times->longest[ruler].passes)
		times->longest[ruler] = *run;
}

/* Of two ranks each is last in half of the calls by nature. */
static void note_ruler(struct pass_times *times, const struct pass_facts *pass, uint32_t nranks)
{
	uint64_t calls = 0;
	uint32_t ruler = 0;

	for (uint32_t rank = 0; rank < nranks; rank++) {
		calls += pass->last_calls[rank];
		if (pass->last_calls[rank] > pass->last_calls[ruler])
			ruler = rank;
	}
	if (calls < RULED_CALLS_MIN)
		return;
	times->compared++;
	if ((nranks == 2 ? 4 : 2) * (uint64_t)pass->last_calls[ruler] <
	    (nranks == 2 ? 3 : 1) * calls)
		return;
	times->ruled++;
	times->ruled_by[ruler]++;
	note_run(times, pass, ruler);
}

int pass_times_note(struct pass_times *times, const struct pass_facts *pass, uint32_t nranks)
{
	struct pass_kind *kind;

	if (!pass->whole)
		return 0;
	kind = kind_of(times, pass);
	if (!kind)
		return BELAY_E_NO_MEMORY;
	histogram_add(kind->ns, pass->end_ns - pass->start_ns);
	keep_slowest(kind, pass);
	note_ruler(times, pass, nranks);
	return 0;
}

uint64_t pass_kind_slow_above(const struct pass_kind *kind)
{
	uint64_t median;

	if (kind->ns->count < KIND_PASSES_MIN)
		return UINT64_MAX;
	median = histogram_quantile(kind->ns, 0.50);
	return median + median / 2;
}

/* The worst of what is left of each kind's list; NULL: nothing slow is left. */
static const struct slow_pass *next_slowest(const struct pass_times *times,
					    size_t taken[PASS_TIMES_KINDS], uint64_t *ret_median_ns)
{
	const struct slow_pass *best = NULL;
	double best_ratio = 0;
	size_t best_kind = 0;

	for (size_t i = 0; i < times->nkinds; i++) {
		const struct pass_kind *kind = &times->kinds[i];
		const struct slow_pass *pass = &kind->slowest[taken[i]];
		uint64_t above_ns = pass_kind_slow_above(kind);

		if (taken[i] == kind->nslowest || pass->duration_ns <= above_ns ||
		    (double)pass->duration_ns / (double)above_ns <= best_ratio)
			continue;
		best_ratio = (double)pass->duration_ns / (double)above_ns;
		best = pass;
		best_kind = i;
	}
	if (!best)
		return NULL;
	taken[best_kind]++;
	*ret_median_ns = histogram_quantile(times->kinds[best_kind].ns, 0.50);
	return best;
}

uint64_t pass_times_slow(const struct pass_times *times,
			 struct slow_pass ret_slowest[PASS_TIMES_SLOWEST], size_t *ret_n)
{
	size_t taken[PASS_TIMES_KINDS] = {0}, n = 0;
	const struct slow_pass *pass;
	uint64_t count = 0, median_ns;

	for (size_t i = 0; i < times->nkinds; i++)
		count += histogram_count_above(times->kinds[i].ns,
					       pass_kind_slow_above(&times->kinds[i]));
	while (n < PASS_TIMES_SLOWEST && (pass = next_slowest(times, taken, &median_ns)) != NULL) {
		ret_slowest[n] = *pass;
		ret_slowest[n++].median_ns = median_ns;
	}
	*ret_n = n;
	/* The histogram's buckets may put one on the other side of the line. */
	return count > n ? count : n;
}
