/* SPDX-License-Identifier: Apache-2.0 */
/* liveness.c: what a rank makes of what it sees; both sides of each deadline. */
#include <check.h>

#include "runtime/belay.h"
#include "runtime/outcome/liveness.h"

#define MS	UINT64_C(1000000)
#define LATE	(10 * MS)
#define GRACE	(2 * MS)
#define GIVE_UP (60 * MS)
#define START	(100 * MS)

/* Rank 0 of three waits since START for the input of rank 2 in turn 5; rank 1 is where rank 0
 * is. */
static struct outcome_view waiting_for_rank_2(uint64_t waited)
{
	return (struct outcome_view){
		.self = 0,
		.now_ns = START + waited,
		.phase = WAIT_INPUTS,
		.turn = 5,
		.missing = 4,
		.since_ns = START,
		.late_ns = LATE,
		.grace_ns = GRACE,
		.give_up_ns = GIVE_UP,
		.progress = {.nranks = 3,
			     .donation = true,
			     .staged = {5, 5, 4},
			     .pushed = {5, 5, 4},
			     .done = {4, 4, 4}},
	};
}

/* ... and rank 2 has pushed it, as was first seen at START. */
static struct outcome_view missing_a_write_of_rank_2(uint64_t waited)
{
	struct outcome_view view = waiting_for_rank_2(waited);

	view.progress.staged[2] = view.progress.pushed[2] = 5;
	view.lost_since_ns[2] = START;
	return view;
}

static enum outcome_action_kind decide(const struct outcome_view *view)
{
	return outcome_decide(view).kind;
}

/* ---- late ------------------------------------------------------------------------------------ */

