/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast calls are: 122 in a graph, every algorithm with a choice of grids, ranks of one process
 * on one GPU, or on BELAY_GPU_DEVICES of them. What is measured is the last rank's second replay of
 * two in a row, while all ranks are at it. The best grid of each algorithm goes to stdout, best
 * first; all of them to --out.
 *
 * usage: check_kernels --time [--ranks N,...] [--bytes N,...] [--algorithm N] [--seconds N] [--out
 * FILE]
 *
 * Columns: ranks, bytes, algorithm, blocks, threads, microseconds a call.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/sum_types.h"
#include "tests/gpu/kernel_ranks.h"

#define GRAPH_CALLS 122
#define LISTS_MAX   16
#define ROWS_MAX    256
#define ROW_NS	    UINT64_C(3000000000) /* of one ranks and bytes */
#define SECONDS	    240
#define MB	    (UINT64_C(1) << 20)

struct list {
	unsigned count;
	uint64_t value[LISTS_MAX];
};

struct plan {
	struct list ranks, bytes;
	int algorithm; /* -1: all */
	uint64_t deadline_ns;
	FILE *out; /* NULL: none */
};

struct row {
	unsigned algorithm, blocks, threads;
	double us;
};

struct rows {
	unsigned count;
	struct row row[ROWS_MAX];
};

/* ---- one measurement ---------------------------------------------------------------------- */

static cudaGraphExec_t capture(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CUDA(cudaStreamBeginCapture(stream_of(ranks, rank), cudaStreamCaptureModeThreadLocal));
	for (unsigned i = 0; i < GRAPH_CALLS; i++)
		kernel_ranks_enqueue(ranks, rank, trial, stream_of(ranks, rank));
	CUDA(cudaStreamEndCapture(stream_of(ranks, rank), &graph));
	CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
	CUDA(cudaGraphUpload(exec, stream_of(ranks, rank)));
	CUDA(cudaGraphDestroy(graph));
	return exec;
}

/* Microseconds a call in the last rank's second replay. */
static double replay(struct kernel_ranks *ranks, cudaGraphExec_t *exec, cudaEvent_t *event)
{
	float ms = 0;

	for (unsigned r = 0; r < ranks->nranks; r++) {
		bool last = r + 1 == ranks->nranks;

		CUDA(cudaGraphLaunch(exec[r], stream_of(ranks, r)));
		if (last)
			CUDA(cudaEventRecord(event[0], stream_of(ranks, r)));
		CUDA(cudaGraphLaunch(exec[r], stream_of(ranks, r)));
		if (last)
			CUDA(cudaEventRecord(event[1], stream_of(ranks, r)));
	}
	ranks->turn += 2 * GRAPH_CALLS;
	kernel_ranks_wait(ranks, NULL, NULL);
	/* Kernels that have failed are fast. */
	if (kernel_ranks_staged(ranks, 0) != ranks->turn) {
		printf("# %u ranks: the graph stopped in turn %" PRIu64 "\n", ranks->nranks,
		       kernel_ranks_staged(ranks, 0));
		exit(1);
	}
	CUDA(cudaEventElapsedTime(&ms, event[0], event[1]));
	return (double)ms * 1000 / GRAPH_CALLS;
}

/* The best of three. */
static double measure(struct kernel_ranks *ranks, const struct trial *trial)
{
	cudaGraphExec_t exec[SYMM_RANKS_MAX];
	cudaEvent_t event[2];
	double best = 0;

	(void)stream_of(ranks, ranks->nranks - 1); /* its device's */
	for (unsigned i = 0; i < 2; i++)
		CUDA(cudaEventCreate(&event[i]));
	for (unsigned r = 0; r < ranks->nranks; r++)
		exec[r] = capture(ranks, r, trial);
	for (unsigned i = 0; i < 3; i++) {
		double us = replay(ranks, exec, event);

		if (i == 0 || us < best)
			best = us;
	}
	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(cudaGraphExecDestroy(exec[r]));
	for (unsigned i = 0; i < 2; i++)
		CUDA(cudaEventDestroy(event[i]));
	return best;
}

/* ---- rows --------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct row *first = a, *second = b;

	return (first->us > second->us) - (first->us < second->us);
}

static void print_row(FILE *out, const struct kernel_ranks *ranks, uint64_t bytes,
		      const struct row *row)
{
	fprintf(out, "%u\t%" PRIu64 "\t%s\t%u\t%u\t%.2f\n", ranks->nranks, bytes,
		algorithm_name(row->algorithm), row->blocks, row->threads, row->us);
}

/* The best of each algorithm, best first. */
static void print_best(const struct kernel_ranks *ranks, uint64_t bytes, struct rows *rows,
		       FILE *out)
{
	unsigned printed = 0;

	qsort(rows->row, rows->count, sizeof(rows->row[0]), by_time);
	for (unsigned i = 0; i < rows->count; i++) {
		if (out)
			print_row(out, ranks, bytes, &rows->row[i]);
		if (printed >> rows->row[i].algorithm & 1)
			continue;
		printed |= 1u << rows->row[i].algorithm;
		print_row(stdout, ranks, bytes, &rows->row[i]);
	}
	fflush(stdout);
}

