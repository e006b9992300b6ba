/* SPDX-License-Identifier: Apache-2.0 */
/* What the report shows is exact in its sums, however often the columns were folded. */
#include <check.h>

#include "tests/support/fail_alloc.h"
#include "tests/support/made_calls.h"
#include "tools/analyze/report_data.h"

static struct arena arena;
static struct pass_rule rule = {.by = PASS_BY_MARKS};
static struct report_data *data;

static void setup(void)
{
	data = arena_alloc(&arena, sizeof(*data));
	ck_assert_ptr_nonnull(data);
	ck_assert_int_eq(report_data_init(data, MADE_RANKS, &rule, &arena), 0);
}

static void teardown(void)
{
	arena_free(&arena);
}

static void feed_row(struct made_row *row)
{
	made_row_done(row);
	ck_assert_int_eq(report_data_note_row(data, &row->row, &row->facts), 0);
}

static void feed_calls(uint64_t first, uint64_t last)
{
	struct made_row row;

	for (uint64_t seq = first; seq <= last; seq++) {
		made_row(&row, seq);
		feed_row(&row);
	}
}

/* A whole pass, of kind 0. */
static void feed_pass(uint64_t number, uint64_t duration_ns)
{
	struct pass_facts pass = {.pass = number,
				  .start_ns = number * 1000000,
				  .end_ns = number * 1000000 + duration_ns,
				  .time_ns = duration_ns / 2,
				  .wait_ns = duration_ns / 4,
				  .waited_for = number < 3 ? 2 : (int)(number % 2),
				  .late_calls = 1,
				  .whole = 1};

	report_data_note_pass(data, &pass, 0);
}

static struct report_stretch sum_of(const struct report_series *series)
{
	struct report_stretch sum = series->columns[0];

	for (size_t i = 1; i < series->count; i++) {
		ck_assert_uint_gt(series->columns[i].first, series->columns[i - 1].last);
		sum.count += series->columns[i].count;
		sum.sum_ns += series->columns[i].sum_ns;
		sum.wait_ns += series->columns[i].wait_ns;
		sum.transfer_ns += series->columns[i].transfer_ns;
		sum.late += series->columns[i].late;
	}
	return sum;
}

START_TEST(a_few_passes_have_a_column_each)
{
	for (uint64_t i = 1; i <= REPORT_COLUMNS; i++)
		feed_pass(i, 1000 + i);
	ck_assert_uint_eq(data->passes.count, REPORT_COLUMNS);
	ck_assert_uint_eq(data->passes.width, 1);
	ck_assert_uint_eq(data->passes.columns[7].first, 8);
	ck_assert_uint_eq(data->passes.columns[7].longest_ns, 1008);
}
END_TEST

START_TEST(one_more_pass_folds_the_columns_in_pairs)
{
	for (uint64_t i = 1; i <= REPORT_COLUMNS + 1; i++)
		feed_pass(i, 1000 + i);
	ck_assert_uint_eq(data->passes.count, REPORT_COLUMNS / 2 + 1);
	ck_assert_uint_eq(data->passes.width, 2);
	ck_assert_uint_eq(data->passes.columns[0].first, 1);
	ck_assert_uint_eq(data->passes.columns[0].last, 2);
	ck_assert_uint_eq(data->passes.columns[0].shortest_ns, 1001);
	ck_assert_uint_eq(data->passes.columns[0].longest_ns, 1002);
	ck_assert_int_eq(data->passes.columns[0].waited_for, 2);
	ck_assert_int_eq(data->passes.columns[1].waited_for, -1);
}
END_TEST

START_TEST(nothing_is_lost_by_folding)
{
	const uint64_t n = 100003;
	struct report_stretch sum;

	for (uint64_t i = 1; i <= n; i++)
		feed_pass(i, 4000);
	sum = sum_of(&data->passes);
	ck_assert_uint_le(data->passes.count, REPORT_COLUMNS);
	ck_assert_uint_eq(sum.count, n);
	ck_assert_uint_eq(sum.sum_ns, n * 4000);
	ck_assert_uint_eq(sum.wait_ns, n * 1000);
	ck_assert_uint_eq(sum.transfer_ns, n * 1000);
	ck_assert_uint_eq(sum.late, n);
	ck_assert_uint_eq(data->passes.columns[data->passes.count - 1].last, n);
}
END_TEST

