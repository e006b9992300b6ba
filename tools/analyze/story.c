/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/story.h"

/* More late ranks than this are told in one point; and so are all ranks. */
#define LATE_RANKS_MAX 2u
/* A rank keeps being the last when it is in three of four calls of its run, and the run is no
 * shorter than this. */
#define RUN_CALLS_MIN 128u
/* A straggler is told when its lateness, in the median, is at least this part of a call's latency
 * in the median: less is told by the numbers, and costs little. */
#define COSTLY_SHARE 0.3
/* Beside a fault, which costs milliseconds or the job, it must be this late as well. */
#define COSTLY_BESIDE_FAULT_NS 25000u
/* Passes must be so many for ranks that are last in turn. */
#define IN_TURN_PASSES_MIN 8u

static struct story_point *add(struct story *story, enum story_what what)
{
	struct story_point *point;

	/* The last place is enough for what is told last; no summary comes near it. */
	if (story->count == STORY_POINTS_MAX)
		story->count--;
	point = &story->points[story->count++];
	*point = (struct story_point){.what = what, .rank = -1};
	return point;
}

/* The only rank of a mask; -1: there are none or several. */
static int only_rank(uint64_t mask)
{
	return mask && !(mask & (mask - 1)) ? __builtin_ctzll(mask) : -1;
}

/* How it ended ------------------------------------------------------------------------------- */

static void tell_verdict(struct story *story, const struct summary *summary)
{
	const struct summary_verdict *verdict = &summary->verdict;
	struct story_point *point;

	if (!verdict->stands)
		return;
	point = add(story, STORY_VERDICT);
	point->rank = verdict->rank;
	point->ranks = verdict->told_by;
	point->seq = verdict->seq;
	point->pass = verdict->pass;
	point->cause = verdict->cause;
	if (verdict->ranks_differ)
		add(story, STORY_VERDICTS_DIFFER);
}

static void tell_digests(struct story *story, const struct summary *summary)
{
	const struct summary_digest *entries = summary->digests.items;
	size_t n = summary->digests.count;
	struct story_point *point;

	if (n == 0)
		return;
	point = add(story, STORY_DIGEST);
	for (size_t i = 0; i < n; i++)
		point->ranks |= entries[i].ranks;
	point->rank = only_rank(point->ranks);
	point->seq = entries[0].seq;
	point->pass = entries[0].pass;
	point->last_seq = entries[n - 1].seq;
	point->last_pass = entries[n - 1].pass;
	point->count = summary->digest_count;
	point->few_ranks = summary->nranks < 3;
}

/* What was rescued, and paths --------------------------------------------------------------------
 */

/* Calls from each entry to the next; 0: it varies. */
static uint64_t distance_of(const struct summary_rescue *entries, size_t n)
{
	uint64_t every;

	if (n < 3)
		return 0;
	every = entries[1].seq - entries[0].seq;
	for (size_t i = 2; i < n; i++) {
		if (entries[i].seq - entries[i - 1].seq != every)
			return 0;
	}
	return every;
}

static void tell_rescues(struct story *story, const struct summary *summary)
{
	const struct summary_rescue *entries = summary->rescues.items;
	size_t n = summary->rescues.count;
	struct story_point *point;

	if (n == 0)
		return;
	point = add(story, STORY_LOST_WRITES);
	point->path = entries[0].via;
	for (size_t i = 0; i < n; i++) {
		point->ranks |= entries[i].lost;
		point->others |= entries[i].stuck;
		if (entries[i].ns > point->ns)
			point->ns = entries[i].ns;
		if (entries[i].wait_ns > point->other_ns)
			point->other_ns = entries[i].wait_ns;
		if (entries[i].via != point->path)
			point->path = 0;
	}
	point->rank = only_rank(point->ranks);
	point->seq = entries[0].seq;
	point->pass = entries[0].pass;
	point->last_seq = entries[n - 1].seq;
	point->last_pass = entries[n - 1].pass;
	point->count = summary->rescue_count;
	if (summary->rescue_count == n)
		point->every = distance_of(entries, n);
}

/* A path that was refused at the start is known from an event alone: the calls never took it. */
static void tell_refused_path(struct story *story, const struct summary *summary)
{
	const struct summary_switches *switches = &summary->switches;
	struct story_point *point;

	if (!switches->first_seq || switches->first_seq > summary->first_seq ||
	    switches->first_from == switches->first_to || !summary->calls)
		return;
	point = add(story, STORY_PATH_REFUSED);
	point->seq = switches->first_seq;
	point->path = switches->first_to;
	point->other_path = switches->first_from;
	point->text = switches->reason[0] ? switches->reason : NULL;
}

