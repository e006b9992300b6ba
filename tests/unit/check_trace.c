/* SPDX-License-Identifier: Apache-2.0 */
/* The door to tracing: rings, writer thread and salvage, on good disks and bad, with ranks that are
 * killed. */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "tests/support/fail_alloc.h"
#include "tests/support/fake_disk.h"
#include "tests/support/log_contents.h"
#include "trace/trace.h"
#include "trace/trace_ring.h"

#define COMM_ID "00112233445566778899aabbccddeeff"
#define SECOND	1000000000u

static char dir[128];
static uint64_t state;

/* Messages of the writer, counted; kept is the newest. */
static _Atomic int messages;
static char message[512];

static void take_message(void *user, const char *text)
{
	(void)user;
	snprintf(message, sizeof(message), "%s", text);
	atomic_fetch_add_explicit(&messages, 1, memory_order_release);
}

static void setup(void)
{
	make_folder(dir, sizeof(dir));
	state = 1;
}

static void teardown(void)
{
	remove_folder(dir);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static struct trace_config config_of(uint32_t rank, uint32_t nranks)
{
	return (struct trace_config){
		.comm_id = COMM_ID,
		.rank = rank,
		.nranks = nranks,
		.log_dir = dir,
		.file_bytes_max = 1u << 28,
		.files_keep = 16,
		.message = take_message,
	};
}

static struct trace *open_trace(const struct trace_config *config)
{
	struct trace *trace = NULL;

	ck_assert_int_eq(trace_open(config, &trace), 0);
	return trace;
}

static void commit(struct trace *trace, uint32_t nranks, uint64_t seq)
{
	fill_call(trace_call_slot(trace), nranks, seq, RECORD_ORDINARY, &state);
	trace_call_commit(trace);
}

static void close_trace(struct trace *trace)
{
	ck_assert_int_eq(trace_close(trace, now_ns() + 20ull * SECOND), 0);
}

static void *shared_rings(uint32_t nranks)
{
	void *rings = mmap(NULL, nranks * trace_ring_bytes(nranks), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(rings, MAP_FAILED);
	return rings;
}

static void read_rank(struct log_contents *contents, uint32_t rank)
{
	memset(contents, 0, sizeof(*contents));
	(void)log_contents_read_rank(contents, dir, COMM_ID, rank);
}

/* The calls that came back are seq 1, 2, 3, ... but for as many as the writer says it lost. */
static void assert_exact_loss(const struct log_contents *contents, uint64_t made)
{
	uint64_t before = 0;

	for (size_t i = 0; i < contents->calls_count; i++) {
		uint64_t seq = log_contents_call(contents, i)->seq;

		if (seq <= before)
			ck_abort_msg("seq %llu behind %llu", (unsigned long long)seq,
				     (unsigned long long)before);
		before = seq;
	}
	ck_assert_uint_le(before, made);
	ck_assert_uint_eq(contents->calls_count + contents->lost, made);
	ck_assert_uint_eq(contents->damage_count, 0);
}

/* Rings ------------------------------------------------------------------------------------ */

START_TEST(areas_are_whole_pages_of_bounded_size)
{
	uint32_t nranks = (uint32_t)_i;

	ck_assert_uint_eq(trace_ring_bytes(nranks) % 4096, 0);
	ck_assert_uint_le(nranks * trace_ring_bytes(nranks), 32u << 20);
	ck_assert_uint_ge(trace_call_capacity(nranks), 512);
}
END_TEST

START_TEST(without_a_log_the_rings_wrap_and_nothing_is_lost)
{
	struct trace_config config = config_of(0, 2);
	struct trace *trace;
	struct trace_area *area;
	uint64_t head, first;

	config.log_dir = "";
	config.rings = shared_rings(2);
	trace = open_trace(&config);
	for (uint64_t seq = 1; seq <= 20000; seq++)
		commit(trace, 2, seq);
	area = config.rings;
	head = atomic_load_explicit(&area->calls.head, memory_order_acquire);
	first = trace_ring_first(area, &area->calls, area->call_capacity, head);
	ck_assert_uint_eq(head, 20000);
	ck_assert_uint_eq(first, 20000 - area->call_capacity + 1);
	for (uint64_t i = first; i < head; i++)
		ck_assert_uint_eq(trace_area_call(area, i)->seq, i + 1);
	ck_assert_uint_eq(trace_records_lost(trace), 0);
	close_trace(trace);
}
END_TEST

START_TEST(what_is_committed_stands_in_the_log)
{
	const uint32_t nranks = 5;
	struct trace_config config = config_of(1, nranks);
	struct trace *trace = open_trace(&config);
	struct log_contents contents;

	for (uint64_t seq = 1; seq <= 1000; seq++) {
		commit(trace, nranks, seq);
		if (seq % 100 == 0) {
			struct event_record event;

			fill_event(&event, seq, RECORD_ORDINARY, &state);
			trace_event(trace, &event);
		}
	}
	close_trace(trace);
	read_rank(&contents, 1);
	ck_assert_uint_eq(contents.calls_count, 1000);
	ck_assert_uint_eq(contents.events_count, 10);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	assert_exact_loss(&contents, 1000);
	log_contents_free(&contents);
}
END_TEST

START_TEST(a_trace_without_calls_leaves_a_closed_file)
{
	struct trace_config config = config_of(0, 2);
	struct log_contents contents;

	close_trace(open_trace(&config));
	read_rank(&contents, 0);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	ck_assert_uint_eq(contents.calls_count, 0);
	log_contents_free(&contents);
}
END_TEST

static int is_written(const struct trace_area *area)
{
	return atomic_load_explicit(&area->calls.written, memory_order_acquire) ==
	       atomic_load_explicit(&area->calls.head, memory_order_acquire);
}

/* Between two looks at what may take seconds: asking without a pause would cost a processor. */
static void nap(void)
{
	(void)poll(NULL, 0, 1);
}

/* Waits until a ring holds no call unwritten; false after 20 s. */
static int wait_written(const struct trace_area *area)
{
	uint64_t deadline = now_ns() + 20ull * SECOND;

	while (!is_written(area) && now_ns() < deadline)
		nap();
	return is_written(area);
}

static void wait_written_or_told(const struct trace_area *area)
{
	uint64_t deadline = now_ns() + 20ull * SECOND;

	while (!is_written(area) && !atomic_load_explicit(&messages, memory_order_acquire) &&
	       now_ns() < deadline)
		nap();
}

START_TEST(a_failed_call_is_on_disk_at_once)
{
	struct trace_config config = config_of(0, 2);
	struct log_contents contents;
	struct trace *trace;

	config.rings = shared_rings(2);
	trace = open_trace(&config);
	commit(trace, 2, 1);
	fill_call(trace_call_slot(trace), 2, 2, RECORD_ORDINARY, &state);
	trace_call_slot(trace)->status = BELAY_E_PEER_LOST;
	trace_call_commit(trace);
	ck_assert_int_eq(wait_written(config.rings), 1);
	read_rank(&contents, 0);
	ck_assert_uint_eq(contents.calls_count, 2);
	ck_assert_int_eq(log_contents_call(&contents, 1)->status, BELAY_E_PEER_LOST);
	ck_assert_int_eq(contents.closed, CALL_LOG_NOT_CLOSED);
	log_contents_free(&contents);
	close_trace(trace);
}
END_TEST

/* Losses ----------------------------------------------------------------------------------- */

START_TEST(an_overrun_is_counted_exactly_and_told_once)
{
	struct trace_config config = config_of(0, 3);
	struct trace *trace = open_trace(&config);
	struct log_contents contents;
	const uint64_t made = 100000; /* several times the ring */
	uint64_t lost;

	for (uint64_t seq = 1; seq <= made; seq++)
		commit(trace, 3, seq);
	lost = trace_records_lost(trace);
	close_trace(trace);
	read_rank(&contents, 0);
	assert_exact_loss(&contents, made);
	ck_assert_uint_eq(contents.lost, lost);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	ck_assert_int_eq(atomic_load_explicit(&messages, memory_order_acquire), lost > 0);
	log_contents_free(&contents);
}
END_TEST

START_TEST(each_of_many_gaps_is_counted)
{
	struct trace_config config = config_of(0, 64); /* a small ring */
	struct trace *trace;
	struct log_contents contents;
	struct trace_area *area;
	uint64_t seq = 0;

	config.rings = shared_rings(64);
	area = config.rings;
	trace = open_trace(&config);
	for (int burst = 0; burst < 15; burst++) {
		for (uint32_t i = 0; i < area->call_capacity + 100 + (uint32_t)burst; i++)
			commit(trace, 64, ++seq);
		ck_assert_int_eq(wait_written(area), 1);
	}
	ck_assert_uint_gt(trace_records_lost(trace), 0);
	close_trace(trace);
	read_rank(&contents, 0);
	assert_exact_loss(&contents, seq);
	log_contents_free(&contents);
}
END_TEST

START_TEST(more_gaps_than_can_be_noted_are_still_exact)
{
	struct trace_config config = config_of(0, 64);
	struct trace *trace;
	struct trace_area *area;
	uint64_t seq = 0;

	config.rings = shared_rings(64);
	area = config.rings;
	fake_disk_fail_after(0, ENOSPC);
	fake_disk_hang();
	trace = open_trace(&config);
	/* Fill, then free one place at a time in the writer's stead: a gap before each record. */
	while (seq < area->call_capacity)
		commit(trace, 64, ++seq);
	/* It stands in a write: it looks at no record meanwhile. */
	ck_assert_int_eq(fake_disk_wait_hanging(), 1);
	for (uint32_t i = 1; i <= 2 * TRACE_GAPS; i++) {
		commit(trace, 64, ++seq); /* dropped */
		atomic_store_explicit(&area->calls.written, i, memory_order_release);
		commit(trace, 64, ++seq); /* kept while the gap can be noted */
	}
	ck_assert_uint_eq(atomic_load_explicit(&area->gap_head, memory_order_acquire) -
				  atomic_load_explicit(&area->gap_tail, memory_order_acquire),
			  TRACE_GAPS);
	ck_assert_uint_eq(atomic_load_explicit(&area->calls.head, memory_order_acquire) +
				  trace_records_lost(trace),
			  seq);
	ck_assert_uint_gt(trace_records_lost(trace),
			  2 * TRACE_GAPS); /* those without a note as well */
	fake_disk_release();
	close_trace(trace);
}
END_TEST

START_TEST(events_beyond_the_ring_are_dropped_and_the_rest_stays_in_order)
{
	struct trace_config config = config_of(0, 2);
	struct trace *trace;
	struct log_contents contents;

	fake_disk_fail_after(0, ENOSPC);
	trace = open_trace(&config);
	for (uint64_t i = 0; i < 1000; i++) {
		struct event_record event;

		fill_event(&event, i, RECORD_ORDINARY, &state);
		event.kind = EVENT_LATE;
		trace_event(trace, &event);
	}
	fake_disk_fail_after(0, 0);
	close_trace(trace);
	read_rank(&contents, 0);
	ck_assert_uint_eq(contents.events_count, TRACE_EVENT_CAPACITY);
	for (size_t i = 0; i < contents.events_count; i++)
		ck_assert_uint_eq(contents.events[i].time_ns, i * 1000);
	log_contents_free(&contents);
}
END_TEST

/* Bad disks ---------------------------------------------------------------------------------- */

START_TEST(a_full_disk_costs_one_message_and_exactly_what_found_no_place)
{
	struct trace_config config = config_of(0, 4);
	struct trace *trace;
	struct log_contents contents;
	uint64_t seq = 0, lost;

	config.rings = shared_rings(4);
	fake_disk_fail_after(3000 + 997 * _i, ENOSPC); /* full in the middle of a block */
	trace = open_trace(&config);
	while (seq < 30000)
		commit(trace, 4, ++seq);
	ck_assert_int_eq(fake_disk_wait_failed(2), 1);
	fake_disk_fail_after(0, 0);
	ck_assert_int_eq(wait_written(config.rings), 1);
	while (seq < 31000)
		commit(trace, 4, ++seq);
	lost = trace_records_lost(trace);
	close_trace(trace);
	ck_assert_int_eq(atomic_load_explicit(&messages, memory_order_acquire), 1);
	ck_assert_ptr_nonnull(strstr(message, "No space left on device"));
	ck_assert_uint_gt(lost, 0);
	read_rank(&contents, 0);
	assert_exact_loss(&contents, seq);
	ck_assert_uint_eq(contents.lost, lost);
	ck_assert_uint_eq(log_contents_call(&contents, contents.calls_count - 1)->seq, seq);
	log_contents_free(&contents);
}
END_TEST

START_TEST(a_disk_that_stays_full_leaves_a_readable_file)
{
	struct trace_config config = config_of(0, 4);
	struct trace *trace;
	struct log_contents contents;

	config.rings = shared_rings(4);
	trace = open_trace(&config);
	for (uint64_t seq = 1; seq <= 1000; seq++)
		commit(trace, 4, seq);
	ck_assert_int_eq(wait_written(config.rings), 1);
	fake_disk_fail_after(100, EDQUOT);
	for (uint64_t seq = 1001; seq <= 1500; seq++)
		commit(trace, 4, seq);
	close_trace(trace);
	ck_assert_int_eq(atomic_load_explicit(&messages, memory_order_acquire), 1);
	read_rank(&contents, 0);
	ck_assert_uint_eq(contents.calls_count, 1000);
	ck_assert_uint_eq(contents.damage_count, 0);
	ck_assert_int_eq(contents.closed, CALL_LOG_NOT_CLOSED);
	log_contents_free(&contents);
}
END_TEST

START_TEST(a_real_small_disk_fills_and_recovers)
{
	struct trace_config config = config_of(0, 4);
	struct trace *trace;
	struct log_contents contents;
	char ballast[256];
	uint64_t seq = 0;
	FILE *file;

	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", dir, "tmpfs", 0, "size=1600k")) {
		printf("# SKIP only root can mount a small disk\n");
		return;
	}
	config.rings = shared_rings(4);
	snprintf(ballast, sizeof(ballast), "%s/ballast", dir);
	file = fopen(ballast, "w");
	ck_assert_int_eq(ftruncate(fileno(file), 1200000), 0);
	ck_assert_int_eq(posix_fallocate(fileno(file), 0, 1200000), 0);
	fclose(file);

	trace = open_trace(&config);
	while (!atomic_load_explicit(&messages, memory_order_acquire) && seq < 10000000) {
		commit(trace, 4, ++seq);
		if (seq % 4096 == 0) /* not faster than the disk takes it, or until it is full */
			wait_written_or_told(config.rings);
	}
	ck_assert_ptr_nonnull(strstr(message, "No space left on device"));
	ck_assert_int_eq(unlink(ballast), 0);
	ck_assert_int_eq(wait_written(config.rings), 1);
	commit(trace, 4, ++seq);
	close_trace(trace);
	ck_assert_int_eq(atomic_load_explicit(&messages, memory_order_acquire), 1);
	read_rank(&contents, 0);
	assert_exact_loss(&contents, seq);
	log_contents_free(&contents);
	umount2(dir, MNT_DETACH);
}
END_TEST

START_TEST(a_limit_on_file_size_neither_kills_nor_loses)
{
	const struct rlimit limit = {20000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
	struct trace_config config = config_of(0, 2);
	struct trace *trace;
	struct log_contents contents;

	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	config.rings = shared_rings(2);
	trace = open_trace(&config);
	for (uint64_t seq = 1; seq <= 5000; seq++) {
		commit(trace, 2, seq);
		if (seq % 200 == 0) {
			struct event_record event;

			fill_event(&event, EVENT_ERROR - 1, RECORD_ORDINARY, &state);
			trace_event(trace, &event); /* written at once, and the calls with it */
			ck_assert_int_eq(wait_written(config.rings), 1);
		}
	}
	close_trace(trace);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none),
			 0); /* it holds for the test's own report too */
	read_rank(&contents, 0);
	assert_exact_loss(&contents, 5000);
	ck_assert_uint_eq(contents.lost, 0);
	ck_assert_uint_gt(contents.info.file_number, 2);
	log_contents_free(&contents);
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_one_message_and_no_failure)
{
	struct trace_config config = config_of(0, 2);
	char below[256];
	struct trace *trace;

	snprintf(below, sizeof(below), "%s/missing/folder", dir);
	config.log_dir = below;
	trace = open_trace(&config);
	for (uint64_t seq = 1; seq <= 20000; seq++)
		commit(trace, 2, seq);
	ck_assert_uint_gt(trace_records_lost(trace), 0);
	close_trace(trace);
	ck_assert_int_eq(atomic_load_explicit(&messages, memory_order_acquire), 1);
	ck_assert_ptr_nonnull(strstr(message, "No such file or directory"));
}
END_TEST

