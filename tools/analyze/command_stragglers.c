/* SPDX-License-Identifier: Apache-2.0 */
/* `stragglers`: a row a rank: how often it was the last to arrive, by how much, since when; and
 * how often late. */
#include <inttypes.h>

#include "tools/analyze/print_json.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

static void print_columns(const struct output *output)
{
	fprintf(output->file, "times in us; who was last is known of %" PRIu64 " calls\n",
		output->summary->stragglers.calls);
	text_bold(output);
	fprintf(output->file, "%5s %10s %6s %12s %12s %10s %12s  %s\n", "rank", "last calls",
		"share", "median", "worst", "late calls", "late worst", "kept being last");
	text_plain(output);
}

static void print_run(const struct output *output, uint32_t rank)
{
	struct straggler_run run;
	char first[WORDS_PLACE_BYTES], last[WORDS_PLACE_BYTES];

	summary_straggler_run(output->summary, rank, &run);
	if (!run.first_seq) {
		fputs("-\n", output->file);
		return;
	}
	fprintf(output->file, "since %s", words_place(run.first_seq, run.first_pass, first));
	if (!run.to_the_end)
		fprintf(output->file, " until %s", words_place(run.last_seq, run.last_pass, last));
	fputc('\n', output->file);
}

static void print_rank(const struct output *output, uint32_t rank)
{
	const struct stragglers *stragglers = &output->summary->stragglers;
	const struct straggler_rank *one = &stragglers->ranks[rank];
	const struct late_rank *late = &output->summary->late.ranks[rank];
	uint64_t median = one->lateness ? histogram_quantile(one->lateness, 0.50) : 0;
	double calls = stragglers->calls ? (double)stragglers->calls : 1;

	if (!(output->summary->present & rank_bit(rank)) && !late->calls && !one->last_calls) {
		fprintf(output->file, "%5" PRIu32 " no data\n", rank);
		return;
	}
	fprintf(output->file,
		"%5" PRIu32 " %10" PRIu64 " %5.1f%% %12.1f %12.1f %10" PRIu64 " %12.1f  ", rank,
		one->last_calls, 100.0 * (double)one->last_calls / calls, (double)median / 1e3,
		(double)one->worst_ns / 1e3, late->calls, (double)late->worst_ns / 1e3);
	print_run(output, rank);
}

static int end_text(struct output *output)
{
	text_heading(output);
	print_columns(output);
	for (uint32_t rank = 0; rank < output->summary->nranks; rank++)
		print_rank(output, rank);
	text_clocks(output, "");
	return 0;
}

const struct command_ops command_stragglers_text = {
	.name = "stragglers",
	.comm_end = end_text,
	.end = text_damages,
};

static json_t *number_or_null(uint64_t seq)
{
	return seq ? json_number(seq) : json_null();
}

static json_t *rank_json(const struct output *output, uint32_t rank)
{
	const struct straggler_rank *one = &output->summary->stragglers.ranks[rank];
	const struct late_rank *late = &output->summary->late.ranks[rank];
	uint64_t median = one->lateness ? histogram_quantile(one->lateness, 0.50) : 0;
	struct straggler_run run;

	summary_straggler_run(output->summary, rank, &run);
	return json_pack("{s:i,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "rank", (int)rank,
			 "present", (output->summary->present & rank_bit(rank)) != 0, "last_calls",
			 json_number(one->last_calls), "p50_us", json_us(median), "worst_us",
			 json_us(one->worst_ns), "worst_seq", number_or_null(one->worst_seq),
			 "since_seq", number_or_null(run.first_seq), "until_seq",
			 number_or_null(run.last_seq), "late_calls", json_number(late->calls),
			 "late_worst_us", json_us(late->worst_ns), "late_first_seq",
			 number_or_null(late->first_seq));
}

static int end_json(struct output *output)
{
	int status = json_rows_begin(output, "ranks");

	for (uint32_t rank = 0; status == 0 && rank < output->summary->nranks; rank++)
		status = json_row(output, rank_json(output, rank));
	return status == 0 ? json_rows_end(output) : status;
}

const struct command_ops command_stragglers_json = {
	.name = "stragglers",
	.begin = json_document_begin,
	.comm_end = end_json,
	.end = json_document_end,
};
