/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that do not make the same calls, and communicators used from several threads.
 * docs/faults.md: rows 15 to 18. A mismatch is a verdict before any output is written (rank_calls.c
 * looks at recv).
 */
#include "config.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/fault_variants.h"

static uint64_t everyone(int nranks)
{
	return (UINT64_C(1) << nranks) - 1;
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

/* ---- one rank calls differently -------------------------------------------------------------- */

static const char *const mismatch_kinds[] = {"count", "dtype", "op", "swap"};

#define KINDS (int)(sizeof(mismatch_kinds) / sizeof(mismatch_kinds[0]))

static void assert_mismatch(const struct rank_group *group, uint64_t seq)
{
	uint64_t all = everyone(group->nranks);
	const struct belay_verdict *verdict = &group->report[0].verdict;

	assert_one_verdict(group, all, BELAY_CAUSE_MISMATCH, 1, seq);
	/* F107: both signatures, who, and where. */
	ck_assert_ptr_nonnull(strstr(verdict->text, "rank 1 called differently at seq"));
	ck_assert_ptr_nonnull(strstr(verdict->text, "odd (ranks mask 0x2): count"));
	ck_assert_ptr_nonnull(strstr(verdict->text, "; others (ranks mask 0x"));
	for (int r = 0; r < group->nranks; r++)
		ck_assert_uint_eq(group->report[r].statistics.rescued_seqs, 0);
	assert_lived_on(group, all);
}

/* Row 15; F14. Small and large, in place and not. */
FAULT_TEST(a_wrong_count_type_operation_or_order_is_a_mismatch_on_all_ranks, "15 F14 F107")
{
	const struct fault_variant *v = &fault_variants[_i / KINDS];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=%s", v->seq, mismatch_kinds[_i % KINDS]),
		.count = _i & 1 ? 12000 : 100,
		.in_place = _i / 2 & 1,
		.grace = "300", /* a rank that comes late is still to be heard, and no rescue is to
				   begin */
	};

	run(v, rank_life, &plan, &group);
	assert_mismatch(&group, v->seq);
}
END_TEST

FAULT_TEST(a_mismatch_on_the_ring_path_is_a_mismatch_too, "15 F14 F107")
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=8,kind=%s", mismatch_kinds[_i]),
		.paths = "ring",
		.grace = "300",
	};

	run(&fault_variants[0], rank_life, &plan, &group);
	assert_one_verdict(&group, everyone(4), BELAY_CAUSE_MISMATCH, 1, 8);
}
END_TEST

struct count_plan {
	size_t count, other;
};

static const struct count_plan count_plans[] = {
	{100, 98}, {100, 200}, {100, 0}, {12000, 6000}, {409600 / 4, 409598 / 4}, {50000, 0},
};

#define COUNT_PLANS (int)(sizeof(count_plans) / sizeof(count_plans[0]))

static void call_with_other_counts(struct rank_seat *seat)
{
	const struct count_plan *plan = seat->plan;
	struct work_plan nothing = {0};

	seat->config.grace_ms = "300";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_call(seat, 10));
	RANK_EXPECT(seat, !rank_call(seat, seat->rank == 1 ? plan->other : plan->count));
	rank_end_of_life(seat, &nothing);
}

/* Row 15; F14, F65: one rank with no elements too. */
FAULT_TEST(other_counts_on_one_rank_never_give_wrong_tails, "15 F14 F107")
{
	struct rank_group group;

	run(&fault_variants[0], call_with_other_counts, &count_plans[_i], &group);
	assert_mismatch(&group, 2);
}
END_TEST

/* ---- calls left out, added, exchanged -------------------------------------------------------- */

enum deviation { SWAP_IN_PASS, SKIP_IN_PASS, EXTRA_IN_PASS, SKIP_OUTSIDE, EXTRA_OUTSIDE };

struct deviation_plan {
	enum deviation what;
};

