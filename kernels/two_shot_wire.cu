/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one algorithm. Two-shot on the full wire. See kernels/two_shot.cuh. */
#include "kernels/call_table.cuh"
#include "kernels/two_shot.cuh"

template <int DTYPE, int N>
__global__ void __launch_bounds__(CALL_THREADS_MAX, 1)
	two_shot_wire(const __grid_constant__ struct symm_call call)
{
	call_run<two_shot<DTYPE, N>, dirty_turn<DTYPE>>(call);
}

static const struct symm_kernel kernels[] =
	CALL_TABLE(two_shot_wire, CALL_KERNELS_248, CALL_KERNELS_NONE);

size_t two_shot_wire_kernels(const struct symm_kernel **ret_kernels)
{
	*ret_kernels = kernels;
	return sizeof(kernels) / sizeof(kernels[0]);
}
