/* SPDX-License-Identifier: Apache-2.0 */
/* What a recording becomes as a script: the lines, rank by rank, and what is mapped. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/replay_script.h"

static struct arena arena;
static struct replay_scripts scripts;
static struct summary summary;
static struct output output;
static struct made_row row;
static char folder[64];

static void setup(void)
{
	(void)strcpy(folder, "/tmp/check_replay_script.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	memset(&scripts, 0, sizeof(scripts));
	scripts.folder = folder;
	scripts.region_buffers = 1;
	summary.id = "c0ffee";
	summary.nranks = MADE_RANKS;
	output = (struct output){.summary = &summary, .arena = &arena, .state = &scripts};
}

static void teardown(void)
{
	const struct replay_script *list = scripts.scripts.items;

	for (size_t i = 0; i < scripts.scripts.count; i++)
		unlink(list[i].path);
	rmdir(folder);
	replay_scripts_free(&scripts);
	arena_free(&arena);
}

static void begin(void)
{
	ck_assert_int_eq(replay_script_ops.comm_begin(&output), 0);
}

static void add(void)
{
	made_row_done(&row);
	row_examine(&row.row, &row.facts);
	ck_assert_int_eq(replay_script_ops.row(&output, &row.row, &row.facts), 0);
}

/* Ends the communicator and compares the script with what it should be, behind its first line. */
static const struct replay_script *end_as(const char *should)
{
	const struct replay_script *script;
	char text[2048] = "", *lines;
	FILE *file;
	size_t n;

	ck_assert_int_eq(replay_script_ops.comm_end(&output), 0);
	script = scripts.scripts.items;
	file = fopen(script->path, "r");
	ck_assert_ptr_nonnull(file);
	n = fread(text, 1, sizeof(text) - 1, file);
	text[n] = '\0';
	fclose(file);
	lines = strchr(text, '\n');
	ck_assert_ptr_nonnull(lines);
	ck_assert_str_eq(lines + 1, should);
	return script;
}

START_TEST(each_rank_computes_from_its_own_end_to_its_own_start)
{
	const struct replay_script *script;

	begin();
	made_row(&row, 1);
	row.ranks[3].record.start_ns += 500;
	row.ranks[1].record.duration_ns = 11000;
	add();
	made_row(&row, 2); /* 20 us after the start of the first */
	row.ranks[2].record.start_ns += 7000;
	add();
	script = end_as("ranks 4\nbegin\n57344 bf16 sum - 0,0,0,500\n"
			"57344 bf16 sum - 10000,9000,17000,9500\nend\n");
	ck_assert_uint_eq(script->calls, 2);
	ck_assert_uint_eq(script->passes, 1);
}
END_TEST

START_TEST(what_a_rank_takes_longer_to_stage_is_computing_too)
{
	begin();
	made_row(&row, 1);
	row.ranks[1].record.staged_ns += 4000;
	add();
	(void)end_as("ranks 4\nbegin\n57344 bf16 sum - 0,4000,0,0\nend\n");
}
END_TEST

START_TEST(marks_flags_types_and_ops_are_kept)
{
	begin();
	for (uint64_t seq = 9; seq <= 12; seq++) {
		made_row(&row, seq);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
			struct call_record *record = &row.ranks[rank].record;

			record->flags = seq == 9    ? CALL_IN_PLACE
					: seq == 10 ? CALL_REGION
						    : CALL_IN_PLACE | CALL_REGION;
			record->dtype = seq == 12 ? BELAY_F32 : BELAY_I8;
			record->op = seq == 12 ? BELAY_MAX : BELAY_SUM;
			record->pass = seq == 12 ? 0 : record->pass;
		}
		add();
	}
	(void)end_as("ranks 4\nbegin\n57344 i8 sum i 0,0,0,0\n"
		     "57344 i8 sum r 10000,10000,10000,10000\nend\n"
		     "begin\n57344 i8 sum ir 10000,10000,10000,10000\nend\n"
		     "57344 f32 max ir 10000,10000,10000,10000\n");
}
END_TEST

static void watch_call(uint64_t seq)
{
	made_row(&row, seq);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
		row.ranks[rank].record.op = BELAY_ALL_GATHER;
		row.ranks[rank].record.flags = CALL_WATCHED;
	}
	add();
}

START_TEST(a_watched_call_is_left_out_and_its_time_stays)
{
	const struct replay_script *script;

	begin();
	watch_call(1);
	made_row(&row, 2);
	add();
	watch_call(3);
	made_row(&row, 4); /* 40 us after the start of the second */
	add();
	script = end_as("ranks 4\nbegin\n57344 bf16 sum - 0,0,0,0\n"
			"57344 bf16 sum - 30000,30000,30000,30000\nend\n");
	ck_assert_uint_eq(script->calls, 2);
	ck_assert_uint_eq(script->watched, 2);
	ck_assert_uint_eq(script->left_out, 0);
}
END_TEST

START_TEST(at_full_speed_there_are_no_gaps)
{
	scripts.at_full_speed = 1;
	scripts.region_buffers = 0;
	begin();
	made_row(&row, 1);
	row.ranks[0].record.flags = CALL_REGION;
	add();
	(void)end_as("ranks 4\nbegin\n57344 bf16 sum - 0\nend\n");
}
END_TEST

