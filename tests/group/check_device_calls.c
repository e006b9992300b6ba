/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls and pass marks on device memory as a program makes them, between real processes on a GPU
 * that is played on the CPU: what is refused, streams, captures and replays, passes, large calls,
 * launches that fail.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/group/control_view.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/rank_calls.h"

#define NRANKS 2
#define COUNT  300
#define OTHER  5 /* a device that the communicator is not for */

/* What a scenario works with. */
struct bench {
	struct rank_seat *seat;
	struct belay_comm *comm;
	struct CUstream_st *stream;
	float *send, *recv;
	unsigned made; /* inputs are made from it */
};

/* PATHS: no NCCL. The real one, where it is found, cannot join without a GPU, and then keeps for
 * ever the socket that each ncclGetUniqueId() listens on. */
static void set_up(struct bench *bench, struct rank_seat *seat, const char *paths, size_t count)
{
	memset(bench, 0, sizeof(*bench));
	bench->seat = seat;
	cpu_gpu_set_current(0);
	seat->config.device = "auto";
	seat->config.paths = paths;
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	bench->comm = seat->comm;
	bench->stream = cpu_gpu_stream_create();
	bench->send = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, count * sizeof(float));
	bench->recv = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, count * sizeof(float));
	RANK_EXPECT(seat, bench->comm && bench->comm->device && bench->stream && bench->send &&
				  bench->recv);
}

static void tear_down(struct bench *bench)
{
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(bench->stream), 0);
	rank_destroy(bench->seat);
	cpu_gpu_memory_free(bench->send);
	cpu_gpu_memory_free(bench->recv);
	cpu_gpu_stream_free(bench->stream);
	cpu_gpu_end_default_stream();
}

/* The inputs of the next call; small whole numbers, so that sums are exact. */
static void fill(struct bench *bench, size_t count)
{
	bench->made++;
	for (size_t i = 0; i < count; i++) {
		bench->send[i] = (float)((unsigned)bench->seat->rank * 100 + bench->made + i % 13);
		bench->recv[i] = -1;
	}
}

static bool is_sum(const struct bench *bench, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (bench->recv[i] != (float)(100 + 2 * bench->made + 2 * (i % 13)))
			return false;
	return true;
}

static int call_on(struct bench *bench, struct CUstream_st *stream, size_t count)
{
	return belay_allreduce(bench->send, bench->recv, count, BELAY_F32, BELAY_SUM, bench->comm,
			       stream);
}

/* A call of its own, waited for and looked at. */
static void whole_call(struct bench *bench, struct CUstream_st *stream, size_t count)
{
	fill(bench, count);
	RANK_EXPECT_STATUS(bench->seat, call_on(bench, stream, count), 0);
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(stream), 0);
	RANK_EXPECT(bench->seat, is_sum(bench, count));
}

static uint64_t seq_of(const struct bench *bench)
{
	struct belay_health health = {.size = sizeof(health)};

	RANK_EXPECT_STATUS(bench->seat, belay_comm_health(bench->comm, &health), 0);
	RANK_EXPECT(bench->seat, health.done_seq == health.seq && !health.in_call);
	return health.seq;
}

static bool causes_say(const struct bench *bench, const char *what)
{
	char text[8192];

	return belay_comm_causes(bench->comm, text, sizeof(text), NULL) == 0 && strstr(text, what);
}

static void run_on(bool broken, rank_scenario scenario, const void *plan)
{
	struct rank_group group;

	rank_group_run(&(struct rank_spec){.nranks = NRANKS,
					   .scenario = scenario,
					   .plan = plan,
					   .cap_ms = 20000,
					   .gpu = broken},
		       &group);
}

static void run(rank_scenario scenario, const void *plan)
{
	run_on(false, scenario, plan);
}

/* ---- buffers --------------------------------------------------------------------------------- */

static const struct {
	enum gpu_pointer kind;
	int ordinal;
	const char *text;
} refused[] = {
	{GPU_POINTER_MANAGED, 0, "is managed memory: expected memory of device 0"},
	{GPU_POINTER_HOST, 0, "is pinned host memory"},
	{GPU_POINTER_OTHER_DEVICE, OTHER, "is memory of another device"},
};

