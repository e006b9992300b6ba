/* SPDX-License-Identifier: Apache-2.0 */
/* Which comparisons of the two clocks are believed; see device_clock.h. Pure. */
#include "runtime/cuda/device_clock.h"

#define RATE_BASELINE_NS UINT64_C(100000000)
/* Clocks of one machine: far beyond what two crystals differ by. */
#define RATE_MOST 0.001
/* What an old comparison may have drifted by before a new one, however coarse, replaces it. */
#define DRIFT_PER_NS 0.0001

static int is_better(const struct clock_fit *fit, uint64_t middle_ns, uint64_t error_ns)
{
	double age;

	if (fit->error_ns == UINT64_MAX)
		return 1;
	age = middle_ns > fit->base_ns ? (double)(middle_ns - fit->base_ns) : 0;
	return (double)error_ns <= 2 * (double)fit->error_ns + age * DRIFT_PER_NS;
}

static double rate_between(const struct clock_fit *fit, uint64_t ticks, uint64_t ns)
{
	double rate = (double)(ns - fit->base_ns) / (double)(ticks - fit->base_ticks);

	if (rate > 1 + RATE_MOST)
		return 1 + RATE_MOST;
	return rate < 1 - RATE_MOST ? 1 - RATE_MOST : rate;
}

int clock_fit_take(struct clock_fit *fit, uint64_t ticks, uint64_t before_ns, uint64_t after_ns)
{
	uint64_t error_ns = (after_ns - before_ns + 1) / 2, middle_ns = before_ns + error_ns;

	if (after_ns < before_ns || !is_better(fit, middle_ns, error_ns))
		return 0;
	if (fit->error_ns == UINT64_MAX)
		fit->rate = 1;
	else if (middle_ns > fit->base_ns + RATE_BASELINE_NS && ticks > fit->base_ticks)
		fit->rate = rate_between(fit, ticks, middle_ns);
	fit->base_ticks = ticks;
	fit->base_ns = middle_ns;
	fit->error_ns = error_ns;
	return 1;
}

uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks)
{
	int64_t since = (int64_t)(ticks - fit->base_ticks);

	return fit->base_ns + (uint64_t)(int64_t)((double)since * fit->rate);
}
