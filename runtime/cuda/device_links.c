/* SPDX-License-Identifier: Apache-2.0 */
/* How fast this rank's device reaches its peers; see device.h. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "runtime/clock.h"
#include "runtime/cuda/device_inside.h"
#include "runtime/cuda/device_topology.h"

/* Of pushing and of pulling: long beside the microseconds by which ranks leave a barrier apart. */
#define PROBE_NS (5 * NS_PER_MS)
/* What an injected fault makes of pushes. */
#define SLOWED_BY 100

bool device_asks_link_probe(const struct belay_comm *comm)
{
	return topology_asks_probe(comm->control.device, comm->nranks);
}

/* Bytes per ms of all blocks together; at least 1. */
static uint64_t rate_of(const struct symm_moved moved[SYMM_LINK_BLOCKS])
{
	uint64_t bytes = 0, ns = 1;

	for (unsigned b = 0; b < SYMM_LINK_BLOCKS; b++) {
		bytes += moved[b].bytes;
		ns = moved[b].ns > ns ? moved[b].ns : ns;
	}
	return bytes * NS_PER_MS / ns + 1;
}

static int run_probe(struct belay_comm *comm, bool pull, uint64_t *ret_rate)
{
	struct device *device = comm->device;
	struct symm_moved *moved = device->answers->moved;
	struct gpu_error error = {.call = ""};
	struct device_visit visit;
	int status = device_visit_begin(device->ordinal, &visit, &error);

	if (status)
		return status;
	status = symm_launch_link_probe(&device->symm, pull, PROBE_NS, moved, device->stream);
	if (status == 0)
		status = device_settle(device, &error);
	if (status == 0)
		*ret_rate = rate_of(moved);
	device_visit_end(&visit);
	return status;
}

void device_probe_links(struct belay_comm *comm, bool pull, bool slow)
{
	struct control_facts *told = &comm->control.device[comm->rank].facts;
	uint64_t rate = 0;

	/* Of no region, or a device that fails: the paths' matter. */
	if (!comm->device->shared || run_probe(comm, pull, &rate))
		return;
	if (pull)
		told->pull_rate = rate;
	else
		told->push_rate = slow ? rate / SLOWED_BY + 1 : rate;
}

void device_describe_links(const struct belay_comm *comm, char *text, size_t size)
{
	const struct control_device *devices = comm->control.device;
	uint64_t push = UINT64_MAX, pull = UINT64_MAX;

	text[0] = '\0';
	for (uint32_t r = 0; r < comm->nranks; r++) {
		push = devices[r].facts.push_rate < push ? devices[r].facts.push_rate : push;
		pull = devices[r].facts.pull_rate < pull ? devices[r].facts.pull_rate : pull;
	}
	if (push == 0 || pull == 0)
		return;
	snprintf(text, size, "pushes %" PRIu64 " MB/s, pulls %" PRIu64 " MB/s%s", push / 1000,
		 pull / 1000, comm->device->table.pulls ? ": twoshot-pull" : "");
}