/* Two passes of five calls of different or equal counts; rank 1 deviates in the second. */
static void deviate_in_a_pass(struct rank_seat *seat)
{
	const struct deviation_plan *plan = seat->plan;
	static const size_t ordered[] = {10, 20, 30, 40, 50}, swapped[] = {10, 30, 20, 40, 50};
	bool odd = seat->rank == 1, well;

	seat->config.grace_ms = "300";
	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "3000";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 10));
	RANK_EXPECT_STATUS(seat, belay_pass_begin(seat->comm, NULL), 0);
	well = true;
	if (plan->what == SWAP_IN_PASS) {
		for (int i = 0; i < 5 && well; i++)
			well = rank_call(seat, (odd ? swapped : ordered)[i]);
	} else {
		int calls = 5 + odd * (plan->what == EXTRA_IN_PASS ? 1 : -1);

		for (int i = 0; i < calls && well; i++)
			well = rank_call(seat, 10);
		if (well && belay_pass_end(seat->comm, NULL) == 0)
			well = rank_pass(seat, 5, 10);
	}
	RANK_EXPECT(seat, !well);
	rank_meet_verdict(seat);
	rank_destroy(seat);
}

/* Row 16. */
FAULT_TEST(calls_swapped_left_out_or_added_in_a_pass_are_a_mismatch, "16")
{
	static const struct deviation_plan plans[] = {
		{SWAP_IN_PASS}, {SKIP_IN_PASS}, {EXTRA_IN_PASS}};
	static const uint64_t seqs[] = {7, 10, 11};
	struct rank_group group;
	uint64_t others;

	run(&fault_variants[0], deviate_in_a_pass, &plans[_i], &group);
	for (int r = 0; r < group.nranks; r++) {
		ck_assert_int_eq(group.report[r].failed, BELAY_E_MISMATCH);
		ck_assert_str_eq(group.report[r].verdict.text, group.report[0].verdict.text);
	}
	others = everyone(group.nranks) & ~UINT64_C(2);
	assert_one_verdict(&group, others, BELAY_CAUSE_MISMATCH, 1, seqs[_i]);
}
END_TEST

/* Ten equal calls, rank 1 makes one less or one more; nobody leaves before all know. */
static void deviate_outside(struct rank_seat *seat)
{
	const struct deviation_plan *plan = seat->plan;
	int calls = 10 + (seat->rank == 1) * (plan->what == EXTRA_OUTSIDE ? 1 : -1);

	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "500";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	for (int i = 0; i < calls && rank_call(seat, 10); i++)
		;
	if (seat->report->failed)
		rank_announce(seat, 0);
	rank_await_verdict(seat);
	rank_meet_verdict(seat);
	rank_announce(seat, 1);
	(void)rank_await(seat, 1, (uint64_t)seat->nranks);
	rank_destroy(seat);
}

/* Row 16; F05: found at T as the missing or the surplus last call. */
FAULT_TEST(a_call_left_out_or_added_outside_passes_is_found_at_the_hard_deadline, "16")
{
	static const struct deviation_plan plans[] = {{SKIP_OUTSIDE}, {EXTRA_OUTSIDE}};
	struct rank_group group;

	run(&fault_variants[0], deviate_outside, &plans[_i], &group);
	for (int r = 0; r < group.nranks; r++) {
		const struct belay_verdict *verdict = &group.report[r].verdict;

		ck_assert_int_eq(verdict->cause, BELAY_CAUSE_PEER_STUCK);
		ck_assert_uint_eq(verdict->seq, _i ? 11 : 10);
		ck_assert_str_eq(verdict->text, group.report[0].verdict.text);
		if (_i == 0)
			ck_assert_int_eq(verdict->rank, 1);
	}
}
END_TEST

/* One rank leaves for good, the others call on. */
static void leave_early(struct rank_seat *seat)
{
	struct work_plan nothing = {0};

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 10));
	if (seat->rank == 1) {
		rank_destroy(seat);
		seat->config.start_ms = "300";
		RANK_EXPECT_STATUS(seat, rank_create(seat, 1), BELAY_E_START_TIMEOUT);
		(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s",
			       belay_last_error());
		return;
	}
	RANK_EXPECT(seat, !rank_pass(seat, 5, 10));
	rank_end_of_life(seat, &nothing);
}

