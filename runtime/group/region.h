/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: each rank's memory that all peers have mapped, one stride a rank in rank order.
 *
 *   +--------+--------+--------+----------+----------+----------------+
 *   | head   | slot 0 | slot 1 | result 0 | result 1 | region buffers |
 *   +--------+--------+--------+----------+----------+----------------+
 *    headers  retained inputs    two-shot results     belay_buffer_alloc
 *
 * Ordering contract [ARRIVAL]
 *
 *   writer, rank w                              reader, any peer
 *   plain stores: slot of turn t, offsets
 *   (1) store-release of inputs[t % 2].word ->  (2) load-acquire of the same word
 *                                               plain loads of slot and offsets
 *
 * If (2) reads exactly the flag of turn t, the reader sees everything stored before (1). Any other
 * value tells nothing. The slot stays as it is until every rank is done with t (invariant 4). A
 * reader may store back into a slot the words it has read there (host_sum.h: touch): the same
 * values, before it posts `done`, so that they can neither change nor outlive the slot's use.
 * Ordering contract [RESULT] is the same for `results`.
 */
#ifndef BELAY_RUNTIME_GROUP_REGION_H
#define BELAY_RUNTIME_GROUP_REGION_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/belay.h"

#define REGION_NO_OFFSET UINT64_MAX

/* One header word and what travels with it; alone in its line. */
struct region_header {
	alignas(64) _Atomic uint64_t word; /* flag of the turn << 32 | low half: signature, or 0 */
	uint64_t in_offset;  /* inputs: where the send buffer lies in the writer's stride, or
				REGION_NO_OFFSET */
	uint64_t out_offset; /* inputs: the recv buffer, likewise */
	uint64_t digest;     /* results: of the slice */
};

struct region_head {
	struct region_header inputs[2]; /* by turn parity */
	struct region_header results[2];
	struct region_header probe; /* word: round of the breaker's probe */
	alignas(64) unsigned char selftest[64 * BELAY_RANKS_MAX]; /* a line for each peer */
};

struct region_layout {
	size_t slot_bytes;
	size_t result_bytes;
	size_t buffers_bytes;
	size_t slot_offset[2];
	size_t result_offset[2];
	size_t buffers_offset;
	size_t reserved_bytes; /* everything before the buffers */
	size_t stride;
};

struct region_buffer {
	size_t offset, bytes;
	struct region_buffer *next; /* by offset */
};

struct region {
	struct region_layout layout;
	unsigned nranks, rank;
	char *base;	/* of rank 0's stride; NULL: no shared region */
	char *private_; /* own stride when there is no shared region: slots for the ring path */
	int fd;
	struct region_buffer *buffers; /* own, allocated */
};

/* The flag of a turn (R5): never 0, so that zeroed memory holds no flag. */
static inline uint32_t region_flag(uint64_t turn)
{
	return (uint32_t)(turn % UINT32_MAX + 1);
}

void region_layout(unsigned nranks, size_t slot_bytes, size_t buffers_bytes,
		   struct region_layout *ret_layout);

struct cause_chain;

/* Maps the memfd; with fd -1 own slots are private memory. Returns 0 or a status with causes. */
int region_open(struct region *region, const struct region_layout *layout, unsigned nranks,
		unsigned rank, int fd, struct cause_chain *causes);
void region_close(struct region *region);

static inline char *region_stride(const struct region *region, unsigned rank)
{
	return region->base ? region->base + rank * region->layout.stride : region->private_;
}

static inline struct region_head *region_head(const struct region *region, unsigned rank)
{
	return (struct region_head *)(void *)region_stride(region, rank);
}

/* Ranks start their slots on different lines of a page, so that reading many at once does not
 * thrash one cache set. */
static inline char *region_slot(const struct region *region, unsigned rank, uint64_t turn)
{
	return region_stride(region, rank) + region->layout.slot_offset[turn & 1] +
	       (rank & 15) * 256;
}

static inline char *region_result(const struct region *region, unsigned rank, uint64_t turn)
{
	return region_stride(region, rank) + region->layout.result_offset[turn & 1] +
	       (rank & 15) * 256;
}

/* Offset in the own stride of a user's buffer, if all of it lies in one region buffer on a line;
 * else REGION_NO_OFFSET. */
uint64_t region_offset_of(const struct region *region, const void *buffer, size_t bytes);

int region_buffer_alloc(struct region *region, size_t bytes, void **ret_buffer,
			struct cause_chain *causes);
int region_buffer_free(struct region *region, void *buffer);

/* The start-up self-test, in two halves with a barrier between: each rank writes a pattern to each
 * peer's line of its own region; then each verifies what the peers wrote for it. Returns the
 * first rank whose pattern is wrong, -1 for none. */
void region_selftest_write(struct region *region, uint64_t nonce, int spoil);
int region_selftest_verify(const struct region *region, uint64_t nonce);

#endif /* BELAY_RUNTIME_GROUP_REGION_H */
