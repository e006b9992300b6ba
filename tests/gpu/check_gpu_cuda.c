/* SPDX-License-Identifier: Apache-2.0 */
/* What only CUDA itself can show: pointers of every kind, what an application does beside a call
 * that waits, and captures in global mode. Two ranks. */
#include "config.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef HAVE_NCCL
#include <nccl.h>
#endif

#include "tests/gpu/gpu_seat.h"

#define RANKS 2
#define COUNT 5000u
#define BYTES (COUNT * 4)

static bool begin(struct rank_seat *seat, struct gpu_seat *gpu)
{
	if (seat->plan)
		rank_apply(seat, seat->plan);
	return gpu_open(seat, 256u << 10, gpu) && gpu_create(gpu, 0);
}

static void end(struct gpu_seat *gpu)
{
	struct rank_report *report = gpu->seat->report;

	if (gpu->seat->comm) {
		gpu_statistics(gpu, &report->statistics);
		gpu_meet(gpu);
		rank_destroy(gpu->seat);
	}
	gpu_close(gpu);
}

#define CUDA(seat, call) RANK_EXPECT_STATUS(seat, (int)(call), 0)

/* ---- pointers -------------------------------------------------------------------------------- */

/* Both buffers within `memory`, which has room for two calls and some bytes. */
static void call_in(struct gpu_seat *gpu, char *memory, size_t send_shift, size_t recv_shift)
{
	struct gpu_call call = {.count = COUNT};

	call.send = memory + send_shift;
	call.recv = memory + BYTES + 256 + recv_shift;
	RANK_EXPECT(gpu->seat, gpu_call(gpu, &call));
	call.recv = call.send;
	call.in_place = true;
	RANK_EXPECT(gpu->seat, gpu_call(gpu, &call));
}

static void try_offsets(struct gpu_seat *gpu, char *memory)
{
	static const size_t shifts[][2] = {{0, 0}, {16, 0}, {4, 4}, {0, 12},
					   {1, 1}, {3, 7},  {64, 2}};

	for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++)
		call_in(gpu, memory, shifts[i][0], shifts[i][1]);
}

#define ROOM (2 * BYTES + 1024)

static void try_plain(struct gpu_seat *gpu)
{
	void *memory = NULL;

	CUDA(gpu->seat, cudaMalloc(&memory, ROOM));
	try_offsets(gpu, memory);
	CUDA(gpu->seat, cudaFree(memory));
}

static void try_pool(struct gpu_seat *gpu)
{
	void *memory = NULL;

	CUDA(gpu->seat, cudaMallocAsync(&memory, ROOM, gpu->stream));
	try_offsets(gpu, memory);
	CUDA(gpu->seat, cudaFreeAsync(memory, gpu->stream));
	RANK_EXPECT(gpu->seat, gpu_wait(gpu));
}

static void *driver(const char *name)
{
	enum cudaDriverEntryPointQueryResult result;
	void *function = NULL;

	if (cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result) ||
	    result != cudaDriverEntryPointSuccess)
		return NULL;
	return function;
}

/* A function of the driver, of the type that cuda.h says. */
#define DRIVER(name) ((__typeof__(&name))driver(#name))

/* Physical memory mapped by the application, as caching allocators do. */
static void try_mapped(struct gpu_seat *gpu)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr place = 0;
	size_t bytes = 2u << 20;

	CUDA(gpu->seat, cudaGetDevice(&prop.location.id));
	access.location = prop.location;
	CUDA(gpu->seat, DRIVER(cuMemCreate)(&handle, bytes, &prop, 0));
	CUDA(gpu->seat, DRIVER(cuMemAddressReserve)(&place, bytes, 0, 0, 0));
	CUDA(gpu->seat, DRIVER(cuMemMap)(place, bytes, 0, handle, 0));
	CUDA(gpu->seat, DRIVER(cuMemSetAccess)(place, bytes, &access, 1));
	try_offsets(gpu, (char *)(uintptr_t)place);
	CUDA(gpu->seat, DRIVER(cuMemUnmap)(place, bytes));
	CUDA(gpu->seat, DRIVER(cuMemAddressFree)(place, bytes));
	CUDA(gpu->seat, DRIVER(cuMemRelease)(handle));
}

