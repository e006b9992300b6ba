/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts and streams over the CUDA driver; see gpu.h. Memory: gpu_memory.c. */
#include "config.h"

#include "runtime/cuda/gpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda/gpu_driver.h"

#define DEVICES_MAX	  64
#define POLL_PAUSE_MIN_NS 2000
#define POLL_PAUSE_MAX_NS 200000

/* ---- finding --------------------------------------------------------------------------------- */

bool gpu_find(int *ret_devices, const char **ret_why)
{
	const struct gpu_driver *cu = gpu_driver(ret_why);
	int devices = 0;

	if (!cu)
		return false;
	if (cu->cuDeviceGetCount(&devices) != CUDA_SUCCESS || devices < 1) {
		*ret_why = "no CUDA device";
		return false;
	}
	*ret_devices = devices;
	return true;
}

/*
 * Asked by every creation, on machines without a GPU and in processes that will fork too. So it
 * neither loads nor initialises the driver: where nobody has loaded it, nobody has a context. That
 * is why it looks into the loaded library itself instead of asking gpu_driver().
 */
int gpu_current(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
	PFN_cuCtxGetCurrent_v4000 get_current = NULL;
	PFN_cuCtxGetDevice_v2000 get_device = NULL;
	CUcontext context = NULL;
	CUdevice device = -1;
	void *symbol[2];

	if (!library)
		return -1;
	symbol[0] = dlsym(library, "cuCtxGetCurrent");
	symbol[1] = dlsym(library, "cuCtxGetDevice");
	memcpy(&get_current, &symbol[0], sizeof(get_current));
	memcpy(&get_device, &symbol[1], sizeof(get_device));
	if (!get_current || !get_device || get_current(&context) != CUDA_SUCCESS || !context ||
	    get_device(&device) != CUDA_SUCCESS)
		device = -1;
	(void)dlclose(library); /* only a count: somebody else has it open */
	return (int)device;
}

/* An attribute, or `otherwise` where the driver does not know it. */
static int attribute(const struct gpu_driver *cu, CUdevice device, CUdevice_attribute which,
		     int otherwise)
{
	int value;

	return cu->cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
}

/* What the kernel says of a PCI device; -1: nothing. */
static int numa_node_of_pci(const struct gpu_facts *facts)
{
	char path[80], text[16] = "";
	FILE *file;
	long node = -1;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node",
		 facts->pci_domain, facts->pci_bus, facts->pci_device);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fgets(text, sizeof(text), file))
		node = strtol(text, NULL, 10);
	fclose(file); /* only read: nothing can be lost */
	return node >= 0 && node <= INT_MAX ? (int)node : -1;
}

/* Older drivers do not say. */
static int numa_node(const struct gpu_driver *cu, CUdevice device, const struct gpu_facts *facts)
{
	int node = -1;

#if CUDA_VERSION >= 12020
	node = attribute(cu, device, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
#else
	(void)cu;
	(void)device;
#endif
	return node >= 0 ? node : numa_node_of_pci(facts);
}

static CUmemAllocationProp region_properties(int ordinal)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
	};
}

