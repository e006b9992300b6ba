/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong, in the order of time. What several ranks tell of one thing becomes one item.
 * Sorts within a window of a few thousand items, so that memory stays bounded however many there
 * are. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_TIMELINE_H
#define BELAY_TOOLS_ANALYZE_TIMELINE_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/containers.h"

enum timeline_kind {
	TIMELINE_LATE = 1,
	TIMELINE_LOST_WRITE,
	TIMELINE_RESCUE,
	TIMELINE_BREAKER,
	TIMELINE_PATH_SWITCH,
	TIMELINE_MISMATCH,
	TIMELINE_DIGEST,
	TIMELINE_VERDICT,
	TIMELINE_ERROR
};

struct timeline_item {
	enum timeline_kind kind;
	int subject;  /* the rank that it is about; -1: none */
	int detail;   /* breaker: state; path switch: old path; verdict: cause; error: status */
	uint8_t path; /* enum belay_path; 0: none */
	uint64_t seq; /* 0: none */
	uint64_t pass;
	uint64_t time_ns;   /* the earliest that any rank told */
	uint64_t ranks;	    /* mask: who told of it; rescue: who was stuck; digest: who differs */
	uint64_t amount_ns; /* the longest: how late, how long a rescue took; 0: none */
	uint64_t wait_ns;   /* rescue: how long the ranks waited before; 0: not known */
	int recorded; /* amount_ns is of call records, which go before events, as in the summary */
	char text[EVENT_TEXT_BYTES];
};

typedef int timeline_function(void *user, const struct timeline_item *item);

struct timeline {
	timeline_function *tell;
	void *user;
	struct timeline_item *items;
	size_t count;
	uint16_t *places; /* hash of kind, seq, subject, detail to 1 + index in items */
};

/* Returns 0 or BELAY_E_NO_MEMORY. */
int timeline_init(struct timeline *timeline, timeline_function *tell, void *user,
		  struct arena *arena);
/* The three below return 0 or what `tell` returned. */
int timeline_note(struct timeline *timeline, const struct timeline_item *item);
/* Takes from an event what belongs here, save late ones: late.h decides those. */
int timeline_note_event(struct timeline *timeline, uint32_t rank, const struct event_record *event);
int timeline_note_row(struct timeline *timeline, const struct call_row *row,
		      const struct row_facts *facts);
int timeline_finish(struct timeline *timeline);

const char *timeline_kind_name(enum timeline_kind kind);

#endif /* BELAY_TOOLS_ANALYZE_TIMELINE_H */
