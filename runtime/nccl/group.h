/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread has begun between ncclGroupStart() and the outermost ncclGroupEnd(): communicators
 * that NCCL makes then, and calls for belay to carry out or to watch, which begin then too. These
 * are enqueued behind what NCCL makes of the group, in the order of their communicators' ids, that
 * is, alike on all ranks, whatever the order in which each has asked for them.
 */
#ifndef BELAY_RUNTIME_NCCL_GROUP_H
#define BELAY_RUNTIME_NCCL_GROUP_H

#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#include "runtime/nccl/twin.h"

struct group_call {
	struct twin *twin; /* held */
	const void *send;
	void *recv;
	size_t count;
	enum belay_dtype dtype;
	enum belay_op op;
	cudaStream_t stream;
	/* Of a call that stays NCCL's; `count` is the function's own parameter. */
	bool watched;
	ncclDataType_t nccl_dtype;
	ncclRedOp_t nccl_op;
	int root;
	ncclResult_t refused; /* not ncclSuccess: what it returns, in place of being made */
	bool begun;	      /* group.c's */
	size_t place;	      /* in its group */
};

void group_start(void);
/* The calling thread is in a group. */
bool group_is_open(void);

/* NCCL will have stored `ncomms` handles (or NULL) at `comms` by the end of the group. False: out
 * of memory. */
bool group_add_comms(const ncclComm_t *comms, int ncomms);
/* Takes over the call and its hold of the twin. False: out of memory, and nothing was taken over.
 */
bool group_add_call(const struct group_call *call);

/* A call of the calling thread's group, if there is one, has been refused: ncclGroupEnd() says so,
 * and makes what else is in it, which peers may wait for. */
void group_refuse(ncclResult_t result);

/* The communicator is about to be destroyed: its calls in the calling thread's group never begin,
 * and hold it no longer. */
void group_drop_calls(ncclComm_t comm);

/* ncclGroupEnd() has returned `result`: at the outermost end carries out what has been added, or
 * throws it away after an error. The group's result. */
ncclResult_t group_end(ncclResult_t result);

#endif /* BELAY_RUNTIME_NCCL_GROUP_H */
