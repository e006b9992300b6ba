/* SPDX-License-Identifier: Apache-2.0 */
/* Parts become a rank's stream, streams become rows: each call once, in order, holes counted. */
#include <check.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/merge.h"

#define RECORDS 40u

static union made_record records[RECORDS]; /* seq 1 .. 40 */
static struct made_part made[8];
static struct record_part parts[8];
static struct rank_stream streams[MADE_RANKS];
static size_t nparts;

static void setup(void)
{
	memset(made, 0, sizeof(made));
	memset(parts, 0, sizeof(parts));
	memset(streams, 0, sizeof(streams));
	nparts = 0;
	for (uint64_t i = 0; i < RECORDS; i++)
		made_record(&records[i], i + 1);
}

/* Adds seqs first .. last to the rank's parts; a rank's parts must be added one after the other. */
static void add_part(uint32_t rank, uint64_t first, uint64_t last)
{
	struct rank_stream *stream = &streams[rank];

	made[nparts] = (struct made_part){
		.records = &records[first - 1], .count = last + 1 - first, .per_batch = 3};
	parts[nparts] = (struct record_part){&made_part_ops, &made[nparts], first, 0, 0, 0, NULL};
	if (!stream->parts)
		stream->parts = &parts[nparts];
	stream->rank = rank;
	stream->nparts++;
	nparts++;
}

/* Reads the stream to its end. Returns how many records came; they must rise. */
static size_t drain(struct rank_stream *stream)
{
	uint64_t last = 0;
	size_t n = 0;

	ck_assert_int_eq(rank_stream_start(stream), 0);
	while (stream->head) {
		ck_assert_uint_gt(stream->head->seq, last);
		last = stream->head->seq;
		n++;
		ck_assert_int_eq(rank_stream_advance(stream), 0);
	}
	rank_stream_stop(stream);
	return n;
}

START_TEST(parts_that_overlap_give_each_call_once)
{
	add_part(0, 1, 20);
	add_part(0, 15, 30);
	ck_assert_uint_eq(drain(&streams[0]), 30);
	ck_assert_uint_eq(streams[0].holes, 0);
}
END_TEST

START_TEST(a_part_within_another_fills_its_hole)
{
	/* What one file lost, 11 .. 14, another one has. */
	add_part(0, 1, 10);
	add_part(0, 9, 16);
	add_part(0, 15, 20);
	ck_assert_uint_eq(drain(&streams[0]), 20);
	ck_assert_uint_eq(streams[0].holes, 0);
}
END_TEST

START_TEST(a_hole_inside_a_part_is_filled_by_one_that_begins_there)
{
	static union made_record gap[12]; /* 1 .. 10, 17, 18 */

	for (uint64_t i = 0; i < 12; i++)
		made_record(&gap[i], i < 10 ? i + 1 : i + 7);
	add_part(0, 1, 12);
	made[0].records = gap;
	add_part(0, 11, 16);
	ck_assert_uint_eq(drain(&streams[0]), 18);
	ck_assert_uint_eq(streams[0].holes, 0);
}
END_TEST

START_TEST(a_part_is_closed_at_its_end)
{
	add_part(0, 1, 10);
	add_part(0, 11, 20);
	ck_assert_int_eq(rank_stream_start(&streams[0]), 0);
	for (int i = 0; i < 10; i++)
		ck_assert_int_eq(rank_stream_advance(&streams[0]), 0);
	ck_assert_uint_eq(streams[0].head->seq, 11);
	ck_assert_int_eq(made[0].closed, 1);
	ck_assert_int_eq(made[1].closed, 0);
	rank_stream_stop(&streams[0]);
	ck_assert_int_eq(made[0].closed, 1);
	ck_assert_int_eq(made[1].closed, 1);
}
END_TEST

START_TEST(a_hole_is_counted_exactly)
{
	add_part(0, 1, 10);
	add_part(0, 18, 20);
	ck_assert_uint_eq(drain(&streams[0]), 13);
	ck_assert_uint_eq(streams[0].holes, 7);
	ck_assert_uint_eq(streams[0].first_seq, 1);
	ck_assert_uint_eq(streams[0].last_seq, 20);
}
END_TEST

