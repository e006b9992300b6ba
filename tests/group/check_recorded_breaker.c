/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A path that breaks and works again, as the logs of all ranks tell it: each move of the breaker
 * with its reason, waits for probes that grow, and two changes of the path, each at one call of all
 * ranks. On host memory, where calls change their path, and in graphs that were captured before, on
 * the GPU played on the CPU, where kernels become hasty instead (decision 0007). docs/faults.md:
 * row 26.
 */
#include "config.h"

#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/communicator.h"
#include "runtime/outcome/breaker.h"
#include "tests/support/log_contents.h"
#include "tests/support/rank_calls.h"
#include "tests/support/rank_device.h"

#define RANKS	 3
#define PROBE_MS 20
#define MS	 UINT64_C(1000000)
/* Probes that are missed, at least, while nobody calls. */
#define MISSED 2
/* Seqs of the lost writes, and of the probes with them. */
#define BROKEN_FROM  5
#define BROKEN_UNTIL 80

struct breaker_plan {
	const char *folder;
	enum belay_path path;
	void (*run)(struct rank_seat *seat);
};

static bool create(struct rank_seat *seat)
{
	const struct breaker_plan *plan = seat->plan;
	bool host = plan->path == BELAY_PATH_HOST;

	seat->config.fault = "rank=1,seq=5:80,kind=drop";
	seat->config.breaker = "2/60s";
	seat->config.probe_ms = "20";
	/* Calm, so that a crowded machine loses nothing. */
	seat->config.late_ms = "30";
	seat->config.grace_ms = "60";
	seat->config.log_dir = plan->folder;
	seat->config.device = host ? "host" : "0";
	seat->config.paths = host ? "host,ring" : "symm,ring";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	if (seat->comm)
		(void)strcpy(seat->report->text, belay_comm_id(seat->comm));
	return seat->comm != NULL;
}

/* Nobody calls, until rank 0 has begun one probe more than are to be missed. */
static void rest(struct rank_seat *seat)
{
	const struct control_head *head = seat->comm->control.head;
	uint64_t until = rank_now_ns() + 20000 * MS;

	while (seat->rank == 0 && rank_now_ns() < until &&
	       atomic_load_explicit(&head->probe_round, memory_order_relaxed) <= MISSED)
		(void)poll(NULL, 0, 1);
	if (seat->rank == 0)
		rank_announce(seat, 0);
	RANK_EXPECT(seat, rank_await(seat, 0, 1));
}

/* ---- on host memory -------------------------------------------------------------------------- */

/* All ranks leave this loop after the same call: the path is agreed. */
static void call_until_on(struct rank_seat *seat, enum belay_path path, int most)
{
	struct belay_health health = {.size = sizeof(health)};

	for (int i = 0; i < most && health.last_path != path; i++) {
		if (!rank_call(seat, 200))
			return;
		RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
	}
	RANK_EXPECT(seat, health.last_path == path);
}

static void call_on_host(struct rank_seat *seat)
{
	if (!create(seat))
		return;
	call_until_on(seat, BELAY_PATH_RING, BROKEN_UNTIL - 1);
	rest(seat);
	call_until_on(seat, BELAY_PATH_HOST, 100000);
	for (int i = 0; i < 20; i++)
		(void)rank_call(seat, 200);
	rank_destroy(seat);
}

/* ---- in a captured graph --------------------------------------------------------------------- */

#define NODES 10

struct captured {
	struct device_call call[NODES];
	struct CUstream_st *stream;
	struct cpu_gpu_graph *graph;
};

static void capture(struct rank_seat *seat, struct captured *captured)
{
	uint64_t random = 7;

	captured->stream = cpu_gpu_stream_create();
	for (int i = 0; i < NODES; i++) {
		captured->call[i] = device_call_random(&random, 4000);
		device_call_prepare(seat, &captured->call[i]);
	}
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(captured->stream, CPU_GPU_GLOBAL), 0);
	for (int i = 0; i < NODES; i++)
		RANK_EXPECT(seat, device_call_enqueue(seat, &captured->call[i], captured->stream));
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(captured->stream, &captured->graph), 0);
}

