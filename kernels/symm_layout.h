/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the symm path's kernels share with peers, with later kernels of the same rank and
 * with the host: plain C, read by the kernels (CUDA C) and by the runtime (C11). docs/cuda-path.md
 * tells how it is used; the numbers of rules (P1, R5, ...) are those of docs/protocol.md.
 *
 *   region (device memory, all ranks' mapped in rank order at one stride)
 *     head      headers by parity, block, sender; block words of staging; self-test lines
 *     packets   LL slots: by parity, sender, packet
 *     wire      full-wire one-shot slots: by parity, sender; or islands' results and sums
 *     inputs    full-wire two-shot slots: by parity, sender (a slice each)
 *     results   full-wire two-shot results: by parity, owner (a slice each)
 *     retained  the own input as it was: by parity; what peers pull and what a rescue gathers
 *   state (device memory, the rank's own)    lines, mode, counters, ring of records
 *   posts, orders (host memory, mapped)      kernel to host, host to a kernel that is stuck
 */
#ifndef BELAY_KERNELS_SYMM_LAYOUT_H
#define BELAY_KERNELS_SYMM_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SYMM_RANKS_MAX	16
#define SYMM_BLOCKS_MAX 256
#define SYMM_FAULTS_MAX 16

/* Computed alike on both sides. */
#ifdef __CUDACC__
#define SYMM_BOTH_SIDES static __host__ __device__ inline
#else
#define SYMM_BOTH_SIDES static inline
#endif

/* R5: a flag is never 0, and only equality counts. The same rule as region_flag(). */
SYMM_BOTH_SIDES uint32_t symm_flag_of(uint64_t turn)
{
	return (uint32_t)(turn % UINT32_MAX + 1);
}

/* A step of the hash behind signatures. */
SYMM_BOTH_SIDES uint64_t symm_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9fb21c651e98df25);
	return hash ^ hash >> 29;
}

/* M1: `base` is the hash of (count, dtype, op), call_signature_base() of the runtime; pass and
 * place come in last, since on a device only the kernel knows them. */
SYMM_BOTH_SIDES uint32_t symm_signature(uint64_t base, uint64_t pass, uint32_t index)
{
	uint64_t hash = symm_mix(symm_mix(base, pass), index);

	return (uint32_t)(hash ^ hash >> 32);
}

/* ---- block words: what one block says of one turn -------------------------------------------- */

/* How far a block has come: the steps of P1, then how it left. A block may skip steps. */
enum symm_block_state {
	SYMM_BLOCK_STAGED = 0,	 /* its part of the input stands whole in the retained copy */
	SYMM_BLOCK_PUSHED = 1,	 /* and has been sent to all peers */
	SYMM_BLOCK_RESULTS = 2,	 /* two-shot: its results too, or never will be */
	SYMM_BLOCK_DONE = 3,	 /* left, its part of the output is written */
	SYMM_BLOCK_ABANDONED = 4 /* left without (R2) */
};

/* turn << 11 | (blocks of the grid - 1) << 3 | state. A word of a block only grows. */
#define SYMM_BLOCK_WORD(turn, blocks, state)                                                       \
	((uint64_t)(turn) << 11 | (uint64_t)((blocks)-1) << 3 | (uint64_t)(state))
#define SYMM_BLOCK_TURN(word)	((uint64_t)(word) >> 11)
#define SYMM_BLOCK_BLOCKS(word) ((uint32_t)((word) >> 3 & 0xff) + 1)
#define SYMM_BLOCK_STATE(word)	((uint32_t)((word)&7))

/* ---- region ---------------------------------------------------------------------------------- */

/* Offsets in one rank's stride, bytes; the same on every rank; none depends on a call's size. */
struct symm_layout {
	uint64_t stride; /* from one rank's region to the next */
	uint64_t
		headers; /* uint64_t [2][SYMM_BLOCKS_MAX][SYMM_RANKS_MAX]: flag << 32 | signature */
	uint64_t block_staged;	/* uint64_t [2][SYMM_BLOCKS_MAX]: block words, for P3 */
	uint64_t results_ready; /* uint64_t [2][SYMM_BLOCKS_MAX][SYMM_RANKS_MAX]: flags of pull
				   variants */
	uint64_t selftest;	/* SYMM_SELFTEST_BYTES for each writer */
	uint64_t probe;	  /* uint64_t [SYMM_RANKS_MAX]: round of the breaker's probe, by writer */
	uint64_t packets; /* 16-byte packets of 8 data bytes */
	uint64_t packets_bytes;	  /* largest call in packets, bytes of data */
	uint64_t wire;		  /* one-shot, 16 data bytes a packet */
	uint64_t wire_bytes;	  /* largest call one-shot on the full wire */
	uint64_t inputs, results; /* two-shot */
	uint64_t slice_bytes;	  /* largest slice of a two-shot call; a multiple of 16 */
	uint64_t retained;	  /* [2], symm_bytes apart */
	uint64_t symm_bytes;	  /* largest turn; a multiple of 256 */
};

