/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA C for a C++ compiler, as far as the call kernels use it: stands in for
 * kernels/symm_device.cuh and kernels/rank_order_sum.cuh by taking their include guards. Included
 * before all else in the files that compile kernels.
 */
#ifndef BELAY_TESTS_PLAYED_DEVICE_H
#define BELAY_TESTS_PLAYED_DEVICE_H
#define BELAY_KERNELS_SYMM_DEVICE_CUH
#define BELAY_KERNELS_RANK_ORDER_SUM_CUH

#include <cstdint>
#include <cstring>
#include <utility>

#include "tests/kernels/played_gpu.h"
#include "tests/kernels/played_wide.h"

extern "C" {
#include "kernels/host_sum.h"
}

/* ---- the language ------------------------------------------------------------------------------
 */

#define __device__
#define __host__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __noinline__
/* The shared memory of the block that runs lies in a variable of the file scope. */
#define __shared__ extern

struct dim3 {
	uint32_t x;

	dim3(uint32_t size = 1) : x(size)
	{
	}
};
#define threadIdx dim3(played_thread())
#define blockIdx  dim3(played_block())
#define blockDim  dim3(played_threads())
#define gridDim	  dim3(played_blocks())

/* CUDA's take operands of any two types. */
template <class A, class B> static inline auto min(A a, B b) -> decltype(a + b)
{
	return a < b ? a : b;
}
template <class A, class B> static inline auto max(A a, B b) -> decltype(a + b)
{
	return a < b ? b : a;
}

/* ---- warps -------------------------------------------------------------------------------------
 */

static inline uint32_t played_ballot(bool mine)
{
	const uint64_t *votes = played_collect(PLAYED_VOTE, mine);
	uint32_t ballot = 0;

	for (uint32_t lane = 0; lane < 32; lane++)
		ballot |= (uint32_t)votes[lane] << lane;
	return ballot;
}

static inline uint32_t __ballot_sync(uint32_t, bool mine)
{
	return played_ballot(mine);
}
static inline bool __all_sync(uint32_t, bool mine)
{
	return played_ballot(mine) == UINT32_MAX;
}
static inline bool __any_sync(uint32_t, bool mine)
{
	return played_ballot(mine) != 0;
}
template <class T> static inline T __shfl_sync(uint32_t, T mine, uint32_t lane)
{
	return (T)played_collect(PLAYED_SHUFFLE, (uint64_t)mine)[lane];
}
template <class T> static inline T __shfl_xor_sync(uint32_t, T mine, uint32_t mask)
{
	return (T)played_collect(PLAYED_SHUFFLE, (uint64_t)mine)[played_thread() % 32 ^ mask];
}

static inline uint64_t warp_sum(uint64_t value)
{
	for (uint32_t lanes = 16; lanes > 0; lanes /= 2)
		value += __shfl_xor_sync(UINT32_MAX, value, lanes);
	return value;
}
static inline uint32_t __reduce_add_sync(uint32_t, uint32_t mine)
{
	const uint64_t *values = played_collect(PLAYED_ADD, mine);
	uint32_t sum = 0;

	for (uint32_t lane = 0; lane < 32; lane++)
		sum += (uint32_t)values[lane];
	return sum;
}
static inline void __syncwarp(void)
{
	(void)played_collect(PLAYED_SYNC, 0);
}

static inline uint32_t atomicOr(uint32_t *at, uint32_t bits)
{
	played_settle(at, sizeof(*at));
	return std::exchange(*at, *at | bits);
}
template <class T, class V> static inline T atomicExch(T *at, V value)
{
	played_settle(at, sizeof(*at));
	return std::exchange(*at, (T)value);
}

/* The upper, or the lower, half of high:low shifted by up to 32 bits. */
static inline uint32_t __funnelshift_lc(uint32_t low, uint32_t high, uint32_t shift)
{
	uint64_t both = (uint64_t)high << 32 | low;

	return shift >= 32 ? low : (uint32_t)(both << shift >> 32);
}
static inline uint32_t __funnelshift_rc(uint32_t low, uint32_t high, uint32_t shift)
{
	uint64_t both = (uint64_t)high << 32 | low;

	return shift >= 32 ? high : (uint32_t)(both >> shift);
}

/* ---- symm_device.cuh ---------------------------------------------------------------------------
 */

#define SYMM_INLINE static inline

struct symm_words {
	uint32_t word[4];
};

struct symm_pair {
	uint64_t first, second;
};

template <class T> static inline T played_loaded(const void *from)
{
	T value;

	played_load(from, &value, sizeof(value));
	return value;
}

