/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are killed, stopped, starved or that exit, with real processes; docs/faults.md says
 * which row of the fault matrix and which field case each test shows.
 *
 * In all of them: the survivors report one verdict, every output that was returned with success is
 * the rank-order sum bit for bit, and the survivors then work on in a new communicator.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fault_variants.h"

#define NS_PER_S UINT64_C(1000000000)

static uint64_t everyone(int nranks)
{
	return nranks == 64 ? UINT64_MAX : (UINT64_C(1) << nranks) - 1;
}

static void run(const struct fault_variant *variant, rank_scenario scenario, const void *plan,
		struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = variant->nranks,
					   .scenario = scenario,
					   .plan = plan,
					   .one_core = variant->one_core},
		       ret_group);
}

/* The victim was killed, all others end well with this verdict and live on. */
static void assert_lost(const struct rank_group *group, int victim, uint64_t seq)
{
	uint64_t survivors = everyone(group->nranks) & ~(UINT64_C(1) << victim);

	ck_assert_int_eq(WTERMSIG(group->wait_status[victim]), SIGKILL);
	ck_assert_uint_eq(rank_group_alive(group), survivors);
	assert_one_verdict(group, survivors, BELAY_CAUSE_PEER_LOST, victim, seq);
	assert_lived_on(group, survivors);
	for (int r = 0; r < group->nranks; r++)
		/* At once: not after the hard deadline of 20 s. */
		ck_assert_uint_lt(group->report[r].failed_ns, 10 * NS_PER_S);
}

/* ---- killed at each step --------------------------------------------------------------------- */

static const struct {
	const char *at;
	int completes; /* 1: the call itself is finished from the staged input, the next one
			* fails */
} steps[] = {{"stage", 0}, {"push", 1}, {"wait", 1}, {"reduce", 1}};

#define STEPS (int)(sizeof(steps) / sizeof(steps[0]))

/* Rows 3 and 4; F01. */
FAULT_TEST(a_rank_killed_at_a_step_is_named_by_all_survivors_at_the_same_call, "3 4 F01 F20")
{
	const struct fault_variant *v = &fault_variants[_i / STEPS];
	int step = _i % STEPS;
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=kill,at=%s", v->seq, steps[step].at),
	};

	run(v, rank_life, &plan, &group);
	assert_lost(&group, 1, v->seq + (unsigned)steps[step].completes);
}
END_TEST

/* Row 4, both halves of a two-shot call in place; F20: the retained input, not the half-written
 * output, is used. */
FAULT_TEST(a_rank_killed_in_a_two_shot_reduction_leaves_its_input_to_the_others, "4 F20")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=kill,at=reduce", v->seq),
		.count = 12000,
		.in_place = true,
	};

	run(v, rank_life, &plan, &group);
	assert_lost(&group, 1, v->seq + 1);
	if (v->nranks > 2)
		ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 1);
}
END_TEST

/* Row 6; no rank is special. */
FAULT_TEST(rank_0_killed_is_like_any_other, "6")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {.fault = fault_text("rank=0,seq=%u,kind=kill", v->seq)};

	run(v, rank_life, &plan, &group);
	assert_lost(&group, 0, v->seq);
}
END_TEST

/* Row 6. */
FAULT_TEST(two_ranks_killed_at_once_give_one_verdict_that_names_one_of_them, "6")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	uint64_t survivors;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=kill;rank=2,seq=%u,kind=kill", v->seq,
				    v->seq),
	};

	if (v->nranks < 4)
		return;
	run(v, rank_life, &plan, &group);
	survivors = rank_group_alive(&group);
	/* One of the two may hear of the other's death before it comes to its own. */
	ck_assert_uint_eq(survivors | 6, everyone(v->nranks));
	ck_assert_uint_ne(survivors & 6, 6);
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, -2, v->seq);
	ck_assert_int_ge(group.report[0].verdict.rank, 1);
	ck_assert_int_le(group.report[0].verdict.rank, 2);
	assert_lived_on(&group, survivors);
}
END_TEST

