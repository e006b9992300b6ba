/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a recording, and that nothing is told of a sound one or of what is not there. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/story.h"

static struct summary summary;
static struct arena arena;
static struct story story;
static struct made_row row;

/* Making recordings of four ranks, ten calls a pass ---------------------------------------- */

static void setup(void)
{
	struct pass_rule rule = {.by = PASS_BY_MARKS};

	memset(&arena, 0, sizeof(arena));
	ck_assert_int_eq(
		summary_init(&summary, "id", MADE_RANKS, mask_of(MADE_RANKS), &rule, &arena), 0);
}

static void teardown(void)
{
	summary_free(&summary);
	arena_free(&arena);
}

static void add_row(void)
{
	made_row_done(&row);
	ck_assert_int_eq(summary_note_row(&summary, &row.row, &row.facts), 0);
}

/* Which rank is last changes from call to call, by little. */
static void begin_row(uint64_t seq, uint64_t calls_per_pass)
{
	made_row(&row, seq);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
		row.ranks[rank].record.pass = (seq - 1) / calls_per_pass + 1;
		row.ranks[rank].record.index = (uint32_t)((seq - 1) % calls_per_pass);
	}
	row.ranks[seq % MADE_RANKS].record.staged_ns += 100;
}

static void add_healthy(uint64_t first, uint64_t last)
{
	for (uint64_t seq = first; seq <= last; seq++) {
		begin_row(seq, 20);
		add_row();
	}
}

static void add_event(uint32_t rank, struct event_record event)
{
	ck_assert_int_eq(summary_note_event(&summary, rank, &event), 0);
}

static void tell(uint64_t clocks_differ)
{
	ck_assert_int_eq(summary_finish(&summary), 0);
	story_tell(&summary, clocks_differ, &story);
}

/* The story has this one point. */
static const struct story_point *only(enum story_what what)
{
	ck_assert_msg(story.count == 1, "%zu points, the first %s", story.count,
		      story.count ? story_name(story.points[0].what) : "none");
	ck_assert_str_eq(story_name(story.points[0].what), story_name(what));
	return &story.points[0];
}

static void says(const struct story_point *point, const char *words)
{
	char sentence[STORY_SENTENCE_BYTES];

	story_words(point, sentence);
	ck_assert_msg(strstr(sentence, words) != NULL, "'%s' is not in: %s", words, sentence);
	ck_assert_msg(sentence[strlen(sentence) - 1] == '.', "no end: %s", sentence);
	ck_assert_msg(strlen(sentence) < STORY_SENTENCE_BYTES - 60, "nearly cut: %s", sentence);
}

/* Sound ones --------------------------------------------------------------------------------- */

START_TEST(nothing_is_told_of_a_sound_recording)
{
	add_healthy(1, 200 * (uint64_t)_i);
	tell(0);
	ck_assert_uint_eq(story.count, 0);
}
END_TEST

START_TEST(a_rank_that_is_last_by_little_is_not_told)
{
	for (uint64_t seq = 1; seq <= 400; seq++) {
		begin_row(seq, 20);
		row.ranks[2].record.staged_ns += 900;
		add_row();
	}
	tell(0);
	ck_assert_int_eq(stragglers_worst(&summary.stragglers), 2);
	ck_assert_uint_eq(story.count, 0);
}
END_TEST

START_TEST(calls_of_another_size_on_another_path_are_no_change)
{
	for (uint64_t seq = 1; seq <= 200; seq++) {
		begin_row(seq, 20);
		for (uint32_t rank = 0; rank < MADE_RANKS && seq % 3 == 0; rank++) {
			row.ranks[rank].record.count = 5000000;
			row.ranks[rank].record.path = BELAY_PATH_NCCL;
		}
		add_row();
	}
	tell(0);
	ck_assert_uint_eq(summary.path_change_count, 0);
	ck_assert_uint_eq(story.count, 0);
}
END_TEST

/* Verdicts ------------------------------------------------------------------------------------ */

