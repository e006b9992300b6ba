/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver's functions that belay calls, found at run time through the CUDA runtime that is
 * linked in statically: nothing needs libcuda to load libbelay.
 *
 * Why the driver and not the runtime: a failed runtime call leaves its code behind for the thread's
 * next cudaGetLastError(); a failed driver call leaves nothing. (What the statically linked runtime
 * keeps is belay's own copy besides: an application's runtime is another one.) So belay neither
 * shows its errors to the application nor takes the application's away.
 */
#ifndef BELAY_RUNTIME_CUDA_GPU_DRIVER_H
#define BELAY_RUNTIME_CUDA_GPU_DRIVER_H

#include <cuda.h>
#include <cudaTypedefs.h>

#include "runtime/cuda/gpu.h"

/* The driver's interface that the types below are of, as CUDA versions count. */
#define GPU_DRIVER_ABI 12000

/* clang-format off: a table */
/* GPU_DRIVER(name, version of the newest type up to GPU_DRIVER_ABI) */
#define GPU_DRIVER_FUNCTIONS(GPU_DRIVER)                                                           \
	GPU_DRIVER(cuInit, 2000)                                                                   \
	GPU_DRIVER(cuGetErrorString, 6000)                                                         \
	GPU_DRIVER(cuDriverGetVersion, 2020)                                                       \
	GPU_DRIVER(cuDeviceGetCount, 2000)                                                         \
	GPU_DRIVER(cuDeviceGet, 2000)                                                              \
	GPU_DRIVER(cuDeviceGetName, 2000)                                                          \
	GPU_DRIVER(cuDeviceGetUuid, 11040)                                                         \
	GPU_DRIVER(cuDeviceGetAttribute, 2000)                                                     \
	GPU_DRIVER(cuDeviceCanAccessPeer, 4000)                                                    \
	GPU_DRIVER(cuDeviceGetP2PAttribute, 8000)                                                  \
	GPU_DRIVER(cuDevicePrimaryCtxRetain, 7000)                                                 \
	GPU_DRIVER(cuCtxGetCurrent, 4000)                                                          \
	GPU_DRIVER(cuCtxPushCurrent, 4000)                                                         \
	GPU_DRIVER(cuCtxPopCurrent, 4000)                                                          \
	GPU_DRIVER(cuCtxGetStreamPriorityRange, 5050)                                              \
	GPU_DRIVER(cuMemGetAllocationGranularity, 10020)                                           \
	GPU_DRIVER(cuMemCreate, 10020)                                                             \
	GPU_DRIVER(cuMemRelease, 10020)                                                            \
	GPU_DRIVER(cuMemExportToShareableHandle, 10020)                                            \
	GPU_DRIVER(cuMemImportFromShareableHandle, 10020)                                          \
	GPU_DRIVER(cuMemAddressReserve, 10020)                                                     \
	GPU_DRIVER(cuMemAddressFree, 10020)                                                        \
	GPU_DRIVER(cuMemMap, 10020)                                                                \
	GPU_DRIVER(cuMemUnmap, 10020)                                                              \
	GPU_DRIVER(cuMemSetAccess, 10020)                                                          \
	GPU_DRIVER(cuMemHostRegister, 6050)                                                        \
	GPU_DRIVER(cuMemHostUnregister, 4000)                                                      \
	GPU_DRIVER(cuMemHostGetDevicePointer, 3020)                                                \
	GPU_DRIVER(cuMemHostAlloc, 2020)                                                           \
	GPU_DRIVER(cuMemFreeHost, 2000)                                                            \
	GPU_DRIVER(cuPointerGetAttributes, 7000)                                                   \
	GPU_DRIVER(cuStreamCreateWithPriority, 5050)                                               \
	GPU_DRIVER(cuStreamDestroy, 4000)                                                          \
	GPU_DRIVER(cuStreamGetCaptureInfo, 11030)                                                  \
	GPU_DRIVER(cuStreamUpdateCaptureDependencies, 11030)                                       \
	GPU_DRIVER(cuStreamQuery, 2000)                                                            \
	GPU_DRIVER(cuMemcpyAsync, 4000)                                                            \
	GPU_DRIVER(cuMemsetD8Async, 3020)                                                          \
	GPU_DRIVER(cuThreadExchangeStreamCaptureMode, 10010)
/* clang-format on */

struct gpu_driver {
#define GPU_DRIVER(name, version) PFN_##name##_v##version name;
	GPU_DRIVER_FUNCTIONS(GPU_DRIVER)
#undef GPU_DRIVER
};

/* The functions; NULL where there is no driver or no device, *ret_why (may be NULL) then says
 * which. The first call initialises the driver, never a context. Any thread. */
const struct gpu_driver *gpu_driver(const char **ret_why);

/* Fills ret_error; always -1. */
int gpu_driver_fail(const char *call, CUresult code, struct gpu_error *ret_error);

/* 0 for CUDA_SUCCESS, else gpu_driver_fail(). */
static inline int gpu_driver_check(const char *call, CUresult code, struct gpu_error *ret_error)
{
	return code == CUDA_SUCCESS ? 0 : gpu_driver_fail(call, code, ret_error);
}

/* gpu_driver() with the reason as an error. */
const struct gpu_driver *gpu_driver_need(struct gpu_error *ret_error);

#endif /* BELAY_RUNTIME_CUDA_GPU_DRIVER_H */