START_TEST(before_the_soft_deadline_nothing_is_done)
{
	struct outcome_view view = waiting_for_rank_2(LATE - 1);

	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

START_TEST(a_late_rank_is_named_once_and_not_rescued)
{
	struct outcome_view view = waiting_for_rank_2(LATE);

	ck_assert_int_eq(decide(&view), OUTCOME_NAME_LATE);
	ck_assert_int_eq(outcome_decide(&view).rank, 2);
	view.late_told = true;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.now_ns = START + GIVE_UP - 1;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

START_TEST(a_rank_that_has_staged_but_not_pushed_is_late_and_not_lost)
{
	struct outcome_view view = waiting_for_rank_2(GIVE_UP - 1);

	view.progress.staged[2] = 5;
	view.late_told = true;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

START_TEST(the_root_of_a_chain_is_named_and_not_one_that_waits)
{
	struct outcome_view view = waiting_for_rank_2(LATE);

	/* Rank 1 is missing too, but it is only waiting for rank 2's results of the turn before. */
	view.missing = 6;
	view.progress.staged[1] = view.progress.pushed[1] = 4;
	view.progress.done[1] = view.progress.done[2] = 3;
	view.progress.results[1] = 4;
	view.progress.results[2] = 3;
	ck_assert_int_eq(liveness_root(&view), 2);
	view.progress.results[2] = 4;
	ck_assert_int_eq(liveness_root(&view), 1); /* of equals the lowest ... */
	view.waiting = 2;
	ck_assert_int_eq(liveness_root(&view), 2); /* ... that does not wait itself ... */
	view.waiting = 6;
	view.stopped = 4;
	ck_assert_int_eq(liveness_root(&view), 2); /* ... or that stands still */
}
END_TEST

START_TEST(there_is_no_root_when_all_have_sent)
{
	struct outcome_view view = missing_a_write_of_rank_2(LATE);

	ck_assert_int_eq(liveness_root(&view), -1);
	ck_assert_uint_eq(liveness_sent(&view), 4);
}
END_TEST

/* ---- lost ------------------------------------------------------------------------------------ */

START_TEST(a_lost_write_is_rescued_after_soft_deadline_and_grace)
{
	struct outcome_view view = missing_a_write_of_rank_2(LATE + GRACE - 1);
	struct outcome_action action;

	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.now_ns++;
	action = outcome_decide(&view);
	ck_assert_int_eq(action.kind, OUTCOME_RESCUE);
	ck_assert_uint_eq(action.from, 0);
	ck_assert_uint_eq(action.to, rescue_pack(5, 1, 0));
	ck_assert_uint_eq(action.mask, 7);
	ck_assert_int_eq(action.rank, 2);
}
END_TEST

START_TEST(the_grace_counts_from_when_the_step_was_seen)
{
	struct outcome_view view = missing_a_write_of_rank_2(30 * MS);

	view.lost_since_ns[2] = view.now_ns - GRACE + 1;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.lost_since_ns[2]--;
	ck_assert_int_eq(decide(&view), OUTCOME_RESCUE);
}
END_TEST

START_TEST(no_rescue_begins_before_all_have_staged)
{
	struct outcome_view view = missing_a_write_of_rank_2(30 * MS);

	view.progress.staged[1] = view.progress.pushed[1] = 4;
	ck_assert_int_ne(decide(&view), OUTCOME_RESCUE);
}
END_TEST

START_TEST(a_rescue_is_not_begun_twice)
{
	struct outcome_view view = missing_a_write_of_rank_2(30 * MS);

	view.rescue = rescue_pack(5, 1, 1);
	view.rescue_members = 7;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.rescue = rescue_pack(6, 1, 1);
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.rescue = rescue_pack(4, 1, 1);
	ck_assert_int_eq(decide(&view), OUTCOME_RESCUE);
}
END_TEST

START_TEST(a_member_that_died_calls_for_a_new_attempt_without_it)
{
	struct outcome_view view = missing_a_write_of_rank_2(30 * MS);
	struct outcome_action action;

	view.rescue = rescue_pack(5, 1, 1);
	view.rescue_members = 7;
	view.progress.dead = 2;
	action = outcome_decide(&view);
	ck_assert_int_eq(action.kind, OUTCOME_RESCUE);
	ck_assert_uint_eq(action.from, view.rescue);
	ck_assert_uint_eq(action.to, rescue_pack(5, 2, 0));
	ck_assert_uint_eq(action.mask, 5);
	view.rescue = rescue_pack(5, RESCUE_ATTEMPTS_MAX, 1);
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

START_TEST(a_rescue_whose_gather_failed_gets_a_new_attempt)
{
	struct outcome_view view = missing_a_write_of_rank_2(30 * MS);
	struct outcome_action action;

	view.rescue = rescue_pack(5, 1, 1);
	view.rescue_members = 7;
	view.rescue_broken = true;
	action = outcome_decide(&view);
	ck_assert_int_eq(action.kind, OUTCOME_RESCUE);
	ck_assert_uint_eq(action.to, rescue_pack(5, 2, 0));
	ck_assert_uint_eq(action.mask, 7); /* all live: nobody is to blame */
}
END_TEST

START_TEST(while_the_breaker_is_open_what_was_sent_is_lost_at_once)
{
	struct outcome_view view = missing_a_write_of_rank_2(0);

	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.at_once = true;
	ck_assert_int_eq(decide(&view), OUTCOME_RESCUE);
	view.progress.pushed[2] = 4; /* and what was not is waited for, as ever */
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

START_TEST(a_call_on_nccl_is_never_rescued)
{
	struct outcome_view view = missing_a_write_of_rank_2(30 * MS);

	view.no_rescue = true;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.now_ns = START + GIVE_UP;
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
}
END_TEST

/* ---- dead ------------------------------------------------------------------------------------ */

START_TEST(a_dead_rank_that_staged_is_rescued_at_once)
{
	struct outcome_view view = waiting_for_rank_2(0);

	view.progress.dead = 4;
	view.progress.staged[2] = 5; /* and died before it pushed */
	ck_assert_int_eq(decide(&view), OUTCOME_RESCUE);
	ck_assert_uint_eq(outcome_decide(&view).mask, 3);
}
END_TEST

START_TEST(a_dead_rank_that_did_not_stage_is_a_verdict_at_once)
{
	struct outcome_view view = waiting_for_rank_2(0);
	struct outcome_action action;

	view.progress.dead = 4;
	action = outcome_decide(&view);
	ck_assert_int_eq(action.kind, OUTCOME_PROPOSE);
	ck_assert_uint_eq(action.to, verdict_pack(VERDICT_PROPOSED, 5, 0));
	ck_assert_uint_eq(action.cause, BELAY_CAUSE_PEER_LOST);
	ck_assert_int_eq(action.rank, 2);
}
END_TEST

START_TEST(a_turn_below_the_one_that_a_dead_rank_lacks_is_finished_first)
{
	struct outcome_view view = waiting_for_rank_2(0);

	view.progress.dead = 4;
	view.progress.done[1] = 3; /* turn 4 is open and rank 2 has staged it */
	ck_assert_int_ne(decide(&view), OUTCOME_PROPOSE);
}
END_TEST

START_TEST(on_the_ring_a_dead_rank_that_was_done_is_a_verdict_too)
{
	struct outcome_view view = waiting_for_rank_2(0);

	view.phase = WAIT_GATHER;
	view.progress.donation = false;
	view.progress.dead = 4;
	view.progress.staged[2] = view.progress.done[2] = 5;
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
	ck_assert_int_eq(outcome_decide(&view).rank, 2);
}
END_TEST

START_TEST(a_rank_that_has_left_is_buried_when_it_is_waited_for)
{
	struct outcome_view view = waiting_for_rank_2(0);

	view.left = 4;
	ck_assert_int_eq(decide(&view), OUTCOME_BURY);
	ck_assert_uint_eq(outcome_decide(&view).mask, 4);
	view.progress.staged[2] = 5;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

/* ---- the hard deadline ----------------------------------------------------------------------- */

START_TEST(the_hard_deadline_proposes_and_blames_the_root)
{
	struct outcome_view view = waiting_for_rank_2(GIVE_UP - 1);
	struct outcome_action action;

	view.late_told = true;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.now_ns++;
	action = outcome_decide(&view);
	ck_assert_int_eq(action.kind, OUTCOME_PROPOSE);
	ck_assert_uint_eq(action.cause, BELAY_CAUSE_PEER_STUCK);
	ck_assert_int_eq(action.rank, 2);
}
END_TEST

START_TEST(the_proposal_names_the_first_open_turn_and_not_the_own)
{
	struct outcome_view view = waiting_for_rank_2(GIVE_UP);

	view.progress.done[2] = 3;
	ck_assert_uint_eq(verdict_turn(outcome_decide(&view).to), 4);
}
END_TEST

START_TEST(when_all_have_sent_the_rank_that_stands_still_is_blamed)
{
	struct outcome_view view = missing_a_write_of_rank_2(GIVE_UP);

	view.stopped = 2;
	ck_assert_int_eq(outcome_decide(&view).rank, 1);
	view.stopped = 1; /* itself: it does run */
	ck_assert_int_eq(outcome_decide(&view).rank, 2);
}
END_TEST

START_TEST(nobody_is_blamed_while_the_own_thread_has_not_seen_that_all_is_here)
{
	struct outcome_view view = waiting_for_rank_2(GIVE_UP);

	view.missing = 0;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.phase = WAIT_COMMIT;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.phase = WAIT_GATHER; /* the watchers gather: nothing comes to the thread by itself */
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
	view.phase = WAIT_VERDICT;
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
}
END_TEST

/* ---- mismatch, abort ------------------------------------------------------------------------- */

static struct outcome_view with_a_mismatch(uint64_t age)
{
	struct outcome_view view = waiting_for_rank_2(0);

	view.phase = WAIT_VERDICT;
	view.missing = 1;
	view.complaint = COMPLAINT_MISMATCH;
	view.complaint_turn = 5;
	view.complaint_since_ns = view.now_ns - age;
	return view;
}

START_TEST(a_mismatch_waits_for_all_signatures_up_to_the_grace)
{
	struct outcome_view view = with_a_mismatch(LATE + GRACE - 1);

	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.complaint_since_ns--;
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
	view = with_a_mismatch(0);
	view.progress.staged[2] = 5;
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
	ck_assert_uint_eq(outcome_decide(&view).cause, BELAY_CAUSE_MISMATCH);
}
END_TEST

START_TEST(a_complaint_younger_than_the_view_is_not_past_its_grace)
{
	struct outcome_view view = with_a_mismatch(0);

	view.complaint_since_ns = view.now_ns + 1;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

START_TEST(a_mismatch_waits_for_the_turns_below_it)
{
	struct outcome_view view = with_a_mismatch(GIVE_UP);

	view.since_ns = view.now_ns;
	view.progress.done[1] = 3;
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
}
END_TEST

START_TEST(an_abort_proposes_whatever_goes_on)
{
	struct outcome_view view = waiting_for_rank_2(0);

	view.phase = WAIT_NOTHING;
	view.complaint = COMPLAINT_ABORT;
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
	ck_assert_uint_eq(outcome_decide(&view).cause, BELAY_CAUSE_ABORTED);
	ck_assert_int_eq(outcome_decide(&view).rank, 0);
}
END_TEST

static const struct {
	enum complaint complaint;
	enum belay_cause cause;
	int culprit;
} own_failures[] = {
	{COMPLAINT_GAVE_UP, BELAY_CAUSE_INTERNAL, 0},
	{COMPLAINT_NCCL, BELAY_CAUSE_NCCL_FAILED, -1},
	{COMPLAINT_GPU_FAULT, BELAY_CAUSE_GPU_FAULT, 0},
};

START_TEST(a_rank_that_cannot_go_on_proposes_at_once)
{
	struct outcome_view view = waiting_for_rank_2(0);
	struct outcome_action action;

	view.phase = WAIT_NOTHING;
	view.complaint = own_failures[_i].complaint;
	action = outcome_decide(&view);
	ck_assert_int_eq(action.kind, OUTCOME_PROPOSE);
	ck_assert_uint_eq(action.cause, own_failures[_i].cause);
	ck_assert_int_eq(action.rank, own_failures[_i].culprit);
}
END_TEST

/* ---- standing words -------------------------------------------------------------------------- */

START_TEST(a_proposal_that_stands_is_settled_before_anything_else)
{
	struct outcome_view view = waiting_for_rank_2(GIVE_UP);

	view.verdict = verdict_pack(VERDICT_PROPOSED, 5, 1);
	ck_assert_int_eq(decide(&view), OUTCOME_SETTLE);
	ck_assert_uint_eq(outcome_decide(&view).from, view.verdict);
}
END_TEST

START_TEST(after_a_verdict_nothing_is_done)
{
	struct outcome_view view = waiting_for_rank_2(GIVE_UP);

	view.verdict = verdict_pack(VERDICT_DECIDED, 5, 1);
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	ck_assert_uint_eq(outcome_next_ns(&view), UINT64_MAX);
}
END_TEST

START_TEST(a_withdrawn_turn_is_not_proposed_again)
{
	struct outcome_view view = waiting_for_rank_2(GIVE_UP);

	view.verdict = verdict_pack(VERDICT_WITHDRAWN, 5, 1);
	ck_assert_int_eq(decide(&view), OUTCOME_NOTHING);
	view.verdict = verdict_pack(VERDICT_WITHDRAWN, 4, 1);
	ck_assert_int_eq(decide(&view), OUTCOME_PROPOSE);
}
END_TEST

START_TEST(an_idle_rank_is_not_looked_at_again_by_the_clock)
{
	struct outcome_view view = waiting_for_rank_2(0);

	ck_assert_uint_lt(outcome_next_ns(&view), UINT64_MAX);
	view.phase = WAIT_NOTHING;
	ck_assert_uint_eq(outcome_next_ns(&view), UINT64_MAX);
	view.progress.dead = 4;
	ck_assert_uint_lt(outcome_next_ns(&view), UINT64_MAX);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("liveness");
	TCase *late = tcase_create("late and lost"), *dead = tcase_create("dead");
	TCase *words = tcase_create("words");

	tcase_add_test(late, before_the_soft_deadline_nothing_is_done);
	tcase_add_test(late, a_late_rank_is_named_once_and_not_rescued);
	tcase_add_test(late, a_rank_that_has_staged_but_not_pushed_is_late_and_not_lost);
	tcase_add_test(late, the_root_of_a_chain_is_named_and_not_one_that_waits);
	tcase_add_test(late, there_is_no_root_when_all_have_sent);
	tcase_add_test(late, a_lost_write_is_rescued_after_soft_deadline_and_grace);
	tcase_add_test(late, the_grace_counts_from_when_the_step_was_seen);
	tcase_add_test(late, no_rescue_begins_before_all_have_staged);
	tcase_add_test(late, a_rescue_is_not_begun_twice);
	tcase_add_test(late, a_member_that_died_calls_for_a_new_attempt_without_it);
	tcase_add_test(late, a_rescue_whose_gather_failed_gets_a_new_attempt);
	tcase_add_test(late, while_the_breaker_is_open_what_was_sent_is_lost_at_once);
	tcase_add_test(late, a_call_on_nccl_is_never_rescued);
	tcase_add_test(dead, a_dead_rank_that_staged_is_rescued_at_once);
	tcase_add_test(dead, a_dead_rank_that_did_not_stage_is_a_verdict_at_once);
	tcase_add_test(dead, a_turn_below_the_one_that_a_dead_rank_lacks_is_finished_first);
	tcase_add_test(dead, on_the_ring_a_dead_rank_that_was_done_is_a_verdict_too);
	tcase_add_test(dead, a_rank_that_has_left_is_buried_when_it_is_waited_for);
	tcase_add_test(dead, the_hard_deadline_proposes_and_blames_the_root);
	tcase_add_test(dead, the_proposal_names_the_first_open_turn_and_not_the_own);
	tcase_add_test(dead, when_all_have_sent_the_rank_that_stands_still_is_blamed);
	tcase_add_test(dead, nobody_is_blamed_while_the_own_thread_has_not_seen_that_all_is_here);
	tcase_add_test(words, a_mismatch_waits_for_all_signatures_up_to_the_grace);
	tcase_add_test(words, a_complaint_younger_than_the_view_is_not_past_its_grace);
	tcase_add_test(words, a_mismatch_waits_for_the_turns_below_it);
	tcase_add_test(words, an_abort_proposes_whatever_goes_on);
	tcase_add_loop_test(words, a_rank_that_cannot_go_on_proposes_at_once, 0,
			    (int)(sizeof(own_failures) / sizeof(own_failures[0])));
	tcase_add_test(words, a_proposal_that_stands_is_settled_before_anything_else);
	tcase_add_test(words, after_a_verdict_nothing_is_done);
	tcase_add_test(words, a_withdrawn_turn_is_not_proposed_again);
	tcase_add_test(words, an_idle_rank_is_not_looked_at_again_by_the_clock);
	suite_add_tcase(s, late);
	suite_add_tcase(s, dead);
	suite_add_tcase(s, words);
	return s;
}

#include "check_main.h"
