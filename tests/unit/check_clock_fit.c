/* SPDX-License-Identifier: Apache-2.0 */
/* Which comparisons with the GPU's clock are believed. */
#include <check.h>

#include "runtime/cuda/device_clock.h"

#define MS UINT64_C(1000000)

static struct clock_fit nothing_known(void)
{
	return (struct clock_fit){.error_ns = UINT64_MAX};
}

START_TEST(the_first_comparison_is_taken_whatever_its_error)
{
	struct clock_fit fit = nothing_known();

	ck_assert_int_eq(clock_fit_take(&fit, 500, 1000, 9000), 1);
	ck_assert_uint_eq(fit.error_ns, 4000);
	ck_assert_uint_eq(clock_fit_ns(&fit, 500), 5000);
	ck_assert_uint_eq(clock_fit_ns(&fit, 600), 5100);
	ck_assert_uint_eq(clock_fit_ns(&fit, 400), 4900);
}
END_TEST

START_TEST(a_much_coarser_comparison_is_left_out_while_the_old_one_is_fresh)
{
	struct clock_fit fit = nothing_known();

	ck_assert_int_eq(clock_fit_take(&fit, 0, 1000, 3000), 1);
	ck_assert_int_eq(clock_fit_take(&fit, MS, MS, MS + 2 * MS), 0);
	ck_assert_uint_eq(fit.error_ns, 1000);
}
END_TEST

START_TEST(a_coarser_comparison_is_taken_once_the_old_one_may_have_drifted_further)
{
	struct clock_fit fit = nothing_known();

	ck_assert_int_eq(clock_fit_take(&fit, 0, 1000, 3000), 1);
	ck_assert_int_eq(clock_fit_take(&fit, 10000 * MS, 10000 * MS, 10000 * MS + MS), 1);
	ck_assert_uint_eq(fit.error_ns, MS / 2);
}
END_TEST

START_TEST(the_rate_is_learnt_over_a_baseline_and_never_believed_beyond_a_thousandth)
{
	struct clock_fit fit = nothing_known();

	ck_assert_int_eq(clock_fit_take(&fit, 0, 0, 2), 1);
	ck_assert_int_eq(clock_fit_take(&fit, 50 * MS, 60 * MS, 60 * MS + 2), 1);
	ck_assert(fit.rate == 1.0);
	ck_assert_int_eq(clock_fit_take(&fit, 1050 * MS, 1060 * MS + 10000, 1060 * MS + 10002), 1);
	ck_assert(fit.rate > 1.000009 && fit.rate < 1.000011);
	ck_assert_int_eq(clock_fit_take(&fit, 2050 * MS, 5060 * MS, 5060 * MS + 2), 1);
	ck_assert(fit.rate == 1.001);
}
END_TEST

START_TEST(an_answer_before_its_question_is_refused)
{
	struct clock_fit fit = nothing_known();

	ck_assert_int_eq(clock_fit_take(&fit, 1, 10, 9), 0);
	ck_assert_uint_eq(fit.error_ns, UINT64_MAX);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("clock_fit");
	TCase *c = tcase_create("comparisons");

	tcase_add_test(c, the_first_comparison_is_taken_whatever_its_error);
	tcase_add_test(c, a_much_coarser_comparison_is_left_out_while_the_old_one_is_fresh);
	tcase_add_test(c, a_coarser_comparison_is_taken_once_the_old_one_may_have_drifted_further);
	tcase_add_test(c,
		       the_rate_is_learnt_over_a_baseline_and_never_believed_beyond_a_thousandth);
	tcase_add_test(c, an_answer_before_its_question_is_refused);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
