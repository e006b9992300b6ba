/* SPDX-License-Identifier: Apache-2.0 */
/* The door: the hot path of a call record, events, and the life of the rings. */
#include "trace/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "runtime/belay.h"
#include "trace/call_log_writer.h"
#include "trace/emit.h"
#include "trace/trace_identity.h"
#include "trace/trace_ring.h"

/*
 * Stands in pages of its own that a fork() wipes: in a forked child every field is 0, so `head`
 * is not below `limit`, the slow paths are taken, and `area`, NULL, tells them to touch nothing.
 */
struct trace {
	/* The calling thread's. */
	uint64_t head;	/* records committed, as in the ring */
	uint64_t limit; /* the head at which the ring is full, as far as known; UINT64_MAX: it
			 * wraps */
	uint64_t wake;	/* the head at which the writer is woken */
	uint64_t lost;	/* records dropped, as in the ring */
	char *calls;
	uint32_t mask;
	uint32_t stride;
	struct trace_area *area;
	struct trace_identity identity;
	struct call_log_writer *writer; /* NULL: no log */
	struct call_record *spill;	/* filled when there is no place, and dropped */
	void *own_rings;		/* when the caller gave none */
	size_t own_rings_bytes;
	pthread_mutex_t event_lock; /* orders the producers of events */
};

/* What a forked child may scribble on: the largest record. */
static _Alignas(64) char forked_slot[sizeof(struct call_record) + 8 * BELAY_RANKS_MAX];

