/* SPDX-License-Identifier: Apache-2.0 */
/* mailbox.c: every event in every state of the list in mailbox.h. */
#include <check.h>
#include <signal.h>

#include "runtime/outcome/mailbox.h"

#define TURN 5

static struct mailbox mailbox;

static const struct stuck_turn stuck = {.phase = WAIT_INPUTS, .turn = TURN, .missing = 6};

/* A mailbox in a state, got there by its own functions. */
static void bring_to(enum mailbox_state state)
{
	mailbox_init(&mailbox);
	if (state >= MAILBOX_STUCK)
		mailbox_post(&mailbox, &stuck);
	if (state >= MAILBOX_ASKED)
		ck_assert_int_eq(mailbox_ask(&mailbox, TURN, 111), MAILBOX_ASKED);
	if (state >= MAILBOX_ABANDONED)
		ck_assert(mailbox_abandon(&mailbox));
	if (state >= MAILBOX_RELEASED)
		mailbox_release(&mailbox, TURN, 0, 222);
}

static enum mailbox_state state_now(void)
{
	struct stuck_turn unused;

	return mailbox_read(&mailbox, &unused);
}

START_TEST(each_state_is_reached_by_the_ways_of_the_list)
{
	bring_to((enum mailbox_state)_i);
	ck_assert_int_eq(state_now(), _i);
	mailbox_destroy(&mailbox);
}
END_TEST

static const struct {
	enum mailbox_state from, asked, abandoned, released;
	int cleared; /* -1: never done */
} moves[] = {
	{MAILBOX_IDLE, MAILBOX_IDLE, MAILBOX_IDLE, MAILBOX_IDLE, MAILBOX_IDLE},
	{MAILBOX_STUCK, MAILBOX_ASKED, MAILBOX_STUCK, MAILBOX_STUCK, MAILBOX_IDLE},
	{MAILBOX_ASKED, MAILBOX_ASKED, MAILBOX_ABANDONED, MAILBOX_ASKED, MAILBOX_IDLE},
	{MAILBOX_ABANDONED, MAILBOX_ABANDONED, MAILBOX_ABANDONED, MAILBOX_RELEASED, -1},
	{MAILBOX_RELEASED, MAILBOX_RELEASED, MAILBOX_RELEASED, MAILBOX_RELEASED, MAILBOX_IDLE},
};