/* What was switched, by the breaker or otherwise. */
static void tell_path_changes(struct story *story, const struct summary *summary)
{
	const struct summary_path_change *changes = summary->path_changes.items;
	size_t n = summary->path_changes.count;
	struct story_point *point;

	if (n == 0 && !summary->switches.opened)
		return;
	point = add(story, summary->switches.opened ? STORY_BREAKER : STORY_PATH_CHANGE);
	point->count =
		summary->switches.opened ? summary->switches.opened : summary->path_change_count;
	point->seq = summary->switches.opened_seq;
	if (n == 0)
		return;
	if (!summary->switches.opened) {
		point->seq = changes[0].seq;
		point->pass = changes[0].pass;
	}
	point->from_seq = changes[0].seq;
	point->path = changes[0].to;
	point->other_path = changes[0].from;
	if (n > 1)
		point->until_seq = changes[1].seq;
	point->last_path = changes[n - 1].to;
	point->goes_on = point->last_path == point->path;
	point->of = summary->paths[changes[0].to];
}

/* Who was late --------------------------------------------------------------------------------- */

/* Whether the rank was stuck in this call, so that it came late to the next. */
static int was_stuck(const struct summary *summary, uint64_t seq, uint32_t rank)
{
	const struct summary_rescue *entries = summary->rescues.items;
	size_t low = 0, high = summary->rescues.count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (entries[middle].seq < seq)
			low = middle + 1;
		else
			high = middle;
	}
	return low < summary->rescues.count && entries[low].seq == seq &&
	       (entries[low].stuck >> rank & 1);
}

/* What another point tells already: the rank was in a rescue, or the verdict is about it. */
static int is_explained(const struct summary *summary, uint32_t rank)
{
	const struct late_rank *late = &summary->late.ranks[rank];
	const struct summary_verdict *verdict = &summary->verdict;

	if (late->calls == 1 && verdict->stands && verdict->rank == (int)rank &&
	    late->first_seq == verdict->seq)
		return 1;
	return late->calls <= summary->rescue_count &&
	       was_stuck(summary, late->first_seq - 1, rank) &&
	       was_stuck(summary, late->last_seq - 1, rank);
}

static void tell_late_rank(struct story *story, const struct summary *summary, uint32_t rank)
{
	const struct late_rank *late = &summary->late.ranks[rank];
	struct story_point *point = add(story, STORY_LATE);

	point->rank = (int)rank;
	point->ranks = rank_bit(rank);
	point->seq = late->first_seq;
	point->pass = late->first_pass;
	point->last_seq = late->last_seq;
	point->last_pass = late->last_pass;
	point->count = late->calls;
	point->ns = late->worst_ns;
}

static void tell_late_ranks(struct story *story, const struct summary *summary, uint64_t ranks)
{
	struct story_point *point = add(story, STORY_LATE_ALL);

	point->ranks = ranks;
	point->seq = UINT64_MAX;
	while (ranks) {
		int rank = (int)mask_pop(&ranks);
		const struct late_rank *late = &summary->late.ranks[rank];

		point->count += late->calls;
		if (late->calls > point->most_count) {
			point->most_count = late->calls;
			point->most_rank = rank;
		}
		if (late->worst_ns > point->ns)
			point->ns = late->worst_ns;
		if (late->first_seq < point->seq) {
			point->seq = late->first_seq;
			point->pass = late->first_pass;
		}
		if (late->last_seq > point->last_seq) {
			point->last_seq = late->last_seq;
			point->last_pass = late->last_pass;
		}
	}
}

static void tell_late(struct story *story, const struct summary *summary)
{
	uint64_t ranks = 0;

	for (uint32_t rank = 0; rank < summary->nranks; rank++) {
		if (summary->late.ranks[rank].calls && !is_explained(summary, rank))
			ranks |= rank_bit(rank);
	}
	if (__builtin_popcountll(ranks) > (int)LATE_RANKS_MAX ||
	    (ranks && ranks == mask_of(summary->nranks))) {
		tell_late_ranks(story, summary, ranks);
		return;
	}
	while (ranks)
		tell_late_rank(story, summary, mask_pop(&ranks));
}

