/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Communicators on devices, whole, on the GPU played on the CPU: right bits for every shape of a
 * healthy call, eager and in graphs, on several streams and in several communicators; numbers at
 * their wrap; captures left alone; every call of a replay in the call log; nothing left behind.
 * check_device_start.c has what goes wrong at the start.
 */
#include "config.h"

#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/log_contents.h"
#include "tests/support/rank_calls.h"
#include "tests/support/rank_device.h"

struct shape_plan {
	const char *symm_max; /* larger calls take several turns */
	uint64_t first_seq;
	int calls;
	bool one_stream; /* the legacy default one */
	const char *paths;
	const char *late, *give_up;
};

static void run(rank_scenario scenario, const void *plan, int nranks)
{
	struct rank_group group;

	rank_group_run(
		&(struct rank_spec){
			.nranks = nranks, .scenario = scenario, .plan = plan, .cap_ms = 120000},
		&group);
	assert_all_well(&group);
}

/* ---- eager ---------------------------------------------------------------------------------- */

static void expect_late_calls(struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};

	RANK_EXPECT_STATUS(seat, belay_comm_statistics(seat->comm, &statistics), 0);
	RANK_EXPECT(seat, statistics.late_calls > 0);
}

static void make_calls(struct rank_seat *seat)
{
	const struct shape_plan *plan = seat->plan;
	struct CUstream_st *stream;
	uint64_t random = 1;

	if (plan->late) /* before the GPU's first use, which looks at it */
		(void)setenv("BELAY_TEST_GPU_STALL_US", "10000", 1);
	stream = plan->one_stream ? NULL : cpu_gpu_stream_create();
	seat->config.symm_max = plan->symm_max;
	seat->config.first_seq = plan->first_seq;
	seat->config.paths = plan->paths;
	if (plan->late) {
		seat->config.late_ms = plan->late;
		seat->config.grace_ms = "0";
		seat->config.give_up_ms = seat->config.warmup_give_up_ms = plan->give_up;
	}
	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	for (int i = 0; i < plan->calls && seat->comm && !seat->report->failed; i++)
		(void)device_call(seat, device_call_random(&random, 50000), stream);
	if (seat->comm && plan->late)
		expect_late_calls(seat);
	if (seat->comm)
		rank_destroy(seat);
	cpu_gpu_stream_free(stream);
	device_expect_nothing_left(seat);
}

FAULT_TEST(eager_calls_of_any_shape_give_the_bits_of_the_rank_order_sum, "19 20 F27 F61 F95")
{
	static const int ranks[] = {2, 3, 1, 8, 4, 5, 6, 7};
	struct shape_plan plan = {
		.symm_max = "64K", .calls = rank_tests_long() ? 1000 : 60, .one_stream = _i == 1};

	run(make_calls, &plan, ranks[_i]);
}
END_TEST

FAULT_TEST(a_call_above_the_largest_turn_takes_several, "19 20 F27 F61 F95")
{
	struct shape_plan plan = {.symm_max = "4K", .calls = 30};

	run(make_calls, &plan, 3);
}
END_TEST

START_TEST(the_watchers_carry_out_what_has_no_other_path)
{
	struct shape_plan plan = {.symm_max = "16K", .calls = 20, .paths = "ring"};

	run(make_calls, &plan, 3);
}
END_TEST

/* The flag is a turn modulo 2^32 - 1: at the wrap it has another parity. */
FAULT_TEST(numbers_wrap_and_no_call_minds, "24")
{
	struct shape_plan plan = {
		.symm_max = "64K", .calls = 24, .first_seq = (UINT64_C(1) << (32 + _i)) - 12};

	run(make_calls, &plan, 3);
}
END_TEST

/* A soft deadline that nobody keeps, no grace, and kernels that stand still in between: turns are
 * given to rescue though nothing is lost, and their data comes meanwhile. */
FAULT_TEST(calls_that_are_always_late_are_right_too, "12")
{
	struct shape_plan plan = {.symm_max = "64K",
				  .calls = rank_tests_long() ? 1000 : 40,
				  .late = "0.02",
				  .give_up = "20000"};

	run(make_calls, &plan, 2 + _i);
}
END_TEST

