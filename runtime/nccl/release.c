/* SPDX-License-Identifier: Apache-2.0 */
/* See release.h. */
#include "config.h"

#include "runtime/nccl/release.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/intercept.h"
#include "runtime/nccl/say.h"
#include "runtime/quiet_thread.h"

/* ncclGetVersion()'s code for 2.23.4. */
#define VERSION_MIN 22304

/* nccl.h declares them without a prototype. */
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

struct release {
	ncclComm_t comm;
	CUcontext context; /* NULL: there is no driver */
	pid_t pid;	   /* a forked child has no such thread */
	pthread_t thread;
	_Atomic unsigned holds; /* the last one frees it */
	bool cancelled;		/* before `go` */
	bool left;		/* before `end`: the thread has the hold that is not joined for */
	sem_t go, told, end;	/* each posted once; whoever waits for `told` posts it again */
	ncclResult_t result;	/* for the one that joins the thread */
};

/* Relaxed: set before a communicator that it is about is there. */
static _Atomic bool forbidden;

void release_forbid(void)
{
	atomic_store_explicit(&forbidden, true, memory_order_relaxed);
}

static bool is_set(const char *variable)
{
	const char *value = getenv(variable);

	return value && strtol(value, NULL, 0) != 0;
}

void release_look_at_environment(void)
{
	if (is_set("NCCL_COMM_SPLIT_SHARE_RESOURCES") || is_set("NCCL_COMM_SHRINK_SHARE_RESOURCES"))
		release_forbid();
}

bool release_is_forbidden(void)
{
	return real_nccl()->version < VERSION_MIN ||
	       atomic_load_explicit(&forbidden, memory_order_relaxed);
}

static void drop(struct release *release)
{
	/* Acquire and release: all others have done with it. */
	if (atomic_fetch_sub_explicit(&release->holds, 1, memory_order_acq_rel) != 1)
		return;
	(void)sem_destroy(&release->go);
	(void)sem_destroy(&release->told);
	(void)sem_destroy(&release->end);
	free(release);
}

/* ---- the context ----------------------------------------------------------------------------- */

/* Of the driver that the process has; NULL: it has none. */
static void *driver_function(const char *name)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	void *function = driver ? dlsym(driver, name) : NULL;

	/* The process keeps it. */
	if (driver)
		(void)dlclose(driver);
	return function;
}

static CUcontext current_context(void)
{
	CUresult (*get)(CUcontext *) = (CUresult(*)(CUcontext *))driver_function("cuCtxGetCurrent");
	CUcontext context = NULL;

	return get && get(&context) == CUDA_SUCCESS ? context : NULL;
}

/* NCCL goes back to the device that was current before, which in a thread that has none is the
 * first one: all ranks would take memory on it. And what it asks of CUDA must neither break a
 * capture of another thread nor be refused for one. */
static void use_context(CUcontext context)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult (*set)(CUcontext) = (CUresult(*)(CUcontext))driver_function("cuCtxSetCurrent");
	CUresult (*exchange)(CUstreamCaptureMode *) = (CUresult(*)(
		CUstreamCaptureMode *))driver_function("cuThreadExchangeStreamCaptureMode");

	if (context && set)
		(void)set(context); /* then as above */
	if (exchange)
		(void)exchange(&mode); /* likewise */
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore))
		continue; /* a signal, which this thread does not take: a debugger's */
}

static void post(sem_t *semaphore)
{
	(void)sem_post(semaphore); /* so few that it does not overflow */
}

/* Telling NCCL asks nothing of CUDA. */
static void abort_in_group(struct release *release)
{
	bool grouped = REAL(GroupStart) == ncclSuccess;
	ncclResult_t ended;

	if (grouped)
		release->result = REAL(CommAbort, release->comm);
	post(&release->told);
	wait_for(&release->end);
	use_context(release->context);
	ended = grouped ? REAL(GroupEnd) : REAL(CommAbort, release->comm);
	if (release->result == ncclSuccess)
		release->result = ended;
}

static void *run(void *argument)
{
	struct release *release = argument;

	wait_for(&release->go);
	if (release->cancelled)
		return NULL;
	abort_in_group(release);
	if (release->left)
		drop(release);
	return NULL;
}

/* Its result. */
static ncclResult_t join_and_drop(struct release *release)
{
	ncclResult_t result;

	(void)pthread_join(release->thread, NULL);
	result = release->result;
	drop(release);
	return result;
}

static void tell_forbidden(void)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;

	/* Relaxed: once is enough, and orders nothing. */
	if (!atomic_flag_test_and_set_explicit(&told, memory_order_relaxed))
		say(BELAY_LOG_INFO, "NCCL's kernels wait until the program aborts: NCCL before "
				    "2.23, or a communicator of this process does not block or "
				    "shares resources");
}

struct release *release_prepare(ncclComm_t comm)
{
	struct release *release;
	int error;

	if (release_is_forbidden()) {
		tell_forbidden();
		return NULL;
	}
	release = calloc(1, sizeof(*release));
	error = release ? 0 : ENOMEM;
	if (error == 0) {
		release->comm = comm;
		release->pid = getpid();
		atomic_init(&release->holds, 1);
		release->context = current_context();
		/* 0 is no value that it refuses. */
		(void)sem_init(&release->go, 0, 0);
		(void)sem_init(&release->told, 0, 0);
		(void)sem_init(&release->end, 0, 0);
		error = quiet_thread_start(&release->thread, run, release);
	}
	if (error == 0)
		return release;
	say(BELAY_LOG_WARN,
	    "kernels of NCCL's that wait are not told to leave before the program aborts: "
	    "pthread_create: %s (%d)",
	    strerror(error), error);
	free(release);
	return NULL;
}

void release_go(struct release *release)
{
	post(&release->go);
}

void release_cancel(struct release *release)
{
	release->cancelled = true;
	post(&release->go);
	(void)join_and_drop(release);
}

void release_hold(struct release *release)
{
	/* Relaxed: whoever gives it away has one. */
	(void)atomic_fetch_add_explicit(&release->holds, 1, memory_order_relaxed);
}

void release_await_and_drop(struct release *release)
{
	if (release->pid == getpid()) {
		wait_for(&release->told);
		post(&release->told);
	}
	drop(release);
}

ncclResult_t release_end(struct release *release)
{
	if (release->pid != getpid())
		return ncclInvalidUsage; /* the parent's, who frees it */
	post(&release->end);
	return join_and_drop(release);
}

void release_leave(struct release *release)
{
	if (release->pid != getpid())
		return;
	(void)pthread_detach(release->thread);
	release->left = true;
	post(&release->end);
}

void release_abandon(struct release *release)
{
	if (release->pid == getpid())
		(void)pthread_detach(release->thread);
}
