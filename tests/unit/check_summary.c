/* SPDX-License-Identifier: Apache-2.0 */
/* Known causes in, the same causes out; none invented where there are none. */
#include <check.h>

#include "tests/support/made_calls.h"
#include "tools/analyze/summary.h"
#include "tools/analyze/timeline.h"

static struct summary summary;
static struct arena arena;
static struct made_row row;

static void setup(void)
{
	struct pass_rule rule = {.by = PASS_BY_MARKS};

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

static void add_healthy(uint64_t first, uint64_t last)
{
	for (uint64_t seq = first; seq <= last; seq++) {
		made_row(&row, seq);
		add_row();
	}
}

static void add_event(uint32_t rank, struct event_record event)
{
	ck_assert_int_eq(summary_note_event(&summary, rank, &event), 0);
}

static void finish(void)
{
	ck_assert_int_eq(summary_finish(&summary), 0);
}

START_TEST(a_healthy_recording_has_no_findings)
{
	add_healthy(1, 100);
	finish();
	ck_assert_uint_eq(summary.calls, 100);
	ck_assert_uint_eq(summary.passes.count, 10);
	ck_assert_uint_eq(summary.paths[BELAY_PATH_SYMM], 100);
	ck_assert_uint_eq(histogram_quantile(summary.latency, 0.99), 10000);
	ck_assert_int_eq(summary_has_findings(&summary), 0);
	ck_assert_int_eq(summary_has_losses(&summary), 0);
	for (int rank = 0; rank < 4; rank++)
		ck_assert_uint_eq(summary.late.ranks[rank].calls, 0);
}
END_TEST

START_TEST(latency_is_that_of_the_slowest_rank)
{
	made_row(&row, 1);
	row.ranks[2].record.duration_ns = 55000;
	add_row();
	finish();
	ck_assert_uint_eq(summary.latency->largest, 55000);
}
END_TEST

START_TEST(a_constant_straggler_is_named_with_its_lateness)
{
	struct straggler_run run;

	add_healthy(1, 320);
	for (uint64_t seq = 321; seq <= 640; seq++) {
		made_row(&row, seq);
		row.ranks[3].record.start_ns += 2000;
		add_row();
	}
	finish();
	ck_assert_uint_eq(summary.stragglers.ranks[3].last_calls, 320);
	ck_assert_uint_eq(histogram_quantile(summary.stragglers.ranks[3].lateness, 0.5), 2000);
	stragglers_run(&summary.stragglers, 3, &run);
	ck_assert_uint_eq(run.first_seq, 321);
	ck_assert_uint_eq(run.last_seq, 640);
	ck_assert_int_eq(run.to_the_end, 1);
}
END_TEST

START_TEST(lateness_is_against_the_median_of_the_others)
{
	made_row(&row, 1);
	row.ranks[0].record.staged_ns = 20000;
	row.ranks[1].record.staged_ns = 1000;
	row.ranks[2].record.staged_ns = 9000;
	row.ranks[3].record.staged_ns = 2000;
	for (uint32_t rank = 0; rank < 4; rank++)
		row.ranks[rank].record.duration_ns = 30000;
	add_row();
	ck_assert_int_eq(row.facts.last_rank, 0);
	ck_assert_uint_eq(row.facts.lateness_ns, 18000);
	ck_assert_uint_eq(row.facts.wait_ns, (19000 + 11000 + 18000) / 4);
	/* Of two others the earlier one. */
	made_row(&row, 2);
	row.ranks[0].record.staged_ns = 5000;
	row.ranks[1].record.staged_ns = 2000;
	row.row.nranks = 3;
	row.row.ranks = 0x7;
	made_row_done(&row);
	row_examine(&row.row, &row.facts);
	ck_assert_uint_eq(row.facts.lateness_ns, 4000);
}
END_TEST

START_TEST(a_straggler_is_found_however_long_the_recording)
{
	struct straggler_run run;

	for (uint64_t seq = 1; seq <= 100000; seq++) {
		made_row(&row, seq);
		row.ranks[seq <= 50000 ? seq % 4 : 2].record.start_ns += 500;
		add_row();
	}
	finish();
	stragglers_run(&summary.stragglers, 2, &run);
	/* One stretch of 512 is the precision. */
	ck_assert_uint_ge(run.first_seq, 50000 - 256);
	ck_assert_uint_le(run.first_seq, 50000 + 256);
	stragglers_run(&summary.stragglers, 1, &run);
	ck_assert_uint_eq(run.first_seq, 0);
}
END_TEST

START_TEST(a_rank_whose_record_is_lost_is_judged_by_what_the_others_saw)
{
	/* Rank 0 is seen 5 us after the others. */
	made_row(&row, 1);
	for (uint32_t rank = 1; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.arrival_ns[0] += 5000;
	row.row.ranks &= ~rank_bit(0);
	add_row();
	ck_assert_int_eq(row.facts.last_rank, 0);
	ck_assert_uint_eq(row.facts.lateness_ns, 5000);
	/* Nobody has seen it. */
	made_row(&row, 2);
	for (uint32_t rank = 1; rank < MADE_RANKS; rank++)
		row.ranks[rank].record.arrival_ns[0] = CALL_ARRIVAL_NONE;
	row.row.ranks &= ~rank_bit(0);
	add_row();
	ck_assert_int_eq(row.facts.last_rank, -1);
	/* One record alone. */
	made_row(&row, 3);
	row.row.ranks = rank_bit(2);
	add_row();
	ck_assert_int_eq(row.facts.last_rank, -1);
	finish();
	ck_assert_uint_eq(summary.stragglers.calls, 1);
	ck_assert_uint_eq(summary.calls_partial, 3);
	ck_assert_uint_eq(summary.calls_partial_silent, 2);
	ck_assert_uint_eq(summary.calls, 3);
}
END_TEST

START_TEST(clocks_that_differ_are_not_taken_for_a_straggler)
{
	for (uint64_t seq = 1; seq <= 10; seq++) {
		made_row(&row, seq);
		row.ranks[2].record.start_ns += 11000000000u;
		add_row();
	}
	finish();
	ck_assert_uint_eq(summary.calls_clocks_differ, 10);
	ck_assert_uint_eq(summary.stragglers.calls, 0);
	/* What a rank saw on its own clock still holds: 1 us from its input to the last one. */
	ck_assert_uint_eq(row.facts.wait_ns, 1000);
}
END_TEST

/* Rank 1 waits for rank 2, rank 0 for 1 and 2: the masks name both. */
static void add_chain_of_waits(uint64_t seq)
{
	made_row(&row, seq);
	row.ranks[0].record.flags = CALL_LATE;
	row.ranks[0].record.missing = rank_bit(1) | rank_bit(2);
	row.ranks[0].record.duration_ns = 20000000;
	row.ranks[0].record.arrival_ns[1] = 15001000;
	row.ranks[0].record.arrival_ns[2] = 14001000;
	row.ranks[1].record.flags = CALL_LATE;
	row.ranks[1].record.missing = rank_bit(2);
	row.ranks[1].record.duration_ns = 20000000;
	row.ranks[1].record.arrival_ns[2] = 14501000;
	add_row();
}

START_TEST(without_events_the_masks_name_who_was_late)
{
	add_chain_of_waits(7);
	finish();
	ck_assert_uint_eq(summary.late.ranks[1].calls, 1);
	ck_assert_uint_eq(summary.late.ranks[2].calls, 1);
	ck_assert_uint_eq(summary.late.ranks[2].worst_ns, 14500000);
}
END_TEST

START_TEST(a_rank_late_with_its_part_of_the_result_is_late_by_that)
{
	made_row(&row, 7);
	row.ranks[0].record.flags = CALL_LATE;
	row.ranks[0].record.missing = rank_bit(3);
	row.ranks[0].record.duration_ns = 12002000;
	add_row();
	finish();
	ck_assert_uint_eq(summary.late.ranks[3].worst_ns, 12000000);
}
END_TEST

START_TEST(an_event_names_the_root_alone_whether_it_comes_first_or_last)
{
	struct event_record event = {
		.kind = EVENT_LATE, .seq = 7, .pass = 1, .peer = 2, .duration_ns = 10000000};

	if (_i == 0)
		add_event(0, event);
	add_chain_of_waits(7);
	add_event(1, event);
	if (_i == 1)
		add_event(0, event);
	finish();
	ck_assert_uint_eq(summary.late.ranks[1].calls, 0);
	ck_assert_uint_eq(summary.late.ranks[2].calls, 1);
	ck_assert_uint_eq(summary.late.ranks[2].worst_ns, 14500000);
	ck_assert_uint_eq(summary.late.ranks[2].first_seq, 7);
}
END_TEST

static void add_rescued(uint64_t seq)
{
	made_row(&row, seq);
	for (uint32_t rank = 0; rank < 2; rank++) {
		row.ranks[rank].record.flags = CALL_RESCUED | CALL_LATE;
		row.ranks[rank].record.missing = rank_bit(3);
		row.ranks[rank].record.arrival_ns[3] = CALL_ARRIVAL_NONE;
		row.ranks[rank].record.rescue_path = BELAY_PATH_RING;
		row.ranks[rank].record.rescue_ns = 2000000 + rank;
	}
	add_row();
}

START_TEST(a_lost_write_is_a_rescue_and_nobody_is_late)
{
	struct event_record begin = {.kind = EVENT_RESCUE_BEGIN, .seq = 500, .pass = 50, .peer = 3};
	const struct summary_rescue *one;

	add_rescued(500);
	add_event(0, begin);
	finish();
	ck_assert_uint_eq(summary.rescue_count, 1);
	one = summary.rescues.items;
	ck_assert_uint_eq(one->seq, 500);
	ck_assert_uint_eq(one->pass, 50);
	ck_assert_uint_eq(one->stuck, 3);
	ck_assert_uint_eq(one->lost, rank_bit(3));
	ck_assert_int_eq(one->via, BELAY_PATH_RING);
	ck_assert_uint_eq(one->ns, 2000001);
	ck_assert_uint_eq(summary.late.ranks[3].calls, 0);
	ck_assert_int_eq(summary_has_findings(&summary), 1);
}
END_TEST

START_TEST(a_rescue_that_only_events_tell_of_counts_too)
{
	struct event_record end = {.kind = EVENT_RESCUE_END,
				   .seq = 9,
				   .mask = 4,
				   .duration_ns = 77,
				   .path = BELAY_PATH_RING};
	struct event_record failed = {.kind = EVENT_RESCUE_END, .seq = 10, .mask = 4, .status = -1};
	const struct summary_rescue *one;

	add_event(1, end);
	add_event(1, failed);
	finish();
	ck_assert_uint_eq(summary.rescue_count, 1);
	one = summary.rescues.items;
	ck_assert_uint_eq(one->seq, 9);
	ck_assert_uint_eq(one->stuck, 4);
	ck_assert_uint_eq(one->ns, 77);
}
END_TEST

START_TEST(a_mismatch_is_grouped_by_what_was_called)
{
	const struct summary_mismatch *one;

	made_row(&row, 77);
	for (uint32_t rank = 0; rank < 4; rank++)
		row.ranks[rank].record.status = BELAY_E_MISMATCH;
	row.ranks[1].record.count++;
	add_row();
	finish();
	ck_assert_uint_eq(summary.mismatches.count, 1);
	one = summary.mismatches.items;
	ck_assert_uint_eq(one->signatures.count, 2);
	ck_assert_int_eq(one->signatures.places_differ, 0);
	ck_assert_uint_eq(one->signatures.items[0].ranks, 0xd);
	ck_assert_uint_eq(one->signatures.items[1].ranks, 0x2);
	ck_assert_uint_eq(one->signatures.items[1].count, 57345);
	ck_assert_int_eq(summary.verdict.stands, 1);
	ck_assert_int_eq(summary.verdict.cause, BELAY_CAUSE_MISMATCH);
	ck_assert_int_eq(summary.verdict.rank, -1);
}
END_TEST

START_TEST(a_call_that_was_skipped_shows_by_its_place)
{
	const struct summary_mismatch *one;

	made_row(&row, 77);
	for (uint32_t rank = 0; rank < 4; rank++)
		row.ranks[rank].record.status = BELAY_E_MISMATCH;
	row.ranks[2].record.index++;
	add_row();
	finish();
	one = summary.mismatches.items;
	ck_assert_uint_eq(one->signatures.count, 2);
	ck_assert_int_eq(one->signatures.places_differ, 1);
}
END_TEST

START_TEST(a_digest_outside_the_majority_names_its_rank)
{
	const struct summary_digest *one;

	made_row(&row, 5);
	for (uint32_t rank = 0; rank < 4; rank++) {
		row.ranks[rank].record.flags = CALL_DIGEST;
		row.ranks[rank].record.digest = rank == 0 ? 1 : 2;
	}
	add_row();
	made_row(&row, 6);
	/* A tie of two and two: those that differ from the lowest rank. No digest, no part in
	 * it. */
	for (uint32_t rank = 0; rank < 4; rank++) {
		row.ranks[rank].record.flags = CALL_DIGEST;
		row.ranks[rank].record.digest = rank % 2;
	}
	add_row();
	finish();
	ck_assert_uint_eq(summary.digest_count, 2);
	one = summary.digests.items;
	ck_assert_uint_eq(one[0].ranks, 0x1);
	ck_assert_uint_eq(one[1].ranks, 0xa);
}
END_TEST

START_TEST(a_verdict_comes_from_its_event_and_is_the_same_on_all)
{
	struct event_record event = {.kind = EVENT_VERDICT,
				     .seq = 5000,
				     .pass = 41,
				     .peer = 2,
				     .cause = BELAY_CAUSE_PEER_LOST,
				     .text = "rank 2 died"};

	made_row(&row, 5000);
	row.ranks[0].record.status = BELAY_E_PEER_LOST;
	add_row();
	add_event(0, event);
	add_event(1, event);
	finish();
	ck_assert_int_eq(summary.verdict.from_event, 1);
	ck_assert_uint_eq(summary.verdict.seq, 5000);
	ck_assert_int_eq(summary.verdict.rank, 2);
	ck_assert_uint_eq(summary.verdict.told_by, 3);
	ck_assert_int_eq(summary.verdict.ranks_differ, 0);
	event.seq = 5001;
	add_event(3, event);
	ck_assert_int_eq(summary.verdict.ranks_differ, 1);
}
END_TEST

START_TEST(which_part_of_a_larger_communicator_it_is_comes_from_its_creation)
{
	struct event_record event = {.kind = EVENT_COMM_CREATE, .text = "0.1.0"};

	add_event(0, event);
	ck_assert_str_eq(summary.part, "");
	strcpy(event.text, "0.1.0; ranks 2-3 of 4\033[2J");
	add_event(0, event);
	ck_assert_str_eq(summary.part, "ranks 2-3 of 4?[2J");
	memset(event.text, ';', sizeof(event.text)); /* not terminated */
	add_event(1, event);
	ck_assert_str_eq(summary.part, "ranks 2-3 of 4?[2J");
}
END_TEST

START_TEST(a_rank_without_data_is_a_loss)
{
	summary.present = 0x7;
	add_healthy(1, 10);
	finish();
	ck_assert_int_eq(summary_has_losses(&summary), 1);
	ck_assert_int_eq(summary_has_findings(&summary), 0);
}
END_TEST

static uint64_t random_bits(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int count_items(void *user, const struct timeline_item *item)
{
	size_t *n = user;

	ck_assert_ptr_nonnull(timeline_kind_name(item->kind));
	(*n)++;
	return 0;
}

/* For a sanitizer: whatever stands in a file of the right form, nothing is read or written
 * outside. */
START_TEST(records_of_nonsense_are_survived)
{
	struct timeline timeline;
	size_t items = 0;

	ck_assert_int_eq(timeline_init(&timeline, count_items, &items, &arena), 0);
	for (uint64_t seq = 1; seq <= 3000; seq++) {
		struct event_record event;
		uint64_t *words = (uint64_t *)(void *)&event;

		made_row(&row, seq);
		for (uint32_t rank = 0; rank < MADE_RANKS; rank++) {
			words = (uint64_t *)(void *)&row.ranks[rank];
			for (size_t i = 1; i < MADE_STRIDE / 8; i++)
				words[i] = random_bits() >> random_bits() % 64;
		}
		row.row.ranks = random_bits() % mask_of(MADE_RANKS) + 1;
		add_row();
		ck_assert_int_eq(timeline_note_row(&timeline, &row.row, &row.facts), 0);
		words = (uint64_t *)(void *)&event;
		for (size_t i = 0; i < sizeof(event) / 8; i++)
			words[i] = random_bits() >> random_bits() % 64;
		event.kind = (uint8_t)(random_bits() % 14);
		add_event((uint32_t)(random_bits() % MADE_RANKS), event);
		ck_assert_int_eq(timeline_note_event(&timeline, 0, &event), 0);
	}
	finish();
	ck_assert_int_eq(timeline_finish(&timeline), 0);
	ck_assert_uint_eq(summary.calls, 3000);
	ck_assert_uint_gt(items, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("summary");
	TCase *c = tcase_create("summary");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_healthy_recording_has_no_findings);
	tcase_add_test(c, latency_is_that_of_the_slowest_rank);
	tcase_add_test(c, a_constant_straggler_is_named_with_its_lateness);
	tcase_add_test(c, lateness_is_against_the_median_of_the_others);
	tcase_add_test(c, a_straggler_is_found_however_long_the_recording);
	tcase_add_test(c, a_rank_whose_record_is_lost_is_judged_by_what_the_others_saw);
	tcase_add_test(c, clocks_that_differ_are_not_taken_for_a_straggler);
	tcase_add_test(c, without_events_the_masks_name_who_was_late);
	tcase_add_test(c, a_rank_late_with_its_part_of_the_result_is_late_by_that);
	tcase_add_loop_test(c, an_event_names_the_root_alone_whether_it_comes_first_or_last, 0, 2);
	tcase_add_test(c, a_lost_write_is_a_rescue_and_nobody_is_late);
	tcase_add_test(c, a_rescue_that_only_events_tell_of_counts_too);
	tcase_add_test(c, a_mismatch_is_grouped_by_what_was_called);
	tcase_add_test(c, a_call_that_was_skipped_shows_by_its_place);
	tcase_add_test(c, a_digest_outside_the_majority_names_its_rank);
	tcase_add_test(c, a_verdict_comes_from_its_event_and_is_the_same_on_all);
	tcase_add_test(c, which_part_of_a_larger_communicator_it_is_comes_from_its_creation);
	tcase_add_test(c, a_rank_without_data_is_a_loss);
	tcase_add_test(c, records_of_nonsense_are_survived);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
