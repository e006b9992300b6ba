/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in what every CPU of the architecture has: SSE2, NEON, or what the compiler makes of
 * 16-byte vectors. */
#define HOST_SUM_WIDTH 16
#define HOST_SUM_TARGET
#ifdef __ARM_NEON
#define HOST_SUM_NAME "neon"
#else
#define HOST_SUM_NAME "baseline"
#endif

#include "kernels/host_sum_vectors.h"

#ifdef __SSE2__
#include <xmmintrin.h>

STEP int any_nan(v_f32 a, v_f32 b)
{
	return _mm_movemask_ps(_mm_cmpunord_ps((__m128)a, (__m128)b)) != 0;
}
#else
STEP int any_nan(v_f32 a, v_f32 b)
{
	v_u64 numbers = (v_u64)((v_i32)(a == a) & (v_i32)(b == b));

	return (numbers[0] & numbers[1]) != UINT64_MAX;
}
#endif

const struct host_sum_kernels *host_sum_baseline_kernels(void)
{
	return &kernels;
}
