/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels that move no data between GPUs: the gate before and the end after a call of NCCL's, and
 * the parked kernel, whose turn the watchers carry out. Each is one block that one warp or thread
 * speaks for, and may use system fences: what follows takes far longer.
 *
 *   gate      takes the number; describes and signs the call for the peers, in host memory; waits
 *             for all of them; lets what is behind it run only if all signatures are alike
 *   gate_end  completes the record and posts DONE
 *   parked    takes the number; stages the input; is stuck at once, abandons when asked, and ends
 *             when the watcher has written the output
 *
 * A gate that fails sets mode.failed and ends: what is enqueued behind it is aborted with the
 * watchers' verdict.
 */
#include "kernels/digest_parts.cuh"
#include "kernels/clean_slots.cuh"
#include "kernels/symm_device.cuh"
#include "kernels/symm_enqueue.cuh"
#include "kernels/symm_kernel_list.h"
#include "kernels/symm_kernels.h"

#define GATE_THREADS   32
#define PARKED_THREADS 512
#define PAUSE_MIN_NS   100
#define PAUSE_MAX_NS   4000
#define EVERY_LANE     0xffffffffu
#define ARRIVAL_NONE   UINT32_MAX

/* enum wait_phase and enum belay_algorithm of the runtime; NCCL does not say how it does it. */
enum { PHASE_INPUTS = 1, PHASE_GATHER = 4 };
enum { ALGORITHM_UNKNOWN = 0, ALGORITHM_GATHER = 5 };

enum outcome { OUTCOME_OPEN, OUTCOME_GOOD, OUTCOME_FAILED };

struct job {
	struct symm_comm comm;
	struct symm_launch launch;
	uint64_t bytes; /* of the turn */
};

/* One turn as its kernel knows it. */
struct turn {
	uint64_t turn, seq, pass, start;
	uint32_t index, signature, flag, parity;
	uint32_t spoils; /* kinds of faults, by bit */
};

SYMM_INLINE uint64_t elapsed(const struct turn &turn)
{
	return ticks_now() - turn.start;
}

/* As records keep it. */
SYMM_INLINE uint32_t short_ticks(uint64_t ticks)
{
	return ticks < ARRIVAL_NONE ? (uint32_t)ticks : ARRIVAL_NONE - 1;
}

/* Numbers the turn by the line of the kernel before. */
SYMM_INLINE struct turn number_turn(const struct job &job, const struct symm_line &line)
{
	bool first = job.launch.turn_of_call == 0;
	struct turn turn;

	turn.start = ticks_now();
	turn.turn = line.turn + 1;
	turn.seq = line.seq + first;
	turn.pass = line.open ? line.pass : 0;
	turn.index = !line.open ? 0 : first ? line.index : line.index - 1;
	turn.signature = symm_signature(job.launch.signature_base, turn.pass, turn.index);
	turn.flag = symm_flag_of(turn.turn);
	turn.parity = (uint32_t)turn.turn & 1;
	turn.spoils = 0;
	return turn;
}

/* Line b for the kernel after. */
SYMM_INLINE void write_line(const struct job &job, const struct turn &turn, struct symm_line line,
			    uint32_t b)
{
	line.turn = turn.turn;
	line.seq = turn.seq;
	if (line.open)
		line.index = turn.index + 1;
	job.comm.state->line[b] = line;
}

SYMM_INLINE uint64_t last_turn(const struct job &job, const struct turn &turn)
{
	return turn.turn + job.launch.turns_of_call - 1 - job.launch.turn_of_call;
}

/* P1: the description, then the steps that publish it. One thread. */
SYMM_INLINE void describe(const struct job &job, const struct turn &turn)
{
	char *to = (char *)&job.comm.descriptions[turn.parity];

	store_pair(to, turn.seq, job.launch.call_count);
	store_pair(to + 16, turn.pass, last_turn(job, turn));
	store_pair(to + 32, (uint64_t)turn.signature << 32 | turn.index,
		   (uint64_t)job.launch.path << 16 | (uint64_t)job.launch.op << 8 |
			   job.launch.dtype);
	fence_system();
	store_pair(job.comm.steps, turn.turn, turn.turn);
}

