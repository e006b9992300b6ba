/* SPDX-License-Identifier: Apache-2.0 */
/* `passes`: a row a pass. */
#include <inttypes.h>

#include "tools/analyze/print_json.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

static int begin_text(struct output *output)
{
	const struct pass_rule *rule = &output->summary->passes.rule;

	text_heading(output);
	if (rule->by == PASS_BY_MARKS)
		fputs("passes by marks; times in us\n", output->file);
	else if (rule->by == PASS_BY_PERIOD)
		fputs("no marks; passes by what repeats; times in us\n", output->file);
	else
		fputs("no marks, and nothing repeats: no passes\n", output->file);
	text_period(output, "");
	return 0;
}

static void print_columns(const struct output *output)
{
	text_bold(output);
	fprintf(output->file, "%8s %7s %10s %8s %14s %12s %12s %12s %12s  %s\n", "pass", "calls",
		"first seq", "bytes", "start", "duration", "allreduce", "wait", "transfer",
		"waited for");
	text_plain(output);
}

static void print_remarks(const struct output *output, const struct pass_facts *pass)
{
	if (pass->late_calls)
		fprintf(output->file, "  late %" PRIu64, pass->late_calls);
	if (pass->rescued_calls)
		fprintf(output->file, "  rescued %" PRIu64, pass->rescued_calls);
	if (pass->failed_calls)
		fprintf(output->file, "  failed %" PRIu64, pass->failed_calls);
	if (!pass->whole)
		fputs("  not whole", output->file);
}

static int pass_text(struct output *output, const struct pass_facts *pass)
{
	char bytes[WORDS_TIME_BYTES];

	if (output->rows++ == 0)
		print_columns(output);
	fprintf(output->file, "%8" PRIu64 " %7" PRIu64 " %10" PRIu64 " %8s ", pass->pass,
		pass_calls(pass), pass->first_seq, words_bytes(pass->bytes, bytes));
	text_time(output, pass->start_ns, 14);
	fprintf(output->file, " %12.1f %12.1f %12.1f %12.1f  ",
		(double)(pass->end_ns - pass->start_ns) / 1e3, (double)pass->time_ns / 1e3,
		(double)pass->wait_ns / 1e3, (double)(pass->time_ns - pass->wait_ns) / 1e3);
	if (pass->waited_for >= 0)
		fprintf(output->file, "rank %d %.0f %%", pass->waited_for,
			100.0 * (double)pass->waited_for_ns / (double)pass->wait_ns);
	else
		fputc('-', output->file);
	print_remarks(output, pass);
	fputc('\n', output->file);
	return 0;
}

static int end_text(struct output *output)
{
	text_clocks(output, "");
	return 0;
}

const struct command_ops command_passes_text = {
	.name = "passes",
	.comm_begin = begin_text,
	.pass = pass_text,
	.comm_end = end_text,
	.end = text_damages,
};

static int begin_json(struct output *output)
{
	return json_rows_begin(output, "passes");
}

static int pass_json(struct output *output, const struct pass_facts *pass)
{
	return json_row(
		output,
		json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:b}",
			  "pass", json_number(pass->pass), "calls", json_number(pass_calls(pass)),
			  "first_seq", json_number(pass->first_seq), "last_seq",
			  json_number(pass->last_seq), "bytes", json_number(pass->bytes),
			  "start_us", json_time_us(output, pass->start_ns), "duration_us",
			  json_us(pass->end_ns - pass->start_ns), "allreduce_us",
			  json_us(pass->time_ns), "wait_us", json_us(pass->wait_ns), "transfer_us",
			  json_us(pass->time_ns - pass->wait_ns), "waited_for",
			  json_rank_or_null(pass->waited_for), "waited_for_us",
			  json_us(pass->waited_for_ns), "late_calls", json_number(pass->late_calls),
			  "rescued_calls", json_number(pass->rescued_calls), "failed_calls",
			  json_number(pass->failed_calls), "whole", pass->whole));
}

const struct command_ops command_passes_json = {
	.name = "passes",
	.begin = json_document_begin,
	.comm_begin = begin_json,
	.pass = pass_json,
	.comm_end = json_rows_end,
	.end = json_document_end,
};
