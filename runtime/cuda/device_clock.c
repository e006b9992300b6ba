/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of comparison with the GPU's clock; see device_clock.h. */
#include "runtime/cuda/device_clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/clock.h"
#include "runtime/cuda/device.h"

#define ROUND_NS (1000 * NS_PER_MS)
/* Rounds follow each other faster until there is a baseline for the rate. */
#define ROUND_FIRST_NS (150 * NS_PER_MS)
#define ROUNDS_FIRST   3
/* How long the kernel waits for the word, and we for its answer. */
#define KERNEL_WAIT_NS (5 * NS_PER_MS)
#define ANSWER_WAIT_NS (NS_PER_MS / 2)
/* From launch to question: the kernel should be there by then. */
#define SETTLE_NS      (NS_PER_MS / 10)
#define CREATE_WAIT_NS (20 * NS_PER_MS)

struct device_clock {
	struct clock_fit fit;
	struct CUstream_st *stream;
	uint64_t round;	      /* the last one launched */
	uint64_t launched_ns; /* of a round without its answer; 0: none */
	uint64_t next_ns;
	uint64_t used; /* comparisons taken in */
};

/* Ordering contract [CALIBRATION]: the order's store is release and the answer's load acquire,
 * though the GPU gives no order for them; both words of the answer come in one 16-byte store, and
 * the round in it tells whose ticks they are: ticks are read again when the round changes. */
static uint64_t load(const uint64_t *word)
{
	return atomic_load_explicit((const _Atomic uint64_t *)word, memory_order_acquire);
}

static void trace_clock(const struct belay_comm *comm, const struct device_clock *clock)
{
	trace_event(comm->trace, &(struct event_record){
					 .time_ns = clock->fit.base_ns,
					 .kind = EVENT_CLOCK,
					 .peer = -1,
					 .value = (int64_t)clock->fit.base_ticks,
					 .duration_ns = clock->fit.error_ns,
				 });
}

static void launch_round(struct belay_comm *comm, struct device_clock *clock, uint64_t now_ns)
{
	int code = symm_launch_calibrate(&comm->device->symm, clock->round + 1, KERNEL_WAIT_NS,
					 clock->stream);
	struct gpu_error error;

	clock->next_ns = now_ns + (clock->used < ROUNDS_FIRST ? ROUND_FIRST_NS : ROUND_NS);
	if (code) {
		gpu_launch_error(code, "symm_launch_calibrate", &error);
		if (error.sticky)
			device_fault(comm, &error, "comparing clocks");
		return;
	}
	clock->round++;
	clock->launched_ns = now_ns;
}

/* Asks, and waits for the answer between two looks at the host's clock. */
static void ask(struct belay_comm *comm, struct device_clock *clock)
{
	struct control_device *own = &comm->control.device[comm->rank];
	const uint64_t *answer = own->posts.calibration;
	uint64_t before = clock_now_ns(), after = before;

	clock->launched_ns = 0;
	atomic_store_explicit((_Atomic uint64_t *)&own->orders.calibration, clock->round,
			      memory_order_release);
	while (load(&answer[0]) != clock->round && after - before < ANSWER_WAIT_NS)
		after = clock_now_ns();
	after = clock_now_ns();
	if (load(&answer[0]) != clock->round)
		return;
	if (clock_fit_take(&clock->fit, load(&answer[1]), before, after)) {
		clock->used++;
		if (comm->trace)
			trace_clock(comm, clock);
	}
}

uint64_t device_clock_beat(struct belay_comm *comm, uint64_t now_ns)
{
	struct device_clock *clock = comm->device->clock;

	if (clock->launched_ns && now_ns - clock->launched_ns >= SETTLE_NS)
		ask(comm, clock);
	else if (!clock->launched_ns && now_ns >= clock->next_ns)
		launch_round(comm, clock, now_ns);
	return clock->launched_ns ? clock->launched_ns + SETTLE_NS : clock->next_ns;
}

uint64_t device_clock_ns(const struct device_clock *clock, uint64_t ticks)
{
	return clock->fit.error_ns == UINT64_MAX ? clock_now_ns()
						 : clock_fit_ns(&clock->fit, ticks);
}

struct device_clock *device_clock_create(struct belay_comm *comm)
{
	struct device_clock *clock = calloc(1, sizeof(*clock));
	uint64_t deadline = clock_now_ns() + CREATE_WAIT_NS;
	struct gpu_error error = {0};

	if (!clock)
		return NULL;
	clock->fit.error_ns = UINT64_MAX;
	if (gpu_stream_create(&clock->stream, &error)) {
		cause_add(comm->causes, NULL, 0, (int)comm->rank, 0,
			  "no stream to compare clocks on: %s: %s (%d)", error.call, error.text,
			  error.code);
		free(clock);
		return NULL;
	}
	comm->device->clock = clock;
	while (clock->used == 0 && clock_now_ns() < deadline) {
		(void)device_clock_beat(comm, clock_now_ns());
		(void)sched_yield(); /* cannot fail on Linux */
		if (!clock->launched_ns)
			clock->next_ns = 0;
	}
	return clock;
}

void device_clock_free(struct device_clock *clock)
{
	if (!clock)
		return;
	gpu_stream_free(clock->stream);
	free(clock);
}