static const struct {
	int cause;
	int status;
	const char *rank;
	const char *nobody;
} causes[] = {
	{BELAY_CAUSE_PEER_LOST, BELAY_E_PEER_LOST, "Rank 2 died in seq 41 (pass 3)", "A rank died"},
	{BELAY_CAUSE_PEER_STUCK, BELAY_E_PEER_STUCK, "Rank 2 did not come", "A rank did not come"},
	{BELAY_CAUSE_MISMATCH, BELAY_E_MISMATCH, "Rank 2 called something else",
	 "The ranks called"},
	{BELAY_CAUSE_GPU_FAULT, BELAY_E_GPU_FAULT, "The GPU of rank 2 failed", "A GPU failed"},
	{BELAY_CAUSE_NCCL_FAILED, BELAY_E_NCCL_FAILED, "NCCL failed at rank 2", "NCCL failed"},
	{BELAY_CAUSE_ABORTED, BELAY_E_ABORTED, "The program of rank 2 aborted",
	 "A program aborted"},
	{BELAY_CAUSE_INTERNAL, BELAY_E_INTERNAL, "belay itself failed at rank 2", "belay itself"},
};
#define CAUSES ((int)(sizeof(causes) / sizeof(causes[0])))

static void add_failed(int status)
{
	begin_row(41, 20);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.status = (int16_t)status;
	row.row.ranks &= ~rank_bit(2);
	add_row();
}

START_TEST(each_verdict_names_rank_and_place)
{
	const struct story_point *point;

	add_healthy(1, 40);
	add_failed(causes[_i].status);
	for (uint32_t rank = 0; rank < 2; rank++)
		add_event(rank, (struct event_record){.kind = EVENT_VERDICT,
						      .seq = 41,
						      .pass = 3,
						      .peer = 2,
						      .cause = (uint8_t)causes[_i].cause});
	tell(0);
	point = &story.points[0];
	ck_assert_int_eq(point->what, STORY_VERDICT);
	ck_assert_int_eq(point->rank, 2);
	ck_assert_uint_eq(point->seq, 41);
	ck_assert_uint_eq(point->pass, 3);
	ck_assert_uint_eq(point->ranks, 11);
	says(point, causes[_i].rank);
	says(point, "as ranks 0,1,3 tell");
	says(point, "Look at ");
}
END_TEST

START_TEST(a_verdict_known_from_statuses_alone_names_nobody)
{
	add_healthy(1, 40);
	add_failed(causes[_i].status);
	tell(0);
	ck_assert_int_eq(story.points[0].what, STORY_VERDICT);
	ck_assert_int_eq(story.points[0].rank, -1);
	ck_assert_int_eq(story.points[0].cause, causes[_i].cause);
	says(&story.points[0], causes[_i].nobody);
}
END_TEST

START_TEST(different_verdicts_are_told_as_what_they_are)
{
	add_healthy(1, 40);
	for (uint32_t rank = 0; rank < 2; rank++)
		add_event(rank, (struct event_record){.kind = EVENT_VERDICT,
						      .seq = 41 + rank,
						      .peer = 2,
						      .cause = BELAY_CAUSE_PEER_LOST});
	tell(0);
	ck_assert_uint_eq(story.count, 2);
	ck_assert_int_eq(story.points[1].what, STORY_VERDICTS_DIFFER);
	says(&story.points[1], "bug in belay");
}
END_TEST

/* Rescues and paths ---------------------------------------------------------------------------- */

static void add_rescued(uint64_t seq, uint64_t stuck)
{
	add_event(0, (struct event_record){.kind = EVENT_RESCUE_BEGIN,
					   .seq = seq,
					   .peer = 3,
					   .path = BELAY_PATH_RING});
	begin_row(seq, 20);
	while (stuck) {
		struct call_record *record = &row.ranks[mask_pop(&stuck)].record;

		record->flags = CALL_RESCUED | CALL_LATE;
		record->missing = 8;
		record->rescue_ns = 700000 + seq;
		record->rescue_path = BELAY_PATH_RING;
		record->duration_ns = 11000000;
	}
	add_row();
}

static void add_on_path(uint64_t first, uint64_t last, uint8_t path)
{
	for (uint64_t seq = first; seq <= last; seq++) {
		begin_row(seq, 20);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
			row.ranks[rank].record.path = path;
		add_row();
	}
}

