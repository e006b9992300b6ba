/* SPDX-License-Identifier: Apache-2.0 */
/* Layout and checks of the shared rings; their use is in trace.c and call_log_writer.c. */
#include "trace/trace_ring.h"

#include "trace/trace.h"

/* About a quarter of a second of the fastest passes seen; less per rank where there are many. */
#define CALL_RING_BYTES_MAX	 (1u << 20)
#define CALL_RING_BYTES_MAX_MANY (1u << 19)
#define MANY_RANKS		 8u

uint32_t trace_call_capacity(uint32_t nranks)
{
	uint32_t bytes_max = nranks > MANY_RANKS ? CALL_RING_BYTES_MAX_MANY : CALL_RING_BYTES_MAX;
	uint32_t capacity = 1;

	while (capacity * 2 * call_record_stride(nranks) <= bytes_max)
		capacity *= 2;
	return capacity;
}

size_t trace_ring_bytes(uint32_t nranks)
{
	size_t bytes = TRACE_AREA_HEADER_BYTES +
		       (size_t)trace_call_capacity(nranks) * call_record_stride(nranks) +
		       TRACE_EVENT_CAPACITY * sizeof(struct event_record);

	return (bytes + 4095) / 4096 * 4096;
}

void trace_area_init(struct trace_area *area, uint32_t rank, uint32_t nranks, uint64_t run_id,
		     int has_log)
{
	area->version = TRACE_AREA_VERSION;
	area->rank = rank;
	area->nranks = nranks;
	area->call_capacity = trace_call_capacity(nranks);
	area->call_stride = call_record_stride(nranks);
	area->event_capacity = TRACE_EVENT_CAPACITY;
	area->has_log = has_log != 0;
	area->run_id = run_id;
	/* gaps[0] says that nothing is lost before record 0; the memory is zeroed.
	 * Relaxed: nobody reads the area before `magic`, and the first head, (1), releases all
	 * this. */
	atomic_store_explicit(&area->gap_head, 1, memory_order_relaxed);
	area->magic = TRACE_AREA_MAGIC;
}

struct trace_area *trace_area_of(void *rings, uint32_t rank, uint32_t nranks)
{
	return (struct trace_area *)((char *)rings + rank * trace_ring_bytes(nranks));
}

int trace_area_sound(const struct trace_area *area, uint32_t rank, uint32_t nranks)
{
	return area->magic == TRACE_AREA_MAGIC && area->version == TRACE_AREA_VERSION &&
	       area->rank == rank && area->nranks == nranks &&
	       area->call_capacity == trace_call_capacity(nranks) &&
	       area->call_stride == call_record_stride(nranks) &&
	       area->event_capacity == TRACE_EVENT_CAPACITY;
}

uint64_t trace_ring_first(const struct trace_area *area, const struct trace_ring *ring,
			  uint32_t capacity, uint64_t head)
{
	/* Relaxed: only the consumer, who calls this, writes the word. */
	uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
	/* A wrapping ring's oldest place may be being filled with the record of index `head`. */
	uint64_t kept = area->has_log ? capacity : capacity - 1;

	if (written > head)
		return head;
	return head - written > kept ? head - kept : written;
}
