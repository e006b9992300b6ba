/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two-shot on the full wire: rank q owns the q-th slice. Every rank pushes the slices to their
 * owners; an owner reduces its slice and pushes the result to all. Both halves carry their own
 * flags, so that no barrier stands between them.
 *
 * A thread has the same packets of every slice in all three steps. So each element is read by the
 * thread that writes it later (send and recv may be one buffer), and what block b of one rank sends
 * is what block b of another one waits for.
 */
#ifndef BELAY_KERNELS_TWO_SHOT_CUH
#define BELAY_KERNELS_TWO_SHOT_CUH

#include "kernels/call_run.cuh"
#include "kernels/rank_batch.cuh"

enum { WIRE_WORDS = form_wire::WORDS };

/* Packet j of rank q's slice, counted from the turn's beginning. Past the end where the last slices
 * are shorter. */
SYMM_INLINE uint32_t slice_packet(const struct symm_call &call, uint32_t q, uint32_t j)
{
	return q * call.slice_packets + j;
}

/* Packets in rank q's slice. */
SYMM_INLINE uint32_t slice_end(const struct symm_call &call, uint32_t q)
{
	uint32_t begin = q * call.slice_packets, all = call.packets[1];

	return begin >= all ? 0 : min(all - begin, call.slice_packets);
}

SYMM_INLINE struct slots input_slots(const struct symm_call &call, char *region, uint32_t parity)
{
	return slots_in(call, region, call.layout.inputs, call.layout.slice_bytes, parity);
}

SYMM_INLINE struct slots result_slots(const struct symm_call &call, char *region, uint32_t parity)
{
	return slots_in(call, region, call.layout.results, call.layout.slice_bytes, parity);
}

/* Puts a packet of the input into the retained copy. */
SYMM_INLINE void retain(const struct symm_call &call, uint32_t parity, uint32_t packet,
			const uint32_t (&data)[WIRE_WORDS])
{
	store_whole<WIRE_WORDS>(retained_packet<WIRE_WORDS>(call, parity, packet), data);
}

/* A fault that spoils data spoils it in packet j of the results, where the own output differs from
 * what the peers get. False: nothing leaves. */
SYMM_INLINE bool spoil_result(const struct symm_call &call, const struct block_words &block,
			      uint32_t j, struct symm_words &words)
{
	if (call.nfaults != 0) {
		if (fault_spoils(block, SYMM_FAULT_DROP))
			return false;
		if (fault_spoils(block, SYMM_FAULT_CORRUPT) && j == 0)
			words.word[0] ^= 1u << 6;
	}
	return true;
}

/* The result's packet j of the own slice, to all peers. */
template <int N>
SYMM_INLINE void push_result(const struct symm_call &call, const struct block_words &block,
			     uint32_t parity, uint32_t j, const uint32_t (&data)[WIRE_WORDS])
{
	struct symm_words words = {{data[0], data[1], data[2], data[3]}};

	if (!spoil_result(call, block, j, words))
		return;
#pragma unroll
	for (uint32_t d = 1; d < nranks_of<N>(call); d++)
		store_words(result_slots(call, region_of(call, peer_after(call, d)), parity)
				    .at(call.rank, j),
			    words);
}

/* Packets of a slice that a thread waits for together: of few ranks it has the registers, and one
 * wait after the other would not keep a link busy. */
template <int N> struct two_shot_batch {
	enum { PACKETS = N == 2 ? 3 : 1 };
};

/* The second half: the other owners' results, from the own region into the output. BATCH packets a
 * time of OWNERS owners each. The whole warp. False: told to leave. */
