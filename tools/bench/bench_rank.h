/* SPDX-License-Identifier: Apache-2.0 */
/* A rank process of belay-bench: makes the calls of the job, checks and times each. */
#ifndef BELAY_TOOLS_BENCH_RANK_H
#define BELAY_TOOLS_BENCH_RANK_H

#include "tools/bench/bench_job.h"

/* Runs to the end; results are in the job. Returns the process's exit status, 0 if all was well. */
int bench_rank_run(struct bench_job *job, uint32_t rank);

#endif /* BELAY_TOOLS_BENCH_RANK_H */
