/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/analyze/rank_stream.h"

static int tell_events(struct rank_stream *stream, const struct call_log_batch *batch)
{
	const char *row = batch->rows;
	int status = 0;

	for (size_t i = 0; status == 0 && stream->on_event && i < batch->count; i++) {
		status = stream->on_event(stream->event_user, stream->rank,
					  (const struct event_record *)(const void *)row);
		row += batch->stride;
	}
	return status;
}

/* A part at its end holds no memory and no file. */
static void close_part(struct rank_stream *stream, struct record_part *part)
{
	if (!part->is_open)
		return;
	part->ops->end(part->self);
	part->is_open = 0;
	stream->nopen--;
}

/* Goes to the part's next batch of calls; events on the way are told. */
static int refill(struct rank_stream *stream, struct record_part *part)
{
	struct call_log_batch batch;
	int status;

	part->left = 0;
	part->record = NULL;
	do {
		status = part->ops->next(part->self, &batch);
		if (status == 0 && batch.kind == CALL_LOG_END)
			close_part(stream, part);
		if (status != 0 || batch.kind == CALL_LOG_END)
			return status;
		if (batch.kind == CALL_LOG_EVENTS)
			status = tell_events(stream, &batch);
	} while (status == 0 && (batch.kind != CALL_LOG_CALLS || batch.count == 0));
	if (status != 0)
		return status;
	part->left = batch.count;
	part->stride = batch.stride;
	part->record = batch.rows;
	return 0;
}

static int step(struct rank_stream *stream, struct record_part *part)
{
	part->left--;
	if (part->left == 0)
		return refill(stream, part);
	part->record = (const struct call_record *)(const void *)((const char *)part->record +
								  part->stride);
	return 0;
}

static void note_due(struct rank_stream *stream)
{
	stream->due_seq = stream->opened < stream->nparts ? stream->parts[stream->opened].first_seq
							  : UINT64_MAX;
}

static int open_next(struct rank_stream *stream)
{
	struct record_part *part = &stream->parts[stream->opened++];
	int status = part->ops->begin(part->self);

	note_due(stream);
	if (status != 0)
		return status;
	part->is_open = 1;
	stream->nopen++;
	return refill(stream, part);
}

/* Passes over what another part has given already. */
static int skip_known(struct rank_stream *stream, struct record_part *part)
{
	int status = 0;

	while (status == 0 && stream->records && part->left &&
	       part->record->seq <= stream->last_seq)
		status = step(stream, part);
	return status;
}

/* The open part with the lowest seq; NULL when all are at their ends. */
static int choose(struct rank_stream *stream, struct record_part **ret_part)
{
	struct record_part *best = NULL;

	while (stream->first < stream->opened && !stream->parts[stream->first].is_open)
		stream->first++;
	for (size_t i = stream->first; i < stream->opened; i++) {
		struct record_part *part = &stream->parts[i];
		int status = skip_known(stream, part);

		if (status != 0)
			return status;
		if (part->left && (!best || part->record->seq < best->record->seq))
			best = part;
	}
	*ret_part = best;
	return 0;
}

static int next_part_is_due(const struct rank_stream *stream, const struct record_part *best)
{
	return stream->opened < stream->nparts && (!best || stream->due_seq <= best->record->seq);
}

static void take(struct rank_stream *stream, struct record_part *part)
{
	uint64_t seq = part->record->seq;

	if (stream->records == 0)
		stream->first_seq = seq;
	else
		stream->holes += seq - stream->last_seq - 1;
	stream->last_seq = seq;
	stream->records++;
	stream->head = part->record;
	stream->current = part;
}

static int settle(struct rank_stream *stream)
{
	struct record_part *best = NULL;
	int status = choose(stream, &best);

	while (status == 0 && next_part_is_due(stream, best)) {
		status = open_next(stream);
		if (status == 0)
			status = choose(stream, &best);
	}
	if (status != 0)
		return status;
	stream->head = NULL;
	if (best)
		take(stream, best);
	return 0;
}

int rank_stream_start(struct rank_stream *stream)
{
	rank_stream_stop(stream);
	stream->records = 0;
	stream->holes = 0;
	stream->first_seq = 0;
	stream->last_seq = 0;
	note_due(stream);
	return settle(stream);
}

/* Mostly there is one part, and its next record is simply the next. */
static int goes_on(const struct rank_stream *stream, const struct record_part *part)
{
	return part->left && stream->nopen == 1 && part->record->seq > stream->last_seq &&
	       part->record->seq < stream->due_seq;
}

int rank_stream_advance(struct rank_stream *stream)
{
	struct record_part *part = stream->current;
	int status = step(stream, part);

	if (status != 0)
		return status;
	if (!goes_on(stream, part))
		return settle(stream);
	take(stream, part);
	return 0;
}

void rank_stream_stop(struct rank_stream *stream)
{
	for (size_t i = 0; i < stream->opened; i++) {
		close_part(stream, &stream->parts[i]);
		stream->parts[i].left = 0;
	}
	stream->opened = 0;
	stream->first = 0;
	stream->head = NULL;
	stream->current = NULL;
}