/* ---- records ------------------------------------------------------------------------------ */

/* All but the arrivals and what the end adds: the record stays open, with two turns that differ. */
SYMM_INLINE void begin_record(const struct job &job, const struct turn &turn, uint8_t algorithm,
			      uint64_t staged, uint64_t missing)
{
	struct symm_record *record = &job.comm.state->ring[turn.turn % SYMM_RING_RECORDS];

	record->turn_again = 0;
	record->turn = turn.turn;
	record->seq = turn.seq;
	record->pass = turn.pass;
	record->count = job.launch.call_count;
	record->last_turn = last_turn(job, turn);
	record->start = turn.start;
	record->staged = short_ticks(staged);
	record->duration = 0;
	record->index = turn.index;
	record->signature = turn.signature;
	record->flags = job.launch.flags;
	record->dtype = job.launch.dtype;
	record->op = job.launch.op;
	record->path = job.launch.path;
	record->algorithm = algorithm;
	record->blocks = 1;
	record->missing = missing;
}

/* Completes it, in order for the host's copy. Kernels of other turns know nothing of its output. */
SYMM_INLINE void end_record(const struct job &job, uint64_t turn)
{
	struct symm_record *record = &job.comm.state->ring[turn % SYMM_RING_RECORDS];

	record->duration = short_ticks(ticks_now() - record->start);
	job.comm.state->digest[turn % SYMM_RING_RECORDS] = 0;
	record->turn_again = turn;
	fence_system();
}

/* The last post of a turn that ended well. */
SYMM_INLINE void post_ticket(const struct job &job, uint64_t turn)
{
	if (job.launch.ticket)
		store_pair(&job.comm.posts->ticket, job.launch.ticket, turn);
}

/* ---- what may go wrong -------------------------------------------------------------------- */

/* The outcome that the host has decided for the turn, or the kernel's own last deadline. One
 * thread. */
SYMM_INLINE enum outcome look_at_end(const struct job &job, const struct turn &turn)
{
	uint64_t fail_from = load_acquire(&job.comm.orders->fail_from);

	if (fail_from && fail_from <= turn.turn)
		return OUTCOME_FAILED;
	if (elapsed(turn) < job.comm.last_ns)
		return OUTCOME_OPEN;
	store_relaxed(&job.comm.posts->gave_up, turn.turn);
	return OUTCOME_FAILED;
}

/* V6: the kernels behind this one leave at once. */
SYMM_INLINE void fail(const struct job &job, const struct turn &turn)
{
	store_gpu(&job.comm.state->mode.failed, turn.turn);
}

SYMM_INLINE void longer(uint32_t *pause)
{
	pause_ns(*pause);
	*pause = *pause < PAUSE_MAX_NS ? 2 * *pause : PAUSE_MAX_NS;
}

/* ---- faults on purpose -------------------------------------------------------------------- */

SYMM_INLINE bool fault_hits(const struct symm_fault &fault, uint64_t seq)
{
	return seq >= fault.first && seq <= fault.last &&
	       (fault.step <= 1 || (seq - fault.first) % fault.step == 0);
}

/* What is done to that which leaves, wherever in the call: kinds, by bit. */
static __device__ __noinline__ uint32_t find_spoils(const struct job &job, uint64_t seq)
{
	uint32_t kinds = 0;

	for (uint32_t i = 0; i < job.comm.nfaults; i++)
		if (job.comm.faults[i].kind < SYMM_FAULT_DELAY &&
		    fault_hits(job.comm.faults[i], seq))
			kinds |= 1u << job.comm.faults[i].kind;
	return kinds;
}

SYMM_INLINE bool spoils(const struct turn &turn, uint32_t kind)
{
	return turn.spoils >> kind & 1;
}

/* M1 sees it as a call with other arguments, and so does who reads the description. */
SYMM_INLINE void spoil(const struct job &job, struct turn &turn)
{
	if (job.comm.nfaults == 0)
		return;
	turn.spoils = find_spoils(job, turn.seq);
	if (spoils(turn, SYMM_FAULT_SIGN))
		turn.signature ^= 0x5a5a5a5au;
}

