/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays the calls of a scenario: ranks that compute, start late, arrive and reduce, by a seeded
 * model on one true clock. The same scenario gives the same records on every machine. Nothing is
 * written: records and events go to a sink, the records as the ranks would have made them, with
 * what each saw of its peers and read on its own clock; and the truth, for tests of analyses that
 * have to find it again.
 *
 * The rules that the records keep: a rank begins a call after it has ended the one before; it sees
 * a peer's input when that peer has staged it and the transfer is over, and not before it has
 * staged its own; it ends a call after it has seen all inputs (or by rescue, or verdict).
 */
#ifndef BELAY_TESTS_SUPPORT_LOG_MODEL_H
#define BELAY_TESTS_SUPPORT_LOG_MODEL_H

#include <stdint.h>

#include "runtime/belay.h"
#include "tests/support/log_scenario.h"
#include "trace/call_record.h"

/* A call as it really was, on the true clock. */
struct log_truth {
	uint64_t seq;
	uint64_t pass; /* from 1, marked or not; 0: outside any */
	uint32_t nranks;
	uint64_t ranks;	    /* mask: who made the call */
	uint32_t last_rank; /* who staged last; of equals the lowest */
	struct log_truth_rank {
		uint64_t start_ns, staged_ns, end_ns;
	} of[BELAY_RANKS_MAX];
};

/* What a rank's clock shows at the true time t: t + offset_ns + drift_ppb * (t - t0) / 1e9, where
 * t0 is the beginning of the recording, LOG_MODEL_BEGIN_NS. */
struct log_clock {
	int64_t offset_ns;
	int64_t drift_ppb;
};

#define LOG_MODEL_BEGIN_NS 1000000000000u

/* Each returns 0, or what log_model_play() shall end with. The records live until the return. */
struct log_sink {
	void *user;
	int (*call)(void *user, uint32_t rank, const struct call_record *record);
	int (*event)(void *user, uint32_t rank, const struct event_record *event);
	int (*truth)(void *user, const struct log_truth *truth); /* after the call's records */
};

/* truth and event may be NULL. Returns 0, or what a function of the sink returned, or -1 without
 * memory. */
int log_model_play(const struct log_scenario *scenario, const struct log_sink *sink);

/* The clock of a rank in this scenario. */
struct log_clock log_model_clock(const struct log_scenario *scenario, uint32_t rank);

/* The communicator's id: 32 digits and a 0, by the seed. */
void log_model_comm_id(const struct log_scenario *scenario, char *ret_id);

#endif /* BELAY_TESTS_SUPPORT_LOG_MODEL_H */
