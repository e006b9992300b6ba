/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rescue's reduction: parts that lie in one piece of device memory, in rank order, into an output
 * of any alignment. Not in a hurry as calls are, but beside kernels that spin: few registers, few
 * threads.
 */
#include "kernels/rank_order_sum.cuh"
#include "kernels/symm_device.cuh"
#include "kernels/symm_enqueue.cuh"
#include "kernels/symm_kernel_list.h"
#include "kernels/symm_kernels.h"

#define REDUCE_BLOCKS_MAX 64
#define REDUCE_THREADS	  256

struct reduction {
	const char *parts;
	uint64_t part_stride, bytes;
	char *output;
	uint64_t *digest;
	uint32_t nranks;
	int op;
};

/* Bytes from `bytes` on become 0; 1 to 16 stay. */
SYMM_INLINE void clear_tail(struct symm_words &words, uint64_t bytes)
{
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int64_t left = (int64_t)bytes - 4 * i;

		if (left <= 0)
			words.word[i] = 0;
		else if (left < 4)
			words.word[i] &= (1u << 8 * left) - 1;
	}
}

/* A packet whose place is not 16-byte aligned, or that is not whole. */
SYMM_INLINE void store_bytes(char *to, const struct symm_words &words, uint64_t bytes)
{
#pragma unroll
	for (int i = 0; i < 16; i++)
		if ((uint64_t)i < bytes)
			to[i] = (char)(words.word[i / 4] >> 8 * (i % 4));
}

template <int DTYPE, int OP>
SYMM_INLINE struct symm_words reduce_packet(const struct reduction &job, uint64_t at)
{
	rank_order_sum<DTYPE, 4> sum;
	struct symm_words words = load_input(job.parts + at);

	sum.start(words.word);
#pragma unroll 4
	for (uint32_t r = 1; r < job.nranks; r++) {
		words = load_input(job.parts + r * job.part_stride + at);
		sum.template combine<OP>(words.word);
	}
	sum.finish(words.word);
	return words;
}

template <int DTYPE, int OP> SYMM_INLINE void reduce_all(const struct reduction &job)
{
	uint64_t step = 16ull * gridDim.x * blockDim.x;
	bool aligned = (uintptr_t)job.output % 16 == 0;
	uint64_t digest = 0;

	for (uint64_t at = 16ull * (blockIdx.x * blockDim.x + threadIdx.x); at < job.bytes;
	     at += step) {
		struct symm_words words = reduce_packet<DTYPE, OP>(job, at);
		uint64_t left = job.bytes - at;

		if (left < 16)
			clear_tail(words, left);
		if (aligned && left >= 16)
			store_plain(job.output + at, words);
		else
			store_bytes(job.output + at, words, left);
		digest += digest_of_words(words);
	}
	digest = warp_sum(digest);
	if (threadIdx.x % 32 == 0)
		add_gpu(job.digest, digest);
}

template <int DTYPE>
static __global__ void __launch_bounds__(REDUCE_THREADS, 4)
	symm_reduce(const __grid_constant__ struct reduction job)
{
	switch (job.op) {
	case HOST_SUM_MAX:
		reduce_all<DTYPE, HOST_SUM_MAX>(job);
		break;
	case HOST_SUM_MIN:
		reduce_all<DTYPE, HOST_SUM_MIN>(job);
		break;
	case HOST_SUM_PROD:
		reduce_all<DTYPE, HOST_SUM_PROD>(job);
		break;
	default:
		reduce_all<DTYPE, HOST_SUM_SUM>(job);
		break;
	}
}

/* By dtype, from 1. */
static const struct symm_kernel reduce_kernels[] = {
	SYMM_KERNEL(symm_reduce<HOST_SUM_F32>), SYMM_KERNEL(symm_reduce<HOST_SUM_F64>),
	SYMM_KERNEL(symm_reduce<HOST_SUM_F16>), SYMM_KERNEL(symm_reduce<HOST_SUM_BF16>),
	SYMM_KERNEL(symm_reduce<HOST_SUM_I32>), SYMM_KERNEL(symm_reduce<HOST_SUM_I64>),
	SYMM_KERNEL(symm_reduce<HOST_SUM_U8>),	SYMM_KERNEL(symm_reduce<HOST_SUM_I8>),
};

size_t symm_reduce_kernels(const struct symm_kernel **ret_kernels)
{
	*ret_kernels = reduce_kernels;
	return sizeof(reduce_kernels) / sizeof(reduce_kernels[0]);
}

static uint32_t blocks_for(uint64_t bytes)
{
	uint64_t blocks = (bytes + 16 * REDUCE_THREADS - 1) / (16 * REDUCE_THREADS);

	return blocks < REDUCE_BLOCKS_MAX ? (uint32_t)blocks : REDUCE_BLOCKS_MAX;
}

int symm_launch_reduce(const void *parts, uint64_t part_stride, uint32_t nranks, uint64_t count,
		       int dtype, int op, void *output, uint64_t *digest,
		       struct CUstream_st *stream)
{
	struct reduction job = {};
	void *arguments[] = {&job};

	if (dtype < HOST_SUM_F32 || dtype >= HOST_SUM_DTYPES ||
	    ((uintptr_t)parts | part_stride) % 16)
		return (int)cudaErrorInvalidValue;
	if (count == 0)
		return 0;
	job.parts = (const char *)parts;
	job.part_stride = part_stride;
	job.bytes = count * symm_element_bytes(dtype);
	job.output = (char *)output;
	job.digest = digest;
	job.nranks = nranks;
	job.op = op;
	return symm_enqueue(reduce_kernels[dtype - 1].function, blocks_for(job.bytes),
			    REDUCE_THREADS, arguments, stream);
}
