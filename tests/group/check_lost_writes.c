/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that is sent and does not arrive, arrives under a wrong flag or spoiled; the number of a
 * call around 2^32; regions that one rank cannot use; and the ring, which a rescue and the last
 * resort share. docs/faults.md: rows 21, 22, 24 and 25.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/support/fault_variants.h"

/* Wide of the noise of a busy machine, for tests that count rescues. */
#define CALM_LATE  "30"
#define CALM_GRACE "60"

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
					   .one_core = variant->one_core,
					   .cap_ms = 60000},
		       ret_group);
}

/* ---- drop ------------------------------------------------------------------------------------ */

static const struct work_plan drop_shapes[] = {
	{.count = 100},
	{.count = 12000},
	{.count = 12000, .in_place = true},
	{.count = 12000, .regions = true},
	{.count = 12000, .regions = true, .in_place = true},
	{.count = 50000}, /* several turns */
};

#define DROP_SHAPES (int)(sizeof(drop_shapes) / sizeof(drop_shapes[0]))

/* Row 21; F06, F20: in place too, from the retained input; region buffers: R4. */
FAULT_TEST(a_lost_write_is_rescued_once_and_the_calls_after_it_are_healthy, "21 F06 F20")
{
	const struct fault_variant *v = &fault_variants[_i / DROP_SHAPES];
	struct work_plan plan = drop_shapes[_i % DROP_SHAPES];
	struct rank_group group;

	plan.fault = fault_text("rank=1,seq=%u,kind=drop", v->seq);
	plan.late = CALM_LATE;
	plan.grace = CALM_GRACE;
	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
	for (int r = 0; r < v->nranks; r++) {
		uint64_t turns = (plan.count * sizeof(float) + 65535) / 65536;

		ck_assert_uint_ge(group.report[r].statistics.rescued_seqs, 1);
		ck_assert_uint_le(group.report[r].statistics.rescued_seqs, turns);
		ck_assert_uint_eq(group.report[r].passes, 10);
	}
	ck_assert_uint_ge(group.report[0].statistics.own_rescues, 1);
}
END_TEST

/* F04, F43, F57: rescue after rescue, each rank in turn, while the calls go on. */
FAULT_TEST(many_lost_writes_of_all_ranks_are_all_rescued, "21 F04 F43")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=0,seq=2:900:5,kind=drop;rank=1,seq=3:900:5,kind=drop;"
			 "rank=*,seq=4:900:5,kind=drop",
		.late = "2",
		.passes = rank_tests_long() ? 60 : 8,
	};

	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, (uint64_t)plan.passes * 3);
}
END_TEST

/* F76: what goes wrong again and again is counted, not told each time. */
FAULT_TEST(messages_do_not_grow_with_what_goes_wrong, "F76")
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=1,seq=2:99999:3,kind=drop",
		.late = "0.5",
		.passes = rank_tests_long() ? 600 : 15,
	};

	run(&fault_variants[0], rank_life, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, (uint64_t)plan.passes * 5 / 3);
	for (int r = 0; r < 4; r++)
		ck_assert_int_le(group.report[r].messages, 10);
}
END_TEST

/* Row 22: a future seq, an old one, all ones, at three calls in a row. */
FAULT_TEST(a_wrong_arrival_flag_is_never_taken_for_data, "22")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u:%u,kind=flag,at=push", v->seq + 2, v->seq + 4),
	};

	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 3);
}
END_TEST

/* R5: rank 2 misses the data of rank 0, and rank 1 has staged and is not further. Its header, with
 * the flag of the turn after next, follows while the rescue runs; and in that turn rank 1 is late.
 */
FAULT_TEST(a_wrong_flag_that_follows_its_rescue_is_never_taken_for_data, "22")
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=0,seq=6,kind=drop;rank=1,seq=6,kind=delay:100,at=push;"
			 "rank=1,seq=6,kind=flag;rank=1,seq=8,kind=delay:50",
		.count = 100,
		.late = "5",
		.grace = "2",
	};

	rank_group_run(&(struct rank_spec){.nranks = 3, .scenario = rank_life, .plan = &plan},
		       &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 1);
}
END_TEST