START_TEST(one_lost_write_is_one_sentence)
{
	const struct story_point *point;

	add_healthy(1, 49);
	add_rescued(50, 2);
	add_healthy(51, 60);
	tell(0);
	point = only(STORY_LOST_WRITES);
	ck_assert_int_eq(point->rank, 3);
	ck_assert_uint_eq(point->others, 2);
	ck_assert_uint_eq(point->seq, 50);
	ck_assert_uint_eq(point->count, 1);
	says(point, "The data of rank 3 was sent and did not arrive at rank 1 in seq 50 (pass 3). "
		    "belay finished the call over ring, within 700 us after a wait of "
		    "10.3 ms, with the right result.");
}
END_TEST

START_TEST(whose_data_was_lost_is_not_made_up)
{
	const struct story_point *point;

	add_healthy(1, 49);
	add_event(1, (struct event_record){.kind = EVENT_RESCUE_END,
					   .seq = 50,
					   .peer = -1,
					   .mask = 2,
					   .duration_ns = 800000});
	add_healthy(50, 60);
	tell(0);
	point = only(STORY_LOST_WRITES);
	ck_assert_int_eq(point->rank, -1);
	ck_assert_uint_eq(point->ranks, 0);
	says(point, "A call was stuck in seq 50. belay finished the call over another path");
}
END_TEST

START_TEST(a_breaker_that_changes_no_path_is_told_without_one)
{
	add_on_path(1, 100, BELAY_PATH_SYMM);
	add_event(0, (struct event_record){
			     .kind = EVENT_BREAKER, .seq = 99, .value = BELAY_BREAKER_OPEN});
	tell(0);
	says(only(STORY_BREAKER), "until it closes, calls stay on their path and are rescued");
}
END_TEST

START_TEST(lost_writes_at_a_constant_distance_tell_it)
{
	for (uint64_t seq = 1; seq <= 400; seq++) {
		if (seq % 100)
			add_healthy(seq, seq);
		else
			add_rescued(seq, 7);
	}
	tell(0);
	ck_assert_uint_eq(story.points[0].every, 100);
	ck_assert_uint_eq(story.points[0].count, 4);
	says(&story.points[0],
	     "at ranks 0-2 in 4 calls from seq 100 (pass 5) to seq 400 (pass 20), "
	     "every 100 calls. belay finished each");
}
END_TEST

/* Who was stuck in a rescue comes late to the next call: no news. */
START_TEST(a_rank_late_from_a_rescue_is_told_once)
{
	add_healthy(1, 49);
	add_rescued(50, 2);
	add_event(0, (struct event_record){
			     .kind = EVENT_LATE, .seq = 51, .peer = 1, .duration_ns = 10000000});
	add_healthy(51, 60);
	tell(0);
	ck_assert_uint_eq(summary.late.ranks[1].calls, 1);
	(void)only(STORY_LOST_WRITES);
}
END_TEST

START_TEST(a_rank_late_elsewhere_is_told_beside_a_rescue)
{
	add_healthy(1, 49);
	add_rescued(50, 2);
	add_event(0, (struct event_record){
			     .kind = EVENT_LATE, .seq = 55, .peer = 1, .duration_ns = 10000000});
	add_healthy(51, 60);
	tell(0);
	ck_assert_uint_eq(story.count, 2);
	ck_assert_int_eq(story.points[1].what, STORY_LATE);
	ck_assert_int_eq(story.points[1].rank, 1);
}
END_TEST

START_TEST(the_breaker_and_what_it_did_are_told)
{
	const struct story_point *point;

	add_on_path(1, 100, BELAY_PATH_SYMM);
	add_event(0, (struct event_record){
			     .kind = EVENT_BREAKER, .seq = 99, .value = BELAY_BREAKER_OPEN});
	add_event(0, (struct event_record){
			     .kind = EVENT_BREAKER, .seq = 150, .value = BELAY_BREAKER_HALF_OPEN});
	/* A probe that fails is no opening. */
	add_event(0,
		  (struct event_record){.kind = EVENT_BREAKER,
					.seq = 150,
					.value = _i ? BELAY_BREAKER_CLOSED : BELAY_BREAKER_OPEN});
	add_on_path(101, 150, BELAY_PATH_RING);
	if (_i)
		add_on_path(151, 200, BELAY_PATH_SYMM);
	tell(0);
	point = only(STORY_BREAKER);
	ck_assert_uint_eq(point->count, 1);
	says(point,
	     "opened the breaker in seq 99: from seq 101 on calls took ring in place of symm");
	says(point, _i ? ", until seq 151; 50 calls in all, and the recording ends on symm."
		       : "symm; 50 calls in all, the last ones too.");
}
END_TEST

