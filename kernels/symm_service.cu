/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is not a call: a new region's first contents, its self-test, the breaker's probe, the
 * comparison of clocks, pass marks. None of these waits for a peer; the comparison of clocks waits
 * for the host, by a deadline.
 */
#include "kernels/symm_device.cuh"
#include "kernels/symm_enqueue.cuh"
#include "kernels/symm_kernel_list.h"
#include "kernels/symm_kernels.h"

#define INIT_BLOCKS  128
#define INIT_THREADS 256
/* A thread writes or looks at one 16-byte packet of a self-test line. */
#define SELFTEST_THREADS (SYMM_SELFTEST_BYTES / 16)

SYMM_INLINE char *region_of(const struct symm_comm &comm, uint32_t rank)
{
	return comm.region + rank * comm.layout.stride;
}

/* ---- init --------------------------------------------------------------------------------- */

/* The areas of the full wire stand together: from `wire` up to `retained`. */
static __global__ void symm_init(const __grid_constant__ struct symm_comm comm,
				 uint64_t turn_before, uint64_t seq_before)
{
	uint64_t step = 16ull * gridDim.x * blockDim.x;
	uint64_t first = 16ull * (blockIdx.x * blockDim.x + threadIdx.x);
	char *own = region_of(comm, comm.rank);

	for (uint64_t at = first; at < comm.layout.stride; at += step) {
		uint32_t fill =
			at >= comm.layout.wire && at < comm.layout.retained ? UINT32_MAX : 0;
		struct symm_words words = {{fill, fill, fill, fill}};

		store_plain(own + at, words);
	}
	if (first == 0)
		comm.state->mode.dirty[0] = comm.state->mode.dirty[1] = SYMM_NO_TURN;
	for (uint64_t b = first / 16; b < SYMM_BLOCKS_MAX; b += step / 16) {
		struct symm_line line = {};

		line.turn = turn_before;
		line.seq = seq_before;
		comm.state->line[b] = line;
	}
}

int symm_launch_init(const struct symm_comm *comm, uint64_t turn_before, uint64_t seq_before,
		     struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &turn_before, &seq_before};

	return symm_enqueue((const void *)symm_init, INIT_BLOCKS, INIT_THREADS, arguments, stream);
}

/* ---- self-test ---------------------------------------------------------------------------- */

/* Both ends of a line make the same words from who writes, who owns, and where. */
SYMM_INLINE uint64_t selftest_word(uint64_t nonce, uint32_t writer, uint32_t owner, uint32_t index)
{
	return symm_mix(symm_mix(nonce, (uint64_t)writer << 32 | owner), index);
}

SYMM_INLINE char *selftest_line(const struct symm_comm &comm, uint32_t owner, uint32_t writer)
{
	return region_of(comm, owner) + comm.layout.selftest + writer * SYMM_SELFTEST_BYTES;
}

/* Block q writes to rank q. A spoilt line has one wrong bit, in its last packet. */
static __global__ void symm_selftest_write(const __grid_constant__ struct symm_comm comm,
					   uint64_t nonce, int spoil)
{
	uint32_t owner = blockIdx.x, packet = threadIdx.x;
	uint64_t first = selftest_word(nonce, comm.rank, owner, 2 * packet);
	uint64_t second = selftest_word(nonce, comm.rank, owner, 2 * packet + 1);

	if (spoil && packet == SELFTEST_THREADS - 1)
		second ^= 1;
	store_pair(selftest_line(comm, owner, comm.rank) + 16 * packet, first, second);
}

/* One block. All writers are looked at, whatever is found: so all threads meet at each barrier. */
static __global__ void symm_selftest_verify(const __grid_constant__ struct symm_comm comm,
					    uint64_t nonce, int32_t *ret_wrong)
{
	uint32_t packet = threadIdx.x;
	int32_t wrong = -1;

	for (uint32_t writer = 0; writer < comm.nranks; writer++) {
		struct symm_pair found =
			load_pair(selftest_line(comm, comm.rank, writer) + 16 * packet);
		bool differs =
			found.first != selftest_word(nonce, writer, comm.rank, 2 * packet) ||
			found.second != selftest_word(nonce, writer, comm.rank, 2 * packet + 1);

		if (__syncthreads_or(differs) && wrong < 0)
			wrong = (int32_t)writer;
	}
	if (packet == 0)
		*ret_wrong = wrong;
}

