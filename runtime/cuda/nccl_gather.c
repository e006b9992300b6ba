/* SPDX-License-Identifier: Apache-2.0 */
/* See nccl_gather.h. */
#include "config.h"

#include "runtime/cuda/nccl_gather.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/belay.h"
#include "runtime/cause.h"
#include "runtime/clock.h"
#include "runtime/cuda/foreign_thread.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/nccl_library.h"

/* A thread that is asked to leave its loops gets this long before it is left behind. */
#define LEAVE_NS (100 * NS_PER_MS)
#define PAUSE_NS (50 * UINT64_C(1000))

/* Of the thread that calls NCCL and of whoever waits for it; the last one frees. */
struct nccl_gather {
	_Atomic unsigned holders;
	_Atomic bool over;	  /* nobody waits any more; relaxed: it only ends loops */
	_Atomic(const char *) at; /* the call that it is in; relaxed: for people */
	ncclComm_t nccl;
	struct nccl_library library;
	size_t bytes;
	struct foreign_thread *thread; /* the owner's */
	/* Written by the owner while the thread is idle. */
	void *own;
	/* Written by the thread; read by the owner once that is idle. */
	int rank, nranks, device;
	char *all;    /* pinned; nranks records */
	void *memory; /* on the device: the own record, then all */
	bool pending; /* NCCL may still read and write `memory` */
	struct CUstream_st *stream;
	int status;
	char why[400];
};

/* ---- the thread's side -------------------------------------------------------------------------
 */

static void drop(void *gather)
{
	struct nccl_gather *g = gather;
	struct gpu_error error;
	int before;

	/* Acquire and release: the last one sees what the other did. */
	if (atomic_fetch_sub_explicit(&g->holders, 1, memory_order_acq_rel) != 1)
		return;
	/* What NCCL may come back to is not freed: it would be a fault of the program's context. */
	if (g->stream && !g->pending && gpu_use(g->device, &before, &error) == 0) {
		gpu_free(g->memory);
		gpu_host_free(g->all);
		gpu_stream_free(g->stream);
		gpu_restore(before);
	}
	free(g->own);
	free(g);
}

static void at(struct nccl_gather *g, const char *call)
{
	atomic_store_explicit(&g->at, call, memory_order_relaxed);
}

static int judge(struct nccl_gather *g, ncclResult_t result, const char *call)
{
	if (result == ncclSuccess)
		return 0;
	nccl_library_explain(&g->library, call, result, g->why, sizeof(g->why));
	return BELAY_E_SYSTEM;
}

static int judge_gpu(struct nccl_gather *g, int failed, const struct gpu_error *error)
{
	if (!failed)
		return 0;
	snprintf(g->why, sizeof(g->why), "%s: %s (%d)", error->call, error->text, error->code);
	return BELAY_E_SYSTEM;
}

static int ask_who(struct nccl_gather *g)
{
	int status;

	at(g, "ncclCommUserRank");
	status = judge(g, g->library.comm_rank(g->nccl, &g->rank), "ncclCommUserRank");
	at(g, "ncclCommCount");
	if (status == 0)
		status = judge(g, g->library.comm_count(g->nccl, &g->nranks), "ncclCommCount");
	at(g, "ncclCommCuDevice");
	if (status == 0)
		status = judge(g, g->library.comm_device(g->nccl, &g->device), "ncclCommCuDevice");
	if (status == 0 && (g->rank < 0 || g->rank >= g->nranks)) {
		snprintf(g->why, sizeof(g->why), "NCCL says rank %d of %d", g->rank, g->nranks);
		status = BELAY_E_SYSTEM;
	}
	return status;
}

static int get_memory(struct nccl_gather *g)
{
	size_t bytes = (size_t)g->nranks * g->bytes;
	struct gpu_error error;
	void *all = NULL;
	int before; /* not restored: the thread is ours */

	at(g, "CUDA");
	if (gpu_use(g->device, &before, &error) || gpu_stream_create(&g->stream, &error) ||
	    gpu_host_alloc(bytes, &all, &error))
		return judge_gpu(g, 1, &error);
	g->all = all;
	return judge_gpu(g, gpu_alloc(bytes + g->bytes, &g->memory, &error), &error);
}

