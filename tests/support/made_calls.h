/* SPDX-License-Identifier: Apache-2.0 */
/* Records made up for tests of the analyses: rows of up to four ranks, and parts of a rank's
 * stream. */
#ifndef BELAY_TESTS_MADE_CALLS_H
#define BELAY_TESTS_MADE_CALLS_H

#include <string.h>

#include "tools/analyze/call_row.h"
#include "tools/analyze/rank_stream.h"

#define MADE_RANKS  4u
#define MADE_STRIDE 128u /* call_record_stride(4) */

union made_record {
	struct call_record record;
	unsigned char room[MADE_STRIDE];
};

/* A call that took 10 us, from seq * 20 us on; every input ready after 1 us and seen after 2 us. */
static inline void made_record(union made_record *made, uint64_t seq)
{
	memset(made, 0, sizeof(*made));
	made->record.seq = seq;
	made->record.pass = (seq - 1) / 10 + 1;
	made->record.index = (uint32_t)((seq - 1) % 10);
	made->record.start_ns = 1000000 + seq * 20000;
	made->record.staged_ns = 1000;
	made->record.duration_ns = 10000;
	made->record.count = 57344;
	made->record.dtype = BELAY_BF16;
	made->record.op = BELAY_SUM;
	made->record.path = BELAY_PATH_SYMM;
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		made->record.arrival_ns[rank] = 2000;
}

struct made_row {
	union made_record ranks[MADE_RANKS];
	struct call_row row;
	struct row_facts facts;
};

/* A row of all four ranks; change the records, then made_row_done(). */
static inline void made_row(struct made_row *made, uint64_t seq)
{
	memset(made, 0, sizeof(*made));
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		made_record(&made->ranks[rank], seq);
	made->row.seq = seq;
	made->row.nranks = MADE_RANKS;
	made->row.ranks = mask_of(MADE_RANKS);
}

static inline void made_row_done(struct made_row *made)
{
	for (uint32_t rank = 0; rank < MADE_RANKS; rank++)
		made->row.records[rank] =
			made->row.ranks & rank_bit(rank) ? &made->ranks[rank].record : NULL;
	made->row.pass = made->row.records[__builtin_ctzll(made->row.ranks)]->pass;
	row_examine(&made->row, &made->facts);
}

/* A part in memory: batches of at most `per_batch` calls, events before the first. */
struct made_part {
	const union made_record *records;
	size_t count;
	size_t per_batch;
	const struct event_record *events;
	size_t nevents;
	size_t next;
	int events_told;
	int opened, closed;
};

static inline int made_open(void *self)
{
	struct made_part *part = (struct made_part *)self;

	part->next = 0;
	part->events_told = 0;
	part->opened++;
	return 0;
}

static inline int made_next(void *self, struct call_log_batch *ret_batch)
{
	struct made_part *part = (struct made_part *)self;
	size_t n = part->count - part->next;

	*ret_batch = (struct call_log_batch){.kind = CALL_LOG_END};
	if (part->nevents && !part->events_told) {
		part->events_told = 1;
		*ret_batch = (struct call_log_batch){CALL_LOG_EVENTS, part->nevents,
						     sizeof(struct event_record), part->events};
		return 0;
	}
	if (n == 0)
		return 0;
	if (n > part->per_batch)
		n = part->per_batch;
	*ret_batch =
		(struct call_log_batch){CALL_LOG_CALLS, n, MADE_STRIDE, &part->records[part->next]};
	part->next += n;
	return 0;
}

static inline void made_close(void *self)
{
	struct made_part *part = (struct made_part *)self;

	part->closed++;
}

static const struct record_part_ops made_part_ops = {made_open, made_next, made_close};

#endif /* BELAY_TESTS_MADE_CALLS_H */