static void memory_facts(const struct gpu_driver *cu, CUdevice device, struct gpu_facts *facts)
{
	CUmemAllocationProp properties = region_properties(facts->ordinal);
	size_t granularity = 0;

	facts->vmm_posix_fd =
		attribute(cu, device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0) &&
		attribute(cu, device,
			  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0) &&
		cu->cuMemGetAllocationGranularity(&granularity, &properties,
						  CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS;
	facts->vmm_granularity = facts->vmm_posix_fd ? granularity : 0;
}

static void place_facts(const struct gpu_driver *cu, CUdevice device, struct gpu_facts *facts)
{
	facts->pci_domain = (uint32_t)attribute(cu, device, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, 0);
	facts->pci_bus = (uint32_t)attribute(cu, device, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0);
	facts->pci_device = (uint32_t)attribute(cu, device, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0);
	facts->numa_node = numa_node(cu, device, facts);
}

int gpu_facts(int ordinal, struct gpu_facts *ret_facts, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	struct gpu_facts facts = {.ordinal = ordinal, .runtime_version = CUDA_VERSION};
	CUdevice device;
	CUuuid uuid;

	if (!cu || gpu_driver_check("cuDeviceGet", cu->cuDeviceGet(&device, ordinal), ret_error) ||
	    gpu_driver_check("cuDeviceGetName",
			     cu->cuDeviceGetName(facts.name, (int)sizeof(facts.name), device),
			     ret_error) ||
	    gpu_driver_check("cuDeviceGetUuid", cu->cuDeviceGetUuid(&uuid, device), ret_error) ||
	    gpu_driver_check("cuDriverGetVersion", cu->cuDriverGetVersion(&facts.driver_version),
			     ret_error))
		return -1;
	facts.name[sizeof(facts.name) - 1] = '\0';
	memcpy(facts.uuid, uuid.bytes, sizeof(facts.uuid));
	facts.multiprocessors = attribute(cu, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1);
	facts.compute_major =
		attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
	facts.compute_minor =
		attribute(cu, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
	place_facts(cu, device, &facts);
	memory_facts(cu, device, &facts);
	*ret_facts = facts;
	return 0;
}

/* A link's attribute; false where the driver does not know. */
static bool link_has(const struct gpu_driver *cu, CUdevice from, CUdevice to,
		     CUdevice_P2PAttribute which)
{
	int value = 0;

	return cu->cuDeviceGetP2PAttribute(&value, which, from, to) == CUDA_SUCCESS && value != 0;
}

int gpu_peer_facts(int ordinal, int peer_ordinal, bool *ret_access, bool *ret_native,
		   bool *ret_nvlink)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUdevice device, peer;
	int access = 0;

	if (!cu || cu->cuDeviceGet(&device, ordinal) != CUDA_SUCCESS ||
	    cu->cuDeviceGet(&peer, peer_ordinal) != CUDA_SUCCESS)
		return -1;
	if (ordinal == peer_ordinal) {
		*ret_access = *ret_native = true;
		*ret_nvlink = false;
		return 0;
	}
	if (cu->cuDeviceCanAccessPeer(&access, device, peer) != CUDA_SUCCESS)
		return -1;
	*ret_access = access != 0;
	*ret_native = access &&
		      link_has(cu, device, peer, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED);
	/* The driver does not name the link; but PCIe has no atomics, and NVLink has. */
	*ret_nvlink = *ret_native;
	return 0;
}

int gpu_ordinal_of(const uint8_t uuid[16])
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	int devices = 0;

	if (!cu || cu->cuDeviceGetCount(&devices) != CUDA_SUCCESS)
		return -1;
	for (int ordinal = 0; ordinal < devices; ordinal++) {
		CUdevice device;
		CUuuid here;

		if (cu->cuDeviceGet(&device, ordinal) == CUDA_SUCCESS &&
		    cu->cuDeviceGetUuid(&here, device) == CUDA_SUCCESS &&
		    memcmp(here.bytes, uuid, sizeof(here.bytes)) == 0)
			return ordinal;
	}
	return -1;
}

/* ---- contexts -------------------------------------------------------------------------------- */

/* A device's primary context. Taken once for the life of the process: the application's own
 * memory and streams live in it, so belay never lets go of it. */
static int primary_context(const struct gpu_driver *cu, int ordinal, CUcontext *ret_context,
			   struct gpu_error *ret_error)
{
	static _Atomic(CUcontext) known[DEVICES_MAX];
	CUcontext context = NULL;
	CUdevice device;

	if (ordinal < 0 || ordinal >= DEVICES_MAX)
		return gpu_driver_fail("cuDeviceGet", CUDA_ERROR_INVALID_DEVICE, ret_error);
	/* Relaxed: the handle says nothing about other memory; the driver has its own locks. Two
	 * threads that race retain it twice, which does no harm. */
	context = atomic_load_explicit(&known[ordinal], memory_order_relaxed);
	if (!context) {
		if (gpu_driver_check("cuDeviceGet", cu->cuDeviceGet(&device, ordinal), ret_error) ||
		    gpu_driver_check("cuDevicePrimaryCtxRetain",
				     cu->cuDevicePrimaryCtxRetain(&context, device), ret_error))
			return -1;
		atomic_store_explicit(&known[ordinal], context, memory_order_relaxed);
	}
	*ret_context = context;
	return 0;
}

/* *ret_before is 1 when a context was pushed on top of the thread's own. */
int gpu_use(int ordinal, int *ret_before, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	CUcontext wanted = NULL, current = NULL;

	if (!cu || primary_context(cu, ordinal, &wanted, ret_error) ||
	    gpu_driver_check("cuCtxGetCurrent", cu->cuCtxGetCurrent(&current), ret_error))
		return -1;
	if (current != wanted &&
	    gpu_driver_check("cuCtxPushCurrent", cu->cuCtxPushCurrent(wanted), ret_error))
		return -1;
	*ret_before = current != wanted;
	return 0;
}

