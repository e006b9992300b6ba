/* SPDX-License-Identifier: Apache-2.0 */
/* See gpu_seat.h. */
#include "config.h"

#include "tests/gpu/gpu_seat.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/bench_data.h"
#include "tools/bench/bench_device_run.h"

#define GUARD_BYTES 256u
#define GUARD	    0xa5
/* Comparisons behind a call: result, input, the guards of recv. */
#define LOOKS 4
/* Data of calls begins at one of so many places in a pool, so many bytes apart. */
#define PLACES	    1024u
#define PLACE_BYTES 64u
#define SEED	    UINT64_C(0x62656c61)
#define NS_PER_MS   UINT64_C(1000000)
#define WAIT_NS	    (20000 * NS_PER_MS)
#define RECORDS_NS  (2000 * NS_PER_MS)
#define VERDICT_NS  (5000 * NS_PER_MS)
#define SURVIVE_NS  (20000 * NS_PER_MS)
#define CREATED	    (RANK_WORDS - 1)
#define MEETINGS    (RANK_WORDS - 2)
#define SECOND_LIFE 10

/* ---- device and memory ----------------------------------------------------------------------- */

static bool broken(struct gpu_seat *gpu)
{
	rank_complain(gpu->seat, __FILE__, __LINE__, bench_device_error(), 0);
	return false;
}

static size_t slot_bytes(const struct gpu_seat *gpu)
{
	return 2 * gpu->bytes_max + 5 * GUARD_BYTES;
}

static bool upload(struct gpu_seat *gpu, const void *from, size_t bytes, char **ret_memory)
{
	void *memory;

	if (bench_device_alloc(bytes, &memory))
		return broken(gpu);
	*ret_memory = memory;
	if (bench_device_copy(memory, from, bytes, gpu->own_stream))
		return broken(gpu);
	while (bench_device_done(gpu->own_stream) == 0)
		(void)sched_yield();
	return true;
}

static bool make_memory(struct gpu_seat *gpu)
{
	unsigned char guard[GUARD_BYTES];
	void *slots, *wrong;

	memset(guard, GUARD, sizeof(guard));
	if (bench_device_alloc(GPU_SLOTS * slot_bytes(gpu), &slots))
		return broken(gpu);
	gpu->slots = slots;
	if (bench_device_host_alloc(GPU_BATCH * LOOKS * sizeof(uint64_t), &wrong))
		return broken(gpu);
	gpu->wrong = wrong;
	return upload(gpu, guard, sizeof(guard), &gpu->guard);
}

/* BELAY_GPU_ALONE=A,B,...: each rank sees one GPU of this list and no other, as under launchers
 * that say so to each process. Before the first call to CUDA. */
static bool is_alone(const struct rank_seat *seat)
{
	const char *list = getenv("BELAY_GPU_ALONE");
	char own[64] = "";

	if (!list || !*list)
		return false;
	for (int rank = 0; rank < seat->rank && *list; rank++) {
		list += strcspn(list, ",");
		list += *list == ',';
	}
	(void)snprintf(own, sizeof(own), "%.*s", (int)strcspn(list, ","), list);
	(void)setenv("CUDA_VISIBLE_DEVICES", own, 1);
	(void)setenv("BELAY_TEST_GPU_DEVICES", own, 1); /* the GPU that is played on the CPU */
	return true;
}

/* Ranks on one GPU each claim a host of their own, or NCCL refuses them; threads cannot. */
static void fit_environment(struct rank_seat *seat, int devices)
{
	if (gpu_number("BELAY_GPU_THREADS", 0)) {
		if (!seat->config.paths)
			seat->config.paths = "symm,ring";
	} else if (seat->nranks > devices) {
		RANK_EXPECT(seat, device_run_separate_hosts((uint32_t)seat->rank) == 0);
	}
}

bool gpu_open(struct rank_seat *seat, size_t bytes_max, struct gpu_seat *ret_gpu)
{
	const char *why;
	bool alone = is_alone(seat);
	int devices = bench_device_count(&why);

	*ret_gpu = (struct gpu_seat){.seat = seat, .bytes_max = (bytes_max + 255) / 256 * 256};
	RANK_EXPECT(seat, devices > 0);
	if (devices <= 0)
		return false;
	if (!alone)
		fit_environment(seat, devices);
	(void)snprintf(ret_gpu->device_text, sizeof(ret_gpu->device_text), "%d",
		       seat->rank % devices);
	seat->config.device = ret_gpu->device_text;
	seat->config.symm_max = "2M";
	if (bench_device_use(seat->rank % devices, &ret_gpu->own_stream))
		return broken(ret_gpu);
	ret_gpu->stream = ret_gpu->own_stream;
	return make_memory(ret_gpu);
}

