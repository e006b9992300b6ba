/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block that waits too long (docs/cuda-path.md). Run by the gate warp alone and off the way of
 * every call that is on time: functions of their own, which may fence at system scope, swap, and
 * read host memory.
 *
 *   WAITING    workers may still write the output; `stuck` and `missing` are posted by the owner
 *   leaving    `leave` is set; ends when every worker warp has finished or left
 *   ABANDONED  no worker of the block writes any more: the watcher may, once all blocks say so (R2)
 *   HOLDING    the one block that waits until the watcher writes no more (R3)
 *
 *   From       Event                                      To
 *   WAITING    data and headers came                      done
 *   WAITING    orders.fail_from                           leaving, then failed
 *   WAITING    orders.abandon                             leaving, then ABANDONED, or done
 *   WAITING    last_ns is over                            leaving, then failed (gave_up), or done
 *   ABANDONED  first to swap `holder`                     HOLDING; else the block ends
 *   HOLDING    released with the output                   `done` is posted
 *   HOLDING    released without; last_ns is over          failed
 *
 * Ordering contract [ABANDON]
 *
 *   block                                        watcher
 *   workers: output stores, `ended` [BLOCK]
 *   gate: fence of the system
 *   (1) store of ABANDONED in posts.block  --->  (2) acquiring load of all blocks' words
 *                                                writes the output, waits for its end
 *   (4) acquiring load of `released`       <---  (3) store of orders.released
 *   kernel ends; what follows in the stream reads the output
 *
 * The same fence is the one that P3 asks of a live rank whose input goes into a rescue.
 */
#ifndef BELAY_KERNELS_CALL_STUCK_CUH
#define BELAY_KERNELS_CALL_STUCK_CUH

#include "kernels/call_gate.cuh"

enum stuck_outcome {
	STUCK_DONE,	 /* all workers have finished, all headers are here */
	STUCK_ABANDONED, /* posted; ABANDONED blocks that do not hold end with this */
	STUCK_RESCUED,	 /* the holder's: the output stands */
	STUCK_FAILED	 /* V6: `failed` is set */
};

/* Pause between looks at host memory, ns. */
enum { STUCK_PAUSE_MIN = 100, STUCK_PAUSE_MAX = 5000 };

/* How the owner speaks; the same in every lane. */
struct stuck_voice {
	bool owns;
	uint64_t said_phase, said_missing;
};

SYMM_INLINE uint64_t from_first_lane(uint64_t value)
{
	return __shfl_sync(~0u, value, 0);
}

/* V6, before the block ends without a result. The same value from every block. */
SYMM_INLINE void set_failed(const struct symm_call &call, const struct block_words &block)
{
	if (lane_id() == 0)
		store_gpu(&call.state->mode.failed, block.turn);
	__syncwarp();
}

/* [POSTS]: where the output lies stands in host memory before the first `stuck` of this owner. */
SYMM_INLINE bool claim_voice(const struct symm_call &call, const struct block_words &block)
{
	uint64_t mine = block.turn << 10 | (blockIdx.x + 1);
	bool owns = false;

	if (lane_id() == 0 && swap_if(&call.state->stuck_owner, 0, mine) == 0) {
		store_pair(&call.posts->output, (uint64_t)call.recv, block.turn);
		fence_system();
		owns = true;
	}
	return __any_sync(~0u, owns);
}

/* Another block that is still stuck may speak now. */
SYMM_INLINE void give_voice_up(const struct symm_call &call, const struct stuck_voice &voice)
{
	if (voice.owns && lane_id() == 0)
		store_gpu(&call.state->stuck_owner, 0);
}

/* Ranks whose header is not here any more. The own watcher takes them away when it gives its part
 * to a rescue, and a worker that had not looked yet waits for them without a note. */
