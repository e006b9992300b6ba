/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How data travels (docs/cuda-path.md, "Packets and the full wire"), and how a worker thread takes
 * it up and puts it down. Everything is in registers: arrays are indexed by constants only.
 *
 * Ordering contract [PACKET]
 *
 *   sender, turn t                              reader, turn t
 *   (1) one relaxed 16-byte store to a     ---> (2) relaxed 16-byte loads until every part says
 *       slot of the reader                          that it is here
 *                                               (3) full wire: stores "not here" to the slot
 *   (5) the same slot in turn t + 2        <--- (4) header and data of turn t + 1, from a kernel
 * that began after (3) was performed [KERNELS]
 *
 * A part is what the hardware stores whole: for packets a half, 4 bytes of data with the turn's
 * flag (R6), for the full wire a 32-bit word. So no order between stores is asked for, and no
 * fence: each part vouches for itself. (3) is before (5) because a rank begins t + 2 only with all
 * data of t + 1.
 */
#ifndef BELAY_KERNELS_PACKET_FORMS_CUH
#define BELAY_KERNELS_PACKET_FORMS_CUH

#include "kernels/rank_order_sum.cuh"
#include "kernels/symm_call.cuh"

/* Polls between notes of who is missing, for the gate. */
enum { POLLS_PER_NOTE = 64 };

#define NOT_HERE UINT32_MAX

/* ---- forms ------------------------------------------------------------------------------------
 */

/* Packets: 8 data bytes in 16. */
struct form_packets {
	enum { WORDS = 2, RESETS = 0 };
	uint32_t flag;

	__device__ __forceinline__ explicit form_packets(const struct turn_facts &facts)
	    : flag(facts.flag)
	{
	}
	__device__ __forceinline__ struct symm_words pack(const uint32_t (&data)[WORDS]) const
	{
		return symm_words{{data[0], flag, data[1], flag}};
	}
	__device__ __forceinline__ bool here(const struct symm_words &words) const
	{
		return words.word[1] == flag && words.word[3] == flag;
	}
	static __device__ __forceinline__ void unpack(const struct symm_words &words,
						      uint32_t (&ret_data)[WORDS])
	{
		ret_data[0] = words.word[0];
		ret_data[1] = words.word[2];
	}
};

/* The full wire: 16 data bytes in 16. */
struct form_wire {
	enum { WORDS = 4, RESETS = 1 };

	__device__ __forceinline__ explicit form_wire(const struct turn_facts &)
	{
	}
	/* A word of all ones is a NaN, or two, in every type that goes this way; the sum makes the
	 * canonical NaN of any, so it may as well travel as another one. */
	static __device__ __forceinline__ uint32_t sayable(uint32_t word)
	{
		return word == NOT_HERE ? 0xfffeffffu : word;
	}
	static __device__ __forceinline__ struct symm_words pack(const uint32_t (&data)[WORDS])
	{
		return symm_words{
			{sayable(data[0]), sayable(data[1]), sayable(data[2]), sayable(data[3])}};
	}
	__device__ __forceinline__ bool here(const struct symm_words &words) const
	{
		return max(max(words.word[0], words.word[1]), max(words.word[2], words.word[3])) !=
		       NOT_HERE;
	}
	static __device__ __forceinline__ void unpack(const struct symm_words &words,
						      uint32_t (&ret_data)[WORDS])
	{
#pragma unroll
		for (int i = 0; i < WORDS; i++)
			ret_data[i] = words.word[i];
	}
};

SYMM_INLINE void reset_slot(char *slot)
{
	store_words(slot, symm_words{{NOT_HERE, NOT_HERE, NOT_HERE, NOT_HERE}});
}

/* ---- the application's buffers ----------------------------------------------------------------
 */

/* Bytes of the packet that the turn has: less than all in the last one, none past it. */
template <int WORDS>
SYMM_INLINE uint32_t packet_bytes(const struct symm_call &call, uint32_t packet)
{
	uint64_t at = (uint64_t)packet * (WORDS * 4);

	return at >= call.bytes ? 0 : (uint32_t)min(call.bytes - at, (uint64_t)(WORDS * 4));
}

/* Moves all bytes of a packet up or down by those of a unit: so that no word has to be chosen by a
 * number, which would put the packet into memory. Up makes room for `unit` at the bottom. */
template <int WORDS>
SYMM_INLINE void shift_up(uint32_t (&data)[WORDS], uint32_t bytes, uint32_t unit)
{
#pragma unroll
	for (int i = WORDS - 1; i > 0; i--)
		data[i] = __funnelshift_lc(data[i - 1], data[i], bytes * 8);
	data[0] = __funnelshift_lc(0, data[0], bytes * 8) | unit;
}

template <int WORDS> SYMM_INLINE void shift_down(uint32_t (&data)[WORDS], uint32_t bytes)
{
#pragma unroll
	for (int i = 0; i < WORDS - 1; i++)
		data[i] = __funnelshift_rc(data[i], data[i + 1], bytes * 8);
	data[WORDS - 1] = __funnelshift_rc(data[WORDS - 1], 0, bytes * 8);
}

/* The input's packet, padded with zeros. Input that is not aligned, and the last packet of the
 * turn, come in pieces. */
