/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands: two-shot in each half of the ranks, where what lies between the halves is slow (two
 * sockets, PCIe). A slice has an owner in the lower half and one in the upper half, so that a call
 * crosses once in each direction, with a sum and with a result, instead of with inputs of all.
 *
 *   every rank      pushes the slices of its input to their owners in its own half
 *   lower owner     adds up the lower ranks, in order, and pushes the sum across, not rounded
 *   upper owner     waits for it, goes on with the upper ranks, rounds once, pushes the result
 * across and to its half lower owner     pushes the result to its half
 *
 * So the order of additions is that of all ranks, and the bits are those of every other algorithm.
 * The sums are float32, one for each element: 16-bit types take two packets for one of theirs. All
 * goes on the full wire: flags stand in the data, and slots are reset by their reader [PACKET].
 *
 * Slots: inputs in `inputs`, in pairs, since there are half as many slices of twice the size;
 * results and what crosses in those of `wire`, which no other algorithm fills in this turn.
 *
 * A thread has the same packets of every slice in all steps, as in two_shot.cuh.
 *
 * Whom a worker names while it waits: for an input its sender. For a sum its lower owner, and for a
 * result the upper owner of the slice, who makes it, whoever passes it on: both have posted the
 * step `results` when what they make has left, and only of ranks that have may it be taken for
 * lost.
 */
#ifndef BELAY_KERNELS_ISLAND_CUH
#define BELAY_KERNELS_ISLAND_CUH

#include "kernels/two_shot.cuh"

/* The halves, as this rank sees them, and how slices lie among its own: for cut_by_rank's use too.
 */
struct cut_by_island {
	const struct symm_call &call;

	__device__ __forceinline__ uint32_t slices() const
	{
		return call.nranks / 2;
	}
	__device__ __forceinline__ bool is_upper() const
	{
		return call.rank >= slices();
	}
	/* The lowest rank of this half. */
	__device__ __forceinline__ uint32_t base() const
	{
		return is_upper() ? slices() : 0;
	}
	/* The own slice. */
	__device__ __forceinline__ uint32_t own() const
	{
		return call.rank - base();
	}
	__device__ __forceinline__ uint32_t lower_owner(uint32_t q) const
	{
		return q;
	}
	__device__ __forceinline__ uint32_t upper_owner(uint32_t q) const
	{
		return slices() + q;
	}
	/* The other owner of the own slice. */
	__device__ __forceinline__ uint32_t opposite() const
	{
		return is_upper() ? lower_owner(own()) : upper_owner(own());
	}
	/* The d-th slice after the own one, d up to slices(). */
	__device__ __forceinline__ uint32_t after(uint32_t d) const
	{
		uint32_t q = own() + d;

		return q >= slices() ? q - slices() : q;
	}
	__device__ __forceinline__ uint32_t packet(uint32_t q, uint32_t j) const
	{
		return q * call.island_packets + j;
	}
	__device__ __forceinline__ uint32_t end(uint32_t q) const
	{
		uint32_t begin = packet(q, 0), all = call.packets[1];

		return begin >= all ? 0 : min(all - begin, call.island_packets);
	}
	/* Inputs by sender's place in the half. */
	__device__ __forceinline__ struct slots inputs(uint32_t rank, uint32_t parity) const
	{
		struct slots of_ranks = input_slots(call, region_of(call, rank), parity);

		return slots{of_ranks.first, 2 * of_ranks.sender_bytes};
	}
	/* Results by slice; behind them what crosses: `across` and one more. */
	__device__ __forceinline__ struct slots results(uint32_t rank, uint32_t parity) const
	{
		struct slots of_ranks = slots_in(call, region_of(call, rank), call.layout.wire,
						 call.layout.wire_bytes, parity);

		return slots{of_ranks.first, 2 * call.layout.slice_bytes};
	}
	__device__ __forceinline__ uint32_t across() const
	{
		return slices();
	}
	/* Where this rank's packet j of the slice goes. */
	__device__ __forceinline__ char *slot(uint32_t q, uint32_t parity, uint32_t j) const
	{
		return inputs(base() + q, parity).at(own(), j);
	}
};

/* ---- the call ---------------------------------------------------------------------------------
 */