START_TEST(a_missing_record_gets_the_median_of_the_others)
{
	const struct replay_script *script;

	begin();
	made_row(&row, 1);
	add();
	made_row(&row, 2);
	row.row.ranks &= ~rank_bit(1);
	row.ranks[0].record.start_ns += 1000;
	row.ranks[2].record.start_ns += 2000;
	row.ranks[3].record.start_ns += 3000;
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.arrival_ns[1] = CALL_ARRIVAL_NONE;
	add();
	made_row(&row, 3); /* its end before is not known: the others' stands in, 1 us too late */
	add();
	script = end_as("ranks 4\nbegin\n57344 bf16 sum - 0,0,0,0\n"
			"57344 bf16 sum - 11000,12000,12000,13000\n"
			"57344 bf16 sum - 9000,7000,8000,7000\nend\n");
	ck_assert_uint_eq(script->gaps_made, 1);
}
END_TEST

START_TEST(a_rank_without_a_log_comes_when_the_others_saw_it)
{
	const struct replay_script *script;

	begin();
	for (uint64_t seq = 1; seq <= 2; seq++) {
		made_row(&row, seq);
		row.row.ranks &= ~rank_bit(3);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
			row.ranks[rank].record.duration_ns = 19000;
			row.ranks[rank].record.arrival_ns[3] = 8000;
		}
		add();
	}
	/* Seen 8 us after the others' start, of which 1 us is the transfer and 1 us staging. */
	script = end_as("ranks 4\nbegin\n57344 bf16 sum - 0,0,0,6000\n"
			"57344 bf16 sum - 1000,1000,1000,7000\nend\n");
	ck_assert_uint_eq(script->gaps_made, 2);
}
END_TEST

START_TEST(a_long_pause_of_all_is_shortened_and_skew_stays)
{
	const struct replay_script *script;

	begin();
	made_row(&row, 1);
	add();
	made_row(&row, 2);
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.start_ns += 3600000000000;
	row.ranks[2].record.start_ns += 7000;
	add();
	script = end_as("ranks 4\nbegin\n57344 bf16 sum - 0,0,0,0\n57344 bf16 sum - "
			"10000000000,10000000000,10000007000,10000000000\nend\n");
	ck_assert_uint_eq(script->pauses_shortened, 1);
}
END_TEST

START_TEST(it_ends_before_a_call_that_failed)
{
	const struct replay_script *script;

	begin();
	made_row(&row, 1);
	add();
	made_row(&row, 2);
	row.ranks[1].record.status = BELAY_E_MISMATCH;
	add();
	made_row(&row, 3);
	add();
	script = end_as("ranks 4\nbegin\n57344 bf16 sum - 0,0,0,0\nend\n");
	ck_assert_uint_eq(script->failed_seq, 2);
	ck_assert_uint_eq(script->calls, 1);
}
END_TEST

START_TEST(calls_that_nobody_recorded_are_counted)
{
	const struct replay_script *script;

	begin();
	made_row(&row, 4); /* what was before is no hole: the log begins here */
	add();
	made_row(&row, 8);
	add();
	ck_assert_int_eq(replay_script_ops.comm_end(&output), 0);
	script = scripts.scripts.items;
	ck_assert_uint_eq(script->left_out, 3);
}
END_TEST

START_TEST(what_no_library_could_call_ends_it_with_the_reason)
{
	const struct replay_script *script;

	begin();
	made_row(&row, 1);
	row.ranks[0].record.dtype = 77;
	add();
	script = end_as("ranks 4\n");
	ck_assert_uint_eq(script->calls, 0);
	ck_assert_ptr_nonnull(script->refused);
	ck_assert_uint_eq(script->refused_seq, 1);
}
END_TEST

START_TEST(a_folder_that_cannot_be_written_is_an_error)
{
	scripts.folder = "/nowhere/at/all";
	ck_assert_int_eq(replay_script_ops.comm_begin(&output), BELAY_E_SYSTEM);
	ck_assert_int_ne(scripts.failed_errno, 0);
	replay_script_ops.close(&output);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("replay_script");
	TCase *c = tcase_create("replay_script");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, each_rank_computes_from_its_own_end_to_its_own_start);
	tcase_add_test(c, what_a_rank_takes_longer_to_stage_is_computing_too);
	tcase_add_test(c, marks_flags_types_and_ops_are_kept);
	tcase_add_test(c, a_watched_call_is_left_out_and_its_time_stays);
	tcase_add_test(c, at_full_speed_there_are_no_gaps);
	tcase_add_test(c, a_missing_record_gets_the_median_of_the_others);
	tcase_add_test(c, a_rank_without_a_log_comes_when_the_others_saw_it);
	tcase_add_test(c, a_long_pause_of_all_is_shortened_and_skew_stays);
	tcase_add_test(c, it_ends_before_a_call_that_failed);
	tcase_add_test(c, calls_that_nobody_recorded_are_counted);
	tcase_add_test(c, what_no_library_could_call_ends_it_with_the_reason);
	tcase_add_test(c, a_folder_that_cannot_be_written_is_an_error);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
