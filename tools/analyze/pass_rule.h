/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pass a call belongs to. Marks tell; without marks, the shortest sequence of (count, dtype,
 * op) that repeats: each repetition is a pass. Calls that are all alike show no pass. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PASS_RULE_H
#define BELAY_TOOLS_ANALYZE_PASS_RULE_H

#include <stddef.h>

#include "tools/analyze/call_row.h"

enum pass_by { PASS_BY_NOTHING = 0, PASS_BY_MARKS, PASS_BY_PERIOD };

struct pass_rule {
	enum pass_by by;
	uint64_t first_seq; /* by period: first call of pass 1 */
	uint64_t period;    /* by period: calls in a pass */
};

/* What is compared between calls. */
uint64_t pass_signature(const struct call_record *record);

/*
 * Finds the rule from the signatures of consecutive calls (no marks were seen): the shortest
 * period, at least 2, that holds from some call in the first half to the end of the list.
 * `scratch`: n values.
 */
void pass_rule_find(const uint64_t *signatures, size_t n, uint64_t first_seq, size_t *scratch,
		    struct pass_rule *ret_rule);

/* The row's pass by the rule, from 1; 0: none. row->pass is the mark. */
uint64_t pass_rule_apply(const struct pass_rule *rule, const struct call_row *row);
/* The row's place in its pass, from 0. */
uint64_t pass_rule_index(const struct pass_rule *rule, const struct call_row *row);

const char *pass_by_name(enum pass_by by);

#endif /* BELAY_TOOLS_ANALYZE_PASS_RULE_H */