static void call_on_all_kinds(struct rank_seat *seat)
{
	struct gpu_seat gpu;

	if (begin(seat, &gpu)) {
		try_plain(&gpu);
		try_pool(&gpu);
		try_mapped(&gpu);
	}
	end(&gpu);
}

START_TEST(every_kind_of_device_pointer_is_taken_at_any_alignment)
{
	struct rank_group group;

	gpu_group_run(RANKS, call_on_all_kinds, NULL, &group);
	assert_all_well(&group);
}
END_TEST

static void expect_refused(struct gpu_seat *gpu, void *send, void *recv)
{
	int status = belay_allreduce(send, recv, 100, BELAY_F32, BELAY_SUM, gpu->seat->comm,
				     gpu->stream);

	RANK_EXPECT(gpu->seat, belay_status_class(status) == BELAY_CLASS_CALLER);
}

static void call_on_refused_kinds(struct rank_seat *seat)
{
	static float plain[100];
	void *managed = NULL, *pinned = NULL, *good;
	struct gpu_seat gpu;

	if (begin(seat, &gpu)) {
		good = gpu.slots;
		CUDA(seat, cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
		CUDA(seat, cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault));
		expect_refused(&gpu, managed, good);
		expect_refused(&gpu, good, managed);
		expect_refused(&gpu, pinned, good);
		expect_refused(&gpu, good, pinned);
		expect_refused(&gpu, plain, good);
		expect_refused(&gpu, good, plain);
		/* Nothing was started. */
		RANK_EXPECT(seat, gpu_call(&gpu, &(struct gpu_call){.count = COUNT}));
		CUDA(seat, cudaFree(managed));
		CUDA(seat, cudaFreeHost(pinned));
	}
	end(&gpu);
}

START_TEST(managed_and_host_pointers_are_refused_and_nothing_is_started)
{
	struct rank_group group;

	gpu_group_run(RANKS, call_on_refused_kinds, NULL, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].calls, 1);
}
END_TEST

/* ---- beside a call that waits ---------------------------------------------------------------- */

/* Rank 0's call waits for rank 1, which allocates and frees first; then so does rank 0, which may
 * take until the call is over. */
static void free_beside_a_call(struct rank_seat *seat)
{
	void *memory = NULL;
	struct gpu_seat gpu;

	if (begin(seat, &gpu)) {
		RANK_EXPECT(seat, gpu_call(&gpu, &(struct gpu_call){.count = COUNT}));
		CUDA(seat, cudaMalloc(&memory, 1u << 20));
		if (seat->rank == 1) {
			(void)rank_await(seat, 0, 1);
			CUDA(seat, cudaFree(memory));
			CUDA(seat, cudaMalloc(&memory, 2u << 20));
		}
		RANK_EXPECT(seat, gpu_issue(&gpu, &(struct gpu_call){.count = COUNT}));
		if (seat->rank == 0)
			rank_announce(seat, 0);
		CUDA(seat, cudaFree(memory));
		RANK_EXPECT(seat, gpu_settle(&gpu));
	}
	end(&gpu);
}

/* F81. */
START_TEST(memory_may_be_freed_while_a_peer_waits_in_a_call)
{
	struct rank_group group;

	if (gpu_number("BELAY_GPU_THREADS", 0))
		return; /* in one process the freeing itself waits for all kernels */
	gpu_group_run(RANKS, free_beside_a_call, NULL, &group);
	assert_all_well(&group);
}
END_TEST

/* ---- captures of the application's ----------------------------------------------------------- */