START_TEST(after_the_folder_was_removed_a_new_one_is_begun)
{
	struct trace_config config = config_of(0, 2);
	struct log_contents contents;
	struct trace *trace;

	config.rings = shared_rings(2);
	trace = open_trace(&config);
	commit(trace, 2, 1);
	trace_event(trace, &(struct event_record){.kind = EVENT_ERROR});
	ck_assert_int_eq(wait_written(config.rings), 1);
	remove_folder(dir);
	commit(trace, 2, 2);
	commit(trace, 2, 3);
	close_trace(trace);
	ck_assert_int_eq(atomic_load_explicit(&messages, memory_order_acquire), 1);
	ck_assert_ptr_nonnull(strstr(message, "removed"));
	read_rank(&contents, 0);
	ck_assert_uint_eq(contents.calls_count, 2);
	ck_assert_uint_eq(contents.damage_count, 0);
	log_contents_free(&contents);
}
END_TEST

START_TEST(a_disk_that_hangs_delays_close_no_longer_than_its_deadline)
{
	struct trace_config config = config_of(0, 2);
	struct trace *trace;
	uint64_t begin;

	config.rings = shared_rings(2);
	fake_disk_hang();
	trace = open_trace(&config);
	commit(trace, 2, 1);
	trace_event(trace, &(struct event_record){.kind = EVENT_ERROR});
	ck_assert_int_eq(fake_disk_wait_hanging(), 1);
	for (uint64_t seq = 2; seq <= 20000; seq++)
		commit(trace, 2, seq);
	ck_assert_uint_gt(trace_records_lost(trace), 0);
	begin = now_ns();
	ck_assert_int_eq(trace_close(trace, begin + SECOND / 10), BELAY_E_TIMEOUT);
	ck_assert_uint_lt(now_ns() - begin, 5ull * SECOND);
	/* The thread that was left behind touches nothing of the caller's any more. */
	ck_assert_int_eq(munmap(config.rings, 2 * trace_ring_bytes(2)), 0);
	atomic_store_explicit(&messages, 0, memory_order_relaxed);
	fake_disk_fail_after(0, EIO);
	fake_disk_release();
	ck_assert_int_eq(fake_disk_wait_failed(1), 1);
	ck_assert_int_eq(atomic_load_explicit(&messages, memory_order_acquire), 0);
}
END_TEST

