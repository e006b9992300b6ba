/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A system that is short of something or does something unexpected: no /dev/shm, a file size limit,
 * no descriptors, signals all the time, a fork, peers that never come. docs/faults.md: rows 31
 * to 37.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fault_variants.h"

#define NS_PER_MS UINT64_C(1000000)

static const struct fault_variant four = {.nranks = 4};

static void run(const struct fault_variant *variant, rank_scenario scenario, const void *plan,
		struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = variant->nranks,
					   .scenario = scenario,
					   .plan = plan,
					   .one_core = variant->one_core,
					   .cap_ms = 60000},
		       ret_group);
}

/* ---- memory and limits ----------------------------------------------------------------------- */

/* A private /dev/shm of 64 KiB; a rank that may not make one says so. */
static void live_without_dev_shm(struct rank_seat *seat)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("tiny", "/dev/shm", "tmpfs", 0, "size=64k")) {
		seat->report->number[7] = 1;
		return;
	}
	rank_life(seat);
}

/* Row 31; F09. */
FAULT_TEST(the_size_of_dev_shm_does_not_matter, "31 F09 F48")
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=1,seq=7,kind=drop", .regions = true};

	run(&four, live_without_dev_shm, &plan, &group);
	if (group.report[0].number[7]) {
		(void)printf("# SKIP the_size_of_dev_shm_does_not_matter: no right to mount\n");
		return;
	}
	assert_all_well(&group);
}
END_TEST

/* RLIMIT_FSIZE below the memory's size on one rank; a default action of SIGXFSZ would kill it. */
static void live_under_a_file_size_limit(struct rank_seat *seat)
{
	if (seat->rank == 0)
		(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){8192, 8192});
	(void)rank_create(seat, 0);
	(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	if (!seat->comm)
		return;
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	rank_destroy(seat);
}

/* Row 31. */
FAULT_TEST(a_file_size_limit_is_an_error_at_creation_that_names_it, "31 F09")
{
	struct rank_group group;

	run(&four, live_under_a_file_size_limit, NULL, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 15);
	for (int r = 0; r < 4; r++) {
		ck_assert_msg(group.report[r].created == BELAY_E_LIMIT, "rank %d: %d %s", r,
			      group.report[r].created, group.report[r].text);
		ck_assert_ptr_nonnull(strstr(group.report[r].text, "RLIMIT_FSIZE"));
	}
}
END_TEST

static void limit_descriptors(rlim_t count)
{
	(void)setrlimit(RLIMIT_NOFILE, &(struct rlimit){count, count});
}

