/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning on GPUs: every algorithm in every shape for all sizes, in graphs. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/bench/bench_device.h"
#include "tools/bench/bench_group.h"
#include "tools/bench/bench_tune.h"

/* What the library takes of one number of ranks and topology. */
#define ROWS_MAX 16

/* What won for a size. */
struct best {
	uint64_t bytes;
	double us;	 /* of the best */
	double other_us; /* of the best that carries every type */
	const struct bench_algorithm *algorithm, *other;
	uint32_t blocks, threads;
};

struct tuned {
	const struct bench_options *options;
	const char *topology;
	struct best *best;
	size_t n;
};

static const uint32_t default_blocks[] = {8, 16, 32, 64, 128};
static const uint32_t default_threads[] = {256, 512};

static int carries_every_type(const struct bench_algorithm *algorithm)
{
	return strcmp(algorithm->device, algorithm->other) == 0;
}

/* Where the library has no room for an algorithm it takes another; then this is that one's time,
 * and the row does what was measured. */
static void take_row(const struct bench_row *row, const struct bench_algorithm *algorithm,
		     uint32_t blocks, uint32_t threads, struct best *best)
{
	best->bytes = row->bytes;
	if (row->calls == 0)
		return;
	if (!best->algorithm || row->p50_us < best->us) {
		best->us = row->p50_us;
		best->algorithm = algorithm;
		best->blocks = blocks;
		best->threads = threads;
	}
	if (carries_every_type(algorithm) && (!best->other || row->p50_us < best->other_us)) {
		best->other_us = row->p50_us;
		best->other = algorithm;
	}
}

/* All sizes with one algorithm in one shape. Returns as bench_group_run(). */
static int measure(struct tuned *tuned, const struct bench_algorithm *algorithm, uint32_t blocks,
		   uint32_t threads)
{
	struct bench_group group;
	int status;

	if (bench_group_force(tuned->options->nranks, algorithm, blocks, threads)) {
		command_error("cannot choose the algorithm: %s", strerror(errno));
		return 1;
	}
	status = bench_group_run(tuned->options, &group);
	if (status)
		return status;
	tuned->n = group.results.nrows;
	for (size_t i = 0; i < tuned->n; i++)
		take_row(&group.results.rows[i], algorithm, blocks, threads, &tuned->best[i]);
	if (group.results.failed) {
		bench_results_complain(&group.results, group.job, &group.processes);
		status = 1;
	}
	bench_group_free(&group);
	return status;
}

static int measure_shapes(struct tuned *tuned, const struct bench_algorithm *algorithm)
{
	const struct bench_options *options = tuned->options;
	const uint32_t *blocks = options->nblocks ? options->blocks : default_blocks;
	const uint32_t *threads = options->nthreads ? options->threads : default_threads;
	size_t nblocks = options->nblocks ? options->nblocks : 5;
	size_t nthreads = options->nthreads ? options->nthreads : 2;
	int status = 0;

	for (size_t i = 0; i < nblocks * nthreads && status == 0; i++)
		status = measure(tuned, algorithm, blocks[i / nthreads], threads[i % nthreads]);
	return status;
}

