/* SPDX-License-Identifier: Apache-2.0 */
/* One thing told by several ranks is one item; items come in the order of time, however many
 * there are. */
#include <check.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/timeline.h"

static struct arena arena;
static struct timeline timeline;
static struct timeline_item last;
static size_t told;
static int out_of_order;

static int keep(void *user, const struct timeline_item *item)
{
	(void)user;
	out_of_order |= told && item->time_ns < last.time_ns;
	last = *item;
	told++;
	return 0;
}

static void setup(void)
{
	told = 0;
	out_of_order = 0;
	ck_assert_int_eq(timeline_init(&timeline, keep, NULL, &arena), 0);
}

static void teardown(void)
{
	arena_free(&arena);
}

START_TEST(what_several_ranks_tell_is_one_item)
{
	struct event_record event = {.kind = EVENT_VERDICT,
				     .seq = 9,
				     .peer = 2,
				     .time_ns = 50,
				     .cause = BELAY_CAUSE_PEER_LOST};

	ck_assert_int_eq(timeline_note_event(&timeline, 0, &event), 0);
	event.time_ns = 40;
	ck_assert_int_eq(timeline_note_event(&timeline, 3, &event), 0);
	ck_assert_int_eq(timeline_finish(&timeline), 0);
	ck_assert_uint_eq(told, 1);
	ck_assert_uint_eq(last.ranks, 0x9);
	ck_assert_uint_eq(last.time_ns, 40);
	ck_assert_int_eq(last.subject, 2);
}
END_TEST

/* While nobody calls, the back-off is over again and again. */
START_TEST(each_move_of_the_breaker_is_an_item)
{
	struct event_record event = {
		.kind = EVENT_BREAKER, .seq = 9, .peer = -1, .value = BELAY_BREAKER_OPEN};

	for (uint64_t i = 1; i <= 3; i++) {
		event.time_ns = 100 * i;
		ck_assert_int_eq(timeline_note_event(&timeline, 0, &event), 0);
	}
	ck_assert_int_eq(timeline_finish(&timeline), 0);
	ck_assert_uint_eq(told, 3);
}
END_TEST

START_TEST(a_rescue_by_record_and_by_event_is_one_item)
{
	struct event_record event = {
		.kind = EVENT_RESCUE_END, .seq = 3, .time_ns = 50, .mask = 1, .duration_ns = 100};
	struct made_row row;

	made_row(&row, 3);
	row.ranks[1].record.flags = CALL_RESCUED;
	row.ranks[1].record.rescue_ns = 200;
	row.ranks[1].record.rescue_path = BELAY_PATH_RING;
	made_row_done(&row);
	ck_assert_int_eq(timeline_note_event(&timeline, 0, &event), 0);
	ck_assert_int_eq(timeline_note_row(&timeline, &row.row, &row.facts), 0);
	ck_assert_int_eq(timeline_finish(&timeline), 0);
	ck_assert_uint_eq(told, 1);
	ck_assert_uint_eq(last.ranks, 0x3);
	ck_assert_uint_eq(last.amount_ns, 200);
	ck_assert_uint_eq(last.wait_ns, 10000 - 1000 - 200);
	ck_assert_int_eq(last.path, BELAY_PATH_RING);
}
END_TEST

START_TEST(the_time_of_a_rescue_is_that_of_the_records_as_in_the_summary)
{
	struct event_record event = {
		.kind = EVENT_RESCUE_END, .seq = 3, .time_ns = 50, .mask = 1, .duration_ns = 5000};
	struct made_row row;

	made_row(&row, 3);
	row.ranks[1].record.flags = CALL_RESCUED;
	row.ranks[1].record.rescue_ns = 200;
	made_row_done(&row);
	ck_assert_int_eq(timeline_note_event(&timeline, 0, &event), 0);
	ck_assert_int_eq(timeline_note_row(&timeline, &row.row, &row.facts), 0);
	ck_assert_int_eq(timeline_note_event(&timeline, 2, &event), 0);
	ck_assert_int_eq(timeline_finish(&timeline), 0);
	ck_assert_uint_eq(last.amount_ns, 200);
}
END_TEST

START_TEST(a_long_timeline_is_sorted_and_complete)
{
	/* Two sources, one 1000 items behind the other. */
	for (uint64_t i = 0; i < 50000; i++) {
		struct timeline_item item = {.kind = TIMELINE_LATE, .seq = i, .time_ns = i * 10};

		ck_assert_int_eq(timeline_note(&timeline, &item), 0);
		if (i < 1000)
			continue;
		item.kind = TIMELINE_DIGEST;
		item.seq = i - 1000;
		item.time_ns = (i - 1000) * 10 + 5;
		ck_assert_int_eq(timeline_note(&timeline, &item), 0);
	}
	ck_assert_int_eq(timeline_finish(&timeline), 0);
	ck_assert_uint_eq(told, 99000);
	ck_assert_int_eq(out_of_order, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("timeline");
	TCase *c = tcase_create("timeline");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, what_several_ranks_tell_is_one_item);
	tcase_add_test(c, each_move_of_the_breaker_is_an_item);
	tcase_add_test(c, a_rescue_by_record_and_by_event_is_one_item);
	tcase_add_test(c, the_time_of_a_rescue_is_that_of_the_records_as_in_the_summary);
	tcase_add_test(c, a_long_timeline_is_sorted_and_complete);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
