/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles, the choice of the tuning, and what is put together from the results of all ranks. */
#include <check.h>
#include <signal.h>
#include <string.h>

#include "tools/bench/bench_results.h"
#include "tools/bench/bench_tune.h"

/* clang-format off */
static const struct {
	double p;
	size_t n;
	uint64_t value;
} percentiles[] = {
	{ 0.5, 0, 0 }, { 0.0, 1, 10 }, { 0.99, 1, 10 }, { 0.5, 2, 10 }, { 0.5, 3, 20 },
	{ 0.0, 4, 10 }, { 0.75, 4, 30 }, { 0.76, 4, 40 }, { 0.99, 4, 40 }, { 1.0, 4, 40 },
};
/* clang-format on */

START_TEST(a_percentile_is_the_nearest_rank)
{
	static const uint64_t sorted[] = {10, 20, 30, 40};

	ck_assert_uint_eq(bench_percentile(sorted, percentiles[_i].n, percentiles[_i].p),
			  percentiles[_i].value);
}
END_TEST

/* clang-format off */
static const struct {
	const char *rule;
	double oneshot[3], twoshot[3];
	uint64_t from;
} choices[] = {
	{ "two-shot wins from the middle on", { 1, 4, 9 }, { 2, 3, 5 }, 200 },
	{ "two-shot never wins", { 1, 2, 3 }, { 2, 3, 4 }, UINT64_MAX },
	{ "two-shot always wins", { 2, 3, 4 }, { 1, 2, 3 }, 100 },
	{ "a tie stays with one-shot", { 1, 2, 3 }, { 1, 2, 3 }, UINT64_MAX },
	{ "one outlier does not decide", { 10, 10, 10 }, { 5, 10.1, 5 }, 100 },
	{ "a small win at the end does not pay for a loss before", { 1, 1, 1.1 }, { 9, 9, 1 }, 300 },
};
/* clang-format on */

START_TEST(tuning_takes_the_cheapest_threshold)
{
	static const uint64_t sizes[] = {100, 200, 300};
	uint64_t from = bench_tune_choose(sizes, choices[_i].oneshot, choices[_i].twoshot, 3);

	ck_assert_msg(from == choices[_i].from, "%s: %llu", choices[_i].rule,
		      (unsigned long long)from);
}
END_TEST

/* A job of two ranks: one step of four calls of 1000 f32 in two passes, then one of the same size,
 * not in passes. */
static struct bench_job *job;
static int job_fd;
static struct rank_processes processes;
static struct bench_results results;

static void make_job(void)
{
	static const struct bench_step steps[] = {
		{.passes = 2, .calls = 2, .count = 1000, .dtype = BELAY_F32, .in_passes = 1},
		{.passes = 1, .calls = 3, .count = 1000, .dtype = BELAY_F32},
	};
	const struct bench_order order = {
		.nranks = 2, .op = BELAY_SUM, .steps = steps, .nsteps = 2};

	ck_assert_int_eq(bench_job_create(&order, &job, &job_fd), 0);
	memset(&processes, 0, sizeof(processes));
	processes.count = 2;
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct bench_rank *out = bench_rank(job, rank);

		for (uint64_t call = 0; call < 7; call++)
			bench_calls(job, rank)[call] = 1000 * (call + 1) + rank;
		bench_passes(job, rank)[0] = 1000000;
		bench_passes(job, rank)[1] = 3000000 + rank;
		atomic_store_explicit(&out->calls_done, 7, memory_order_relaxed);
		atomic_store_explicit(&out->passes_done, 2, memory_order_relaxed);
	}
}

static void gather(void)
{
	ck_assert_int_eq(bench_results_gather(job, &processes, "host", &results), 0);
}

static void free_job(void)
{
	bench_results_free(&results);
	bench_job_close(job, job_fd);
}

