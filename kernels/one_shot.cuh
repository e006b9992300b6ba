/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-shot: every rank pushes its whole input to every peer, and reduces all of them by itself. In
 * packets, for any type, or on the full wire.
 *
 * N ranks and the sum, known when compiled, or N = 0: any number and any op. A thread takes up
 * BATCH packets at a time, `step` packets apart, so that a warp's accesses are contiguous.
 */
#ifndef BELAY_KERNELS_ONE_SHOT_CUH
#define BELAY_KERNELS_ONE_SHOT_CUH

#include "kernels/call_run.cuh"
#include "kernels/rank_batch.cuh"

/* One-shot slots of the form. */
template <class FORM>
SYMM_INLINE struct slots one_shot_slots(const struct symm_call &call, char *region, uint32_t parity)
{
	return FORM::WORDS == 2
		       ? slots_in(call, region, call.layout.packets, 2 * call.layout.packets_bytes,
				  parity)
		       : slots_in(call, region, call.layout.wire, call.layout.wire_bytes, parity);
}

/* What leaves; other words in a turn with a fault (SYMM_FAULT_...). */
template <class FORM>
SYMM_INLINE struct symm_words spoiled(const struct symm_call &call, const struct block_words &block,
				      const FORM &form, uint32_t packet,
				      const uint32_t (&data)[FORM::WORDS])
{
	struct symm_words words = form.pack(data);

	if (call.nfaults == 0)
		return words;
	if (fault_spoils(block, SYMM_FAULT_CORRUPT) && packet == 0)
		words.word[0] ^= 1u << 6;
	if (FORM::WORDS == 2 && fault_spoils(block, SYMM_FAULT_FLAG))
		words.word[1] = words.word[3] = fault_flag(block);
	return words;
}

/* The whole input to the d-th peer after this rank; d = 0: into the retained copy. */
template <class FORM>
static __device__ __noinline__ void one_shot_send_to(const struct symm_call &call,
						     const struct block_words &block,
						     const FORM form, uint32_t parity, uint32_t d)
{
	enum { AT_ONCE = 4 };
	struct slots to = one_shot_slots<FORM>(call, region_of(call, peer_after(call, d)), parity);
	uint32_t end = call.packets[FORM::WORDS == 4];
	uint32_t step = gridDim.x * call.workers;
	uint32_t data[AT_ONCE][FORM::WORDS];

	for (uint32_t i = blockIdx.x * call.workers + threadIdx.x; i < end; i += AT_ONCE * step) {
#pragma unroll
		for (uint32_t u = 0; u < AT_ONCE; u++)
			if (i + u * step < end)
				load_input_packet<FORM::WORDS>(call, i + u * step, data[u]);
#pragma unroll
		for (uint32_t u = 0; u < AT_ONCE; u++) {
			uint32_t packet = i + u * step;

			if (packet >= end)
				break;
			if (d == 0)
				store_whole<FORM::WORDS>(
					retained_packet<FORM::WORDS>(call, parity, packet),
					data[u]);
			else
				store_words(to.at(call.rank, packet),
					    spoiled(call, block, form, packet, data[u]));
		}
	}
}

/* In a turn with a fault before or in the sending: staging first and whole, then the push. Ends
 * with the arrival at the barriers, as one that serves its peers in order. */
template <class FORM>
static __device__ __noinline__ void one_shot_send_slowly(const struct symm_call &call,
							 const struct block_words &block,
							 const FORM form, uint32_t parity)
{
	bool splits = fault_splits(call, block);

	fault_point(call, block, SYMM_AT_STAGE);
	one_shot_send_to(call, block, form, parity, 0);
	__syncwarp();
	if (splits) {
		barrier_arrive<BARRIER_STAGED>(call.workers + 32);
		fault_point(call, block, SYMM_AT_PUSH);
	}
	if (call.nfaults == 0 || !fault_spoils(block, SYMM_FAULT_DROP))
		for (uint32_t d = 1; d < call.nranks; d++)
			one_shot_send_to(call, block, form, parity, d);
	__syncwarp();
	if (splits)
		barrier_arrive<BARRIER_PUSHED>(call.workers + 32);
	else
		barrier_arrive<BARRIER_STAGED>(call.workers + 32);
}

