/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one algorithm. Two-shot with a pull reduce-scatter, any type. See
 * kernels/pull.cuh. */
#include "kernels/call_table.cuh"
#include "kernels/pull.cuh"

/* N is 0: known when run. */
template <int DTYPE, int N>
__global__ void __launch_bounds__(CALL_THREADS_MAX, 1)
	two_shot_pull(const __grid_constant__ struct symm_call call)
{
	call_run<pull<DTYPE, 4, !wire_carries<DTYPE>::YES>, dirty_turn<DTYPE>>(call);
}

static const struct symm_kernel kernels[] =
	CALL_TABLE(two_shot_pull, CALL_KERNELS_ANY, CALL_KERNELS_ANY);

size_t two_shot_pull_kernels(const struct symm_kernel **ret_kernels)
{
	*ret_kernels = kernels;
	return sizeof(kernels) / sizeof(kernels[0]);
}
