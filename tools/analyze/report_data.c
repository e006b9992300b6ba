/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/report_data.h"

/* Series --------------------------------------------------------------------------------------- */

static void join_stretches(struct report_stretch *known, const struct report_stretch *next)
{
	known->last = next->last;
	if (next->last_ns > known->last_ns)
		known->last_ns = next->last_ns;
	if (next->shortest_ns < known->shortest_ns)
		known->shortest_ns = next->shortest_ns;
	if (next->longest_ns > known->longest_ns)
		known->longest_ns = next->longest_ns;
	known->count += next->count;
	known->sum_ns += next->sum_ns;
	known->wait_ns += next->wait_ns;
	known->transfer_ns += next->transfer_ns;
	if (known->waited_for != next->waited_for)
		known->waited_for = -1;
	known->late += next->late;
	known->rescued += next->rescued;
	known->failed += next->failed;
	for (size_t i = 0; i < PASS_TIMES_KINDS; i++) {
		if (next->peaks[i].ns > known->peaks[i].ns)
			known->peaks[i] = next->peaks[i];
	}
}

/* Halves the number of columns. All are full. */
static void fold_series(struct report_series *series)
{
	for (size_t i = 0; i < REPORT_COLUMNS / 2; i++) {
		struct report_stretch folded = series->columns[2 * i];

		join_stretches(&folded, &series->columns[2 * i + 1]);
		series->columns[i] = folded;
	}
	series->count = REPORT_COLUMNS / 2;
	series->width *= 2;
}

static void add_to_series(struct report_series *series, const struct report_stretch *one)
{
	struct report_stretch *next = &series->columns[series->count];

	if (series->count && next[-1].count < series->width) {
		join_stretches(&next[-1], one);
		return;
	}
	if (series->count == REPORT_COLUMNS)
		fold_series(series);
	series->columns[series->count++] = *one;
}

static void note_call(struct report_series *series, const struct call_row *row,
		      const struct row_facts *facts)
{
	struct report_stretch one = {
		.first = row->seq,
		.last = row->seq,
		.first_ns = facts->start_ns,
		.last_ns = facts->end_ns,
		.count = 1,
		.shortest_ns = facts->latency_ns,
		.longest_ns = facts->latency_ns,
		.sum_ns = facts->latency_ns,
		.wait_ns = facts->wait_ns,
		.transfer_ns =
			facts->time_ns > facts->wait_ns ? facts->time_ns - facts->wait_ns : 0,
		.waited_for = facts->last_rank,
		.late = facts->late != 0,
		.rescued = facts->stuck != 0,
		.failed = facts->status < 0,
		.peaks = {{facts->latency_ns, row->seq}},
	};

	add_to_series(series, &one);
}

/* Arrivals ------------------------------------------------------------------------------------- */

static void fold_arrivals(struct report_arrivals *arrivals)
{
	size_t n = arrivals->nranks;

	for (size_t i = 0; i < REPORT_COLUMNS / 2; i++) {
		size_t left = 2 * i, right = 2 * i + 1;

		arrivals->columns[i] = arrivals->columns[left];
		arrivals->columns[i].last_seq = arrivals->columns[right].last_seq;
		arrivals->columns[i].last_pass = arrivals->columns[right].last_pass;
		arrivals->columns[i].calls += arrivals->columns[right].calls;
		for (size_t rank = 0; rank < n; rank++) {
			uint64_t a = arrivals->worst_ns[left * n + rank];
			uint64_t b = arrivals->worst_ns[right * n + rank];

			arrivals->worst_ns[i * n + rank] = a > b ? a : b;
			arrivals->sum_ns[i * n + rank] = arrivals->sum_ns[left * n + rank] +
							 arrivals->sum_ns[right * n + rank];
		}
	}
	arrivals->count = REPORT_COLUMNS / 2;
	arrivals->width *= 2;
}

