/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPU played on the CPU, by itself: streams and captures, and its kernels with ranks that are
 * only a stream each and a host that is this test.
 */
#include "config.h"

#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/host_sum.h"
#include "kernels/symm_kernels.h"
#include "runtime/belay.h"
#include "tests/support/cpu_gpu.h"

#define RANKS_MAX  8
#define BYTES_MAX  (64 * 1024)
#define MS	   UINT64_C(1000000)
#define SECOND	   (1000 * MS)
#define FIRST_TURN UINT64_C(1000) /* the turn before the first */

/* ---- ranks ---------------------------------------------------------------------------------- */

struct rank {
	struct symm_comm comm;
	struct CUstream_st *stream;
	uint64_t steps[8];
	struct symm_description descriptions[2];
	struct symm_posts posts;
	struct symm_orders orders;
	char *send, *recv;
};

static struct {
	int nranks;
	char *regions;
	struct symm_layout layout;
	struct rank *rank;
	uint64_t random;
} group;

static void join(int r)
{
	struct rank *rank = &group.rank[r];
	struct symm_comm *comm = &rank->comm;

	*comm = (struct symm_comm){
		.layout = group.layout,
		.region = group.regions,
		.state = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, sizeof(struct symm_state)),
		.steps = rank->steps,
		.descriptions = rank->descriptions,
		.posts = &rank->posts,
		.orders = &rank->orders,
		.rank = (uint32_t)r,
		.nranks = (uint32_t)group.nranks,
		.late_ns = 60 * SECOND,
		.last_ns = 60 * SECOND,
	};
	for (int q = 0; q < group.nranks; q++)
		comm->posts_of[q] = &group.rank[q].posts;
	rank->stream = cpu_gpu_stream_create();
	rank->send = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, BYTES_MAX + 64);
	rank->recv = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, BYTES_MAX + 64);
	ck_assert(comm->state && rank->stream && rank->send && rank->recv);
	ck_assert_int_eq(symm_launch_init(comm, FIRST_TURN, FIRST_TURN, rank->stream), 0);
	ck_assert_int_eq(cpu_gpu_stream_sync(rank->stream), 0);
}

