/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long passes take, which of them are slow, and whether each waits for one rank of its own. A
 * pass is compared with those of its kind: as many calls, and bytes within the same power of two.
 * Slow is one that takes more than one and a half times the median of its kind. Bounded memory;
 * pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PASS_TIMES_H
#define BELAY_TOOLS_ANALYZE_PASS_TIMES_H

#include "tools/analyze/containers.h"
#include "tools/analyze/histogram.h"
#include "tools/analyze/passes.h"

#define PASS_TIMES_KINDS   8u
#define PASS_TIMES_SLOWEST 8u

struct slow_pass {
	uint64_t pass, first_seq, last_seq;
	uint64_t start_ns, duration_ns;
	uint64_t median_ns; /* of its kind */
	uint64_t time_ns;   /* in allreduce, mean of the ranks */
	uint64_t wait_ns;   /* of that: waiting for the last rank's input */
	uint64_t waited_for_ns;
	int waited_for;	 /* rank; -1: not known */
	uint64_t unseen; /* mask: ranks whose missing records could tell whom it waited for */
	uint64_t late_calls, rescued_calls; /* which explain it */
};

struct pass_kind {
	uint64_t calls;
	unsigned bytes_log2;
	struct histogram *ns;			      /* NULL: no pass of this kind */
	struct slow_pass slowest[PASS_TIMES_SLOWEST]; /* the longest first */
	size_t nslowest;
};

/* Passes in a row, one other in between at most, in which a rank was last in half of the calls or
 * more. */
struct pass_run {
	uint64_t first_pass, first_seq;
	uint64_t last_pass, last_seq;
	uint64_t passes; /* 0: none */
};

struct pass_times {
	struct arena *arena;
	struct pass_kind kinds[PASS_TIMES_KINDS]; /* the last takes whatever is of no other */
	size_t nkinds;
	uint64_t compared; /* passes of which the last ones of their calls are known */
	uint64_t ruled;	   /* of these: one rank was last in half of the calls or more */
	uint64_t ruled_by[BELAY_RANKS_MAX];
	struct pass_run newest[BELAY_RANKS_MAX], longest[BELAY_RANKS_MAX];
};

void pass_times_init(struct pass_times *times, struct arena *arena);
/* Only whole passes are compared. Returns 0 or BELAY_E_NO_MEMORY. */
int pass_times_note(struct pass_times *times, const struct pass_facts *pass, uint32_t nranks);

/* The kind of a whole pass that was noted; PASS_TIMES_KINDS: it was not whole. */
size_t pass_times_kind(const struct pass_times *times, const struct pass_facts *pass);
/* What takes longer is slow; UINT64_MAX: there are too few of the kind to say. */
uint64_t pass_kind_slow_above(const struct pass_kind *kind);

/* How many passes are slow; and of those the worst in proportion to their median, the worst
 * first. */
uint64_t pass_times_slow(const struct pass_times *times,
			 struct slow_pass ret_slowest[PASS_TIMES_SLOWEST], size_t *ret_n);

#endif /* BELAY_TOOLS_ANALYZE_PASS_TIMES_H */