/* ---- without a pause ------------------------------------------------------------------------ */

#define IN_FLIGHT 16

/* Calls that follow each other on the stream; the ranks are not in step. */
static void make_calls_in_flight(struct rank_seat *seat)
{
	struct device_call calls[IN_FLIGHT];
	struct CUstream_st *stream = cpu_gpu_stream_create();
	uint64_t random = 77;

	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	for (int i = 0; i < IN_FLIGHT; i++) {
		calls[i] = device_call_random(&random, 30000);
		device_call_prepare(seat, &calls[i]);
	}
	for (int round = 0; round < (rank_tests_long() ? 200 : 5); round++) {
		for (int i = 0; i < IN_FLIGHT; i++)
			device_call_fill(seat, &calls[i], (uint64_t)(round * IN_FLIGHT + i));
		for (int i = 0; i < IN_FLIGHT; i++)
			RANK_EXPECT(seat, device_call_enqueue(seat, &calls[i], stream));
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
		for (int i = 0; i < IN_FLIGHT; i++)
			device_call_check(seat, &calls[i]);
	}
	for (int i = 0; i < IN_FLIGHT; i++)
		device_call_free(&calls[i]);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
	device_expect_nothing_left(seat);
}

FAULT_TEST(calls_follow_each_other_without_a_pause, "F04 F38 F42 F43")
{
	run(make_calls_in_flight, NULL, _i ? 8 : 4);
}
END_TEST

/* ---- graphs --------------------------------------------------------------------------------- */

#define NODES 6

static struct cpu_gpu_graph *capture(struct rank_seat *seat, const struct device_call *calls,
				     struct CUstream_st *stream, enum cpu_gpu_capture mode)
{
	struct cpu_gpu_graph *graph = NULL;

	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(stream, mode), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(seat->comm, stream), 0);
	for (int i = 0; i < NODES; i++)
		RANK_EXPECT(seat, device_call_enqueue(seat, &calls[i], stream));
	RANK_EXPECT_STATUS(seat, belay_pass_end(seat->comm, stream), 0);
	if (cpu_gpu_capture_end(stream, &graph))
		rank_complain(seat, __FILE__, __LINE__, cpu_gpu_capture_broken_by(), 0);
	return graph;
}

static void prepare(struct rank_seat *seat, struct device_call *calls)
{
	uint64_t random = 1234;

	for (int i = 0; i < NODES; i++) {
		calls[i] = device_call_random(&random, 30000);
		device_call_prepare(seat, &calls[i]);
	}
}

static void replay(struct rank_seat *seat, struct device_call *calls,
		   const struct cpu_gpu_graph *graph, struct CUstream_st *stream)
{
	for (int i = 0; i < NODES; i++)
		device_call_fill(seat, &calls[i], ++seat->made);
	RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
	for (int i = 0; i < NODES; i++)
		device_call_check(seat, &calls[i]);
}

struct graph_plan {
	const char *folder; /* of the call log */
	enum cpu_gpu_capture mode;
	int replays;
	bool eager;  /* calls in between */
	int watched; /* looks of watchers to be awaited inside the capture */
};

/* The first call ever is one inside a capture. */
static void make_graphs(struct rank_seat *seat)
{
	const struct graph_plan *plan = seat->plan;
	struct CUstream_st *stream = cpu_gpu_stream_create();
	struct device_call calls[NODES];
	struct cpu_gpu_graph *graph;

	seat->config.log_dir = plan->folder;
	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	strcpy(seat->report->text, belay_comm_id(seat->comm));
	prepare(seat, calls);
	graph = capture(seat, calls, stream, plan->mode);
	for (int i = 0; graph && i < plan->replays && !seat->report->failed; i++) {
		replay(seat, calls, graph, stream);
		if (plan->eager)
			(void)device_call(seat,
					  (struct device_call){.count = 300,
							       .dtype = BELAY_F32,
							       .op = BELAY_SUM},
					  stream);
	}
	cpu_gpu_graph_free(graph);
	for (int i = 0; i < NODES; i++)
		device_call_free(&calls[i]);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
	device_expect_nothing_left(seat);
}

