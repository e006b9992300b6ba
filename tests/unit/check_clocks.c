/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks that differ are found, followed and put right by what the calls themselves show; where
 * that is impossible nothing is concluded. */
#include <check.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/clocks.h"

#define CALLS	    400u
#define GAP_NS	    100000u
#define TRANSFER_NS 3000u
#define SECOND_NS   1000000000

/* What is wrong with the clock of one rank. */
struct odd_clock {
	const char *what;
	uint32_t rank;
	int64_t offset_ns;
	int64_t drift_ppm;
	uint64_t step_at; /* call; 0: none */
	int64_t step_ns;
};

static struct arena arena;
static struct clocks clocks;
static struct made_row row;
static struct odd_clock odd;
static uint64_t true_end_ns;
static uint32_t straggler;
static uint64_t straggle_ns;

static void setup(void)
{
	true_end_ns = (uint64_t)100 * SECOND_NS;
	straggler = 3;
	straggle_ns = 2000000;
	odd = (struct odd_clock){.rank = 9};
	ck_assert_int_eq(clocks_init(&clocks, MADE_RANKS, mask_of(MADE_RANKS), &arena), 0);
}

static void teardown(void)
{
	arena_free(&arena);
}

/* What the rank's clock shows at a true time. */
static uint64_t shown(uint32_t rank, uint64_t seq, uint64_t time_ns)
{
	int64_t since = (int64_t)(time_ns - (uint64_t)100 * SECOND_NS);

	if (rank != odd.rank)
		return time_ns;
	time_ns += (uint64_t)(odd.offset_ns + since / 1000 * odd.drift_ppm / 1000);
	return odd.step_at && seq >= odd.step_at ? time_ns + (uint64_t)odd.step_ns : time_ns;
}

/* A call: everyone computes for GAP_NS, give or take a little, the straggler longer; inputs take
 * TRANSFER_NS; all leave 1 us after the last input. */
static void make_call(uint64_t seq)
{
	uint64_t start[MADE_RANKS], last = 0;

	made_row(&row, seq);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
		start[rank] = true_end_ns + GAP_NS + (seq * 7 + rank * 5) % 11 * 100;
		if (rank == straggler)
			start[rank] += straggle_ns;
		if (start[rank] > last)
			last = start[rank];
	}
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
		struct call_record *record = &row.ranks[rank].record;

		record->start_ns = shown(rank, seq, start[rank]);
		record->staged_ns = 0;
		for (uint32_t peer = 0; peer < MADE_RANKS; peer++) {
			uint64_t sent = start[peer] + (peer == rank ? 0 : TRANSFER_NS);

			record->arrival_ns[peer] = sent > start[rank] ? sent - start[rank] : 0;
		}
		record->duration_ns = last + TRANSFER_NS + 1000 - start[rank];
	}
	true_end_ns = last + TRANSFER_NS + 1000;
}

/* As the driver does it. */
static void take_row(void)
{
	made_row_done(&row);
	clocks_note_row(&clocks, &row.row, &row.facts);
	if (!clocks.differ)
		return;
	clocks_align_row(&clocks, &row.row);
	row_examine(&row.row, &row.facts);
}

/* How many of the calls name `rank` as the last, by 2 ms, 20 us more or less. */
static unsigned calls_that_name(uint32_t rank)
{
	unsigned named = 0;

	for (uint64_t seq = 1; seq <= CALLS; seq++) {
		make_call(seq);
		take_row();
		named += row.facts.last_rank == (int)rank && row.facts.lateness_ns > 1980000 &&
			 row.facts.lateness_ns < 2020000;
	}
	return named;
}

static const struct odd_clock odd_clocks[] = {
	{"an offset", 1, 11 * (int64_t)SECOND_NS, 0, 0, 0},
	{"an offset of the lowest rank", 0, 11 * (int64_t)SECOND_NS, 0, 0, 0},
	{"behind, with drift", 1, -11 * (int64_t)SECOND_NS, 50, 0, 0},
	{"a step back", 2, 11 * (int64_t)SECOND_NS, 50, 200, -SECOND_NS},
	{"a step forward, small", 2, 0, 0, 200, 20000000},
	{"of another boot", 1, -900000 * (int64_t)SECOND_NS, -50, 0, 0},
	{"the straggler's own offset", 3, 11 * (int64_t)SECOND_NS, 50, 0, 0},
	{"the straggler's own step back", 3, 11 * (int64_t)SECOND_NS, 0, 200, -SECOND_NS},
	{"a step that the straggler's lateness hides", 3, 11 * (int64_t)SECOND_NS, 0, 200,
	 -1000000},
};

