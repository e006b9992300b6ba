/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks with GPUs that are killed, stopped, or lose their context; NCCL that fails. To be run
 * without MPS, whose clients all lose their contexts with one that is killed.
 *
 * In all of them the survivors report one verdict, in time; every result that was returned with
 * success is the rank-order sum bit for bit; their contexts are healthy, and they work on in a new
 * communicator in the same processes.
 */
#include "config.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/gpu/gpu_seat.h"
#include "tests/support/fault_variants.h"

#define NS_PER_MS UINT64_C(1000000)

/* The first call, and one behind passes that went well. */
static const unsigned seqs[] = {23, 1};
#define SEQS (int)(sizeof(seqs) / sizeof(seqs[0]))

static int ranks(void)
{
	return (int)gpu_number("BELAY_GPU_RANKS", 4);
}

static uint64_t everyone(void)
{
	return (UINT64_C(1) << ranks()) - 1;
}

static void run(const struct work_plan *plan, struct rank_group *group)
{
	gpu_group_run(ranks(), gpu_life, plan, group);
}

/* BELAY_VERDICT_MS, by default the 50 ms that are promised. */
static uint64_t promised_ns(void)
{
	return gpu_number("BELAY_VERDICT_MS", 50) * NS_PER_MS;
}

/* From the call that failed, which began at most a call before the rank died, to the status. */
static void assert_in_time(const struct rank_group *group, uint64_t survivors)
{
	uint64_t most_ns = 0;

	for (int r = 0; r < group->nranks; r++) {
		if (survivors >> r & 1 && group->report[r].failed_ns > most_ns)
			most_ns = group->report[r].failed_ns;
	}
	printf("# verdict after %.1f ms\n", (double)most_ns / 1e6);
	ck_assert_uint_le(most_ns, promised_ns());
}

static uint64_t assert_lost_at(const struct rank_group *group, int victim, uint64_t seq)
{
	uint64_t survivors = everyone() & ~(UINT64_C(1) << victim);

	ck_assert_int_eq(WTERMSIG(group->wait_status[victim]), SIGKILL);
	ck_assert_uint_eq(rank_group_alive(group), survivors);
	assert_one_verdict(group, survivors, BELAY_CAUSE_PEER_LOST, victim, seq);
	assert_lived_on(group, survivors);
	return survivors;
}

static void assert_lost(const struct rank_group *group, int victim, uint64_t seq)
{
	assert_in_time(group, assert_lost_at(group, victim, seq));
}

/* ---- killed ---------------------------------------------------------------------------------- */

static const struct {
	const char *at;
	unsigned completes; /* 1: the call is finished from the input that was staged, the next
			       fails */
} steps[] = {{"stage", 0}, {"push", 1}, {"wait", 1}, {"reduce", 1}};
#define STEPS (int)(sizeof(steps) / sizeof(steps[0]))

START_TEST(a_rank_killed_at_a_step_is_named_by_all_survivors_at_the_same_call)
{
	unsigned seq = seqs[_i / STEPS];
	struct rank_group group;
	struct work_plan plan = {
		.fault = fault_text("rank=1,seq=%u,kind=kill,at=%s", seq, steps[_i % STEPS].at),
		.count = 12000};

	run(&plan, &group);
	assert_lost(&group, 1, seq + steps[_i % STEPS].completes);
}
END_TEST

START_TEST(a_rank_killed_in_an_in_place_reduction_leaves_its_input_to_the_others)
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=1,seq=23,kind=kill,at=reduce", .count = 12000, .in_place = true};

	run(&plan, &group);
	assert_lost(&group, 1, 24);
}
END_TEST

START_TEST(rank_0_killed_is_like_any_other)
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=0,seq=23,kind=kill,at=stage"};

	run(&plan, &group);
	assert_lost(&group, 0, 23);
}
END_TEST

START_TEST(a_rank_killed_during_a_rescue_does_not_stop_the_rescue)
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=0,seq=23,kind=drop;rank=1,seq=23,kind=kill,at=rescue"};

	run(&plan, &group);
	assert_lost(&group, 1, 24);
}
END_TEST