int symm_launch_selftest_write(const struct symm_comm *comm, uint64_t nonce, int spoil,
			       struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &nonce, &spoil};

	return symm_enqueue((const void *)symm_selftest_write, comm->nranks, SELFTEST_THREADS,
			    arguments, stream);
}

int symm_launch_selftest_verify(const struct symm_comm *comm, uint64_t nonce, int32_t *verdict,
				struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &nonce, &verdict};

	return symm_enqueue((const void *)symm_selftest_verify, 1, SELFTEST_THREADS, arguments,
			    stream);
}

/* ---- the breaker's probe ------------------------------------------------------------------ */

SYMM_INLINE uint64_t *probe_word(const struct symm_comm &comm, uint32_t owner, uint32_t writer)
{
	return (uint64_t *)(region_of(comm, owner) + comm.layout.probe) + writer;
}

/* Lane q speaks to rank q. */
static __global__ void symm_probe(const __grid_constant__ struct symm_comm comm, uint64_t round)
{
	if (threadIdx.x < comm.nranks)
		store_relaxed(probe_word(comm, threadIdx.x, comm.rank), round);
}

/* Rounds only grow, so a later one counts as well. */
static __global__ void symm_probe_read(const __grid_constant__ struct symm_comm comm,
				       uint64_t round, uint32_t *ret_seen)
{
	uint32_t q = threadIdx.x;
	bool seen = q < comm.nranks && q != comm.rank &&
		    load_relaxed(probe_word(comm, comm.rank, q)) >= round;
	uint32_t count = (uint32_t)__popc(__ballot_sync(0xffffffffu, seen));

	if (q == 0)
		*ret_seen = count;
}

int symm_launch_probe(const struct symm_comm *comm, uint64_t round, int drop,
		      struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &round};

	if (drop)
		return 0;
	return symm_enqueue((const void *)symm_probe, 1, 32, arguments, stream);
}

int symm_launch_probe_read(const struct symm_comm *comm, uint64_t round, uint32_t *ret_seen,
			   struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &round, &ret_seen};

	return symm_enqueue((const void *)symm_probe_read, 1, 32, arguments, stream);
}

/* ---- how fast links are ------------------------------------------------------------------- */

/* The k-th peer that a block turns to: blocks begin with different ones. */
SYMM_INLINE uint32_t link_peer(const struct symm_comm &comm, uint32_t k)
{
	return (comm.rank + 1 + (blockIdx.x + k) % (comm.nranks - 1)) % comm.nranks;
}

/* This thread's part of the slots at one peer, once; returns its bytes. What is pulled has to be
 * looked at, or ptxas leaves the loads out: slots that nobody has written yet are all ones. */
SYMM_INLINE uint64_t move_slots(const struct symm_comm &comm, uint32_t peer, int pull)
{
	const struct symm_words not_here = {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}};
	char *slots = region_of(comm, peer) + comm.layout.wire + comm.rank * comm.layout.wire_bytes;
	uint64_t step = 16ull * gridDim.x * blockDim.x, bytes = 0;
	uint32_t ones = UINT32_MAX;

#pragma unroll 4
	for (uint64_t at = 16ull * (blockIdx.x * blockDim.x + threadIdx.x);
	     at < comm.layout.wire_bytes; at += step) {
		if (pull) {
			struct symm_words words = load_words(slots + at);

			ones &= words.word[0] & words.word[1] & words.word[2] & words.word[3];
		} else {
			store_words(slots + at, not_here);
		}
		bytes += 16;
	}
	return ones == UINT32_MAX ? bytes : 0;
}

static __global__ void symm_link_probe(const __grid_constant__ struct symm_comm comm, int pull,
				       uint64_t ns, struct symm_moved *ret_moved)
{
	__shared__ unsigned long long all;
	uint64_t start = ticks_now(), bytes = 0;

	if (threadIdx.x == 0)
		all = 0;
	__syncthreads();
	for (uint32_t k = 0; ticks_now() - start < ns; k++)
		bytes += move_slots(comm, link_peer(comm, k), pull);
	fence_system(); /* what was pushed has arrived */
	atomicAdd(&all, (unsigned long long)bytes);
	__syncthreads();
	if (threadIdx.x == 0)
		store_pair(&ret_moved[blockIdx.x], all, ticks_now() - start);
}

