/* SPDX-License-Identifier: Apache-2.0 */
/* What the NCCL worker's threads do; see nccl_worker_state.h. */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/nccl_worker_state.h"

/* How long an abort waits for threads inside NCCL to leave by themselves. */
#define ABORT_GRACE_NS (100 * NS_PER_MS)
/* For so long a rank has been in no call before an abort; and if the watcher is in a rescue, where
 * the abort would hold it up, or hangs behind the driver's lock, which only the abort would end. */
#define REST_NS		  (200 * NS_PER_MS)
#define REST_IN_RESCUE_NS (2 * NS_PER_SECOND)
#define REST_POLL_NS	  (20 * NS_PER_MS)
/* Waits for NCCL or a stream look again at once for this long, then at pauses that grow. */
#define EAGER_NS	 (200 * UINT64_C(1000))
#define PAUSE_NS_MAX	 NS_PER_MS
#define ASYNC_ERROR_POLL 8 /* looks at a stream for each look at the communicator's errors */

/* ---- members --------------------------------------------------------------------------------- */

static int state_of(const struct nccl_member *member)
{
	/* Acquire: what led to the state is seen, as by the lock. */
	return atomic_load_explicit(&member->state, memory_order_acquire);
}

static bool is_gone(const struct nccl_worker *w, enum nccl_member_name name)
{
	return state_of(&w->member[name]) == NCCL_MEMBER_GONE;
}

static void move_locked(struct nccl_member *member, enum nccl_member_state to)
{
	atomic_store_explicit(&member->state, to, memory_order_release);
}

static ncclComm_t enter_from(struct nccl_worker *w, enum nccl_member_name name,
			     enum nccl_member_state oldest)
{
	struct nccl_member *member = &w->member[name];
	ncclComm_t handle = NULL;

	pthread_mutex_lock(&w->lock);
	if (state_of(member) >= (int)oldest && state_of(member) < NCCL_MEMBER_GONE) {
		handle = member->handle;
		member->inside++;
	}
	pthread_mutex_unlock(&w->lock);
	return handle;
}

ncclComm_t nccl_member_enter(struct nccl_worker *w, enum nccl_member_name name)
{
	return enter_from(w, name, NCCL_MEMBER_READY);
}

void nccl_member_exit(struct nccl_worker *w, enum nccl_member_name name)
{
	struct nccl_member *member = &w->member[name];

	pthread_mutex_lock(&w->lock);
	if (--member->inside == 0)
		pthread_cond_broadcast(&w->left);
	pthread_mutex_unlock(&w->lock);
}

bool nccl_member_leave(struct nccl_worker *w, enum nccl_member_name name)
{
	struct nccl_member *member = &w->member[name];
	bool first;

	pthread_mutex_lock(&w->lock);
	first = state_of(member) != NCCL_MEMBER_GONE;
	move_locked(member, NCCL_MEMBER_GONE);
	pthread_mutex_unlock(&w->lock);
	return first;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Between two looks at something that `since_ns` began: at once, then longer and longer. */
static void pause_between(uint64_t since_ns)
{
	uint64_t waited = clock_now_ns() - since_ns;
	uint64_t ns = waited / 16 < PAUSE_NS_MAX ? waited / 16 : PAUSE_NS_MAX;

	if (waited < EAGER_NS)
		(void)sched_yield();
	else
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)ns},
				      NULL);
}

ncclResult_t nccl_member_settle(struct nccl_worker *w, enum nccl_member_name name,
				ncclComm_t handle, ncclResult_t result)
{
	uint64_t since = clock_now_ns();

	while (result == ncclInProgress && !is_gone(w, name)) {
		ncclResult_t asked = w->nccl.comm_async_error(handle, &result);

		if (asked != ncclSuccess)
			result = asked;
		if (result == ncclInProgress)
			pause_between(since);
	}
	return result;
}

static void at(struct nccl_worker *w, const char *call)
{
	atomic_store_explicit(&w->at, call, memory_order_relaxed);
}