/* ---- a kernel short of memory ---------------------------------------------------------------- */

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

/* Messages of this rank that the kernel still refuses, and what it says. */
static _Atomic int sends_refused;
static int refusal;

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	/* Relaxed: a rescue is long after the calling thread has set it. */
	if (atomic_load_explicit(&sends_refused, memory_order_relaxed) <= 0)
		return __real_sendmsg(fd, message, flags);
	atomic_fetch_sub_explicit(&sends_refused, 1, memory_order_relaxed);
	errno = refusal;
	return -1;
}

static const int refusals[] = {EAGAIN, ENOBUFS, ENOMEM};

static void live_short_of_memory(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;

	rank_apply(seat, plan);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	if (!seat->comm)
		return;
	atomic_store_explicit(&sends_refused, 20, memory_order_relaxed);
	(void)rank_work(seat, plan);
	RANK_EXPECT(seat, atomic_load_explicit(&sends_refused, memory_order_relaxed) == 0);
	rank_end_of_life(seat, plan);
}

/* A live link that takes no message for now: the rescue tries again. */
START_TEST(a_rescue_outlasts_a_kernel_that_is_short_of_memory)
{
	struct work_plan plan = {.fault = "rank=1,seq=7,kind=drop", .late = "2"};
	struct rank_group group;

	refusal = refusals[_i]; /* the ranks are forked from here */
	run(&fault_variants[0], live_short_of_memory, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 1);
}
END_TEST

/* ---- the wrap -------------------------------------------------------------------------------- */

/* Row 24: flags repeat every 2^32 - 1 calls, slots every 2; both go on over 2^32. */
FAULT_TEST(calls_pass_the_wrap_of_32_bits, "24")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	struct work_plan plan = {
		.first_seq = (UINT64_C(1) << 32) - 7,
		.fault = "rank=1,seq=4294967294:4294967297,kind=drop",
		.passes = 4,
	};

	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].calls, 20);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 4);
}
END_TEST

/* Row 24 with row 4. */
FAULT_TEST(a_verdict_beyond_the_wrap_names_its_seq, "24")
{
	struct rank_group group;
	struct work_plan plan = {
		.first_seq = (UINT64_C(1) << 32) - 7,
		.fault = "rank=1,seq=4294967298,kind=kill",
	};

	run(&fault_variants[_i], rank_life, &plan, &group);
	assert_one_verdict(&group, everyone(group.nranks) & ~UINT64_C(2), BELAY_CAUSE_PEER_LOST, 1,
			   UINT64_C(4294967298));
}
END_TEST

/* ---- another path ---------------------------------------------------------------------------- */

static const char *const path_faults[] = {"rank=1,kind=map-fail", "rank=1,kind=selftest"};

/* Row 25; F02, F07: one rank cannot, so none does; one message each. */
FAULT_TEST(a_region_that_one_rank_cannot_use_sends_all_to_the_ring_together, "25 F02 F07")
{
	const struct fault_variant *v = &fault_variants[_i / 2];
	struct rank_group group;
	/* The message of a late rank is not the one that is counted. */
	struct work_plan plan = {.fault = path_faults[_i % 2], .late = "10000", .grace = "1000"};

	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
	for (int r = 0; r < v->nranks; r++) {
		ck_assert_int_eq(group.report[r].path, BELAY_PATH_RING);
		ck_assert_int_eq(group.report[r].messages, 1);
		ck_assert_uint_eq(group.report[r].statistics.calls_by_path[BELAY_PATH_RING], 50);
	}
}
END_TEST

static void find_no_path(struct rank_seat *seat)
{
	seat->config.fault = path_faults[0];
	seat->config.paths = "host";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), BELAY_E_NO_PATH);
	(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
}

