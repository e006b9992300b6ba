/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants. judge_step() looks after every step; the others where a step does what only they
 * can see. */
#include "tests/cluster/cluster.h"

#include "runtime/belay.h"

static unsigned long ul(uint64_t value)
{
	return (unsigned long)value;
}

/* Invariant 2: one reported turn, one cause, one culprit. Invariant 3: no committed pass holds a
 * turn that failed, and a pass ends alike on all ranks. */
static void reports_agree(struct cluster *c)
{
	const struct judged *first = NULL;
	uint64_t committed = 0, failed = UINT64_MAX;

	if (!c->outcome_changed)
		return;
	c->outcome_changed = false;
	for (unsigned r = 0; r < c->plan.nranks; r++) {
		const struct judged *j = &c->rank[r].judged;

		if (j->committed > committed)
			committed = j->committed;
		if (j->pass_failed && j->pass_failed < failed)
			failed = j->pass_failed;
		if (!j->reported)
			continue;
		if (j->report.turn < failed)
			failed = j->report.turn;
		if (!first)
			first = j;
		if (j->report.turn != first->report.turn ||
		    j->report.cause != first->report.cause ||
		    j->report.culprit != first->report.culprit)
			cluster_break(c, "reports differ: turn %lu and %lu (invariant 2)",
				      ul(j->report.turn), ul(first->report.turn));
	}
	if (failed <= committed)
		cluster_break(c,
			      "turn %lu failed, but a pass up to %lu was committed (invariant 3)",
			      ul(failed), ul(committed));
}

/* V1: the verdict word takes only the ways of the diagram, and keeps its turn. */
static void word_moves_rightly(struct cluster *c)
{
	uint64_t from = c->verdict_before, to = c->verdict;
	enum verdict_state a = verdict_state(from), b = verdict_state(to);
	bool right;

	if (from == to)
		return;
	c->verdict_before = to;
	c->tally.withdrawals += b == VERDICT_WITHDRAWN;
	c->tally.verdicts += b == VERDICT_DECIDED;
	if (a == VERDICT_PROPOSED)
		right = (b == VERDICT_DECIDED || b == VERDICT_WITHDRAWN) &&
			verdict_turn(to) == verdict_turn(from) &&
			verdict_proposer(to) == verdict_proposer(from);
	else
		right = a != VERDICT_DECIDED && b == VERDICT_PROPOSED &&
			verdict_turn(to) > verdict_turn(from);
	/* NOREREAD decides in one step; what that leads to is for the other invariants to see. */
	if (!right && !(c->mutation == NOREREAD && a != VERDICT_DECIDED))
		cluster_break(
			c, "the verdict word goes from state %d turn %lu to state %d turn %lu (V1)",
			(int)a, ul(verdict_turn(from)), (int)b, ul(verdict_turn(to)));
	for (unsigned r = 0; r < c->plan.nranks && b == VERDICT_PROPOSED; r++)
		if (!(c->dead >> r & 1) && c->rank[r].words.done + 1 < verdict_turn(to))
			cluster_break(c,
				      "turn %lu is proposed while rank %u is not done with one "
				      "below (V2)",
				      ul(verdict_turn(to)), r);
	if (c->plan.no_verdict && b == VERDICT_DECIDED)
		cluster_break(c, "a verdict though every rank lives and none is stuck");
}

/* P1: done only grows. V6: a rank that has met the verdict posts nothing more. */
static void done_is_right(struct cluster *c, struct rank *rank)
{
	if (rank->words.done < rank->judged.done_before)
		cluster_break(c, "done of rank %u goes back (P1)", rank->id);
	if (rank->judged.reported && rank->words.done > rank->judged.done_before)
		cluster_break(c, "rank %u posts done after it met the verdict (V6)", rank->id);
	rank->judged.done_before = rank->words.done;
}

void judge_step(struct cluster *c, struct rank *rank)
{
	word_moves_rightly(c);
	done_is_right(c, rank);
	reports_agree(c);
}

