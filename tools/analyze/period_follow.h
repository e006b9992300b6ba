/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Follows what repeats through a recording without marks, call by call: finds the period
 * (period_search.h), keeps in step with it, notices where it breaks and where it goes on, or where
 * another one begins. The result is stretches of whole and cut repetitions; what lies between two
 * is no pass. Bounded memory and time per call. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PERIOD_FOLLOW_H
#define BELAY_TOOLS_ANALYZE_PERIOD_FOLLOW_H

#include "tools/analyze/containers.h"
#include "tools/analyze/period_search.h"

/* More stretches than this are not a period that breaks now and then. */
#define PERIOD_STRETCHES_MAX 4096u

struct period_stretch {
	uint64_t first_seq; /* where a repetition begins */
	uint64_t end_seq;   /* the first call that is not in it any more: where the period broke;
			       UINT64_MAX: it held to the end */
	uint64_t calls;	    /* of the period */
	uint64_t first_pass;
	uint64_t unlike; /* calls in it that are not what the period expects */
	enum period_kind kind;
};

struct period_follower {
	struct period_work *work;
	/* Calls since the step was lost, or is in doubt, for the search; and those being gone
	 * through again. */
	uint64_t *collected, *again;
	size_t ncollected;
	uint64_t collected_seq; /* of the first */
	uint64_t skip, skip_next;
	unsigned searches;
	uint64_t first_bits;
	/* The period. */
	struct period period;
	uint64_t *sizes; /* PERIOD_SIZES: what is expected */
	size_t *border;	 /* of its beginnings: for finding it in what comes */
	size_t found;	 /* so much of its beginning was seen last */
	/* The step. */
	int in_step;
	size_t place; /* in the period, of the next call */
	uint64_t streak;
	uint64_t streak_seq;
	uint64_t alike;	       /* as expected in a row */
	uint64_t doubt_seq;    /* the first unlike one since a whole repetition was as expected */
	uint64_t doubt_unlike; /* how many since then; the calls since then are collected */
	uint64_t clean, dirty; /* repetitions of this stretch without and with an unlike one */
	uint64_t dirty_row;    /* of these, the newest in a row */
	uint64_t unlike_here;  /* in the present repetition */
	uint64_t last;	       /* PERIOD_ALIKE: the signature of the run */
	uint64_t run, run_seq; /* how long it is, and its first call */
	/* The result. */
	uint64_t first_seq, next_seq;
	uint64_t calls; /* seen */
	struct period_stretch *stretches;
	size_t nstretches;
	int too_many;
};

/* Returns 0 or BELAY_E_NO_MEMORY. Memory is the arena's. */
int period_follow_init(struct period_follower *follower, struct arena *arena);
/* Starts anew, in the same memory: with signatures in which these bits, if any, mark the first call
 * of a repetition. */
void period_follow_restart(struct period_follower *follower, uint64_t first_bits);
/* Calls in the order of seq; holes may be between them. */
void period_follow_call(struct period_follower *follower, uint64_t seq, uint64_t signature);
/* After the last call. */
void period_follow_finish(struct period_follower *follower);

#endif /* BELAY_TOOLS_ANALYZE_PERIOD_FOLLOW_H */
