/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rings of newest calls and events of one rank. They stand in memory shared by all ranks, so
 * that a survivor can read what a killed rank had not yet written to its log.
 *
 *   calls    one producer: the thread that makes the calls
 *   events   any thread of the process, under a lock of the process
 *   both     one consumer: the call log's thread; after the rank's death one survivor's
 *
 * A record has an index, from 0. It stands in the ring from its commit until the log file holds
 * it: only then does `written` pass it and its place become free. A record that finds no place
 * is dropped and counted. Without a log nothing is dropped: the ring wraps.
 *
 * Ordering contract [TRACE_RING], also in docs/memory-model.md:
 *
 *   producer                                consumer
 *   plain stores to the record
 *   (1) store-release of `head`     --->    (2) load-acquire of `head`
 *                                           plain loads of the record; write() to the file
 *   (4) load-acquire of `written`   <---    (3) store-release of `written`
 *   plain stores to the place
 *
 * (1)/(2): whoever sees a head sees the records, and the gaps, below it. (3)/(4): a place is filled
 * anew only after its old record was read. Both words only grow. Death of the producer at any point
 * leaves [written, head) whole.
 */
#ifndef BELAY_TRACE_TRACE_RING_H
#define BELAY_TRACE_TRACE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/call_record.h"

#define TRACE_AREA_MAGIC	0x676e6972796c6562ull /* "belyring" */
#define TRACE_AREA_VERSION	2u
#define TRACE_AREA_HEADER_BYTES 4096u
#define TRACE_EVENT_CAPACITY	256u
#define TRACE_GAPS		16u

/* Each word is alone with its writer in a cache line. */
struct trace_ring {
	alignas(64) _Atomic uint64_t head;    /* producer: records committed */
	_Atomic uint64_t lost;		      /* producer: records dropped */
	alignas(64) _Atomic uint64_t written; /* consumer: records that need no place any more */
};

/* From the call record `index` on, `lost` calls in all were dropped before it. */
struct trace_gap {
	uint64_t index;
	uint64_t lost;
};

/* The head of a rank's area; records follow at TRACE_AREA_HEADER_BYTES, events after them. */
struct trace_area {
	uint64_t magic; /* set last, at creation */
	uint32_t version;
	uint32_t rank;
	uint32_t nranks;
	uint32_t call_capacity; /* a power of two */
	uint32_t call_stride;
	uint32_t event_capacity; /* a power of two */
	uint32_t has_log;	 /* 0: the rings wrap and `written` stays 0 */
	uint32_t reserved;
	uint64_t run_id; /* random, of this rank's trace; files repeat it */
	struct trace_ring calls;
	struct trace_ring events;
	/* Producer: gaps noted. Consumer: gaps below the one in force at `calls.written`. */
	alignas(64) _Atomic uint64_t gap_head;
	alignas(64) _Atomic uint64_t gap_tail;
	struct trace_gap gaps[TRACE_GAPS];
	/* Consumer: where the log stands, number of the file << 40 | bytes that are whole in it. */
	alignas(64) _Atomic uint64_t file;
};
static_assert(sizeof(struct trace_area) <= TRACE_AREA_HEADER_BYTES, "the head is one page");

/* Records of a ring of nranks, a power of two. */
uint32_t trace_call_capacity(uint32_t nranks);

/* Makes a rank's area, which must be zeroed. */
void trace_area_init(struct trace_area *area, uint32_t rank, uint32_t nranks, uint64_t run_id,
		     int has_log);

/* The area of `rank` among the areas of a communicator. */
struct trace_area *trace_area_of(void *rings, uint32_t rank, uint32_t nranks);

/* Whether an area, perhaps a dead rank's, holds what its owner made and nothing impossible. */
int trace_area_sound(const struct trace_area *area, uint32_t rank, uint32_t nranks);

/* The first record of a ring that still stands there, given its capacity and a head. */
uint64_t trace_ring_first(const struct trace_area *area, const struct trace_ring *ring,
			  uint32_t capacity, uint64_t head);

static inline struct call_record *trace_area_call(struct trace_area *area, uint64_t index)
{
	size_t place = index & (area->call_capacity - 1);

	return (struct call_record *)((char *)area + TRACE_AREA_HEADER_BYTES +
				      place * area->call_stride);
}

static inline struct event_record *trace_area_event(struct trace_area *area, uint64_t index)
{
	size_t place = index & (area->event_capacity - 1);
	size_t calls_bytes = (size_t)area->call_capacity * area->call_stride;

	return (struct event_record *)((char *)area + TRACE_AREA_HEADER_BYTES + calls_bytes +
				       place * sizeof(struct event_record));
}

#endif /* BELAY_TRACE_TRACE_RING_H */
