/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report of one communicator shows, however long the recording is: series of at most
 * REPORT_COLUMNS columns, each of twice as many calls, passes or nanoseconds as before whenever all
 * are used, and short lists of the worst. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_REPORT_DATA_H
#define BELAY_TOOLS_ANALYZE_REPORT_DATA_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/containers.h"
#include "tools/analyze/histogram.h"
#include "tools/analyze/pass_times.h"
#include "tools/analyze/timeline.h"

#define REPORT_COLUMNS	   240u /* even */
#define REPORT_GROUPS	   40u	/* sizes and paths told apart */
#define REPORT_WORST_CALLS 25u
#define REPORT_FAULTS_KEPT 40u /* of each kind */
#define REPORT_FAULT_KINDS (TIMELINE_ERROR + 1)

/* The longest of a stretch. */
struct report_peak {
	uint64_t ns;
	uint64_t which; /* pass, or seq */
};

/* Consecutive passes, or consecutive calls where there are no passes. */
struct report_stretch {
	uint64_t first, last;	    /* pass, or seq */
	uint64_t first_ns, last_ns; /* start of the first, end of the last */
	uint64_t count;
	uint64_t shortest_ns, longest_ns, sum_ns;   /* of their durations */
	uint64_t wait_ns, transfer_ns;		    /* sums; means of the ranks */
	int waited_for;				    /* in all of them alike; -1: not so */
	uint64_t late, rescued, failed;		    /* calls */
	struct report_peak peaks[PASS_TIMES_KINDS]; /* of each kind; calls: the first alone */
};

struct report_series {
	struct report_stretch columns[REPORT_COLUMNS];
	size_t count;
	uint64_t width; /* passes or calls of a full column */
};

/* How far behind the others each rank came, calls by column. */
struct report_arrivals {
	uint32_t nranks;
	size_t count;
	uint64_t width; /* calls of a full column */
	struct {
		uint64_t first_seq, last_seq;
		uint64_t first_pass, last_pass;
		uint64_t calls;
	} columns[REPORT_COLUMNS];
	uint64_t *sum_ns;   /* nranks for each column */
	uint64_t *worst_ns; /* the same */
};

/* The calls of one size on one path. */
struct report_group {
	uint8_t path, collective; /* record_collective() */
	uint64_t bytes;		  /* UINT64_MAX: of all sizes that have no group of their own */
	struct histogram *latency;
};

struct report_call {
	uint64_t latency_ns;
	uint64_t seq, pass, index;
	uint64_t start_ns;
	uint64_t bytes;
	uint64_t lateness_ns;
	uint64_t late, stuck; /* masks */
	int last_rank;	      /* -1: not known */
	int16_t status;
	uint8_t path, collective; /* as in struct report_group */
};

/* When things of each kind happened. Columns are 1 << shift ns wide, from origin_ns. */
struct report_faults {
	uint64_t origin_ns;
	unsigned shift;
	int begun;
	uint32_t columns[REPORT_FAULT_KINDS][REPORT_COLUMNS];
	uint64_t counts[REPORT_FAULT_KINDS];
	struct timeline_item *kept; /* the first of each kind, in the order of time */
	size_t nkept;
};

struct report_data {
	struct arena *arena;
	const struct pass_rule *rule;
	struct report_series passes;
	struct report_series calls;
	struct report_arrivals arrivals;
	struct report_group groups[REPORT_GROUPS + 1]; /* the last: what no group was left for */
	size_t ngroups;
	struct report_call worst_calls[REPORT_WORST_CALLS]; /* the worst first */
	size_t nworst_calls;
	struct report_faults faults;
};

/* The rule must live as long. Memory is the arena's. Returns 0 or BELAY_E_NO_MEMORY. */
int report_data_init(struct report_data *data, uint32_t nranks, const struct pass_rule *rule,
		     struct arena *arena);
/* Returns 0 or BELAY_E_NO_MEMORY. */
int report_data_note_row(struct report_data *data, const struct call_row *row,
			 const struct row_facts *facts);
/* `kind`: see pass_times_kind(). */
void report_data_note_pass(struct report_data *data, const struct pass_facts *pass, size_t kind);
/* In the order of time. */
void report_data_note_fault(struct report_data *data, const struct timeline_item *item);

#endif /* BELAY_TOOLS_ANALYZE_REPORT_DATA_H */