/* Who was last --------------------------------------------------------------------------------- */

static int tells_fault(const struct story *story)
{
	for (size_t i = 0; i < story->count; i++) {
		if (story_is_fault(story->points[i].what))
			return 1;
	}
	return 0;
}

static int is_costly(const struct story *story, const struct summary *summary, uint64_t lateness_ns)
{
	if (lateness_ns < COSTLY_BESIDE_FAULT_NS && tells_fault(story))
		return 0;
	return (double)lateness_ns >=
	       COSTLY_SHARE * (double)histogram_quantile(summary->latency, 0.50);
}

/* One that was last in more than its share, for long enough to be a run, and dearly. */
static int tell_straggler(struct story *story, const struct summary *summary)
{
	const struct stragglers *stragglers = &summary->stragglers;
	int rank = stragglers_worst(stragglers);
	struct straggler_run run = {0};
	struct story_point *point;
	uint64_t lateness_ns;

	if (rank < 0)
		return 0;
	summary_straggler_run(summary, (uint32_t)rank, &run);
	lateness_ns = histogram_quantile(stragglers->ranks[rank].lateness, 0.50);
	if (run.calls < RUN_CALLS_MIN || 4 * run.last_calls < 3 * run.calls ||
	    !is_costly(story, summary, lateness_ns))
		return 0;
	point = add(story, STORY_STRAGGLER);
	point->rank = rank;
	point->ranks = rank_bit((uint32_t)rank);
	point->seq = run.first_seq > summary->first_seq ? run.first_seq : 0;
	point->pass = run.first_pass;
	point->last_seq = run.last_seq;
	point->last_pass = run.last_pass;
	point->goes_on = run.to_the_end;
	point->count = run.last_calls;
	point->of = run.calls;
	point->ns = lateness_ns;
	point->other_ns = histogram_quantile(summary->latency, 0.50);
	return 1;
}

/* The lateness of the last, whoever it was, in the median of the ranks' medians. */
static uint64_t usual_lateness(const struct stragglers *stragglers, uint64_t ranks)
{
	uint64_t lowest = UINT64_MAX;

	while (ranks) {
		const struct straggler_rank *one = &stragglers->ranks[mask_pop(&ranks)];
		uint64_t ns = one->lateness ? histogram_quantile(one->lateness, 0.50) : 0;

		lowest = ns < lowest ? ns : lowest;
	}
	return lowest;
}

/* In most passes one rank keeps being last, but not the same. */
static void tell_in_turn(struct story *story, const struct summary *summary)
{
	const struct pass_times *times = &summary->pass_times;
	struct story_point *point;
	uint64_t ranks = 0, most = 0, lateness_ns;

	for (uint32_t rank = 0; rank < summary->nranks; rank++) {
		if (times->ruled_by[rank])
			ranks |= rank_bit(rank);
		if (times->ruled_by[rank] > most)
			most = times->ruled_by[rank];
	}
	if (times->ruled < IN_TURN_PASSES_MIN || 2 * times->ruled < times->compared ||
	    2 * most > times->ruled)
		return;
	lateness_ns = usual_lateness(&summary->stragglers, ranks);
	if (!is_costly(story, summary, lateness_ns))
		return;
	point = add(story, STORY_STRAGGLERS_IN_TURN);
	point->ranks = ranks;
	point->count = times->ruled;
	point->of = times->compared;
	point->ns = lateness_ns;
	point->other_ns = histogram_quantile(summary->latency, 0.50);
}

/* Slow passes ---------------------------------------------------------------------------------- */

/* The rank that all others waited for, for more than half of what the passes took too long; -1:
 * there is none. A wait is the mean of all ranks', of which that one's own is nothing. */
static int common_culprit(const struct slow_pass *passes, size_t n, uint32_t nranks)
{
	int rank = passes[0].waited_for;

	for (size_t i = 0; i < n; i++) {
		uint64_t excess_ns = passes[i].duration_ns - passes[i].median_ns;

		if (passes[i].waited_for != rank ||
		    2 * passes[i].waited_for_ns * nranks < excess_ns * (nranks - 1))
			return -1;
	}
	return rank;
}