static void replay(struct rank_seat *seat, struct captured *captured)
{
	for (int i = 0; i < NODES; i++)
		device_call_fill(seat, &captured->call[i], ++seat->made);
	RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(captured->graph, captured->stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(captured->stream), 0);
	for (int i = 0; i < NODES; i++)
		device_call_check(seat, &captured->call[i]);
}

/* Replays until rank 0 sees the breaker closed, or not, and all are told; over words `word` and the
 * two behind it. */
static void replay_until(struct rank_seat *seat, struct captured *captured, int word, bool closed)
{
	struct belay_health health = {.size = sizeof(health)};
	bool reached = false;

	for (uint64_t i = 1; i <= 2000 && !reached && !seat->report->failed; i++) {
		replay(seat, captured);
		if (seat->rank == 0) {
			RANK_EXPECT_STATUS(seat, belay_comm_health(seat->comm, &health), 0);
			atomic_store_explicit(&seat->words[word + 1],
					      (health.breaker == BELAY_BREAKER_CLOSED) == closed,
					      memory_order_release);
			rank_announce(seat, word);
		}
		RANK_EXPECT(seat, rank_await(seat, word, i));
		reached = atomic_load_explicit(&seat->words[word + 1], memory_order_acquire);
		/* Nobody may go on before all have read. */
		rank_announce(seat, word + 2);
		RANK_EXPECT(seat, rank_await(seat, word + 2, i * RANKS));
	}
	RANK_EXPECT(seat, reached);
}

static void replay_on_device(struct rank_seat *seat)
{
	struct captured captured = {0};

	if (!create(seat))
		return;
	capture(seat, &captured);
	replay_until(seat, &captured, 1, false);
	rest(seat);
	replay_until(seat, &captured, 4, true);
	replay(seat, &captured);
	for (int i = 0; i < NODES; i++)
		device_call_free(&captured.call[i]);
	cpu_gpu_graph_free(captured.graph);
	rank_destroy(seat);
	cpu_gpu_stream_free(captured.stream);
	device_expect_nothing_left(seat);
}

/* ---- what the logs tell ---------------------------------------------------------------------- */

static void check_reason(const struct event_record *event, const char *text)
{
	ck_assert_msg(strstr(event->text, text), "'%s' is not in the reason '%s'", text,
		      event->text);
}

/* One move, `last` being the one before. */
static void check_move(const struct event_record *event, const struct event_record *last,
		       unsigned missed)
{
	int64_t before = last ? last->value : BELAY_BREAKER_CLOSED;
	unsigned doublings = missed < BREAKER_DOUBLINGS_MAX ? missed : BREAKER_DOUBLINGS_MAX;

	switch ((enum belay_breaker_state)event->value) {
	case BELAY_BREAKER_OPEN:
		ck_assert_int_ne(before, BELAY_BREAKER_OPEN);
		check_reason(event, before == BELAY_BREAKER_CLOSED
					    ? "2 rescues within 60000 ms on the "
					    : " have not seen every probe of the ");
		ck_assert_int_eq(event->mask != 0, before == BELAY_BREAKER_HALF_OPEN);
		break;
	case BELAY_BREAKER_HALF_OPEN:
		ck_assert_int_eq(before, BELAY_BREAKER_OPEN);
		ck_assert_uint_ge(event->time_ns - last->time_ns, PROBE_MS * MS << doublings);
		check_reason(event, "the back-off is over: every rank probes the ");
		break;
	case BELAY_BREAKER_CLOSED:
		ck_assert_int_eq(before, BELAY_BREAKER_HALF_OPEN);
		check_reason(event, "every rank has seen every probe of the ");
		break;
	}
}

