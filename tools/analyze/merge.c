/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/merge.h"

int merge_start(struct merge *merge)
{
	int status = 0;

	merge->in_row = 0;
	for (size_t i = 0; status == 0 && i < merge->nstreams; i++)
		status = rank_stream_start(&merge->streams[i]);
	return status;
}

/* The streams' turn comes only now, so that the last row's records lived until this call. */
static int leave_row(struct merge *merge)
{
	int status = 0;

	while (status == 0 && merge->in_row)
		status = rank_stream_advance(&merge->streams[mask_pop(&merge->in_row)]);
	return status;
}

static uint64_t lowest_seq(const struct merge *merge, int *ret_found)
{
	uint64_t lowest = UINT64_MAX;
	int found = 0;

	for (size_t i = 0; i < merge->nstreams; i++) {
		const struct call_record *head = merge->streams[i].head;

		if (head && head->seq <= lowest) {
			lowest = head->seq;
			found = 1;
		}
	}
	*ret_found = found;
	return lowest;
}

int merge_next(struct merge *merge, struct call_row *ret_row)
{
	int found = 0;
	int status = leave_row(merge);

	if (status != 0)
		return status;
	*ret_row = (struct call_row){.nranks = merge->nranks};
	ret_row->seq = lowest_seq(merge, &found);
	for (size_t i = 0; found && i < merge->nstreams; i++) {
		const struct rank_stream *stream = &merge->streams[i];

		if (!stream->head || stream->head->seq != ret_row->seq)
			continue;
		merge->in_row |= rank_bit((uint32_t)i);
		ret_row->ranks |= rank_bit(stream->rank);
		ret_row->records[stream->rank] = stream->head;
	}
	if (ret_row->ranks)
		ret_row->pass = ret_row->records[__builtin_ctzll(ret_row->ranks)]->pass;
	return 0;
}

void merge_stop(struct merge *merge)
{
	for (size_t i = 0; i < merge->nstreams; i++)
		rank_stream_stop(&merge->streams[i]);
	merge->in_row = 0;
}