static void expect_refused(struct bench *bench, const void *send, void *recv, const char *name,
			   const char *text)
{
	char said[160];

	RANK_EXPECT_STATUS(bench->seat,
			   belay_allreduce(send, recv, COUNT, BELAY_F32, BELAY_SUM, bench->comm,
					   bench->stream),
			   BELAY_E_ARGUMENT);
	snprintf(said, sizeof(said), "belay_allreduce(): %s (%p) %s", name,
		 strcmp(name, "send") == 0 ? send : recv, text);
	RANK_EXPECT(bench->seat, causes_say(bench, said));
}

static void give_wrong_buffers(struct rank_seat *seat)
{
	static float ordinary[COUNT];
	struct bench bench;
	void *region_buffer;

	set_up(&bench, seat, "symm", COUNT);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		void *wrong =
			cpu_gpu_memory(refused[i].kind, refused[i].ordinal, COUNT * sizeof(float));

		expect_refused(&bench, wrong, bench.recv, "send", refused[i].text);
		expect_refused(&bench, bench.send, wrong, "recv", refused[i].text);
		cpu_gpu_memory_free(wrong);
	}
	expect_refused(&bench, ordinary, bench.recv, "send", "is ordinary host memory");
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, SIZE_MAX / 4), BELAY_E_ARGUMENT);
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(bench.send, bench.send + 1, 2, BELAY_F32, BELAY_SUM,
					   bench.comm, bench.stream),
			   BELAY_E_ARGUMENT);
	RANK_EXPECT_STATUS(seat, belay_buffer_alloc(bench.comm, 4096, &region_buffer),
			   BELAY_E_UNSUPPORTED);
	/* Nothing was numbered; nothing is a call too. */
	whole_call(&bench, bench.stream, COUNT);
	RANK_EXPECT(seat, seq_of(&bench) == 1);
	RANK_EXPECT_STATUS(
		seat,
		belay_allreduce(NULL, NULL, 0, BELAY_F32, BELAY_SUM, bench.comm, bench.stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(bench.stream), 0);
	RANK_EXPECT(seat, seq_of(&bench) == 2);
	tear_down(&bench);
}

FAULT_TEST(a_buffer_that_is_not_of_the_device_is_named_and_refused, "P2 F08 F108")
{
	run(give_wrong_buffers, NULL);
}
END_TEST

static void make_odd_calls(struct rank_seat *seat)
{
	struct bench bench;
	float *inside;

	set_up(&bench, seat, seat->plan, 20000);
	for (size_t count = 1; count < 20000; count = count * 3 + 1)
		whole_call(&bench, bench.stream, count);
	/* In place, and inside a buffer. */
	fill(&bench, COUNT);
	inside = bench.send + 3;
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(inside, inside, COUNT - 3, BELAY_F32, BELAY_SUM,
					   bench.comm, bench.stream),
			   0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(bench.stream), 0);
	RANK_EXPECT(seat, inside[0] == (float)(100 + 2 * bench.made + 6));
	tear_down(&bench);
}

static const char *const path_lists[] = {"symm", "ring"};

START_TEST(calls_of_all_sizes_are_right_on_each_path)
{
	run(make_odd_calls, path_lists[_i]);
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

static void change_streams(struct rank_seat *seat)
{
	struct CUstream_st *second;
	_Atomic uint64_t gate = 0;
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	second = cpu_gpu_stream_create();
	fill(&bench, COUNT);
	RANK_EXPECT_STATUS(seat, cpu_gpu_enqueue_wait(bench.stream, &gate, 1), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, second, COUNT), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, call_on(&bench, NULL, COUNT), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, second), BELAY_E_BUSY);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	atomic_store_explicit(&gate, 1, memory_order_release);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(bench.stream), 0);
	RANK_EXPECT(seat, is_sum(&bench, COUNT));
	/* The first stream is gone, and nobody asks it. */
	cpu_gpu_stream_free(bench.stream);
	bench.stream = second;
	whole_call(&bench, second, COUNT);
	whole_call(&bench, NULL, COUNT);
	RANK_EXPECT(seat, seq_of(&bench) == 4);
	/* A mark that has not been reached holds the communicator as well. */
	atomic_store_explicit(&gate, 0, memory_order_release);
	RANK_EXPECT_STATUS(seat, cpu_gpu_enqueue_wait(second, &gate, 1), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, second), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, NULL, COUNT), BELAY_E_BUSY);
	atomic_store_explicit(&gate, 1, memory_order_release);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(second), 0);
	tear_down(&bench);
}

