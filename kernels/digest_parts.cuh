/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of a turn's output, off every critical path. Each worker warp stores its part as it
 * ends, which costs no more than the lines do; adding up by an atomic at the end of the kernel cost
 * 0.25 to 0.5 us a call (one H200). The next turn's clerk adds the parts up while it waits for its
 * peers anyway. Of the newest turn, as long as it is the newest, the host does (device_records.c).
 *
 * Ordering: contract [KERNELS] of symm_call.cuh; a turn's parts stand until the turn two later.
 */
#ifndef BELAY_KERNELS_DIGEST_PARTS_CUH
#define BELAY_KERNELS_DIGEST_PARTS_CUH

#include "kernels/symm_device.cuh"
#include "kernels/symm_layout.h"

/* One thread of the turn's kernel, before any part of it can be asked for. */
SYMM_INLINE void begin_parts(struct symm_state *state, uint64_t turn, uint32_t blocks,
			     uint32_t warps)
{
	store_pair(&state->parts[turn & 1], turn, (uint64_t)warps << 32 | blocks);
}

SYMM_INLINE void store_part(struct symm_state *state, uint64_t turn, uint32_t block, uint32_t warp,
			    uint64_t digest)
{
	store_gpu(&state->parts[turn & 1].digest[block][warp], digest);
}

/* Adds up the parts of the turn before `turn`, if its kernel has left any. A whole warp. */
SYMM_INLINE void add_parts_before(struct symm_state *state, uint64_t turn, uint32_t lane)
{
	const struct symm_parts *parts = &state->parts[(turn - 1) & 1];
	struct symm_pair head = load_pair(parts);
	uint32_t warps = (uint32_t)(head.second >> 32);
	uint32_t all = head.first == turn - 1 ? (uint32_t)head.second * warps : 0;
	uint64_t sum = 0;

	for (uint32_t i = lane; i < all; i += 32)
		sum += load_relaxed(&parts->digest[i / warps][i % warps]);
	for (uint32_t step = 16; step; step /= 2)
		sum += __shfl_xor_sync(~0u, sum, step);
	if (lane == 0 && all)
		store_gpu(&state->digest[(turn - 1) % SYMM_RING_RECORDS], sum);
}

#endif /* BELAY_KERNELS_DIGEST_PARTS_CUH */
