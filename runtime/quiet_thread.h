/* SPDX-License-Identifier: Apache-2.0 */
/* How belay's own threads begin: with all signals blocked, which are the application's. */
#ifndef BELAY_RUNTIME_QUIET_THREAD_H
#define BELAY_RUNTIME_QUIET_THREAD_H

#include <pthread.h>
#include <signal.h>

/* As pthread_create(): 0, or an errno value. */
static inline int quiet_thread_start(pthread_t *ret_thread, void *(*run)(void *), void *argument)
{
	sigset_t all, old;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(ret_thread, NULL, run, argument);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
}

#endif /* BELAY_RUNTIME_QUIET_THREAD_H */
