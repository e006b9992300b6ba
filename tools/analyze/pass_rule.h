/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pass a call belongs to. Marks tell; without marks what repeats does, see period_search.h:
 * each repetition of (count, dtype, op) is a pass. Calls that are all alike show passes by their
 * pauses only, see pass_pause.h. Pure.
 */
#ifndef BELAY_TOOLS_ANALYZE_PASS_RULE_H
#define BELAY_TOOLS_ANALYZE_PASS_RULE_H

#include <stddef.h>

#include "tools/analyze/call_row.h"
#include "tools/analyze/period_follow.h"

enum pass_by { PASS_BY_NOTHING = 0, PASS_BY_MARKS, PASS_BY_PERIOD };

struct pass_rule {
	enum pass_by by;
	/* By period; else 0. Stretches are in order; of the period that goes on longest without a
	 * break: */
	const struct period_stretch *stretches;
	size_t nstretches;
	uint64_t period;    /* calls in a pass */
	uint64_t first_seq; /* where it begins */
	enum period_kind kind;
	/* How sure: of so many calls so many are in a stretch, and so many of these unlike what the
	 * period expects. */
	uint64_t calls, inside, unlike;
	int too_many_breaks; /* for all to be kept: what follows is taken for no pass */
};

/* What is compared between calls. */
uint64_t pass_signature(const struct call_record *record);

/* The rule that a finished follower found. Its stretches are borrowed. */
void pass_rule_from(const struct period_follower *follower, struct pass_rule *ret_rule);

/* The row's pass by the rule, from 1; 0: none. row->pass is the mark. */
uint64_t pass_rule_apply(const struct pass_rule *rule, const struct call_row *row);
/* The row's place in its pass, from 0. */
uint64_t pass_rule_index(const struct pass_rule *rule, const struct call_row *row);
/* By period: calls in the pass that holds the row; 0: in none. */
uint64_t pass_rule_calls(const struct pass_rule *rule, uint64_t seq);

/* Share of the calls that are where the period expects them, 0 .. 1. */
double pass_rule_sureness(const struct pass_rule *rule);

/* Where the period broke. */
struct pass_break {
	uint64_t seq;	/* the first call that does not fit */
	uint64_t until; /* where a repetition begins again; 0: nowhere */
	uint64_t calls; /* of the period from there on */
};

size_t pass_rule_breaks(const struct pass_rule *rule);
void pass_rule_break(const struct pass_rule *rule, size_t i, struct pass_break *ret_break);

const char *pass_by_name(enum pass_by by);

#endif /* BELAY_TOOLS_ANALYZE_PASS_RULE_H */
