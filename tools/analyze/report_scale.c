/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "tools/analyze/report_scale.h"

#define LINEAR_TICKS 4u
/* 31 years: hostile times stand at the end of the axis. */
#define SCALE_MAX_NS 1000000000000000000u

static uint64_t power_of_ten(unsigned exponent)
{
	uint64_t power = 1;

	while (exponent--)
		power *= 10;
	return power;
}

/* The smallest of 1, 2, 5, 10, 20, ... that is not below. */
static uint64_t round_up(uint64_t value)
{
	uint64_t power = 1;

	while (power < value && power <= UINT64_MAX / 10) {
		if (value <= 2 * power)
			return 2 * power;
		if (value <= 5 * power)
			return 5 * power;
		power *= 10;
	}
	return power;
}

void report_scale_linear(uint64_t high_ns, struct report_scale *ret_scale)
{
	uint64_t step;

	if (high_ns > SCALE_MAX_NS)
		high_ns = SCALE_MAX_NS;
	step = round_up(high_ns / LINEAR_TICKS + 1);
	*ret_scale = (struct report_scale){.high_ns = step};
	while (ret_scale->high_ns < high_ns)
		ret_scale->high_ns += step;
	for (uint64_t tick = 0; tick <= ret_scale->high_ns; tick += step)
		ret_scale->ticks_ns[ret_scale->nticks++] = tick;
}

void report_scale_logarithmic(uint64_t low_ns, uint64_t high_ns, struct report_scale *ret_scale)
{
	unsigned first = 0, last;

	while (first < 18 && power_of_ten(first + 1) <= low_ns)
		first++;
	last = first + 1;
	while (last < 19 && power_of_ten(last) < high_ns)
		last++;
	*ret_scale = (struct report_scale){
		.logarithmic = 1, .low_ns = power_of_ten(first), .high_ns = power_of_ten(last)};
	/* 1, 10, 100; with 3 between them where there is room. */
	for (unsigned i = first; i <= last && ret_scale->nticks < REPORT_TICKS_MAX; i++) {
		ret_scale->ticks_ns[ret_scale->nticks++] = power_of_ten(i);
		if (last - first <= 3 && i < last)
			ret_scale->ticks_ns[ret_scale->nticks++] = 3 * power_of_ten(i);
	}
}

unsigned report_scale_place(const struct report_scale *scale, uint64_t ns, unsigned length)
{
	double part;

	if (ns >= scale->high_ns)
		return length;
	if (ns <= scale->low_ns)
		return 0;
	if (scale->logarithmic)
		part = log((double)ns / (double)scale->low_ns) /
		       log((double)scale->high_ns / (double)scale->low_ns);
	else
		part = (double)ns / (double)scale->high_ns;
	return (unsigned)(part * (double)length + 0.5);
}
