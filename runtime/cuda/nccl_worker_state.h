/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the NCCL worker: what its owner's side (nccl_worker.c) and its threads' side (nccl_jobs.c)
 * share. The threads may outlive the communicator; so they touch this and nothing else, and whoever
 * holds it last frees it.
 *
 * A member is one of the two NCCL communicators:
 *
 *            init            joined
 *   ABSENT --------> INIT ----------> READY
 *      |              |                 |       failure, cancel, verdict, end
 *      +------> GONE <+-----------------+
 *
 *   From      Event                                     To     [function]
 *   ABSENT    ncclCommInitRankConfig gave a handle      INIT   [nccl_member_join]
 *   INIT      ncclCommGetAsyncError says ncclSuccess    READY  [nccl_member_join]
 *   any       nobody may begin a call with it any more  GONE   [nccl_member_leave]
 *
 * GONE  its handle is taken by the thread that aborts it, once nobody is inside NCCL with it, or
 *       after ABORT_GRACE_NS all the same: then the abort is what gets the other thread out
 */
#ifndef BELAY_RUNTIME_CUDA_NCCL_WORKER_STATE_H
#define BELAY_RUNTIME_CUDA_NCCL_WORKER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/foreign_thread.h"
#include "runtime/cuda/nccl_library.h"
#include "runtime/cuda/nccl_worker.h"

#define NCCL_TEXT_BYTES 400
#define CALLS_CLAIMED	(-1)

enum nccl_member_name { NCCL_MEMBER_RESCUE = 0, NCCL_MEMBER_CALLS = 1, NCCL_MEMBERS = 2 };
enum nccl_member_state {
	NCCL_MEMBER_ABSENT,
	NCCL_MEMBER_INIT,
	NCCL_MEMBER_READY,
	NCCL_MEMBER_GONE
};

struct nccl_member {
	_Atomic int state; /* stored under the lock */
	ncclComm_t handle; /* under the lock; NULL: none, or taken by the thread that aborts it */
	unsigned inside;   /* likewise: threads inside NCCL with it */
	ncclUniqueId id;
};

struct nccl_gather {
	const void *part;
	void *parts;
	size_t stride;
	bool inject_error, inject_hang;
};

struct nccl_worker {
	pthread_mutex_t lock; /* nothing of NCCL or CUDA is called under it */
	pthread_cond_t left;  /* a member's `inside` has become 0 */
	_Atomic unsigned holders;

	/* Constant once the job that fills them is over. */
	struct nccl_library nccl;
	char *wanted; /* BELAY_NCCL_LIBRARY; owned */
	int ordinal, rank, nranks;
	int rescue_blocks; /* topology_blocks_kept() */
	struct CUstream_st *stream;
	char *scratch; /* warm-up: one part, then all parts */
	size_t part_bytes;

	struct nccl_member member[NCCL_MEMBERS];
	/* The foreign call that the first thread is in, or waits for; static text. Relaxed: for
	 * people. */
	_Atomic(const char *) at;
	/* Of a job that prepares or joins: 0 or -1 with why; read once the thread is idle. */
	int status;
	char why[NCCL_TEXT_BYTES];

	/* Ordering contract [GATHER]: `progress` is stored RUNNING by the watcher, and changed to
	 * DONE or FAILED by one compare-and-swap, of the job or of the watcher at the deadline.
	 * Release and acquire: the job's `gather_why` is there when its FAILED is read,
	 * `gather_took_ns` with DONE. */
	_Atomic int progress;
	struct nccl_gather gather;
	char gather_why[NCCL_TEXT_BYTES];
	uint64_t gather_took_ns;
	/* Ordering contract [CALLS]: the first error of the calls communicator; changed once, by
	 * nccl_calls_failed(). Release and acquire: `calls_why` is there when it is read. */
	_Atomic int calls_error; /* CALLS_CLAIMED while the text is being written */
	char calls_why[NCCL_TEXT_BYTES];

	/* When the abort that is under way began; 0: none is. Release and acquire: what the abort
	 * did has happened. */
	_Atomic uint64_t aborting_since_ns;
	/* The communicator whose rest an abort waits for. Under the lock: the threads may look at
	 * it there. NULL: not any more, an abort need not wait. */
	const struct belay_comm *watched;
	_Atomic bool in_rescue; /* relaxed: the watcher's hint */

	/* The owner's; no thread of the worker looks at them. */
	struct belay_comm *comm;
	struct foreign_thread *thread, *ending;
	uint64_t gather_deadline_ns, gather_seq;
};

/* What the second thread does first, once: an abort is not to wait for it. */
void nccl_job_use_device(void *worker);
/* What the first thread does. */
void nccl_job_prepare(void *worker);
void nccl_job_join(void *worker);
void nccl_job_gather(void *worker);
void nccl_job_poll(void *worker);
/* Keeps the first error of the calls communicator and its text. Any thread. */
void nccl_calls_failed(struct nccl_worker *w, int error, const char *why);
/* On either: aborts members that are gone, until none is left to abort. */
void nccl_job_abort(void *worker);
/* On the second: likewise, once this rank has rested, see nccl_worker_note_rescue(). */
void nccl_job_abort_at_rest(void *worker);
/* The owner is about to free its communicator, or is in no hurry about kernels any more: no thread
 * looks at it afterwards. */
void nccl_worker_stop_watching(struct nccl_worker *w);

/* A foreign_thread's last act, and the owner's: frees the worker after the last one. */
void nccl_worker_drop(void *worker);

/* The handle of a member that is READY, for one call; NULL: there is none. Then _exit. Any thread.
 */
ncclComm_t nccl_member_enter(struct nccl_worker *w, enum nccl_member_name name);
void nccl_member_exit(struct nccl_worker *w, enum nccl_member_name name);
/* Nobody begins a call with it any more. True when it was not gone before. */
bool nccl_member_leave(struct nccl_worker *w, enum nccl_member_name name);

/* Polls a communicator that works by itself (blocking = 0, or made so by NCCL_COMM_BLOCKING) until
 * it says how `result` ended; at once for other results than ncclInProgress. Ends with
 * ncclInProgress when the member is gone. */
ncclResult_t nccl_member_settle(struct nccl_worker *w, enum nccl_member_name name,
				ncclComm_t handle, ncclResult_t result);

#endif /* BELAY_RUNTIME_CUDA_NCCL_WORKER_STATE_H */
