/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who missed the soft deadline. For one call several ranks may wait, and name different peers: a
 * rank that waits for a late one makes others wait in turn. A `late` event names the root of the
 * chain, so where one exists for a call it alone counts; else the masks in the call's records do,
 * unless the call was rescued or failed: what was missing then was lost or dead, not late. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_LATE_H
#define BELAY_TOOLS_ANALYZE_LATE_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/containers.h"

/* One call in which ranks were late. */
struct late_call {
	uint64_t seq;
	uint64_t pass;
	uint64_t time_ns;	 /* when it was noticed, or the call's start */
	uint64_t named;		 /* mask: who was late; 0 when nobody can be named */
	uint64_t observers;	 /* mask: who waited */
	const uint64_t *wait_ns; /* for each rank, how long the others' inputs waited for it */
};

/* One rank's sum. */
struct late_rank {
	uint64_t calls;
	uint64_t worst_ns;
	uint64_t worst_seq;
	uint64_t first_seq, first_pass;
	uint64_t last_seq, last_pass;
};

typedef int late_function(void *user, const struct late_call *call);

struct late {
	uint32_t nranks;
	late_function *found; /* NULL: only sums */
	void *user;
	struct late_rank ranks[BELAY_RANKS_MAX];
	size_t entry_bytes;
	void *entries; /* direct-mapped by seq; see late.c */
};

/* Returns 0 or BELAY_E_NO_MEMORY. Memory is the arena's. */
int late_init(struct late *late, uint32_t nranks, struct arena *arena);
/* Both return 0 or what `found` returned. */
int late_note_event(struct late *late, uint32_t rank, const struct event_record *event);
int late_note_row(struct late *late, const struct call_row *row, const struct row_facts *facts);
/* Settles what is open. After it the sums are complete. */
int late_finish(struct late *late);

#endif /* BELAY_TOOLS_ANALYZE_LATE_H */
