/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The symm path: kernels that store into the peers' memory. The calling thread only launches them;
 * staging, pushing, waiting, reducing and posting are theirs (docs/cuda-path.md).
 */
#include "runtime/cuda/device_enqueue.h"
#include "runtime/path/path.h"

static int symm_allreduce(struct belay_comm *comm, struct call *call)
{
	return enqueue_turns(comm, call, BELAY_PATH_SYMM, symm_launch_call,
			     "launching an allreduce");
}

/* Kernels see for themselves, and at once: nothing is here behind their backs. */
static bool symm_is_here(const struct belay_comm *comm, const struct stuck_turn *stuck,
			 unsigned rank)
{
	(void)comm;
	(void)stuck;
	(void)rank;
	return false;
}

static int symm_usable(const struct settings *settings, const char **ret_reason)
{
	(void)settings;
	*ret_reason = "device memory that all ranks have mapped";
	return 1;
}

const struct path symm_path = {
	.id = BELAY_PATH_SYMM,
	.usable = symm_usable,
	.allreduce = symm_allreduce,
	.is_here = symm_is_here,
};