/* Death -------------------------------------------------------------------------------------- */

/* Makes calls for ever, as rank 1. In a process of its own, so without assertions: they would write
 * to the test's report. */
static void make_calls_until_killed(const struct trace_config *config)
{
	struct trace *trace;

	if (trace_open(config, &trace))
		_exit(1);
	state = (uint64_t)getpid();
	for (uint64_t seq = 1;; seq++) {
		commit(trace, config->nranks, seq);
		if (test_random(&state) % 97 == 0) {
			struct event_record event;

			fill_event(&event, seq, RECORD_ORDINARY, &state);
			trace_event(trace, &event);
		}
		/* Never faster than the writer: here loss may come from death alone. */
		while (atomic_load_explicit(
			       &trace_area_of(config->rings, 1, config->nranks)->calls.head,
			       memory_order_relaxed) -
			       atomic_load_explicit(&trace_area_of(config->rings, 1, config->nranks)
							     ->calls.written,
						    memory_order_relaxed) >
		       2000)
			sched_yield();
	}
}

/* Kills a rank once it has made `calls` calls. */
static void kill_a_writer(const struct trace_config *config, uint64_t calls)
{
	struct trace_area *area = trace_area_of(config->rings, config->rank, config->nranks);
	pid_t pid = fork();
	int status;

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		make_calls_until_killed(config);
		_exit(1);
	}
	while (atomic_load_explicit(&area->calls.head, memory_order_acquire) < calls) {
		ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
		sched_yield();
	}
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(WTERMSIG(status), SIGKILL);
}

