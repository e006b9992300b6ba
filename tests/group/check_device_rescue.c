/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rescue of kernels, on the GPU played on the CPU: a write lost in a replayed graph, over NCCL (the
 * stub) and over the ring; a dead rank's input, whole and torn; the breaker; a mismatch; a rank
 * that is only late. docs/cuda-path.md. The deadlines are calm, so that a crowded machine loses
 * nothing.
 */
#include "config.h"

#include <check.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "tests/support/fault_variants.h"
#include "tests/support/log_contents.h"
#include "tests/support/rank_device.h"

#define RANKS	   3
#define CALM_LATE  "100"
#define CALM_GRACE "200"
#define NS_PER_S   UINT64_C(1000000000)

struct rescue_plan {
	const char *fault;
	const char *paths;   /* NULL: symm,ring */
	const char *library; /* NCCL to load */
	const char *folder;  /* of the call log */
	const char *give_up;
	const char *late;
	const char *symm_max;
	bool torn;
	int replays;
};

static void run(rank_scenario scenario, const struct rescue_plan *plan, struct rank_group *group)
{
	rank_group_run(
		&(struct rank_spec){.nranks = RANKS,
				    .scenario = scenario,
				    .plan = plan,
				    .cap_ms = 100000,
				    .gpu = plan->library &&
					   plan->library[0]}, /* the stub keeps a descriptor */
		group);
}

static bool create(struct rank_seat *seat)
{
	const struct rescue_plan *plan = seat->plan;

	seat->config.fault = plan->fault;
	seat->config.paths = plan->paths;
	seat->config.nccl_library = plan->library;
	seat->config.log_dir = plan->folder;
	if (plan->symm_max)
		seat->config.symm_max = plan->symm_max;
	seat->config.late_ms = plan->late ? plan->late : CALM_LATE;
	seat->config.grace_ms = CALM_GRACE;
	seat->config.breaker = "3/10s";
	seat->config.probe_ms = "50";
	if (plan->give_up)
		seat->config.give_up_ms = seat->config.warmup_give_up_ms = plan->give_up;
	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	if (seat->comm)
		strcpy(seat->report->text, belay_comm_id(seat->comm));
	return seat->comm != NULL;
}

static void note_statistics(struct rank_seat *seat)
{
	seat->report->statistics.size = sizeof(seat->report->statistics);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(seat->comm, &seat->report->statistics), 0);
}

/* ---- a lost write in a replayed graph -------------------------------------------------------- */

#define NODES 122

static struct cpu_gpu_graph *capture(struct rank_seat *seat, const struct device_call *calls,
				     struct CUstream_st *stream)
{
	struct cpu_gpu_graph *graph = NULL;

	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(stream, CPU_GPU_GLOBAL), 0);
	for (int i = 0; i < NODES; i++)
		RANK_EXPECT(seat, device_call_enqueue(seat, &calls[i], stream));
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(stream, &graph), 0);
	return graph;
}

static void replay(struct rank_seat *seat)
{
	const struct rescue_plan *plan = seat->plan;
	struct CUstream_st *stream = cpu_gpu_stream_create();
	struct device_call *calls = calloc(NODES, sizeof(*calls));
	struct cpu_gpu_graph *graph;
	uint64_t random = 99;

	if (!calls || !create(seat))
		return;
	for (int i = 0; i < NODES; i++) {
		calls[i] = device_call_random(&random, 6000);
		device_call_prepare(seat, &calls[i]);
	}
	graph = capture(seat, calls, stream);
	for (int k = 0; graph && k < plan->replays; k++) {
		for (int i = 0; i < NODES; i++)
			device_call_fill(seat, &calls[i], ++seat->made);
		RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, stream), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
		for (int i = 0; i < NODES; i++)
			device_call_check(seat, &calls[i]);
	}
	note_statistics(seat);
	for (int i = 0; i < NODES; i++)
		device_call_free(&calls[i]);
	free(calls);
	cpu_gpu_graph_free(graph);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
	device_expect_nothing_left(seat);
}

