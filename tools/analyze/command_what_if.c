/* SPDX-License-Identifier: Apache-2.0 */
/* `what-if`: what other ranks, paths or deadlines would have changed. */
#include <inttypes.h>

#include "tools/analyze/print_json.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

static int begin(struct output *output)
{
	output->state = arena_alloc(output->arena, sizeof(struct what_if));
	if (!output->state)
		return BELAY_E_NO_MEMORY;
	return what_if_init(output->state, &output->question, output->arena);
}

static int take_event(struct output *output, uint32_t rank, const struct event_record *event)
{
	(void)rank;
	what_if_note_event(output->state, event);
	return 0;
}

static int take_row(struct output *output, const struct call_row *row,
		    const struct row_facts *facts)
{
	what_if_note_row(output->state, row, facts);
	return 0;
}

static int take_pass(struct output *output, const struct pass_facts *pass)
{
	what_if_note_pass(output->state, pass);
	return 0;
}

/* Text ----------------------------------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t all)
{
	return all ? 100.0 * (double)part / (double)all : 0.0;
}

/* "1.50 ms sooner". */
static void print_sooner(FILE *file, int64_t ns)
{
	char time[WORDS_TIME_BYTES];

	fprintf(file, "%s %s", words_time(ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns, time),
		ns < 0 ? "later" : "sooner");
}

static void print_then_last(const struct output *output)
{
	const struct what_if *what_if = output->state;
	uint32_t rank = 0;

	for (uint32_t i = 1; i < output->summary->nranks; i++) {
		if (what_if->then_last[i] > what_if->then_last[rank])
			rank = i;
	}
	fprintf(output->file, "  then last: rank %" PRIu32 " most often, in %.0f %% of the calls\n",
		rank, percent(what_if->then_last[rank], what_if->compared));
}

static void print_on_time(const struct output *output)
{
	const struct what_if *what_if = output->state;
	char ranks[WORDS_RANKS_BYTES], time[WORDS_TIME_BYTES];

	text_bold(output);
	fprintf(output->file, "rank %s on time\n", words_ranks(output->question.on_time, ranks));
	text_plain(output);
	if (output->question.on_time & ~mask_of(output->summary->nranks))
		fprintf(output->file, "  the communicator has no rank %s\n",
			words_ranks(output->question.on_time & ~mask_of(output->summary->nranks),
				    ranks));
	fprintf(output->file,
		"  was last in %" PRIu64 " of %" PRIu64 " calls (%.0f %%); without it %s less of "
		"waiting\n",
		what_if->was_last, what_if->compared, percent(what_if->was_last, what_if->compared),
		words_time(what_if->wait_saved_ns, time));
	if (what_if->compared)
		print_then_last(output);
}

static void print_path(const struct output *output)
{
	const struct what_if *what_if = output->state;
	const struct what_if_question *question = &output->question;
	char transfer[WORDS_TIME_BYTES], table[WORDS_TIME_BYTES];

	text_bold(output);
	fprintf(output->file, "path %s\n",
		question->path ? belay_path_name(question->path) : "that costs least");
	text_plain(output);
	fprintf(output->file,
		"  from the last arrival to the end %s in %" PRIu64 " calls; by the table %s\n",
		words_time(what_if->transfer_ns, transfer), what_if->replaced,
		words_time(what_if->table_ns, table));
	if (what_if->outside)
		fprintf(output->file,
			"  %" PRIu64
			" calls are of sizes that the table does not cover: as recorded\n",
			what_if->outside);
	if (what_if->watched)
		fprintf(output->file,
			"  %" PRIu64 " calls that the program made on NCCL itself: as recorded\n",
			what_if->watched);
	if (question->costs->ranks && question->costs->ranks != output->summary->nranks)
		fprintf(output->file, "  the table was measured with %" PRIu32 " ranks\n",
			question->costs->ranks);
}

static void print_pass_line(FILE *file, const char *name, const struct histogram *passes)
{
	fprintf(file, "  %-10s %12.1f %12.1f %12.1f\n", name,
		(double)histogram_quantile(passes, 0.50) / 1e3,
		(double)histogram_quantile(passes, 0.99) / 1e3, (double)passes->largest / 1e3);
}

static void print_passes(const struct output *output)
{
	const struct what_if *what_if = output->state;

	if (what_if->recorded->count == 0) {
		fputs("no passes\n", output->file);
	} else {
		text_bold(output);
		fprintf(output->file, "  %-10s %12s %12s %12s\n", "passes, us", "p50", "p99",
			"max");
		text_plain(output);
		print_pass_line(output->file, "recorded", what_if->recorded);
		print_pass_line(output->file, "what if", what_if->changed);
	}
	if (what_if->silent)
		fprintf(output->file,
			"  %" PRIu64 " calls do not show who was last, were rescued or failed: as "
			"recorded\n",
			what_if->silent);
}