void gpu_restore(int before)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUcontext ours;

	if (cu && before)
		(void)cu->cuCtxPopCurrent(&ours); /* fails only when nothing is there to pop */
}

/* ---- streams --------------------------------------------------------------------------------- */

int gpu_stream_create(struct CUstream_st **ret_stream, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	int least = 0, greatest = 0;

	if (!cu || gpu_driver_check("cuCtxGetStreamPriorityRange",
				    cu->cuCtxGetStreamPriorityRange(&least, &greatest), ret_error))
		return -1;
	return gpu_driver_check(
		"cuStreamCreateWithPriority",
		cu->cuStreamCreateWithPriority(ret_stream, CU_STREAM_NON_BLOCKING, greatest),
		ret_error);
}

void gpu_stream_free(struct CUstream_st *stream)
{
	const struct gpu_driver *cu = gpu_driver(NULL);

	if (cu && stream)
		/* Returns at once; the driver frees it when its work has ended. */
		(void)cu->cuStreamDestroy(stream);
}

/* A query that fails is a stream that belay must not touch: the legacy stream while another stream
 * of the context captures (CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; the query itself breaks nothing). */
enum gpu_capture gpu_stream_capture(struct CUstream_st *stream, uint64_t *ret_id)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id = 0;

	if (!cu ||
	    cu->cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL) != CUDA_SUCCESS)
		return GPU_CAPTURE_BROKEN;
	if (status == CU_STREAM_CAPTURE_STATUS_NONE)
		return GPU_NOT_CAPTURING;
	if (status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return GPU_CAPTURE_BROKEN;
	*ret_id = id;
	return GPU_CAPTURING;
}

/* The node; asked for by itself, since what may be refused here is no broken capture. */
const void *gpu_capture_tail(struct CUstream_st *stream)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	const CUgraphNode *nodes = NULL;
	cuuint64_t id = 0;
	size_t n = 0;

	if (!cu ||
	    cu->cuStreamGetCaptureInfo(stream, &status, &id, NULL, &nodes, &n) != CUDA_SUCCESS)
		return NULL;
	return status == CU_STREAM_CAPTURE_STATUS_ACTIVE && n == 1 ? (const void *)nodes[0] : NULL;
}

int gpu_capture_after(struct CUstream_st *stream, const void *tail)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUgraphNode node = (CUgraphNode)(uintptr_t)tail;

	if (!cu || cu->cuStreamUpdateCaptureDependencies(stream, &node, 1,
							 CU_STREAM_ADD_CAPTURE_DEPENDENCIES))
		return -1;
	return 0;
}

int gpu_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);

	if (!cu)
		return -1;
	return gpu_driver_check("cuMemcpyAsync",
				cu->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
						  (CUdeviceptr)(uintptr_t)from, bytes, stream),
				ret_error);
}

int gpu_fill(void *memory, int byte, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);

	if (!cu)
		return -1;
	return gpu_driver_check("cuMemsetD8Async",
				cu->cuMemsetD8Async((CUdeviceptr)(uintptr_t)memory,
						    (unsigned char)byte, bytes, stream),
				ret_error);
}

int gpu_stream_done(struct CUstream_st *stream, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	CUresult code;

	if (!cu)
		return -1;
	code = cu->cuStreamQuery(stream);
	if (code == CUDA_ERROR_NOT_READY)
		return 0;
	return gpu_driver_check("cuStreamQuery", code, ret_error) ? -1 : 1;
}

int gpu_stream_wait(struct CUstream_st *stream, uint64_t deadline_ns, struct gpu_error *ret_error)
{
	struct timespec pause = {.tv_nsec = POLL_PAUSE_MIN_NS};
	int done;

	while ((done = gpu_stream_done(stream, ret_error)) == 0 && clock_now_ns() < deadline_ns) {
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		if (pause.tv_nsec < POLL_PAUSE_MAX_NS)
			pause.tv_nsec *= 2;
	}
	return done;
}

int gpu_capture_relax(void)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (!cu || cu->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
		return -1;
	return (int)mode;
}

void gpu_capture_restore(int before)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUstreamCaptureMode mode = (CUstreamCaptureMode)before;

	if (cu && before >= 0)
		(void)cu->cuThreadExchangeStreamCaptureMode(&mode); /* as gpu_capture_relax() did */
}

void gpu_thread_is_background(void)
{
	(void)gpu_capture_relax(); /* for the thread's life */
}
