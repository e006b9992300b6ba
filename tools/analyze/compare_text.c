/* SPDX-License-Identifier: Apache-2.0 */
/* `compare` and the table of `replay` for people. */
#include <inttypes.h>

#include "tools/analyze/compare.h"
#include "tools/analyze/print_text.h"
#include "tools/analyze/words.h"

#define PASSES_SHOWN 5u

/* A row of the table: what it is, both values in us, and the change. */
static void print_us(FILE *file, const char *what, double a_ns, double b_ns)
{
	fprintf(file, "  %-24s %14.1f %14.1f", what, a_ns / 1e3, b_ns / 1e3);
	if (a_ns > 0)
		fprintf(file, " %+9.1f %%", 100.0 * (b_ns - a_ns) / a_ns);
	fputc('\n', file);
}

static void print_count(FILE *file, const char *what, uint64_t a, uint64_t b)
{
	fprintf(file, "  %-24s %14" PRIu64 " %14" PRIu64, what, a, b);
	if (a != b)
		fprintf(file, " %+11" PRId64, (int64_t)(b - a));
	fputc('\n', file);
}

/* Only where one of them has any. */
static void print_finding(FILE *file, const char *what, uint64_t a, uint64_t b)
{
	if (a || b)
		print_count(file, what, a, b);
}

static void print_quantiles(FILE *file, const char *what, const struct compare_quantiles *a,
			    const struct compare_quantiles *b)
{
	char name[32];

	(void)snprintf(name, sizeof(name), "%s p50, us", what);
	print_us(file, name, (double)a->p50, (double)b->p50);
	(void)snprintf(name, sizeof(name), "%s p99, us", what);
	print_us(file, name, (double)a->p99, (double)b->p99);
	(void)snprintf(name, sizeof(name), "%s max, us", what);
	print_us(file, name, (double)a->max, (double)b->max);
}

static void print_last(FILE *file, const struct compare_comm *one)
{
	char text[32] = "-";

	if (one->last_rank >= 0)
		(void)snprintf(text, sizeof(text), "rank %d %.0f %%", one->last_rank,
			       100.0 * one->last_share);
	fprintf(file, " %14s", text);
}

static void print_verdict(FILE *file, const struct compare_comm *one)
{
	fprintf(file, " %14s",
		one->verdict.stands ? belay_cause_name((enum belay_cause)one->verdict.cause)
				    : "none");
}

static double per_pass(const struct compare_comm *one, uint64_t ns)
{
	return one->passes ? (double)ns / (double)one->passes : 0;
}

static void print_times(FILE *file, const struct compare_comm *a, const struct compare_comm *b)
{
	print_quantiles(file, "call", &a->latency, &b->latency);
	if (!a->passes && !b->passes)
		return;
	print_quantiles(file, "pass", &a->pass, &b->pass);
	print_us(file, "allreduce in a pass, us", per_pass(a, a->time_ns), per_pass(b, b->time_ns));
	print_us(file, "  of that waiting", per_pass(a, a->wait_ns), per_pass(b, b->wait_ns));
	print_us(file, "  of that transfer", per_pass(a, a->time_ns - a->wait_ns),
		 per_pass(b, b->time_ns - b->wait_ns));
}

static void print_findings(FILE *file, const struct compare_comm *a, const struct compare_comm *b)
{
	fprintf(file, "  %-24s", "last most often");
	print_last(file, a);
	print_last(file, b);
	fputc('\n', file);
	print_finding(file, "late calls", a->late_calls, b->late_calls);
	print_finding(file, "rescues", a->rescues, b->rescues);
	print_finding(file, "mismatches", a->mismatches, b->mismatches);
	print_finding(file, "digest differences", a->digests, b->digests);
	print_finding(file, "lost records", a->lost_records, b->lost_records);
	print_finding(file, "ranks without data",
		      a->nranks - (unsigned)__builtin_popcountll(a->present),
		      b->nranks - (unsigned)__builtin_popcountll(b->present));
	fprintf(file, "  %-24s", "verdict");
	print_verdict(file, a);
	print_verdict(file, b);
	fputc('\n', file);
}

