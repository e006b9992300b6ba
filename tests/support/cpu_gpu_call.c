/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of a turn on the GPU played on the CPU: docs/cuda-path.md, "A block" and "A block
 * that waits too long", step by step. Every step of a role does one thing that a GPU could do
 * between two of another; which block and role comes next is a matter of chance.
 *
 *   workers   STAGE [PUSH] REDUCE [COLLECT] -> FINISHED, or LEFT where data is not here and the
 *             gate says `leave`; of a parked turn: STAGE -> PARKED -> LEFT
 *   clerk     STAGED [RESULTS] -> ENDED
 *   gate      ENTRY -> HEADERS -> POLL -> ENDED, or -> HOLD -> ENDED
 */
#include "config.h"

#include <string.h>

#include "runtime/belay.h"
#include "tests/support/cpu_gpu_call.h"

enum { PHASE_INPUTS = 1, PHASE_RESULTS = 2, PHASE_GATHER = 4 };
enum { STEP_STAGED, STEP_PUSHED, STEP_RESULTS, STEP_DONE };

/* As GATE_QUIET_NS of the kernels. */
enum { QUIET_NS = 16000 };

/* A kernel's clock steps in ns, from an origin of its own. */
static uint64_t ticks_since(uint64_t start)
{
	return cpu_gpu_ticks() - start;
}

static uint32_t ticks_32(uint64_t start)
{
	uint64_t ticks = ticks_since(start);

	return ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX - 1;
}

static uint64_t peers(const struct turn_run *run)
{
	const struct symm_comm *comm = &run->arguments->comm;

	return ((UINT64_C(1) << comm->nranks) - 1) & ~(UINT64_C(1) << comm->rank);
}

static unsigned blocks_of(const struct turn_run *run)
{
	return run->arguments->launch.blocks;
}

/* ---- entry ---------------------------------------------------------------------------------- */

static void take_numbers(const struct turn_run *run, struct block *block)
{
	const struct symm_launch *launch = &run->arguments->launch;
	struct symm_line line = run->arguments->comm.state->line[block->b];
	/* The gate has taken the number for its end. */
	bool again = run->arguments->kind == TURN_GATE_END;
	struct turn_numbers *at = &block->at;

	at->turn = line.turn + !again;
	at->seq = line.seq + (launch->turn_of_call == 0 && !again);
	at->pass = line.open ? line.pass : 0;
	at->index = line.open ? line.index - again : 0;
	at->parity = (unsigned)(at->turn & 1);
	at->flag = symm_flag_of(at->turn);
	at->signature = symm_signature(launch->signature_base, at->pass, at->index);
}

/* What a later kernel's blocks read at entry, for any grid: lines b, b + G, ... */
static void write_lines(const struct turn_run *run, const struct block *block)
{
	const struct symm_launch *launch = &run->arguments->launch;
	struct symm_state *state = run->arguments->comm.state;
	struct symm_line line = state->line[block->b];

	line.turn = block->at.turn;
	line.seq = block->at.seq;
	if (line.open && launch->turn_of_call + 1 == launch->turns_of_call)
		line.index = block->at.index + 1;
	for (unsigned b = block->b; b < SYMM_BLOCKS_MAX; b += blocks_of(run))
		state->line[b] = line;
}

/* Turn t + 2 of an abandoned turn t is pulled, with results by flags, whatever it would be else:
 * its full-wire slots may hold leftovers. */
static void choose_algorithm(const struct turn_run *run, struct block *block)
{
	const struct turn_arguments *a = run->arguments;
	const struct symm_mode *mode = &a->comm.state->mode;
	uint64_t dirty = load_word(&mode->dirty[block->at.parity]);

	block->clears = dirty + 2 == block->at.turn;
	block->algorithm =
		block->clears && a->kind == TURN_CALL ? SYMM_TWOSHOT_PULL : a->launch.algorithm;
}

/* ---- faults --------------------------------------------------------------------------------- */

