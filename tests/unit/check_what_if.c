/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks on time, another path or other deadlines would have changed, on calls whose answer can
 * be worked out by hand. */
#include <check.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/what_if.h"

static struct arena arena;
static struct what_if_question question;
static struct what_if what_if;
static struct summary summary;
static struct made_row row;
static struct cost_table costs;
static struct cost_point points[2];

static void setup(void)
{
	memset(&question, 0, sizeof(question));
	memset(&summary, 0, sizeof(summary));
	points[0] = (struct cost_point){.bytes = 100000, .ns = 3000, .path = BELAY_PATH_HOST};
	points[1] = (struct cost_point){.bytes = 200000, .ns = 5000, .path = BELAY_PATH_HOST};
	costs = (struct cost_table){.points = {.items = points, .count = 2}};
}

static void teardown(void)
{
	arena_free(&arena);
}

static void ask(void)
{
	ck_assert_int_eq(what_if_init(&what_if, &question, &arena), 0);
}

/* Rank 2 stages `late_ns` behind the others; all see it 1 us later and are done 5 us after that. */
static void make_call(uint64_t seq, uint64_t late_ns)
{
	made_row(&row, seq);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
		struct call_record *record = &row.ranks[rank].record;

		record->start_ns += rank == 2 ? late_ns : 0;
		record->duration_ns = 7000 + (rank == 2 ? 0 : late_ns);
		for (uint32_t peer = 0; peer < MADE_RANKS; peer++)
			record->arrival_ns[peer] = 2000 + (peer == 2 && rank != 2 ? late_ns : 0);
		record->arrival_ns[rank] = record->staged_ns;
	}
}

static void note(void)
{
	made_row_done(&row);
	what_if_note_row(&what_if, &row.row, &row.facts);
}

static void end_pass(uint64_t duration_ns)
{
	const struct pass_facts pass = {.pass = 1, .start_ns = 1000, .end_ns = 1000 + duration_ns};

	what_if_note_pass(&what_if, &pass);
}

START_TEST(a_rank_on_time_saves_what_it_was_later_than_the_next)
{
	question.on_time = rank_bit(2);
	ask();
	make_call(1, 40000);
	row.ranks[0].record.staged_ns += 10000; /* now the last of the others */
	note();
	make_call(2, 0);
	note();
	end_pass(90000);
	ck_assert_uint_eq(what_if.wait_saved_ns, 30000);
	ck_assert_uint_eq(what_if.was_last, 1);
	ck_assert_uint_eq(what_if.then_last[0], 2); /* of equals the lowest */
	ck_assert_uint_eq(what_if.compared, 2);
	ck_assert_uint_eq(what_if.recorded->largest, 90000);
	ck_assert_uint_eq(what_if.changed->largest, 60000);
}
END_TEST

START_TEST(another_rank_on_time_saves_nothing)
{
	question.on_time = rank_bit(1);
	ask();
	make_call(1, 40000);
	note();
	end_pass(90000);
	ck_assert_uint_eq(what_if.wait_saved_ns, 0);
	ck_assert_uint_eq(what_if.then_last[2], 1);
	ck_assert_uint_eq(what_if.changed->largest, 90000);
}
END_TEST

START_TEST(another_path_does_nothing_for_what_is_on_nccl_by_the_program)
{
	question.costs = &costs;
	ask();
	make_call(1, 40000);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.flags = CALL_WATCHED;
	note();
	end_pass(90000);
	ck_assert_uint_eq(what_if.watched, 1);
	ck_assert_uint_eq(what_if.replaced, 0);
	ck_assert_uint_eq(what_if.outside, 0);
	ck_assert_uint_eq(what_if.changed->largest, 90000);
}
END_TEST

START_TEST(a_call_that_was_rescued_or_failed_stays_as_it_was)
{
	question.on_time = rank_bit(2);
	question.costs = &costs;
	ask();
	make_call(1, 40000);
	row.ranks[0].record.flags = CALL_RESCUED;
	note();
	make_call(2, 40000);
	row.ranks[1].record.status = BELAY_E_PEER_LOST;
	note();
	make_call(3, 40000);
	row.row.ranks = rank_bit(0); /* nobody knows who was last */
	note();
	end_pass(90000);
	ck_assert_uint_eq(what_if.silent, 3);
	ck_assert_uint_eq(what_if.compared, 0);
	ck_assert_uint_eq(what_if.changed->largest, 90000);
}
END_TEST

START_TEST(on_another_path_the_transfer_is_the_tables_and_the_wait_stays)
{
	question.costs = &costs;
	question.path = BELAY_PATH_HOST;
	ask();
	make_call(1, 40000); /* 114688 bytes: 3294 ns by the table, 6 us recorded */
	note();
	end_pass(50000);
	ck_assert_uint_eq(what_if.replaced, 1);
	ck_assert_uint_eq(what_if.transfer_ns, 6000);
	ck_assert_uint_eq(what_if.table_ns, 3294);
	ck_assert_uint_eq(what_if.changed->largest, 50000 - 6000 + 3294);
}
END_TEST

START_TEST(a_dearer_path_makes_passes_longer)
{
	points[0].ns = 50000;
	points[1].ns = 50000;
	question.costs = &costs;
	ask();
	make_call(1, 0);
	note();
	end_pass(50000);
	ck_assert_uint_eq(what_if.changed->largest, 50000 - 6000 + 50000);
}
END_TEST

