/* SPDX-License-Identifier: Apache-2.0 */
/* The breaker: opens, probes, closes, and grows its back-off. */
#include <check.h>

#include "runtime/outcome/breaker.h"

#define MS    UINT64_C(1000000)
#define START (1000 * MS)

static struct breaker breaker;

/* Three rescues within 100 ms; first back-off 50 ms. */
static void setup(void)
{
	breaker_init(&breaker, 3, 100 * MS, 50 * MS);
}

static void open_at(uint64_t now)
{
	ck_assert(!breaker_rescued(&breaker, now - 2));
	ck_assert(!breaker_rescued(&breaker, now - 1));
	ck_assert(breaker_rescued(&breaker, now));
	ck_assert_int_eq(breaker.state, BELAY_BREAKER_OPEN);
}

START_TEST(opens_at_the_configured_number_within_the_window)
{
	open_at(START);
}
END_TEST

START_TEST(stays_closed_when_the_rescues_lie_apart)
{
	for (uint64_t i = 0; i < 50; i++)
		ck_assert(!breaker_rescued(&breaker, START + i * 51 * MS));
	ck_assert_int_eq(breaker.state, BELAY_BREAKER_CLOSED);
}
END_TEST

START_TEST(the_window_includes_its_last_nanosecond)
{
	ck_assert(!breaker_rescued(&breaker, START));
	ck_assert(!breaker_rescued(&breaker, START + 1));
	ck_assert(breaker_rescued(&breaker, START + 100 * MS));
	setup();
	ck_assert(!breaker_rescued(&breaker, START));
	ck_assert(!breaker_rescued(&breaker, START + 1));
	ck_assert(!breaker_rescued(&breaker, START + 100 * MS + 1));
}
END_TEST

START_TEST(probes_once_when_the_back_off_is_over)
{
	open_at(START);
	ck_assert(!breaker_probe_due(&breaker, START + 50 * MS - 1));
	ck_assert(breaker_probe_due(&breaker, START + 50 * MS));
	ck_assert(!breaker_probe_due(&breaker, START + 50 * MS));
	ck_assert_int_eq(breaker.state, BELAY_BREAKER_HALF_OPEN);
}
END_TEST

START_TEST(a_probe_that_all_saw_closes_it)
{
	open_at(START);
	ck_assert(breaker_probe_due(&breaker, START + 50 * MS));
	breaker_probe_ended(&breaker, true, START + 51 * MS);
	ck_assert_int_eq(breaker.state, BELAY_BREAKER_CLOSED);
}
END_TEST

START_TEST(the_back_off_doubles_with_each_missed_probe_up_to_its_bound)
{
	uint64_t now = START, backoff = 50 * MS;

	open_at(now);
	for (int i = 0; i < 12; i++) {
		ck_assert(!breaker_probe_due(&breaker, now + backoff - 1));
		ck_assert(breaker_probe_due(&breaker, now + backoff));
		now += backoff;
		breaker_probe_ended(&breaker, false, now);
		ck_assert_int_eq(breaker.state, BELAY_BREAKER_OPEN);
		if (backoff < 64 * 50 * MS)
			backoff *= 2;
	}
}
END_TEST

START_TEST(opening_again_soon_waits_longer_and_late_waits_short)
{
	open_at(START);
	ck_assert(breaker_probe_due(&breaker, START + 50 * MS));
	breaker_probe_ended(&breaker, true, START + 50 * MS);
	open_at(START + 60 * MS);
	ck_assert(!breaker_probe_due(&breaker, START + 60 * MS + 100 * MS - 1));
	ck_assert(breaker_probe_due(&breaker, START + 60 * MS + 100 * MS));
	breaker_probe_ended(&breaker, true, START + 160 * MS);
	open_at(START + 10000 * MS);
	ck_assert(breaker_probe_due(&breaker, START + 10050 * MS));
}
END_TEST

START_TEST(rescues_do_not_count_while_it_is_open)
{
	open_at(START);
	for (int i = 0; i < 10; i++)
		ck_assert(!breaker_rescued(&breaker, START + 1));
	ck_assert_int_eq(breaker.state, BELAY_BREAKER_OPEN);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("breaker");
	TCase *c = tcase_create("breaker");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_add_test(c, opens_at_the_configured_number_within_the_window);
	tcase_add_test(c, stays_closed_when_the_rescues_lie_apart);
	tcase_add_test(c, the_window_includes_its_last_nanosecond);
	tcase_add_test(c, probes_once_when_the_back_off_is_over);
	tcase_add_test(c, a_probe_that_all_saw_closes_it);
	tcase_add_test(c, the_back_off_doubles_with_each_missed_probe_up_to_its_bound);
	tcase_add_test(c, opening_again_soon_waits_longer_and_late_waits_short);
	tcase_add_test(c, rescues_do_not_count_while_it_is_open);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
