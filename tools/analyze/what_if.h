/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What would have been, from the recorded arrivals: some ranks on time, another path, other
 * deadlines.
 *
 * A rank on time arrives no later than the last of the others. In each call the wait for it is
 * saved, on all ranks, and everything later comes earlier by that: the time that a rank takes
 * between calls stays what it was. On another path a call takes from its last arrival to its last
 * end what a table of measured costs says. Of calls that were rescued or failed, and of those that
 * do not show who was last, nothing changes; they are counted.
 *
 * A deadline is measured as the runtime does, from when the rank's own input stands ready. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_WHAT_IF_H
#define BELAY_TOOLS_ANALYZE_WHAT_IF_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/cost_table.h"
#include "tools/analyze/histogram.h"
#include "tools/analyze/passes.h"
#include "tools/analyze/summary.h"

struct what_if_question {
	uint64_t on_time;		/* mask of ranks; 0: not asked */
	uint64_t late_ns;		/* soft deadline; 0: not asked */
	uint64_t give_up_ns;		/* hard deadline; 0: not asked */
	const struct cost_table *costs; /* NULL: not asked */
	uint8_t path;			/* of the table; 0: the cheapest for each size */
};

/* Would-be alarms of a deadline. */
struct what_if_alarms {
	uint64_t calls;			   /* in which some rank would have waited that long */
	uint64_t false_calls;		   /* of those: calls that then ended well by themselves */
	uint64_t by_rank[BELAY_RANKS_MAX]; /* the false ones, by the rank waited for */
	uint64_t first_seq, first_pass;	   /* the first false one; 0: none */
	int first_rank;
};

struct what_if {
	const struct what_if_question *question;
	/* Passes, ns. */
	struct histogram *recorded, *changed;
	int64_t pass_saved_ns; /* of the open pass */
	/* Ranks on time. */
	uint64_t compared; /* calls that show who was last, and went well */
	uint64_t silent;   /* the others */
	uint64_t was_last; /* compared calls whose last was one of the ranks on time */
	uint64_t wait_saved_ns;
	uint64_t then_last[BELAY_RANKS_MAX]; /* calls by the last of the other ranks */
	/* Another path. */
	uint64_t watched; /* of NCCL's own calls, which stay as they are */
	uint64_t replaced;
	uint64_t outside;		/* of a size that the table does not know */
	uint64_t transfer_ns, table_ns; /* of the calls replaced */
	/* Deadlines. */
	struct what_if_alarms late, give_up;
	uint64_t recorded_late_ns;  /* the soft deadline, or little more; UINT64_MAX: not seen */
	uint64_t recorded_alarms;   /* calls in which a rank passed it */
	uint64_t verdict_waited_ns; /* in the call of the verdict, longest */
};

/* Returns 0 or BELAY_E_NO_MEMORY. Memory is the arena's; question must live as long. */
int what_if_init(struct what_if *what_if, const struct what_if_question *question,
		 struct arena *arena);
void what_if_note_event(struct what_if *what_if, const struct event_record *event);
void what_if_note_row(struct what_if *what_if, const struct call_row *row,
		      const struct row_facts *facts);
/* A pass has ended whose rows have been noted. */
void what_if_note_pass(struct what_if *what_if, const struct pass_facts *pass);

/* How much sooner (negative: later) the deadlines would have told of what was a fault. Each returns
 * 0, or -1 when the recording does not show it: no rescue or late rank; no verdict that waited for
 * the hard deadline. */
int what_if_rescue_sooner(const struct what_if *what_if, const struct summary *summary,
			  int64_t *ret_ns);
int what_if_verdict_sooner(const struct what_if *what_if, const struct summary *summary,
			   int64_t *ret_ns);

#endif /* BELAY_TOOLS_ANALYZE_WHAT_IF_H */