template <int DTYPE> struct island_call {
	/* MATES: ranks of the half that are looked after together. */
	enum { TYPE = DTYPE, WORDS = WIRE_WORDS, MATES = 4, PULL = 0, PATIENT = 0 };
	typedef rank_order_sum<DTYPE, WORDS> sum_type;
	enum { FLOATS = sum_type::FLOATS, PARTS = FLOATS / WORDS }; /* of a packet's sums */

	uint32_t first, step;
	uint32_t kept[MATES][WORDS]; /* the first packets of the first slices after the own one */

	static __device__ __forceinline__ struct clerk_work books(const struct symm_call &,
								  const struct turn_facts &)
	{
		return clerk_work{false, true, false, 0};
	}

	__device__ __forceinline__ void prepare(const struct symm_call &call)
	{
		first = blockIdx.x * call.workers + threadIdx.x;
		step = gridDim.x * call.workers;
	}

	__device__ __forceinline__ void begin(const struct symm_call &call)
	{
		load_mates(cut_by_island{call}, 1, first, kept);
	}

	/* ---- inputs to their owners */

	/* Packets j of the slices d, d + 1, ... after the own one; the own one comes last. */
	__device__ __forceinline__ void load_mates(const cut_by_island &cut, uint32_t d, uint32_t j,
						   uint32_t (&ret_data)[MATES][WORDS]) const
	{
#pragma unroll
		for (uint32_t m = 0; m < MATES; m++)
			if (d + m <= cut.slices() && j < cut.end(cut.after(d + m)))
				load_input_packet<WORDS>(cut.call, cut.packet(cut.after(d + m), j),
							 ret_data[m]);
	}

	__device__ __forceinline__ void send_mates(const cut_by_island &cut, uint32_t parity,
						   uint32_t d, uint32_t j,
						   const uint32_t (&data)[MATES][WORDS]) const
	{
#pragma unroll
		for (uint32_t m = 0; m < MATES; m++) {
			uint32_t q = cut.after(d + m);

			if (d + m > cut.slices() || j >= cut.end(q))
				continue;
			if (d + m < cut.slices())
				store_words(cut.slot(q, parity, j), form_wire::pack(data[m]));
			retain(cut.call, parity, cut.packet(q, j), data[m]);
		}
	}

	__device__ __forceinline__ void send(const cut_by_island &cut, uint32_t parity) const
	{
		uint32_t data[MATES][WORDS];
		uint32_t d = 1, j = first;

		copy_batch(kept, data);
		while (j < cut.call.island_packets) {
			send_mates(cut, parity, d, j, data);
			d += MATES;
			if (d > cut.slices()) {
				d = 1;
				j += step;
			}
			if (j < cut.call.island_packets)
				load_mates(cut, d, j, data);
		}
	}

	/* ---- the own slice */

	/* The sum of the lower half, of packet j. The whole warp. False: left. */
	__device__ __forceinline__ bool take_sum(const cut_by_island &cut,
						 struct block_words &block, const form_wire &form,
						 struct header_watch &header, uint32_t parity,
						 uint32_t j, sum_type &sum) const
	{
		const struct slots from = cut.results(cut.call.rank, parity);
		struct symm_words words[PARTS];
		uint32_t raw[FLOATS];
		auto at = [&](uint32_t p) { return from.at(cut.across() + p, j); };
		auto rank = [&](uint32_t) { return cut.opposite(); };

#pragma unroll
		for (uint32_t p = 0; p < PARTS; p++) {
			words[p] = symm_words{{0, 0, 0, 0}};
			load_words_if(j < cut.end(cut.own()), at(p), words[p]);
		}
		if (!poll(block, form, PHASE_RESULTS, header, words, at, rank))
			return false;
#pragma unroll
		for (uint32_t i = 0; i < FLOATS; i++)
			raw[i] = words[i / WORDS].word[i % WORDS];
		sum.start_wide(raw);
		return true;
	}

	/* Combines packet j of all inputs of the half, in rank order; in the upper half onto the
	 * sum of the lower one. The whole warp. False: left. */
	__device__ __forceinline__ bool add_half(const cut_by_island &cut,
						 struct block_words &block, const form_wire &form,
						 struct header_watch &header, uint32_t parity,
						 uint32_t j, sum_type &sum) const
	{
		const struct slots from = cut.inputs(cut.call.rank, parity);
		const bool has = j < cut.end(cut.own());
		struct symm_words words[MATES];
		uint32_t data[WORDS] = {0, 0, 0, 0};

		if (has)
			load_whole<WORDS>(
				retained_packet<WORDS>(cut.call, parity, cut.packet(cut.own(), j)),
				data);
		for (uint32_t m = 0; m < cut.slices(); m += MATES) {
			auto at = [&](uint32_t k) { return from.at(m + k, j); };
			auto rank = [&](uint32_t k) { return cut.base() + m + k; };

			/* Where there is nothing to wait for, the own input stands in. */
#pragma unroll
			for (uint32_t k = 0; k < MATES; k++) {
				words[k] = form_wire::pack(data);
				load_words_if(has && m + k < cut.slices() && m + k != cut.own(),
					      at(k), words[k]);
			}
			if (!poll(block, form, PHASE_INPUTS, header, words, at, rank))
				return false;
			combine(cut, m, words, sum);
		}
		return header.agrees(block);
	}

	static __device__ __forceinline__ void combine(const cut_by_island &cut, uint32_t m,
						       const struct symm_words (&words)[MATES],
						       sum_type &sum)
	{
		uint32_t data[WORDS];

#pragma unroll
		for (uint32_t k = 0; k < MATES; k++) {
			if (m + k >= cut.slices())
				continue;
			form_wire::unpack(words[k], data);
			if (cut.base() + m + k == 0)
				sum.start(data);
			else
				sum.combine_by(cut.call.op, data);
		}
	}

	/* [PACKET] (3). */
	static __device__ __forceinline__ void reset_inputs(const cut_by_island &cut,
							    uint32_t parity, uint32_t j)
	{
#pragma unroll 1
		for (uint32_t d = 1; d < cut.slices(); d++)
			reset_slot(cut.inputs(cut.call.rank, parity).at(cut.after(d), j));
	}

	static __device__ __forceinline__ void
	reset_across(const cut_by_island &cut, uint32_t parity, uint32_t j, uint32_t parts)
	{
		for (uint32_t p = 0; p < parts; p++)
			reset_slot(cut.results(cut.call.rank, parity).at(cut.across() + p, j));
	}

	static __device__ __forceinline__ void push_sum(const cut_by_island &cut,
							const struct block_words &block,
							uint32_t parity, uint32_t j,
							const sum_type &sum)
	{
		const struct slots to = cut.results(cut.opposite(), parity);
		uint32_t raw[FLOATS];

		if (cut.call.nfaults != 0 && fault_spoils(block, SYMM_FAULT_DROP))
			return;
		sum.put_wide(raw);
#pragma unroll
		for (uint32_t p = 0; p < PARTS; p++)
			store_words(to.at(cut.across() + p, j),
				    form_wire::pack({raw[p * WORDS], raw[p * WORDS + 1],
						     raw[p * WORDS + 2], raw[p * WORDS + 3]}));
	}

	/* A result into the output and on its way: across first, which takes longest. */
	static __device__ __forceinline__ void
	put_result(const cut_by_island &cut, const struct block_words &block, uint32_t parity,
		   uint32_t j, const uint32_t (&data)[WORDS], uint64_t *digest)
	{
		struct symm_words words = {{data[0], data[1], data[2], data[3]}};

		if (spoil_result(cut.call, block, j, words)) {
			if (cut.is_upper())
				store_words(cut.results(cut.opposite(), parity).at(cut.across(), j),
					    words);
			for (uint32_t d = 1; d < cut.slices(); d++)
				store_words(cut.results(cut.base() + cut.after(d), parity)
						    .at(cut.own(), j),
					    words);
		}
		store_output_packet<WORDS>(cut.call, cut.packet(cut.own(), j), data);
		*digest += packet_digest<WORDS>(data);
	}

	/* M1 holds for sums and results too: none leaves before all headers are here. False: left.
	 */
	__device__ __forceinline__ bool reduce(const cut_by_island &cut, struct block_words &block,
					       const form_wire &form, struct header_watch &header,
					       uint32_t parity, uint64_t *digest) const
	{
		uint32_t end = cut.end(cut.own());
		uint32_t data[WORDS];
		sum_type sum;

		/* Once for a warp without packets, too: for the headers. */
		for (uint32_t j = first; j == first || j - lane_id() < end; j += step) {
			if (cut.is_upper() && !take_sum(cut, block, form, header, parity, j, sum))
				return false;
			if (!add_half(cut, block, form, header, parity, j, sum))
				return false;
			fault_point(cut.call, block, SYMM_AT_REDUCE);
			if (j >= end)
				continue;
			if (cut.is_upper()) {
				sum.finish(data);
				put_result(cut, block, parity, j, data, digest);
				reset_across(cut, parity, j, PARTS);
			} else {
				push_sum(cut, block, parity, j, sum);
			}
			reset_inputs(cut, parity, j);
		}
		return true;
	}

	/* Packets j of the results of COUNT slices, where they have one, to `take(k, data)`:
	 * slice(k)'s from the row(k)-th slots. The whole warp. False: left. */
	template <int COUNT, class SLICE, class ROW, class TAKE>
	static __device__ __forceinline__ bool
	take_results(const cut_by_island &cut, struct block_words &block, const form_wire &form,
		     uint32_t parity, uint32_t j, const SLICE &slice, const ROW &row,
		     const TAKE &take)
	{
		const struct no_header_watch header;
		const struct slots from = cut.results(cut.call.rank, parity);
		struct symm_words words[COUNT];
		uint32_t data[WORDS];
		auto at = [&](uint32_t k) { return from.at(row(k), j); };
		auto maker = [&](uint32_t k) { return cut.upper_owner(slice(k)); };

#pragma unroll
		for (uint32_t k = 0; k < COUNT; k++) {
			words[k] = symm_words{{0, 0, 0, 0}};
			load_words_if(j < cut.end(slice(k)), at(k), words[k]);
		}
		if (!poll(block, form, PHASE_RESULTS, header, words, at, maker))
			return false;
#pragma unroll
		for (uint32_t k = 0; k < COUNT; k++) {
			if (j >= cut.end(slice(k)))
				continue;
			form_wire::unpack(words[k], data);
			take(k, data);
			reset_slot(at(k));
		}
		return true;
	}

	/* Of the lower owner: the own slice's results, to its half. */
	__device__ __forceinline__ bool pass_on(const cut_by_island &cut, struct block_words &block,
						const form_wire &form, uint32_t parity,
						uint64_t *digest) const
	{
		auto slice = [&](uint32_t) { return cut.own(); };
		auto row = [&](uint32_t) { return cut.across(); };

		for (uint32_t j = first; j - lane_id() < cut.end(cut.own()); j += step) {
			auto take = [&](uint32_t, const uint32_t(&data)[WORDS]) {
				put_result(cut, block, parity, j, data, digest);
			};

			if (!take_results<1>(cut, block, form, parity, j, slice, row, take))
				return false;
		}
		return true;
	}

	/* The results of the other slices, MATES - 1 at a time. */
	__device__ __forceinline__ bool gather(const cut_by_island &cut, struct block_words &block,
					       const form_wire &form, uint32_t parity,
					       uint64_t *digest) const
	{
		for (uint32_t j = first; j - lane_id() < cut.call.island_packets; j += step)
			for (uint32_t d = 1; d < cut.slices(); d += MATES - 1) {
				/* slices() is none. */
				auto slice = [&](uint32_t k) {
					return d + k < cut.slices() ? cut.after(d + k)
								    : cut.slices();
				};
				auto take = [&](uint32_t k, const uint32_t(&data)[WORDS]) {
					store_output_packet<WORDS>(cut.call,
								   cut.packet(slice(k), j), data);
					*digest += packet_digest<WORDS>(data);
				};

				if (!take_results<MATES - 1>(cut, block, form, parity, j, slice,
							     slice, take))
					return false;
			}
		return true;
	}

	/* False: left. */
	__device__ __forceinline__ bool run(const struct symm_call &call, struct block_words &block,
					    const struct turn_facts &facts, uint64_t *digest) const
	{
		const cut_by_island cut = {call};
		const form_wire form(facts);
		uint32_t parity = parity_of(facts.turn);
		bool finished;

		if (sends_slowly(call, block)) {
			send_slices_slowly<cut_by_island>(call, block, parity);
		} else {
			send(cut, parity);
			__syncwarp();
			barrier_arrive<BARRIER_STAGED>(call.workers + 32);
		}
		meet_late(call);
		fault_point(call, block, SYMM_AT_WAIT);
		header_watch header(call, facts, block);
		finished = reduce(cut, block, form, header, parity, digest);
		__syncwarp();
		barrier_arrive<BARRIER_RESULTS>(call.workers + 32);
		return finished && (cut.is_upper() || pass_on(cut, block, form, parity, digest)) &&
		       gather(cut, block, form, parity, digest);
	}
};

#endif /* BELAY_KERNELS_ISLAND_CUH */
