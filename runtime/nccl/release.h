/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has kernels and calls of a communicator of NCCL's end that would wait for ever, and leaves it to
 * the program: by ncclCommAbort() in a group that ends only when the program ends the communicator.
 * NCCL tells its kernels and calls to leave at once, and frees at the end of the group. Until then
 * the program may go on to ask about the communicator, and what is enqueued on it, or replayed,
 * leaves as soon as it begins.
 *
 * NCCL from 2.23 on: older ones do not wait with freeing for the group.
 */
#ifndef BELAY_RUNTIME_NCCL_RELEASE_H
#define BELAY_RUNTIME_NCCL_RELEASE_H

#include <nccl.h>

struct release;

/* Begins. Calls nothing of NCCL's in this thread, whose current CUDA context is to be the
 * communicator's. NULL: it cannot be done; one line says so where that is unexpected. */
struct release *release_start(ncclComm_t comm);
/* The program destroys or aborts the communicator: does that, and returns NCCL's result. */
ncclResult_t release_end(struct release *release);

#endif /* BELAY_RUNTIME_NCCL_RELEASE_H */