static bool is_act(uint32_t kind)
{
	return kind == SYMM_FAULT_DELAY || kind == SYMM_FAULT_ASK || kind == SYMM_FAULT_STICKY;
}

/* What is due in this turn, for all blocks alike. */
static void look_for_faults(struct turn_run *run, uint64_t seq)
{
	const struct symm_comm *comm = &run->arguments->comm;

	for (uint32_t i = 0; i < comm->nfaults; i++) {
		const struct symm_fault *fault = &comm->faults[i];

		if (seq < fault->first || seq > fault->last ||
		    (seq - fault->first) % (fault->step ? fault->step : 1))
			continue;
		run->fault.drop |= fault->kind == SYMM_FAULT_DROP;
		run->fault.corrupt |= fault->kind == SYMM_FAULT_CORRUPT;
		run->fault.flag |= fault->kind == SYMM_FAULT_FLAG;
		run->fault.sign |= fault->kind == SYMM_FAULT_SIGN;
		if (is_act(fault->kind) && !run->fault.act) {
			run->fault.act = fault;
			run->fault.act_at = fault->at;
		}
	}
}

/* By what its blocks have posted. */
static bool whole_turn_is_staged(struct turn_run *run, uint64_t turn)
{
	const struct symm_posts *posts = run->arguments->comm.posts;

	for (uint32_t b = 0; b < blocks_of(run); b++)
		if (SYMM_BLOCK_TURN(load_word(&posts->block[b])) < turn)
			return false;
	return true;
}

/* Block 0 acts, the others go on. False: not over yet. */
static bool fault_is_over(struct turn_run *run, const struct block *block, uint32_t at)
{
	const struct symm_comm *comm = &run->arguments->comm;
	struct faults_due *fault = &run->fault;
	uint64_t word = block->at.turn << 8 | at;

	if (fault->act_at != at || fault->acted || block->b != 0)
		return true;
	/* The whole rank is to have staged before it is killed at a later step, as in the kernels.
	 */
	if (run->arguments->kind == TURN_CALL && fault->act->kind == SYMM_FAULT_ASK &&
	    at > SYMM_AT_STAGE && !whole_turn_is_staged(run, block->at.turn))
		return false;
	if (!fault->since) {
		fault->since = cpu_gpu_ticks();
		if (fault->act->kind == SYMM_FAULT_STICKY)
			cpu_gpu_lose_context(CPU_GPU_ILLEGAL_ADDRESS);
		if (fault->act->kind == SYMM_FAULT_ASK)
			store_word(&comm->posts->fault_asked, word);
	}
	switch (fault->act->kind) {
	case SYMM_FAULT_DELAY:
		fault->acted = ticks_since(fault->since) >= fault->act->ns;
		break;
	case SYMM_FAULT_ASK:
		fault->acted = load_word(&comm->orders->fault_done) == word;
		break;
	default:
		break; /* the context is lost: this kernel ends */
	}
	return fault->acted;
}

/* ---- workers -------------------------------------------------------------------------------- */

/* A fault between staging and pushing parts the two. */
static bool pushes_later(const struct turn_run *run)
{
	return run->fault.act_at == SYMM_AT_PUSH;
}

static void go_on(struct block *block, enum worker_step next)
{
	block->work = next;
	block->slice = 0;
	block->unit = 0;
}

static bool stage(struct turn_run *run, struct block *block)
{
	bool parked = run->arguments->kind == TURN_PARKED; /* the regions may be private */

	if (!fault_is_over(run, block, SYMM_AT_STAGE))
		return false;
	if (data_stage(run, block, !parked && !pushes_later(run)))
		return true;
	block->staged = true; /* barrier 1 */
	if (parked)
		go_on(block, WORKER_PARKED);
	else
		go_on(block, pushes_later(run) ? WORKER_PUSH : WORKER_REDUCE);
	return true;
}

