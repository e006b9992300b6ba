/* SPDX-License-Identifier: Apache-2.0 */
/* `summary` for a person at night: one screen, what is wrong in red, nothing that the data does
 * not show. */
#include <inttypes.h>
#include <string.h>

#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

#define BRIEF_SHOWN 8u

/* Findings of one kind that are listed; the rest are counted. */
static size_t shown_max(const struct output *output)
{
	return output->comms > 1 ? 2 : 4;
}

static void label(const struct output *output, const char *name)
{
	fprintf(output->file, "  %-10s", name);
}

static void more(const struct output *output, uint64_t all, const char *command)
{
	if (all > shown_max(output))
		fprintf(output->file, "            and %" PRIu64 " more: trace-analyze %s\n",
			all - shown_max(output), command);
}

static void print_calls(const struct output *output)
{
	const struct summary *summary = output->summary;
	char time[WORDS_TIME_BYTES];

	label(output, "calls");
	if (summary->calls == 0) {
		fputs("none\n", output->file);
		return;
	}
	fprintf(output->file, "%" PRIu64 ": seq %" PRIu64 " to %" PRIu64 " in %s\n", summary->calls,
		summary->first_seq, summary->last_seq,
		words_time(summary->last_ns - summary->first_ns, time));
}

static void print_passes(const struct output *output)
{
	const struct passes *passes = &output->summary->passes;

	label(output, "passes");
	if (passes->count == 0) {
		fputs(passes->rule.by == PASS_BY_MARKS
			      ? "none\n"
			      : "not known: no marks, and nothing repeats\n",
		      output->file);
		return;
	}
	fprintf(output->file, "%" PRIu64 " %s", passes->count,
		passes->rule.by == PASS_BY_MARKS ? "by marks" : "by what repeats (no marks)");
	if (passes->whole_count && passes->calls_min == passes->calls_max)
		fprintf(output->file, ", %" PRIu64 " calls each", passes->calls_min);
	else if (passes->whole_count)
		fprintf(output->file, ", %" PRIu64 " to %" PRIu64 " calls each", passes->calls_min,
			passes->calls_max);
	if (passes->outside)
		fprintf(output->file, "; %" PRIu64 " calls outside any pass", passes->outside);
	fputc('\n', output->file);
	text_period(output, "            ");
}

static void print_latency(const struct output *output)
{
	const struct histogram *latency = output->summary->latency;
	char p50[WORDS_TIME_BYTES], p99[WORDS_TIME_BYTES], max[WORDS_TIME_BYTES];

	label(output, "latency");
	fprintf(output->file, "p50 %s, p99 %s, max %s (a call of its slowest rank)\n",
		words_time(histogram_quantile(latency, 0.50), p50),
		words_time(histogram_quantile(latency, 0.99), p99),
		words_time(latency->largest, max));
}

static void print_path_changes(const struct output *output)
{
	const struct summary *summary = output->summary;
	const struct summary_path_change *changes = summary->path_changes.items;
	size_t n = summary->path_changes.count;
	char place[WORDS_PLACE_BYTES];

	for (size_t i = 0; i < n && i < 2; i++)
		fprintf(output->file, "%s%s from %s on", i ? ", " : "            ",
			belay_path_name(changes[i].to),
			words_place(changes[i].seq, changes[i].pass, place));
	if (n > 2)
		fprintf(output->file, ", and %" PRIu64 " changes more: trace-analyze faults",
			summary->path_change_count - 2);
	if (n)
		fputc('\n', output->file);
	if (!summary->switches.opened)
		return;
	label(output, "breaker");
	text_red(output);
	fprintf(output->file, "opened %" PRIu64 " time%s", summary->switches.opened,
		summary->switches.opened == 1 ? "" : "s");
	text_plain(output);
	fprintf(output->file, ", %s seq %" PRIu64 "\n",
		summary->switches.opened == 1 ? "in" : "first in", summary->switches.opened_seq);
}

static void print_paths(const struct output *output)
{
	const char *comma = "";

	label(output, "paths");
	for (int path = 1; path < SUMMARY_PATHS; path++) {
		if (!output->summary->paths[path])
			continue;
		fprintf(output->file, "%s%s %" PRIu64, comma,
			belay_path_name((enum belay_path)path), output->summary->paths[path]);
		comma = ", ";
	}
	if (output->summary->paths[0])
		fprintf(output->file, "%sunknown %" PRIu64, comma, output->summary->paths[0]);
	fputc('\n', output->file);
	print_path_changes(output);
}