SYMM_INLINE uint64_t load_relaxed(const uint64_t *from)
{
	return played_loaded<uint64_t>(from);
}
SYMM_INLINE void store_relaxed(uint64_t *to, uint64_t value)
{
	played_store(to, &value, 8, 8);
}
SYMM_INLINE struct symm_pair load_pair(const void *from)
{
	return played_loaded<struct symm_pair>(from);
}
SYMM_INLINE void store_pair(void *to, uint64_t first, uint64_t second)
{
	const uint64_t pair[2] = {first, second};

	played_store(to, pair, 16, 8);
}
SYMM_INLINE struct symm_words load_words(const void *from)
{
	return played_loaded<struct symm_words>(from);
}
SYMM_INLINE void store_words(void *to, const struct symm_words &words)
{
	played_store(to, words.word, 16, 8);
}
SYMM_INLINE void load_relaxed_if(bool wanted, const uint64_t *from, uint64_t &value)
{
	if (wanted)
		value = load_relaxed(from);
}
SYMM_INLINE void load_words_if(bool wanted, const void *from, struct symm_words &words)
{
	if (wanted)
		words = load_words(from);
}
SYMM_INLINE uint64_t load_acquire(const uint64_t *from)
{
	return load_relaxed(from);
}
template <int WORDS> SYMM_INLINE void load_whole(const char *from, uint32_t (&ret_data)[WORDS])
{
	played_load(from, ret_data, WORDS * 4);
}
template <int WORDS> SYMM_INLINE void store_whole(char *to, const uint32_t (&data)[WORDS])
{
	played_store(to, data, WORDS * 4, 4);
}
SYMM_INLINE uint32_t load_unit(const char *from, uint32_t unit)
{
	uint32_t value = 0;

	played_load(from, &value, unit);
	return value;
}
SYMM_INLINE void store_unit(char *to, uint32_t unit, uint32_t value)
{
	played_store(to, &value, unit, unit);
}
SYMM_INLINE void fence_block(void)
{
}
SYMM_INLINE void fence_gpu(void)
{
	played_fence();
}
SYMM_INLINE void fence_system(void)
{
	played_fence();
}
SYMM_INLINE uint64_t load_gpu(const uint64_t *from)
{
	return load_relaxed(from);
}
SYMM_INLINE void store_gpu(uint64_t *to, uint64_t value)
{
	store_relaxed(to, value);
}
SYMM_INLINE uint64_t swap_if(uint64_t *at, uint64_t expected, uint64_t desired)
{
	uint64_t before;

	played_settle(at, sizeof(*at));
	before = *at;
	*at = before == expected ? desired : before;
	return before;
}
SYMM_INLINE uint32_t count_one(uint32_t *counter)
{
	played_settle(counter, sizeof(*counter));
	return (*counter)++;
}
SYMM_INLINE void add_gpu(uint64_t *to, uint64_t value)
{
	played_settle(to, sizeof(*to));
	*to += value;
}
SYMM_INLINE uint64_t ticks_now(void)
{
	return played_ticks();
}
SYMM_INLINE void pause_ns(uint32_t)
{
	played_pause();
}
template <int BARRIER> SYMM_INLINE void barrier_wait(uint32_t threads)
{
	played_barrier(BARRIER, threads, true);
}
template <int BARRIER> SYMM_INLINE void barrier_arrive(uint32_t threads)
{
	played_barrier(BARRIER, threads, false);
}
SYMM_INLINE void launch_dependents(void)
{
}
SYMM_INLINE void wait_for_kernel_before(void)
{
	played_wait_for_last();
}
SYMM_INLINE uint64_t digest_of_two(const uint32_t *word)
{
	return (uint64_t)word[1] << 32 | word[0];
}
template <class T> SYMM_INLINE T made_now(T value)
{
	return value;
}

/* ---- rank_order_sum.cuh: the CPU's sum in its place --------------------------------------------
 */

template <int DTYPE, int WORDS> struct rank_order_sum {
	enum { RANKS_MAX = 16 };
	enum { FLOATS = DTYPE == HOST_SUM_F16 || DTYPE == HOST_SUM_BF16 ? 2 * WORDS : WORDS };
	uint32_t source[RANKS_MAX][WORDS];
	float wide[FLOATS]; /* of a sum that began with another's, in place of sources */
	unsigned nsources;
	int op;

	void start(const uint32_t (&raw)[WORDS])
	{
		memcpy(source[0], raw, sizeof(raw));
		nsources = 1;
		op = 1; /* of one source: any */
	}
	template <int OP> void combine(const uint32_t (&raw)[WORDS])
	{
		combine_by(OP, raw);
	}
	void combine_by(int by, const uint32_t (&raw)[WORDS])
	{
		if (nsources == RANKS_MAX) {
			played_fail("more sources than ranks are summed");
			return;
		}
		if (nsources == 0) {
			combine_onto(wide, by, raw);
			return;
		}
		op = by;
		memcpy(source[nsources++], raw, sizeof(raw));
	}
	static void combine_onto(float (&onto)[FLOATS], int by, const uint32_t (&raw)[WORDS])
	{
		for (unsigned i = 0; i < FLOATS; i++)
			onto[i] = combine_wide(by, onto[i], widen_element<DTYPE>(raw, i));
	}
	void start_wide(const uint32_t (&raw)[FLOATS])
	{
		memcpy(wide, raw, sizeof(wide));
		nsources = 0;
	}
	void put_wide(uint32_t (&ret_raw)[FLOATS]) const
	{
		float sum[FLOATS];

		for (unsigned i = 0; i < FLOATS; i++)
			sum[i] = widen_element<DTYPE>(source[0], i);
		for (unsigned s = 1; s < nsources; s++)
			combine_onto(sum, op, source[s]);
		memcpy(ret_raw, sum, sizeof(sum));
	}
	void finish(uint32_t (&ret_raw)[WORDS]) const
	{
		for (unsigned i = 0; i < FLOATS && nsources == 0; i++)
			narrow_element<DTYPE>(wide[i], ret_raw, i);
		if (nsources != 0)
			finish_sources(ret_raw);
	}
	void finish_sources(uint32_t (&ret_raw)[WORDS]) const
	{
		static const size_t element[] = {0, 4, 8, 2, 2, 4, 8, 1, 1};
		const void *sources[RANKS_MAX];
		void *destinations[] = {ret_raw};
		struct host_sum_job job = {};

		for (unsigned i = 0; i < nsources; i++)
			sources[i] = source[i];
		job.sources = sources;
		job.nsources = nsources;
		job.destinations = destinations;
		job.ndestinations = 1;
		job.count = sizeof(ret_raw) / element[DTYPE];
		job.dtype = DTYPE;
		job.op = op;
		(void)host_sum(&job);
	}
};

#endif /* BELAY_TESTS_PLAYED_DEVICE_H */