/* Opened once, probed in vain, ever later, and closed by a probe. */
static void check_breaker(const struct log_contents *log)
{
	const struct event_record *last = NULL;
	unsigned missed = 0;

	for (size_t i = 0; i < log->events_count; i++) {
		const struct event_record *event = &log->events[i];

		if (event->kind != EVENT_BREAKER)
			continue;
		check_move(event, last, missed);
		missed += event->value == BELAY_BREAKER_OPEN && last;
		last = event;
	}
	ck_assert_ptr_nonnull(last);
	ck_assert_int_eq(last->value, BELAY_BREAKER_CLOSED);
	ck_assert_uint_ge(missed, MISSED);
}

/* Away and back, and nothing else. `back`: the way back has been seen; else it may have come when
 * the rank had made its last call. */
static void check_switches(const struct log_contents *log, enum belay_path path, bool back,
			   uint64_t seq[2])
{
	unsigned count = 0;

	for (size_t i = 0; i < log->events_count; i++) {
		const struct event_record *event = &log->events[i];

		if (event->kind != EVENT_PATH_SWITCH)
			continue;
		ck_assert_uint_lt(count, 2);
		check_reason(event, count ? "the breaker closed: " : "the breaker opened: ");
		ck_assert_int_eq(event->path, count ? path : BELAY_PATH_RING);
		ck_assert_int_eq(event->value, count ? BELAY_PATH_RING : path);
		seq[count++] = event->seq;
	}
	ck_assert_uint_ge(count, back ? 2 : 1);
	ck_assert_uint_gt(seq[0], BROKEN_FROM + 1); /* two of them were rescued */
	if (count == 2)
		ck_assert_uint_gt(seq[1], seq[0]);
}

/* Each call went over the path that the switches say. */
static void check_paths(const struct log_contents *log, const uint64_t seq[2])
{
	for (size_t i = 0; i < log->calls_count; i++) {
		const struct call_record *record = log_contents_call(log, i);
		bool away = record->seq >= seq[0] && record->seq < seq[1];

		ck_assert_int_eq(record->path, away ? BELAY_PATH_RING : BELAY_PATH_HOST);
	}
}

static const struct breaker_plan plans[] = {
	{.path = BELAY_PATH_HOST, .run = call_on_host},
	{.path = BELAY_PATH_SYMM, .run = replay_on_device},
};

static void check_log(const struct log_contents *log, unsigned rank, enum belay_path path,
		      uint64_t agreed[2])
{
	uint64_t seq[2] = {0};

	/* In graphs each rank's watcher follows the breaker by itself. */
	check_switches(log, path, path == BELAY_PATH_HOST || rank == 0, seq);
	if (rank == 0)
		check_breaker(log);
	for (size_t i = 0; rank && i < log->events_count; i++)
		ck_assert_int_ne(log->events[i].kind, EVENT_BREAKER);
	/* In graphs each rank becomes hasty by itself: both ways give the same bits. */
	if (path != BELAY_PATH_HOST)
		return;
	check_paths(log, seq);
	if (rank == 0)
		memcpy(agreed, seq, sizeof(seq));
	ck_assert_mem_eq(agreed, seq, sizeof(seq));
}

FAULT_TEST(each_decision_about_the_path_is_traced_with_its_reason, "26")
{
	struct breaker_plan plan = plans[_i];
	struct rank_group group;
	uint64_t agreed[2];
	char folder[512];

	make_folder(folder, sizeof(folder));
	plan.folder = folder;
	rank_group_run(
		&(struct rank_spec){
			.nranks = RANKS, .scenario = plan.run, .plan = &plan, .cap_ms = 100000},
		&group);
	assert_all_well(&group);
	for (unsigned r = 0; r < RANKS; r++) {
		struct log_contents log = {0};

		ck_assert_int_ge(log_contents_read_rank(&log, folder, group.report[0].text, r), 1);
		check_log(&log, r, plan.path, agreed);
		log_contents_free(&log);
	}
	remove_folder(folder);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("recorded breaker");
	TCase *c = tcase_create("recorded breaker");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, each_decision_about_the_path_is_traced_with_its_reason, 0,
			    (int)(sizeof(plans) / sizeof(plans[0])));
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
