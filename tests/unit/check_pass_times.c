/* SPDX-License-Identifier: Apache-2.0 */
/* Which passes are slow: more than half as long again as the median of their kind. */
#include <check.h>

#include "tools/analyze/pass_times.h"

static struct arena arena;
static struct pass_times times;
static struct slow_pass slowest[PASS_TIMES_SLOWEST];
static size_t nslowest;

static void setup(void)
{
	pass_times_init(&times, &arena);
}

static void teardown(void)
{
	arena_free(&arena);
}

/* A whole pass of so many calls and bytes. Returns its kind. */
static size_t feed(uint64_t number, uint64_t calls, uint64_t bytes, uint64_t duration_ns)
{
	struct pass_facts pass = {.pass = number,
				  .first_seq = (number - 1) * calls + 1,
				  .last_seq = number * calls,
				  .start_ns = number * 1000000,
				  .end_ns = number * 1000000 + duration_ns,
				  .bytes = bytes,
				  .whole = 1};

	ck_assert_int_eq(pass_times_note(&times, &pass, 4), 0);
	return pass_times_kind(&times, &pass);
}

static uint64_t slow_count(void)
{
	return pass_times_slow(&times, slowest, &nslowest);
}

START_TEST(one_of_many_is_found)
{
	for (uint64_t i = 1; i <= 5000; i++)
		feed(i, 10, 1000, i == 3333 ? 90000 : 30000 + i % 100);
	ck_assert_uint_eq(slow_count(), 1);
	ck_assert_uint_eq(nslowest, 1);
	ck_assert_uint_eq(slowest[0].pass, 3333);
	ck_assert_uint_eq(slowest[0].start_ns, 3333000000);
	ck_assert_uint_eq(slowest[0].last_seq, 33330);
}
END_TEST

START_TEST(half_as_long_again_is_not_more_than_that)
{
	for (uint64_t i = 1; i <= 20; i++)
		feed(i, 10, 1000, 100);
	feed(21, 10, 1000, 150);
	ck_assert_uint_eq(slow_count(), 0);
	feed(22, 10, 1000, 151);
	ck_assert_uint_eq(slow_count(), 1);
}
END_TEST

START_TEST(passes_are_compared_with_their_kind_only)
{
	/* Long passes of 100 calls are no slow ones of 10; one of 10 is slow, and worse in
	 * proportion than one of 100. */
	for (uint64_t i = 1; i <= 40; i++)
		ck_assert_uint_eq(feed(i, i % 2 ? 10 : 100, 1000, i % 2 ? 1000 : 50000),
				  i % 2 ? 0 : 1);
	feed(41, 10, 1000, 3000);
	feed(42, 100, 1000, 100000);
	ck_assert_uint_eq(slow_count(), 2);
	ck_assert_uint_eq(slowest[0].pass, 41);
	ck_assert_uint_eq(slowest[1].pass, 42);
}
END_TEST

START_TEST(larger_passes_of_as_many_calls_are_of_another_kind)
{
	for (uint64_t i = 1; i <= 40; i++)
		feed(i, 10, i % 2 ? 1000 : 100000, i % 2 ? 1000 : 50000);
	ck_assert_uint_eq(times.nkinds, 2);
	ck_assert_uint_eq(slow_count(), 0);
}
END_TEST

START_TEST(too_few_of_a_kind_are_not_judged)
{
	for (uint64_t i = 1; i <= 3; i++)
		feed(i, 10, 1000, 100);
	feed(4, 10, 1000, 900);
	ck_assert_uint_eq(slow_count(), 0);
	ck_assert_uint_eq(pass_kind_slow_above(&times.kinds[0]), UINT64_MAX);
	feed(5, 10, 1000, 100);
	ck_assert_uint_eq(slow_count(), 1);
	ck_assert_uint_eq(pass_kind_slow_above(&times.kinds[0]), 150);
}
END_TEST

START_TEST(more_kinds_than_can_be_told_share_the_last)
{
	for (uint64_t i = 1; i <= 3 * PASS_TIMES_KINDS; i++)
		ck_assert_uint_eq(feed(i, 10 + i, 1000, 1000),
				  i < PASS_TIMES_KINDS ? i - 1 : PASS_TIMES_KINDS - 1);
	ck_assert_uint_eq(times.nkinds, PASS_TIMES_KINDS);
	ck_assert_uint_eq(times.kinds[PASS_TIMES_KINDS - 1].ns->count, 2 * PASS_TIMES_KINDS + 1);
}
END_TEST

START_TEST(a_pass_that_is_cut_is_of_no_kind)
{
	struct pass_facts pass = {.pass = 1, .first_seq = 5, .last_seq = 10, .end_ns = 9};

	ck_assert_int_eq(pass_times_note(&times, &pass, 4), 0);
	ck_assert_uint_eq(times.nkinds, 0);
	ck_assert_uint_eq(pass_times_kind(&times, &pass), PASS_TIMES_KINDS);
	feed(2, 6, 0, 9);
	ck_assert_uint_eq(pass_times_kind(&times, &pass), PASS_TIMES_KINDS);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("pass_times");
	TCase *c = tcase_create("pass_times");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, one_of_many_is_found);
	tcase_add_test(c, half_as_long_again_is_not_more_than_that);
	tcase_add_test(c, passes_are_compared_with_their_kind_only);
	tcase_add_test(c, larger_passes_of_as_many_calls_are_of_another_kind);
	tcase_add_test(c, too_few_of_a_kind_are_not_judged);
	tcase_add_test(c, more_kinds_than_can_be_told_share_the_last);
	tcase_add_test(c, a_pass_that_is_cut_is_of_no_kind);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
