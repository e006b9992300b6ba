/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults that are made to happen inside call kernels (docs/faults.md). Where none is armed a call
 * pays one branch on a constant.
 *
 * A fault is a spoiling of what leaves, or something that happens at a point: before staging,
 * before the push, before the wait, before the first output store. At a point every thread of every
 * block waits by itself, so that no barrier is needed where some may have left already.
 */
#ifndef BELAY_KERNELS_SYMM_FAULT_CUH
#define BELAY_KERNELS_SYMM_FAULT_CUH

#include "kernels/symm_call.cuh"

SYMM_INLINE bool fault_spoils(const struct block_words &block, uint32_t kind)
{
	return block.spoil >> kind & 1;
}

SYMM_INLINE bool fault_hits(const struct symm_fault &fault, uint64_t seq)
{
	return seq >= fault.first && seq <= fault.last &&
	       (fault.step <= 1 || (seq - fault.first) % fault.step == 0);
}

/* What happens in this turn. One thread, before the entry. */
static __device__ __noinline__ void fault_find(const struct symm_call &call,
					       struct block_words &block)
{
	for (uint32_t i = 0; i < call.nfaults; i++) {
		const struct symm_fault fault = call.faults[i];

		if (!fault_hits(fault, block.seq))
			continue;
		if (fault.kind < SYMM_FAULT_DELAY) {
			block.spoil |= 1u << fault.kind;
		} else if (fault.at <= SYMM_AT_REDUCE) {
			block.fault_kind[fault.at] = fault.kind;
			block.fault_ns[fault.at] = fault.ns;
		}
	}
}

/* A flag that is never this turn's in a slot of its parity: of the next turn, of the one two
 * before, of none. */
SYMM_INLINE uint32_t fault_flag(const struct block_words &block)
{
	uint32_t which = (uint32_t)(block.seq % 3);

	return which == 0   ? flag_of(block.turn + 1)
	       : which == 1 ? flag_of(block.turn - 2)
			    : (block.flag == UINT32_MAX ? 0 : UINT32_MAX);
}

SYMM_INLINE bool fault_over(const struct symm_call &call, const struct block_words &block)
{
	return elapsed(block) > call.last_ns;
}

/* The whole rank is to have staged, and to have said so, before it is killed after that. */
SYMM_INLINE void fault_await_staged(const struct symm_call &call, const struct block_words &block)
{
	for (uint32_t b = 0; b < gridDim.x; b++)
		while (SYMM_BLOCK_TURN(load_relaxed(&call.posts->block[b])) < block.turn &&
		       !fault_over(call, block))
			pause_ns(500);
}

/* Block 0 asks the host, by every warp that comes by: gate, clerk or workers; a question asked
 * again is the same. All wait until it says that it has acted. */
static __device__ __noinline__ void fault_ask(const struct symm_call &call,
					      const struct block_words &block, uint32_t at)
{
	uint64_t asked = block.turn << 8 | at;

	if (blockIdx.x == 0 && threadIdx.x % 32 == 0) {
		if (at > SYMM_AT_STAGE)
			fault_await_staged(call, block);
		store_relaxed(&call.posts->fault_asked, asked);
	}
	while (load_relaxed(&call.orders->fault_done) < asked && !fault_over(call, block))
		pause_ns(1000);
}

static __device__ __noinline__ void fault_act(const struct symm_call &call,
					      const struct block_words &block, uint32_t at)
{
	uint64_t begin = ticks_now();

	switch (block.fault_kind[at]) {
	case SYMM_FAULT_DELAY:
		while (ticks_now() - begin < block.fault_ns[at] && !fault_over(call, block))
			pause_ns(1000);
		break;
	case SYMM_FAULT_ASK:
		fault_ask(call, block, at);
		break;
	case SYMM_FAULT_STICKY: /* page 0 is nobody's */
		store_relaxed((uint64_t *)64, 0);
		break;
	default:
		break;
	}
}

/* Point `at` of the turn; every thread that the step concerns comes by. */
SYMM_INLINE void fault_point(const struct symm_call &call, const struct block_words &block,
			     uint32_t at)
{
	if (call.nfaults != 0 && block.fault_kind[at] != 0)
		fault_act(call, block, at);
}

/* A turn that is staged whole before anything leaves: so that it can be stopped in between. */
SYMM_INLINE bool fault_splits(const struct symm_call &call, const struct block_words &block)
{
	return call.nfaults != 0 && block.fault_kind[SYMM_AT_PUSH] != 0;
}

/* There is a fault before or in the sending. */
SYMM_INLINE bool fault_sending(const struct symm_call &call, const struct block_words &block)
{
	return call.nfaults != 0 && (block.spoil != 0 || block.fault_kind[SYMM_AT_STAGE] != 0 ||
				     block.fault_kind[SYMM_AT_PUSH] != 0);
}

/* The sending goes the slow way: to one peer after the other. */
SYMM_INLINE bool sends_slowly(const struct symm_call &call, const struct block_words &block)
{
	return call.slowly && (call.staged || fault_sending(call, block));
}

#endif /* BELAY_KERNELS_SYMM_FAULT_CUH */
