/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning file: right rows, every wrong one, files that are none. */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/cause.h"
#include "runtime/tuning.h"

static char path[] = "/tmp/check_tuning.XXXXXX";
static struct cause_chain *causes;

static void set_up(void)
{
	struct cause_config config = {.level = BELAY_LOG_OFF, .rank = -1};
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	close(fd);
	causes = cause_chain_create(&config);
}

static void tear_down(void)
{
	unlink(path);
	cause_chain_free(causes);
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
}

#define BUILT_IN 1000

static int load(const char *from, uint32_t nranks, struct tuning *ret_tuning)
{
	*ret_tuning = (struct tuning){.twoshot_from_bytes = BUILT_IN, .hash = 77};
	return tuning_load(from, nranks, ret_tuning, causes);
}

START_TEST(without_a_file_the_built_in_values_stand)
{
	struct tuning none, empty;

	ck_assert_int_eq(load(NULL, 4, &none), 0);
	ck_assert_int_eq(load("", 4, &empty), 0);
	ck_assert_uint_eq(none.twoshot_from_bytes, BUILT_IN);
	ck_assert_uint_ne(none.hash, 77);
	ck_assert_uint_eq(none.hash, empty.hash);
}
END_TEST

START_TEST(the_row_of_these_ranks_is_taken)
{
	struct tuning two, four, eight, none;

	write_file("# made by hand\n\n  ranks=2 twoshot_from=64K\nranks=4\ttwoshot_from=0 "
		   "\nranks=64 twoshot_from=1G");
	ck_assert_int_eq(load(path, 2, &two), 0);
	ck_assert_int_eq(load(path, 4, &four), 0);
	ck_assert_int_eq(load(path, 8, &eight), 0);
	ck_assert_int_eq(load(NULL, 8, &none), 0);
	ck_assert_uint_eq(two.twoshot_from_bytes, 65536);
	ck_assert_uint_eq(four.twoshot_from_bytes, 0);
	ck_assert_uint_eq(eight.twoshot_from_bytes, BUILT_IN);
	ck_assert_uint_ne(two.hash, four.hash);
	ck_assert_uint_eq(eight.hash, none.hash);
}
END_TEST

static const char *const wrong[] = {
	"ranks=0 twoshot_from=1\n",
	"ranks=65 twoshot_from=1\n",
	"ranks=2\n",
	"twoshot_from=1\n",
	"twoshot_from=1 ranks=2\n",
	"ranks=2twoshot_from=1\n",
	"ranks=2 twoshot_from=1KB\n",
	"ranks=2 twoshot_from=-1\n",
	"ranks=2 twoshot_from=1 more\n",
	"ranks=2 twoshot_from=1\nranks=2 twoshot_from=1\n",
	"ranks=2 twoshot_from=1 # comment\n",
	"nonsense",
};

START_TEST(a_wrong_row_is_refused_whole)
{
	struct tuning tuning;
	char cause[512];

	write_file(wrong[_i]);
	ck_assert_msg(load(path, 2, &tuning) == BELAY_E_SETTING, "%s", wrong[_i]);
	ck_assert_uint_eq(tuning.twoshot_from_bytes, BUILT_IN);
	ck_assert_uint_eq(tuning.hash, 77);
	cause_newest(causes, cause, sizeof(cause));
	ck_assert_msg(strstr(cause, "', line ") && strstr(cause, path), "%s", cause);
}
END_TEST

START_TEST(an_overlong_line_is_refused)
{
	struct tuning tuning;
	char line[600];

	memset(line, ' ', sizeof(line));
	line[0] = '#';
	line[sizeof(line) - 1] = '\0';
	write_file(line);
	ck_assert_int_eq(load(path, 2, &tuning), BELAY_E_SETTING);
}
END_TEST

START_TEST(what_is_no_file_is_refused_without_waiting)
{
	struct tuning tuning;
	char cause[512];

	ck_assert_int_eq(load("/nonexistent/tuning", 2, &tuning), BELAY_E_SETTING);
	cause_newest(causes, cause, sizeof(cause));
	ck_assert_str_eq(cause,
			 "BELAY_TUNE='/nonexistent/tuning': expected a readable tuning file: open: "
			 "No such file or directory (2)");
	ck_assert_int_eq(load("/", 2, &tuning), BELAY_E_SETTING);
	ck_assert_int_eq(load("/dev/zero", 2, &tuning), BELAY_E_SETTING);
	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(load(path, 2, &tuning), BELAY_E_SETTING);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("tuning");
	TCase *c = tcase_create("tuning");

	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_test(c, without_a_file_the_built_in_values_stand);
	tcase_add_test(c, the_row_of_these_ranks_is_taken);
	tcase_add_loop_test(c, a_wrong_row_is_refused_whole, 0,
			    (int)(sizeof(wrong) / sizeof(wrong[0])));
	tcase_add_test(c, an_overlong_line_is_refused);
	tcase_add_test(c, what_is_no_file_is_refused_without_waiting);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
