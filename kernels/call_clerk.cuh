/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clerk of a block: says what the block has staged and pushed (P1, P3), describes the call to
 * the host, and does the housekeeping that no call waits for. One warp.
 */
#ifndef BELAY_KERNELS_CALL_CLERK_CUH
#define BELAY_KERNELS_CALL_CLERK_CUH

#include "kernels/digest_parts.cuh"
#include "kernels/symm_call.cuh"
#include "kernels/symm_fault.cuh"

/* What a kind of call asks of the clerk. */
struct clerk_work {
	bool pull;	  /* headers go out after the inputs, and vouch for them */
	bool results;	  /* two-shot: `results` is posted */
	bool flagged;	  /* pull: results are handed on by flags in results_ready */
	uint32_t packets; /* of 8 data bytes that go through `packets` in this turn */
};

/*
 * The header words (M1), lane q to peer q. In pull variants they also say that this block's inputs
 * stand in the retained copy: contract [PULLED], call_gate.cuh.
 */
SYMM_INLINE void send_headers(const struct symm_call &call, const struct block_words &block,
			      const struct turn_facts &facts, uint64_t header)
{
	uint32_t lane = lane_id();

	if (call.nfaults != 0 && fault_spoils(block, SYMM_FAULT_DROP))
		return;
	if (call.nfaults != 0 && fault_spoils(block, SYMM_FAULT_FLAG))
		header = (uint64_t)fault_flag(block) << 32 | (uint32_t)header;
	if (lane < call.nranks && lane != call.rank)
		store_relaxed(word_of(region_of(call, lane), call.layout.headers,
				      parity_of(facts.turn), blockIdx.x, call.rank),
			      header);
}

/*
 * The description of the call for the host, by block 0 at the turn's beginning: long before the
 * last block posts `staged`, for whose reader it is meant. Nothing but that time orders the two on
 * their way to host memory (P2): a reader compares what it reads with what it knows of the turn.
 * The description two turns ago is in nobody's use: all ranks have been done with it since this
 * rank's turn before.
 */
SYMM_INLINE void describe(const struct symm_call &call, const struct block_words &block)
{
	char *to = (char *)&call.descriptions[parity_of(block.turn)];
	uint64_t kinds = (uint64_t)call.dtype | (uint64_t)call.op << 8 | (uint64_t)call.path << 16;

	if (lane_id() == 0)
		store_pair(to, block.seq, call.call_count);
	if (lane_id() == 1)
		store_pair(to + 16, open_pass(block), block.turn + call.turns_after);
	if (lane_id() == 2)
		store_pair(to + 32, header_of(call, block, block) << 32 | block.index, kinds);
}

/*
 * R5: flags that no turn would write over before the numbers come round again are cleared: 32
 * packets and the words of one block a turn, in the running turn's parity and outside its extent,
 * where nobody can be writing: a peer in this turn writes inside the extent, none is two turns
 * ahead, and those of two turns ago have ended. A whole round takes some ten thousand turns; in it
 * each packet has either been cleared or written by a turn of that round.
 */
SYMM_INLINE void scrub(const struct symm_call &call, const struct block_words &block,
		       uint32_t packets, bool flagged)
{
	const struct symm_words nothing = {{0, 0, 0, 0}};
	uint32_t parity = parity_of(block.turn), lane = lane_id();
	uint32_t slot = (uint32_t)(call.layout.packets_bytes / 8); /* packets of one sender */
	uint64_t round = block.turn / 2;
	uint32_t at = (uint32_t)(round % ((uint64_t)call.nranks * slot / 32)) * 32 + lane;
	uint32_t row = (uint32_t)(round % SYMM_BLOCKS_MAX);

	if (at % slot >= packets)
		store_words(call.own + call.layout.packets +
				    ((uint64_t)parity * call.nranks * slot + at) * 16,
			    nothing);
	if (lane < SYMM_RANKS_MAX && row >= gridDim.x)
		store_relaxed(word_of(call.own, call.layout.headers, parity, row, lane), 0);
	if (lane < SYMM_RANKS_MAX && (row >= gridDim.x || !flagged))
		store_relaxed(word_of(call.own, call.layout.results_ready, parity, row, lane), 0);
}

/* Counts this block; true for the last one of the grid, which also readies the counter for the turn
 * after next: nobody counts in between [KERNELS]. */