static void print_sameness(const struct output *output, const struct compare_pair *pair)
{
	struct compare_sameness sameness;

	compare_calls(pair, &sameness);
	if (sameness.same) {
		fputs("  the same calls in the same order\n", output->file);
		return;
	}
	text_red(output);
	fputs("  not the same calls", output->file);
	text_plain(output);
	if (sameness.same_pass)
		fprintf(output->file, "; they are up to the end of pass %" PRIu64 " of A",
			sameness.same_pass);
	fputc('\n', output->file);
}

/* Sizes ---------------------------------------------------------------------------------------- */

static void print_size(FILE *file, const struct compare_size *a, const struct compare_size *b)
{
	const struct compare_size *any = a ? a : b;
	char bytes[WORDS_TIME_BYTES], what[WORDS_NAME_BYTES], name[64];

	(void)snprintf(name, sizeof(name), "%s %s%s%s", words_bytes(any->bytes, bytes),
		       any->path ? belay_path_name(any->path) : "?", any->collective ? " " : "",
		       any->collective ? words_op(any->collective, what) : "");
	fprintf(file, "  %-16s", name);
	for (int i = 0; i < 2; i++) {
		const struct compare_size *one = i ? b : a;

		if (one)
			fprintf(file, " %10" PRIu64 " %10.1f %10.1f", one->calls,
				(double)one->latency.p50 / 1e3, (double)one->latency.p99 / 1e3);
		else
			fprintf(file, " %10s %10s %10s", "-", "-", "-");
	}
	if (a && b && a->latency.p50)
		fprintf(file, " %+9.1f %%",
			100.0 * ((double)b->latency.p50 - (double)a->latency.p50) /
				(double)a->latency.p50);
	fputc('\n', file);
}

static int size_order(const struct compare_size *a, const struct compare_size *b)
{
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? -1 : 1;
	if (a->path != b->path)
		return a->path < b->path ? -1 : 1;
	return a->collective - b->collective;
}

/* Both lists are sorted: a merge. */
static void print_sizes(const struct output *output, const struct compare_comm *a,
			const struct compare_comm *b)
{
	size_t i = 0, j = 0;

	text_bold(output);
	fprintf(output->file, "  %-16s %10s %10s %10s %10s %10s %10s %11s\n", "size and path",
		"A calls", "p50, us", "p99, us", "B calls", "p50, us", "p99, us", "p50");
	text_plain(output);
	while (i < a->nsizes || j < b->nsizes) {
		int order = i == a->nsizes   ? 1
			    : j == b->nsizes ? -1
					     : size_order(&a->sizes[i], &b->sizes[j]);

		print_size(output->file, order <= 0 ? &a->sizes[i] : NULL,
			   order >= 0 ? &b->sizes[j] : NULL);
		i += order <= 0;
		j += order >= 0;
	}
	if (a->sizes_left_out || b->sizes_left_out)
		fprintf(output->file, "  and other sizes, calls: A %" PRIu64 ", B %" PRIu64 "\n",
			a->sizes_left_out, b->sizes_left_out);
}

/* Passes --------------------------------------------------------------------------------------- */

static void print_waited_for(FILE *file, int rank)
{
	if (rank >= 0)
		fprintf(file, " %8d", rank);
	else
		fprintf(file, " %8s", "-");
}

static void print_pass(FILE *file, const struct compare_pass *a, const struct compare_pass *b)
{
	fprintf(file, "  %8" PRIu64 " %7" PRIu64 " %12.1f %12.1f %+9.1f %% %12.1f %12.1f", a->pass,
		a->calls, (double)a->duration_ns / 1e3, (double)b->duration_ns / 1e3,
		a->duration_ns ? 100.0 * ((double)b->duration_ns - (double)a->duration_ns) /
					 (double)a->duration_ns
			       : 0.0,
		(double)a->wait_ns / 1e3, (double)b->wait_ns / 1e3);
	fprintf(file, " %12.1f %12.1f", (double)(a->time_ns - a->wait_ns) / 1e3,
		(double)(b->time_ns - b->wait_ns) / 1e3);
	print_waited_for(file, a->waited_for);
	print_waited_for(file, b->waited_for);
	fputc('\n', file);
}

static void print_pass_columns(const struct output *output)
{
	text_bold(output);
	fprintf(output->file, "  %8s %7s %12s %12s %11s %12s %12s %12s %12s %8s %8s\n", "pass",
		"calls", "A, us", "B, us", "change", "wait A", "wait B", "transfer A", "transfer B",
		"for A", "for B");
	text_plain(output);
}