static void create_without_descriptors(struct rank_seat *seat)
{
	int before = rank_open_descriptors();

	if (seat->rank == 1)
		limit_descriptors((rlim_t)before + 4);
	seat->config.start_ms = "700";
	(void)rank_create(seat, 0);
	(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	RANK_EXPECT(seat, !seat->comm);
	RANK_EXPECT(seat, rank_open_descriptors() == before);
}

/* Row 32. */
FAULT_TEST(no_descriptors_at_creation_is_a_clear_error, "32")
{
	struct rank_group group;

	run(&four, create_without_descriptors, NULL, &group);
	ck_assert_msg(group.report[1].created == BELAY_E_LIMIT, "%d %s", group.report[1].created,
		      group.report[1].text);
	for (int r = 0; r < 4; r++)
		ck_assert_int_ne(group.report[r].created, 0);
}
END_TEST

struct spent {
	struct rlimit limit;
	int fds[32];
	int count;
};

/* Leaves no descriptor to be had. */
static void spend_descriptors(struct rank_seat *seat, struct spent *spent)
{
	struct rlimit low;

	*spent = (struct spent){0};
	(void)getrlimit(RLIMIT_NOFILE, &spent->limit);
	low = spent->limit;
	low.rlim_cur = (rlim_t)rank_open_descriptors() + 8;
	(void)setrlimit(RLIMIT_NOFILE, &low);
	while (spent->count < 32 &&
	       (spent->fds[spent->count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		spent->count++;
	RANK_EXPECT(seat, spent->count < 32 && errno == EMFILE);
}

static void get_descriptors_back(const struct spent *spent)
{
	for (int i = 0; i < spent->count; i++)
		(void)close(spent->fds[i]);
	(void)setrlimit(RLIMIT_NOFILE, &spent->limit);
}

/* All that calls, a rescue and a verdict need was opened at creation. */
static void work_without_descriptors(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;
	struct spent spent;

	rank_apply(seat, plan);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	spend_descriptors(seat, &spent);
	(void)rank_work(seat, plan);
	get_descriptors_back(&spent);
	rank_end_of_life(seat, plan);
}

/* Row 32. */
FAULT_TEST(calls_rescues_and_verdicts_need_no_descriptor, "32")
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=2,seq=7,kind=drop;rank=1,seq=23,kind=kill"};

	run(&four, work_without_descriptors, &plan, &group);
	assert_one_verdict(&group, 13, BELAY_CAUSE_PEER_LOST, 1, 23);
	ck_assert_uint_ge(group.report[0].statistics.rescued_seqs, 1);
	assert_lived_on(&group, 13);
}
END_TEST

/* ---- signals and forks ----------------------------------------------------------------------- */

static void on_alarm(int number)
{
	(void)number;
}

/* Without SA_RESTART, so that every blocking call of the thread comes back early. */
static void live_in_a_storm(struct rank_seat *seat)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval each_ms = {{0, 1000}, {0, 1000}};

	(void)sigaction(SIGALRM, &action, NULL);
	(void)setitimer(ITIMER_REAL, &each_ms, NULL);
	rank_life(seat);
	(void)setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
}

/* Row 36. */
FAULT_TEST(a_storm_of_signals_has_no_effect, "36")
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=2,seq=7,kind=drop;rank=1,seq=9,kind=delay:20",
				 .regions = true};

	run(&four, live_in_a_storm, &plan, &group);
	assert_all_well(&group);
}
END_TEST

FAULT_TEST(a_storm_of_signals_does_not_change_a_verdict, "36")
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=1,seq=13,kind=kill", .paths = _i ? "ring" : NULL};

	run(&four, live_in_a_storm, &plan, &group);
	assert_one_verdict(&group, 13, BELAY_CAUSE_PEER_LOST, 1, 13);
	assert_lived_on(&group, 13);
}
END_TEST

/* What a child can do with its parent's communicator; the exit status tells the first wrong
 * answer. */
static int try_everything(struct rank_seat *seat)
{
	struct belay_health health = {.size = sizeof(health)};
	struct belay_rank_health rank_health = {.size = sizeof(rank_health)};
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	struct belay_comm *comm = seat->comm;
	struct belay_unique_id id;
	uint64_t mask;
	void *buffer;
	size_t size;
	float in = 1, out = 2;
	const int got[] = {
		belay_allreduce(&in, &out, 1, BELAY_F32, BELAY_SUM, comm, NULL),
		belay_pass_begin(comm, NULL),
		belay_pass_end(comm, NULL),
		belay_pass_wait(comm, NULL),
		belay_buffer_alloc(comm, 10, &buffer),
		belay_buffer_free(comm, &in),
		belay_comm_abort(comm),
		belay_comm_survivors(comm, 0, &mask, &id),
		belay_comm_verdict(comm, &verdict),
		belay_comm_health(comm, &health),
		belay_comm_rank_health(comm, 0, &rank_health),
		belay_comm_statistics(comm, &statistics),
		belay_comm_causes(comm, NULL, 0, &size),
		belay_comm_destroy(comm),
	};

	for (size_t i = 0; i < sizeof(got) / sizeof(got[0]); i++)
		if (got[i] != BELAY_E_FORKED)
			return (int)i + 1;
	return out == 2 ? 0 : 99;
}