START_TEST(a_row_takes_the_slowest_rank_of_each_call)
{
	gather();
	ck_assert_uint_eq(results.nrows, 1);
	ck_assert_uint_eq(results.rows[0].calls, 7);
	ck_assert_double_eq(results.rows[0].min_us, 1.001);
	ck_assert_double_eq(results.rows[0].p50_us, 4.001);
	ck_assert_double_eq(results.rows[0].p99_us, 7.001);
	ck_assert_double_eq_tol(results.rows[0].busbw_gbps, 4000 / 4.001 / 1e3, 1e-9);
	ck_assert(results.rows[0].checked && !results.failed);
	ck_assert_uint_eq(results.passes, 2);
	ck_assert_double_eq(results.pass_p99_ms, 3.000001);
}
END_TEST

START_TEST(only_calls_that_all_ranks_finished_count)
{
	atomic_store_explicit(&bench_rank(job, 1)->calls_done, 3, memory_order_relaxed);
	atomic_store_explicit(&bench_rank(job, 1)->passes_done, 1, memory_order_relaxed);
	processes.rank[1].wait_status = SIGKILL;
	gather();
	ck_assert_uint_eq(results.rows[0].calls, 3);
	ck_assert_uint_eq(results.passes, 1);
	ck_assert_uint_eq(results.lost_ranks, 2);
	ck_assert(results.failed);
}
END_TEST

START_TEST(one_wrong_result_on_one_rank_unchecks_the_row)
{
	bench_result(job, 1, 1)->wrong = 1;
	bench_rank(job, 1)->wrong = 1;
	gather();
	ck_assert(!results.rows[0].checked && results.failed);
	ck_assert_uint_eq(results.wrong, 1);
}
END_TEST

START_TEST(verdicts_that_differ_are_noticed)
{
	for (uint32_t rank = 0; rank < 2; rank++) {
		bench_rank(job, rank)->has_verdict = 1;
		bench_rank(job, rank)->verdict_seq = 5;
		bench_rank(job, rank)->verdict_cause = BELAY_CAUSE_PEER_LOST;
	}
	gather();
	ck_assert(results.agreed && results.failed);
	ck_assert_uint_eq(results.verdict_ranks, 3);
	bench_results_free(&results);
	bench_rank(job, 1)->verdict_seq = 6;
	gather();
	ck_assert(!results.agreed);
}
END_TEST

START_TEST(more_calls_than_can_be_kept_are_refused)
{
	static const struct bench_step step = {
		.passes = UINT64_C(1) << 30, .calls = 1000, .count = 1, .dtype = BELAY_U8};
	const struct bench_order order = {
		.nranks = 2, .op = BELAY_SUM, .steps = &step, .nsteps = 1};
	struct bench_job *none = NULL;
	int fd = -7;

	ck_assert_int_eq(bench_job_create(&order, &none, &fd), -1);
	ck_assert_ptr_null(none);
	ck_assert_int_eq(fd, -7);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("bench_results");
	TCase *t = tcase_create("numbers");

	tcase_add_loop_test(t, a_percentile_is_the_nearest_rank, 0,
			    (int)(sizeof(percentiles) / sizeof(percentiles[0])));
	tcase_add_loop_test(t, tuning_takes_the_cheapest_threshold, 0,
			    (int)(sizeof(choices) / sizeof(choices[0])));
	tcase_add_test(t, more_calls_than_can_be_kept_are_refused);
	suite_add_tcase(s, t);
	t = tcase_create("results");
	tcase_add_checked_fixture(t, make_job, free_job);
	tcase_add_test(t, a_row_takes_the_slowest_rank_of_each_call);
	tcase_add_test(t, only_calls_that_all_ranks_finished_count);
	tcase_add_test(t, one_wrong_result_on_one_rank_unchecks_the_row);
	tcase_add_test(t, verdicts_that_differ_are_noticed);
	suite_add_tcase(s, t);
	return s;
}

#include "check_main.h"
