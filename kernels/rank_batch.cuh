/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch of packets from all ranks, waited for together and combined in rank order.
 */
#ifndef BELAY_KERNELS_RANK_BATCH_CUH
#define BELAY_KERNELS_RANK_BATCH_CUH

#include "kernels/packet_forms.cuh"

/* N, where it is known when compiled. */
template <int N> SYMM_INLINE uint32_t nranks_of(const struct symm_call &call)
{
	return N != 0 ? N : call.nranks;
}

/* Slots of one parity in some region: sender s's packet i. */
struct slots {
	char *first;
	uint64_t sender_bytes;

	__device__ __forceinline__ char *at(uint32_t sender, uint32_t packet) const
	{
		return first + sender * sender_bytes + (uint64_t)packet * 16;
	}
};

SYMM_INLINE struct slots slots_in(const struct symm_call &call, char *region, uint64_t area,
				  uint64_t sender_bytes, uint32_t parity)
{
	return slots{region + area + parity * call.nranks * sender_bytes, sender_bytes};
}

/* The packets of a batch: first, first + step, ...; those from `end` on do not exist. */
struct packet_range {
	uint32_t first, step, end;
};

template <int BATCH, int WORDS>
SYMM_INLINE void copy_batch(const uint32_t (&from)[BATCH][WORDS], uint32_t (&ret_to)[BATCH][WORDS])
{
#pragma unroll
	for (int u = 0; u < BATCH; u++)
#pragma unroll
		for (int w = 0; w < WORDS; w++)
			ret_to[u][w] = from[u][w];
}

/* [PACKET] (3), full wire only: all senders' slots of a packet. */
template <int N>
SYMM_INLINE void reset_slots(const struct symm_call &call, const struct slots &from,
			     uint32_t packet)
{
#pragma unroll 1 /* not waited for; saves registers */
	for (uint32_t q = 0; q < nranks_of<N>(call); q++)
		if (q != call.rank)
			reset_slot(from.at(q, packet));
}

template <int DTYPE, int N, class FORM, int BATCH> struct rank_batch {
	enum {
		WORDS = FORM::WORDS,
		SOURCES = N != 0 ? N : 4, /* ranks that are polled together */
		PACKETS = BATCH * SOURCES
	};

	rank_order_sum<DTYPE, WORDS> sum[BATCH];

	/* Loads of the sources from `base` on. Where there is nothing to wait for, the own input
	 * stands in. */
	static __device__ __forceinline__ bool
	collect(const struct symm_call &call, struct block_words &block, const FORM &form,
		struct header_watch &header, const struct slots &from, uint32_t base,
		const struct packet_range &range, const uint32_t (&own)[BATCH][WORDS],
		struct symm_words (&ret_words)[PACKETS])
	{
		auto rank = [&](uint32_t k) { return base + k % SOURCES; };
		auto packet = [&](uint32_t k) { return range.first + k / SOURCES * range.step; };
		auto at = [&](uint32_t k) { return from.at(rank(k), made_now(packet(k))); };

#pragma unroll
		for (uint32_t k = 0; k < PACKETS; k++) {
			ret_words[k] = form.pack(own[k / SOURCES]);
			load_words_if(rank(k) != call.rank && rank(k) < nranks_of<N>(call) &&
					      packet(k) < range.end,
				      at(k), ret_words[k]);
		}
		return poll(block, form, PHASE_INPUTS, header, ret_words, at, rank);
	}

	__device__ __forceinline__ void combine(const struct symm_call &call, uint32_t base,
						const struct symm_words (&words)[PACKETS])
	{
		uint32_t data[WORDS];

#pragma unroll
		for (uint32_t k = 0; k < PACKETS; k++) {
			uint32_t source = base + k % SOURCES;

			FORM::unpack(words[k], data);
			if (source == 0)
				sum[k / SOURCES].start(data);
			else if (N != 0)
				sum[k / SOURCES].template combine<HOST_SUM_SUM>(data);
			else if (source < call.nranks)
				sum[k / SOURCES].combine_by(call.op, data);
		}
	}

	/* Waits for all ranks' packets of the range, and for their headers (M1). The whole warp,
	 * lanes that have no packets too; the same in every lane. False: told to leave. */
	__device__ __forceinline__ bool
	receive(const struct symm_call &call, struct block_words &block, const FORM &form,
		struct header_watch &header, const struct slots &from,
		const struct packet_range &range, const uint32_t (&own)[BATCH][WORDS])
	{
		struct symm_words words[PACKETS];

		for (uint32_t base = 0; base < nranks_of<N>(call); base += SOURCES) {
			if (!collect(call, block, form, header, from, base, range, own, words))
				return false;
			combine(call, base, words);
		}
		return header.agrees(block);
	}
};

#endif /* BELAY_KERNELS_RANK_BATCH_CUH */