SYMM_INLINE bool count_block(uint32_t *counter)
{
	if (count_one(counter) != gridDim.x - 1)
		return false;
	*(volatile uint32_t *)counter = 0;
	return true;
}

/*
 * P3: after the fence this block's part of the retained input is whole for whoever sees the word or
 * the count. The fence is of the GPU: peers may trust the word only together with what they know
 * otherwise, see cuda-path.md, "the retained copy".
 */
SYMM_INLINE void post_staged(const struct symm_call &call, struct block_words &block, bool split)
{
	uint32_t parity = parity_of(block.turn);

	block.staged_ticks = (uint32_t)elapsed(block);
	fence_gpu();
	store_relaxed((uint64_t *)(call.own + call.layout.block_staged) +
			      (parity * SYMM_BLOCKS_MAX + blockIdx.x),
		      SYMM_BLOCK_WORD(block.turn, gridDim.x, SYMM_BLOCK_STAGED));
	if (!count_block(&call.state->staged_blocks[parity]))
		return;
	if (split)
		store_relaxed(call.steps, block.turn);
	else
		store_pair(call.steps, block.turn, block.turn);
}

/* Split turns only, by lane 0. */
static __device__ __noinline__ void post_pushed(const struct symm_call &call,
						const struct block_words &block)
{
	fence_gpu();
	if (count_block(&call.state->pushed_blocks[parity_of(block.turn)]))
		store_relaxed(call.steps + 1, block.turn);
}

/* Pull: the fence that contract [PULLED] needs; cumulative over what barrier 1 joined. In a
 * function of its own, so that one can see that push variants have no such fence but where they are
 * stuck. */
static __device__ __noinline__ void vouch_for_inputs(const struct symm_call &call,
						     const struct block_words &block)
{
	fence_system();
	__syncwarp();
	send_headers(call, block, block, header_of(call, block, block));
}

/* Pull, results by flags: likewise, contract [HANDED ON] in pull.cuh. */
static __device__ __noinline__ void vouch_for_results(const struct symm_call &call,
						      const struct block_words &block)
{
	uint32_t lane = lane_id();

	fence_system();
	__syncwarp();
	if (lane < call.nranks && lane != call.rank &&
	    !(call.nfaults != 0 && fault_spoils(block, SYMM_FAULT_DROP)))
		store_relaxed(word_of(region_of(call, lane), call.layout.results_ready,
				      parity_of(block.turn), blockIdx.x, call.rank),
			      block.flag);
}

SYMM_INLINE void clerk_inputs(const struct symm_call &call, struct block_words &block,
			      const struct clerk_work &work)
{
	bool split = fault_splits(call, block);

	barrier_wait<BARRIER_STAGED>(call.workers + 32);
	if (split) {
		if (lane_id() == 0)
			post_staged(call, block, true);
		__syncwarp();
		fault_point(call, block, SYMM_AT_PUSH);
	}
	if (work.pull)
		vouch_for_inputs(call, block);
	if (!split) {
		if (lane_id() == 0)
			post_staged(call, block, false);
		return;
	}
	barrier_wait<BARRIER_PUSHED>(call.workers + 32);
	if (lane_id() == 0)
		post_pushed(call, block);
}

/* Workers that left have arrived too: then the rest will never be pushed, which is what `results`
 * says as well. */
SYMM_INLINE void clerk_results(const struct symm_call &call, const struct block_words &block,
			       const struct clerk_work &work)
{
	barrier_wait<BARRIER_RESULTS>(call.workers + 32);
	if (work.flagged && !block.leave)
		vouch_for_results(call, block);
	if (lane_id() == 0) {
		fence_gpu();
		if (count_block(&call.state->results_blocks[parity_of(block.turn)]))
			store_relaxed(call.steps + 2, block.turn);
	}
}

SYMM_INLINE void clerk_run(const struct symm_call &call, struct block_words &block,
			   const struct clerk_work &work)
{
	if (blockIdx.x == 0) {
		describe(call, block);
		if (lane_id() == 0)
			begin_parts(call.state, block.turn, gridDim.x, call.warps);
	}
	clerk_inputs(call, block, work);
	if (work.results)
		clerk_results(call, block, work);
	if (blockIdx.x == 0) {
		add_parts_before(call.state, block.turn, lane_id());
		scrub(call, block, work.packets, work.flagged);
	}
}

#endif /* BELAY_KERNELS_CALL_CLERK_CUH */
