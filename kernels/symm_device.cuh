/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the symm path's kernels ask of the GPU, an instruction or two each: accesses of a stated
 * order, scope and width, fences, clocks, barriers of part of a block. Every access to memory that
 * another block, rank or the host also touches goes through here.
 */
#ifndef BELAY_KERNELS_SYMM_DEVICE_CUH
#define BELAY_KERNELS_SYMM_DEVICE_CUH

#include <stdint.h>

#define SYMM_INLINE static __device__ __forceinline__

/* 16 bytes as they travel. Word 0 is at the lowest address. */
struct symm_words {
	uint32_t word[4];
};

/* Two 64-bit words of one 16-byte access. */
struct symm_pair {
	uint64_t first, second;
};

/* ---- relaxed, system scope: peers' memory and host memory --------------------------------------
 */

/*
 * Relaxed accesses promise no order between each other. What they promise, and what packets build
 * on, is that each aligned 64-bit half is stored and loaded whole, so that the flag in a half
 * vouches for the data in the same half (R5). Full-wire words need only 32 bits to be whole.
 */
SYMM_INLINE uint64_t load_relaxed(const uint64_t *from)
{
	uint64_t value;

	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
	return value;
}

SYMM_INLINE void store_relaxed(uint64_t *to, uint64_t value)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}

SYMM_INLINE struct symm_pair load_pair(const void *from)
{
	struct symm_pair pair;

	asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
		     : "=l"(pair.first), "=l"(pair.second)
		     : "l"(from)
		     : "memory");
	return pair;
}

SYMM_INLINE void store_pair(void *to, uint64_t first, uint64_t second)
{
	asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
		     :
		     : "l"(to), "l"(first), "l"(second)
		     : "memory");
}

SYMM_INLINE struct symm_words load_words(const void *from)
{
	struct symm_pair pair = load_pair(from);
	struct symm_words words = {{(uint32_t)pair.first, (uint32_t)(pair.first >> 32),
				    (uint32_t)pair.second, (uint32_t)(pair.second >> 32)}};

	return words;
}

SYMM_INLINE void store_words(void *to, const struct symm_words &words)
{
	store_pair(to, (uint64_t)words.word[1] << 32 | words.word[0],
		   (uint64_t)words.word[3] << 32 | words.word[2]);
}

/* load_words() where `wanted`, else `words` stay: without a branch, so that several loads are under
 * way before the first has come. */
SYMM_INLINE void load_words_if(bool wanted, const void *from, struct symm_words &words)
{
	uint64_t first = (uint64_t)words.word[1] << 32 | words.word[0];
	uint64_t second = (uint64_t)words.word[3] << 32 | words.word[2];

	asm volatile("{\n\t.reg .pred wanted;\n\t"
		     "setp.ne.u32 wanted, %3, 0;\n\t"
		     "@wanted ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];\n\t}"
		     : "+l"(first), "+l"(second)
		     : "l"(from), "r"((uint32_t)wanted)
		     : "memory");
	words = symm_words{{(uint32_t)first, (uint32_t)(first >> 32), (uint32_t)second,
			    (uint32_t)(second >> 32)}};
}

/* load_relaxed() where `wanted`, else `value` stays: without a branch. */
SYMM_INLINE void load_relaxed_if(bool wanted, const uint64_t *from, uint64_t &value)
{
	asm volatile("{\n\t.reg .pred wanted;\n\t"
		     "setp.ne.u32 wanted, %2, 0;\n\t"
		     "@wanted ld.relaxed.sys.global.u64 %0, [%1];\n\t}"
		     : "+l"(value)
		     : "l"(from), "r"((uint32_t)wanted)
		     : "memory");
}

/* With acquire or release where one flag is to vouch for other memory. */
SYMM_INLINE uint64_t load_acquire(const uint64_t *from)
{
	uint64_t value;

	asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
	return value;
}

SYMM_INLINE void store_release(uint64_t *to, uint64_t value)
{
	asm volatile("st.release.sys.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}

/* ---- own memory, no order -----------------------------------------------------------------------
 */

/* The application's buffers: 16 bytes that nobody else touches while the kernel runs; read once. */
SYMM_INLINE struct symm_words load_input(const void *from)
{
	struct symm_words words;

	asm volatile("ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]),
		       "=r"(words.word[3])
		     : "l"(from)
		     : "memory");
	return words;
}

SYMM_INLINE void store_plain(void *to, const struct symm_words &words)
{
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(to), "r"(words.word[0]), "r"(words.word[1]), "r"(words.word[2]),
		       "r"(words.word[3])
		     : "memory");
}

/* An aligned packet in one load, not kept in the first-level cache. Not volatile, but in its place
 * before all stores: send and recv may be one buffer. */
template <int WORDS> SYMM_INLINE void load_whole(const char *from, uint32_t (&ret_data)[WORDS]);

template <> __device__ __forceinline__ void load_whole<2>(const char *from, uint32_t (&ret_data)[2])
{
	asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
		     : "=r"(ret_data[0]), "=r"(ret_data[1])
		     : "l"(from)
		     : "memory");
}

template <> __device__ __forceinline__ void load_whole<4>(const char *from, uint32_t (&ret_data)[4])
{
	asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(ret_data[0]), "=r"(ret_data[1]), "=r"(ret_data[2]), "=r"(ret_data[3])
		     : "l"(from)
		     : "memory");
}

template <int WORDS> SYMM_INLINE void store_whole(char *to, const uint32_t (&data)[WORDS]);

