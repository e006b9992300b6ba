/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tools/analyze/signatures.h"
#include "tools/analyze/timeline.h"

#define ITEMS  8192u
#define PLACES (2 * ITEMS) /* a power of two */

int timeline_init(struct timeline *timeline, timeline_function *tell, void *user,
		  struct arena *arena)
{
	struct timeline_item *items = arena_alloc(arena, ITEMS * sizeof(*items));
	uint16_t *places = arena_alloc(arena, PLACES * sizeof(*places));

	if (!items || !places)
		return BELAY_E_NO_MEMORY;
	*timeline = (struct timeline){.tell = tell, .user = user, .items = items, .places = places};
	return 0;
}

/* The breaker is told of by one rank, and may move several times between two calls. */
static int same_thing(const struct timeline_item *a, const struct timeline_item *b)
{
	return a->kind == b->kind && a->seq == b->seq && a->subject == b->subject &&
	       a->detail == b->detail &&
	       ((a->seq && a->kind != TIMELINE_BREAKER) || a->time_ns == b->time_ns);
}

/* The place of the same thing, or the free one where it belongs. */
static uint16_t *place_of(const struct timeline *timeline, const struct timeline_item *item)
{
	uint64_t hash = item->seq * 0x9e3779b97f4a7c15u +
			(uint64_t)item->kind * 0xff51afd7ed558ccdu +
			(uint64_t)(item->subject + 1) * 0xc4ceb9fe1a85ec53u +
			(uint64_t)(int64_t)item->detail;
	size_t i = (size_t)(hash >> 40) % PLACES;

	while (timeline->places[i] && !same_thing(&timeline->items[timeline->places[i] - 1], item))
		i = (i + 1) % PLACES;
	return &timeline->places[i];
}

static void join(struct timeline_item *known, const struct timeline_item *item)
{
	known->ranks |= item->ranks;
	if (item->time_ns < known->time_ns)
		known->time_ns = item->time_ns;
	if (item->recorded > known->recorded ||
	    (item->recorded == known->recorded && item->amount_ns > known->amount_ns)) {
		known->amount_ns = item->amount_ns;
		known->wait_ns = item->wait_ns;
		known->recorded = item->recorded;
	}
	if (!known->path)
		known->path = item->path;
	if (!known->text[0])
		memcpy(known->text, item->text, sizeof(known->text));
}

static int by_time(const void *a, const void *b)
{
	const struct timeline_item *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->seq != y->seq)
		return x->seq < y->seq ? -1 : 1;
	return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Tells the earliest `n` items and keeps the rest. */
static int tell_earliest(struct timeline *timeline, size_t n)
{
	int status = 0;

	sort_items(timeline->items, timeline->count, sizeof(timeline->items[0]), by_time);
	for (size_t i = 0; status == 0 && i < n; i++)
		status = timeline->tell(timeline->user, &timeline->items[i]);
	timeline->count -= n;
	memmove(timeline->items, timeline->items + n, timeline->count * sizeof(timeline->items[0]));
	memset(timeline->places, 0, PLACES * sizeof(timeline->places[0]));
	for (size_t i = 0; i < timeline->count; i++)
		*place_of(timeline, &timeline->items[i]) = (uint16_t)(i + 1);
	return status;
}

int timeline_note(struct timeline *timeline, const struct timeline_item *item)
{
	uint16_t *place = place_of(timeline, item);
	int status = 0;

	if (*place) {
		join(&timeline->items[*place - 1], item);
		return 0;
	}
	if (timeline->count == ITEMS) {
		status = tell_earliest(timeline, ITEMS / 2);
		place = place_of(timeline, item);
	}
	timeline->items[timeline->count++] = *item;
	*place = (uint16_t)timeline->count;
	return status;
}

static void take_text(struct timeline_item *item, const struct event_record *event)
{
	memcpy(item->text, event->text, sizeof(item->text));
	item->text[sizeof(item->text) - 1] = '\0';
}

/* Fills in what differs by kind. Returns 0 when the event has no place here. */
static int item_of_event(struct timeline_item *item, uint32_t rank,
			 const struct event_record *event)
{
	switch (event->kind) {
	case EVENT_RESCUE_BEGIN:
		item->kind = TIMELINE_LOST_WRITE;
		item->path = 0;
		return event->peer >= 0;
	case EVENT_RESCUE_END:
		item->kind = TIMELINE_RESCUE;
		item->subject = -1;
		item->ranks = event->mask;
		item->amount_ns = event->duration_ns;
		return event->status == 0;
	case EVENT_BREAKER:
		item->kind = TIMELINE_BREAKER;
		item->subject = -1;
		item->detail = (int)event->value;
		return 1;
	case EVENT_PATH_SWITCH:
		item->kind = TIMELINE_PATH_SWITCH;
		item->subject = -1;
		item->detail = (int)event->value;
		return 1;
	case EVENT_VERDICT:
		item->kind = TIMELINE_VERDICT;
		item->detail = event->cause;
		return 1;
	case EVENT_ERROR:
		item->kind = TIMELINE_ERROR;
		item->subject = (int)rank;
		item->detail = event->status;
		return 1;
	default:
		return 0;
	}
}

int timeline_note_event(struct timeline *timeline, uint32_t rank, const struct event_record *event)
{
	struct timeline_item item = {.subject = event->peer,
				     .path = event->path,
				     .seq = event->seq,
				     .pass = event->pass,
				     .time_ns = event->time_ns,
				     .ranks = rank_bit(rank)};

	take_text(&item, event);
	return item_of_event(&item, rank, event) ? timeline_note(timeline, &item) : 0;
}

int timeline_note_row(struct timeline *timeline, const struct call_row *row,
		      const struct row_facts *facts)
{
	struct timeline_item item = {
		.subject = -1, .seq = row->seq, .pass = row->pass, .time_ns = facts->end_ns};
	int status = 0;

	if (facts->stuck) {
		item.kind = TIMELINE_RESCUE;
		item.path = facts->rescue_path;
		item.ranks = facts->stuck;
		item.amount_ns = facts->rescue_ns;
		item.wait_ns = facts->rescue_wait_ns;
		item.recorded = 1;
		status = timeline_note(timeline, &item);
	}
	item.amount_ns = 0;
	item.wait_ns = 0;
	item.recorded = 0;
	item.path = 0;
	if (status == 0 && facts->mismatched) {
		item.kind = TIMELINE_MISMATCH;
		item.ranks = facts->mismatched;
		signatures_text(row, facts->mismatched, item.text, sizeof(item.text));
		status = timeline_note(timeline, &item);
	}
	item.text[0] = '\0';
	if (status == 0 && facts->digest_outliers) {
		item.kind = TIMELINE_DIGEST;
		item.ranks = facts->digest_outliers;
		status = timeline_note(timeline, &item);
	}
	return status;
}

int timeline_finish(struct timeline *timeline)
{
	return tell_earliest(timeline, timeline->count);
}

const char *timeline_kind_name(enum timeline_kind kind)
{
	static const char *const names[] = {
		[TIMELINE_LATE] = "late",
		[TIMELINE_LOST_WRITE] = "lost_write",
		[TIMELINE_RESCUE] = "rescue",
		[TIMELINE_BREAKER] = "breaker",
		[TIMELINE_PATH_SWITCH] = "path_switch",
		[TIMELINE_MISMATCH] = "mismatch",
		[TIMELINE_DIGEST] = "digest_difference",
		[TIMELINE_VERDICT] = "verdict",
		[TIMELINE_ERROR] = "error",
	};

	return names[kind];
}