static void fork_and_go_on(struct rank_seat *seat)
{
	int status = -1;
	pid_t child;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	child = fork();
	if (child == 0)
		_exit(try_everything(seat));
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	RANK_EXPECT(seat, waitpid(child, &status, 0) == child);
	RANK_EXPECT_STATUS(seat, status, 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	rank_destroy(seat);
}

/* Row 37. */
FAULT_TEST(a_forked_child_gets_forked_from_everything_and_the_parent_goes_on, "37 L2")
{
	struct rank_group group;

	run(&four, fork_and_go_on, NULL, &group);
	assert_all_well(&group);
}
END_TEST

/* The child holds all descriptors of its dead parent: only the pidfd tells. */
static void die_with_a_child(struct rank_seat *seat)
{
	struct work_plan nothing = {0};

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	if (seat->rank == 1) {
		if (fork() == 0) {
			(void)rank_await(seat, 0, 3);
			_exit(0);
		}
		(void)raise(SIGKILL);
	}
	(void)rank_pass(seat, 5, 100);
	rank_end_of_life(seat, &nothing);
	rank_announce(seat, 0);
}

/* Row 37, L2. */
FAULT_TEST(a_child_that_outlives_its_rank_does_not_hide_the_death, "37 L2")
{
	struct rank_group group;

	run(&four, die_with_a_child, NULL, &group);
	assert_one_verdict(&group, 13, BELAY_CAUSE_PEER_LOST, 1, 6);
	assert_lived_on(&group, 13);
}
END_TEST

/* ---- starting -------------------------------------------------------------------------------- */

/* No rank waits for another between its creation and its first call. */
static void call_as_soon_as_created(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;

	rank_apply(seat, plan);
	for (int life = 0; life < 2; life++) {
		seat->made = 0;
		RANK_EXPECT_STATUS(seat, rank_create(seat, life), 0);
		RANK_EXPECT(seat, rank_pass(seat, 5, 3000));
		rank_destroy(seat);
	}
}

/* F40: memory is nobody's before it is zero, and nobody calls before all have it: no first signal
 * is lost to a rank that is slow. */
FAULT_TEST(first_calls_are_right_though_a_rank_is_slow_at_a_step_of_its_creation, "F40")
{
	struct rank_group group;
	struct work_plan plan = {
		.fault =
			fault_text("rank=%d,seq=%d,kind=delay:60,at=handshake", _i & 1, 7 - _i / 2),
	};

	run(&four, call_as_soon_as_created, &plan, &group);
	assert_all_well(&group);
}
END_TEST

static void wait_for_a_missing_rank(struct rank_seat *seat)
{
	uint64_t began = rank_now_ns();

	seat->nranks++; /* one more than there are */
	seat->config.start_ms = "400";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), BELAY_E_START_TIMEOUT);
	/* Not before the time, and not long after it (a busy machine is given a lot). */
	seat->report->number[0] = (rank_now_ns() - began) / NS_PER_MS;
	(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
}

/* F31, F17, F107. */
FAULT_TEST(a_missing_rank_ends_the_creation_in_time_and_is_named, "1 F31")
{
	struct rank_group group;

	run(&four, wait_for_a_missing_rank, NULL, &group);
	for (int r = 0; r < 4; r++) {
		ck_assert_uint_lt(group.report[r].number[0], 4400);
		ck_assert_msg(strstr(group.report[r].text, "4") != NULL, "%s",
			      group.report[r].text);
	}
	ck_assert_uint_ge(group.report[0].number[0], 390);
}
END_TEST

/* Ranks 0, 1 and ranks 2, 3: two communicators, made at the same time. */
static void be_two_groups(struct rank_seat *seat)
{
	int group = seat->rank / 2;

	seat->rank %= 2;
	seat->nranks = 2;
	seat->made = (uint64_t)group * 1000; /* other data, so that a mix would be seen */
	RANK_EXPECT_STATUS(seat, rank_create(seat, group), 0);
	for (int i = 0; i < 50; i++)
		RANK_EXPECT(seat, rank_call(seat, 300));
	rank_destroy(seat);
}

/* F56, F49; row 34. */
FAULT_TEST(two_groups_at_once_do_not_see_each_other, "34 F49 F56")
{
	struct rank_group group;

	run(&four, be_two_groups, NULL, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 15);
	ck_assert_uint_eq(group.report[0].bits, group.report[1].bits);
	ck_assert_uint_eq(group.report[2].bits, group.report[3].bits);
	ck_assert_uint_ne(group.report[0].bits, group.report[2].bits);
}
END_TEST

/* The same id again after all were killed. */
static void create_under_an_old_id(struct rank_seat *seat)
{
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	rank_destroy(seat);
	rank_announce(seat, 0);
	(void)rank_await(seat, 0, (uint64_t)seat->nranks);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	rank_destroy(seat);
}

