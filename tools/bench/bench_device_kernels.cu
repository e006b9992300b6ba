/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_device_kernels.h"

#include <cuda_runtime.h>

/* One block: a comparison of one rank runs beside the calls of ranks that are still at work, and its
 * one result needs no atomic on host memory, which not every machine has. */
#define COMPARE_THREADS	 1024
#define PARAMETERS_BYTES 400

/* As many bytes of parameters as a call of belay's has. */
struct parameters {
	char bytes[PARAMETERS_BYTES];
};

__device__ static unsigned differing_bytes(uint64_t is, uint64_t should)
{
	uint64_t differs = is ^ should;
	unsigned n = 0;

	if (differs)
		for (int i = 0; i < 8; i++)
			n += (differs >> 8 * i & 0xff) != 0;
	return n;
}

/* Word by word where both buffers are aligned to 8 bytes, else byte by byte. */
__global__ static void compare(const char *is, const char *should, size_t bytes, uint64_t *wrong)
{
	__shared__ unsigned long long total;
	size_t words = ((uintptr_t)is | (uintptr_t)should) % 8 ? 0 : bytes / 8;
	unsigned long long n = 0;

	if (threadIdx.x == 0)
		total = 0;
	__syncthreads();
#pragma unroll 8
	for (size_t i = threadIdx.x; i < words; i += COMPARE_THREADS)
		n += differing_bytes(((const uint64_t *)is)[i], ((const uint64_t *)should)[i]);
	for (size_t i = words * 8 + threadIdx.x; i < bytes; i += COMPARE_THREADS)
		n += is[i] != should[i];
	if (n)
		atomicAdd(&total, n);
	__syncthreads();
	if (threadIdx.x == 0)
		*wrong = total;
}

__device__ static uint64_t clock_ns(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

__global__ static void delay(uint64_t ns)
{
	uint64_t start = clock_ns();

	while (clock_ns() - start < ns)
		;
}

__global__ static void empty(struct parameters parameters)
{
	(void)parameters;
}

static int load(const void *kernel)
{
	struct cudaFuncAttributes attributes;

	return (int)cudaFuncGetAttributes(&attributes, kernel);
}

int bench_kernels_load(void)
{
	const void *const kernels[] = {(const void *)compare, (const void *)delay,
				       (const void *)empty};
	int code = 0;

	for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]) && code == 0; i++)
		code = load(kernels[i]);
	return code;
}

int bench_launch_compare(const void *is, const void *should, size_t bytes, uint64_t *wrong,
			 struct CUstream_st *stream)
{
	compare<<<1, COMPARE_THREADS, 0, stream>>>((const char *)is, (const char *)should, bytes,
						    wrong);
	return (int)cudaGetLastError();
}

int bench_launch_delay(uint64_t ns, struct CUstream_st *stream)
{
	delay<<<1, 1, 0, stream>>>(ns);
	return (int)cudaGetLastError();
}

int bench_launch_empty(struct CUstream_st *stream)
{
	struct parameters parameters = {};

	empty<<<1, 32, 0, stream>>>(parameters);
	return (int)cudaGetLastError();
}
