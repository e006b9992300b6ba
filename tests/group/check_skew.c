/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that come late: a little, by about the soft deadline, by about the hard one, all together,
 * or only the first time. docs/faults.md: rows 11 to 13. Slow is not broken, and one outcome for
 * all.
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fault_variants.h"

#define NS_PER_MS UINT64_C(1000000)

static void run(const struct fault_variant *variant, rank_scenario scenario, const void *plan,
		struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = variant->nranks,
					   .scenario = scenario,
					   .plan = plan,
					   .one_core = variant->one_core,
					   .cap_ms = rank_tests_long() ? 1800000 : 60000},
		       ret_group);
}

static void *call_in_thread(void *argument)
{
	struct rank_seat *seat = argument;

	RANK_EXPECT(seat, rank_call(seat, 50));
	return NULL;
}

static uint64_t named_late(const struct rank_group *group, int rank)
{
	uint64_t sum = 0;

	for (int r = 0; r < group->nranks; r++)
		sum += r != rank ? group->report[r].statistics.late_by_rank[rank] : 0;
	return sum;
}

/* Row 11; F50. Half a soft deadline and more in each call: told late, never rescued. */
FAULT_TEST(a_rank_that_is_late_in_every_call_is_named_and_not_rescued, "11")
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=2,seq=*,kind=delay:1",
		.late = "0.3",
		.grace = "100",
		.passes = 20,
	};

	run(&fault_variants[0], rank_life, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].statistics.rescued_seqs, 0);
	/* Of 300 waits. A busy machine makes others late too, and its watchers; the arrivals in the
	 * call log tell better: check_lost_writes. */
	ck_assert_uint_ge(named_late(&group, 2), 15);
	for (int r = 0; r < 4; r++)
		if (r != 2)
			ck_assert_uint_lt(named_late(&group, r), named_late(&group, 2));
}
END_TEST

/* Row 11: within the soft deadline nobody is named. */
FAULT_TEST(a_rank_within_the_soft_deadline_is_not_told_about, "11")
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=2,seq=*,kind=delay:1",
		.late = "2000",
		.passes = 5,
	};

	run(&fault_variants[0], rank_life, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(named_late(&group, 2), 0);
	ck_assert_int_eq(group.report[0].messages, 0);
}
END_TEST

/* ---- sweeps ---------------------------------------------------------------------------------- */

struct sweep {
	const char *late, *give_up;
	uint64_t from_ns, step_ns;
	int trials;
};

static void wait_ns(uint64_t ns)
{
	struct timespec nap = {.tv_sec = (time_t)(ns / 1000000000),
			       .tv_nsec = (long)(ns % 1000000000)};

	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
}

static int sweep_trials(void)
{
	int trials = rank_times("BELAY_FAULT_TRIALS", 2000, 40);

	return trials < RANK_TRIALS ? trials : RANK_TRIALS;
}

/* One pass a trial, in which rank 1 is late by a little more each time. What counts is the
 * commit. */
static void sweep_arrival(struct rank_seat *seat)
{
	const struct sweep *sweep = seat->plan;
	int id = 0;

	seat->config.late_ms = sweep->late;
	seat->config.give_up_ms = seat->config.warmup_give_up_ms = sweep->give_up;
	for (int trial = 0; trial < sweep->trials; trial++) {
		bool committed;

		if (!seat->comm && rank_create(seat, id++ % RANK_IDS))
			return;
		seat->report->failed = 0;
		if (seat->rank == 1)
			wait_ns(sweep->from_ns + (uint64_t)trial * sweep->step_ns);
		committed = rank_pass(seat, 2, 64);
		seat->report->outcome[trial] = (int16_t)seat->report->failed;
		seat->report->number[0] += committed;
		if (committed)
			continue;
		RANK_EXPECT(seat, seat->report->failed == BELAY_E_PEER_STUCK);
		rank_destroy(seat);
		seat->made = 0;
		/* All are through with the old one before anybody is waited for in the new one. */
		rank_announce(seat, 0);
		(void)rank_await(seat, 0, (uint64_t)id * (uint64_t)seat->nranks);
	}
	if (seat->comm)
		rank_destroy(seat);
}

