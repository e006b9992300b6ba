/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a block: exchanges headers, lets outputs through (M1), watches the clock, ends the
 * block and writes its lines and the record. One warp; lane q sees to rank q and to worker warp q.
 *
 * Ordering contract [PULLED], pull variants only
 *
 *   owner of an input, block b                reader, block b of any peer
 *   workers: stores to the retained copy
 *   barrier 1; clerk: fence of the system
 *   (1) relaxed store of the header     --->  (2) gate: acquiring load of the header
 *                                             (3) gate: fence of the block, `verified` [BLOCK]
 *                                             workers: fence of the block, loads of the owner's
 *                                               retained copy
 *
 * Push variants need none of it: their flags stand in the data.
 */
#ifndef BELAY_KERNELS_CALL_GATE_CUH
#define BELAY_KERNELS_CALL_GATE_CUH

#include "kernels/call_clerk.cuh"
#include "kernels/symm_call.cuh"

/* Looks between looks at the clock. */
enum { GATE_LOOKS = 16 };

/* A block that waits no longer than this, ns, does not tell the host how far it has come (P1): no
 * healthy call waits so long, and no deadline is so short. */
enum { GATE_QUIET_NS = 16000 };

/* What one look shows; the same in every lane. */
struct gate_view {
	bool verified; /* all headers are here and alike */
	bool finished; /* all worker warps have */
	bool stopped;  /* none works any more */
};

/* The lane's rank, as far as it has come. */
struct gate_lane {
	uint64_t header; /* what it ought to say: what this rank says */
	bool here;	 /* its header is; true where there is none to wait for */
	bool differs;	 /* ... and says something else (M1) */
	uint32_t told;	 /* the step that has been posted; the same in every lane */
	bool moved_on;	 /* the lines are of the next turn */
};

static __device__ __noinline__ void post_mismatch(const struct symm_call &call, uint64_t turn)
{
	store_relaxed(&call.posts->mismatch, turn << 8 | lane_id());
}

/* True when the header is here, and then never asked again. Any other word than one with this
 * turn's flag is nothing (R5). */
SYMM_INLINE bool look_at_header(const struct symm_call &call, const struct turn_facts &facts,
				bool pull, struct gate_lane *lane)
{
	const uint64_t *at = word_of(call.own, call.layout.headers, parity_of(facts.turn),
				     blockIdx.x, lane_id());
	uint64_t word = pull ? load_acquire(at) /* [PULLED] (2) */ : load_relaxed(at);

	if (word >> 32 != facts.flag)
		return false;
	lane->here = true;
	lane->differs = word != lane->header;
	return true;
}

/* What the workers do not wait for. */
SYMM_INLINE void note_header(const struct symm_call &call, struct block_words &block,
			     const struct turn_facts &facts, const struct gate_lane &lane)
{
	block.arrival[lane_id()] = (uint32_t)elapsed(facts);
	if (lane.differs)
		post_mismatch(call, facts.turn);
}

/* The whole warp looks for headers; true once all are here and alike, and the workers know it. */
SYMM_INLINE bool let_through(const struct symm_call &call, struct block_words &block,
			     const struct turn_facts &facts, bool pull, struct gate_lane *lane)
{
	bool came = false, verified;

	if (!lane->here)
		came = look_at_header(call, facts, pull, lane);
	verified = __all_sync(~0u, lane->here && !lane->differs);
	if (verified) {
		if (pull)
			fence_block(); /* [PULLED] (3) */
		block.verified = 1;
	}
	if (came)
		note_header(call, block, facts, *lane);
	__syncwarp();
	return verified;
}

/* P1. Where it is on time a block posts only that it is done, which says all the steps before. */
SYMM_INLINE void tell_step(const struct symm_call &call, const struct block_words &block,
			   const struct turn_facts &facts, struct gate_lane *lane)
{
	uint32_t step = block.step;

	if (step <= lane->told)
		return;
	if (fault_splits(call, block))
		fence_block(); /* the clerk has posted before, see await_clerk() */
	post_block(call, facts, step);
	lane->told = step;
}

