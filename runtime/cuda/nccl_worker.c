/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL worker as its owner sees it; see nccl_worker.h. Nothing here calls NCCL but
 * nccl_worker_allreduce(). */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_topology.h"
#include "runtime/cuda/nccl_worker_state.h"

/* Finding and loading NCCL, and its ids; and not more than a quarter of what creation has. */
#define PREPARE_NS_MAX (20 * NS_PER_SECOND)
/* An abort that takes longer hangs: watchers go on as if it were over. */
#define ABORT_NS_MAX (5 * NS_PER_SECOND)
/* A gather that takes longer is given up; the rescue goes on over sockets. */
#define GATHER_NS_MAX (400 * NS_PER_MS)
#define GATHER_NS_MIN (20 * NS_PER_MS)
/* For both aborts at the end, one of which takes half a second; and not more than a destruction. */
#define END_NS_MAX (4 * NS_PER_SECOND)
/* How often a rank that joins looks whether another has failed. */
#define LOOK_NS (10 * NS_PER_MS)
/* Largest part of the warm-up; larger calls use the same algorithms. */
#define PART_BYTES_MAX (UINT64_C(2) << 20)

static struct control_nccl *shared(const struct belay_comm *comm)
{
	return &comm->control.head->nccl;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct nccl_worker *new_worker(struct belay_comm *comm)
{
	struct nccl_worker *w = calloc(1, sizeof(*w));
	uint64_t part = comm->settings.symm_max_bytes;
	pthread_condattr_t monotonic;

	if (!w)
		return NULL;
	/* None of these can fail on Linux. */
	(void)pthread_mutex_init(&w->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&w->left, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	atomic_init(&w->holders, 1);
	atomic_init(&w->at, "pthread_create");
	w->comm = comm;
	w->watched = comm;
	w->ordinal = comm->device->ordinal;
	w->rank = (int)comm->rank;
	w->nranks = (int)comm->nranks;
	w->part_bytes = (size_t)(part < PART_BYTES_MAX ? part : PART_BYTES_MAX) / 256 * 256;
	w->wanted = strdup(comm->settings.text[SETTING_nccl_library]);
	if (w->wanted)
		return w;
	nccl_worker_drop(w);
	return NULL;
}

static int start_thread(struct nccl_worker *w, const char *name, struct foreign_thread **ret_thread)
{
	int error;

	/* Relaxed: the thread that is to hold it is not there yet. */
	atomic_fetch_add_explicit(&w->holders, 1, memory_order_relaxed);
	error = foreign_thread_start(name, w, nccl_worker_drop, ret_thread);
	if (error)
		nccl_worker_drop(w);
	return error;
}

static const char *at(const struct nccl_worker *w)
{
	return atomic_load_explicit(&w->at, memory_order_relaxed); /* for people */
}

/* Aborts and frees, or leaves behind what does not end by the deadline. */
static void end(struct nccl_worker *w, uint64_t deadline)
{
	bool ended;

	nccl_worker_stop_watching(w);
	for (int i = 0; i < NCCL_MEMBERS; i++)
		(void)nccl_member_leave(w, (enum nccl_member_name)i);
	/* Each takes one, if neither hangs. */
	if (w->ending)
		(void)foreign_thread_post(w->ending, nccl_job_abort);
	if (w->thread)
		(void)foreign_thread_post(w->thread, nccl_job_abort);
	ended = foreign_thread_end(w->thread, deadline);
	if (!ended)
		cause_message(
			w->comm->causes, BELAY_LOG_WARN, "nccl-thread",
			"NCCL does not return from %s; the thread is left behind with what it "
			"holds",
			at(w));
	if (!foreign_thread_end(w->ending, deadline) && ended)
		cause_message(
			w->comm->causes, BELAY_LOG_WARN, "nccl-abort",
			"ncclCommAbort does not return (a CUDA graph that holds NCCL's kernels "
			"makes it wait); the thread is left behind with what it holds");
	nccl_worker_drop(w);
}

void nccl_worker_free(struct nccl_worker *worker)
{
	uint64_t patience;

	if (!worker)
		return;
	patience = worker->comm->settings.destroy_ns;
	end(worker, clock_now_ns() + (patience < END_NS_MAX ? patience : END_NS_MAX));
}

/* ---- creation -------------------------------------------------------------------------------- */

/* This rank cannot: nobody is to wait for it, and it goes on after patience_ns at the latest. */
static int veto(struct belay_comm *comm, struct nccl_worker *w, uint64_t patience_ns)
{
	/* Release: nothing is published with it, but it is to be seen soon. */
	atomic_fetch_or_explicit(&shared(comm)->unready, rank_bit(comm->rank),
				 memory_order_release);
	comm->device->nccl = NULL;
	if (w)
		end(w, clock_now_ns() + (patience_ns < END_NS_MAX ? patience_ns : END_NS_MAX));
	return -1;
}

static bool is_allowed(const struct settings *settings)
{
	return memchr(settings->paths, BELAY_PATH_NCCL, settings->npaths) != NULL;
}

static int prepare(struct belay_comm *comm, struct nccl_worker *w, char *ret_why, size_t size)
{
	uint64_t patience = comm->settings.start_ns / 4;
	int error = start_thread(w, "belay-nccl", &w->thread);

	if (patience > PREPARE_NS_MAX)
		patience = PREPARE_NS_MAX;
	if (error == 0)
		error = start_thread(w, "belay-nccl-end", &w->ending);
	if (error) {
		snprintf(ret_why, size, "cannot start a thread for NCCL: pthread_create: %s (%d)",
			 strerror(error), error);
		return -1;
	}
	(void)foreign_thread_post(w->ending, nccl_job_use_device); /* idle: never refused */
	(void)foreign_thread_post(w->thread, nccl_job_prepare);	   /* likewise */
	if (!foreign_thread_wait(w->thread, clock_now_ns() + patience)) {
		snprintf(ret_why, size, "%s does not return", at(w));
		return -1;
	}
	if (w->status) {
		snprintf(ret_why, size, "%s", w->why);
		return -1;
	}
	if (comm->rank == 0) {
		memcpy(shared(comm)->rescue_id, &w->member[NCCL_MEMBER_RESCUE].id,
		       sizeof(shared(comm)->rescue_id));
		memcpy(shared(comm)->calls_id, &w->member[NCCL_MEMBER_CALLS].id,
		       sizeof(shared(comm)->calls_id));
		shared(comm)->version = w->nccl.version;
	}
	return 0;
}

static_assert(sizeof(ncclUniqueId) == sizeof(((struct control_nccl *)0)->rescue_id),
	      "an id fits its place in the control segment");

int nccl_worker_prepare(struct belay_comm *comm, char *ret_why, size_t size)
{
	struct nccl_worker *w = NULL;

	comm->device->nccl = NULL;
	if (!is_allowed(&comm->settings))
		snprintf(ret_why, size, "not among the paths of BELAY_PATHS");
	else if (!(w = new_worker(comm)))
		snprintf(ret_why, size, "out of host memory");
	if (!w || prepare(comm, w, ret_why, size))
		return veto(comm, w, comm->settings.start_ns / 8);
	comm->device->nccl = w;
	return 0;
}

/* A rank that has failed; -1: none. */
static int unready_rank(const struct belay_comm *comm)
{
	uint64_t unready = atomic_load_explicit(&shared(comm)->unready, memory_order_acquire);

	return unready ? __builtin_ctzll(unready) : -1;
}

/* All ranks' NCCLs speak to each other: one version. */
static bool same_version(const struct nccl_worker *w, char *ret_why, size_t size)
{
	int version = shared(w->comm)->version;

	if (w->nccl.version == version)
		return true;
	snprintf(ret_why, size, "NCCL has version code %d here (%s) and %d on rank 0",
		 w->nccl.version, w->nccl.file, version);
	return false;
}

static int join(struct nccl_worker *w, uint64_t deadline_ns, char *ret_why, size_t size)
{
	bool over = false;
	uint64_t now;

	if (unready_rank(w->comm) < 0) {
		if (!same_version(w, ret_why, size))
			return -1;
		w->rescue_blocks =
			(int)topology_blocks_kept(w->comm->control.device, w->comm->nranks);
		memcpy(&w->member[NCCL_MEMBER_RESCUE].id, shared(w->comm)->rescue_id,
		       sizeof(ncclUniqueId));
		memcpy(&w->member[NCCL_MEMBER_CALLS].id, shared(w->comm)->calls_id,
		       sizeof(ncclUniqueId));
		(void)foreign_thread_post(w->thread, nccl_job_join); /* idle: never refused */
	}
	for (now = clock_now_ns(); !over && unready_rank(w->comm) < 0 && now < deadline_ns;
	     now = clock_now_ns())
		over = foreign_thread_wait(w->thread, now + LOOK_NS < deadline_ns ? now + LOOK_NS
										  : deadline_ns);
	if (over && w->status == 0)
		return 0;
	if (over)
		snprintf(ret_why, size, "%s", w->why);
	else if (unready_rank(w->comm) >= 0)
		snprintf(ret_why, size, "rank %d cannot use it", unready_rank(w->comm));
	else
		snprintf(ret_why, size, "%s did not end within the time that a creation has for it",
			 at(w));
	return -1;
}

int nccl_worker_join(struct belay_comm *comm, uint64_t deadline_ns, struct nccl_worker **ret_worker,
		     char *ret_why, size_t size)
{
	struct nccl_worker *w = comm->device->nccl;
	uint64_t now = clock_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;

	/* Not all of it: without NCCL there must be time left to go on. */
	if (join(w, now + left / 2, ret_why, size))
		return veto(comm, w, left / 8);
	*ret_worker = w;
	return 0;
}

int nccl_worker_version(const struct nccl_worker *worker, const char **ret_file)
{
	*ret_file = worker->nccl.file;
	return worker->nccl.version;
}

/* ---- rescue ---------------------------------------------------------------------------------- */

static uint64_t gather_ns(const struct settings *settings)
{
	uint64_t ns = settings->give_up_ns / 5;

	if (ns > GATHER_NS_MAX)
		return GATHER_NS_MAX;
	return ns < GATHER_NS_MIN ? GATHER_NS_MIN : ns;
}

/* The call that the rescue word's turn belongs to, as this rank has staged it. */
static uint64_t rescued_seq(const struct belay_comm *comm)
{
	/* Acquire: the turn was staged before the word named it. */
	uint64_t word = atomic_load_explicit(&comm->control.head->rescue, memory_order_acquire);

	return comm->own->call[rescue_turn(word) & 1].seq;
}

static bool injected(struct belay_comm *comm, uint64_t seq, enum fault_kind kind)
{
	struct faults *faults = &comm->faults;
	int rank = (int)comm->rank;

	return faults_armed(faults) &&
	       (fault_take(faults, rank, seq, FAULT_AT_STAGE, FAULT_BIT(kind), NULL) ||
		fault_take(faults, rank, seq, FAULT_AT_RESCUE, FAULT_BIT(kind), NULL));
}

void nccl_worker_gather(struct nccl_worker *worker, const void *part, size_t bytes, void *parts)
{
	struct nccl_worker *w = worker;

	w->gather_seq = rescued_seq(w->comm);
	w->gather_deadline_ns = clock_now_ns() + gather_ns(&w->comm->settings);
	w->gather = (struct nccl_gather){
		.part = part,
		.parts = parts,
		.stride = (bytes + 15) / 16 * 16,
		.inject_error = injected(w->comm, w->gather_seq, FAULT_NCCL_ERROR),
		.inject_hang = injected(w->comm, w->gather_seq, FAULT_NCCL_HANG),
	};
	/* [GATHER] Relaxed: posting the job orders it. If the thread hangs in an earlier job, this
	 * one ends like a hang of its own: by the deadline. */
	atomic_store_explicit(&w->progress, NCCL_RUNNING, memory_order_relaxed);
	(void)foreign_thread_post(w->thread, nccl_job_gather);
}

/* The rescue communicator is of no use any more, to nobody. */
static void abort_rescue(struct nccl_worker *w)
{
	/* Release: what led to it is seen; nothing depends on it. */
	atomic_store_explicit(&shared(w->comm)->broken, 1, memory_order_release);
	if (nccl_member_leave(w, NCCL_MEMBER_RESCUE))
		(void)foreign_thread_post(w->ending, nccl_job_abort_at_rest);
}

void nccl_worker_note_rescue(struct nccl_worker *worker, bool active)
{
	if (worker)
		atomic_store_explicit(&worker->in_rescue, active,
				      memory_order_relaxed); /* a hint */
}

bool nccl_worker_aborts(const struct nccl_worker *worker, uint64_t now_ns)
{
	uint64_t since =
		worker ? atomic_load_explicit(&worker->aborting_since_ns, memory_order_acquire) : 0;

	/* Another thread's clock may be read later than now_ns was. */
	return since && (now_ns < since || now_ns - since < ABORT_NS_MAX);
}

static void note_failure(struct nccl_worker *w, const char *why)
{
	struct belay_comm *comm = w->comm;

	cause_add(comm->causes, NULL, 0, (int)comm->rank, w->gather_seq,
		  "rescues go over sockets from now on: gathering over NCCL failed: %s", why);
	cause_message(comm->causes, BELAY_LOG_WARN, "nccl-rescue",
		      "communicator %.8s: rescues go over sockets from now on: gathering over NCCL "
		      "failed: %s [rank %u, seq %" PRIu64 "]",
		      comm->id, why, comm->rank, w->gather_seq);
	abort_rescue(w);
}

/* At the deadline: true when the gather is ours to fail, false when the job has just ended it. */
static bool give_up(struct nccl_worker *w)
{
	int running = NCCL_RUNNING;

	/* [GATHER] Acquire: see progress. */
	return atomic_compare_exchange_strong_explicit(&w->progress, &running, NCCL_FAILED,
						       memory_order_acquire, memory_order_acquire);
}

enum nccl_progress nccl_worker_progress(struct nccl_worker *worker, uint64_t now_ns)
{
	struct nccl_worker *w = worker;
	char why[NCCL_TEXT_BYTES] = "";
	int progress;

	if (now_ns >= w->gather_deadline_ns && give_up(w))
		snprintf(why, sizeof(why), "%s did not end within %" PRIu64 " ms", at(w),
			 gather_ns(&w->comm->settings) / NS_PER_MS);
	progress = atomic_load_explicit(&w->progress, memory_order_acquire); /* [GATHER] */
	if (progress == NCCL_FAILED)
		note_failure(w, why[0] ? why : w->gather_why);
	if (progress == NCCL_DONE || progress == NCCL_FAILED)
		/* Relaxed: the job has had its say, or will find that it may not. */
		atomic_store_explicit(&w->progress, NCCL_IDLE, memory_order_relaxed);
	return (enum nccl_progress)progress;
}

uint64_t nccl_worker_gather_ns(const struct nccl_worker *worker)
{
	return worker->gather_took_ns;
}

void nccl_worker_cancel(struct nccl_worker *worker)
{
	if (give_up(worker))
		abort_rescue(worker);
	atomic_store_explicit(&worker->progress, NCCL_IDLE, memory_order_relaxed); /* as above */
}

bool nccl_worker_can_gather(const struct nccl_worker *worker)
{
	if (!worker)
		return false;
	/* Acquire: pairs with abort_rescue() of any rank. */
	return atomic_load_explicit(&worker->member[NCCL_MEMBER_RESCUE].state,
				    memory_order_acquire) == NCCL_MEMBER_READY &&
	       !atomic_load_explicit(&shared(worker->comm)->broken, memory_order_acquire) &&
	       unready_rank(worker->comm) < 0;
}

/* ---- whole calls ----------------------------------------------------------------------------- */

static ncclDataType_t type_of(int dtype)
{
	static const ncclDataType_t types[] = {
		[BELAY_F32] = ncclFloat32, [BELAY_F64] = ncclFloat64,	[BELAY_F16] = ncclFloat16,
		[BELAY_I32] = ncclInt32,   [BELAY_BF16] = ncclBfloat16, [BELAY_I64] = ncclInt64,
		[BELAY_U8] = ncclUint8,	   [BELAY_I8] = ncclInt8,
	};

	return types[dtype];
}

static ncclRedOp_t op_of(int op)
{
	static const ncclRedOp_t ops[] = {
		[BELAY_SUM] = ncclSum,
		[BELAY_MAX] = ncclMax,
		[BELAY_MIN] = ncclMin,
		[BELAY_PROD] = ncclProd,
	};

	return ops[op];
}

int nccl_worker_allreduce(struct nccl_worker *worker, const void *send, void *recv, uint64_t count,
			  int dtype, int op, struct CUstream_st *stream)
{
	struct nccl_worker *w = worker;
	ncclComm_t handle = nccl_member_enter(w, NCCL_MEMBER_CALLS);
	ncclResult_t result;
	char why[NCCL_TEXT_BYTES];

	if (!handle) {
		nccl_worker_fail_calls(w, "NCCL's communicator has been aborted");
		return -1;
	}
	result = w->nccl.all_reduce(send, recv, count, type_of(dtype), op_of(op), handle, stream);
	result = nccl_member_settle(w, NCCL_MEMBER_CALLS, handle, result);
	nccl_member_exit(w, NCCL_MEMBER_CALLS);
	if (result == ncclSuccess)
		return 0;
	nccl_library_explain(&w->nccl, "ncclAllReduce", result, why, sizeof(why));
	nccl_calls_failed(w, (int)result, why);
	return -1;
}

void nccl_worker_fail_calls(struct nccl_worker *worker, const char *why)
{
	nccl_calls_failed(worker, ncclInternalError, why);
}

int nccl_worker_calls_error(struct nccl_worker *worker, char *ret_text, size_t size)
{
	int error = atomic_load_explicit(&worker->calls_error, memory_order_acquire); /* [CALLS] */

	if (error == CALLS_CLAIMED)
		return 0; /* the next look tells */
	if (error)
		snprintf(ret_text, size, "%s", worker->calls_why);
	else
		(void)foreign_thread_post(worker->thread, nccl_job_poll);
	return error;
}

void nccl_worker_abort_calls(struct nccl_worker *worker)
{
	if (nccl_member_leave(worker, NCCL_MEMBER_CALLS))
		(void)foreign_thread_post(worker->ending, nccl_job_abort);
}
