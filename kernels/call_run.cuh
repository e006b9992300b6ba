/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of every call kernel: entry, then three roles that part for good. WORK is what moves the
 * data:
 *
 *   void prepare(call)             works out what can be before the kernel before has ended
 *   void begin(call)               issues the loads of the first inputs; nothing else is known yet
 *   bool run(call, block, facts, digest)
 *                                  all that worker threads do; false: they were told to leave
 *   clerk_work books(call, facts)  what gate and clerk have to know of it
 *   PULL                           headers go out after the inputs, and vouch for them
 *   PATIENT                        its gate waits in the code that every kernel has for blocks that
 *                                  are stuck
 *
 * DIRTY::run(call, block) is what happens instead in a turn whose full-wire slots hold
 * leftovers, whatever the algorithm: dirty_turn.cuh.
 */
#ifndef BELAY_KERNELS_CALL_RUN_CUH
#define BELAY_KERNELS_CALL_RUN_CUH

#include "kernels/call_stuck.cuh"

/* A worker warp's last word. All its threads come here, finished or not. What the warp has stored
 * is ordered before `ended` only where it left: then the watcher may write the output next (R2). A
 * warp that finished has stored the same bits as the watcher would. */
SYMM_INLINE void worker_ended(const struct symm_call &call, struct block_words &block,
			      uint64_t turn, bool finished, uint64_t digest)
{
	uint32_t warp = threadIdx.x / 32;

	finished = __all_sync(~0u, finished);
	if (!finished)
		fence_block();
	__syncwarp();
	if (lane_id() == 0)
		block.ended[warp] = (uint32_t)(finished ? ENDED_FINISHED : ENDED_LEFT);
	digest = warp_digest(digest);
	if (lane_id() == 0)
		store_part(call.state, turn, blockIdx.x, warp, digest);
}

/* M1, pulled turns: nothing is stored to an output, and no result to a peer, before this is true.
 * False: leave. */
SYMM_INLINE bool wait_verified(const struct block_words &block)
{
	while (!block.verified)
		if (block.leave)
			return false;
	return true;
}

/* ---- entry ------------------------------------------------------------------------------------
 */

/* All that has to be asked of memory: issued together, by every thread. The same for all of a
 * block, and however often it is asked before barrier 0, as far as it is of this turn. */
struct entry_words {
	struct symm_pair numbers; /* turn, seq */
	struct symm_pair pass;	  /* pass, open << 32 | index */
	struct symm_pair dirty;	  /* by parity */
	struct symm_pair mode;	  /* hasty, failed */
};

SYMM_INLINE struct entry_words entry_load(const struct symm_call &call)
{
	const struct symm_line *line = &call.state->line[blockIdx.x];
	const struct symm_mode *mode = &call.state->mode;

	return entry_words{load_pair(line), load_pair(&line->pass), load_pair(mode->dirty),
			   load_pair(&mode->hasty)};
}

/*
 * V6: `failed` of this very turn was set by another block of this kernel, maybe just now. That is
 * not looked at, so that a block does not begin in part.
 */
SYMM_INLINE struct turn_facts entry_facts(const struct symm_call &call,
					  const struct entry_words &words)
{
	uint64_t turn = words.numbers.first + 1;
	struct turn_facts facts;

	facts.turn = turn;
	facts.flag = flag_of(turn);
	/* A dirty turn has the parity of its place. */
	facts.how =
		(words.mode.second != 0 && words.mode.second < turn ? TURN_FAILED : 0) |
		(words.dirty.first + 2 == turn || words.dirty.second + 2 == turn ? TURN_DIRTY : 0);
	facts.seq = words.numbers.second + call.first_turn;
	facts.pass = words.pass.first;
	facts.open = (uint32_t)(words.pass.second >> 32);
	facts.index = facts.open ? (uint32_t)words.pass.second - !call.first_turn : 0;
	facts.hasty = words.mode.first != 0;
	facts.start = 0;
	return facts;
}

/* First values of the words that move. The gate, before it knows its turn. */
SYMM_INLINE void clear_words(const struct symm_call &call, struct block_words &block)
{
	uint32_t lane = lane_id();

	if (lane < CALL_WARPS_MAX)
		block.ended[lane] = ENDED_NOT;
	if (lane < SYMM_RANKS_MAX)
		block.arrival[lane] = lane == call.rank ? 0 : ARRIVAL_NONE;
	if (lane <= PHASE_RESULTS)
		block.polled[lane] = 0;
	if (lane <= SYMM_AT_REDUCE)
		block.fault_kind[lane] = 0;
	if (lane == 0) {
		block.spoil = 0;
		block.verified = 0;
		block.leave = 0;
		block.missing = 0;
		block.step = 0;
		block.entered = 0;
		block.staged_ticks = UINT32_MAX;
	}
	__syncwarp();
}

/* The gate's part of barrier 0 [BLOCK]. */
SYMM_INLINE void gate_enter(const struct symm_call &call, struct block_words &block,
			    const struct turn_facts &facts, bool pull)
{
	if (lane_id() == 0) {
		(struct turn_facts &)block = facts;
		block.algorithm = facts.how & TURN_DIRTY ? (uint32_t)RECORDED_PULL : call.algorithm;
		if (call.nfaults != 0)
			fault_find(call, block);
	}
	__syncwarp();
	barrier_arrive<BARRIER_ENTRY>(entry_threads(call, pull));
}

/* ---- roles ------------------------------------------------------------------------------------
 */

