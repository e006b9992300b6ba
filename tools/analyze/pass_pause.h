/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pauses between the calls of one rank. Where the sizes of calls show no pass, since all are
 * alike, a longer pause before each pass may: it goes into the signature of the call behind it.
 * Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PASS_PAUSE_H
#define BELAY_TOOLS_ANALYZE_PASS_PAUSE_H

#include "tools/analyze/histogram.h"
#include "trace/call_record.h"

#define PASS_PAUSE_BIT (1ull << 63) /* of a signature: no count is that large */

struct pass_pauses {
	struct histogram *ns; /* what was noted; the caller's */
	uint64_t end_ns;      /* of the call before; 0: none */
	uint64_t end_seq;
	uint64_t long_ns; /* longer ones count; 0: not known yet */
};

/* In a first run through the calls: notes the pause before this one. */
void pass_pause_note(struct pass_pauses *pauses, const struct call_record *record);

/* Between the runs. Returns 1 if there are pauses long enough to stand out. */
int pass_pause_judge(struct pass_pauses *pauses);

/* In a second run: the call's signature with its pause. */
uint64_t pass_pause_signature(struct pass_pauses *pauses, const struct call_record *record);

#endif /* BELAY_TOOLS_ANALYZE_PASS_PAUSE_H */
