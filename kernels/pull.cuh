/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two-shot with a pull reduce-scatter, for any type: every rank stages its input in its own region,
 * where it has to be kept anyway; owners load their slice from all ranks, reduce it and hand the
 * result on: pushed on the full wire where the type and the slots allow it, else by a flag and
 * another pull. Costs fences of the system, and saves the pushing of inputs.
 *
 * A thread has the same packets of every slice in all steps, as in two_shot.cuh. So what block b of
 * an owner loads was staged by block b of the others, and block b's header vouches for it:
 * [PULLED].
 *
 * Ordering contract [HANDED ON], results by flags
 *
 *   owner, block b                               block b of any peer
 *   workers: stores to `results` of the own
 *     region
 *   barrier 2; clerk: fence of the system
 *   (1) relaxed store of the flag to the    ---> (2) every worker: acquiring load of the flag
 *       peer's results_ready                         loads of the owner's `results`
 *
 * The owner stores there again in turn t + 2, which it begins only when every rank has done turn t.
 */
#ifndef BELAY_KERNELS_PULL_CUH
#define BELAY_KERNELS_PULL_CUH

#include "kernels/two_shot.cuh"

/* Whether the full wire carries the type. */
template <int DTYPE> struct wire_carries {
	enum { YES = DTYPE == HOST_SUM_F32 || DTYPE == HOST_SUM_F16 || DTYPE == HOST_SUM_BF16 };
};

/* False: told to leave. */
SYMM_INLINE bool wait_handed_on(const struct symm_call &call, struct block_words &block,
				uint32_t owner)
{
	const uint64_t *flag = word_of(call.own, call.layout.results_ready, parity_of(block.turn),
				       blockIdx.x, owner);

	for (uint32_t polls = 1; load_acquire(flag) != block.flag; polls++) { /* (2) */
		if (block.leave)
			return false;
		if (polls % POLLS_PER_NOTE == 0)
			note_missing(block, PHASE_RESULTS, 1u << owner);
	}
	return true;
}

SYMM_INLINE bool wait_all_handed_on(const struct symm_call &call, struct block_words &block)
{
	for (uint32_t d = 1; d < call.nranks; d++)
		if (!wait_handed_on(call, block, peer_after(call, d)))
			return false;
	return true;
}

