/* SPDX-License-Identifier: Apache-2.0 */
/* The results of belay-bench for people and for machines. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "tools/bench/bench_results.h"

static const char *path_text(const struct bench_row *row)
{
	return row->path ? belay_path_name(row->path) : "-";
}

static const char *algorithm_text(const struct bench_row *row)
{
	return row->algorithm ? belay_algorithm_name(row->algorithm) : "-";
}

static void print_rows(const struct bench_results *results)
{
	if (results->nrows == 0)
		return; /* of a script */
	printf("%10s %5s %-5s %-12s %9s %10s %10s %10s %10s  %s\n", "bytes", "dtype", "path",
	       "algorithm", "calls", "min_us", "p50_us", "p99_us", "busbw_GB/s", "results");
	for (size_t i = 0; i < results->nrows; i++) {
		const struct bench_row *row = &results->rows[i];

		printf("%10" PRIu64 " %5s %-5s %-12s %9" PRIu64
		       " %10.2f %10.2f %10.2f %10.2f  %s\n",
		       row->bytes, belay_dtype_name(row->dtype), path_text(row),
		       algorithm_text(row), row->calls, row->min_us, row->p50_us, row->p99_us,
		       row->busbw_gbps,
		       row->checked ? "right"
		       : row->calls ? "WRONG"
				    : "none");
	}
}

static void print_host_times(const struct bench_results *results)
{
	if (!results->host_time)
		return;
	printf("\n%10s %10s %10s %10s   (host time of a call and of a bare launch, p50)\n", "bytes",
	       "host_us", "launch_us", "more_us");
	for (size_t i = 0; i < results->nrows; i++) {
		const struct bench_row *row = &results->rows[i];

		printf("%10" PRIu64 " %10.2f %10.2f %10.2f\n", row->bytes, row->host_us,
		       row->launch_us, row->host_us - row->launch_us);
	}
}

static void print_verdict(const struct bench_results *results, struct bench_job *job)
{
	uint32_t first;
	const struct bench_rank *out;

	if (!results->verdict_ranks)
		return;
	first = (uint32_t)__builtin_ctzll(results->verdict_ranks);
	out = bench_rank(job, first);
	printf("verdict: seq %" PRIu64 ", pass %" PRIu64 ": %s, rank %d at fault; %s%d ranks\n",
	       out->verdict_seq, out->verdict_pass,
	       belay_cause_name((enum belay_cause)out->verdict_cause), out->verdict_rank,
	       results->agreed ? "the same on all " : "NOT THE SAME on ",
	       __builtin_popcountll(results->verdict_ranks));
	if (out->verdict_text[0])
		printf("  %s\n", out->verdict_text);
}

static void print_text(const struct bench_results *results, struct bench_job *job)
{
	printf("backend %s, %" PRIu32 " ranks, %s; times are those of a call's slowest rank\n",
	       results->backend, results->nranks, belay_op_name(results->op));
	if (results->nrows)
		putchar('\n');
	print_rows(results);
	print_host_times(results);
	if (job->npasses)
		printf("\npasses: %" PRIu64 " committed, p50 %.3f ms, p99 %.3f ms\n",
		       results->passes, results->pass_p50_ms, results->pass_p99_ms);
	printf("%srescues: %" PRIu64 "\n", job->npasses ? "" : "\n", results->rescues);
	print_verdict(results, job);
}

/* Three digits behind the point are a nanosecond, or less. Nothing measured: null. */
static json_t *rounded(double value, uint64_t samples)
{
	return samples ? json_real((double)(int64_t)(value * 1e3 + 0.5) / 1e3) : json_null();
}

static void add_host_times(const struct bench_row *row, json_t *object)
{
	/* Without memory the row is as it was; the document is checked as a whole. */
	(void)json_object_set_new(object, "host_us", rounded(row->host_us, row->calls));
	(void)json_object_set_new(object, "launch_us", rounded(row->launch_us, row->calls));
}

