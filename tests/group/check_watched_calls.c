/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of NCCL's that a program makes itself and belay watches, between real processes on a GPU
 * that is played on the CPU and over an NCCL that is a stub: numbers and records, who is late, who
 * calls otherwise, and what becomes of a call that does not end.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <limits.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/communicator.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/rank_calls.h"

#define NRANKS 2
#define COUNT  5000

/* What a scenario works with: a communicator of belay's, and the program's own of NCCL's. */
struct bench {
	struct rank_seat *seat;
	struct belay_comm *comm;
	ncclComm_t nccl;
	struct CUstream_st *stream;
	float *send, *recv; /* COUNT; NRANKS * COUNT */
};

/* ---- a program ------------------------------------------------------------------------------- */

static const char *stub(void)
{
	static char path[PATH_MAX];
	const char *build = getenv("top_builddir");

	snprintf(path, sizeof(path), "%s/tests/support/.libs/libtest-nccl-stub.so",
		 build ? build : ".");
	return path;
}

/* The stub's function `name`. */
#define NCCL(name) ((__typeof__(&nccl##name))nccl_function("nccl" #name))

static void *nccl_function(const char *name)
{
	return dlsym(dlopen(stub(), RTLD_NOW | RTLD_LOCAL), name);
}

/* A communicator of the stub's; its id is two words long. */
static ncclComm_t join_nccl(struct rank_seat *seat)
{
	ncclUniqueId id = {{0}};
	ncclComm_t nccl = NULL;
	uint64_t words[2];

	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, (int)NCCL(GetUniqueId)(&id), 0);
		memcpy(words, id.internal, sizeof(words));
		for (int i = 0; i < 2; i++)
			atomic_store_explicit(&seat->words[i], words[i], memory_order_release);
		rank_announce(seat, 2);
	}
	RANK_EXPECT(seat, rank_await(seat, 2, 1));
	for (int i = 0; i < 2; i++)
		words[i] = atomic_load_explicit(&seat->words[i], memory_order_acquire);
	memcpy(id.internal, words, sizeof(words));
	RANK_EXPECT_STATUS(seat, (int)NCCL(CommInitRank)(&nccl, seat->nranks, id, seat->rank), 0);
	return nccl;
}

static void set_up(struct bench *bench, struct rank_seat *seat, const char *paths)
{
	*bench = (struct bench){.seat = seat};
	cpu_gpu_set_current(0);
	seat->config.device = "auto";
	seat->config.nccl_library = stub();
	seat->config.symm_max = "64K";
	seat->config.destroy_ms = "500";
	seat->config.paths = paths;
	bench->stream = cpu_gpu_stream_create();
	bench->send = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, COUNT * sizeof(float));
	bench->recv = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, NRANKS * COUNT * sizeof(float));
	bench->nccl = join_nccl(seat);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	bench->comm = seat->comm;
	for (int i = 0; i < COUNT; i++)
		bench->send[i] = (float)(seat->rank * 10 + i % 7);
}

static void tear_down(struct bench *bench)
{
	RANK_EXPECT_STATUS(bench->seat, (int)NCCL(CommAbort)(bench->nccl), 0);
	(void)cpu_gpu_stream_sync(bench->stream);
	rank_destroy(bench->seat);
	cpu_gpu_memory_free(bench->send);
	cpu_gpu_memory_free(bench->recv);
	cpu_gpu_stream_free(bench->stream);
	cpu_gpu_end_default_stream();
}

static struct belay_watched an_allgather(void)
{
	return (struct belay_watched){
		.size = sizeof(struct belay_watched),
		.op = BELAY_ALL_GATHER,
		.dtype = BELAY_F32,
		.count = NRANKS * COUNT,
	};
}

static ncclResult_t gather(struct bench *bench)
{
	return NCCL(AllGather)(bench->send, bench->recv, COUNT, ncclFloat32, bench->nccl,
			       bench->stream);
}