FAULT_TEST(one_stream_at_a_time_and_another_when_its_work_is_done, "17 F24")
{
	run(change_streams, NULL);
}
END_TEST

/* What block 0 of the next call says when it has ended before the others of its grid. */
static void post_as_first_block(const struct bench *bench, uint64_t ticket)
{
	struct symm_posts *posts = &bench->comm->control.device[bench->seat->rank].posts;
	uint64_t turn = control_view_done(&bench->comm->control, (unsigned)bench->seat->rank) + 1;

	__atomic_store_n(&posts->block[0], SYMM_BLOCK_WORD(turn, 2, SYMM_BLOCK_DONE),
			 __ATOMIC_RELEASE);
	__atomic_store_n(&posts->ticket_turn, turn, __ATOMIC_RELEASE);
	__atomic_store_n(&posts->ticket, ticket, __ATOMIC_RELEASE);
}

/* The stream stands still in place of a second block that does not come to its end. */
static void end_one_block(struct rank_seat *seat)
{
	struct CUstream_st *second;
	const struct symm_posts *posts;
	_Atomic uint64_t gate = 0;
	struct bench bench;

	set_up(&bench, seat, seat->plan, COUNT);
	posts = &bench.comm->control.device[seat->rank].posts;
	second = cpu_gpu_stream_create();
	whole_call(&bench, bench.stream, COUNT);
	RANK_EXPECT(seat, posts->ticket == 1 && posts->ticket_turn == 1);
	fill(&bench, COUNT);
	RANK_EXPECT_STATUS(seat, cpu_gpu_enqueue_wait(bench.stream, &gate, 1), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	post_as_first_block(&bench, 2);
	RANK_EXPECT_STATUS(seat, call_on(&bench, second, COUNT), BELAY_E_BUSY);
	RANK_EXPECT(seat, !device_idle(bench.comm));
	atomic_store_explicit(&gate, 1, memory_order_release);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(bench.stream), 0);
	RANK_EXPECT(seat, is_sum(&bench, COUNT));
	whole_call(&bench, second, COUNT);
	RANK_EXPECT(seat, posts->ticket == 3 && posts->ticket_turn == 3);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, second), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(second), 0);
	RANK_EXPECT(seat, posts->ticket == 4 && posts->ticket_turn == 3);
	cpu_gpu_stream_free(second);
	tear_down(&bench);
}

START_TEST(another_stream_waits_for_all_blocks_of_a_call)
{
	run(end_one_block, path_lists[_i]);
}
END_TEST

/* ---- graphs ---------------------------------------------------------------------------------- */

#define NODES 3

static struct cpu_gpu_graph *capture_calls(struct bench *bench, int mode, bool marks)
{
	struct rank_seat *seat = bench->seat;
	struct cpu_gpu_graph *graph = NULL;

	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(bench->stream, (enum cpu_gpu_capture)mode),
			   0);
	if (marks)
		RANK_EXPECT_STATUS(seat, belay_pass_begin(bench->comm, bench->stream), 0);
	for (int i = 0; i < NODES; i++)
		RANK_EXPECT_STATUS(seat, call_on(bench, bench->stream, COUNT), 0);
	if (marks)
		RANK_EXPECT_STATUS(seat, belay_pass_end(bench->comm, bench->stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(bench->stream, &graph), 0);
	return graph;
}

static void replay(struct bench *bench, const struct cpu_gpu_graph *graph)
{
	fill(bench, COUNT);
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_graph_launch(graph, bench->stream), 0);
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(bench->stream), 0);
	RANK_EXPECT(bench->seat, is_sum(bench, COUNT));
}

