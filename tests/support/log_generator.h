/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the call logs of a communicator that never was: the ranks of a scenario (log_scenario.h)
 * are played by a model (log_model.h), and what they record goes through the library's own encoder
 * and files, so that the format is the real one. The same scenario gives the same records on every
 * machine. Memory is bounded by the ranks and the block, whatever the length; a hundred million
 * records of 8 ranks, passes=102460, take about 1.6 GB and a minute.
 *
 * By hand, and in tests of commands: make_log, see there. In C:
 *
 *	struct log_scenario scenario = LOG_SCENARIO_INIT;
 *	struct log_result result;
 *
 *	log_scenario_set(&scenario, log_cause_find("rotating")->words);
 *	scenario.seed = 7;
 *	log_generate(dir, &scenario, NULL, &result);
 *
 * For tests without files log_model_play() gives the same records in memory.
 */
#ifndef BELAY_TESTS_SUPPORT_LOG_GENERATOR_H
#define BELAY_TESTS_SUPPORT_LOG_GENERATOR_H

#include <stdint.h>

#include "tests/support/log_model.h"
#include "tests/support/log_scenario.h"

/* What was written, of all ranks. */
struct log_result {
	char comm_id[33]; /* folder below the one given */
	uint64_t records;
	uint64_t bytes;	    /* of the blocks, without headers */
	uint64_t encode_ns; /* CPU time spent in encoding and compression, all ranks */
};

/* Receives each call as it really was. Returns 0, or -1 to give up. */
typedef int log_truth_function(void *user, const struct log_truth *truth);

struct log_truth_taker {
	log_truth_function *take;
	void *user;
};

/* Writes the logs below `dir`; `truth` may be NULL. Returns 0, or -1 after a line on stderr. */
int log_generate(const char *dir, const struct log_scenario *scenario,
		 const struct log_truth_taker *truth, struct log_result *ret_result);

#endif /* BELAY_TESTS_SUPPORT_LOG_GENERATOR_H */
