/* SPDX-License-Identifier: Apache-2.0 */
/* Announcing and taking a path switch, rule S1: two ranks' calling threads, one word between them.
 */
#include "runtime/outcome/path_switch.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>

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

/* ---- a wish that comes while one is announced ------------------------------------------------ */

#define ROUNDS 20000u

/* Odd: the thread is to utter a wish; even: it has. */
static _Atomic unsigned turn_of_wish;

static void await_word(unsigned value)
{
	for (unsigned n = 1; atomic_load_explicit(&turn_of_wish, memory_order_acquire) != value;
	     n++)
		if (n % 1024 == 0)
			sched_yield(); /* the other thread may have no core */
}

/* Rank 0's watcher: the path works again. */
static void *wish_back(void *unused)
{
	(void)unused;
	for (unsigned i = 0; i < ROUNDS; i++) {
		await_word(2 * i + 1);
		atomic_store_explicit(&ranks[0].path_wanted, BELAY_PATH_HOST, memory_order_release);
		atomic_store_explicit(&turn_of_wish, 2 * i + 2, memory_order_release);
	}
	return NULL;
}

/* Announces the ring at the moment at which the watcher wants the host path again, and goes on
 * until all that was wanted can have been taken. */
static bool comes_back(unsigned round)
{
	want(BELAY_PATH_RING);
	atomic_store_explicit(&turn_of_wish, 2 * round + 1, memory_order_release);
	/* A little later in each round, to meet each moment. */
	for (unsigned n = round % 1000; n; n--)
		atomic_signal_fence(memory_order_seq_cst);
	enter(0);
	await_word(2 * round + 2);
	for (int i = 0; i < 4; i++)
		enter(0);
	return ranks[0].path->id == BELAY_PATH_HOST;
}

START_TEST(a_wish_is_not_wiped_out_by_the_one_before)
{
	pthread_t watcher;
	unsigned lost = 0;

	ck_assert_int_eq(pthread_create(&watcher, NULL, wish_back, NULL), 0);
	for (unsigned round = 0; round < ROUNDS; round++)
		lost += !comes_back(round);
	ck_assert_int_eq(pthread_join(watcher, NULL), 0);
	ck_assert_uint_eq(lost, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("path switch");
	TCase *c = tcase_create("announce and take");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, a_switch_is_taken_by_all_in_the_turn_after_the_call_that_announced_it);
	tcase_add_test(c, a_switch_is_not_overwritten_before_all_have_taken_it);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_wish_is_not_wiped_out_by_the_one_before);
	suite_add_tcase(s, c);
	return s;
}

#include "check_main.h"
