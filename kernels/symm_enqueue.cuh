/* SPDX-License-Identifier: Apache-2.0 */
/* How the kernels that are not calls are launched and listed: plainly, without programmatic launch.
 */
#ifndef BELAY_KERNELS_SYMM_ENQUEUE_CUH
#define BELAY_KERNELS_SYMM_ENQUEUE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#include "kernels/sum_types.h"
#include "kernels/symm_kernel_list.h"

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

/* A line of a file's list. */
#define SYMM_KERNEL(name)                                                                          \
	{                                                                                          \
		(const void *)name, #name                                                          \
	}

static inline uint64_t symm_element_bytes(int dtype)
{
	switch (dtype) {
	case HOST_SUM_F64:
	case HOST_SUM_I64:
		return 8;
	case HOST_SUM_F16:
	case HOST_SUM_BF16:
		return 2;
	case HOST_SUM_U8:
	case HOST_SUM_I8:
		return 1;
	default:
		return 4;
	}
}

#endif /* BELAY_KERNELS_SYMM_ENQUEUE_CUH */