/* The rank that was last more often than its share. */
static void print_last(const struct output *output)
{
	const struct stragglers *stragglers = &output->summary->stragglers;
	const struct straggler_rank *one;
	struct straggler_run run;
	char p50[WORDS_TIME_BYTES], worst[WORDS_TIME_BYTES], place[WORDS_PLACE_BYTES];
	int rank = stragglers_worst(stragglers);

	if (rank < 0)
		return;
	one = &stragglers->ranks[rank];
	label(output, "last");
	fprintf(output->file,
		"rank %d in %.0f %% of calls, behind the others by %s (median), %s at worst", rank,
		100.0 * (double)one->last_calls / (double)stragglers->calls,
		words_time(histogram_quantile(one->lateness, 0.50), p50),
		words_time(one->worst_ns, worst));
	summary_straggler_run(output->summary, (uint32_t)rank, &run);
	if (run.first_seq && run.first_seq > output->summary->first_seq)
		fprintf(output->file, ", since %s",
			words_place(run.first_seq, run.first_pass, place));
	if (run.first_seq && !run.to_the_end)
		fprintf(output->file, ", until %s",
			words_place(run.last_seq, run.last_pass, place));
	if (run.calls && run.calls < stragglers->calls)
		fprintf(output->file, " (in %.0f %% of these calls)",
			100.0 * (double)run.last_calls / (double)run.calls);
	fputc('\n', output->file);
}

/* Where each pass has its own. */
static void print_in_turn(const struct output *output, const struct story *story)
{
	char ranks[WORDS_RANKS_BYTES], time[WORDS_TIME_BYTES];

	for (size_t i = 0; i < story->count; i++) {
		const struct story_point *point = &story->points[i];

		if (point->what != STORY_STRAGGLERS_IN_TURN)
			continue;
		label(output, "last");
		fprintf(output->file,
			"rank %s in turn: in %" PRIu64 " of %" PRIu64
			" passes one is last in most calls, by %s or more (median)\n",
			words_ranks(point->ranks, ranks), point->count, point->of,
			words_time(point->ns, time));
	}
}

static void print_slow_pass(const struct output *output, const struct slow_pass *pass)
{
	char time[WORDS_TIME_BYTES], wait[WORDS_TIME_BYTES];

	fprintf(output->file, "            pass %" PRIu64 ": %s", pass->pass,
		words_time(pass->duration_ns, time));
	if (pass->waited_for >= 0)
		fprintf(output->file, ", of that %s waiting for rank %d",
			words_time(pass->waited_for_ns, wait), pass->waited_for);
	fputc('\n', output->file);
}

static void print_slow_passes(const struct output *output)
{
	struct slow_pass slowest[PASS_TIMES_SLOWEST];
	char time[WORDS_TIME_BYTES];
	size_t n;
	uint64_t count = pass_times_slow(&output->summary->pass_times, slowest, &n);

	if (!n)
		return;
	label(output, "slow");
	fprintf(output->file,
		"%" PRIu64 " of %" PRIu64
		" passes took more than 1.5 times the median of their kind (%s):\n",
		count, output->summary->passes.whole_count, words_time(slowest[0].median_ns, time));
	for (size_t i = 0; i < n && i < shown_max(output) / 2; i++)
		print_slow_pass(output, &slowest[i]);
}

static void print_late_rank(const struct output *output, uint32_t rank)
{
	const struct late_rank *one = &output->summary->late.ranks[rank];
	char worst[WORDS_TIME_BYTES], first[WORDS_PLACE_BYTES], last[WORDS_PLACE_BYTES];

	label(output, "late");
	text_red(output);
	fprintf(output->file, "rank %" PRIu32 " in %" PRIu64 " call%s", rank, one->calls,
		one->calls == 1 ? "" : "s");
	text_plain(output);
	fprintf(output->file, ", by up to %s; %s %s", words_time(one->worst_ns, worst),
		one->calls == 1 ? "at" : "since",
		words_place(one->first_seq, one->first_pass, first));
	if (one->calls > 1)
		fprintf(output->file, ", last at %s",
			words_place(one->last_seq, one->last_pass, last));
	fputc('\n', output->file);
}

/* Those late most often first. */
static void print_late(const struct output *output)
{
	const struct late_rank *ranks = output->summary->late.ranks;
	uint64_t named = 0, all = 0;

	for (uint32_t i = 0; i < output->summary->nranks; i++)
		all += ranks[i].calls != 0;
	for (size_t n = 0; n < all && n < shown_max(output); n++) {
		int worst = -1;

		for (uint32_t i = 0; i < output->summary->nranks; i++) {
			if (ranks[i].calls && !(named & rank_bit(i)) &&
			    (worst < 0 || ranks[i].calls > ranks[worst].calls))
				worst = (int)i;
		}
		named |= rank_bit((uint32_t)worst);
		print_late_rank(output, (uint32_t)worst);
	}
	more(output, all, "stragglers");
}

