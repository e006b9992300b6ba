/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meeting of the ranks, with real processes: it comes together, or it fails on all ranks, in
 * time, in the same words, and leaves nothing. Strangers: check_strangers.c.
 */
#include "config.h"

#include <check.h>
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "tests/support/fault_results.h"
#include "tests/support/meeting_ranks.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static void plan_all(struct rank_plan *plans, int nranks)
{
	for (int i = 0; i < nranks; i++)
		plans[i] = rank_plan(i, nranks);
}

static int is_long(void)
{
	const char *value = getenv("BELAY_TESTS_LONG");

	return value && strcmp(value, "1") == 0;
}

static void assert_met(const struct rank_report *reports, int n)
{
	for (int i = 0; i < n; i++) {
		ck_assert_int_ge(reports[i].done, 1);
		ck_assert_msg(reports[i].status == 0, "rank %d: %s: %s", i,
			      belay_status_name(reports[i].status), reports[i].causes);
		ck_assert_int_eq(reports[i].links_tried, n - 1);
		ck_assert_uint_ne(reports[i].generation, 0);
		ck_assert_uint_eq(reports[i].generation, reports[0].generation);
		ck_assert_mem_eq(reports[i].comm_id, reports[0].comm_id, 16);
		ck_assert_int_eq(reports[i].not_cloexec, 0);
	}
}

/* This rank's creation failed with status, its causes hold the text, and nothing is left open. */
static void assert_failed(const struct rank_report *report, int rank, int status, const char *text)
{
	ck_assert_msg(report->done, "rank %d did not end", rank);
	ck_assert_msg(report->status == status, "rank %d: %s, not %s: %s", rank,
		      belay_status_name(report->status), belay_status_name(status), report->causes);
	ck_assert_msg(strstr(report->causes, text) != NULL, "rank %d does not say '%s': %s", rank,
		      text, report->causes);
	ck_assert_int_eq(report->leaked, 0);
}

static const int sizes[] = {1, 2, 3, 4, 8};

START_TEST(ranks_meet_and_are_all_connected)
{
	int n = sizes[_i];
	struct rank_plan plans[8];
	struct rank_report *reports = reports_new(n);

	plan_all(plans, n);
	ranks_run(plans, reports, n);
	assert_met(reports, n);
	for (int i = 0; i < n; i++) {
		ck_assert_uint_eq(reports[i].usable, 0xe);
		ck_assert_int_eq(reports[i].leaked, 0);
		ck_assert_int_eq(reports[i].region_fd_given, 1);
	}
}
END_TEST

START_TEST(the_most_ranks_meet_as_processes)
{
	struct rank_plan plans[BELAY_RANKS_MAX];
	struct rank_report *reports = reports_new(BELAY_RANKS_MAX);

	plan_all(plans, BELAY_RANKS_MAX);
	ranks_run(plans, reports, BELAY_RANKS_MAX);
	assert_met(reports, BELAY_RANKS_MAX);
}
END_TEST

static void *run_in_thread(void *context)
{
	void **pair = context;

	rank_run(pair[0], pair[1]);
	return NULL;
}

/* Ranks as threads of one process share its descriptor table: some 130 descriptors each. */
START_TEST(ranks_meet_as_threads_of_one_process)
{
	int n = is_long() ? BELAY_RANKS_MAX : 16;
	struct rank_plan plans[BELAY_RANKS_MAX];
	struct rank_report *reports = reports_new(n);
	pthread_t threads[BELAY_RANKS_MAX];
	void *pairs[BELAY_RANKS_MAX][2];
	struct rlimit limit;
	int before = count_open_descriptors();

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < (rlim_t)n * 200) {
		printf("# SKIP %d descriptors are not allowed here\n", n * 200);
		return;
	}
	plan_all(plans, n);
	for (int i = 0; i < n; i++) {
		pairs[i][0] = &plans[i];
		pairs[i][1] = &reports[i];
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run_in_thread, pairs[i]), 0);
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	assert_met(reports, n);
	ck_assert_int_eq(count_open_descriptors(), before);
}
END_TEST

/* No rank waits for another between the meetings: who is early at the next one just waits. */
START_TEST(the_same_name_serves_one_meeting_after_the_other)
{
	int n = 3, runs = is_long() ? 300 : 30;
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(n);

	plan_all(plans, n);
	for (int i = 0; i < n; i++)
		plans[i].runs = runs;
	ranks_run(plans, reports, n);
	assert_met(reports, n);
	for (int i = 0; i < n; i++)
		ck_assert_int_eq(reports[i].done, runs);
}
END_TEST