/* 0, or -1 with what NCCL says. ncclInProgress: the member went while it was waited for. */
static int judge(struct nccl_worker *w, ncclResult_t result, const char *call, char *ret_why)
{
	if (result == ncclSuccess)
		return 0;
	if (result == ncclInProgress)
		snprintf(ret_why, NCCL_TEXT_BYTES, "%s: given up", call);
	else
		nccl_library_explain(&w->nccl, call, result, ret_why, NCCL_TEXT_BYTES);
	return -1;
}

static int judge_gpu(const struct gpu_error *error, char *ret_why)
{
	snprintf(ret_why, NCCL_TEXT_BYTES, "%s: %s (%d)", error->call, error->text, error->code);
	return -1;
}

/* Waits until all that is on the worker's stream is done. A kernel of NCCL's that hangs is told by
 * the communicator's error, or by nobody: then the member goes at somebody's deadline. */
static int finish_stream(struct nccl_worker *w, enum nccl_member_name name, ncclComm_t handle,
			 const char *call, char *ret_why)
{
	struct gpu_error error;
	uint64_t since = clock_now_ns();
	int done = gpu_stream_done(w->stream, &error);

	for (unsigned looks = 1; done == 0; looks++) {
		ncclResult_t result = ncclSuccess, asked = ncclSuccess;

		if (is_gone(w, name))
			return judge(w, ncclInProgress, call, ret_why);
		if (looks % ASYNC_ERROR_POLL == 0)
			asked = w->nccl.comm_async_error(handle, &result);
		if (asked != ncclSuccess || (result != ncclSuccess && result != ncclInProgress))
			return judge(w, asked != ncclSuccess ? asked : result, call, ret_why);
		pause_between(since);
		done = gpu_stream_done(w->stream, &error);
	}
	return done < 0 ? judge_gpu(&error, ret_why) : 0;
}

/* ---- prepare --------------------------------------------------------------------------------- */

void nccl_job_use_device(void *worker)
{
	struct nccl_worker *w = worker;
	struct gpu_error error;
	int before;

	/* For as long as the thread lives. The first thread does so too, and tells what fails. */
	(void)gpu_use(w->ordinal, &before, &error);
}

static int get_ids(struct nccl_worker *w)
{
	for (int i = 0; i < NCCL_MEMBERS; i++) {
		at(w, "ncclGetUniqueId");
		if (judge(w, w->nccl.get_unique_id(&w->member[i].id), "ncclGetUniqueId", w->why))
			return -1;
	}
	return 0;
}

void nccl_job_prepare(void *worker)
{
	struct nccl_worker *w = worker;
	struct gpu_error error;
	int before;

	at(w, "dlopen");
	w->status = nccl_library_find(w->wanted, &w->nccl, w->why, sizeof(w->why));
	/* For as long as the thread lives: NCCL asks which device is current. */
	if (w->status == 0 && gpu_use(w->ordinal, &before, &error))
		w->status = judge_gpu(&error, w->why);
	if (w->status == 0 && w->rank == 0)
		w->status = get_ids(w);
}

/* ---- join ------------------------------------------------------------------------------------ */

/* Takes a handle over from NCCL. False: the member has gone meanwhile, and the handle is the
 * caller's to abort. */
static bool publish(struct nccl_worker *w, enum nccl_member_name name, ncclComm_t handle)
{
	struct nccl_member *member = &w->member[name];
	bool wanted;

	pthread_mutex_lock(&w->lock);
	wanted = state_of(member) == NCCL_MEMBER_ABSENT;
	if (wanted) {
		member->handle = handle;
		move_locked(member, NCCL_MEMBER_INIT);
	}
	pthread_mutex_unlock(&w->lock);
	return wanted;
}

static void ready(struct nccl_worker *w, enum nccl_member_name name)
{
	struct nccl_member *member = &w->member[name];

	pthread_mutex_lock(&w->lock);
	if (state_of(member) == NCCL_MEMBER_INIT)
		move_locked(member, NCCL_MEMBER_READY);
	pthread_mutex_unlock(&w->lock);
}

