/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the call logs of a communicator that never was: ranks that compute, start late, arrive and
 * reduce by a seeded model, with faults on demand. The same scenario gives the same records on
 * every machine; they are written through the library's own encoder and files.
 */
#ifndef BELAY_TESTS_SUPPORT_LOG_GENERATOR_H
#define BELAY_TESTS_SUPPORT_LOG_GENERATOR_H

#include <stdint.h>

/* All numbers, so that a table can name them: see make_log.c. A rank of -1 or a seq of 0 means:
 * none. */
struct log_scenario {
	int64_t seed;
	int64_t ranks;
	int64_t passes;
	int64_t calls;	   /* of a pass */
	int64_t count;	   /* elements of a call */
	int64_t dtype;	   /* enum belay_dtype */
	int64_t path;	   /* enum belay_path */
	int64_t marks;	   /* 0: no pass marks */
	int64_t jitter_ns; /* deviation of the work before a call, of each rank by itself */
	int64_t hiccups;   /* one call in so many has a random late rank; 0: none */
	int64_t late_ns;   /* soft deadline */
	int64_t digests;   /* 1: every call has one */
	int64_t first_seq;

	int64_t straggler; /* rank late by straggler_ns in each call from straggler_from */
	int64_t straggler_ns;
	int64_t straggler_from;
	int64_t straggler_to; /* 0: to the end */

	int64_t rescue_seq; /* rescue_stuck lacks the data of rescue_lost */
	int64_t rescue_stuck;
	int64_t rescue_lost;
	int64_t rescue_ns;

	int64_t mismatch_seq; /* mismatch_rank calls with twice the count; ends all */
	int64_t mismatch_rank;

	int64_t kill_seq; /* kill_rank dies before staging; ends all */
	int64_t kill_rank;
	int64_t salvage; /* 1: rank's last block stands in a survivor's file; 0: it is lost */

	int64_t digest_seq; /* digest_rank has other output than the rest */
	int64_t digest_rank;

	int64_t missing;      /* mask of ranks without a file */
	int64_t partial_rank; /* has records partial_first .. partial_last only */
	int64_t partial_first;
	int64_t partial_last;
	int64_t open_rank; /* its file is not closed */

	int64_t clock_rank; /* its clock is off and drifts */
	int64_t clock_offset_ns;
	int64_t clock_drift_ppb;

	int64_t lost_rank; /* lost_count records from lost_seq were dropped by its writer */
	int64_t lost_seq;
	int64_t lost_count;

	int64_t block; /* records of a block */
	int64_t tick_ns;
	int64_t file_bytes;
	int64_t keep;
};

#define LOG_SCENARIO_INIT                                                                          \
	{                                                                                          \
		.seed = 1, .ranks = 8, .passes = 10, .calls = 122, .count = 57344, .dtype = 4,     \
		.path = 1, .marks = 1, .jitter_ns = 1000, .hiccups = 500, .late_ns = 10000000,     \
		.first_seq = 1, .straggler = -1, .rescue_ns = 900000, .mismatch_rank = -1,         \
		.kill_rank = -1, .salvage = 1, .digest_rank = -1, .partial_rank = -1,              \
		.open_rank = -1, .clock_rank = -1, .lost_rank = -1, .block = 4096, .tick_ns = 1,   \
		.file_bytes = 268435456, .keep = 16,                                               \
	}

/* What was written, of all ranks. */
struct log_result {
	char comm_id[33]; /* folder below the one given */
	uint64_t records;
	uint64_t bytes;	    /* of the blocks, without headers */
	uint64_t encode_ns; /* spent in encoding and compression, all ranks */
};

/* Writes the logs below `dir`. Returns 0, or -1 after a line on stderr. */
int log_generate(const char *dir, const struct log_scenario *scenario,
		 struct log_result *ret_result);

#endif /* BELAY_TESTS_SUPPORT_LOG_GENERATOR_H */
