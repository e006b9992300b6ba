/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/analyze/clocks.h"
#include "tools/analyze/driver.h"
#include "tools/analyze/interrupt.h"
#include "tools/analyze/merge.h"
#include "tools/analyze/pass_pause.h"

#define ROWS_BETWEEN_LOOKS 8192u
/* Calls looked at beforehand for clocks that differ. */
#define CLOCK_CALLS 256u

/* One communicator on its way through. */
struct run {
	struct inputs *inputs;
	const struct input_comm *comm;
	struct output *output;
	struct arena arena;
	struct record_part *parts;
	struct rank_stream *streams;
	struct merge merge;
	struct pass_rule rule;
	struct clocks clocks;
	struct summary summary;
};

static struct input_file *file_of(const struct run *run, size_t i)
{
	return ((struct input_file **)run->inputs->files.items)[run->comm->first + i];
}

/* What is told on the way -------------------------------------------------------------------- */

/* Of whole calls: ranks and durations are not the driver's. Zeros belong to no call or pass. */
static int is_wanted(const struct output *output, uint64_t seq, uint64_t pass)
{
	const struct call_filter *filter = &output->filter;

	return !output->filtered ||
	       ((!seq || (seq >= filter->seq_first && seq <= filter->seq_last)) &&
		(!filter->pass || pass == filter->pass));
}

static int on_event(void *user, uint32_t rank, const struct event_record *event)
{
	struct run *run = user;
	struct event_record aligned = *event;
	int status;

	if (!is_wanted(run->output, event->seq, event->pass))
		return 0;
	aligned.time_ns = clocks_align_time(&run->clocks, rank, event->time_ns);
	status = summary_note_event(&run->summary, rank, &aligned);
	if (status == 0 && run->output->ops->event)
		status = run->output->ops->event(run->output, rank, &aligned);
	return status;
}

static int on_late(void *user, const struct late_call *call)
{
	struct run *run = user;

	return run->output->ops->late(run->output, call);
}

static int on_pass(void *user, const struct pass_facts *pass)
{
	struct run *run = user;

	return run->output->ops->pass(run->output, pass);
}

/* Of all that was given, so that it grows from one communicator to the next. */
static void show_progress(const struct run *run)
{
	uint64_t done = 0, all = 0;

	/* Rows that run over the screen are progress enough. */
	if (run->output->rows && isatty(fileno(run->output->file)))
		return;
	for (size_t i = 0; i < run->inputs->files.count; i++) {
		const struct input_file *file = ((struct input_file **)run->inputs->files.items)[i];

		done += file->done_bytes;
		all += file->all_bytes;
	}
	progress_bytes(run->inputs->progress, run->output->ops->name, done, all);
}

/* Setting up ----------------------------------------------------------------------------------- */

/* One stream for each rank that has a file. Files are sorted by rank already. */
static int make_streams(struct run *run)
{
	size_t n = run->comm->count;
	struct rank_stream *stream = NULL;

	run->parts = arena_alloc(&run->arena, n * sizeof(*run->parts));
	run->streams = arena_alloc(&run->arena, run->comm->nranks * sizeof(*run->streams));
	if (!run->parts || !run->streams)
		return BELAY_E_NO_MEMORY;
	run->merge = (struct merge){.nranks = run->comm->nranks, .streams = run->streams};
	for (size_t i = 0; i < n; i++) {
		struct input_file *file = file_of(run, i);

		run->parts[i] = (struct record_part){
			.ops = &input_file_ops, .self = file, .first_seq = file->first_seq};
		if (!stream || stream->rank != file->rank) {
			stream = &run->streams[run->merge.nstreams++];
			stream->rank = file->rank;
			stream->parts = &run->parts[i];
			stream->event_user = run;
		}
		stream->nparts++;
	}
	return 0;
}

static uint64_t present_ranks(const struct run *run)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < run->merge.nstreams; i++)
		mask |= rank_bit(run->streams[i].rank);
	return mask;
}

/* 0: it holds no call. */
static uint64_t first_seq_of(const struct rank_stream *stream)
{
	uint64_t first = 0;

	for (size_t i = 0; i < stream->nparts; i++) {
		uint64_t seq = stream->parts[i].first_seq;

		if (seq && (!first || seq < first))
			first = seq;
	}
	return first;
}

/* The rank whose calls go back farthest: all ranks make the same. NULL: there are no calls. */
static struct rank_stream *widest_stream(const struct run *run)
{
	struct rank_stream *widest = NULL;
	uint64_t first = UINT64_MAX;

	for (size_t i = 0; i < run->merge.nstreams; i++) {
		uint64_t seq = first_seq_of(&run->streams[i]);

		if (seq && seq < first) {
			first = seq;
			widest = &run->streams[i];
		}
	}
	return widest;
}

/* Goes through one rank's calls, by their sizes or by their pauses too. The first mark ends it. */
static int follow_calls(struct rank_stream *stream, struct period_follower *follower,
			struct pass_pauses *pauses)
{
	int status = rank_stream_start(stream);

