/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole calls on NCCL, between real processes on a GPU that is played on the CPU and over an NCCL
 * that is a stub: right results, and what becomes of a call whose NCCL fails; creation with an NCCL
 * that cannot be used, and creation from a communicator of NCCL's. Row 29 of the fault matrix.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <limits.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/communicator.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/rank_calls.h"

#define NRANKS	  2
#define COUNT	  9000
#define BIG_COUNT ((size_t)70000) /* of f32: over `symm_max` */

/* What a scenario works with. */
struct bench {
	struct rank_seat *seat;
	struct belay_comm *comm;
	struct CUstream_st *stream;
	float *send, *recv;
	unsigned made; /* inputs are made from it */
};

static const char *stub(void)
{
	static char path[PATH_MAX];
	const char *build = getenv("top_builddir");

	snprintf(path, sizeof(path), "%s/tests/support/.libs/libtest-nccl-stub.so",
		 build ? build : ".");
	return path;
}

static void prepare(struct bench *bench, struct rank_seat *seat, const char *paths)
{
	memset(bench, 0, sizeof(*bench));
	bench->seat = seat;
	cpu_gpu_set_current(0);
	seat->config.device = "auto";
	seat->config.nccl_library = stub();
	seat->config.symm_max = "64K";
	seat->config.destroy_ms = "500";
	seat->config.paths = paths;
	bench->stream = cpu_gpu_stream_create();
	bench->send = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, BIG_COUNT * sizeof(float));
	bench->recv = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, BIG_COUNT * sizeof(float));
}

static void set_up(struct bench *bench, struct rank_seat *seat, const char *paths)
{
	prepare(bench, seat, paths);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	bench->comm = seat->comm;
}

static void tear_down(struct bench *bench)
{
	(void)cpu_gpu_stream_sync(bench->stream);
	rank_destroy(bench->seat);
	cpu_gpu_memory_free(bench->send);
	cpu_gpu_memory_free(bench->recv);
	cpu_gpu_stream_free(bench->stream);
	cpu_gpu_end_default_stream();
}

/* The inputs of the next call; small whole numbers, so that sums are exact in any order. */
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

static void run(rank_scenario scenario, const void *plan, struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = NRANKS,
					   .scenario = scenario,
					   .plan = plan,
					   .cap_ms = 25000,
					   .gpu = true},
		       ret_group);
}

/* ---- healthy -----------------------------------------------------------------------------------
 */

static void replay(struct bench *bench)
{
	struct cpu_gpu_graph *graph = NULL;

	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_capture_begin(bench->stream, CPU_GPU_GLOBAL), 0);
	RANK_EXPECT_STATUS(bench->seat, call_on(bench, bench->stream, COUNT), 0);
	RANK_EXPECT_STATUS(bench->seat, cpu_gpu_capture_end(bench->stream, &graph), 0);
	for (int i = 0; i < 3; i++) {
		fill(bench, COUNT);
		RANK_EXPECT_STATUS(bench->seat, cpu_gpu_graph_launch(graph, bench->stream), 0);
		RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(bench->stream), 0);
		RANK_EXPECT(bench->seat, is_sum(bench, COUNT));
	}
	cpu_gpu_graph_free(graph);
}

static void make_calls(struct rank_seat *seat)
{
	struct bench bench;

	set_up(&bench, seat, "nccl,ring");
	RANK_EXPECT(seat, seat->report->path == BELAY_PATH_NCCL);
	for (size_t count = 1; count < BIG_COUNT; count = count * 7 + 1)
		whole_call(&bench, bench.stream, count);
	whole_call(&bench, NULL, COUNT);
	replay(&bench);
	RANK_EXPECT_STATUS(
		seat,
		belay_allreduce(NULL, NULL, 0, BELAY_F32, BELAY_SUM, bench.comm, bench.stream), 0);
	whole_call(&bench, bench.stream, COUNT);
	tear_down(&bench);
}

START_TEST(calls_on_nccl_are_right_eager_and_replayed)
{
	struct rank_group group;

	run(make_calls, NULL, &group);
}
END_TEST