/* Without a question to CUDA, which a capture in global mode may forbid. */
static void await_calls(struct gpu_seat *gpu, uint64_t done_seq)
{
	struct belay_health health = {.size = sizeof(health)};
	uint64_t until_ns = rank_now_ns() + UINT64_C(10000000000);

	while (health.done_seq < done_seq && rank_now_ns() < until_ns) {
		RANK_EXPECT_STATUS(gpu->seat, belay_comm_health(gpu->seat->comm, &health), 0);
		(void)poll(NULL, 0, 1);
	}
	RANK_EXPECT(gpu->seat, health.done_seq >= done_seq);
}

/* A capture on another stream stands open while calls are made, and one of them is rescued. */
static void capture_elsewhere(struct rank_seat *seat)
{
	static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
							   cudaStreamCaptureModeThreadLocal,
							   cudaStreamCaptureModeRelaxed};
	struct gpu_call calls[20];
	cudaStream_t other = NULL;
	cudaGraph_t graph = NULL;
	struct gpu_seat gpu;

	if (begin(seat, &gpu)) {
		CUDA(seat, cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
		RANK_EXPECT(seat, gpu_call(&gpu, &(struct gpu_call){.count = COUNT}));
		for (size_t i = 0; i < 3; i++) {
			for (size_t c = 0; c < 20; c++)
				calls[c] = (struct gpu_call){.count = COUNT};
			CUDA(seat, cudaStreamBeginCapture(other, modes[i]));
			RANK_EXPECT(seat, bench_device_delay(1000, other) == 0);
			for (size_t c = 0; c < 20; c++)
				RANK_EXPECT(seat, gpu_issue(&gpu, &calls[c]));
			await_calls(&gpu, gpu.seq - 1);
			CUDA(seat, cudaStreamEndCapture(other, &graph));
			CUDA(seat, cudaGraphDestroy(graph));
			RANK_EXPECT(seat, gpu_settle(&gpu));
		}
		CUDA(seat, cudaStreamDestroy(other));
	}
	end(&gpu);
}

/* F45. */
START_TEST(the_watcher_breaks_no_capture_not_even_by_a_rescue)
{
	struct rank_group group;
	struct work_plan plan = {.late = "3", .fault = "rank=1,seq=10:60:20,kind=drop"};

	gpu_group_run(RANKS, capture_elsewhere, &plan, &group);
	assert_all_well(&group);
	ck_assert_uint_eq(group.report[0].statistics.rescued_seqs, 3);
}
END_TEST

/* Calls of belay's own into captures of each mode. */
static void capture_in_each_mode(struct rank_seat *seat)
{
	static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
							   cudaStreamCaptureModeThreadLocal,
							   cudaStreamCaptureModeRelaxed};
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	struct gpu_seat gpu;

	if (begin(seat, &gpu)) {
		for (size_t i = 0; i < 3; i++) {
			char *send = gpu.slots, *recv = gpu.slots + (128u << 10);

			CUDA(seat, cudaStreamBeginCapture(gpu.stream, modes[i]));
			for (int c = 0; c < 5; c++)
				RANK_EXPECT_STATUS(seat,
						   belay_allreduce(send, recv, COUNT, BELAY_F32,
								   BELAY_SUM, seat->comm,
								   gpu.stream),
						   0);
			CUDA(seat, cudaStreamEndCapture(gpu.stream, &graph));
			CUDA(seat, cudaGraphInstantiate(&exec, graph, 0));
			CUDA(seat, cudaGraphLaunch(exec, gpu.stream));
			gpu.seq += 5;
			RANK_EXPECT(seat, gpu_settle(&gpu));
			RANK_EXPECT(seat, gpu_call(&gpu, &(struct gpu_call){.count = COUNT}));
			gpu_meet(&gpu);
			CUDA(seat, cudaGraphExecDestroy(exec));
			CUDA(seat, cudaGraphDestroy(graph));
			gpu_meet(&gpu);
		}
	}
	end(&gpu);
}

/* A second stream of the capture, forked and joined by events: its calls come between the first's.
 */