static void kill_and_salvage(uint64_t calls)
{
	struct trace_config survivor = config_of(0, 3), victim = config_of(1, 3);
	struct log_contents contents;
	struct trace_area *area;
	struct trace *trace;

	victim.rings = survivor.rings = shared_rings(3);
	victim.file_bytes_max = 1u << 16;
	/* However late the kill comes on a busy machine: no file may be removed. */
	victim.files_keep = survivor.files_keep = 4096;
	kill_a_writer(&victim, calls);
	trace = open_trace(&survivor);
	trace_salvage(trace, 1);
	trace_salvage(trace, 2); /* never joined: nothing to do */
	close_trace(trace);

	read_rank(&contents, 1);
	area = trace_area_of(survivor.rings, 1, 3);
	ck_assert_uint_eq(contents.calls_count,
			  atomic_load_explicit(&area->calls.head, memory_order_relaxed));
	for (size_t i = 0; i < contents.calls_count; i++)
		if (log_contents_call(&contents, i)->seq != i + 1)
			ck_abort_msg("call %zu is not seq %zu", i, i + 1);
	ck_assert_uint_eq(contents.events_count,
			  atomic_load_explicit(&area->events.head, memory_order_relaxed));
	ck_assert_uint_eq(contents.damage_count, 0);
	ck_assert_int_eq(contents.info.salvaged_by, 0);
	ck_assert_int_eq(contents.closed, CALL_LOG_CLOSED);
	log_contents_free(&contents);
	munmap(survivor.rings, 3 * trace_ring_bytes(3));
}

