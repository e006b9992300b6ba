/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Positions and sizes of each row of the fault matrix. `make check` runs the first only;
 * BELAY_TESTS_LONG=1 all: the fault first and after successful passes, N = 2, 4, 8, and all ranks
 * on one core. The healthy communicator afterwards, in the same processes, is part of each
 * scenario.
 */
#ifndef BELAY_TESTS_FAULT_VARIANTS_H
#define BELAY_TESTS_FAULT_VARIANTS_H

#include <stdarg.h>
#include <stdio.h>

#include "tests/support/rank_calls.h"

struct fault_variant {
	int nranks;
	unsigned seq; /* of the fault */
	bool one_core;
};

static const struct fault_variant fault_variants[] = {
	{4, 23, false}, {4, 1, false}, {2, 23, false}, {2, 1, false},
	{8, 23, false}, {8, 1, false}, {4, 23, true},  {8, 22, true},
};

static inline int fault_variant_count(void)
{
	return rank_tests_long() ? (int)(sizeof(fault_variants) / sizeof(fault_variants[0])) : 1;
}

/* Text for BELAY_FAULT; lives until the next call. */
__attribute__((format(printf, 1, 2))) static inline const char *fault_text(const char *format, ...)
{
	static char text[512];
	va_list list;

	va_start(list, format);
	(void)vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	return text;
}

#endif /* BELAY_TESTS_FAULT_VARIANTS_H */