static void print_rescue(const struct output *output, const struct summary_rescue *one)
{
	char place[WORDS_PLACE_BYTES], lost[WORDS_RANKS_BYTES], stuck[WORDS_RANKS_BYTES];
	char time[WORDS_TIME_BYTES];

	label(output, "rescued");
	text_red(output);
	fputs(words_place(one->seq, one->pass, place), output->file);
	text_plain(output);
	fputs(": ", output->file);
	if (one->lost)
		fprintf(output->file, "the data of rank %s did not arrive; ",
			words_ranks(one->lost, lost));
	fprintf(output->file, "rank %s stuck, finished over %s in %s",
		words_ranks(one->stuck, stuck),
		one->via ? belay_path_name(one->via) : "another path", words_time(one->ns, time));
	if (one->wait_ns)
		fprintf(output->file, " after a wait of %s", words_time(one->wait_ns, time));
	fputc('\n', output->file);
}

static void print_rescues(const struct output *output)
{
	const struct summary_rescue *entries = output->summary->rescues.items;

	for (size_t i = 0; i < output->summary->rescues.count && i < shown_max(output); i++)
		print_rescue(output, &entries[i]);
	more(output, output->summary->rescue_count, "faults");
}

static void print_mismatch(const struct output *output, const struct summary_mismatch *one)
{
	char place[WORDS_PLACE_BYTES], ranks[WORDS_RANKS_BYTES];
	char dtype[WORDS_NAME_BYTES], op[WORDS_NAME_BYTES];

	label(output, "mismatch");
	text_red(output);
	fprintf(output->file, "%s:", words_place(one->seq, one->pass, place));
	text_plain(output);
	for (size_t i = 0; i < one->signatures.count; i++) {
		const struct signature *group = &one->signatures.items[i];

		fprintf(output->file, "%s rank %s called %" PRIu64 " %s %s", i ? ";" : "",
			words_ranks(group->ranks, ranks), group->count,
			words_dtype(group->dtype, dtype), words_op(group->op, op));
		if (one->signatures.places_differ)
			fprintf(output->file, " at place %" PRIu32 " of pass %" PRIu64,
				group->index, group->pass);
	}
	fputc('\n', output->file);
}

static void print_mismatches(const struct output *output)
{
	const struct summary_mismatch *entries = output->summary->mismatches.items;
	size_t n = output->summary->mismatches.count;

	for (size_t i = 0; i < n && i < shown_max(output); i++)
		print_mismatch(output, &entries[i]);
	more(output, n, "faults");
}

static void print_digests(const struct output *output)
{
	const struct summary_digest *entries = output->summary->digests.items;
	char place[WORDS_PLACE_BYTES], ranks[WORDS_RANKS_BYTES];

	for (size_t i = 0; i < output->summary->digests.count && i < shown_max(output); i++) {
		label(output, "digest");
		text_red(output);
		fputs(words_place(entries[i].seq, entries[i].pass, place), output->file);
		text_plain(output);
		fprintf(output->file, ": the output of rank %s is not that of the others\n",
			words_ranks(entries[i].ranks, ranks));
	}
	more(output, output->summary->digest_count, "faults");
}

static void print_verdict(const struct output *output)
{
	const struct summary_verdict *verdict = &output->summary->verdict;
	char place[WORDS_PLACE_BYTES], ranks[WORDS_RANKS_BYTES];

	label(output, "verdict");
	if (!verdict->stands) {
		fputs("none\n", output->file);
		return;
	}
	text_red(output);
	fprintf(output->file, "%s: %s", words_place(verdict->seq, verdict->pass, place),
		belay_cause_name((enum belay_cause)verdict->cause));
	if (verdict->rank >= 0)
		fprintf(output->file, ", rank %d at fault", verdict->rank);
	text_plain(output);
	fprintf(output->file, " (told by rank %s)\n", words_ranks(verdict->told_by, ranks));
	if (verdict->ranks_differ)
		fputs("            the ranks' verdicts differ: that is a bug in belay\n",
		      output->file);
	if (verdict->text[0])
		fprintf(output->file, "            %s\n", verdict->text);
}

static void print_missing_ranks(const struct output *output)
{
	const struct summary *summary = output->summary;
	uint64_t missing = mask_of(summary->nranks) & ~summary->present;
	char ranks[WORDS_RANKS_BYTES];

	if (!missing)
		return;
	label(output, "data");
	text_red(output);
	fprintf(output->file, "rank %s: no data", words_ranks(missing, ranks));
	text_plain(output);
	fputs("; nothing is concluded about it but what the others saw\n", output->file);
}

