/* SPDX-License-Identifier: Apache-2.0 */
/* Where a time stands on an axis, and the axis' marks. Pure. */
#ifndef BELAY_TOOLS_ANALYZE_REPORT_SCALE_H
#define BELAY_TOOLS_ANALYZE_REPORT_SCALE_H

#include <stddef.h>
#include <stdint.h>

#define REPORT_TICKS_MAX 12u

struct report_scale {
	int logarithmic;
	uint64_t low_ns, high_ns; /* the ends; low is 0 on a linear scale */
	size_t nticks;
	uint64_t ticks_ns[REPORT_TICKS_MAX]; /* rising */
};

/* From 0 to a round number at or above `high_ns`. */
void report_scale_linear(uint64_t high_ns, struct report_scale *ret_scale);
/* From a round number at or below `low_ns` (at least 1) to one at or above `high_ns`. */
void report_scale_logarithmic(uint64_t low_ns, uint64_t high_ns, struct report_scale *ret_scale);

/* 0 at the low end, `length` at the high one. */
unsigned report_scale_place(const struct report_scale *scale, uint64_t ns, unsigned length);

#endif /* BELAY_TOOLS_ANALYZE_REPORT_SCALE_H */
