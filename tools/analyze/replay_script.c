/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "tools/analyze/replay_script.h"

/* As in belay-bench's scripts. */
#define COUNT_MAX  (UINT64_C(1) << 32)
#define CALLS_MAX  (UINT64_C(1) << 24)
#define GAP_NS_MAX UINT64_C(1000000000000000)

#define PAUSE_NS_MAX UINT64_C(10000000000)

/* One communicator while it is read. Memory is the output's arena's. */
struct replay_writer {
	size_t script; /* index */
	FILE *file;
	uint64_t pass;	     /* open; 0: none */
	uint64_t next_seq;   /* 0: no call yet */
	uint64_t began_ns;   /* first start of all */
	uint64_t row_end_ns; /* of the call before, latest */
	uint64_t ended;	     /* mask: ranks whose last end is known */
	uint64_t end_ns[BELAY_RANKS_MAX];
	int over;
};

static struct replay_scripts *scripts_of(const struct output *output)
{
	return output->state;
}

static struct replay_script *script_of(const struct replay_scripts *scripts)
{
	return (struct replay_script *)scripts->scripts.items + scripts->writer->script;
}

static int comm_begin(struct output *output)
{
	struct replay_scripts *scripts = scripts_of(output);
	struct replay_writer *writer = arena_alloc(output->arena, sizeof(*writer));
	struct replay_script *script = vector_add(&scripts->scripts, sizeof(*script));
	char path[4096];

	if (!writer || !script)
		return BELAY_E_NO_MEMORY;
	writer->script = scripts->scripts.count - 1;
	scripts->writer = writer;
	(void)snprintf(script->id, sizeof(script->id), "%s", output->summary->id);
	(void)snprintf(path, sizeof(path), "%s/%s.script", scripts->folder, script->id);
	script->nranks = output->summary->nranks;
	script->path = arena_text(&scripts->arena, path);
	if (!script->path)
		return BELAY_E_NO_MEMORY;
	scripts->file = fopen(path, "we");
	if (!scripts->file) {
		scripts->failed_errno = errno;
		return BELAY_E_SYSTEM;
	}
	fprintf(scripts->file, "# communicator %s\nranks %" PRIu32 "\n", script->id,
		script->nranks);
	return 0;
}

/* Gaps ----------------------------------------------------------------------------------------- */

/* Zero where time went backwards, as over a step of the clock. */
static uint64_t gap_between(uint64_t from_ns, uint64_t to_ns)
{
	uint64_t gap_ns = (int64_t)(to_ns - from_ns) > 0 ? to_ns - from_ns : 0;

	return gap_ns < GAP_NS_MAX ? gap_ns : GAP_NS_MAX;
}

/* What every rank takes for staging, and will take again. */
static uint64_t least_staging(const struct call_row *row)
{
	uint64_t least = UINT32_MAX;

	for (uint64_t left = row->ranks; left;) {
		uint64_t staged_ns = row->records[mask_pop(&left)]->staged_ns;

		least = staged_ns < least ? staged_ns : least;
	}
	return least;
}

/* Of a rank with a record. The first call of all is counted from the first rank's start; after a
 * lost record the others' end stands in. */
static uint64_t recorded_gap(const struct replay_writer *writer, const struct call_record *record,
			     uint32_t rank, uint64_t staging_ns)
{
	uint64_t from_ns = writer->ended & rank_bit(rank) ? writer->end_ns[rank]
			   : writer->next_seq		  ? writer->row_end_ns
							  : writer->began_ns;

	return gap_between(from_ns, record_arrival(record) - staging_ns);
}

static uint64_t median_of(uint64_t *values, unsigned n)
{
	for (unsigned i = 1; i < n; i++) {
		uint64_t value = values[i];
		unsigned j = i;

		for (; j > 0 && values[j - 1] > value; j--)
			values[j] = values[j - 1];
		values[j] = value;
	}
	return values[n / 2];
}

/* Of a rank without one. */
static uint64_t made_gap(const struct replay_writer *writer, const struct row_facts *facts,
			 uint32_t rank, uint64_t median, uint64_t staging_ns)
{
	uint64_t from_ns = writer->next_seq ? writer->row_end_ns : writer->began_ns;

	if (facts->last_rank != (int)rank)
		return median;
	return gap_between(from_ns, facts->last_arrival_ns - staging_ns);
}

static void find_gaps(const struct replay_scripts *scripts, const struct call_row *row,
		      const struct row_facts *facts, uint64_t *ret_gaps)
{
	const struct replay_writer *writer = scripts->writer;
	uint64_t known[BELAY_RANKS_MAX], median, staging_ns = least_staging(row);
	unsigned n = 0;

	for (uint64_t left = row->ranks; left;) {
		uint32_t rank = mask_pop(&left);

		ret_gaps[rank] = recorded_gap(writer, row->records[rank], rank, staging_ns);
		known[n++] = ret_gaps[rank];
	}
	median = median_of(known, n);
	for (uint64_t left = mask_of(row->nranks) & ~row->ranks; left;) {
		uint32_t rank = mask_pop(&left);

		ret_gaps[rank] = made_gap(writer, facts, rank, median, staging_ns);
	}
}

/* What all ranks have too much of goes; what some have more than others stays. */
static void shorten_pause(struct replay_script *script, uint64_t *gaps, uint32_t nranks)
{
	uint64_t least = gaps[0];

	for (uint32_t rank = 1; rank < nranks; rank++)
		least = gaps[rank] < least ? gaps[rank] : least;
	if (least <= PAUSE_NS_MAX)
		return;
	script->pauses_shortened++;
	for (uint32_t rank = 0; rank < nranks; rank++)
		gaps[rank] -= least - PAUSE_NS_MAX;
}

