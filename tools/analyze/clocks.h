/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the ranks' times on one clock, where they are not. On one host they are; ranks in different
 * time namespaces, GPU times and recordings put together from several boots are not.
 *
 * What is known without any clock is causality: no rank sees an input before its owner has staged
 * it. Of rank R and the reference rank 0 each call gives two bounds of
 *
 *   offset = R's clock - rank 0's:   staged by R - seen by 0  <=  offset  <=  seen by R - staged by
 * 0
 *
 * The bounds are wider by what stamps may be wrong by. Those of earlier calls hold on, wider by
 * what two clocks may drift apart. Within them the offset is taken from the moments at which both
 * had all inputs, which lie a transfer apart at most, whoever was late: a straggler stays one.
 * Bounds that contradict earlier ones are a step of the clock. While nothing contradicts, all count
 * as on one clock; afterwards each one whose offset is more than a transfer and the noise. The
 * reference is the lowest rank, or, when that is the odd one, the lowest of those that agree. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_CLOCKS_H
#define BELAY_TOOLS_ANALYZE_CLOCKS_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/containers.h"

#define CLOCKS_CENTRES 5u /* whose median is the offset, so that one late wake-up does no harm */

/* A rank's clock against the reference's. */
struct rank_clock {
	int64_t offset_ns;	 /* at the newest call */
	int64_t low_ns, high_ns; /* its bounds then */
	uint64_t noted_ns;	 /* when that was, on the reference's clock */
	uint64_t noted;		 /* calls that gave bounds */
	uint64_t broken;	 /* calls whose own bounds contradict each other */
	uint64_t steps;
	uint64_t bound_sum_ns; /* of the distances to the farther bound */
	uint64_t bound_worst_ns;
	int64_t stretch_offset_ns; /* where the stretch since the last step began */
	uint64_t stretch_ns;
	uint64_t drift_over_ns; /* length of the longest stretch */
	int64_t drift_ns;	/* how far the offset went in it */
	int64_t centres[CLOCKS_CENTRES];
	unsigned ncentres;
	uint64_t spread_ns;   /* of the centres */
	uint64_t transfer_ns; /* of the newest call: what centres may be wrong by, always alike */
};

struct clocks {
	uint32_t nranks;
	uint32_t reference;
	uint64_t followed; /* mask: after a contradiction between any two, all but the reference */
	uint64_t differ;   /* mask: of those, found not to be on the reference's clock */
	struct rank_clock *ranks;
	uint64_t rows;
	unsigned char *copies; /* of one row's records, with times put right */
};

/* Returns 0 or BELAY_E_NO_MEMORY. Memory is the arena's. */
int clocks_init(struct clocks *clocks, uint32_t nranks, uint64_t present, struct arena *arena);

/* Learns from a row as recorded; costs little, and most rows are passed over, while all clocks
 * agree. */
void clocks_note_row(struct clocks *clocks, const struct call_row *row,
		     const struct row_facts *facts);

/* After a first look at the recording's beginning: which clocks differ, and by how much at the
 * start, is kept; the rest begins again. */
void clocks_restart(struct clocks *clocks);

/* Replaces the records of ranks whose clocks differ by copies on the reference's clock, which live
 * until the next call; ranks where that is impossible become row->unaligned. */
void clocks_align_row(struct clocks *clocks, struct call_row *row);

/* The time of an event near the newest call, on the reference's clock. */
uint64_t clocks_align_time(const struct clocks *clocks, uint32_t rank, uint64_t time_ns);

/* What is to be told of a rank whose bit is set in `differ`. */
struct clock_report {
	const char *refused; /* why it cannot be aligned (static); NULL: it is */
	int64_t offset_ns;
	double drift_ppm;
	uint64_t steps;
	uint64_t bound_ns; /* the offset is within this of the truth: mean, and at worst */
	uint64_t bound_worst_ns;
};

void clocks_report(const struct clocks *clocks, uint32_t rank, struct clock_report *ret_report);

#endif /* BELAY_TOOLS_ANALYZE_CLOCKS_H */