/* Row 5: rank 0's write is lost, rank 1 dies while all gather the inputs. */
FAULT_TEST(a_rank_killed_during_a_rescue_does_not_stop_the_rescue, "5")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=0,seq=%u,kind=drop;rank=1,seq=%u,kind=kill,at=rescue",
				    v->seq, v->seq),
	};

	run(v, rank_life, &plan, &group);
	assert_lost(&group, 1, v->seq + 1);
}
END_TEST

/* Row 5: rank 1 dies, and whoever of ranks 0 and 2 comes to propose the verdict first dies of
 * it. */
FAULT_TEST(a_rank_killed_while_it_proposes_leaves_one_verdict, "5")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	uint64_t survivors;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=kill;rank=0,seq=%u,kind=kill,at=verdict;"
				    "rank=2,seq=%u,kind=kill,at=verdict",
				    v->seq, v->seq, v->seq),
	};

	if (v->nranks < 4)
		return;
	run(v, rank_life, &plan, &group);
	survivors = rank_group_alive(&group);
	ck_assert_uint_eq(survivors & ~UINT64_C(5), everyone(v->nranks) & ~UINT64_C(7));
	/* A watcher that proposes may die before its own rank has staged the call. */
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, -2, v->seq);
	ck_assert_int_ge(group.report[3].verdict.rank, 0);
	ck_assert_int_le(group.report[3].verdict.rank, 2);
}
END_TEST

/* A rank that kills itself after the third pass, outside any call. */
static void die_between_passes(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	for (int p = 0; p < 6; p++) {
		if (p == 3 && seat->rank == 1)
			(void)raise(SIGKILL);
		if (!rank_pass(seat, 5, 100))
			break;
	}
	rank_end_of_life(seat, plan);
}

/* Row 2. A committed pass stays committed: all survivors have three. */
FAULT_TEST(a_rank_killed_between_passes_fails_the_next_call_at_once, "2")
{
	struct rank_group group;
	struct work_plan plan = {0};

	run(&fault_variants[_i], die_between_passes, &plan, &group);
	assert_lost(&group, 1, 16);
	ck_assert_uint_eq(group.report[0].passes, 3);
}
END_TEST

/* Row 5, F30: at the very end; the others have all they need. */
FAULT_TEST(a_rank_killed_in_destroy_disturbs_nobody, "5")
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=1,seq=*,kind=kill,at=destroy"};

	run(&fault_variants[_i], rank_life, &plan, &group);
	for (int r = 0; r < group.nranks; r++) {
		if (r == 1)
			continue;
		ck_assert_int_eq(group.report[r].failed, 0);
		ck_assert_int_eq(group.report[r].destroyed, 0);
		ck_assert_uint_eq(group.report[r].passes, 10);
	}
}
END_TEST

/* ---- stopped --------------------------------------------------------------------------------- */

/* Row 7, F18, F50. */
FAULT_TEST(a_rank_stopped_for_less_than_the_hard_deadline_is_late_and_nothing_else, "7 F50")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=stop:300", v->seq),
		.grace = "200",
	};
	int named = 0;

	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
	for (int r = 0; r < v->nranks; r++) {
		ck_assert_uint_eq(group.report[r].statistics.rescued_seqs, 0);
		named += r != 1 && group.report[r].statistics.late_by_rank[1] >= 1 &&
			 group.report[r].statistics.late_worst_ns[1] >= 100000000;
	}
	/* On a busy machine another rank may have been later still when one of them looked. */
	ck_assert_int_ge(2 * named, v->nranks - 1);
}
END_TEST

