/* SPDX-License-Identifier: Apache-2.0 */
/* A table of measured costs: what it knows between its sizes, what it does not know outside, and
 * files that are none. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/belay.h"
#include "tools/analyze/cost_table.h"

static char path[64];
static struct cost_table table;
static char reason[COST_REASON_BYTES];

static void setup(void)
{
	int fd;

	(void)strcpy(path, "/tmp/check_cost_table.XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	memset(&table, 0, sizeof(table));
}

static void teardown(void)
{
	cost_table_free(&table);
	unlink(path);
}

static int load(const char *text)
{
	FILE *file = fopen(path, "w");

	ck_assert_ptr_nonnull(file);
	fputs(text, file);
	fclose(file);
	return cost_table_load(path, &table, reason);
}

#define ROWS                                                                                       \
	"{\"ranks\":4,\"rows\":["                                                                  \
	"{\"path\":\"host\",\"bytes\":2000,\"p50_us\":20},"                                        \
	"{\"path\":\"host\",\"bytes\":1000,\"p50_us\":10},"                                        \
	"{\"path\":\"host\",\"bytes\":1000,\"p50_us\":12},"                                        \
	"{\"path\":\"ring\",\"bytes\":1500,\"p50_us\":1.5},"                                       \
	"{\"path\":\"nccl\",\"bytes\":1500,\"p50_us\":null},"                                      \
	"{\"path\":\"none\",\"bytes\":1500,\"p50_us\":1}]}"

static const struct {
	const char *rule;
	uint8_t path;
	uint64_t bytes;
	int status;
	uint64_t ns;
} sizes[] = {
	{"a measured size, its fastest row", BELAY_PATH_HOST, 1000, 0, 10000},
	{"the largest", BELAY_PATH_HOST, 2000, 0, 20000},
	{"between two", BELAY_PATH_HOST, 1250, 0, 12500},
	{"one byte below the smallest", BELAY_PATH_HOST, 999, -1, 7},
	{"one byte above the largest", BELAY_PATH_HOST, 2001, -1, 7},
	{"a path of one size", BELAY_PATH_RING, 1500, 0, 1500},
	{"beside a path's only size", BELAY_PATH_RING, 1501, -1, 7},
	{"a path that is not there", BELAY_PATH_SYMM, 1500, -1, 7},
	{"a path without a number", BELAY_PATH_NCCL, 1500, -1, 7},
	{"the cheapest of all", 0, 1500, 0, 1500},
	{"the cheapest where one knows", 0, 1600, 0, 16000},
};

START_TEST(costs_are_known_from_the_smallest_to_the_largest_size)
{
	uint64_t ns = 7;

	ck_assert_int_eq(load(ROWS), 0);
	ck_assert_uint_eq(table.ranks, 4);
	ck_assert_msg(cost_table_find(&table, sizes[_i].path, sizes[_i].bytes, &ns) ==
			      sizes[_i].status,
		      "%s", sizes[_i].rule);
	ck_assert_msg(ns == sizes[_i].ns, "%s: %lu", sizes[_i].rule, (unsigned long)ns);
}
END_TEST

START_TEST(a_table_tells_its_paths)
{
	ck_assert_int_eq(load(ROWS), 0);
	ck_assert(cost_table_has(&table, BELAY_PATH_RING));
	ck_assert(!cost_table_has(&table, BELAY_PATH_NCCL));
}
END_TEST

static const char *const no_tables[] = {
	"",
	"[]",
	"{}",
	"{\"rows\":1}",
	"{\"rows\":[]}",
	"{\"rows\":[1,[],{}]}",
	"{\"rows\":[{\"path\":\"host\",\"bytes\":-1,\"p50_us\":1}]}",
	"{\"rows\":[{\"path\":\"host\",\"bytes\":1,\"p50_us\":-1}]}",
	"{\"rows\":[{\"path\":\"host\",\"bytes\":1,\"p50_us\":1e300}]}",
	"{\"rows\":[{\"path\":7,\"bytes\":1,\"p50_us\":1}]}",
};

START_TEST(what_is_no_table_is_refused_with_the_reason)
{
	ck_assert_int_eq(load(no_tables[_i]), BELAY_E_ARGUMENT);
	ck_assert_msg(reason[0] != '\0', "%s", no_tables[_i]);
	ck_assert_ptr_null(table.points.items);
}
END_TEST

START_TEST(a_file_that_is_not_there_is_refused)
{
	ck_assert_int_eq(cost_table_load("/nowhere/at/all", &table, reason), BELAY_E_ARGUMENT);
	ck_assert_ptr_null(table.points.items);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("cost_table");
	TCase *c = tcase_create("cost_table");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, costs_are_known_from_the_smallest_to_the_largest_size, 0,
			    (int)(sizeof(sizes) / sizeof(sizes[0])));
	tcase_add_test(c, a_table_tells_its_paths);
	tcase_add_loop_test(c, what_is_no_table_is_refused_with_the_reason, 0,
			    (int)(sizeof(no_tables) / sizeof(no_tables[0])));
	tcase_add_test(c, a_file_that_is_not_there_is_refused);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
