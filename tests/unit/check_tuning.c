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

#define TAIL " blocks=8 threads=256\n"
#define ROW(ranks, how, bytes)                                                                     \
	"ranks=" ranks " topology=" how " up_to=" bytes " algorithm=oneshot-packets "              \
	"other=twoshot-pull" TAIL

START_TEST(rows_for_devices_are_taken_by_ranks_and_topology)
{
	struct tuning tuning;
	struct launch_table table, builtin;

	write_file("ranks=2 twoshot_from=64K\n" ROW("4", "nvlink", "16K") ROW(
		"2", "nvlink", "16K") "# a comment between\n"
				      "ranks=2 topology=nvlink up_to=1M algorithm=oneshot-wire "
				      "other=oneshot-packets "
				      "blocks=132 threads=512\n" ROW("2", "pcie", "1K"));
	ck_assert_int_eq(load(path, 2, &tuning), 0);
	ck_assert_uint_eq(tuning.twoshot_from_bytes, 65536);
	tuning_launch_table(&tuning, 2, TOPOLOGY_NVLINK, &table);
	ck_assert_uint_eq(table.nrows, 2);
	ck_assert_uint_eq(table.row[0].up_to_bytes, 16384);
	ck_assert_uint_eq(table.row[0].algorithm_other, SYMM_TWOSHOT_PULL);
	ck_assert_uint_eq(table.row[1].algorithm, SYMM_ONESHOT_WIRE);
	ck_assert_uint_eq(table.row[1].algorithm_other, SYMM_ONESHOT_PACKETS);
	ck_assert_uint_eq(table.row[1].blocks, 132);
	ck_assert_uint_eq(table.row[1].threads, 512);
	/* What the file says nothing about stays as built in. */
	tuning_launch_table(&tuning, 2, TOPOLOGY_ONE_DEVICE, &table);
	launch_table_builtin(2, TOPOLOGY_ONE_DEVICE, &builtin);
	ck_assert_uint_eq(table.nrows, builtin.nrows);
	ck_assert_int_eq(memcmp(table.row, builtin.row, sizeof(table.row)), 0);
}
END_TEST

START_TEST(islands_are_made_where_the_file_names_them)
{
	struct tuning tuning;
	struct launch_table table;

	write_file("ranks=8 topology=pcie up_to=8M algorithm=island other=twoshot-pull" TAIL);
	ck_assert_int_eq(load(path, 8, &tuning), 0);
	tuning_launch_table(&tuning, 8, TOPOLOGY_PCIE, &table);
	ck_assert_uint_eq(table.row[0].algorithm, SYMM_ISLAND);
	ck_assert(table.islands);
	/* The built-in table waits to be told of the machine. */
	tuning_launch_table(&tuning, 8, TOPOLOGY_NVLINK, &table);
	ck_assert(!table.islands);
}
END_TEST

START_TEST(programmatic_launch_can_be_taken_away)
{
	struct tuning tuning, other;

	write_file("ranks=2 programmatic=no\nranks=4 programmatic=yes\n");
	ck_assert_int_eq(load(path, 2, &tuning), 0);
	ck_assert(tuning.plain_launches);
	ck_assert_int_eq(load(path, 4, &other), 0);
	ck_assert(!other.plain_launches);
	ck_assert_uint_ne(tuning.hash, other.hash);
	ck_assert_int_eq(load(path, 3, &tuning), 0);
	ck_assert(!tuning.plain_launches);
}
END_TEST

START_TEST(peers_are_served_in_order_or_at_once_as_the_file_says)
{
	struct tuning tuning, other;
	struct launch_table table;

	write_file("ranks=2 staged=no\nranks=4 staged=yes\n");
	ck_assert_int_eq(load(path, 2, &tuning), 0);
	tuning_launch_table(&tuning, 2, TOPOLOGY_PCIE, &table);
	ck_assert(!table.staged);
	ck_assert_int_eq(load(path, 4, &other), 0);
	tuning_launch_table(&other, 4, TOPOLOGY_ONE_DEVICE, &table);
	ck_assert(table.staged);
	ck_assert_uint_ne(tuning.hash, other.hash);
	ck_assert_int_eq(load(path, 3, &tuning), 0);
	tuning_launch_table(&tuning, 3, TOPOLOGY_PCIE, &table);
	ck_assert(table.staged);
	ck_assert_uint_ne(tuning.hash, other.hash);
}
END_TEST