/* F94, F90: destroyed and created again by one rank only. */
FAULT_TEST(a_rank_that_leaves_and_comes_again_alone_hurts_nobody_for_long, "F90 F94")
{
	struct rank_group group;
	uint64_t others = everyone(4) & ~UINT64_C(2);

	run(&fault_variants[0], leave_early, NULL, &group);
	assert_one_verdict(&group, others, BELAY_CAUSE_PEER_LOST, 1, 6);
	ck_assert_ptr_nonnull(strstr(group.report[0].verdict.text, "left"));
	assert_lived_on(&group, others);
	/* The missing are named. */
	ck_assert_ptr_nonnull(strstr(group.report[1].text, "0"));
	ck_assert_int_eq(group.report[1].destroyed, 0);
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

static void *call_in_thread(void *argument)
{
	struct rank_seat *seat = argument;

	RANK_EXPECT(seat, rank_call(seat, 100));
	return NULL;
}

/* What another thread gets while a call runs. */
static void meddle(struct rank_seat *seat)
{
	struct belay_health health = {.size = sizeof(health)};
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct belay_pass_info info = {.size = sizeof(info)};
	struct belay_unique_id id;
	float in = 3, out = 5;
	void *buffer = NULL;
	uint64_t mask = 77;

	do
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	while (!health.in_call);
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(&in, &out, 1, BELAY_F32, BELAY_SUM, seat->comm, NULL),
			   BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(seat->comm, NULL), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_pass_end(seat->comm, NULL), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(seat->comm, &info), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(seat->comm, 64, &buffer), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_buffer_free(seat->comm, &in), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_comm_survivors(seat->comm, 0, &mask, &id), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(seat->comm, &statistics), 0);
	RANK_EXPECT(seat, out == 5 && !buffer && mask == 77 && info.pass == 0);
}

static void use_from_two_threads(struct rank_seat *seat)
{
	pthread_t thread;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	if (seat->rank == 0) {
		RANK_EXPECT(seat, pthread_create(&thread, NULL, call_in_thread, seat) == 0);
		meddle(seat);
		rank_announce(seat, 0);
		(void)pthread_join(thread, NULL);
	} else {
		(void)rank_await(seat, 0, 1);
		RANK_EXPECT(seat, rank_call(seat, 100));
	}
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	rank_destroy(seat);
}

/* Row 17; F24. */
FAULT_TEST(a_second_thread_in_a_communicator_is_busy_and_changes_nothing, "17 F24")
{
	struct rank_group group;

	run(&fault_variants[0], use_from_two_threads, NULL, &group);
	assert_all_well(&group);
}
END_TEST

/* A rank with two communicators, each a seat of its own. */
struct pair {
	struct rank_seat *outer;
	struct rank_seat seat[2];
	struct rank_report report[2];
};

static void make_pair(struct rank_seat *seat, struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		pair->seat[i] = *seat;
		pair->seat[i].report = &pair->report[i];
		pair->seat[i].config.log_user = seat;
		RANK_EXPECT_STATUS(seat, rank_create(&pair->seat[i], i), 0);
	}
}

static void end_pair(struct rank_seat *seat, struct pair *pair)
{
	for (int i = 0; i < 2; i++) {
		RANK_EXPECT_STATUS(seat, belay_comm_destroy(pair->seat[i].comm), 0);
		free(pair->seat[i].memory);
		if (pair->report[i].complaint[0])
			(void)memcpy(seat->report->complaint, pair->report[i].complaint,
				     sizeof(pair->report[i].complaint));
	}
}

static void *work_in_thread(void *argument)
{
	struct rank_seat *seat = argument;

	for (int i = 0; i < 100; i++)
		RANK_EXPECT(seat, rank_call(seat, 300));
	return NULL;
}

static void work_on_both_from_threads(struct rank_seat *seat)
{
	struct pair *pair = calloc(1, sizeof(*pair));
	pthread_t threads[2];

	make_pair(seat, pair);
	for (int i = 0; i < 2; i++) {
		int which = (i + seat->rank) & 1;

		RANK_EXPECT(seat, pthread_create(&threads[i], NULL, work_in_thread,
						 &pair->seat[which]) == 0);
	}
	for (int i = 0; i < 2; i++)
		(void)pthread_join(threads[i], NULL);
	end_pair(seat, pair);
	free(pair);
}

/* Row 18; F25. */
FAULT_TEST(two_communicators_used_from_threads_do_not_disturb_each_other, "18 F25 F70")
{
	struct rank_group group;

	run(&fault_variants[0], work_on_both_from_threads, NULL, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 15);
}
END_TEST