static size_t passes_in_both(const struct compare_comm *a, const struct compare_comm *b)
{
	return a->kept.count < b->kept.count ? a->kept.count : b->kept.count;
}

static void print_all_passes(const struct output *output, const struct compare_comm *a,
			     const struct compare_comm *b)
{
	const struct compare_pass *left = a->kept.items, *right = b->kept.items;
	size_t n = passes_in_both(a, b);

	for (size_t i = 0; i < n; i++)
		print_pass(output->file, &left[i], &right[i]);
	if (a->passes != b->passes || n < a->passes)
		fprintf(output->file,
			"  %" PRIu64 " passes of A and %" PRIu64 " of B are not shown\n",
			a->passes - n, b->passes - n);
}

/* Those that differ most, by time. */
static void print_worst_passes(const struct output *output, const struct compare_comm *a,
			       const struct compare_comm *b)
{
	const struct compare_pass *left = a->kept.items, *right = b->kept.items;
	size_t n = passes_in_both(a, b), shown[PASSES_SHOWN];
	uint64_t last = UINT64_MAX;

	for (size_t k = 0; k < PASSES_SHOWN && k < n; k++) {
		uint64_t most = 0;
		size_t best = n;

		for (size_t i = 0; i < n; i++) {
			uint64_t by = left[i].duration_ns > right[i].duration_ns
					      ? left[i].duration_ns - right[i].duration_ns
					      : right[i].duration_ns - left[i].duration_ns;
			int known = 0;

			for (size_t j = 0; j < k; j++)
				known |= shown[j] == i;
			if (!known && by <= last && (best == n || by > most)) {
				most = by;
				best = i;
			}
		}
		shown[k] = best;
		last = most;
		print_pass(output->file, &left[best], &right[best]);
	}
}

static void print_passes(const struct output *output, const struct compare_comm *a,
			 const struct compare_comm *b, int every_pass)
{
	if (passes_in_both(a, b) == 0)
		return;
	if (!every_pass)
		fputs("  the passes that differ most, the n-th of A against the n-th of B:\n",
		      output->file);
	print_pass_columns(output);
	if (every_pass)
		print_all_passes(output, a, b);
	else
		print_worst_passes(output, a, b);
}

/* All ----------------------------------------------------------------------------------------- */

static void print_heading(const struct output *output, const struct compare_pair *pair)
{
	text_bold(output);
	if (pair->a)
		fprintf(output->file, "A: communicator %s: %" PRIu32 " ranks\n", pair->a->id,
			pair->a->nranks);
	if (pair->b)
		fprintf(output->file, "B: communicator %s: %" PRIu32 " ranks\n", pair->b->id,
			pair->b->nranks);
	text_plain(output);
	if (!pair->a || !pair->b)
		fputs("  has no partner\n", output->file);
}

static void print_pair(const struct output *output, const struct compare_pair *pair, int every_pass)
{
	const struct compare_comm *a = pair->a, *b = pair->b;
	FILE *file = output->file;

	print_heading(output, pair);
	if (!a || !b)
		return;
	print_sameness(output, pair);
	text_bold(output);
	fprintf(file, "  %-24s %14s %14s %11s\n", "", "A", "B", "change");
	text_plain(output);
	print_count(file, "calls", a->calls, b->calls);
	print_count(file, "passes", a->passes, b->passes);
	print_times(file, a, b);
	print_findings(file, a, b);
	print_sizes(output, a, b);
	print_passes(output, a, b, every_pass);
}

void compare_damages_text(const struct output *output, const struct compare_side *side)
{
	const struct input_damage *damages = side->damages.items;

	for (size_t i = 0; i < side->damages.count; i++) {
		text_red(output);
		fputs("damaged or missing", output->file);
		text_plain(output);
		fprintf(output->file, ": %s: %s\n", damages[i].file, damages[i].reason);
	}
}

void compare_text(const struct output *output, const struct compare_side *a,
		  const struct compare_side *b, const struct vector *pairs, int every_pass)
{
	const struct compare_pair *items = pairs->items;

	fprintf(output->file, "A: %s\nB: %s\n", a->name, b->name);
	for (size_t i = 0; i < pairs->count; i++)
		print_pair(output, &items[i], every_pass);
	if (pairs->count == 0)
		fputs("no calls found\n", output->file);
	compare_damages_text(output, a);
	compare_damages_text(output, b);
}