/* One record says rescued, and by which path; all others do not. */
static void check_record(const char *folder, const struct rank_group *group, uint32_t rank,
			 uint64_t seq, enum belay_path path)
{
	struct log_contents log = {0};
	unsigned rescued = 0;

	ck_assert_int_ge(log_contents_read_rank(&log, folder, group->report[0].text, rank), 1);
	ck_assert_uint_eq(log.calls_count, 2 * NODES);
	for (size_t i = 0; i < log.calls_count; i++) {
		const struct call_record *record = log_contents_call(&log, i);

		if (!(record->flags & CALL_RESCUED))
			continue;
		rescued++;
		ck_assert_uint_eq(record->seq, seq);
		ck_assert_uint_eq(record->rescue_path, path);
		ck_assert_uint_gt(record->rescue_ns, 0);
		ck_assert(record->flags & CALL_DIGEST);
	}
	ck_assert_uint_eq(rescued, 1);
	for (size_t i = 0; i < log.events_count; i++) {
		const struct event_record *event = &log.events[i];

		if (event->kind != EVENT_RESCUE_END || event->status)
			continue;
		ck_assert_int_eq(event->value > 0, path == BELAY_PATH_NCCL);
		ck_assert_uint_ge(event->duration_ns, (uint64_t)event->value);
	}
	log_contents_free(&log);
}

static const struct {
	const char *fault;
	bool nccl;
	enum belay_path path; /* that finishes the call */
} losses[] = {
	{"rank=1,seq=183,kind=drop", false, BELAY_PATH_RING},
#ifdef HAVE_NCCL
	{"rank=1,seq=183,kind=drop", true, BELAY_PATH_NCCL},
	{"rank=1,seq=183,kind=drop;rank=0,seq=183,kind=nccl-error,at=rescue", true,
	 BELAY_PATH_RING},
	{"rank=1,seq=183,kind=drop;rank=2,seq=183,kind=nccl-hang,at=rescue", true, BELAY_PATH_RING},
#endif
};
#define LOSSES (int)(sizeof(losses) / sizeof(losses[0]))

FAULT_TEST(a_write_lost_in_a_replayed_graph_is_rescued_once_and_all_results_are_right, "21 28 F06")
{
	struct rescue_plan plan = {.fault = losses[_i].fault, .replays = 2};
	const char *build = getenv("top_builddir");
	struct rank_group group;
	char folder[512], library[1024];

	snprintf(library, sizeof(library), "%s/tests/support/.libs/libtest-nccl-stub.so",
		 build ? build : ".");
	if (losses[_i].nccl) {
		plan.paths = "symm,nccl,ring";
		plan.library = library;
	}
	make_folder(folder, sizeof(folder));
	plan.folder = folder;
	run(replay, &plan, &group);
	assert_all_well(&group);
	for (uint32_t r = 0; r < RANKS; r++) {
		ck_assert_uint_eq(group.report[r].statistics.rescued_seqs, 1);
		ck_assert_uint_eq(group.report[r].calls, 2 * NODES);
		/* Its own words rank 1 does not lose. */
		if (r != 1)
			check_record(folder, &group, r, 183, losses[_i].path);
	}
	remove_folder(folder);
}
END_TEST

/* ---- leftovers of an abandoned turn ---------------------------------------------------------- */

/* Large enough for the full wire, whose words bear no number. */
static void make_wire_calls(struct rank_seat *seat)
{
	static const struct device_call call = {
		.count = 40000, .dtype = BELAY_F32, .op = BELAY_SUM};
	struct CUstream_st *stream = cpu_gpu_stream_create();

	if (!create(seat))
		return;
	for (int i = 0; i < 12; i++)
		(void)device_call(seat, call, stream);
	note_statistics(seat);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
}

FAULT_TEST(what_an_abandoned_turn_has_left_behind_is_never_taken_for_data, "R5")
{
	/* Two turns later, in the same slots, rank 2's data are late. */
	struct rescue_plan plan = {.fault = "rank=1,seq=3:9:3,kind=drop;"
					    "rank=2,seq=5:11:3,kind=delay:30,at=push",
				   .late = "50",
				   .symm_max = "512K"};
	struct rank_group group;

	run(make_wire_calls, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 3);
}
END_TEST

/* ---- a dead rank's input --------------------------------------------------------------------- */

#define DEATH 7 /* the call in which rank 1 dies, staged and not pushed */

