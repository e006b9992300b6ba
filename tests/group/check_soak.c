/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One communicator that lives long: random sizes, random faults that it survives, a path that
 * breaks and comes back, while memory and descriptors stay flat. Short by default, long with
 * BELAY_TESTS_LONG=1. docs/faults.md: row 26, F04, F38, F62, F87. The seed is printed when it
 * fails; BELAY_SEED repeats it.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/fault_variants.h"

struct soak_plan {
	uint64_t seed;
	int calls;
	char fault[2000];
};

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Sixteen faults, each repeated, none of which ends a communicator. */
static void plan_faults(struct soak_plan *plan, int nranks)
{
	static const char *const kinds[] = {"drop",	 "delay:7",   "stop:12", "flag,at=push",
					    "delay:0.2", "starve:30", "drop",	 "delay:1"};
	uint64_t state = plan->seed;
	size_t used = 0;

	for (int i = 0; i < 16; i++)
		used += (size_t)snprintf(plan->fault + used, sizeof(plan->fault) - used,
					 "%srank=%d,seq=%d:999999:%d,kind=%s", i ? ";" : "",
					 (int)(next(&state) % (unsigned)nranks),
					 (int)(next(&state) % 50) + 1,
					 (int)(next(&state) % 400) + 97, kinds[next(&state) % 8]);
}

static size_t some_count(uint64_t *state)
{
	static const size_t limits[] = {4, 64, 1024, 16384, 60000};

	return next(state) % limits[next(state) % 5];
}

static void soak(struct rank_seat *seat)
{
	const struct soak_plan *plan = seat->plan;
	uint64_t state = plan->seed;
	long before = 0;
	int descriptors = 0;

	seat->config.fault = plan->fault;
	seat->config.late_ms = "2";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_call(seat, 60000)); /* the test's own memory at its largest */
	for (int i = 1; i < plan->calls && !seat->report->failed; i++) {
		struct call_shape shape = {.count = some_count(&state),
					   .in_place = next(&state) & 1};
		bool marks = i % 7 == 0;

		if (i == plan->calls / 4) {
			before = rank_private_kib();
			descriptors = rank_open_descriptors();
		}
		if (marks)
			RANK_EXPECT_STATUS(seat, belay_pass_begin(seat->comm, NULL), 0);
		RANK_EXPECT(seat, rank_call_shaped(seat, &shape));
		if (marks)
			RANK_EXPECT_STATUS(seat, belay_pass_end(seat->comm, NULL), 0);
	}
	RANK_EXPECT(seat, rank_private_kib() - before < 1024);
	RANK_EXPECT(seat, rank_open_descriptors() == descriptors);
	seat->report->statistics.size = sizeof(seat->report->statistics);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(seat->comm, &seat->report->statistics), 0);
	rank_destroy(seat);
}

FAULT_TEST(a_communicator_outlives_all_faults_that_it_may_survive, "F57 F87")
{
	const char *seed = getenv("BELAY_SEED");
	struct soak_plan plan = {
		.seed = seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL) + (uint64_t)_i * 977,
		.calls = rank_tests_long() ? 20000 : 400,
	};
	int nranks = _i % 2 ? 3 : 4;
	struct rank_group group;

	plan_faults(&plan, nranks);
	/* Printed as the TAP comment of a run that is cut, too. */
	(void)printf("# BELAY_SEED=%llu\n", (unsigned long long)plan.seed);
	(void)fflush(stdout);
	rank_group_run(&(struct rank_spec){.nranks = nranks,
					   .scenario = soak,
					   .plan = &plan,
					   .cap_ms = rank_tests_long() ? 280000 : 60000},
		       &group);
	assert_all_well(&group);
}
END_TEST

/* ---- a path that breaks and comes back ------------------------------------------------------- */

struct breaker_plan {
	const char *fault;
	int slow; /* rank that enters each call a millisecond after the others; -1: none */
};

/* A rank that is behind meets a switch that was announced while the others were in the call
 * already. */