START_TEST(a_killed_rank_loses_no_record_and_none_stands_twice)
{
	int rounds = getenv("BELAY_TESTS_LONG") ? 200 : 12;
	uint64_t random = 99;

	for (int round = 0; round < rounds; round++) {
		kill_and_salvage(test_random(&random) % 20000);
		remove_folder(dir);
	}
}
END_TEST

START_TEST(a_write_that_death_interrupts_is_undone_or_counted)
{
	struct trace_config survivor = config_of(0, 2), victim = config_of(1, 2);
	struct log_contents contents;
	struct trace_area *area;
	char name[256];
	struct stat before;
	uint64_t word = 0;

	/* A file of 300 records of which the ring says, as if death had come between, that 100 are
	 * written... */
	victim.rings = survivor.rings = shared_rings(2);
	area = trace_area_of(victim.rings, 1, 2);
	struct trace *trace = open_trace(&victim);
	for (uint64_t seq = 1; seq <= 300; seq++) {
		commit(trace, 2, seq);
		if (seq == 100) {
			trace_event(trace, &(struct event_record){.kind = EVENT_ERROR});
			ck_assert_int_eq(wait_written(area), 1);
			while (!(word = atomic_load_explicit(&area->file, memory_order_acquire)))
				sched_yield();
		}
	}
	close_trace(trace);
	snprintf(name, sizeof(name), "%s/%s/rank-0001.0.belay", dir, COMM_ID);
	ck_assert_int_eq(stat(name, &before), 0);
	/* ... or, besides, whose last block, of 200, is torn. The end block goes in both cases. */
	ck_assert_int_eq(truncate(name, before.st_size - 72 - 10 * _i), 0);
	atomic_store_explicit(&area->calls.written, 100, memory_order_release);
	atomic_store_explicit(&area->file, word, memory_order_release);
	trace = open_trace(&survivor);
	trace_salvage(trace, 1);
	close_trace(trace);
	read_rank(&contents, 1);
	ck_assert_uint_eq(contents.calls_count, 300);
	for (size_t i = 0; i < 300; i++)
		ck_assert_uint_eq(log_contents_call(&contents, i)->seq, i + 1);
	ck_assert_uint_eq(contents.damage_count, 0);
	log_contents_free(&contents);
}
END_TEST

