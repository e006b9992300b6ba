/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one algorithm. Islands, on the full wire. See kernels/island.cuh. */
#include "kernels/call_table.cuh"
#include "kernels/island.cuh"

/* N is 0: known when run. */
template <int DTYPE, int N>
__global__ void __launch_bounds__(CALL_THREADS_MAX, 1)
	island(const __grid_constant__ struct symm_call call)
{
	call_run<island_call<DTYPE>, dirty_turn<DTYPE>>(call);
}

static const struct symm_kernel kernels[] = CALL_TABLE(island, CALL_KERNELS_ANY, CALL_KERNELS_NONE);

size_t island_kernels(const struct symm_kernel **ret_kernels)
{
	*ret_kernels = kernels;
	return sizeof(kernels) / sizeof(kernels[0]);
}
