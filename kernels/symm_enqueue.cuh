/* SPDX-License-Identifier: Apache-2.0 */
/* How the service kernels are launched: as plain kernels, without programmatic launch. */
#ifndef BELAY_KERNELS_SYMM_ENQUEUE_CUH
#define BELAY_KERNELS_SYMM_ENQUEUE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

/* 0 or the error, which is not left behind in the thread. `arguments`: pointers to them. */
static inline int symm_enqueue(const void *kernel, uint32_t blocks, uint32_t threads,
			       void **arguments, struct CUstream_st *stream)
{
	cudaLaunchConfig_t config = {};
	cudaError_t error;

	config.gridDim = dim3(blocks);
	config.blockDim = dim3(threads);
	config.stream = stream;
	error = cudaLaunchKernelExC(&config, kernel, arguments);
	if (error != cudaSuccess)
		(void)cudaGetLastError();
	return (int)error;
}

/* A parameter of a kernel without its const, as cudaLaunchKernelExC() wants it; it only reads. */
template <typename T> static inline void *symm_argument(const T *argument)
{
	return const_cast<T *>(argument);
}

#endif /* BELAY_KERNELS_SYMM_ENQUEUE_CUH */
