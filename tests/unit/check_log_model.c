/* SPDX-License-Identifier: Apache-2.0 */
/* The made-up recordings keep their own rules: what records say is what was played, read on the
 * clock of each rank, and the same scenario plays the same. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/log_model.h"

#define CALLS_MAX 2000u
#define RANKS_MAX 8u

union told_call {
	struct call_record record;
	unsigned char room[sizeof(struct call_record) + RANKS_MAX * sizeof(uint64_t)];
};

/* All that was told. */
static union told_call calls[RANKS_MAX][CALLS_MAX];
static uint64_t ncalls[RANKS_MAX];
static struct log_truth truths[CALLS_MAX];
static size_t ntruths;
static uint64_t events[EVENT_CLOCK + 1];
static uint64_t hash;

static void add_to_hash(const void *bytes, size_t size)
{
	const unsigned char *in = bytes;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ in[i]) * 0x100000001b3u;
}

static int take_call(void *user, uint32_t rank, const struct call_record *record)
{
	const struct log_scenario *scenario = user;
	size_t bytes = sizeof(*record) + (size_t)scenario->ranks * sizeof(uint64_t);

	if (ncalls[rank] == CALLS_MAX)
		return -1;
	memcpy(&calls[rank][ncalls[rank]++], record, bytes);
	add_to_hash(record, bytes);
	return 0;
}

static int take_event(void *user, uint32_t rank, const struct event_record *event)
{
	(void)user;
	(void)rank;
	events[event->kind]++;
	add_to_hash(event, sizeof(*event));
	return 0;
}

static int take_truth(void *user, const struct log_truth *truth)
{
	(void)user;
	truths[ntruths++] = *truth;
	return 0;
}

static void play(struct log_scenario *scenario, const char *words)
{
	const struct log_sink sink = {scenario, take_call, take_event, take_truth};

	ck_assert_int_eq(log_scenario_set(scenario, words), 0);
	memset(ncalls, 0, sizeof(ncalls));
	memset(events, 0, sizeof(events));
	ntruths = 0;
	hash = 0xcbf29ce484222325u;
	ck_assert_int_eq(log_model_play(scenario, &sink), 0);
}

static int64_t on_clock(struct log_clock clock, uint64_t time_ns)
{
	int64_t since = (int64_t)(time_ns - LOG_MODEL_BEGIN_NS);

	return (int64_t)time_ns + clock.offset_ns + since / 1000 * clock.drift_ppb / 1000000;
}

/* Asserting costs a system call: what is looked at often is counted. */
static uint64_t wrong;
static const char *wrong_first;

static void expect(int right, const char *what)
{
	if (!right && wrong++ == 0)
		wrong_first = what;
}

/* Within what rounding may change. */
static int is_about(int64_t value, int64_t expected)
{
	return llabs(value - expected) <= 4;
}

/* A peer's input is seen not before it was staged, nor before this rank looked, nor after the
 * end. */
static void look_at_arrival(const struct log_scenario *scenario, const union told_call *told,
			    const struct log_truth *truth, uint32_t rank, uint32_t peer)
{
	uint64_t arrival = told->record.arrival_ns[peer];
	int64_t seen = (int64_t)(told->record.start_ns + arrival);

	if (arrival == CALL_ARRIVAL_NONE || peer == rank)
		return;
	expect(seen + 4 > on_clock(log_model_clock(scenario, rank), truth->of[peer].staged_ns),
	       "seen before it was staged");
	expect(arrival >= told->record.staged_ns, "seen before this rank looked");
	if (!(told->record.flags & CALL_RESCUED) && told->record.status == 0)
		expect(arrival <= told->record.duration_ns, "seen after the end");
}

/* A rank's record against the truth of its call and of all others. */
static void look_at(const struct log_scenario *scenario, uint32_t rank, uint64_t i)
{
	const union told_call *told = &calls[rank][i];
	const struct log_truth_rank *own = &truths[i].of[rank];
	struct log_clock clock = log_model_clock(scenario, rank);
	int64_t start = (int64_t)told->record.start_ns;

	expect(told->record.seq == truths[i].seq, "seq");
	expect(is_about(start, on_clock(clock, own->start_ns)), "start");
	expect(is_about(start + told->record.staged_ns, on_clock(clock, own->staged_ns)), "staged");
	expect(is_about(start + (int64_t)told->record.duration_ns, on_clock(clock, own->end_ns)),
	       "end");
	expect(told->record.arrival_ns[rank] == told->record.staged_ns, "own arrival");
	expect(i == 0 || own->start_ns >= truths[i - 1].of[rank].end_ns, "begun before the end");
	for (uint32_t peer = 0; peer < truths[i].nranks; peer++)
		look_at_arrival(scenario, told, &truths[i], rank, peer);
}