template <> __device__ __forceinline__ void store_whole<2>(char *to, const uint32_t (&data)[2])
{
	asm volatile("st.global.v2.u32 [%0], {%1, %2};"
		     :
		     : "l"(to), "r"(data[0]), "r"(data[1])
		     : "memory");
}

template <> __device__ __forceinline__ void store_whole<4>(char *to, const uint32_t (&data)[4])
{
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :
		     : "l"(to), "r"(data[0]), "r"(data[1]), "r"(data[2]), "r"(data[3])
		     : "memory");
}

/* 1, 2 or 4 bytes. */
SYMM_INLINE uint32_t load_unit(const char *from, uint32_t unit)
{
	if (unit == 4)
		return *(const volatile uint32_t *)from;
	if (unit == 2)
		return *(const volatile uint16_t *)from;
	return *(const volatile uint8_t *)from;
}

SYMM_INLINE void store_unit(char *to, uint32_t unit, uint32_t value)
{
	if (unit == 4)
		*(volatile uint32_t *)to = value;
	else if (unit == 2)
		*(volatile uint16_t *)to = (uint16_t)value;
	else
		*(volatile uint8_t *)to = (uint8_t)value;
}

/* ---- fences
 * -------------------------------------------------------------------------------------- */

SYMM_INLINE void fence_block(void)
{
	asm volatile("fence.acq_rel.cta;" : : : "memory");
}

SYMM_INLINE void fence_gpu(void)
{
	asm volatile("fence.acq_rel.gpu;" : : : "memory");
}

/* Dear: a microsecond and more. Never on the way of a call that is on time. */
SYMM_INLINE void fence_system(void)
{
	asm volatile("fence.acq_rel.sys;" : : : "memory");
}

/* ---- words of the own state, shared by the blocks of one kernel
 * ----------------------------------- */

SYMM_INLINE uint64_t load_gpu(const uint64_t *from)
{
	uint64_t value;

	asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
	return value;
}

SYMM_INLINE void store_gpu(uint64_t *to, uint64_t value)
{
	asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}

/* Returns what stood there: `expected` when the swap was made. */
SYMM_INLINE uint64_t swap_if(uint64_t *at, uint64_t expected, uint64_t desired)
{
	uint64_t before;

	asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
		     : "=l"(before)
		     : "l"(at), "l"(expected), "l"(desired)
		     : "memory");
	return before;
}

/* Returns the number before. */
SYMM_INLINE uint32_t count_one(uint32_t *counter)
{
	uint32_t before;

	asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;"
		     : "=r"(before)
		     : "l"(counter)
		     : "memory");
	return before;
}

SYMM_INLINE void add_gpu(uint64_t *to, uint64_t value)
{
	asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" : : "l"(to), "l"(value) : "memory");
}

/* ---- time
 * ---------------------------------------------------------------------------------------- */

/* Ticks of the GPU's clock: ns, in steps of up to a microsecond, from an origin of its own. */
SYMM_INLINE uint64_t ticks_now(void)
{
	uint64_t ticks;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ticks) : : "memory");
	return ticks;
}

/* Pauses for somewhere between nothing and twice that long. At most a millisecond. */
SYMM_INLINE void pause_ns(uint32_t ns)
{
	asm volatile("nanosleep.u32 %0;" : : "r"(ns) : "memory");
}

/* ---- parts of a block
 * ---------------------------------------------------------------------------- */

/* Barrier 0 is __syncthreads(). `threads` is a multiple of 32: all who wait and all who arrive.
 * What was written before an arrival is seen after the wait, by the block. */
template <int BARRIER> SYMM_INLINE void barrier_wait(uint32_t threads)
{
	asm volatile("barrier.sync %0, %1;" : : "n"(BARRIER), "r"(threads) : "memory");
}

template <int BARRIER> SYMM_INLINE void barrier_arrive(uint32_t threads)
{
	asm volatile("barrier.arrive %0, %1;" : : "n"(BARRIER), "r"(threads) : "memory");
}

/* Programmatic dependent launch: the next kernel of the stream may start; and: all of the kernel
 * before has ended and is seen. Nothing for a kernel that was launched without it. */
SYMM_INLINE void launch_dependents(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

SYMM_INLINE void wait_for_kernel_before(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}

/* ---- digest
 * -------------------------------------------------------------------------------------- */

/* A packet's part in the digest of host_sum(): the sum of its little-endian 64-bit words. Packets
 * start at multiples of 8 bytes, and bytes past the end count as zero. */
SYMM_INLINE uint64_t digest_of_two(const uint32_t *word)
{
	return (uint64_t)word[1] << 32 | word[0];
}

SYMM_INLINE uint64_t digest_of_words(const struct symm_words &words)
{
	return digest_of_two(words.word) + digest_of_two(words.word + 2);
}

/* The sum over a whole warp, in every lane. */
SYMM_INLINE uint64_t warp_sum(uint64_t value)
{
#pragma unroll
	for (int lanes = 16; lanes > 0; lanes /= 2)
		value += __shfl_xor_sync(0xffffffffu, value, lanes);
	return value;
}

/* ---- the compiler --------------------------------------------------------------------------- */

/* What is passed is worked out here: neither later, where it is used (while loads are under way),
 * nor once for all turns of a loop (which takes registers). */
SYMM_INLINE char *made_now(char *pointer)
{
	asm volatile("" : "+l"(pointer));
	return pointer;
}

SYMM_INLINE uint32_t made_now(uint32_t number)
{
	asm volatile("" : "+r"(number));
	return number;
}

#endif /* BELAY_KERNELS_SYMM_DEVICE_CUH */