/* Each differs from the first in one value. */
static const char *const differing[] = {
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=oneshot-packets" TAIL,
	"ranks=2 topology=mixed up_to=1K algorithm=oneshot-wire other=oneshot-packets" TAIL,
	"ranks=2 topology=pcie up_to=2K algorithm=oneshot-wire other=oneshot-packets" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=twoshot-wire other=oneshot-packets" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-pull" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=oneshot-packets blocks=9 "
	"threads=256\n",
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=oneshot-packets blocks=8 "
	"threads=288\n",
	"\n",
};

START_TEST(each_value_of_a_row_for_devices_is_in_the_hash)
{
	struct tuning first, other;

	write_file(differing[0]);
	ck_assert_int_eq(load(path, 2, &first), 0);
	write_file(differing[_i]);
	ck_assert_int_eq(load(path, 2, &other), 0);
	ck_assert_uint_ne(first.hash, other.hash);
	/* Rows of other ranks do not count. */
	ck_assert_int_eq(load(path, 3, &first), 0);
	ck_assert_int_eq(load(NULL, 3, &other), 0);
	ck_assert_uint_eq(first.hash, other.hash);
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
	"ranks=2 programmatic=maybe\n",
	"ranks=2 programmatic=no more\n",
	"ranks=17 programmatic=no\n",
	"ranks=2 programmatic=no\nranks=2 programmatic=no\n",
	"ranks=2 staged=maybe\n",
	"ranks=2 staged=yes\nranks=2 staged=no\n",
	ROW("17", "pcie", "1K"),
	ROW("0", "pcie", "1K"),
	ROW("2", "infiniband", "1K"),
	ROW("2", "pci", "1K"),
	ROW("2", "pcie", "1X"),
	ROW("2", "pcie", "1K") ROW("2", "pcie", "1K"),
	ROW("2", "pcie", "2K") ROW("2", "pcie", "1K"),
	ROW("2", "pcie", "1K") ROW("2", "mixed", "1K") ROW("2", "pcie", "2K"),
	"topology=pcie ranks=2 up_to=1K algorithm=oneshot-wire other=oneshot-packets" TAIL,
	"ranks=2 topology=pcie algorithm=oneshot-wire other=oneshot-packets" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot other=oneshot-packets" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=oneshot-wire" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-wire" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=island" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire" TAIL,
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-pull blocks=0 "
	"threads=32\n",
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-pull blocks=257 "
	"threads=32\n",
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-pull blocks=1 "
	"threads=16\n",
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-pull blocks=1 "
	"threads=33\n",
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-pull blocks=1 "
	"threads=544\n",
	"ranks=2 topology=pcie up_to=1K algorithm=oneshot-wire other=twoshot-pull blocks=1 "
	"threads=32 "
	"more\n",
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

START_TEST(more_rows_than_a_table_has_are_refused)
{
	char text[20 * 120] = "";
	struct tuning tuning;

	for (unsigned i = 1; i <= LAUNCH_ROWS_MAX + 1; i++) {
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used,
			 "ranks=2 topology=pcie up_to=%u algorithm=oneshot-wire "
			 "other=twoshot-pull" TAIL,
			 i);
		write_file(text);
		ck_assert_int_eq(load(path, 2, &tuning),
				 i <= LAUNCH_ROWS_MAX ? 0 : BELAY_E_SETTING);
	}
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
	tcase_add_test(c, rows_for_devices_are_taken_by_ranks_and_topology);
	tcase_add_test(c, peers_are_served_in_order_or_at_once_as_the_file_says);
	tcase_add_test(c, islands_are_made_where_the_file_names_them);
	tcase_add_test(c, programmatic_launch_can_be_taken_away);
	tcase_add_loop_test(c, each_value_of_a_row_for_devices_is_in_the_hash, 1,
			    (int)(sizeof(differing) / sizeof(differing[0])));
	tcase_add_test(c, more_rows_than_a_table_has_are_refused);
	tcase_add_loop_test(c, a_wrong_row_is_refused_whole, 0,
			    (int)(sizeof(wrong) / sizeof(wrong[0])));
	tcase_add_test(c, an_overlong_line_is_refused);
	tcase_add_test(c, what_is_no_file_is_refused_without_waiting);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