#define TYPE(name, type)                                                                           \
	static void calls_in_##name(struct bench *bench, enum belay_dtype dtype)                   \
	{                                                                                          \
		type *send = (type *)(void *)bench->send, *recv = (type *)(void *)bench->recv;     \
		static const int wanted[] = {                                                      \
			[BELAY_SUM] = 5, [BELAY_MAX] = 3, [BELAY_MIN] = 2, [BELAY_PROD] = 6};      \
                                                                                                   \
		for (int op = BELAY_SUM; op <= BELAY_PROD; op++) {                                 \
			for (int i = 0; i < 100; i++)                                              \
				send[i] = (type)(2 + bench->seat->rank);                           \
			RANK_EXPECT_STATUS(bench->seat,                                            \
					   belay_allreduce(send, recv, 100, dtype,                 \
							   (enum belay_op)op, bench->comm,         \
							   bench->stream),                         \
					   0);                                                     \
			RANK_EXPECT_STATUS(bench->seat, cpu_gpu_stream_sync(bench->stream), 0);    \
			RANK_EXPECT(bench->seat, recv[0] == (type)wanted[op]);                     \
			RANK_EXPECT(bench->seat, recv[99] == (type)wanted[op]);                    \
		}                                                                                  \
	}
TYPE(f32, float)
TYPE(f64, double)
TYPE(i32, int32_t)
TYPE(i64, int64_t)
TYPE(u8, uint8_t)
TYPE(i8, int8_t)

static void make_calls_of_all_types(struct rank_seat *seat)
{
	struct bench bench;

	set_up(&bench, seat, "nccl");
	calls_in_f32(&bench, BELAY_F32);
	calls_in_f64(&bench, BELAY_F64);
	calls_in_i32(&bench, BELAY_I32);
	calls_in_i64(&bench, BELAY_I64);
	calls_in_u8(&bench, BELAY_U8);
	calls_in_i8(&bench, BELAY_I8);
	tear_down(&bench);
}

START_TEST(types_and_operations_are_nccls)
{
	struct rank_group group;

	run(make_calls_of_all_types, NULL, &group);
}
END_TEST

static void make_large_calls(struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct bench bench;

	set_up(&bench, seat, "symm,nccl,ring");
	RANK_EXPECT(seat, seat->report->path == BELAY_PATH_SYMM);
	whole_call(&bench, bench.stream, COUNT);
	whole_call(&bench, bench.stream, BIG_COUNT);
	whole_call(&bench, bench.stream, COUNT);
	/* Records come a little later. */
	for (int i = 0; i < 2000 && statistics.calls < 3; i++) {
		usleep(1000);
		RANK_EXPECT_STATUS(seat, belay_comm_statistics(bench.comm, &statistics), 0);
	}
	RANK_EXPECT(seat, statistics.calls_by_path[BELAY_PATH_SYMM] == 2);
	RANK_EXPECT(seat, statistics.calls_by_path[BELAY_PATH_NCCL] == 1);
	tear_down(&bench);
}

START_TEST(only_calls_too_large_for_a_turn_go_on_nccl)
{
	struct rank_group group;

	run(make_large_calls, NULL, &group);
}
END_TEST

/* ---- calls that fail ---------------------------------------------------------------------------
 */

struct failure {
	const char *stub;  /* STUB_NCCL of rank 0 after the first call */
	const char *fault; /* BELAY_FAULT */
	const char *text;  /* in the verdict's */
};

static const struct failure failures[] = {
	{"error=AllReduce", "", "ncclAllReduce: unhandled cuda error (1): stub: "},
	{"async-error=0", "", "ncclCommGetAsyncError: remote process exited"},
	{"hang=AllReduce", "", "did not end within the hard deadline of 500 ms"},
	{"", "rank=1,seq=2,kind=nccl-error", "ncclAllReduce: error injected"},
	{"", "rank=0,seq=2,kind=nccl-hang", "did not end within the hard deadline of 500 ms"},
	{"", "rank=*,seq=2,kind=nccl-hang", "did not end within the hard deadline of 500 ms"},
};

static void fail_in_a_call(struct rank_seat *seat)
{
	const struct failure *failure = seat->plan;
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct bench bench;
	int status;

	seat->config.fault = failure->fault;
	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "500";
	set_up(&bench, seat, "nccl,ring");
	whole_call(&bench, bench.stream, COUNT);
	if (seat->rank == 0)
		setenv("STUB_NCCL", failure->stub, 1);
	else
		usleep(50000); /* so that the other's call is seen while it is open */
	fill(&bench, COUNT);
	status = call_on(&bench, bench.stream, COUNT);
	RANK_EXPECT(seat, status == 0 || status == BELAY_E_NCCL_FAILED);
	rank_await_verdict(seat);
	RANK_EXPECT_STATUS(seat, belay_comm_verdict(bench.comm, &verdict), 0);
	RANK_EXPECT(seat, verdict.cause == BELAY_CAUSE_NCCL_FAILED);
	RANK_EXPECT(seat, verdict.seq == 2);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", verdict.text);
	RANK_EXPECT_STATUS(seat, call_on(&bench, bench.stream, COUNT), BELAY_E_NCCL_FAILED);
	/* What was enqueued behind it ends. */
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(bench.stream), 0);
	tear_down(&bench);
}

