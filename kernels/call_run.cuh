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

/* Looks between looks at the clock. */
enum { GATE_LOOKS = 16 };

/* A worker warp's last word. All its threads come here, finished or not. */
SYMM_INLINE void worker_ended(struct block_words &block, bool finished, uint64_t digest)
{
	uint32_t warp = threadIdx.x / 32;

	finished = __all_sync(~0u, finished);
	digest = warp_digest(digest);
	__syncwarp(); /* the other lanes' stores come before the fence, too */
	if (lane_id() == 0) {
		block.digest[warp] = digest;
		fence_block();
		block.ended[warp] = finished ? ENDED_FINISHED : ENDED_LEFT;
	}
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

SYMM_INLINE void gate_run(const struct symm_call &call, struct block_words &block, bool pull)
{
	struct gate_lane lane = {lane_id() >= call.nranks || lane_id() == call.rank, false};
	uint64_t late_ns = block.hasty ? 0 : call.late_ns;
	int outcome = STUCK_DONE;
	struct gate_view view;

	if (!pull) {
		fault_point(call, block, SYMM_AT_STAGE);
		fault_point(call, block, SYMM_AT_PUSH);
		send_headers(call, block);
	}
	for (uint32_t looks = 1;; looks++) {
		view = gate_look(call, block, pull, &lane);
		if (view.verified && view.finished)
			break;
		if (__any_sync(~0u, lane.differs || (looks % GATE_LOOKS == 0 &&
						     ticks_now() - block.start > late_ns))) {
			outcome = gate_stuck(call, block, pull, lane.here, lane.differs);
			break;
		}
	}
	if (outcome == STUCK_DONE)
		end_done(call, block);
	else
		end_stuck(call, block, outcome);
}

/* The facts of the turn, by one thread: every thread of the block goes by the same ones, whatever
 * stands in the mode word a moment later. */
SYMM_INLINE void learn_turn(const struct symm_call &call, struct block_words &block)
{
	const struct symm_state *state = call.state;
	const struct symm_line *line = &state->line[blockIdx.x];
	struct symm_pair numbers = load_pair(line);
	struct symm_pair pass = load_pair(&line->pass);
	struct symm_pair dirty = load_pair(state->mode.dirty);
	struct symm_pair mode = load_pair(&state->mode.hasty); /* hasty, failed */
	uint64_t turn = numbers.first + 1;

	block.start = ticks_now();
	block.turn = turn;
	block.seq = numbers.second + call.first_turn;
	block.pass = pass.first;
	block.open = (uint32_t)(pass.second >> 32);
	block.index = block.open ? (uint32_t)pass.second - !call.first_turn : 0;
	block.flag = flag_of(turn);
	/* V6. `failed` of this very turn was set by another block of this kernel, maybe just now:
	 * not looked at, so that the same call does not begin here and there. */
	block.failed = mode.second != 0 && mode.second < turn;
	block.dirty = (parity_of(turn) ? dirty.second : dirty.first) + 2 == turn;
	block.hasty = mode.first != 0;
	block.signature = symm_signature(call.signature_base, open_pass(block), block.index);
	block.spoil = 0;
	if (call.nfaults != 0)
		fault_find(call, block);
}

/* First values, by another warp than the one that waits for the line. */
SYMM_INLINE void clear_words(const struct symm_call &call, struct block_words &block)
{
	uint32_t lane = lane_id();

	if (lane < CALL_WARPS_MAX)
		block.ended[lane] = ENDED_NOT;
	if (lane < SYMM_RANKS_MAX)
		block.arrival[lane] = lane == call.rank ? 0 : ARRIVAL_NONE;
	if (lane <= PHASE_RESULTS)
		block.polled[lane] = 0;
	if (lane == 0) {
		block.verified = 0;
		block.leave = 0;
		block.missing = 0;
		block.staged_ticks = UINT32_MAX;
		block.algorithm = call.algorithm;
	}
}

/* Of pull variants, which every kernel has for dirty turns. Functions of their own: smaller, and
 * only in these may a service warp fence at system scope. */
static __device__ __noinline__ void gate_of_pull(const struct symm_call &call,
						 struct block_words &block)
{
	gate_run(call, block, true);
}

static __device__ __noinline__ void clerk_of_pull(const struct symm_call &call,
						  struct block_words &block, bool flagged)
{
	clerk_run(call, block, clerk_work{true, true, flagged, 0});
}

template <class WORK>
SYMM_INLINE void call_roles(const struct symm_call &call, struct block_words &block,
			    const WORK &work)
{
	uint32_t warp = threadIdx.x / 32;
	uint64_t digest = 0;
	bool finished;

	if (warp < call.warps) {
		finished = work.run(call, block, &digest);
		worker_ended(block, finished, digest);
	} else if (warp == call.warps) {
		if (WORK::PULL)
			gate_of_pull(call, block);
		else
			gate_run(call, block, false);
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
	uint32_t warp = threadIdx.x / 32;
	WORK work;

	/* S6: the next kernel of the stream may come to stand here; this one goes on when the one
	 * before has ended. */
	launch_dependents();
	wait_for_kernel_before();
	if (warp < call.warps) {
		work.begin(call);
	} else if (warp == call.warps) {
		if (lane_id() <= SYMM_AT_REDUCE)
			block.fault_kind[lane_id()] = 0;
		__syncwarp();
		if (lane_id() == 0)
			learn_turn(call, block);
	} else {
		clear_words(call, block);
	}
	__syncthreads();
	if (block.failed)
		return;
	if (block.dirty)
		DIRTY::run(call, block);
	else
		call_roles(call, block, work);
}

#endif /* BELAY_KERNELS_CALL_RUN_CUH */