/* F11, F82: nothing of the first life is there to be found by the second. */
FAULT_TEST(a_second_life_under_the_same_id_finds_nothing_of_the_first, "33 F11 F82")
{
	struct rank_group group;

	run(&four, create_under_an_old_id, NULL, &group);
	assert_all_well(&group);
}
END_TEST

static void differ_in_a_setting(struct rank_seat *seat)
{
	seat->config.late_ms = seat->rank == 1 ? "7" : "8";
	seat->config.start_ms = "5000";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), BELAY_E_REFUSED);
	(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
}

/* Row 35; F78, F107: both values are named. */
FAULT_TEST(ranks_that_differ_in_a_setting_are_refused_with_both_values, "35 F78")
{
	struct rank_group group;

	run(&(struct fault_variant){.nranks = 2}, differ_in_a_setting, NULL, &group);
	for (int r = 0; r < 2; r++) {
		ck_assert_ptr_nonnull(strstr(group.report[r].text, "BELAY_LATE_MS"));
		ck_assert_ptr_nonnull(strstr(group.report[r].text, "7"));
		ck_assert_ptr_nonnull(strstr(group.report[r].text, "8"));
	}
}
END_TEST

/* The table that paths and algorithms follow from is compared by what it says. */
static void differ_in_the_table(struct rank_seat *seat)
{
	char path[] = "/tmp/check_tables.XXXXXX";
	int fd = mkstemp(path);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	RANK_EXPECT(seat, file != NULL);
	if (!file)
		return;
	(void)fprintf(file, "ranks=2 twoshot_from=%s\n", seat->rank == 1 ? "64K" : "128K");
	(void)fclose(file);
	seat->config.tune = path;
	seat->config.start_ms = "5000";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), BELAY_E_REFUSED);
	(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	(void)unlink(path);
}

/* S1: else they would take different paths for the same call. */
FAULT_TEST(ranks_that_differ_in_their_tuning_file_are_refused, "35 F78")
{
	struct rank_group group;

	run(&(struct fault_variant){.nranks = 2}, differ_in_the_table, NULL, &group);
	for (int r = 0; r < 2; r++)
		ck_assert_msg(strstr(group.report[r].text, "tuning"), "%s", group.report[r].text);
}
END_TEST

extern char **environ;

static uint64_t hash_environment(void)
{
	uint64_t hash = 1469598103934665603u;

	for (char **entry = environ; *entry; entry++)
		for (const char *c = *entry; *c; c++)
			hash = (hash ^ (uint64_t)*c) * 1099511628211u;
	return hash;
}

static void read_the_environment(struct rank_seat *seat)
{
	uint64_t before;

	(void)setenv("BELAY_GIVE_UP_MS", "5sec", 1);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), BELAY_E_SETTING);
	RANK_EXPECT(seat, strstr(belay_last_error(), "BELAY_GIVE_UP_MS") != NULL);
	RANK_EXPECT(seat, strstr(belay_last_error(), "5sec") != NULL);
	/* The environment before the config. */
	(void)setenv("BELAY_GIVE_UP_MS", "400", 1);
	(void)setenv("BELAY_WARMUP_GIVE_UP_MS", "400", 1);
	before = hash_environment();
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	RANK_EXPECT(seat, rank_pass(seat, 5, 100));
	if (seat->rank == 1)
		rank_await_verdict(seat);
	else
		RANK_EXPECT(seat, !rank_call(seat, 100));
	seat->report->number[0] = seat->report->failed_ns / NS_PER_MS;
	rank_destroy(seat);
	RANK_EXPECT(seat, hash_environment() == before);
}

/* F17, F78: the deadline in force is the one that was set; the environment is only read. */
FAULT_TEST(a_deadline_from_the_environment_is_the_one_in_force, "F17 F78")
{
	struct rank_group group;

	run(&(struct fault_variant){.nranks = 2}, read_the_environment, NULL, &group);
	ck_assert_int_eq(group.report[0].failed, BELAY_E_PEER_STUCK);
	ck_assert_uint_ge(group.report[0].number[0], 395);
	ck_assert_uint_lt(group.report[0].number[0], 4400);
}
END_TEST

