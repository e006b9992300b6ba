/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_results.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

uint64_t bench_percentile(const uint64_t *sorted, size_t n, double p)
{
	size_t nearest = (size_t)ceil(p * (double)n);

	if (n == 0)
		return 0;
	return sorted[nearest > 0 ? nearest - 1 : 0];
}

/* Calls or passes that all ranks have finished. */
static uint64_t finished_by_all(struct bench_job *job, int passes)
{
	uint64_t least = UINT64_MAX;

	for (uint32_t rank = 0; rank < job->nranks; rank++) {
		struct bench_rank *out = bench_rank(job, rank);
		uint64_t done = atomic_load_explicit(passes ? &out->passes_done : &out->calls_done,
						     memory_order_acquire);

		least = done < least ? done : least;
	}
	return least;
}

/* The slowest rank's time of a call or pass. */
static uint64_t slowest(struct bench_job *job, int passes, uint64_t place)
{
	uint64_t most = 0;

	for (uint32_t rank = 0; rank < job->nranks; rank++) {
		uint64_t ns = (passes ? bench_passes(job, rank) : bench_calls(job, rank))[place];

		most = ns > most ? ns : most;
	}
	return most;
}

/* To the nearest. */
static uint64_t divided(uint64_t ns, uint64_t by)
{
	return (ns + by / 2) / by;
}

/* The slowest rank's, as for calls. */
static void add_host_time(const struct bench_step_result *result, struct bench_row *row)
{
	double host_us = (double)result->host_ns / 1e3;
	double launch_us = (double)result->launch_ns / 1e3;

	row->host_us = host_us > row->host_us ? host_us : row->host_us;
	row->launch_us = launch_us > row->launch_us ? launch_us : row->launch_us;
}

static int same_row(const struct bench_row *row, const struct bench_step *step)
{
	return row->count == step->count && (uint32_t)row->dtype == step->dtype;
}

/* The row of a step; a new one if it is the first of its kind. Rows have room for one for each
 * step. */
static struct bench_row *row_of(struct bench_results *results, const struct bench_step *step)
{
	struct bench_row *row = results->rows;

	while (row < results->rows + results->nrows && !same_row(row, step))
		row++;
	if (row == results->rows + results->nrows) {
		*row = (struct bench_row){
			.count = step->count, .dtype = (enum belay_dtype)step->dtype, .checked = 1};
		row->bytes = step->count * belay_dtype_bytes(row->dtype);
		results->nrows++;
	}
	return row;
}

/* Results may depend on the order in which NCCL sums, but not on the rank. */
static void compare_digests(struct bench_job *job, uint32_t step, struct bench_results *results)
{
	for (uint32_t rank = 1; rank < job->nranks; rank++) {
		if (bench_result(job, rank, step)->digest != bench_result(job, 0, step)->digest)
			results->unlike = 1;
	}
}

/* The path of most calls: of the rank that counted most, since a lost rank has not counted. */
static void add_step(struct bench_job *job, uint32_t step, struct bench_row *row)
{
	uint64_t most = 0;

	for (uint32_t rank = 0; rank < job->nranks; rank++) {
		const struct bench_step_result *result = bench_result(job, rank, step);

		row->checked = row->checked && !result->wrong;
		add_host_time(result, row);
		for (uint32_t path = 0; path < 8; path++) {
			if (result->calls_by_path[path] <= most)
				continue;
			most = result->calls_by_path[path];
			row->path = (enum belay_path)path;
			row->algorithm = (enum belay_algorithm)result->algorithm;
		}
	}
}

/* Collects the slowest ranks' times of a row's samples, for a call each; returns how many. */
static size_t collect(struct bench_row *row, struct bench_job *job, uint64_t finished,
		      uint64_t *times)
{
	const struct bench_step *steps = bench_steps(job);
	size_t n = 0;

	for (uint32_t i = 0; i < job->nsteps; i++) {
		uint64_t end = steps[i].first_call + steps[i].passes * steps[i].calls;

		if (!same_row(row, &steps[i]))
			continue;
		for (uint64_t call = steps[i].first_call; call < end && call < finished; call++) {
			times[n++] = divided(slowest(job, 0, call), steps[i].per_sample);
			row->calls += steps[i].per_sample;
		}
	}
	return n;
}

static void fill_row(struct bench_row *row, struct bench_job *job, uint64_t finished,
		     uint64_t *times)
{
	size_t n = collect(row, job, finished, times);
	double ranks = job->nranks;

	qsort(times, n, sizeof(*times), compare_numbers);
	row->checked = row->checked && n > 0;
	row->min_us = (double)bench_percentile(times, n, 0.0) / 1e3;
	row->p50_us = (double)bench_percentile(times, n, 0.5) / 1e3;
	row->p99_us = (double)bench_percentile(times, n, 0.99) / 1e3;
	if (row->p50_us > 0)
		row->busbw_gbps = (double)row->bytes / row->p50_us / 1e3 * 2 * (ranks - 1) / ranks;
}

static void fill_passes(struct bench_results *results, struct bench_job *job, uint64_t *times)
{
	size_t n = (size_t)finished_by_all(job, 1);

	for (size_t i = 0; i < n; i++)
		times[i] = slowest(job, 1, i);
	qsort(times, n, sizeof(*times), compare_numbers);
	results->passes = n;
	results->pass_p50_ms = (double)bench_percentile(times, n, 0.5) / 1e6;
	results->pass_p99_ms = (double)bench_percentile(times, n, 0.99) / 1e6;
}

static int same_verdict(const struct bench_rank *a, const struct bench_rank *b)
{
	return a->verdict_seq == b->verdict_seq && a->verdict_cause == b->verdict_cause &&
	       a->verdict_rank == b->verdict_rank;
}