START_TEST(the_newest_records_of_a_rank_without_a_log_can_be_saved_too)
{
	struct trace_config survivor = config_of(0, 2), silent = config_of(1, 2);
	struct log_contents contents;
	struct trace *trace, *dead;

	silent.rings = survivor.rings = shared_rings(2);
	silent.log_dir = NULL;
	dead = open_trace(&silent);
	for (uint64_t seq = 1; seq <= 20000; seq++)
		commit(dead, 2, seq);
	trace = open_trace(&survivor);
	trace_salvage(trace, 1);
	close_trace(trace);
	read_rank(&contents, 1);
	ck_assert_uint_eq(contents.calls_count, trace_call_capacity(2) - 1);
	ck_assert_uint_eq(log_contents_call(&contents, contents.calls_count - 1)->seq, 20000);
	ck_assert_uint_eq(contents.damage_count, 0);
	log_contents_free(&contents);
	close_trace(dead);
}
END_TEST

START_TEST(rings_of_nonsense_are_not_salvaged)
{
	struct trace_config survivor = config_of(0, 2);
	struct log_contents contents;
	struct trace *trace;

	survivor.rings = shared_rings(2);
	memset((char *)survivor.rings + trace_ring_bytes(2), _i ? 0xff : 0x00, trace_ring_bytes(2));
	trace = open_trace(&survivor);
	trace_salvage(trace, 1);
	trace_salvage(trace, 63);
	close_trace(trace);
	read_rank(&contents, 1);
	ck_assert_uint_eq(contents.calls_count, 0);
	log_contents_free(&contents);
}
END_TEST

