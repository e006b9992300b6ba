/* SPDX-License-Identifier: Apache-2.0 */
/* Announcing and taking a path switch, rule S1: two ranks' calling threads, one word between them.
 */
#include "runtime/outcome/path_switch.h"

#include <check.h>

#include "runtime/path/path.h"
#include "trace/trace.h"

static struct control_head head;
static struct belay_comm ranks[2];
static const struct call call = {.count = 1, .element_bytes = 4};

static void setup(void)
{
	const struct trace_config config = {
		.comm_id = "00112233445566778899aabbccddeeff",
		.nranks = 2,
	};

	for (unsigned r = 0; r < 2; r++) {
		ranks[r].rank = r;
		ranks[r].nranks = 2;
		ranks[r].turn_bytes = 4096;
		ranks[r].control.head = &head;
		ranks[r].path = &host_path;
		ck_assert_int_eq(trace_open(&config, &ranks[r].trace), 0);
	}
}

static void teardown(void)
{
	for (unsigned r = 0; r < 2; r++)
		ck_assert_int_eq(trace_close(ranks[r].trace, 0), 0);
}

static void want(enum belay_path path)
{
	atomic_store_explicit(&ranks[0].path_wanted, (uint32_t)path, memory_order_relaxed);
}

/* A rank's entry of its next call, of one turn. */
static enum belay_path enter(unsigned r)
{
	path_switch_follow(&ranks[r], &call);
	ranks[r].turn++;
	return ranks[r].path->id;
}

START_TEST(a_switch_is_taken_by_all_in_the_turn_after_the_call_that_announced_it)
{
	want(BELAY_PATH_RING);
	ck_assert_int_eq(enter(0), BELAY_PATH_HOST);
	ck_assert_int_eq(enter(1), BELAY_PATH_HOST);
	ck_assert_int_eq(enter(1), BELAY_PATH_RING);
	ck_assert_int_eq(enter(0), BELAY_PATH_RING);
}
END_TEST

/* All rest between two calls for so long that the breaker opens and closes again. */
START_TEST(a_switch_is_not_overwritten_before_all_have_taken_it)
{
	want(BELAY_PATH_RING);
	ck_assert_int_eq(enter(0), BELAY_PATH_HOST);
	ck_assert_int_eq(enter(1), BELAY_PATH_HOST);
	want(BELAY_PATH_HOST);
	for (unsigned turn = 2; turn < 6; turn++) {
		enum belay_path of_first = enter(0);

		ck_assert_int_eq(enter(1), of_first);
	}
	ck_assert_int_eq(ranks[1].path->id, BELAY_PATH_HOST);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("path switch");
	TCase *c = tcase_create("announce and take");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_switch_is_taken_by_all_in_the_turn_after_the_call_that_announced_it);
	tcase_add_test(c, a_switch_is_not_overwritten_before_all_have_taken_it);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