START_TEST(a_change_of_path_without_breaker_is_told_as_one)
{
	const struct story_point *point;

	add_on_path(1, 100, BELAY_PATH_SYMM);
	add_on_path(101, 150, BELAY_PATH_HOST);
	tell(0);
	point = only(STORY_PATH_CHANGE);
	ck_assert_uint_eq(point->seq, 101);
	says(point, "from seq 101 on calls took host in place of symm");
}
END_TEST

START_TEST(a_path_refused_at_the_start_is_told_with_its_reason)
{
	const struct story_point *point;

	add_event(0, (struct event_record){.kind = EVENT_PATH_SWITCH,
					   .seq = 1,
					   .value = BELAY_PATH_SYMM,
					   .path = BELAY_PATH_RING,
					   .text = "symm: no peer access from 0 to 1"});
	add_on_path(1, 100, BELAY_PATH_RING);
	tell(0);
	point = only(STORY_PATH_REFUSED);
	says(point, "calls took ring in place of symm: symm: no peer access from 0 to 1.");
}
END_TEST

/* Who was waited for --------------------------------------------------------------------------- */

static void add_late(uint64_t seq, int32_t peer)
{
	add_event(0, (struct event_record){.kind = EVENT_LATE,
					   .seq = seq,
					   .pass = (seq - 1) / 20 + 1,
					   .peer = peer,
					   .mask = 1u << peer,
					   .duration_ns = 10000000 + seq});
}

START_TEST(a_late_rank_is_told_with_its_calls)
{
	const struct story_point *point;

	add_late(25, 3);
	add_late(27, 3);
	add_healthy(1, 60);
	tell(0);
	point = only(STORY_LATE);
	ck_assert_int_eq(point->rank, 3);
	says(point, "Rank 3 was late in 2 calls from seq 25 (pass 2) to seq 27 (pass 2)");
}
END_TEST

START_TEST(many_late_ranks_are_told_in_one_sentence)
{
	const struct story_point *point;

	for (int32_t rank = 0; rank < (int32_t)MADE_RANKS; rank++)
		add_late(22 + (uint64_t)rank, rank);
	add_late(30, 2);
	add_healthy(1, 60);
	tell(0);
	point = only(STORY_LATE_ALL);
	ck_assert_int_eq(point->rank, -1);
	says(point, "Ranks 0-3 were late in 5 calls from seq 22 (pass 2) to seq 30 (pass 2)");
	says(point, "rank 2 most often, in 2. The others waited");
}
END_TEST

START_TEST(a_rank_that_is_stuck_for_good_is_told_by_the_verdict_alone)
{
	add_late(41, 2);
	add_healthy(1, 40);
	add_failed(BELAY_E_PEER_STUCK);
	add_event(0, (struct event_record){.kind = EVENT_VERDICT,
					   .seq = 41,
					   .peer = 2,
					   .cause = BELAY_CAUSE_PEER_STUCK});
	tell(0);
	(void)only(STORY_VERDICT);
}
END_TEST

/* So many passes, of which one takes three times as long as the others: waiting for rank 3, or
 * between its calls. */
static void add_passes(uint64_t passes, uint64_t slow, int waiting)
{
	uint64_t shift = 0;

	for (uint64_t seq = 1; seq <= 20 * passes; seq++) {
		uint64_t more = (seq - 1) / 20 + 1 == slow ? 40000 : 0;

		begin_row(seq, 20);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
			row.ranks[rank].record.start_ns += shift + (waiting ? 0 : more);
			row.ranks[rank].record.duration_ns += waiting ? more : 0;
		}
		row.ranks[3].record.staged_ns += waiting ? (uint32_t)more : 0;
		shift += more;
		add_row();
	}
}

