/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels in what every CPU of the architecture has: SSE2, NEON, or what the compiler makes of 16-byte vectors. */
#define HOST_SUM_WIDTH 16
#define HOST_SUM_TARGET
#ifdef __ARM_NEON
#define HOST_SUM_NAME "neon"
#else
#define HOST_SUM_NAME "baseline"
#endif

#include "kernels/host_sum_vectors.h"

const struct host_sum_kernels *host_sum_baseline_kernels(void)
{
	return &kernels;
}