START_TEST(a_straggler_is_found_whatever_the_clocks)
{
	struct clock_report report;

	odd = odd_clocks[_i];
	ck_assert_msg(calls_that_name(3) >= CALLS - 6, "%s", odd.what);
	ck_assert_msg(clocks.differ == rank_bit(odd.rank), "%s", odd.what);
	clocks_report(&clocks, odd.rank, &report);
	ck_assert_msg(!report.refused, "%s", odd.what);
	/* A clock that was right until its step is off from there on, without a step. */
	ck_assert_msg(report.steps == (odd.step_at && odd.offset_ns), "%s: %lu steps", odd.what,
		      (unsigned long)report.steps);
	ck_assert_msg(report.drift_ppm > (double)odd.drift_ppm - 15 &&
			      report.drift_ppm < (double)odd.drift_ppm + 15,
		      "%s: %f ppm", odd.what, report.drift_ppm);
}
END_TEST

/* The bounds of a straggler's clock are as wide as it is late: they do not help here. */
START_TEST(a_rank_that_wakes_up_late_once_does_no_harm)
{
	odd = odd_clocks[6];
	ck_assert_uint_ge(calls_that_name(3), CALLS - 6);
	make_call(CALLS + 1);
	for (uint32_t peer = 1; peer < MADE_RANKS; peer++)
		row.ranks[0].record.arrival_ns[peer] += 3000000;
	row.ranks[0].record.duration_ns += 3000000;
	take_row();
	ck_assert_int_eq(row.facts.last_rank, 3);
	ck_assert_uint_gt(row.facts.lateness_ns, 1980000);
	ck_assert_uint_lt(row.facts.lateness_ns, 2020000);
}
END_TEST

START_TEST(the_offset_is_within_its_bound)
{
	struct clock_report report;
	int64_t truth;

	odd = odd_clocks[2];
	(void)calls_that_name(3);
	clocks_report(&clocks, odd.rank, &report);
	truth = (int64_t)(shown(odd.rank, CALLS, true_end_ns) - true_end_ns);
	ck_assert_int_le(report.offset_ns, truth + (int64_t)report.bound_worst_ns);
	ck_assert_int_ge(report.offset_ns, truth - (int64_t)report.bound_worst_ns);
	/* Both ranks are early and late in turn, so the bound is a few transfers. */
	ck_assert_uint_lt(report.bound_worst_ns, 3 * TRANSFER_NS + ROW_STAMP_ERROR_NS);
}
END_TEST

START_TEST(clocks_that_agree_are_left_alone)
{
	ck_assert_uint_eq(calls_that_name(3), CALLS);
	ck_assert_uint_eq(clocks.differ, 0);
	ck_assert_ptr_eq(row.row.records[1], &row.ranks[1].record);
}
END_TEST

START_TEST(stamps_that_are_a_little_wrong_are_no_clock_that_differs)
{
	odd = (struct odd_clock){.rank = 1, .offset_ns = ROW_STAMP_ERROR_NS};
	straggle_ns = 0;
	(void)calls_that_name(3);
	ck_assert_uint_eq(clocks.differ, 0);
	ck_assert_int_eq(row.facts.clocks_differ, 0);
}
END_TEST

START_TEST(a_slow_rank_on_the_common_clock_is_no_clock_that_differs)
{
	/* The worst a clock could be taken for: always last, by very much. */
	straggle_ns = (uint64_t)30 * SECOND_NS;
	for (uint64_t seq = 1; seq <= CALLS; seq++) {
		make_call(seq);
		take_row();
		ck_assert_int_eq(row.facts.last_rank, 3);
	}
	ck_assert_uint_eq(clocks.differ, 0);
}
END_TEST

START_TEST(the_first_calls_are_aligned_after_a_look_ahead)
{
	odd = odd_clocks[0];
	for (uint64_t seq = 1; seq <= 20; seq++) {
		make_call(seq);
		take_row();
	}
	clocks_restart(&clocks);
	ck_assert_uint_eq(clocks.differ, rank_bit(1));
	/* Within a transfer, before any call is read. */
	ck_assert_uint_lt(clocks_align_time(&clocks, 1, (uint64_t)111 * SECOND_NS) -
				  (uint64_t)100 * SECOND_NS + TRANSFER_NS,
			  2 * TRANSFER_NS);
	ck_assert_uint_eq(clocks_align_time(&clocks, 2, 12345), 12345);
}
END_TEST

