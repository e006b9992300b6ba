/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/report_data.h"

/* Fewer passes of a kind have no median worth comparing with. */
#define SLOW_NEEDS 5u

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
	known->late += next->late;
	known->rescued += next->rescued;
	known->failed += next->failed;
	for (size_t i = 0; i < REPORT_PASS_KINDS; i++) {
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

static uint64_t bytes_of(const struct call_record *record)
{
	return record->count * belay_dtype_bytes(record->dtype);
}

static struct report_group *group_of(struct report_data *data, uint8_t path, uint64_t bytes)
{
	struct report_group *group = data->groups;

	for (size_t i = 0; i < data->ngroups; i++, group++) {
		if (group->path == path && group->bytes == bytes)
			return group;
	}
	if (data->ngroups == REPORT_GROUPS) {
		path = 0;
		bytes = UINT64_MAX;
	} else {
		data->ngroups++;
	}
	group->path = path;
	group->bytes = bytes;
	return group;
}

static int note_latency(struct report_data *data, const struct row_facts *facts)
{
	struct report_group *group = group_of(data, facts->any->path, bytes_of(facts->any));

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
		.bytes = bytes_of(facts->any),
		.lateness_ns = facts->lateness_ns,
		.late = facts->late,
		.stuck = facts->stuck,
		.last_rank = facts->last_rank,
		.status = facts->status,
		.path = facts->any->path,
	};
}

static void keep_worst_pass(struct report_pass_kind *kind, const struct pass_facts *pass)
{
	uint64_t duration_ns = pass->end_ns - pass->start_ns;
	struct report_pass *worst = kind->worst;
	size_t i = kind->nworst;

	if (i == REPORT_WORST_PASSES && worst[i - 1].duration_ns >= duration_ns)
		return;
	if (i < REPORT_WORST_PASSES)
		kind->nworst++;
	else
		i--;
	for (; i > 0 && worst[i - 1].duration_ns < duration_ns; i--)
		worst[i] = worst[i - 1];
	worst[i] = (struct report_pass){
		.duration_ns = duration_ns,
		.pass = pass->pass,
		.first_seq = pass->first_seq,
		.last_seq = pass->last_seq,
		.start_ns = pass->start_ns,
		.time_ns = pass->time_ns,
		.wait_ns = pass->wait_ns,
		.waited_for = pass->waited_for,
		.late = pass->late_calls,
		.rescued = pass->rescued_calls,
		.failed = pass->failed_calls,
	};
}

/* Passes --------------------------------------------------------------------------------------- */

static unsigned log2_of(uint64_t value)
{
	return value ? 63u - (unsigned)__builtin_clzll(value) : 0;
}

/* NULL: no memory. */
static struct report_pass_kind *kind_of(struct report_data *data, const struct pass_facts *pass)
{
	struct report_pass_kind *kind = data->kinds;
	unsigned bytes_log2 = log2_of(pass->bytes);
	size_t i = 0;

	while (i < data->nkinds && i < REPORT_PASS_KINDS - 1 &&
	       (kind[i].calls != pass_calls(pass) || kind[i].bytes_log2 != bytes_log2))
		i++;
	if (i < data->nkinds)
		return &kind[i];
	kind[i].ns = arena_alloc(data->arena, sizeof(*kind[i].ns));
	if (!kind[i].ns)
		return NULL;
	kind[i].calls = pass_calls(pass);
	kind[i].bytes_log2 = bytes_log2;
	data->nkinds++;
	return &kind[i];
}

/* A pass of which a part is not in the data is shown, but compared with none. */
static int compare_pass(struct report_data *data, const struct pass_facts *pass,
			struct report_stretch *one)
{
	struct report_pass_kind *kind;

	if (!pass->whole)
		return 0;
	kind = kind_of(data, pass);
	if (!kind)
		return BELAY_E_NO_MEMORY;
	histogram_add(kind->ns, one->longest_ns);
	keep_worst_pass(kind, pass);
	one->peaks[kind - data->kinds] = (struct report_peak){one->longest_ns, pass->pass};
	return 0;
}

int report_data_note_pass(struct report_data *data, const struct pass_facts *pass)
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
		.late = pass->late_calls,
		.rescued = pass->rescued_calls,
		.failed = pass->failed_calls,
	};
	int status = compare_pass(data, pass, &one);

	if (status == 0)
		add_to_series(&data->passes, &one);
	return status;
}

uint64_t report_kind_slow_ns(const struct report_pass_kind *kind)
{
	uint64_t median;

	if (!kind->ns || kind->ns->count < SLOW_NEEDS)
		return UINT64_MAX;
	median = histogram_quantile(kind->ns, 0.50);
	return median + median / 2;
}

uint64_t report_data_slow_count(const struct report_data *data)
{
	uint64_t count = 0;

	for (size_t i = 0; i < data->nkinds; i++)
		count += histogram_count_above(data->kinds[i].ns,
					       report_kind_slow_ns(&data->kinds[i]));
	return count;
}

/* The worst of what is left of each kind's list; NULL: nothing slow is left. */
static const struct report_pass *next_slowest(const struct report_data *data,
					      size_t taken[REPORT_PASS_KINDS])
{
	const struct report_pass *best = NULL;
	double best_ratio = 0;
	size_t best_kind = 0;

	for (size_t i = 0; i < data->nkinds; i++) {
		const struct report_pass_kind *kind = &data->kinds[i];
		uint64_t slow_ns = report_kind_slow_ns(kind);
		const struct report_pass *pass = &kind->worst[taken[i]];

		if (taken[i] == kind->nworst || pass->duration_ns <= slow_ns ||
		    (double)pass->duration_ns / (double)slow_ns <= best_ratio)
			continue;
		best_ratio = (double)pass->duration_ns / (double)slow_ns;
		best = pass;
		best_kind = i;
	}
	if (best)
		taken[best_kind]++;
	return best;
}

size_t report_data_slowest(const struct report_data *data,
			   struct report_pass ret_passes[REPORT_WORST_PASSES])
{
	size_t taken[REPORT_PASS_KINDS] = {0};
	const struct report_pass *pass;
	size_t n = 0;

	while (n < REPORT_WORST_PASSES && (pass = next_slowest(data, taken)) != NULL)
		ret_passes[n++] = *pass;
	return n;
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
