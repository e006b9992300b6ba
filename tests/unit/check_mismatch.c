/* SPDX-License-Identifier: Apache-2.0 */
/* mismatch_culprit(): which rank is the odd one. */
#include <check.h>

#include "runtime/outcome/mismatch.h"

static const struct {
	const char *rule;
	unsigned nranks;
	uint64_t here;
	uint32_t signatures[5];
	int culprit;
} rows[] = {
	{"nobody is known", 3, 0, {1, 2, 3}, -1},
	{"all agree", 3, 7, {9, 9, 9}, -1},
	{"one alone", 1, 1, {9}, -1},
	{"the last is odd", 3, 7, {9, 9, 8}, 2},
	{"the first is odd", 3, 7, {8, 9, 9}, 0},
	{"of two the second is called odd", 2, 3, {8, 9}, 1},
	{"the lowest of two odd ones", 5, 31, {9, 8, 9, 7, 9}, 1},
	{"no majority: the first that differs from rank 0", 4, 15, {9, 9, 8, 8}, 2},
	{"all differ", 3, 7, {1, 2, 3}, 1},
	{"just half is no majority", 4, 15, {8, 9, 9, 7}, 1},
	{"what an absent rank signed does not count", 3, 6, {8, 9, 9}, -1},
	{"without rank 0 the lowest known one is right", 3, 6, {9, 8, 9}, 2},
	{"only one is known", 3, 2, {9, 8, 9}, -1},
};

START_TEST(the_odd_rank_is_found)
{
	int culprit = mismatch_culprit(rows[_i].signatures, rows[_i].here, rows[_i].nranks);

	ck_assert_msg(culprit == rows[_i].culprit, "%s: %d", rows[_i].rule, culprit);
}
END_TEST

START_TEST(all_64_ranks_count)
{
	uint32_t signatures[64];

	for (unsigned r = 0; r < 64; r++)
		signatures[r] = 9;
	ck_assert_int_eq(mismatch_culprit(signatures, UINT64_MAX, 64), -1);
	signatures[63] = 8;
	ck_assert_int_eq(mismatch_culprit(signatures, UINT64_MAX, 64), 63);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("mismatch");
	TCase *c = tcase_create("mismatch");

	tcase_add_loop_test(c, the_odd_rank_is_found, 0, (int)(sizeof(rows) / sizeof(rows[0])));
	tcase_add_test(c, all_64_ranks_count);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
