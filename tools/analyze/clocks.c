/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/clocks.h"

#define DRIFT_PPM_MAX	   200u	  /* two clocks against each other; quartz is ten times better */
#define SURELY_NS	   50000u /* the centres leave the bounds by more than wake-ups explain */
#define ROWS_BETWEEN_LOOKS 16u	  /* while nothing contradicts */
#define BROKEN_TOLERATED   8u

int clocks_init(struct clocks *clocks, uint32_t nranks, uint64_t present, struct arena *arena)
{
	size_t stride = call_record_stride(nranks);
	struct rank_clock *ranks = arena_alloc(arena, nranks * sizeof(*ranks));
	unsigned char *copies = arena_alloc(arena, nranks * stride);

	if (!ranks || !copies)
		return BELAY_E_NO_MEMORY;
	*clocks = (struct clocks){.nranks = nranks,
				  .reference = present ? (uint32_t)__builtin_ctzll(present) : 0,
				  .ranks = ranks,
				  .copies = copies};
	return 0;
}

/* Two clocks may lie any distance apart: differences wrap as the recorded numbers do. */
static int64_t difference(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b);
}

static int64_t moved(int64_t value, uint64_t by)
{
	return (int64_t)((uint64_t)value + by);
}

static uint64_t distance(int64_t a, int64_t b)
{
	return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static int64_t clamped(int64_t value, int64_t low, int64_t high)
{
	if (value < low)
		return low;
	return value > high ? high : value;
}

static int is_usable(const struct call_record *record)
{
	return record && record->status == 0 && record->count > 0;
}

static uint64_t end_of(const struct call_record *record)
{
	return record->start_ns + record->duration_ns;
}

/* When the peer's input was seen, or at the latest: paths that show no arrivals still end after
 * them. */
static uint64_t seen_by(const struct call_record *record, uint32_t peer)
{
	uint64_t arrival = record->arrival_ns[peer];

	return arrival == CALL_ARRIVAL_NONE || arrival > record->duration_ns
		       ? end_of(record)
		       : record->start_ns + arrival;
}

/* When the rank had all inputs. */
static uint64_t complete_at(const struct call_record *record, uint32_t nranks)
{
	uint64_t last = record->staged_ns;

	for (uint32_t peer = 0; peer < nranks; peer++) {
		if (record->arrival_ns[peer] > last)
			last = record->arrival_ns[peer];
	}
	return last > record->duration_ns ? end_of(record) : record->start_ns + last;
}

/* Finding that clocks differ ------------------------------------------------------------------- */

/* For each rank, with how many others it is at odds: one of the two saw the other's input before it
 * was staged. */
static void count_contradictions(const struct call_row *row, uint32_t *ret_counts)
{
	memset(ret_counts, 0, row->nranks * sizeof(*ret_counts));
	for (uint32_t i = 0; i < row->nranks; i++) {
		for (uint32_t j = 0; is_usable(row->records[i]) && j < row->nranks; j++) {
			if (i == j || !is_usable(row->records[j]) ||
			    difference(record_arrival(row->records[j]),
				       seen_by(row->records[i], j)) <= (int64_t)ROW_STAMP_ERROR_NS)
				continue;
			ret_counts[i]++;
			ret_counts[j]++;
		}
	}
}

/* Of the ranks in the row, the lowest that is at odds with the fewest. */
static uint32_t most_agreeing(const struct call_row *row, const uint32_t *counts)
{
	uint32_t best = (uint32_t)__builtin_ctzll(row->ranks);

	for (uint64_t left = row->ranks; left;) {
		uint32_t rank = mask_pop(&left);

		if (counts[rank] < counts[best])
			best = rank;
	}
	return best;
}

static void look_for_contradictions(struct clocks *clocks, const struct call_row *row)
{
	uint32_t counts[BELAY_RANKS_MAX], odd = 0;

	count_contradictions(row, counts);
	for (uint32_t rank = 0; rank < row->nranks; rank++)
		odd += counts[rank] != 0;
	if (!odd)
		return;
	clocks->reference = most_agreeing(row, counts);
	clocks->followed = mask_of(clocks->nranks) & ~rank_bit(clocks->reference);
}

/* Following one clock -------------------------------------------------------------------------- */

/* What one call tells of a rank's offset. */
struct reading {
	uint64_t time_ns;
	int64_t low_ns, high_ns;
	int64_t centre_ns;
	uint64_t transfer_ns;
};

static void read_clock(const struct clocks *clocks, const struct call_row *row, uint32_t rank,
		       struct reading *ret_reading)
{
	const struct call_record *there = row->records[rank];
	const struct call_record *here = row->records[clocks->reference];
	uint32_t reference = clocks->reference;

	ret_reading->time_ns = record_arrival(here);
	ret_reading->low_ns = moved(difference(record_arrival(there), seen_by(here, rank)),
				    0 - (uint64_t)ROW_STAMP_ERROR_NS);
	ret_reading->high_ns = moved(difference(seen_by(there, reference), record_arrival(here)),
				     ROW_STAMP_ERROR_NS);
	ret_reading->centre_ns =
		clamped(difference(complete_at(there, row->nranks), complete_at(here, row->nranks)),
			ret_reading->low_ns, ret_reading->high_ns);
	/* The later one of the two waited for nobody. */
	ret_reading->transfer_ns = there->duration_ns - there->staged_ns;
	if (here->duration_ns - here->staged_ns < ret_reading->transfer_ns)
		ret_reading->transfer_ns = here->duration_ns - here->staged_ns;
}

static void begin_stretch(struct rank_clock *clock, const struct reading *reading)
{
	clock->low_ns = reading->low_ns;
	clock->high_ns = reading->high_ns;
	clock->stretch_ns = reading->time_ns;
	clock->stretch_offset_ns = reading->centre_ns;
	clock->ncentres = 0;
}

/* The bounds of before, as wide as they have become, and those of now. Returns 0 when no offset
 * fits both. */
static int narrow(struct rank_clock *clock, const struct reading *reading)
{
	int64_t passed = difference(reading->time_ns, clock->noted_ns);
	uint64_t slack = passed > 0 ? (uint64_t)passed / 1000000 * DRIFT_PPM_MAX +
					      (uint64_t)passed % 1000000 * DRIFT_PPM_MAX / 1000000
				    : 0;
	int64_t low = moved(clock->low_ns, 0 - slack), high = moved(clock->high_ns, slack);

	clock->low_ns = low > reading->low_ns ? low : reading->low_ns;
	clock->high_ns = high < reading->high_ns ? high : reading->high_ns;
	return clock->low_ns <= clock->high_ns;
}

static int64_t median_centre(struct rank_clock *clock, int64_t newest)
{
	int64_t sorted[CLOCKS_CENTRES];
	unsigned n = 0;

	clock->centres[clock->noted % CLOCKS_CENTRES] = newest;
	if (clock->ncentres < CLOCKS_CENTRES)
		clock->ncentres++;
	for (unsigned k = 0; k < clock->ncentres; k++) {
		int64_t value = clock->centres[(clock->noted - k) % CLOCKS_CENTRES];
		unsigned i = n++;

		for (; i > 0 && sorted[i - 1] > value; i--)
			sorted[i] = sorted[i - 1];
		sorted[i] = value;
	}
	clock->spread_ns = distance(sorted[0], sorted[n - 1]);
	return sorted[n / 2];
}

/* Where clocks differ, not all of them need to. */
static int is_off(const struct rank_clock *clock)
{
	return clock->low_ns > 0 || clock->high_ns < 0 ||
	       (clock->ncentres == CLOCKS_CENTRES &&
		distance(clock->offset_ns, 0) > 4 * clock->spread_ns + 2 * clock->transfer_ns);
}

/* A small step may stay within wide bounds, but then the centres leave them, and do not come
 * back. */
static int has_left_bounds(const struct rank_clock *clock, int64_t centre)
{
	return clock->ncentres == CLOCKS_CENTRES &&
	       distance(centre, clamped(centre, clock->low_ns, clock->high_ns)) >
		       SURELY_NS + 4 * clock->spread_ns;
}

static void settle_offset(struct rank_clock *clock, int64_t centre, const struct reading *reading)
{
	uint64_t to_low, to_high, bound, over = reading->time_ns - clock->stretch_ns;

	clock->offset_ns = clamped(centre, clock->low_ns, clock->high_ns);
	to_low = distance(clock->offset_ns, clock->low_ns);
	to_high = distance(clock->high_ns, clock->offset_ns);
	bound = to_low > to_high ? to_low : to_high;
	clock->bound_sum_ns += bound;
	if (bound > clock->bound_worst_ns)
		clock->bound_worst_ns = bound;
	/* Where a bound held it, the offset says nothing of how far it went. */
	if (over >= clock->drift_over_ns && clock->offset_ns == centre) {
		clock->drift_over_ns = over;
		clock->drift_ns =
			difference((uint64_t)clock->offset_ns, (uint64_t)clock->stretch_offset_ns);
	}
	clock->transfer_ns = reading->transfer_ns;
	clock->noted_ns = reading->time_ns;
	clock->noted++;
}

static void follow(struct rank_clock *clock, const struct reading *reading)
{
	int64_t centre;

	if (reading->low_ns > reading->high_ns) {
		clock->broken++;
		return;
	}
	if (clock->noted == 0) {
		begin_stretch(clock, reading);
	} else if (!narrow(clock, reading)) {
		begin_stretch(clock, reading);
		clock->steps++;
	}
	centre = median_centre(clock, reading->centre_ns);
	if (has_left_bounds(clock, centre)) {
		begin_stretch(clock, reading);
		clock->steps++;
		centre = median_centre(clock, reading->centre_ns);
	}
	settle_offset(clock, centre, reading);
}

static const char *refusal(const struct rank_clock *clock)
{
	if (clock->noted == 0)
		return clock->broken ? "its times contradict themselves"
				     : "no call shows when its inputs were seen";
	if (clock->broken > BROKEN_TOLERATED && clock->broken > clock->noted / 8)
		return "its times contradict themselves";
	return NULL;
}

void clocks_note_row(struct clocks *clocks, const struct call_row *row,
		     const struct row_facts *facts)
{
	struct reading reading;

	clocks->rows++;
	if (!clocks->followed && !facts->clocks_differ && clocks->rows % ROWS_BETWEEN_LOOKS != 1)
		return;
	if (!clocks->followed)
		look_for_contradictions(clocks, row);
	if (!clocks->followed || !is_usable(row->records[clocks->reference]))
		return;
	for (uint64_t left = clocks->followed & row->ranks; left;) {
		uint32_t rank = mask_pop(&left);
		struct rank_clock *clock = &clocks->ranks[rank];

		if (!is_usable(row->records[rank]))
			continue;
		read_clock(clocks, row, rank, &reading);
		follow(clock, &reading);
		if (is_off(clock) || refusal(clock))
			clocks->differ |= rank_bit(rank);
	}
}

void clocks_restart(struct clocks *clocks)
{
	for (uint32_t rank = 0; rank < clocks->nranks; rank++) {
		struct rank_clock *clock = &clocks->ranks[rank];
		int64_t offset_ns = clock->noted ? clock->stretch_offset_ns : 0;

		*clock = (struct rank_clock){.offset_ns = offset_ns};
	}
	clocks->rows = 0;
}

/* Using what was found ------------------------------------------------------------------------- */

static const struct call_record *aligned_copy(struct clocks *clocks, uint32_t rank,
					      const struct call_record *record)
{
	size_t stride = call_record_stride(clocks->nranks);
	struct call_record *copy = (struct call_record *)(void *)(clocks->copies + rank * stride);

	memcpy(copy, record, stride);
	copy->start_ns -= (uint64_t)clocks->ranks[rank].offset_ns;
	return copy;
}

void clocks_align_row(struct clocks *clocks, struct call_row *row)
{
	for (uint64_t left = clocks->differ & row->ranks; left;) {
		uint32_t rank = mask_pop(&left);

		if (refusal(&clocks->ranks[rank]))
			row->unaligned |= rank_bit(rank);
		else
			row->records[rank] = aligned_copy(clocks, rank, row->records[rank]);
	}
}

uint64_t clocks_align_time(const struct clocks *clocks, uint32_t rank, uint64_t time_ns)
{
	if (!(clocks->differ & rank_bit(rank)))
		return time_ns;
	return time_ns - (uint64_t)clocks->ranks[rank].offset_ns;
}

void clocks_report(const struct clocks *clocks, uint32_t rank, struct clock_report *ret_report)
{
	const struct rank_clock *clock = &clocks->ranks[rank];

	*ret_report = (struct clock_report){.refused = refusal(clock),
					    .offset_ns = clock->offset_ns,
					    .steps = clock->steps,
					    .bound_worst_ns = clock->bound_worst_ns};
	if (clock->noted)
		ret_report->bound_ns = clock->bound_sum_ns / clock->noted;
	if (clock->drift_over_ns)
		ret_report->drift_ppm =
			1e6 * (double)clock->drift_ns / (double)clock->drift_over_ns;
}
