/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of every call kernel: entry, then three roles that part for good. WORK is what moves the
 * data:
 *
 *   void begin(call)               issues the loads of the first inputs; nothing else is known yet
 *   bool run(call, block, digest)  all that worker threads do; false: they were told to leave
 *   clerk_work books(call, block)  what gate and clerk have to know of it
 *
 * DIRTY::run(call, block) is what happens instead in a turn whose full-wire slots hold leftovers,
 * whatever the algorithm: dirty_turn.cuh.
 */
#ifndef BELAY_KERNELS_CALL_RUN_CUH
#define BELAY_KERNELS_CALL_RUN_CUH

#include "kernels/call_stuck.cuh"

/* A worker warp's last word. All its threads come here, finished or not. What the warp has stored
 * is ordered before `ended` only where it left: then the watcher may write the output next (R2). A
 * warp that finished has stored the same bits as the watcher would. */
SYMM_INLINE void worker_ended(const struct symm_call &call, struct block_words &block,
			      bool finished, uint64_t digest)
{
	uint32_t warp = threadIdx.x / 32;

	finished = __all_sync(~0u, finished);
	if (!finished)
		fence_block();
	__syncwarp();
	if (lane_id() == 0)
		block.ended[warp] = finished ? ENDED_FINISHED : ENDED_LEFT;
	digest = warp_digest(digest);
	if (lane_id() == 0)
		store_part(call.state, block.turn, blockIdx.x, warp, digest);
}

/* M1: nothing is stored to an output, and no result to a peer, before this is true. False: leave.
 */
SYMM_INLINE bool wait_verified(const struct block_words &block)
{
	while (!block.verified)
		if (block.leave)
			return false;
	return true;
}

SYMM_INLINE void gate_run(const struct symm_call &call, struct block_words &block,
			  const struct turn_facts &facts, bool pull)
{
	struct gate_lane lane = {header_of(call, facts, block),
				 lane_id() >= call.nranks || lane_id() == call.rank, false, 0};
	uint64_t late_ns = facts.hasty ? 0 : call.late_ns;
	int outcome = STUCK_DONE;
	struct gate_view view;
	uint64_t record = 0; /* the lane's word; worked out while the workers reduce */
	bool recorded = false;

	if (!pull) {
		fault_point(call, block, SYMM_AT_STAGE);
		fault_point(call, block, SYMM_AT_PUSH);
		send_headers(call, block, facts, lane.header);
	}
	if (!await_headers(call, block, facts, pull, &lane, late_ns))
		outcome = gate_stuck(call, block, pull, lane.here, lane.differs);
	else if ((recorded = blockIdx.x == 0))
		record = record_word(call, block, facts, lane.header, lane_id());
	for (uint32_t looks = 1; outcome == STUCK_DONE; looks++) {
		view = gate_look(call, block, facts, pull, &lane);
		if (view.finished)
			break;
		if (looks % GATE_LOOKS == 0 && is_late(call, block, facts, &lane, late_ns))
			outcome = gate_stuck(call, block, pull, lane.here, lane.differs);
	}
	if (blockIdx.x == 0 && !recorded)
		record = record_word(call, block, facts, lane.header, lane_id());
	if (outcome == STUCK_DONE)
		end_done(call, block, facts, record);
	else
		end_stuck(call, block, outcome);
}

/* First values of the words that move. */
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
		block.staged_ticks = UINT32_MAX;
		block.algorithm = call.algorithm;
	}
}

/*
 * The gate's entry: the facts of the turn, for every thread of the block, whatever stands in the
 * mode word a moment later. All others wait for it; so nothing is worked out before the arrival
 * that can be later. The same in every lane.
 *
 * V6: `failed` of this very turn was set by another block of this kernel, maybe just now. That is
 * not looked at, so that a block does not begin in part.
 */
SYMM_INLINE struct turn_facts gate_enter(const struct symm_call &call, struct block_words &block)
{
	const struct symm_state *state = call.state;
	const struct symm_line *line = &state->line[blockIdx.x];
	uint64_t start = ticks_now();
	struct symm_pair numbers = load_pair(line);
	struct symm_pair dirty = load_pair(state->mode.dirty);
	struct symm_pair mode = load_pair(&state->mode.hasty); /* hasty, failed */
	struct symm_pair pass = load_pair(&line->pass);
	uint64_t turn = numbers.first + 1;
	struct turn_facts facts;

	clear_words(call, block); /* while the loads are under way */
	facts.turn = turn;
	facts.flag = flag_of(turn);
	facts.how = (mode.second != 0 && mode.second < turn ? TURN_FAILED : 0) |
		    ((parity_of(turn) ? dirty.second : dirty.first) + 2 == turn ? TURN_DIRTY : 0);
	facts.start = start;
	facts.seq = numbers.second + call.first_turn;
	facts.pass = pass.first;
	facts.open = (uint32_t)(pass.second >> 32);
	facts.index = facts.open ? (uint32_t)pass.second - !call.first_turn : 0;
	facts.hasty = mode.first != 0;
	if (call.nfaults != 0)
		__syncwarp(); /* all lanes have cleared what fault_find() sets */
	if (lane_id() == 0) {
		(struct turn_facts &)block = facts;
		if (call.nfaults != 0)
			fault_find(call, block);
	}
	__syncwarp();
	barrier_arrive<BARRIER_ENTRY>(blockDim.x);
	return facts;
}

/* Of pull variants, which every kernel has for dirty turns. Functions of their own: smaller, and
 * only in these may a service warp fence at system scope. */
static __device__ __noinline__ void gate_of_pull(const struct symm_call &call,
						 struct block_words &block)
{
	gate_run(call, block, block, true);
}

static __device__ __noinline__ void clerk_of_pull(const struct symm_call &call,
						  struct block_words &block, bool flagged)
{
	clerk_run(call, block, clerk_work{true, true, flagged, 0});
}

/* Of a thread that has passed the entry. `facts`: the gate's, as it knows them already. */
template <class WORK>
SYMM_INLINE void call_roles(const struct symm_call &call, struct block_words &block,
			    const struct turn_facts &facts, const WORK &work)
{
	uint32_t warp = threadIdx.x / 32;
	uint64_t digest = 0;
	bool finished;

	if (warp < call.warps) {
		finished = work.run(call, block, &digest);
		worker_ended(call, block, finished, digest);
	} else if (warp == call.warps) {
		if (WORK::PULL)
			gate_of_pull(call, block);
		else
			gate_run(call, block, facts, false);
	} else {
		if (WORK::PULL)
			clerk_of_pull(call, block, work.books(call, block).flagged);
		else
			clerk_run(call, block, work.books(call, block));
	}
}

template <class WORK, class DIRTY> SYMM_INLINE void call_run(const struct symm_call &call)
{
	__shared__ struct block_words block;
	struct turn_facts facts = {};
	WORK work;

	/* S6: the kernel before has ended. Only then may the next one come to wait here: so at most
	 * two calls stand on the device at a time, and a rescue finds room beside one that is
	 * stuck. */
	wait_for_kernel_before();
	launch_dependents();
	if (threadIdx.x / 32 == call.warps) {
		facts = gate_enter(call, block);
	} else {
		if (threadIdx.x / 32 < call.warps)
			work.begin(call);
		barrier_wait<BARRIER_ENTRY>(blockDim.x);
		facts.how = block.how;
	}
	if (facts.how == 0)
		call_roles(call, block, facts, work);
	else if (!(facts.how & TURN_FAILED))
		DIRTY::run(call, block);
}

#endif /* BELAY_KERNELS_CALL_RUN_CUH */
