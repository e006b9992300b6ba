/* SPDX-License-Identifier: Apache-2.0 */
/* The report's text is text, whatever its bytes; its axes hold what is drawn on them. */
#include <check.h>
#include <stdlib.h>

#include "tools/analyze/html_text.h"
#include "tools/analyze/report_scale.h"

static const struct {
	const char *text, *html, *json;
} rows[] = {
	{"plain", "plain", "plain"},
	{"", "", ""},
	{"<b>&\"'", "&lt;b&gt;&amp;&quot;&#39;", "\\u003cb\\u003e\\u0026\\u0022'"},
	{"</script>", "&lt;/script&gt;", "\\u003c/script\\u003e"},
	{"a\\b\n\t", "a\\b\n\t", "a\\u005cb\\u000a\\u0009"},
	{"\x01\x1b[0m\x7f", "??[0m?", "??[0m?"},
	{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
	 "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"},
	{"cut \xe2\x82", "cut ??", "cut ??"},
	{"over \xc0\xaf long", "over ?? long", "over ?? long"},
	{"\xe0\x80\xaf", "???", "???"},
	{"\xed\xa0\x80", "???", "???"},
	{"\xf4\x90\x80\x80", "????", "????"},
	{"\xff", "?", "?"},
};

static char *printed(void (*print)(FILE *, const char *), const char *text)
{
	char *buffer = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&buffer, &size);

	ck_assert_ptr_nonnull(file);
	print(file, text);
	ck_assert_int_eq(fclose(file), 0);
	return buffer;
}

START_TEST(text_is_escaped)
{
	char *html = printed(html_text, rows[_i].text);
	char *json = printed(html_json_text, rows[_i].text);

	ck_assert_str_eq(html, rows[_i].html);
	ck_assert_str_eq(json, rows[_i].json);
	free(html);
	free(json);
}
END_TEST

/* Both ends of every magnitude, and what hostile data holds. */
static const uint64_t times[] = {
	0, 1, 9, 10, 11, 999, 1000, 123456, 7654321, 9999999999, UINT64_MAX / 2, UINT64_MAX};

static void check_ticks(const struct report_scale *scale)
{
	ck_assert_uint_ge(scale->nticks, 2);
	ck_assert_uint_le(scale->nticks, REPORT_TICKS_MAX);
	for (size_t i = 1; i < scale->nticks; i++)
		ck_assert_uint_gt(scale->ticks_ns[i], scale->ticks_ns[i - 1]);
}

START_TEST(a_linear_scale_begins_at_0_and_holds_the_highest)
{
	struct report_scale scale;
	uint64_t high_ns = times[_i];

	report_scale_linear(high_ns, &scale);
	check_ticks(&scale);
	ck_assert_uint_eq(scale.ticks_ns[0], 0);
	ck_assert(scale.high_ns >= high_ns || high_ns > 1000000000000000000u);
	ck_assert_uint_eq(report_scale_place(&scale, 0, 1000), 0);
	ck_assert_uint_le(report_scale_place(&scale, high_ns, 1000), 1000);
}
END_TEST

START_TEST(the_middle_of_a_linear_scale_is_half)
{
	struct report_scale scale;

	report_scale_linear(900, &scale);
	ck_assert_uint_eq(scale.high_ns, 1000);
	ck_assert_uint_eq(scale.nticks, 3);
	ck_assert_uint_eq(report_scale_place(&scale, 500, 1000), 500);
}
END_TEST

START_TEST(a_logarithmic_scale_holds_both_ends)
{
	struct report_scale scale;
	uint64_t low_ns = times[_i] ? times[_i] : 1;

	for (size_t i = (size_t)_i; i < sizeof(times) / sizeof(times[0]); i++) {
		uint64_t high_ns = times[i] ? times[i] : 1;

		report_scale_logarithmic(low_ns, high_ns, &scale);
		check_ticks(&scale);
		ck_assert_uint_le(scale.low_ns, low_ns);
		ck_assert_uint_lt(scale.low_ns, scale.high_ns);
		ck_assert_uint_le(report_scale_place(&scale, low_ns, 1000),
				  report_scale_place(&scale, high_ns, 1000));
	}
}
END_TEST

START_TEST(a_decade_is_as_long_as_the_next)
{
	struct report_scale scale;

	report_scale_logarithmic(1000, 100000, &scale);
	ck_assert_uint_eq(report_scale_place(&scale, 1000, 1000), 0);
	ck_assert_uint_eq(report_scale_place(&scale, 10000, 1000), 500);
	ck_assert_uint_eq(report_scale_place(&scale, 100000, 1000), 1000);
	ck_assert_uint_eq(report_scale_place(&scale, 10, 1000), 0);
	ck_assert_uint_eq(report_scale_place(&scale, 1000000, 1000), 1000);
}
END_TEST

static Suite *suite(void)
{
	const int n = (int)(sizeof(times) / sizeof(times[0]));
	Suite *s = suite_create("report_text");
	TCase *c = tcase_create("report_text");

	tcase_add_loop_test(c, text_is_escaped, 0, (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_loop_test(c, a_linear_scale_begins_at_0_and_holds_the_highest, 0, n);
	tcase_add_test(c, the_middle_of_a_linear_scale_is_half);
	tcase_add_loop_test(c, a_logarithmic_scale_holds_both_ends, 0, n);
	tcase_add_test(c, a_decade_is_as_long_as_the_next);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