FAULT_TEST(two_meetings_at_once_do_not_see_each_other, "34 F49 F56")
{
	struct rank_plan plans[8];
	struct rank_report *reports = reports_new(8);

	plan_all(plans, 4);
	plan_all(plans + 4, 4);
	ck_assert_str_ne(plans[0].meeting, plans[4].meeting);
	ranks_run(plans, reports, 8);
	assert_met(reports, 4);
	assert_met(reports + 4, 4);
	ck_assert_uint_ne(reports[0].generation, reports[4].generation);
}
END_TEST

/* Three groups of four at once, each without another rank. */
static const int absent[] = {3, 1, 0};

FAULT_TEST(a_missing_rank_is_named_on_all_ranks_when_the_time_is_over, "1 F31")
{
	struct rank_plan plans[COUNT(absent)][4];
	struct rank_report *reports = reports_new(4 * COUNT(absent));
	pid_t pids[COUNT(absent)][4];
	char text[64];

	for (int group = 0; group < COUNT(absent); group++) {
		plan_all(plans[group], 4);
		for (int i = 0; i < 4; i++) {
			plans[group][i].timeout_ms = 1500;
			if (i != absent[group])
				pids[group][i] =
					rank_start(&plans[group][i], &reports[4 * group + i]);
		}
	}
	for (int group = 0; group < COUNT(absent); group++) {
		(void)snprintf(text, sizeof(text), "of 4 ranks these did not join: %d",
			       absent[group]);
		for (int i = 0; i < 4; i++) {
			const struct rank_report *report = &reports[4 * group + i];

			if (i == absent[group])
				continue;
			(void)rank_wait(pids[group][i]);
			assert_failed(report, i, BELAY_E_START_TIMEOUT, text);
			ck_assert_uint_ge(report->elapsed_ms, 1400);
			ck_assert_uint_le(report->elapsed_ms, 4000);
		}
	}
}
END_TEST

/* Ranks 0 and 1 killed at each step of a meeting of three: 16 groups at once. */
#define STEPS 8

FAULT_TEST(a_rank_killed_at_any_step_fails_the_creation_everywhere_by_its_name, "1 F31")
{
	int killed = _i;
	struct rank_plan plans[STEPS][3];
	struct rank_report *reports = reports_new(3 * STEPS);
	pid_t pids[STEPS][3];
	char fault[STEPS][64], name[16];

	(void)snprintf(name, sizeof(name), "rank %d ", killed);
	for (int step = 0; step < STEPS; step++) {
		(void)snprintf(fault[step], sizeof(fault[step]),
			       "rank=%d,seq=%d,kind=kill,at=handshake", killed, step);
		plan_all(plans[step], 3);
		for (int i = 0; i < 3; i++) {
			plans[step][i].fault = fault[step];
			/* Only steps 0 and 1 should need the deadline. */
			plans[step][i].timeout_ms = step < 2 ? 1000 : 20000;
			pids[step][i] = rank_start(&plans[step][i], &reports[3 * step + i]);
		}
	}
	for (int step = 0; step < STEPS; step++) {
		uint64_t longest_ms = 0;

		for (int i = 0; i < 3; i++) {
			const struct rank_report *report = &reports[3 * step + i];
			int status = rank_wait(pids[step][i]);

			if (i == killed) {
				ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
					      "rank %d was not killed at step %d", i, step);
				continue;
			}
			assert_failed(report, i, BELAY_E_START_TIMEOUT,
				      step >= 2 ? name
				      : killed	? "did not join: 1"
						: "did not join: 0");
			if (step >= 2)
				ck_assert_uint_lt(report->elapsed_ms, 10000);
			if (report->elapsed_ms > longest_ms)
				longest_ms = report->elapsed_ms;
		}
		fault_results_add(&(struct fault_result){.nranks = 3,
							 .injected = fault[step],
							 .outcome = "BELAY_E_START_TIMEOUT",
							 .ns = longest_ms * 1000000});
	}
}
END_TEST

/* The child keeps the dead rank's sockets open: only its pidfd tells. */
FAULT_TEST(a_death_is_seen_though_a_child_keeps_the_sockets, "1")
{
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);
	char name[16];

	plan_all(plans, 3);
	plans[_i].orphan = 1;
	for (int i = 0; i < 3; i++)
		plans[i].skip_links = 1;
	ranks_run(plans, reports, 3);
	(void)snprintf(name, sizeof(name), "rank %d (pid", _i);
	for (int i = 0; i < 3; i++)
		if (i != _i)
			assert_failed(&reports[i], i, BELAY_E_START_TIMEOUT, name);
}
END_TEST