#define SYMM_SELFTEST_BYTES 4096u

/* Lays a region out. packets_bytes and wire_bytes are chosen here from nranks. symm_bytes is
 * rounded up. */
void symm_layout_make(uint32_t nranks, uint64_t symm_bytes, struct symm_layout *ret_layout);

/* Whether turns of any size have room to go by islands: an even number of ranks from 4 on, and in
 * the slots of one parity of `wire` a slice, of two ranks' size, for each rank of a half, and the
 * sums of one in float32: island.cuh. */
SYMM_BOTH_SIDES bool symm_layout_has_islands(const struct symm_layout *layout, uint32_t nranks)
{
	return nranks >= 4 && nranks % 2 == 0 &&
	       (nranks + 4) * layout->slice_bytes <= nranks * layout->wire_bytes;
}

/* ---- state: device memory of the rank -------------------------------------------------------- */

/* What a block knows at entry: written by the kernel before, for every block of any grid (a block
 * that takes part writes lines b, b + grid, ...), so that no counter needs an atomic. */
struct symm_line {
	uint64_t turn;	/* last turn taken */
	uint64_t seq;	/* last call taken */
	uint64_t pass;	/* last pass begun */
	uint32_t index; /* place of the next call in the open pass */
	uint32_t open;	/* 1: a pass is open */
};

/* Nor is this + 2 a turn. */
#define SYMM_NO_TURN (UINT64_MAX / 2)

/* The mode word for captured kernels; read by every block at entry. */
struct symm_mode {
	/* By parity: a turn that some rank has abandoned (SYMM_NO_TURN: none so far); its full-wire
	 * slots may hold leftovers. The
	 * turn two later is pulled, with results by flags, on every rank, and each rank clears its
	 * own slots in it once all headers are there. Written by the watcher before its part in
	 * that turn's rescue, so that every rank has it before anyone can begin two turns later. */
	uint64_t dirty[2];
	uint64_t hasty; /* 1: the breaker is open: ask for the rescue at once instead of at the soft
			   deadline */
	uint64_t
		failed; /* V6: turn that ended without a result here; sticky. Written by kernels. */
};

/* A call as the device ring keeps it. Times in ticks of the GPU clock, see symm_clock. */
struct symm_record {
	uint64_t turn; /* written first and last: both ends must agree */
	uint64_t seq, pass, count;
	uint64_t last_turn;
	uint64_t start;		   /* ticks */
	uint32_t staged, duration; /* ticks after start */
	uint32_t index;
	uint32_t signature;
	uint16_t flags; /* enum call_flag: in place, graph */
	uint8_t dtype, op, path, algorithm;
	uint16_t blocks;
	uint64_t missing;		  /* ranks not arrived at the soft deadline */
	uint32_t arrival[SYMM_RANKS_MAX]; /* ticks after start; UINT32_MAX: not seen */
	uint8_t reserved[104];
	uint64_t turn_again;
};

#define SYMM_RING_RECORDS 16384u /* a power of two; by turn */

/* A turn's digest in parts, by block and worker warp; by parity of the turn. See digest_parts.cuh.
 */
#define SYMM_WARPS_MAX 16
struct symm_parts {
	uint64_t turn; /* whose parts these are */
	uint32_t blocks, warps;
	uint64_t digest[SYMM_BLOCKS_MAX][SYMM_WARPS_MAX];
};