/* The same in every lane. */
SYMM_INLINE bool is_late(const struct symm_call &call, const struct block_words &block,
			 const struct turn_facts &facts, struct gate_lane *lane, uint64_t late_ns)
{
	uint64_t waited = elapsed(facts);

	if (__any_sync(~0u, waited > GATE_QUIET_NS))
		tell_step(call, block, facts, lane);
	return __any_sync(~0u, waited > late_ns);
}

/* Until they are let through: true. False: a header differs, or it takes too long. */
SYMM_INLINE bool await_headers(const struct symm_call &call, struct block_words &block,
			       const struct turn_facts &facts, bool pull, struct gate_lane *lane,
			       uint64_t late_ns)
{
	for (uint32_t looks = 1; !let_through(call, block, facts, pull, lane); looks++)
		if (__any_sync(~0u, lane->differs) ||
		    (looks % GATE_LOOKS == 0 && is_late(call, block, facts, lane, late_ns)))
			return false;
	return true;
}

/* The whole warp looks at everything. */
SYMM_INLINE struct gate_view gate_look(const struct symm_call &call, struct block_words &block,
				       const struct turn_facts &facts, bool pull,
				       struct gate_lane *lane)
{
	struct gate_view view = {block.verified != 0, false, false};
	uint32_t ended;

	if (!view.verified)
		view.verified = let_through(call, block, facts, pull, lane);
	ended = lane_id() < call.warps ? (uint32_t)block.ended[lane_id()]
				       : (uint32_t)ENDED_FINISHED;
	view.finished = __all_sync(~0u, ended == ENDED_FINISHED);
	view.stopped = __all_sync(~0u, ended != ENDED_NOT);
	return view;
}

/* ---- the end of a block ------------------------------------------------------------------------
 */

/* The lines of this block and of those that a larger grid would have (P4), for the next kernel: no
 * other block of this one reads them. */
SYMM_INLINE void write_lines(const struct symm_call &call, const struct turn_facts &facts)
{
	uint32_t index = facts.open ? facts.index + 1 : 0;

	for (uint32_t b = blockIdx.x + lane_id() * gridDim.x; b < SYMM_BLOCKS_MAX;
	     b += 32 * gridDim.x) {
		struct symm_line *line = &call.state->line[b];

		store_pair(line, facts.turn, facts.seq);
		store_pair(&line->pass, facts.pass, (uint64_t)facts.open << 32 | index);
	}
}

/* Workers that have finished do not tell that the clerk has come by: it may have been held up since
 * the kernel began. It waits for nobody but them. */
SYMM_INLINE void await_entered(const struct block_words &block)
{
	while (!block.entered)
		continue;
	__syncwarp();
}

/* As soon as nobody can read the old ones any more: so that it is not left for the end. */
SYMM_INLINE void move_on(const struct symm_call &call, const struct block_words &block,
			 const struct turn_facts &facts, struct gate_lane *lane)
{
	if (lane->moved_on || !__any_sync(~0u, block.entered != 0))
		return;
	write_lines(call, facts);
	lane->moved_on = true;
}

/* Words of the record that only its end knows. */
enum { RECORD_TIMES = 6, RECORD_MISSING = 9 };

