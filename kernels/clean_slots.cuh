/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills a rank's own full-wire slots of one parity with "not here": two turns after a turn of that
 * parity was abandoned, when every rank has been seen to have begun this turn. By then every peer's
 * kernel of the abandoned turn has ended and its writes have landed; and no rank uses the full wire
 * in this parity before it is done with the turn after this one. Also for turns that move no data
 * here (the gate of the NCCL path).
 */
#ifndef BELAY_KERNELS_CLEAN_SLOTS_CUH
#define BELAY_KERNELS_CLEAN_SLOTS_CUH

#include "kernels/symm_device.cuh"
#include "kernels/symm_layout.h"

/* Part `thread` of `threads`. */
SYMM_INLINE void fill_not_here(char *from, uint64_t bytes, uint32_t thread, uint32_t threads)
{
	const struct symm_words not_here = {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}};

	for (uint64_t at = (uint64_t)thread * 16; at < bytes; at += (uint64_t)threads * 16)
		store_words(from + at, not_here);
}

/* The row of `results` that belongs to the rank itself is no full-wire slot: the results that pull
 * variants lay out stand there, maybe of this turn. */
static __device__ __noinline__ void clean_slots(const struct symm_layout &layout, char *own,
						uint32_t rank, uint32_t nranks, uint32_t parity,
						uint32_t thread, uint32_t threads)
{
	uint64_t wire = nranks * layout.wire_bytes, slices = nranks * layout.slice_bytes;
	char *results = own + layout.results + parity * slices;

	fill_not_here(own + layout.wire + parity * wire, wire, thread, threads);
	fill_not_here(own + layout.inputs + parity * slices, slices, thread, threads);
	fill_not_here(results, rank * layout.slice_bytes, thread, threads);
	fill_not_here(results + (rank + 1) * layout.slice_bytes,
		      (nranks - rank - 1) * layout.slice_bytes, thread, threads);
}

#endif /* BELAY_KERNELS_CLEAN_SLOTS_CUH */