static __device__ __noinline__ void ask_for_fault(const struct job &job, const struct turn &turn,
						  uint32_t at)
{
	uint64_t asked = turn.turn << 8 | at;
	uint32_t pause = PAUSE_MIN_NS;

	store_relaxed(&job.comm.posts->fault_asked, asked);
	while (load_acquire(&job.comm.orders->fault_done) < asked &&
	       elapsed(turn) < job.comm.last_ns)
		longer(&pause);
}

static __device__ __noinline__ void wait_on_purpose(const struct job &job, const struct turn &turn,
						    uint64_t ns)
{
	uint64_t until = ticks_now() + ns;

	while (ticks_now() < until && elapsed(turn) < job.comm.last_ns)
		pause_ns(PAUSE_MAX_NS);
}

/* What happens at a point. One thread. */
static __device__ __noinline__ void act_on_faults(const struct job &job, const struct turn &turn,
						  uint32_t at)
{
	for (uint32_t i = 0; i < job.comm.nfaults; i++) {
		const struct symm_fault *fault = &job.comm.faults[i];

		if (fault->at != at || !fault_hits(*fault, turn.seq))
			continue;
		if (fault->kind == SYMM_FAULT_DELAY)
			wait_on_purpose(job, turn, fault->ns);
		else if (fault->kind == SYMM_FAULT_ASK)
			ask_for_fault(job, turn, at);
		else if (fault->kind == SYMM_FAULT_STICKY) /* page 0 is nobody's */
			store_relaxed((uint64_t *)64, 0);
	}
}

SYMM_INLINE void fault_point(const struct job &job, const struct turn &turn, uint32_t at)
{
	if (job.comm.nfaults != 0)
		act_on_faults(job, turn, at);
}

/* ---- gate --------------------------------------------------------------------------------- */

/* The gate word; a spoilt one where a fault says so. One thread. */
SYMM_INLINE void post_gate(const struct job &job, const struct turn &turn)
{
	uint32_t flag = spoils(turn, SYMM_FAULT_FLAG) ? turn.flag + 2 : turn.flag;

	if (!spoils(turn, SYMM_FAULT_DROP))
		store_relaxed(&job.comm.posts->gate[turn.parity],
			      (uint64_t)flag << 32 | turn.signature);
}

/* What the warp has seen so far; alike in every lane but for `arrival`. */
struct gate_view {
	uint32_t all, here; /* ranks, by bit */
	uint32_t differ;    /* of those here, once all are: another signature */
	uint32_t arrival;   /* lane q: rank q's, ticks after start */
	uint32_t late;	    /* 1: past the soft deadline */
	uint32_t missing;   /* ranks not here when it became late */
	uint32_t told;	    /* ranks last posted as missing */
};

/* Lane q looks at rank q. */
SYMM_INLINE void look_at_peers(const struct job &job, const struct turn &turn,
			       struct gate_view &view)
{
	uint32_t q = threadIdx.x;
	uint64_t word = 0;

	if (q < job.comm.nranks)
		word = q == job.comm.rank ? (uint64_t)turn.flag << 32 | turn.signature
					  : load_relaxed(&job.comm.posts_of[q]->gate[turn.parity]);
	if (word >> 32 == turn.flag && view.arrival == ARRIVAL_NONE)
		view.arrival = short_ticks(elapsed(turn));
	view.here = __ballot_sync(EVERY_LANE, word >> 32 == turn.flag);
	view.differ = __ballot_sync(EVERY_LANE,
				    word >> 32 == turn.flag && (uint32_t)word != turn.signature);
	if (view.here != view.all)
		view.differ = 0;
}

/* M1. Lane 0. The same value each time it is seen. */
SYMM_INLINE void post_mismatch(const struct job &job, const struct turn &turn, uint32_t differ)
{
	store_relaxed(&job.comm.posts->mismatch,
		      turn.turn << 8 | (uint32_t)(__ffs((int)differ) - 1));
}

/* Lane 0. A fence, so that the watcher which acquires `stuck` sees where the output is. */
SYMM_INLINE void post_stuck(const struct job &job, const struct turn &turn, uint32_t phase,
			    uint64_t missing)
{
	store_pair(&job.comm.posts->output, (uint64_t)job.launch.recv, turn.turn);
	fence_system();
	store_pair(&job.comm.posts->stuck, turn.turn << 3 | phase, missing);
}

