/* SPDX-License-Identifier: Apache-2.0 */
/* Calibrates the processor's counter against CLOCK_MONOTONIC; see clock.h. */
#include "runtime/clock.h"

#if defined(__x86_64__)
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Shorter spans give a scale that is too coarse: 100 ns in 10 ms are 10 ppm. */
#define SPAN_NS_MIN (10 * NS_PER_MS)
/* A jump of the counter against the clock (a migrated machine) starts the calibration anew. */
#define DRIFT_NS_MAX (100 * UINT64_C(1000))

struct clock_line clock_line;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int trusted; /* 0: not looked yet, 1: yes, -1: no */
	int started;
	uint64_t first_ticks, first_ns;
} calibration;

/* The kernel checks the counters of all processors against each other; take its word. */
static int kernel_trusts_counter(void)
{
	static const char path[] =
		"/sys/devices/system/clocksource/clocksource0/current_clocksource";
	char name[32] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return -1;
	got = read(fd, name, sizeof(name) - 1);
	(void)close(fd); /* read only: nothing to lose */
	return got > 0 && strcmp(name, "tsc\n") == 0 ? 1 : -1;
}

/* A counter value and the time at which it was read: the tightest of a few tries. */
static void sample(uint64_t *ret_ticks, uint64_t *ret_ns)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_ticks();
		uint64_t ns = clock_now_ns();
		uint64_t after = clock_ticks();

		if (after - before < best) {
			best = after - before;
			*ret_ticks = before + (after - before) / 2;
			*ret_ns = ns;
		}
	}
}

static void publish(uint64_t ticks, uint64_t ns, uint64_t scale)
{
	/* Relaxed: only this thread writes, under the lock. */
	uint32_t version = atomic_load_explicit(&clock_line.version, memory_order_relaxed);

	/* [CLOCK] odd, values, even. The release fence keeps the values behind the odd version. */
	atomic_store_explicit(&clock_line.version, version + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	atomic_store_explicit(&clock_line.base_ticks, ticks, memory_order_relaxed);
	atomic_store_explicit(&clock_line.base_ns, ns, memory_order_relaxed);
	atomic_store_explicit(&clock_line.ns_per_tick, scale, memory_order_relaxed);
	/* Skip 0 when the version wraps: it means "not calibrated". */
	version = version + 2 == 0 ? 2 : version + 2;
	atomic_store_explicit(&clock_line.version, version, memory_order_release);
}

static void start_anew(uint64_t ticks, uint64_t ns)
{
	calibration.started = 1;
	calibration.first_ticks = ticks;
	calibration.first_ns = ns;
}

static void calibrate_locked(void)
{
	uint64_t ticks = 0, ns = 0, span;

	if (!calibration.trusted)
		calibration.trusted = kernel_trusts_counter();
	if (calibration.trusted < 0)
		return;
	sample(&ticks, &ns);
	if (!calibration.started) {
		start_anew(ticks, ns);
		return;
	}
	span = ns - calibration.first_ns;
	if (span < SPAN_NS_MIN)
		return;
	if (atomic_load_explicit(&clock_line.version, memory_order_acquire) != 0) {
		uint64_t stamp = clock_stamp_ns(), now = clock_now_ns();
		uint64_t off = stamp > now ? stamp - now : now - stamp;

		if (off > DRIFT_NS_MAX) {
			atomic_store_explicit(&clock_line.version, 0, memory_order_release);
			start_anew(ticks, ns);
			return;
		}
	}
	publish(ticks, ns, (uint64_t)(((__int128)span << 32) / (ticks - calibration.first_ticks)));
}

void clock_calibrate(void)
{
	/* Another rank of this process is at it: good enough. */
	if (pthread_mutex_trylock(&lock) != 0)
		return;
	calibrate_locked();
	pthread_mutex_unlock(&lock);
}
#else
void clock_calibrate(void)
{
}
#endif