START_TEST(asking_moves_only_a_stuck_thread)
{
	bring_to(moves[_i].from);
	ck_assert_int_eq(mailbox_ask(&mailbox, TURN, 333), moves[_i].asked);
	ck_assert_int_eq(state_now(), moves[_i].asked);
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(a_turn_is_abandoned_only_when_asked_for)
{
	bring_to(moves[_i].from);
	ck_assert_int_eq(mailbox_abandon(&mailbox), moves[_i].from == MAILBOX_ASKED);
	ck_assert_int_eq(state_now(), moves[_i].abandoned);
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(only_an_abandoned_turn_is_released)
{
	bring_to(moves[_i].from);
	mailbox_release(&mailbox, TURN, -1, 0);
	ck_assert_int_eq(state_now(), moves[_i].released);
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(clearing_ends_everything_but_an_abandoned_turn)
{
	if (moves[_i].cleared == -1)
		return; /* the calling thread has no business there; see the next test */
	bring_to(moves[_i].from);
	mailbox_clear(&mailbox);
	ck_assert_int_eq(state_now(), moves[_i].cleared);
	mailbox_destroy(&mailbox);
}
END_TEST

/* Asserted in the library: a bug in belay only. */
START_TEST(taking_back_an_abandoned_turn_is_a_bug)
{
	bring_to(MAILBOX_ABANDONED);
	mailbox_clear(&mailbox);
}
END_TEST

START_TEST(another_turn_is_neither_asked_for_nor_released)
{
	bring_to(MAILBOX_STUCK);
	ck_assert_int_eq(mailbox_ask(&mailbox, TURN - 1, 1), MAILBOX_IDLE);
	ck_assert_int_eq(mailbox_ask(&mailbox, TURN + 1, 1), MAILBOX_IDLE);
	ck_assert_int_eq(state_now(), MAILBOX_STUCK);
	mailbox_destroy(&mailbox);
	bring_to(MAILBOX_ABANDONED);
	mailbox_release(&mailbox, TURN + 1, 0, 0);
	ck_assert_int_eq(state_now(), MAILBOX_ABANDONED);
	mailbox_destroy(&mailbox);
}
END_TEST

static const enum wait_phase without_output[] = {WAIT_COMMIT, WAIT_VERDICT};

START_TEST(a_wait_without_output_is_not_asked_for_any)
{
	struct stuck_turn other = stuck;

	other.phase = without_output[_i];
	mailbox_init(&mailbox);
	mailbox_post(&mailbox, &other);
	ck_assert_int_eq(mailbox_ask(&mailbox, TURN, 1), MAILBOX_IDLE);
	ck_assert_int_eq(state_now(), MAILBOX_STUCK);
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(an_outcome_is_given_only_after_release)
{
	int outcome = 77;
	uint64_t digest = 78, asked_ns = 79;

	bring_to((enum mailbox_state)_i);
	ck_assert_int_eq(mailbox_released(&mailbox, &outcome, &digest, &asked_ns),
			 _i == MAILBOX_RELEASED);
	ck_assert_int_eq(outcome, _i == MAILBOX_RELEASED ? 0 : 77);
	ck_assert_uint_eq(digest, _i == MAILBOX_RELEASED ? 222 : 78);
	ck_assert_uint_eq(asked_ns, _i == MAILBOX_RELEASED ? 111 : 79);
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(asking_again_keeps_the_time_of_the_first_time)
{
	bring_to(MAILBOX_ASKED);
	(void)mailbox_ask(&mailbox, TURN, 999);
	ck_assert_uint_eq(mailbox.asked_ns, 111);
	ck_assert(mailbox_asked(&mailbox));
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(the_watcher_reads_what_is_still_missing)
{
	struct stuck_turn seen;

	bring_to(MAILBOX_STUCK);
	mailbox_update_missing(&mailbox, 2);
	(void)mailbox_read(&mailbox, &seen);
	ck_assert_uint_eq(seen.missing, 2);
	ck_assert_uint_eq(seen.turn, TURN);
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(the_first_complaint_stands)
{
	mailbox_init(&mailbox);
	ck_assert(mailbox_complain(&mailbox, COMPLAINT_MISMATCH, 3, 30));
	ck_assert(!mailbox_complain(&mailbox, COMPLAINT_MISMATCH, 4, 40));
	ck_assert_int_eq(mailbox.complaint, COMPLAINT_MISMATCH);
	ck_assert_uint_eq(mailbox.complaint_turn, 3);
	ck_assert_uint_eq(mailbox.complaint_since_ns, 30);
	mailbox_destroy(&mailbox);
}
END_TEST

START_TEST(a_lost_device_is_worse_than_a_mismatch)
{
	mailbox_init(&mailbox);
	ck_assert(mailbox_complain(&mailbox, COMPLAINT_MISMATCH, 3, 30));
	ck_assert(mailbox_complain(&mailbox, COMPLAINT_GPU_FAULT, 0, 40));
	ck_assert(!mailbox_complain(&mailbox, COMPLAINT_GPU_FAULT, 0, 50));
	ck_assert(!mailbox_complain(&mailbox, COMPLAINT_NCCL, 0, 60));
	ck_assert_int_eq(mailbox.complaint, COMPLAINT_GPU_FAULT);
	ck_assert_uint_eq(mailbox.complaint_since_ns, 40);
	mailbox_destroy(&mailbox);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("mailbox");
	TCase *c = tcase_create("mailbox");

	tcase_add_loop_test(c, each_state_is_reached_by_the_ways_of_the_list, 0, 5);
	tcase_add_loop_test(c, asking_moves_only_a_stuck_thread, 0, 5);
	tcase_add_loop_test(c, a_turn_is_abandoned_only_when_asked_for, 0, 5);
	tcase_add_loop_test(c, only_an_abandoned_turn_is_released, 0, 5);
	tcase_add_loop_test(c, clearing_ends_everything_but_an_abandoned_turn, 0, 5);
#ifndef NDEBUG
	tcase_add_test_raise_signal(c, taking_back_an_abandoned_turn_is_a_bug, SIGABRT);
#endif
	tcase_add_test(c, another_turn_is_neither_asked_for_nor_released);
	tcase_add_loop_test(c, a_wait_without_output_is_not_asked_for_any, 0, 2);
	tcase_add_loop_test(c, an_outcome_is_given_only_after_release, 0, 5);
	tcase_add_test(c, asking_again_keeps_the_time_of_the_first_time);
	tcase_add_test(c, the_watcher_reads_what_is_still_missing);
	tcase_add_test(c, the_first_complaint_stands);
	tcase_add_test(c, a_lost_device_is_worse_than_a_mismatch);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
