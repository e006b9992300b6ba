/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/*
 * The frame of every call kernel (docs/cuda-path.md, "A block"): what it is given, what a block
 * knows and shares, entry, and the two service warps. What moves data is a struct WORK, see
 * call_run().
 *
 * A block is `workers` threads that move data and two warps that keep the books: the gate, then the
 * clerk. Every thread reads the block's line and the mode by itself, so that nobody waits for another
 * one at the entry; and every worker warp sees to the headers by itself.
 *
 * Ordering contract [BLOCK], words in shared memory
 *
 *   writer                                   reader
 *   gate: first values of all words, then    clerk, after barrier 4
 *     arrives at barrier 4
 *   gate: facts and first values, then       worker, after barrier 0, where it comes when its input
 *     arrives at barrier 0                     has left; in pulled turns, and where there are faults,
 *                                              before, and the clerk too
 *   worker: inputs staged and pushed,        clerk, after barrier 1: fence, block_staged (P3)
 *     then arrives at barrier 1
 *   worker: results pushed, or it left,      clerk, after barrier 2
 *     then arrives at barrier 2
 *   gate: all headers are here and alike,    worker of a pulled turn: loads `verified`, then peers'
 *     then stores `verified`                   inputs; stores outputs and results (M1)
 *   gate: stores `leave`                     worker: where data or a header is not here; then stops
 *                                              without another store but those on its way
 *   lane 0 of a worker warp: `ended`; where  gate: loads `ended` of all warps; then posts DONE, a
 *     the warp left, behind a fence of the     hint (P2); or fences the system, then posts
 *     block after its last stores              ABANDONED (R2)
 *
 * All of them are of struct shared_word: relaxed, with the fence or barrier named here where they order more
 * than themselves.
 *
 * Ordering contract [KERNELS]: lines, mode, counters, slots and retained inputs of turn t are seen
 * by turn t + 1 of this rank because its kernel starts after kernel t has ended, or (programmatic
 * launch, S6) has passed griddepcontrol.wait. So what stands between kernels needs no atomic.
 */
/* clang-format on */
#ifndef BELAY_KERNELS_SYMM_CALL_CUH
#define BELAY_KERNELS_SYMM_CALL_CUH

#include "kernels/sum_types.h"
#include "kernels/symm_device.cuh"
#include "kernels/symm_kernels.h"

enum {
	CALL_SERVICE_THREADS = 64,
	CALL_WORKERS_MAX = 512,
	CALL_WARPS_MAX = CALL_WORKERS_MAX / 32,
	CALL_THREADS_MAX = CALL_WORKERS_MAX + CALL_SERVICE_THREADS
};

/* Named barriers of a block. */
enum {
	BARRIER_ENTRY = 0,
	BARRIER_STAGED = 1,
	BARRIER_RESULTS = 2,
	BARRIER_PUSHED = 3,
	BARRIER_BOOKS = 4
};

/* enum belay_algorithm, for the record. */
enum { RECORDED_ONESHOT = 1, RECORDED_TWOSHOT = 2, RECORDED_PULL = 3, RECORDED_ISLAND = 4 };

enum { PHASE_INPUTS = 1, PHASE_RESULTS = 2 }; /* enum wait_phase of the runtime */