SYMM_INLINE uint32_t headers_gone(const struct symm_call &call, const struct block_words &block)
{
	uint32_t lane = lane_id();
	bool gone = false;

	if (lane < call.nranks && lane != call.rank)
		gone = load_relaxed(word_of(call.own, call.layout.headers, parity_of(block.turn),
					    blockIdx.x, lane)) >>
			       32 !=
		       block.flag;
	return __ballot_sync(~0u, gone);
}

/* Ranks whose header is not here; where all are, ranks whose data some worker has been polling
 * since the last look. 0: not known yet. */
SYMM_INLINE uint32_t who_is_missing(const struct symm_call &call, struct block_words &block,
				    const struct gate_lane &lane, uint32_t *ret_phase)
{
	uint32_t headers = __ballot_sync(~0u, !lane.here);
	uint32_t inputs = 0, results = 0;

	if (lane_id() == 0) {
		inputs = atomicExch(&block.polled[PHASE_INPUTS], 0);
		results = atomicExch(&block.polled[PHASE_RESULTS], 0);
	}
	inputs = __shfl_sync(~0u, inputs, 0) | headers;
	results = __shfl_sync(~0u, results, 0);
	if (!inputs && !results)
		inputs = headers_gone(call, block);
	*ret_phase = inputs ? PHASE_INPUTS : PHASE_RESULTS;
	return inputs ? inputs : results;
}

/* The owner posts what is missing, and again when it changes. */
SYMM_INLINE void speak(const struct symm_call &call, struct block_words &block,
		       const struct gate_lane &lane, struct stuck_voice *voice)
{
	uint32_t phase;
	uint32_t missing = who_is_missing(call, block, lane, &phase);

	if (missing && !block.missing)
		block.missing = missing;
	if (!voice->owns)
		voice->owns = claim_voice(call, block);
	if (!voice->owns || !missing ||
	    (phase == voice->said_phase && missing == voice->said_missing))
		return;
	voice->said_phase = phase;
	voice->said_missing = missing;
	if (lane_id() == 0)
		store_pair(&call.posts->stuck, block.turn << 3 | phase, missing);
}

/* Tells the workers to stop and waits until they have. They look at `leave` wherever data is not
 * here, and at nothing else they wait, but for faults, which are bounded. */
SYMM_INLINE struct gate_view stop_workers(const struct symm_call &call, struct block_words &block,
					  bool pull, struct gate_lane *lane)
{
	struct gate_view view;

	block.leave = 1;
	do
		view = gate_look(call, block, block, pull, lane);
	while (!view.stopped);
	return view;
}

/* R3. Bounded by the kernel's own last deadline. */
SYMM_INLINE enum stuck_outcome hold(const struct symm_call &call, const struct block_words &block)
{
	uint32_t pause = STUCK_PAUSE_MIN;
	uint64_t released;

	for (;;) {
		released = from_first_lane(lane_id() == 0 ? load_acquire(&call.orders->released)
							  : 0); /* (4) */
		if (released >> 1 == block.turn || __any_sync(~0u, elapsed(block) > call.last_ns))
			break;
		pause_ns(pause);
		pause = pause < STUCK_PAUSE_MAX ? pause * 2 : pause;
	}
	if (released == (block.turn << 1 | 1)) {
		/* A step word like the others, P1: the host takes the rescue as over with it. */
		if (lane_id() == 0)
			store_relaxed(call.steps + 3, block.turn);
		return STUCK_RESCUED;
	}
	if (released >> 1 != block.turn && lane_id() == 0)
		store_relaxed(&call.posts->gave_up, block.turn);
	set_failed(call, block);
	return STUCK_FAILED;
}

