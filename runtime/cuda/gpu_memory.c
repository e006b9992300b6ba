/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory, regions and host memory over the CUDA driver; see gpu.h.
 *
 * All device memory is physical memory mapped by belay itself (VMM). cuMemAlloc() and cuMemFree()
 * may wait for everything that runs on the device, another communicator's waiting kernel too;
 * these calls do not. A region and plain memory differ only in that the one can be exported.
 */
#include "config.h"

#include "runtime/cuda/gpu.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/cuda/gpu_driver.h"

/* For filling new memory; far more than it takes. */
#define FILL_WAIT_NS (30 * NS_PER_SECOND)

struct gpu_region {
	CUmemGenericAllocationHandle handle;
};

static CUdeviceptr address(const void *memory)
{
	return (CUdeviceptr)(uintptr_t)memory;
}

/* ---- regions --------------------------------------------------------------------------------- */

static void release_handle(const struct gpu_driver *cu, struct gpu_region *region)
{
	if (region)
		/* A mapping keeps the memory until it is unmapped. */
		(void)cu->cuMemRelease(region->handle);
	free(region);
}

static int out_of_memory(struct gpu_error *ret_error)
{
	return gpu_driver_fail("malloc", CUDA_ERROR_OUT_OF_MEMORY, ret_error);
}

static int create(const struct gpu_driver *cu, int ordinal, size_t bytes, bool exported,
		  struct gpu_region **ret_region, struct gpu_error *ret_error)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = exported ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
						 : CU_MEM_HANDLE_TYPE_NONE,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
	};
	struct gpu_region *region = malloc(sizeof(*region));

	if (!region)
		return out_of_memory(ret_error);
	if (gpu_driver_check("cuMemCreate", cu->cuMemCreate(&region->handle, bytes, &properties, 0),
			     ret_error)) {
		free(region);
		return -1;
	}
	*ret_region = region;
	return 0;
}

int gpu_region_create(int ordinal, size_t bytes, struct gpu_region **ret_region, int *ret_fd,
		      struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	struct gpu_region *region = NULL;
	int fd = -1;

	if (!cu || create(cu, ordinal, bytes, true, &region, ret_error))
		return -1;
	if (gpu_driver_check(
		    "cuMemExportToShareableHandle",
		    cu->cuMemExportToShareableHandle(&fd, region->handle,
						     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		    ret_error)) {
		release_handle(cu, region);
		return -1;
	}
	/* Best effort: the driver makes descriptors that a child process would inherit. */
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	*ret_region = region;
	*ret_fd = fd;
	return 0;
}

int gpu_region_import(int fd, size_t bytes, struct gpu_region **ret_region,
		      struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	struct gpu_region *region;

	(void)bytes; /* cuMemMap() refuses what is smaller */
	if (!cu)
		return -1;
	region = malloc(sizeof(*region));
	if (!region)
		return out_of_memory(ret_error);
	if (gpu_driver_check("cuMemImportFromShareableHandle",
			     cu->cuMemImportFromShareableHandle(
				     &region->handle, (void *)(uintptr_t)(unsigned)fd,
				     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
			     ret_error)) {
		free(region);
		return -1;
	}
	*ret_region = region;
	return 0;
}

int gpu_space_reserve(size_t bytes, void **ret_space, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	CUdeviceptr space = 0;

	if (!cu || gpu_driver_check("cuMemAddressReserve",
				    cu->cuMemAddressReserve(&space, bytes, 0, 0, 0), ret_error))
		return -1;
	*ret_space = (void *)(uintptr_t)space;
	return 0;
}

int gpu_region_map(struct gpu_region *region, void *place, size_t bytes, int ordinal,
		   struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};

	if (!cu ||
	    gpu_driver_check("cuMemMap", cu->cuMemMap(address(place), bytes, 0, region->handle, 0),
			     ret_error))
		return -1;
	if (gpu_driver_check("cuMemSetAccess",
			     cu->cuMemSetAccess(address(place), bytes, &access, 1), ret_error)) {
		gpu_region_unmap(place, bytes);
		return -1;
	}
	return 0;
}

void gpu_region_unmap(void *place, size_t bytes)
{
	const struct gpu_driver *cu = gpu_driver(NULL);

	if (cu)
		/* Fails on a lost context only; then the process's end does it. */
		(void)cu->cuMemUnmap(address(place), bytes);
}

void gpu_region_free(struct gpu_region *region)
{
	const struct gpu_driver *cu = gpu_driver(NULL);

	if (cu)
		release_handle(cu, region);
}

void gpu_space_free(void *space, size_t bytes)
{
	const struct gpu_driver *cu = gpu_driver(NULL);

	if (cu && space)
		(void)cu->cuMemAddressFree(address(space), bytes); /* as gpu_region_unmap() */
}

/* ---- plain device memory --------------------------------------------------------------------- */

/* What gpu_alloc() gave out, for gpu_free() to know its size. */
struct block {
	void *memory;
	size_t bytes;
	struct block *next;
};

static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks; /* under blocks_lock */

static void remember(struct block *block)
{
	pthread_mutex_lock(&blocks_lock);
	block->next = blocks;
	blocks = block;
	pthread_mutex_unlock(&blocks_lock);
}

static struct block *forget(const void *memory)
{
	struct block **link = &blocks, *found;

	pthread_mutex_lock(&blocks_lock);
	while (*link && (*link)->memory != memory)
		link = &(*link)->next;
	found = *link;
	if (found)
		*link = found->next;
	pthread_mutex_unlock(&blocks_lock);
	return found;
}

/* On a stream of its own: the legacy stream would wait for the application's work, and break a
 * capture of it. */
static int fill_zero(void *memory, size_t bytes, struct gpu_error *ret_error)
{
	struct CUstream_st *stream = NULL;
	int status = gpu_stream_create(&stream, ret_error);

	if (status == 0)
		status = gpu_fill(memory, 0, bytes, stream, ret_error);
	if (status == 0) {
		int done = gpu_stream_wait(stream, clock_now_ns() + FILL_WAIT_NS, ret_error);

		if (done == 0)
			(void)gpu_driver_fail("cuMemsetD8Async", CUDA_ERROR_LAUNCH_TIMEOUT,
					      ret_error);
		status = done == 1 ? 0 : -1;
	}
	gpu_stream_free(stream);
	return status;
}

static int map_new(struct block *block, int ordinal, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	struct gpu_region *region = NULL;
	int status = gpu_space_reserve(block->bytes, &block->memory, ret_error);

	if (status)
		return status;
	status = create(cu, ordinal, block->bytes, false, &region, ret_error);
	if (status == 0)
		status = gpu_region_map(region, block->memory, block->bytes, ordinal, ret_error);
	if (region)
		release_handle(cu, region); /* the mapping keeps the memory */
	if (status)
		gpu_space_free(block->memory, block->bytes);
	return status;
}

static void unmap_block(struct block *block)
{
	gpu_region_unmap(block->memory, block->bytes);
	gpu_space_free(block->memory, block->bytes);
}

/* The device that is current, and `bytes` in whole pages of it. */
static int plan_block(const struct gpu_driver *cu, struct block *block, int *ret_ordinal,
		      struct gpu_error *ret_error)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	size_t page = 0;

	properties.location.id = gpu_current();
	if (gpu_driver_check("cuMemGetAllocationGranularity",
			     cu->cuMemGetAllocationGranularity(&page, &properties,
							       CU_MEM_ALLOC_GRANULARITY_MINIMUM),
			     ret_error))
		return -1;
	block->bytes = (block->bytes + page - 1) / page * page;
	*ret_ordinal = properties.location.id;
	return 0;
}

