/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one algorithm. Packets, any type. See kernels/one_shot.cuh. */
#include "kernels/call_table.cuh"
#include "kernels/one_shot.cuh"

template <int DTYPE, int N>
__global__ void __launch_bounds__(CALL_THREADS_MAX, 1)
	one_shot_packets(const __grid_constant__ struct symm_call call)
{
	call_run<one_shot<DTYPE, N, form_packets>, dirty_turn<DTYPE>>(call);
}

static const struct symm_kernel kernels[] =
	CALL_TABLE(one_shot_packets, CALL_KERNELS_248, CALL_KERNELS_ANY);

size_t one_shot_packets_kernels(const struct symm_kernel **ret_kernels)
{
	*ret_kernels = kernels;
	return sizeof(kernels) / sizeof(kernels[0]);
}