/* The parameter of every call kernel; lies in the constant bank. Made by symm_call.cu. */
struct symm_call {
	const char *send;
	char *recv;
	char *region; /* rank 0's */
	char *own;    /* this rank's */
	struct symm_state *state;
	uint64_t *steps; /* staged, pushed, results, done */
	struct symm_description *descriptions;
	struct symm_posts *posts;
	const struct symm_orders *orders;
	const struct symm_fault *faults;
	struct symm_layout layout;
	uint64_t bytes; /* of the turn */
	uint64_t call_count, signature_base, ticket;
	uint64_t late_ns, last_ns;
	uint32_t rank, nranks, nfaults;
	uint32_t workers, warps;   /* of a block; warps = workers / 32 */
	uint32_t turns_after;	   /* turns of the call that follow this one */
	uint32_t first_turn;	   /* 1: of its call */
	uint32_t programmatic;	   /* 1: the next kernel may come to wait before this one has ended */
	uint32_t packets[2];	   /* in the turn, of 8 and of 16 bytes; the last may be partial */
	uint32_t slice_packets;	   /* two-shot: in a rank's part, of 16 bytes */
	uint32_t island_packets;   /* island: likewise, in the part of a rank of either half */
	uint32_t staged;	   /* 1: one peer after the other is served */
	uint32_t slowly;	   /* 1: staged, or there may be faults */
	uint32_t whole_in[2];	   /* packets that can be loaded from `send` at once ... */
	uint32_t whole_out[2];	   /* ... and stored to `recv`: 0 where it is not aligned */
	uint8_t unit_in, unit_out; /* largest access that the others allow: 1, 2 or 4 bytes */
	uint8_t dtype, op, path, algorithm; /* algorithm: of belay.h, as launched */
	uint16_t flags;
};

/* What a thread knows of its turn from the entry on, the same in all threads but for `start`. */
struct turn_facts {
	uint64_t turn;
	uint32_t flag;
	uint32_t how;	/* enum turn_how; 0: as ever */
	uint64_t start; /* ticks; not the workers' */
	uint64_t seq;
	uint64_t pass;	/* last begun, open or not */
	uint32_t index; /* place in the pass, 0 where none is open */
	uint32_t open, hasty;
};

/*
 * A word in shared memory that one warp writes and others poll. Relaxed: a volatile access, a load
 * or store of 4 bytes as it stands. SYMM_RACECHECK: an atomic one instead, so that
 * compute-sanitizer's racecheck takes it for what it is and finds the accesses that no contract
 * covers (tests/gpu/run.sh).
 */
struct shared_word {
	uint32_t value;

	__device__ __forceinline__ operator uint32_t() const
	{
#ifdef SYMM_RACECHECK
		return atomicAdd(const_cast<uint32_t *>(&value), 0u);
#else
		return *(const volatile uint32_t *)&value;
#endif
	}
	__device__ __forceinline__ void operator=(uint32_t word)
	{
#ifdef SYMM_RACECHECK
		(void)atomicExch(&value, word);
#else
		*(volatile uint32_t *)&value = word;
#endif
	}
};

/* What a block shares: the facts for whoever has no room for them, written by the gate before
 * barrier 0 and constant after, and words that move. */
struct block_words : turn_facts {
	/* Faults of this turn: kinds that spoil what leaves, by bit; what happens at each point. */
	uint32_t spoil;
	uint32_t fault_kind[SYMM_AT_REDUCE + 1];
	uint64_t fault_ns[SYMM_AT_REDUCE + 1];

	/* Gate to workers. */
	struct shared_word verified, leave;
	/* Workers to the gate: ranks that one has been polling for long, by phase; taken away by
	 * the gate. atomicOr, atomicExch. */
	uint32_t polled[PHASE_RESULTS + 1];
	/* By worker warp: enum ended. */
	struct shared_word ended[CALL_WARPS_MAX];
	/* Clerk to gate: ticks after start, for the record; how far the block has come (P1), a hint
	 * like what is posted of it: SYMM_BLOCK_PUSHED, _RESULTS, 0 before. */
	struct shared_word staged_ticks, step;
	/* Clerk to gate: every other thread of the block has read its line. */
	struct shared_word entered;
	/* The gate's own, here so that they need no stack where it gets stuck: ticks after start at
	 * which a rank's header was seen, ARRIVAL_NONE before; ranks not there at the soft
	 * deadline; the algorithm that was carried out. */
	struct shared_word arrival[SYMM_RANKS_MAX];
	struct shared_word missing;
	struct shared_word algorithm;
};

