/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers as people read them. */
#include <check.h>
#include <string.h>

#include "tools/analyze/words.h"

static const struct {
	uint64_t mask;
	const char *text;
} masks[] = {
	{0, "none"},	 {0x1, "0"},	       {0x3, "0,1"},	   {0x7, "0-2"},
	{0x2f, "0-3,5"}, {UINT64_MAX, "0-63"}, {1ull << 63, "63"}, {0xe000000000000000u, "61-63"},
};

START_TEST(ranks_are_joined_to_ranges)
{
	char text[WORDS_RANKS_BYTES];

	ck_assert_str_eq(words_ranks(masks[_i].mask, text), masks[_i].text);
}
END_TEST

START_TEST(the_longest_list_of_ranks_fits)
{
	char text[WORDS_RANKS_BYTES];

	ck_assert_uint_lt(strlen(words_ranks(0xdb6db6db6db6db6du, text)), WORDS_RANKS_BYTES - 1);
	ck_assert_str_eq(text + strlen(text) - 3, ",63");
}
END_TEST

static const struct {
	uint64_t ns;
	const char *text;
} times[] = {
	{0, "0 ns"},	       {999, "999 ns"},	       {1000, "1.00 us"},
	{31234, "31.2 us"},    {999999, "1000 us"},    {1000000, "1.00 ms"},
	{12345678, "12.3 ms"}, {1000000000, "1.00 s"}, {123456789012, "123 s"},
};

START_TEST(times_have_the_unit_that_fits)
{
	char text[WORDS_TIME_BYTES];

	ck_assert_str_eq(words_time(times[_i].ns, text), times[_i].text);
}
END_TEST

START_TEST(what_a_newer_version_has_recorded_is_shown_by_its_number)
{
	char text[WORDS_NAME_BYTES];

	ck_assert_str_eq(words_op(2, text), "max");
	ck_assert_str_eq(words_op(17, text), "reduce-scatter");
	ck_assert_str_eq(words_op(99, text), "99");
	ck_assert_str_eq(words_dtype(12, text), "f8e5m2");
	ck_assert_str_eq(words_dtype(255, text), "255");
	ck_assert_str_eq(words_collective(5, text), "allreduce");
	ck_assert_str_eq(words_collective(20, text), "alltoall");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("words");
	TCase *c = tcase_create("words");

	tcase_add_loop_test(c, ranks_are_joined_to_ranges, 0,
			    (int)(sizeof(masks) / sizeof(masks[0])));
	tcase_add_test(c, the_longest_list_of_ranks_fits);
	tcase_add_loop_test(c, times_have_the_unit_that_fits, 0,
			    (int)(sizeof(times) / sizeof(times[0])));
	tcase_add_test(c, what_a_newer_version_has_recorded_is_shown_by_its_number);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