static void note_ends(struct replay_writer *writer, const struct call_row *row,
		      const struct row_facts *facts)
{
	writer->ended = row->ranks;
	for (uint64_t left = row->ranks; left;) {
		uint32_t rank = mask_pop(&left);
		const struct call_record *record = row->records[rank];

		writer->end_ns[rank] = record->start_ns + record->duration_ns;
	}
	writer->row_end_ns = facts->end_ns;
	writer->next_seq = row->seq + 1;
}

/* Lines ---------------------------------------------------------------------------------------- */

static void write_marks(struct replay_scripts *scripts, uint64_t pass)
{
	struct replay_writer *writer = scripts->writer;

	if (writer->pass == pass)
		return;
	if (writer->pass)
		fputs("end\n", scripts->file);
	if (pass) {
		fputs("begin\n", scripts->file);
		script_of(scripts)->passes++;
	}
	writer->pass = pass;
}

static void write_call(const struct replay_scripts *scripts, const struct call_record *call,
		       const uint64_t *gaps, uint32_t nranks)
{
	FILE *file = scripts->file;
	int in_place = call->flags & CALL_IN_PLACE;
	int region = scripts->region_buffers && call->flags & CALL_REGION;

	fprintf(file, "%" PRIu64 " %s %s %s", call->count, belay_dtype_name(call->dtype),
		belay_op_name(call->op),
		in_place && region ? "ir"
		: in_place	   ? "i"
		: region	   ? "r"
				   : "-");
	if (scripts->at_full_speed) {
		fputs(" 0\n", file);
		return;
	}
	for (uint32_t rank = 0; rank < nranks; rank++)
		fprintf(file, "%c%" PRIu64, rank ? ',' : ' ', gaps[rank]);
	fputc('\n', file);
}

/* Why a call cannot be made; NULL: it can. */
static const char *refusal(const struct replay_script *script, const struct call_record *call)
{
	if (call->dtype < BELAY_F32 || call->dtype > BELAY_I8 || call->op < BELAY_SUM ||
	    call->op > BELAY_PROD)
		return "a dtype or op that this version does not know";
	if (call->count > COUNT_MAX)
		return "more elements than can be replayed";
	if (script->calls == CALLS_MAX)
		return "more calls than can be replayed";
	return NULL;
}

/* The others' lines are written already, and stay. */
static int is_end(struct replay_writer *writer, struct replay_script *script,
		  const struct call_row *row, const struct row_facts *facts)
{
	if (facts->status < 0) {
		script->failed_seq = row->seq;
		writer->over = 1;
	} else {
		script->refused = refusal(script, facts->any);
		script->refused_seq = script->refused ? row->seq : 0;
		writer->over = script->refused != NULL;
	}
	return writer->over;
}

static void count_mapped(struct replay_writer *writer, struct replay_script *script,
			 const struct call_row *row, const struct row_facts *facts)
{
	if (writer->next_seq)
		script->left_out += row->seq - writer->next_seq;
	script->gaps_made += (uint64_t)__builtin_popcountll(mask_of(row->nranks) & ~row->ranks);
	script->rescued += facts->stuck != 0;
	script->from_graphs += (facts->any->flags & CALL_GRAPH) != 0;
	if (facts->latency_ns > script->longest_ns)
		script->longest_ns = facts->latency_ns;
}

/* Of a watched call only the time is left, as if the ranks had computed. */
static int leaves_out(struct replay_writer *writer, struct replay_script *script,
		      const struct call_row *row, const struct row_facts *facts)
{
	if (facts->status < 0 || !(facts->any->flags & CALL_WATCHED))
		return 0;
	if (writer->next_seq) {
		script->left_out += row->seq - writer->next_seq;
		writer->next_seq = row->seq + 1;
	}
	script->watched++;
	return 1;
}

static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	struct replay_scripts *scripts = scripts_of(output);
	struct replay_writer *writer = scripts->writer;
	struct replay_script *script = script_of(scripts);
	uint64_t gaps[BELAY_RANKS_MAX];

	if (writer->over || leaves_out(writer, script, row, facts) ||
	    is_end(writer, script, row, facts))
		return 0;
	if (!writer->next_seq)
		writer->began_ns = facts->start_ns;
	count_mapped(writer, script, row, facts);
	write_marks(scripts, facts->any->pass);
	find_gaps(scripts, row, facts, gaps);
	shorten_pause(script, gaps, row->nranks);
	write_call(scripts, facts->any, gaps, row->nranks);
	script->calls++;
	note_ends(writer, row, facts);
	return 0;
}

static int comm_end(struct output *output)
{
	struct replay_scripts *scripts = scripts_of(output);
	int failed;

	write_marks(scripts, 0);
	failed = ferror(scripts->file);
	failed |= fclose(scripts->file);
	scripts->file = NULL;
	if (failed)
		scripts->failed_errno = errno ? errno : EIO;
	return failed ? BELAY_E_SYSTEM : 0;
}

/* A communicator that was broken off is of no use. */
static void close_script(struct output *output)
{
	struct replay_scripts *scripts = scripts_of(output);

	if (scripts->file)
		(void)fclose(scripts->file);
	scripts->file = NULL;
}

const struct command_ops replay_script_ops = {
	.name = "replay",
	.comm_begin = comm_begin,
	.row = take_row,
	.comm_end = comm_end,
	.close = close_script,
};

void replay_scripts_free(struct replay_scripts *scripts)
{
	vector_free(&scripts->scripts);
	arena_free(&scripts->arena);
}
