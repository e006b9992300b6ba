/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of a turn, as docs/cuda-path.md has them, step by step on the CPU: what the roles of
 * a block share, and where things stand in the regions.
 */
#ifndef BELAY_TESTS_CPU_GPU_CALL_H
#define BELAY_TESTS_CPU_GPU_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/symm_kernels.h"
#include "tests/support/cpu_gpu_inside.h"

enum turn_kind { TURN_CALL, TURN_PARKED, TURN_GATE, TURN_GATE_END };

/* What a launch carries: the kernel's parameters. */
struct turn_arguments {
	struct symm_comm comm;
	struct symm_launch launch;
	enum turn_kind kind;
};

/* The numbers of a turn, from the line that the kernel before has left. */
struct turn_numbers {
	uint64_t turn, seq;
	uint64_t pass;	/* 0: outside any pass */
	uint32_t index; /* of the call */
	uint32_t flag, signature;
	unsigned parity;
};

enum worker_step {
	WORKER_STAGE,	/* input to the retained copy and, in pushing algorithms, to the peers */
	WORKER_PUSH,	/* the second half of it, where a fault stands between the two */
	WORKER_REDUCE,	/* waits for the peers' inputs, reduces the own part */
	WORKER_COLLECT, /* two-shot: takes the others' results */
	WORKER_PARKED,	/* the watchers do the rest */
	WORKER_FINISHED,
	WORKER_LEFT /* told to leave before it had finished */
};

enum clerk_step { CLERK_STAGED, CLERK_RESULTS, CLERK_ENDED };
enum gate_step { GATE_ENTRY, GATE_HEADERS, GATE_POLL, GATE_HOLD, GATE_ENDED };

/* A block: the shared memory of its three roles. */
struct block {
	unsigned b;
	struct turn_numbers at;
	uint8_t algorithm; /* of this turn, after the mode word */
	bool clears;	   /* the slots of this parity may hold leftovers */
	uint64_t start;	   /* ticks */
	/* What the roles tell each other. */
	bool leave;	     /* gate to workers */
	bool verified;	     /* gate to workers: all headers are here and equal */
	bool staged;	     /* workers to clerk and gate: barrier 1 */
	bool results;	     /* workers to clerk: all results of this block are pushed */
	bool counted;	     /* clerk to workers: what has been staged is vouched for */
	uint32_t step, told; /* clerk to gate: how far it has come; what of it is posted */
	uint64_t polled;     /* workers to gate: ranks whose data is not here */
	/* Workers. */
	enum worker_step work;
	uint32_t slice;
	uint64_t unit;
	uint64_t digest;
	/* Clerk. */
	enum clerk_step clerk;
	/* Gate. */
	enum gate_step gate;
	uint64_t arrived; /* ranks whose header is here */
	bool mismatch;
	bool late; /* past the soft deadline */
	bool owner;
	uint64_t posted_stuck, posted_missing;
	/* For the record, of block 0. */
	uint64_t missing;
	uint32_t staged_ticks, arrival[SYMM_RANKS_MAX];
	unsigned pause; /* steps to be left out */
};

/* One execution of a launch. */
struct turn_run {
	const struct turn_arguments *arguments;
	uint64_t random;
	unsigned ended; /* blocks */
	struct faults_due {
		bool drop, corrupt, flag, sign;
		uint32_t act_at; /* enum symm_fault_point of an act (delay, ask, sticky); 0: none */
		const struct symm_fault *act;
		uint64_t since; /* when the act began, ticks; 0: not begun */
		bool acted;
	} fault;
	bool ready;
	struct block block[SYMM_BLOCKS_MAX];
};

/* ---- data of a block (cpu_gpu_data.c) ------------------------------------------------------- */

/* One step of the workers in WORKER_STAGE, PUSH, REDUCE or COLLECT. True: something was done. */
bool data_stage(struct turn_run *run, struct block *block, bool push);
bool data_push(struct turn_run *run, struct block *block);
bool data_reduce(struct turn_run *run, struct block *block);
bool data_collect(struct turn_run *run, struct block *block);
/* The flag that leaves: of a turn with kind=flag future, old and all ones, in turn. */
uint32_t data_flag(const struct turn_run *run, const struct block *block);
/* Fills the block's part of the own slots of this parity with the sentinel. */
void data_clear(struct turn_run *run, const struct block *block);
/* The clerk's scrubbing, R5. */
void data_scrub(struct turn_run *run, const struct block *block);
/* Bytes of the turn. */
uint64_t data_bytes(const struct turn_arguments *arguments);

static inline bool pushes(uint8_t algorithm)
{
	return algorithm != SYMM_TWOSHOT_PULL;
}

static inline bool two_shot(uint8_t algorithm)
{
	return algorithm == SYMM_TWOSHOT_WIRE || algorithm == SYMM_TWOSHOT_PULL ||
	       algorithm == SYMM_ISLAND;
}

static inline char *region_of_rank(const struct symm_comm *comm, uint32_t rank)
{
	return comm->region + rank * comm->layout.stride;
}

/* Words by parity, block and sender. */
static inline uint64_t *header_at(const struct symm_comm *comm, uint32_t rank, unsigned parity,
				  unsigned b, uint32_t sender)
{
	uint64_t *headers = (uint64_t *)(region_of_rank(comm, rank) + comm->layout.headers);

	return &headers[((size_t)parity * SYMM_BLOCKS_MAX + b) * SYMM_RANKS_MAX + sender];
}

static inline uint64_t *results_ready_at(const struct symm_comm *comm, uint32_t rank,
					 unsigned parity, unsigned b, uint32_t owner)
{
	uint64_t *ready = (uint64_t *)(region_of_rank(comm, rank) + comm->layout.results_ready);

	return &ready[((size_t)parity * SYMM_BLOCKS_MAX + b) * SYMM_RANKS_MAX + owner];
}

#endif /* BELAY_TESTS_CPU_GPU_CALL_H */