/* ---- growth ---------------------------------------------------------------------------------- */

static void call_very_often(struct rank_seat *seat)
{
	int calls = rank_tests_long() ? 300000 : 6000;
	long before = 0;
	float in[16] = {1}, out[16];
	int status = 0;

	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	for (int i = 0; i < calls && !status; i++) {
		if (i == calls / 10)
			before = rank_private_kib();
		status = belay_allreduce(in, out, 16, BELAY_F32, BELAY_SUM, seat->comm, NULL);
	}
	RANK_EXPECT_STATUS(seat, status, 0);
	seat->report->number[0] = (uint64_t)(rank_private_kib() - before);
	RANK_EXPECT(seat, rank_private_kib() - before < 512);
	rank_destroy(seat);
}

/* F87. */
FAULT_TEST(memory_does_not_grow_with_calls, "F57 F87")
{
	struct rank_group group;

	run(&(struct fault_variant){.nranks = 2}, call_very_often, NULL, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 3);
}
END_TEST

static void come_and_go(struct rank_seat *seat)
{
	int lives = rank_tests_long() ? 400 : 12, descriptors = 0;
	long before = 0;

	for (int i = 0; i < lives; i++) {
		if (i == lives / 4) {
			before = rank_private_kib();
			descriptors = rank_open_descriptors();
		}
		RANK_EXPECT_STATUS(seat, rank_create(seat, i), 0);
		if (!seat->comm)
			return;
		RANK_EXPECT(seat, rank_pass(seat, 2, 5000));
		rank_destroy(seat);
	}
	RANK_EXPECT(seat, rank_open_descriptors() == descriptors);
	RANK_EXPECT(seat, rank_private_kib() - before < 2048);
}

/* F57, F74 on the host. */
FAULT_TEST(neither_memory_nor_descriptors_grow_with_communicators, "F57 F87")
{
	struct rank_group group;

	run(&(struct fault_variant){.nranks = 3}, come_and_go, NULL, &group);
	ck_assert_uint_eq(rank_group_alive(&group), 7);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("system faults");
	TCase *c = tcase_create("limits");

	tcase_set_timeout(c, 600);
	tcase_add_test(c, the_size_of_dev_shm_does_not_matter);
	tcase_add_test(c, a_file_size_limit_is_an_error_at_creation_that_names_it);
	tcase_add_test(c, no_descriptors_at_creation_is_a_clear_error);
	tcase_add_test(c, calls_rescues_and_verdicts_need_no_descriptor);
	suite_add_tcase(s, c);

	c = tcase_create("signals and forks");
	tcase_set_timeout(c, 600);
	tcase_add_test(c, a_storm_of_signals_has_no_effect);
	tcase_add_loop_test(c, a_storm_of_signals_does_not_change_a_verdict, 0, 2);
	tcase_add_test(c, a_forked_child_gets_forked_from_everything_and_the_parent_goes_on);
	tcase_add_test(c, a_child_that_outlives_its_rank_does_not_hide_the_death);
	suite_add_tcase(s, c);

	c = tcase_create("starting");
	tcase_set_timeout(c, 600);
	tcase_add_loop_test(c,
			    first_calls_are_right_though_a_rank_is_slow_at_a_step_of_its_creation,
			    0, rank_tests_long() ? 16 : 2);
	tcase_add_test(c, a_missing_rank_ends_the_creation_in_time_and_is_named);
	tcase_add_test(c, two_groups_at_once_do_not_see_each_other);
	tcase_add_test(c, a_second_life_under_the_same_id_finds_nothing_of_the_first);
	tcase_add_test(c, ranks_that_differ_in_a_setting_are_refused_with_both_values);
	tcase_add_test(c, ranks_that_differ_in_their_tuning_file_are_refused);
	tcase_add_test(c, a_deadline_from_the_environment_is_the_one_in_force);
	suite_add_tcase(s, c);

	c = tcase_create("growth");
	tcase_set_timeout(c, 600);
	tcase_add_test(c, memory_does_not_grow_with_calls);
	tcase_add_test(c, neither_memory_nor_descriptors_grow_with_communicators);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