/*
 * Not blocking: the handle is there at once, so that a join that never ends (a peer died in it) can
 * be aborted. Not so for the calls communicator: there, each later call would go through a thread
 * of NCCL's, and return before it is on the caller's stream. It is joined second, behind a gather
 * that has shown that every rank has come this far.
 */
/*
 * A rescue's kernel runs beside kernels that wait for it: those of calls, and with programmatic
 * launch the next ones behind them. It finds room where these leave multiprocessors empty, if it
 * has no more blocks than that, and no clusters, which would have to find it in one part of the
 * chip (two H200 with graphs of 1 MB: such a gather did not begin). The ranks' blocks pair up: all
 * say the same.
 */
static void fit_rescue(const struct nccl_worker *w, ncclConfig_t *config)
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 17, 1)
	config->cgaClusterSize = 0;
	config->minCTAs = 1;
	config->maxCTAs = w->rescue_blocks;
#endif
}

static int join(struct nccl_worker *w, enum nccl_member_name name, int blocking)
{
	static const char call[] = "ncclCommInitRankConfig";
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t handle = NULL;
	ncclResult_t result;

	config.blocking = blocking;
	if (name == NCCL_MEMBER_RESCUE)
		fit_rescue(w, &config);
	at(w, call);
	result = w->nccl.comm_init(&handle, w->nranks, w->member[name].id, w->rank, &config);
	if (handle && !publish(w, name, handle)) {
		(void)w->nccl.comm_abort(handle); /* nobody is left to tell */
		return judge(w, ncclInProgress, call, w->why);
	}
	if (result == ncclInProgress && handle) {
		handle = enter_from(w, name, NCCL_MEMBER_INIT);
		if (handle) {
			result = nccl_member_settle(w, name, handle, result);
			nccl_member_exit(w, name);
		}
	}
	if (judge(w, result, call, w->why))
		return -1;
	ready(w, name);
	return 0;
}

static ncclResult_t gather(struct nccl_worker *w, ncclComm_t handle, const struct nccl_gather *g)
{
	ncclResult_t result;

	at(w, "ncclAllGather");
	result = w->nccl.all_gather(g->part, g->parts, g->stride, ncclUint8, handle, w->stream);
	return nccl_member_settle(w, NCCL_MEMBER_RESCUE, handle, result);
}

/* One gather from enqueueing to the end of the stream's work. */
static int gather_all(struct nccl_worker *w, const struct nccl_gather *g, char *ret_why)
{
	static const char call[] = "ncclAllGather";
	ncclComm_t handle = nccl_member_enter(w, NCCL_MEMBER_RESCUE);
	int status;

	if (!handle)
		return judge(w, ncclInProgress, call, ret_why);
	status = judge(w, gather(w, handle, g), call, ret_why);
	if (status == 0)
		status = finish_stream(w, NCCL_MEMBER_RESCUE, handle, call, ret_why);
	nccl_member_exit(w, NCCL_MEMBER_RESCUE);
	return status;
}

/* NCCL connects ranks and loads a kernel when an algorithm is first used, which beside a kernel
 * that waits can deadlock: so each size class is used once here. */
static int warm_rescue(struct nccl_worker *w)
{
	int status = 0;

	for (size_t bytes = 256; bytes < w->part_bytes * 8 && status == 0; bytes *= 8) {
		struct nccl_gather g = {
			.part = w->scratch,
			.parts = w->scratch + w->part_bytes,
			.stride = bytes < w->part_bytes ? bytes : w->part_bytes,
		};

		status = gather_all(w, &g, w->why);
	}
	return status;
}

static int reduce_all(struct nccl_worker *w, size_t count, ncclDataType_t type)
{
	static const char call[] = "ncclAllReduce";
	ncclComm_t handle = nccl_member_enter(w, NCCL_MEMBER_CALLS);
	ncclResult_t result;
	int status;

	if (!handle)
		return judge(w, ncclInProgress, call, w->why);
	at(w, call);
	result =
		w->nccl.all_reduce(w->scratch, w->scratch, count, type, ncclSum, handle, w->stream);
	result = nccl_member_settle(w, NCCL_MEMBER_CALLS, handle, result);
	status = judge(w, result, call, w->why);
	if (status == 0)
		status = finish_stream(w, NCCL_MEMBER_CALLS, handle, call, w->why);
	nccl_member_exit(w, NCCL_MEMBER_CALLS);
	return status;
}

