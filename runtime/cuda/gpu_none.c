/* SPDX-License-Identifier: Apache-2.0 */
/* gpu.h of a belay that was built without CUDA: there is no device, and it says so. */
#include "runtime/cuda/gpu.h"

#include <stdio.h>

static const char without_cuda[] = "this belay is built without CUDA";

static int refuse(struct gpu_error *ret_error)
{
	if (ret_error) {
		*ret_error = (struct gpu_error){.call = "gpu_find"};
		snprintf(ret_error->text, sizeof(ret_error->text), "%s", without_cuda);
	}
	return -1;
}

bool gpu_find(int *ret_devices, const char **ret_why)
{
	(void)ret_devices;
	*ret_why = without_cuda;
	return false;
}

int gpu_current(void)
{
	return -1;
}

int gpu_facts(int ordinal, struct gpu_facts *ret_facts, struct gpu_error *ret_error)
{
	(void)ordinal;
	(void)ret_facts;
	return refuse(ret_error);
}

int gpu_use(int ordinal, int *ret_before, struct gpu_error *ret_error)
{
	(void)ordinal;
	(void)ret_before;
	return refuse(ret_error);
}

void gpu_restore(int before)
{
	(void)before;
}

int gpu_peer_facts(int ordinal, int peer_ordinal, bool *ret_access, bool *ret_native,
		   bool *ret_nvlink)
{
	(void)ordinal;
	(void)peer_ordinal;
	(void)ret_access;
	(void)ret_native;
	(void)ret_nvlink;
	return -1;
}

int gpu_ordinal_of(const uint8_t uuid[16])
{
	(void)uuid;
	return -1;
}

int gpu_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error)
{
	(void)bytes;
	(void)ret_memory;
	return refuse(ret_error);
}

void gpu_free(void *memory)
{
	(void)memory;
}

int gpu_region_create(int ordinal, size_t bytes, struct gpu_region **ret_region, int *ret_fd,
		      struct gpu_error *ret_error)
{
	(void)ordinal;
	(void)bytes;
	(void)ret_region;
	(void)ret_fd;
	return refuse(ret_error);
}

int gpu_region_import(int fd, size_t bytes, struct gpu_region **ret_region,
		      struct gpu_error *ret_error)
{
	(void)fd;
	(void)bytes;
	(void)ret_region;
	return refuse(ret_error);
}

int gpu_space_reserve(size_t bytes, void **ret_space, struct gpu_error *ret_error)
{
	(void)bytes;
	(void)ret_space;
	return refuse(ret_error);
}

int gpu_region_map(struct gpu_region *region, void *place, size_t bytes, int ordinal,
		   struct gpu_error *ret_error)
{
	(void)region;
	(void)place;
	(void)bytes;
	(void)ordinal;
	return refuse(ret_error);
}

void gpu_region_unmap(void *place, size_t bytes)
{
	(void)place;
	(void)bytes;
}

void gpu_region_free(struct gpu_region *region)
{
	(void)region;
}

void gpu_space_free(void *space, size_t bytes)
{
	(void)space;
	(void)bytes;
}

int gpu_host_register(void *memory, size_t bytes, void **ret_device, struct gpu_error *ret_error)
{
	(void)memory;
	(void)bytes;
	(void)ret_device;
	return refuse(ret_error);
}

void gpu_host_unregister(void *memory)
{
	(void)memory;
}

int gpu_host_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error)
{
	(void)bytes;
	(void)ret_memory;
	return refuse(ret_error);
}

void gpu_host_free(void *memory)
{
	(void)memory;
}

enum gpu_pointer gpu_pointer_kind(const void *pointer, int ordinal)
{
	(void)pointer;
	(void)ordinal;
	return GPU_POINTER_UNKNOWN;
}

int gpu_stream_create(struct CUstream_st **ret_stream, struct gpu_error *ret_error)
{
	(void)ret_stream;
	return refuse(ret_error);
}

void gpu_stream_free(struct CUstream_st *stream)
{
	(void)stream;
}

enum gpu_capture gpu_stream_capture(struct CUstream_st *stream, uint64_t *ret_id)
{
	(void)stream;
	(void)ret_id;
	return GPU_NOT_CAPTURING;
}

const void *gpu_capture_tail(struct CUstream_st *stream)
{
	(void)stream;
	return NULL;
}

int gpu_capture_after(struct CUstream_st *stream, const void *tail)
{
	(void)stream;
	(void)tail;
	return -1;
}

int gpu_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error)
{
	(void)to;
	(void)from;
	(void)bytes;
	(void)stream;
	return refuse(ret_error);
}

int gpu_fill(void *memory, int byte, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error)
{
	(void)memory;
	(void)byte;
	(void)bytes;
	(void)stream;
	return refuse(ret_error);
}

int gpu_stream_done(struct CUstream_st *stream, struct gpu_error *ret_error)
{
	(void)stream;
	return refuse(ret_error);
}

int gpu_stream_wait(struct CUstream_st *stream, uint64_t deadline_ns, struct gpu_error *ret_error)
{
	(void)stream;
	(void)deadline_ns;
	return refuse(ret_error);
}

int gpu_capture_relax(void)
{
	return -1;
}

void gpu_capture_restore(int before)
{
	(void)before;
}

void gpu_thread_is_background(void)
{
}

void gpu_launch_error(int code, const char *what, struct gpu_error *ret_error)
{
	(void)refuse(ret_error);
	if (ret_error) {
		ret_error->call = what;
		ret_error->code = code;
	}
}