static bool is_gathered(const struct bench *bench)
{
	for (int r = 0; r < NRANKS; r++)
		for (int i = 0; i < COUNT; i++)
			if (bench->recv[r * COUNT + i] != (float)(r * 10 + i % 7))
				return false;
	return true;
}

/* Enqueues one, whole. */
static void enqueue_gather(struct bench *bench)
{
	struct belay_watched watched = an_allgather();

	RANK_EXPECT_STATUS(bench->seat, belay_watch_begin(bench->comm, &watched, bench->stream), 0);
	RANK_EXPECT_STATUS(bench->seat, (int)gather(bench), 0);
	RANK_EXPECT_STATUS(bench->seat, belay_watch_end(bench->comm, &watched, 0, bench->stream),
			   0);
}

static void whole_gather(struct bench *bench)
{
	memset(bench->recv, 0xff, NRANKS * COUNT * sizeof(float));
	enqueue_gather(bench);
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(bench->stream), 0);
	RANK_EXPECT(bench->seat, is_gathered(bench));
}

static void sum(struct bench *bench)
{
	RANK_EXPECT_STATUS(bench->seat,
			   belay_allreduce(bench->send, bench->recv, COUNT, BELAY_F32, BELAY_SUM,
					   bench->comm, bench->stream),
			   0);
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(bench->stream), 0);
	RANK_EXPECT(bench->seat, bench->recv[1] == 12);
}

/* Records come a little later. */
static struct belay_statistics statistics_of(struct bench *bench, uint64_t calls)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};

	for (int i = 0; i < 2000 && statistics.calls < calls; i++) {
		usleep(1000);
		RANK_EXPECT_STATUS(bench->seat, belay_comm_statistics(bench->comm, &statistics), 0);
	}
	RANK_EXPECT(bench->seat, statistics.calls == calls);
	return statistics;
}

static void run(rank_scenario scenario, const void *plan, struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = NRANKS,
					   .scenario = scenario,
					   .plan = plan,
					   .cap_ms = 25000,
					   .gpu = true},
		       ret_group);
}

/* ---- on time --------------------------------------------------------------------------------- */

static void replay(struct bench *bench)
{
	struct cpu_gpu_graph *graph = NULL;

	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_capture_begin(bench->stream, CPU_GPU_GLOBAL), 0);
	enqueue_gather(bench);
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_capture_end(bench->stream, &graph), 0);
	for (int i = 0; i < 3; i++) {
		memset(bench->recv, 0xff, NRANKS * COUNT * sizeof(float));
		RANK_EXPECT_STATUS(bench->seat, cpu_gpu_graph_launch(graph, bench->stream), 0);
		RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(bench->stream), 0);
		RANK_EXPECT(bench->seat, is_gathered(bench));
	}
	cpu_gpu_graph_free(graph);
}

static void watch_calls(struct rank_seat *seat)
{
	struct belay_statistics statistics;
	struct bench bench;

	set_up(&bench, seat, seat->plan);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), 0);
	whole_gather(&bench);
	sum(&bench);
	whole_gather(&bench);
	RANK_EXPECT_STATUS(seat, belay_pass_end(bench.comm, bench.stream), 0);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(bench.comm, NULL), 0);
	replay(&bench);
	sum(&bench);
	statistics = statistics_of(&bench, 7);
	RANK_EXPECT(seat, statistics.calls_by_path[BELAY_PATH_NCCL] >= 5);
	RANK_EXPECT(seat, statistics.bytes == (5 * NRANKS + 2) * (uint64_t)COUNT * sizeof(float));
	RANK_EXPECT(seat, statistics.passes == 1);
	tear_down(&bench);
}

static const char *const path_lists[] = {"symm,ring", "nccl", "ring"};

START_TEST(a_watched_call_is_a_call_among_others_eager_and_replayed)
{
	struct rank_group group;

	run(watch_calls, path_lists[_i], &group);
}
END_TEST

