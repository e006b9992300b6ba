/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of one rank in the order of their seq, from any number of parts (rotated files, files
 * that a survivor saved, an LTTng trace). Parts may overlap: each seq is given once. Holes are
 * counted. Pure: the parts do the reading.
 */
#ifndef BELAY_TOOLS_ANALYZE_RANK_STREAM_H
#define BELAY_TOOLS_ANALYZE_RANK_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "trace/call_log_reader.h"

/* How a part is read. begin and next return 0, BELAY_E_NO_MEMORY or BELAY_E_ABORTED; whatever else
 * goes wrong ends the part, which keeps the reason itself. A part may begin again after its end. */
struct record_part_ops {
	int (*begin)(void *self);
	int (*next)(void *self, struct call_log_batch *ret_batch);
	void (*end)(void *self);
};

/* A part and the place in it. The caller sets the first three fields, the rest is the stream's. */
struct record_part {
	const struct record_part_ops *ops;
	void *self;
	uint64_t first_seq; /* of its first call; 0 when it holds none */
	int is_open;
	size_t left; /* rows left of the batch, the current one included; 0: at the end */
	size_t stride;
	const struct call_record *record;
};

/* Receives every event as it is read: near the calls of its time, not in step with them. */
typedef int record_event_function(void *user, uint32_t rank, const struct event_record *event);

struct rank_stream {
	/* Set by the caller. */
	uint32_t rank;
	struct record_part *parts; /* sorted by first_seq */
	size_t nparts;
	record_event_function *on_event; /* NULL: events are skipped */
	void *event_user;
	/* The current record, NULL at the end. */
	const struct call_record *head;
	/* What has been met so far. */
	uint64_t records;
	uint64_t first_seq;
	uint64_t last_seq;
	uint64_t holes; /* seqs missing between first_seq and last_seq */
	/* The stream's own. */
	struct record_part *current;
	size_t opened;	  /* parts[0 .. opened - 1] have been opened */
	size_t first;	  /* of these, parts[0 .. first - 1] are at their ends */
	size_t nopen;	  /* are not at their ends */
	uint64_t due_seq; /* where the next part must be opened; UINT64_MAX: there is none */
};

/* Goes to the first record. Returns 0 or a status of a part or of on_event. */
int rank_stream_start(struct rank_stream *stream);

/* Goes to the next record; the last one's memory may be gone. Not at the end. */
int rank_stream_advance(struct rank_stream *stream);

/* Closes every part. The stream may be started again. */
void rank_stream_stop(struct rank_stream *stream);

#endif /* BELAY_TOOLS_ANALYZE_RANK_STREAM_H */