static int was_lost(const struct rank_process *process)
{
	return process->overdue || WIFSIGNALED(process->wait_status);
}

static void add_rank(struct bench_results *results, struct bench_job *job, uint32_t rank,
		     const struct rank_process *process)
{
	const struct bench_rank *out = bench_rank(job, rank);
	const struct bench_rank *first;

	results->wrong += out->wrong;
	if (was_lost(process))
		results->lost_ranks |= UINT64_C(1) << rank;
	if (out->rescued_seqs > results->rescues)
		results->rescues = out->rescued_seqs;
	if (out->status || out->wrong || out->output_touched || process->wait_status)
		results->failed = 1;
	if (!out->has_verdict)
		return;
	results->failed = 1;
	if (results->verdict_ranks) {
		first = bench_rank(job, (uint32_t)__builtin_ctzll(results->verdict_ranks));
		results->agreed = results->agreed && same_verdict(first, out);
	}
	results->verdict_ranks |= UINT64_C(1) << rank;
}

int bench_results_gather(struct bench_job *job, const struct rank_processes *processes,
			 const char *backend, struct bench_results *ret_results)
{
	struct bench_results results = {.backend = backend,
					.op = (enum belay_op)job->op,
					.nranks = job->nranks,
					.host_time = (int)job->host_time,
					.agreed = 1};
	uint64_t finished = finished_by_all(job, 0);
	uint64_t most = job->ncalls > job->npasses ? job->ncalls : job->npasses;
	uint64_t *times = malloc((size_t)(most + 1) * sizeof(*times));
	int status = -1;

	results.rows = malloc((job->nsteps + 1) * sizeof(*results.rows));
	if (!times || !results.rows) {
		free(results.rows);
		goto out;
	}
	for (uint32_t rank = 0; rank < job->nranks; rank++)
		add_rank(&results, job, rank, &processes->rank[rank]);
	for (uint32_t i = 0; i < job->nsteps; i++)
		add_step(job, i, row_of(&results, &bench_steps(job)[i]));
	/* A run that ended early has not looked at the same results everywhere. */
	for (uint32_t i = 0; i < job->nsteps && !results.failed; i++)
		compare_digests(job, i, &results);
	results.failed = results.failed || results.unlike;
	for (size_t i = 0; i < results.nrows; i++)
		fill_row(&results.rows[i], job, finished, times);
	fill_passes(&results, job, times);
	*ret_results = results;
	status = 0;
out:
	free(times);
	return status;
}

void bench_results_free(struct bench_results *results)
{
	free(results->rows);
	results->rows = NULL;
}

static void complain_of_end(uint32_t rank, const struct rank_process *process)
{
	int status = process->wait_status;

	if (process->overdue)
		command_error("rank %" PRIu32 " did not end in time and was killed", rank);
	else if (WIFSIGNALED(status))
		command_error("rank %" PRIu32 " was killed by signal %d (%s)", rank,
			      WTERMSIG(status), strsignal(WTERMSIG(status)));
	else if (WIFEXITED(status) && WEXITSTATUS(status) > 1)
		command_error("rank %" PRIu32 " could not be started: exit status %d", rank,
			      WEXITSTATUS(status));
}

/* Each failure once, with the ranks that had it. */
static void complain_of_error(struct bench_job *job, uint32_t rank)
{
	const struct bench_rank *out = bench_rank(job, rank);
	int others = 0;

	if (!out->error[0] || out->has_verdict)
		return;
	for (uint32_t other = 0; other < job->nranks; other++) {
		if (other == rank || strcmp(bench_rank(job, other)->error, out->error) != 0)
			continue;
		if (other < rank)
			return;
		others++;
	}
	if (others)
		command_error("rank %" PRIu32 " and %d more: %s", rank, others, out->error);
	else
		command_error("rank %" PRIu32 ": %s", rank, out->error);
}

void bench_results_complain(const struct bench_results *results, struct bench_job *job,
			    const struct rank_processes *processes)
{
	for (uint32_t rank = 0; rank < job->nranks; rank++) {
		complain_of_end(rank, &processes->rank[rank]);
		complain_of_error(job, rank);
	}
	if (results->unlike)
		command_error("the ranks' results of calls on NCCL differ");
	if (results->wrong)
		command_error("%" PRIu64 " wrong results", results->wrong);
	if (!results->agreed)
		command_error("the ranks report different verdicts");
}

/* Whether a fault, a part of BELAY_FAULT, is known to have been carried out nowhere. A rank that
 * told no statistics may have done so, and in the end of their communicator all may. */
static int is_idle(struct bench_job *job, const char *fault, int number)
{
	const char *name = strstr(fault, "rank=");
	int every = !name || name[5] == '*';
	uint32_t first = every ? 0 : (uint32_t)strtoul(name + 5, NULL, 10);
	uint32_t last = every ? job->nranks - 1 : first;

	if (strstr(fault, "at=destroy"))
		return 0;
	for (uint32_t rank = first; rank <= last && rank < job->nranks; rank++) {
		const struct bench_rank *out = bench_rank(job, rank);

		if (!out->has_statistics || out->faults_done >> number & 1)
			return 0;
	}
	return 1;
}

int bench_results_tell_faults(struct bench_job *job, const char *faults)
{
	char *text = strdup(faults), *rest = text;
	int number = 0, told = 0;

	for (char *fault = strsep(&rest, ";"); fault; fault = strsep(&rest, ";")) {
		if (*fault && is_idle(job, fault, number)) {
			command_error("the fault '%s' was never carried out", fault);
			told++;
		}
		number++;
	}
	free(text);
	return told;
}