static void misuse(struct rank_seat *seat)
{
	struct belay_watched watched = an_allgather(), bad;
	struct CUstream_st *other;
	struct bench bench;

	set_up(&bench, seat, "symm,ring");
	other = cpu_gpu_stream_create();
	for (int i = 0; i < 5; i++) {
		bad = watched;
		if (i == 0)
			bad.size--;
		if (i == 1)
			bad.op = 7;
		if (i == 2)
			bad.dtype = BELAY_F8E5M2 + 1;
		if (i == 3)
			bad.root = -1;
		if (i == 4)
			bad.count = UINT64_MAX;
		RANK_EXPECT_STATUS(seat, belay_watch_begin(bench.comm, &bad, bench.stream),
				   BELAY_E_ARGUMENT);
	}
	RANK_EXPECT_STATUS(seat, belay_watch_end(bench.comm, &watched, 0, bench.stream),
			   BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat, belay_watch_begin(bench.comm, &watched, bench.stream), 0);
	RANK_EXPECT_STATUS(seat, belay_watch_begin(bench.comm, &watched, bench.stream),
			   BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(bench.send, bench.recv, 4, BELAY_F32, BELAY_SUM,
					   bench.comm, bench.stream),
			   BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat, belay_pass_begin(bench.comm, bench.stream), BELAY_E_STATE);
	RANK_EXPECT_STATUS(seat, (int)gather(&bench), 0);
	RANK_EXPECT(seat, belay_watch_end(bench.comm, &watched, 0, other) != 0);
	RANK_EXPECT_STATUS(seat, belay_watch_end(bench.comm, &watched, 0, bench.stream), 0);
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(bench.send, bench.recv, 4, BELAY_F8E4M3, BELAY_SUM,
					   bench.comm, bench.stream),
			   BELAY_E_ARGUMENT);
	RANK_EXPECT_STATUS(seat,
			   belay_allreduce(bench.send, bench.recv, 4, BELAY_F32, BELAY_AVG,
					   bench.comm, bench.stream),
			   BELAY_E_ARGUMENT);
	sum(&bench);
	cpu_gpu_stream_free(other);
	tear_down(&bench);
}

START_TEST(begin_and_end_are_paired_on_one_stream)
{
	struct rank_group group;

	run(misuse, NULL, &group);
}
END_TEST

/* ---- late, and otherwise ----------------------------------------------------------------------
 */

static void come_late(struct rank_seat *seat)
{
	struct belay_statistics statistics;
	struct bench bench;

	set_up(&bench, seat, "symm,ring");
	whole_gather(&bench);
	if (seat->rank == 1)
		usleep(100000);
	whole_gather(&bench);
	statistics = statistics_of(&bench, 2);
	if (seat->rank == 0) {
		RANK_EXPECT(seat, statistics.late_calls == 1);
		RANK_EXPECT(seat, statistics.late_by_rank[1] == 1);
	}
	tear_down(&bench);
}

START_TEST(a_rank_that_is_late_for_a_watched_call_is_named)
{
	struct rank_group group;

	run(come_late, NULL, &group);
}
END_TEST

/* What rank 1 calls in place of the allgather. */
enum otherwise {
	OTHER_COUNT,
	OTHER_OP,
	OTHER_ROOT,
	OTHER_CALLS,
	OTHER_DETAILS,
	AN_ALLREDUCE,
	OTHERS
};

static void make_other(struct bench *bench, enum otherwise otherwise)
{
	struct belay_watched watched = an_allgather();

	if (otherwise == AN_ALLREDUCE) {
		RANK_EXPECT_STATUS(bench->seat,
				   belay_allreduce(bench->send, bench->recv, 4, BELAY_F32,
						   BELAY_SUM, bench->comm, bench->stream),
				   0);
		return;
	}
	watched.count -= otherwise == OTHER_COUNT;
	watched.op = otherwise == OTHER_OP ? BELAY_REDUCE_SCATTER : watched.op;
	watched.root += otherwise == OTHER_ROOT;
	watched.calls = otherwise == OTHER_CALLS ? 2 : 1;
	watched.details += otherwise == OTHER_DETAILS;
	RANK_EXPECT_STATUS(bench->seat, belay_watch_begin(bench->comm, &watched, bench->stream), 0);
	/* What NCCL would make of it, it may do after the gate only: never. */
	RANK_EXPECT_STATUS(bench->seat, (int)gather(bench), 0);
	/* The verdict may be there already. */
	(void)!belay_watch_end(bench->comm, &watched, 0, bench->stream);
}