/* Who would have been blamed wrongly, the most often first; at most three. */
static void print_blamed(const struct output *output, const struct what_if_alarms *alarms)
{
	uint64_t named = 0;

	for (int n = 0; n < 3; n++) {
		int worst = -1;

		for (uint32_t i = 0; i < output->summary->nranks; i++) {
			if (alarms->by_rank[i] && !(named & rank_bit(i)) &&
			    (worst < 0 || alarms->by_rank[i] > alarms->by_rank[worst]))
				worst = (int)i;
		}
		if (worst < 0)
			break;
		named |= rank_bit((uint32_t)worst);
		fprintf(output->file, "%s rank %d in %" PRIu64, n ? "," : ":", worst,
			alarms->by_rank[worst]);
	}
	fputc('\n', output->file);
}

static void print_late(const struct output *output)
{
	const struct what_if *what_if = output->state;
	char time[WORDS_TIME_BYTES];
	int64_t sooner;

	text_bold(output);
	fprintf(output->file, "soft deadline %s\n", words_time(output->question.late_ns, time));
	text_plain(output);
	fprintf(output->file,
		"  calls in which a rank would have been told late: %" PRIu64 "; recorded: %" PRIu64
		"\n",
		what_if->late.calls, what_if->recorded_alarms);
	fprintf(output->file, "  false alarms, calls that ended well by themselves: %" PRIu64,
		what_if->late.false_calls);
	print_blamed(output, &what_if->late);
	if (what_if_rescue_sooner(what_if, output->summary, &sooner) == 0) {
		fprintf(output->file, "  rescues (%" PRIu64 ") would have begun ",
			output->summary->rescue_count);
		print_sooner(output->file, sooner);
		fprintf(output->file, "; the recorded deadline is %s at most\n",
			words_time(what_if->recorded_late_ns, time));
	} else if (output->summary->rescue_count) {
		fputs("  the recording does not show its own soft deadline\n", output->file);
	}
}

static void print_give_up(const struct output *output)
{
	const struct what_if *what_if = output->state;
	const struct summary_verdict *verdict = &output->summary->verdict;
	char time[WORDS_TIME_BYTES], place[WORDS_PLACE_BYTES];
	int64_t sooner;

	text_bold(output);
	fprintf(output->file, "hard deadline %s\n", words_time(output->question.give_up_ns, time));
	text_plain(output);
	fprintf(output->file, "  false verdicts, calls that ended well: %" PRIu64,
		what_if->give_up.false_calls);
	print_blamed(output, &what_if->give_up);
	if (what_if->give_up.first_seq)
		fprintf(output->file,
			"  the first would have ended the communicator at %s, and blamed rank %d\n",
			words_place(what_if->give_up.first_seq, what_if->give_up.first_pass, place),
			what_if->give_up.first_rank);
	if (!verdict->stands) {
		fputs("  no verdict stands that it could have told sooner\n", output->file);
		return;
	}
	fprintf(output->file, "  the verdict of %s, %s, ",
		words_place(verdict->seq, verdict->pass, place),
		belay_cause_name((enum belay_cause)verdict->cause));
	if (what_if_verdict_sooner(what_if, output->summary, &sooner) == 0) {
		fputs("would have come ", output->file);
		print_sooner(output->file, sooner);
		fputc('\n', output->file);
	} else {
		fputs("waited for no deadline\n", output->file);
	}
}

static int end_text(struct output *output)
{
	const struct what_if_question *question = &output->question;

	text_heading(output);
	if (question->on_time)
		print_on_time(output);
	if (question->costs)
		print_path(output);
	if (question->on_time || question->costs)
		print_passes(output);
	if (question->late_ns)
		print_late(output);
	if (question->give_up_ns)
		print_give_up(output);
	text_clocks(output, "");
	return 0;
}

const struct command_ops command_what_if_text = {
	.name = "what-if",
	.comm_begin = begin,
	.event = take_event,
	.row = take_row,
	.pass = take_pass,
	.comm_end = end_text,
	.end = text_damages,
};

/* JSON ----------------------------------------------------------------------------------------- */

static json_t *signed_us(int64_t ns)
{
	return json_real((double)ns / 1e3);
}

