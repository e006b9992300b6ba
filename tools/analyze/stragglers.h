/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who arrives last. A call counts when every rank that has data has a record of it. Lateness is the
 * last arrival minus the median arrival of the other ranks. "Since when" comes from at most 512
 * stretches of calls: the longest run of stretches in each of which the rank was last in half of
 * the calls or more (three quarters of two ranks). Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_STRAGGLERS_H
#define BELAY_TOOLS_ANALYZE_STRAGGLERS_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/containers.h"
#include "tools/analyze/histogram.h"

struct straggler_rank {
	uint64_t last_calls;
	uint64_t worst_ns;
	uint64_t worst_seq;
	struct histogram *lateness; /* of the calls in which it was last; NULL: none */
};

/* A stretch in which one rank kept being last; first_seq 0: there is none. */
struct straggler_run {
	uint64_t first_seq, first_pass;
	uint64_t last_seq, last_pass;
	uint64_t calls;	     /* compared in it */
	uint64_t last_calls; /* of these it was last in so many */
	int to_the_end;
};

struct stragglers {
	uint32_t nranks;
	struct arena *arena;
	uint64_t calls; /* that could be compared */
	struct straggler_rank ranks[BELAY_RANKS_MAX];
	uint64_t stretch_calls; /* calls in a full stretch; doubles when all are used */
	size_t nstretches;
	struct stretch *stretches;
	uint32_t *last_counts; /* nranks for each stretch */
};

/* Returns 0 or BELAY_E_NO_MEMORY. The arena gives further memory later on. */
int stragglers_init(struct stragglers *stragglers, uint32_t nranks, struct arena *arena);
int stragglers_note_row(struct stragglers *stragglers, const struct call_row *row,
			const struct row_facts *facts);
/* The rank that was last most often, if that was more than its share by half; -1: there is none. */
int stragglers_worst(const struct stragglers *stragglers);
void stragglers_run(const struct stragglers *stragglers, uint32_t rank,
		    struct straggler_run *ret_run);

#endif /* BELAY_TOOLS_ANALYZE_STRAGGLERS_H */
