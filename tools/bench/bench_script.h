/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A script: single calls in their order, with the time that each rank computes before each, as
 * `trace-analyze replay` writes it. A file holds `#` comments, blank lines, and
 *
 *   ranks N                            first
 *   begin                              a pass begins before the next call
 *   end                                it ends after the last one
 *   COUNT DTYPE OP FLAGS GAP[,GAP...]  a call. FLAGS: i in place, r into a region buffer, - none;
 *                                      GAP: ns of computing, one for all ranks or one for each
 */
#ifndef BELAY_TOOLS_BENCH_SCRIPT_H
#define BELAY_TOOLS_BENCH_SCRIPT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/belay.h"

#define SCRIPT_CALLS_MAX  (UINT64_C(1) << 24)
#define SCRIPT_GAP_NS_MAX UINT64_C(1000000000000000)

enum script_flag {
	SCRIPT_IN_PLACE = 1u << 0,
	SCRIPT_REGION = 1u << 1,
	SCRIPT_BEGINS_PASS = 1u << 2, /* before the call */
	SCRIPT_ENDS_PASS = 1u << 3    /* after it */
};

struct script_call {
	uint64_t count; /* elements */
	uint8_t dtype;	/* enum belay_dtype */
	uint8_t op;	/* enum belay_op */
	uint16_t flags; /* enum script_flag */
	uint32_t reserved;
};

struct bench_script {
	uint32_t nranks;
	uint64_t ncalls;
	struct script_call *calls; /* owned */
	uint64_t *gaps_ns;	   /* owned; of call i and rank r at i * nranks + r */
};

/*
 * Reads a script. Returns 0, or -1 and in ret_problem (one line) what is wrong, where and what was
 * expected; `name` is how that line calls the file.
 */
int bench_script_read(FILE *input, const char *name, struct bench_script *ret_script,
		      char *ret_problem, size_t problem_size);
void bench_script_free(struct bench_script *script);

#endif /* BELAY_TOOLS_BENCH_SCRIPT_H */