/* Rank `late` is last by 6 us, of calls of about 16. */
static void add_behind(uint64_t seq, uint32_t late)
{
	begin_row(seq, 20);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.duration_ns += 6000;
	row.ranks[late].record.staged_ns += 6000;
	add_row();
}

START_TEST(a_straggler_is_told_since_when)
{
	const struct story_point *point;

	add_healthy(1, 100);
	for (uint64_t seq = 101; seq <= 400; seq++)
		add_behind(seq, 1);
	tell(0);
	point = only(STORY_STRAGGLER);
	ck_assert_int_eq(point->rank, 1);
	ck_assert_uint_eq(point->seq, 101);
	ck_assert_uint_eq(point->pass, 6);
	ck_assert_int_eq(point->goes_on, 1);
	says(point, "Rank 1 kept being the last to arrive since seq 101 (pass 6): in 9");
}
END_TEST

START_TEST(a_straggler_that_recovered_is_told_until_when)
{
	const struct story_point *point;

	for (uint64_t seq = 1; seq <= 300; seq++)
		add_behind(seq, 1);
	add_healthy(301, 400);
	tell(0);
	point = only(STORY_STRAGGLER);
	ck_assert_uint_eq(point->seq, 0);
	ck_assert_int_eq(point->goes_on, 0);
	ck_assert_uint_eq(point->last_pass, 15);
	says(point, "the last to arrive until seq 300 (pass 15)");
}
END_TEST

/* By 6 us of 16: that is news where nothing else happened, and none beside a rank that is late by
 * milliseconds. */
START_TEST(a_straggler_by_microseconds_is_not_told_beside_a_fault)
{
	for (uint64_t seq = 1; seq <= 400; seq++)
		add_behind(seq, 1);
	if (_i)
		add_event(0, (struct event_record){.kind = EVENT_VERDICT,
						   .seq = 401,
						   .peer = 2,
						   .cause = BELAY_CAUSE_PEER_LOST});
	tell(0);
	(void)only(_i ? STORY_VERDICT : STORY_STRAGGLER);
}
END_TEST

START_TEST(a_straggler_that_costs_more_is_told_beside_a_fault)
{
	for (uint64_t seq = 1; seq <= 400; seq++) {
		begin_row(seq, 20);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
			row.ranks[rank].record.duration_ns += 30000;
		row.ranks[1].record.staged_ns += 30000;
		add_row();
	}
	add_event(0, (struct event_record){.kind = EVENT_VERDICT,
					   .seq = 401,
					   .peer = 2,
					   .cause = BELAY_CAUSE_PEER_LOST});
	tell(0);
	ck_assert_uint_eq(story.count, 2);
	ck_assert_int_eq(story.points[1].what, STORY_STRAGGLER);
}
END_TEST

/* Last in every other call, and in its share of the rest: often, but not always. */
START_TEST(a_rank_that_is_last_often_but_not_always_is_not_told)
{
	for (uint64_t seq = 1; seq <= 600; seq++)
		add_behind(seq, seq % 2 ? 1 : (uint32_t)(seq / 2 % MADE_RANKS));
	tell(0);
	ck_assert_int_eq(stragglers_worst(&summary.stragglers), 1);
	ck_assert_uint_eq(story.count, 0);
}
END_TEST

START_TEST(a_first_pass_that_is_slow_is_no_news)
{
	add_passes(10, 1, 0);
	tell(0);
	ck_assert_msg(story.count == 0, "%s of pass %d", story_name(story.points[0].what),
		      (int)story.points[0].pass);
}
END_TEST

START_TEST(stragglers_in_turn_are_told_together)
{
	const struct story_point *point;

	for (uint64_t seq = 1; seq <= 400; seq++)
		add_behind(seq, (uint32_t)((seq - 1) / 20 % MADE_RANKS));
	tell(0);
	point = only(STORY_STRAGGLERS_IN_TURN);
	ck_assert_uint_eq(point->ranks, 15);
	ck_assert_uint_eq(point->count, 20);
	ck_assert_uint_eq(point->of, 20);
	says(point, "Ranks 0-3 were in turn the last to arrive: in 20 of 20 passes");
}
END_TEST