/* SOURCES: ranks that are loaded from together. FLAGGED: results by flags. */
template <int DTYPE, int SOURCES, bool FLAGGED> struct pull {
	enum { TYPE = DTYPE, WORDS = WIRE_WORDS, PULL = 1, PATIENT = 0 };
	typedef rank_order_sum<DTYPE, WORDS> sum_type;

	uint32_t first, step;

	static __device__ __forceinline__ struct clerk_work books(const struct symm_call &,
								  const struct turn_facts &)
	{
		return clerk_work{true, true, FLAGGED, 0};
	}

	__device__ __forceinline__ void prepare(const struct symm_call &call)
	{
		first = blockIdx.x * call.workers + threadIdx.x;
		step = gridDim.x * call.workers;
	}

	__device__ __forceinline__ void begin(const struct symm_call &) const
	{
	}

	__device__ __forceinline__ void stage(const struct symm_call &call, uint32_t parity) const
	{
		uint32_t data[SOURCES][WORDS];

		for (uint32_t j = first; j < call.slice_packets; j += step)
			for (uint32_t base = 0; base < call.nranks; base += SOURCES) {
#pragma unroll
				for (uint32_t q = 0; q < SOURCES; q++)
					load_input_packet<WORDS>(
						call, slice_packet(call, base + q, j), data[q]);
#pragma unroll
				for (uint32_t q = 0; q < SOURCES; q++)
					if (j < slice_end(call, base + q))
						retain(call, parity,
						       slice_packet(call, base + q, j), data[q]);
			}
	}

	/* Packet j of the own slice, of every rank, in rank order. */
	__device__ __forceinline__ void reduce_packet(const struct symm_call &call, uint32_t parity,
						      uint32_t j, sum_type &sum) const
	{
		uint64_t at = call.layout.retained + parity * call.layout.symm_bytes +
			      (uint64_t)slice_packet(call, call.rank, j) * 16;
		struct symm_words words[SOURCES];
		uint32_t data[WORDS];

		for (uint32_t base = 0; base < call.nranks; base += SOURCES) {
#pragma unroll
			for (uint32_t q = 0; q < SOURCES; q++)
				if (base + q < call.nranks)
					words[q] = load_words(region_of(call, base + q) + at);
#pragma unroll
			for (uint32_t q = 0; q < SOURCES; q++) {
				if (base + q >= call.nranks)
					continue;
				form_wire::unpack(words[q], data);
				if (base + q == 0)
					sum.start(data);
				else
					sum.combine_by(call.op, data);
			}
		}
	}

	/* For the peers: pushed, or laid out for them to load. */
	__device__ __forceinline__ void hand_on(const struct symm_call &call,
						const struct block_words &block, uint32_t parity,
						uint32_t j, const uint32_t (&data)[WORDS]) const
	{
		struct symm_words words = {{data[0], data[1], data[2], data[3]}};

		if (!FLAGGED) {
			push_result<0>(call, block, parity, j, data);
			return;
		}
		if (call.nfaults != 0 && fault_spoils(block, SYMM_FAULT_CORRUPT) && j == 0)
			words.word[0] ^= 1u << 6;
		store_words(result_slots(call, call.own, parity).at(call.rank, j), words);
	}

	__device__ __forceinline__ void reduce(const struct symm_call &call,
					       const struct block_words &block, uint32_t parity,
					       uint64_t *digest) const
	{
		uint32_t end = slice_end(call, call.rank);
		uint32_t data[WORDS];
		sum_type sum;

		for (uint32_t j = first; j < end; j += step) {
			reduce_packet(call, parity, j, sum);
			sum.finish(data);
			hand_on(call, block, parity, j, data);
			store_output_packet<WORDS>(call, slice_packet(call, call.rank, j), data);
			*digest += packet_digest<WORDS>(data);
		}
	}

	/* The other slices, from their owners' regions. */
	__device__ __forceinline__ void fetch(const struct symm_call &call, uint32_t parity,
					      uint64_t *digest) const
	{
		uint32_t data[WORDS];

		for (uint32_t j = first; j < call.slice_packets; j += step)
			for (uint32_t d = 1; d < call.nranks; d++) {
				uint32_t q = peer_after(call, d);

				if (j >= slice_end(call, q))
					continue;
				form_wire::unpack(
					load_words(result_slots(call, region_of(call, q), parity)
							   .at(q, j)),
					data);
				store_output_packet<WORDS>(call, slice_packet(call, q, j), data);
				*digest += packet_digest<WORDS>(data);
			}
	}

	__device__ __forceinline__ bool complete(const struct symm_call &call,
						 struct block_words &block, uint32_t parity,
						 uint64_t *digest) const
	{
		if (!FLAGGED)
			return gather_results<0>(call, block, form_wire(block), parity, digest);
		if (!wait_all_handed_on(call, block))
			return false;
		fetch(call, parity, digest);
		return true;
	}

	/* False: left. */
	__device__ __forceinline__ bool run(const struct symm_call &call, struct block_words &block,
					    const struct turn_facts &, uint64_t *digest) const
	{
		uint32_t parity = parity_of(block.turn);
		bool there;

		fault_point(call, block, SYMM_AT_STAGE);
		stage(call, parity);
		__syncwarp();
		barrier_arrive<BARRIER_STAGED>(call.workers + 32);
		if (fault_splits(call, block)) /* here the clerk pushes */
			barrier_arrive<BARRIER_PUSHED>(call.workers + 32);
		fault_point(call, block, SYMM_AT_WAIT);
		there = __all_sync(~0u, wait_verified(block));
		fence_block(); /* [PULLED] (3) */
		if (there) {
			fault_point(call, block, SYMM_AT_REDUCE);
			reduce(call, block, parity, digest);
		}
		__syncwarp();
		barrier_arrive<BARRIER_RESULTS>(call.workers + 32);
		return there && complete(call, block, parity, digest);
	}
};

#endif /* BELAY_KERNELS_PULL_CUH */
