/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a made-up recording is about. A scenario is numbers only, so that it can be written as words
 * "NAME=NUMBER" (make_log, tests of commands) or as an initialiser (tests in C); a cause is a
 * scenario with a name, and the truth about it in one sentence.
 *
 * A rank of -1, a seq or a pass of 0 means: none. Times are ns, seqs count from 1.
 */
#ifndef BELAY_TESTS_SUPPORT_LOG_SCENARIO_H
#define BELAY_TESTS_SUPPORT_LOG_SCENARIO_H

#include <stdint.h>

/* The counts of the calls, see log_model.c. */
enum log_pattern {
	LOG_PATTERN_ALIKE = 0,	/* all calls are of `count` elements */
	LOG_PATTERN_LAYERS = 1, /* count, 2 count, count, 2 count ... and count / 4 at the end of
				   a pass: every pass is like the one before */
	LOG_PATTERN_TOKENS = 2, /* all calls of a pass alike, each pass with its own count */
	LOG_PATTERN_RANDOM = 3	/* each call of its own count: nothing repeats */
};

struct log_scenario {
	/* The calls. */
	int64_t seed;
	int64_t ranks;
	int64_t passes;
	int64_t calls; /* of a pass */
	int64_t count; /* elements of a call */
	int64_t dtype; /* enum belay_dtype */
	int64_t path;  /* enum belay_path */
	int64_t marks; /* 0: no pass marks */
	int64_t first_seq;
	int64_t digests; /* 1: every call has one */
	int64_t pattern; /* enum log_pattern */
	int64_t noise;	 /* one call in so many is of another count; 0: none */

	/* Before pass break_pass break_calls calls come that belong to no pass; or, if negative, so
	 * many are missing at the end of the pass before; from then on a pass has break_period
	 * calls, if not 0. */
	int64_t break_pass;
	int64_t break_calls;
	int64_t break_period;

	/* The time before a call. */
	int64_t jitter_ns;  /* deviation of the work before a call, of each rank by itself */
	int64_t enqueue_ns; /* so long before its start a call was enqueued; 0: a host's call */
	int64_t hiccups;    /* one call in so many has a random late rank; 0: none */
	int64_t late_ns;    /* soft deadline */

	/* From straggler_from to straggler_to (0: to the end) one rank is late by straggler_ns in
	 * each call: `straggler`, or in turn from it on each rank for `rotate` calls. */
	int64_t straggler;
	int64_t straggler_ns;
	int64_t straggler_from;
	int64_t straggler_to;
	int64_t rotate;

	/* slow_rank is late by slow_ns in each call of pass slow_pass and of each slow_every
	 * passes (0: no other) later. */
	int64_t slow_pass;
	int64_t slow_every;
	int64_t slow_rank;
	int64_t slow_ns;

	/* In rescue_seq and every rescue_every calls (0: no other) later, on the path `path`:
	 * rescue_stuck (-1: every rank) lacks the data of rescue_lost and is rescued over the
	 * ring. */
	int64_t rescue_seq;
	int64_t rescue_every;
	int64_t rescue_stuck;
	int64_t rescue_lost;
	int64_t rescue_ns;

	/* After `breaker` rescues the calls take the ring for breaker_calls calls (0: to the
	 * end). */
	int64_t breaker;
	int64_t breaker_calls;

	/* From switch_seq to switch_back (0: to the end) the path is switch_path. */
	int64_t switch_seq;
	int64_t switch_path; /* enum belay_path */
	int64_t switch_back;

	/* What ends all. */
	int64_t mismatch_seq; /* mismatch_rank calls with twice the count */
	int64_t mismatch_rank;
	int64_t kill_seq; /* kill_rank dies before staging */
	int64_t kill_rank;
	int64_t salvage;   /* 1: its last block stands in a survivor's file; 0: it is lost */
	int64_t stuck_seq; /* stuck_rank never makes this call */
	int64_t stuck_rank;
	int64_t give_up_ns; /* hard deadline */

	int64_t digest_seq; /* digest_rank has other output than the rest */
	int64_t digest_rank;

	/* The clocks that the ranks read. */
	int64_t clock_rank; /* this one is off and drifts */
	int64_t clock_offset_ns;
	int64_t clock_drift_ppb;
	int64_t clocks_offset_ns; /* all but rank 0 are off by up to this much, either way */
	int64_t clocks_drift_ppb; /* and drift by up to this */

	/* What is left of it. */
	int64_t missing;      /* mask of ranks without a file */
	int64_t partial_rank; /* has records partial_first .. partial_last only */
	int64_t partial_first;
	int64_t partial_last;
	int64_t open_rank; /* its file is not closed */
	int64_t lost_rank; /* lost_count records from lost_seq were dropped by its writer */
	int64_t lost_seq;
	int64_t lost_count;

	/* The files. */
	int64_t block; /* records of a block */
	int64_t tick_ns;
	int64_t file_bytes;
	int64_t keep;
};

#define LOG_SCENARIO_INIT                                                                          \
	{                                                                                          \
		.seed = 1, .ranks = 8, .passes = 10, .calls = 122, .count = 57344, .dtype = 4,     \
		.path = 1, .marks = 1, .jitter_ns = 1000, .hiccups = 500, .late_ns = 10000000,     \
		.first_seq = 1, .straggler = -1, .slow_rank = -1, .rescue_ns = 900000,             \
		.mismatch_rank = -1, .kill_rank = -1, .salvage = 1, .stuck_rank = -1,              \
		.give_up_ns = 30000000000, .digest_rank = -1, .partial_rank = -1, .open_rank = -1, \
		.clock_rank = -1, .lost_rank = -1, .block = 4096, .tick_ns = 1,                    \
		.file_bytes = 268435456, .keep = 16,                                               \
	}

/* Takes "NAME=NUMBER", or several separated by blanks. Returns 0, or -1 after a line on stderr. */
int log_scenario_set(struct log_scenario *scenario, const char *words);

/* A recording with a known cause. */
struct log_cause {
	const char *name;
	const char *words; /* for log_scenario_set() */
	const char *truth; /* what an analysis has to find */
};

/* The list ends with a NULL name. */
extern const struct log_cause log_causes[];

/* NULL: there is none of this name. */
const struct log_cause *log_cause_find(const char *name);

#endif /* BELAY_TESTS_SUPPORT_LOG_SCENARIO_H */
