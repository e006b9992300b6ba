/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts: what is read, what is refused with which line, and outputs untouched on refusal. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench_script.h"

static int read_text(const char *text, struct bench_script *ret_script, char *problem, size_t size)
{
	FILE *input = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int status;

	ck_assert_ptr_nonnull(input);
	status = bench_script_read(input, "s", ret_script, problem, size);
	fclose(input);
	return status;
}

START_TEST(calls_marks_and_gaps_are_read)
{
	struct bench_script script = {0};
	char problem[256] = "";

	ck_assert_int_eq(read_text("# a script\nranks 3\n\nbegin\n1000 bf16 sum i 7\n"
				   "0 f32 max - 1,2,3 # an empty call\nend\n5 u8 prod ri 0\n",
				   &script, problem, sizeof(problem)),
			 0);
	ck_assert_uint_eq(script.nranks, 3);
	ck_assert_uint_eq(script.ncalls, 3);
	ck_assert_uint_eq(script.calls[0].count, 1000);
	ck_assert_uint_eq(script.calls[0].dtype, BELAY_BF16);
	ck_assert_uint_eq(script.calls[0].flags, SCRIPT_IN_PLACE | SCRIPT_BEGINS_PASS);
	ck_assert_uint_eq(script.gaps_ns[0], 7);
	ck_assert_uint_eq(script.gaps_ns[2], 7); /* all ranks' */
	ck_assert_uint_eq(script.calls[1].op, BELAY_MAX);
	ck_assert_uint_eq(script.calls[1].flags, SCRIPT_ENDS_PASS);
	ck_assert_uint_eq(script.gaps_ns[3], 1);
	ck_assert_uint_eq(script.gaps_ns[5], 3);
	ck_assert_uint_eq(script.calls[2].flags, SCRIPT_IN_PLACE | SCRIPT_REGION);
	bench_script_free(&script);
}
END_TEST

START_TEST(many_calls_are_read)
{
	struct bench_script script = {0};
	char problem[256] = "", *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	ck_assert_ptr_nonnull(out);
	fputs("ranks 2\n", out);
	for (int i = 0; i < 5000; i++)
		fprintf(out, "%d i8 sum - %d,%d\n", i, i, 2 * i);
	fclose(out);
	ck_assert_int_eq(read_text(text, &script, problem, sizeof(problem)), 0);
	ck_assert_uint_eq(script.ncalls, 5000);
	ck_assert_uint_eq(script.calls[4999].count, 4999);
	ck_assert_uint_eq(script.gaps_ns[2 * 4999 + 1], 2 * 4999);
	bench_script_free(&script);
	free(text);
}
END_TEST

/* clang-format off */
static const struct {
	const char *text;
	const char *problem;
} bad[] = {
	{ "", "s:0: no call up to here, the end" },
	{ "ranks 2\n", "s:1: no call up to here, the end" },
	{ "1 u8 sum - 0\n", "s:1: '1': expected 'ranks N' first" },
	{ "ranks 0\n", "s:1: expected 1 to 64 ranks" },
	{ "ranks 65\n", "s:1: expected 1 to 64 ranks" },
	{ "ranks\n", "s:1: expected 1 to 64 ranks" },
	{ "ranks 2\nranks 2\n", "s:2: 'ranks' is given twice" },
	{ "ranks 2 3\n", "s:1: more words than expected" },
	{ "ranks 2\nbegin\nbegin\n", "s:3: 'begin' within a pass" },
	{ "ranks 2\nend\n", "s:2: 'end' of a pass without calls" },
	{ "ranks 2\nbegin\nend\n", "s:3: 'end' of a pass without calls" },
	{ "ranks 2\nbegin\n1 u8 sum - 0\n", "s:3: a pass is not ended" },
	{ "ranks 2\none u8 sum - 0\n", "s:2: 'one': expected ranks, begin, end or a number of elements" },
	{ "ranks 2\n4294967297 u8 sum - 0\n", "s:2: '4294967297': expected ranks" },
	{ "ranks 2\n1 fp8 sum - 0\n", "s:2: expected a dtype behind the count" },
	{ "ranks 2\n1\n", "s:2: expected a dtype behind the count" },
	{ "ranks 2\n1 u8 avg - 0\n", "s:2: expected sum, max, min or prod behind the dtype" },
	{ "ranks 2\n1 u8 sum x 0\n", "s:2: expected flags, i, r or -, behind the op" },
	{ "ranks 2\n1 u8 sum\n", "s:2: expected flags, i, r or -, behind the op" },
	{ "ranks 2\n1 u8 sum -\n", "s:2: expected one gap in ns, or one for each of 2 ranks" },
	{ "ranks 3\n1 u8 sum - 1,2\n", "s:2: expected one gap in ns, or one for each of 3 ranks" },
	{ "ranks 2\n1 u8 sum - 1,2,3\n", "s:2: expected one gap in ns" },
	{ "ranks 2\n1 u8 sum - -1\n", "s:2: expected one gap in ns" },
	{ "ranks 2\n1 u8 sum - 1000000000000001\n", "s:2: expected one gap in ns" },
	{ "ranks 2\n1 u8 sum - 0 0\n", "s:2: more words than expected" },
};
/* clang-format on */

START_TEST(what_is_wrong_is_named_with_its_line)
{
	struct bench_script script = {.nranks = 77};
	char problem[256] = "";

	ck_assert_int_eq(read_text(bad[_i].text, &script, problem, sizeof(problem)), -1);
	ck_assert_msg(strncmp(problem, bad[_i].problem, strlen(bad[_i].problem)) == 0, "%s: %s",
		      bad[_i].text, problem);
	ck_assert_uint_eq(script.nranks, 77);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("bench_script");
	TCase *c = tcase_create("bench_script");

	tcase_add_test(c, calls_marks_and_gaps_are_read);
	tcase_add_test(c, many_calls_are_read);
	tcase_add_loop_test(c, what_is_wrong_is_named_with_its_line, 0,
			    (int)(sizeof(bad) / sizeof(bad[0])));
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