START_TEST(replays_and_eager_calls_mix_and_are_right)
{
	struct graph_plan plan = {.replays = rank_tests_long() ? 100 : 4,
				  .mode = (enum cpu_gpu_capture)_i,
				  .eager = _i != 0};

	run(make_graphs, &plan, 2 + _i);
}
END_TEST

#define LOGGED_REPLAYS 5

static void check_log(const struct log_contents *log)
{
	ck_assert_uint_eq(log->damage_count, 0);
	ck_assert_uint_eq(log->lost, 0);
	ck_assert_uint_eq(log->calls_count, NODES * LOGGED_REPLAYS);
	for (size_t i = 0; i < log->calls_count; i++) {
		const struct call_record *record = log_contents_call(log, i);

		ck_assert_uint_eq(record->seq, i + 1);
		ck_assert_uint_eq(record->pass, i / NODES + 1);
		ck_assert_uint_eq(record->index, i % NODES);
		ck_assert_int_eq(record->status, 0);
		ck_assert(record->flags & CALL_GRAPH);
		ck_assert(record->flags & CALL_DIGEST);
		/* On a crowded machine a call may be late, and be rescued before all is here. */
		for (uint32_t r = 0; r < log->info.nranks && !(record->flags & CALL_RESCUED); r++)
			ck_assert_uint_ne(record->arrival_ns[r], CALL_ARRIVAL_NONE);
	}
}

START_TEST(the_call_log_of_a_replayed_graph_has_each_call)
{
	struct graph_plan plan = {.replays = LOGGED_REPLAYS};
	struct rank_group group;
	char folder[512];

	make_folder(folder, sizeof(folder));
	plan.folder = folder;
	rank_group_run(&(struct rank_spec){.nranks = 2, .scenario = make_graphs, .plan = &plan},
		       &group);
	assert_all_well(&group);
	for (uint32_t r = 0; r < 2; r++) {
		struct log_contents log = {0};

		ck_assert_int_ge(log_contents_read_rank(&log, folder, group.report[0].text, r), 1);
		check_log(&log);
		log_contents_free(&log);
	}
	remove_folder(folder);
}
END_TEST

static void await_stuck(struct rank_seat *seat)
{
	struct belay_rank_health health = {.size = sizeof(health)};
	uint64_t until = rank_now_ns() + UINT64_C(20000000000);

	while (!health.in_call && rank_now_ns() < until)
		RANK_EXPECT_STATUS(seat, belay_comm_rank_health(seat->comm, seat->rank, &health),
				   0);
}

/* Rank 1 never comes, and rank 0 does not wait for its own stream. What its kernels use is left to
 * them; they are ordered to leave. */
static void destroy_beside_a_graph(struct rank_seat *seat)
{
	struct CUstream_st *stream = cpu_gpu_stream_create();
	struct device_call calls[NODES];
	struct cpu_gpu_graph *graph;

	seat->config.destroy_ms = "100";
	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	prepare(seat, calls);
	graph = capture(seat, calls, stream, CPU_GPU_RELAXED);
	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, stream), 0);
		await_stuck(seat);
		RANK_EXPECT_STATUS(seat, belay_comm_destroy(seat->comm), BELAY_E_TIMEOUT);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
		rank_announce(seat, 0);
	} else {
		(void)rank_await(seat, 0, 1);
		RANK_EXPECT_STATUS(seat, belay_comm_destroy(seat->comm), 0);
	}
	seat->comm = NULL;
	cpu_gpu_graph_free(graph);
	for (int i = 0; i < NODES; i++)
		device_call_free(&calls[i]);
	cpu_gpu_stream_free(stream);
}

FAULT_TEST(a_communicator_can_be_destroyed_while_a_graph_of_its_is_stuck, "F30 F51")
{
	struct rank_group group;

	/* gpu: descriptors of what is left behind are not counted. */
	rank_group_run(&(struct rank_spec){.nranks = 2,
					   .scenario = destroy_beside_a_graph,
					   .cap_ms = 60000,
					   .gpu = true},
		       &group);
	assert_all_well(&group);
}
END_TEST