/* Until this rank's kernel has said that the turn is staged. */
static void await_staged(struct rank_seat *seat, uint64_t turn)
{
	uint64_t until = rank_now_ns() + 20 * NS_PER_S;

	while (device_staged(seat->comm) < turn && rank_now_ns() < until)
		(void)poll(NULL, 0, 1);
}

/* The word of the block that staged last is as it was before: the others have been counted, say,
 * and its stores were lost. */
static void tear(struct rank_seat *seat, uint64_t turn)
{
	const struct symm_comm *symm = &seat->comm->device->symm;
	char *own = symm->region + (size_t)seat->rank * symm->layout.stride;
	uint64_t *words = (uint64_t *)(void *)(own + symm->layout.block_staged);

	words[(turn & 1) * SYMM_BLOCKS_MAX] = 0;
}

static void die_staged(struct rank_seat *seat, const struct device_call *call,
		       struct CUstream_st *stream)
{
	const struct rescue_plan *plan = seat->plan;

	RANK_EXPECT(seat, device_call_enqueue(seat, call, stream));
	await_staged(seat, DEATH);
	if (plan->torn)
		tear(seat, DEATH);
	raise(SIGKILL);
}

/* A call after the other until the verdict; those before it are right. */
static void call_until_the_verdict(struct rank_seat *seat)
{
	struct CUstream_st *stream = cpu_gpu_stream_create();
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	bool decided = false;

	if (!create(seat))
		return;
	for (uint64_t seq = 1; seq < 100 && !decided; seq++) {
		struct device_call call = {.count = 5000, .dtype = BELAY_F32, .op = BELAY_SUM};
		uint64_t begin = rank_now_ns();

		device_call_prepare(seat, &call);
		device_call_fill(seat, &call, seq);
		if (seq == DEATH && seat->rank == 1)
			die_staged(seat, &call, stream);
		if (belay_allreduce(call.send, call.recv, call.count, (enum belay_dtype)call.dtype,
				    (enum belay_op)call.op, seat->comm, stream) == 0)
			RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
		decided = belay_comm_verdict(seat->comm, &verdict) == 0;
		if (!decided || verdict.seq > seq)
			device_call_check(seat, &call);
		else
			seat->report->failed_ns = rank_now_ns() - begin;
		device_call_free(&call);
	}
	seat->report->failed = verdict.status;
	rank_meet_verdict(seat);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
}

/* With the data on its way the ranks that wait need rank 1's input from its region, by rescue. */
FAULT_TEST(a_dead_ranks_input_is_used_when_it_is_whole_and_only_then, "3 4 F01 F20")
{
	struct rescue_plan plan = {.fault = "rank=1,seq=7,kind=delay:60000,at=push",
				   .torn = _i == 1};
	struct rank_group group;

	run(call_until_the_verdict, &plan, &group);
	ck_assert_int_eq(WTERMSIG(group.wait_status[1]), SIGKILL);
	ck_assert_uint_eq(rank_group_alive(&group), 5);
	assert_one_verdict(&group, 5, BELAY_CAUSE_PEER_LOST, 1, plan.torn ? DEATH : DEATH + 1);
	ck_assert_ptr_nonnull(strstr(group.report[0].verdict.text, "its last call was seq 7"));
	ck_assert_uint_eq(group.report[0].calls, plan.torn ? DEATH - 1 : DEATH);
	ck_assert_uint_eq(group.report[0].bits, group.report[2].bits);
}
END_TEST

/* ---- a live rank's input -------------------------------------------------------------------- */

#define HIDDEN 3 /* the call whose input rank 1 has retained, but not so that others can see it */
#define LOOKS  5 /* beats of the watcher, in which it would give the part if nothing kept it */

static void flip_retained(struct rank_seat *seat, uint64_t turn)
{
	const struct symm_comm *symm = &seat->comm->device->symm;

	symm->region[(size_t)seat->rank * symm->layout.stride + symm->layout.retained +
		     (turn & 1) * symm->layout.symm_bytes] ^= 1;
}

/* Which of the ranks that wait abandons the turn first is open; the others may not be asked before
 * all parts are there. */
static bool is_abandoned(const struct belay_comm *comm, uint64_t turn)
{
	for (unsigned r = 0; r < comm->nranks; r++)
		if (atomic_load_explicit(&comm->control.rank[r].abandoned, memory_order_acquire) ==
		    turn)
			return true;
	return false;
}