static void capture_on_two_streams(struct rank_seat *seat)
{
	cudaEvent_t forked = NULL, joined = NULL;
	cudaStream_t other = NULL;
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;
	struct gpu_seat gpu;

	if (begin(seat, &gpu)) {
		char *send = gpu.slots, *recv = gpu.slots + (128u << 10);

		CUDA(seat, cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
		CUDA(seat, cudaEventCreateWithFlags(&forked, cudaEventDisableTiming));
		CUDA(seat, cudaEventCreateWithFlags(&joined, cudaEventDisableTiming));
		CUDA(seat, cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
		CUDA(seat, cudaEventRecord(forked, gpu.stream));
		CUDA(seat, cudaStreamWaitEvent(other, forked, 0));
		for (int c = 0; c < 20; c++)
			RANK_EXPECT_STATUS(seat,
					   belay_allreduce(send, recv, COUNT, BELAY_F32, BELAY_SUM,
							   seat->comm,
							   c % 3 ? other : gpu.stream),
					   0);
		CUDA(seat, cudaEventRecord(joined, other));
		CUDA(seat, cudaStreamWaitEvent(gpu.stream, joined, 0));
		CUDA(seat, cudaStreamEndCapture(gpu.stream, &graph));
		CUDA(seat, cudaGraphInstantiate(&exec, graph, 0));
		for (int i = 0; i < 3; i++)
			CUDA(seat, cudaGraphLaunch(exec, gpu.stream));
		gpu.seq += 60;
		RANK_EXPECT(seat, gpu_settle(&gpu));
		RANK_EXPECT(seat, gpu_call(&gpu, &(struct gpu_call){.count = COUNT}));
		gpu_meet(&gpu);
		CUDA(seat, cudaGraphExecDestroy(exec));
		CUDA(seat, cudaGraphDestroy(graph));
		CUDA(seat, cudaStreamDestroy(other));
		CUDA(seat, cudaEventDestroy(forked));
		CUDA(seat, cudaEventDestroy(joined));
	}
	end(&gpu);
}

START_TEST(calls_on_two_streams_of_a_capture_follow_one_another)
{
	struct rank_group group;

	gpu_group_run(RANKS, capture_on_two_streams, NULL, &group);
	assert_all_well(&group);
}
END_TEST

START_TEST(calls_are_captured_in_every_mode)
{
	struct rank_group group;

	/* In one process a capture in global mode forbids the other ranks' threads too much. */
	if (gpu_number("BELAY_GPU_THREADS", 0))
		return;
	gpu_group_run(RANKS, capture_in_each_mode, NULL, &group);
	assert_all_well(&group);
}
END_TEST

#ifdef HAVE_NCCL
/* ---- from a communicator of NCCL's -----------------------------------------------------------
 */

enum { ID_WRITTEN = 9, NOT_HERE = 10 }; /* words of the seats */

struct own_nccl {
	__typeof__(&ncclGetUniqueId) get_id;
	__typeof__(&ncclCommInitRank) init;
	__typeof__(&ncclCommDestroy) destroy;
};

/* As the program's own one: loaded before belay looks for it. */
static bool find_nccl(struct own_nccl *nccl)
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
	nccl->get_id = (__typeof__(&ncclGetUniqueId))dlsym(library, "ncclGetUniqueId");
	nccl->init = (__typeof__(&ncclCommInitRank))dlsym(library, "ncclCommInitRank");
	nccl->destroy = (__typeof__(&ncclCommDestroy))dlsym(library, "ncclCommDestroy");
	return nccl->get_id && nccl->init && nccl->destroy;
}

/* Rank 0 makes the id and leaves it in a file; the other one takes it from there. */
static ncclComm_t join_nccl(struct rank_seat *seat, const struct own_nccl *nccl)
{
	ncclUniqueId id = {{0}};
	ncclComm_t comm = NULL;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/tmp/belay-nccl-id-%ld", (long)getppid());
	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, (int)nccl->get_id(&id), 0);
		file = fopen(path, "w");
		RANK_EXPECT(seat, file && fwrite(&id, sizeof(id), 1, file) == 1);
		RANK_EXPECT(seat, file && fclose(file) == 0);
		rank_announce(seat, ID_WRITTEN);
	} else {
		RANK_EXPECT(seat, rank_await(seat, ID_WRITTEN, 1));
		file = fopen(path, "r");
		RANK_EXPECT(seat, file && fread(&id, sizeof(id), 1, file) == 1);
		if (file)
			(void)fclose(file);
		(void)unlink(path);
	}
	RANK_EXPECT_STATUS(seat, (int)nccl->init(&comm, seat->nranks, id, seat->rank), 0);
	return comm;
}

