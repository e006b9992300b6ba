/* SPDX-License-Identifier: Apache-2.0 */
/* Allreduces of NCCL's as belay's. */
#ifndef BELAY_RUNTIME_NCCL_CALLS_H
#define BELAY_RUNTIME_NCCL_CALLS_H

#include <stdint.h>

#include "runtime/nccl/group.h"

/* Fills dtype and op. False: belay has none such, or the twin only watches, and the call is NCCL's.
 * The same on all ranks, as the arguments are. */
bool calls_translate(ncclDataType_t dtype, ncclRedOp_t op, struct group_call *call);

/* What an allreduce is recorded as. */
enum belay_op calls_allreduce_op(ncclRedOp_t op);

/* Enqueues it; NCCL's result, with the text in last_error.h. While another stream has work of the
 * communicator to do it waits for that: NCCL, too, has streams take turns. */
ncclResult_t calls_enqueue(const struct group_call *call);

/* The program has destroyed its communicator since: it is not to be made. The text stands in
 * last_error.h then. */
bool calls_have_ended(const struct group_call *call);

/* CLOCK_MONOTONIC, ns. */
uint64_t calls_now_ns(void);

/* A call that another stream's turn keeps waiting; zero at first. */
struct turn_wait {
	uint64_t until_ns;
	unsigned at_rest; /* attempts that were refused though nothing was under way */
	bool no_turn;	  /* so often that none will come: the calls before it stand in a capture
			     on another stream */
};

/* After BELAY_E_BUSY: waits a little, true: try again. False: no turn comes; or none has come
 * within the longest deadline, which what goes before has met. */
bool calls_await_turn(const struct twin *twin, struct turn_wait *wait);

/* What a status of belay's is to NCCL's users, with the text in last_error.h. */
ncclResult_t calls_result(const struct twin *twin, const char *function, int status);

#endif /* BELAY_RUNTIME_NCCL_CALLS_H */
