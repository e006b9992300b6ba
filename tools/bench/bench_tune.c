/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_tune.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench_group.h"

/* Turns taken by the algorithms: the machine's state changes within seconds. Odd, for the
 * median. */
#define ROUNDS 3

struct measured {
	uint64_t bytes;
	double us[2][ROUNDS]; /* one-shot, two-shot */
};

static const struct bench_algorithm algorithms[2] = {
	{"oneshot", BELAY_ALGORITHM_ONESHOT, "oneshot-wire", "oneshot-packets"},
	{"twoshot", BELAY_ALGORITHM_TWOSHOT, "twoshot-wire", "twoshot-pull"}};

uint64_t bench_tune_choose(const uint64_t *sizes, const double *oneshot_us,
			   const double *twoshot_us, size_t n)
{
	double least = 0, cost = 0;
	size_t from = n;

	/* From the end: the cost of two-shot from i on, against one-shot everywhere. */
	for (size_t i = n; i-- > 0;) {
		double better = oneshot_us[i] < twoshot_us[i] ? oneshot_us[i] : twoshot_us[i];

		if (better > 0)
			cost += (twoshot_us[i] - oneshot_us[i]) / better;
		if (cost < least) {
			least = cost;
			from = i;
		}
	}
	return from < n ? sizes[from] : UINT64_MAX;
}

