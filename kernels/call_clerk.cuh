/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clerk of a block: vouches for what the block has retained (P3), knows how far it has come
 * (P1), describes the call to the host, and does the housekeeping that no call waits for. One warp.
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
 * The description of the call for the host, by one block at the turn's beginning: long before
 * anybody posts that the turn is staged, for whose reader it is meant. Nothing but that time orders
 * the two on their way to host memory (P2): a reader compares what it reads with what it knows of
 * the turn. The description two turns ago is in nobody's use: all ranks have been done with it
 * since this rank's turn before.
 */
SYMM_INLINE void describe(const struct symm_call &call, const struct turn_facts &facts,
			  const struct block_words &block)
{
	char *to = (char *)&call.descriptions[parity_of(facts.turn)];
	uint64_t kinds = (uint64_t)call.dtype | (uint64_t)call.op << 8 | (uint64_t)call.path << 16;

	if (lane_id() == 0)
		store_pair(to, facts.seq, call.call_count);
	if (lane_id() == 1)
		store_pair(to + 16, open_pass(facts), facts.turn + call.turns_after);
	if (lane_id() == 2)
		store_pair(to + 32, header_of(call, facts, block) << 32 | facts.index, kinds);
}

/*
 * R5: flags that no turn would write over before the numbers come round again are cleared: 32
 * packets and the words of one block a turn, in the running turn's parity and outside its extent,
 * where nobody can be writing: a peer in this turn writes inside the extent, none is two turns
 * ahead, and those of two turns ago have ended. A whole round takes some ten thousand turns; in it
 * each packet has either been cleared or written by a turn of that round.
 */
SYMM_INLINE void scrub(const struct symm_call &call, const struct turn_facts &facts,
		       uint32_t packets, bool flagged)
{
	const struct symm_words nothing = {{0, 0, 0, 0}};
	uint32_t parity = parity_of(facts.turn), lane = lane_id();
	uint32_t slot = (uint32_t)(call.layout.packets_bytes / 8); /* packets of one sender */
	uint32_t round = (uint32_t)(facts.turn / 2); /* a jump where it wraps does no harm */
	uint32_t at = round % (call.nranks * (slot / 32)) * 32 + lane;
	uint32_t row = round % SYMM_BLOCKS_MAX;

	if (at % slot >= packets)
		store_words(call.own + call.layout.packets +
				    ((uint64_t)parity * call.nranks * slot + at) * 16,
			    nothing);
	if (lane < SYMM_RANKS_MAX && row >= gridDim.x)
		store_relaxed(word_of(call.own, call.layout.headers, parity, row, lane), 0);
	if (lane < SYMM_RANKS_MAX && (row >= gridDim.x || !flagged))
		store_relaxed(word_of(call.own, call.layout.results_ready, parity, row, lane), 0);
}

/* P1, for the host. One writer at a time: the gate; in split turns, until it has set `step`, the
 * clerk. */
SYMM_INLINE void post_block(const struct symm_call &call, const struct turn_facts &facts,
			    uint32_t state)
{
	if (lane_id() == 0)
		store_relaxed(&call.posts->block[blockIdx.x],
			      SYMM_BLOCK_WORD(facts.turn, gridDim.x, state));
}

/*
 * P3: after the fence this block's part of the retained input is whole for whoever sees the word.
 * The fence is of the GPU: peers may trust the word only together with what they know otherwise,
 * see cuda-path.md, "Packets and the full wire".
 */
SYMM_INLINE void vouch_for_retained(const struct symm_call &call, const struct turn_facts &facts)
{
	uint64_t *words = (uint64_t *)(call.own + call.layout.block_staged) +
			  parity_of(facts.turn) * SYMM_BLOCKS_MAX;

	fence_gpu();
	if (lane_id() == 0)
		store_relaxed(words + blockIdx.x,
			      SYMM_BLOCK_WORD(facts.turn, gridDim.x, SYMM_BLOCK_STAGED));
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

/* A turn that is staged whole before anything leaves: its steps are posted as they come. */
static __device__ __noinline__ void clerk_inputs_split(const struct symm_call &call,
						       struct block_words &block, bool pull)
{
	post_block(call, block, SYMM_BLOCK_STAGED);
	__syncwarp();
	fault_point(call, block, SYMM_AT_PUSH);
	if (pull)
		vouch_for_inputs(call, block);
	barrier_wait<BARRIER_PUSHED>(call.workers + 32);
	post_block(call, block, SYMM_BLOCK_PUSHED);
	/* Before `step`, by which the gate takes the word over (await_clerk()). */
	fence_block();
	__syncwarp();
}

SYMM_INLINE void clerk_inputs(const struct symm_call &call, struct block_words &block,
			      const struct turn_facts &facts, const struct clerk_work &work)
{
	barrier_wait<BARRIER_STAGED>(call.workers + 32);
	/* The barrier holds accesses to memory back, not the reading of a clock: an H200 was seen to
	 * read it at once. A branch on a word of the block, which is 0 here, holds it back too. */
	while (block.step != 0)
		pause_ns(0);
	block.staged_ticks = (uint32_t)elapsed(facts);
	__syncwarp();
	if (lane_id() == 0)
		block.entered = 1;
	if (work.pull && !fault_splits(call, block))
		vouch_for_inputs(call, block);
	vouch_for_retained(call, facts);
	if (fault_splits(call, block))
		clerk_inputs_split(call, block, work.pull);
	__syncwarp(); /* the step is any lane's word for what all have stored */
	block.step = SYMM_BLOCK_PUSHED;
}

/* Workers that left have arrived too: then the rest will never be pushed, which is what the step
 * says as well. */
SYMM_INLINE void clerk_results(const struct symm_call &call, struct block_words &block,
			       const struct clerk_work &work)
{
	barrier_wait<BARRIER_RESULTS>(call.workers + 32);
	/* Asked once for the warp: lanes that looked by themselves might part here. */
	if (work.flagged && !__any_sync(~0u, block.leave))
		vouch_for_results(call, block);
	__syncwarp();
	block.step = SYMM_BLOCK_RESULTS;
}

/* `row`: parts_row_load(), asked for at the entry. What one block does for all is dealt out, since
 * the fence that all have to make is as long as the wait for peers. */
SYMM_INLINE void clerk_run(const struct symm_call &call, struct block_words &block,
			   const struct turn_facts &facts, const struct parts_row &row,
			   const struct clerk_work &work)
{
	barrier_wait<BARRIER_BOOKS>(64);
	meet_early(call, work.pull);
	if (blockIdx.x == 0 && lane_id() == 0)
		begin_parts(call.state, facts.turn, gridDim.x, call.warps);
	if (blockIdx.x == gridDim.x - 1)
		describe(call, facts, block);
	parts_row_add(call.state, facts.turn, row);
	clerk_inputs(call, block, facts, work);
	if (work.results)
		clerk_results(call, block, work);
	if (blockIdx.x == gridDim.x / 2)
		scrub(call, facts, work.packets, work.flagged);
}

#endif /* BELAY_KERNELS_CALL_CLERK_CUH */