/* Rank 1 is stopped when rank 0 has left its turn to its watcher already. Nobody will write its
 * output any more, and its kernel is told so: it would hold on for half a minute. */
static void destroy_in_a_rescue(struct rank_seat *seat)
{
	struct device_call call = {.count = 1000, .dtype = BELAY_F32, .op = BELAY_SUM};
	struct CUstream_st *stream = cpu_gpu_stream_create();
	uint64_t since;

	seat->config.destroy_ms = "100";
	seat->config.late_ms = "5";
	seat->config.grace_ms = "1";
	seat->config.fault = "rank=1,seq=1,kind=drop;rank=1,seq=1,kind=stop:600,at=rescue";
	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	device_call_prepare(seat, &call);
	device_call_fill(seat, &call, 1);
	RANK_EXPECT(seat, device_call_enqueue(seat, &call, stream));
	if (seat->rank == 0)
		await_stuck(seat);
	else
		(void)cpu_gpu_stream_sync(stream);
	since = rank_now_ns();
	RANK_EXPECT(seat, belay_comm_destroy(seat->comm) != 0 || seat->rank != 0);
	(void)cpu_gpu_stream_sync(stream);
	RANK_EXPECT(seat, rank_now_ns() - since < UINT64_C(15000000000));
	seat->comm = NULL;
	device_call_free(&call);
	cpu_gpu_stream_free(stream);
}

FAULT_TEST(a_communicator_can_be_destroyed_in_a_rescue, "F30 F51")
{
	struct rank_group group;

	rank_group_run(
		&(struct rank_spec){
			.nranks = 2, .scenario = destroy_in_a_rescue, .cap_ms = 60000, .gpu = true},
		&group);
	assert_all_well(&group);
}
END_TEST

/* ---- captures of others --------------------------------------------------------------------- */

/* One communicator works, with its watcher and all else that is belay's, while this thread captures
 * on a stream of the application's in the strictest mode. */
static void capture_beside_belay(struct rank_seat *seat)
{
	struct device_call call = {.count = 2000, .dtype = BELAY_F32, .op = BELAY_SUM};
	struct CUstream_st *stream = cpu_gpu_stream_create(), *other = cpu_gpu_stream_create();
	uint64_t looks = cpu_gpu_calls("gpu_stream_done") + 20, until;
	struct cpu_gpu_graph *graph = NULL;
	_Atomic uint64_t gone_by = 0;

	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	device_call_prepare(seat, &call);
	device_call_fill(seat, &call, 1);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(other, CPU_GPU_GLOBAL), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_enqueue_count(other, &gone_by), 0);
	RANK_EXPECT(seat, device_call_enqueue(seat, &call, stream));
	until = rank_now_ns() + UINT64_C(20000000000);
	while (cpu_gpu_calls("gpu_stream_done") < looks && rank_now_ns() < until)
		(void)poll(NULL, 0, 1);
	/* Creation and destruction are guests here, too. */
	rank_destroy(seat);
	RANK_EXPECT_STATUS(seat, device_create(seat, 1), 0);
	if (cpu_gpu_capture_end(other, &graph))
		rank_complain(seat, __FILE__, __LINE__, cpu_gpu_capture_broken_by(), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
	device_call_check(seat, &call);
	device_call_free(&call);
	cpu_gpu_graph_free(graph);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
	cpu_gpu_stream_free(other);
	device_expect_nothing_left(seat);
}

FAULT_TEST(what_belay_does_in_the_background_breaks_no_capture, "F45")
{
	run(capture_beside_belay, NULL, 2);
}
END_TEST

/* ---- several communicators ------------------------------------------------------------------ */

#define COMMUNICATORS 3