int symm_launch_link_probe(const struct symm_comm *comm, int pull, uint64_t ns,
			   struct symm_moved *moved, struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &pull, &ns, &moved};

	return symm_enqueue((const void *)symm_link_probe, SYMM_LINK_BLOCKS, INIT_THREADS,
			    arguments, stream);
}

/* ---- comparison of clocks ----------------------------------------------------------------- */

/* No pause between two looks: what it would take is the error of the comparison. */
static __global__ void symm_calibrate(const __grid_constant__ struct symm_comm comm, uint64_t round,
				      uint64_t max_ns)
{
	uint64_t start = ticks_now();

	while (load_relaxed(&comm.orders->calibration) != round)
		if (ticks_now() - start > max_ns)
			return;
	store_pair(comm.posts->calibration, round, ticks_now());
}

int symm_launch_calibrate(const struct symm_comm *comm, uint64_t round, uint64_t max_ns,
			  struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &round, &max_ns};

	return symm_enqueue((const void *)symm_calibrate, 1, 1, arguments, stream);
}

/* ---- pass marks --------------------------------------------------------------------------- */

/* The seqs of the pass that `line` ends; 0 for both when no call was in it, as on the host path. */
SYMM_INLINE void post_pass_end(struct symm_posts *posts, const struct symm_line &line)
{
	bool empty = line.index == 0;

	store_relaxed(&posts->pass_first_seq, empty ? 0 : line.seq - line.index + 1);
	store_relaxed(&posts->pass_last_seq, empty ? 0 : line.seq);
	store_relaxed(&posts->pass_last_turn, line.turn);
	/* Once a pass, so a system fence is cheap: whoever acquires pass_ended sees its seqs. */
	fence_system();
	store_relaxed(&posts->pass_ended, line.pass);
}

/* Thread b keeps line b, and all lines are alike. A communicator that has failed counts no more
 * (V6); that a pass has ended there is told, lest the host take the pass before for the last. */
static __global__ void symm_pass(const __grid_constant__ struct symm_comm comm, int begin,
				 uint64_t ticket)
{
	struct symm_line line = comm.state->line[threadIdx.x];

	if (comm.state->mode.failed) {
		if (!begin && threadIdx.x == 0)
			store_relaxed(&comm.posts->pass_failed, 1);
		return;
	}
	if (begin) {
		line.pass++;
		line.index = 0;
		line.open = 1;
	} else {
		line.open = 0;
	}
	comm.state->line[threadIdx.x] = line;
	if (threadIdx.x != 0)
		return;
	if (begin)
		store_relaxed(&comm.posts->pass_begun, line.pass);
	else
		post_pass_end(comm.posts, line);
	if (!ticket)
		return;
	/* Whoever acquires the ticket sees what the mark has posted. */
	fence_system();
	store_pair(&comm.posts->ticket, ticket, line.turn);
}

int symm_launch_pass(const struct symm_comm *comm, int begin, uint64_t ticket,
		     struct CUstream_st *stream)
{
	void *arguments[] = {symm_argument(comm), &begin, &ticket};

	return symm_enqueue((const void *)symm_pass, 1, SYMM_BLOCKS_MAX, arguments, stream);
}

/* ---- what is here ------------------------------------------------------------------------- */

static const struct symm_kernel service_kernels[] = {
	SYMM_KERNEL(symm_init),
	SYMM_KERNEL(symm_selftest_write),
	SYMM_KERNEL(symm_selftest_verify),
	SYMM_KERNEL(symm_probe),
	SYMM_KERNEL(symm_probe_read),
	SYMM_KERNEL(symm_link_probe),
	SYMM_KERNEL(symm_calibrate),
	SYMM_KERNEL(symm_pass),
};

size_t symm_service_kernels(const struct symm_kernel **ret_kernels)
{
	*ret_kernels = service_kernels;
	return sizeof(service_kernels) / sizeof(service_kernels[0]);
}