/* The woken rank hears of the verdict; the others' old outputs stay as they are. */
static void outlive_a_stopped_rank(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;
	struct belay_unique_id id;
	uint64_t mask;

	rank_apply(seat, plan);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, !rank_work(seat, plan));
	rank_meet_verdict(seat);
	rank_announce(seat, 0);
	if (seat->rank != 1) {
		memset(seat->memory, 0x3c, seat->memory_bytes);
		/* Until the stopped rank has woken up and has done all that it will do. */
		(void)rank_await(seat, 0, (uint64_t)seat->nranks);
		for (size_t i = 0; i < seat->memory_bytes; i++)
			RANK_EXPECT(seat, seat->memory[i] == 0x3c);
		rank_live_on(seat);
		return;
	}
	RANK_EXPECT_STATUS(seat, belay_comm_survivors(seat->comm, 0, &mask, &id), BELAY_E_STATE);
	rank_destroy(seat);
}

/* Row 8, F13: the message says that the process is stopped, and there is one, not one a minute. */
FAULT_TEST(a_rank_stopped_for_longer_gets_the_verdict_when_it_wakes, "8 F13")
{
	const struct fault_variant *v = &fault_variants[_i / 2];
	struct rank_group group;
	uint64_t others = everyone(v->nranks) & ~UINT64_C(2);
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=stop:1500,at=%s", v->seq,
				    _i % 2 ? "reduce" : "stage"),
		.give_up = "600", /* a process that has not beaten for 300 is called stopped */
		.count = 12000,
	};

	run(v, outlive_a_stopped_rank, &plan, &group);
	ck_assert_uint_eq(rank_group_alive(&group), everyone(v->nranks));
	if (_i % 2 == 0 || v->nranks > 2) {
		assert_one_verdict(&group, everyone(v->nranks), BELAY_CAUSE_PEER_STUCK, 1, v->seq);
		ck_assert_msg(strstr(group.report[0].verdict.text, "stopped") != NULL, "%s",
			      group.report[0].verdict.text);
		ck_assert_int_le(group.report[0].messages, 8);
	}
	assert_lived_on(&group, others);
}
END_TEST

/* As above with region buffers, which the others go on using after the verdict. */
static void outlive_with_region_buffers(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;
	struct call_shape shape = {.count = plan->count};
	size_t bytes = plan->count * sizeof(float);
	void *send = NULL, *recv = NULL;

	rank_apply(seat, plan);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, bytes, &send), 0);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, bytes, &recv), 0);
	shape.send = send;
	shape.recv = recv;
	for (int i = 0; i < 20 && rank_call_shaped(seat, &shape); i++)
		;
	if (seat->rank != 1)
		memset(recv, 0x3c, bytes);
	rank_meet_verdict(seat);
	rank_announce(seat, 0);
	(void)rank_await(seat, 0, (uint64_t)seat->nranks);
	for (size_t i = 0; i < bytes && seat->rank != 1; i++)
		RANK_EXPECT(seat, ((const char *)recv)[i] == 0x3c);
	rank_destroy(seat);
}

/* Row 8. Stopped before it reduces its slice for all: awake again, it pushes nothing. */
FAULT_TEST(a_rank_that_wakes_after_the_verdict_pushes_nothing_into_region_buffers, "8")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=7,kind=stop:1000,at=reduce"),
		.give_up = "300",
		.count = 12000,
	};

	run(v, outlive_with_region_buffers, &plan, &group);
	assert_one_verdict(&group, everyone(v->nranks), BELAY_CAUSE_PEER_STUCK, 1, 7);
}
END_TEST

/* ---- ends of its own ------------------------------------------------------------------------- */

static void crash_in_a_call(struct rank_seat *seat)
{
	struct work_plan plan = {0};
	void *nothing = mmap(NULL, 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	if (seat->rank == 1) {
		(void)setrlimit(RLIMIT_CORE, &(struct rlimit){0});
		/* The sanitizers' handlers would make an exit of it. */
		(void)signal(SIGSEGV, SIG_DFL);
		(void)!belay_allreduce(nothing, nothing, 100, BELAY_F32, BELAY_SUM, seat->comm,
				       NULL);
	}
	(void)rank_pass(seat, 5, 100);
	rank_end_of_life(seat, &plan);
}

/* Row 9. */
FAULT_TEST(a_segmentation_fault_in_a_call_is_like_a_kill, "9")
{
	struct rank_group group;
	uint64_t survivors = everyone(4) & ~UINT64_C(2);

	run(&fault_variants[0], crash_in_a_call, NULL, &group);
	ck_assert_int_eq(WTERMSIG(group.wait_status[1]), SIGSEGV);
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, 1, 6);
	assert_lived_on(&group, survivors);
}
END_TEST