START_TEST(a_later_part_is_opened_only_when_its_turn_comes)
{
	add_part(0, 1, 10);
	add_part(0, 11, 20);
	ck_assert_int_eq(rank_stream_start(&streams[0]), 0);
	ck_assert_int_eq(made[0].opened, 1);
	ck_assert_int_eq(made[1].opened, 0);
	rank_stream_stop(&streams[0]);
	ck_assert_int_eq(made[0].closed, 1);
	ck_assert_int_eq(made[1].closed, 0);
}
END_TEST

START_TEST(a_stream_can_be_read_again)
{
	add_part(0, 1, 10);
	ck_assert_uint_eq(drain(&streams[0]), 10);
	ck_assert_uint_eq(drain(&streams[0]), 10);
}
END_TEST

static size_t events_told;

static int count_event(void *user, uint32_t rank, const struct event_record *event)
{
	(void)user;
	ck_assert_uint_eq(rank, 2);
	ck_assert_int_eq(event->kind, EVENT_LATE);
	events_told++;
	return 0;
}

START_TEST(events_are_told_with_their_rank)
{
	static const struct event_record events[2] = {{.kind = EVENT_LATE}, {.kind = EVENT_LATE}};

	add_part(2, 1, 5);
	made[0].events = events;
	made[0].nevents = 2;
	streams[2].on_event = count_event;
	events_told = 0;
	ck_assert_uint_eq(drain(&streams[2]), 5);
	ck_assert_uint_eq(events_told, 2);
}
END_TEST

/* Rank 0: 10 .. 20, rank 1: 15 .. 25, rank 2: nothing, rank 3: with a hole. */
START_TEST(windows_that_differ_are_joined_by_seq)
{
	struct rank_stream joined[3];
	struct merge merge = {.nranks = MADE_RANKS, .streams = joined, .nstreams = 3};
	struct call_row row;
	uint64_t seq = 9;

	add_part(0, 10, 20);
	add_part(1, 15, 25);
	add_part(3, 12, 14);
	add_part(3, 18, 30);
	joined[0] = streams[0];
	joined[1] = streams[1];
	joined[2] = streams[3];
	ck_assert_int_eq(merge_start(&merge), 0);
	for (;;) {
		uint64_t expected = 0;

		ck_assert_int_eq(merge_next(&merge, &row), 0);
		if (!row.ranks)
			break;
		seq++;
		expected |= seq >= 10 && seq <= 20 ? rank_bit(0) : 0;
		expected |= seq >= 15 && seq <= 25 ? rank_bit(1) : 0;
		expected |= (seq >= 12 && seq <= 14) || seq >= 18 ? rank_bit(3) : 0;
		ck_assert_uint_eq(row.seq, seq);
		ck_assert_uint_eq(row.ranks, expected);
		ck_assert_ptr_null(row.records[2]);
	}
	ck_assert_uint_eq(seq, 30);
	ck_assert_uint_eq(joined[2].holes, 3);
	merge_stop(&merge);
}
END_TEST

START_TEST(no_parts_give_no_rows)
{
	struct merge merge = {.nranks = 2, .streams = streams, .nstreams = 0};
	struct call_row row;

	ck_assert_int_eq(merge_start(&merge), 0);
	ck_assert_int_eq(merge_next(&merge, &row), 0);
	ck_assert_uint_eq(row.ranks, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("merge");
	TCase *c = tcase_create("merge");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_add_test(c, parts_that_overlap_give_each_call_once);
	tcase_add_test(c, a_part_within_another_fills_its_hole);
	tcase_add_test(c, a_hole_inside_a_part_is_filled_by_one_that_begins_there);
	tcase_add_test(c, a_part_is_closed_at_its_end);
	tcase_add_test(c, a_hole_is_counted_exactly);
	tcase_add_test(c, a_later_part_is_opened_only_when_its_turn_comes);
	tcase_add_test(c, a_stream_can_be_read_again);
	tcase_add_test(c, events_are_told_with_their_rank);
	tcase_add_test(c, windows_that_differ_are_joined_by_seq);
	tcase_add_test(c, no_parts_give_no_rows);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
