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

/* A rescue ends the call. */
static uint64_t wait_before_rescue(const struct call_record *record)
{
	uint64_t rest_ns = record->staged_ns + record->rescue_ns;

	return record->duration_ns > rest_ns ? record->duration_ns - rest_ns : 0;
}

static void note_rescue(struct row_facts *facts, const struct call_record *record, uint64_t bit)
{
	facts->stuck |= bit;
	if (!facts->rescue_path)
		facts->rescue_path = record->rescue_path;
	if (record->rescue_ns > facts->rescue_ns) {
		facts->rescue_ns = record->rescue_ns;
		facts->rescue_wait_ns = wait_before_rescue(record);
	}
}

static void note_record(struct row_facts *facts, const struct call_record *record, uint64_t bit)
{
	if (record->duration_ns > facts->latency_ns)
		facts->latency_ns = record->duration_ns;
	facts->time_ns += record->duration_ns;
	note_status(facts, record, bit);
	if (record->flags & CALL_LATE)
		facts->late |= bit;
	if (record->flags & CALL_RESCUED)
		note_rescue(facts, record, bit);
}

/* When the call began and ended, of ranks whose times are on one clock. */
static void note_times(struct row_facts *facts, const struct call_row *row, uint64_t ranks)
{
	while (ranks) {
		const struct call_record *record = row->records[mask_pop(&ranks)];
		uint64_t end_ns = record->start_ns + record->duration_ns;

		if (record->start_ns < facts->start_ns)
			facts->start_ns = record->start_ns;
		if (end_ns > facts->end_ns)
			facts->end_ns = end_ns;
	}
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

/* When each rank's input stood ready, on one clock. */
struct arrivals {
	uint64_t ranks; /* mask: whose arrival is known */
	uint64_t of[BELAY_RANKS_MAX];
};

/* When a rank's record shows that the peer's input was seen there; CALL_ARRIVAL_NONE: it does not.
 */
static uint64_t sight_of(const struct call_record *record, uint32_t peer)
{
	return record->arrival_ns[peer] == CALL_ARRIVAL_NONE
		       ? CALL_ARRIVAL_NONE
		       : record->start_ns + record->arrival_ns[peer];
}

static uint64_t earliest_sight(const struct call_row *row, uint64_t observers, uint32_t peer)
{
	uint64_t earliest = CALL_ARRIVAL_NONE;

	while (observers) {
		uint64_t sight = sight_of(row->records[mask_pop(&observers)], peer);

		if (sight < earliest)
			earliest = sight;
	}
	return earliest;
}

/* The fastest way of an input between two ranks whose times can be compared. It is what a sight is
 * later than the arrival. */
static uint64_t fastest_transfer(const struct call_row *row, uint64_t comparable)
{
	uint64_t fastest = UINT64_MAX;

	for (uint64_t left = comparable; left;) {
		uint32_t peer = mask_pop(&left);
		uint64_t arrival = record_arrival(row->records[peer]);
		uint64_t sight = earliest_sight(row, comparable & ~rank_bit(peer), peer);

		if (sight == CALL_ARRIVAL_NONE)
			continue;
		if (sight < arrival)
			sight = arrival;
		if (sight - arrival < fastest)
			fastest = sight - arrival;
	}
	return fastest == UINT64_MAX ? 0 : fastest;
}

/* Adds the ranks that cannot speak for themselves, by what the others saw of them. */
static void add_sights(const struct call_row *row, uint64_t comparable, struct arrivals *arrivals)
{
	uint64_t transfer_ns = fastest_transfer(row, comparable);

	for (uint64_t left = mask_of(row->nranks) & ~comparable; left;) {
		uint32_t rank = mask_pop(&left);
		uint64_t sight = earliest_sight(row, comparable, rank);

		if (sight == CALL_ARRIVAL_NONE)
			continue;
		arrivals->of[rank] = sight - transfer_ns;
		arrivals->ranks |= rank_bit(rank);
	}
}

static void take_arrivals(const struct call_row *row, uint64_t comparable,
			  struct arrivals *ret_arrivals)
{
	ret_arrivals->ranks = comparable;
	for (uint64_t left = comparable; left;) {
		uint32_t rank = mask_pop(&left);

		ret_arrivals->of[rank] = record_arrival(row->records[rank]);
	}
	if (comparable != mask_of(row->nranks))
		add_sights(row, comparable, ret_arrivals);
}

/* Sorted, the earliest first; at most 64, mostly in order already. Returns how many. */
static unsigned sort_arrivals(const struct arrivals *arrivals, uint64_t *ret_sorted)
{
	unsigned n = 0;

	for (uint64_t left = arrivals->ranks; left;) {
		uint64_t arrival = arrivals->of[mask_pop(&left)];
		unsigned i = n++;

		for (; i > 0 && ret_sorted[i - 1] > arrival; i--)
			ret_sorted[i] = ret_sorted[i - 1];
		ret_sorted[i] = arrival;
	}
	return n;
}

/* No rank can leave a call before the last one arrives. The earliest end of those that
 * succeeded. */
static uint64_t earliest_end(const struct call_row *row, uint64_t comparable)
{
	uint64_t earliest = UINT64_MAX;

	while (comparable) {
		const struct call_record *record = row->records[mask_pop(&comparable)];
		uint64_t end_ns = record->start_ns + record->duration_ns;

		if (record->status == 0 && record->count > 0 && end_ns < earliest)
			earliest = end_ns;
	}
	return earliest;
}

uint64_t record_wait(const struct call_record *record, uint64_t last_arrival_ns)
{
	uint64_t arrival = record_arrival(record);
	uint64_t wait_ns = last_arrival_ns > arrival ? last_arrival_ns - arrival : 0;
	/* Stamps of several ranks may be a little wrong, but no rank waits beyond its end. */
	uint64_t longest_ns = record->duration_ns > record->staged_ns
				      ? record->duration_ns - record->staged_ns
				      : 0;

	return wait_ns < longest_ns ? wait_ns : longest_ns;
}

/* How long the inputs of ranks with a record stood ready before the last one, mean. */
static uint64_t mean_wait(const struct call_row *row, uint64_t comparable, uint64_t last)
{
	unsigned n = (unsigned)__builtin_popcountll(comparable);
	uint64_t waited = 0;

	while (comparable)
		waited += record_wait(row->records[mask_pop(&comparable)], last);
	return waited / n;
}

/* Who of some ranks came last, of equals the lowest; -1: there are none. */
static int last_of(const struct arrivals *arrivals, uint64_t ranks)
{
	int last = -1;

	while (ranks) {
		uint32_t rank = mask_pop(&ranks);

		if (last < 0 || arrivals->of[rank] > arrivals->of[last])
			last = (int)rank;
	}
	return last;
}

/* Who came last, and how long the others' inputs stood ready: from the arrivals on one clock. */
static void compare_arrivals(const struct call_row *row, uint64_t comparable,
			     struct row_facts *facts)
{
	uint64_t sorted[BELAY_RANKS_MAX], last;
	struct arrivals arrivals;
	unsigned n;

	take_arrivals(row, comparable, &arrivals);
	n = sort_arrivals(&arrivals, sorted);
	last = sorted[n - 1];
	facts->clocks_differ = last > ROW_STAMP_ERROR_NS &&
			       earliest_end(row, comparable) < last - ROW_STAMP_ERROR_NS;
	if (facts->clocks_differ || arrivals.ranks != mask_of(row->nranks))
		return;
	facts->last_rank = last_of(&arrivals, arrivals.ranks);
	facts->last_arrival_ns = last;
	facts->wait_ns = mean_wait(row, comparable, last);
	/* The median of the n - 1 others; of an even number the earlier of the two in the
	 * middle. */
	facts->lateness_ns = last - sorted[(n - 2) / 2];
}

int row_last_but(const struct call_row *row, uint64_t but, uint64_t *ret_arrival_ns)
{
	struct arrivals arrivals;
	int last;

	take_arrivals(row, row->ranks & ~row->unaligned, &arrivals);
	last = last_of(&arrivals, arrivals.ranks & ~but);
	if (last >= 0)
		*ret_arrival_ns = arrivals.of[last];
	return last;
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

void row_examine(const struct call_row *row, struct row_facts *ret_facts)
{
	struct row_facts facts = {.last_rank = -1, .start_ns = UINT64_MAX};
	uint64_t comparable = row->ranks & ~row->unaligned;
	unsigned n = (unsigned)__builtin_popcountll(row->ranks);

	facts.any = row->records[__builtin_ctzll(row->ranks)];
	for (uint64_t left = row->ranks; left;) {
		uint32_t rank = mask_pop(&left);

		note_record(&facts, row->records[rank], rank_bit(rank));
	}
	note_times(&facts, row, comparable ? comparable : row->ranks);
	facts.time_ns /= n;
	facts.digest_outliers = digest_outliers(row);
	if (comparable & (comparable - 1))
		compare_arrivals(row, comparable, &facts);
	if (facts.last_rank < 0)
		facts.wait_ns = mean_wait_seen(row, n);
	*ret_facts = facts;
}
