/* SPDX-License-Identifier: Apache-2.0 */
/* Joins the ranks' streams of one communicator by seq: one row a call, in memory of one batch a
 * rank. Pure. */
#ifndef BELAY_TOOLS_ANALYZE_MERGE_H
#define BELAY_TOOLS_ANALYZE_MERGE_H

#include "tools/analyze/call_row.h"
#include "tools/analyze/rank_stream.h"

struct merge {
	/* Set by the caller: streams[i] is any of the communicator's ranks, each at most once. */
	uint32_t nranks;
	struct rank_stream *streams;
	size_t nstreams;
	/* The merge's own: streams whose record is in the last row. */
	uint64_t in_row;
};

/* Starts every stream. Returns 0 or a stream's status. */
int merge_start(struct merge *merge);

/* The next row, in memory that lives until the next call; its pass is that of the lowest rank's
 * record. ret_row->ranks is 0 at the end. */
int merge_next(struct merge *merge, struct call_row *ret_row);

void merge_stop(struct merge *merge);

#endif /* BELAY_TOOLS_ANALYZE_MERGE_H */
