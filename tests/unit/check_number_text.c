/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of settings: what is one and what is none, on both sides of each boundary. */
#include <check.h>
#include <string.h>

#include "runtime/number_text.h"

#define UNTOUCHED 77u
#define HOUR_NS	  UINT64_C(3600000000000)

static const struct {
	const char *text;
	int is_size;
	uint64_t bytes;
} sizes[] = {
	{"0", 1, 0},
	{"4096", 1, 4096},
	{"1K", 1, 1024},
	{"2M", 1, 2u << 20},
	{"17179869183G", 1, UINT64_C(17179869183) << 30},
	{"17179869184G", 0, 0},
	{"18446744073709551615", 1, UINT64_MAX},
	{"18446744073709551616", 0, 0},
	{"", 0, 0},
	{"K", 0, 0},
	{"1k", 0, 0},
	{"1KK", 0, 0},
	{"1.5K", 0, 0},
	{"-1", 0, 0},
	{"+1", 0, 0},
	{" 1", 0, 0},
	{"1 ", 0, 0},
	{"0x10", 0, 0},
};

static const struct {
	const char *text;
	int is_time;
	uint64_t ns;
} times[] = {
	{"10", 1, 10000000},
	{"10.0", 1, 10000000},
	{"0.5", 1, 500000},
	{"0.000001", 1, 1},
	{"0.0000001", 0, 0},
	{"3600000", 1, HOUR_NS},
	{"3600000.000001", 0, 0},
	{"", 0, 0},
	{".", 0, 0},
	{".5", 0, 0},
	{"5.", 0, 0},
	{"5sec", 0, 0},
	{"-1", 0, 0},
	{"1e400", 0, 0},
	{"1e3", 0, 0},
	{"nan", 0, 0},
	{"inf", 0, 0},
	{"1,5", 0, 0},
	{"1.2.3", 0, 0},
	{"18446744073710", 0, 0},
	{"99999999999999999999999", 0, 0},
};

START_TEST(a_size_is_digits_and_one_suffix)
{
	uint64_t bytes = UNTOUCHED;
	int status = number_parse_size(sizes[_i].text, strlen(sizes[_i].text), &bytes);

	ck_assert_msg((status == 0) == sizes[_i].is_size, "'%s'", sizes[_i].text);
	ck_assert_uint_eq(bytes, sizes[_i].is_size ? sizes[_i].bytes : UNTOUCHED);
}
END_TEST

START_TEST(a_time_is_digits_and_one_point)
{
	uint64_t ns = UNTOUCHED;
	int status = number_parse_ms(times[_i].text, strlen(times[_i].text), HOUR_NS, &ns);

	ck_assert_msg((status == 0) == times[_i].is_time, "'%s'", times[_i].text);
	ck_assert_uint_eq(ns, times[_i].is_time ? times[_i].ns : UNTOUCHED);
}
END_TEST

START_TEST(only_the_given_length_is_read)
{
	uint64_t value;

	ck_assert_int_eq(number_parse("123xyz", 3, &value), 0);
	ck_assert_uint_eq(value, 123);
	ck_assert_int_eq(number_parse_ms("1.25/x", 4, UINT64_MAX, &value), 0);
	ck_assert_uint_eq(value, 1250000);
}
END_TEST

START_TEST(formatted_numbers_parse_to_themselves)
{
	static const uint64_t values[] = {0,	   1,	     999,      1023,	     1024,
					  1500000, 10000000, 1u << 30, 123456789012, UINT64_MAX};
	char text[NUMBER_TEXT_MAX];
	uint64_t back;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		number_format_size(values[i], text);
		ck_assert_int_eq(number_parse_size(text, strlen(text), &back), 0);
		ck_assert_uint_eq(back, values[i]);
		number_format_ms(values[i], text);
		ck_assert_int_eq(number_parse_ms(text, strlen(text), UINT64_MAX, &back), 0);
		ck_assert_uint_eq(back, values[i]);
		number_format_s(values[i], text);
		ck_assert_int_eq(number_parse_s(text, strlen(text), UINT64_MAX, &back), 0);
		ck_assert_uint_eq(back, values[i]);
	}
}
END_TEST

START_TEST(formatted_numbers_are_short)
{
	char text[NUMBER_TEXT_MAX];

	ck_assert_str_eq(number_format_size(2u << 20, text), "2M");
	ck_assert_str_eq(number_format_size(0, text), "0");
	ck_assert_str_eq(number_format_size(1025, text), "1025");
	ck_assert_str_eq(number_format_ms(10000000, text), "10");
	ck_assert_str_eq(number_format_ms(10000, text), "0.01");
	ck_assert_str_eq(number_format_ms(100000000, text), "100");
	ck_assert_str_eq(number_format_s(10000000000, text), "10");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("number_text");
	TCase *c = tcase_create("number_text");

	tcase_add_loop_test(c, a_size_is_digits_and_one_suffix, 0,
			    (int)(sizeof(sizes) / sizeof(sizes[0])));
	tcase_add_loop_test(c, a_time_is_digits_and_one_point, 0,
			    (int)(sizeof(times) / sizeof(times[0])));
	tcase_add_test(c, only_the_given_length_is_read);
	tcase_add_test(c, formatted_numbers_parse_to_themselves);
	tcase_add_test(c, formatted_numbers_are_short);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