/* No worker of this block works any more, and not all have finished. */
SYMM_INLINE enum stuck_outcome abandon(const struct symm_call &call, struct block_words &block)
{
	bool holds = false;

	fence_block();
	fence_system();
	/* The first of this turn finds another turn here; blocks of other turns have ended. */
	if (lane_id() == 0) {
		holds = atomicExch((unsigned long long *)&call.state->holder, block.turn) !=
			block.turn;
	}
	holds = __any_sync(~0u, holds);
	await_clerk(call, block);
	post_block(call, block, SYMM_BLOCK_ABANDONED); /* [ABANDON] (1) */
	return holds ? hold(call, block) : STUCK_ABANDONED;
}

SYMM_INLINE enum stuck_outcome fail(const struct symm_call &call, const struct block_words &block,
				    bool gave_up)
{
	set_failed(call, block);
	if (gave_up && lane_id() == 0)
		store_relaxed(&call.posts->gave_up, block.turn);
	return STUCK_FAILED;
}

enum stuck_order { ORDER_NONE, ORDER_FAIL, ORDER_ABANDON, ORDER_LAST };

/* What the watcher, or the last deadline, asks of this block. A verdict comes first. */
SYMM_INLINE enum stuck_order next_order(const struct symm_call &call,
					const struct block_words &block)
{
	struct symm_pair orders = {0, 0}; /* abandon, fail_from */
	enum stuck_order order = ORDER_NONE;

	if (lane_id() == 0)
		orders = load_pair(&call.orders->abandon);
	if (orders.second != 0 && orders.second <= block.turn)
		order = ORDER_FAIL;
	else if (orders.first == block.turn)
		order = ORDER_ABANDON;
	else if (elapsed(block) > call.last_ns)
		order = ORDER_LAST;
	return (enum stuck_order)__shfl_sync(~0u, (int)order, 0);
}

/*
 * Until the block has an outcome; for patient gates from the beginning on. `late`: past the soft
 * deadline or hasty; else it is here because a header differs, and only looks for orders until
 * then.
 */
static __device__ __noinline__ int gate_stuck(const struct symm_call &call,
					      struct block_words &block, bool pull, bool here,
					      bool differs)
{
	struct gate_lane lane = {header_of(call, block, block), here, differs, 0, false};
	struct stuck_voice voice = {false, 0, 0};
	uint64_t late_ns = block.hasty ? 0 : call.late_ns;
	enum stuck_order order = ORDER_NONE;
	enum stuck_outcome outcome = STUCK_DONE;
	uint32_t pause = STUCK_PAUSE_MIN;
	struct gate_view view;

	for (;;) {
		view = gate_look(call, block, block, pull, &lane);
		if (view.verified && view.finished)
			break;
		tell_step(call, block, block, &lane);
		if (__any_sync(~0u, elapsed(block) > late_ns))
			speak(call, block, lane, &voice);
		order = next_order(call, block);
		if (order != ORDER_NONE) {
			view = stop_workers(call, block, pull, &lane);
			break;
		}
		pause_ns(pause);
		pause = pause < STUCK_PAUSE_MAX ? pause * 2 : pause;
	}
	give_voice_up(call, voice);
	if (order == ORDER_FAIL)
		outcome = fail(call, block, false);
	else if (!view.verified || !view.finished)
		outcome = order == ORDER_ABANDON ? abandon(call, block) : fail(call, block, true);
	return (int)outcome;
}

/* Ends a block that did not end by itself, and patient ones. The holder ends last: with it the
 * kernel. */
static __device__ __noinline__ void end_stuck(const struct symm_call &call,
					      struct block_words &block, int outcome)
{
	await_entered(block);
	write_lines(call, block);
	if (outcome == STUCK_FAILED)
		return;
	if (blockIdx.x == 0)
		write_record(call, block, block, header_of(call, block, block));
	if (outcome == STUCK_DONE) {
		await_clerk(call, block);
		post_block(call, block, SYMM_BLOCK_DONE);
	}
	if (outcome == STUCK_RESCUED || (outcome == STUCK_DONE && blockIdx.x == 0))
		post_ticket(call, block);
}

#endif /* BELAY_KERNELS_CALL_STUCK_CUH */
