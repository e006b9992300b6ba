/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher's look at the device side of a communicator; see device.h. */
#include "runtime/clock.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/cuda/device_clock.h"
#include "runtime/cuda/device_records.h"
#include "runtime/cuda/nccl_watch.h"
#include "runtime/cuda/nccl_worker.h"

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* How soon to look again whether an abort is over. */
#define ABORT_POLL_NS NS_PER_MS

bool device_is_held(const struct belay_comm *comm)
{
	return nccl_worker_aborts(comm->device->nccl, clock_now_ns());
}

uint64_t device_watch(struct belay_comm *comm, uint64_t now_ns, bool in_rescue, bool stuck)
{
	uint64_t again = device_calls_watch(comm, now_ns);

	nccl_worker_note_rescue(comm->device->nccl, in_rescue);
	again = sooner(again, nccl_watch_calls(comm, now_ns));
	if (device_is_held(comm))
		return sooner(again, now_ns + ABORT_POLL_NS);
	if (stuck)
		return again;
	again = sooner(again, device_records_drain(comm, now_ns));
	return sooner(again, device_clock_beat(comm, now_ns));
}