/* The column for the next call. */
static size_t arrivals_column(struct report_arrivals *arrivals, const struct call_row *row)
{
	size_t n = arrivals->nranks;

	if (arrivals->count && arrivals->columns[arrivals->count - 1].calls < arrivals->width)
		return arrivals->count - 1;
	if (arrivals->count == REPORT_COLUMNS)
		fold_arrivals(arrivals);
	memset(&arrivals->columns[arrivals->count], 0, sizeof(arrivals->columns[0]));
	memset(&arrivals->sum_ns[arrivals->count * n], 0, n * sizeof(arrivals->sum_ns[0]));
	memset(&arrivals->worst_ns[arrivals->count * n], 0, n * sizeof(arrivals->worst_ns[0]));
	arrivals->columns[arrivals->count].first_seq = row->seq;
	arrivals->columns[arrivals->count].first_pass = row->pass;
	return arrivals->count++;
}

static void note_arrival(struct report_arrivals *arrivals, size_t column, uint32_t rank,
			 uint64_t behind_ns)
{
	size_t cell = column * arrivals->nranks + rank;

	arrivals->sum_ns[cell] += behind_ns;
	if (behind_ns > arrivals->worst_ns[cell])
		arrivals->worst_ns[cell] = behind_ns;
}

/* Behind what the call's lateness is counted from: the median arrival of those that were not
 * last. Calls that do not tell who was last tell nothing here either. */
static void note_arrivals(struct report_arrivals *arrivals, const struct call_row *row,
			  const struct row_facts *facts)
{
	uint64_t median_ns = facts->last_arrival_ns - facts->lateness_ns;
	uint64_t others = row->ranks & ~row->unaligned;
	size_t column;

	if (facts->last_rank < 0)
		return;
	column = arrivals_column(arrivals, row);
	arrivals->columns[column].last_seq = row->seq;
	arrivals->columns[column].last_pass = row->pass;
	arrivals->columns[column].calls++;
	/* The last one need not have a record: the others saw it come. */
	note_arrival(arrivals, column, (uint32_t)facts->last_rank, facts->lateness_ns);
	others &= ~rank_bit((uint32_t)facts->last_rank);
	while (others) {
		uint32_t rank = mask_pop(&others);
		uint64_t arrival_ns = record_arrival(row->records[rank]);

		if (arrival_ns > median_ns)
			note_arrival(arrivals, column, rank, arrival_ns - median_ns);
	}
}

/* Sizes and paths ------------------------------------------------------------------------------ */

static struct report_group *group_of(struct report_data *data, const struct call_record *record)
{
	struct report_group *group = data->groups;
	struct report_group one = {.path = record->path,
				   .collective = record_collective(record),
				   .bytes = record_bytes(record)};

	for (size_t i = 0; i < data->ngroups; i++, group++) {
		if (group->path == one.path && group->bytes == one.bytes &&
		    group->collective == one.collective)
			return group;
	}
	if (data->ngroups == REPORT_GROUPS)
		one = (struct report_group){.bytes = UINT64_MAX};
	else
		data->ngroups++;
	one.latency = group->latency;
	*group = one;
	return group;
}

static int note_latency(struct report_data *data, const struct row_facts *facts)
{
	struct report_group *group = group_of(data, facts->any);

	if (!group->latency)
		group->latency = arena_alloc(data->arena, sizeof(*group->latency));
	if (!group->latency)
		return BELAY_E_NO_MEMORY;
	histogram_add(group->latency, facts->latency_ns);
	return 0;
}

/* The worst ------------------------------------------------------------------------------------ */

static void keep_worst_call(struct report_data *data, const struct call_row *row,
			    const struct row_facts *facts)
{
	struct report_call *worst = data->worst_calls;
	size_t i = data->nworst_calls;

	if (i == REPORT_WORST_CALLS && worst[i - 1].latency_ns >= facts->latency_ns)
		return;
	if (i < REPORT_WORST_CALLS)
		data->nworst_calls++;
	else
		i--;
	for (; i > 0 && worst[i - 1].latency_ns < facts->latency_ns; i--)
		worst[i] = worst[i - 1];
	worst[i] = (struct report_call){
		.latency_ns = facts->latency_ns,
		.seq = row->seq,
		.pass = row->pass,
		.index = pass_rule_index(data->rule, row),
		.start_ns = facts->start_ns,
		.bytes = record_bytes(facts->any),
		.lateness_ns = facts->lateness_ns,
		.late = facts->late,
		.stuck = facts->stuck,
		.last_rank = facts->last_rank,
		.status = facts->status,
		.path = facts->any->path,
		.collective = record_collective(facts->any),
	};
}

