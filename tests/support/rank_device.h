/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What ranks of scenarios do on device memory, on the GPU played on the CPU (cpu_gpu.h): calls of
 * any type and alignment, eager and replayed, whose every byte is compared with host_sum().
 */
#ifndef BELAY_TESTS_RANK_DEVICE_H
#define BELAY_TESTS_RANK_DEVICE_H

#include "tests/support/cpu_gpu.h"
#include "tests/support/rank_group.h"

/* One call and its memory: input and output with guards around them. */
struct device_call {
	size_t count;
	int dtype, op;
	size_t send_shift, recv_shift; /* bytes off alignment */
	bool in_place;
	/* device_call_prepare() */
	char *memory, *send, *recv;
	size_t bytes;
	uint64_t number; /* inputs follow from it and the rank; the same on all ranks */
};

/* Creates a communicator from ids[id_index] on seat->config.device, "0" when that is NULL, over
 * seat->config.paths, "symm,ring" when NULL. Its status. */
int device_create(struct rank_seat *seat, int id_index);

/* Takes the memory of a call (count, dtype, ... are given) and fills in what its inputs are. */
void device_call_prepare(struct rank_seat *seat, struct device_call *call);
/* New inputs, spoilt outputs. Nothing may be running on the memory. */
void device_call_fill(struct rank_seat *seat, struct device_call *call, uint64_t number);
/* belay_allreduce() on the seat's communicator; notes a failure. True: 0 was returned. */
bool device_call_enqueue(struct rank_seat *seat, const struct device_call *call,
			 struct CUstream_st *stream);
/* Once the stream is done: output, guards and, out of place, input are as they must be. */
void device_call_check(struct rank_seat *seat, const struct device_call *call);
void device_call_free(struct device_call *call);

/* All of it with one call, and waits for it. */
bool device_call(struct rank_seat *seat, struct device_call call, struct CUstream_st *stream);

/* A random call of at most bytes_max, from a state that all ranks have alike. */
struct device_call device_call_random(uint64_t *random, size_t bytes_max);

/* Ends the default stream; complains of anything of the GPU that is left. */
void device_expect_nothing_left(struct rank_seat *seat);

#endif /* BELAY_TESTS_RANK_DEVICE_H */