static int warm_calls(struct nccl_worker *w)
{
	static const ncclDataType_t types[] = {ncclFloat32, ncclFloat64, ncclFloat16, ncclBfloat16,
					       ncclInt32,   ncclInt64,	 ncclUint8,   ncclInt8};
	size_t all = w->part_bytes * (size_t)(w->nranks + 1);
	int status = 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]) && status == 0; i++)
		status = reduce_all(w, 32, types[i]);
	for (size_t bytes = 4096; bytes < all * 8 && status == 0; bytes *= 8)
		status = reduce_all(w, (bytes < all ? bytes : all) / 2, ncclBfloat16);
	return status;
}

static int get_memory(struct nccl_worker *w)
{
	struct gpu_error error;
	size_t bytes = w->part_bytes * (size_t)(w->nranks + 1);
	void *memory = NULL;

	if (gpu_stream_create(&w->stream, &error) || gpu_alloc(bytes, &memory, &error))
		return judge_gpu(&error, w->why);
	w->scratch = memory;
	return 0;
}

void nccl_job_join(void *worker)
{
	struct nccl_worker *w = worker;

	w->status = get_memory(w);
	if (w->status == 0)
		w->status = join(w, NCCL_MEMBER_RESCUE, 0);
	if (w->status == 0)
		w->status = warm_rescue(w);
	if (w->status == 0)
		w->status = join(w, NCCL_MEMBER_CALLS, 1);
	if (w->status == 0)
		w->status = warm_calls(w);
}

/* ---- afterwards ------------------------------------------------------------------------------ */

/* Fault injection: this rank never joins in the gather. */
static int hang(struct nccl_worker *w)
{
	uint64_t since = clock_now_ns();

	at(w, "ncclAllGather (hang injected)");
	while (!is_gone(w, NCCL_MEMBER_RESCUE))
		pause_between(since);
	return judge(w, ncclInProgress, "ncclAllGather", w->gather_why);
}

void nccl_job_gather(void *worker)
{
	struct nccl_worker *w = worker;
	const struct nccl_gather *g = &w->gather;
	uint64_t begin_ns = clock_now_ns();
	int running = NCCL_RUNNING, status;

	if (g->inject_hang) {
		status = hang(w);
	} else if (g->inject_error) {
		status = -1;
		snprintf(w->gather_why, sizeof(w->gather_why), "ncclAllGather: error injected");
	} else {
		status = gather_all(w, g, w->gather_why);
	}
	w->gather_took_ns = clock_now_ns() - begin_ns;
	/* [GATHER] Release: the parts, or the reason. Fails when the watcher has given it up. */
	atomic_compare_exchange_strong_explicit(&w->progress, &running,
						status ? NCCL_FAILED : NCCL_DONE,
						memory_order_release, memory_order_relaxed);
}

