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

/* Begins none from now on. Any thread. */
void release_forbid(void);
/* Likewise, if the environment has communicators share: NCCL may have set it itself, from its file,
 * when it made the first. */
void release_look_at_environment(void);
bool release_is_forbidden(void);

/* Makes the thread, which waits. Calls nothing of NCCL's; the current CUDA context is to be the
 * communicator's. NULL: it cannot be done; one line says so where that is unexpected. Then either
 * of the next two. */
struct release *release_prepare(ncclComm_t comm);
void release_go(struct release *release);
void release_cancel(struct release *release);
/* Another hold of it, then until NCCL has been told. */
void release_hold(struct release *release);
void release_await_and_drop(struct release *release);
/* The program destroys or aborts the communicator: does that, and returns NCCL's result. */
ncclResult_t release_end(struct release *release);
/* ... in a group, whose other communicators have yet to be told: does not wait for that. */
void release_leave(struct release *release);
/* NCCL has taken back that its kernels are to leave, and is to be told again by the program: the
 * thread and its group are left as they are for good. */
void release_abandon(struct release *release);

#endif /* BELAY_RUNTIME_NCCL_RELEASE_H */
