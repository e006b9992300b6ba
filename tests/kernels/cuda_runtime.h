/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for CUDA's header of this name where kernels/symm_call.cu is compiled for the played
 * GPU: a launch goes into the queue of the stream.
 */
#ifndef BELAY_TESTS_CUDA_RUNTIME_H
#define BELAY_TESTS_CUDA_RUNTIME_H

#include <climits>
#include <cstddef>
#include <cstdint>

#include "tests/kernels/played_device.h"

/* Members bear these names. */
#undef gridDim
#undef blockDim

enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidValue = 1 };
enum { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };

struct cudaFuncAttributes {
	int unused;
};
struct cudaLaunchAttribute {
	int id;
	struct {
		int programmaticStreamSerializationAllowed;
	} val;
};
struct cudaLaunchConfig_t {
	dim3 gridDim, blockDim;
	struct CUstream_st *stream;
	struct cudaLaunchAttribute *attrs;
	unsigned numAttrs;
};

/* A stream is its number. */
cudaError_t cudaLaunchKernelExC(const struct cudaLaunchConfig_t *config, const void *kernel,
				void **arguments);

static inline cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}
static inline cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *)
{
	return cudaSuccess;
}
static inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *ret_blocks,
									const void *, int, size_t)
{
	*ret_blocks = 1;
	return cudaSuccess;
}

#endif /* BELAY_TESTS_CUDA_RUNTIME_H */
