/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums the calls of each pass. A pass whose first or last call is not in the data is given, but
 * does not count for the calls of a pass. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PASSES_H
#define BELAY_TOOLS_ANALYZE_PASSES_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/pass_rule.h"

struct pass_facts {
	uint64_t pass; /* 0: none open */
	uint64_t first_seq;
	uint64_t last_seq;
	uint64_t start_ns; /* earliest start of a call */
	uint64_t end_ns;   /* latest end */
	uint64_t bytes;	   /* of one rank's inputs */
	uint64_t time_ns;  /* in allreduce, mean of the ranks */
	uint64_t wait_ns;  /* of that: waiting for the last rank's input; the rest is transfer */
	uint64_t latency_max_ns;
	uint64_t late_calls, rescued_calls, failed_calls;
	uint64_t waited_for_ns; /* wait_ns for which that rank was the one waited for */
	int waited_for;		/* rank; -1: not known */
	uint64_t unseen; /* mask: ranks without a record in calls that do not tell who was last */
	int whole;	 /* its first and last call are in the data */
	int begins_cut;
	uint64_t blame_ns[BELAY_RANKS_MAX];   /* wait by the rank waited for */
	uint32_t last_calls[BELAY_RANKS_MAX]; /* calls by who was last, where that is known */
};

/* Calls in the pass: lost records do not change it. */
static inline uint64_t pass_calls(const struct pass_facts *pass)
{
	return pass->last_seq - pass->first_seq + 1;
}

typedef int pass_function(void *user, const struct pass_facts *pass);

struct passes {
	struct pass_rule rule;
	pass_function *ended; /* NULL: only sums */
	void *user;
	uint64_t count;
	uint64_t outside;     /* calls outside any pass */
	uint64_t whole_count; /* passes that calls_min and calls_max are taken from */
	uint64_t calls_min, calls_max;
	uint64_t first_pass, last_pass;
	uint64_t marked_end; /* highest pass whose end was marked with success */
	int marks_seen;	     /* pass events are in the data */
	struct pass_facts open;
};

void passes_init(struct passes *passes, const struct pass_rule *rule);
void passes_note_event(struct passes *passes, const struct event_record *event);
/* Returns 0 or what `ended` returned. */
int passes_note_row(struct passes *passes, const struct call_row *row,
		    const struct row_facts *facts);
int passes_finish(struct passes *passes);

#endif /* BELAY_TOOLS_ANALYZE_PASSES_H */
