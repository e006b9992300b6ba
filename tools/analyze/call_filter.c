/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/call_filter.h"

int call_filter_takes(const struct call_filter *filter, uint64_t seq, uint64_t pass)
{
	return seq >= filter->seq_first && seq <= filter->seq_last &&
	       (!filter->pass || pass == filter->pass);
}

uint64_t call_filter_ranks(const struct call_filter *filter, const struct call_row *row)
{
	uint64_t wanted = 0;

	if (!call_filter_takes(filter, row->seq, row->pass))
		return 0;
	for (uint64_t left = row->ranks & filter->ranks; left;) {
		uint32_t rank = mask_pop(&left);

		if (row->records[rank]->duration_ns >= filter->slower_than_ns)
			wanted |= rank_bit(rank);
	}
	return wanted;
}
