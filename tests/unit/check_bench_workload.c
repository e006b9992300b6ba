/* SPDX-License-Identifier: Apache-2.0 */
/* Workload files: what is read, what is refused with which line, and outputs untouched on
 * refusal. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "tools/bench/bench_workload.h"

#define GOOD "repeat=3 calls=122 count=57344 dtype=bf16 gap_us=100\n"

static int read_text(const char *text, struct workload *ret_workload, char *problem, size_t size)
{
	FILE *input = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	int status;

	ck_assert_ptr_nonnull(input);
	status = workload_read(input, "w", ret_workload, problem, size);
	fclose(input);
	return status;
}

static const struct {
	const char *rule;
	const char *text;
	size_t nlines;
} good[] = {
	{"one line", GOOD, 1},
	{"no newline at the end", "repeat=1 calls=1 count=1 dtype=u8 gap_us=0", 1},
	{"any order of the keys", "gap_us=1 dtype=f32 count=0 calls=1 repeat=1\n", 1},
	{"comments and blank lines", "# a\n\n \t\n" GOOD "#b\n" GOOD, 2},
	{"a comment behind a line", "repeat=1 calls=1 count=1 dtype=i64 gap_us=0 # so\n", 1},
	{"line ends of other systems", "repeat=1 calls=1 count=1 dtype=i8 gap_us=0\r\n", 1},
};

START_TEST(reads_what_the_format_allows)
{
	struct workload workload = {0};
	char problem[256] = "";
	int status = read_text(good[_i].text, &workload, problem, sizeof(problem));

	ck_assert_msg(status == 0, "%s: %s", good[_i].rule, problem);
	ck_assert_uint_eq(workload.nlines, good[_i].nlines);
	workload_free(&workload);
}
END_TEST

/* clang-format off */
static const struct {
	const char *text;
	const char *problem;
} bad[] = {
	{ "repeat\n", "w:1: 'repeat': expected key=value" },
	{ "\n\n" GOOD "repeat=0 calls=1 count=1 dtype=u8 gap_us=0\n",
	  "w:4: repeat '0': expected a number from 1 to 1000000000" },
	{ "repeat=1000000001 calls=1 count=1 dtype=u8 gap_us=0\n", "w:1: repeat '1000000001'" },
	{ "repeat=1 calls=-1 count=1 dtype=u8 gap_us=0\n", "w:1: calls '-1'" },
	{ "repeat=1 calls=1 count=1K dtype=u8 gap_us=0\n", "w:1: count '1K'" },
	{ "repeat=1 calls=1 count=1 dtype=fp8 gap_us=0\n", "w:1: dtype 'fp8': expected bf16," },
	{ "repeat=1 calls=1 count=1 dtype= gap_us=0\n", "w:1: dtype ''" },
	{ "repeat=1 calls=1 count=1 dtype=u8 gap_us=1.5\n", "w:1: gap_us '1.5'" },
	{ "repeat=1 calls=1 count=1 dtype=u8\n", "w:1: 'gap_us=' is missing" },
	{ "repeat=1 repeat=1 calls=1 count=1 dtype=u8 gap_us=1\n", "w:1: 'repeat' is given twice" },
	{ "repeats=1\n", "w:1: unknown key 'repeats'" },
	{ "# nothing\n\n", "w:2: no line with a kind of pass" },
};
/* clang-format on */

START_TEST(names_the_line_and_what_was_expected)
{
	struct workload workload = {NULL, 7};
	char problem[256] = "";

	ck_assert_int_eq(read_text(bad[_i].text, &workload, problem, sizeof(problem)), -1);
	ck_assert_msg(strncmp(problem, bad[_i].problem, strlen(bad[_i].problem)) == 0, "%s",
		      problem);
	ck_assert_uint_eq(workload.nlines, 7);
}
END_TEST

START_TEST(refuses_a_line_that_is_too_long)
{
	static char text[5000];
	struct workload workload;
	char problem[256];

	memset(text, 'x', sizeof(text) - 1);
	ck_assert_int_eq(read_text(text, &workload, problem, sizeof(problem)), -1);
	ck_assert_ptr_nonnull(strstr(problem, "w:1: longer than"));
}
END_TEST

START_TEST(keeps_every_value_of_a_line)
{
	struct workload workload;
	char problem[256];

	ck_assert_int_eq(read_text(GOOD, &workload, problem, sizeof(problem)), 0);
	ck_assert_uint_eq(workload.lines[0].passes, 3);
	ck_assert_uint_eq(workload.lines[0].calls, 122);
	ck_assert_uint_eq(workload.lines[0].count, 57344);
	ck_assert_uint_eq(workload.lines[0].gap_ns, 100000);
	ck_assert_int_eq(workload.lines[0].dtype, BELAY_BF16);
	workload_free(&workload);
}
END_TEST

static const struct {
	uint64_t passes;
	size_t nlines;
	uint64_t of_last;
} limits[] = {{1, 1, 1}, {3, 1, 3}, {4, 2, 1}, {6, 2, 3}, {100, 2, 3}};

START_TEST(stops_after_so_many_passes)
{
	struct workload workload;
	char problem[256];

	ck_assert_int_eq(read_text(GOOD GOOD, &workload, problem, sizeof(problem)), 0);
	workload_limit(&workload, limits[_i].passes);
	ck_assert_uint_eq(workload.nlines, limits[_i].nlines);
	ck_assert_uint_eq(workload.lines[workload.nlines - 1].passes, limits[_i].of_last);
	workload_free(&workload);
}
END_TEST

START_TEST(knows_the_verify_pass)
{
	struct workload workload = {0};

	ck_assert_int_eq(workload_builtin("verify", 5, &workload), 1);
	ck_assert_ptr_null(workload.lines);
	ck_assert_int_eq(workload_builtin("verify-pass", 5, &workload), 0);
	ck_assert_uint_eq(workload.lines[0].passes, 5);
	ck_assert_uint_eq(workload.lines[0].calls, 122);
	ck_assert_uint_eq(workload.lines[0].count, 57344);
	ck_assert_int_eq(workload.lines[0].dtype, BELAY_BF16);
	workload_free(&workload);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("bench_workload");
	TCase *t = tcase_create("bench_workload");

	tcase_add_loop_test(t, reads_what_the_format_allows, 0,
			    (int)(sizeof(good) / sizeof(good[0])));
	tcase_add_loop_test(t, names_the_line_and_what_was_expected, 0,
			    (int)(sizeof(bad) / sizeof(bad[0])));
	tcase_add_test(t, refuses_a_line_that_is_too_long);
	tcase_add_test(t, keeps_every_value_of_a_line);
	tcase_add_loop_test(t, stops_after_so_many_passes, 0,
			    (int)(sizeof(limits) / sizeof(limits[0])));
	tcase_add_test(t, knows_the_verify_pass);
	suite_add_tcase(s, t);
	return s;
}

#include "check_main.h"