FAULT_TEST(a_call_whose_nccl_fails_gets_one_verdict, "29 F23 F91 F93")
{
	struct rank_group group;

	run(fail_in_a_call, &failures[_i], &group);
	for (int r = 0; r < NRANKS; r++)
		ck_assert_msg(strstr(group.report[r].text, failures[_i].text) != NULL,
			      "rank %d: %s", r, group.report[r].text);
}
END_TEST

/* ---- creation ----------------------------------------------------------------------------------
 */

static const struct failure refusals[] = {
	{"error=CommInitRankConfig", NULL, "rank 1: nccl: ncclCommInitRankConfig: unhandled"},
	{"hang=CommInitRankConfig", NULL, "nccl: ncclCommInitRankConfig did not end"},
	{"hang=AllReduce,abort-hangs", NULL, "nccl: ncclAllReduce did not end"}, /* F23 */
	{"version=21300", NULL, "version code 21300; 2.14 or newer"},
	{"duplicate", NULL, "NCCL_HOSTID"}, /* F91 */
};

static void start_without(struct rank_seat *seat)
{
	const struct failure *refusal = seat->plan;
	struct bench bench;

	prepare(&bench, seat, "nccl,symm,ring");
	seat->config.start_ms = "2000";
	if (seat->rank == 1)
		setenv("STUB_NCCL", refusal->stub, 1);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	bench.comm = seat->comm;
	RANK_EXPECT(seat, seat->report->path == BELAY_PATH_SYMM);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s",
		 bench.comm ? bench.comm->reasons : belay_last_error());
	whole_call(&bench, bench.stream, COUNT);
	whole_call(&bench, bench.stream, BIG_COUNT);
	tear_down(&bench);
}

FAULT_TEST(an_nccl_that_one_rank_cannot_use_is_used_by_none, "29 F23 F91 F93")
{
	struct rank_group group;

	run(start_without, &refusals[_i], &group);
	for (int r = 0; r < NRANKS; r++)
		ck_assert_msg(strstr(group.report[r].text, refusals[_i].text) != NULL,
			      "rank %d: %s", r, group.report[r].text);
}
END_TEST

/* ---- rescues -----------------------------------------------------------------------------------
 */

static const char *const rescues[] = {
	"rank=1,seq=3,kind=drop",
	"rank=1,seq=3,kind=drop;rank=0,seq=3,kind=nccl-error",
	"rank=1,seq=3,kind=drop;rank=0,seq=3,kind=nccl-hang",
};

static void lose_a_write(struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct bench bench;

	seat->config.fault = seat->plan;
	set_up(&bench, seat, "symm,nccl,ring");
	for (int i = 0; i < 5; i++)
		whole_call(&bench, bench.stream, COUNT);
	/* It is counted when the watchers are through, which may be after the calls. */
	for (int i = 0; i < 2000 && !statistics.rescued_seqs; i++) {
		RANK_EXPECT_STATUS(seat, belay_comm_statistics(bench.comm, &statistics), 0);
		usleep(1000);
	}
	/* On a crowded machine another write may look lost. */
	RANK_EXPECT(seat, statistics.rescued_seqs >= 1);
	tear_down(&bench);
}

FAULT_TEST(a_lost_write_is_rescued_over_nccl_or_where_that_fails_over_sockets, "29 F23 F91 F93")
{
	struct rank_group group;

	run(lose_a_write, rescues[_i], &group);
}
END_TEST

/* ---- from a communicator of NCCL's -------------------------------------------------------------
 */