static bool push(struct turn_run *run, struct block *block)
{
	if (!block->counted || !fault_is_over(run, block, SYMM_AT_PUSH))
		return false;
	if (!data_push(run, block))
		go_on(block, WORKER_REDUCE);
	return true;
}

static bool reduce(struct turn_run *run, struct block *block)
{
	if (!fault_is_over(run, block, SYMM_AT_WAIT))
		return false;
	if (block->verified && !fault_is_over(run, block, SYMM_AT_REDUCE))
		return false;
	if (!data_reduce(run, block))
		return false;
	if (block->results)
		go_on(block, two_shot(block->algorithm) ? WORKER_COLLECT : WORKER_FINISHED);
	return true;
}

static bool workers_are_over(const struct block *block)
{
	return block->work == WORKER_FINISHED || block->work == WORKER_LEFT;
}

static bool step_workers(struct turn_run *run, struct block *block)
{
	bool moved = false;

	switch (block->work) {
	case WORKER_STAGE:
		return stage(run, block); /* R3: no leaving before */
	case WORKER_PUSH:
		moved = push(run, block);
		break;
	case WORKER_REDUCE:
		moved = reduce(run, block);
		break;
	case WORKER_COLLECT:
		moved = data_collect(run, block);
		break;
	case WORKER_PARKED:
		break;
	default:
		return false;
	}
	/* Only where data is not here do they look at `leave`. */
	if (!moved && block->leave) {
		block->work = WORKER_LEFT;
		block->results = true; /* or never will be */
		return true;
	}
	return moved;
}

/* ---- clerk ---------------------------------------------------------------------------------- */

static void describe(const struct turn_run *run, const struct block *block)
{
	const struct symm_launch *launch = &run->arguments->launch;
	struct symm_description *to = &run->arguments->comm.descriptions[block->at.parity];

	*to = (struct symm_description){
		.seq = block->at.seq,
		.count = launch->call_count,
		.pass = block->at.pass,
		.last_turn = block->at.turn + launch->turns_of_call - 1 - launch->turn_of_call,
		.index = block->at.index,
		.signature = block->at.signature,
		.dtype = launch->dtype,
		.op = launch->op,
		.path = launch->path,
	};
}

static void post_step(const struct turn_run *run, const struct block *block, unsigned step)
{
	store_word(&run->arguments->comm.steps[step], block->at.turn);
}

static void post_block(const struct turn_run *run, const struct block *block,
		       enum symm_block_state state)
{
	store_word(&run->arguments->comm.posts->block[block->b],
		   SYMM_BLOCK_WORD(block->at.turn, blocks_of(run), state));
}

/* P3. How far the block has come is posted at once in turns that park or are split, else by
 * tell_step(). */
static void vouch_for_retained(struct turn_run *run, struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;
	unsigned parity = block->at.parity;
	uint64_t *words =
		(uint64_t *)(region_of_rank(comm, comm->rank) + comm->layout.block_staged);

	store_word(&words[parity * SYMM_BLOCKS_MAX + block->b],
		   SYMM_BLOCK_WORD(block->at.turn, blocks_of(run), SYMM_BLOCK_STAGED));
	block->staged_ticks = ticks_32(block->start);
	block->counted = true;
	if (run->arguments->kind == TURN_PARKED) {
		post_step(run, block, STEP_STAGED);
		post_step(run, block, STEP_PUSHED);
	} else if (pushes_later(run)) {
		post_block(run, block, SYMM_BLOCK_STAGED);
	} else {
		block->step = SYMM_BLOCK_PUSHED;
	}
}

static bool step_clerk(struct turn_run *run, struct block *block)
{
	switch (block->clerk) {
	case CLERK_STAGED:
		if (!block->staged)
			return false;
		if (block->b == 0)
			describe(run, block);
		vouch_for_retained(run, block);
		block->clerk = two_shot(block->algorithm) && run->arguments->kind == TURN_CALL
				       ? CLERK_RESULTS
				       : CLERK_ENDED;
		if (block->b == 0)
			data_scrub(run, block);
		return true;
	case CLERK_RESULTS:
		if (!block->results)
			return false;
		block->step = SYMM_BLOCK_RESULTS;
		block->clerk = CLERK_ENDED;
		return true;
	default:
		return false;
	}
}

