/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that the runtime asks of CUDA, apart from launching belay's own kernels
 * (kernels/symm_kernels.h). One file implements it over the CUDA runtime and the driver
 * (gpu_cuda.c), one says that belay was built without CUDA (gpu_none.c), and the tests have one
 * that plays a GPU on the CPU, so that all that stands on top of it runs in CI with real processes.
 *
 * Functions return 0 or -1; then *ret_error says which foreign call failed and how. None waits
 * without a bound unless it says so. All but gpu_find() need the device current in the calling
 * thread: gpu_use().
 */
#ifndef BELAY_RUNTIME_CUDA_GPU_H
#define BELAY_RUNTIME_CUDA_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct CUstream_st;

struct gpu_error {
	const char *call; /* the foreign call, static */
	int code;	  /* its code */
	bool sticky;	  /* the context is lost: nothing on it will work again */
	char text[160];	  /* its code in words */
};

/* ---- finding --------------------------------------------------------------------------------- */

struct gpu_facts {
	char name[64];
	uint8_t uuid[16]; /* tells two ranks on one device */
	int ordinal;
	int multiprocessors;
	int compute_major, compute_minor;
	uint32_t pci_domain, pci_bus, pci_device;
	int numa_node;		  /* -1: not known */
	bool vmm_posix_fd;	  /* cuMemCreate with export as POSIX fd */
	uint64_t vmm_granularity; /* bytes */
	int driver_version, runtime_version;
};

/* Whether there is a driver and a device; *ret_why says what is missing, static or of the thread.
 * Any thread; never creates a context. */
bool gpu_find(int *ret_devices, const char **ret_why);

/* The device whose context is current in this thread; -1 when there is none. Creates none. */
int gpu_current(void);

int gpu_facts(int ordinal, struct gpu_facts *ret_facts, struct gpu_error *ret_error);

/* Makes a device's primary context current in this thread; *ret_before is what gpu_restore() wants.
 * Cheap when it is current already. */
int gpu_use(int ordinal, int *ret_before, struct gpu_error *ret_error);
void gpu_restore(int before);

/* 1: the first device can map and access the second one's memory; *ret_native: with atomics;
 * *ret_nvlink: over NVLink as far as the driver says. */
int gpu_peer_facts(int ordinal, int peer_ordinal, bool *ret_access, bool *ret_native,
		   bool *ret_nvlink);

/* The ordinal in this process of the device with that UUID; -1: not visible here. */
int gpu_ordinal_of(const uint8_t uuid[16]);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Plain device memory, zeroed. */
int gpu_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error);
void gpu_free(void *memory);

/* A region: physical memory that can be exported (VMM). `bytes` is a multiple of the granularity.
 */
struct gpu_region;
int gpu_region_create(int ordinal, size_t bytes, struct gpu_region **ret_region, int *ret_fd,
		      struct gpu_error *ret_error);
/* From a peer's descriptor, which stays the caller's. */
int gpu_region_import(int fd, size_t bytes, struct gpu_region **ret_region,
		      struct gpu_error *ret_error);
/* Address space for `count` regions one after the other; then each is mapped at its place, readable
 * and writable by this rank's device. */
int gpu_space_reserve(size_t bytes, void **ret_space, struct gpu_error *ret_error);
int gpu_region_map(struct gpu_region *region, void *place, size_t bytes, int ordinal,
		   struct gpu_error *ret_error);
void gpu_region_unmap(void *place, size_t bytes);
void gpu_region_free(struct gpu_region *region);
void gpu_space_free(void *space, size_t bytes);

/* Makes host memory (page-aligned, part of a shared mapping) known to the device; *ret_device is
 * its address there. */
int gpu_host_register(void *memory, size_t bytes, void **ret_device, struct gpu_error *ret_error);
void gpu_host_unregister(void *memory);

/* Pinned host memory for copies. */
int gpu_host_alloc(size_t bytes, void **ret_memory, struct gpu_error *ret_error);
void gpu_host_free(void *memory);

enum gpu_pointer {
	GPU_POINTER_DEVICE = 1, /* of this device: cudaMalloc, pools, VMM, interior */
	GPU_POINTER_OTHER_DEVICE,
	GPU_POINTER_MANAGED,
	GPU_POINTER_HOST,   /* pinned or registered */
	GPU_POINTER_UNKNOWN /* ordinary host memory, or nothing */
};
/* What a pointer is; legal while any stream is capturing. Under a microsecond. */
enum gpu_pointer gpu_pointer_kind(const void *pointer, int ordinal);

/* ---- streams --------------------------------------------------------------------------------- */

/* A stream that does not wait for the legacy default stream, of the highest priority there is. */
int gpu_stream_create(struct CUstream_st **ret_stream, struct gpu_error *ret_error);
void gpu_stream_free(struct CUstream_st *stream);

enum gpu_capture { GPU_NOT_CAPTURING = 0, GPU_CAPTURING = 1, GPU_CAPTURE_BROKEN = 2 };
/* *ret_id: of the capture. */
enum gpu_capture gpu_stream_capture(struct CUstream_st *stream, uint64_t *ret_id);
/* Of a stream that captures: tells the last thing captured on it from all others of the graph.
 * NULL: nothing is, or what comes next follows several, or it cannot be known. */
const void *gpu_capture_tail(struct CUstream_st *stream);
/* What is captured next on the stream comes after `tail`, which was captured on another stream of
 * the same capture. 0 or -1. */
int gpu_capture_after(struct CUstream_st *stream, const void *tail);

/* Copies on a stream; host memory from gpu_host_alloc() or registered. */
int gpu_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error);
int gpu_fill(void *memory, int byte, size_t bytes, struct CUstream_st *stream,
	     struct gpu_error *ret_error);

/* 1: all work on the stream is done; 0: not yet; -1: an error (an earlier kernel's too). */
int gpu_stream_done(struct CUstream_st *stream, struct gpu_error *ret_error);
/* Polls gpu_stream_done() until the deadline (CLOCK_MONOTONIC): 1, 0 at the deadline, -1. */
int gpu_stream_wait(struct CUstream_st *stream, uint64_t deadline_ns, struct gpu_error *ret_error);

/* While relaxed, this thread's calls neither break a capture of another thread nor are refused
 * because of one, nor of this thread's own. For creation and destruction, on the application's
 * threads; the result is what gpu_capture_restore() wants. */
int gpu_capture_relax(void);
void gpu_capture_restore(int before);

/* For a thread of belay's own: its calls never break a capture of other threads. */
void gpu_thread_is_background(void);

/* Fills ret_error from a code that a launch function of symm_kernels.h returned. */
void gpu_launch_error(int code, const char *what, struct gpu_error *ret_error);

#endif /* BELAY_RUNTIME_CUDA_GPU_H */