static void capture_first_call(struct rank_seat *seat)
{
	const int *mode = seat->plan;
	struct cpu_gpu_graph *graph, *second;
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	graph = capture_calls(&bench, *mode, false);
	RANK_EXPECT(seat, seq_of(&bench) == 0);
	replay(&bench, graph);
	whole_call(&bench, bench.stream, COUNT);
	second = capture_calls(&bench, *mode, false);
	replay(&bench, second);
	replay(&bench, graph);
	replay(&bench, graph);
	whole_call(&bench, NULL, COUNT);
	RANK_EXPECT(seat, seq_of(&bench) == 4 * NODES + 2);
	cpu_gpu_graph_free(graph);
	cpu_gpu_graph_free(second);
	tear_down(&bench);
}

/* A call follows another only if nothing is captured between the two, in one capture. */
static void capture_among_others(struct rank_seat *seat)
{
	struct cpu_gpu_graph *graph = NULL;
	_Atomic uint64_t word = 0;
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	whole_call(&bench, bench.stream, COUNT);
	whole_call(&bench, bench.stream, COUNT);
	RANK_EXPECT(seat, cpu_gpu_followers() == 0);
	graph = capture_calls(&bench, CPU_GPU_GLOBAL, false);
	RANK_EXPECT(seat, cpu_gpu_followers() == NODES - 1);
	cpu_gpu_graph_free(graph);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(bench.stream, CPU_GPU_GLOBAL), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_enqueue_count(bench.stream, &word), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	RANK_EXPECT(seat, cpu_gpu_followers() == 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	RANK_EXPECT(seat, cpu_gpu_followers() == 1);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(bench.stream, &graph), 0);
	replay(&bench, graph);
	RANK_EXPECT(seat, word == 1);
	cpu_gpu_graph_free(graph);
	tear_down(&bench);
}

START_TEST(a_call_follows_another_if_nothing_is_captured_between)
{
	run(capture_among_others, NULL);
}
END_TEST

/* ... and with a second stream, which the driver may refuse to put behind the first. */
static void capture_on_two_streams(struct rank_seat *seat)
{
	struct CUstream_st *second = cpu_gpu_stream_create();
	struct cpu_gpu_graph *graph = NULL;
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(bench.stream, CPU_GPU_GLOBAL), 0);
	cpu_gpu_capture_fork(bench.stream, second);
	for (int i = 0; i < 2; i++) {
		RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
		RANK_EXPECT(seat, cpu_gpu_edges() == (i != 0));
		cpu_gpu_fail("gpu_capture_after", 1, 1, false);
		RANK_EXPECT_STATUS(seat, call_on(&bench, second, COUNT), BELAY_E_BUSY);
		RANK_EXPECT_STATUS(seat, call_on(&bench, second, COUNT), 0);
		RANK_EXPECT(seat, cpu_gpu_edges() == 1);
	}
	RANK_EXPECT_STATUS(seat, call_on(&bench, second, COUNT), 0);
	RANK_EXPECT(seat, cpu_gpu_edges() == 0);
	cpu_gpu_capture_join(second, bench.stream);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(bench.stream, &graph), 0);
	replay(&bench, graph);
	replay(&bench, graph);
	RANK_EXPECT(seat, seq_of(&bench) == 10);
	whole_call(&bench, second, COUNT);
	cpu_gpu_graph_free(graph);
	cpu_gpu_stream_free(second);
	tear_down(&bench);
}

/* A second capture in the midst of one does not make that forget what it has. */
static void capture_within_a_capture(struct rank_seat *seat)
{
	struct CUstream_st *second = cpu_gpu_stream_create(), *third = cpu_gpu_stream_create();
	struct cpu_gpu_graph *graph = NULL, *inner = NULL;
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(bench.stream, CPU_GPU_RELAXED), 0);
	cpu_gpu_capture_fork(bench.stream, second);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(third, CPU_GPU_RELAXED), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, third, COUNT), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(third, &inner), 0);
	RANK_EXPECT(seat, cpu_gpu_edges() == 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, second, COUNT), 0);
	RANK_EXPECT(seat, cpu_gpu_edges() == 1);
	cpu_gpu_capture_join(second, bench.stream);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(bench.stream, &graph), 0);
	replay(&bench, inner);
	replay(&bench, graph);
	cpu_gpu_graph_free(graph);
	cpu_gpu_graph_free(inner);
	cpu_gpu_stream_free(second);
	cpu_gpu_stream_free(third);
	tear_down(&bench);
}

