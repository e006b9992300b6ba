/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring path: the last resort. The calling thread stages its input as on every path; the
 * watchers gather the inputs over Unix sockets and reduce them in rank order, which is just what a
 * rescue does (outcome/rescue.c). So there is one implementation, and it gives the same bits.
 */
#include "kernels/host_sum.h"
#include "runtime/clock.h"
#include "runtime/path/path.h"
#include "runtime/wait.h"

static bool never(struct belay_comm *comm, struct wait *wait, unsigned rank)
{
	(void)comm;
	(void)wait;
	(void)rank;
	return false;
}

/* A communicator of one has nobody to gather from. */
static uint64_t reduce_alone(const struct call *call, const char *input, char *output, size_t bytes)
{
	const void *sources[1] = {input};
	void *destinations[1] = {output};

	return host_sum(&(struct host_sum_job){
		.sources = sources,
		.nsources = 1,
		.destinations = destinations,
		.ndestinations = 1,
		.count = bytes / call->element_bytes,
		.dtype = call->dtype,
		.op = call->op,
	});
}

static int gather(struct belay_comm *comm, struct call *call, uint64_t turn, char *output,
		  size_t bytes)
{
	struct wait wait = {
		.stuck = {.phase = WAIT_GATHER,
			  .turn = turn,
			  .seq = call->seq,
			  .pass = call->pass,
			  .missing = comm_others(comm),
			  .output = output,
			  .count = bytes / call->element_bytes,
			  .dtype = call->dtype,
			  .op = call->op},
		.arrived = never,
		.start_ns = call->record->start_ns,
	};
	enum wait_outcome outcome = wait_for_ranks(comm, &wait);

	path_note_wait(comm, call, &wait);
	if (outcome != WAIT_RESCUED)
		return comm_fail(comm);
	call->record->digest += wait.digest;
	return 0;
}

static int ring_allreduce(struct belay_comm *comm, struct call *call)
{
	size_t slot = comm->turn_bytes, bytes = call->count * call->element_bytes;
	uint64_t turns = call_turns(bytes, slot);
	int status = 0;

	call->last_turn = comm->turn + turns;
	call->record->digest = 0;
	for (uint64_t i = 0; i < turns && status == 0; i++) {
		const char *input = (const char *)call->send + i * slot;
		char *output = (char *)call->recv + i * slot;
		size_t length = bytes - i * slot < slot ? bytes - i * slot : slot;
		uint64_t turn = ++comm->turn;

		path_stage(comm, call, turn, input, length);
		atomic_store_explicit(&comm->own->pushed, turn, memory_order_release);
		if (comm->nranks == 1)
			call->record->digest += reduce_alone(call, input, output, length);
		else
			status = gather(comm, call, turn, output, length);
		if (status == 0)
			path_done(comm, turn);
	}
	call->record->algorithm = BELAY_ALGORITHM_GATHER;
	if (status == 0)
		call->record->flags |= CALL_DIGEST;
	return status;
}

/* The watchers themselves bring it: nothing can be here behind their backs. */
static bool ring_is_here(const struct belay_comm *comm, const struct stuck_turn *stuck,
			 unsigned rank)
{
	(void)comm;
	(void)stuck;
	(void)rank;
	return false;
}

static int ring_usable(const struct settings *settings, const char **ret_reason)
{
	(void)settings;
	*ret_reason = "Unix sockets of this host";
	return 1;
}

const struct path ring_path = {
	.id = BELAY_PATH_RING,
	.usable = ring_usable,
	.allreduce = ring_allreduce,
	.is_here = ring_is_here,
};