/* Past the soft deadline: says for whom it waits, and asks how the turn ends. All lanes get lane
 * 0's answer. */
SYMM_INLINE enum outcome speak_up(const struct job &job, const struct turn &turn,
				  struct gate_view &view)
{
	uint32_t missing = view.all & ~view.here;
	int outcome = OUTCOME_OPEN;

	if (threadIdx.x == 0) {
		if (missing != view.told)
			post_stuck(job, turn, PHASE_INPUTS, missing);
		outcome = look_at_end(job, turn);
	}
	view.told = missing;
	return (enum outcome)__shfl_sync(EVERY_LANE, outcome, 0);
}

/* Bounded by last_ns, through speak_up(). */
SYMM_INLINE enum outcome wait_for_peers(const struct job &job, const struct turn &turn,
					struct gate_view &view)
{
	uint32_t pause = PAUSE_MIN_NS;
	enum outcome outcome = OUTCOME_OPEN;

	while (outcome == OUTCOME_OPEN) {
		look_at_peers(job, turn, view);
		if (view.here == view.all && !view.differ)
			return OUTCOME_GOOD;
		if (view.differ && threadIdx.x == 0)
			post_mismatch(job, turn, view.differ);
		if (!view.late && __any_sync(EVERY_LANE, elapsed(turn) >= job.comm.late_ns)) {
			view.late = 1;
			view.missing = view.all & ~view.here;
		}
		if (view.late)
			outcome = speak_up(job, turn, view);
		longer(&pause);
	}
	return outcome;
}

/* The whole warp. Of a turn that failed too: the next one's number must be above `failed` (V6). */
SYMM_INLINE void write_lines(const struct job &job, const struct turn &turn,
			     const struct symm_line &line)
{
	for (uint32_t b = threadIdx.x; b < SYMM_BLOCKS_MAX; b += GATE_THREADS)
		write_line(job, turn, line, b);
}

/* The record up to here, arrivals too. The whole warp. */
SYMM_INLINE void pass_gate(const struct job &job, const struct turn &turn,
			   const struct gate_view &view, uint64_t staged)
{
	struct symm_record *record = &job.comm.state->ring[turn.turn % SYMM_RING_RECORDS];

	if (threadIdx.x == 0)
		begin_record(job, turn, ALGORITHM_UNKNOWN, staged, view.missing);
	if (threadIdx.x < SYMM_RANKS_MAX)
		record->arrival[threadIdx.x] = view.arrival;
	add_parts_before(job.comm.state, turn.turn, 0, 1, threadIdx.x);
}

/* The turn two after an abandoned one is the only one in which leftovers are known of: a call on
 * NCCL, too, must not leave them to the turn two after itself. All ranks are here, as clean_slots()
 * asks. The whole warp. */
SYMM_INLINE void clean_up(const struct job &job, const struct turn &turn)
{
	const struct symm_comm &comm = job.comm;

	if (comm.state->mode.dirty[turn.parity] + 2 == turn.turn)
		clean_slots(comm.layout, comm.region + comm.rank * comm.layout.stride, comm.rank,
			    comm.nranks, turn.parity, threadIdx.x, GATE_THREADS);
}

/* Lines are read before anybody writes one: the warp meets in between. */
static __global__ void __launch_bounds__(GATE_THREADS, 1)
	symm_gate(const __grid_constant__ struct job job)
{
	struct symm_line line = job.comm.state->line[0];
	struct turn turn = number_turn(job, line);
	struct gate_view view = {};
	uint64_t staged = 0;

	if (job.comm.state->mode.failed)
		return;
	spoil(job, turn);
	view.all = (uint32_t)((1ull << job.comm.nranks) - 1);
	view.arrival = ARRIVAL_NONE;
	view.told = ~view.all;
	if (threadIdx.x == 0) {
		fault_point(job, turn, SYMM_AT_STAGE);
		describe(job, turn);
		staged = elapsed(turn);
		fault_point(job, turn, SYMM_AT_PUSH);
		post_gate(job, turn);
		fault_point(job, turn, SYMM_AT_WAIT);
	}
	__syncwarp();
	if (wait_for_peers(job, turn, view) == OUTCOME_GOOD) {
		pass_gate(job, turn, view, staged);
		clean_up(job, turn);
	} else if (threadIdx.x == 0) {
		fail(job, turn);
	}
	write_lines(job, turn, line);
}