START_TEST(a_capture_within_a_capture_makes_that_forget_nothing)
{
	run(capture_within_a_capture, NULL);
}
END_TEST

START_TEST(calls_on_two_streams_of_a_capture_follow_one_another)
{
	run(capture_on_two_streams, NULL);
}
END_TEST

static const int modes[] = {CPU_GPU_GLOBAL, CPU_GPU_THREAD_LOCAL, CPU_GPU_RELAXED};

FAULT_TEST(calls_are_captured_from_the_first_on_and_replayed_between_others, "F16 F44 F72 F73")
{
	run(capture_first_call, &modes[_i]);
}
END_TEST

static void use_broken_capture(struct rank_seat *seat)
{
	struct cpu_gpu_graph *graph = NULL;
	struct gpu_error error;
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(bench.stream, CPU_GPU_THREAD_LOCAL), 0);
	RANK_EXPECT(seat, gpu_stream_done(bench.stream, &error) < 0); /* breaks it */
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), BELAY_E_STATE);
	RANK_EXPECT(seat, causes_say(&bench, "its capture is broken"));
	RANK_EXPECT(seat, cpu_gpu_capture_end(bench.stream, &graph) != 0);
	whole_call(&bench, bench.stream, COUNT);
	RANK_EXPECT(seat, seq_of(&bench) == 1);
	tear_down(&bench);
}

FAULT_TEST(a_broken_capture_is_refused_and_forgotten, "F45")
{
	run(use_broken_capture, NULL);
}
END_TEST

/* ---- passes ---------------------------------------------------------------------------------- */

static void expect_pass(struct bench *bench, uint64_t pass, uint64_t first, uint64_t last)
{
	struct belay_pass_info info = {.size = sizeof(info)};

	RANK_EXPECT_STATUS(bench->seat, belay_pass_wait(bench->comm, &info), 0);
	RANK_EXPECT(bench->seat, info.pass == pass);
	RANK_EXPECT(bench->seat, info.first_seq == first);
	RANK_EXPECT(bench->seat, info.last_seq == last);
}

static void mark_eagerly(struct rank_seat *seat)
{
	struct belay_pass_info info = {.size = sizeof(info)};
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(bench.comm, &info), BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat, belay_pass_end(bench.comm, bench.stream), BELAY_E_STATE);
	for (unsigned pass = 1; pass <= 3; pass++) {
		RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), 0);
		RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), BELAY_E_STATE);
		fill(&bench, COUNT);
		RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
		RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
		RANK_EXPECT_STATUS(seat, belay_pass_end(bench.comm, bench.stream), 0);
		expect_pass(&bench, pass, 2 * pass - 1, 2 * pass);
		RANK_EXPECT(seat, is_sum(&bench, COUNT));
		expect_pass(&bench, pass, 2 * pass - 1, 2 * pass);
	}
	/* An empty pass. */
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, NULL), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_end(bench.comm, NULL), 0);
	expect_pass(&bench, 4, 0, 0);
	tear_down(&bench);
}

START_TEST(marks_are_enqueued_and_waiting_commits)
{
	run(mark_eagerly, NULL);
}
END_TEST

static void replay_marks(struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct cpu_gpu_graph *graph;
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	graph = capture_calls(&bench, CPU_GPU_THREAD_LOCAL, true);
	replay(&bench, graph);
	expect_pass(&bench, 1, 1, NODES);
	replay(&bench, graph);
	replay(&bench, graph);
	expect_pass(&bench, 3, 2 * NODES + 1, 3 * NODES);
	/* An eager pass after replays is not taken for one of theirs. */
	RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, bench.stream), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_end(bench.comm, bench.stream), 0);
	expect_pass(&bench, 5, 4 * NODES + 1, 4 * NODES + 1);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(bench.comm, &statistics), 0);
	RANK_EXPECT(seat, statistics.passes == 5);
	cpu_gpu_graph_free(graph);
	tear_down(&bench);
}

FAULT_TEST(captured_marks_number_each_replay, "F16 F44 F72 F73")
{
	run(replay_marks, NULL);
}
END_TEST