template <int DTYPE, int N, class FORM> struct one_shot {
	enum {
		TYPE = DTYPE,
		WORDS = FORM::WORDS,
		BATCH = WORDS == 4 && N == 2 ? 2 : 1,
		PACKETS_AT_ONCE = BATCH * (N ? N : 4),
		PULL = 0,
		PATIENT = 0
	};
	typedef rank_batch<DTYPE, N, FORM, BATCH> batch_type;

	uint32_t first, step;
	char *outgoing; /* this rank's slot of packet `first` in rank 0's region, parity 0 */
	uint32_t kept[BATCH][WORDS]; /* the inputs of the first batch */

	static __device__ __forceinline__ uint32_t packets(const struct symm_call &call)
	{
		return call.packets[WORDS == 4];
	}

	__device__ __forceinline__ void load_batch(const struct symm_call &call, uint32_t i,
						   uint32_t (&ret_data)[BATCH][WORDS]) const
	{
#pragma unroll
		for (uint32_t u = 0; u < BATCH; u++)
			load_input_packet<WORDS>(call, i + u * step, ret_data[u]);
	}

	__device__ __forceinline__ void prepare(const struct symm_call &call)
	{
		first = made_now(blockIdx.x * call.workers + threadIdx.x);
		step = made_now(gridDim.x * call.workers);
		outgoing =
			made_now(one_shot_slots<FORM>(call, call.region, 0).at(call.rank, first));
	}

	__device__ __forceinline__ void begin(const struct symm_call &call)
	{
		load_batch(call, first, kept);
	}

	/* `slot`: this rank's slot of packet i in rank 0's region. */
	__device__ __forceinline__ void send_packet(const struct symm_call &call, const FORM &form,
						    uint32_t parity, uint32_t i, char *slot,
						    const uint32_t (&data)[WORDS]) const
	{
		struct symm_words words = form.pack(data);

#pragma unroll
		for (uint32_t d = 1; d < nranks_of<N>(call); d++)
			store_words(slot + peer_after(call, d) * call.layout.stride, words);
		store_whole<WORDS>(retained_packet<WORDS>(call, parity, i), data);
	}

	__device__ __forceinline__ void send(const struct symm_call &call, const FORM &form,
					     uint32_t parity) const
	{
		char *slot = outgoing + parity * (call.nranks *
						  one_shot_slots<FORM>(call, NULL, 0).sender_bytes);
		uint32_t data[BATCH][WORDS];

		copy_batch(kept, data);
		for (uint32_t i = first; i < packets(call);) {
#pragma unroll
			for (uint32_t u = 0; u < BATCH; u++)
				if (i + u * step < packets(call))
					send_packet(call, form, parity, i + u * step,
						    slot + u * (step * UINT64_C(16)), data[u]);
			i += BATCH * step;
			slot += BATCH * (step * UINT64_C(16));
			if (i < packets(call))
				load_batch(call, i, data);
		}
	}

	/* The own input of a batch: kept, or from the retained copy, which this thread wrote. Where
	 * it has none: anything. */
	__device__ __forceinline__ void own_batch(const struct symm_call &call, uint32_t parity,
						  uint32_t i,
						  uint32_t (&ret_data)[BATCH][WORDS]) const
	{
		copy_batch(kept, ret_data);
		if (i == first)
			return;
#pragma unroll
		for (uint32_t u = 0; u < BATCH; u++)
			if (i + u * step < packets(call))
				load_whole<WORDS>(
					retained_packet<WORDS>(call, parity, i + u * step),
					ret_data[u]);
	}

	/* `to`: packet i in the output. */
	__device__ __forceinline__ void finish(const struct symm_call &call,
					       const struct slots &from, uint32_t i, char *to,
					       const batch_type &batch, uint64_t *digest) const
	{
		uint32_t data[WORDS];

#pragma unroll
		for (uint32_t u = 0; u < BATCH; u++) {
			if (i + u * step >= packets(call))
				continue;
			batch.sum[u].finish(data);
			store_output_packet<WORDS>(call, i + u * step,
						   to + u * (step * (uint64_t)(WORDS * 4)), data);
			*digest += packet_digest<WORDS>(data);
			if (FORM::RESETS)
				reset_slots<N>(call, from, i + u * step);
		}
	}

	/* False: left. */
	__device__ __forceinline__ bool reduce(const struct symm_call &call,
					       struct block_words &block, const FORM &form,
					       struct header_watch &header, uint32_t parity,
					       uint64_t *digest) const
	{
		struct slots from = one_shot_slots<FORM>(call, call.own, parity);
		uint32_t own[BATCH][WORDS];
		batch_type batch;

		/* As long as any lane has packets. */
		for (uint32_t i = first; i - lane_id() < packets(call); i += BATCH * step) {
			/* Ready before the wait, where registers are left for it. */
			char *to = call.recv + i * (uint64_t)(WORDS * 4);

			if (PACKETS_AT_ONCE <= 4)
				to = made_now(to);
			own_batch(call, parity, i, own);
			if (!batch.receive(call, block, form, header, from,
					   packet_range{i, step, packets(call)}, own))
				return false;
			fault_point(call, block, SYMM_AT_REDUCE);
			finish(call, from, i, to, batch, digest);
		}
		return true;
	}

	static __device__ __forceinline__ struct clerk_work books(const struct symm_call &call,
								  const struct turn_facts &)
	{
		return clerk_work{false, false, false, WORDS == 2 ? packets(call) : 0};
	}

	/* False: left. */
	__device__ __forceinline__ bool run(const struct symm_call &call, struct block_words &block,
					    const struct turn_facts &facts, uint64_t *digest) const
	{
		const FORM form(facts);
		uint32_t parity = parity_of(facts.turn);

		if (sends_slowly(call, block)) {
			one_shot_send_slowly<FORM>(call, block, form, parity);
		} else {
			send(call, form, parity);
			__syncwarp();
			barrier_arrive<BARRIER_STAGED>(call.workers + 32);
		}
		meet_late(call);
		fault_point(call, block, SYMM_AT_WAIT);
		header_watch header(call, facts, block);
		return reduce(call, block, form, header, parity, digest);
	}
};

#endif /* BELAY_KERNELS_ONE_SHOT_CUH */
