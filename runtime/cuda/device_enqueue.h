/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread's side of a communicator on a device: what every call and pass mark does
 * before and after it launches. Nothing here allocates, locks, waits or calls the kernel of the
 * host.
 *
 *   enqueue_begin()      device made current; the stream is one that the communicator may use now
 *     path->allreduce()    launches; enqueue_turns() for paths that launch a kernel a turn
 *   enqueue_end()        the stream and the ticket noted; the thread's own device restored
 *
 * One stream at a time. A communicator's eager launches carry tickets, which their kernels post
 * when they end, with the turn that ends with them (device_ended()); so whether launches of another
 * stream are still in flight is seen without touching that stream, which may have been destroyed.
 * In a capture the graph gets an edge from the last launch to one on another stream.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_ENQUEUE_H
#define BELAY_RUNTIME_CUDA_DEVICE_ENQUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/cuda/device.h"
#include "runtime/path/path.h"

struct enqueue {
	struct CUstream_st *handle;
	const void *stream; /* tells streams apart; not a handle */
	uint64_t capture;   /* id, when captured */
	uint64_t ticket;    /* 0 when captured */
	bool captured;
	bool follows; /* captured right behind a launch of this communicator's */
	int before;   /* for gpu_restore() */
};

/* 0, then enqueue_end() must follow. BELAY_E_BUSY (another stream is still at work for this
 * communicator), BELAY_E_STATE (the stream's capture is broken, or a watched call is open),
 * BELAY_E_GPU_FAULT, BELAY_E_SYSTEM: nothing has changed. */
int enqueue_begin(struct belay_comm *comm, struct CUstream_st *stream, struct enqueue *ret_enqueue);
void enqueue_end(struct belay_comm *comm, const struct enqueue *enqueue, bool launched);

/* Whether a call's buffers are memory of the communicator's device: 0, or BELAY_E_ARGUMENT with a
 * cause that says which one is not, and what it is. */
int enqueue_check_pointers(struct belay_comm *comm, const struct call *call);

/* A launch that is the whole call, but for its shape. */
void enqueue_describe(const struct belay_comm *comm, const struct call *call, enum belay_path path,
		      struct symm_launch *ret_launch);

typedef int (*enqueue_launch)(const struct symm_comm *comm, const struct symm_launch *launch,
			      struct CUstream_st *stream);

/* One kernel for each turn of the call. 0 or a status with causes; `what` names the kernel. */
int enqueue_turns(struct belay_comm *comm, const struct call *call, enum belay_path path,
		  enqueue_launch launch, const char *what);

/* The status of a launch that failed with a CUDA error code, with causes. `begun`: a part of the
 * call was launched before, so that it can be neither finished nor repeated. */
int enqueue_failed(struct belay_comm *comm, bool begun, int code, const char *what);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_ENQUEUE_H */