static const struct {
	const char *rule;
	uint64_t late_ns; /* of rank 2 */
	uint64_t deadline_ns;
	uint64_t alarms;
} deadlines[] = {
	{"a wait below the deadline", 8998, 10000, 0},
	{"a wait of the deadline", 8999, 10000, 1}, /* it is seen 1 us after it is staged */
	{"a longer one", 50000, 10000, 1},
	{"nobody late", 0, 10000, 0},
};

START_TEST(a_deadline_raises_an_alarm_from_its_length_on)
{
	question.late_ns = deadlines[_i].deadline_ns;
	question.give_up_ns = deadlines[_i].deadline_ns;
	ask();
	make_call(7, deadlines[_i].late_ns + 1);
	note();
	ck_assert_msg(what_if.late.false_calls == deadlines[_i].alarms, "%s", deadlines[_i].rule);
	ck_assert_msg(what_if.give_up.false_calls == deadlines[_i].alarms, "%s",
		      deadlines[_i].rule);
	ck_assert_msg(what_if.give_up.by_rank[2] == deadlines[_i].alarms, "%s", deadlines[_i].rule);
	ck_assert_msg(what_if.give_up.first_seq == (deadlines[_i].alarms ? 7 : 0), "%s",
		      deadlines[_i].rule);
}
END_TEST

START_TEST(an_alarm_in_a_call_that_was_at_fault_is_no_false_one)
{
	question.late_ns = 10000;
	ask();
	make_call(1, 50000);
	row.ranks[0].record.flags = CALL_RESCUED | CALL_LATE;
	row.ranks[0].record.rescue_ns = 1000;
	note();
	ck_assert_uint_eq(what_if.late.calls, 1);
	ck_assert_uint_eq(what_if.late.false_calls, 0);
}
END_TEST

START_TEST(rescues_come_sooner_by_the_difference_of_the_deadlines)
{
	const struct event_record late = {.kind = EVENT_LATE, .duration_ns = 10000000};
	int64_t ns = 7;

	question.late_ns = 4000000;
	ask();
	ck_assert_int_eq(what_if_rescue_sooner(&what_if, &summary, &ns), -1);
	summary.rescue_count = 1;
	ck_assert_int_eq(what_if_rescue_sooner(&what_if, &summary, &ns), -1);
	ck_assert_int_eq(ns, 7);
	what_if_note_event(&what_if, &late);
	ck_assert_int_eq(what_if_rescue_sooner(&what_if, &summary, &ns), 0);
	ck_assert_int_eq(ns, 6000000);
	question.late_ns = 14000000;
	ck_assert_int_eq(what_if_rescue_sooner(&what_if, &summary, &ns), 0);
	ck_assert_int_eq(ns, -4000000);
}
END_TEST

START_TEST(a_rescue_alone_shows_the_soft_deadline_and_little_more)
{
	int64_t ns = 7;

	question.late_ns = 4000000;
	ask();
	make_call(1, 0);
	row.ranks[0].record.flags = CALL_RESCUED | CALL_LATE;
	row.ranks[0].record.duration_ns = 1000 + 12000000 + 900000; /* staging, waiting, rescue */
	row.ranks[0].record.rescue_ns = 900000;
	note();
	summary.rescue_count = 1;
	ck_assert_int_eq(what_if_rescue_sooner(&what_if, &summary, &ns), 0);
	ck_assert_int_eq(ns, 8000000);
}
END_TEST

START_TEST(only_a_verdict_that_waited_comes_sooner)
{
	int64_t ns = 7;

	question.give_up_ns = 5000000000;
	ask();
	make_call(1, 0);
	row.ranks[0].record.status = BELAY_E_PEER_STUCK;
	row.ranks[0].record.missing = rank_bit(2);
	row.ranks[0].record.arrival_ns[2] = CALL_ARRIVAL_NONE;
	row.ranks[0].record.duration_ns = 30000001000; /* 1 us of it staging */
	note();
	ck_assert_int_eq(what_if_verdict_sooner(&what_if, &summary, &ns), -1);
	summary.verdict.stands = 1;
	summary.verdict.cause = BELAY_CAUSE_MISMATCH;
	ck_assert_int_eq(what_if_verdict_sooner(&what_if, &summary, &ns), -1);
	ck_assert_int_eq(ns, 7);
	summary.verdict.cause = BELAY_CAUSE_PEER_STUCK;
	ck_assert_int_eq(what_if_verdict_sooner(&what_if, &summary, &ns), 0);
	ck_assert_int_eq(ns, 25000000000);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("what_if");
	TCase *c = tcase_create("what_if");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_rank_on_time_saves_what_it_was_later_than_the_next);
	tcase_add_test(c, another_rank_on_time_saves_nothing);
	tcase_add_test(c, another_path_does_nothing_for_what_is_on_nccl_by_the_program);
	tcase_add_test(c, a_call_that_was_rescued_or_failed_stays_as_it_was);
	tcase_add_test(c, on_another_path_the_transfer_is_the_tables_and_the_wait_stays);
	tcase_add_test(c, a_dearer_path_makes_passes_longer);
	tcase_add_loop_test(c, a_deadline_raises_an_alarm_from_its_length_on, 0,
			    (int)(sizeof(deadlines) / sizeof(deadlines[0])));
	tcase_add_test(c, an_alarm_in_a_call_that_was_at_fault_is_no_false_one);
	tcase_add_test(c, rescues_come_sooner_by_the_difference_of_the_deadlines);
	tcase_add_test(c, a_rescue_alone_shows_the_soft_deadline_and_little_more);
	tcase_add_test(c, only_a_verdict_that_waited_comes_sooner);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