static void call_otherwise(struct rank_seat *seat)
{
	const enum otherwise *otherwise = seat->plan;
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct belay_watched watched = an_allgather();
	struct bench bench;

	set_up(&bench, seat, "symm,ring");
	whole_gather(&bench);
	if (seat->rank == 1) {
		make_other(&bench, *otherwise);
	} else {
		RANK_EXPECT_STATUS(seat, belay_watch_begin(bench.comm, &watched, bench.stream), 0);
		RANK_EXPECT_STATUS(seat, (int)gather(&bench), 0);
		(void)!belay_watch_end(bench.comm, &watched, 0, bench.stream);
	}
	rank_await_verdict(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(bench.comm, &verdict), 0);
	RANK_EXPECT(seat, verdict.cause == BELAY_CAUSE_MISMATCH);
	RANK_EXPECT(seat, verdict.seq == 2);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", verdict.text);
	tear_down(&bench);
}

START_TEST(a_rank_that_makes_another_call_is_a_mismatch)
{
	enum otherwise otherwise = (enum otherwise)_i;
	struct rank_group group;

	run(call_otherwise, &otherwise, &group);
	ck_assert_str_eq(group.report[0].text, group.report[1].text);
	ck_assert_msg(strstr(group.report[0].text, "allgather") != NULL, "%s",
		      group.report[0].text);
	ck_assert_msg((strstr(group.report[0].text, "root, reduction or") != NULL) ==
			      (otherwise > OTHER_OP && otherwise < AN_ALLREDUCE),
		      "%s", group.report[0].text);
}
END_TEST

/* Another rank's failure may be told to this one as soon as it begins its call, or only in it. */
static bool begins(struct bench *bench, const struct belay_watched *watched, int told)
{
	int status = belay_watch_begin(bench->comm, watched, bench->stream);

	RANK_EXPECT(bench->seat, status == 0 || status == told);
	return status == 0;
}

/* Dead before the call, or in it: past the gate, with NCCL's part never made. */
static void die_in_a_call(struct rank_seat *seat)
{
	const bool *inside = seat->plan;
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct belay_watched watched = an_allgather();
	struct bench bench;

	set_up(&bench, seat, "symm,ring");
	whole_gather(&bench);
	if (seat->rank == 1 && *inside) {
		RANK_EXPECT_STATUS(seat, belay_watch_begin(bench.comm, &watched, bench.stream), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(bench.stream), 0);
	}
	if (seat->rank == 1)
		(void)raise(SIGKILL);
	if (begins(&bench, &watched, BELAY_E_PEER_LOST)) {
		RANK_EXPECT_STATUS(seat, (int)gather(&bench), 0);
		(void)!belay_watch_end(bench.comm, &watched, 0, bench.stream);
	}
	rank_await_verdict(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(bench.comm, &verdict), 0);
	RANK_EXPECT(seat, verdict.cause == BELAY_CAUSE_PEER_LOST);
	RANK_EXPECT(seat, verdict.rank == 1);
	RANK_EXPECT(seat, verdict.seq == 2);
	tear_down(&bench);
}

START_TEST(a_rank_that_dies_before_a_watched_call_or_in_it_is_lost)
{
	const bool inside = _i == 1;
	struct rank_group group;

	run(die_in_a_call, &inside, &group);
}
END_TEST

/* ---- calls that fail --------------------------------------------------------------------------
 */

