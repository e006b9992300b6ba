/* SPDX-License-Identifier: Apache-2.0 */
/* Which communicators of two recordings belong together, and how far they made the same calls. */
#include <check.h>
#include <string.h>

#include "tools/analyze/compare.h"

#define COMMS_MAX 4u

static struct compare_comm comms[2][COMMS_MAX];
static struct compare_comm *lists[2][COMMS_MAX];
static struct compare_side sides[2];

static void setup(void)
{
	memset(comms, 0, sizeof(comms));
	memset(sides, 0, sizeof(sides));
	for (int side = 0; side < 2; side++)
		sides[side].comms.items = lists[side];
}

/* "a2 b4": communicators by their ids, of one letter, and ranks. */
static void fill(int side, const char *text)
{
	size_t n = 0;

	for (; *text; text += text[2] ? 3 : 2) {
		comms[side][n].id[0] = text[0];
		comms[side][n].nranks = (uint32_t)(text[1] - '0');
		lists[side][n] = &comms[side][n];
		n++;
	}
	sides[side].comms.count = n;
}

static const struct {
	const char *rule, *a, *b, *pairs;
} pairings[] = {
	{"by id", "a2 b2", "b2 a2", "aa bb "},
	{"by ranks in order", "a2 b4 c2", "x4 y2 z2", "ay bx cz "},
	{"an id goes before the order", "a2 b2", "x2 a2", "aa bx "},
	{"a namesake is kept for its own", "a2 b2", "b2", "a- bb "},
	{"unlike ranks have no partner", "a2", "x4", "a- -x "},
	{"an id holds even if the ranks differ", "a2", "a4", "aa "},
	{"nothing against something", "", "x2", "-x "},
	{"nothing at all", "", "", ""},
};

START_TEST(communicators_pair_up)
{
	struct vector pairs = {0};
	const struct compare_pair *items;
	char text[64] = "";

	fill(0, pairings[_i].a);
	fill(1, pairings[_i].b);
	ck_assert_int_eq(compare_pair_up(&sides[0], &sides[1], &pairs), 0);
	items = pairs.items;
	for (size_t i = 0; i < pairs.count; i++) {
		size_t end = strlen(text);

		text[end] = '-';
		text[end + 1] = '-';
		if (items[i].a)
			text[end] = items[i].a->id[0];
		if (items[i].b)
			text[end + 1] = items[i].b->id[0];
		text[end + 2] = ' ';
	}
	ck_assert_msg(strcmp(text, pairings[_i].pairs) == 0, "%s: %s", pairings[_i].rule, text);
	vector_free(&pairs);
}
END_TEST

static struct compare_pass passes[2][3] = {
	{{.pass = 7, .calls_hash = 1}, {.pass = 8, .calls_hash = 2}, {.pass = 9, .calls_hash = 3}},
	{{.pass = 1, .calls_hash = 1}, {.pass = 2, .calls_hash = 2}, {.pass = 3, .calls_hash = 9}},
};

START_TEST(the_last_pass_that_is_the_same_is_told_by_the_first_recordings_number)
{
	const struct compare_pair pair = {&comms[0][0], &comms[1][0]};
	struct compare_sameness sameness;

	for (int side = 0; side < 2; side++) {
		comms[side][0].nranks = 2;
		comms[side][0].calls = 30;
		comms[side][0].calls_hash = side ? 9 : 3;
		comms[side][0].kept.items = passes[side];
		comms[side][0].kept.count = 3;
	}
	compare_calls(&pair, &sameness);
	ck_assert_int_eq(sameness.same, 0);
	ck_assert_uint_eq(sameness.same_pass, 8);
	comms[1][0].calls_hash = 3;
	compare_calls(&pair, &sameness);
	ck_assert_int_eq(sameness.same, 1);
	comms[1][0].calls = 31;
	compare_calls(&pair, &sameness);
	ck_assert_int_eq(sameness.same, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("compare");
	TCase *c = tcase_create("compare");

	tcase_add_checked_fixture(c, setup, NULL);
	tcase_add_loop_test(c, communicators_pair_up, 0,
			    (int)(sizeof(pairings) / sizeof(pairings[0])));
	tcase_add_test(c, the_last_pass_that_is_the_same_is_told_by_the_first_recordings_number);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
