/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belay-bench and its rank processes share: one memfd with the orders, made by the command
 * before the ranks start, and the results, written by each rank in places of its own. A killed
 * rank's results stay.
 */
#ifndef BELAY_TOOLS_BENCH_JOB_H
#define BELAY_TOOLS_BENCH_JOB_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"
#include "tools/bench/bench_barrier.h"
#include "tools/bench/bench_script.h"

#define BENCH_MAGIC  UINT64_C(0x6a6f62206e656221)
#define BENCH_DTYPES (BELAY_I8 + 1)
/* Each call takes its data from one of so many places, a line apart, in a pool made once. */
#define BENCH_PLACES	  4096u
#define BENCH_PLACE_BYTES 64u

/* Calls of one size and type: `passes` times `calls` samples of `per_sample` calls each. */
struct bench_step {
	uint64_t passes;
	uint64_t calls;	     /* timed samples: a call, or a replay of a graph */
	uint64_t per_sample; /* calls of a sample: 1, or those of a graph */
	uint64_t warmup;     /* samples before, not timed */
	uint64_t count;	     /* elements */
	uint64_t gap_ns;     /* computing before each call */
	uint64_t skew_ns;    /* more of it for one rank in turn; in graphs of sizes */
	uint64_t first_call; /* place of its first timed sample among all */
	uint64_t first_pass;
	uint32_t dtype;
	uint32_t in_passes; /* 1: marked as passes; 0: a barrier before each call instead */
};

/* What one rank says of one step. */
struct bench_step_result {
	uint64_t calls_by_path[8];
	uint64_t wrong;		     /* calls with a wrong result */
	uint64_t host_ns, launch_ns; /* medians of the host's time, with host_time */
	uint64_t digest; /* of results that are right within rounding: the same on all ranks */
	uint32_t algorithm;
	uint32_t reserved;
};

/* What one rank says of its run. Read by the command after the rank's end, the atomics at any
 * time. */
struct bench_rank {
	alignas(64) _Atomic uint64_t calls_done; /* timed samples */
	_Atomic uint64_t passes_done;
	int32_t status; /* of the first thing that failed; 0: all is well */
	uint64_t wrong; /* calls with a wrong result, warm-up included */
	uint64_t rescued_seqs;
	uint64_t faults_done; /* of belay_statistics */
	uint32_t has_statistics;
	uint32_t has_verdict;
	uint32_t output_touched; /* a refused call changed its output */
	int32_t verdict_rank;
	uint64_t verdict_seq;
	uint64_t verdict_pass;
	uint32_t verdict_cause;
	char verdict_text[512];
	char error[1024]; /* one line; "": none */
};

/* Orders, and where in the file the rest stands. */
struct bench_job {
	uint64_t magic;
	uint64_t bytes;
	uint64_t seed;
	uint64_t first_seq; /* 0: not given */
	struct belay_unique_id id;
	uint32_t nranks;
	uint32_t op;
	uint32_t in_place;
	uint32_t region_buffers;
	uint32_t pin;
	uint32_t devices; /* rank r is on device r % devices; 0: host backend */
	uint32_t graph;	  /* the calls of a sample are a CUDA graph */
	uint32_t buffers; /* on a device: pairs of buffers that calls go through in turn */
	uint32_t host_time;
	uint32_t nsteps;
	uint64_t ncalls;
	uint64_t npasses;
	uint64_t buffer_bytes; /* largest call */
	uint64_t steps_at;
	uint64_t ranks_at;
	uint64_t results_at;
	uint64_t calls_at;
	uint64_t passes_at;
	uint64_t script_calls; /* 0: steps; else they are empty, and this is what is run */
	uint64_t script_at, gaps_at;
	uint32_t script_checked; /* its calls have one op, that of the job */
	uint32_t reserved;
	uint64_t pool_at[BENCH_DTYPES];
	uint64_t pool_count[BENCH_DTYPES]; /* elements; 0: type not used */
	struct bench_barrier barrier;
};

/* What a job is made of. */
struct bench_order {
	uint32_t nranks;
	enum belay_op op;
	uint64_t first_seq;
	int in_place, region_buffers, pin, graph, host_time;
	uint32_t devices, buffers;
	/* first_call and first_pass are not read; per_sample 0 means 1. */
	const struct bench_step *steps;
	uint32_t nsteps;
	const struct bench_script *script; /* NULL: the steps are run */
};

/*
 * Makes a job with the expected results of all data. Returns 0, or -1 with errno (EFBIG: more calls
 * than can be kept). The mapping and the descriptor are the caller's; bench_job_close() ends both.
 */
int bench_job_create(const struct bench_order *order, struct bench_job **ret_job, int *ret_fd);

/* A rank's view of the job at a descriptor. Returns 0, or -1: that is no job. */
int bench_job_open(int fd, struct bench_job **ret_job);

void bench_job_close(struct bench_job *job, int fd);

static inline void *bench_at(struct bench_job *job, uint64_t at)
{
	return (char *)job + at;
}

static inline const struct bench_step *bench_steps(struct bench_job *job)
{
	return bench_at(job, job->steps_at);
}

static inline struct bench_rank *bench_rank(struct bench_job *job, uint32_t rank)
{
	return (struct bench_rank *)bench_at(job, job->ranks_at) + rank;
}

static inline struct bench_step_result *bench_result(struct bench_job *job, uint32_t rank,
						     uint32_t step)
{
	return (struct bench_step_result *)bench_at(job, job->results_at) +
	       (size_t)rank * job->nsteps + step;
}

/* Nanoseconds of each timed sample of a rank, and of each pass. */
static inline uint64_t *bench_calls(struct bench_job *job, uint32_t rank)
{
	return (uint64_t *)bench_at(job, job->calls_at) + rank * job->ncalls;
}

static inline uint64_t *bench_passes(struct bench_job *job, uint32_t rank)
{
	return (uint64_t *)bench_at(job, job->passes_at) + rank * job->npasses;
}

#endif /* BELAY_TOOLS_BENCH_JOB_H */