struct failure {
	const char *stub;  /* STUB_NCCL of rank 0 after the first call */
	const char *fault; /* BELAY_FAULT */
	const char *text;  /* in the verdict's */
};

static const struct failure failures[] = {
	{"error=AllGather", "", "ncclAllGather returned ncclUnhandledCudaError (1) to the program"},
	{"", "rank=1,seq=2,kind=nccl-error",
	 "ncclAllGather returned ncclInternalError (3) to the program"},
	{"", "rank=0,seq=2,kind=nccl-hang",
	 "ncclAllGather did not end within the hard deadline of 500 ms"},
	{"absent", "", "ncclAllGather did not end within the hard deadline of 500 ms"},
	{"told", "",
	 "ncclCommGetAsyncError told the program of ncclRemoteError (6) while ncclAllGather ran"},
};

/* "absent", "told": rank 0 leaves NCCL's call out, which then never ends on the other. Which is
 * told of it by NCCL, or is not. */
static void fail_in_a_call(struct rank_seat *seat)
{
	const struct failure *failure = seat->plan;
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct belay_watched watched = an_allgather();
	ncclResult_t result = ncclSuccess;
	struct bench bench;
	int status;

	seat->config.fault = failure->fault;
	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "500";
	set_up(&bench, seat, "symm,ring");
	whole_gather(&bench);
	if (seat->rank == 0)
		setenv("STUB_NCCL", failure->stub, 1);
	if (begins(&bench, &watched, BELAY_E_NCCL_FAILED)) {
		if (seat->rank != 0 ||
		    (strcmp(failure->stub, "absent") && strcmp(failure->stub, "told")))
			result = gather(&bench);
		status = belay_watch_end(bench.comm, &watched, (int)result, bench.stream);
		RANK_EXPECT(seat, status == 0 || status == BELAY_E_NCCL_FAILED);
	}
	RANK_EXPECT_STATUS(seat, belay_watch_error(bench.comm, 0), BELAY_E_ARGUMENT);
	RANK_EXPECT_STATUS(seat, belay_watch_error(bench.comm, 7), BELAY_E_ARGUMENT);
	if (strcmp(failure->stub, "told") == 0)
		RANK_EXPECT_STATUS(seat, belay_watch_error(bench.comm, 6), 0);
	rank_await_verdict(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(bench.comm, &verdict), 0);
	RANK_EXPECT(seat, verdict.cause == BELAY_CAUSE_NCCL_FAILED);
	RANK_EXPECT(seat, verdict.seq == 2);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", verdict.text);
	RANK_EXPECT_STATUS(seat, belay_watch_begin(bench.comm, &watched, bench.stream),
			   BELAY_E_NCCL_FAILED);
	tear_down(&bench);
}

START_TEST(a_watched_call_that_fails_gets_one_verdict)
{
	struct rank_group group;

	run(fail_in_a_call, &failures[_i], &group);
	for (int r = 0; r < NRANKS; r++)
		ck_assert_msg(strstr(group.report[r].text, failures[_i].text) != NULL,
			      "rank %d: %s", r, group.report[r].text);
}
END_TEST

#define LOOP(name, n) tcase_add_loop_test(tests, name, 0, n)

static Suite *suite(void)
{
	Suite *suite = suite_create("watched_calls");
	TCase *tests = tcase_create("watched_calls");

	tcase_set_timeout(tests, 40);
	LOOP(a_watched_call_is_a_call_among_others_eager_and_replayed, 3);
	tcase_add_test(tests, begin_and_end_are_paired_on_one_stream);
	tcase_add_test(tests, a_rank_that_is_late_for_a_watched_call_is_named);
	LOOP(a_rank_that_makes_another_call_is_a_mismatch, OTHERS);
	LOOP(a_rank_that_dies_before_a_watched_call_or_in_it_is_lost, 2);
	LOOP(a_watched_call_that_fails_gets_one_verdict, 5);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "tests/unit/check_main.h"
