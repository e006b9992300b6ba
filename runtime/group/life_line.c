/* SPDX-License-Identifier: Apache-2.0 */
/* See life_line.h. */
#include "runtime/group/life_line.h"

#include <errno.h>

void life_line_init(struct life_line *line)
{
	pthread_mutexattr_t attributes;

	/* None of these can fail on Linux for a mutex of this kind. */
	(void)pthread_mutexattr_init(&attributes);
	(void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	(void)pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	(void)pthread_mutex_init(&line->mutex, &attributes);
	(void)pthread_mutexattr_destroy(&attributes);
}

void life_line_hold(struct life_line *line)
{
	/* Nobody else has it: others only try once `held` says so. */
	if (pthread_mutex_trylock(&line->mutex) == 0)
		atomic_store_explicit(&line->held, 1, memory_order_release);
}

void life_line_let_go(struct life_line *line)
{
	if (atomic_exchange_explicit(&line->held, 0, memory_order_acq_rel))
		(void)pthread_mutex_unlock(&line->mutex);
}

bool life_line_has_fallen(struct life_line *line)
{
	int error;

	/* Acquire: the mutex is made and held before. */
	if (!atomic_load_explicit(&line->held, memory_order_acquire))
		return false;
	error = pthread_mutex_trylock(&line->mutex);
	if (error == EOWNERDEAD)
		return true;
	/* Its owner has just let go. */
	if (error == 0)
		(void)pthread_mutex_unlock(&line->mutex);
	return false;
}

void life_line_bury(struct life_line *line)
{
	atomic_store_explicit(&line->held, 0, memory_order_release);
	/* Not made consistent: it can never be taken again, and needs no more to be looked at. */
	(void)pthread_mutex_unlock(&line->mutex);
}
