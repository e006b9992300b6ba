/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU's clock on the host's time line. A kernel of one thread waits for a word in host memory,
 * reads the GPU's clock and posts it; the host takes its own time before it stores that word and
 * after it sees the post. So the GPU's reading lies between the two, and half the distance bounds
 * the error of taking the middle. Repeated about once a second, on a stream of its own; a bad round
 * (the kernel could not run at once) is left out unless nothing better is left.
 *
 *   IDLE -----------------> LAUNCHED -----------------> IDLE
 *        time for a round            answered, or given up
 *
 * Watcher only, after creation.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_CLOCK_H
#define BELAY_RUNTIME_CUDA_DEVICE_CLOCK_H

#include <stdint.h>

struct belay_comm;
struct device_clock;

/* A line through two comparisons: GPU ticks (ns by name) to CLOCK_MONOTONIC ns. Pure. */
struct clock_fit {
	uint64_t base_ticks, base_ns;
	uint64_t error_ns; /* of base; UINT64_MAX: nothing is known yet */
	double rate;	   /* ns per tick, about 1 */
};

/* Takes a comparison in: at some time between before_ns and after_ns the GPU showed `ticks`.
 * Returns 1 when it is used. The rate is learnt only over at least 100 ms, and never believed
 * beyond 0.1 %. */
int clock_fit_take(struct clock_fit *fit, uint64_t ticks, uint64_t before_ns, uint64_t after_ns);
uint64_t clock_fit_ns(const struct clock_fit *fit, uint64_t ticks);

/* Makes the first comparison, within some milliseconds; without success times are mapped later.
 * NULL without memory or stream, with a cause. */
struct device_clock *device_clock_create(struct belay_comm *comm);
void device_clock_free(struct device_clock *clock);

/* Begins or ends a round when it is time. Returns when it wants to be called again, ns. */
uint64_t device_clock_beat(struct belay_comm *comm, uint64_t now_ns);

/* Host time of a GPU time. Before any comparison: now. */
uint64_t device_clock_ns(const struct device_clock *clock, uint64_t ticks);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_CLOCK_H */