/* ---- gate: on time -------------------------------------------------------------------------- */

static void send_headers(struct turn_run *run, const struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;
	uint64_t header = (uint64_t)data_flag(run, block) << 32 | block->at.signature;

	if (run->fault.drop)
		return;
	if (run->arguments->kind == TURN_GATE)
		store_word(&comm->posts->gate[block->at.parity], header);
	for (uint32_t q = 0; q < comm->nranks && run->arguments->kind == TURN_CALL; q++)
		store_word(header_at(comm, q, block->at.parity, block->b, comm->rank), header);
}

/* A gate moves no data: it is described and announced at once. */
static bool pass_gate_faults(struct turn_run *run, struct block *block)
{
	uint32_t at = run->fault.act_at;

	if ((at == SYMM_AT_STAGE || at == SYMM_AT_PUSH) && !fault_is_over(run, block, at))
		return false;
	describe(run, block);
	post_step(run, block, STEP_STAGED);
	block->staged_ticks = ticks_32(block->start);
	block->work = WORKER_FINISHED;
	block->clerk = CLERK_ENDED;
	return true;
}

static bool may_send_headers(struct turn_run *run, struct block *block)
{
	if (run->arguments->kind == TURN_GATE)
		return pass_gate_faults(run, block);
	/* Peers pull what a header announces. */
	if (!pushes(block->algorithm))
		return block->staged && block->work != WORKER_PUSH;
	return !pushes_later(run) || (block->work != WORKER_STAGE && block->work != WORKER_PUSH);
}

static void note_mismatch(struct turn_run *run, struct block *block, uint32_t q)
{
	if (!block->mismatch)
		store_word(&run->arguments->comm.posts->mismatch, block->at.turn << 8 | q);
	block->mismatch = true;
}

static uint64_t header_of(const struct turn_run *run, const struct block *block, uint32_t q)
{
	const struct symm_comm *comm = &run->arguments->comm;

	if (run->arguments->kind == TURN_GATE)
		return load_word(&comm->posts_of[q]->gate[block->at.parity]);
	return load_word(header_at(comm, comm->rank, block->at.parity, block->b, q));
}

/* True when something new was seen. */
static bool look_at_headers(struct turn_run *run, struct block *block)
{
	uint64_t before = block->arrived;

	for (uint32_t q = 0; q < run->arguments->comm.nranks; q++) {
		uint64_t header;

		if (q == run->arguments->comm.rank || block->arrived >> q & 1)
			continue;
		header = header_of(run, block, q);
		if (header >> 32 != block->at.flag)
			continue;
		block->arrived |= UINT64_C(1) << q;
		block->arrival[q] = ticks_32(block->start);
		if ((uint32_t)header != block->at.signature)
			note_mismatch(run, block, q);
	}
	if (block->verified || block->mismatch || block->arrived != peers(run))
		return block->arrived != before;
	/* Every peer's kernel of two turns ago has ended: nobody writes to these slots. */
	if (block->clears)
		data_clear(run, block);
	block->verified = true;
	return true;
}

