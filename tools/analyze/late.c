/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/late.h"

/*
 * Events and records of one call come at different times, within a few blocks of each other. A call
 * stays open until another one, ENTRIES calls away, needs its place.
 */
#define ENTRIES 8192u

struct entry {
	int used;
	uint64_t seq;
	uint64_t pass;
	uint64_t time_ns;
	uint64_t by_event;
	uint64_t by_mask;
	uint64_t observers;
	uint64_t wait_ns[]; /* nranks */
};

static struct entry *entry_at(struct late *late, uint64_t place)
{
	return (struct entry *)(void *)((char *)late->entries + place * late->entry_bytes);
}

int late_init(struct late *late, uint32_t nranks, struct arena *arena)
{
	size_t bytes = sizeof(struct entry) + nranks * sizeof(uint64_t);
	void *entries = arena_alloc(arena, ENTRIES * bytes);

	if (!entries)
		return BELAY_E_NO_MEMORY;
	*late = (struct late){.nranks = nranks, .entry_bytes = bytes, .entries = entries};
	return 0;
}

static void add_to_rank(struct late_rank *sum, const struct entry *entry, uint64_t wait_ns)
{
	if (sum->calls == 0 || entry->seq < sum->first_seq) {
		sum->first_seq = entry->seq;
		sum->first_pass = entry->pass;
	}
	if (sum->calls == 0 || entry->seq > sum->last_seq) {
		sum->last_seq = entry->seq;
		sum->last_pass = entry->pass;
	}
	if (sum->calls == 0 || wait_ns > sum->worst_ns) {
		sum->worst_ns = wait_ns;
		sum->worst_seq = entry->seq;
	}
	sum->calls++;
}

static int settle(struct late *late, struct entry *entry)
{
	struct late_call call = {.seq = entry->seq,
				 .pass = entry->pass,
				 .time_ns = entry->time_ns,
				 .named = entry->by_event ? entry->by_event : entry->by_mask,
				 .observers = entry->observers,
				 .wait_ns = entry->wait_ns};

	entry->used = 0;
	for (uint64_t left = call.named; left;) {
		uint32_t rank = mask_pop(&left);

		add_to_rank(&late->ranks[rank], entry, entry->wait_ns[rank]);
	}
	return late->found && call.named ? late->found(late->user, &call) : 0;
}

/* The open entry of a call; makes room for it. */
static int open_entry(struct late *late, uint64_t seq, struct entry **ret_entry)
{
	struct entry *entry = entry_at(late, seq % ENTRIES);
	int status = 0;

	if (entry->used && entry->seq != seq)
		status = settle(late, entry);
	if (!entry->used) {
		memset(entry, 0, late->entry_bytes);
		entry->used = 1;
		entry->seq = seq;
	}
	*ret_entry = entry;
	return status;
}

int late_note_event(struct late *late, uint32_t rank, const struct event_record *event)
{
	struct entry *entry;
	int status;

	if (event->kind != EVENT_LATE || event->peer < 0 || (uint32_t)event->peer >= late->nranks)
		return 0;
	status = open_entry(late, event->seq, &entry);
	entry->pass = event->pass;
	if (!entry->by_event || event->time_ns < entry->time_ns)
		entry->time_ns = event->time_ns;
	entry->by_event |= rank_bit((uint32_t)event->peer);
	entry->observers |= rank_bit(rank);
	/* The wait so far. The record may know of a longer one, or only of an earlier step of
	 * the call. */
	if (event->duration_ns > entry->wait_ns[event->peer])
		entry->wait_ns[event->peer] = event->duration_ns;
	return status;
}

static uint64_t arrival_seen(const struct late *late, const struct call_record *record)
{
	uint64_t last = record->staged_ns;

	for (uint32_t peer = 0; peer < late->nranks; peer++) {
		uint64_t arrival = record->arrival_ns[peer];

		if (arrival != CALL_ARRIVAL_NONE && arrival > last)
			last = arrival;
	}
	return last < record->duration_ns ? last : record->duration_ns;
}

/*
 * How long the record's rank waited for the peer: for its input, or, where all inputs were here
 * early and most of the time went by after that, for its part of the result.
 */
static uint64_t wait_for(const struct call_record *record, uint32_t peer, uint64_t last_arrival)
{
	uint64_t from = record->staged_ns, until = record->arrival_ns[peer];

	if (until == CALL_ARRIVAL_NONE || until > record->duration_ns) {
		until = record->duration_ns;
	} else if (record->duration_ns - last_arrival > last_arrival) {
		from = last_arrival;
		until = record->duration_ns;
	}
	return until > from ? until - from : 0;
}

static void note_record(struct late *late, struct entry *entry, const struct call_record *record)
{
	uint64_t last_arrival = arrival_seen(late, record);

	for (uint64_t left = record->missing & mask_of(late->nranks); left;) {
		uint32_t peer = mask_pop(&left);
		uint64_t wait_ns = wait_for(record, peer, last_arrival);

		if (wait_ns > entry->wait_ns[peer])
			entry->wait_ns[peer] = wait_ns;
	}
}

int late_note_row(struct late *late, const struct call_row *row, const struct row_facts *facts)
{
	struct entry *entry;
	int status;

	if (!facts->late)
		return 0;
	status = open_entry(late, row->seq, &entry);
	entry->pass = row->pass;
	if (!entry->by_event)
		entry->time_ns = facts->start_ns;
	for (uint64_t left = facts->late; left;) {
		uint32_t rank = mask_pop(&left);
		const struct call_record *record = row->records[rank];

		note_record(late, entry, record);
		if (facts->stuck || facts->status < 0)
			continue;
		entry->by_mask |= record->missing & mask_of(late->nranks);
		entry->observers |= rank_bit(rank);
	}
	return status;
}

int late_finish(struct late *late)
{
	int status = 0;

	for (uint64_t i = 0; status == 0 && i < ENTRIES; i++) {
		if (entry_at(late, i)->used)
			status = settle(late, entry_at(late, i));
	}
	return status;
}
