/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on GPUs between healthy ranks, and faults that they survive: every result is compared bit
 * for bit with the rank-order sum. Ranks are processes, or threads where BELAY_GPU_THREADS=1.
 * BELAY_GPU_RANKS: how many; BELAY_GPU_SOAK: calls of each soak; BELAY_SEED: of the random sizes.
 */
#include "config.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/gpu/gpu_seat.h"
#include "tests/support/fault_variants.h"

#define PASS_CALLS 122
#define PASS_COUNT 57344
#define SPIN_NS	   UINT64_C(3000000000)

static const enum belay_dtype dtypes[] = {BELAY_BF16, BELAY_F16, BELAY_F32, BELAY_F64,
					  BELAY_I32,  BELAY_I64, BELAY_U8,  BELAY_I8};
#define DTYPES (sizeof(dtypes) / sizeof(dtypes[0]))

static int ranks(void)
{
	return (int)gpu_number("BELAY_GPU_RANKS", 4);
}

/* The same on all ranks. */
static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Opens seat, memory and communicator; the scenario is over when it is false. */
static bool begin(struct rank_seat *seat, struct gpu_seat *gpu, size_t bytes_max)
{
	if (seat->plan)
		rank_apply(seat, seat->plan);
	return gpu_open(seat, bytes_max, gpu) && gpu_create(gpu, 0);
}

static void end(struct gpu_seat *gpu)
{
	struct rank_report *report = gpu->seat->report;

	if (gpu->seat->comm) {
		gpu_statistics(gpu, &report->statistics);
		gpu_meet(gpu);
		rank_destroy(gpu->seat);
	}
	gpu_close(gpu);
}

static void run(int nranks, rank_scenario scenario, const struct work_plan *plan,
		struct rank_group *group)
{
	gpu_group_run(nranks, scenario, plan, group);
}