/* `turn` is 0 for a record that is not to be taken yet. */
static void write_record(const struct turn_run *run, const struct block *block, uint64_t turn)
{
	static const uint8_t algorithms[SYMM_ALGORITHMS] = {
		[SYMM_ONESHOT_PACKETS] = BELAY_ALGORITHM_ONESHOT,
		[SYMM_ONESHOT_WIRE] = BELAY_ALGORITHM_ONESHOT,
		[SYMM_TWOSHOT_WIRE] = BELAY_ALGORITHM_TWOSHOT,
		[SYMM_TWOSHOT_PULL] = BELAY_ALGORITHM_TWOSHOT_PULL,
		[SYMM_ISLAND] = BELAY_ALGORITHM_ISLAND, /* moves its data as two-shot does */
	};
	const struct turn_arguments *a = run->arguments;
	uint64_t place = block->at.turn % SYMM_RING_RECORDS;
	struct symm_record record = {
		.turn = turn,
		.seq = block->at.seq,
		.pass = block->at.pass,
		.count = a->launch.call_count,
		.last_turn = block->at.turn + a->launch.turns_of_call - 1 - a->launch.turn_of_call,
		.start = block->start,
		.staged = block->staged_ticks,
		.duration = ticks_32(block->start),
		.index = block->at.index,
		.signature = block->at.signature,
		.flags = a->launch.flags,
		.dtype = a->launch.dtype,
		.op = a->launch.op,
		.path = a->launch.path,
		.algorithm = a->kind == TURN_PARKED ? BELAY_ALGORITHM_GATHER
			     : a->kind == TURN_CALL ? algorithms[block->algorithm]
						    : 0,
		.blocks = (uint16_t)blocks_of(run),
		.missing = block->missing,
		.turn_again = turn,
	};
	const uint64_t *from = (const uint64_t *)&record;
	uint64_t *to = (uint64_t *)&a->comm.state->ring[place];

	memcpy(record.arrival, block->arrival, sizeof(record.arrival));
	/* By words: the host may copy it meanwhile. `turn` is the first, `turn_again` the last. */
	for (size_t i = 0; i < sizeof(record) / sizeof(*to); i++)
		store_word(&to[i], from[i]);
}

static void post_ticket(const struct turn_run *run, uint64_t turn)
{
	const struct turn_arguments *a = run->arguments;

	if (a->launch.ticket)
		store_ticket(a->comm.posts, a->launch.ticket, turn);
}

/* The books of a turn, kept by block 0. */
static void keep_books(struct turn_run *run, const struct block *block)
{
	uint64_t next = (block->at.turn + 1) % SYMM_RING_RECORDS;

	if (block->b != 0)
		return;
	store_word(&run->arguments->comm.state->digest[next], 0);
	write_record(run, block, block->at.turn);
}

/* The end of a block that has its result. */
static void finish(struct turn_run *run, struct block *block)
{
	uint64_t *digest = run->arguments->comm.state->digest;

	(void)__atomic_add_fetch(&digest[block->at.turn % SYMM_RING_RECORDS], block->digest,
				 __ATOMIC_RELAXED);
	write_lines(run, block);
	keep_books(run, block);
	post_block(run, block, SYMM_BLOCK_DONE);
	if (block->b == 0)
		post_ticket(run, block->at.turn);
}

static void leave_ownership(struct turn_run *run, struct block *block)
{
	if (block->owner)
		store_word(&run->arguments->comm.state->stuck_owner, 0);
	block->owner = false;
}

static void end_gate(struct turn_run *run, struct block *block)
{
	leave_ownership(run, block);
	block->gate = GATE_ENDED;
}

/* ---- gate: too long ------------------------------------------------------------------------- */

