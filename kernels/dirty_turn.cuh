/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A turn whose full-wire slots may hold leftovers (mode.dirty), of any algorithm: it is pulled,
 * with results by flags, which needs no slot. Every rank decides so by the dirty turn, which every
 * rank had stored before any could end it. Then each worker fills its part of the own slots. It
 * need not be fast, but small: ptxas puts all of it into each kernel, and takes half of its time
 * for that.
 */
#ifndef BELAY_KERNELS_DIRTY_TURN_CUH
#define BELAY_KERNELS_DIRTY_TURN_CUH

#include "kernels/clean_slots.cuh"
#include "kernels/pull.cuh"

template <int DTYPE> struct dirty_work : pull<DTYPE, 1, true> {
	enum { PATIENT = 1 };

	/* `verified`, without which there is no end, says that all ranks have begun this turn. */
	__device__ __forceinline__ bool run(const struct symm_call &call, struct block_words &block,
					    const struct turn_facts &facts, uint64_t *digest) const
	{
		if (!pull<DTYPE, 1, true>::run(call, block, facts, digest))
			return false;
		clean_slots(call.layout, call.own, call.rank, call.nranks, parity_of(block.turn),
			    blockIdx.x * call.workers + threadIdx.x, gridDim.x * call.workers);
		return true;
	}
};

template <int DTYPE> struct dirty_turn {
	static __device__ __noinline__ void run(const struct symm_call &call,
						struct block_words &block)
	{
		struct turn_facts facts = entry_facts(call, entry_load(call));
		dirty_work<DTYPE> work;

		facts.start = ticks_now();
		work.prepare(call);
		call_roles(call, block, facts, parts_row{}, work);
	}
};

#endif /* BELAY_KERNELS_DIRTY_TURN_CUH */