/* Whether NCCL's call is no result: it never came onto the stream, or a verdict has had it aborted.
 * The order is given before that. One read of host memory, beside a call that takes far longer. */
SYMM_INLINE bool has_no_result(const struct job &job, uint64_t turn)
{
	uint64_t fail_from = load_acquire(&job.comm.orders->fail_from);

	return job.launch.algorithm == SYMM_GATE_FAILED || (fail_from && fail_from <= turn);
}

/* One thread, whose turn the gate has written into the lines. */
static __global__ void symm_gate_end(const __grid_constant__ struct job job)
{
	uint64_t turn = job.comm.state->line[0].turn;

	if (job.comm.state->mode.failed)
		return;
	if (has_no_result(job, turn)) {
		store_gpu(&job.comm.state->mode.failed, turn);
		return;
	}
	end_record(job, turn);
	store_relaxed(&job.comm.posts->block[0], SYMM_BLOCK_WORD(turn, 1, SYMM_BLOCK_DONE));
	post_ticket(job, turn);
}

/* ---- parked ------------------------------------------------------------------------------- */

/* All threads; in pieces of T, as far as whole ones go. Returns the bytes that are copied. */
template <typename T> SYMM_INLINE uint64_t copy_pieces(char *to, const char *from, uint64_t bytes)
{
	uint64_t pieces = bytes / sizeof(T);

#pragma unroll 8
	for (uint64_t i = threadIdx.x; i < pieces; i += PARKED_THREADS)
		((T *)to)[i] = ((const T *)from)[i];
	return pieces * sizeof(T);
}

/* The retained copy; `to` is aligned. The bytes past the end are never looked at. */
SYMM_INLINE void stage(char *to, const char *from, uint64_t bytes)
{
	uint64_t copied = 0;

	if ((uintptr_t)from % 16 == 0)
		copied = copy_pieces<uint4>(to, from, bytes);
	else if ((uintptr_t)from % 4 == 0)
		copied = copy_pieces<uint32_t>(to, from, bytes);
	(void)copy_pieces<char>(to + copied, from + copied, bytes - copied);
}

/* R2: waits to be asked, then leaves the output to the watcher. One thread. */
SYMM_INLINE enum outcome wait_to_abandon(const struct job &job, const struct turn &turn)
{
	uint32_t pause = PAUSE_MIN_NS;
	enum outcome outcome;

	while (load_acquire(&job.comm.orders->abandon) != turn.turn) {
		outcome = look_at_end(job, turn);
		if (outcome != OUTCOME_OPEN)
			return outcome;
		longer(&pause);
	}
	fence_system();
	store_relaxed(&job.comm.posts->block[0],
		      SYMM_BLOCK_WORD(turn.turn, 1, SYMM_BLOCK_ABANDONED));
	return OUTCOME_GOOD;
}

/* R3: until the watcher writes no more. It answers every turn that was abandoned, also after a
 * verdict, so fail_from is not looked at: the output may still be being written. One thread. */
SYMM_INLINE enum outcome wait_for_release(const struct job &job, const struct turn &turn)
{
	uint32_t pause = PAUSE_MIN_NS;
	uint64_t released = load_acquire(&job.comm.orders->released);

	while (released >> 1 != turn.turn) {
		if (elapsed(turn) >= job.comm.last_ns) {
			store_relaxed(&job.comm.posts->gave_up, turn.turn);
			return OUTCOME_FAILED;
		}
		longer(&pause);
		released = load_acquire(&job.comm.orders->released);
	}
	return released & 1 ? OUTCOME_GOOD : OUTCOME_FAILED;
}

