/* SPDX-License-Identifier: Apache-2.0 */
/* Passes by marks; passes that are not whole do not count for the calls of a pass. */
#include <check.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/passes.h"

static struct pass_facts told[16];
static size_t ntold;

static int keep(void *user, const struct pass_facts *pass)
{
	(void)user;
	ck_assert_uint_lt(ntold, 16);
	told[ntold++] = *pass;
	return 0;
}

static void start(struct passes *passes, enum pass_by by)
{
	struct pass_rule rule = {.by = by};

	passes_init(passes, &rule);
	passes->ended = keep;
	ntold = 0;
}

/* Ten calls a pass, see made_record(). */
static void feed(struct passes *passes, uint64_t first, uint64_t last)
{
	struct made_row row;

	for (uint64_t seq = first; seq <= last; seq++) {
		made_row(&row, seq);
		made_row_done(&row);
		ck_assert_int_eq(passes_note_row(passes, &row.row, &row.facts), 0);
	}
}

START_TEST(marks_make_passes)
{
	struct passes passes;

	start(&passes, PASS_BY_MARKS);
	feed(&passes, 1, 30);
	ck_assert_int_eq(passes_finish(&passes), 0);
	ck_assert_uint_eq(passes.count, 3);
	ck_assert_uint_eq(passes.calls_min, 10);
	ck_assert_uint_eq(passes.calls_max, 10);
	ck_assert_uint_eq(ntold, 3);
	ck_assert_uint_eq(told[1].pass, 2);
	ck_assert_uint_eq(told[1].first_seq, 11);
	ck_assert_uint_eq(told[1].bytes, 10 * 57344 * 2);
	ck_assert_uint_eq(told[1].time_ns, 10 * 10000);
	ck_assert_uint_eq(told[1].end_ns - told[1].start_ns, 9 * 20000 + 10000);
}
END_TEST

START_TEST(a_pass_whose_start_was_rotated_away_is_told_but_not_measured)
{
	struct passes passes;

	start(&passes, PASS_BY_MARKS);
	feed(&passes, 6, 30);
	ck_assert_int_eq(passes_finish(&passes), 0);
	ck_assert_uint_eq(passes.count, 3);
	ck_assert_uint_eq(passes.calls_min, 10);
	ck_assert_int_eq(told[0].whole, 0);
	ck_assert_int_eq(told[1].whole, 1);
}
END_TEST

START_TEST(a_last_pass_without_its_end_mark_is_not_whole)
{
	struct event_record end = {.kind = EVENT_PASS_END, .pass = 2};
	struct passes passes;

	start(&passes, PASS_BY_MARKS);
	feed(&passes, 1, 24);
	passes_note_event(&passes, &end);
	ck_assert_int_eq(passes_finish(&passes), 0);
	ck_assert_uint_eq(passes.count, 3);
	ck_assert_uint_eq(passes.calls_min, 10);
	ck_assert_int_eq(told[2].whole, 0);
}
END_TEST

START_TEST(a_pass_with_a_failed_call_is_not_whole)
{
	struct passes passes;
	struct made_row row;

	start(&passes, PASS_BY_MARKS);
	feed(&passes, 1, 14);
	made_row(&row, 15);
	row.ranks[2].record.status = BELAY_E_PEER_LOST;
	made_row_done(&row);
	ck_assert_int_eq(passes_note_row(&passes, &row.row, &row.facts), 0);
	ck_assert_int_eq(passes_finish(&passes), 0);
	ck_assert_uint_eq(passes.calls_min, 10);
	ck_assert_uint_eq(told[1].failed_calls, 1);
	ck_assert_int_eq(told[1].whole, 0);
}
END_TEST

START_TEST(the_rank_waited_for_is_the_one_that_costs_most)
{
	struct passes passes;
	struct made_row row;

	start(&passes, PASS_BY_MARKS);
	for (uint64_t seq = 1; seq <= 10; seq++) {
		made_row(&row, seq);
		/* Rank 1 is last in nine calls by 100 ns, rank 2 once by 4 us. */
		row.ranks[seq == 5 ? 2 : 1].record.staged_ns += seq == 5 ? 4000 : 100;
		made_row_done(&row);
		ck_assert_int_eq(passes_note_row(&passes, &row.row, &row.facts), 0);
	}
	ck_assert_int_eq(passes_finish(&passes), 0);
	ck_assert_int_eq(told[0].waited_for, 2);
	ck_assert_uint_eq(told[0].waited_for_ns, 3000);
	ck_assert_uint_eq(told[0].wait_ns, 3000 + 9 * 75);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("passes");
	TCase *c = tcase_create("passes");

	tcase_add_test(c, marks_make_passes);
	tcase_add_test(c, a_pass_whose_start_was_rotated_away_is_told_but_not_measured);
	tcase_add_test(c, a_last_pass_without_its_end_mark_is_not_whole);
	tcase_add_test(c, a_pass_with_a_failed_call_is_not_whole);
	tcase_add_test(c, the_rank_waited_for_is_the_one_that_costs_most);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
