/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the call logs of all ranks tell about a fault afterwards: the digests of a spoiled call, the
 * rescue, the delayed rank, and the last calls of a rank that was killed. docs/faults.md: rows 11,
 * 21, 23, 39.
 */
#include "config.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/log_contents.h"
#include "tests/support/rank_calls.h"

#define RANKS 4
#define CALLS 20

enum ending { ENDING_CLEAN, ENDING_SIGKILL, ENDING_SIGTERM, ENDING_ABORT, ENDING_EXIT };

struct log_plan {
	const char *fault;
	const char *folder;
	size_t count;
	enum ending ending; /* of rank 2, after its last call */
};

static void end_as(enum ending ending)
{
	if (ending == ENDING_SIGKILL)
		(void)raise(SIGKILL);
	if (ending == ENDING_SIGTERM)
		(void)raise(SIGTERM);
	if (ending == ENDING_ABORT)
		(void)raise(SIGABRT);
	if (ending == ENDING_EXIT)
		_exit(0);
}

/* Outputs are not compared here: one of them may be wrong, which is what the log must show. */
static void log_some_calls(struct rank_seat *seat)
{
	const struct log_plan *plan = seat->plan;
	float *buffer = calloc(plan->count, sizeof(float));

	seat->config.fault = plan->fault;
	seat->config.log_dir = plan->folder;
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	(void)strcpy(seat->report->text, belay_comm_id(seat->comm));
	RANK_EXPECT_STATUS(seat, belay_pass_begin(seat->comm, NULL), 0);
	for (int call = 0; call < CALLS; call++) {
		for (size_t i = 0; i < plan->count; i++)
			buffer[i] = (float)(call + seat->rank + 1) * 0.125f;
		RANK_EXPECT_STATUS(seat,
				   belay_allreduce(buffer, buffer, plan->count, BELAY_F32,
						   BELAY_SUM, seat->comm, NULL),
				   0);
	}
	RANK_EXPECT_STATUS(seat, belay_pass_end(seat->comm, NULL), 0);
	if (seat->rank == 2)
		end_as(plan->ending);
	else if (plan->ending != ENDING_CLEAN)
		rank_await_death(seat, 2);
	rank_destroy(seat);
	free(buffer);
}

/* Runs and reads the logs of all ranks; free them with free_logs(). */
static void log_and_read(struct log_plan *plan, int nranks, struct log_contents *logs)
{
	char folder[512];
	struct rank_group group;

	make_folder(folder, sizeof(folder));
	plan->folder = folder;
	rank_group_run(
		&(struct rank_spec){.nranks = nranks, .scenario = log_some_calls, .plan = plan},
		&group);
	for (int r = 0; r < nranks; r++) {
		memset(&logs[r], 0, sizeof(logs[r]));
		ck_assert_int_ge(
			log_contents_read_rank(&logs[r], folder, group.report[0].text, (uint32_t)r),
			1);
		ck_assert_uint_eq(logs[r].damage_count, 0);
		ck_assert_uint_eq(logs[r].lost, 0);
		ck_assert_uint_eq(logs[r].calls_count, CALLS);
	}
	remove_folder(folder);
}

static void free_logs(struct log_contents *logs, int nranks)
{
	for (int r = 0; r < nranks; r++)
		log_contents_free(&logs[r]);
}

static const struct call_record *record_of(const struct log_contents *log, uint64_t seq)
{
	for (size_t i = 0; i < log->calls_count; i++)
		if (log_contents_call(log, i)->seq == seq)
			return log_contents_call(log, i);
	ck_abort_msg("no record of seq %llu", (unsigned long long)seq);
	return NULL;
}

static int count_events(const struct log_contents *log, enum event_kind kind, uint64_t seq)
{
	int count = 0;

	for (size_t i = 0; i < log->events_count; i++)
		count += log->events[i].kind == kind && log->events[i].seq == seq;
	return count;
}

static bool digests_are_equal(const struct log_contents *logs, uint64_t seq)
{
	for (int r = 1; r < RANKS; r++)
		if (record_of(&logs[r], seq)->digest != record_of(&logs[0], seq)->digest)
			return false;
	return true;
}

/* Row 23, F62. One-shot and two-shot. */
FAULT_TEST(a_payload_corrupted_on_the_way_shows_in_the_digests_of_that_call_only, "23 F62")
{
	struct log_contents logs[RANKS];
	struct log_plan plan = {.fault = "rank=2,seq=7,kind=corrupt", .count = _i ? 12000 : 64};

	log_and_read(&plan, RANKS, logs);
	for (uint64_t seq = 1; seq <= CALLS; seq++)
		ck_assert_msg(digests_are_equal(logs, seq) == (seq != 7), "seq %d", (int)seq);
	free_logs(logs, RANKS);
}
END_TEST

/* Row 21. */
FAULT_TEST(a_rescue_is_one_pair_of_events_in_each_log, "21 F06 F20")
{
	struct log_contents logs[RANKS];
	struct log_plan plan = {.fault = "rank=2,seq=7,kind=drop", .count = 64};

	log_and_read(&plan, RANKS, logs);
	for (int r = 0; r < RANKS; r++) {
		ck_assert_int_ge(count_events(&logs[r], EVENT_RESCUE_BEGIN, 7), 1);
		ck_assert_int_eq(count_events(&logs[r], EVENT_RESCUE_BEGIN, 7),
				 count_events(&logs[r], EVENT_RESCUE_END, 7));
		ck_assert(r == 2 || record_of(&logs[r], 7)->flags & CALL_RESCUED);
	}
	ck_assert(digests_are_equal(logs, 7));
	free_logs(logs, RANKS);
}
END_TEST

/*
 * Row 11: by the arrivals that the other rank saw. (Who comes last sees all others only then.) Two
 * ranks, so that each has a core where there are two.
 */
FAULT_TEST(a_delayed_rank_is_the_last_to_come_in_the_records, "11")
{
	struct log_contents logs[2];
	struct log_plan plan = {.fault = "rank=1,seq=*,kind=delay:4", .count = 64};
	int last = 0;

	log_and_read(&plan, 2, logs);
	for (uint64_t seq = 1; seq <= CALLS; seq++) {
		const uint64_t *arrival = record_of(&logs[0], seq)->arrival_ns;

		last += arrival[1] > arrival[0];
	}
	ck_assert_msg(last * 4 >= CALLS * 3, "%d of %d calls", last, CALLS);
	free_logs(logs, 2);
}
END_TEST

/* Row 39, F28, F60: whatever it dies of, the records that stood in its ring are in its log, by a
 * survivor's hand. */
FAULT_TEST(the_last_calls_of_a_rank_that_died_are_in_its_log, "39 F28 F60")
{
	static const enum ending endings[] = {ENDING_SIGKILL, ENDING_SIGTERM, ENDING_ABORT,
					      ENDING_EXIT};
	struct log_contents logs[RANKS];
	struct log_plan plan = {.count = 64, .ending = endings[_i]};

	log_and_read(&plan, RANKS, logs);
	ck_assert_uint_eq(record_of(&logs[2], CALLS)->digest, record_of(&logs[0], CALLS)->digest);
	free_logs(logs, RANKS);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("recorded faults");
	TCase *c = tcase_create("logs");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(
		c, a_payload_corrupted_on_the_way_shows_in_the_digests_of_that_call_only, 0, 2);
	tcase_add_test(c, a_rescue_is_one_pair_of_events_in_each_log);
	tcase_add_test(c, a_delayed_rank_is_the_last_to_come_in_the_records);
	tcase_add_loop_test(c, the_last_calls_of_a_rank_that_died_are_in_its_log, 0, 4);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
