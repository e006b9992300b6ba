/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a program that knows NCCL only, for tests of libbelay-nccl: its functions are linked
 * before those of a stub NCCL (tests/support/stub_nccl.c), on a GPU that is played on the CPU.
 */
#ifndef BELAY_TESTS_GROUP_NCCL_CLIENT_H
#define BELAY_TESTS_GROUP_NCCL_CLIENT_H

#include <nccl.h>

#include "tests/support/rank_calls.h"

#define NRANKS 2
#define COUNT  9000

struct client {
	struct rank_seat *seat;
	ncclComm_t comm;
	cudaStream_t stream;
	float *send, *recv; /* COUNT each */
	unsigned made;	    /* inputs are made from it */
	int meetings;
};

/* Sets the environment, and makes stream and buffers. */
void client_open(struct client *client, struct rank_seat *seat);
void client_close(struct client *client);

/* A new communicator of NCCL's, which blocks; or its id, the same on all ranks. */
ncclComm_t client_join(struct client *client);
ncclUniqueId client_share_id(struct client *client);

/* Asks until NCCL says something else than `told`, 10 s at most; what it says then. */
ncclResult_t client_await_other(struct client *client, ncclComm_t comm, ncclResult_t told);
/* Until there is an error, which is to be ncclRemoteError. */
void client_await_verdict(struct client *client);
/* One that does not block, or does, by ncclCommInitRankConfig(), once it is ready. */
ncclComm_t client_join_by_config(struct client *client, bool blocking);

/* The inputs of the next sum, and whether it is right. */
void client_fill(struct client *client);
bool client_has_sum(const struct client *client);
ncclResult_t client_all_reduce(struct client *client, ncclComm_t comm, cudaStream_t stream);
/* All of it, waited for and looked at. */
void client_whole_call(struct client *client, ncclComm_t comm, cudaStream_t stream);

/* Calls that belay has recorded on a communicator, once there are as many as `wanted`; -1: it has
 * no twin. */
long client_belays_calls(ncclComm_t comm, long wanted);

void client_run(rank_scenario scenario, const void *plan, struct rank_group *ret_group);

#endif /* BELAY_TESTS_GROUP_NCCL_CLIENT_H */