START_TEST(one_long_pass_of_many_is_found_in_its_column)
{
	size_t columns = 0;

	for (uint64_t i = 1; i <= 5000; i++)
		feed_pass(i, i == 3333 ? 90000 : 30000 + i % 100);
	for (size_t i = 0; i < data->passes.count; i++) {
		const struct report_stretch *column = &data->passes.columns[i];

		if (column->peaks[0].ns <= 45000)
			continue;
		columns++;
		ck_assert_uint_eq(column->peaks[0].which, 3333);
		ck_assert(column->first <= 3333 && 3333 <= column->last);
	}
	ck_assert_uint_eq(columns, 1);
}
END_TEST

START_TEST(a_column_keeps_the_longest_of_each_kind)
{
	struct pass_facts pass = {.pass = 1, .end_ns = 50000, .whole = 1};

	report_data_note_pass(data, &pass, 3);
	pass.end_ns = 100;
	for (uint64_t i = 2; i <= 2 * REPORT_COLUMNS; i++) {
		pass.pass = i;
		report_data_note_pass(data, &pass, 0);
	}
	ck_assert_uint_eq(data->passes.columns[0].last, 2);
	ck_assert_uint_eq(data->passes.columns[0].peaks[3].ns, 50000);
	ck_assert_uint_eq(data->passes.columns[0].peaks[0].ns, 100);
	ck_assert_uint_eq(data->passes.columns[0].peaks[0].which, 2);
}
END_TEST

START_TEST(a_pass_of_no_kind_is_shown_and_not_compared)
{
	struct pass_facts pass = {.pass = 1, .end_ns = 9};

	report_data_note_pass(data, &pass, PASS_TIMES_KINDS);
	ck_assert_uint_eq(data->passes.count, 1);
	for (size_t i = 0; i < PASS_TIMES_KINDS; i++)
		ck_assert_uint_eq(data->passes.columns[0].peaks[i].ns, 0);
}
END_TEST

START_TEST(the_map_holds_who_was_behind_and_by_how_much)
{
	struct made_row row;

	feed_calls(1, 999);
	made_row(&row, 1000);
	row.ranks[2].record.staged_ns = 6000;
	feed_row(&row);
	ck_assert_uint_eq(data->arrivals.width, 8);
	for (size_t i = 0; i < data->arrivals.count; i++) {
		const uint64_t *worst_ns = &data->arrivals.worst_ns[i * MADE_RANKS];
		int has_it = data->arrivals.columns[i].first_seq <= 1000 &&
			     data->arrivals.columns[i].last_seq >= 1000;

		ck_assert_uint_eq(worst_ns[2], has_it ? 5000 : 0);
		ck_assert_uint_eq(worst_ns[1], 0);
	}
}
END_TEST

START_TEST(folding_the_map_keeps_worst_and_sum)
{
	struct made_row row;
	uint64_t worst_ns = 0, sum_ns = 0, calls = 0;

	for (uint64_t seq = 1; seq <= 10000; seq++) {
		made_row(&row, seq);
		row.ranks[3].record.staged_ns = seq == 77 ? 9000 : 1100;
		feed_row(&row);
	}
	for (size_t i = 0; i < data->arrivals.count; i++) {
		uint64_t worst = data->arrivals.worst_ns[i * MADE_RANKS + 3];

		sum_ns += data->arrivals.sum_ns[i * MADE_RANKS + 3];
		calls += data->arrivals.columns[i].calls;
		if (worst > worst_ns)
			worst_ns = worst;
	}
	ck_assert_uint_eq(calls, 10000);
	ck_assert_uint_eq(worst_ns, 8000);
	ck_assert_uint_eq(sum_ns, 9999 * 100 + 8000);
}
END_TEST

START_TEST(a_call_that_tells_not_who_was_last_is_not_in_the_map)
{
	struct made_row row;

	made_row(&row, 1);
	row.row.ranks = 0x1;
	feed_row(&row);
	ck_assert_uint_eq(data->arrivals.count, 0);
	ck_assert_uint_eq(data->calls.count, 1);
}
END_TEST

START_TEST(sizes_without_a_group_of_their_own_are_counted_together)
{
	struct made_row row;

	for (uint64_t seq = 1; seq <= REPORT_GROUPS + 10; seq++) {
		made_row(&row, seq);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
			row.ranks[rank].record.count = seq;
		feed_row(&row);
	}
	ck_assert_uint_eq(data->ngroups, REPORT_GROUPS);
	ck_assert_uint_eq(data->groups[0].bytes, 2);
	ck_assert_uint_eq(data->groups[REPORT_GROUPS].bytes, UINT64_MAX);
	ck_assert_uint_eq(data->groups[REPORT_GROUPS].latency->count, 10);
}
END_TEST

