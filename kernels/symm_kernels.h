/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the runtime launches: plain C functions over the kernels of the symm path. All but
 * symm_kernels_load() only enqueue work on a stream of the calling thread's current device; they
 * allocate nothing, wait for nothing and may be captured. Each returns 0 or a CUDA error code
 * (cudaError_t), and leaves no error behind in the thread.
 */
#ifndef BELAY_KERNELS_SYMM_KERNELS_H
#define BELAY_KERNELS_SYMM_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/symm_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;

/* How a turn is carried out. The numbers are those of the tuning table, not of belay.h. */
enum symm_algorithm {
	SYMM_ONESHOT_PACKETS = 0, /* LL packets, any dtype; up to layout.packets_bytes */
	SYMM_ONESHOT_WIRE = 1, /* full wire by sentinel: bf16, f16, f32; up to layout.wire_bytes */
	SYMM_TWOSHOT_WIRE = 2, /* both halves pushed by sentinel: bf16, f16, f32 */
	SYMM_TWOSHOT_PULL = 3, /* reduce-scatter pulled from the staged inputs, any dtype */
	SYMM_ISLAND = 4, /* two-shot in each half of the ranks, one exchange between the halves:
			    bf16, f16, f32; an even number of ranks from 4 on */
	SYMM_ALGORITHMS = 5
};

/* Fault injection inside kernels: by turn number's seq, as in BELAY_FAULT. */
struct symm_fault {
	uint64_t first, last, step; /* seqs */
	uint32_t kind;		    /* enum symm_fault_kind */
	uint32_t at;		    /* enum symm_fault_point */
	uint64_t ns;
};
enum symm_fault_kind {
	SYMM_FAULT_DROP = 1, /* staged, nothing leaves */
	SYMM_FAULT_CORRUPT,  /* one bit of the payload that leaves */
	SYMM_FAULT_FLAG,     /* a wrong flag: future, old, all ones, in turn */
	SYMM_FAULT_SIGN,     /* another signature (count, dtype, op, swap) */
	SYMM_FAULT_DELAY,    /* waits ns */
	SYMM_FAULT_ASK,	     /* kill and stop: posts fault_asked and waits for fault_done */
	SYMM_FAULT_STICKY    /* an illegal access: the context is lost */
};
/* The numbers of enum fault_point of the runtime. */
enum symm_fault_point { SYMM_AT_STAGE = 2, SYMM_AT_PUSH = 3, SYMM_AT_WAIT = 4, SYMM_AT_REDUCE = 5 };

/* What is the same for every launch of a communicator. Device pointers, but for `layout`. */
struct symm_comm {
	struct symm_layout layout;
	char *region; /* rank 0's; rank r's at + r * layout.stride */
	struct symm_state *state;
	/* Host memory of the control segment, as the device sees it: own step words (staged,
	 * pushed, results, done: 64 bytes of struct control_rank), own two descriptions, own posts
	 * and orders. */
	uint64_t *steps;
	struct symm_description *descriptions;
	struct symm_posts *posts;
	const struct symm_orders *orders;
	/* Every rank's posts, for the gate of the NCCL path. */
	struct symm_posts *posts_of[SYMM_RANKS_MAX];
	uint32_t rank, nranks;
	uint64_t late_ns; /* soft deadline */
	uint64_t last_ns; /* the kernel's own last deadline: leaves without a result */
	const struct symm_fault *faults; /* device memory */
	uint32_t nfaults;		 /* 0: none armed */
};

/* One turn. */
struct symm_launch {
	const void *send;
	void *recv;
	uint64_t count;		 /* elements of this turn */
	uint64_t call_count;	 /* elements of the call */
	uint64_t signature_base; /* hash of (count, dtype, op); symm_signature() adds pass and place
				  */
	uint64_t ticket; /* to be posted at the end: of an eager call's last launch, from 1. 0: none
			    (captured, or more launches of the call follow) */
	uint32_t turn_of_call, turns_of_call;
	uint8_t dtype, op;    /* as in belay.h */
	uint8_t algorithm;    /* enum symm_algorithm; ignored where it does not apply */
	uint8_t path;	      /* enum belay_path, for the record and the description */
	uint16_t flags;	      /* enum call_flag for the record */
	uint16_t blocks;      /* grid, 1 .. SYMM_BLOCKS_MAX; the same on every rank */
	uint16_t threads;     /* worker threads of a block, a multiple of 32, up to 512 */
	uint8_t programmatic; /* 1: two of these may stand on the device at once (struct
				 launch_shape) */
	uint8_t follows; /* 1: behind another of these on the stream: may come to wait beside it.
			    Behind a kernel that does not let it come, that costs 0.26 us
			    (path-choice.md) */
	uint8_t staged;	 /* 1: one peer after the other is served; for pulled turns: nothing */
};

