/* SPDX-License-Identifier: Apache-2.0 */
/* What came out of a run of belay-bench, put together from all ranks. */
#ifndef BELAY_TOOLS_BENCH_RESULTS_H
#define BELAY_TOOLS_BENCH_RESULTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/bench/bench_job.h"
#include "tools/bench/rank_processes.h"
#include "tools/command_line.h"

/* All calls of one size and type. Times are those of the slowest rank of each call. */
struct bench_row {
	uint64_t count, bytes;
	enum belay_dtype dtype;
	enum belay_path path;		/* of most of its calls; 0: none finished */
	enum belay_algorithm algorithm; /* of the last */
	uint64_t calls;			/* finished by all ranks */
	double min_us, p50_us, p99_us;
	double host_us, launch_us; /* medians of the host's time in a call, and of a bare launch */
	double busbw_gbps; /* at the median: bytes / time * 2 (n - 1) / n, in 10^9 bytes a second */
	int checked;	   /* every rank's every result was right */
};

struct bench_results {
	const char *backend;
	enum belay_op op;
	uint32_t nranks;
	int host_time;		/* the rows have the host's times */
	struct bench_row *rows; /* owned */
	size_t nrows;
	uint64_t passes; /* committed on all ranks */
	double pass_p50_ms, pass_p99_ms;
	uint64_t rescues;	/* seqs */
	uint64_t wrong;		/* results, of all ranks */
	uint64_t verdict_ranks; /* mask: ranks that report a verdict */
	uint64_t lost_ranks;	/* mask: ranks that were killed or did not end */
	int agreed;		/* all verdicts are the same */
	int unlike; /* results that may be rounded freely are not the same on all ranks */
	int failed; /* anything went wrong at all */
};

/* Needs the job after the end of its ranks. Returns 0, or -1 without memory. */
int bench_results_gather(struct bench_job *job, const struct rank_processes *processes,
			 const char *backend, struct bench_results *ret_results);
void bench_results_free(struct bench_results *results);

/* Tells on stderr what went wrong with which rank. */
void bench_results_complain(const struct bench_results *results, struct bench_job *job,
			    const struct rank_processes *processes);

/* Tells on stderr each of `faults`, in the form of BELAY_FAULT, that no rank has carried out.
 * Returns how many. */
int bench_results_tell_faults(struct bench_job *job, const char *faults);

/* Prints to stdout. Returns 0, or -1 without memory. */
int bench_results_print(const struct bench_results *results, struct bench_job *job,
			enum command_format format);

/* The p-th part of n sorted numbers, by the nearest rank; 0 when there are none. */
uint64_t bench_percentile(const uint64_t *sorted, size_t n, double p);

#endif /* BELAY_TOOLS_BENCH_RESULTS_H */