static void nap(void)
{
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

static bool is_over(const struct nccl_gather *g)
{
	return atomic_load_explicit(&g->over, memory_order_relaxed);
}

/* A communicator of the program's may work by itself; see nccl_member_settle(). */
static ncclResult_t settle(struct nccl_gather *g, ncclResult_t result)
{
	while (result == ncclInProgress && !is_over(g)) {
		ncclResult_t asked = g->library.comm_async_error(g->nccl, &result);

		if (asked != ncclSuccess)
			result = asked;
		if (result == ncclInProgress)
			nap();
	}
	return result;
}

static int finish(struct nccl_gather *g)
{
	struct gpu_error error;
	int done = 0;

	while (done == 0 && !is_over(g)) {
		ncclResult_t result = ncclSuccess, asked;

		done = gpu_stream_done(g->stream, &error);
		if (done)
			break;
		asked = g->library.comm_async_error(g->nccl, &result);
		if (asked != ncclSuccess || (result != ncclSuccess && result != ncclInProgress))
			return judge(g, asked != ncclSuccess ? asked : result, "ncclAllGather");
		nap();
	}
	g->pending = done == 0;
	return judge_gpu(g, done < 0, &error);
}

static int exchange(struct nccl_gather *g)
{
	char *own = g->memory, *all = own + g->bytes;
	struct gpu_error error;
	ncclResult_t result;
	int status;

	memcpy(g->all, g->own, g->bytes);
	status = judge_gpu(g, gpu_copy(own, g->all, g->bytes, g->stream, &error), &error);
	if (status)
		return status;
	at(g, "ncclAllGather");
	g->pending = true;
	result = g->library.all_gather(own, all, g->bytes, ncclUint8, g->nccl, g->stream);
	status = judge(g, settle(g, result), "ncclAllGather");
	if (status == 0)
		status = finish(g); /* before the copy: it writes where the record stood */
	if (status == 0)
		status = judge_gpu(
			g, gpu_copy(g->all, all, g->bytes * (size_t)g->nranks, g->stream, &error),
			&error);
	return status ? status : finish(g);
}

static void run(void *gather)
{
	struct nccl_gather *g = gather;

	g->status = 0;
	if (!g->memory)
		g->status = ask_who(g);
	if (g->status == 0 && !g->memory)
		g->status = get_memory(g);
	if (g->status == 0)
		g->status = exchange(g);
}

/* ---- the owner's side --------------------------------------------------------------------------
 */

static int start(struct nccl_gather *g, struct cause_chain *causes)
{
	int error;

	atomic_fetch_add_explicit(&g->holders, 1, memory_order_relaxed); /* the thread's */
	error = foreign_thread_start("belay-nccl-id", g, drop, &g->thread);
	if (!error)
		return 0;
	drop(g);
	cause_add(causes, "pthread_create", error, -1, 0, "cannot start a thread for NCCL");
	return BELAY_E_LIMIT;
}

int nccl_gather_begin(struct ncclComm *nccl, const char *library, size_t bytes,
		      struct nccl_gather **ret_gather, struct cause_chain *causes)
{
	struct nccl_gather *g = calloc(1, sizeof(*g));
	char why[400];
	int status;

	if (!g)
		return BELAY_E_NO_MEMORY;
	atomic_init(&g->holders, 1);
	atomic_init(&g->at, "NCCL");
	g->nccl = nccl;
	g->bytes = bytes;
	g->own = malloc(bytes);
	status = g->own ? 0 : BELAY_E_NO_MEMORY;
	if (status == 0 && nccl_library_in_process(library, &g->library, why, sizeof(why))) {
		cause_add(causes, NULL, 0, -1, 0, "%s", why);
		status = BELAY_E_UNSUPPORTED;
	}
	if (status == 0)
		status = start(g, causes);
	if (status)
		drop(g);
	else
		*ret_gather = g;
	return status;
}

int nccl_gather_run(struct nccl_gather *g, const void *own, uint64_t patience_ns,
		    struct cause_chain *causes)
{
	memcpy(g->own, own, g->bytes);
	(void)foreign_thread_post(g->thread, run); /* idle: never refused */
	if (!foreign_thread_wait(g->thread, clock_now_ns() + patience_ns)) {
		cause_add(causes, NULL, 0, -1, 0,
			  "%s on the NCCL communicator given did not end within %" PRIu64 " ms",
			  atomic_load_explicit(&g->at, memory_order_relaxed),
			  patience_ns / NS_PER_MS);
		return BELAY_E_START_TIMEOUT;
	}
	if (g->status)
		cause_add(causes, NULL, 0, -1, 0, "%s", g->why);
	return g->status;
}

const void *nccl_gather_record(const struct nccl_gather *g, int rank)
{
	return g->all + (size_t)rank * g->bytes;
}

int nccl_gather_rank(const struct nccl_gather *g)
{
	return g->rank;
}

int nccl_gather_nranks(const struct nccl_gather *g)
{
	return g->nranks;
}

int nccl_gather_device(const struct nccl_gather *g)
{
	return g->device;
}

void nccl_gather_end(struct nccl_gather *g)
{
	if (!g)
		return;
	atomic_store_explicit(&g->over, true, memory_order_relaxed);
	(void)foreign_thread_end(g->thread, clock_now_ns() + LEAVE_NS);
	drop(g);
}