static void come_late(const struct rank_seat *seat, int slow)
{
	if (seat->rank == slow)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Calls until the path in use is `path`; false when `calls` were not enough. */
static bool call_until_on(struct rank_seat *seat, enum belay_path path, int calls, int slow)
{
	struct belay_health health = {.size = sizeof(health)};

	for (int i = 0; i < calls; i++) {
		come_late(seat, slow);
		if (!rank_call(seat, 200))
			return false;
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
		seat->report->number[health.last_path]++;
		if (health.last_path == path && !seat->report->outcome[path])
			seat->report->outcome[path] = (int16_t)(i + 1);
	}
	return seat->report->outcome[path] != 0;
}

/* The same number of calls on every rank; on which path each went is told by health, and is
 * agreed. */
static void break_a_path(struct rank_seat *seat)
{
	const struct breaker_plan *plan = seat->plan;

	seat->config.fault = plan->fault;
	seat->config.breaker = "3/60s";
	seat->config.probe_ms = "60000";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, call_until_on(seat, BELAY_PATH_RING, 60, plan->slow));
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	seat->report->statistics.size = sizeof(seat->report->statistics);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(seat->comm, &seat->report->statistics), 0);
	rank_destroy(seat);
}

/* Row 26, first half: opens after three rescues, at the same call everywhere, and does not flap. */
FAULT_TEST(a_path_that_keeps_failing_is_left_at_the_same_call_by_all, "26")
{
	/* No rank is behind, then each. */
	struct breaker_plan plan = {.fault = "rank=1,seq=5:999:2,kind=drop", .slow = _i - 1};
	struct rank_group group;

	rank_group_run(&(struct rank_spec){.nranks = 4, .scenario = break_a_path, .plan = &plan},
		       &group);
	assert_all_well(&group);
	for (int r = 0; r < 4; r++) {
		ck_assert_int_eq(group.report[r].outcome[BELAY_PATH_RING],
				 group.report[0].outcome[BELAY_PATH_RING]);
		ck_assert_uint_eq(group.report[r].number[BELAY_PATH_RING],
				  group.report[0].number[BELAY_PATH_RING]);
		/* Three open it; another may happen until the agreed call. */
		ck_assert_uint_ge(group.report[r].statistics.rescued_seqs, 3);
		ck_assert_uint_le(group.report[r].statistics.rescued_seqs, 6);
	}
}
END_TEST

/* Calls by the clock of rank 0, which ends the loop for all through what it sends. */
static void come_back(struct rank_seat *seat)
{
	const struct breaker_plan *plan = seat->plan;
	uint64_t until = rank_now_ns() + UINT64_C(20000000000);
	struct belay_health health = {.size = sizeof(health)};
	uint32_t go_on = 1, all = 1;
	bool was_on_ring = false;

	seat->config.fault = plan->fault;
	seat->config.breaker = "2/60s";
	seat->config.probe_ms = "50";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	while (all) {
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
		was_on_ring |= health.last_path == BELAY_PATH_RING;
		go_on = !(was_on_ring && health.last_path == BELAY_PATH_HOST) &&
			rank_now_ns() < until;
		if (belay_allreduce(&go_on, &all, 1, BELAY_I32, BELAY_MAX, seat->comm, NULL))
			break;
	}
	RANK_EXPECT(seat, was_on_ring);
	RANK_EXPECT(seat, rank_now_ns() < until);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	rank_destroy(seat);
}

/* Row 26, second half. */
FAULT_TEST(a_path_that_works_again_is_taken_again_by_all, "26")
{
	struct breaker_plan plan = {.fault = "rank=1,seq=5:8,kind=drop"};
	struct rank_group group;

	rank_group_run(
		&(struct rank_spec){
			.nranks = 3, .scenario = come_back, .plan = &plan, .cap_ms = 60000},
		&group);
	assert_all_well(&group);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("soak");
	TCase *c = tcase_create("soak");

	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, a_communicator_outlives_all_faults_that_it_may_survive, 0,
			    rank_tests_long() ? 4 : 1);
	tcase_add_loop_test(c, a_path_that_keeps_failing_is_left_at_the_same_call_by_all, 0, 5);
	tcase_add_test(c, a_path_that_works_again_is_taken_again_by_all);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