/* [{"rank":R,"calls":N}], without the zeros. */
static json_t *calls_by_rank(const uint64_t *calls, uint32_t nranks)
{
	json_t *list = json_array();

	for (uint32_t rank = 0; list && rank < nranks; rank++) {
		if (calls[rank] &&
		    json_array_append_new(list, json_pack("{s:i,s:o}", "rank", (int)rank, "calls",
							  json_number(calls[rank]))) != 0) {
			json_decref(list);
			list = NULL;
		}
	}
	return list;
}

static json_t *on_time_json(const struct output *output)
{
	const struct what_if *what_if = output->state;

	if (!output->question.on_time)
		return json_null();
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "ranks", json_ranks(output->question.on_time),
			 "calls", json_number(what_if->compared), "last_calls",
			 json_number(what_if->was_last), "saved_us",
			 json_us(what_if->wait_saved_ns), "then_last",
			 calls_by_rank(what_if->then_last, output->summary->nranks));
}

static json_t *path_json(const struct output *output)
{
	const struct what_if *what_if = output->state;
	const struct what_if_question *question = &output->question;

	if (!question->costs)
		return json_null();
	return json_pack("{s:o,s:i,s:o,s:o,s:o,s:o,s:o}", "path", json_path_or_null(question->path),
			 "table_ranks", (int)question->costs->ranks, "calls",
			 json_number(what_if->replaced), "calls_outside",
			 json_number(what_if->outside), "calls_watched",
			 json_number(what_if->watched), "recorded_us",
			 json_us(what_if->transfer_ns), "table_us", json_us(what_if->table_ns));
}

static json_t *pass_json(const struct histogram *passes)
{
	return json_pack("{s:o,s:o,s:o}", "p50", json_us(histogram_quantile(passes, 0.50)), "p99",
			 json_us(histogram_quantile(passes, 0.99)), "max",
			 json_us(passes->largest));
}

static json_t *passes_json(const struct output *output)
{
	const struct what_if *what_if = output->state;

	if (!output->question.on_time && !output->question.costs)
		return json_null();
	return json_pack("{s:o,s:o,s:o,s:o}", "count", json_number(what_if->recorded->count),
			 "recorded_us", pass_json(what_if->recorded), "what_if_us",
			 pass_json(what_if->changed), "calls_as_recorded",
			 json_number(what_if->silent));
}

static json_t *late_json(const struct output *output)
{
	const struct what_if *what_if = output->state;
	int64_t sooner;
	int known = what_if_rescue_sooner(what_if, output->summary, &sooner) == 0;

	if (!output->question.late_ns)
		return json_null();
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "deadline_us",
			 json_us(output->question.late_ns), "calls",
			 json_number(what_if->late.calls), "recorded_calls",
			 json_number(what_if->recorded_alarms), "false_alarms",
			 json_number(what_if->late.false_calls), "by_rank",
			 calls_by_rank(what_if->late.by_rank, output->summary->nranks), "rescues",
			 json_number(output->summary->rescue_count), "rescues_sooner_us",
			 known ? signed_us(sooner) : json_null());
}

static json_t *first_json(const struct what_if_alarms *alarms)
{
	if (!alarms->first_seq)
		return json_null();
	return json_pack("{s:o,s:o,s:o}", "seq", json_number(alarms->first_seq), "pass",
			 json_number(alarms->first_pass), "rank",
			 json_rank_or_null(alarms->first_rank));
}

static json_t *give_up_json(const struct output *output)
{
	const struct what_if *what_if = output->state;
	int64_t sooner;
	int known = what_if_verdict_sooner(what_if, output->summary, &sooner) == 0;

	if (!output->question.give_up_ns)
		return json_null();
	return json_pack("{s:o,s:o,s:o,s:o,s:o}", "deadline_us",
			 json_us(output->question.give_up_ns), "false_verdicts",
			 json_number(what_if->give_up.false_calls), "by_rank",
			 calls_by_rank(what_if->give_up.by_rank, output->summary->nranks), "first",
			 first_json(&what_if->give_up), "verdict_sooner_us",
			 known ? signed_us(sooner) : json_null());
}

static int end_json(struct output *output)
{
	return json_comm(output,
			 json_pack("{s:s,s:i,s:o,s:o,s:o,s:o,s:o,s:o}", "id", output->summary->id,
				   "nranks", (int)output->summary->nranks, "on_time",
				   on_time_json(output), "path", path_json(output), "passes",
				   passes_json(output), "late", late_json(output), "give_up",
				   give_up_json(output), "clocks", json_clocks(output->clocks)));
}

const struct command_ops command_what_if_json = {
	.name = "what-if",
	.begin = json_document_begin,
	.comm_begin = begin,
	.event = take_event,
	.row = take_row,
	.pass = take_pass,
	.comm_end = end_json,
	.end = json_document_end,
};