static void assert_same_outcomes(const struct rank_group *group, int trials)
{
	for (int r = 0; r < group->nranks; r++) {
		ck_assert(group->report[r].ended);
		for (int i = 0; i < trials; i++)
			ck_assert_msg(group->report[r].outcome[i] == group->report[0].outcome[i],
				      "trial %d: rank 0 %d, rank %d %d", i,
				      group->report[0].outcome[i], r, group->report[r].outcome[i]);
	}
}

/* Row 12. */
FAULT_TEST(an_arrival_about_the_soft_deadline_has_one_outcome_success, "12 F05")
{
	struct sweep sweep = {.late = "3",
			      .give_up = "20000",
			      .from_ns = 2 * NS_PER_MS,
			      .trials = sweep_trials()};
	struct rank_group group;

	sweep.step_ns = 2 * NS_PER_MS / (uint64_t)sweep.trials;
	run(&fault_variants[0], sweep_arrival, &sweep, &group);
	assert_same_outcomes(&group, sweep.trials);
	ck_assert_uint_eq(group.report[0].number[0], (uint64_t)sweep.trials);
}
END_TEST

/* Row 12; F05: some trials succeed, some fail, each on all ranks alike. */
FAULT_TEST(an_arrival_about_the_hard_deadline_has_one_outcome_on_all_ranks, "12 F05")
{
	struct sweep sweep = {
		.late = "2", .give_up = "20", .from_ns = 16 * NS_PER_MS, .trials = sweep_trials()};
	struct rank_group group;

	sweep.step_ns = 8 * NS_PER_MS / (uint64_t)sweep.trials;
	run(&fault_variants[0], sweep_arrival, &sweep, &group);
	assert_same_outcomes(&group, sweep.trials);
	(void)printf(
		"# %d trials about the hard deadline on 4 ranks: %llu committed, %llu ended in the "
		"verdict, none differently\n",
		sweep.trials, (unsigned long long)group.report[0].number[0],
		(unsigned long long)sweep.trials - (unsigned long long)group.report[0].number[0]);
}
END_TEST

/* ---- warm-up --------------------------------------------------------------------------------- */

/* Late by 600 ms in the first call, and again, if it comes to that, in the first call of the second
 * pass. */
static void come_late_twice(struct rank_seat *seat)
{
	struct work_plan stay = {.stay = true};

	seat->config.give_up_ms = "200";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	for (int p = 0; p < 2 && !seat->report->failed; p++) {
		if (seat->rank == 1)
			wait_ns(600 * NS_PER_MS);
		(void)rank_pass(seat, 3, 50);
	}
	/* Rank 1 hears of it when it comes. */
	rank_end_of_life(seat, &stay);
}

/* Row 13. */
FAULT_TEST(the_warm_up_deadline_holds_until_the_first_pass_is_over, "13")
{
	struct rank_group group;

	run(&fault_variants[0], come_late_twice, NULL, &group);
	assert_one_verdict(&group, 15, BELAY_CAUSE_PEER_STUCK, 1, 4);
	ck_assert_uint_eq(group.report[0].passes, 1);
}
END_TEST

/* ---- waiting --------------------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
	struct timespec used;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void wait_long(struct rank_seat *seat)
{
	uint64_t before, began;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 3, 50));
	began = rank_now_ns();
	before = cpu_ns();
	if (seat->rank == 3)
		wait_ns(1000 * NS_PER_MS);
	RANK_EXPECT(seat, rank_call(seat, 100));
	seat->report->number[0] = cpu_ns() - before;
	seat->report->number[1] = rank_now_ns() - began;
	rank_destroy(seat);
}

/* F22: less than 5 % of a core, after 10 ms, the watcher's looks included. */
FAULT_TEST(a_rank_that_waits_sleeps, "F22")
{
	struct rank_group group;

	run(&fault_variants[0], wait_long, NULL, &group);
	assert_all_well(&group);
	for (int r = 0; r < 3; r++)
		ck_assert_msg(group.report[r].number[0] <
				      10 * NS_PER_MS + group.report[r].number[1] / 20,
			      "rank %d used %llu ns of CPU in %llu ns", r,
			      (unsigned long long)group.report[r].number[0],
			      (unsigned long long)group.report[r].number[1]);
}
END_TEST

/* F50: a debugger stops all for longer than the hard deadline; then nobody is to blame. */
FAULT_TEST(all_ranks_stopped_together_go_on, "F50")
{
	struct rank_group group;
	/* All stop at the same call, for longer than the hard deadline. */
	struct work_plan plan = {.fault = "rank=*,seq=23,kind=stop:1500", .give_up = "1000"};

	run(&fault_variants[0], rank_life, &plan, &group);
	assert_all_well(&group);
}
END_TEST

