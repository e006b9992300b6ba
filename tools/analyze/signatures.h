/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a mismatched call, grouped by what they called. Pure. */
#ifndef BELAY_TOOLS_ANALYZE_SIGNATURES_H
#define BELAY_TOOLS_ANALYZE_SIGNATURES_H

#include <stddef.h>

#include "tools/analyze/call_row.h"

struct signature {
	uint64_t ranks; /* mask */
	uint64_t count;
	uint8_t dtype;
	uint8_t op;
	uint64_t pass;
	uint32_t index;
};

struct signature_list {
	size_t count;
	int places_differ; /* the same calls, but at different places or in different passes */
	struct signature items[BELAY_RANKS_MAX];
};

/* Groups the records of the ranks in `ranks`. Groups come in the order of their lowest rank. */
void signatures_group(const struct call_row *row, uint64_t ranks, struct signature_list *ret_list);

/* "0,1,3: 57344 bf16 sum; 2: 57345 bf16 sum", cut at size. */
void signatures_text(const struct call_row *row, uint64_t ranks, char *ret_text, size_t size);

#endif /* BELAY_TOOLS_ANALYZE_SIGNATURES_H */
