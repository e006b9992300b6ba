/* SPDX-License-Identifier: Apache-2.0 */
/* kernels/symm_call.cu for the played GPU, and what it asks of CUDA. */
#include "tests/kernels/played_device.h"

/* Compiled in place. */
#include "kernels/symm_call.cu"

/* The shared memory of the block that runs. */
struct block_words block;

static void call_kernel(const void *function, const void *parameter)
{
	((void (*)(struct symm_call))function)(*(const struct symm_call *)parameter);
}

cudaError_t cudaLaunchKernelExC(const struct cudaLaunchConfig_t *config, const void *kernel,
				void **arguments)
{
	struct played_kernel played = {};

	played_shared(&block, sizeof(block));
	played.function = kernel;
	played.call = call_kernel;
	played.parameter = arguments[0];
	played.parameter_bytes = sizeof(struct symm_call);
	played.blocks = config->gridDim.x;
	played.threads = config->blockDim.x;
	played_launch((uint32_t)(uintptr_t)config->stream, played);
	return cudaSuccess;
}

/* The kernels that are not calls are not played. */
size_t symm_service_kernels(const struct symm_kernel **)
{
	return 0;
}
size_t symm_gate_kernels(const struct symm_kernel **)
{
	return 0;
}
size_t symm_reduce_kernels(const struct symm_kernel **)
{
	return 0;
}
