/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time. clock_now_ns() is CLOCK_MONOTONIC and is what deadlines use. clock_stamp_ns() is for the
 * stamps of call records: the same time line read from the processor's counter, a third of the
 * price (8 against 23 ns), where the kernel itself trusts that counter. The two agree to within
 * about a microsecond; stamps of one thread may step back by as much when the calibration is
 * renewed.
 */
#ifndef BELAY_RUNTIME_CLOCK_H
#define BELAY_RUNTIME_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_MS     UINT64_C(1000000)
#define NS_PER_SECOND UINT64_C(1000000000)

static inline uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
/*
 * Ordering contract [CLOCK], a sequence lock: the writer makes `version` odd, stores the three
 * values and makes it even again (release); a reader that loads the same even version before
 * (acquire) and after (behind an acquire fence) has three values that belong together. All accesses
 * are atomic; relaxed is enough for the values because only the version orders them.
 */
struct clock_line {
	_Atomic uint32_t version; /* 0: not calibrated, use clock_now_ns() */
	_Atomic uint64_t base_ticks;
	_Atomic uint64_t base_ns;
	_Atomic uint64_t ns_per_tick; /* 32 fractional bits */
};

extern struct clock_line clock_line;

static inline uint64_t clock_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static inline uint64_t clock_stamp_ns(void)
{
	uint32_t before = atomic_load_explicit(&clock_line.version, memory_order_acquire);
	uint64_t base_ticks =
		atomic_load_explicit(&clock_line.base_ticks, memory_order_relaxed); /* [CLOCK] */
	uint64_t base_ns = atomic_load_explicit(&clock_line.base_ns, memory_order_relaxed);
	uint64_t scale = atomic_load_explicit(&clock_line.ns_per_tick, memory_order_relaxed);

	atomic_thread_fence(memory_order_acquire);
	/* Relaxed: ordered behind the values by the fence above. */
	uint32_t after = atomic_load_explicit(&clock_line.version, memory_order_relaxed);
	if (__builtin_expect(before != after || before == 0 || (before & 1), 0))
		return clock_now_ns();
	/* Signed: another processor's counter may stand a little behind the base. */
	__int128 ticks = (__int128)(int64_t)(clock_ticks() - base_ticks);
	return base_ns + (uint64_t)(int64_t)((ticks * (__int128)scale) >> 32);
}
#else
static inline uint64_t clock_stamp_ns(void)
{
	return clock_now_ns();
}
#endif

/* Renews the calibration; called at creation and from every watcher's heartbeat. Any thread. */
void clock_calibrate(void);

#endif /* BELAY_RUNTIME_CLOCK_H */
