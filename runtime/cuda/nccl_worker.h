/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two NCCL communicators and the threads that may be lost in them. NCCL's calls can block without a
 * bound; so everything but the enqueueing of whole calls is done by a thread of the worker, and
 * whoever asks it waits by a deadline of its own. A thread that does not come back is left behind
 * with what it holds, with a note; should it come back later, it frees that and ends.
 *
 *   rescue   the watchers': gathers retained inputs on a stream of the worker's
 *   calls    the calling thread's: whole calls (path nccl)
 * Two, because ranks enqueue rescues and calls in different orders.
 *
 * Both end by ncclCommAbort, on a second thread: an abort is what frees a first one that hangs in
 * NCCL, and it can block itself (as long as a CUDA graph lives that holds NCCL's kernels it does).
 *
 * Built without nccl.h, nccl_worker_prepare() says so; see nccl_none.c.
 */
#ifndef BELAY_RUNTIME_CUDA_NCCL_WORKER_H
#define BELAY_RUNTIME_CUDA_NCCL_WORKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct belay_comm;
struct CUstream_st;
struct nccl_worker;

/* Loads NCCL and, on rank 0, puts both ids into control.head->nccl. Every rank of a device
 * communicator calls it between two barriers. 0: comm->device->nccl is the worker; -1 with the
 * reason: it is NULL. A rank that has failed says so in control.head->nccl.unready, so that no
 * other waits for it in nccl_worker_join(). */
int nccl_worker_prepare(struct belay_comm *comm, char *ret_why, size_t size);

/* After the next barrier, only where prepare succeeded: joins both communicators and warms them up,
 * by half of the time that is left until deadline_ns, at once when another rank fails. 0 and
 * *ret_worker, which is comm->device->nccl; -1 with the reason, comm->device->nccl is NULL again
 * and *ret_worker is untouched. The paths are agreed afterwards: where another rank has vetoed
 * nccl, nccl_worker_free() and forget it. */
int nccl_worker_join(struct belay_comm *comm, uint64_t deadline_ns, struct nccl_worker **ret_worker,
		     char *ret_why, size_t size);

/* Aborts and frees, in bounded time (a few seconds when NCCL hangs, else about half of one: that is
 * what NCCL's abort takes). NULL is allowed. The watcher has ended. */
void nccl_worker_free(struct nccl_worker *worker);

/* Rescue: asks for an all-gather of `bytes` from each rank, on the worker's stream, into device
 * memory at `parts`, bytes rounded up to 16 apart; `part` is readable up to there. Watcher; returns
 * at once. One at a time. The seq for causes and for fault injection is that of the turn in the
 * rescue word. */
void nccl_worker_gather(struct nccl_worker *worker, const void *part, size_t bytes, void *parts);

enum nccl_progress { NCCL_IDLE = 0, NCCL_RUNNING, NCCL_DONE, NCCL_FAILED };
/* How the gather stands. DONE: all parts are there. FAILED: by its deadline, by
 * ncclCommGetAsyncError, or by an error; the cause stands in the chain, the communicator is given
 * up (and aborted, see nccl_worker_note_rescue()), and until the worker is freed a late store may
 * still hit `parts`: do not use them again. Takes DONE and FAILED back to IDLE. Watcher. */
enum nccl_progress nccl_worker_progress(struct nccl_worker *worker, uint64_t now_ns);
/* After DONE, until the next gather: what NCCL took for this one, from the call of ncclAllGather()
 * to the end of its kernel, as the worker's thread saw it. Watcher. */
uint64_t nccl_worker_gather_ns(const struct nccl_worker *worker);
/* Gives a running gather up, as FAILED does but without a cause, and the communicator with it.
 * Watcher. Nothing happens when none is running. */
void nccl_worker_cancel(struct nccl_worker *worker);

/* Whether this rank takes part in a rescue. What a failed gather has left behind is aborted once
 * the rank has rested: it has been in no call and ended none for 200 ms, or, as long as the watcher
 * says that it is in a rescue, for 2 s; at a verdict; or when the worker is freed. NCCL frees
 * pinned memory then, for which the driver waits until all that the process has enqueued is done,
 * and meanwhile lets launches and copies of all threads wait: a call under way that came to need
 * its watcher would wait for ever. The second thread waits for the rest, not the watcher: a program
 * that frees device memory waits for the kernel that NCCL has left behind, and the driver then lets
 * the watcher wait until that has been aborted. Watcher. NULL: nothing. */
void nccl_worker_note_rescue(struct nccl_worker *worker, bool active);
/* True while an abort is under way, 5 s at most: the watcher then keeps away from launches and
 * copies, and from whatever would make a kernel wait for them. NULL: false. */
bool nccl_worker_aborts(const struct nccl_worker *worker, uint64_t now_ns);

/* True while gathers can be asked for: none has failed, here or (control.head->nccl.broken)
 * elsewhere. NULL: false. */
bool nccl_worker_can_gather(const struct nccl_worker *worker);

/* Enqueues ncclAllReduce on the calls communicator. Calling thread. 0; -1: it failed, and
 * nccl_worker_calls_error() tells how. A call of NCCL's that does not return is ended by
 * nccl_worker_abort_calls(). */
int nccl_worker_allreduce(struct nccl_worker *worker, const void *send, void *recv, uint64_t count,
			  int dtype, int op, struct CUstream_st *stream);
/* Notes a failure of the calls communicator as if NCCL had told it; fault injection. Calling
 * thread. */
void nccl_worker_fail_calls(struct nccl_worker *worker, const char *why);
/* Watcher, now and then while a whole call runs: 0, or the ncclResult_t of an error of the calls
 * communicator, with a text: of a call that did not get onto its stream, or an asynchronous one.
 * Does not wait: tells what the worker's thread found after the last time that it was asked. */
int nccl_worker_calls_error(struct nccl_worker *worker, char *ret_text, size_t size);
/* After a verdict, once kernels that end are ordered to leave without a result
 * (device_fail_from()): whole calls that are running are aborted, on the worker's second thread.
 * Any thread; only the first time does anything. */
void nccl_worker_abort_calls(struct nccl_worker *worker);

/* NCCL_VERSION_CODE and the file of the NCCL in use. */
int nccl_worker_version(const struct nccl_worker *worker, const char **ret_file);

#endif /* BELAY_RUNTIME_CUDA_NCCL_WORKER_H */
