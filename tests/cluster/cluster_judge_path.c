/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of the breaker and the path: S1, S4, and that nothing flaps. */
#include "tests/cluster/cluster.h"

static unsigned long ul(uint64_t value)
{
	return (unsigned long)value;
}

/* Calls of rank 0 after which what its breaker wants has become the path, at most: one may take the
 * last switch, one announces, one takes; and one each because wish and entry may just miss. */
#define CALLS_TO_CHANGE 5

/* Invariant 5: the same path for the same turn on every rank. */
void judge_path(struct cluster *c, const struct rank *rank, uint64_t turn)
{
	uint64_t before = turn - c->plan.first_turn;
	unsigned path = 1 + (unsigned)rank->thread.path;
	uint8_t *of_turn;

	if (before >= c->plan.turns)
		return; /* a rule is missing, and others will tell */
	of_turn = &c->judged.of_turn[before];
	if (*of_turn && *of_turn != path)
		cluster_break(c,
			      "rank %u takes path %u for turn %lu, others took path %u "
			      "(invariant 5, S1)",
			      rank->id, path - 1, ul(turn), *of_turn - 1u);
	*of_turn = (uint8_t)path;
	c->tally.hasty_turns += rank->thread.hasty;
}

/* Before the library counts it. */
void judge_rescued(struct cluster *c, uint64_t turn)
{
	if (turn <= c->judged.rescued_last)
		return;
	c->judged.rescued_last = turn;
	c->judged.rescued++;
}

/* S4: as many turns as are configured were rescued since it closed, each counted once. */
void judge_breaker_opens(struct cluster *c)
{
	c->tally.opened++;
	if (c->judged.rescued - c->judged.rescued_at_close < c->plan.breaker_rescues)
		cluster_break(c, "the breaker opens after %lu rescued turns, %u are needed (S4)",
			      ul(c->judged.rescued - c->judged.rescued_at_close),
			      c->plan.breaker_rescues);
	c->judged.opened_ns = c->now_ns;
	c->judged.backoff_ns = c->plan.probe_ns;
}

/* The wait for a probe is never shorter than configured, and doubles with each that was missed. */
void judge_probe_begins(struct cluster *c)
{
	uint64_t waited = c->now_ns - c->judged.opened_ns;

	if (waited < c->judged.backoff_ns)
		cluster_break(c, "a probe after %lu ns, though %lu ns are to pass", ul(waited),
			      ul(c->judged.backoff_ns));
}

/* Half open: every rank has seen every rank's probe, or it opens again, for longer. */
void judge_probe_ends(struct cluster *c, bool all_saw_it)
{
	for (unsigned r = 0; r < c->plan.nranks && all_saw_it; r++)
		if (c->rank[r].words.probe_seen < c->keeper.probe_round)
			cluster_break(c,
				      "the breaker closes though rank %u has not seen every probe "
				      "(S4)",
				      r);
	if (all_saw_it) {
		c->tally.closed++;
		c->judged.rescued_at_close = c->keeper.rescues_seen;
		return;
	}
	c->tally.probes_missed++;
	if (c->judged.backoff_ns < c->plan.probe_ns << BREAKER_DOUBLINGS_MAX)
		c->judged.backoff_ns *= 2;
	c->judged.opened_ns = c->now_ns;
}

/* What the breaker wants comes to be, and stays so: no call decides by itself. */
void judge_call_entry(struct cluster *c, const struct rank *rank)
{
	bool closed = c->breaker_state == BELAY_BREAKER_CLOSED;

	if (rank->id != 0 || c->plan.path == CLUSTER_RING || c->plan.captured ||
	    rank->thread.calls < c->judged.calls_then + CALLS_TO_CHANGE)
		return;
	if (closed != (rank->thread.path == c->plan.path))
		cluster_break(c,
			      "in call %u rank 0 takes path %u, though its breaker is in state %d "
			      "since call %u (S1)",
			      rank->thread.calls, (unsigned)rank->thread.path,
			      (int)c->breaker_state, c->judged.calls_then);
}

/* S4: no rescued turn is counted twice, and where all live, none is left out. */
void judge_path_end(struct cluster *c)
{
	bool all_live = true;

	for (unsigned r = 0; r < c->plan.nranks; r++)
		all_live &= c->rank[r].alive;
	if (c->rescued_count > c->judged.rescued ||
	    (all_live && c->rescued_count < c->judged.rescued))
		cluster_break(c, "%lu rescued turns, and %lu counted (S4)", ul(c->judged.rescued),
			      ul(c->rescued_count));
}
