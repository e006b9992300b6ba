/* SPDX-License-Identifier: Apache-2.0 */
/* See foreign_thread.h. */
#include "config.h"

#include "runtime/cuda/foreign_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/clock.h"
#include "runtime/cuda/gpu.h"
#include "runtime/quiet_thread.h"

#define JOBS_MAX 4

struct foreign_thread {
	pthread_mutex_t lock; /* guards all below but `thread`; nothing is called under it */
	pthread_cond_t changed;
	void (*waiting[JOBS_MAX])(void *context); /* in the order of their posting */
	unsigned nwaiting;
	bool busy, ending;
	unsigned holders; /* the owner and the thread; the last one frees */
	void *context;
	void (*drop)(void *context);
	pthread_t thread; /* the owner's */
};

static void release(struct foreign_thread *t)
{
	bool last;

	pthread_mutex_lock(&t->lock);
	last = --t->holders == 0;
	pthread_mutex_unlock(&t->lock);
	if (!last)
		return;
	(void)pthread_cond_destroy(&t->changed);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

/* Runs the first job that waits. Called and returns with the lock held. */
static void run_next_locked(struct foreign_thread *t)
{
	void (*job)(void *context) = t->waiting[0];

	t->nwaiting--;
	memmove(t->waiting, t->waiting + 1, t->nwaiting * sizeof(t->waiting[0]));
	t->busy = true;
	pthread_mutex_unlock(&t->lock);
	job(t->context);
	pthread_mutex_lock(&t->lock);
	t->busy = false;
	pthread_cond_broadcast(&t->changed);
}

static void *run(void *argument)
{
	struct foreign_thread *t = argument;

	gpu_thread_is_background();
	pthread_mutex_lock(&t->lock);
	while (t->nwaiting || !t->ending) {
		if (t->nwaiting)
			run_next_locked(t);
		else
			pthread_cond_wait(&t->changed, &t->lock);
	}
	pthread_mutex_unlock(&t->lock);
	t->drop(t->context);
	release(t);
	return NULL;
}

static int start(struct foreign_thread *t, const char *name)
{
	int error = quiet_thread_start(&t->thread, run, t);

	if (error == 0)
		(void)pthread_setname_np(t->thread, name); /* only a name */
	return error;
}

int foreign_thread_start(const char *name, void *context, void (*drop)(void *context),
			 struct foreign_thread **ret_thread)
{
	struct foreign_thread *t = calloc(1, sizeof(*t));
	pthread_condattr_t monotonic;
	int error;

	if (!t)
		return ENOMEM;
	/* None of these can fail on Linux. */
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&t->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	t->holders = 2;
	t->context = context;
	t->drop = drop;
	error = start(t, name);
	if (error) {
		t->holders = 1;
		release(t);
		return error;
	}
	*ret_thread = t;
	return 0;
}

static bool waits_locked(const struct foreign_thread *t, void (*job)(void *context))
{
	for (unsigned i = 0; i < t->nwaiting; i++)
		if (t->waiting[i] == job)
			return true;
	return false;
}

bool foreign_thread_post(struct foreign_thread *thread, void (*job)(void *context))
{
	bool taken;

	pthread_mutex_lock(&thread->lock);
	taken = waits_locked(thread, job);
	if (!taken && thread->nwaiting < JOBS_MAX) {
		thread->waiting[thread->nwaiting++] = job;
		pthread_cond_broadcast(&thread->changed);
		taken = true;
	}
	pthread_mutex_unlock(&thread->lock);
	return taken;
}

static bool wait_locked(struct foreign_thread *t, uint64_t deadline_ns)
{
	struct timespec until = {.tv_sec = (time_t)(deadline_ns / NS_PER_SECOND),
				 .tv_nsec = (long)(deadline_ns % NS_PER_SECOND)};
	int error = 0;

	while ((t->busy || t->nwaiting) && error != ETIMEDOUT)
		error = pthread_cond_timedwait(&t->changed, &t->lock, &until);
	return !t->busy && !t->nwaiting;
}

bool foreign_thread_wait(struct foreign_thread *thread, uint64_t deadline_ns)
{
	bool idle;

	pthread_mutex_lock(&thread->lock);
	idle = wait_locked(thread, deadline_ns);
	pthread_mutex_unlock(&thread->lock);
	return idle;
}

/* A thread that is left behind goes on running this library's code: it must stay mapped, even if
 * the program closes it. */
static void keep_library(void)
{
	Dl_info here;

	if (dladdr((void *)(uintptr_t)keep_library, &here) && here.dli_fname)
		/* Fails in a static program, which nobody can unload. */
		(void)dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

bool foreign_thread_end(struct foreign_thread *thread, uint64_t deadline_ns)
{
	bool idle;

	if (!thread)
		return true;
	pthread_mutex_lock(&thread->lock);
	thread->ending = true;
	pthread_cond_broadcast(&thread->changed);
	idle = wait_locked(thread, deadline_ns);
	pthread_mutex_unlock(&thread->lock);
	if (idle) {
		(void)pthread_join(thread->thread, NULL);
	} else {
		keep_library();
		(void)pthread_detach(thread->thread);
	}
	release(thread);
	return idle;
}
