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

/* The sum over a warp in every lane, by the warp's own adder, limb by limb. 32 limbs of 22
 * bits do not overflow 32 bits; the highest has 20 bits and may wrap, as the whole does. */
SYMM_INLINE uint64_t warp_digest(uint64_t value)
{
	const uint32_t limb = (1u << 22) - 1;
	uint64_t low = __reduce_add_sync(~0u, (uint32_t)value & limb);
	uint64_t middle = __reduce_add_sync(~0u, (uint32_t)(value >> 22) & limb);
	uint64_t high = __reduce_add_sync(~0u, (uint32_t)(value >> 44));

	return low + (middle << 22) + (high << 44);
}

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
	sum = warp_digest(sum);
	if (lane == 0)
		add_gpu(&state->digest[(turn - 1) % SYMM_RING_RECORDS], sum);
}

/* What the turn before may have left for this block: of both parities, half a warp each, so that it
 * can be asked for before the turn is known. */
struct parts_row {
	struct symm_pair head;
	uint64_t digest;
};

SYMM_INLINE struct parts_row parts_row_load(const struct symm_state *state)
{
	uint32_t lane = threadIdx.x % 32;
	const struct symm_parts *parts = &state->parts[lane / SYMM_WARPS_MAX];

	return parts_row{load_pair(parts),
			 load_relaxed(&parts->digest[blockIdx.x][lane % SYMM_WARPS_MAX])};
}

/* add_parts_before() for this block's rows, of which `row` is the first. A whole warp. */
SYMM_INLINE void parts_row_add(struct symm_state *state, uint64_t turn, const struct parts_row &row)
{
	uint32_t lane = threadIdx.x % 32;
	uint32_t blocks = (uint32_t)row.head.second, warps = (uint32_t)(row.head.second >> 32);
	bool counts = lane / SYMM_WARPS_MAX == ((turn - 1) & 1) && row.head.first == turn - 1 &&
		      blockIdx.x < blocks;
	uint64_t sum = warp_digest(counts && lane % SYMM_WARPS_MAX < warps ? row.digest : 0);

	if (__any_sync(~0u, counts) && lane == 0)
		add_gpu(&state->digest[(turn - 1) % SYMM_RING_RECORDS], sum);
	if (__any_sync(~0u, counts && blockIdx.x + gridDim.x < blocks))
		add_parts_before(state, turn, blockIdx.x + gridDim.x, gridDim.x, lane);
}

#endif /* BELAY_KERNELS_DIGEST_PARTS_CUH */