/* Invariant 4: slot `turn` mod 2 is free everywhere. */
void judge_slot_write(struct cluster *c, const struct rank *rank, uint64_t turn)
{
	for (unsigned r = 0; r < c->plan.nranks; r++) {
		const struct rank *peer = &c->rank[r];

		if (peer->alive && !peer->judged.reported && c->mutation != GOON &&
		    peer->words.done + 2 < turn)
			cluster_break(c,
				      "rank %u stages %lu while rank %u is not done with %lu "
				      "(invariant 4)",
				      rank->id, ul(turn), r, ul(turn - 2));
	}
}

void judge_slot_read(struct cluster *c, const struct rank *reader, const struct rank *owner,
		     uint64_t turn)
{
	if (owner->words.slot[turn & 1] != turn)
		cluster_break(c, "rank %u reads turn %lu of rank %u where turn %lu stands",
			      reader->id, ul(turn), owner->id, ul(owner->words.slot[turn & 1]));
}

static bool still_matters(const struct cluster *c, const struct rank *owner)
{
	/* After a verdict nobody is promised anything of the buffers. */
	return owner->alive && !verdict_decided(c->verdict);
}

/* In place in a region buffer: the peer's input must stand until this rank has read its slice. */
void judge_input_read(struct cluster *c, const struct rank *reader, const struct rank *owner,
		      uint64_t turn)
{
	if (still_matters(c, owner) &&
	    (owner->judged.lib_turn != turn || owner->judged.rescue_wrote == turn))
		cluster_break(c,
			      "rank %u reads the input of rank %u for turn %lu after it was "
			      "overwritten (R4)",
			      reader->id, owner->id, ul(turn));
}

/* R2, R3: who may write an output. */
void judge_own_output(struct cluster *c, struct rank *rank, uint64_t turn)
{
	enum mailbox_state state = rank->mailbox.state;

	if (state == MAILBOX_ABANDONED || state == MAILBOX_RELEASED)
		cluster_break(c, "rank %u writes an output that it has abandoned (R2)", rank->id);
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (rules_signature(c, r, turn) != rules_signature(c, rank->id, turn))
			cluster_break(c,
				      "rank %u writes output of turn %lu though rank %u called "
				      "differently (M1)",
				      rank->id, ul(turn), r);
	rank->judged.output_whole = true;
}

void judge_pushed_output(struct cluster *c, const struct rank *writer, struct rank *owner,
			 uint64_t turn)
{
	if (still_matters(c, owner) && owner->judged.lib_turn != turn)
		cluster_break(
			c,
			"rank %u pushes results of turn %lu into a buffer that the user of rank "
			"%u has back (R4)",
			writer->id, ul(turn), owner->id);
}

void judge_rescued_output(struct cluster *c, struct rank *rank, uint64_t turn, unsigned place)
{
	unsigned call = plan_call_of(&c->plan, turn);

	if (c->plan.first_turn + c->plan.call_begin[call] + place != turn)
		cluster_break(c, "a rescue writes turn %lu to place %u of its call", ul(turn),
			      place);
	if (rank->judged.lib_turn != turn)
		cluster_break(
			c,
			"the watcher of rank %u writes into a buffer that the user has back (R2)",
			rank->id);
	if (rank->mailbox.state != MAILBOX_ABANDONED)
		cluster_break(
			c, "the watcher of rank %u writes an output that was not left to it (R2)",
			rank->id);
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (rules_signature(c, r, turn) != rules_signature(c, rank->id, turn))
			cluster_break(c, "a rescue writes output of mismatched turn %lu (M1)",
				      ul(turn));
	rank->judged.rescue_wrote = turn;
	rank->judged.output_whole = true;
}

/* V6: done with a turn means that its output, and all before, are complete. */
void judge_done(struct cluster *c, struct rank *rank, uint64_t turn)
{
	if (!rank->judged.output_whole || rank->judged.completed + 1 != turn)
		cluster_break(
			c,
			"rank %u posts done with %lu though its last complete output is %lu (V6)",
			rank->id, ul(turn), ul(rank->judged.completed));
	rank->judged.completed = turn;
}