/* Each on a stream of its own; every rank enqueues on them in another order. */
static void use_several(struct rank_seat *seat)
{
	struct device_call calls[COMMUNICATORS];
	struct CUstream_st *stream[COMMUNICATORS];
	struct belay_comm *comm[COMMUNICATORS];

	for (int c = 0; c < COMMUNICATORS; c++) {
		RANK_EXPECT_STATUS(seat, device_create(seat, c), 0);
		comm[c] = seat->comm;
		stream[c] = cpu_gpu_stream_create();
		calls[c] = (struct device_call){
			.count = (size_t)(100 << 3 * c), .dtype = BELAY_F32 + c, .op = BELAY_SUM};
		device_call_prepare(seat, &calls[c]);
	}
	for (int round = 0; round < 10; round++) {
		for (int c = 0; c < COMMUNICATORS; c++)
			device_call_fill(seat, &calls[c], (uint64_t)(round * COMMUNICATORS + c));
		for (int i = 0; i < COMMUNICATORS; i++) {
			int c = (i + seat->rank + round) % COMMUNICATORS;

			seat->comm = comm[c];
			RANK_EXPECT(seat, device_call_enqueue(seat, &calls[c], stream[c]));
		}
		for (int c = 0; c < COMMUNICATORS; c++) {
			RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream[c]), 0);
			device_call_check(seat, &calls[c]);
		}
	}
	for (int c = 0; c < COMMUNICATORS; c++) {
		seat->comm = comm[c];
		rank_destroy(seat);
		cpu_gpu_stream_free(stream[c]);
		device_call_free(&calls[c]);
	}
	device_expect_nothing_left(seat);
}

FAULT_TEST(several_communicators_work_at_once, "18 F25 F70")
{
	run(use_several, NULL, 3);
}
END_TEST

/* ---- again and again ------------------------------------------------------------------------ */

#define LIVES (rank_tests_long() ? 200 : 20)

static void live_again_and_again(struct rank_seat *seat)
{
	struct device_call call = {.count = 1000, .dtype = BELAY_BF16, .op = BELAY_MAX};
	long memory = 0;

	for (int i = 0; i < LIVES; i++) {
		RANK_EXPECT_STATUS(seat, device_create(seat, i), 0);
		if (!seat->comm || !device_call(seat, call, NULL))
			return;
		rank_destroy(seat);
		device_expect_nothing_left(seat);
		if (i == LIVES / 2)
			memory = rank_private_kib();
	}
	/* What an allocator keeps varies; a life's rings alone are larger. */
	RANK_EXPECT(seat, rank_private_kib() <= memory + 512);
}

FAULT_TEST(lives_with_calls_leave_nothing_behind, "F74")
{
	run(live_again_and_again, NULL, 2);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("communicators on devices");
	TCase *c = tcase_create("calls");

	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, eager_calls_of_any_shape_give_the_bits_of_the_rank_order_sum, 0,
			    rank_tests_long() ? 8 : 4);
	tcase_add_test(c, a_call_above_the_largest_turn_takes_several);
	tcase_add_test(c, the_watchers_carry_out_what_has_no_other_path);
	tcase_add_loop_test(c, numbers_wrap_and_no_call_minds, 0, 2);
	tcase_add_loop_test(c, calls_that_are_always_late_are_right_too, 0, 2);
	tcase_add_loop_test(c, calls_follow_each_other_without_a_pause, 0,
			    rank_tests_long() ? 2 : 1);
	suite_add_tcase(s, c);

	c = tcase_create("graphs");
	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, replays_and_eager_calls_mix_and_are_right, 0, 3);
	tcase_add_test(c, the_call_log_of_a_replayed_graph_has_each_call);
	tcase_add_test(c, a_communicator_can_be_destroyed_while_a_graph_of_its_is_stuck);
	tcase_add_test(c, a_communicator_can_be_destroyed_in_a_rescue);
	tcase_add_test(c, what_belay_does_in_the_background_breaks_no_capture);
	suite_add_tcase(s, c);

	c = tcase_create("communicators");
	tcase_set_timeout(c, 300);
	tcase_add_test(c, several_communicators_work_at_once);
	tcase_add_test(c, lives_with_calls_leave_nothing_behind);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