static void *map_zeroed(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static uint64_t random_run_id(void)
{
	uint64_t id = 0;

	/* Without random numbers the address still tells two communicators apart. */
	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
		id = (uint64_t)(uintptr_t)&id;
	return id;
}

static int has_log(const struct trace_config *config)
{
	return config->log_dir && *config->log_dir;
}

/* Half of a communicator's id; digits that are missing count as 0. */
static uint64_t half_of_id(const char *comm_id, size_t half)
{
	char digits[17] = "";

	if (strlen(comm_id) > 16 * half)
		strncpy(digits, comm_id + 16 * half, 16);
	return strtoull(digits, NULL, 16);
}

static void set_identity(struct trace *trace, const struct trace_config *config)
{
	trace->identity = (struct trace_identity){
		.comm_high = half_of_id(config->comm_id, 0),
		.comm_low = half_of_id(config->comm_id, 1),
		.rank = config->rank,
		.nranks = config->nranks,
	};
}

/* The rings of the own rank: in the caller's memory, or in memory of the trace. */
static int take_rings(struct trace *trace, const struct trace_config *config)
{
	if (config->rings) {
		trace->area = trace_area_of(config->rings, config->rank, config->nranks);
	} else {
		trace->own_rings_bytes = trace_ring_bytes(config->nranks);
		trace->own_rings = map_zeroed(trace->own_rings_bytes);
		if (!trace->own_rings)
			return BELAY_E_NO_MEMORY;
		trace->area = trace->own_rings;
	}
	trace_area_init(trace->area, config->rank, config->nranks, random_run_id(),
			has_log(config));
	trace->calls = (char *)trace->area + TRACE_AREA_HEADER_BYTES;
	trace->mask = trace->area->call_capacity - 1;
	trace->stride = trace->area->call_stride;
	trace->limit = has_log(config) ? trace->area->call_capacity : UINT64_MAX;
	trace->wake = has_log(config) ? trace->area->call_capacity / 2 : UINT64_MAX;
	return 0;
}

static void trace_free(struct trace *trace)
{
	free(trace->spill);
	if (trace->own_rings)
		(void)munmap(trace->own_rings, trace->own_rings_bytes);
	(void)munmap(trace, sizeof(*trace));
}

int trace_open(const struct trace_config *config, struct trace **ret_trace)
{
	struct trace *trace = map_zeroed(sizeof(*trace));
	int status;

	if (!trace)
		return BELAY_E_NO_MEMORY;
	/* Kernels before 4.14 do not know it; there the runtime's own check for forks remains. */
	(void)madvise(trace, sizeof(*trace), MADV_WIPEONFORK);

	trace->spill = calloc(1, call_record_stride(config->nranks));
	if (!trace->spill) {
		status = BELAY_E_NO_MEMORY;
		goto out;
	}
	status = take_rings(trace, config);
	if (status)
		goto out;
	set_identity(trace, config);
	pthread_mutex_init(&trace->event_lock, NULL);
	if (has_log(config))
		status = call_log_writer_start(config, trace->area, &trace->writer);
	if (status)
		goto out;

	*ret_trace = trace;
	trace = NULL; /* the caller's now */
out:
	if (trace)
		trace_free(trace);
	return status;
}

static inline struct call_record *place_of(struct trace *trace, uint64_t index)
{
	return (struct call_record *)(trace->calls + (index & trace->mask) * trace->stride);
}

/* Notes the records dropped before the one that comes next, if any. False when there is no room for
 * the note. */
static int note_gap(struct trace *trace)
{
	struct trace_area *area = trace->area;
	/* Relaxed: this thread's own word. */
	uint64_t head = atomic_load_explicit(&area->gap_head, memory_order_relaxed);
	/* Acquire: the writer has read the note that stood there. */
	uint64_t tail = atomic_load_explicit(&area->gap_tail, memory_order_acquire);

	if (area->gaps[(head - 1) % TRACE_GAPS].lost == trace->lost)
		return 1;
	if (head - tail >= TRACE_GAPS)
		return 0;
	area->gaps[head % TRACE_GAPS] =
		(struct trace_gap){.index = trace->head, .lost = trace->lost};
	/* Release: the note before its number; the record that follows releases both. */
	atomic_store_explicit(&area->gap_head, head + 1, memory_order_release);
	return 1;
}

/* The ring was full when last looked at. Dropping goes on until the gap can be noted, so that it is
 * exact. */
static struct call_record *slot_of_full_ring(struct trace *trace)
{
	struct trace_area *area = trace->area;
	uint64_t limit;

	if (!area)
		return (struct call_record *)forked_slot;
	/* (4) of [TRACE_RING]. */
	limit = atomic_load_explicit(&area->calls.written, memory_order_acquire) +
		area->call_capacity;
	if (trace->head >= limit || !note_gap(trace))
		return trace->spill;
	trace->limit = limit;
	return place_of(trace, trace->head);
}

struct call_record *trace_call_slot(struct trace *trace)
{
	if (__builtin_expect(trace->head >= trace->limit, 0))
		return slot_of_full_ring(trace);
	return place_of(trace, trace->head);
}

/* A record that found no place: LTTng may still have it. */
static void commit_dropped(struct trace *trace)
{
	if (!trace->area)
		return;
	emit_call(&trace->identity, trace->spill);
	trace->lost++;
	/* Release: whoever sees this count sees a head that is not older; see totals_of() in
	 * call_log_writer.c. */
	atomic_store_explicit(&trace->area->calls.lost, trace->lost, memory_order_release);
}

void trace_call_lost(struct trace *trace, uint64_t calls)
{
	if (!trace->area || calls == 0)
		return;
	trace->lost += calls;
	/* With a log the next record looks for its place anew, and notes the gap there. */
	if (trace->limit != UINT64_MAX)
		trace->limit = trace->head;
	/* Release: as in commit_dropped(). */
	atomic_store_explicit(&trace->area->calls.lost, trace->lost, memory_order_release);
}

/* Half a ring more is filled, or a call failed: that record should reach the disk now. */
static void wake_writer(struct trace *trace)
{
	if (trace->head == trace->wake)
		trace->wake += trace->area->call_capacity / 2;
	if (trace->writer)
		call_log_writer_wake(trace->writer);
}

void trace_call_commit(struct trace *trace)
{
	const struct call_record *record;

	if (__builtin_expect(trace->head >= trace->limit, 0)) {
		commit_dropped(trace);
		return;
	}
	record = place_of(trace, trace->head);
	trace->head++;
	/* (1) of [TRACE_RING]. */
	atomic_store_explicit(&trace->area->calls.head, trace->head, memory_order_release);
	emit_call(&trace->identity, record);
	if (__builtin_expect(trace->head == trace->wake || record->status, 0))
		wake_writer(trace);
}

/* Whether an event should reach the disk now. */
static int is_urgent(const struct event_record *event)
{
	return event->kind == EVENT_VERDICT || event->kind == EVENT_ERROR ||
	       event->kind == EVENT_RESCUE_BEGIN || event->kind == EVENT_RESCUE_END;
}

/* Adds an event to the ring. Returns how many stand there unwritten; 0 when it was dropped. */
static uint64_t event_append_locked(struct trace_area *area, const struct event_record *event)
{
	/* Relaxed: head and lost are written under this lock only. */
	uint64_t head = atomic_load_explicit(&area->events.head, memory_order_relaxed);
	/* (4) of [TRACE_RING]. */
	uint64_t written = atomic_load_explicit(&area->events.written, memory_order_acquire);

	if (area->has_log && head - written >= area->event_capacity) {
		(void)atomic_fetch_add_explicit(&area->events.lost, 1, memory_order_relaxed);
		return 0;
	}
	memcpy(trace_area_event(area, head), event, sizeof(*event));
	/* (1) of [TRACE_RING]. */
	atomic_store_explicit(&area->events.head, head + 1, memory_order_release);
	return head + 1 - written;
}

void trace_event(struct trace *trace, const struct event_record *event)
{
	struct trace_area *area = trace->area;
	uint64_t unwritten;

	if (!area)
		return;
	emit_event(&trace->identity, event);
	pthread_mutex_lock(&trace->event_lock);
	unwritten = event_append_locked(area, event);
	pthread_mutex_unlock(&trace->event_lock);
	if (trace->writer && (is_urgent(event) || unwritten == area->event_capacity / 2))
		call_log_writer_wake(trace->writer);
}

void trace_salvage(struct trace *trace, uint32_t dead_rank)
{
	if (trace->area && trace->writer && dead_rank < trace->area->nranks)
		call_log_writer_salvage(trace->writer, dead_rank);
}

uint64_t trace_records_lost(const struct trace *trace)
{
	/* Relaxed: a count that orders no data. */
	return trace->area ? atomic_load_explicit(&trace->area->calls.lost, memory_order_relaxed)
			   : 0;
}

int trace_close(struct trace *trace, uint64_t deadline_ns)
{
	int status = 0;

	if (!trace)
		return 0;
	if (trace->writer)
		status = call_log_writer_stop(trace->writer, deadline_ns);
	trace_free(trace);
	return status;
}