	while (status == 0 && stream->head && !stream->head->pass) {
		const struct call_record *record = stream->head;

		if (pauses->long_ns) {
			period_follow_call(follower, record->seq,
					   pass_pause_signature(pauses, record));
		} else {
			pass_pause_note(pauses, record);
			period_follow_call(follower, record->seq, pass_signature(record));
		}
		if (follower->calls % ROWS_BETWEEN_LOOKS == 0 && interrupt_requested())
			return BELAY_E_ABORTED;
		status = rank_stream_advance(stream);
	}
	if (status == 0 && !stream->head)
		period_follow_finish(follower);
	return status;
}

/* Calls that are all alike may still come in passes with a pause before each. */
static int look_for_pauses(struct run *run, struct rank_stream *stream,
			   struct period_follower *follower, struct pass_pauses *pauses)
{
	struct pass_rule rule;
	int status;

	period_follow_restart(follower, PASS_PAUSE_BIT);
	status = follow_calls(stream, follower, pauses);
	if (status != 0)
		return status;
	pass_rule_from(follower, &rule);
	if (rule.by != PASS_BY_PERIOD || rule.kind != PERIOD_SIZES)
		return 0;
	rule.kind = PERIOD_PAUSES;
	run->rule = rule;
	return 0;
}

static int look_for_period(struct run *run, struct rank_stream *stream)
{
	struct period_follower follower;
	struct pass_pauses pauses = {0};
	int status;

	pauses.ns = arena_alloc(&run->arena, sizeof(*pauses.ns));
	if (!pauses.ns)
		return BELAY_E_NO_MEMORY;
	status = period_follow_init(&follower, &run->arena);
	if (status == 0)
		status = follow_calls(stream, &follower, &pauses);
	if (status != 0)
		return status;
	if (stream->head) {
		run->rule.by = PASS_BY_MARKS;
		return 0;
	}
	pass_rule_from(&follower, &run->rule);
	if (run->rule.by == PASS_BY_NOTHING && pass_pause_judge(&pauses))
		status = look_for_pauses(run, stream, &follower, &pauses);
	return status;
}

/* Without calls, or where the first has a mark, there is nothing to look for. */
static int needs_search(struct run *run, struct rank_stream *stream, int *ret_needs)
{
	int status = rank_stream_start(stream);

	*ret_needs = status == 0 && stream->head && !stream->head->pass;
	if (status == 0 && stream->head && stream->head->pass)
		run->rule.by = PASS_BY_MARKS;
	return status;
}

static int find_rule(struct run *run)
{
	struct rank_stream *stream = widest_stream(run);
	int status, needs;

	if (!stream)
		return 0;
	status = needs_search(run, stream, &needs);
	if (status == 0 && needs)
		status = look_for_period(run, stream);
	rank_stream_stop(stream);
	return status;
}

/* So that the first calls and events are on one clock as well. */
static int look_at_clocks(struct run *run)
{
	struct row_facts facts;
	struct call_row row;
	int status = clocks_init(&run->clocks, run->comm->nranks, present_ranks(run), &run->arena);

	if (status == 0)
		status = merge_start(&run->merge);
	for (size_t n = 0; status == 0 && n < CLOCK_CALLS; n++) {
		status = merge_next(&run->merge, &row);
		if (status != 0 || !row.ranks)
			break;
		row_examine(&row, &facts);
		clocks_note_row(&run->clocks, &row, &facts);
	}
	merge_stop(&run->merge);
	clocks_restart(&run->clocks);
	return status;
}

/* The run itself ------------------------------------------------------------------------------- */

static int take_row(struct run *run, struct call_row *row)
{
	struct row_facts facts;
	int status;

	row->pass = pass_rule_apply(&run->rule, row);
	if (!is_wanted(run->output, row->seq, row->pass))
		return interrupt_requested() ? BELAY_E_ABORTED : 0;
	row_examine(row, &facts);
	clocks_note_row(&run->clocks, row, &facts);
	if (run->clocks.differ) {
		clocks_align_row(&run->clocks, row);
		row_examine(row, &facts);
	}
	if (!run->output->has_base) {
		run->output->base_ns = facts.start_ns;
		run->output->has_base = 1;
	}
	status = summary_note_row(&run->summary, row, &facts);
	if (status == 0 && run->output->ops->row)
		status = run->output->ops->row(run->output, row, &facts);
	if (run->summary.calls % ROWS_BETWEEN_LOOKS == 0) {
		show_progress(run);
		if (status == 0 && ferror(run->output->file))
			status = BELAY_E_SYSTEM; /* the rest could not be written either */
	}
	return status == 0 && interrupt_requested() ? BELAY_E_ABORTED : status;
}

static int take_rows(struct run *run)
{
	struct call_row row;
	int status = merge_start(&run->merge);

	while (status == 0) {
		status = merge_next(&run->merge, &row);
		if (status != 0 || !row.ranks)
			break;
		status = take_row(run, &row);
	}
	return status;
}