FAULT_TEST(a_stopped_rank_is_named_when_the_time_is_over, "1 F31")
{
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);
	pid_t pids[3];

	plan_all(plans, 3);
	plans[2].stop = 1;
	for (int i = 0; i < 3; i++) {
		plans[i].skip_links = 1;
		plans[i].timeout_ms = 1000;
		pids[i] = rank_start(&plans[i], &reports[i]);
	}
	(void)rank_wait(pids[0]);
	(void)rank_wait(pids[1]);
	kill(pids[2], SIGKILL);
	(void)rank_wait(pids[2]);
	assert_failed(&reports[0], 0, BELAY_E_START_TIMEOUT, "joined but did not go on: 2");
	assert_failed(&reports[1], 1, BELAY_E_START_TIMEOUT, "joined but did not go on: 2");
}
END_TEST

FAULT_TEST(a_rank_taken_twice_fails_the_creation_on_all_ranks, "F31")
{
	int twice = _i;
	struct rank_plan plans[4];
	struct rank_report *reports = reports_new(4);
	char text[40];

	/* Ranks 0, 1, 2 and once more 0 or 1; rank 3 never comes. */
	plan_all(plans, 4);
	plans[3].rank = twice;
	ranks_run(plans, reports, 4);
	(void)snprintf(text, sizeof(text), "rank %d is taken twice", twice);
	for (int i = 0; i < 4; i++)
		assert_failed(&reports[i], i, BELAY_E_REFUSED, text);
}
END_TEST

enum difference { OTHER_NRANKS, OTHER_SETTINGS, OTHER_REGION };

static const struct {
	enum difference difference;
	const char *text;
} differences[] = {
	{OTHER_NRANKS, "the world has 3 ranks on rank 0 and 4 on rank 1"},
	{OTHER_SETTINGS, "settings differ between rank 0 and rank 1: BELAY_LATE_MS: 10 against 20"},
	{OTHER_REGION,
	 "shared memory is 65536 + 1048576 bytes on rank 0 and 65536 + 2097152 on rank 1"},
};

FAULT_TEST(other_settings_fail_the_creation_on_all_ranks_with_both_values, "35")
{
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);

	plan_all(plans, 3);
	switch (differences[_i].difference) {
	case OTHER_NRANKS:
		plans[1].nranks = 4;
		break;
	case OTHER_SETTINGS:
		plans[1].agree_text = "BELAY_LATE_MS=20\n";
		break;
	case OTHER_REGION:
		plans[1].region_bytes = 2 << 20;
		break;
	}
	ranks_run(plans, reports, 3);
	for (int i = 0; i < 3; i++)
		assert_failed(&reports[i], i, BELAY_E_REFUSED, differences[_i].text);
}
END_TEST

START_TEST(a_rank_that_comes_after_the_failure_is_told_too)
{
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);
	pid_t pids[3];

	plan_all(plans, 3);
	plans[1].agree_text = "BELAY_LATE_MS=20\n";
	pids[0] = rank_start(&plans[0], &reports[0]);
	pids[1] = rank_start(&plans[1], &reports[1]);
	(void)rank_wait(pids[1]); /* the meeting has failed by now */
	pids[2] = rank_start(&plans[2], &reports[2]);
	(void)rank_wait(pids[2]);
	(void)rank_wait(pids[0]);
	for (int i = 0; i < 3; i++)
		assert_failed(&reports[i], i, BELAY_E_REFUSED, "10 against 20");
}
END_TEST

FAULT_TEST(a_rank_outside_the_world_is_refused_at_once, "F31")
{
	struct rank_plan plan = rank_plan(0, 2);
	struct rank_report *report = reports_new(1);
	static const int bad[][2] = {{2, 2}, {-1, 2}, {0, 0}, {0, 65}, {64, 64}};

	for (int i = 0; i < COUNT(bad); i++) {
		plan.rank = bad[i][0];
		plan.nranks = bad[i][1];
		rank_run(&plan, report);
		assert_failed(report, plan.rank, BELAY_E_ARGUMENT, "expected 1 to 64 ranks");
	}
}
END_TEST

