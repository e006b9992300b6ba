/* SPDX-License-Identifier: Apache-2.0 */
/* One rank's run, as the files share it that carry it out: bench_rank.c (ranks, host memory) and
 * bench_device_run.c, bench_device_calls.c, bench_device_graph.c (device memory). */
#ifndef BELAY_TOOLS_BENCH_RUN_H
#define BELAY_TOOLS_BENCH_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "tools/bench/bench_job.h"

struct device_run;

struct bench_run {
	struct bench_job *job;
	struct bench_rank *out;
	uint32_t rank;
	struct belay_comm *comm;
	void *pool[BENCH_DTYPES]; /* this rank's input, in memory of its own */
	char *send, *recv;	  /* host backend; the same buffer in place */
	uint64_t seq;		  /* of the next call */
	uint64_t calls_done;	  /* timed samples */
	uint64_t ready_ns;	  /* when the rank was done with the call before */
	/* What recv holds when the next call begins, to see whether a refused call wrote. */
	const void *held;
	size_t held_bytes;
	struct device_run *device; /* NULL: host backend */
};

uint64_t bench_now_ns(void);

/* Keeps the first failure; the command tells it. Returns `status`. */
int bench_run_failed(struct bench_run *run, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Where in the pools the data of a call stands, bytes: another place than that of the call before.
 */
size_t bench_place_of(uint64_t seq);

/* Keeps the time of one more timed sample. */
void bench_run_keep(struct bench_run *run, uint64_t ns);
/* Keeps the time of the pass with this number, from 0. */
void bench_run_keep_pass(struct bench_run *run, uint64_t number, uint64_t ns);

/* Counts a wrong result; true: it is to be told as well. */
int bench_run_count_wrong(struct bench_run *run, struct bench_step_result *result);
/* Tells the first wrong element of a result; both in host memory. */
void bench_run_tell_wrong(const struct bench_run *run, uint64_t seq, const struct bench_step *step,
			  const char *is, const char *should);
void bench_run_tell_touched(struct bench_run *run, uint64_t seq);

/* The rank computes before a call: what it has done since the call before counts; the rest it
 * spins. */
void bench_run_compute(const struct bench_run *run, const struct bench_step *step);

#endif /* BELAY_TOOLS_BENCH_RUN_H */