/* From barrier 0 on. `header`: as it was sent; pulled turns and faults: not yet. */
SYMM_INLINE void gate_run(const struct symm_call &call, struct block_words &block,
			  const struct turn_facts &facts, bool pull, uint64_t header)
{
	struct gate_lane lane = {header, lane_id() >= call.nranks || lane_id() == call.rank, false,
				 0, false};
	uint64_t late_ns = facts.hasty ? 0 : call.late_ns;
	uint64_t *post = &call.posts->block[blockIdx.x];
	uint64_t done = SYMM_BLOCK_WORD(facts.turn, gridDim.x, SYMM_BLOCK_DONE);
	bool recorded = false;
	int outcome = STUCK_DONE;

	if (call.nfaults != 0 && !pull) {
		fault_point(call, block, SYMM_AT_STAGE);
		fault_point(call, block, SYMM_AT_PUSH);
		send_headers(call, block, facts, header);
	}
	if (await_headers(call, block, facts, pull, &lane, late_ns)) {
		if ((recorded = blockIdx.x == 0))
			write_record(call, block, facts, header);
		if (!await_workers(call, block, facts, &lane, late_ns))
			outcome = gate_stuck(call, block, pull, lane.here, lane.differs);
	} else {
		outcome = gate_stuck(call, block, pull, lane.here, lane.differs);
	}
	if (blockIdx.x == 0 && !recorded && outcome == STUCK_DONE)
		write_record(call, block, facts, header);
	if (outcome == STUCK_DONE)
		end_done(call, block, facts, lane, post, done);
	else
		end_stuck(call, block, outcome);
}

/* The header leaves before the books are opened, but for faults, which stand in them. */
SYMM_INLINE void gate_of_push(const struct symm_call &call, struct block_words &block,
			      const struct turn_facts &facts)
{
	uint64_t header;

	if (call.nfaults != 0)
		gate_enter(call, block, facts, false);
	header = header_of(call, facts, block);
	if (call.nfaults == 0) {
		send_headers(call, block, facts, header);
		gate_enter(call, block, facts, false);
	}
	gate_run(call, block, facts, false, header);
}

/* Of pull variants, and of dirty turns, which every kernel has. Functions of their own: smaller,
 * and only in these may a service warp fence at system scope. What they would need from their
 * caller in memory they ask for again. */
static __device__ __noinline__ void gate_of_pull(const struct symm_call &call,
						 struct block_words &block)
{
	gate_run(call, block, block, true, header_of(call, block, block));
}

/* ptxas makes a copy of each function for each kernel, and a second loop that waits would be a
 * large one: this is the one that every kernel has anyway. It also does what is right while nothing
 * is late, only with pauses between looks, and looks for orders at once. */
static __device__ __noinline__ void gate_of_patient_pull(const struct symm_call &call,
							 struct block_words &block)
{
	bool here = lane_id() >= call.nranks || lane_id() == call.rank;

	end_stuck(call, block, gate_stuck(call, block, true, here, false));
}

static __device__ __noinline__ void clerk_of_pull(const struct symm_call &call,
						  struct block_words &block, bool flagged)
{
	clerk_run(call, block, block, parts_row_load(call.state),
		  clerk_work{true, true, flagged, 0});
}

/* Of a thread that has passed the entry. */
template <class WORK>
SYMM_INLINE void call_roles(const struct symm_call &call, struct block_words &block,
			    const struct turn_facts &facts, const struct parts_row &row,
			    const WORK &work)
{
	uint32_t warp = threadIdx.x / 32;
	uint64_t digest = 0;
	bool finished;

	if (warp < call.warps) {
		meet_early(call, WORK::PULL);
		finished = work.run(call, block, facts, &digest);
		worker_ended(call, block, facts.turn, finished, digest);
	} else if (warp == call.warps) {
		barrier_arrive<BARRIER_BOOKS>(64);
		if (WORK::PULL) {
			gate_enter(call, block, facts, true);
			if (WORK::PATIENT)
				gate_of_patient_pull(call, block);
			else
				gate_of_pull(call, block);
		} else {
			gate_of_push(call, block, facts);
		}
	} else if (WORK::PULL) {
		clerk_of_pull(call, block, work.books(call, facts).flagged);
	} else {
		clerk_run(call, block, facts, row, work.books(call, facts));
	}
}

template <class WORK, class DIRTY> SYMM_INLINE void call_run(const struct symm_call &call)
{
	__shared__ struct block_words block;
	uint32_t warp = threadIdx.x / 32;
	struct parts_row row = {};
	struct entry_words words;
	struct turn_facts facts;
	uint64_t start = 0;
	WORK work;

	if (warp < call.warps)
		work.prepare(call);
	else if (warp == call.warps)
		clear_words(call, block);
	/* S6: the kernel before has ended. Only then may the next one come to wait here, and only if
	 * two such grids of each rank fit: so at most two calls stand on the device at a time, and a
	 * rescue finds room beside one that is stuck. */
	wait_for_kernel_before();
	if (call.programmatic)
		launch_dependents();
	words = entry_load(call);
	if (warp < call.warps)
		work.begin(call);
	else
		start = ticks_now();
	if (warp > call.warps)
		row = parts_row_load(call.state);
	facts = entry_facts(call, words);
	facts.start = start;
	if (facts.how == 0)
		call_roles(call, block, facts, row, work);
	else if (!(facts.how & TURN_FAILED))
		DIRTY::run(call, block);
}

#endif /* BELAY_KERNELS_CALL_RUN_CUH */