START_TEST(times_that_contradict_themselves_are_refused_with_the_reason)
{
	struct clock_report report;

	/* Rank 1's clock goes to and fro within the call: its input is seen before it is staged,
	 * and it sees others before they stage. */
	for (uint64_t seq = 1; seq <= 50; seq++) {
		make_call(seq);
		row.ranks[1].record.staged_ns = 2500000000u;
		row.ranks[1].record.arrival_ns[1] = 2500000000u;
		take_row();
		ck_assert_int_ne(row.facts.last_rank, 1);
	}
	ck_assert_uint_eq(clocks.differ, rank_bit(1));
	clocks_report(&clocks, 1, &report);
	ck_assert_str_eq(report.refused, "its times contradict themselves");
	/* The others' sights still tell that rank 3 was the last, rank 1 not. */
	ck_assert_int_eq(row.facts.last_rank, 3);
	ck_assert_uint_eq(row.row.unaligned, rank_bit(1));
}
END_TEST

START_TEST(times_that_often_contradict_themselves_are_refused_too)
{
	struct clock_report report;

	odd = odd_clocks[0];
	for (uint64_t seq = 1; seq <= CALLS; seq++) {
		make_call(seq);
		if (seq % 3 == 0) {
			row.ranks[1].record.staged_ns = 2500000000u;
			row.ranks[1].record.arrival_ns[1] = 2500000000u;
		}
		take_row();
	}
	clocks_report(&clocks, 1, &report);
	ck_assert_ptr_nonnull(report.refused);
}
END_TEST

START_TEST(calls_that_failed_tell_nothing_of_clocks)
{
	odd = odd_clocks[0];
	for (uint64_t seq = 1; seq <= 20; seq++) {
		make_call(seq);
		row.ranks[1].record.status = BELAY_E_PEER_STUCK;
		take_row();
	}
	ck_assert_uint_eq(clocks.differ, 0);
}
END_TEST

/* The rank that wrote no log is often the one that is looked for. */
START_TEST(a_rank_without_data_is_named_by_what_the_others_saw)
{
	made_row(&row, 1);
	make_call(1);
	row.row.ranks = mask_of(MADE_RANKS) & ~rank_bit(3);
	made_row_done(&row);
	ck_assert_int_eq(row.facts.last_rank, 3);
	ck_assert_uint_gt(row.facts.lateness_ns, 1990000);
	ck_assert_uint_lt(row.facts.lateness_ns, 2010000);
}
END_TEST

START_TEST(a_rank_that_nobody_saw_leaves_the_last_unknown)
{
	make_call(1);
	row.row.ranks = mask_of(MADE_RANKS) & ~rank_bit(2);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.arrival_ns[2] = CALL_ARRIVAL_NONE;
	made_row_done(&row);
	ck_assert_int_eq(row.facts.last_rank, -1);
}
END_TEST

START_TEST(an_early_rank_without_data_takes_no_blame)
{
	make_call(1);
	row.row.ranks = mask_of(MADE_RANKS) & ~rank_bit(2);
	made_row_done(&row);
	ck_assert_int_eq(row.facts.last_rank, 3);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("clocks");
	TCase *c = tcase_create("clocks");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, a_straggler_is_found_whatever_the_clocks, 0,
			    (int)(sizeof(odd_clocks) / sizeof(odd_clocks[0])));
	tcase_add_test(c, a_rank_that_wakes_up_late_once_does_no_harm);
	tcase_add_test(c, the_offset_is_within_its_bound);
	tcase_add_test(c, clocks_that_agree_are_left_alone);
	tcase_add_test(c, stamps_that_are_a_little_wrong_are_no_clock_that_differs);
	tcase_add_test(c, a_slow_rank_on_the_common_clock_is_no_clock_that_differs);
	tcase_add_test(c, the_first_calls_are_aligned_after_a_look_ahead);
	tcase_add_test(c, times_that_contradict_themselves_are_refused_with_the_reason);
	tcase_add_test(c, times_that_often_contradict_themselves_are_refused_too);
	tcase_add_test(c, calls_that_failed_tell_nothing_of_clocks);
	tcase_add_test(c, a_rank_without_data_is_named_by_what_the_others_saw);
	tcase_add_test(c, a_rank_that_nobody_saw_leaves_the_last_unknown);
	tcase_add_test(c, an_early_rank_without_data_takes_no_blame);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
