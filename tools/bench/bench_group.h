/* SPDX-License-Identifier: Apache-2.0 */
/* One run of a group of rank processes: from the steps to the results. */
#ifndef BELAY_TOOLS_BENCH_GROUP_H
#define BELAY_TOOLS_BENCH_GROUP_H

#include "tools/bench/bench_options.h"
#include "tools/bench/bench_results.h"

struct bench_group {
	struct bench_job *job;
	int job_fd;
	struct rank_processes processes;
	struct bench_results results;
};

/*
 * First thing in main() behind command_begin(): if this process is a rank of a group, runs it to
 * its end. Returns 1, and ret_status is the exit status; or 0, and nothing has happened.
 */
int bench_is_rank(int argc, char *const *argv, int *ret_status);

/*
 * Starts the ranks, waits for their end and gathers the results; ret_group is filled only on
 * success, and bench_group_free() ends it. Returns 0; 1 when the run could not be made (which has
 * been said); or minus a signal's number that ended it.
 */
int bench_group_run(const struct bench_options *options, struct bench_group *ret_group);
void bench_group_free(struct bench_group *group);

/*
 * Has the ranks that are started from now on use an algorithm for all calls, on GPUs in this shape
 * (NULL: as the tuning says). Returns 0, or -1 with errno.
 */
int bench_group_force(uint32_t nranks, const struct bench_algorithm *algorithm, uint32_t blocks,
		      uint32_t threads);

/* A line of a tuning file: how calls up to so many bytes go on GPUs that are joined so. */
void bench_group_write_row(FILE *file, uint32_t nranks, const char *topology, uint64_t up_to_bytes,
			   const struct bench_algorithm *algorithm, const char *other,
			   uint32_t blocks, uint32_t threads);

#endif /* BELAY_TOOLS_BENCH_GROUP_H */