/* What the rank's files say about themselves. */
static void describe_files(const struct run *run, uint32_t rank, struct summary_rank *about,
			   uint64_t *ret_counted)
{
	uint32_t newest = 0;

	*ret_counted = 0;
	for (size_t i = 0; i < run->comm->count; i++) {
		const struct input_file *file = file_of(run, i);

		if (file->rank != rank)
			continue;
		*ret_counted += file->writer_lost;
		if (file->damage_lost > 0)
			*ret_counted += (uint64_t)file->damage_lost;
		if (file->salvaged_by >= 0) {
			about->saved_by = file->salvaged_by;
		} else if (file->number >= newest) {
			newest = file->number;
			about->open_ended = !file->closed;
		}
	}
	if (about->saved_by >= 0)
		about->open_ended = 0;
}

/* Holes in the seqs and what the writer or the reader counted are two views of one loss: the
 * larger one holds. */
static void count_losses(struct run *run)
{
	for (size_t i = 0; i < run->merge.nstreams; i++) {
		const struct rank_stream *stream = &run->streams[i];
		struct summary_rank *about = &run->summary.ranks[stream->rank];
		uint64_t counted;

		*about = (struct summary_rank){.present = 1,
					       .records = stream->records,
					       .first_seq = stream->first_seq,
					       .last_seq = stream->last_seq,
					       .saved_by = -1};
		describe_files(run, stream->rank, about, &counted);
		about->lost = stream->holes > counted ? stream->holes : counted;
		run->summary.lost_records += about->lost;
	}
}

static int begin_run(struct run *run)
{
	const struct command_ops *ops = run->output->ops;
	int status = make_streams(run);

	if (status == 0)
		status = find_rule(run);
	if (status == 0)
		status = look_at_clocks(run);
	if (status == 0)
		status = summary_init(&run->summary, run->comm->id, run->comm->nranks,
				      present_ranks(run), &run->rule, &run->arena);
	if (status != 0)
		return status;
	run->summary.late.found = ops->late ? on_late : NULL;
	run->summary.late.user = run;
	run->summary.pass_ended = ops->pass ? on_pass : NULL;
	run->summary.pass_user = run;
	for (size_t i = 0; i < run->merge.nstreams; i++)
		run->streams[i].on_event = on_event;
	run->output->summary = &run->summary;
	run->output->clocks = &run->clocks;
	run->output->arena = &run->arena;
	run->output->has_base = 0;
	run->output->base_ns = 0;
	run->output->rows = 0;
	return ops->comm_begin ? ops->comm_begin(run->output) : 0;
}

static int run_comm(struct inputs *inputs, const struct input_comm *comm, struct output *output,
		    struct findings *findings)
{
	struct run run = {.inputs = inputs, .comm = comm, .output = output};
	int status = begin_run(&run);

	if (status == 0)
		status = take_rows(&run);
	if (status == 0)
		status = summary_finish(&run.summary);
	progress_clear(inputs->progress);
	if (status == 0) {
		count_losses(&run);
		findings->failures |= summary_has_findings(&run.summary);
		findings->losses |= summary_has_losses(&run.summary);
		if (output->ops->comm_end)
			status = output->ops->comm_end(output);
		output->comms_done++;
	}
	merge_stop(&run.merge);
	summary_free(&run.summary);
	arena_free(&run.arena);
	return status;
}

static int run_all(struct inputs *inputs, struct output *output, struct findings *ret_findings)
{
	const struct input_comm *comms = inputs->comms.items;
	struct findings findings = {0};
	int status = 0;

	progress_begin(inputs->progress);
	for (size_t i = 0; status == 0 && i < inputs->comms.count; i++)
		status = run_comm(inputs, &comms[i], output, &findings);
	if (status == 0)
		status = inputs_collect_damage(inputs);
	if (status != 0)
		return status;
	findings.losses |= inputs->damages.count != 0;
	if (output->ops->end)
		output->ops->end(output, inputs);
	*ret_findings = findings;
	return 0;
}

int driver_run(struct inputs *inputs, struct output *output, struct findings *ret_findings)
{
	int status;

	output->comms = inputs->comms.count;
	if (output->ops->begin)
		output->ops->begin(output);
	status = run_all(inputs, output, ret_findings);
	if (output->ops->close)
		output->ops->close(output);
	return status;
}

/* A text must say so at once when an input is missing; the JSON document says it at its end as
 * well. */
static void tell_missing(const struct inputs *inputs, size_t from)
{
	const struct input_damage *damages = inputs->damages.items;

	for (size_t i = from; i < inputs->damages.count; i++)
		command_error("cannot read '%s': %s", damages[i].file, damages[i].reason);
}

int driver_read(struct inputs *inputs, char *const *operands, int noperands)
{
	int status = 0;

	for (int i = 0; status == 0 && i < noperands; i++) {
		size_t known = inputs->damages.count, found = 0;

		status = inputs_add(inputs, operands[i], &found);
		if (status == 0 && found == 0)
			tell_missing(inputs, known);
	}
	return status == 0 ? inputs_sort(inputs) : status;
}