START_TEST(the_worst_calls_come_in_order)
{
	struct made_row row;

	for (uint64_t seq = 1; seq <= 500; seq++) {
		made_row(&row, seq);
		/* A permutation: 263 and 500 have no common divisor. */
		row.ranks[1].record.duration_ns = 20000 + seq * 263 % 500;
		feed_row(&row);
	}
	ck_assert_uint_eq(data->nworst_calls, REPORT_WORST_CALLS);
	for (size_t i = 0; i < REPORT_WORST_CALLS; i++)
		ck_assert_uint_eq(data->worst_calls[i].latency_ns, 20499 - i);
}
END_TEST

START_TEST(faults_far_apart_fold_the_time)
{
	struct timeline_item item = {.kind = TIMELINE_LATE, .time_ns = 1000};
	uint64_t all = 0;

	report_data_note_fault(data, &item);
	for (int i = 0; i < 99; i++) {
		item.time_ns += 1000000000000;
		report_data_note_fault(data, &item);
	}
	for (size_t i = 0; i < REPORT_COLUMNS; i++)
		all += data->faults.columns[TIMELINE_LATE][i];
	ck_assert_uint_eq(all, 100);
	ck_assert_uint_eq(data->faults.columns[TIMELINE_LATE][0], 1);
	ck_assert_uint_eq(data->faults.counts[TIMELINE_LATE], 100);
	ck_assert_uint_eq(data->faults.nkept, REPORT_FAULTS_KEPT);
}
END_TEST

START_TEST(a_time_before_the_first_call_stands_in_the_first_column)
{
	struct timeline_item item = {.kind = TIMELINE_ERROR, .time_ns = 1};

	feed_calls(1, 1);
	report_data_note_fault(data, &item);
	item.time_ns = UINT64_MAX;
	report_data_note_fault(data, &item);
	ck_assert_uint_eq(data->faults.columns[TIMELINE_ERROR][0], 1);
	ck_assert_uint_eq(data->faults.counts[TIMELINE_ERROR], 2);
}
END_TEST

/* Begins a report and shows it a call of each of so many sizes. */
static int begin_and_feed(struct arena *own, uint64_t sizes)
{
	struct report_data *begun = arena_alloc(own, sizeof(*begun));
	struct made_row row;
	int status = BELAY_E_NO_MEMORY;

	if (begun)
		status = report_data_init(begun, MADE_RANKS, &rule, own);
	for (uint64_t seq = 1; status == 0 && seq <= sizes; seq++) {
		made_row(&row, seq);
		row.ranks[0].record.count = seq;
		made_row_done(&row);
		status = report_data_note_row(begun, &row.row, &row.facts);
	}
	return status;
}

START_TEST(every_lack_of_memory_is_told)
{
	int status = BELAY_E_NO_MEMORY, n = 0;

	for (; status != 0; n++) {
		struct arena own = {0};

		ck_assert_int_lt(n, 100);
		fail_alloc_at(n);
		status = begin_and_feed(&own, 5);
		fail_alloc_at(-1);
		ck_assert(status == 0 || status == BELAY_E_NO_MEMORY);
		arena_free(&own);
	}
	ck_assert_int_gt(n, 3);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("report_data");
	TCase *c = tcase_create("report_data");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_few_passes_have_a_column_each);
	tcase_add_test(c, one_more_pass_folds_the_columns_in_pairs);
	tcase_add_test(c, nothing_is_lost_by_folding);
	tcase_add_test(c, one_long_pass_of_many_is_found_in_its_column);
	tcase_add_test(c, a_column_keeps_the_longest_of_each_kind);
	tcase_add_test(c, a_pass_of_no_kind_is_shown_and_not_compared);
	tcase_add_test(c, the_map_holds_who_was_behind_and_by_how_much);
	tcase_add_test(c, folding_the_map_keeps_worst_and_sum);
	tcase_add_test(c, a_call_that_tells_not_who_was_last_is_not_in_the_map);
	tcase_add_test(c, sizes_without_a_group_of_their_own_are_counted_together);
	tcase_add_test(c, the_worst_calls_come_in_order);
	tcase_add_test(c, faults_far_apart_fold_the_time);
	tcase_add_test(c, a_time_before_the_first_call_stands_in_the_first_column);
	tcase_add_test(c, every_lack_of_memory_is_told);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
