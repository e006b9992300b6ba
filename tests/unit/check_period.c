/* SPDX-License-Identifier: Apache-2.0 */
/* Passes without marks: what repeats is found, in noise too, breaks are named, and where nothing
 * repeats nothing is found. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tools/analyze/pass_pause.h"
#include "tools/analyze/pass_rule.h"

#define CALLS_MAX 400000u
#define FIRST_SEQ 100u

/* Calls being made up. */
static uint64_t calls[CALLS_MAX];
static size_t ncalls;
static uint64_t random_state;

/* What the follower makes of them. */
static struct arena arena;
static struct period_follower follower;
static struct pass_rule rule;

static uint64_t next_random(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15u;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static void begin(uint64_t seed)
{
	ncalls = 0;
	random_state = seed;
	memset(&arena, 0, sizeof(arena));
}

static void add(uint64_t signature)
{
	if (ncalls == CALLS_MAX)
		ck_abort_msg("no room for more calls");
	calls[ncalls++] = signature;
}

/* A pass of two sizes in turn and another at its end. */
static void add_layers(size_t period, size_t passes)
{
	for (size_t i = 0; i < passes * period; i++)
		add(i % period == period - 1 ? 7 : 1 + (i % period & 1));
}

/* One call in `every` gets another signature. */
static void add_noise(size_t every)
{
	for (size_t i = 0; i < ncalls; i++) {
		if (next_random() % every == 0)
			calls[i] = 1000 + next_random() % 3;
	}
}

static void follow_but(size_t hole_from, size_t hole_until)
{
	ck_assert_int_eq(period_follow_init(&follower, &arena), 0);
	for (size_t i = 0; i < ncalls; i++) {
		if (i < hole_from || i >= hole_until)
			period_follow_call(&follower, FIRST_SEQ + i, calls[i]);
	}
	period_follow_finish(&follower);
	pass_rule_from(&follower, &rule);
}

static void follow_all(void)
{
	follow_but(0, 0);
}

static void end(void)
{
	arena_free(&arena);
}

static uint64_t pass_of(size_t call)
{
	const struct call_row row = {.seq = FIRST_SEQ + call};

	return pass_rule_apply(&rule, &row);
}

static uint64_t index_of(size_t call)
{
	const struct call_row row = {.seq = FIRST_SEQ + call};

	return pass_rule_index(&rule, &row);
}

static const struct {
	const char *rule;
	const char *calls;
	enum pass_by by;
	uint64_t first_seq;
	uint64_t period;
} repetitions[] = {
	{"two sizes in turn", "abababab", PASS_BY_PERIOD, 100, 2},
	{"a cut at the end", "abcabcabca", PASS_BY_PERIOD, 100, 3},
	{"the shortest wins", "aabaabaabaab", PASS_BY_PERIOD, 100, 3},
	{"all alike", "aaaaaaaa", PASS_BY_NOTHING, 0, 0},
	{"nothing repeats", "abcdefgh", PASS_BY_NOTHING, 0, 0},
	{"once is no repetition", "abcdabc", PASS_BY_NOTHING, 0, 0},
	{"a warm-up of its own", "xyzabababababab", PASS_BY_PERIOD, 103, 2},
	{"too short to tell", "aba", PASS_BY_NOTHING, 0, 0},
	{"no calls", "", PASS_BY_NOTHING, 0, 0},
};

START_TEST(without_marks_what_repeats_is_a_pass)
{
	begin(1);
	for (const char *call = repetitions[_i].calls; *call; call++)
		add((uint64_t)*call);
	follow_all();
	ck_assert_msg(rule.by == repetitions[_i].by, "%s", repetitions[_i].rule);
	ck_assert_msg(rule.period == repetitions[_i].period, "%s", repetitions[_i].rule);
	ck_assert_msg(rule.first_seq == repetitions[_i].first_seq, "%s", repetitions[_i].rule);
	end();
}
END_TEST

static const size_t periods[] = {2, 3, 7, 61, 122, 123, 245, 1000, 3001};
#define PERIODS ((int)(sizeof(periods) / sizeof(periods[0])))

START_TEST(the_right_period_is_found_without_noise)
{
	size_t period = periods[_i];

	begin(2);
	add_layers(period, 10);
	follow_all();
	ck_assert_uint_eq(rule.period, period);
	ck_assert_uint_eq(rule.first_seq, FIRST_SEQ);
	ck_assert_uint_eq(pass_rule_breaks(&rule), 0);
	ck_assert_uint_eq(pass_of(0), 1);
	ck_assert_uint_eq(pass_of(10 * period - 1), 10);
	ck_assert_uint_eq(index_of(10 * period - 1), period - 1);
	ck_assert(pass_rule_sureness(&rule) == 1.0);
	end();
}
END_TEST

/* Seeds 1 to 7, each with another period and more noise. */
START_TEST(the_right_period_is_found_in_noise)
{
	size_t period = 20 + 27 * (size_t)_i, every = 1000 / (1 + (size_t)_i % 8);

	begin((uint64_t)_i);
	add_layers(period, 200);
	add_noise(every);
	follow_all();
	ck_assert_uint_eq(rule.period, period);
	ck_assert_uint_eq(pass_rule_breaks(&rule), 0);
	ck_assert_uint_eq((rule.first_seq - FIRST_SEQ) % period, 0);
	ck_assert(pass_rule_sureness(&rule) > 0.98 && pass_rule_sureness(&rule) < 1.0);
	/* How many were unlike is told exactly where all calls are in passes. */
	if (rule.inside == ncalls) {
		uint64_t unlike = 0;

		for (size_t i = 0; i < ncalls; i++)
			unlike += calls[i] >= 1000;
		ck_assert_uint_eq(rule.unlike, unlike);
	}
	end();
}
END_TEST

START_TEST(sizes_of_any_kind_may_repeat)
{
	uint64_t sizes[300];
	size_t period = 2 + (size_t)_i * 29;

	begin(40 + (uint64_t)_i);
	sizes[0] = 99;
	for (size_t i = 1; i < period; i++)
		sizes[i] = next_random() % 5;
	for (size_t i = 0; i < 100 * period; i++)
		add(sizes[i % period]);
	add_noise(2000);
	follow_all();
	ck_assert_uint_eq(rule.period, period);
	end();
}
END_TEST

/* Of 2 to 17 sizes, in lists of any length: what repeats there is chance. */
START_TEST(there_is_no_period_in_random_calls)
{
	begin(500 + (uint64_t)_i);
	for (size_t i = 0; i < 50 + 2197 * (size_t)_i; i++)
		add(next_random() % (2 + (uint64_t)_i % 16));
	follow_all();
	ck_assert_msg(rule.by == PASS_BY_NOTHING, "seed %d: period %llu", 500 + _i,
		      (unsigned long long)rule.period);
	end();
}
END_TEST

START_TEST(there_is_no_period_in_like_calls_with_noise)
{
	begin(700 + (uint64_t)_i);
	for (size_t i = 0; i < 300 + 2197 * (size_t)_i; i++)
		add(5);
	add_noise(20 + 50 * (size_t)_i);
	follow_all();
	ck_assert_msg(rule.by == PASS_BY_NOTHING, "seed %d: period %llu", 700 + _i,
		      (unsigned long long)rule.period);
	end();
}
END_TEST

/* Few odd ones among few like ones: any distance between two of them comes again by chance. */
START_TEST(there_is_no_period_in_short_lists_with_a_little_noise)
{
	for (uint64_t seed = 0; seed < 150; seed++) {
		begin(10000 * (uint64_t)_i + seed);
		for (size_t i = 0; i < 64 + seed; i++)
			add(5);
		for (size_t odd = 0; odd < 2 + seed % 5; odd++)
			calls[next_random() % ncalls] = 6;
		follow_all();
		ck_assert_msg(rule.by == PASS_BY_NOTHING || rule.period > ncalls / 2,
			      "seed %llu: period %llu", (unsigned long long)seed,
			      (unsigned long long)rule.period);
		end();
	}
}
END_TEST

/* Nine of ten are alike: most calls are like those at any distance. */
START_TEST(there_is_no_period_in_calls_that_are_mostly_alike)
{
	begin(900 + (uint64_t)_i);
	for (size_t i = 0; i < 500 + 3000 * (size_t)_i; i++)
		add(next_random() % 10 ? 1 : 2 + next_random() % 3);
	follow_all();
	ck_assert_msg(rule.by == PASS_BY_NOTHING, "seed %d: period %llu", 900 + _i,
		      (unsigned long long)rule.period);
	end();
}
END_TEST

/* Calls put in between passes, or missing from one: where, and where it goes on. */
static const struct {
	const char *what;
	size_t passes_before;
	size_t cut;   /* calls that the last pass before lacks */
	size_t added; /* calls of another size */
} breaks[] = {
	{"seven calls between passes", 30, 0, 7}, {"one call between passes", 30, 0, 1},
	{"two calls between passes", 30, 0, 2},	  {"a pass cut by five", 30, 5, 0},
	{"a pass cut by four", 30, 4, 0},	  {"a pass cut by one", 30, 1, 0},
	{"cut, and others", 30, 50, 20},	  {"soon after the start", 3, 0, 9},
	{"very many calls between", 30, 0, 2000}, {"late in a long recording", 500, 0, 3},
	{"a pass cut in a long one", 500, 60, 0}, {"as many calls as a pass", 30, 0, 122},
};

START_TEST(a_break_is_named_with_where_it_goes_on)
{
	size_t before = 122 * breaks[_i].passes_before - breaks[_i].cut;
	size_t after = before + breaks[_i].added;
	struct pass_break broken;

	begin(3);
	add_layers(122, breaks[_i].passes_before);
	ncalls = before;
	for (size_t i = 0; i < breaks[_i].added; i++)
		add(50);
	add_layers(122, 40);
	follow_all();
	ck_assert_msg(rule.period == 122, "%s: %llu", breaks[_i].what,
		      (unsigned long long)rule.period);
	ck_assert_msg(pass_rule_breaks(&rule) == 1, "%s: %zu breaks", breaks[_i].what,
		      pass_rule_breaks(&rule));
	pass_rule_break(&rule, 0, &broken);
	ck_assert_msg(broken.seq == FIRST_SEQ + before, "%s: at call %lld of %zu", breaks[_i].what,
		      (long long)broken.seq - FIRST_SEQ, before);
	ck_assert_msg(broken.until == FIRST_SEQ + after, "%s: until call %lld of %zu",
		      breaks[_i].what, (long long)broken.until - FIRST_SEQ, after);
	ck_assert_uint_eq(broken.calls, 122);
	ck_assert_uint_eq(pass_of(after), breaks[_i].passes_before + 1);
	ck_assert_uint_eq(index_of(after), 0);
	if (breaks[_i].added)
		ck_assert_uint_eq(pass_of(before), 0);
	end();
}
END_TEST

START_TEST(another_period_after_a_break_is_found)
{
	struct pass_break broken;

	begin(4);
	add_layers(122, 60);
	add_layers(100, 60);
	follow_all();
	ck_assert_uint_eq(rule.period, 122);
	ck_assert_uint_eq(pass_rule_breaks(&rule), 1);
	pass_rule_break(&rule, 0, &broken);
	/* Up to its last call the first pass of the new kind is like one of the old. */
	ck_assert_uint_eq(broken.seq, FIRST_SEQ + 60 * 122 + 99);
	ck_assert_uint_eq(broken.calls, 100);
	ck_assert_uint_eq(broken.until, FIRST_SEQ + 60 * 122 + 100);
	ck_assert_uint_eq(pass_rule_calls(&rule, FIRST_SEQ + 60 * 122 + 300), 100);
	end();
}
END_TEST

START_TEST(a_period_that_ends_for_good_is_told)
{
	struct pass_break broken;

	begin(5);
	add_layers(122, 300);
	for (size_t i = 0; i < 50000; i++)
		add(100 + next_random() % 9);
	follow_all();
	ck_assert_uint_eq(rule.period, 122);
	ck_assert_uint_eq(pass_rule_breaks(&rule), 1);
	pass_rule_break(&rule, 0, &broken);
	ck_assert_uint_eq(broken.seq, FIRST_SEQ + 300 * 122);
	ck_assert_uint_eq(broken.until, 0);
	ck_assert_uint_eq(pass_of(ncalls - 1), 0);
	end();
}
END_TEST

START_TEST(a_period_is_found_after_a_long_time_without)
{
	begin(6);
	for (size_t i = 0; i < 150000; i++)
		add(100 + next_random() % 9);
	add_layers(122, 1000);
	follow_all();
	ck_assert_uint_eq(rule.period, 122);
	ck_assert_uint_gt(rule.inside, 20000);
	end();
}
END_TEST

START_TEST(each_pass_may_have_a_size_of_its_own)
{
	begin(7);
	for (size_t pass = 0; pass < 100; pass++) {
		uint64_t size = next_random() % 16;

		for (size_t i = 0; i < 122; i++)
			add(size);
		if (pass == 49)
			add(77), add(77), add(77);
	}
	add_noise(3000);
	follow_all();
	ck_assert_int_eq(rule.kind, PERIOD_ALIKE);
	ck_assert_uint_eq(rule.period, 122);
	ck_assert_uint_eq(pass_rule_breaks(&rule), 1);
	ck_assert_uint_eq(index_of(ncalls - 1), 121);
	ck_assert_uint_eq(pass_of(ncalls - 1), 100);
	end();
}
END_TEST

START_TEST(lost_records_do_not_put_it_out_of_step)
{
	begin(8);
	add_layers(122, 100);
	follow_but(5000, 5000 + 300 * (size_t)_i);
	ck_assert_uint_eq(rule.period, 122);
	ck_assert_uint_eq(rule.nstretches, 1);
	ck_assert_uint_eq(index_of(ncalls - 1), 121);
	end();
}
END_TEST

START_TEST(a_recording_may_begin_within_a_pass)
{
	begin(9);
	add_layers(122, 50);
	memmove(calls, calls + 40, (ncalls - 40) * sizeof(calls[0]));
	ncalls -= 40;
	follow_all();
	ck_assert_uint_eq(rule.period, 122);
	ck_assert_uint_eq(pass_rule_breaks(&rule), 0);
	end();
}
END_TEST

/* Calls that are all alike, of 10 us, with pauses of 100 us and, where `long_every` says so, 1 ms.
 */
static void add_paused(size_t n, size_t long_every, size_t first_long)
{
	static struct histogram histogram;
	struct pass_pauses pauses = {.ns = &histogram};
	uint64_t time_ns = 0;

	memset(&histogram, 0, sizeof(histogram));
	for (int run = 0; run < 2; run++) {
		for (size_t i = 0; i < n; i++) {
			struct call_record record = {
				.seq = 1 + i, .count = 5, .duration_ns = 10000};
			int is_long = long_every && i % long_every == first_long;

			time_ns += is_long ? 1000000 : 90000 + next_random() % 20000;
			record.start_ns = time_ns;
			time_ns += record.duration_ns;
			if (run == 0)
				pass_pause_note(&pauses, &record);
			else
				add(pass_pause_signature(&pauses, &record));
		}
		if (run == 0)
			ck_assert_int_eq(pass_pause_judge(&pauses), long_every != 0);
	}
}

/* Of the very first call no pause is known, whichever it is. */
START_TEST(a_pause_before_each_pass_shows_it_where_calls_are_alike)
{
	static const size_t first_long[] = {0, 1, 60, 121};

	begin(11);
	add_paused(20 * 122, 122, first_long[_i]);
	ck_assert_int_eq(period_follow_init(&follower, &arena), 0);
	period_follow_restart(&follower, PASS_PAUSE_BIT);
	for (size_t i = 0; i < ncalls; i++)
		period_follow_call(&follower, FIRST_SEQ + i, calls[i]);
	period_follow_finish(&follower);
	pass_rule_from(&follower, &rule);
	ck_assert_uint_eq(rule.period, 122);
	ck_assert_uint_eq(rule.first_seq, FIRST_SEQ + first_long[_i]);
	ck_assert_uint_eq(pass_rule_breaks(&rule), 0);
	end();
}
END_TEST

START_TEST(pauses_that_are_all_alike_show_none)
{
	begin(12);
	add_paused(3000, 0, 0);
	follow_all();
	ck_assert_int_eq(rule.by, PASS_BY_NOTHING);
	end();
}
END_TEST

/* Neither does a pause count whose beginning is not known. */
START_TEST(a_pause_over_lost_records_is_none)
{
	static struct histogram histogram;
	struct pass_pauses pauses = {.ns = &histogram, .long_ns = 1000};
	struct call_record record = {.seq = 5, .start_ns = 1000000, .duration_ns = 10000};

	memset(&histogram, 0, sizeof(histogram));
	ck_assert_uint_eq(pass_pause_signature(&pauses, &record) & PASS_PAUSE_BIT, 0);
	record.seq = 7;
	record.start_ns += 500000;
	ck_assert_uint_eq(pass_pause_signature(&pauses, &record) & PASS_PAUSE_BIT, 0);
	record.seq = 8;
	record.start_ns += 500000;
	ck_assert_uint_ne(pass_pause_signature(&pauses, &record) & PASS_PAUSE_BIT, 0);
	record.seq = 9;
	record.start_ns += 5000; /* before the end of the last: another clock */
	ck_assert_uint_eq(pass_pause_signature(&pauses, &record) & PASS_PAUSE_BIT, 0);
}
END_TEST

START_TEST(breaks_without_end_are_cut_off)
{
	begin(10);
	for (size_t i = 0; i < PERIOD_STRETCHES_MAX + 200; i++) {
		add_layers(11, 3);
		for (size_t odd = 0; odd < 5; odd++)
			add(50 + next_random() % 9);
	}
	follow_all();
	ck_assert_uint_le(rule.nstretches, PERIOD_STRETCHES_MAX);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("period");
	TCase *c = tcase_create("period");

	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, without_marks_what_repeats_is_a_pass, 0,
			    (int)(sizeof(repetitions) / sizeof(repetitions[0])));
	tcase_add_loop_test(c, the_right_period_is_found_without_noise, 0, PERIODS);
	tcase_add_loop_test(c, the_right_period_is_found_in_noise, 1, 8);
	tcase_add_loop_test(c, sizes_of_any_kind_may_repeat, 0, 8);
	tcase_add_loop_test(c, there_is_no_period_in_random_calls, 0, 9);
	tcase_add_loop_test(c, there_is_no_period_in_like_calls_with_noise, 0, 5);
	tcase_add_test(c, there_is_no_period_in_short_lists_with_a_little_noise);
	tcase_add_loop_test(c, there_is_no_period_in_calls_that_are_mostly_alike, 0, 4);
	tcase_add_loop_test(c, a_break_is_named_with_where_it_goes_on, 0,
			    (int)(sizeof(breaks) / sizeof(breaks[0])));
	tcase_add_test(c, another_period_after_a_break_is_found);
	tcase_add_test(c, a_period_that_ends_for_good_is_told);
	tcase_add_test(c, a_period_is_found_after_a_long_time_without);
	tcase_add_test(c, each_pass_may_have_a_size_of_its_own);
	tcase_add_loop_test(c, lost_records_do_not_put_it_out_of_step, 0, 4);
	tcase_add_test(c, a_recording_may_begin_within_a_pass);
	tcase_add_loop_test(c, a_pause_before_each_pass_shows_it_where_calls_are_alike, 0, 4);
	tcase_add_test(c, pauses_that_are_all_alike_show_none);
	tcase_add_test(c, a_pause_over_lost_records_is_none);
	tcase_add_test(c, breaks_without_end_are_cut_off);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
