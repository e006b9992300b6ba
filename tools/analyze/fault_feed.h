/* SPDX-License-Identifier: Apache-2.0 */
/* What goes into the timeline of faults, and each of its items in words: for all commands that
 * tell them. */
#ifndef BELAY_TOOLS_ANALYZE_FAULT_FEED_H
#define BELAY_TOOLS_ANALYZE_FAULT_FEED_H

#include <stdio.h>

#include "tools/analyze/summary.h"
#include "tools/analyze/timeline.h"

/* Events go in by timeline_note_event(). All return 0 or what the timeline's `tell` returned. */
int fault_feed_row(struct timeline *timeline, const struct call_row *row,
		   const struct row_facts *facts);
int fault_feed_late(struct timeline *timeline, const struct late_call *call);
/* Adds what only the whole recording tells, and ends the timeline. */
int fault_feed_finish(struct timeline *timeline, const struct summary *summary);

/* "rank 1 late by 15.0 ms; rank 0,2,3 waited", and the item's own text behind it. */
void fault_print(FILE *file, const struct timeline_item *item);

/* "lost write": what kind of thing it is. */
const char *fault_title(enum timeline_kind kind);

const char *fault_breaker_name(int state);

#endif /* BELAY_TOOLS_ANALYZE_FAULT_FEED_H */