static void print_rank_data(const struct output *output, uint32_t rank)
{
	const struct summary *summary = output->summary;
	const struct summary_rank *one = &summary->ranks[rank];

	if (one->lost) {
		label(output, "data");
		fprintf(output->file, "rank %" PRIu32 ": %" PRIu64 " records lost\n", rank,
			one->lost);
	}
	if (one->records == 0) {
		label(output, "data");
		fprintf(output->file, "rank %" PRIu32 ": no calls\n", rank);
	} else if (one->first_seq != summary->first_seq || one->last_seq != summary->last_seq) {
		label(output, "data");
		fprintf(output->file, "rank %" PRIu32 ": only seq %" PRIu64 " to %" PRIu64 "\n",
			rank, one->first_seq, one->last_seq);
	}
	if (one->saved_by >= 0) {
		label(output, "data");
		fprintf(output->file,
			"rank %" PRIu32 ": its newest records were saved by rank %d\n", rank,
			one->saved_by);
	}
}

/* Who shows one thing in common is told in one line. */
static void print_open_ended(const struct output *output)
{
	char ranks[WORDS_RANKS_BYTES];
	uint64_t open = 0;

	for (uint32_t rank = 0; rank < output->summary->nranks; rank++)
		open |= output->summary->ranks[rank].open_ended ? rank_bit(rank) : 0;
	if (!open)
		return;
	label(output, "data");
	fprintf(output->file,
		"rank %s: log not closed (killed, or still running): up to the open block may be "
		"missing\n",
		words_ranks(open, ranks));
}

/* Of the rank without a record counts what the others saw. */
static void print_partial_calls(const struct output *output)
{
	uint64_t calls = output->summary->calls_partial;
	uint64_t silent = output->summary->calls_partial_silent;

	if (!calls)
		return;
	label(output, "data");
	fprintf(output->file, "calls without some rank's record: %" PRIu64, calls);
	if (silent == calls)
		fputs("; they do not tell who was last\n", output->file);
	else if (silent)
		fprintf(output->file, "; %" PRIu64 " of them do not tell who was last\n", silent);
	else
		fputs("; who was last in them is known by what the others saw\n", output->file);
}

static void print_data(const struct output *output)
{
	const struct summary *summary = output->summary;
	size_t lines = 0;

	print_missing_ranks(output);
	for (uint32_t rank = 0; rank < summary->nranks; rank++) {
		const struct summary_rank *one = &summary->ranks[rank];

		if (!one->present ||
		    (!one->lost && one->saved_by < 0 && one->first_seq == summary->first_seq &&
		     one->last_seq == summary->last_seq))
			continue;
		if (lines++ < 2 * shown_max(output))
			print_rank_data(output, rank);
	}
	if (lines > 2 * shown_max(output))
		fprintf(output->file, "            and %zu more ranks\n",
			lines - 2 * shown_max(output));
	print_open_ended(output);
	text_clocks(output, "  clocks    ");
	print_partial_calls(output);
	if (summary->calls_clocks_differ) {
		label(output, "data");
		fprintf(output->file,
			"a rank leaves before another arrives in %" PRIu64
			" calls: their times contradict each other and do not tell who was last\n",
			summary->calls_clocks_differ);
	}
}

static void print_brief(struct output *output)
{
	const struct summary *summary = output->summary;
	char p99[WORDS_TIME_BYTES];

	if (output->comms_brief++ >= BRIEF_SHOWN)
		return;
	fprintf(output->file,
		"communicator %s: %" PRIu32 " ranks, %" PRIu64 " calls, p99 %s, sound\n",
		summary->id, summary->nranks, summary->calls,
		words_time(histogram_quantile(summary->latency, 0.99), p99));
}

static int comm_end(struct output *output)
{
	struct story story;

	story_tell(output->summary, output->clocks->differ, &story);
	if (output->comms > 2 && story.count == 0) {
		print_brief(output);
		return 0;
	}
	text_heading(output);
	print_calls(output);
	print_passes(output);
	if (output->summary->calls) {
		print_latency(output);
		print_paths(output);
	}
	print_last(output);
	print_in_turn(output, &story);
	print_slow_passes(output);
	print_late(output);
	print_rescues(output);
	print_mismatches(output);
	print_digests(output);
	print_verdict(output);
	print_data(output);
	if (!output->without_story)
		text_story(output, &story, 0);
	return 0;
}

static void end(struct output *output, const struct inputs *inputs)
{
	if (output->comms_brief > BRIEF_SHOWN)
		fprintf(output->file, "and %zu more communicators, all sound\n",
			output->comms_brief - BRIEF_SHOWN);
	text_damages(output, inputs);
}

const struct command_ops command_summary_text = {
	.name = "summary",
	.comm_end = comm_end,
	.end = end,
};
