/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring path for device memory: each kernel stages its input and parks, stuck from the start;
 * the watchers gather the inputs over Unix sockets, reduce them, write the output and release it,
 * as in a rescue.
 */
#include "runtime/cuda/device_enqueue.h"
#include "runtime/path/path.h"

static int parked_allreduce(struct belay_comm *comm, struct call *call)
{
	return enqueue_turns(comm, call, BELAY_PATH_RING, symm_launch_parked,
			     "launching an allreduce of the ring path");
}

/* The watchers themselves bring it: nothing can be here behind their backs. */
static bool parked_is_here(const struct belay_comm *comm, const struct stuck_turn *stuck,
			   unsigned rank)
{
	(void)comm;
	(void)stuck;
	(void)rank;
	return false;
}

static int parked_usable(const struct settings *settings, const char **ret_reason)
{
	(void)settings;
	*ret_reason = "Unix sockets of this host, the GPU's input copied to the host";
	return 1;
}

const struct path parked_path = {
	.id = BELAY_PATH_RING,
	.usable = parked_usable,
	.allreduce = parked_allreduce,
	.is_here = parked_is_here,
};
