/* SPDX-License-Identifier: Apache-2.0 */
/* Layout of the control segment; see control_segment.h. */
#include "runtime/group/control_segment.h"

#include <string.h>

#include "trace/trace.h"

#define PAGE 4096u

static size_t round_up(size_t value, size_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static size_t rank_offset(void)
{
	return round_up(sizeof(struct control_head), LINE);
}

static size_t device_offset(uint32_t nranks)
{
	return round_up(rank_offset() + nranks * sizeof(struct control_rank), LINE);
}

static uint32_t devices(uint32_t nranks)
{
	return nranks <= SYMM_RANKS_MAX ? nranks : 0;
}

static size_t ring_offset(uint32_t nranks)
{
	return round_up(device_offset(nranks) + devices(nranks) * sizeof(struct control_device),
			PAGE);
}

size_t control_segment_bytes(uint32_t nranks)
{
	return round_up(ring_offset(nranks) + nranks * trace_ring_bytes(nranks), PAGE);
}

void control_segment_place(void *memory, uint32_t nranks, struct control_segment *ret_segment)
{
	char *base = memory;

	ret_segment->head = memory;
	ret_segment->nranks = nranks;
	ret_segment->rank = (struct control_rank *)(void *)(base + rank_offset());
	ret_segment->device =
		devices(nranks) ? (struct control_device *)(void *)(base + device_offset(nranks))
				: NULL;
	ret_segment->mapped_bytes = ring_offset(nranks);
	ret_segment->rings = base + ring_offset(nranks);
	ret_segment->bytes = control_segment_bytes(nranks);
}

void control_segment_fill(const struct control_segment *segment, uint32_t nranks,
			  const char *comm_id)
{
	struct control_head *head = segment->head;

	head->version = CONTROL_VERSION;
	head->nranks = nranks;
	head->bytes = segment->bytes;
	head->rank_offset = rank_offset();
	head->device_offset = devices(nranks) ? device_offset(nranks) : 0;
	head->ring_offset = ring_offset(nranks);
	head->ring_bytes = trace_ring_bytes(nranks);
	strncpy(head->comm_id, comm_id, sizeof(head->comm_id) - 1);
	head->magic = CONTROL_MAGIC;
}

void control_rank_preset(struct control_rank *rank, uint64_t turn_before, int32_t pid,
			 uint64_t now_ns)
{
	/* Relaxed throughout: nobody reads before the creation's barrier, which orders these
	 * stores. */
	atomic_store_explicit(&rank->staged, turn_before, memory_order_relaxed);
	atomic_store_explicit(&rank->pushed, turn_before, memory_order_relaxed);
	atomic_store_explicit(&rank->results, turn_before, memory_order_relaxed);
	atomic_store_explicit(&rank->done, turn_before, memory_order_relaxed);
	atomic_store_explicit(&rank->seq, turn_before, memory_order_relaxed);
	atomic_store_explicit(&rank->done_seq, turn_before, memory_order_relaxed);
	atomic_store_explicit(&rank->pid, pid, memory_order_relaxed);
	/* A rank that stops before its watcher has seen a call end is to look as old as it is. */
	atomic_store_explicit(&rank->heartbeat_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&rank->progress_ns, now_ns, memory_order_relaxed);
	life_line_init(&rank->life);
	atomic_store_explicit(&rank->state, CONTROL_JOINED, memory_order_release);
}

int control_segment_check(const void *memory, size_t bytes, struct control_segment *ret_segment)
{
	const struct control_head *head = memory;
	uint32_t nranks;

	if (bytes < sizeof(*head) || head->magic != CONTROL_MAGIC ||
	    head->version != CONTROL_VERSION || head->bytes != bytes)
		return 0;
	/* Relaxed: one look at a word that its owner could change between two. */
	nranks =
		atomic_load_explicit((const _Atomic uint32_t *)&head->nranks, memory_order_relaxed);
	if (nranks < 1 || nranks > BELAY_RANKS_MAX || bytes != control_segment_bytes(nranks))
		return 0;
	/* Read only from here on; the cast is for the shared struct. */
	control_segment_place((void *)(uintptr_t)memory, nranks, ret_segment);
	return 1;
}