static void gather(int nranks)
{
	symm_layout_make((uint32_t)nranks, BYTES_MAX, &group.layout);
	group.nranks = nranks;
	group.random = 88172645463325252u;
	group.regions = mmap(NULL, (size_t)nranks * group.layout.stride, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(group.regions, MAP_FAILED);
	group.rank = calloc((size_t)nranks, sizeof(*group.rank));
	ck_assert_ptr_nonnull(group.rank);
	for (int r = 0; r < nranks; r++)
		join(r);
}

static void part(void)
{
	for (int r = 0; r < group.nranks; r++) {
		cpu_gpu_stream_free(group.rank[r].stream);
		cpu_gpu_memory_free(group.rank[r].send);
		cpu_gpu_memory_free(group.rank[r].recv);
		cpu_gpu_memory_free(group.rank[r].comm.state);
	}
	free(group.rank);
	ck_assert_int_eq(munmap(group.regions, (size_t)group.nranks * group.layout.stride), 0);
}

static uint64_t chance(void)
{
	group.random ^= group.random << 13;
	group.random ^= group.random >> 7;
	group.random ^= group.random << 17;
	return group.random;
}

/* Any bits: NaNs and words of all ones among them. */
static void fill(size_t bytes)
{
	for (int r = 0; r < group.nranks; r++) {
		for (size_t i = 0; i < bytes; i += 8) {
			uint64_t word = chance() % 16 ? chance() : UINT64_MAX;

			memcpy(group.rank[r].send + i, &word, 8);
		}
		memset(group.rank[r].recv, 0xa5, BYTES_MAX + 64);
	}
}

static struct symm_launch call_of(size_t count, int dtype, int op, int algorithm, unsigned blocks)
{
	return (struct symm_launch){
		.count = count,
		.call_count = count,
		.signature_base = count << 8 | (uint64_t)(dtype << 4 | op),
		.turns_of_call = 1,
		.dtype = (uint8_t)dtype,
		.op = (uint8_t)op,
		.algorithm = (uint8_t)algorithm,
		.path = BELAY_PATH_SYMM,
		.blocks = (uint16_t)blocks,
		.threads = 256,
	};
}

static void enqueue(int r, struct symm_launch call)
{
	call.send = group.rank[r].send;
	call.recv = group.rank[r].recv;
	ck_assert_int_eq(symm_launch_call(&group.rank[r].comm, &call, group.rank[r].stream), 0);
}

static void enqueue_all(const struct symm_launch *call)
{
	for (int r = 0; r < group.nranks; r++)
		enqueue(r, *call);
}

static void end_all(void)
{
	for (int r = 0; r < group.nranks; r++)
		ck_assert_int_eq(cpu_gpu_stream_sync(group.rank[r].stream), 0);
}

/* Returns the digest that host_sum() gives. */
static uint64_t expect_sum(const struct symm_launch *call)
{
	static char wanted[BYTES_MAX + 64];
	const void *sources[RANKS_MAX];
	void *destination = wanted;
	uint64_t digest;

	memset(wanted, 0xa5, sizeof(wanted));
	for (int r = 0; r < group.nranks; r++)
		sources[r] = group.rank[r].send;
	digest = host_sum(&(struct host_sum_job){.sources = sources,
						 .nsources = (unsigned)group.nranks,
						 .destinations = &destination,
						 .ndestinations = 1,
						 .count = call->count,
						 .dtype = call->dtype,
						 .op = call->op});
	for (int r = 0; r < group.nranks; r++)
		ck_assert_mem_eq(group.rank[r].recv, wanted, sizeof(wanted));
	return digest;
}

/* ---- calls on time -------------------------------------------------------------------------- */

static const uint8_t dtype_bytes[] = {0, 4, 8, 2, 2, 4, 8, 1, 1};

static bool goes(int algorithm, int dtype)
{
	return algorithm == SYMM_ONESHOT_PACKETS || algorithm == SYMM_TWOSHOT_PULL ||
	       dtype == BELAY_F32 || dtype == BELAY_F16 || dtype == BELAY_BF16;
}

static void check_books(const struct symm_launch *call, uint64_t turn, uint64_t digest)
{
	for (int r = 0; r < group.nranks; r++) {
		const struct rank *rank = &group.rank[r];
		const struct symm_record *record =
			&rank->comm.state->ring[turn % SYMM_RING_RECORDS];

		ck_assert_uint_eq(rank->comm.state->digest[turn % SYMM_RING_RECORDS], digest);
		ck_assert_uint_eq(record->turn, turn);
		ck_assert_uint_eq(record->turn_again, turn);
		ck_assert_uint_eq(rank->descriptions[turn & 1].count, call->count);
		for (unsigned b = 0; b < call->blocks; b++)
			ck_assert_uint_eq(rank->posts.block[b],
					  SYMM_BLOCK_WORD(turn, call->blocks, SYMM_BLOCK_DONE));
	}
}

static void make_random_call(uint64_t turn)
{
	int dtype = BELAY_F32 + (int)(chance() % 8), op = BELAY_SUM + (int)(chance() % 4);
	int algorithm = (int)(chance() % SYMM_ALGORITHMS);
	size_t bytes = chance() % 3 ? chance() % 600 : chance() % BYTES_MAX;
	struct symm_launch call;

	if (!goes(algorithm, dtype))
		algorithm = SYMM_ONESHOT_PACKETS;
	call = call_of(bytes / dtype_bytes[dtype], dtype, op, algorithm,
		       1 + (unsigned)(chance() % 12));
	fill(bytes + 8);
	enqueue_all(&call);
	end_all();
	check_books(&call, turn, expect_sum(&call));
}

START_TEST(every_algorithm_gives_the_bits_of_the_rank_order_sum)
{
	static const int sizes[] = {1, 2, 3, 4, 8};

	gather(sizes[_i]);
	for (uint64_t turn = FIRST_TURN + 1; turn < FIRST_TURN + 60; turn++)
		make_random_call(turn);
	part();
}
END_TEST

/* Nothing between the calls but the streams themselves. */
START_TEST(calls_of_all_algorithms_follow_each_other_without_a_pause)
{
	struct symm_launch calls[SYMM_ALGORITHMS];

	gather(3);
	fill(5000);
	for (int a = 0; a < SYMM_ALGORITHMS; a++)
		calls[a] = call_of(1000, BELAY_F32, BELAY_SUM, a, 1 + 3 * (unsigned)a);
	for (int i = 0; i < 200; i++)
		enqueue_all(&calls[chance() % SYMM_ALGORITHMS]);
	end_all();
	(void)expect_sum(&calls[0]);
	ck_assert_uint_eq(group.rank[2].comm.state->line[77].turn, FIRST_TURN + 200);
	part();
}
END_TEST

/* ---- calls that are not
 * ------------------------------------------------------------------ */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/* The host's side: an order, a word that is awaited. */
static void order(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t look(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

#define AWAIT(condition)                                                                           \
	do {                                                                                       \
		uint64_t until_ = now_ns() + 20 * SECOND;                                          \
		while (!(condition)) {                                                             \
			ck_assert_msg(now_ns() < until_, "waited for " #condition);                \
			(void)poll(NULL, 0, 1);                                                    \
		}                                                                                  \
	} while (0)

static void be_impatient(void)
{
	for (int r = 0; r < group.nranks; r++)
		group.rank[r].comm.late_ns = 2 * MS;
}

/* Every block has come so far in the turn. */
static bool all_say(const struct rank *rank, uint64_t turn, unsigned blocks, uint32_t state)
{
	for (unsigned b = 0; b < blocks; b++) {
		uint64_t word = look(&rank->posts.block[b]);

		if (SYMM_BLOCK_TURN(word) < turn ||
		    (SYMM_BLOCK_TURN(word) == turn && SYMM_BLOCK_STATE(word) < state))
			return false;
	}
	return true;
}

static bool all_left(const struct rank *rank, uint64_t turn, unsigned blocks, bool *ret_abandoned)
{
	*ret_abandoned = false;
	if (!all_say(rank, turn, blocks, SYMM_BLOCK_DONE))
		return false;
	for (unsigned b = 0; b < blocks; b++)
		*ret_abandoned |= look(&rank->posts.block[b]) ==
				  SYMM_BLOCK_WORD(turn, blocks, SYMM_BLOCK_ABANDONED);
	return true;
}

/* What the watchers do together, for every rank that is stuck. */
static void rescue(const struct symm_launch *call, uint64_t turn)
{
	const void *sources[RANKS_MAX];

	for (int r = 0; r < group.nranks; r++) {
		/* A parked turn says so by its step word. */
		AWAIT(look(&group.rank[r].steps[0]) >= turn ||
		      all_say(&group.rank[r], turn, call->blocks, SYMM_BLOCK_STAGED));
		order(&group.rank[r].comm.state->mode.dirty[turn & 1], turn);
		sources[r] = group.regions + (size_t)r * group.layout.stride +
			     group.layout.retained + (turn & 1) * group.layout.symm_bytes;
	}
	for (int r = 0; r < group.nranks; r++) {
		struct rank *rank = &group.rank[r];
		void *destination = rank->recv;
		bool abandoned;

		order(&rank->orders.abandon, turn);
		AWAIT(all_left(rank, turn, call->blocks, &abandoned));
		if (!abandoned)
			continue;
		ck_assert_uint_eq(rank->posts.output, (uintptr_t)rank->recv);
		ck_assert_uint_eq(rank->posts.output_turn, turn);
		(void)host_sum(&(struct host_sum_job){.sources = sources,
						      .nsources = (unsigned)group.nranks,
						      .destinations = &destination,
						      .ndestinations = 1,
						      .count = call->count,
						      .dtype = call->dtype,
						      .op = call->op});
		order(&rank->orders.released, turn << 1 | 1);
	}
}

static void arm(int r, struct symm_fault *fault, uint32_t kind, uint64_t seq)
{
	*fault = (struct symm_fault){
		.first = seq, .last = seq, .step = 1, .kind = kind, .at = SYMM_AT_PUSH};
	group.rank[r].comm.faults = fault;
	group.rank[r].comm.nfaults = 1;
}

/* A lost write in each algorithm; then more calls of it, over slots that hold leftovers. */
START_TEST(a_turn_whose_data_is_lost_is_left_to_the_host_and_the_next_ones_are_right)
{
	struct symm_launch call = call_of(3000, BELAY_F32, BELAY_SUM, _i / 2, 5);
	uint64_t lost = FIRST_TURN + 2;
	struct symm_fault fault;

	gather(3);
	be_impatient();
	fill(12000);
	arm(1, &fault, _i % 2 ? SYMM_FAULT_DROP : SYMM_FAULT_FLAG, lost);
	for (int i = 0; i < 6; i++)
		enqueue_all(&call);
	AWAIT(look(&group.rank[0].posts.stuck) >> 3 == lost);
	AWAIT(look(&group.rank[0].posts.missing) == 2);
	rescue(&call, lost);
	end_all();
	(void)expect_sum(&call);
	ck_assert_uint_eq(group.rank[0].steps[3], lost);
	ck_assert_uint_eq(group.rank[0].comm.state->line[0].turn, FIRST_TURN + 6);
	part();
}
END_TEST

START_TEST(another_signature_is_told_and_nothing_is_written)
{
	struct symm_launch call = call_of(100, BELAY_F32, BELAY_SUM, SYMM_ONESHOT_PACKETS, 2);
	struct symm_launch other = call;

	gather(2);
	be_impatient();
	fill(400);
	other.signature_base++;
	enqueue(0, call);
	enqueue(1, other);
	AWAIT(look(&group.rank[0].posts.mismatch) == ((FIRST_TURN + 1) << 8 | 1));
	AWAIT(look(&group.rank[1].posts.mismatch) == ((FIRST_TURN + 1) << 8 | 0));
	for (int r = 0; r < 2; r++)
		order(&group.rank[r].orders.fail_from, FIRST_TURN + 1);
	enqueue(0, call); /* leaves at entry: V6 */
	end_all();
	for (int r = 0; r < 2; r++) {
		ck_assert_int_eq(group.rank[r].recv[0], (char)0xa5);
		ck_assert_uint_eq(group.rank[r].comm.state->mode.failed, FIRST_TURN + 1);
		ck_assert_uint_eq(SYMM_BLOCK_TURN(group.rank[r].posts.block[0]), FIRST_TURN + 1);
		ck_assert_uint_lt(SYMM_BLOCK_STATE(group.rank[r].posts.block[0]), SYMM_BLOCK_DONE);
	}
	part();
}
END_TEST

START_TEST(a_kernel_that_nobody_answers_leaves_by_itself)
{
	struct symm_launch call = call_of(100, BELAY_F32, BELAY_SUM, SYMM_TWOSHOT_WIRE, 3);

	gather(2);
	be_impatient();
	group.rank[0].comm.last_ns = 20 * MS;
	enqueue(0, call);
	ck_assert_int_eq(cpu_gpu_stream_sync(group.rank[0].stream), 0);
	ck_assert_uint_eq(group.rank[0].posts.gave_up, FIRST_TURN + 1);
	ck_assert_uint_eq(group.rank[0].comm.state->mode.failed, FIRST_TURN + 1);
	part();
}
END_TEST

START_TEST(a_parked_turn_is_the_hosts)
{
	struct symm_launch call = call_of(700, BELAY_I64, BELAY_SUM, SYMM_TWOSHOT_PULL, 4);

	gather(2);
	fill(5600);
	for (int i = 0; i < 3; i++) {
		for (int r = 0; r < 2; r++) {
			struct symm_launch own = call;

			own.send = group.rank[r].send;
			own.recv = group.rank[r].recv;
			ck_assert_int_eq(
				symm_launch_parked(&group.rank[r].comm, &own, group.rank[r].stream),
				0);
		}
		call.blocks = 1;
		rescue(&call, FIRST_TURN + 1 + (uint64_t)i);
		end_all();
		(void)expect_sum(&call);
	}
	part();
}
END_TEST

START_TEST(a_gate_opens_when_all_are_there_and_counts_as_a_turn)
{
	struct symm_launch call = call_of(700, BELAY_F32, BELAY_SUM, 0, 0);

	gather(2);
	for (int i = 0; i < 3; i++)
		for (int r = 0; r < 2; r++) {
			struct rank *rank = &group.rank[r];

			ck_assert_int_eq(symm_launch_gate(&rank->comm, &call, rank->stream), 0);
			ck_assert_int_eq(symm_launch_gate_end(&rank->comm, &call, rank->stream), 0);
		}
	end_all();
	ck_assert_uint_eq(group.rank[1].posts.block[0],
			  SYMM_BLOCK_WORD(FIRST_TURN + 3, 1, SYMM_BLOCK_DONE));
	ck_assert_uint_eq(group.rank[0].comm.state->ring[(FIRST_TURN + 2) % SYMM_RING_RECORDS].seq,
			  FIRST_TURN + 2);
	part();
}
END_TEST

/* ---- streams and captures ------------------------------------------------------------------- */

START_TEST(a_graph_counts_on_at_each_replay)
{
	struct symm_launch call = call_of(64, BELAY_F32, BELAY_SUM, SYMM_ONESHOT_WIRE, 2);
	struct cpu_gpu_graph *graph[2];

	gather(2);
	fill(256);
	for (int r = 0; r < 2; r++) {
		struct CUstream_st *stream = group.rank[r].stream;
		uint64_t id = 0;

		ck_assert_int_eq(cpu_gpu_capture_begin(stream, CPU_GPU_GLOBAL), 0);
		ck_assert_int_eq(gpu_stream_capture(stream, &id), GPU_CAPTURING);
		ck_assert_int_eq(symm_launch_pass(&group.rank[r].comm, 1, 0, stream), 0);
		enqueue(r, call);
		enqueue(r, call);
		ck_assert_int_eq(symm_launch_pass(&group.rank[r].comm, 0, 0, stream), 0);
		ck_assert_int_eq(cpu_gpu_capture_end(stream, &graph[r]), 0);
		ck_assert_uint_eq(cpu_gpu_graph_nodes(graph[r]), 4);
	}
	for (int i = 0; i < 10; i++)
		for (int r = 0; r < 2; r++)
			ck_assert_int_eq(cpu_gpu_graph_launch(graph[r], group.rank[r].stream), 0);
	end_all();
	(void)expect_sum(&call);
	ck_assert_uint_eq(group.rank[0].comm.state->line[3].turn, FIRST_TURN + 20);
	ck_assert_uint_eq(group.rank[0].posts.pass_ended, 10);
	ck_assert_uint_eq(group.rank[0].posts.pass_first_seq, FIRST_TURN + 19);
	ck_assert_uint_eq(group.rank[0].posts.pass_last_seq, FIRST_TURN + 20);
	for (int r = 0; r < 2; r++)
		cpu_gpu_graph_free(graph[r]);
	part();
}
END_TEST

static int break_it(struct CUstream_st *stream, int how)
{
	void *memory = NULL;

	switch (how) {
	case 0:
		return gpu_stream_done(stream, NULL);
	case 1:
		return gpu_alloc(100, &memory, NULL);
	case 2:
		return gpu_fill(&memory, 0, sizeof(memory), NULL, NULL);
	default:
		return 0;
	}
}

START_TEST(what_a_capture_forbids_breaks_it_and_is_named)
{
	static const char *const names[] = {"gpu_stream_done", "gpu_alloc", "gpu_copy", NULL};
	struct CUstream_st *stream = cpu_gpu_stream_create();
	struct cpu_gpu_graph *graph;

	ck_assert_int_eq(cpu_gpu_capture_begin(stream, CPU_GPU_GLOBAL), 0);
	ck_assert_int_eq(break_it(stream, _i), names[_i] ? -1 : 0);
	ck_assert_int_eq(cpu_gpu_capture_end(stream, &graph),
			 names[_i] ? CPU_GPU_CAPTURE_INVALIDATED : 0);
	if (names[_i])
		ck_assert_str_eq(cpu_gpu_capture_broken_by(), names[_i]);
	else
		cpu_gpu_graph_free(graph);
	cpu_gpu_stream_free(stream);
}
END_TEST

START_TEST(a_relaxed_thread_breaks_no_capture_but_that_of_the_stream_it_asks_for)
{
	struct CUstream_st *stream = cpu_gpu_stream_create(), *other = cpu_gpu_stream_create();
	struct cpu_gpu_graph *graph;
	void *memory;
	int before;

	ck_assert_int_eq(cpu_gpu_capture_begin(stream, CPU_GPU_GLOBAL), 0);
	before = gpu_capture_relax();
	ck_assert_int_eq(gpu_alloc(100, &memory, NULL), 0);
	ck_assert_int_eq(gpu_fill(memory, 1, 100, other, NULL), 0);
	ck_assert_int_eq(gpu_stream_wait(other, now_ns() + 20 * SECOND, NULL), 1);
	gpu_free(memory);
	gpu_capture_restore(before);
	ck_assert_int_eq(cpu_gpu_capture_end(stream, &graph), 0);
	cpu_gpu_graph_free(graph);
	cpu_gpu_stream_free(stream);
	cpu_gpu_stream_free(other);
}
END_TEST

START_TEST(failures_come_when_they_are_due_and_a_lost_context_ends_everything)
{
	struct CUstream_st *stream = cpu_gpu_stream_create();
	static _Atomic uint64_t never;
	struct gpu_error error;
	void *memory;

	cpu_gpu_fail("gpu_alloc", 2, CPU_GPU_NO_MEMORY, false);
	ck_assert_int_eq(gpu_alloc(1, &memory, &error), 0);
	gpu_free(memory);
	ck_assert_int_eq(gpu_alloc(1, &memory, &error), -1);
	ck_assert_int_eq(error.code, CPU_GPU_NO_MEMORY);
	ck_assert(!error.sticky);
	ck_assert_int_eq(gpu_alloc(1, &memory, &error), 0);
	gpu_free(memory);
	ck_assert_int_eq(cpu_gpu_enqueue_wait(stream, &never, 1), 0);
	ck_assert_int_eq(gpu_stream_done(stream, &error), 0);
	cpu_gpu_lose_context(CPU_GPU_ILLEGAL_ADDRESS);
	ck_assert_int_eq(gpu_stream_done(stream, &error), -1);
	ck_assert(error.sticky);
	cpu_gpu_stream_free(stream); /* its kernel has ended */
}
END_TEST

START_TEST(pointers_are_what_they_were_allocated_as)
{
	struct cpu_gpu_objects objects;
	char *memory = cpu_gpu_memory(GPU_POINTER_DEVICE, 1, 10000);
	char *managed = cpu_gpu_memory(GPU_POINTER_MANAGED, 0, 1);

	ck_assert_int_eq(gpu_pointer_kind(memory + 9999, 1), GPU_POINTER_DEVICE);
	ck_assert_int_eq(gpu_pointer_kind(memory, 0), GPU_POINTER_OTHER_DEVICE);
	ck_assert_int_eq(gpu_pointer_kind(managed, 0), GPU_POINTER_MANAGED);
	ck_assert_int_eq(gpu_pointer_kind(&objects, 0), GPU_POINTER_UNKNOWN);
	cpu_gpu_memory_free(memory);
	cpu_gpu_memory_free(managed);
	cpu_gpu_count(&objects);
	ck_assert_uint_eq(objects.allocations + objects.streams, 0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("GPU played on the CPU");
	TCase *c = tcase_create("calls");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, every_algorithm_gives_the_bits_of_the_rank_order_sum, 0, 5);
	tcase_add_test(c, calls_of_all_algorithms_follow_each_other_without_a_pause);
	tcase_add_loop_test(
		c, a_turn_whose_data_is_lost_is_left_to_the_host_and_the_next_ones_are_right, 0,
		2 * SYMM_ALGORITHMS);
	tcase_add_test(c, another_signature_is_told_and_nothing_is_written);
	tcase_add_test(c, a_kernel_that_nobody_answers_leaves_by_itself);
	tcase_add_test(c, a_parked_turn_is_the_hosts);
	tcase_add_test(c, a_gate_opens_when_all_are_there_and_counts_as_a_turn);
	suite_add_tcase(s, c);

	c = tcase_create("streams");
	tcase_set_timeout(c, 120);
	tcase_add_test(c, a_graph_counts_on_at_each_replay);
	tcase_add_loop_test(c, what_a_capture_forbids_breaks_it_and_is_named, 0, 4);
	tcase_add_test(c, a_relaxed_thread_breaks_no_capture_but_that_of_the_stream_it_asks_for);
	tcase_add_test(c, failures_come_when_they_are_due_and_a_lost_context_ends_everything);
	tcase_add_test(c, pointers_are_what_they_were_allocated_as);
	suite_add_tcase(s, c);
	return s;
}

#include "tests/unit/check_main.h"