/* Those that no late call and no rescue explains; the first is slow by nature. */
static void tell_slow_passes(struct story *story, const struct summary *summary)
{
	struct slow_pass slowest[PASS_TIMES_SLOWEST];
	struct story_point *point;
	size_t n, kept = 0;
	uint64_t count = pass_times_slow(&summary->pass_times, slowest, &n);

	for (size_t i = 0; i < n; i++) {
		if (!slowest[i].late_calls && !slowest[i].rescued_calls && slowest[i].pass > 1)
			slowest[kept++] = slowest[i];
	}
	if (!kept)
		return;
	point = add(story, STORY_SLOW_PASSES);
	point->rank = common_culprit(slowest, kept, summary->nranks);
	point->ranks = point->rank >= 0 ? rank_bit((uint32_t)point->rank) : 0;
	for (size_t i = 0; i < kept; i++)
		point->others |= slowest[i].unseen;
	point->pass = slowest[0].pass;
	point->seq = slowest[0].first_seq;
	point->count = count - (n - kept);
	point->of = summary->passes.whole_count;
	point->ns = slowest[0].duration_ns;
	point->other_ns = slowest[0].median_ns;
	point->in_calls = 2 * slowest[0].time_ns >= slowest[0].duration_ns - slowest[0].median_ns;
}

/* What the data lacks ---------------------------------------------------------------------------
 */

static void tell_data(struct story *story, const struct summary *summary, uint64_t clocks_differ)
{
	uint64_t missing = mask_of(summary->nranks) & ~summary->present;
	struct story_point *point;

	if (clocks_differ || summary->calls_clocks_differ) {
		point = add(story, STORY_CLOCKS);
		point->ranks = clocks_differ;
		point->rank = only_rank(clocks_differ);
		point->count = summary->calls_clocks_differ;
	}
	if (missing) {
		point = add(story, STORY_NO_DATA);
		point->ranks = missing;
		point->rank = only_rank(missing);
	}
	if (summary->lost_records) {
		point = add(story, STORY_LOST_RECORDS);
		point->count = summary->lost_records;
		for (uint32_t rank = 0; rank < summary->nranks; rank++)
			point->ranks |= summary->ranks[rank].lost ? rank_bit(rank) : 0;
		point->rank = only_rank(point->ranks);
	}
}

void story_tell(const struct summary *summary, uint64_t clocks_differ, struct story *ret_story)
{
	struct story story = {0};

	tell_verdict(&story, summary);
	tell_digests(&story, summary);
	tell_rescues(&story, summary);
	tell_path_changes(&story, summary);
	tell_refused_path(&story, summary);
	tell_late(&story, summary);
	if (!tell_straggler(&story, summary))
		tell_in_turn(&story, summary);
	tell_slow_passes(&story, summary);
	tell_data(&story, summary, clocks_differ);
	*ret_story = story;
}

const char *story_name(enum story_what what)
{
	static const char *const names[] = {
		[STORY_VERDICT] = "verdict",
		[STORY_VERDICTS_DIFFER] = "verdicts_differ",
		[STORY_DIGEST] = "digest_differences",
		[STORY_LOST_WRITES] = "lost_writes",
		[STORY_BREAKER] = "breaker",
		[STORY_PATH_REFUSED] = "path_refused",
		[STORY_PATH_CHANGE] = "path_change",
		[STORY_LATE] = "late",
		[STORY_LATE_ALL] = "late",
		[STORY_STRAGGLER] = "straggler",
		[STORY_STRAGGLERS_IN_TURN] = "stragglers_in_turn",
		[STORY_SLOW_PASSES] = "slow_passes",
		[STORY_CLOCKS] = "clocks",
		[STORY_NO_DATA] = "no_data",
		[STORY_LOST_RECORDS] = "lost_records",
	};

	return names[what];
}

int story_is_fault(enum story_what what)
{
	switch (what) {
	case STORY_VERDICT:
	case STORY_VERDICTS_DIFFER:
	case STORY_DIGEST:
	case STORY_LOST_WRITES:
	case STORY_BREAKER:
	case STORY_PATH_REFUSED:
	case STORY_LATE:
	case STORY_LATE_ALL:
		return 1;
	case STORY_PATH_CHANGE:
	case STORY_STRAGGLER:
	case STORY_STRAGGLERS_IN_TURN:
	case STORY_SLOW_PASSES:
	case STORY_CLOCKS:
	case STORY_NO_DATA:
	case STORY_LOST_RECORDS:
		break;
	}
	return 0;
}
