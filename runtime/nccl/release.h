/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has kernels and calls of a communicator of NCCL's end that would wait for ever, and leaves it to
 * the program: by ncclCommAbort() in a group that ends only when the program ends the communicator.
 * NCCL tells its kernels and calls to leave at once, and frees at the end of the group. Until then
 * the program may go on to ask about the communicator, and what is enqueued on it, or replayed,
 * leaves as soon as it begins (between hosts only as far as NCCL's proxies have work for it).
 *
 *   prepare ----> go ----> told (ncclCommAbort() has returned) ----> end
 *      |
 *      +---> cancel
 *
 * NCCL from 2.23 on: older ones do not wait with freeing for the group. Not for communicators that
 * do not block, whose group jobs NCCL would free twice, nor for those that share resources by
 * ncclCommSplit() or ncclCommShrink(): what tells one's kernels to leave tells the others'.
 */
#ifndef BELAY_RUNTIME_NCCL_RELEASE_H
#define BELAY_RUNTIME_NCCL_RELEASE_H

#include <nccl.h>
#include <stdbool.h>

struct release;

/* Of no communicator from now on. Any thread. */
void release_forbid(void);
bool release_is_forbidden(void);

/* Makes the thread, which waits. Calls nothing of NCCL's; the current CUDA context is to be the
 * communicator's. NULL: it cannot be done; one line says so where that is unexpected. Then either
 * of the next two. */
struct release *release_prepare(ncclComm_t comm);
void release_go(struct release *release);
void release_cancel(struct release *release);
/* Until NCCL has been told. */
void release_await(struct release *release);
/* The program destroys or aborts the communicator: does that, and returns NCCL's result. */
ncclResult_t release_end(struct release *release);

#endif /* BELAY_RUNTIME_NCCL_RELEASE_H */