/* Counters and the ring. Zero at creation but for the lines. */
struct symm_state {
	struct symm_line line[SYMM_BLOCKS_MAX];
	struct symm_mode mode;
	struct symm_parts parts[2];
	uint64_t stuck_owner; /* turn << 10 | block + 1 that speaks for the stuck kernel; 0: none */
	uint64_t holder; /* turn whose holder (the block that waits for the release) is chosen */
	uint64_t scratch[4];
	/* By turn: sum of the output's words; stands once a later turn is done. */
	uint64_t digest[SYMM_RING_RECORDS];
	struct symm_record ring[SYMM_RING_RECORDS];
};

/* ---- posts and orders: host memory, mapped ----------------------------------------------------
 */

/* What kernels tell the host, by relaxed system-scope stores. One writer each. Hints, never proof
 * of data (P2). */
struct symm_posts {
	/* Block words. DONE or ABANDONED as a block leaves; how far it has come before that only
	 * where it waits for long (P1). */
	uint64_t block[SYMM_BLOCKS_MAX];
	/* By the block that owns `stuck_owner`: turn << 3 | phase (enum wait_phase: 1 inputs, 2
	 * results, 4 gather), and ranks missing. One 16-byte store. */
	uint64_t stuck, missing;
	uint64_t mismatch; /* turn << 8 | rank whose header differs */
	uint64_t gave_up;  /* turn that a kernel left by its own last deadline: nobody answered */
	uint64_t fault_asked; /* turn << 8 | fault point: act, then say so in `fault_done` */
	uint64_t pass_begun;  /* passes begun and ended, as the marks were carried out */
	/* The last ticket given to a launch that has been reached, and the turn with which it ends:
	 * one 16-byte store. Block 0 posts it when it has done its own part, so the ticket counts
	 * once that turn is done (device_ended()). A mark's turn is the last before it. */
	uint64_t ticket, ticket_turn;
	uint64_t pass_ended;
	uint64_t pass_first_seq, pass_last_seq,
		pass_last_turn;	 /* of pass_ended; stored before it */
	uint64_t gate[2];	 /* by parity: flag << 32 | signature of a call on the NCCL path */
	uint64_t calibration[2]; /* round, ticks: one 16-byte store; see symm_launch_calibrate() */
	/* Where the output of the stuck turn begins (symm_launch.recv), and that turn: one 16-byte
	 * store by each new owner of `stuck_owner`, then a system-scope fence, then its first
	 * `stuck`. A rescue writes there, so here the order counts: contract [POSTS]. */
	uint64_t output, output_turn;
	uint64_t
		pass_failed; /* 1: an end mark was reached in a communicator that has failed (V6) */
	uint64_t spare[5];
};

/* What the watcher tells a kernel that is stuck; never read by one that is on time. */
struct symm_orders {
	uint64_t abandon;     /* turn to be left to the watcher (R2) */
	uint64_t fail_from;   /* turns from here on have failed: leave without a result; 0: none */
	uint64_t released;    /* turn << 1 | 1: output written; turn << 1: no result */
	uint64_t fault_done;  /* answers `fault_asked` */
	uint64_t calibration; /* round */
	uint64_t reserved[3];
};

/* The call's description, as struct control_call of the runtime (its layout is asserted there). */
struct symm_description {
	uint64_t seq, count, pass, last_turn;
	uint32_t index, signature;
	uint8_t dtype, op, path, reserved[5];
};

#ifndef __cplusplus
_Static_assert(sizeof(struct symm_record) == 256, "a warp writes a record in one go");
_Static_assert(offsetof(struct symm_state, parts) % 16 == 0 && sizeof(struct symm_parts) % 16 == 0,
	       "their heads are stored 16 bytes at once");
_Static_assert(sizeof(struct symm_line) == 32, "a block loads its line at once");
_Static_assert(sizeof(struct symm_description) == 48, "three stores of 16 bytes");
_Static_assert(sizeof(struct symm_posts) % 64 == 0, "whole lines");
_Static_assert(offsetof(struct symm_posts, stuck) % 16 == 0, "one store with `missing`");
_Static_assert(offsetof(struct symm_posts, ticket) % 16 == 0, "one store with `ticket_turn`");
_Static_assert(offsetof(struct symm_posts, calibration) % 16 == 0, "one store");
_Static_assert(offsetof(struct symm_posts, output) % 16 == 0, "one store with `output_turn`");
_Static_assert(sizeof(struct symm_orders) == 64, "one line");
#endif

#endif /* BELAY_KERNELS_SYMM_LAYOUT_H */
