/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_barrier.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Turns of spinning, then of yielding, before a rank sleeps. */
#define SPINS  2000
#define YIELDS 2000

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* Sleeps while `turn` is what it was, at most for a while: a rank may die without breaking the
 * barrier. */
static void sleep_at(struct bench_barrier *barrier, uint32_t turn)
{
	const struct timespec most = {.tv_nsec = 20000000};

	/* Any return is followed by a new look. */
	(void)syscall(SYS_futex, &barrier->turn, FUTEX_WAIT, turn, &most, NULL, 0);
}

static void wake_all(struct bench_barrier *barrier)
{
	(void)syscall(SYS_futex, &barrier->turn, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void wait_once(struct bench_barrier *barrier, uint32_t turn, unsigned tries)
{
	if (tries < SPINS)
		pause_briefly();
	else if (tries < SPINS + YIELDS)
		(void)sched_yield(); /* never fails on Linux */
	else
		sleep_at(barrier, turn);
}

int bench_barrier_wait(struct bench_barrier *barrier, uint32_t nranks)
{
	/* Relaxed: this rank is in the turn that it left last, or the first; nobody ends it without
	 * us. */
	uint32_t turn = atomic_load_explicit(&barrier->turn, memory_order_relaxed);

	/* (1) */
	if (atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel) + 1 == nranks) {
		atomic_store_explicit(&barrier->arrived, 0, memory_order_relaxed);     /* (2) */
		atomic_store_explicit(&barrier->turn, turn + 1, memory_order_release); /* (3) */
		wake_all(barrier);
		return 0;
	}
	for (unsigned tries = 0;; tries += tries < SPINS + YIELDS) {
		if (atomic_load_explicit(&barrier->turn, memory_order_acquire) != turn) /* (4) */
			return 0;
		/* Relaxed: it orders no data. */
		if (atomic_load_explicit(&barrier->broken, memory_order_relaxed))
			return -1;
		wait_once(barrier, turn, tries);
	}
}

void bench_barrier_break(struct bench_barrier *barrier)
{
	/* Relaxed: see above; a sleeper looks again within 20 ms. */
	atomic_store_explicit(&barrier->broken, 1, memory_order_relaxed);
}