/* The third replay fails, in its second call. */
#define FAULT_IN_REPLAY "rank=1,seq=8,kind=op"
_Static_assert(NODES == 3, "FAULT_IN_REPLAY knows");

static void fail_in_a_replay(struct rank_seat *seat)
{
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct cpu_gpu_graph *graph;
	struct bench bench;

	seat->config.fault = FAULT_IN_REPLAY;
	set_up(&bench, seat, "symm", COUNT);
	graph = capture_calls(&bench, CPU_GPU_THREAD_LOCAL, true);
	replay(&bench, graph);
	replay(&bench, graph);
	expect_pass(&bench, 2, NODES + 1, 2 * NODES);
	for (int i = 0; i < 2; i++) {
		RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, bench.stream), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(bench.stream), 0);
		/* Not the commit of the pass before. */
		RANK_EXPECT_STATUS(seat, belay_pass_wait(bench.comm, NULL), BELAY_E_MISMATCH);
	}
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(bench.comm, &verdict), 0);
	RANK_EXPECT(seat, verdict.seq == 8 && verdict.pass == 3);
	cpu_gpu_graph_free(graph);
	tear_down(&bench);
}

START_TEST(a_pass_that_fails_in_a_replay_is_not_taken_for_the_one_before)
{
	run(fail_in_a_replay, NULL);
}
END_TEST

static void wait_in_vain(struct rank_seat *seat)
{
	struct belay_pass_info info = {.size = sizeof(info)};
	_Atomic uint64_t gate = 0;
	struct bench bench;

	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "100";
	set_up(&bench, seat, "symm", COUNT);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), 0);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_enqueue_wait(bench.stream, &gate, 1), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_end(bench.comm, bench.stream), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(bench.comm, &info), BELAY_E_TIMEOUT);
	atomic_store_explicit(&gate, 1, memory_order_release);
	expect_pass(&bench, 1, 1, 1);
	tear_down(&bench);
}

START_TEST(waiting_for_a_mark_that_is_not_reached_is_bounded)
{
	run(wait_in_vain, NULL);
}
END_TEST

/* ---- large calls ----------------------------------------------------------------------------- */

#define LARGE_TURN "4096"
#define LARGE	   (5 * 4096 / sizeof(float) + 7)

static void make_large_call(struct rank_seat *seat)
{
	struct bench bench;

	seat->config.symm_max = LARGE_TURN;
	set_up(&bench, seat, seat->plan, LARGE);
	whole_call(&bench, bench.stream, COUNT);
	whole_call(&bench, bench.stream, LARGE);
	RANK_EXPECT(seat, seq_of(&bench) == 2);
	RANK_EXPECT(seat, control_view_done(&bench.comm->control, (unsigned)seat->rank) == 7);
	RANK_EXPECT(seat, cpu_gpu_followers() == (strncmp(seat->plan, "symm", 4) ? 0 : 5));
	tear_down(&bench);
}

START_TEST(a_call_larger_than_a_turn_takes_several_under_one_number)
{
	run(make_large_call, path_lists[_i]);
}
END_TEST

/* ---- launches that fail ---------------------------------------------------------------------- */

static void fail_a_launch(struct rank_seat *seat)
{
	struct bench bench;

	set_up(&bench, seat, "symm", COUNT);
	cpu_gpu_fail("symm_launch_call", 1, CPU_GPU_INVALID, false);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), BELAY_E_SYSTEM);
	RANK_EXPECT(seat, causes_say(&bench, "launching an allreduce: "));
	cpu_gpu_fail("symm_launch_pass", 1, CPU_GPU_INVALID, false);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), BELAY_E_SYSTEM);
	/* Neither has been made. */
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), 0);
	whole_call(&bench, bench.stream, COUNT);
	RANK_EXPECT(seat, seq_of(&bench) == 1);
	tear_down(&bench);
}

START_TEST(a_launch_that_cuda_refuses_is_not_a_call)
{
	run(fail_a_launch, NULL);
}
END_TEST