/* Rank 1's thread does something else for good, while its watcher beats on. */
static void block_elsewhere(struct rank_seat *seat)
{
	struct belay_rank_health health = {.size = sizeof(health)};
	struct work_plan stay = {.stay = true};

	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "600";
	seat->config.heartbeat_ms = "50";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 3, 50));
	if (seat->rank == 1) {
		rank_await_verdict(seat);
		RANK_EXPECT(seat, !rank_call(seat, 50));
	} else {
		RANK_EXPECT(seat, !rank_call(seat, 50));
		RANK_EXPECT_STATUS(seat, belay_comm_rank_health(seat->comm, 1, &health), 0);
		RANK_EXPECT(seat, health.seq == 3 && health.done_seq == 3 && !health.in_call);
		RANK_EXPECT(seat, health.age_ns > 300 * NS_PER_MS && !health.dead);
	}
	rank_end_of_life(seat, &stay);
}

/* F18, F03, F107: progress counts, not the heartbeat; one line says who, which call, how long, and
 * that it runs. */
FAULT_TEST(a_rank_whose_thread_is_stuck_is_named_though_its_watcher_lives, "F03 F18 F107")
{
	struct rank_group group;
	const char *text;

	run(&fault_variants[0], block_elsewhere, NULL, &group);
	text = group.report[0].verdict.text;
	assert_one_verdict(&group, 15, BELAY_CAUSE_PEER_STUCK, 1, 4);
	ck_assert_ptr_nonnull(strstr(text, "rank 1 (pid "));
	ck_assert_ptr_nonnull(strstr(text, "process running) did not take part in seq 4 within "));
	ck_assert_ptr_nonnull(strstr(text, "its last call was seq 3"));
	/* Each rank says it once, with the communicator's name and the cause. */
	for (int r = 0; r < 4; r++) {
		ck_assert_ptr_nonnull(strstr(group.report[r].message, "verdict peer_stuck"));
		ck_assert_int_le(group.report[r].messages, 4);
	}
}
END_TEST

/* No call, and after the first two no heartbeat either: nobody has seen any progress. */
static void ask_before_the_first_call(struct rank_seat *seat)
{
	struct belay_rank_health one = {.size = sizeof(one)};
	struct belay_health own = {.size = sizeof(own)};

	seat->config.heartbeat_ms = "60000";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	wait_ns(NS_PER_MS);
	for (int r = 0; r < 4; r++) {
		RANK_EXPECT_STATUS(seat, belay_comm_rank_health(seat->comm, r, &one), 0);
		RANK_EXPECT(seat, one.age_ns >= NS_PER_MS && one.age_ns < 60000 * NS_PER_MS);
		RANK_EXPECT(seat, one.age_ns >= one.heartbeat_age_ns);
	}
	RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &own), 0);
	RANK_EXPECT(seat, own.age_ns >= NS_PER_MS);
	rank_destroy(seat);
}

/* Else a rank that stops in its first calls would look fresher than those that wait for it. */
START_TEST(a_rank_that_has_finished_no_call_is_as_old_as_its_communicator)
{
	struct rank_group group;

	run(&fault_variants[0], ask_before_the_first_call, NULL, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 15);
	for (int r = 0; r < 4; r++)
		ck_assert_int_eq(group.report[r].failed, 0);
}
END_TEST

/* What a waiting rank tells about itself while it waits. */
static void ask_while_waiting(struct rank_seat *seat)
{
	struct belay_health health = {.size = sizeof(health)};
	pthread_t thread;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	if (seat->rank == 0) {
		RANK_EXPECT(seat, pthread_create(&thread, NULL, call_in_thread, seat) == 0);
		do
			RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
		while (health.missing != 2);
		/* Once more: its words are read one by one, and the first time the call may just
		 * have begun. */
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
		RANK_EXPECT(seat, health.in_call && health.seq == 1 && health.done_seq == 0);
		rank_announce(seat, 0);
		(void)pthread_join(thread, NULL);
	} else {
		if (seat->rank == 1)
			(void)rank_await(seat, 0, 1);
		RANK_EXPECT(seat, rank_call(seat, 50));
	}
	rank_destroy(seat);
}