static int compare_bytes(const void *a, const void *b)
{
	const struct best *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int same_shape(const struct best *a, const struct best *b)
{
	return a->algorithm == b->algorithm && a->other == b->other && a->blocks == b->blocks &&
	       a->threads == b->threads;
}

/* Half way to the next size, as sizes grow; the last row is for all above. */
static uint64_t end_of(const struct tuned *tuned, size_t i)
{
	if (i + 1 == tuned->n)
		return BENCH_SIZE_MAX;
	return (uint64_t)sqrt((double)tuned->best[i].bytes * (double)tuned->best[i + 1].bytes);
}

static void write_rows(FILE *output, const void *user)
{
	const struct tuned *tuned = user;
	size_t rows = 0;

	fprintf(output, "# belay-bench --tune, %" PRIu32 " ranks, %s: bytes, us of the best\n",
		tuned->options->nranks, belay_dtype_name(tuned->options->dtype));
	for (size_t i = 0; i < tuned->n; i++)
		fprintf(output, "# %" PRIu64 " %.2f\n", tuned->best[i].bytes, tuned->best[i].us);
	for (size_t i = 0; i < tuned->n; i++) {
		const struct best *best = &tuned->best[i];
		int last = i + 1 == tuned->n;

		if (!last && (rows == ROWS_MAX - 1 || same_shape(best, best + 1)))
			continue; /* the next row has it */
		bench_group_write_row(output, tuned->options->nranks, tuned->topology,
				      end_of(tuned, i), best->algorithm, best->other->device,
				      best->blocks, best->threads);
		rows++;
	}
}

static void print_text(const struct tuned *tuned)
{
	printf("%10s %10s %-16s %-16s %7s %7s\n", "bytes", "us", "algorithm", "other", "blocks",
	       "threads");
	for (size_t i = 0; i < tuned->n; i++) {
		const struct best *best = &tuned->best[i];

		printf("%10" PRIu64 " %10.2f %-16s %-16s %7" PRIu32 " %7" PRIu32 "\n", best->bytes,
		       best->us, best->algorithm->device, best->other->device, best->blocks,
		       best->threads);
	}
	printf("\n%" PRIu32 " ranks, topology %s; written to %s\n", tuned->options->nranks,
	       tuned->topology, tuned->options->tune);
}

static void print_json(const struct tuned *tuned)
{
	json_t *rows = json_array();
	json_t *document;

	for (size_t i = 0; i < tuned->n; i++) {
		const struct best *best = &tuned->best[i];

		(void)json_array_append_new(
			rows,
			json_pack("{s:I, s:f, s:s, s:s, s:I, s:I}", "bytes",
				  (json_int_t)best->bytes, "us", best->us, "algorithm",
				  best->algorithm->device, "other", best->other->device, "blocks",
				  (json_int_t)best->blocks, "threads", (json_int_t)best->threads));
	}
	document =
		json_pack("{s:I, s:s, s:o, s:s}", "ranks", (json_int_t)tuned->options->nranks,
			  "topology", tuned->topology, "rows", rows, "file", tuned->options->tune);
	/* What stdio could not write, command_finish() tells. */
	(void)json_dumpf(document, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(document);
}

static int conclude(struct tuned *tuned)
{
	const struct bench_options *options = tuned->options;
	char replaced[64];
	int status;

	qsort(tuned->best, tuned->n, sizeof(*tuned->best), compare_bytes);
	for (size_t i = 0; i < tuned->n; i++) {
		if (!tuned->best[i].algorithm || !tuned->best[i].other) {
			command_error("nothing was measured for %" PRIu64 " bytes",
				      tuned->best[i].bytes);
			return 1;
		}
	}
	snprintf(replaced, sizeof(replaced), "ranks=%" PRIu32 " topology=%s ", options->nranks,
		 tuned->topology);
	status = bench_tune_write(options, replaced, write_rows, tuned);
	if (status)
		return status;
	if (options->format == COMMAND_JSON)
		print_json(tuned);
	else
		print_text(tuned);
	return command_finish(stdout, "standard output", 0);
}

static const char *topology_of(const struct bench_options *options)
{
	uint32_t used = options->nranks < options->devices ? options->nranks : options->devices;

	if (used == 1)
		return "one_device";
	if (options->nranks > options->devices)
		return "mixed";
	for (uint32_t i = 1; i < used; i++) {
		if (!bench_device_linked(0, (int)i))
			return "pcie";
	}
	return "nvlink";
}

int bench_tune_device(const struct bench_options *options)
{
	struct tuned tuned = {.options = options, .topology = topology_of(options)};
	int status = 0;

	tuned.best = calloc(options->nsizes, sizeof(*tuned.best));
	if (!tuned.best) {
		command_error("out of memory");
		return 1;
	}
	for (size_t i = 0; i < BENCH_DEVICE_ALGORITHMS && status == 0; i++)
		status = measure_shapes(&tuned, &bench_algorithms[i]);
	if (status == 0)
		status = conclude(&tuned);
	free(tuned.best);
	return status;
}