void judge_failed_pass(struct cluster *c, struct rank *rank, uint64_t turn)
{
	c->outcome_changed = true;
	rank->judged.pass_failed = turn;
}

/* C1: what is committed is complete everywhere. */
void judge_commit(struct cluster *c, struct rank *rank, uint64_t turn)
{
	c->outcome_changed = true;
	c->tally.commits++;
	rank->judged.committed = turn;
	for (unsigned r = 0; r < c->plan.nranks; r++)
		if (c->rank[r].alive && c->rank[r].judged.completed < turn)
			cluster_break(
				c,
				"rank %u commits up to %lu, which rank %u has not completed (C1)",
				rank->id, ul(turn), r);
}

/* L3, V5: a dead rank is blamed only for a turn that it has not staged. */
static void loss_is_real(struct cluster *c, const struct sim_cause *cause)
{
	const struct rank *culprit = &c->rank[cause->culprit];

	if (culprit->alive && !culprit->words.left)
		cluster_break(c, "rank %d is called lost and lives (L2)", cause->culprit);
	if (c->plan.path != CLUSTER_RING && culprit->words.staged >= cause->turn)
		cluster_break(c, "rank %d is blamed for turn %lu, which it had staged whole (L3)",
			      cause->culprit, ul(cause->turn));
}

void judge_report(struct cluster *c, struct rank *rank, const struct sim_cause *cause,
		  uint64_t word)
{
	c->outcome_changed = true;
	rank->judged.reported = true;
	rank->judged.report = *cause;
	rank->judged.report.turn = verdict_turn(word);
	c->tally.by_cause[cause->cause & 15]++;
	if (cause->turn != verdict_turn(word) && c->mutation != OWNSEQ &&
	    c->mutation != VERDICTATONCE)
		cluster_break(c, "the cause line is of turn %lu, the verdict of %lu (V1)",
			      ul(cause->turn), ul(verdict_turn(word)));
	if (cause->cause == BELAY_CAUSE_PEER_LOST && cause->culprit >= 0)
		loss_is_real(c, cause);
	if (c->plan.causes && !(c->plan.causes >> cause->cause & 1))
		cluster_break(c, "a verdict of cause %u, which this schedule cannot have",
			      cause->cause);
	if (c->plan.culprit >= 0 && cause->culprit != c->plan.culprit)
		cluster_break(c, "rank %d is blamed, rank %d is at fault (L1)", cause->culprit,
			      c->plan.culprit);
}

void judge_complaint(struct cluster *c, const struct rank *rank, uint64_t turn)
{
	if (turn != c->plan.odd_turn || c->plan.odd_rank < 0)
		cluster_break(c, "rank %u complains of a mismatch in turn %lu, where none is (M1)",
			      rank->id, ul(turn));
}

/* L1: while one rank alone is held up, it is the one that everybody names. Once it goes on, the
 * last of those that waited for it may be named, when it is scheduled a moment later. */
void judge_late(struct cluster *c, const struct rank *rank, int named)
{
	if (c->first_struck && c->now_ns >= c->last_fault_ns)
		return;
	if (c->plan.culprit >= 0 && c->plan.fault[0].type == FAULTY_STOP &&
	    named != c->plan.culprit)
		cluster_break(c, "rank %u names rank %d late, rank %d is (L1)", rank->id, named,
			      c->plan.culprit);
}

/* No rank hangs: every live rank has ended all its calls or has reported the verdict. */
void judge_end(struct cluster *c)
{
	for (unsigned r = 0; r < c->plan.nranks; r++) {
		const struct rank *rank = &c->rank[r];

		if (rank->alive && rank->thread.step)
			cluster_break(c, "rank %u hangs in turn %lu (phase %d)", r,
				      ul(rank->thread.turn), (int)rank->thread.stuck.phase);
		if (rank->alive && c->plan.must_fail && !rank->judged.reported)
			cluster_break(c, "rank %u has not seen the verdict", r);
	}
	judge_path_end(c);
}
