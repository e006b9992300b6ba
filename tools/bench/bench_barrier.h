/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A barrier between the ranks of a bench, in memory that they share, so that ranks begin a timed
 * call together. Apart from the library under test.
 */
#ifndef BELAY_TOOLS_BENCH_BARRIER_H
#define BELAY_TOOLS_BENCH_BARRIER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>

/*
 * Ordering contract [TOGETHER]
 *
 *   every rank                              the rank that comes last
 *   (1) fetch_add acq_rel of `arrived` ---> reads all of them
 *   (4) load-acquire of `turn`        <---  (2) store relaxed 0 to `arrived`
 *                                           (3) store-release of `turn` + 1
 *
 * A rank that leaves by (4) sees what every rank stored before its (1); (2) is seen by all before
 * their next (1), since it stands before (3).
 */
struct bench_barrier {
	alignas(64) _Atomic uint32_t arrived;
	alignas(64) _Atomic uint32_t turn; /* a futex */
	alignas(64) _Atomic uint32_t broken;
};

/* Waits until nranks ranks have come. Returns 0, or -1: the barrier is broken. */
int bench_barrier_wait(struct bench_barrier *barrier, uint32_t nranks);

/* A rank leaves early: nobody waits here any more. */
void bench_barrier_break(struct bench_barrier *barrier);

#endif /* BELAY_TOOLS_BENCH_BARRIER_H */
