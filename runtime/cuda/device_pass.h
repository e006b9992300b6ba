/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pass marks of a communicator on a device: kernels between the calls, on the calls' stream, so
 * that a graph that was captured with them numbers its passes anew at each replay.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_PASS_H
#define BELAY_RUNTIME_CUDA_DEVICE_PASS_H

#include <stdbool.h>

#include "runtime/communicator.h"

struct CUstream_st;

/* Enqueues a mark. 0; BELAY_E_STATE (eager marks: a pass is open, or none is); as
 * enqueue_begin(); class VERDICT. */
int device_pass_mark(struct belay_comm *comm, bool begin, struct CUstream_st *stream);

/* Waits until the last eager end mark has been carried out, then for the commit of the pass that
 * ended last on the device; comm->ended_* tell about it then. 0; BELAY_E_STATE (none has ended);
 * BELAY_E_TIMEOUT (the mark, or the verdict of a pass that has failed, did not come by the hard
 * deadline); class VERDICT. */
int device_pass_wait(struct belay_comm *comm);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_PASS_H */
