/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads of belay-bench: which calls are made, in which passes. A file holds `#` comments, blank
 * lines, and a line for each kind of pass, made in order, once:
 *
 *   repeat=R calls=C count=N dtype=T gap_us=G
 */
#ifndef BELAY_TOOLS_BENCH_WORKLOAD_H
#define BELAY_TOOLS_BENCH_WORKLOAD_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/belay.h"

/* More than any run can make; keeps products of these numbers within 64 bits. */
#define WORKLOAD_PASSES_MAX UINT64_C(1000000000)
#define WORKLOAD_CALLS_MAX  UINT64_C(1000000)
#define WORKLOAD_COUNT_MAX  (UINT64_C(1) << 32)
#define WORKLOAD_GAP_US_MAX UINT64_C(60000000)
#define WORKLOAD_LINES_MAX  100000

/* A kind of pass: `passes` passes of `calls` calls of `count` elements. */
struct workload_line {
	uint64_t passes;
	uint64_t calls;
	uint64_t count;
	uint64_t gap_ns; /* the rank computes so long before each call */
	enum belay_dtype dtype;
};

struct workload {
	struct workload_line *lines; /* owned */
	size_t nlines;
};

/* Finds a built-in workload. Returns 0; 1 when there is none of that name; -1 without memory. */
int workload_builtin(const char *name, uint64_t passes, struct workload *ret_workload);

/*
 * Reads a workload file. Returns 0, or -1 and in ret_problem (one line) what is wrong, where and
 * what was expected; `name` is how that line calls the file.
 */
int workload_read(FILE *input, const char *name, struct workload *ret_workload, char *ret_problem,
		  size_t problem_size);

/* Drops what comes after the first `passes` passes. */
void workload_limit(struct workload *workload, uint64_t passes);

/* The element type of that name ("bf16"); 0 when there is none. */
enum belay_dtype workload_dtype(const char *name);

void workload_free(struct workload *workload);

#endif /* BELAY_TOOLS_BENCH_WORKLOAD_H */