START_TEST(a_rank_killed_while_it_proposes_leaves_one_verdict)
{
	struct rank_group group;
	uint64_t survivors;
	struct work_plan plan = {
		.fault = "rank=1,seq=23,kind=kill;rank=0,seq=23,kind=kill,at=verdict;"
			 "rank=2,seq=23,kind=kill,at=verdict"};

	if (ranks() < 4) {
		printf("# SKIP takes 4 ranks\n");
		return;
	}
	run(&plan, &group);
	survivors = rank_group_alive(&group);
	ck_assert_uint_eq(survivors & ~UINT64_C(5), everyone() & ~UINT64_C(7));
	assert_one_verdict(&group, survivors, BELAY_CAUSE_PEER_LOST, 1, 23);
	assert_in_time(&group, survivors);
}
END_TEST

/* ---- killed while the others replay a graph -------------------------------------------------- */

#define REPLAY_VICTIM 1
#define ALIVE	      0 /* word: when the victim was last seen alive */

/* The scenario's numbers: from the victim's last sign of life. */
enum { NUMBER_VERDICT, NUMBER_STREAM };

static void note_times(struct gpu_seat *gpu)
{
	const struct rank_seat *seat = gpu->seat;
	uint64_t killed = atomic_load_explicit(&seat->words[ALIVE], memory_order_relaxed);

	seat->report->number[NUMBER_STREAM] = rank_now_ns() - killed;
	gpu_meet_verdict(gpu);
	seat->report->number[NUMBER_VERDICT] = gpu->verdict_ns - killed;
}

static void replay_until_the_verdict(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;
	struct gpu_call calls[50];
	struct gpu_graph graph = {0};
	struct gpu_seat gpu;

	for (int i = 0; i < 50; i++)
		calls[i] = (struct gpu_call){.count = 7000, .dtype = BELAY_BF16};
	rank_apply(seat, plan);
	if (gpu_open(seat, 64u << 10, &gpu) && gpu_create(&gpu, 0) &&
	    gpu_capture(&gpu, calls, 50, true, &graph)) {
		if (seat->rank == REPLAY_VICTIM)
			gpu.alive = &seat->words[ALIVE];
		while (gpu.seq < 1000 && gpu_replay(&gpu, &graph))
			;
		note_times(&gpu);
		gpu_expect_healthy(&gpu);
		gpu_graph_free(&graph);
		gpu_live_on(&gpu);
	}
	gpu_close(&gpu);
}

/* What is promised is the verdict. The end of the stream is told beside it: without MPS the driver
 * takes the context of the dead down meanwhile, and holds up all contexts of its GPU for that. */
static void assert_verdict_in_time(const struct rank_group *group, uint64_t survivors)
{
	uint64_t verdict_ns = 0, stream_ns = 0;

	for (int r = 0; r < group->nranks; r++) {
		const uint64_t *number = group->report[r].number;

		if (!(survivors >> r & 1))
			continue;
		if (number[NUMBER_VERDICT] > verdict_ns)
			verdict_ns = number[NUMBER_VERDICT];
		if (number[NUMBER_STREAM] > stream_ns)
			stream_ns = number[NUMBER_STREAM];
	}
	printf("# verdict %.1f ms after the kill; the last stream ended after %.1f ms\n",
	       (double)verdict_ns / 1e6, (double)stream_ns / 1e6);
	ck_assert_uint_le(verdict_ns, promised_ns());
}

START_TEST(a_rank_killed_in_a_replayed_graph_lets_the_others_graphs_run_out)
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=1,seq=125,kind=kill,at=wait"};

	gpu_group_run(ranks(), replay_until_the_verdict, &plan, &group);
	assert_verdict_in_time(&group, assert_lost_at(&group, REPLAY_VICTIM, 126));
}
END_TEST

/* ---- stopped --------------------------------------------------------------------------------- */

/* Row 7. */
START_TEST(a_rank_stopped_for_less_than_the_hard_deadline_is_waited_for)
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=1,seq=23,kind=stop:300"};

	run(&plan, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].passes, 10);
}
END_TEST