/* Passes --------------------------------------------------------------------------------------- */

void report_data_note_pass(struct report_data *data, const struct pass_facts *pass, size_t kind)
{
	uint64_t duration_ns = pass->end_ns - pass->start_ns;
	struct report_stretch one = {
		.first = pass->pass,
		.last = pass->pass,
		.first_ns = pass->start_ns,
		.last_ns = pass->end_ns,
		.count = 1,
		.shortest_ns = duration_ns,
		.longest_ns = duration_ns,
		.sum_ns = duration_ns,
		.wait_ns = pass->wait_ns,
		.transfer_ns = pass->time_ns > pass->wait_ns ? pass->time_ns - pass->wait_ns : 0,
		.waited_for = pass->waited_for,
		.late = pass->late_calls,
		.rescued = pass->rescued_calls,
		.failed = pass->failed_calls,
	};

	/* A pass of which a part is not in the data is shown, but compared with none. */
	if (kind < PASS_TIMES_KINDS)
		one.peaks[kind] = (struct report_peak){duration_ns, pass->pass};
	add_to_series(&data->passes, &one);
}

/* Faults --------------------------------------------------------------------------------------- */

static void begin_faults(struct report_faults *faults, uint64_t time_ns)
{
	if (faults->begun)
		return;
	faults->begun = 1;
	faults->origin_ns = time_ns;
}

static void fold_faults(struct report_faults *faults)
{
	for (size_t kind = 0; kind < REPORT_FAULT_KINDS; kind++) {
		uint32_t *columns = faults->columns[kind];

		for (size_t i = 0; i < REPORT_COLUMNS / 2; i++)
			columns[i] = columns[2 * i] + columns[2 * i + 1];
		memset(&columns[REPORT_COLUMNS / 2], 0, sizeof(*columns) * REPORT_COLUMNS / 2);
	}
	faults->shift++;
}

/* Things before the first call stand in the first column. */
static size_t faults_column(struct report_faults *faults, uint64_t time_ns)
{
	uint64_t since_ns = time_ns > faults->origin_ns ? time_ns - faults->origin_ns : 0;

	while (since_ns >> faults->shift >= REPORT_COLUMNS)
		fold_faults(faults);
	return (size_t)(since_ns >> faults->shift);
}

void report_data_note_fault(struct report_data *data, const struct timeline_item *item)
{
	struct report_faults *faults = &data->faults;

	begin_faults(faults, item->time_ns);
	if (faults->counts[item->kind]++ < REPORT_FAULTS_KEPT)
		faults->kept[faults->nkept++] = *item;
	faults->columns[item->kind][faults_column(faults, item->time_ns)]++;
}

/* All ------------------------------------------------------------------------------------------ */

int report_data_init(struct report_data *data, uint32_t nranks, const struct pass_rule *rule,
		     struct arena *arena)
{
	size_t cells = (size_t)REPORT_COLUMNS * nranks;

	*data = (struct report_data){.arena = arena, .rule = rule};
	data->passes.width = data->calls.width = data->arrivals.width = 1;
	data->arrivals.nranks = nranks;
	data->arrivals.sum_ns = arena_alloc(arena, cells * sizeof(*data->arrivals.sum_ns));
	data->arrivals.worst_ns = arena_alloc(arena, cells * sizeof(*data->arrivals.worst_ns));
	data->faults.kept = arena_alloc(arena, (size_t)REPORT_FAULT_KINDS * REPORT_FAULTS_KEPT *
						       sizeof(*data->faults.kept));
	if (!data->arrivals.sum_ns || !data->arrivals.worst_ns || !data->faults.kept)
		return BELAY_E_NO_MEMORY;
	return 0;
}

int report_data_note_row(struct report_data *data, const struct call_row *row,
			 const struct row_facts *facts)
{
	begin_faults(&data->faults, facts->start_ns);
	note_call(&data->calls, row, facts);
	note_arrivals(&data->arrivals, row, facts);
	keep_worst_call(data, row, facts);
	return note_latency(data, facts);
}