void gpu_close(struct gpu_seat *gpu)
{
	if (!gpu->own_stream || bench_device_done(gpu->own_stream) == 0)
		return; /* freeing would wait */
	for (int dtype = 0; dtype < GPU_DTYPES; dtype++) {
		for (int op = 0; op < GPU_OPS; op++) {
			bench_device_free(gpu->pool[dtype][op].input);
			bench_device_free(gpu->pool[dtype][op].expected);
		}
	}
	bench_device_free(gpu->slots);
	bench_device_free(gpu->guard);
	bench_device_host_free(gpu->wrong);
}

bool gpu_create(struct gpu_seat *gpu, int id_index)
{
	gpu->seq = gpu->seat->config.first_seq ? gpu->seat->config.first_seq : 1;
	RANK_EXPECT_STATUS(gpu->seat, rank_create(gpu->seat, id_index), 0);
	return gpu->seat->comm != NULL;
}

/* ---- data ------------------------------------------------------------------------------------ */

/* The pool of a type and operation, made at its first use; by all ranks before the same call. */
static bool fill_pool(struct gpu_seat *gpu, enum belay_dtype dtype, enum belay_op op,
		      struct gpu_pool *pool)
{
	size_t bytes = gpu->bytes_max + PLACES * PLACE_BYTES;
	size_t count = bytes / belay_dtype_bytes(dtype);
	char *data = malloc(bytes);
	bool well;

	if (!data)
		abort();
	data_input(dtype, SEED, gpu->seat->rank, 0, count, data);
	well = upload(gpu, data, bytes, &pool->input);
	data_expected(dtype, op, SEED, gpu->seat->nranks, 0, count, data);
	well = well && upload(gpu, data, bytes, &pool->expected);
	free(data);
	return well;
}

static bool find_pool(struct gpu_seat *gpu, const struct gpu_call *call, struct gpu_pool *ret_pool)
{
	struct gpu_pool *pool = &gpu->pool[call->dtype][call->op];

	if (!pool->expected && !fill_pool(gpu, call->dtype, call->op, pool))
		return false;
	*ret_pool = *pool;
	return true;
}

/* After a change of ranks the expected results are others. */
static void forget_pools(struct gpu_seat *gpu)
{
	for (int dtype = 0; dtype < GPU_DTYPES; dtype++) {
		for (int op = 0; op < GPU_OPS; op++) {
			bench_device_free(gpu->pool[dtype][op].input);
			bench_device_free(gpu->pool[dtype][op].expected);
			gpu->pool[dtype][op] = (struct gpu_pool){0};
		}
	}
}