/* It must be resident beside the other ranks', and have work for its threads. */
static bool grid_makes_sense(const struct kernel_ranks *ranks, const struct trial *trial)
{
	size_t packets = trial->count * element_bytes(trial->dtype) / 8;

	return trial->blocks == 1 || (trial->blocks <= blocks_that_fit(ranks) &&
				      (size_t)trial->blocks / 2 * trial->threads < packets);
}

static void measure_grids(struct kernel_ranks *ranks, struct trial *trial, uint64_t row_end,
			  struct rows *rows)
{
	static const uint16_t blocks[] = {7,  14, 15, 31, 62, 4, 8,  16,
					  32, 64, 2,  24, 48, 1, 12, 128};
	static const uint16_t threads[] = {256, 512, 128};

	for (unsigned b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++)
		for (unsigned t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
			trial->blocks = blocks[b];
			trial->threads = threads[t];
			if (now_ns() > row_end || rows->count == ROWS_MAX ||
			    !grid_makes_sense(ranks, trial))
				continue;
			rows->row[rows->count++] = (struct row){.algorithm = trial->algorithm,
								.blocks = blocks[b],
								.threads = threads[t],
								.us = measure(ranks, trial)};
		}
}

/* Each algorithm has its share of the row's time. */
static void measure_bytes(struct kernel_ranks *ranks, const struct plan *plan, uint64_t bytes)
{
	struct rows rows = {.count = 0};

	for (unsigned a = 0; a < SYMM_ALGORITHMS; a++) {
		struct trial trial = {.dtype = HOST_SUM_BF16,
				      .op = HOST_SUM_SUM,
				      .algorithm = (uint8_t)a,
				      .count = bytes / 2};
		uint64_t end = now_ns() + ROW_NS / SYMM_ALGORITHMS;

		if (end > plan->deadline_ns)
			end = plan->deadline_ns;
		if ((plan->algorithm >= 0 && plan->algorithm != (int)a) ||
		    !algorithm_takes(ranks, a, HOST_SUM_BF16, bytes))
			continue;
		measure_grids(ranks, &trial, end, &rows);
	}
	print_best(ranks, bytes, &rows, plan->out);
}

static void measure_ranks(unsigned nranks, const struct plan *plan)
{
	struct kernel_ranks ranks;

	kernel_ranks_open(&ranks, nranks, 8 * MB, 8 * MB);
	for (unsigned i = 0; i < plan->bytes.count && now_ns() < plan->deadline_ns; i++)
		if (plan->bytes.value[i] <= 8 * MB)
			measure_bytes(&ranks, plan, plan->bytes.value[i]);
	kernel_ranks_close(&ranks);
}

/* ---- options ------------------------------------------------------------------------------ */

static struct list read_list(const char *text)
{
	struct list list = {.count = 0};
	char *end;

	while (*text && list.count < LISTS_MAX) {
		list.value[list.count++] = strtoull(text, &end, 0);
		text = *end ? end + 1 : end;
	}
	return list;
}

static bool read_option(struct plan *plan, const char *name, const char *value)
{
	if (strcmp(name, "--ranks") == 0)
		plan->ranks = read_list(value);
	else if (strcmp(name, "--bytes") == 0)
		plan->bytes = read_list(value);
	else if (strcmp(name, "--algorithm") == 0)
		plan->algorithm = atoi(value);
	else if (strcmp(name, "--seconds") == 0)
		plan->deadline_ns = now_ns() + strtoull(value, NULL, 0) * UINT64_C(1000000000);
	else if (strcmp(name, "--out") == 0)
		return (plan->out = fopen(value, "w")) != NULL;
	else
		return false;
	return true;
}

int time_kernels(int argc, char **argv)
{
	struct plan plan = {
		.ranks = read_list("2,4,8"),
		.bytes =
			read_list("14336,16384,65536,114688,262144,524288,1048576,2097152,8388608"),
		.algorithm = -1,
		.deadline_ns = now_ns() + SECONDS * UINT64_C(1000000000),
	};

	for (int i = 1; i < argc; i += 2)
		if (i + 1 == argc || !read_option(&plan, argv[i], argv[i + 1])) {
			fprintf(stderr, "check_kernels: '%s' is not understood; see its source\n",
				argv[i]);
			return 2;
		}
	for (unsigned i = 0; i < plan.ranks.count && now_ns() < plan.deadline_ns; i++)
		measure_ranks((unsigned)plan.ranks.value[i], &plan);
	if (plan.out)
		fclose(plan.out);
	return 0;
}