/* Row 25. */
FAULT_TEST(no_path_that_works_on_all_ranks_is_an_error_with_the_reason, "25 F02 F07")
{
	struct rank_group group;

	run(&fault_variants[0], find_no_path, NULL, &group);
	for (int r = 0; r < group.nranks; r++)
		ck_assert_ptr_nonnull(strstr(group.report[r].text, "injected"));
}
END_TEST

static const struct work_plan ring_shapes[] = {
	{.count = 0},
	{.count = 50000},
	{.count = 777, .in_place = true},
	{.count = 12000, .regions = true},
};

#define RING_SHAPES (int)(sizeof(ring_shapes) / sizeof(ring_shapes[0]))

FAULT_TEST(the_ring_path_gives_the_same_bits, "F88")
{
	const struct fault_variant *v = &fault_variants[_i / RING_SHAPES];
	struct work_plan plan = ring_shapes[_i % RING_SHAPES];
	struct rank_group group;

	plan.paths = "ring";
	plan.passes = 4;
	run(v, rank_life, &plan, &group);
	assert_all_well(&group);
	ck_assert_int_eq(group.report[0].path, BELAY_PATH_RING);
}
END_TEST

/* Rows 3 and 5 on the ring. */
FAULT_TEST(a_rank_killed_on_the_ring_path_is_named_by_all, "2 F01")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	uint64_t survivors = everyone(v->nranks) & ~UINT64_C(2);
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=kill", v->seq),
		.paths = "ring",
	};

	run(v, rank_life, &plan, &group);
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, 1, v->seq);
	assert_lived_on(&group, survivors);
}
END_TEST

/* L3 without a donation: a private input is gone with its rank, so that the call itself has
 * failed. */
FAULT_TEST(without_shared_regions_a_dead_ranks_input_is_not_counted, "4")
{
	const struct fault_variant *v = &fault_variants[_i];
	struct rank_group group;
	uint64_t survivors = everyone(v->nranks) & ~UINT64_C(2);
	struct work_plan plan = {
		.fault = fault_text("rank=*,kind=map-fail;rank=1,seq=%u,kind=kill,at=rescue",
				    v->seq),
	};

	run(v, rank_life, &plan, &group);
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, 1, v->seq);
	assert_lived_on(&group, survivors);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("lost writes");
	TCase *c = tcase_create("rescue");
	int n = fault_variant_count();

	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, a_lost_write_is_rescued_once_and_the_calls_after_it_are_healthy, 0,
			    n * DROP_SHAPES);
	tcase_add_test(c, messages_do_not_grow_with_what_goes_wrong);
	tcase_add_loop_test(c, many_lost_writes_of_all_ranks_are_all_rescued, 0, n);
	tcase_add_loop_test(c, a_wrong_arrival_flag_is_never_taken_for_data, 0, n);
	tcase_add_test(c, a_wrong_flag_that_follows_its_rescue_is_never_taken_for_data);
	tcase_add_loop_test(c, a_rescue_outlasts_a_kernel_that_is_short_of_memory, 0,
			    (int)(sizeof(refusals) / sizeof(refusals[0])));
	tcase_add_loop_test(c, calls_pass_the_wrap_of_32_bits, 0, n);
	tcase_add_loop_test(c, a_verdict_beyond_the_wrap_names_its_seq, 0, n);
	suite_add_tcase(s, c);

	c = tcase_create("another path");
	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c, a_region_that_one_rank_cannot_use_sends_all_to_the_ring_together, 0,
			    2 * n);
	tcase_add_test(c, no_path_that_works_on_all_ranks_is_an_error_with_the_reason);
	tcase_add_loop_test(c, the_ring_path_gives_the_same_bits, 0, n * RING_SHAPES);
	tcase_add_loop_test(c, a_rank_killed_on_the_ring_path_is_named_by_all, 0, n);
	tcase_add_loop_test(c, without_shared_regions_a_dead_ranks_input_is_not_counted, 0, n);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
