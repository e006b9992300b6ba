/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the driver's functions, once for the process, and puts its errors into words. */
#include "config.h"

#include "runtime/cuda/gpu_driver.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#if CUDART_VERSION < 12050
#error "the CUDA toolkit must be 12.5 or newer: cudaGetDriverEntryPointByVersion()"
#endif

static pthread_once_t loaded_once = PTHREAD_ONCE_INIT;
static struct gpu_driver driver;
static bool loaded;
static char reason[sizeof(((struct gpu_error *)0)->text)]; /* written once, before `loaded_once` is over */

/* Finds one function; the runtime loads the driver's library for it. */
static int find_function(const char *name, void *ret_function)
{
	enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
	void *function = NULL;
	cudaError_t error = cudaGetDriverEntryPointByVersion(name, &function, GPU_DRIVER_ABI,
							     cudaEnableLegacyStream, &found);

	if (error != cudaSuccess) {
		snprintf(reason, sizeof(reason), "cudaGetDriverEntryPointByVersion: %s (%d)",
			 cudaGetErrorString(error), (int)error);
		return -1;
	}
	if (found != cudaDriverEntryPointSuccess || !function) {
		snprintf(reason, sizeof(reason),
			 "the CUDA driver is older than CUDA %d.%d: it has no %s",
			 GPU_DRIVER_ABI / 1000, GPU_DRIVER_ABI % 1000 / 10, name);
		return -1;
	}
	memcpy(ret_function, &function, sizeof(function));
	return 0;
}

static int find_functions(void)
{
#define GPU_DRIVER(name, version)                                                                  \
	if (find_function(#name, &driver.name))                                                    \
		return -1;
	GPU_DRIVER_FUNCTIONS(GPU_DRIVER)
#undef GPU_DRIVER
	return 0;
}

static int count_devices(void)
{
	const char *call = "cuInit", *text = NULL;
	int devices = 0;
	CUresult code = driver.cuInit(0);

	if (code == CUDA_SUCCESS) {
		call = "cuDeviceGetCount";
		code = driver.cuDeviceGetCount(&devices);
	}
	if (code == CUDA_SUCCESS && devices > 0)
		return 0;
	if (code == CUDA_SUCCESS || code == CUDA_ERROR_NO_DEVICE) {
		snprintf(reason, sizeof(reason), "no CUDA device");
		return -1;
	}
	if (driver.cuGetErrorString(code, &text) != CUDA_SUCCESS)
		text = "unknown error";
	snprintf(reason, sizeof(reason), "%s: %s (%d)", call, text, (int)code);
	return -1;
}

static void load(void)
{
	/* Asked first because of the answer: the runtime calls a missing driver an old one. Kept
	 * open: where there is one, it stays for the life of the process in any case. */
	if (!dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
		snprintf(reason, sizeof(reason), "no CUDA driver: libcuda.so.1 cannot be loaded");
		return;
	}
	loaded = find_functions() == 0 && count_devices() == 0;
}

const struct gpu_driver *gpu_driver(const char **ret_why)
{
	/* Cannot fail: neither argument is wrong. */
	(void)pthread_once(&loaded_once, load);
	if (!loaded && ret_why)
		*ret_why = reason;
	return loaded ? &driver : NULL;
}

/* Codes after which nothing on the context works again. The runtime's codes are the same numbers.
 */
static bool is_sticky(int code)
{
	switch (code) {
	case CUDA_ERROR_ECC_UNCORRECTABLE:
	case CUDA_ERROR_NVLINK_UNCORRECTABLE:
	case CUDA_ERROR_ILLEGAL_ADDRESS:
	case CUDA_ERROR_LAUNCH_TIMEOUT:
	case CUDA_ERROR_CONTEXT_IS_DESTROYED:
	case CUDA_ERROR_ASSERT:
	case CUDA_ERROR_HARDWARE_STACK_ERROR:
	case CUDA_ERROR_ILLEGAL_INSTRUCTION:
	case CUDA_ERROR_MISALIGNED_ADDRESS:
	case CUDA_ERROR_INVALID_ADDRESS_SPACE:
	case CUDA_ERROR_INVALID_PC:
	case CUDA_ERROR_LAUNCH_FAILED:
	case CUDA_ERROR_MPS_CLIENT_TERMINATED:
	case CUDA_ERROR_EXTERNAL_DEVICE:
	case CUDA_ERROR_DEINITIALIZED:
		return true;
	default:
		return false;
	}
}

static void fill(const char *call, int code, const char *text, struct gpu_error *ret_error)
{
	if (!ret_error)
		return;
	ret_error->call = call;
	ret_error->code = code;
	ret_error->sticky = is_sticky(code);
	snprintf(ret_error->text, sizeof(ret_error->text), "%s", text);
}

int gpu_driver_fail(const char *call, CUresult code, struct gpu_error *ret_error)
{
	const char *text = NULL;

	if (driver.cuGetErrorString(code, &text) != CUDA_SUCCESS || !text)
		text = "unknown error";
	fill(call, (int)code, text, ret_error);
	return -1;
}

const struct gpu_driver *gpu_driver_need(struct gpu_error *ret_error)
{
	const char *why = NULL;
	const struct gpu_driver *found = gpu_driver(&why);

	if (!found)
		fill("cuInit", CUDA_ERROR_NOT_INITIALIZED, why, ret_error);
	return found;
}

void gpu_launch_error(int code, const char *what, struct gpu_error *ret_error)
{
	fill(what, code, cudaGetErrorString((cudaError_t)code), ret_error);
}