template <int WORDS>
SYMM_INLINE void load_input_packet(const struct symm_call &call, uint32_t packet,
				   uint32_t (&ret_data)[WORDS])
{
	const char *from = call.send + (uint64_t)packet * (WORDS * 4);

	if (packet < call.whole_in[WORDS == 4]) {
		load_whole<WORDS>(from, ret_data);
		return;
	}
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		ret_data[i] = 0;
#pragma unroll 1
	for (uint32_t left = packet_bytes<WORDS>(call, packet); left > 0;) {
		left -= call.unit_in;
		shift_up(ret_data, call.unit_in, load_unit(from + left, call.unit_in));
	}
}

/* `to` is where it lies. */
template <int WORDS>
SYMM_INLINE void store_output_packet(const struct symm_call &call, uint32_t packet, char *to,
				     const uint32_t (&data)[WORDS])
{
	uint32_t bytes, rest[WORDS];

	if (packet < call.whole_out[WORDS == 4]) {
		store_whole<WORDS>(to, data);
		return;
	}
	bytes = packet_bytes<WORDS>(call, packet);
#pragma unroll
	for (int i = 0; i < WORDS; i++)
		rest[i] = data[i];
#pragma unroll 1
	for (uint32_t at = 0; at < bytes; at += call.unit_out) {
		store_unit(to + at, call.unit_out, rest[0]);
		shift_down(rest, call.unit_out);
	}
}

template <int WORDS>
SYMM_INLINE void store_output_packet(const struct symm_call &call, uint32_t packet,
				     const uint32_t (&data)[WORDS])
{
	store_output_packet<WORDS>(call, packet, call.recv + (uint64_t)packet * (WORDS * 4), data);
}

template <int WORDS> SYMM_INLINE uint64_t packet_digest(const uint32_t (&data)[WORDS])
{
	return WORDS == 2 ? digest_of_two(data)
			  : digest_of_two(data) + digest_of_two(data + WORDS - 2);
}

/* The retained copy of this rank's input, aligned and padded. */
template <int WORDS>
SYMM_INLINE char *retained_packet(const struct symm_call &call, uint32_t parity, uint32_t packet)
{
	return call.own + call.layout.retained + parity * call.layout.symm_bytes +
	       (uint64_t)packet * (WORDS * 4);
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

/* Tells the gate, now and then, whom this thread waits for. */
SYMM_INLINE void note_missing(struct block_words &block, uint32_t phase, uint32_t ranks)
{
	atomicOr(&block.polled[phase], ranks);
}

/* M1, for a worker warp: lane q looks at the header that rank q sends to this block. */
struct header_watch {
	const uint64_t *at;
	uint64_t want, word; /* what it ought to say; what it said last */

	/* Asks for it once. A lane that has none to look at has seen what it wants. */
	__device__ __forceinline__ header_watch(const struct symm_call &call,
						const struct turn_facts &facts,
						const struct block_words &block)
	    : at(word_of(call.own, call.layout.headers, parity_of(facts.turn), blockIdx.x,
			 lane_id() % SYMM_RANKS_MAX)),
	      want(header_of(call, facts, block)),
	      word(lane_id() < call.nranks && lane_id() != call.rank ? 0 : want)
	{
		look();
	}

	/* Any other word than one with this turn's flag is nothing (R5). */
	__device__ __forceinline__ bool waits() const
	{
		return (uint32_t)(word >> 32) != (uint32_t)(want >> 32);
	}

	__device__ __forceinline__ void look()
	{
		load_relaxed_if(waits(), at, word);
	}

	/* Once none waits. The same in every lane. False, when told to leave: some header says
	 * something else; the gate has told the host. */
	__device__ __forceinline__ bool agrees(const struct block_words &block) const
	{
		if (!__any_sync(~0u, word != want))
			return true;
		while (!block.leave)
			continue;
		return false;
	}
};

/* Nobody to wait for. */
struct no_header_watch {
	__device__ __forceinline__ bool waits() const
	{
		return false;
	}
	__device__ __forceinline__ void look() const
	{
	}
};

/*
 * COUNT packets in each lane, and the headers, all polled at once: those that are here stay, the
 * others are loaded again. The whole warp, until it has them all. False: told to leave. `at(k)` is
 * where packet k lies, `rank(k)` whose it is.
 */
template <class FORM, class HEADER, int COUNT, class AT, class RANK>
SYMM_INLINE bool poll(struct block_words &block, const FORM &form, uint32_t phase, HEADER &header,
		      struct symm_words (&words)[COUNT], const AT &at, const RANK &rank)
{
	for (uint32_t polls = 1;; polls++) {
		bool waits = header.waits();
		uint32_t missing = 0;

		/* Not `missing != 0`: ptxas of CUDA 13.0 makes the opposite of it for two packets.
		 */
#pragma unroll
		for (int k = 0; k < COUNT; k++) {
			bool here = form.here(words[k]);

			waits |= !here;
			missing |= here ? 0 : 1u << k;
		}
		if (!__any_sync(~0u, waits))
			return true;
#pragma unroll
		for (int k = 0; k < COUNT; k++)
			load_words_if(missing >> k & 1, at(k), words[k]);
		header.look();
		if (__any_sync(~0u, block.leave))
			return false;
		if (polls % POLLS_PER_NOTE == 0 && missing) {
			uint32_t ranks = 0;

#pragma unroll
			for (int k = 0; k < COUNT; k++)
				ranks |= (missing >> k & 1) << rank(k);
			note_missing(block, phase, ranks);
		}
	}
}

#endif /* BELAY_KERNELS_PACKET_FORMS_CUH */