template <int N>
SYMM_INLINE bool gather_results(const struct symm_call &call, struct block_words &block,
				const form_wire &form, uint32_t parity, uint64_t *digest)
{
	enum {
		OWNERS = N != 0 ? N - 1 : 1,
		BATCH = two_shot_batch<N>::PACKETS,
		PACKETS = OWNERS * BATCH
	};
	const struct no_header_watch header;
	const struct slots from = result_slots(call, call.own, parity);
	uint32_t step = gridDim.x * call.workers;
	struct symm_words words[PACKETS];
	uint32_t data[WIRE_WORDS];

	for (uint32_t j = blockIdx.x * call.workers + threadIdx.x;
	     j - lane_id() < call.slice_packets; j += BATCH * step)
		for (uint32_t d = 1; d < nranks_of<N>(call); d += OWNERS) {
			auto owner = [&](uint32_t k) { return peer_after(call, d + k % OWNERS); };
			auto packet = [&](uint32_t k) { return j + k / OWNERS * step; };
			auto at = [&](uint32_t k) { return from.at(owner(k), packet(k)); };

#pragma unroll
			for (uint32_t k = 0; k < PACKETS; k++) {
				words[k] = symm_words{{0, 0, 0, 0}};
				load_words_if(packet(k) < slice_end(call, owner(k)), at(k),
					      words[k]);
			}
			if (!poll(block, form, PHASE_RESULTS, header, words, at, owner))
				return false;
#pragma unroll
			for (uint32_t k = 0; k < PACKETS; k++) {
				if (packet(k) >= slice_end(call, owner(k)))
					continue;
				form_wire::unpack(words[k], data);
				store_output_packet<WIRE_WORDS>(
					call, slice_packet(call, owner(k), packet(k)), data);
				*digest += packet_digest<WIRE_WORDS>(data);
				reset_slot(at(k));
			}
		}
	return true;
}

/* How the slices lie among the ranks, for the slow sending: what all owners are to this rank. */
struct cut_by_rank {
	const struct symm_call &call;

	__device__ __forceinline__ uint32_t slices() const
	{
		return call.nranks;
	}
	/* The d-th after the own one. */
	__device__ __forceinline__ uint32_t after(uint32_t d) const
	{
		return peer_after(call, d);
	}
	__device__ __forceinline__ uint32_t end(uint32_t q) const
	{
		return slice_end(call, q);
	}
	__device__ __forceinline__ uint32_t packet(uint32_t q, uint32_t j) const
	{
		return slice_packet(call, q, j);
	}
	/* Where this rank's packet j of the slice goes. */
	__device__ __forceinline__ char *slot(uint32_t q, uint32_t parity, uint32_t j) const
	{
		return input_slots(call, region_of(call, q), parity).at(call.rank, j);
	}
};

/* The d-th slice after the own one, to its owner or into the retained copy, or both. The own slice
 * has d = 0, and is only retained. */
template <class CUT>
static __device__ __noinline__ void send_slice(const struct symm_call &call, uint32_t parity,
					       uint32_t d, bool retains, bool pushes)
{
	enum { AT_ONCE = 4 };
	const CUT cut = {call};
	uint32_t q = cut.after(d), end = cut.end(q), step = gridDim.x * call.workers;
	uint32_t data[AT_ONCE][WIRE_WORDS];

	for (uint32_t j = blockIdx.x * call.workers + threadIdx.x; j < end; j += AT_ONCE * step) {
#pragma unroll
		for (uint32_t u = 0; u < AT_ONCE; u++)
			if (j + u * step < end)
				load_input_packet<WIRE_WORDS>(call, cut.packet(q, j + u * step),
							      data[u]);
#pragma unroll
		for (uint32_t u = 0; u < AT_ONCE; u++) {
			if (j + u * step >= end)
				break;
			if (pushes && d != 0)
				store_words(cut.slot(q, parity, j + u * step),
					    form_wire::pack(data[u]));
			if (retains)
				retain(call, parity, cut.packet(q, j + u * step), data[u]);
		}
	}
}

/* In a turn with a fault before or in the sending: staged first and whole, then pushed. In one that
 * serves its peers in order: both at once, the own slice last. */