START_TEST(of_four_passes_none_is_called_slow)
{
	add_passes(4, 2, 0);
	tell(0);
	ck_assert_uint_eq(story.count, 0);
}
END_TEST

START_TEST(a_slow_pass_is_told_with_what_it_waited_for)
{
	const struct story_point *point;

	add_passes(10, 6, _i);
	tell(0);
	point = only(STORY_SLOW_PASSES);
	ck_assert_uint_eq(point->pass, 6);
	ck_assert_uint_eq(point->count, 1);
	ck_assert_uint_eq(point->of, 10);
	ck_assert_int_eq(point->rank, _i ? 3 : -1);
	says(point, "1 of 10 passes was slow without any fault: pass 6 took ");
	says(point,
	     _i ? "it waited for rank 3." : "most of that went by between calls, not in them.");
}
END_TEST

/* With one record of four nobody can tell who was last; that is no "nobody". */
START_TEST(a_slow_pass_without_the_records_says_that_they_are_missing)
{
	const struct story_point *point;

	for (uint64_t seq = 1; seq <= 200; seq++) {
		begin_row(seq, 20);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
			row.ranks[rank].record.start_ns += seq > 120 ? 800000 : 0;
			row.ranks[rank].record.duration_ns += seq == 120 ? 800000 : 0;
		}
		if (seq > 100 && seq <= 120)
			row.row.ranks = rank_bit(2);
		add_row();
	}
	tell(0);
	point = only(STORY_SLOW_PASSES);
	ck_assert_uint_eq(point->pass, 6);
	ck_assert_int_eq(point->rank, -1);
	ck_assert_uint_eq(point->others, 0xb);
	says(point, "for whom is not known, since records of ranks 0,1,3 are missing there.");
}
END_TEST

/* Data -------------------------------------------------------------------------------------------
 */

START_TEST(outputs_that_differ_name_the_rank)
{
	const struct story_point *point;

	add_healthy(1, 30);
	begin_row(31, 20);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
		row.ranks[rank].record.flags = CALL_DIGEST;
		row.ranks[rank].record.digest = rank == 2 ? 7 : 8;
	}
	add_row();
	tell(0);
	point = only(STORY_DIGEST);
	ck_assert_int_eq(point->rank, 2);
	says(point, "The output of rank 2 is not that of the others in seq 31 (pass 2)");
}
END_TEST

START_TEST(of_two_ranks_whose_outputs_differ_neither_is_named_wrong)
{
	add_healthy(1, 30);
	begin_row(31, 20);
	row.row.ranks = 3;
	for (uint32_t rank = 0; rank < 2; rank++) {
		row.ranks[rank].record.flags = CALL_DIGEST;
		row.ranks[rank].record.digest = rank;
	}
	add_row();
	summary.nranks = 2;
	tell(0);
	says(&story.points[0], "which is right cannot be told");
}
END_TEST

START_TEST(what_is_not_there_is_said_and_nothing_concluded)
{
	summary.present &= ~rank_bit(1);
	add_healthy(1, 40);
	ck_assert_int_eq(summary_finish(&summary), 0);
	summary.ranks[2].lost = 17;
	summary.lost_records = 17;
	story_tell(&summary, rank_bit(3), &story);
	ck_assert_uint_eq(story.count, 3);
	ck_assert_int_eq(story.points[0].what, STORY_CLOCKS);
	ck_assert_int_eq(story.points[0].rank, 3);
	ck_assert_int_eq(story.points[1].what, STORY_NO_DATA);
	ck_assert_int_eq(story.points[1].rank, 1);
	says(&story.points[1], "There is no data of rank 1");
	ck_assert_int_eq(story.points[2].what, STORY_LOST_RECORDS);
	says(&story.points[2], "17 records of rank 2 were made and are not here");
}
END_TEST

START_TEST(every_kind_has_a_name_and_a_sentence)
{
	const struct story_point point = {
		.what = (enum story_what)_i, .rank = -1, .count = 2, .of = 3};
	char sentence[STORY_SENTENCE_BYTES];

	ck_assert_ptr_nonnull(story_name(point.what));
	ck_assert_uint_gt(strlen(story_words(&point, sentence)), 20);
}
END_TEST