/* F18: health tells which ranks a call past the soft deadline waits for. */
FAULT_TEST(health_tells_who_is_waited_for, "F03 F18 F107")
{
	struct rank_group group;

	run(&fault_variants[0], ask_while_waiting, NULL, &group);
	assert_all_well(&group);
}
END_TEST

/* ---- leaving --------------------------------------------------------------------------------- */

struct leave_plan {
	bool destroys;
	const char *fault;
};

/* Rank 0 makes its last call and is gone; rank 3 comes to that call later. With a lost write of
 * rank 0 all the others need its watcher then, and its memory. */
static void leave_after_the_last_call(struct rank_seat *seat)
{
	const struct leave_plan *plan = seat->plan;

	seat->config.fault = plan->fault;
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 3, 5000));
	if (seat->rank == 3)
		wait_ns(100 * NS_PER_MS);
	RANK_EXPECT(seat, rank_call(seat, plan->fault ? 50 : 12000));
	if (seat->rank == 0 && !plan->destroys)
		_exit(0);
	rank_destroy(seat);
}

/* F51; C3. */
FAULT_TEST(a_rank_that_leaves_at_once_leaves_what_the_slow_one_needs, "F30 F51")
{
	static const struct leave_plan plans[] = {
		{.destroys = true},
		{.destroys = false},
		{.destroys = true, .fault = "rank=0,seq=4,kind=drop"},
	};
	struct rank_group group;

	run(&fault_variants[0], leave_after_the_last_call, &plans[_i], &group);
	ck_assert_uint_eq(rank_group_alive(&group), 15);
	for (int r = 1; r < 4; r++) {
		ck_assert_int_eq(group.report[r].failed, 0);
		ck_assert_int_eq(group.report[r].destroyed, 0);
		ck_assert_uint_eq(group.report[r].bits, group.report[1].bits);
	}
}
END_TEST

static void destroy_before_a_peer_is_done(struct rank_seat *seat)
{
	uint64_t began;

	seat->config.destroy_ms = "300";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	if (seat->rank == 0) {
		(void)rank_await(seat, 0, 1);
		rank_destroy(seat);
		return;
	}
	/* Rank 0 has made no call at all: rank 1 abandons the communicator, in time. */
	began = rank_now_ns();
	seat->report->number[0] = (uint64_t)(belay_comm_abort(seat->comm) == 0);
	rank_await_verdict(seat);
	rank_destroy(seat);
	RANK_EXPECT(seat, rank_now_ns() - began < 10000 * NS_PER_MS);
	rank_announce(seat, 0);
}

/* F30, F51. */
FAULT_TEST(destruction_after_a_verdict_waits_for_nobody, "F30 F51")
{
	struct rank_group group;
	struct fault_variant two = {.nranks = 2};

	run(&two, destroy_before_a_peer_is_done, NULL, &group);
	ck_assert_int_eq(group.report[0].destroyed, 0);
	ck_assert_int_eq(group.report[1].destroyed, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("skew");
	TCase *c = tcase_create("late");

	tcase_set_timeout(c, rank_tests_long() ? 1900 : 600);
	tcase_add_test(c, a_rank_that_is_late_in_every_call_is_named_and_not_rescued);
	tcase_add_test(c, a_rank_within_the_soft_deadline_is_not_told_about);
	tcase_add_test(c, an_arrival_about_the_soft_deadline_has_one_outcome_success);
	tcase_add_test(c, an_arrival_about_the_hard_deadline_has_one_outcome_on_all_ranks);
	tcase_add_test(c, the_warm_up_deadline_holds_until_the_first_pass_is_over);
	tcase_add_test(c, a_rank_that_waits_sleeps);
	tcase_add_test(c, all_ranks_stopped_together_go_on);
	tcase_add_test(c, a_rank_whose_thread_is_stuck_is_named_though_its_watcher_lives);
	tcase_add_test(c, health_tells_who_is_waited_for);
	tcase_add_test(c, a_rank_that_has_finished_no_call_is_as_old_as_its_communicator);
	suite_add_tcase(s, c);

	c = tcase_create("leaving");
	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, a_rank_that_leaves_at_once_leaves_what_the_slow_one_needs, 0, 3);
	tcase_add_test(c, destruction_after_a_verdict_waits_for_nobody);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