void nccl_calls_failed(struct nccl_worker *w, int error, const char *why)
{
	int none = 0;

	/* [CALLS] Relaxed: claims the text; nothing is read. */
	if (!atomic_compare_exchange_strong_explicit(&w->calls_error, &none, CALLS_CLAIMED,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	snprintf(w->calls_why, sizeof(w->calls_why), "%s", why);
	atomic_store_explicit(&w->calls_error, error, memory_order_release);
}

void nccl_job_poll(void *worker)
{
	struct nccl_worker *w = worker;
	ncclComm_t handle = nccl_member_enter(w, NCCL_MEMBER_CALLS);
	ncclResult_t result = ncclSuccess, asked;
	char why[NCCL_TEXT_BYTES];

	if (!handle)
		return;
	at(w, "ncclCommGetAsyncError");
	asked = w->nccl.comm_async_error(handle, &result);
	nccl_member_exit(w, NCCL_MEMBER_CALLS);
	if (asked != ncclSuccess)
		result = asked;
	if (result == ncclSuccess || result == ncclInProgress)
		return;
	nccl_library_explain(&w->nccl, "ncclAllReduce, by ncclCommGetAsyncError", result, why,
			     sizeof(why));
	nccl_calls_failed(w, (int)result, why);
}

static struct timespec after(uint64_t ns)
{
	uint64_t until = clock_now_ns() + ns;

	return (struct timespec){.tv_sec = (time_t)(until / NS_PER_SECOND),
				 .tv_nsec = (long)(until % NS_PER_SECOND)};
}

/* A member that is gone and still has its handle: takes it, once nobody is inside or the grace is
 * over. NULL: none. */
static ncclComm_t take_gone(struct nccl_worker *w)
{
	struct timespec grace = after(ABORT_GRACE_NS);
	ncclComm_t handle = NULL;

	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < NCCL_MEMBERS && !handle; i++) {
		struct nccl_member *member = &w->member[i];

		if (state_of(member) != NCCL_MEMBER_GONE || !member->handle)
			continue;
		handle = member->handle;
		member->handle = NULL;
		for (int error = 0; member->inside && error != ETIMEDOUT;)
			error = pthread_cond_timedwait(&w->left, &w->lock, &grace);
	}
	pthread_mutex_unlock(&w->lock);
	return handle;
}

void nccl_job_abort(void *worker)
{
	struct nccl_worker *w = worker;
	ncclComm_t handle;

	/* Release: the watcher keeps off before the abort begins. */
	atomic_store_explicit(&w->aborting_since_ns, clock_now_ns(), memory_order_release);
	while ((handle = take_gone(w)) != NULL)
		(void)w->nccl.comm_abort(handle); /* an error leaves nothing to be done */
	atomic_store_explicit(&w->aborting_since_ns, 0, memory_order_release);
}

/* ---- rest ------------------------------------------------------------------------------------ */

struct rest {
	uint64_t number, since_ns;
};

/* A number that stays the same while the rank is in no call and ends none; 0: it is in one. */
static uint64_t rest_number(const struct belay_comm *comm)
{
	return device_idle(comm) ? device_done(comm, comm->rank) + 1 : 0;
}

static bool has_rested_locked(const struct nccl_worker *w, struct rest *rest)
{
	uint64_t now = clock_now_ns(), number;
	bool in_rescue = atomic_load_explicit(&w->in_rescue, memory_order_relaxed);

	if (!w->watched || comm_decided(w->watched))
		return true;
	number = rest_number(w->watched);
	if (!number || number != rest->number)
		rest->since_ns = now;
	rest->number = number;
	return now - rest->since_ns >= (in_rescue ? REST_IN_RESCUE_NS : REST_NS);
}

void nccl_job_abort_at_rest(void *worker)
{
	struct nccl_worker *w = worker;
	struct rest rest = {.number = 0};

	pthread_mutex_lock(&w->lock);
	while (!has_rested_locked(w, &rest)) {
		struct timespec again = after(REST_POLL_NS);

		(void)pthread_cond_timedwait(&w->left, &w->lock, &again);
	}
	pthread_mutex_unlock(&w->lock);
	nccl_job_abort(w);
}

void nccl_worker_stop_watching(struct nccl_worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->watched = NULL;
	pthread_cond_broadcast(&w->left);
	pthread_mutex_unlock(&w->lock);
}

void nccl_worker_drop(void *worker)
{
	struct nccl_worker *w = worker;
	struct gpu_error error;
	int before;

	/* Acquire and release: the last one sees what all others did. */
	if (atomic_fetch_sub_explicit(&w->holders, 1, memory_order_acq_rel) != 1)
		return;
	if (w->stream && gpu_use(w->ordinal, &before, &error) == 0) {
		gpu_free(w->scratch);
		gpu_stream_free(w->stream);
		gpu_restore(before);
	}
	(void)pthread_cond_destroy(&w->left);
	(void)pthread_mutex_destroy(&w->lock);
	free(w->wanted);
	free(w);
}