START_TEST(a_forked_child_touches_nothing)
{
	struct trace_config config = config_of(0, 2);
	struct trace_area *area;
	struct log_contents contents;
	struct trace *trace;
	int status;
	pid_t pid;

	config.rings = shared_rings(2);
	area = config.rings;
	trace = open_trace(&config);
	commit(trace, 2, 1);
	pid = fork();
	if (!pid) {
		for (uint64_t seq = 2; seq < 50000; seq++)
			commit(trace, 2, seq);
		trace_event(trace, &(struct event_record){.kind = EVENT_VERDICT});
		trace_salvage(trace, 1);
		_exit(trace_records_lost(trace) != 0 || trace_close(trace, now_ns() + SECOND) != 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_uint_eq(atomic_load_explicit(&area->calls.head, memory_order_acquire), 1);
	ck_assert_uint_eq(atomic_load_explicit(&area->events.head, memory_order_acquire), 0);
	commit(trace, 2, 2);
	close_trace(trace);
	read_rank(&contents, 0);
	ck_assert_uint_eq(contents.calls_count, 2);
	log_contents_free(&contents);
}
END_TEST

/* Memory --------------------------------------------------------------------------------------- */

START_TEST(memory_stays_flat_over_a_million_calls)
{
	struct trace_config config = config_of(0, 2);
	size_t early = 0, late;
	struct trace *trace;

	config.rings = shared_rings(2);
	config.file_bytes_max = 1u << 18;
	config.files_keep = 2;
	trace = open_trace(&config);
	for (uint64_t seq = 1; seq <= 1000000; seq++) {
		commit(trace, 2, seq);
		if (seq == 100000) {
			ck_assert_int_eq(wait_written(config.rings), 1);
			early = mallinfo2().uordblks + mallinfo2().hblkhd;
		}
	}
	ck_assert_int_eq(wait_written(config.rings), 1);
	late = mallinfo2().uordblks + mallinfo2().hblkhd;
	ck_assert_uint_le(late, early + 65536);
	close_trace(trace);
}
END_TEST

START_TEST(opening_survives_every_allocation_failure)
{
	struct trace_config config = config_of(0, 2);
	struct trace *trace = NULL;
	int status = -1, n;

	for (n = 0; n < 100 && status; n++) {
		fail_alloc_at(n);
		status = trace_open(&config, &trace);
		fail_alloc_at(-1);
		if (status) {
			ck_assert_int_eq(status, BELAY_E_NO_MEMORY);
			ck_assert_ptr_null(trace);
		}
	}
	ck_assert_int_gt(n, 1);
	ck_assert_int_lt(n, 100);
	close_trace(trace);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("trace");
	TCase *c = tcase_create("trace");

	tcase_set_timeout(c, getenv("BELAY_TESTS_LONG") ? 300 : 60);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, areas_are_whole_pages_of_bounded_size, 1, BELAY_RANKS_MAX + 1);
	tcase_add_test(c, without_a_log_the_rings_wrap_and_nothing_is_lost);
	tcase_add_test(c, what_is_committed_stands_in_the_log);
	tcase_add_test(c, a_trace_without_calls_leaves_a_closed_file);
	tcase_add_test(c, a_failed_call_is_on_disk_at_once);
	tcase_add_test(c, an_overrun_is_counted_exactly_and_told_once);
	tcase_add_test(c, each_of_many_gaps_is_counted);
	tcase_add_test(c, more_gaps_than_can_be_noted_are_still_exact);
	tcase_add_test(c, events_beyond_the_ring_are_dropped_and_the_rest_stays_in_order);
	tcase_add_loop_test(c, a_full_disk_costs_one_message_and_exactly_what_found_no_place, 0, 3);
	tcase_add_test(c, a_disk_that_stays_full_leaves_a_readable_file);
	tcase_add_test(c, a_real_small_disk_fills_and_recovers);
	tcase_add_test(c, a_limit_on_file_size_neither_kills_nor_loses);
	tcase_add_test(c, a_folder_that_cannot_be_made_is_one_message_and_no_failure);
	tcase_add_test(c, after_the_folder_was_removed_a_new_one_is_begun);
	tcase_add_test(c, a_disk_that_hangs_delays_close_no_longer_than_its_deadline);
	tcase_add_test(c, a_killed_rank_loses_no_record_and_none_stands_twice);
	tcase_add_loop_test(c, a_write_that_death_interrupts_is_undone_or_counted, 0, 2);
	tcase_add_test(c, the_newest_records_of_a_rank_without_a_log_can_be_saved_too);
	tcase_add_loop_test(c, rings_of_nonsense_are_not_salvaged, 0, 2);
	tcase_add_test(c, a_forked_child_touches_nothing);
	tcase_add_test(c, memory_stays_flat_over_a_million_calls);
	tcase_add_test(c, opening_survives_every_allocation_failure);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