START_TEST(records_are_what_was_played)
{
	const struct log_cause *cause = &log_causes[_i];
	struct log_scenario scenario = LOG_SCENARIO_INIT;

	ck_assert_int_eq(log_scenario_set(&scenario, cause->words), 0);
	play(&scenario, "passes=12 digests=1");
	ck_assert_uint_gt(ntruths, 100);
	for (uint32_t rank = 0; rank < (uint32_t)scenario.ranks; rank++) {
		ck_assert_msg(ncalls[rank] + 1 >= ntruths, "%s", cause->name);
		for (uint64_t i = 0; i < ncalls[rank]; i++)
			look_at(&scenario, rank, i);
	}
	ck_assert_msg(wrong == 0, "%s: %llu wrong, the first: %s", cause->name,
		      (unsigned long long)wrong, wrong_first);
}
END_TEST

START_TEST(the_same_scenario_plays_the_same_and_another_seed_does_not)
{
	struct log_scenario scenario = LOG_SCENARIO_INIT;
	uint64_t first;

	play(&scenario, "ranks=4 passes=3");
	first = hash;
	play(&scenario, "ranks=4 passes=3");
	ck_assert_uint_eq(hash, first);
	play(&scenario, "seed=2");
	ck_assert_uint_ne(hash, first);
}
END_TEST

START_TEST(the_last_rank_of_the_truth_is_the_straggler)
{
	struct log_scenario scenario = LOG_SCENARIO_INIT;

	play(&scenario, "ranks=8 passes=16 hiccups=0 straggler=3 straggler_ns=60000 rotate=122");
	ck_assert_uint_eq(ntruths, 16 * 122);
	for (size_t i = 0; i < ntruths; i++)
		expect(truths[i].last_rank == (3 + i / 122) % 8, "last rank");
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(a_dead_rank_makes_no_more_calls_and_the_others_tell)
{
	struct log_scenario scenario = LOG_SCENARIO_INIT;

	play(&scenario, "ranks=4 kill_seq=100 kill_rank=1");
	ck_assert_uint_eq(ncalls[1], 99);
	ck_assert_uint_eq(ncalls[0], 100);
	ck_assert_uint_eq(ntruths, 100);
	ck_assert_uint_eq(truths[99].ranks, 0xd);
	ck_assert_uint_eq(events[EVENT_VERDICT], 3);
	ck_assert_uint_eq(events[EVENT_COMM_DESTROY], 3);
	ck_assert_int_eq(calls[0][99].record.status, BELAY_E_PEER_LOST);
	ck_assert_uint_eq(calls[0][99].record.arrival_ns[1], CALL_ARRIVAL_NONE);
}
END_TEST

START_TEST(words_that_are_no_scenario_are_refused)
{
	static const char *const refused[] = {
		"rank=3", "ranks", "ranks=", "ranks=x", "ranks=3x", "ranks=4 straggler"};
	struct log_scenario scenario = LOG_SCENARIO_INIT;

	ck_assert_int_ne(log_scenario_set(&scenario, refused[_i]), 0);
}
END_TEST

static int count_causes(void)
{
	int n = 0;

	while (log_causes[n].name)
		n++;
	return n;
}

static Suite *suite(void)
{
	Suite *s = suite_create("log model");
	TCase *c = tcase_create("log model");

	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, records_are_what_was_played, 0, count_causes());
	tcase_add_test(c, the_same_scenario_plays_the_same_and_another_seed_does_not);
	tcase_add_test(c, the_last_rank_of_the_truth_is_the_straggler);
	tcase_add_test(c, a_dead_rank_makes_no_more_calls_and_the_others_tell);
	tcase_add_loop_test(c, words_that_are_no_scenario_are_refused, 0, 6);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