/* Until the own watcher has looked some times after another rank has abandoned the turn: then
 * nothing but the word of the retained input keeps it from giving that. */
static void await_looks(struct rank_seat *seat, uint64_t turn)
{
	const struct belay_comm *comm = seat->comm;
	uint64_t until = rank_now_ns() + 20 * NS_PER_S, beat = 0, now;
	int looks = 0;

	while (looks < LOOKS && rank_now_ns() < until) {
		(void)poll(NULL, 0, 1);
		now = atomic_load_explicit(&comm->own->heartbeat_ns, memory_order_acquire);
		if (is_abandoned(comm, turn) && now != beat)
			looks++;
		beat = now;
	}
	RANK_EXPECT(seat, looks == LOOKS);
}

/* Its kernel is done; but what it has retained, and the word that says so, come later. */
static void hide_input(struct rank_seat *seat, struct CUstream_st *stream)
{
	const struct symm_comm *symm = &seat->comm->device->symm;
	uint64_t *words =
		(uint64_t *)(void *)(symm->region + (size_t)seat->rank * symm->layout.stride +
				     symm->layout.block_staged) +
		(HIDDEN & 1) * SYMM_BLOCKS_MAX;
	uint64_t word;

	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
	word = words[0];
	RANK_EXPECT(seat, SYMM_BLOCK_TURN(word) == HIDDEN);
	words[0] = 0;
	flip_retained(seat, HIDDEN);
	await_looks(seat, HIDDEN);
	flip_retained(seat, HIDDEN);
	__atomic_store_n(&words[0], word, __ATOMIC_RELEASE);
}

static void lose_what_is_hidden(struct rank_seat *seat)
{
	struct CUstream_st *stream = cpu_gpu_stream_create();

	if (!create(seat))
		return;
	for (uint64_t seq = 1; seq < HIDDEN + 3; seq++) {
		/* Integers: no rounding hides a flipped bit. */
		struct device_call call = {.count = 5000, .dtype = BELAY_I32, .op = BELAY_SUM};

		device_call_prepare(seat, &call);
		device_call_fill(seat, &call, seq);
		RANK_EXPECT(seat, device_call_enqueue(seat, &call, stream));
		if (seq == HIDDEN && seat->rank == 1)
			hide_input(seat, stream);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
		device_call_check(seat, &call);
		device_call_free(&call);
	}
	note_statistics(seat);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
}

START_TEST(a_rank_that_is_done_gives_its_input_only_when_that_is_whole)
{
	struct rescue_plan plan = {.fault = "rank=1,seq=3,kind=drop"};
	struct rank_group group;

	run(lose_what_is_hidden, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].statistics.rescued_seqs, 1);
}
END_TEST

/* ---- only late ------------------------------------------------------ */

static void make_calls(struct rank_seat *seat)
{
	struct CUstream_st *stream = cpu_gpu_stream_create();
	uint64_t random = 5;

	if (!create(seat))
		return;
	for (int i = 0; i < 12; i++)
		(void)device_call(seat, device_call_random(&random, 20000), stream);
	note_statistics(seat);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
	device_expect_nothing_left(seat);
}

FAULT_TEST(a_rank_that_is_only_late_is_waited_for, "11")
{
	struct rescue_plan plan = {.fault = "rank=1,seq=9,kind=delay:1000,at=stage", .late = "20"};
	struct rank_group group;

	run(make_calls, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].statistics.rescued_seqs, 0);
	ck_assert_uint_ge(group.report[0].statistics.late_by_rank[1], 1);
}
END_TEST

/* ---- the breaker ----------------------------------------------------------------------------- */

static enum belay_breaker_state breaker(struct rank_seat *seat)
{
	struct belay_health health = {.size = sizeof(health)};

	RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	return health.breaker;
}

/* Calls until the breaker is as wanted, decided by rank 0 for all; at most `most`. */
static void call_until(struct rank_seat *seat, struct CUstream_st *stream, int word,
		       enum belay_breaker_state wanted, int most)
{
	static const struct device_call call = {.count = 900, .dtype = BELAY_F32, .op = BELAY_SUM};
	bool reached = false;

