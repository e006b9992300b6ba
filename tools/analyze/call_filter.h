/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls `calls` and `export` are asked for. Pure. */
#ifndef BELAY_TOOLS_ANALYZE_CALL_FILTER_H
#define BELAY_TOOLS_ANALYZE_CALL_FILTER_H

#include "tools/analyze/call_row.h"

struct call_filter {
	uint64_t seq_first, seq_last;
	uint64_t pass;	/* 0: any */
	uint64_t ranks; /* mask */
	uint64_t slower_than_ns;
};

/* Whether a call is wanted, whoever's. */
int call_filter_takes(const struct call_filter *filter, uint64_t seq, uint64_t pass);

/* The ranks whose records of the row are wanted, as a mask. */
uint64_t call_filter_ranks(const struct call_filter *filter, const struct call_row *row);

#endif /* BELAY_TOOLS_ANALYZE_CALL_FILTER_H */