/* What is unlike other turns, by bit. */
enum turn_how {
	TURN_FAILED = 1, /* an earlier turn has failed: leave */
	TURN_DIRTY = 2	 /* leftovers in the full-wire slots of this parity */
};

enum ended { ENDED_NOT = 0, ENDED_FINISHED = 1, ENDED_LEFT = 2 };
#define ARRIVAL_NONE UINT32_MAX

SYMM_INLINE uint32_t lane_id(void)
{
	return threadIdx.x % 32;
}

/* symm_flag_of() without its division: modulo 2^32 - 1 the halves add up. */
SYMM_INLINE uint32_t flag_of(uint64_t turn)
{
	uint64_t sum = (turn >> 32) + (uint32_t)turn;

	sum = (sum >> 32) + (uint32_t)sum;
	return sum == UINT32_MAX ? 1 : (uint32_t)sum + 1;
}

SYMM_INLINE uint32_t parity_of(uint64_t turn)
{
	return (uint32_t)turn & 1;
}

/* The pass that the call belongs to; 0: none. */
SYMM_INLINE uint64_t open_pass(const struct turn_facts &facts)
{
	return facts.open ? facts.pass : 0;
}

/* What this rank's header says (M1). Not among the facts, since it takes a while. SYMM_FAULT_SIGN:
 * as if called with other arguments. */
SYMM_INLINE uint64_t header_of(const struct symm_call &call, const struct turn_facts &facts,
			       const struct block_words &block)
{
	uint32_t signature = symm_signature(call.signature_base, open_pass(facts), facts.index);

	if (call.nfaults != 0 && block.spoil >> SYMM_FAULT_SIGN & 1)
		signature ^= 0x5a5a5a5au;
	return (uint64_t)facts.flag << 32 | signature;
}

/* Ticks since the block began. The clock may stand still, but a step back must not look like an
 * age. */
SYMM_INLINE uint64_t elapsed(const struct turn_facts &facts)
{
	uint64_t ticks = ticks_now() - facts.start;

	return (int64_t)ticks < 0 ? 0 : ticks;
}

/* The d-th peer after this rank, 1 <= d < nranks: so that not all push to the same one at once. */
SYMM_INLINE uint32_t peer_after(const struct symm_call &call, uint32_t d)
{
	uint32_t peer = call.rank + d;

	return peer >= call.nranks ? peer - call.nranks : peer;
}

SYMM_INLINE char *region_of(const struct symm_call &call, uint32_t rank)
{
	return call.region + rank * call.layout.stride;
}

/* The word that `writer` stores for `block` among headers or results_ready, at `area`, in the
 * region at `region`. */
SYMM_INLINE uint64_t *word_of(char *region, uint64_t area, uint32_t parity, uint32_t block,
			      uint32_t writer)
{
	return (uint64_t *)(region + area) +
	       ((parity * SYMM_BLOCKS_MAX + block) * SYMM_RANKS_MAX + writer);
}

/* Pulled turns, and those that may have faults, look into the books from the beginning on. */
SYMM_INLINE bool meets_early(const struct symm_call &call, bool pull)
{
	return pull || call.nfaults != 0;
}

/* Who comes to barrier 0. */
SYMM_INLINE uint32_t entry_threads(const struct symm_call &call, bool pull)
{
	return meets_early(call, pull) ? blockDim.x : call.workers + 32;
}

SYMM_INLINE void meet_early(const struct symm_call &call, bool pull)
{
	if (meets_early(call, pull))
		barrier_wait<BARRIER_ENTRY>(blockDim.x);
}

/* Of a worker in push variants, when it has nothing left to do but wait. */
SYMM_INLINE void meet_late(const struct symm_call &call)
{
	if (!meets_early(call, false))
		barrier_wait<BARRIER_ENTRY>(call.workers + 32);
}

#endif /* BELAY_KERNELS_SYMM_CALL_CUH */
