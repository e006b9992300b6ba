/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two NCCL communicators and the one thread that may be lost in them. NCCL's calls can block without
 * a bound; so everything but the enqueueing of whole calls is done by this thread, and whoever asks
 * it waits by a deadline of its own. A thread that does not come back is left behind, with a note.
 *
 *   rescue   the watchers': gathers retained inputs on the watcher's stream
 *   calls    the calling thread's: whole calls (path nccl)
 * Two, because ranks enqueue rescues and calls in different orders.
 */
#ifndef BELAY_RUNTIME_CUDA_NCCL_WORKER_H
#define BELAY_RUNTIME_CUDA_NCCL_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct belay_comm;
struct CUstream_st;
struct nccl_worker;

/* Loads NCCL, joins both communicators and warms them up, by deadline_ns. Called on every rank of a
 * device communicator between two barriers (rank 0's ids stand in control.head->nccl: it puts them
 * there itself in nccl_worker_prepare(), before the first of the two). On failure -1 with the reason;
 * then nothing of NCCL is used by any rank, for the paths are agreed afterwards. */
int nccl_worker_prepare(struct belay_comm *comm, char *ret_why, size_t size);
int nccl_worker_join(struct belay_comm *comm, uint64_t deadline_ns, struct nccl_worker **ret_worker,
		     char *ret_why, size_t size);

/* Aborts what is running and frees, in bounded time. NULL is allowed. */
void nccl_worker_free(struct nccl_worker *worker);

/* Rescue: asks for an all-gather of `bytes` from each rank, on the worker's stream, into device
 * memory at `parts`, `parts_stride` apart (= bytes rounded up to 16: parts are gathered with that
 * stride). Watcher; returns at once. One at a time. */
void nccl_worker_gather(struct nccl_worker *worker, const void *part, size_t bytes, void *parts);

enum nccl_progress { NCCL_IDLE = 0, NCCL_RUNNING, NCCL_DONE, NCCL_FAILED };
/* How the gather stands; FAILED: by its deadline, by ncclCommGetAsyncError, or by an error; the cause
 * stands in the chain and the communicator is being aborted. Takes DONE and FAILED back to IDLE. */
enum nccl_progress nccl_worker_progress(struct nccl_worker *worker, uint64_t now_ns);
/* Gives a running gather up: aborts the rescue communicator. */
void nccl_worker_cancel(struct nccl_worker *worker);

/* True while gathers can be asked for. */
bool nccl_worker_can_gather(const struct nccl_worker *worker);

/* Enqueues ncclAllReduce on the calls communicator. Calling thread. 0, or a status with causes. */
int nccl_worker_allreduce(struct nccl_worker *worker, const void *send, void *recv, uint64_t count,
			  int dtype, int op, struct CUstream_st *stream);
/* Watcher, now and then: 0, or the ncclResult_t of an asynchronous error of the calls communicator. */
int nccl_worker_calls_error(struct nccl_worker *worker, char *ret_text, size_t size);
/* A verdict: whole calls that are running are aborted, on the worker's thread. */
void nccl_worker_abort_calls(struct nccl_worker *worker);

#endif /* BELAY_RUNTIME_CUDA_NCCL_WORKER_H */