int gpu_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	struct block *block;
	int ordinal = -1;

	if (!cu)
		return -1;
	block = malloc(sizeof(*block));
	if (!block)
		return out_of_memory(ret_error);
	*block = (struct block){.bytes = bytes ? bytes : 1};
	if (plan_block(cu, block, &ordinal, ret_error) || map_new(block, ordinal, ret_error)) {
		free(block);
		return -1;
	}
	if (fill_zero(block->memory, block->bytes, ret_error)) {
		unmap_block(block);
		free(block);
		return -1;
	}
	remember(block);
	*ret_memory = block->memory;
	return 0;
}

void gpu_free(void *memory)
{
	struct block *block = memory ? forget(memory) : NULL;

	if (block)
		unmap_block(block);
	free(block);
}

/* ---- host memory ----------------------------------------------------------------------------- */

int gpu_host_register(void *memory, size_t bytes, void **ret_device, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);
	CUdeviceptr device = 0;

	if (!cu || gpu_driver_check("cuMemHostRegister",
				    cu->cuMemHostRegister(memory, bytes,
							  CU_MEMHOSTREGISTER_PORTABLE |
								  CU_MEMHOSTREGISTER_DEVICEMAP),
				    ret_error))
		return -1;
	if (gpu_driver_check("cuMemHostGetDevicePointer",
			     cu->cuMemHostGetDevicePointer(&device, memory, 0), ret_error)) {
		gpu_host_unregister(memory);
		return -1;
	}
	*ret_device = (void *)(uintptr_t)device;
	return 0;
}

void gpu_host_unregister(void *memory)
{
	const struct gpu_driver *cu = gpu_driver(NULL);

	if (cu && memory)
		(void)cu->cuMemHostUnregister(memory); /* as gpu_region_unmap() */
}

int gpu_host_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error)
{
	const struct gpu_driver *cu = gpu_driver_need(ret_error);

	if (!cu)
		return -1;
	return gpu_driver_check(
		"cuMemHostAlloc",
		cu->cuMemHostAlloc(ret_memory, bytes,
				   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
		ret_error);
}

void gpu_host_free(void *memory)
{
	const struct gpu_driver *cu = gpu_driver(NULL);

	if (cu && memory)
		(void)cu->cuMemFreeHost(memory); /* as gpu_region_unmap() */
}

/* ---- pointers -------------------------------------------------------------------------------- */

/* One driver call, which gives zeros instead of failing for memory that the driver does not know.
 */
enum gpu_pointer gpu_pointer_kind(const void *pointer, int ordinal)
{
	const struct gpu_driver *cu = gpu_driver(NULL);
	CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					CU_POINTER_ATTRIBUTE_IS_MANAGED,
					CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
	unsigned type = 0, managed = 0;
	int device = -1;
	void *values[] = {&type, &managed, &device};

	if (!cu || cu->cuPointerGetAttributes(3, wanted, values, address(pointer)) != CUDA_SUCCESS)
		return GPU_POINTER_UNKNOWN;
	if (managed)
		return GPU_POINTER_MANAGED;
	if (type == CU_MEMORYTYPE_HOST)
		return GPU_POINTER_HOST;
	if (type != CU_MEMORYTYPE_DEVICE)
		return GPU_POINTER_UNKNOWN;
	return device == ordinal ? GPU_POINTER_DEVICE : GPU_POINTER_OTHER_DEVICE;
}