static void run_well(rank_scenario scenario, const struct work_plan *plan, struct rank_group *group)
{
	run(ranks(), scenario, plan, group);
	assert_all_well(group);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static const size_t counts[] = {0,  1,	2,  3,	 7,    8,    9,	    15,	   16,	   17,
				63, 64, 65, 255, 1000, 4097, 12345, 57344, 100001, 262144};
#define COUNTS (sizeof(counts) / sizeof(counts[0]))

static void try_shapes(struct gpu_seat *gpu, enum belay_dtype dtype, enum belay_op op)
{
	for (size_t i = 0; i < COUNTS; i++) {
		struct gpu_call call = {.count = counts[i], .dtype = dtype, .op = op};

		RANK_EXPECT(gpu->seat, gpu_issue(gpu, &call));
		call.in_place = true;
		RANK_EXPECT(gpu->seat, gpu_issue(gpu, &call));
		call.in_place = false;
		call.send_shift = belay_dtype_bytes(dtype);
		RANK_EXPECT(gpu->seat, gpu_issue(gpu, &call));
		call.recv_shift = 3 * belay_dtype_bytes(dtype);
		RANK_EXPECT(gpu->seat, gpu_issue(gpu, &call));
	}
	RANK_EXPECT(gpu->seat, gpu_settle(gpu));
	gpu_meet(gpu);
}

static void all_shapes(struct rank_seat *seat)
{
	struct gpu_seat gpu;

	if (begin(seat, &gpu, 2u << 20))
		for (size_t i = 0; i < DTYPES; i++)
			for (int op = BELAY_SUM; op <= BELAY_PROD; op++)
				try_shapes(&gpu, dtypes[i], (enum belay_op)op);
	end(&gpu);
}

START_TEST(every_type_operation_size_and_alignment_has_the_bits_of_the_rank_order_result)
{
	struct rank_group group;

	run_well(all_shapes, NULL, &group);
}
END_TEST

/* ---- soaks ----------------------------------------------------------------------------------- */

static struct gpu_call some_call(uint64_t *state)
{
	static const size_t limits[] = {16, 256, 4096, 65536, 262144};
	static const enum belay_dtype often[] = {BELAY_BF16, BELAY_BF16, BELAY_F32, BELAY_F16,
						 BELAY_I32};

	return (struct gpu_call){.count = next(state) % limits[next(state) % 5],
				 .dtype = often[next(state) % 5],
				 .in_place = next(state) & 1};
}

/* One rank in turn is late, on the host or on its GPU; not the same on all ranks. */
static void dawdle(struct gpu_seat *gpu, uint64_t *state)
{
	uint64_t us = next(state) % 60, who = next(state), until_ns;

	if (who % 8 != (uint64_t)gpu->seat->rank % 8)
		return;
	if (us & 1) {
		RANK_EXPECT(gpu->seat, bench_device_delay(us * 1000, gpu->stream) == 0);
		return;
	}
	until_ns = rank_now_ns() + us * 1000;
	while (rank_now_ns() < until_ns)
		;
}

static uint64_t seed(void)
{
	return gpu_number("BELAY_SEED", 20261129);
}

static void soak_eager(struct rank_seat *seat)
{
	uint64_t calls = gpu_number("BELAY_GPU_SOAK", 3000), state = seed(), own = seed();
	struct gpu_seat gpu;
	bool well = begin(seat, &gpu, 1u << 20);

	for (uint64_t i = 0; i < calls && well; i++) {
		struct gpu_call call = some_call(&state);

		dawdle(&gpu, &own);
		well = gpu_issue(&gpu, &call);
	}
	RANK_EXPECT(seat, well && gpu_settle(&gpu));
	end(&gpu);
}

START_TEST(many_calls_of_random_sizes_with_random_delays_are_all_right)
{
	struct rank_group group;

	run_well(soak_eager, NULL, &group);
	printf("# %llu calls, %llu rescued\n", (unsigned long long)group.report[0].calls,
	       (unsigned long long)group.report[0].statistics.rescued_seqs);
}
END_TEST

/* A few graphs at a time, replayed in turn with eager calls between. */
static bool soak_some_graphs(struct gpu_seat *gpu, uint64_t *state, uint64_t *own)
{
	struct gpu_call calls[100];
	struct gpu_graph graphs[3] = {{0}};
	bool well = true;

	gpu_meet(gpu);
	for (int g = 0; g < 3 && well; g++) {
		for (int i = 0; i < 100; i++)
			calls[i] = some_call(state);
		well = gpu_capture(gpu, calls, 100, g == 1, &graphs[g]);
	}
	for (int i = 0; i < 30 && well; i++) {
		struct gpu_call call = some_call(state);

		dawdle(gpu, own);
		well = gpu_replay(gpu, &graphs[next(state) % 3]) && gpu_call(gpu, &call);
	}
	gpu_meet(gpu);
	for (int g = 0; g < 3; g++)
		gpu_graph_free(&graphs[g]);
	gpu_meet(gpu);
	return well;
}

static void soak_graphs(struct rank_seat *seat)
{
	uint64_t calls = gpu_number("BELAY_GPU_SOAK", 3000), state = seed() + 1, own = seed();
	struct gpu_seat gpu;
	bool well = begin(seat, &gpu, 1u << 20);

	while (well && gpu.seq <= calls)
		well = soak_some_graphs(&gpu, &state, &own);
	RANK_EXPECT(seat, well);
	end(&gpu);
}

START_TEST(graphs_of_calls_of_random_sizes_are_right_in_every_replay)
{
	struct rank_group group;

	run_well(soak_graphs, NULL, &group);
	printf("# %llu calls, %llu rescued\n", (unsigned long long)group.report[0].calls,
	       (unsigned long long)group.report[0].statistics.rescued_seqs);
}
END_TEST

/* ---- numbers --------------------------------------------------------------------------------- */

static void count_on(struct rank_seat *seat)
{
	struct gpu_seat gpu;
	bool well = begin(seat, &gpu, 256u << 10);

	for (int i = 0; i < 200 && well; i++)
		well = gpu_issue(&gpu, &(struct gpu_call){.count = i % 3 ? 1000 : 60000});
	RANK_EXPECT(seat, well && gpu_settle(&gpu));
	end(&gpu);
}

/* R5: flags repeat after 2^32 - 1 turns. */
static const uint64_t wraps[] = {UINT64_C(0xffffffff) - 50, (UINT64_C(1) << 32) - 50,
				 2 * UINT64_C(0xffffffff) - 50, (UINT64_C(1) << 53) - 1000};

START_TEST(calls_pass_through_each_wrap_of_their_numbers)
{
	struct rank_group group;
	struct work_plan plan = {.first_seq = wraps[_i]};

	run_well(count_on, &plan, &group);
}
END_TEST

/* ---- captures -------------------------------------------------------------------------------- */

static void fill(struct gpu_call *calls, uint32_t n, size_t count)
{
	for (uint32_t i = 0; i < n; i++)
		calls[i] = (struct gpu_call){.count = count, .dtype = BELAY_BF16};
}

static void capture_first(struct rank_seat *seat)
{
	struct gpu_call calls[8];
	struct gpu_graph graph = {0};
	struct gpu_seat gpu;

	fill(calls, 8, 5000);
	if (begin(seat, &gpu, 64u << 10) && gpu_capture(&gpu, calls, 8, false, &graph)) {
		for (int i = 0; i < 5; i++)
			RANK_EXPECT(seat, gpu_replay(&gpu, &graph));
		RANK_EXPECT(seat, gpu_call(&gpu, &calls[0]));
		gpu_meet(&gpu);
		gpu_graph_free(&graph);
	}
	end(&gpu);
}

START_TEST(the_first_call_ever_may_stand_in_a_capture)
{
	struct rank_group group;

	run_well(capture_first, NULL, &group);
	ck_assert_uint_eq(group.report[0].calls, 41);
}
END_TEST

static void replay_passes(struct rank_seat *seat)
{
	static struct gpu_call calls[PASS_CALLS];
	struct belay_pass_info info = {.size = sizeof(info)};
	struct gpu_graph graph = {0};
	struct gpu_seat gpu;

	fill(calls, PASS_CALLS, PASS_COUNT);
	if (begin(seat, &gpu, 2 * PASS_COUNT) &&
	    gpu_capture(&gpu, calls, PASS_CALLS, true, &graph)) {
		for (uint64_t pass = 1; pass <= 4; pass++) {
			RANK_EXPECT(seat, gpu_replay(&gpu, &graph));
			RANK_EXPECT_STATUS(seat, belay_pass_wait(seat->comm, &info), 0);
			RANK_EXPECT(seat, info.pass == pass);
			RANK_EXPECT(seat, info.last_seq == pass * PASS_CALLS);
			seat->report->passes++;
		}
		gpu_meet(&gpu);
		gpu_graph_free(&graph);
	}
	end(&gpu);
}

START_TEST(a_pass_in_a_graph_is_committed_at_each_replay)
{
	struct rank_group group;

	run_well(replay_passes, NULL, &group);
	ck_assert_uint_eq(group.report[0].passes, 4);
}
END_TEST

/* Row 28. The 61st call of the second replay. */
START_TEST(a_write_lost_in_a_replayed_graph_is_rescued_once_and_all_results_are_right)
{
	struct rank_group group;
	/* A grace within which no rank that the machine keeps waiting counts as a write lost. */
	struct work_plan plan = {.late = "5", .grace = "1000", .fault = "rank=1,seq=183,kind=drop"};

	run_well(replay_passes, &plan, &group);
	for (int r = 0; r < group.nranks; r++)
		ck_assert_uint_eq(group.report[r].statistics.rescued_seqs, 1);
	ck_assert_uint_eq(group.report[0].calls, 4 * PASS_CALLS);
}
END_TEST

/* Row 22: flags of the past, of the future, all ones. */
START_TEST(wrong_flags_are_never_taken_for_data)
{
	struct rank_group group;
	struct work_plan plan = {.late = "3", .fault = "rank=1,seq=20:26,kind=flag,at=push"};

	run_well(replay_passes, &plan, &group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 1);
}
END_TEST

/* ---- mismatch, skew -------------------------------------------------------------------------- */

static void work_plainly(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;
	struct gpu_seat gpu;

	if (begin(seat, &gpu, 64u << 10) && !gpu_work(&gpu, plan)) {
		gpu_meet_verdict(&gpu);
		gpu_expect_healthy(&gpu);
	}
	end(&gpu);
}

/* Not skip: the call that is left out returns success, and its output is what it was. */
static const char *const kinds[] = {"count", "dtype", "op", "swap"};
#define KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

/* Rows 15 and 16. */
START_TEST(ranks_that_call_differently_get_a_mismatch_and_nothing_is_written)
{
	struct rank_group group;
	struct work_plan plan = {.fault = fault_text("rank=1,seq=23,kind=%s", kinds[_i])};

	run(ranks(), work_plainly, &plan, &group);
	assert_one_verdict(&group, (UINT64_C(1) << ranks()) - 1, BELAY_CAUSE_MISMATCH,
			   ranks() > 2 ? 1 : -2, 0);
}
END_TEST

/* Row 11. */
START_TEST(a_rank_that_is_late_is_waited_for_and_named)
{
	struct rank_group group;
	struct work_plan plan = {.late = "2", .fault = "rank=1,seq=10:20,kind=delay:20"};

	run_well(work_plainly, &plan, &group);
	ck_assert_uint_ge(group.report[0].statistics.late_by_rank[1], 5);
}
END_TEST

/* ---- several communicators and streams ------------------------------------------------------- */

static void call_in_opposite_order(struct rank_seat *seat)
{
	struct gpu_seat one, two;
	struct rank_seat other = *seat;
	bool well = begin(seat, &one, 256u << 10);

	other.comm = NULL;
	other.memory = NULL;
	well = well && gpu_open(&other, 256u << 10, &two) && gpu_create(&two, 1);
	for (int i = 0; i < 50 && well; i++) {
		struct gpu_seat *seats[] = {&one, &two};
		const struct gpu_call calls[] = {{.count = 20000}, {.count = 30000}};
		int first = seat->rank % 2;

		well = gpu_issue(seats[first], &calls[first]) &&
		       gpu_issue(seats[!first], &calls[!first]);
	}
	RANK_EXPECT(seat, well && gpu_settle(&one) && gpu_settle(&two));
	gpu_meet(&one);
	if (other.comm)
		rank_destroy(&other);
	gpu_close(&two);
	end(&one);
}

/* Row 18; F25. */
START_TEST(two_communicators_used_in_opposite_order_both_complete)
{
	struct rank_group group;

	run_well(call_in_opposite_order, NULL, &group);
}
END_TEST

/* The first call cannot end before rank 1 has made it, which it does last. */
static void use_two_streams(struct rank_seat *seat)
{
	struct gpu_seat gpu, more;
	char *memory;

	if (begin(seat, &gpu, 64u << 10) && gpu_open(seat, 4096, &more)) {
		memory = more.slots;
		if (seat->rank == 1)
			(void)rank_await(seat, 1, (uint64_t)seat->nranks - 1);
		RANK_EXPECT(seat, gpu_issue(&gpu, &(struct gpu_call){.count = 5000}));
		if (seat->rank != 1) {
			RANK_EXPECT_STATUS(seat,
					   belay_allreduce(memory, memory, 10, BELAY_F32, BELAY_SUM,
							   seat->comm, more.stream),
					   BELAY_E_BUSY);
			rank_announce(seat, 1);
		}
		RANK_EXPECT(seat, gpu_settle(&gpu));
		gpu.stream = more.stream;
		RANK_EXPECT(seat, gpu_call(&gpu, &(struct gpu_call){.count = 5000}));
		gpu_meet(&gpu);
		gpu_close(&more);
	}
	end(&gpu);
}

/* Row 17; F24. Once the first stream is done the second one may be used. */
START_TEST(a_second_stream_is_refused_while_the_first_is_at_work)
{
	struct rank_group group;

	run_well(use_two_streams, NULL, &group);
}
END_TEST

/* The kernel spins on a stream of its own, for longer than the calls take. A kernel of belay's that
 * was loaded only now would wait for it, and the call with it. */
static void call_beside_a_spinner(struct rank_seat *seat)
{
	static const size_t few[] = {10, 5000, 30000, 200000};
	struct gpu_call calls[4 * DTYPES];
	struct gpu_seat gpu, more;
	uint64_t begin_ns;

	for (size_t i = 0; i < 4 * DTYPES; i++)
		calls[i] = (struct gpu_call){.count = few[i % 4], .dtype = dtypes[i / 4]};
	if (begin(seat, &gpu, 2u << 20) && gpu_prepare(&gpu, calls, 4 * DTYPES) &&
	    gpu_open(seat, 4096, &more)) {
		gpu_meet(&gpu);
		begin_ns = rank_now_ns();
		RANK_EXPECT(seat, bench_device_delay(SPIN_NS, more.stream) == 0);
		for (size_t i = 0; i < 4 * DTYPES; i++)
			RANK_EXPECT(seat, gpu_issue(&gpu, &calls[i]));
		RANK_EXPECT(seat, gpu_settle(&gpu));
		RANK_EXPECT(seat, rank_now_ns() - begin_ns < SPIN_NS);
		RANK_EXPECT(seat, gpu_wait(&more));
		gpu_meet(&gpu);
		gpu_close(&more);
	}
	end(&gpu);
}

/* F26. */
START_TEST(calls_of_every_kind_go_beside_a_kernel_that_spins)
{
	struct rank_group group;

	run_well(call_beside_a_spinner, NULL, &group);
}
END_TEST

static void use_the_legacy_stream(struct rank_seat *seat)
{
	struct gpu_seat gpu;

	if (begin(seat, &gpu, 64u << 10)) {
		gpu.stream = NULL;
		for (int i = 0; i < 100; i++)
			RANK_EXPECT(seat, gpu_issue(&gpu, &(struct gpu_call){.count = 5000}));
		RANK_EXPECT(seat, gpu_settle(&gpu));
	}
	end(&gpu);
}

START_TEST(the_legacy_default_stream_is_a_stream_like_others)
{
	struct rank_group group;

	/* Of threads it would be one stream for all ranks, where the first call waits for the
	 * second. */
	if (gpu_number("BELAY_GPU_THREADS", 0)) {
		printf("# SKIP the legacy stream is one for all threads\n");
		return;
	}
	run_well(use_the_legacy_stream, NULL, &group);
}
END_TEST

/* ---- other paths ----------------------------------------------------------------------------- */

static void call_large(struct rank_seat *seat)
{
	struct gpu_seat gpu;

	if (begin(seat, &gpu, 8u << 20)) {
		for (int i = 0; i < 20; i++)
			RANK_EXPECT(seat, gpu_issue(&gpu, &(struct gpu_call){
								  .count = i % 2 ? 4000000 : 1000,
								  .dtype = BELAY_BF16}));
		RANK_EXPECT(seat, gpu_settle(&gpu));
	}
	end(&gpu);
}

/* NCCL's order of summing is its own: only integers have the same bits. */
static void call_large_integers(struct rank_seat *seat)
{
	struct gpu_seat gpu;

	if (begin(seat, &gpu, 8u << 20)) {
		for (int i = 0; i < 20; i++)
			RANK_EXPECT(seat, gpu_issue(&gpu, &(struct gpu_call){
								  .count = i % 2 ? 1500000 : 1000,
								  .dtype = BELAY_I32}));
		RANK_EXPECT(seat, gpu_settle(&gpu));
	}
	end(&gpu);
}

/* BELAY_TESTS_NEED=nccl: where it should be, its absence is no excuse. */
static bool nccl_is_missing(const struct rank_group *group)
{
	const char *need = getenv("BELAY_TESTS_NEED");

	return group->report[0].statistics.calls_by_path[BELAY_PATH_NCCL] == 0 &&
	       !(need && strstr(need, "nccl"));
}

START_TEST(calls_above_the_limit_go_on_nccl)
{
	struct rank_group group;

	if (gpu_number("BELAY_GPU_THREADS", 0)) {
		printf("# SKIP nccl takes a GPU once in a process\n");
		return;
	}
	run_well(call_large_integers, NULL, &group);
	if (nccl_is_missing(&group)) {
		printf("# SKIP nccl cannot be used here\n");
		return;
	}
	ck_assert_uint_eq(group.report[0].statistics.calls_by_path[BELAY_PATH_NCCL], 10);
}
END_TEST

START_TEST(without_nccl_calls_above_the_limit_go_in_turns)
{
	struct rank_group group;
	struct work_plan plan = {.paths = "symm"};

	run_well(call_large, &plan, &group);
	ck_assert_uint_eq(group.report[0].statistics.calls_by_path[BELAY_PATH_SYMM], 20);
}
END_TEST

START_TEST(where_neither_regions_nor_nccl_are_there_the_watchers_carry_calls_out)
{
	struct rank_group group;
	struct work_plan plan = {.paths = "ring", .passes = 3};

	run_well(work_plainly, &plan, &group);
	ck_assert_uint_eq(group.report[0].statistics.calls_by_path[BELAY_PATH_RING], 15);
}
END_TEST

/* Row 25: all ranks take the next path together. */
START_TEST(a_region_that_one_rank_cannot_map_is_a_veto_for_all)
{
	struct rank_group group;
	struct work_plan plan = {.fault = _i ? "rank=1,seq=*,kind=selftest"
					     : "rank=1,seq=*,kind=map-fail",
				 .paths = "symm,ring",
				 .passes = 3};

	run_well(work_plainly, &plan, &group);
	ck_assert_uint_eq(group.report[0].statistics.calls_by_path[BELAY_PATH_RING], 15);
}
END_TEST

static Suite *suite(void)
{
	Suite *all = suite_create("gpu_calls");
	TCase *calls = tcase_create("calls"), *soaks = tcase_create("soaks");
	TCase *faults = tcase_create("faults"), *paths = tcase_create("paths");

	tcase_set_timeout(calls, 70);
	tcase_set_timeout(soaks, 200 + (double)gpu_number("BELAY_GPU_SOAK", 0) / 200);
	tcase_set_timeout(faults, 70);
	tcase_set_timeout(paths, 70);
	tcase_add_test(
		calls,
		every_type_operation_size_and_alignment_has_the_bits_of_the_rank_order_result);
	tcase_add_loop_test(calls, calls_pass_through_each_wrap_of_their_numbers, 0, 4);
	tcase_add_test(calls, the_first_call_ever_may_stand_in_a_capture);
	tcase_add_test(calls, a_pass_in_a_graph_is_committed_at_each_replay);
	tcase_add_test(calls, two_communicators_used_in_opposite_order_both_complete);
	tcase_add_test(calls, a_second_stream_is_refused_while_the_first_is_at_work);
	tcase_add_test(calls, calls_of_every_kind_go_beside_a_kernel_that_spins);
	tcase_add_test(calls, the_legacy_default_stream_is_a_stream_like_others);
	tcase_add_test(soaks, many_calls_of_random_sizes_with_random_delays_are_all_right);
	tcase_add_test(soaks, graphs_of_calls_of_random_sizes_are_right_in_every_replay);
	tcase_add_test(faults,
		       a_write_lost_in_a_replayed_graph_is_rescued_once_and_all_results_are_right);
	tcase_add_test(faults, wrong_flags_are_never_taken_for_data);
	tcase_add_loop_test(faults,
			    ranks_that_call_differently_get_a_mismatch_and_nothing_is_written, 0,
			    KINDS);
	tcase_add_test(faults, a_rank_that_is_late_is_waited_for_and_named);
	tcase_add_test(paths, calls_above_the_limit_go_on_nccl);
	tcase_add_test(paths, without_nccl_calls_above_the_limit_go_in_turns);
	tcase_add_test(paths,
		       where_neither_regions_nor_nccl_are_there_the_watchers_carry_calls_out);
	tcase_add_loop_test(paths, a_region_that_one_rank_cannot_map_is_a_veto_for_all, 0, 2);
	suite_add_tcase(all, calls);
	suite_add_tcase(all, soaks);
	suite_add_tcase(all, faults);
	suite_add_tcase(all, paths);
	return all;
}

int main(void)
{
	return gpu_main(suite());
}