static void become_owner(struct turn_run *run, struct block *block)
{
	const struct turn_arguments *a = run->arguments;
	uint64_t nobody = 0, self = block->at.turn << 10 | (block->b + 1);

	if (block->owner || !__atomic_compare_exchange_n(&a->comm.state->stuck_owner, &nobody, self,
							 false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	block->owner = true;
	store_word(&a->comm.posts->output, (uint64_t)(uintptr_t)a->launch.recv);
	store_word(&a->comm.posts->output_turn, block->at.turn);
	fence_all();
}

static void post_stuck(struct turn_run *run, struct block *block)
{
	struct symm_posts *posts = run->arguments->comm.posts;
	unsigned phase = run->arguments->kind == TURN_PARKED ? PHASE_GATHER
			 : block->work == WORKER_COLLECT     ? PHASE_RESULTS
							     : PHASE_INPUTS;
	uint64_t missing = (peers(run) & ~block->arrived) | block->polled;
	uint64_t stuck = block->at.turn << 3 | phase;

	if (run->arguments->kind == TURN_PARKED)
		missing = peers(run);
	if (stuck == block->posted_stuck && missing == block->posted_missing)
		return;
	/* One store on a GPU. Two here: missing first, so that a new `stuck` has its own. */
	store_word(&posts->missing, missing);
	store_word(&posts->stuck, stuck);
	block->posted_stuck = stuck;
	block->posted_missing = missing;
}

/* V6: without a result; later kernels leave at entry. */
static void fail(struct turn_run *run, struct block *block)
{
	store_word(&run->arguments->comm.state->mode.failed, block->at.turn);
	if (block->gate != GATE_HOLD)
		write_lines(run, block);
	end_gate(run, block);
}

/* A second of them sees the turn and is none. */
static bool become_holder(const struct turn_run *run, const struct block *block)
{
	uint64_t *holder = &run->arguments->comm.state->holder;
	uint64_t before = load_word(holder);

	return before != block->at.turn &&
	       __atomic_compare_exchange_n(holder, &before, block->at.turn, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void abandon(struct turn_run *run, struct block *block)
{
	bool holds;

	fence_all();
	holds = become_holder(run, block);
	write_lines(run, block);
	if (!holds) /* the holder's turn ends when it is released */
		keep_books(run, block);
	post_block(run, block, SYMM_BLOCK_ABANDONED);
	end_gate(run, block);
	if (holds)
		block->gate = GATE_HOLD;
}

static bool is_failed(const struct turn_run *run, const struct block *block)
{
	uint64_t from = load_word(&run->arguments->comm.orders->fail_from);

	return from != 0 && from <= block->at.turn;
}

static bool gives_up(const struct turn_run *run, const struct block *block)
{
	return ticks_since(block->start) >= run->arguments->comm.last_ns;
}

static bool clerk_and_workers_are_over(const struct block *block)
{
	return workers_are_over(block) && block->clerk == CLERK_ENDED;
}

/* Past the soft deadline: speaks for the kernel, and does what it is told. */
static bool wait_too_long(struct turn_run *run, struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;
	bool failed = is_failed(run, block), last = gives_up(run, block);

	become_owner(run, block);
	if (block->owner)
		post_stuck(run, block);
	if (!failed && !last &&
	    (run->arguments->kind == TURN_GATE || /* S3: no rescue of what NCCL has begun */
	     load_word(&comm->orders->abandon) != block->at.turn))
		return false;
	block->leave = true;
	if (!clerk_and_workers_are_over(block))
		return false;
	if (failed) {
		fail(run, block);
	} else if (last) {
		store_word(&comm->posts->gave_up, block->at.turn);
		fail(run, block);
	} else {
		abandon(run, block);
	}
	return true;
}

static bool is_late(const struct turn_run *run, struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;

	if (block->late)
		return true;
	block->late = run->arguments->kind == TURN_PARKED ||
		      load_word(&comm->state->mode.hasty) != 0 ||
		      ticks_since(block->start) >= comm->late_ns;
	if (block->late)
		block->missing = (peers(run) & ~block->arrived) | block->polled;
	return block->late;
}

/* All ranks are here: the sum may begin. The record is completed by close_gate(). */
static void open_gate(struct turn_run *run, struct block *block)
{
	write_lines(run, block);
	write_record(run, block, 0);
}

/* The sum has ended. What was seen at the gate stands in the record. */
static void close_gate(struct turn_run *run, struct block *block)
{
	struct symm_state *state = run->arguments->comm.state;
	const struct symm_record *kept = &state->ring[block->at.turn % SYMM_RING_RECORDS];

	block->start = kept->start;
	block->staged_ticks = kept->staged;
	block->missing = kept->missing;
	memcpy(block->arrival, kept->arrival, sizeof(block->arrival));
	if (is_failed(run, block) || run->arguments->launch.algorithm == SYMM_GATE_FAILED) {
		fail(run, block);
		return;
	}
	finish(run, block);
	end_gate(run, block);
}

/* P1: like a kernel's gate, only where it waits. */
static void tell_step(struct turn_run *run, struct block *block)
{
	if (run->arguments->kind != TURN_CALL || block->step <= block->told ||
	    (!block->late && ticks_since(block->start) < QUIET_NS))
		return;
	post_block(run, block, block->step);
	block->told = block->step;
}

static bool poll_headers(struct turn_run *run, struct block *block)
{
	bool moved = run->arguments->kind != TURN_PARKED && look_at_headers(run, block);

	if (block->verified && block->work == WORKER_FINISHED && block->clerk == CLERK_ENDED) {
		if (run->arguments->kind == TURN_GATE)
			open_gate(run, block);
		else
			finish(run, block);
		end_gate(run, block);
		return true;
	}
	tell_step(run, block);
	if (is_late(run, block))
		moved |= wait_too_long(run, block);
	return moved;
}

/* One warp, until nobody writes the output any more (R3). */
static bool hold(struct turn_run *run, struct block *block)
{
	const struct symm_comm *comm = &run->arguments->comm;
	uint64_t released = load_word(&comm->orders->released);

	if (released >> 1 == block->at.turn && released & 1) {
		keep_books(run, block);
		post_step(run, block, STEP_DONE);
		post_ticket(run, block->at.turn);
		end_gate(run, block);
		return true;
	}
	if (released >> 1 != block->at.turn && !gives_up(run, block))
		return false;
	if (released >> 1 != block->at.turn)
		store_word(&comm->posts->gave_up, block->at.turn);
	fail(run, block);
	return true;
}

static void enter(struct turn_run *run, struct block *block)
{
	const struct turn_arguments *a = run->arguments;

	/* V6: touch nothing. */
	if (load_word(&a->comm.state->mode.failed)) {
		block->gate = GATE_ENDED;
		block->work = WORKER_LEFT;
		block->clerk = CLERK_ENDED;
		return;
	}
	take_numbers(run, block);
	choose_algorithm(run, block);
	if (!run->ready)
		look_for_faults(run, block->at.seq);
	run->ready = true;
	if (run->fault.sign)
		block->at.signature = ~block->at.signature;
	block->start = cpu_gpu_ticks();
	memset(block->arrival, 0xff, sizeof(block->arrival));
	block->gate = GATE_HEADERS;
	if (a->kind == TURN_GATE_END)
		close_gate(run, block);
}

static bool step_gate(struct turn_run *run, struct block *block)
{
	switch (block->gate) {
	case GATE_ENTRY:
		enter(run, block);
		return true;
	case GATE_HEADERS:
		if (run->arguments->kind == TURN_PARKED) {
			block->gate = GATE_POLL;
			return true;
		}
		if (!may_send_headers(run, block))
			return is_late(run, block) && wait_too_long(run, block);
		send_headers(run, block);
		if (run->arguments->kind == TURN_GATE)
			post_step(run, block, STEP_PUSHED);
		else if (pushes_later(run))
			block->step = SYMM_BLOCK_PUSHED;
		block->gate = GATE_POLL;
		return true;
	case GATE_POLL:
		return poll_headers(run, block);
	case GATE_HOLD:
		return hold(run, block);
	default:
		return false;
	}
}

/* ---- a grid of blocks ----------------------------------------------------------------------- */

/* All three go a step; in either order, since none waits for another's step. */
static bool step_block(struct turn_run *run, struct block *block)
{
	bool moved;

	if (block->gate == GATE_ENDED)
		return false;
	if (block->gate == GATE_ENTRY || block->gate == GATE_HOLD ||
	    run->arguments->kind == TURN_GATE)
		return step_gate(run, block);
	if (cpu_gpu_random(&run->random) & 1) {
		moved = step_gate(run, block);
		moved |= step_workers(run, block);
		moved |= step_clerk(run, block);
	} else {
		moved = step_clerk(run, block);
		moved |= step_workers(run, block);
		moved |= step_gate(run, block);
	}
	return moved;
}

/* Now and then a block stands still for some rounds while the others go on. */
static bool pauses(struct turn_run *run, struct block *block)
{
	if (block->pause) {
		block->pause--;
		return true;
	}
	if (cpu_gpu_random(&run->random) % 64 == 0)
		block->pause = (unsigned)(cpu_gpu_random(&run->random) % 8);
	return block->pause != 0;
}

static void begin_run(const struct turn_arguments *arguments, struct turn_run *run)
{
	run->arguments = arguments;
	run->random = cpu_gpu_seed() * UINT64_C(0x9e3779b97f4a7c15) ^ arguments->comm.rank << 20 ^
		      arguments->comm.state->line[0].turn ^ UINT64_C(1) << 63;
	for (unsigned b = 0; b < SYMM_BLOCKS_MAX; b++)
		run->block[b].b = b;
}

static enum cpu_gpu_step step_grid(const void *given, void *memory)
{
	struct turn_run *run = memory;
	unsigned blocks, first, ended = 0;
	bool moved = false;

	if (!run->arguments)
		begin_run(given, run);
	blocks = blocks_of(run);
	first = (unsigned)(cpu_gpu_random(&run->random) % blocks);
	for (unsigned i = 0; i < blocks; i++) {
		struct block *block = &run->block[(first + i) % blocks];

		if (!pauses(run, block))
			moved |= step_block(run, block);
		ended += block->gate == GATE_ENDED;
	}
	if (ended == blocks)
		return CPU_GPU_ENDED;
	return moved ? CPU_GPU_BUSY : CPU_GPU_WAITING;
}

static const struct cpu_gpu_kernel turn_kernel = {.name = "symm_launch_call",
						  .argument_bytes = sizeof(struct turn_arguments),
						  .run_bytes = sizeof(struct turn_run),
						  .step = step_grid};

static int launch(const char *function, enum turn_kind kind, const struct symm_comm *comm,
		  const struct symm_launch *turn, struct CUstream_st *stream)
{
	struct turn_arguments arguments = {.comm = *comm, .launch = *turn, .kind = kind};
	int code = cpu_gpu_enter(function);

	if (kind != TURN_CALL)
		arguments.launch.blocks = 1;
	if (code == 0 &&
	    ((arguments.launch.blocks == 0 || arguments.launch.blocks > SYMM_BLOCKS_MAX)))
		code = CPU_GPU_INVALID;
	return code ? code : cpu_gpu_enqueue(stream, &turn_kernel, &arguments);
}

static _Atomic unsigned followers;

unsigned cpu_gpu_followers(void)
{
	return atomic_exchange_explicit(&followers, 0, memory_order_relaxed);
}

int symm_launch_call(const struct symm_comm *comm, const struct symm_launch *turn,
		     struct CUstream_st *stream)
{
	if (turn->follows)
		(void)atomic_fetch_add_explicit(&followers, 1, memory_order_relaxed);
	return launch("symm_launch_call", TURN_CALL, comm, turn, stream);
}

int symm_launch_parked(const struct symm_comm *comm, const struct symm_launch *turn,
		       struct CUstream_st *stream)
{
	/* Nobody brings anything to a rank that is alone. */
	return launch("symm_launch_parked", comm->nranks == 1 ? TURN_CALL : TURN_PARKED, comm, turn,
		      stream);
}

int symm_launch_gate(const struct symm_comm *comm, const struct symm_launch *turn,
		     struct CUstream_st *stream)
{
	return launch("symm_launch_gate", TURN_GATE, comm, turn, stream);
}

int symm_launch_gate_end(const struct symm_comm *comm, const struct symm_launch *turn,
			 struct CUstream_st *stream)
{
	return launch("symm_launch_gate_end", TURN_GATE_END, comm, turn, stream);
}
