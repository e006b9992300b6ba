/* SPDX-License-Identifier: Apache-2.0 */
/* The meeting of the ranks, with real processes: it comes together, or fails on all in the same words. */
#include "config.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/meeting_ranks.h"

static void plan_all(struct rank_plan *plans, int nranks)
{
	for (int i = 0; i < nranks; i++)
		plans[i] = rank_plan(i, nranks);
}

static const int sizes[] = { 1, 2, 4, 8 };

START_TEST(ranks_meet_and_are_all_connected)
{
	int n = sizes[_i];
	struct rank_plan plans[8];
	struct rank_report *reports = reports_new(n);

	plan_all(plans, n);
	ranks_run(plans, reports, n);
	for (int i = 0; i < n; i++) {
		ck_assert_msg(reports[i].status == 0, "rank %d: %s: %s", i,
			      belay_status_name(reports[i].status), reports[i].causes);
		ck_assert_int_eq(reports[i].done, 1);
		ck_assert_int_eq(reports[i].links_tried, n - 1);
		ck_assert_uint_eq(reports[i].usable, 0xe);
		ck_assert_uint_ne(reports[i].generation, 0);
		ck_assert_uint_eq(reports[i].generation, reports[0].generation);
		ck_assert_mem_eq(reports[i].comm_id, reports[0].comm_id, 16);
		ck_assert_int_eq(reports[i].leaked, 0);
		ck_assert_int_eq(reports[i].not_cloexec, 0);
		ck_assert_int_eq(reports[i].region_fd_given, 1);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("rendezvous");
	TCase *c = tcase_create("meeting");

	tcase_set_timeout(c, 60);
	tcase_add_loop_test(c, ranks_meet_and_are_all_connected, 0, (int)(sizeof(sizes) / sizeof(sizes[0])));
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
