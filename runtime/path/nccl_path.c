/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The NCCL path for device memory: whole calls, of any size, for ranks whose regions are not mapped
 * and for calls too large for a turn.
 *
 *   gate           takes the number; compares signatures and waits for all ranks, over host memory
 *   ncclAllReduce  NCCL's own kernels; or a call of the program's own (watched_call.c)
 *   gate_end       posts `done`, writes the record
 *
 * all on the caller's stream, eager or captured; a call is one turn. Nothing is retained: a call
 * that began on NCCL and fails gets a verdict, never a rescue (S3), and NCCL's kernels are aborted
 * behind it (cuda/nccl_watch.c).
 */
#include "runtime/path/nccl_path.h"

#include <stdio.h>

#include "runtime/cuda/device_enqueue.h"
#include "runtime/cuda/nccl_worker.h"
#include "runtime/cuda/posted_words.h"
#include "runtime/outcome/watcher.h"

#define LAUNCHING "launching the gate of a call on NCCL"

enum fault_kind nccl_gate_fault(struct belay_comm *comm)
{
	if (!faults_armed(&comm->faults))
		return FAULT_NONE;
	/* The host's own count: kernels that a graph replays have numbers that it does not see. */
	return fault_take(&comm->faults, (int)comm->rank, comm->seq + 1, FAULT_AT_STAGE,
			  FAULT_BIT(FAULT_NCCL_HANG) | FAULT_BIT(FAULT_NCCL_ERROR), NULL);
}

int nccl_gate_open(struct belay_comm *comm, const struct call *call)
{
	struct symm_launch launch;
	int code;

	enqueue_describe(comm, call, BELAY_PATH_NCCL, &launch);
	launch.ticket = 0;
	code = symm_launch_gate(&comm->device->symm, &launch, call->stream);
	return code ? enqueue_failed(comm, false, code, LAUNCHING) : 0;
}

int nccl_gate_close(struct belay_comm *comm, const struct call *call, bool came)
{
	struct symm_launch launch;
	int code;

	enqueue_describe(comm, call, BELAY_PATH_NCCL, &launch);
	launch.algorithm = came ? 0 : SYMM_GATE_FAILED;
	code = symm_launch_gate_end(&comm->device->symm, &launch, call->stream);
	return code ? enqueue_failed(comm, true, code, LAUNCHING) : 0;
}

/* Neither can this rank go on nor may a later kernel of its say that the turn is done: the end
 * kernel sees to that on the stream, the watcher to the verdict. */
int nccl_gate_failed(struct belay_comm *comm)
{
	watcher_kick(comm->watcher);
	return BELAY_E_NCCL_FAILED;
}

/* How the middle of the call came onto the stream. */
enum middle { MIDDLE_GOOD = 0, MIDDLE_FAILED, MIDDLE_HANGS };

static enum middle enqueue_middle(struct belay_comm *comm, const struct call *call)
{
	struct nccl_worker *worker = comm->device->nccl;

	switch (nccl_gate_fault(comm)) {
	case FAULT_NCCL_HANG:
		return MIDDLE_HANGS;
	case FAULT_NCCL_ERROR:
		nccl_worker_fail_calls(worker, "ncclAllReduce: error injected");
		return MIDDLE_FAILED;
	default:
		return nccl_worker_allreduce(worker, call->send, call->recv, call->count,
					     call->dtype, call->op, call->stream)
			       ? MIDDLE_FAILED
			       : MIDDLE_GOOD;
	}
}

static int nccl_allreduce(struct belay_comm *comm, struct call *call)
{
	enum middle middle;
	int status = nccl_gate_open(comm, call);

	if (status)
		return status;
	middle = enqueue_middle(comm, call);
	status = nccl_gate_close(comm, call, middle == MIDDLE_GOOD);
	if (status)
		return status;
	return middle == MIDDLE_FAILED ? nccl_gate_failed(comm) : 0;
}

/* Ranks are waited for by the gate alone, which takes nothing back of what it has posted once it is
 * passed: what hangs then is NCCL, not a rank that was late (cuda/nccl_watch.c). */
static bool nccl_is_here(const struct belay_comm *comm, const struct stuck_turn *stuck,
			 unsigned rank)
{
	uint64_t gate = post_load(&comm->control.device[rank].posts.gate[stuck->turn & 1]);

	return gate >> 32 == symm_flag_of(stuck->turn);
}

static int nccl_usable(const struct settings *settings, const char **ret_reason)
{
	(void)settings;
	*ret_reason = "NCCL, found and joined at creation";
	return 1;
}

const struct path nccl_path = {
	.id = BELAY_PATH_NCCL,
	.usable = nccl_usable,
	.allreduce = nccl_allreduce,
	.is_here = nccl_is_here,
};
