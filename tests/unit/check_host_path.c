/* SPDX-License-Identifier: Apache-2.0 */
/* What the host path tells the watcher: whether data that a thread waits for is here already. */
#include <check.h>

#include "runtime/path/path.h"

#define TURN 7

static struct belay_comm comm;

/* One rank's region in private memory: every rank's headers are the same ones here. */
static void setup(void)
{
	struct region_layout layout;

	region_layout(2, 4096, 0, &layout);
	ck_assert_int_eq(region_open(&comm.region, &layout, 2, 0, -1, NULL), 0);
}

static void teardown(void)
{
	region_close(&comm.region);
}

static bool is_here(enum wait_phase phase)
{
	struct stuck_turn stuck = {.phase = phase, .turn = TURN};

	return host_path.is_here(&comm, &stuck, 1);
}

static void put(struct region_header *headers, uint32_t flag)
{
	atomic_store_explicit(&headers[TURN & 1].word, (uint64_t)flag << 32 | 5,
			      memory_order_relaxed);
}

START_TEST(an_input_is_here_when_its_header_has_the_flag_of_the_turn)
{
	struct region_head *head = region_head(&comm.region, 1);

	ck_assert(!is_here(WAIT_INPUTS));
	put(head->inputs, region_flag(TURN - 2));
	ck_assert(!is_here(WAIT_INPUTS));
	put(head->inputs, region_flag(TURN + 2));
	ck_assert(!is_here(WAIT_INPUTS));
	put(head->inputs, region_flag(TURN));
	ck_assert(is_here(WAIT_INPUTS));
	ck_assert(!is_here(WAIT_RESULTS));
}
END_TEST

START_TEST(a_result_is_here_when_its_own_header_says_so)
{
	put(region_head(&comm.region, 1)->results, region_flag(TURN));
	ck_assert(is_here(WAIT_RESULTS));
	ck_assert(!is_here(WAIT_INPUTS));
	ck_assert(!is_here(WAIT_COMMIT));
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("host path");
	TCase *c = tcase_create("is here");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, an_input_is_here_when_its_header_has_the_flag_of_the_turn);
	tcase_add_test(c, a_result_is_here_when_its_own_header_says_so);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
