/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What repeats in a list of signatures, when no mark tells: the number of calls after which the
 * sizes come again. A few calls of other sizes (noise) and a few places at which all moves on by
 * some calls (breaks) do no harm. Where sizes do not come again, since each pass has its own, a
 * pass may still show as a number of calls that are alike. Bounded memory and time; pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PERIOD_SEARCH_H
#define BELAY_TOOLS_ANALYZE_PERIOD_SEARCH_H

#include <stddef.h>
#include <stdint.h>

#define PERIOD_LIST_MAX	 32768u /* longest list */
#define PERIOD_CALLS_MAX 8192u	/* longest period in noise; without noise, half the list */

enum period_kind {
	PERIOD_NONE = 0,
	PERIOD_SIZES, /* the sizes come again in the same order */
	PERIOD_ALIKE, /* so many calls, or a multiple, are alike; then come others */
	PERIOD_PAUSES /* sizes and long pauses come again: see pass_pause.h; never found here */
};

struct period {
	enum period_kind kind;
	size_t calls;
	size_t from; /* where in the list a repetition begins: two of them follow undisturbed */
};

/* What the search works in; not initialised by anyone. */
struct period_work {
	size_t counts[PERIOD_LIST_MAX];
	uint16_t numbers[PERIOD_LIST_MAX];
	uint32_t places[2 * PERIOD_LIST_MAX];
};

/* n: at most PERIOD_LIST_MAX. The shortest period of at least 2 that explains the list best. */
void period_search(const uint64_t *list, size_t n, struct period_work *work,
		   struct period *ret_period);

#endif /* BELAY_TOOLS_ANALYZE_PERIOD_SEARCH_H */