START_TEST(the_answer_of_an_agreement_is_the_same_on_all_ranks)
{
	struct rank_plan plans[4];
	struct rank_report *reports = reports_new(4);

	plan_all(plans, 4);
	plans[0].usable = 0xa;
	plans[2].usable = 0xc;
	ranks_run(plans, reports, 4);
	assert_met(reports, 4);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(reports[i].usable, 0x8);
		ck_assert_str_eq(reports[i].reasons, "rank 0: mask 10\nrank 2: mask 12\n");
	}
}
END_TEST

START_TEST(a_failure_at_the_end_reaches_all_ranks_with_its_cause)
{
	int failing = _i;
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);
	char text[40];

	plan_all(plans, 3);
	plans[failing].end_status = -BELAY_E_NO_PATH;
	ranks_run(plans, reports, 3);
	(void)snprintf(text, sizeof(text), "rank %d (pid ", failing);
	for (int i = 0; i < 3; i++) {
		assert_failed(&reports[i], i, BELAY_E_NO_PATH, i == failing ? "" : text);
		assert_failed(&reports[i], i, BELAY_E_NO_PATH, "the test wants it so");
	}
}
END_TEST

START_TEST(a_rank_that_failed_before_the_meeting_can_tell_the_others)
{
	int unfit = _i;
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);

	plan_all(plans, 3);
	plans[unfit].unfit = BELAY_E_SETTING;
	ranks_run(plans, reports, 3);
	for (int i = 0; i < 3; i++)
		assert_failed(&reports[i], i, BELAY_E_SETTING, "BELAY_LATE_MS is 'x'");
}
END_TEST

START_TEST(a_region_that_cannot_be_had_is_told_and_is_no_failure)
{
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);

	plan_all(plans, 3);
	plans[0].fsize = 512 << 10; /* the control segment fits, the region does not */
	ranks_run(plans, reports, 3);
	assert_met(reports, 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(reports[i].region_fd_given, 0);
}
END_TEST

START_TEST(a_control_segment_that_cannot_be_had_fails_all_ranks)
{
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);

	plan_all(plans, 3);
	plans[0].fsize = 4096;
	ranks_run(plans, reports, 3);
	for (int i = 0; i < 3; i++)
		assert_failed(&reports[i], i, BELAY_E_LIMIT,
			      "RLIMIT_FSIZE (ulimit -f) allows 4096");
}
END_TEST

FAULT_TEST(too_few_descriptors_are_an_error_with_both_numbers_on_all_ranks, "32")
{
	int poor = _i;
	struct rank_plan plans[3];
	struct rank_report *reports = reports_new(3);

	plan_all(plans, 3);
	/* Enough for the socket to say so with. */
	plans[poor].nofile = descriptor_limit_for(5);
	ranks_run(plans, reports, 3);
	for (int i = 0; i < 3; i++)
		assert_failed(&reports[i], i, BELAY_E_LIMIT, "RLIMIT_NOFILE (ulimit -n) allows");
}
END_TEST

/* Wherever the table ends, there is an end, and it is an error or success. */
FAULT_TEST(any_number_of_descriptors_gives_an_end, "32")
{
	enum { FROM = 1, TO = 16 };
	struct rank_plan plans[TO - FROM][2];
	struct rank_report *reports = reports_new(2 * (TO - FROM));
	pid_t pids[TO - FROM][2];
	int met = 0, failed = 0;

	for (int extra = FROM; extra < TO; extra++) {
		struct rank_plan *pair = plans[extra - FROM];

		plan_all(pair, 2);
		for (int i = 0; i < 2; i++) {
			pair[i].timeout_ms = 800;
			pair[i].nofile = descriptor_limit_for(extra);
			pids[extra - FROM][i] =
				rank_start(&pair[i], &reports[2 * (extra - FROM) + i]);
		}
	}
	for (int k = 0; k < 2 * (TO - FROM); k++) {
		(void)rank_wait(pids[k / 2][k % 2]);
		ck_assert_int_eq(reports[k].done, 1);
		ck_assert_int_eq(reports[k].leaked, 0);
		met += reports[k].status == 0;
		failed += reports[k].status == BELAY_E_LIMIT;
	}
	ck_assert_int_ge(met, 2);
	ck_assert_int_ge(failed, 2);
}
END_TEST

FAULT_TEST(a_signal_each_millisecond_has_no_effect, "36")
{
	struct rank_plan plans[4];
	struct rank_report *reports = reports_new(4);

	plan_all(plans, 4);
	for (int i = 0; i < 4; i++) {
		plans[i].storm = 1;
		plans[i].region_bytes = 64 << 20;
		plans[i].runs = 5;
	}
	ranks_run(plans, reports, 4);
	assert_met(reports, 4);
}
END_TEST