/* Loads every kernel into the current context, so that no later launch does (lazy loading beside a
 * spinning kernel can deadlock). 0 or a CUDA error; *ret_what names the kernel then. */
int symm_kernels_load(const char **ret_what);

/* An allreduce turn on the symm path. */
int symm_launch_call(const struct symm_comm *comm, const struct symm_launch *launch,
		     struct CUstream_st *stream);

/* A turn that the watchers carry out (ring path, host memory): stages, posts, is at once stuck in
 * phase 4 (gather) and waits to be released. */
int symm_launch_parked(const struct symm_comm *comm, const struct symm_launch *launch,
		       struct CUstream_st *stream);

/* Before and after an ncclAllReduce: takes the number, exchanges signatures over host memory, waits
 * for all ranks (late and mismatch as in a call); then posts `done` and writes the record. The end
 * looks at orders.fail_from first: what NCCL leaves when it is aborted is no result. With
 * `algorithm` = SYMM_GATE_FAILED it stands for an ncclAllReduce that did not get onto the stream:
 * it sets mode.failed (V6) and posts nothing. */
#define SYMM_GATE_FAILED 0xff
int symm_launch_gate(const struct symm_comm *comm, const struct symm_launch *launch,
		     struct CUstream_st *stream);
int symm_launch_gate_end(const struct symm_comm *comm, const struct symm_launch *launch,
			 struct CUstream_st *stream);

/* Pass marks: begin counts the pass and its calls from 0; end posts pass_ended and its seqs. Then
 * the ticket is posted, as by a call; 0: none. */
int symm_launch_pass(const struct symm_comm *comm, int begin, uint64_t ticket,
		     struct CUstream_st *stream);

/* First lines of all blocks: the turn before the first. Slots of the full wire filled with the
 * sentinel, everything else 0. Before the first barrier of creation. */
int symm_launch_init(const struct symm_comm *comm, uint64_t turn_before, uint64_t seq_before,
		     struct CUstream_st *stream);

/* Self-test, in halves with a barrier between: stores a pattern into every peer's region by SM
 * stores; then each owner verifies what the peers wrote. *verdict (device memory, host-readable
 * after the stream) is the first wrong writer, or -1. */
int symm_launch_selftest_write(const struct symm_comm *comm, uint64_t nonce, int spoil,
			       struct CUstream_st *stream);
int symm_launch_selftest_verify(const struct symm_comm *comm, uint64_t nonce, int32_t *verdict,
				struct CUstream_st *stream);

/* Breaker's probe: stores `round` into every peer's region; then counts how many of the peers' are
 * here. */
int symm_launch_probe(const struct symm_comm *comm, uint64_t round, int drop,
		      struct CUstream_st *stream);
int symm_launch_probe_read(const struct symm_comm *comm, uint64_t round, uint32_t *ret_seen,
			   struct CUstream_st *stream);

/* How fast this device reaches its peers, all at once: for `ns` it stores "not here" into its
 * full-wire slots in every peer's region, which stand so, or loads (`pull`) from them. Before the
 * first turn only. Each block says what it has moved, and how long that took until it had arrived,
 * to moved[block] (host memory). */
#define SYMM_LINK_BLOCKS 16
struct symm_moved {
	uint64_t bytes, ns;
};
int symm_launch_link_probe(const struct symm_comm *comm, int pull, uint64_t ns,
			   struct symm_moved *moved, struct CUstream_st *stream);

/* Rescue: reduces `nranks` parts, `part_stride` bytes apart in rank order, into output; adds the
 * output's digest to *digest (device memory). Any alignment of output. */
int symm_launch_reduce(const void *parts, uint64_t part_stride, uint32_t nranks, uint64_t count,
		       int dtype, int op, void *output, uint64_t *digest,
		       struct CUstream_st *stream);

/* Clock calibration: waits (bounded by max_ns) until orders->calibration is `round`, then posts
 * round and ticks as one 16-byte store to posts->calibration. */
int symm_launch_calibrate(const struct symm_comm *comm, uint64_t round, uint64_t max_ns,
			  struct CUstream_st *stream);

#ifdef __cplusplus
}
#endif

#endif /* BELAY_KERNELS_SYMM_KERNELS_H */
