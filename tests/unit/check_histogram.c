/* SPDX-License-Identifier: Apache-2.0 */
/* Quantiles keep the precision that the header promises, over the whole range. */
#include <check.h>

#include "tools/analyze/histogram.h"

static struct histogram histogram;

static void setup(void)
{
	histogram = (struct histogram){0};
}

START_TEST(nothing_gives_zero)
{
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 0);
}
END_TEST

START_TEST(every_magnitude_is_kept_to_0_4_percent)
{
	uint64_t value = (1ull << _i) + (1ull << _i) / 3;

	histogram_add(&histogram, 0);
	histogram_add(&histogram, value);
	histogram_add(&histogram, UINT64_MAX);
	uint64_t found = histogram_quantile(&histogram, 0.5);
	uint64_t error = found > value ? found - value : value - found;

	ck_assert_uint_le(error, value / 250);
	ck_assert_uint_eq(histogram.largest, UINT64_MAX);
}
END_TEST

START_TEST(equal_values_are_exact)
{
	for (int i = 0; i < 1000; i++)
		histogram_add(&histogram, 123456789);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.5), 123456789);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.99), 123456789);
}
END_TEST

START_TEST(quantiles_of_1_to_100_are_their_ranks)
{
	for (uint64_t i = 1; i <= 100; i++)
		histogram_add(&histogram, i);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.50), 50);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.99), 99);
	ck_assert_uint_eq(histogram_quantile(&histogram, 1.00), 100);
	ck_assert_uint_eq(histogram_quantile(&histogram, 0.00), 1);
}
END_TEST

START_TEST(values_above_one_are_counted)
{
	for (uint64_t value = 1; value <= 100; value++)
		histogram_add(&histogram, value);
	ck_assert_uint_eq(histogram_count_above(&histogram, 0), 100);
	ck_assert_uint_eq(histogram_count_above(&histogram, 90), 10);
	ck_assert_uint_eq(histogram_count_above(&histogram, 100), 0);
	ck_assert_uint_eq(histogram_count_above(&histogram, UINT64_MAX), 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("histogram");
	TCase *c = tcase_create("histogram");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_add_test(c, nothing_gives_zero);
	tcase_add_loop_test(c, every_magnitude_is_kept_to_0_4_percent, 0, 63);
	tcase_add_test(c, equal_values_are_exact);
	tcase_add_test(c, quantiles_of_1_to_100_are_their_ranks);
	tcase_add_test(c, values_above_one_are_counted);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
