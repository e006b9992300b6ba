/* SPDX-License-Identifier: Apache-2.0 */
/* See release.h. */
#include "config.h"

#include "runtime/nccl/release.h"

#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/intercept.h"
#include "runtime/nccl/say.h"

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
	sem_t end;	     /* posted by release_end() */
	ncclResult_t result; /* for the one that joins the thread */
};

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
 * first one: all ranks would take memory on it. */
static void use_context(CUcontext context)
{
	CUresult (*set)(CUcontext) = (CUresult(*)(CUcontext))driver_function("cuCtxSetCurrent");

	if (context && set)
		(void)set(context); /* then as above */
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void wait_for_end(struct release *release)
{
	while (sem_wait(&release->end))
		continue; /* a signal, which this thread does not take: a debugger's */
}

static void *run(void *argument)
{
	struct release *release = argument;
	ncclResult_t ended;

	use_context(release->context);
	release->result = REAL(GroupStart);
	if (release->result != ncclSuccess) {
		wait_for_end(release);
		release->result = REAL(CommAbort, release->comm);
		return NULL;
	}
	release->result = REAL(CommAbort, release->comm);
	wait_for_end(release);
	ended = REAL(GroupEnd);
	if (release->result == ncclSuccess)
		release->result = ended;
	return NULL;
}

/* With all signals blocked. 0, or an errno value. */
static int start(struct release *release)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&release->thread, NULL, run, release);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
}

struct release *release_start(ncclComm_t comm)
{
	struct release *release;
	int error;

	if (real_nccl()->version < VERSION_MIN)
		return NULL;
	release = calloc(1, sizeof(*release));
	error = release ? 0 : ENOMEM;
	if (error == 0) {
		release->comm = comm;
		release->pid = getpid();
		release->context = current_context();
		(void)sem_init(&release->end, 0, 0); /* 0 is no value that it refuses */
		error = start(release);
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

ncclResult_t release_end(struct release *release)
{
	ncclResult_t result;

	if (release->pid != getpid())
		return ncclInvalidUsage; /* the parent's, who frees it */
	(void)sem_post(&release->end);	 /* once: it does not overflow */
	(void)pthread_join(release->thread, NULL);
	result = release->result;
	(void)sem_destroy(&release->end);
	free(release);
	return result;
}