static json_t *row_json(const struct bench_results *results, const struct bench_row *row)
{
	json_t *object = json_pack(
		"{s:I, s:s, s:s, s:s?, s:s?, s:I, s:o, s:o, s:o, s:o, s:b}", "bytes",
		(json_int_t)row->bytes, "dtype", belay_dtype_name(row->dtype), "op",
		belay_op_name(results->op), "path", row->path ? belay_path_name(row->path) : NULL,
		"algorithm", row->algorithm ? belay_algorithm_name(row->algorithm) : NULL, "calls",
		(json_int_t)row->calls, "min_us", rounded(row->min_us, row->calls), "p50_us",
		rounded(row->p50_us, row->calls), "p99_us", rounded(row->p99_us, row->calls),
		"busbw_gbps", rounded(row->busbw_gbps, row->calls), "checked", row->checked);

	if (object && results->host_time)
		add_host_times(row, object);
	return object;
}

static json_t *passes_json(const struct bench_results *results)
{
	return json_pack("{s:I, s:o, s:o}", "count", (json_int_t)results->passes, "p50_ms",
			 rounded(results->pass_p50_ms, results->passes), "p99_ms",
			 rounded(results->pass_p99_ms, results->passes));
}

/* One rank's verdict. `culprit`: how this place of the document calls the rank at fault. */
static json_t *verdict_json(const struct bench_rank *out, const char *culprit)
{
	json_t *rank = out->verdict_rank < 0 ? json_null() : json_integer(out->verdict_rank);

	return json_pack("{s:I, s:I, s:s, s:o, s:s}", "seq", (json_int_t)out->verdict_seq, "pass",
			 (json_int_t)out->verdict_pass, "cause",
			 belay_cause_name((enum belay_cause)out->verdict_cause), culprit, rank,
			 "text", out->verdict_text);
}

static json_t *first_verdict_json(const struct bench_results *results, struct bench_job *job)
{
	if (!results->verdict_ranks)
		return json_null();
	return verdict_json(bench_rank(job, (uint32_t)__builtin_ctzll(results->verdict_ranks)),
			    "rank");
}

static json_t *verdicts_json(const struct bench_results *results, struct bench_job *job)
{
	json_t *list = json_array();

	for (uint32_t rank = 0; rank < results->nranks; rank++) {
		const struct bench_rank *out = bench_rank(job, rank);
		json_t *one;

		if (!(results->verdict_ranks & UINT64_C(1) << rank))
			continue;
		one = verdict_json(out, "culprit");
		(void)json_object_set_new(one, "rank", json_integer(rank));
		(void)json_object_set_new(one, "output_untouched",
					  json_boolean(!out->output_touched));
		(void)json_array_append_new(list, one);
	}
	return list;
}

static json_t *lost_json(const struct bench_results *results)
{
	json_t *list = json_array();

	for (uint32_t rank = 0; rank < results->nranks; rank++) {
		if (results->lost_ranks & UINT64_C(1) << rank)
			(void)json_array_append_new(list, json_integer(rank));
	}
	return list;
}

static json_t *rows_json(const struct bench_results *results)
{
	json_t *list = json_array();

	for (size_t i = 0; i < results->nrows; i++)
		(void)json_array_append_new(list, row_json(results, &results->rows[i]));
	return list;
}

/* A piece that could not be made makes the whole NULL: json_pack() checks each. */
static int print_json(const struct bench_results *results, struct bench_job *job)
{
	json_t *document = json_pack(
		"{s:s, s:I, s:o, s:o, s:I, s:o, s:o, s:I, s:o}", "backend", results->backend,
		"ranks", (json_int_t)results->nranks, "rows", rows_json(results), "passes",
		passes_json(results), "rescues", (json_int_t)results->rescues, "verdict",
		first_verdict_json(results, job), "verdicts", verdicts_json(results, job),
		"wrong_results", (json_int_t)results->wrong, "lost_ranks", lost_json(results));

	if (!document)
		return -1;
	/* What stdio could not write, command_finish() tells. */
	(void)json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
	putchar('\n');
	json_decref(document);
	return 0;
}

int bench_results_print(const struct bench_results *results, struct bench_job *job,
			enum command_format format)
{
	if (format == COMMAND_JSON)
		return print_json(results, job);
	print_text(results, job);
	return 0;
}