FAULT_TEST(a_umask_that_forbids_everything_has_no_effect, "F84")
{
	struct rank_plan plans[2];
	struct rank_report *reports = reports_new(2);
	mode_t before = umask(0777);

	plan_all(plans, 2);
	ranks_run(plans, reports, 2);
	umask(before);
	assert_met(reports, 2);
}
END_TEST

static int count_shm(void)
{
	DIR *folder = opendir("/dev/shm");
	struct dirent *entry;
	int count = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)) != NULL)
		count += strstr(entry->d_name, "belay") != NULL;
	closedir(folder);
	return count;
}

/* Groups of four, all killed at a random moment: nothing stays, and the name serves again. */
FAULT_TEST(groups_killed_at_random_moments_leave_nothing, "33 F10")
{
	int groups = is_long() ? 200 : 10, before = count_shm();
	struct rank_report *reports = reports_new(4);
	struct rank_plan plans[4];
	pid_t pids[4];
	unsigned int seed = 12345;

	plan_all(plans, 4);
	for (int group = 0; group < groups; group++) {
		for (int i = 0; i < 4; i++)
			pids[i] = rank_start(&plans[i], &reports[i]);
		usleep((useconds_t)rand_r(&seed) % 4000); /* the moment, not an order of events */
		for (int i = 0; i < 4; i++)
			kill(pids[i], SIGKILL);
		for (int i = 0; i < 4; i++)
			(void)rank_wait(pids[i]);
	}
	memset(reports, 0, 4 * sizeof(*reports));
	ranks_run(plans, reports, 4);
	assert_met(reports, 4);
	ck_assert_int_eq(count_shm(), before);
}
END_TEST

static TCase *meetings(void)
{
	TCase *c = tcase_create("meetings");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, ranks_meet_and_are_all_connected, 0, COUNT(sizes));
	tcase_add_test(c, the_most_ranks_meet_as_processes);
	tcase_add_test(c, ranks_meet_as_threads_of_one_process);
	tcase_add_test(c, the_same_name_serves_one_meeting_after_the_other);
	tcase_add_test(c, two_meetings_at_once_do_not_see_each_other);
	tcase_add_test(c, the_answer_of_an_agreement_is_the_same_on_all_ranks);
	tcase_add_test(c, a_signal_each_millisecond_has_no_effect);
	tcase_add_test(c, a_umask_that_forbids_everything_has_no_effect);
	tcase_add_test(c, a_region_that_cannot_be_had_is_told_and_is_no_failure);
	return c;
}

static TCase *failures(void)
{
	TCase *c = tcase_create("failures");

	tcase_set_timeout(c, 120);
	tcase_add_test(c, a_missing_rank_is_named_on_all_ranks_when_the_time_is_over);
	tcase_add_loop_test(c, a_rank_killed_at_any_step_fails_the_creation_everywhere_by_its_name,
			    0, 2);
	tcase_add_loop_test(c, a_death_is_seen_though_a_child_keeps_the_sockets, 0, 2);
	tcase_add_test(c, a_stopped_rank_is_named_when_the_time_is_over);
	tcase_add_loop_test(c, a_rank_taken_twice_fails_the_creation_on_all_ranks, 0, 2);
	tcase_add_loop_test(c, other_settings_fail_the_creation_on_all_ranks_with_both_values, 0,
			    COUNT(differences));
	tcase_add_test(c, a_rank_that_comes_after_the_failure_is_told_too);
	tcase_add_test(c, a_rank_outside_the_world_is_refused_at_once);
	tcase_add_loop_test(c, a_failure_at_the_end_reaches_all_ranks_with_its_cause, 0, 3);
	tcase_add_loop_test(c, a_rank_that_failed_before_the_meeting_can_tell_the_others, 0, 2);
	tcase_add_test(c, a_control_segment_that_cannot_be_had_fails_all_ranks);
	tcase_add_loop_test(c, too_few_descriptors_are_an_error_with_both_numbers_on_all_ranks, 0,
			    2);
	tcase_add_test(c, any_number_of_descriptors_gives_an_end);
	tcase_add_test(c, groups_killed_at_random_moments_leave_nothing);
	return c;
}

static Suite *suite(void)
{
	Suite *s = suite_create("rendezvous");

	suite_add_tcase(s, meetings());
	suite_add_tcase(s, failures());
	return s;
}

#include "tests/unit/check_main.h"