/* Ends the process while its other thread stands in a call. */
static void *exit_soon(void *argument)
{
	struct rank_seat *seat = argument;
	struct belay_health health = {.size = sizeof(health)};

	do
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	while (health.seq < 6 || !health.in_call);
	rank_announce(seat, 0);
	exit(7);
}

static void exit_in_a_call(struct rank_seat *seat)
{
	struct work_plan plan = {0};
	pthread_t thread;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	if (seat->rank == 1)
		RANK_EXPECT(seat, pthread_create(&thread, NULL, exit_soon, seat) == 0);
	else if (seat->rank == 0 && rank_await(seat, 0, 1))
		rank_await_death(seat, 1);
	(void)rank_pass(seat, 5, 100);
	rank_end_of_life(seat, &plan);
}

/* Row 9. It may have been staged or not when exit() came: call 6 or 7, the same on all. */
FAULT_TEST(an_exit_in_a_call_is_like_a_kill, "9")
{
	struct rank_group group;
	uint64_t survivors = everyone(4) & ~UINT64_C(2);

	run(&fault_variants[0], exit_in_a_call, NULL, &group);
	/* 7, or what LeakSanitizer makes of it. */
	ck_assert(WIFEXITED(group.wait_status[1]) && WEXITSTATUS(group.wait_status[1]) != 0);
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, 1, 0);
	ck_assert_uint_ge(group.report[0].verdict.seq, 6);
	ck_assert_uint_le(group.report[0].verdict.seq, 7);
	assert_lived_on(&group, survivors);
}
END_TEST

/* Row 10. */
FAULT_TEST(a_starved_watcher_is_no_death, "10")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=starve:%d", v->seq,
				    rank_tests_long() ? 2000 : 400),
		.passes = 200,
	};

	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
}
END_TEST

/* Row 33, F10: nothing is left wherever a run is cut. The group checks for processes, descriptors
 * and files. */
static void be_killed_at_random(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;

	rank_apply(seat, plan);
	if (rank_create(seat, 0))
		return;
	(void)rank_work(seat, plan);
	(void)belay_comm_destroy(seat->comm);
}

FAULT_TEST(runs_killed_at_random_points_leave_nothing, "33 F10")
{
	static const char *const at[] = {"handshake", "stage",	"push",	  "wait",
					 "reduce",    "rescue", "destroy"};
	const int runs = rank_tests_long() ? 200 : 6;
	int killed = 0;

	for (int i = 0; i < runs; i++) {
		struct rank_group group;
		struct work_plan plan = {
			.fault = fault_text("rank=*,seq=%d,kind=drop;rank=*,seq=%d,kind=kill,at=%s",
					    i % 9, i % 9, at[i % 7]),
			.give_up = "2000",
			.passes = 2,
		};

		run(&fault_variants[0], be_killed_at_random, &plan, &group);
		killed += rank_group_alive(&group) != everyone(4);
	}
	/* Some come never to the point: there is no call 0, and a creation has no step 8. */
	ck_assert_int_ge(2 * killed, runs);
}
END_TEST

/* Rank 2 dies of nothing to do with the verdict, after it and before it has asked for the
 * survivors. */
static void die_after_the_verdict(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;

	rank_apply(seat, plan);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, !rank_work(seat, plan));
	rank_meet_verdict(seat);
	if (seat->rank == 2)
		(void)raise(SIGKILL);
	rank_live_on(seat);
}

