/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The digest of a turn's output, off every critical path. Each worker warp stores its part as it
 * ends, which costs no more than the lines do; adding up by an atomic at the end of the kernel cost
 * 0.25 to 0.5 us a call (one H200). The next turn's clerks add the parts up while all wait for
 * their peers anyway. Of the newest turn, as long as it is the newest, the host does
 * (device_records.c).
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
	store_gpu(&state->digest[turn % SYMM_RING_RECORDS], 0);
}

SYMM_INLINE void store_part(struct symm_state *state, uint64_t turn, uint32_t block, uint32_t warp,
			    uint64_t digest)
{
	store_gpu(&state->parts[turn & 1].digest[block][warp], digest);
}

/* Adds up the parts of the turn before `turn`, if its kernel has left any: those of the blocks
 * `first`, `first` + `step`, ... A whole warp, half of it for a block. Nothing waits for the sum.
 */
SYMM_INLINE void add_parts_before(struct symm_state *state, uint64_t turn, uint32_t first,
				  uint32_t step, uint32_t lane)
{
	const struct symm_parts *parts = &state->parts[(turn - 1) & 1];
	struct symm_pair head = load_pair(parts);
	uint32_t blocks = head.first == turn - 1 ? (uint32_t)head.second : 0;
	uint32_t warps = (uint32_t)(head.second >> 32);
	uint32_t half = lane / SYMM_WARPS_MAX, warp = lane % SYMM_WARPS_MAX;
	uint64_t sum = 0;

	if (first >= blocks)
		return;
	for (uint32_t b = first + half * step; b < blocks; b += 2 * step)
		if (warp < warps)
			sum += load_relaxed(&parts->digest[b][warp]);
	sum = warp_sum(sum);
	if (lane == 0)
		add_gpu(&state->digest[(turn - 1) % SYMM_RING_RECORDS], sum);
}

#endif /* BELAY_KERNELS_DIGEST_PARTS_CUH */