/* The largest values that the fields can have. */
START_TEST(no_sentence_is_longer_than_its_room)
{
	char text[EVENT_TEXT_BYTES], sentence[STORY_SENTENCE_BYTES];
	struct story_point point = {
		.what = (enum story_what)_i,
		.rank = -1,
		.ranks = 0x5555555555555555u,
		.others = 0x5555555555555555u,
		.seq = UINT64_MAX,
		.pass = UINT64_MAX,
		.last_seq = UINT64_MAX,
		.last_pass = UINT64_MAX,
		.count = UINT64_MAX,
		.of = UINT64_MAX,
		.every = UINT64_MAX,
		.from_seq = UINT64_MAX,
		.until_seq = UINT64_MAX,
		.ns = UINT64_MAX,
		.other_ns = UINT64_MAX,
		.path = BELAY_PATH_SYMM,
		.other_path = BELAY_PATH_RING,
		.cause = BELAY_CAUSE_PEER_STUCK,
		.text = text,
	};

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	memset(sentence, 'y', sizeof(sentence));
	story_words(&point, sentence);
	ck_assert_ptr_nonnull(memchr(sentence, '\0', sizeof(sentence)));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("story");
	TCase *c = tcase_create("story");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, nothing_is_told_of_a_sound_recording, 0, 4);
	tcase_add_test(c, a_rank_that_is_last_by_little_is_not_told);
	tcase_add_test(c, calls_of_another_size_on_another_path_are_no_change);
	tcase_add_loop_test(c, each_verdict_names_rank_and_place, 0, CAUSES);
	tcase_add_loop_test(c, a_verdict_known_from_statuses_alone_names_nobody, 0, CAUSES);
	tcase_add_test(c, different_verdicts_are_told_as_what_they_are);
	tcase_add_test(c, one_lost_write_is_one_sentence);
	tcase_add_test(c, whose_data_was_lost_is_not_made_up);
	tcase_add_test(c, a_breaker_that_changes_no_path_is_told_without_one);
	tcase_add_test(c, lost_writes_at_a_constant_distance_tell_it);
	tcase_add_test(c, a_rank_late_from_a_rescue_is_told_once);
	tcase_add_test(c, a_rank_late_elsewhere_is_told_beside_a_rescue);
	tcase_add_loop_test(c, the_breaker_and_what_it_did_are_told, 0, 2);
	tcase_add_test(c, a_change_of_path_without_breaker_is_told_as_one);
	tcase_add_test(c, a_path_refused_at_the_start_is_told_with_its_reason);
	tcase_add_test(c, a_late_rank_is_told_with_its_calls);
	tcase_add_test(c, many_late_ranks_are_told_in_one_sentence);
	tcase_add_test(c, a_rank_that_is_stuck_for_good_is_told_by_the_verdict_alone);
	tcase_add_test(c, a_straggler_is_told_since_when);
	tcase_add_test(c, a_straggler_that_recovered_is_told_until_when);
	tcase_add_loop_test(c, a_straggler_by_microseconds_is_not_told_beside_a_fault, 0, 2);
	tcase_add_test(c, a_straggler_that_costs_more_is_told_beside_a_fault);
	tcase_add_test(c, a_rank_that_is_last_often_but_not_always_is_not_told);
	tcase_add_test(c, a_first_pass_that_is_slow_is_no_news);
	tcase_add_test(c, stragglers_in_turn_are_told_together);
	tcase_add_test(c, of_four_passes_none_is_called_slow);
	tcase_add_loop_test(c, a_slow_pass_is_told_with_what_it_waited_for, 0, 2);
	tcase_add_test(c, a_slow_pass_without_the_records_says_that_they_are_missing);
	tcase_add_test(c, outputs_that_differ_name_the_rank);
	tcase_add_test(c, of_two_ranks_whose_outputs_differ_neither_is_named_wrong);
	tcase_add_test(c, what_is_not_there_is_said_and_nothing_concluded);
	tcase_add_loop_test(c, every_kind_has_a_name_and_a_sentence, STORY_VERDICT,
			    STORY_LOST_RECORDS + 1);
	tcase_add_loop_test(c, no_sentence_is_longer_than_its_room, STORY_VERDICT,
			    STORY_LOST_RECORDS + 1);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