static void lose_a_context(struct rank_seat *seat)
{
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct bench bench;
	int status;

	set_up(&bench, seat, "symm", COUNT);
	whole_call(&bench, bench.stream, COUNT);
	/* All are done with the first call before anything fails. */
	rank_announce(seat, 0);
	RANK_EXPECT(seat, rank_await(seat, 0, NRANKS));
	if (seat->rank == 1)
		cpu_gpu_fail("symm_launch_call", 1, CPU_GPU_ILLEGAL_ADDRESS, true);
	status = call_on(&bench, bench.stream, COUNT);
	/* Rank 0 may have heard of it already. */
	RANK_EXPECT(seat, status == BELAY_E_GPU_FAULT || (status == 0 && seat->rank == 0));
	rank_await_verdict(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(bench.comm, &verdict), 0);
	RANK_EXPECT(seat, verdict.cause == BELAY_CAUSE_GPU_FAULT && verdict.rank == 1);
	RANK_EXPECT(seat, verdict.seq == 2);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), BELAY_E_GPU_FAULT);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(bench.comm, NULL), BELAY_E_GPU_FAULT);
	rank_destroy(seat);
}

FAULT_TEST(a_lost_context_is_the_verdict_of_all, "27 F21 F29")
{
	/* What lives in a context that is lost stays, descriptors too. */
	run_on(true, lose_a_context, NULL);
}
END_TEST

/* ---- faults at a call's entry ---------------------------------------------------------------- */

static const char *const entry_faults[] = {
	"rank=1,seq=2,kind=skip",  "rank=1,seq=2,kind=extra", "rank=1,seq=2,kind=count",
	"rank=1,seq=2,kind=dtype", "rank=1,seq=2,kind=op",    "rank=1,seq=2,kind=swap",
};

static void call_differently(struct rank_seat *seat)
{
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct bench bench;

	seat->config.fault = seat->plan;
	set_up(&bench, seat, "symm", COUNT);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), 0);
	for (size_t i = 0; i < 4; i++)
		(void)call_on(&bench, bench.stream, COUNT - i); /* the verdict may be there */
	rank_await_verdict(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(bench.comm, &verdict), 0);
	RANK_EXPECT(seat, verdict.cause == BELAY_CAUSE_MISMATCH && verdict.seq == 2);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), BELAY_E_MISMATCH);
	tear_down(&bench);
}

FAULT_TEST(ranks_that_call_differently_are_told_so, "15 16")
{
	run(call_differently, entry_faults[_i]);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("device_calls");
	TCase *c = tcase_create("device_calls");

	tcase_set_timeout(c, 40);
	tcase_add_test(c, a_buffer_that_is_not_of_the_device_is_named_and_refused);
	tcase_add_loop_test(c, calls_of_all_sizes_are_right_on_each_path, 0, 2);
	tcase_add_test(c, one_stream_at_a_time_and_another_when_its_work_is_done);
	tcase_add_loop_test(c, another_stream_waits_for_all_blocks_of_a_call, 0, 2);
	tcase_add_loop_test(c, calls_are_captured_from_the_first_on_and_replayed_between_others, 0,
			    (int)(sizeof(modes) / sizeof(modes[0])));
	tcase_add_test(c, a_call_follows_another_if_nothing_is_captured_between);
	tcase_add_test(c, calls_on_two_streams_of_a_capture_follow_one_another);
	tcase_add_test(c, a_capture_within_a_capture_makes_that_forget_nothing);
	tcase_add_test(c, a_broken_capture_is_refused_and_forgotten);
	tcase_add_test(c, marks_are_enqueued_and_waiting_commits);
	tcase_add_test(c, captured_marks_number_each_replay);
	tcase_add_test(c, a_pass_that_fails_in_a_replay_is_not_taken_for_the_one_before);
	tcase_add_test(c, waiting_for_a_mark_that_is_not_reached_is_bounded);
	tcase_add_loop_test(c, a_call_larger_than_a_turn_takes_several_under_one_number, 0, 2);
	tcase_add_test(c, a_launch_that_cuda_refuses_is_not_a_call);
	tcase_add_test(c, a_lost_context_is_the_verdict_of_all);
	tcase_add_loop_test(c, ranks_that_call_differently_are_told_so, 0,
			    (int)(sizeof(entry_faults) / sizeof(entry_faults[0])));
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