static int compare_bytes(const void *a, const void *b)
{
	const struct measured *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static double median(const double *values)
{
	double low = values[0] < values[1] ? values[0] : values[1];
	double high = values[0] < values[1] ? values[1] : values[0];

	return values[2] < low ? low : values[2] > high ? high : values[2];
}

/* One round of one algorithm. Returns as bench_group_run(). */
static int measure_once(const struct bench_options *options, int which, int round,
			struct measured *measured)
{
	struct bench_group group;
	int status;

	if (bench_group_force(options->nranks, &algorithms[which], options->blocks[0],
			      options->threads[0])) {
		command_error("cannot choose the algorithm: %s", strerror(errno));
		return 1;
	}
	status = bench_group_run(options, &group);
	if (status)
		return status;
	for (uint32_t i = 0; i < group.results.nrows; i++) {
		measured[i].bytes = group.results.rows[i].bytes;
		measured[i].us[which][round] = group.results.rows[i].p50_us;
	}
	if (group.results.failed) {
		bench_results_complain(&group.results, group.job, &group.processes);
		status = 1;
	}
	bench_group_free(&group);
	return status;
}

static int measure(const struct bench_options *options, struct measured *measured)
{
	int status = 0;

	for (int turn = 0; turn < 2 * ROUNDS && status == 0; turn++)
		status = measure_once(options, turn % 2, turn / 2, measured);
	return status;
}

/* Copies from an earlier file the lines that do not begin like those that are to be written: what
 * it says of other numbers of ranks, or of other memory. */
static void keep_others(const char *name, const char *replaced, FILE *output)
{
	FILE *input = fopen(name, "re");
	char line[256];

	if (!input)
		return;
	while (fgets(line, sizeof(line), input)) {
		if (strncmp(line, "ranks=", strlen("ranks=")) == 0 &&
		    strncmp(line, replaced, strlen(replaced)) != 0)
			fputs(line, output);
	}
	(void)fclose(input); /* only read */
}

struct found {
	const struct bench_options *options;
	const struct measured *measured;
	size_t n;
	uint64_t from;
};

static void write_lines(FILE *output, const void *user)
{
	const struct found *found = user;
	const struct bench_options *options = found->options;
	const struct measured *measured = found->measured;
	size_t n = found->n;
	uint64_t from = found->from;

	fprintf(output,
		"# belay-bench --tune, %" PRIu32 " ranks, %s: bytes, one-shot us, two-shot us\n",
		options->nranks, belay_dtype_name(options->dtype));
	for (size_t i = 0; i < n; i++)
		fprintf(output, "# %" PRIu64 " %.2f %.2f\n", measured[i].bytes,
			median(measured[i].us[0]), median(measured[i].us[1]));
	fprintf(output, "ranks=%" PRIu32 " twoshot_from=%" PRIu64 "\n", options->nranks, from);
}

int bench_tune_write(const struct bench_options *options, const char *replaced,
		     void (*write)(FILE *output, const void *user), const void *user)
{
	char name[4096];
	FILE *output;
	int status;

	snprintf(name, sizeof(name), "%s.%ld", options->tune, (long)getpid());
	output = fopen(name, "we");
	if (!output) {
		command_error("cannot write '%s': %s", options->tune, strerror(errno));
		return COMMAND_NOT_WRITTEN;
	}
	keep_others(options->tune, replaced, output);
	write(output, user);
	status = command_finish(output, options->tune, 0);
	if (fclose(output) && status == 0) {
		command_error("cannot write '%s': %s", options->tune, strerror(errno));
		status = COMMAND_NOT_WRITTEN;
	}
	if (status == 0 && rename(name, options->tune)) {
		command_error("cannot write '%s': %s", options->tune, strerror(errno));
		status = COMMAND_NOT_WRITTEN;
	}
	if (status)
		(void)unlink(name); /* nothing else to be done about it */
	return status;
}

static void print_text(const struct bench_options *options, const struct measured *measured,
		       size_t n, uint64_t from)
{
	printf("%10s %12s %12s\n", "bytes", "oneshot_us", "twoshot_us");
	for (size_t i = 0; i < n; i++)
		printf("%10" PRIu64 " %12.2f %12.2f\n", measured[i].bytes,
		       median(measured[i].us[0]), median(measured[i].us[1]));
	if (from == UINT64_MAX)
		printf("\n%" PRIu32 " ranks: one-shot for all sizes; written to %s\n",
		       options->nranks, options->tune);
	else
		printf("\n%" PRIu32 " ranks: two-shot from %" PRIu64 " bytes on; written to %s\n",
		       options->nranks, from, options->tune);
}

static void print_json(const struct bench_options *options, const struct measured *measured,
		       size_t n, uint64_t from)
{
	json_t *rows = json_array();
	json_t *document;

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(
			rows, json_pack("{s:I, s:f, s:f}", "bytes", (json_int_t)measured[i].bytes,
					"oneshot_us", median(measured[i].us[0]), "twoshot_us",
					median(measured[i].us[1])));
	document = json_pack("{s:I, s:o, s:o, s:s}", "ranks", (json_int_t)options->nranks,
			     "twoshot_from",
			     from == UINT64_MAX ? json_null() : json_integer((json_int_t)from),
			     "rows", rows, "file", options->tune);
	/* What stdio could not write, command_finish() tells. */
	(void)json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(document);
}

static int conclude(const struct bench_options *options, struct measured *measured, size_t n)
{
	uint64_t sizes[BENCH_SIZES_MAX];
	double us[2][BENCH_SIZES_MAX];
	struct found found = {.options = options, .measured = measured, .n = n};
	char replaced[64];
	uint64_t from;
	int status;

	qsort(measured, n, sizeof(*measured), compare_bytes);
	for (size_t i = 0; i < n; i++) {
		sizes[i] = measured[i].bytes;
		us[0][i] = median(measured[i].us[0]);
		us[1][i] = median(measured[i].us[1]);
	}
	from = bench_tune_choose(sizes, us[0], us[1], n);
	found.from = from;
	snprintf(replaced, sizeof(replaced), "ranks=%" PRIu32 " twoshot_from=", options->nranks);
	status = bench_tune_write(options, replaced, write_lines, &found);
	if (status)
		return status;
	if (options->format == COMMAND_JSON)
		print_json(options, measured, n, from);
	else
		print_text(options, measured, n, from);
	return command_finish(stdout, "standard output", 0);
}

/* Sizes that stand twice in the list make one row. */
static size_t count_rows(const struct measured *measured, size_t n)
{
	size_t rows = 0;

	while (rows < n && measured[rows].us[0][0] > 0)
		rows++;
	return rows;
}

int bench_tune(const struct bench_options *options)
{
	struct measured *measured = calloc(options->nsizes, sizeof(*measured));
	int status;

	if (!measured) {
		command_error("out of memory");
		return 1;
	}
	status = measure(options, measured);
	if (status == 0)
		status = conclude(options, measured, count_rows(measured, options->nsizes));
	free(measured);
	return status;
}
