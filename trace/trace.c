/* SPDX-License-Identifier: Apache-2.0 */
/* The door: the hot path of a call record, events, and the life of the rings. */
#include "trace/trace.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "runtime/belay.h"
#include "trace/trace_ring.h"

/*
 * Stands in pages of its own that a fork() wipes: in a forked child every field is 0, so `head`
 * is not below `limit`, the slow paths are taken, and `area`, NULL, tells them to touch nothing.
 */
struct trace {
	/* The calling thread's. */
	uint64_t head;  /* records committed, as in the ring */
	uint64_t limit; /* the head at which the ring is full, as far as known; UINT64_MAX: it wraps */
	uint64_t lost;  /* records dropped, as in the ring */
	char *calls;
	uint32_t mask;
	uint32_t stride;
	struct trace_area *area;
	struct call_record *spill; /* filled when there is no place, and dropped */
	void *own_rings;           /* when the caller gave none */
	size_t own_rings_bytes;
	pthread_mutex_t event_lock; /* orders the producers of events */
};

/* What a forked child may scribble on: the largest record. */
static _Alignas(64) char forked_slot[sizeof(struct call_record) + 8 * BELAY_RANKS_MAX];

static void *map_zeroed(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

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
	trace_area_init(trace->area, config->rank, config->nranks, random_run_id(), 0);
	trace->calls = (char *)trace->area + TRACE_AREA_HEADER_BYTES;
	trace->mask = trace->area->call_capacity - 1;
	trace->stride = trace->area->call_stride;
	trace->limit = UINT64_MAX;
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
	pthread_mutex_init(&trace->event_lock, NULL);

	*ret_trace = trace;
	trace = NULL; /* the caller's now */
out:
	if (trace)
		trace_free(trace);
	return status;
}

static struct call_record *slot_of_full_ring(struct trace *trace)
{
	return trace->area ? trace->spill : (struct call_record *)forked_slot;
}

struct call_record *trace_call_slot(struct trace *trace)
{
	if (__builtin_expect(trace->head >= trace->limit, 0))
		return slot_of_full_ring(trace);
	return (struct call_record *)(trace->calls + (trace->head & trace->mask) * trace->stride);
}

void trace_call_commit(struct trace *trace)
{
	if (__builtin_expect(trace->head >= trace->limit, 0))
		return;
	trace->head++;
	/* (1) of [TRACE_RING]. */
	atomic_store_explicit(&trace->area->calls.head, trace->head, memory_order_release);
}

void trace_event(struct trace *trace, const struct event_record *event)
{
	struct trace_area *area = trace->area;
	uint64_t head;

	if (!area)
		return;
	pthread_mutex_lock(&trace->event_lock);
	/* Relaxed: written under this lock only. */
	head = atomic_load_explicit(&area->events.head, memory_order_relaxed);
	memcpy(trace_area_event(area, head), event, sizeof(*event));
	/* (1) of [TRACE_RING]. */
	atomic_store_explicit(&area->events.head, head + 1, memory_order_release);
	pthread_mutex_unlock(&trace->event_lock);
}

void trace_salvage(struct trace *trace, uint32_t dead_rank)
{
	(void)trace;
	(void)dead_rank;
}

uint64_t trace_records_lost(const struct trace *trace)
{
	/* Relaxed: a count that orders no data. */
	return trace->area ? atomic_load_explicit(&trace->area->calls.lost, memory_order_relaxed) : 0;
}

int trace_close(struct trace *trace, uint64_t deadline_ns)
{
	(void)deadline_ns;
	if (trace)
		trace_free(trace);
	return 0;
}