/* Word `lane` of the record. Arrivals of ranks 2k and 2k + 1 make word 10 + k. */
SYMM_INLINE uint64_t record_word(const struct symm_call &call, const struct block_words &block,
				 const struct turn_facts &facts, uint64_t header, uint32_t lane)
{
	uint32_t rank = lane >= 10 && lane < 18 ? 2 * (lane - 10) : 0;
	uint64_t arrivals = (uint64_t)block.arrival[rank + 1] << 32 | block.arrival[rank];

	switch (lane) {
	case 0:
	case 31:
		return facts.turn;
	case 1:
		return facts.seq;
	case 2:
		return open_pass(facts);
	case 3:
		return call.call_count;
	case 4:
		return facts.turn + call.turns_after;
	case 5:
		return facts.start;
	case RECORD_TIMES:
		return elapsed(facts) << 32 | block.staged_ticks;
	case 7:
		return header << 32 | facts.index;
	case 8:
		return call.flags | (uint64_t)call.dtype << 16 | (uint64_t)call.op << 24 |
		       (uint64_t)call.path << 32 | (uint64_t)block.algorithm << 40 |
		       (uint64_t)gridDim.x << 48;
	case RECORD_MISSING:
		return block.missing;
	default:
		return lane >= 10 && lane < 18 ? arrivals : 0;
	}
}

/* One store of the warp, 256 bytes, when all headers are here; what only the end knows follows
 * then. The reader takes a record of a turn that is done and whose both ends say it. */
SYMM_INLINE void write_record(const struct symm_call &call, const struct block_words &block,
			      const struct turn_facts &facts, uint64_t header)
{
	uint64_t *record = (uint64_t *)&call.state->ring[facts.turn % SYMM_RING_RECORDS];

	store_gpu(record + lane_id(), record_word(call, block, facts, header, lane_id()));
}

SYMM_INLINE void end_record(const struct symm_call &call, const struct block_words &block,
			    const struct turn_facts &facts)
{
	uint64_t *record = (uint64_t *)&call.state->ring[facts.turn % SYMM_RING_RECORDS];

	if (lane_id() == 0)
		store_gpu(record + RECORD_TIMES, elapsed(facts) << 32 | block.staged_ticks);
	if (lane_id() == 1)
		store_gpu(record + RECORD_MISSING, block.missing);
}

/* Others of the grid may be stuck yet: so the turn goes with it. */
SYMM_INLINE void post_ticket(const struct symm_call &call, const struct turn_facts &facts)
{
	if (call.ticket != 0 && lane_id() == 0)
		store_pair(&call.posts->ticket, call.ticket, facts.turn);
}

/* A split turn's steps are posted by the clerk: not after this, and before what the gate posts
 * next. Its workers arrive, whatever happens, and its faults are bounded. */
SYMM_INLINE void await_clerk(const struct symm_call &call, const struct block_words &block)
{
	if (!fault_splits(call, block))
		return;
	while (block.step == 0)
		continue;
	fence_block();
}

/* Once all headers are here, until all worker warps have finished: true. False: it takes too long.
 */
SYMM_INLINE bool await_workers(const struct symm_call &call, struct block_words &block,
			       const struct turn_facts &facts, struct gate_lane *lane,
			       uint64_t late_ns)
{
	bool watches = lane_id() < call.warps;

	for (uint32_t looks = 1;; looks++) {
		if (__all_sync(~0u, !watches || block.ended[lane_id()] == ENDED_FINISHED))
			return true;
		move_on(call, block, facts, lane);
		if (looks % GATE_LOOKS == 0 && is_late(call, block, facts, lane, late_ns))
			return false;
	}
}

/* All worker warps have finished: the block's output stands, for this block; for others when the
 * kernel has ended (P2: the post is a hint). `post` and `done`: where, and what. Nothing here that
 * could have been done before. */
SYMM_INLINE void end_done(const struct symm_call &call, const struct block_words &block,
			  const struct turn_facts &facts, const struct gate_lane &lane,
			  uint64_t *post, uint64_t done)
{
	await_clerk(call, block);
	if (lane_id() == 0)
		store_relaxed(post, done);
	if (!lane.moved_on) {
		await_entered(block);
		write_lines(call, facts);
	}
	if (blockIdx.x == 0) {
		end_record(call, block, facts);
		post_ticket(call, facts);
	}
}

#endif /* BELAY_KERNELS_CALL_GATE_CUH */
