/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls on devices while the breaker is open, over links that work: kernels ask for a rescue at
 * once, so that most of them have their data before one has begun. Whether a turn is pulled,
 * because slots may hold leftovers of the one two before, must be known alike by all ranks all the
 * same.
 */
#include "config.h"

#include <check.h>

#include "tests/support/rank_calls.h"
#include "tests/support/rank_device.h"

struct hasty_plan {
	size_t bytes_max;
	bool large; /* f32 sums of bytes_max, several turns each */
};

/* What opens the breaker, and then stays open. */
static void set(struct rank_seat *seat)
{
	seat->config.fault = "rank=1,seq=2:4,kind=drop";
	seat->config.breaker = "2/60s";
	seat->config.probe_ms = "60000";
	seat->config.late_ms = "5";
	seat->config.grace_ms = "1";
}

static void call_hastily(struct rank_seat *seat)
{
	const struct hasty_plan *plan = seat->plan;
	int calls = rank_tests_long() ? 500 : 40;
	uint64_t random = 4711;

	set(seat);
	RANK_EXPECT_STATUS(seat, device_create(seat, 0), 0);
	for (int i = 0; i < calls && !seat->report->failed; i++) {
		struct device_call call = device_call_random(&random, plan->bytes_max);

		if (plan->large)
			call = (struct device_call){
				.count = plan->bytes_max / 4, .dtype = BELAY_F32, .op = BELAY_SUM};
		(void)device_call(seat, call, NULL);
	}
	rank_destroy(seat);
	device_expect_nothing_left(seat);
}

FAULT_TEST(hasty_calls_over_links_that_work_are_right, "26")
{
	static const struct hasty_plan plans[] = {{.bytes_max = 30000},
						  {.bytes_max = 700000, .large = true}};
	struct rank_group group;

	rank_group_run(&(struct rank_spec){.nranks = 3,
					   .scenario = call_hastily,
					   .plan = &plans[_i],
					   .cap_ms = 120000},
		       &group);
	assert_all_well(&group);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("hasty calls");
	TCase *c = tcase_create("hasty");

	tcase_set_timeout(c, 300);
	tcase_add_loop_test(c, hasty_calls_over_links_that_work_are_right, 0, 2);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
