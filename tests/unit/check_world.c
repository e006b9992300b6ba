/* SPDX-License-Identifier: Apache-2.0 */
/* How ranks of one host's part of a larger communicator are called. */
#include <check.h>
#include <string.h>

#include "runtime/world.h"

static const struct {
	unsigned nranks;
	int32_t rank[4];
	const char *text;
} parts[] = {
	{1, {0}, "rank 0 of 16, host 2 of 3 of NCCL communicator 0123456789abcdef01234567"},
	{3,
	 {8, 9, 10},
	 "ranks 8-10 of 16, host 2 of 3 of NCCL communicator 0123456789abcdef01234567"},
	{4,
	 {1, 3, 4, 15},
	 "ranks 1,3-4,15 of 16, host 2 of 3 of NCCL communicator 0123456789abcdef01234567"},
};

static struct comm_world world_of(int row)
{
	struct comm_world world = {
		.nranks = 16, .host = 2, .hosts = 3, .name = "0123456789abcdef01234567"};

	memcpy(world.rank, parts[row].rank, sizeof(parts[row].rank));
	return world;
}

START_TEST(a_part_is_described_by_its_ranks_in_the_whole)
{
	struct comm_world world = world_of(_i);
	char text[100];

	world_describe(&world, parts[_i].nranks, text, sizeof(text));
	ck_assert_str_eq(text, parts[_i].text);
}
END_TEST

START_TEST(a_text_that_does_not_fit_is_cut)
{
	struct comm_world world = world_of(2);
	char text[100];

	for (size_t size = 1; size <= strlen(parts[2].text); size++) {
		memset(text, '#', sizeof(text));
		world_describe(&world, 4, text, size);
		ck_assert_uint_eq(strlen(text), size - 1);
		ck_assert_int_eq(strncmp(text, parts[2].text, size - 1), 0);
		ck_assert_int_eq(text[size], '#');
	}
}
END_TEST

START_TEST(a_rank_has_both_its_numbers_in_a_larger_world_only)
{
	struct comm_world world = world_of(1), alone = {.nranks = 0};

	ck_assert_str_eq(world_rank_words(&world, 2).text, "10 (2 of this host)");
	ck_assert_str_eq(world_rank_words(&alone, 2).text, "2");
	ck_assert_str_eq(world_rank_words(NULL, 63).text, "63");
	ck_assert_str_eq(world_rank_words(&world, BELAY_RANKS_MAX).text, "64");
	ck_assert_str_eq(world_rank_words(&world, -1).text, "none");
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("world");
	TCase *tests = tcase_create("world");

	tcase_add_loop_test(tests, a_part_is_described_by_its_ranks_in_the_whole, 0, 3);
	tcase_add_test(tests, a_text_that_does_not_fit_is_cut);
	tcase_add_test(tests, a_rank_has_both_its_numbers_in_a_larger_world_only);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "check_main.h"