	for (int i = 1; i <= most && !reached; i++) {
		(void)device_call(seat, call, stream);
		if (seat->rank == 0) {
			(void)poll(NULL, 0, 2);
			atomic_store_explicit(&seat->words[word + 1], breaker(seat) == wanted,
					      memory_order_release);
			atomic_store_explicit(&seat->words[word], (uint64_t)i,
					      memory_order_release);
		}
		RANK_EXPECT(seat, rank_await(seat, word, (uint64_t)i));
		reached = atomic_load_explicit(&seat->words[word + 1], memory_order_acquire);
		/* Nobody may go on before all have read. */
		rank_announce(seat, word + 2);
		RANK_EXPECT(seat, rank_await(seat, word + 2, (uint64_t)(i * seat->nranks)));
	}
	RANK_EXPECT(seat, reached);
}

static void break_and_mend(struct rank_seat *seat)
{
	struct CUstream_st *stream = cpu_gpu_stream_create();

	if (!create(seat))
		return;
	call_until(seat, stream, 0, BELAY_BREAKER_OPEN, 10);
	note_statistics(seat);
	seat->report->number[0] = seat->report->statistics.rescued_seqs;
	/* From seq 41 on nothing is lost any more, probes included. */
	call_until(seat, stream, 4, BELAY_BREAKER_CLOSED, 3000);
	note_statistics(seat);
	seat->report->number[1] = seat->report->statistics.rescued_seqs;
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
}

FAULT_TEST(a_path_that_keeps_failing_is_left_alone_until_it_works, "26")
{
	struct rescue_plan plan = {.fault = "rank=1,seq=2:40,kind=drop", .late = "20"};
	struct rank_group group;

	run(break_and_mend, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_ge(group.report[0].number[0], 3);
	ck_assert_uint_ge(group.report[0].number[1], 38);
}
END_TEST

/* ---- mismatch -------------------------------------------------------------------------------- */

static void meet_a_mismatch(struct rank_seat *seat)
{
	struct device_call call = {.count = 4000, .dtype = BELAY_F32, .op = BELAY_SUM};
	struct CUstream_st *stream = cpu_gpu_stream_create();
	char *before = malloc(4000 * sizeof(float));

	if (!before || !create(seat))
		return;
	(void)device_call(seat, call, stream);
	device_call_prepare(seat, &call);
	device_call_fill(seat, &call, ++seat->made);
	memcpy(before, call.recv, call.bytes);
	RANK_EXPECT(seat, device_call_enqueue(seat, &call, stream));
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(stream), 0);
	rank_await_verdict(seat);
	rank_meet_verdict(seat);
	seat->report->failed = seat->report->verdict.status;
	RANK_EXPECT(seat, memcmp(before, call.recv, call.bytes) == 0);
	device_call_free(&call);
	free(before);
	rank_destroy(seat);
	cpu_gpu_stream_free(stream);
}

static const char *const odd_ones[] = {"rank=2,seq=2,kind=op", "rank=2,seq=2,kind=count"};

FAULT_TEST(a_mismatch_leaves_every_output_as_it_was, "15 16")
{
	struct rescue_plan plan = {.fault = odd_ones[_i]};
	struct rank_group group;

	run(meet_a_mismatch, &plan, &group);
	assert_one_verdict(&group, 7, BELAY_CAUSE_MISMATCH, 2, 2);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("rescue on devices");
	TCase *c = tcase_create("rescue");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(
		c, a_write_lost_in_a_replayed_graph_is_rescued_once_and_all_results_are_right, 0,
		LOSSES);
	tcase_add_test(c, what_an_abandoned_turn_has_left_behind_is_never_taken_for_data);
	tcase_add_loop_test(c, a_dead_ranks_input_is_used_when_it_is_whole_and_only_then, 0, 2);
	tcase_add_test(c, a_rank_that_is_done_gives_its_input_only_when_that_is_whole);
	tcase_add_test(c, a_rank_that_is_only_late_is_waited_for);
	suite_add_tcase(s, c);

	c = tcase_create("breaker");
	tcase_set_timeout(c, 120);
	tcase_add_test(c, a_path_that_keeps_failing_is_left_alone_until_it_works);
	suite_add_tcase(s, c);

	c = tcase_create("mismatch");
	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, a_mismatch_leaves_every_output_as_it_was, 0, 2);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