/* F90: the agreement on the survivors is bounded too, and goes on without the dead. */
FAULT_TEST(a_rank_killed_after_the_verdict_is_no_survivor, "5 F90")
{
	struct rank_group group;
	uint64_t survivors = everyone(4) & ~UINT64_C(6);
	struct work_plan plan = {.fault = "rank=1,seq=13,kind=kill"};

	run(&fault_variants[0], die_after_the_verdict, &plan, &group);
	ck_assert_uint_eq(rank_group_alive(&group), survivors);
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, 1, 13);
	assert_lived_on(&group, survivors);
}
END_TEST

struct id_plan {
	struct belay_unique_id id;
	bool dies;
};

static void live_under_an_id(struct rank_seat *seat)
{
	const struct id_plan *plan = seat->plan;

	RANK_EXPECT_STATUS(
		seat,
		belay_comm_create(&seat->comm, &plan->id, seat->rank, seat->nranks, &seat->config),
		0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 3000));
	if (plan->dies)
		(void)raise(SIGKILL);
	rank_destroy(seat);
}

/* F11, F82; row 33: all killed at once, and started again under the same id at once. */
FAULT_TEST(a_job_that_was_killed_whole_can_be_started_again_under_its_id, "33 F11 F82")
{
	struct id_plan plan = {.dies = true};
	struct rank_group group;

	ck_assert_int_eq(belay_unique_id_create(&plan.id), 0);
	for (int i = 0; i < 3; i++) {
		run(&fault_variants[0], live_under_an_id, &plan, &group);
		ck_assert_uint_eq(rank_group_alive(&group), 0);
	}
	plan.dies = false;
	run(&fault_variants[0], live_under_an_id, &plan, &group);
	assert_all_well(&group);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("process faults");
	TCase *c = tcase_create("killed");
	int n = fault_variant_count();

	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, a_rank_killed_at_a_step_is_named_by_all_survivors_at_the_same_call,
			    0, n * STEPS);
	tcase_add_loop_test(c, a_rank_killed_in_a_two_shot_reduction_leaves_its_input_to_the_others,
			    0, n);
	tcase_add_loop_test(c, rank_0_killed_is_like_any_other, 0, n);
	tcase_add_loop_test(c, two_ranks_killed_at_once_give_one_verdict_that_names_one_of_them, 0,
			    n);
	tcase_add_loop_test(c, a_rank_killed_during_a_rescue_does_not_stop_the_rescue, 0, n);
	tcase_add_loop_test(c, a_rank_killed_while_it_proposes_leaves_one_verdict, 0, n);
	tcase_add_loop_test(c, a_rank_killed_between_passes_fails_the_next_call_at_once, 0, n);
	tcase_add_loop_test(c, a_rank_killed_in_destroy_disturbs_nobody, 0, n);
	suite_add_tcase(s, c);

	c = tcase_create("stopped");
	tcase_set_timeout(c, 600);
	tcase_add_loop_test(
		c, a_rank_stopped_for_less_than_the_hard_deadline_is_late_and_nothing_else, 0, n);
	tcase_add_loop_test(c, a_rank_stopped_for_longer_gets_the_verdict_when_it_wakes, 0, 2 * n);
	tcase_add_loop_test(
		c, a_rank_that_wakes_after_the_verdict_pushes_nothing_into_region_buffers, 0, n);
	suite_add_tcase(s, c);

	c = tcase_create("ended and starved");
	tcase_set_timeout(c, 600);
	tcase_add_test(c, a_segmentation_fault_in_a_call_is_like_a_kill);
	tcase_add_test(c, an_exit_in_a_call_is_like_a_kill);
	tcase_add_loop_test(c, a_starved_watcher_is_no_death, 0, n);
	tcase_add_test(c, runs_killed_at_random_points_leave_nothing);
	tcase_add_test(c, a_rank_killed_after_the_verdict_is_no_survivor);
	tcase_add_test(c, a_job_that_was_killed_whole_can_be_started_again_under_its_id);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