static void cross(struct rank_seat *seat)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "500";
	make_pair(seat, pair);
	for (int i = 0; i < 2; i++)
		(void)rank_call(&pair->seat[(i + seat->rank) & 1], 100);
	seat->report->outcome[0] = (int16_t)pair->report[0].failed;
	seat->report->outcome[1] = (int16_t)pair->report[1].failed;
	rank_announce(seat, 0);
	(void)rank_await(seat, 0, 2);
	end_pair(seat, pair);
	free(pair);
}

/* Row 18; F25, F70: each has words of its own, and a crossed order ends at T. */
FAULT_TEST(two_communicators_in_opposite_order_from_one_thread_end_in_a_verdict, "18 F25 F70")
{
	struct rank_group group;
	struct fault_variant two = {.nranks = 2};

	run(&two, cross, NULL, &group);
	for (int r = 0; r < 2; r++)
		for (int i = 0; i < 2; i++)
			ck_assert_int_eq(group.report[r].outcome[i], group.report[!r].outcome[i]);
	ck_assert(group.report[0].outcome[0] == BELAY_E_PEER_STUCK ||
		  group.report[0].outcome[1] == BELAY_E_PEER_STUCK);
}
END_TEST

/* ---- abort ----------------------------------------------------------------------------------- */

static void *abort_twice(void *argument)
{
	struct rank_seat *seat = argument;
	struct belay_health health = {.size = sizeof(health)};

	/* Or until another rank was first: then this one may never come to call 6. */
	do
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	while ((health.seq < 6 || !health.in_call) && !health.has_verdict);
	RANK_EXPECT_STATUS(seat, belay_comm_abort(seat->comm), 0);
	RANK_EXPECT_STATUS(seat, belay_comm_abort(seat->comm), 0);
	return NULL;
}

struct abort_plan {
	uint64_t who; /* ranks that abort */
};

/* Rank 0 never makes call 6 itself: the others wait for it when the abort comes. */
static void abort_in_a_call(struct rank_seat *seat)
{
	const struct abort_plan *plan = seat->plan;
	struct work_plan nothing = {0};
	pthread_t thread;
	bool aborts = plan->who >> seat->rank & 1;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	if (aborts)
		RANK_EXPECT(seat, pthread_create(&thread, NULL, abort_twice, seat) == 0);
	if (seat->rank == 0)
		rank_await_verdict(seat);
	RANK_EXPECT(seat, !rank_pass(seat, 5, 100));
	if (aborts)
		(void)pthread_join(thread, NULL);
	rank_end_of_life(seat, &nothing);
}

/* F30. */
FAULT_TEST(an_abort_from_another_thread_ends_the_call_on_all_ranks, "F30")
{
	static const struct abort_plan plans[] = {{2}, {14}};
	struct rank_group group;

	run(&fault_variants[0], abort_in_a_call, &plans[_i], &group);
	assert_one_verdict(&group, everyone(4), BELAY_CAUSE_ABORTED, -2, 6);
	ck_assert(plans[_i].who >> group.report[0].verdict.rank & 1);
	assert_lived_on(&group, everyone(4));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("semantics");
	TCase *c = tcase_create("mismatch");
	int n = fault_variant_count();

	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, a_wrong_count_type_operation_or_order_is_a_mismatch_on_all_ranks, 0,
			    n * KINDS);
	tcase_add_loop_test(c, a_mismatch_on_the_ring_path_is_a_mismatch_too, 0, KINDS);
	tcase_add_loop_test(c, other_counts_on_one_rank_never_give_wrong_tails, 0, COUNT_PLANS);
	tcase_add_loop_test(c, calls_swapped_left_out_or_added_in_a_pass_are_a_mismatch, 0, 3);
	tcase_add_loop_test(
		c, a_call_left_out_or_added_outside_passes_is_found_at_the_hard_deadline, 0, 2);
	tcase_add_test(c, a_rank_that_leaves_and_comes_again_alone_hurts_nobody_for_long);
	suite_add_tcase(s, c);

	c = tcase_create("threads");
	tcase_set_timeout(c, 600);
	tcase_add_test(c, a_second_thread_in_a_communicator_is_busy_and_changes_nothing);
	tcase_add_test(c, two_communicators_used_from_threads_do_not_disturb_each_other);
	tcase_add_test(c, two_communicators_in_opposite_order_from_one_thread_end_in_a_verdict);
	tcase_add_loop_test(c, an_abort_from_another_thread_ends_the_call_on_all_ranks, 0, 2);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
