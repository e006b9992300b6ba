/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rescue's parts over NCCL: each rank's watcher copies its retained input behind a tag,
 * all-gathers both, and checks every tag before anything is made of the parts (R1); then the
 * rank-order kernel writes the output. On the watcher's and the NCCL worker's streams. Watcher
 * only.
 *
 *   From       Event                                       To        [function]
 *   IDLE       an attempt over NCCL                        GATHERING [device_gather_begin]
 *   GATHERING  NCCL is done, and all tags are right        READY     [device_gather_look]
 *   GATHERING  NCCL failed or its time is over; a wrong    FAILED    [device_gather_look]
 *              tag: the ranks' gathers are out of step
 *   any        given up                                    IDLE      [device_gather_cancel]
 *
 * NCCL pairs collectives by their order alone. So every member of an attempt takes part in its
 * gather, also when it does not need it any more; and should a watcher have missed one all the
 * same, the tags tell.
 */
#ifndef BELAY_RUNTIME_CUDA_DEVICE_GATHER_H
#define BELAY_RUNTIME_CUDA_DEVICE_GATHER_H

#include <stdbool.h>
#include <stdint.h>

struct belay_comm;

/* What a part says of itself. */
struct gather_tag {
	uint64_t word;	/* the rescue word */
	uint64_t bytes; /* of the turn's input */
	uint32_t signature;
	uint32_t rank;
	uint64_t reserved[5];
};

enum gather_state { GATHER_IDLE = 0, GATHER_GATHERING, GATHER_READY, GATHER_FAILED };

struct device_gather {
	enum gather_state state;
	struct gather_tag tag; /* the own one */
	uint64_t turn;
	uint64_t deadline_ns;
	uint64_t stride; /* from part to part */
	uint64_t took_ns; /* READY: NCCL's own time */
};

/* Gives this rank's part; `over`: only to keep step, its retained input may be another turn's by
 * now. On failure the state is FAILED. */
void device_gather_begin(struct belay_comm *comm, struct device_gather *gather, uint64_t turn,
			 const struct gather_tag *tag, bool over);

/* The state now. */
enum gather_state device_gather_look(struct belay_comm *comm, struct device_gather *gather,
				     uint64_t now_ns);

/* READY: reduces all parts into output (device memory) and waits for it. 0 and the output's digest,
 * or -1. */
int device_gather_write(struct belay_comm *comm, const struct device_gather *gather, uint64_t count,
			int dtype, int op, void *output, uint64_t *ret_digest);

void device_gather_cancel(struct belay_comm *comm, struct device_gather *gather);

#endif /* BELAY_RUNTIME_CUDA_DEVICE_GATHER_H */