static void create_from_nccl(struct rank_seat *seat)
{
	struct own_nccl nccl;
	struct gpu_seat gpu;
	ncclComm_t comm = NULL;

	if (!gpu_open(seat, 8u << 20, &gpu))
		return;
	if (!find_nccl(&nccl)) {
		seat->report->number[0] = NOT_HERE;
		return;
	}
	comm = join_nccl(seat, &nccl);
	seat->config.device = NULL; /* NCCL's */
	gpu.seq = 1;
	RANK_EXPECT_STATUS(seat, belay_comm_create_from_nccl(&seat->comm, comm, &seat->config), 0);
	if (seat->comm) {
		RANK_EXPECT(seat, belay_comm_rank(seat->comm) == seat->rank);
		RANK_EXPECT(seat, belay_comm_nranks(seat->comm) == seat->nranks);
		for (int i = 0; i < 6; i++) {
			struct gpu_call call = {.count = i % 2 ? 1500000 : COUNT,
						.dtype = BELAY_I32};

			RANK_EXPECT(seat, gpu_issue(&gpu, &call));
		}
		RANK_EXPECT(seat, gpu_settle(&gpu));
	}
	end(&gpu);
	/* It was only borrowed. */
	RANK_EXPECT_STATUS(seat, (int)nccl.destroy(comm), 0);
}

START_TEST(a_communicator_is_made_from_one_of_nccls_and_leaves_it_alone)
{
	struct rank_group group;

	if (gpu_number("BELAY_GPU_THREADS", 0))
		return;
	gpu_group_run(RANKS, create_from_nccl, NULL, &group);
	assert_all_well(&group);
	if (group.report[0].number[0] == NOT_HERE) {
		printf("# SKIP nccl is not here\n");
		return;
	}
	ck_assert_uint_eq(group.report[0].statistics.calls_by_path[BELAY_PATH_SYMM], 3);
	ck_assert_uint_eq(group.report[0].statistics.calls_by_path[BELAY_PATH_NCCL], 3);
}
END_TEST
#endif

static Suite *suite(void)
{
	Suite *all = suite_create("gpu_cuda");
	TCase *pointers = tcase_create("pointers"), *beside = tcase_create("beside");

	tcase_set_timeout(pointers, 70);
	tcase_set_timeout(beside, 70);
	tcase_add_test(pointers, every_kind_of_device_pointer_is_taken_at_any_alignment);
	tcase_add_test(pointers, managed_and_host_pointers_are_refused_and_nothing_is_started);
	tcase_add_test(beside, memory_may_be_freed_while_a_peer_waits_in_a_call);
	tcase_add_test(beside, the_watcher_breaks_no_capture_not_even_by_a_rescue);
	tcase_add_test(beside, calls_are_captured_in_every_mode);
	tcase_add_test(beside, calls_on_two_streams_of_a_capture_follow_one_another);
#ifdef HAVE_NCCL
	tcase_add_test(beside, a_communicator_is_made_from_one_of_nccls_and_leaves_it_alone);
#endif
	suite_add_tcase(all, pointers);
	suite_add_tcase(all, beside);
	return all;
}

int main(void)
{
	return gpu_main(suite());
}
