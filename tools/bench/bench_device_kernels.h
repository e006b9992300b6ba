/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of belay-bench's own kernels; each returns a CUDA error code (cudaError_t). */
#ifndef BELAY_TOOLS_BENCH_DEVICE_KERNELS_H
#define BELAY_TOOLS_BENCH_DEVICE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* Loads all of them into the current context. */
int bench_kernels_load(void);
int bench_launch_compare(const void *is, const void *should, size_t bytes, uint64_t *wrong,
			 struct CUstream_st *stream);
int bench_launch_delay(uint64_t ns, struct CUstream_st *stream);
int bench_launch_empty(struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif /* BELAY_TOOLS_BENCH_DEVICE_KERNELS_H */
