/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that may be lost: it runs jobs that call foreign code which can block without a bound.
 * Whoever gives it a job waits by a deadline of its own and, should the thread not come back,
 * leaves it behind. So all that a job touches belongs to one context, which the thread holds until
 * it ends, be that long after everybody else has gone.
 *
 *   IDLE -------> BUSY -------> IDLE -------> ended, joined
 *         post         job over        end
 *                 BUSY -------> LEFT ------> ended by itself
 *                      end, at the deadline
 *
 * Posting, waiting and ending: one owner.
 */
#ifndef BELAY_RUNTIME_CUDA_FOREIGN_THREAD_H
#define BELAY_RUNTIME_CUDA_FOREIGN_THREAD_H

#include <stdbool.h>
#include <stdint.h>

struct foreign_thread;

/* Starts one, all signals blocked, its CUDA calls harmless to captures of other threads. Its last
 * act is drop(context). Returns 0, or an errno value; then drop() is not called. */
int foreign_thread_start(const char *name, void *context, void (*drop)(void *context),
			 struct foreign_thread **ret_thread);

/* Gives it a job, to be run after the ones that it has; one that waits already is not run twice.
 * False: too many wait, and nothing was done (a few distinct jobs never are too many). Any thread,
 * while the owner keeps the handle. */
bool foreign_thread_post(struct foreign_thread *thread, void (*job)(void *context));

/* True once it has no job any more; false at the deadline (CLOCK_MONOTONIC). What the jobs wrote is
 * seen by the caller then. */
bool foreign_thread_wait(struct foreign_thread *thread, uint64_t deadline_ns);

/* Ends it: true when it has ended, false when it was in a job at the deadline and was left. The
 * handle is gone in both cases. NULL is allowed: true. */
bool foreign_thread_end(struct foreign_thread *thread, uint64_t deadline_ns);

#endif /* BELAY_RUNTIME_CUDA_FOREIGN_THREAD_H */
