/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options: what is accepted, what is refused, and outputs untouched on refusal. */
#include <check.h>

#include "tools/command_line.h"

#define REFUSED 424242u

static const struct {
	const char *text;
	uint64_t value;
} sizes[] = {
	{"0", 0},
	{"14336", 14336},
	{"1K", 1024},
	{"2m", 2097152},
	{"18446744073709551615", UINT64_MAX},
	{"18446744073709551616", REFUSED},
	{"18014398509481984K", REFUSED},
	{"", REFUSED},
	{"K", REFUSED},
	{"1KK", REFUSED},
	{"1G", REFUSED},
	{"-1", REFUSED},
	{" 1", REFUSED},
	{"1 ", REFUSED},
};

START_TEST(a_size_is_digits_and_perhaps_k_or_m)
{
	uint64_t value = REFUSED;
	int status = command_parse_size(sizes[_i].text, &value);

	ck_assert_msg(value == sizes[_i].value, "'%s'", sizes[_i].text);
	ck_assert_int_eq(status, sizes[_i].value == REFUSED ? -1 : 0);
}
END_TEST

START_TEST(a_number_takes_no_unit)
{
	uint64_t value = REFUSED;

	ck_assert_int_eq(command_parse_number("1K", &value), -1);
	ck_assert_uint_eq(value, REFUSED);
	ck_assert_int_eq(command_parse_number("17", &value), 0);
	ck_assert_uint_eq(value, 17);
}
END_TEST

START_TEST(a_format_is_text_or_json)
{
	enum command_format format = COMMAND_TEXT;

	ck_assert_int_eq(command_parse_format("json", &format), 0);
	ck_assert_int_eq(format, COMMAND_JSON);
	ck_assert_int_eq(command_parse_format("JSON", &format), -1);
	ck_assert_int_eq(format, COMMAND_JSON);
}
END_TEST

START_TEST(output_that_was_not_written_is_status_4)
{
	FILE *full = fopen("/dev/full", "w");

	ck_assert_ptr_nonnull(full);
	fputs("text", full);
	ck_assert_int_eq(command_finish(full, "/dev/full", 1), COMMAND_NOT_WRITTEN);
	fclose(full);
	ck_assert_int_eq(command_finish(stdout, "standard output", 1), 1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("command_line");
	TCase *c = tcase_create("command_line");

	tcase_add_loop_test(c, a_size_is_digits_and_perhaps_k_or_m, 0,
			    (int)(sizeof(sizes) / sizeof(sizes[0])));
	tcase_add_test(c, a_number_takes_no_unit);
	tcase_add_test(c, a_format_is_text_or_json);
	tcase_add_test(c, output_that_was_not_written_is_status_4);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