/* Row 8. The woken rank learns the verdict; whether it is stuck or lost is the hard deadline's. */
START_TEST(a_rank_stopped_for_longer_gets_the_verdict_that_the_others_have)
{
	struct rank_group group;
	struct work_plan plan = {
		.fault = "rank=1,seq=23,kind=stop:3000", .give_up = "1000", .stay = true};

	run(&plan, &group);
	ck_assert_uint_eq(rank_group_alive(&group), everyone());
	assert_one_verdict(&group, everyone(), BELAY_CAUSE_PEER_STUCK, 1, 0);
}
END_TEST

/* ---- the device and NCCL --------------------------------------------------------------------- */

/* Row 27: its own fault; the peers are told and do not wait for the deadline of 20 s. */
START_TEST(a_lost_context_is_the_verdict_of_all_ranks_at_once)
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=1,seq=23,kind=cuda-sticky", .stay = true};

	run(&plan, &group);
	ck_assert_uint_eq(rank_group_alive(&group), everyone());
	assert_one_verdict(&group, everyone(), BELAY_CAUSE_GPU_FAULT, 1, 0);
	for (int r = 0; r < ranks(); r++)
		ck_assert_uint_lt(group.report[r].failed_ns, 5000 * NS_PER_MS);
}
END_TEST

static bool any_left_nccl(const struct rank_group *group)
{
	bool any = false;

	for (int r = 0; r < group->nranks; r++)
		any |= group->report[r].left_nccl;
	return any;
}

static const char *const nccl_faults[] = {"nccl-hang", "nccl-error"};

/* Row 29: a rescue whose gather does not come, or fails, goes over host memory; bounded. */
START_TEST(a_rescue_that_nccl_fails_is_carried_out_over_host_memory)
{
	struct rank_group group;
	struct work_plan plan = {.fault =
					 fault_text("rank=0,seq=23,kind=drop;rank=1,seq=23,kind=%s,"
						    "at=rescue",
						    nccl_faults[_i])};

	run(&plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 1);
	ck_assert_uint_eq(group.report[0].passes, 10);
	/* Without NCCL nothing of this has been shown. */
	if (!any_left_nccl(&group))
		printf("# SKIP NCCL was not there\n");
	ck_assert(any_left_nccl(&group) || !getenv("BELAY_NCCL_LIBRARY"));
}
END_TEST

static Suite *suite(void)
{
	Suite *all = suite_create("gpu_faults");
	TCase *killed = tcase_create("killed"), *stopped = tcase_create("stopped");
	TCase *device = tcase_create("device"), *graphs = tcase_create("graphs");

	tcase_set_timeout(killed, 70);
	tcase_set_timeout(stopped, 70);
	tcase_set_timeout(device, 70);
	tcase_set_timeout(graphs, 70);
	tcase_add_loop_test(killed,
			    a_rank_killed_at_a_step_is_named_by_all_survivors_at_the_same_call, 0,
			    STEPS * (rank_tests_long() ? SEQS : 1));
	tcase_add_test(killed,
		       a_rank_killed_in_an_in_place_reduction_leaves_its_input_to_the_others);
	tcase_add_test(killed, rank_0_killed_is_like_any_other);
	tcase_add_test(killed, a_rank_killed_during_a_rescue_does_not_stop_the_rescue);
	tcase_add_test(killed, a_rank_killed_while_it_proposes_leaves_one_verdict);
	tcase_add_test(graphs, a_rank_killed_in_a_replayed_graph_lets_the_others_graphs_run_out);
	tcase_add_test(stopped, a_rank_stopped_for_less_than_the_hard_deadline_is_waited_for);
	tcase_add_test(stopped, a_rank_stopped_for_longer_gets_the_verdict_that_the_others_have);
	tcase_add_test(device, a_lost_context_is_the_verdict_of_all_ranks_at_once);
	tcase_add_loop_test(device, a_rescue_that_nccl_fails_is_carried_out_over_host_memory, 0, 2);
	suite_add_tcase(all, killed);
	suite_add_tcase(all, graphs);
	suite_add_tcase(all, stopped);
	suite_add_tcase(all, device);
	return all;
}

int main(void)
{
	return gpu_main(suite());
}