template <class CUT>
static __device__ __noinline__ void
send_slices_slowly(const struct symm_call &call, const struct block_words &block, uint32_t parity)
{
	const CUT cut = {call};
	bool faulted = fault_sending(call, block), splits = fault_splits(call, block);

	fault_point(call, block, SYMM_AT_STAGE);
	for (uint32_t d = 0; d < cut.slices() && faulted; d++)
		send_slice<CUT>(call, parity, d, true, false);
	__syncwarp();
	if (splits) {
		barrier_arrive<BARRIER_STAGED>(call.workers + 32);
		fault_point(call, block, SYMM_AT_PUSH);
	}
	for (uint32_t d = 1; d < cut.slices() && !(faulted && fault_spoils(block, SYMM_FAULT_DROP));
	     d++)
		send_slice<CUT>(call, parity, d, !faulted, true);
	if (!faulted)
		send_slice<CUT>(call, parity, 0, true, false);
	__syncwarp();
	if (splits)
		barrier_arrive<BARRIER_PUSHED>(call.workers + 32);
	else
		barrier_arrive<BARRIER_STAGED>(call.workers + 32);
}

template <int DTYPE, int N> struct two_shot {
	enum {
		TYPE = DTYPE,
		WORDS = WIRE_WORDS,
		SLICES = N != 0 ? N : 1,
		BATCH = two_shot_batch<N>::PACKETS,
		PULL = 0,
		PATIENT = 0
	};
	typedef rank_batch<DTYPE, N, form_wire, BATCH> batch_type;

	uint32_t first, step;
	/* The first packet of each slice, the own slice at 0, then by distance; N = 0: own only. */
	uint32_t kept[SLICES][WORDS];

	__device__ __forceinline__ void load_slices(const struct symm_call &call, uint32_t j,
						    uint32_t (&ret_data)[SLICES][WORDS]) const
	{
#pragma unroll
		for (uint32_t d = 0; d < SLICES; d++) {
			uint32_t q = d == 0 ? call.rank : peer_after(call, d);

			load_input_packet<WORDS>(call, slice_packet(call, q, j), ret_data[d]);
		}
	}

	__device__ __forceinline__ void prepare(const struct symm_call &call)
	{
		first = made_now(blockIdx.x * call.workers + threadIdx.x);
		step = made_now(gridDim.x * call.workers);
	}

	__device__ __forceinline__ void begin(const struct symm_call &call)
	{
		load_slices(call, first, kept);
	}

	__device__ __forceinline__ void send_packet(const struct symm_call &call,
						    const form_wire &form, uint32_t parity,
						    uint32_t q, uint32_t j,
						    const uint32_t (&data)[WORDS]) const
	{
		if (j >= slice_end(call, q))
			return;
		if (q != call.rank)
			store_words(input_slots(call, region_of(call, q), parity).at(call.rank, j),
				    form.pack(data));
		retain(call, parity, slice_packet(call, q, j), data);
	}

	/* N = 0: slices that were not loaded together. */
	__device__ __forceinline__ void send_others(const struct symm_call &call,
						    const form_wire &form, uint32_t parity,
						    uint32_t j) const
	{
		uint32_t data[WORDS];

		for (uint32_t d = 1; d < call.nranks; d++) {
			uint32_t q = peer_after(call, d);

			load_input_packet<WORDS>(call, slice_packet(call, q, j), data);
			send_packet(call, form, parity, q, j, data);
		}
	}

	/* Packets j of all slices; the own slice last: nobody waits for it but this thread. */
	__device__ __forceinline__ void send_slices(const struct symm_call &call,
						    const form_wire &form, uint32_t parity,
						    uint32_t j,
						    const uint32_t (&data)[SLICES][WORDS]) const
	{
#pragma unroll
		for (uint32_t d = 1; d < SLICES; d++)
			send_packet(call, form, parity, peer_after(call, d), j, data[d]);
		if (N == 0)
			send_others(call, form, parity, j);
		send_packet(call, form, parity, call.rank, j, data[0]);
	}

	__device__ __forceinline__ void send(const struct symm_call &call, const form_wire &form,
					     uint32_t parity) const
	{
		uint32_t data[BATCH][SLICES][WORDS];

		if (first < call.slice_packets)
			send_slices(call, form, parity, first, kept);
		for (uint32_t j = first + step; j < call.slice_packets; j += BATCH * step) {
#pragma unroll
			for (uint32_t u = 0; u < BATCH; u++)
				load_slices(call, j + u * step, data[u]);
#pragma unroll
			for (uint32_t u = 0; u < BATCH; u++)
				if (j + u * step < call.slice_packets)
					send_slices(call, form, parity, j + u * step, data[u]);
		}
	}

	/* Packet j of the own input's own slice: kept, or from the retained copy. */
	__device__ __forceinline__ void own_packet(const struct symm_call &call, uint32_t parity,
						   uint32_t j, uint32_t (&ret_data)[WORDS]) const
	{
		if (j != first && j < slice_end(call, call.rank)) {
			load_whole<WORDS>(retained_packet<WORDS>(call, parity,
								 slice_packet(call, call.rank, j)),
					  ret_data);
			return;
		}
#pragma unroll
		for (uint32_t w = 0; w < WORDS; w++)
			ret_data[w] = kept[0][w];
	}

	/* Packet j of the own slice: to the peers, into the output. */
	__device__ __forceinline__ void finish(const struct symm_call &call,
					       const struct block_words &block, uint32_t parity,
					       const struct slots &from, uint32_t j,
					       const rank_order_sum<DTYPE, WORDS> &sum,
					       uint64_t *digest) const
	{
		uint32_t data[WORDS];

		sum.finish(data);
		push_result<N>(call, block, parity, j, data);
		store_output_packet<WORDS>(call, slice_packet(call, call.rank, j), data);
		*digest += packet_digest<WORDS>(data);
		reset_slots<N>(call, from, j);
	}

	/* M1 holds for results too: none leaves before all headers are here. False: left. */
	__device__ __forceinline__ bool reduce(const struct symm_call &call,
					       struct block_words &block, const form_wire &form,
					       struct header_watch &header, uint32_t parity,
					       uint64_t *digest) const
	{
		struct slots from = input_slots(call, call.own, parity);
		uint32_t end = slice_end(call, call.rank);
		uint32_t own[BATCH][WORDS];
		batch_type batch;

		/* Once for a warp without packets, too: for the headers. */
		for (uint32_t j = first; j == first || j - lane_id() < end; j += BATCH * step) {
#pragma unroll
			for (uint32_t u = 0; u < BATCH; u++)
				own_packet(call, parity, j + u * step, own[u]);
			if (!batch.receive(call, block, form, header, from,
					   packet_range{j, step, end}, own))
				return false;
			fault_point(call, block, SYMM_AT_REDUCE);
#pragma unroll
			for (uint32_t u = 0; u < BATCH; u++)
				if (j + u * step < end)
					finish(call, block, parity, from, j + u * step,
					       batch.sum[u], digest);
		}
		return true;
	}

	static __device__ __forceinline__ struct clerk_work books(const struct symm_call &call,
								  const struct turn_facts &)
	{
		return clerk_work{false, true, false, 0};
	}

	/* False: left. */
	__device__ __forceinline__ bool run(const struct symm_call &call, struct block_words &block,
					    const struct turn_facts &facts, uint64_t *digest) const
	{
		const form_wire form(facts);
		uint32_t parity = parity_of(facts.turn);
		bool finished;

		if (sends_slowly(call, block)) {
			send_slices_slowly<cut_by_rank>(call, block, parity);
		} else {
			send(call, form, parity);
			__syncwarp();
			barrier_arrive<BARRIER_STAGED>(call.workers + 32);
		}
		meet_late(call);
		fault_point(call, block, SYMM_AT_WAIT);
		header_watch header(call, facts, block);
		finished = reduce(call, block, form, header, parity, digest);
		__syncwarp();
		barrier_arrive<BARRIER_RESULTS>(call.workers + 32);
		return finished && gather_results<N>(call, block, form, parity, digest);
	}
};

#endif /* BELAY_KERNELS_TWO_SHOT_CUH */
