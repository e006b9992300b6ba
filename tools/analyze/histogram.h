/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantiles of any number of values in fixed memory. Buckets are exact below 128, then 128 to each
 * doubling, so that a quantile is off by at most 0.4 % of its value. Smallest and largest are
 * exact.
 */
#ifndef BELAY_TOOLS_ANALYZE_HISTOGRAM_H
#define BELAY_TOOLS_ANALYZE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEPS_LOG2 7
#define HISTOGRAM_STEPS	     (1u << HISTOGRAM_STEPS_LOG2)
#define HISTOGRAM_BUCKETS    ((64 - HISTOGRAM_STEPS_LOG2 + 1) * HISTOGRAM_STEPS)

/* Starts zeroed. */
struct histogram {
	uint64_t count;
	uint64_t smallest;
	uint64_t largest;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* The value below or at which `fraction` (0 .. 1) of all values lie; 0 when there is none. */
uint64_t histogram_quantile(const struct histogram *histogram, double fraction);

/* How many values are above `value`; those within 0.4 % of it may count or not. */
uint64_t histogram_count_above(const struct histogram *histogram, uint64_t value);

#endif /* BELAY_TOOLS_ANALYZE_HISTOGRAM_H */