/* After the whole input is staged. One thread. */
SYMM_INLINE void park(const struct job &job, const struct turn &turn, uint64_t *block_staged)
{
	uint64_t others = ((1ull << job.comm.nranks) - 1) & ~(1ull << job.comm.rank);
	uint64_t staged;
	enum outcome outcome;

	/* P3, R3: the copy before what says that it is whole, for peers and for the host. */
	fence_system();
	store_relaxed(block_staged, SYMM_BLOCK_WORD(turn.turn, 1, SYMM_BLOCK_STAGED));
	describe(job, turn);
	staged = elapsed(turn);
	fault_point(job, turn, SYMM_AT_PUSH);
	fault_point(job, turn, SYMM_AT_WAIT);
	post_stuck(job, turn, PHASE_GATHER, others);
	outcome = wait_to_abandon(job, turn);
	if (outcome == OUTCOME_GOOD)
		outcome = wait_for_release(job, turn);
	if (outcome != OUTCOME_GOOD) {
		fail(job, turn);
		return;
	}
	begin_record(job, turn, ALGORITHM_GATHER, staged, 0);
	end_record(job, turn.turn);
	store_relaxed(&job.comm.steps[3], turn.turn);
	post_ticket(job, turn.turn);
}

/* All lines are read before anybody writes one; and all are written long before the next kernel. */
static __global__ void __launch_bounds__(PARKED_THREADS, 1)
	symm_parked(const __grid_constant__ struct job job)
{
	struct symm_line line = job.comm.state->line[0];
	struct turn turn = number_turn(job, line);
	char *own = job.comm.region + job.comm.rank * job.comm.layout.stride;
	uint64_t *block_staged = (uint64_t *)(own + job.comm.layout.block_staged);

	if (job.comm.state->mode.failed)
		return;
	spoil(job, turn);
	if (threadIdx.x == 0)
		fault_point(job, turn, SYMM_AT_STAGE);
	__syncthreads();
	stage(own + job.comm.layout.retained + turn.parity * job.comm.layout.symm_bytes,
	      (const char *)job.launch.send, job.bytes);
	if (threadIdx.x < SYMM_BLOCKS_MAX)
		write_line(job, turn, line, threadIdx.x);
	if (threadIdx.x < SYMM_RANKS_MAX)
		job.comm.state->ring[turn.turn % SYMM_RING_RECORDS].arrival[threadIdx.x] =
			ARRIVAL_NONE;
	__syncthreads();
	if (threadIdx.x / 32 == 1)
		add_parts_before(job.comm.state, turn.turn, 0, 1, threadIdx.x % 32);
	if (threadIdx.x == 0)
		park(job, turn, block_staged + turn.parity * SYMM_BLOCKS_MAX);
}

/* ---- launches ----------------------------------------------------------------------------- */

static int enqueue(const void *kernel, uint32_t threads, const struct symm_comm *comm,
		   const struct symm_launch *launch, struct CUstream_st *stream)
{
	struct job job = {};
	void *arguments[] = {&job};

	job.comm = *comm;
	job.launch = *launch;
	job.bytes = launch->count * symm_element_bytes(launch->dtype);
	return symm_enqueue(kernel, 1, threads, arguments, stream);
}

int symm_launch_gate(const struct symm_comm *comm, const struct symm_launch *launch,
		     struct CUstream_st *stream)
{
	return enqueue((const void *)symm_gate, GATE_THREADS, comm, launch, stream);
}

int symm_launch_gate_end(const struct symm_comm *comm, const struct symm_launch *launch,
			 struct CUstream_st *stream)
{
	return enqueue((const void *)symm_gate_end, 1, comm, launch, stream);
}

/* Nobody brings anything to a rank that is alone: its kernel finishes by itself. */
int symm_launch_parked(const struct symm_comm *comm, const struct symm_launch *launch,
		       struct CUstream_st *stream)
{
	if (comm->nranks == 1)
		return symm_launch_call(comm, launch, stream);
	return enqueue((const void *)symm_parked, PARKED_THREADS, comm, launch, stream);
}

static const struct symm_kernel gate_kernels[] = {
	SYMM_KERNEL(symm_gate),
	SYMM_KERNEL(symm_gate_end),
	SYMM_KERNEL(symm_parked),
};

size_t symm_gate_kernels(const struct symm_kernel **ret_kernels)
{
	*ret_kernels = gate_kernels;
	return sizeof(gate_kernels) / sizeof(gate_kernels[0]);
}