/* A communicator of the stub's; its id is two words long. */
static ncclComm_t join_nccl(struct rank_seat *seat)
{
	void *library = dlopen(stub(), RTLD_NOW | RTLD_LOCAL);
	__typeof__(&ncclGetUniqueId) get_id =
		(__typeof__(&ncclGetUniqueId))dlsym(library, "ncclGetUniqueId");
	__typeof__(&ncclCommInitRank) init =
		(__typeof__(&ncclCommInitRank))dlsym(library, "ncclCommInitRank");
	ncclUniqueId id = {{0}};
	ncclComm_t nccl = NULL;
	uint64_t words[2];

	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, (int)get_id(&id), 0);
		memcpy(words, id.internal, sizeof(words));
		for (int i = 0; i < 2; i++)
			atomic_store_explicit(&seat->words[i], words[i], memory_order_release);
		rank_announce(seat, 2);
	}
	RANK_EXPECT(seat, rank_await(seat, 2, 1));
	for (int i = 0; i < 2; i++)
		words[i] = atomic_load_explicit(&seat->words[i], memory_order_acquire);
	memcpy(id.internal, words, sizeof(words));
	RANK_EXPECT_STATUS(seat, (int)init(&nccl, seat->nranks, id, seat->rank), 0);
	return nccl;
}

struct from_nccl {
	const char *stub;    /* STUB_NCCL of rank 0 */
	const char *late_ms; /* a setting of rank 1 */
	int status[NRANKS];
	const char *error[NRANKS]; /* in belay_last_error() */
};

static const struct from_nccl creations[] = {
	{"", NULL, {0, 0}, {"", ""}},
	{"", "soon", {BELAY_E_REFUSED, BELAY_E_SETTING}, {"rank 1 cannot join: ", "BELAY_LATE_MS"}},
	{"hang=AllGather",
	 NULL,
	 {BELAY_E_START_TIMEOUT, BELAY_E_START_TIMEOUT},
	 {"ncclAllGather on the NCCL communicator given did not end within 400 ms",
	  "ncclAllGather on the NCCL communicator given did not end within 400 ms"}},
	{"error=CommCount",
	 NULL,
	 {BELAY_E_SYSTEM, BELAY_E_START_TIMEOUT},
	 {"ncclCommCount: unhandled cuda error (1)", "did not end within 400 ms"}},
};

static void create_from_nccl(struct rank_seat *seat)
{
	const struct from_nccl *plan = seat->plan;
	struct bench bench;
	ncclComm_t nccl;
	int status;

	prepare(&bench, seat, "symm,ring");
	cpu_gpu_set_current(-1); /* the device is NCCL's */
	nccl = join_nccl(seat);
	if (plan->status[1] == BELAY_E_START_TIMEOUT)
		seat->config.start_ms = "400";
	if (seat->rank == 1 && plan->late_ms)
		seat->config.late_ms = plan->late_ms;
	if (seat->rank == 0)
		setenv("STUB_NCCL", plan->stub, 1);
	seat->config.device = NULL;
	status = belay_comm_create_from_nccl(&seat->comm, nccl, &seat->config);
	RANK_EXPECT_STATUS(seat, status, plan->status[seat->rank]);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	bench.comm = seat->comm;
	if (status == 0) {
		RANK_EXPECT(seat, belay_comm_rank(bench.comm) == seat->rank);
		RANK_EXPECT(seat, belay_comm_nranks(bench.comm) == seat->nranks);
		whole_call(&bench, bench.stream, COUNT);
		tear_down(&bench);
	}
}

START_TEST(a_communicator_is_made_from_one_of_nccls)
{
	struct rank_group group;

	run(create_from_nccl, &creations[_i], &group);
	for (int r = 0; r < NRANKS; r++)
		ck_assert_msg(strstr(group.report[r].text, creations[_i].error[r]) != NULL,
			      "rank %d: %s", r, group.report[r].text);
}
END_TEST

#define LOOP(name, rows)                                                                           \
	tcase_add_loop_test(tests, name, 0, (int)(sizeof(rows) / sizeof((rows)[0])))

static Suite *suite(void)
{
	Suite *suite = suite_create("nccl_path");
	TCase *tests = tcase_create("nccl_path");

	tcase_set_timeout(tests, 40);
	tcase_add_test(tests, calls_on_nccl_are_right_eager_and_replayed);
	tcase_add_test(tests, types_and_operations_are_nccls);
	tcase_add_test(tests, only_calls_too_large_for_a_turn_go_on_nccl);
	LOOP(a_call_whose_nccl_fails_gets_one_verdict, failures);
	LOOP(an_nccl_that_one_rank_cannot_use_is_used_by_none, refusals);
	LOOP(a_lost_write_is_rescued_over_nccl_or_where_that_fails_over_sockets, rescues);
	LOOP(a_communicator_is_made_from_one_of_nccls, creations);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "tests/unit/check_main.h"