static size_t place_of(uint64_t data)
{
	return (size_t)(data_mix(data) % (PLACES / 2) * 2 + (data & 1)) * PLACE_BYTES;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

static bool refused(struct gpu_seat *gpu, int status)
{
	if (!gpu->seat->report->failed)
		gpu->seat->report->failed = status;
	return false;
}

static bool verdict_of(struct gpu_seat *gpu, struct belay_verdict *verdict)
{
	*verdict = (struct belay_verdict){.size = sizeof(*verdict)};
	if (!gpu->seat->comm || belay_comm_verdict(gpu->seat->comm, verdict))
		return false;
	if (!gpu->verdict_ns)
		gpu->verdict_ns = rank_now_ns();
	return true;
}

/* Between two looks at the stream. */
static void look_around(struct gpu_seat *gpu)
{
	struct belay_verdict verdict;

	if (gpu->alive)
		atomic_store_explicit(gpu->alive, rank_now_ns(), memory_order_relaxed);
	if (!gpu->verdict_ns)
		(void)verdict_of(gpu, &verdict);
}

static bool await_verdict(struct gpu_seat *gpu, struct belay_verdict *verdict)
{
	uint64_t until_ns = rank_now_ns() + VERDICT_NS;

	while (!verdict_of(gpu, verdict)) {
		if (rank_now_ns() > until_ns)
			return false;
		(void)poll(NULL, 0, 1);
	}
	return true;
}

/* A context that is lost becomes the verdict; without one it is a complaint. */
static bool lost(struct gpu_seat *gpu)
{
	struct belay_verdict verdict;

	if (!await_verdict(gpu, &verdict))
		return broken(gpu);
	return refused(gpu, verdict.status);
}

/* ---- a call ---------------------------------------------------------------------------------- */

static size_t bytes_of(const struct gpu_call *call)
{
	return call->count * belay_dtype_bytes(call->dtype);
}

/* guard, send, guard, recv, guard; each end of recv touches its guard. */
static void lay_out(struct gpu_seat *gpu, struct gpu_call *call)
{
	char *slot = gpu->slots + gpu->data % GPU_SLOTS * slot_bytes(gpu);

	call->send = slot + GUARD_BYTES + call->send_shift;
	call->recv = call->in_place ? call->send
				    : slot + 3 * GUARD_BYTES + gpu->bytes_max + call->recv_shift;
}

static int put(struct gpu_seat *gpu, const struct gpu_call *call, const char *input, bool guarded)
{
	size_t bytes = bytes_of(call);

	if (guarded &&
	    (bench_device_copy(call->recv - PLACE_BYTES, gpu->guard, PLACE_BYTES, gpu->stream) ||
	     bench_device_copy(call->recv + bytes, gpu->guard, PLACE_BYTES, gpu->stream)))
		return -1;
	return bench_device_copy(call->send, input, bytes, gpu->stream);
}

static int look(struct gpu_seat *gpu, const struct gpu_call *call, const char *input,
		const char *expected, bool guarded, uint64_t *wrong)
{
	size_t bytes = bytes_of(call);
	int failed = bench_device_compare(call->recv, expected, bytes, &wrong[0], gpu->stream);

	if (!call->in_place)
		failed |= bench_device_compare(call->send, input, bytes, &wrong[1], gpu->stream);
	if (guarded) {
		failed |= bench_device_compare(call->recv - PLACE_BYTES, gpu->guard, PLACE_BYTES,
					       &wrong[2], gpu->stream);
		failed |= bench_device_compare(call->recv + bytes, gpu->guard, PLACE_BYTES,
					       &wrong[3], gpu->stream);
	}
	return failed;
}

/* Enqueues input, call and comparisons; the four words are 0 or become so. */
static bool enqueue(struct gpu_seat *gpu, const struct gpu_call *given, uint64_t *wrong)
{
	struct gpu_call call = *given;
	bool guarded = !call.send;
	struct gpu_pool pool;
	size_t place = place_of(gpu->data);
	int status;

	call.dtype = call.dtype ? call.dtype : BELAY_F32;
	call.op = call.op ? call.op : BELAY_SUM;
	memset(wrong, 0, LOOKS * sizeof(*wrong));
	if (!find_pool(gpu, &call, &pool))
		return false;
	if (guarded)
		lay_out(gpu, &call);
	gpu->data++;
	if (put(gpu, &call, pool.input + place, guarded))
		return lost(gpu);
	status = belay_allreduce(call.send, call.recv, call.count, call.dtype, call.op,
				 gpu->seat->comm, gpu->stream);
	if (status)
		return refused(gpu, status);
	if (look(gpu, &call, pool.input + place, pool.expected + place, guarded, wrong))
		return lost(gpu); /* by the call */
	return true;
}

bool gpu_issue(struct gpu_seat *gpu, const struct gpu_call *call)
{
	bool begins = gpu->ncalls == 0;

	if (gpu->ncalls == GPU_BATCH && !gpu_settle(gpu))
		return false;
	if (begins)
		gpu->issued_ns = rank_now_ns();
	if (!enqueue(gpu, call, gpu->wrong + (size_t)gpu->ncalls * LOOKS))
		return false;
	gpu->ncalls++;
	gpu->seq++;
	return true;
}

/* ---- settling -------------------------------------------------------------------------------- */

bool gpu_wait(struct gpu_seat *gpu)
{
	uint64_t until_ns = rank_now_ns() + WAIT_NS;
	int done;

	while ((done = bench_device_done(gpu->stream)) == 0) {
		look_around(gpu);
		if (rank_now_ns() > until_ns) {
			rank_complain(gpu->seat, __FILE__, __LINE__, "the stream stays busy", 0);
			return false;
		}
		(void)sched_yield();
	}
	return done > 0;
}

void gpu_meet(struct gpu_seat *gpu)
{
	(void)gpu_wait(gpu);
	rank_announce(gpu->seat, MEETINGS);
	(void)rank_await(gpu->seat, MEETINGS, ++gpu->meetings * (uint64_t)gpu->seat->nranks);
}

static void judge_call(struct gpu_seat *gpu, const uint64_t *wrong, uint64_t seq)
{
	static const char *const what[LOOKS] = {"wrong result", "changed input",
						"written before recv", "written behind recv"};

	for (int i = 0; i < LOOKS; i++) {
		if (wrong[i])
			rank_complain(gpu->seat, __FILE__, __LINE__, what[i], (long)seq);
	}
	gpu->seat->report->calls++;
}

static bool any_wrong(const uint64_t *wrong, uint32_t ncalls)
{
	for (uint32_t i = 0; i < ncalls * LOOKS; i++) {
		if (wrong[i])
			return true;
	}
	return false;
}

/* Calls before the verdict's are as good as ever. */
static bool judge(struct gpu_seat *gpu, const uint64_t *wrong, uint32_t ncalls, uint64_t first_seq)
{
	struct rank_report *report = gpu->seat->report;
	struct belay_verdict verdict;
	bool stands = verdict_of(gpu, &verdict);

	if (!stands && any_wrong(wrong, ncalls))
		stands = await_verdict(gpu, &verdict);
	for (uint32_t i = 0; i < ncalls; i++) {
		if (!stands || first_seq + i < verdict.seq)
			judge_call(gpu, wrong + (size_t)i * LOOKS, first_seq + i);
	}
	if (stands && !report->failed)
		report->failed = verdict.status;
	return !stands;
}

bool gpu_settle(struct gpu_seat *gpu)
{
	uint32_t ncalls = gpu->ncalls;
	bool well;

	gpu->ncalls = 0;
	if (!gpu_wait(gpu))
		return lost(gpu);
	well = judge(gpu, gpu->wrong, ncalls, gpu->seq - ncalls);
	if (!well)
		gpu->seat->report->failed_ns = rank_now_ns() - gpu->issued_ns;
	return well;
}

bool gpu_call(struct gpu_seat *gpu, const struct gpu_call *call)
{
	bool issued = gpu_issue(gpu, call);

	return gpu_settle(gpu) && issued;
}

/* ---- passes and graphs ----------------------------------------------------------------------- */

static bool note_status(struct gpu_seat *gpu, int status)
{
	return status ? refused(gpu, status) : true;
}

static bool work_a_pass(struct gpu_seat *gpu, const struct work_plan *plan)
{
	if (!note_status(gpu, belay_pass_begin(gpu->seat->comm, gpu->stream)))
		return false;
	for (int i = 0; i < (plan->calls ? plan->calls : 5); i++) {
		size_t count = plan->count ? plan->count : gpu->data & 1 ? 12000 : 100;

		if (!gpu_call(gpu, &(struct gpu_call){.count = count, .in_place = plan->in_place}))
			return false;
	}
	if (!note_status(gpu, belay_pass_end(gpu->seat->comm, gpu->stream)) ||
	    !note_status(gpu, belay_pass_wait(gpu->seat->comm, NULL)))
		return false;
	gpu->seat->report->passes++;
	return true;
}

bool gpu_work(struct gpu_seat *gpu, const struct work_plan *plan)
{
	for (int i = 0; i < (plan->passes ? plan->passes : 10); i++) {
		if (!work_a_pass(gpu, plan))
			return false;
	}
	return true;
}

static bool enqueue_all(struct gpu_seat *gpu, const struct gpu_call *calls, uint32_t ncalls,
			uint64_t *wrong)
{
	for (uint32_t i = 0; i < ncalls; i++) {
		if (!enqueue(gpu, &calls[i], wrong + (size_t)i * LOOKS))
			return false;
	}
	return true;
}

static bool enqueue_graph(struct gpu_seat *gpu, const struct gpu_call *calls, bool marks,
			  const struct gpu_graph *graph)
{
	if (marks && !note_status(gpu, belay_pass_begin(gpu->seat->comm, gpu->stream)))
		return false;
	if (!enqueue_all(gpu, calls, graph->ncalls, graph->wrong))
		return false;
	return !marks || note_status(gpu, belay_pass_end(gpu->seat->comm, gpu->stream));
}

bool gpu_prepare(struct gpu_seat *gpu, const struct gpu_call *calls, uint32_t ncalls)
{
	struct gpu_pool pool;

	for (uint32_t i = 0; i < ncalls; i++) {
		struct gpu_call call = calls[i];

		call.dtype = call.dtype ? call.dtype : BELAY_F32;
		call.op = call.op ? call.op : BELAY_SUM;
		if (!find_pool(gpu, &call, &pool))
			return false;
	}
	return true;
}

bool gpu_capture(struct gpu_seat *gpu, const struct gpu_call *calls, uint32_t ncalls, bool marks,
		 struct gpu_graph *ret_graph)
{
	struct gpu_graph graph = {.ncalls = ncalls};
	void *wrong;
	bool well;

	/* A capture allows no allocation. */
	if (!gpu_prepare(gpu, calls, ncalls) ||
	    bench_device_host_alloc((size_t)ncalls * LOOKS * sizeof(uint64_t), &wrong))
		return broken(gpu);
	graph.wrong = wrong;
	if (bench_device_capture(gpu->stream))
		return broken(gpu);
	well = enqueue_graph(gpu, calls, marks, &graph);
	if (bench_device_captured(gpu->stream, &graph.graph))
		return broken(gpu);
	RANK_EXPECT(gpu->seat, well);
	*ret_graph = graph;
	return gpu_wait(gpu) && well;
}

bool gpu_replay(struct gpu_seat *gpu, struct gpu_graph *graph)
{
	bool well;

	gpu->issued_ns = rank_now_ns();
	if (bench_graph_launch(graph->graph, gpu->stream))
		return lost(gpu);
	gpu->seq += graph->ncalls;
	if (!gpu_wait(gpu))
		return lost(gpu);
	well = judge(gpu, graph->wrong, graph->ncalls, gpu->seq - graph->ncalls);
	if (!well)
		gpu->seat->report->failed_ns = rank_now_ns() - gpu->issued_ns;
	return well;
}

void gpu_graph_free(struct gpu_graph *graph)
{
	bench_graph_free(graph->graph);
	bench_device_host_free(graph->wrong);
	*graph = (struct gpu_graph){0};
}

/* ---- verdict and second life ----------------------------------------------------------------- */

void gpu_statistics(struct gpu_seat *gpu, struct belay_statistics *ret_statistics)
{
	uint64_t first = gpu->seat->config.first_seq ? gpu->seat->config.first_seq : 1;
	uint64_t until_ns = rank_now_ns() + RECORDS_NS;

	do {
		*ret_statistics = (struct belay_statistics){.size = sizeof(*ret_statistics)};
		RANK_EXPECT_STATUS(gpu->seat,
				   belay_comm_statistics(gpu->seat->comm, ret_statistics), 0);
		(void)poll(NULL, 0, 1);
	} while (ret_statistics->calls < gpu->seq - first && !gpu->seat->report->failed &&
		 rank_now_ns() < until_ns);
}

void gpu_expect_healthy(struct gpu_seat *gpu)
{
	void *memory;

	RANK_EXPECT(gpu->seat, bench_device_alloc(GUARD_BYTES, &memory) == 0);
	RANK_EXPECT(gpu->seat,
		    bench_device_copy(memory, gpu->guard, GUARD_BYTES, gpu->own_stream) == 0);
	gpu->wrong[0] = 1;
	RANK_EXPECT(gpu->seat, bench_device_compare(memory, gpu->guard, GUARD_BYTES, gpu->wrong,
						    gpu->own_stream) == 0);
	while (bench_device_done(gpu->own_stream) == 0)
		(void)sched_yield();
	RANK_EXPECT(gpu->seat, bench_device_done(gpu->own_stream) == 1);
	RANK_EXPECT(gpu->seat, gpu->wrong[0] == 0);
	bench_device_free(memory);
}

void gpu_meet_verdict(struct gpu_seat *gpu)
{
	struct rank_report *report = gpu->seat->report;
	uint64_t begin_ns = rank_now_ns();
	char *memory = gpu->slots;

	report->has_verdict = await_verdict(gpu, &report->verdict);
	RANK_EXPECT(gpu->seat, report->has_verdict);
	RANK_EXPECT_STATUS(gpu->seat,
			   belay_allreduce(memory, memory, 1, BELAY_F32, BELAY_SUM, gpu->seat->comm,
					   gpu->stream),
			   report->verdict.status);
	/* Far less than any deadline of these tests: a refused call waits for nobody. */
	RANK_EXPECT(gpu->seat, rank_now_ns() - begin_ns < VERDICT_NS);
}

static void live_a_second_time(struct gpu_seat *gpu, uint64_t mask,
			       const struct belay_unique_id *id)
{
	struct rank_seat *seat = gpu->seat;

	seat->nranks = __builtin_popcountll(mask);
	seat->rank = __builtin_popcountll(mask & ((UINT64_C(1) << seat->rank) - 1));
	seat->config.fault = NULL;
	seat->config.first_seq = 0;
	seat->config.give_up_ms = seat->config.warmup_give_up_ms = "20000";
	gpu->seq = 1;
	gpu->data = 0;
	forget_pools(gpu);
	RANK_EXPECT_STATUS(
		seat, belay_comm_create(&seat->comm, id, seat->rank, seat->nranks, &seat->config),
		0);
	if (!seat->comm)
		return;
	while (seat->report->second_life < SECOND_LIFE &&
	       gpu_call(gpu, &(struct gpu_call){.count = 5000}))
		seat->report->second_life++;
	RANK_EXPECT_STATUS(seat, belay_comm_destroy(seat->comm), 0);
	seat->comm = NULL;
}

void gpu_live_on(struct gpu_seat *gpu)
{
	struct rank_seat *seat = gpu->seat;
	struct belay_unique_id id;
	uint64_t mask = 0;

	RANK_EXPECT_STATUS(seat, belay_comm_survivors(seat->comm, SURVIVE_NS, &mask, &id), 0);
	rank_destroy(seat);
	seat->report->survivors = mask;
	if (mask >> seat->rank & 1)
		live_a_second_time(gpu, mask, &id);
}

/* The driver waits for all kernels in the process, and has whoever launches or copies wait as well:
 * the watcher, which right behind the calls has their records to fetch. */
static void free_behind_calls(struct gpu_seat *gpu)
{
	void *memory;

	RANK_EXPECT(gpu->seat, bench_device_alloc(GUARD_BYTES, &memory) == 0);
	(void)gpu_wait(gpu);
	bench_device_free(memory);
}

static void end_of_life(struct gpu_seat *gpu, const struct work_plan *plan)
{
	struct rank_report *report = gpu->seat->report;

	if (!report->failed)
		free_behind_calls(gpu);
	gpu_statistics(gpu, &report->statistics);
	if (report->failed)
		gpu_meet_verdict(gpu);
	if (report->failed != BELAY_E_GPU_FAULT ||
	    report->verdict.rank != belay_comm_rank(gpu->seat->comm))
		gpu_expect_healthy(gpu);
	if (report->failed && !plan->stay)
		gpu_live_on(gpu);
	else
		rank_destroy(gpu->seat);
}

void gpu_life(struct rank_seat *seat)
{
	const struct work_plan *plan = seat->plan;
	struct gpu_seat gpu;

	rank_apply(seat, plan);
	if (gpu_open(seat, 64 << 10, &gpu) && gpu_create(&gpu, 0)) {
		/* A fault in the first call is not to hit a peer that is still on its way out of
		 * the creation. */
		rank_announce(seat, CREATED);
		(void)rank_await(seat, CREATED, (uint64_t)seat->nranks);
		(void)gpu_work(&gpu, plan);
		end_of_life(&gpu, plan);
	}
	gpu_close(&gpu);
}

/* ---- the test's side ------------------------------------------------------------------------- */

uint64_t gpu_number(const char *variable, uint64_t otherwise)
{
	const char *value = getenv(variable);

	return value && *value ? strtoull(value, NULL, 10) : otherwise;
}

void gpu_group_run(int nranks, rank_scenario scenario, const void *plan,
		   struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = nranks,
					   .scenario = scenario,
					   .plan = plan,
					   .cap_ms = 60000,
					   .threads = gpu_number("BELAY_GPU_THREADS", 0) != 0,
					   .gpu = true},
		       ret_group);
}

/* Looked at in a child: a process that has used CUDA cannot fork ranks that do. */
static bool gpu_is_here(void)
{
	int status = 0;
	pid_t pid = fork();
	const char *why;

	if (pid == 0)
		_exit(bench_device_count(&why) > 0 ? 0 : 1);
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

int gpu_main(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int failed = 0;

	if (!gpu_is_here()) {
		puts("1..0 # SKIP no GPU is here");
		srunner_free(runner);
		return 77;
	}
	if (!getenv("CK_TAP_LOG_FILE_NAME"))
		srunner_set_tap(runner, "-");
	srunner_run_all(runner, CK_ENV);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
