/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/call_row.h"

static void note_status(struct row_facts *facts, const struct call_record *record, uint64_t bit)
{
	if (record->status >= 0)
		return;
	if (facts->status == 0)
		facts->status = record->status;
	facts->failed |= bit;
	if (record->status == BELAY_E_MISMATCH)
		facts->mismatched |= bit;
}

static void note_rescue(struct row_facts *facts, const struct call_record *record, uint64_t bit)
{
	facts->stuck |= bit;
	if (!facts->rescue_path)
		facts->rescue_path = record->rescue_path;
	if (record->rescue_ns > facts->rescue_ns)
		facts->rescue_ns = record->rescue_ns;
}

static void note_record(struct row_facts *facts, const struct call_record *record, uint64_t bit)
{
	uint64_t end_ns = record->start_ns + record->duration_ns;

	if (record->start_ns < facts->start_ns)
		facts->start_ns = record->start_ns;
	if (end_ns > facts->end_ns)
		facts->end_ns = end_ns;
	if (record->duration_ns > facts->latency_ns)
		facts->latency_ns = record->duration_ns;
	facts->time_ns += record->duration_ns;
	note_status(facts, record, bit);
	if (record->flags & CALL_LATE)
		facts->late |= bit;
	if (record->flags & CALL_RESCUED)
		note_rescue(facts, record, bit);
}

/* The digest that most ranks have; of equally many, the one of the lowest rank. */
static uint64_t majority_digest(const struct call_row *row, uint64_t with_digest)
{
	uint64_t best = 0;
	int best_count = 0;

	for (uint64_t left = with_digest; left;) {
		uint64_t digest = row->records[mask_pop(&left)]->digest;
		int count = 0;

		for (uint64_t all = with_digest; all;)
			count += row->records[mask_pop(&all)]->digest == digest;
		if (count > best_count) {
			best = digest;
			best_count = count;
		}
	}
	return best;
}

static uint64_t digest_outliers(const struct call_row *row)
{
	uint64_t with_digest = 0, outliers = 0, digest = 0;
	int differ = 0;

	for (uint64_t left = row->ranks; left;) {
		uint32_t rank = mask_pop(&left);
		const struct call_record *record = row->records[rank];

		if (!(record->flags & CALL_DIGEST) || record->status != 0)
			continue;
		differ |= with_digest && record->digest != digest;
		digest = record->digest;
		with_digest |= rank_bit(rank);
	}
	if (!differ)
		return 0;
	digest = majority_digest(row, with_digest);
	while (with_digest) {
		uint32_t rank = mask_pop(&with_digest);

		if (row->records[rank]->digest != digest)
			outliers |= rank_bit(rank);
	}
	return outliers;
}

/* Sorted by arrival, the earliest first; at most 64, mostly in order already. Returns how many. */
static unsigned sort_arrivals(const struct call_row *row, uint64_t *arrivals)
{
	unsigned n = 0;

	for (uint64_t left = row->ranks; left;) {
		uint64_t arrival = record_arrival(row->records[mask_pop(&left)]);
		unsigned i = n++;

		for (; i > 0 && arrivals[i - 1] > arrival; i--)
			arrivals[i] = arrivals[i - 1];
		arrivals[i] = arrival;
	}
	return n;
}

/* No rank can leave a call before the last one arrives. The earliest end of those that
 * succeeded. */
static uint64_t earliest_end(const struct call_row *row)
{
	uint64_t earliest = UINT64_MAX;

	for (uint64_t left = row->ranks; left;) {
		const struct call_record *record = row->records[mask_pop(&left)];
		uint64_t end_ns = record->start_ns + record->duration_ns;

		if (record->status == 0 && record->count > 0 && end_ns < earliest)
			earliest = end_ns;
	}
	return earliest;
}

/* Who came last, and how long the others' inputs stood ready: from each rank's own clock reading,
 * which on one host is the same clock. */
static void compare_arrivals(const struct call_row *row, struct row_facts *facts)
{
	uint64_t arrivals[BELAY_RANKS_MAX];
	unsigned n = sort_arrivals(row, arrivals);
	uint64_t last = arrivals[n - 1], waited = 0;
	uint64_t left = row->ranks;

	facts->clocks_differ = earliest_end(row) < last;
	if (facts->clocks_differ)
		return;
	while (left) {
		uint32_t rank = mask_pop(&left);
		uint64_t arrival = record_arrival(row->records[rank]);

		waited += last - arrival;
		if (arrival == last && facts->last_rank < 0)
			facts->last_rank = (int)rank;
	}
	facts->wait_ns = waited / n;
	/* The median of the n - 1 others; of an even number the earlier of the two in the
	 * middle. */
	facts->lateness_ns = last - arrivals[(n - 2) / 2];
}

/* What one rank itself saw of the others, for rows in which a rank's record is missing. */
static uint64_t wait_seen(const struct call_record *record, uint32_t nranks)
{
	uint64_t last = 0;

	for (uint32_t peer = 0; peer < nranks; peer++) {
		if (record->arrival_ns[peer] != CALL_ARRIVAL_NONE &&
		    record->arrival_ns[peer] > last)
			last = record->arrival_ns[peer];
	}
	if (last > record->duration_ns)
		last = record->duration_ns;
	return last > record->staged_ns ? last - record->staged_ns : 0;
}

static uint64_t mean_wait_seen(const struct call_row *row, unsigned n)
{
	uint64_t sum = 0;

	for (uint64_t left = row->ranks; left;)
		sum += wait_seen(row->records[mask_pop(&left)], row->nranks);
	return sum / n;
}

void row_examine(const struct call_row *row, uint64_t expected, struct row_facts *ret_facts)
{
	struct row_facts facts = {.last_rank = -1, .start_ns = UINT64_MAX};
	unsigned n = (unsigned)__builtin_popcountll(row->ranks);

	facts.any = row->records[__builtin_ctzll(row->ranks)];
	for (uint64_t left = row->ranks; left;) {
		uint32_t rank = mask_pop(&left);

		note_record(&facts, row->records[rank], rank_bit(rank));
	}
	facts.time_ns /= n;
	facts.digest_outliers = digest_outliers(row);
	if (n > 1 && (row->ranks & expected) == expected)
		compare_arrivals(row, &facts);
	if (facts.last_rank < 0)
		facts.wait_ns = mean_wait_seen(row, n);
	*ret_facts = facts;
}
