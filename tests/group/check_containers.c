/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks in containers: namespaces of their own, system calls that are refused. docs/faults.md: F48
 * and F83.
 */
#include "config.h"

#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "tests/support/fault_variants.h"

static void run(int nranks, rank_scenario scenario, const void *plan, struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = nranks, .scenario = scenario, .plan = plan},
		       ret_group);
}

static void keep_error(struct rank_seat *seat)
{
	(void)snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
}

/* ---- system calls that are refused ----------------------------------------------------------- */

struct refusal {
	long calls[6]; /* until 0 */
};

/* From here on each of these calls of the process is EPERM, as in many a container. */
static bool refuse(const struct refusal *refusal)
{
	struct sock_filter filter[2 + 2 * 6 + 1];
	struct sock_fprog program = {.filter = filter};
	unsigned short n = 0;

	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offsetof(struct seccomp_data, nr));
	for (int i = 0; i < 6 && refusal->calls[i]; i++) {
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							   (unsigned)refusal->calls[i], 0, 1);
		filter[n++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = n;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static const struct refusal looking_at_processes = {
	{SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_pidfd_getfd, SYS_kcmp}};

static void live_without_a_look_at_others(struct rank_seat *seat)
{
	if (!refuse(&looking_at_processes))
		seat->report->number[7] = 1;
	else
		rank_life(seat);
}

/* F83: descriptors come over a socket, so nobody needs a right over another process; a rescue
 * neither. */
FAULT_TEST(ranks_that_may_not_look_at_each_other_work_all_the_same, "F83")
{
	struct rank_group group;
	struct work_plan plan = {.fault = "rank=1,seq=7,kind=drop", .regions = true};

	run(4, live_without_a_look_at_others, &plan, &group);
	if (group.report[0].number[7]) {
		(void)printf("# SKIP no seccomp here\n");
		return;
	}
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].statistics.rescued_seqs, 1);
}
END_TEST

static void create_without_pidfds(struct rank_seat *seat)
{
	static const struct refusal pidfds = {{SYS_pidfd_open}};

	if (seat->rank == 1 && !refuse(&pidfds)) {
		seat->report->number[7] = 1;
		return;
	}
	seat->config.start_ms = "500";
	RANK_EXPECT(seat, rank_create(seat, 0) != 0);
	keep_error(seat);
}

/* F83: what belay cannot do without is named by the rank that lacks it, and fails all. */
FAULT_TEST(a_rank_without_pidfds_fails_the_creation_and_says_why, "F83")
{
	struct rank_group group;

	run(3, create_without_pidfds, NULL, &group);
	if (group.report[1].number[7]) {
		(void)printf("# SKIP no seccomp here\n");
		return;
	}
	ck_assert_msg(strstr(group.report[1].text, "pidfd_open") != NULL, "%s",
		      group.report[1].text);
	for (int r = 0; r < 3; r++)
		ck_assert_int_ne(group.report[r].created, 0);
}
END_TEST

/* ---- namespaces ------------------------------------------------------------------------------ */

static void meet_across_networks(struct rank_seat *seat)
{
	if (seat->rank == 1 && unshare(CLONE_NEWNET)) {
		seat->report->number[7] = 1;
		return;
	}
	seat->config.start_ms = "300";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), BELAY_E_START_TIMEOUT);
	keep_error(seat);
}

/* F48: what could only look like the same place is another one. Namespaces of mounts are
 * check_system_faults' matter: the_size_of_dev_shm_does_not_matter. */
FAULT_TEST(ranks_in_networks_of_their_own_do_not_meet_and_say_who_is_missing, "F48")
{
	struct rank_group group;

	run(2, meet_across_networks, NULL, &group);
	if (group.report[1].number[7]) {
		(void)printf("# SKIP no right to a network namespace\n");
		return;
	}
	ck_assert_msg(strstr(group.report[0].text, "did not join: 1") != NULL, "%s",
		      group.report[0].text);
	ck_assert_msg(strstr(group.report[1].text, "did not join: 0") != NULL, "%s",
		      group.report[1].text);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("containers");
	TCase *c = tcase_create("containers");

	tcase_add_test(c, ranks_that_may_not_look_at_each_other_work_all_the_same);
	tcase_add_test(c, a_rank_without_pidfds_fails_the_creation_and_says_why);
	tcase_add_test(c, ranks_in_networks_of_their_own_do_not_meet_and_say_who_is_missing);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
