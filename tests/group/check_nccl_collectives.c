/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that stay NCCL's under libbelay-nccl: right results, a record of each as what it is,
 * by itself, captured and in groups; ranks that do not make the same one; and one that never ends.
 */
#include "config.h"

#include <check.h>
#include <dlfcn.h>
#include <limits.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/belay_nccl.h"
#include "runtime/nccl/twin.h"
#include "tests/group/nccl_client.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/log_contents.h"

/* What each leaves in recv[0..NRANKS-1] when rank r's send[i] is 10 * r + i. */
struct kind {
	enum belay_op op;
	float wanted[NRANKS][NRANKS]; /* by rank */
};

#define ROOT 1

static const struct kind kinds[] = {
	{BELAY_ALL_GATHER, {{0, 10}, {0, 10}}},	 {BELAY_REDUCE_SCATTER, {{10, -1}, {12, -1}}},
	{BELAY_BROADCAST, {{10, 11}, {10, 11}}}, {BELAY_REDUCE, {{-1, -1}, {10, 12}}},
	{BELAY_ALL_TO_ALL, {{0, 10}, {1, 11}}},	 {BELAY_GATHER, {{-1, -1}, {0, 10}}},
	{BELAY_SCATTER, {{10, -1}, {11, -1}}},	 {BELAY_AVG, {{5, 6}, {5, 6}}},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* One element a rank, or two where it is not cut into parts. */
static ncclResult_t make_kind(struct client *c, enum belay_op op)
{
	float *in = c->send, *out = c->recv;
	ncclDataType_t type = ncclFloat32;

	switch (op) {
	case BELAY_ALL_GATHER:
		return ncclAllGather(in, out, 1, type, c->comm, c->stream);
	case BELAY_REDUCE_SCATTER:
		return ncclReduceScatter(in, out, 1, type, ncclSum, c->comm, c->stream);
	case BELAY_BROADCAST:
		return ncclBroadcast(in, out, 2, type, ROOT, c->comm, c->stream);
	case BELAY_REDUCE:
		return ncclReduce(in, out, 2, type, ncclSum, ROOT, c->comm, c->stream);
	case BELAY_ALL_TO_ALL:
		return ncclAlltoAll(in, out, 1, type, c->comm, c->stream);
	case BELAY_GATHER:
		return ncclGather(in, out, 1, type, ROOT, c->comm, c->stream);
	case BELAY_SCATTER:
		return ncclScatter(in, out, 1, type, ROOT, c->comm, c->stream);
	default:
		return ncclAllReduce(in, out, 2, type, ncclAvg, c->comm, c->stream);
	}
}

static void clear(struct client *client)
{
	for (int i = 0; i < COUNT; i++) {
		client->send[i] = (float)(10 * client->seat->rank + i);
		client->recv[i] = -1;
	}
}

static bool is_kind(const struct client *client, const struct kind *kind)
{
	return memcmp(client->recv, kind->wanted[client->seat->rank], sizeof(kind->wanted[0])) == 0;
}

static void capture_kind(struct client *client, const struct kind *kind)
{
	struct cpu_gpu_graph *graph = NULL;
	struct rank_seat *seat = client->seat;

	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(client->stream, CPU_GPU_GLOBAL), 0);
	RANK_EXPECT_STATUS(seat, (int)make_kind(client, kind->op), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(client->stream, &graph), 0);
	for (int i = 0; i < 2; i++) {
		clear(client);
		RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, client->stream), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client->stream), 0);
		RANK_EXPECT(seat, is_kind(client, kind));
	}
	cpu_gpu_graph_free(graph);
}

/* Two of each are replayed. */
static void make_all_kinds(struct rank_seat *seat)
{
	struct client client;

	setenv("BELAY_LOG_DIR", seat->plan, 1);
	client_open(&client, seat);
	client.comm = client_join(&client);
	for (size_t k = 0; k < KINDS; k++) {
		clear(&client);
		RANK_EXPECT_STATUS(seat, (int)make_kind(&client, kinds[k].op), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, is_kind(&client, &kinds[k]));
		capture_kind(&client, &kinds[k]);
	}
	/* By the other name, in place. */
	clear(&client);
	RANK_EXPECT_STATUS(
		seat, (int)ncclBcast(client.send, 2, ncclFloat32, ROOT, client.comm, client.stream),
		0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	RANK_EXPECT(seat, client.send[1] == 11);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 3 * KINDS + 1) == 3 * KINDS + 1);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s",
		 belay_comm_id(belay_nccl_comm(0)));
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

static void expect_record(const struct call_record *record, uint64_t seq)
{
	const struct kind *kind = seq > 3 * KINDS ? &kinds[2] : &kinds[(seq - 1) / 3];
	bool replayed = seq <= 3 * KINDS && (seq - 1) % 3 != 0;

	ck_assert_uint_eq(record->seq, seq);
	ck_assert_int_eq(record->op, kind->op);
	ck_assert_int_eq(record->dtype, BELAY_F32);
	ck_assert_uint_eq(record->count, 2);
	ck_assert_int_eq(record->path, BELAY_PATH_NCCL);
	ck_assert_int_eq(record->status, 0);
	ck_assert_int_eq(record->flags & ~CALL_LATE, CALL_WATCHED | (replayed ? CALL_GRAPH : 0));
}

START_TEST(each_collective_is_recorded_as_what_it_is_eager_and_replayed)
{
	struct log_contents log = {0};
	struct rank_group group;
	char folder[PATH_MAX];

	make_folder(folder, sizeof(folder));
	client_run(make_all_kinds, folder, &group);
	for (uint32_t r = 0; r < NRANKS; r++) {
		memset(&log, 0, sizeof(log));
		ck_assert_int_eq(log_contents_read_rank(&log, folder, group.report[r].text, r), 1);
		ck_assert_uint_eq(log.calls_count, 3 * KINDS + 1);
		for (size_t i = 0; i < log.calls_count; i++)
			expect_record(log_contents_call(&log, i), i + 1);
		log_contents_free(&log);
	}
	remove_folder(folder);
}
END_TEST

static void watch_allreduces_only(struct rank_seat *seat)
{
	struct client client;

	setenv("BELAY_WATCH", "allreduce", 1);
	client_open(&client, seat);
	client.comm = client_join(&client);
	for (size_t k = 0; k < KINDS; k++) {
		clear(&client);
		RANK_EXPECT_STATUS(seat, (int)make_kind(&client, kinds[k].op), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, is_kind(&client, &kinds[k]));
	}
	client_whole_call(&client, client.comm, client.stream);
	/* The average and the sum. */
	RANK_EXPECT(seat, client_belays_calls(client.comm, 2) == 2);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(other_collectives_are_left_alone_where_only_allreduces_are_to_be_watched)
{
	struct rank_group group;

	client_run(watch_allreduces_only, NULL, &group);
}
END_TEST

/* An unsigned maximum is no operation of belay's. */
static void find_a_maximum(struct rank_seat *seat)
{
	struct client client;
	uint32_t *in, *out;

	client_open(&client, seat);
	client.comm = client_join(&client);
	in = (uint32_t *)(void *)client.send;
	out = (uint32_t *)(void *)client.recv;
	in[0] = seat->rank ? 0xc0000000u : 7;
	RANK_EXPECT_STATUS(
		seat,
		(int)ncclAllReduce(in, out, 1, ncclUint32, ncclMax, client.comm, client.stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	RANK_EXPECT(seat, out[0] == 0xc0000000u);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 1) == 1);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(allreduces_that_belay_has_not_are_nccls_and_watched)
{
	struct rank_group group;

	client_run(find_a_maximum, NULL, &group);
}
END_TEST

static void gather_in_groups(struct rank_seat *seat)
{
	const bool *blocking = seat->plan;
	struct client client;

	setenv("BELAY_LOG_DIR", getenv("TEST_FOLDER"), 1);
	client_open(&client, seat);
	client.comm = client_join_by_config(&client, *blocking);
	clear(&client);
	/* Two go as one, between allreduces of belay's, and one of another type alone. */
	RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
	RANK_EXPECT_STATUS(seat,
			   (int)ncclAllReduce(client.send, client.recv + 100, 5, ncclFloat32,
					      ncclSum, client.comm, client.stream),
			   0);
	RANK_EXPECT_STATUS(seat,
			   (int)ncclAllGather(client.send, client.recv, 1, ncclFloat32, client.comm,
					      client.stream),
			   0);
	RANK_EXPECT_STATUS(seat,
			   (int)ncclBroadcast(client.send, client.recv + 200, 3, ncclFloat64, ROOT,
					      client.comm, client.stream),
			   0);
	RANK_EXPECT_STATUS(seat,
			   (int)ncclAllReduce(client.send, client.recv + 300, 5, ncclFloat32,
					      ncclSum, client.comm, client.stream),
			   0);
	RANK_EXPECT_STATUS(seat,
			   (int)ncclReduce(client.send, client.recv + 400, 5, ncclFloat32, ncclSum,
					   ROOT, client.comm, client.stream),
			   0);
	RANK_EXPECT(seat, client.recv[0] == -1);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	RANK_EXPECT(seat, client.recv[0] == 0 && client.recv[1] == 10);
	RANK_EXPECT(seat, client.recv[101] == 12 && client.recv[301] == 12);
	RANK_EXPECT(seat, client.recv[201] == 11 && client.recv[205] == 15);
	RANK_EXPECT(seat, seat->rank != ROOT || client.recv[401] == 12);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 4) == 4);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s",
		 belay_comm_id(belay_nccl_comm(0)));
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(calls_of_a_group_that_follow_one_another_go_as_one)
{
	const bool blocking = _i == 0;
	struct log_contents log = {0};
	const struct call_record *record;
	struct rank_group group;
	char folder[PATH_MAX];

	make_folder(folder, sizeof(folder));
	setenv("TEST_FOLDER", folder, 1);
	client_run(gather_in_groups, &blocking, &group);
	ck_assert_int_eq(log_contents_read_rank(&log, folder, group.report[0].text, 0), 1);
	ck_assert_uint_eq(log.calls_count, 4);
	record = log_contents_call(&log, 1);
	ck_assert_int_eq(record->op, BELAY_ALL_GATHER);
	ck_assert_int_eq(record->flags & CALL_FUSED, CALL_FUSED);
	ck_assert_int_eq(record->dtype, BELAY_U8);
	ck_assert_uint_eq(record->count, NRANKS * sizeof(float) + 3 * sizeof(double));
	record = log_contents_call(&log, 3);
	ck_assert_int_eq(record->op, BELAY_REDUCE);
	ck_assert_int_eq(record->flags & CALL_FUSED, 0);
	ck_assert_uint_eq(record->count, 5);
	log_contents_free(&log);
	remove_folder(folder);
}
END_TEST

/* What is exchanged by sends and receives goes out in the gathers of the same group, which come
 * behind them. */
static void exchange_and_gather(struct rank_seat *seat)
{
	struct client client;
	int peer = 1 - seat->rank;

	client_open(&client, seat);
	client.comm = client_join(&client);
	for (int i = 0; i < 5; i++) {
		clear(&client);
		RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
		RANK_EXPECT_STATUS(seat,
				   (int)ncclAllGather(client.recv, client.recv + 100, 2,
						      ncclFloat32, client.comm, client.stream),
				   0);
		RANK_EXPECT_STATUS(seat,
				   (int)ncclSend(client.send, 2, ncclFloat32, peer, client.comm,
						 client.stream),
				   0);
		RANK_EXPECT_STATUS(seat,
				   (int)ncclRecv(client.recv, 2, ncclFloat32, peer, client.comm,
						 client.stream),
				   0);
		RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, client.recv[1] == (float)(10 * peer + 1));
		RANK_EXPECT(seat, client.recv[101] == 11 && client.recv[103] == 1);
	}
	RANK_EXPECT(seat, client_belays_calls(client.comm, 5) == 5);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(sends_and_receives_of_a_group_come_before_its_watched_calls)
{
	struct rank_group group;

	client_run(exchange_and_gather, NULL, &group);
}
END_TEST

/* Both communicators in one group, each rank in an order of its own. */
static void gather_on_two(struct rank_seat *seat)
{
	struct client client;
	ncclComm_t comms[2];

	client_open(&client, seat);
	comms[0] = client_join(&client);
	comms[1] = client_join(&client);
	for (int i = 0; i < 5; i++) {
		clear(&client);
		RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
		for (int k = 0; k < 4; k++) {
			int which = (k + seat->rank) % 2;

			RANK_EXPECT_STATUS(
				seat,
				(int)ncclAllGather(client.send, client.recv + 100 * which, 1,
						   ncclFloat32, comms[which], client.stream),
				0);
		}
		RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, client.recv[1] == 10 && client.recv[101] == 10);
	}
	for (int k = 0; k < 2; k++) {
		RANK_EXPECT(seat, client_belays_calls(comms[k], 5) == 5);
		RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(comms[k]), 0);
	}
	client_close(&client);
}

START_TEST(watched_calls_of_two_communicators_in_one_group_are_in_one_order_on_all_ranks)
{
	struct rank_group group;

	client_run(gather_on_two, NULL, &group);
}
END_TEST

/* Allreduces of belay's and gathers of NCCL's, on two streams of a capture. */
static void capture_on_two_streams(struct rank_seat *seat)
{
	cudaStream_t first, second = cpu_gpu_stream_create();
	struct cpu_gpu_graph *graph = NULL;
	struct client client;

	client_open(&client, seat);
	client.comm = client_join(&client);
	first = client.stream;
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(first, CPU_GPU_GLOBAL), 0);
	cpu_gpu_capture_fork(first, second);
	for (int i = 0; i < 4; i++) {
		client.stream = i % 2 ? second : first;
		RANK_EXPECT_STATUS(seat, (int)make_kind(&client, BELAY_ALL_GATHER), 0);
		RANK_EXPECT_STATUS(seat,
				   (int)ncclAllReduce(client.send, client.recv + 100, 5,
						      ncclFloat32, ncclSum, client.comm,
						      client.stream),
				   0);
	}
	RANK_EXPECT(seat, cpu_gpu_edges() == 3);
	client.stream = first;
	cpu_gpu_capture_join(second, first);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(first, &graph), 0);
	for (int i = 0; i < 2; i++) {
		clear(&client);
		RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, first), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(first), 0);
		RANK_EXPECT(seat, client.recv[0] == 0 && client.recv[1] == 10);
		RANK_EXPECT(seat, client.recv[100] == 10 && client.recv[104] == 18);
	}
	RANK_EXPECT(seat, client_belays_calls(client.comm, 16) == 16);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	cpu_gpu_graph_free(graph);
	cpu_gpu_stream_free(second);
	client_close(&client);
}

START_TEST(calls_on_two_streams_of_a_capture_are_all_served)
{
	struct rank_group group;

	client_run(capture_on_two_streams, NULL, &group);
}
END_TEST

/* A thread that asks for errors all the time, as PyTorch's watchdog and its heartbeat do, and one
 * that asks how things are. */
struct asker {
	struct client *client;
	_Atomic bool over;
	_Atomic long asked;
	pthread_t thread;
};

static void *ask(void *argument)
{
	struct asker *asker = argument;

	while (!atomic_load_explicit(&asker->over, memory_order_acquire)) {
		ncclResult_t error = ncclSuccess;
		int count = 0;

		RANK_EXPECT_STATUS(asker->client->seat,
				   (int)ncclCommGetAsyncError(asker->client->comm, &error), 0);
		RANK_EXPECT_STATUS(asker->client->seat, (int)error, (int)ncclSuccess);
		RANK_EXPECT_STATUS(asker->client->seat,
				   (int)ncclCommCount(asker->client->comm, &count), 0);
		RANK_EXPECT(asker->client->seat, count == NRANKS && belay_nccl_comm(0));
		atomic_fetch_add_explicit(&asker->asked, 1, memory_order_relaxed);
	}
	return NULL;
}

static void call_while_others_ask(struct rank_seat *seat)
{
	struct asker askers[2] = {{.asked = 0}};
	struct client client;

	client_open(&client, seat);
	client.comm = client_join(&client);
	for (int i = 0; i < 2; i++) {
		askers[i].client = &client;
		RANK_EXPECT_STATUS(seat, pthread_create(&askers[i].thread, NULL, ask, &askers[i]),
				   0);
	}
	for (int i = 0; i < 60; i++) {
		clear(&client);
		RANK_EXPECT_STATUS(seat, (int)make_kind(&client, BELAY_ALL_GATHER), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, client.recv[1] == 10);
		client_whole_call(&client, client.comm, client.stream);
	}
	for (int i = 0; i < 2; i++) {
		while (!askers[i].asked)
			(void)sched_yield();
		atomic_store_explicit(&askers[i].over, true, memory_order_release);
		RANK_EXPECT_STATUS(seat, pthread_join(askers[i].thread, NULL), 0);
	}
	/* NCCL tells of a peer that has gone. */
	rank_announce(seat, 9);
	RANK_EXPECT(seat, rank_await(seat, 9, NRANKS));
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(other_threads_may_ask_while_calls_are_made)
{
	struct rank_group group;

	client_run(call_while_others_ask, NULL, &group);
}
END_TEST

static void call_otherwise(struct rank_seat *seat)
{
	struct client client;
	ncclResult_t result;

	client_open(&client, seat);
	client.comm = client_join(&client);
	clear(&client);
	/* The verdict may come while it is being made. */
	result = make_kind(&client, seat->rank ? BELAY_ALL_GATHER : BELAY_REDUCE);
	RANK_EXPECT(seat, result == ncclSuccess || result == ncclRemoteError);
	client_await_verdict(&client);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", ncclGetLastError(NULL));
	RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client.comm), 0);
	client_close(&client);
}

START_TEST(ranks_that_make_different_collectives_are_told_which)
{
	struct rank_group group;

	client_run(call_otherwise, NULL, &group);
	for (int r = 0; r < NRANKS; r++) {
		ck_assert_msg(strstr(group.report[r].text, "allgather") != NULL, "%s",
			      group.report[r].text);
		ck_assert_msg(strstr(group.report[r].text, "reduce") != NULL, "%s",
			      group.report[r].text);
	}
}
END_TEST

/* Rank 0's NCCL never returns from the call: another thread asks, and aborts. */
static void *make_call_that_hangs(void *client)
{
	(void)make_kind(client, BELAY_ALL_GATHER);
	return NULL;
}

static void hang_in_nccl(struct rank_seat *seat)
{
	struct client client;
	pthread_t thread;

	setenv("BELAY_GIVE_UP_MS", "500", 1);
	setenv("BELAY_WARMUP_GIVE_UP_MS", "500", 1);
	client_open(&client, seat);
	client.comm = client_join(&client);
	clear(&client);
	if (seat->rank == 0)
		setenv("STUB_NCCL", "hang=AllGather", 1);
	RANK_EXPECT_STATUS(seat, pthread_create(&thread, NULL, make_call_that_hangs, &client), 0);
	client_await_verdict(&client);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", ncclGetLastError(NULL));
	RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client.comm), 0);
	RANK_EXPECT_STATUS(seat, pthread_join(thread, NULL), 0);
	client_close(&client);
}

START_TEST(a_collective_that_hangs_in_nccl_is_a_verdict_and_can_be_aborted)
{
	struct rank_group group;

	client_run(hang_in_nccl, NULL, &group);
	for (int r = 0; r < NRANKS; r++)
		ck_assert_msg(strstr(group.report[r].text,
				     "ncclAllGather did not end within the hard deadline") != NULL,
			      "%s", group.report[r].text);
}
END_TEST

/* ---- what NCCL's kernels do after a verdict ---------------------------------------------------
 */

enum ending {
	ABORT,
	ABORT_IN_GROUP,
	DESTROY,
	FINALIZE_AND_DESTROY,
	LEAVE,
	NARROW,	    /* BELAY_WATCH=allreduce */
	TAKEN_BACK, /* a shrink has had NCCL take back that its kernels are to leave */
	KEPT,	    /* the verdict comes while the program has a function of NCCL's under way */
	/* The rest is not released. */
	SHRUNK,
	SHARING,
	NOT_BLOCKING,
	OLD_NCCL,
	ENDINGS
};

static int freed_comms(void)
{
	void *stub = dlopen(getenv("BELAY_NCCL_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
	_Atomic int *freed = stub ? (_Atomic int *)dlsym(stub, "stub_nccl_freed") : NULL;
	int n = freed ? atomic_load_explicit(freed, memory_order_relaxed) : -1;

	if (stub)
		(void)dlclose(stub);
	return n;
}

static bool waits_for(bool (*is)(ncclComm_t), ncclComm_t comm)
{
	bool so = false;

	for (int i = 0; i < 5000 && !so; i++) {
		so = is(comm);
		if (!so)
			usleep(1000);
	}
	return so;
}

/* Its streams end although nobody has aborted; the communicator is there until the program ends it.
 */
static void expect_released(struct client *client, struct cpu_gpu_graph *graph)
{
	struct rank_seat *seat = client->seat;
	ncclComm_t other = NULL;
	int count = 0;

	RANK_EXPECT(seat, waits_for(twin_is_released, client->comm));
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client->stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, client->stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client->stream), 0);
	RANK_EXPECT_STATUS(seat, (int)make_kind(client, BELAY_ALL_GATHER), (int)ncclRemoteError);
	RANK_EXPECT_STATUS(
		seat, (int)ncclSend(client->send, 1, ncclFloat32, 0, client->comm, client->stream),
		(int)ncclRemoteError);
	RANK_EXPECT_STATUS(
		seat, (int)ncclRecv(client->recv, 1, ncclFloat32, 0, client->comm, client->stream),
		(int)ncclRemoteError);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
	(void)ncclSend(client->send, 1, ncclFloat32, 0, client->comm, client->stream);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), (int)ncclRemoteError);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1)
	RANK_EXPECT_STATUS(seat, (int)ncclCommSplit(client->comm, 0, 0, &other, NULL),
			   (int)ncclRemoteError);
#endif
	RANK_EXPECT_STATUS(seat, (int)ncclCommCount(client->comm, &count), 0);
	RANK_EXPECT(seat, count == NRANKS);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
	RANK_EXPECT_STATUS(seat, (int)ncclCommRevoke(client->comm, 0), 0);
#endif
	RANK_EXPECT(seat, freed_comms() == 0);
}

static void end_comm(struct client *client, enum ending ending)
{
	struct rank_seat *seat = client->seat;

	if (ending == FINALIZE_AND_DESTROY)
		RANK_EXPECT_STATUS(seat, (int)ncclCommFinalize(client->comm), 0);
	if (ending == ABORT_IN_GROUP)
		RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
	if (ending == DESTROY || ending == FINALIZE_AND_DESTROY)
		RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client->comm), 0);
	else
		RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client->comm), 0);
	if (ending == ABORT_IN_GROUP)
		RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
	RANK_EXPECT(seat, twin_get(client->comm) == NULL);
	/* In a group nobody waits for it. */
	for (int i = 0; ending == ABORT_IN_GROUP && i < 5000 && freed_comms() == 0; i++)
		usleep(1000);
	RANK_EXPECT(seat, freed_comms() == 1);
}

static void prepare(enum ending ending)
{
	setenv("BELAY_GIVE_UP_MS", "300", 1);
	setenv("BELAY_WARMUP_GIVE_UP_MS", "300", 1);
	if (ending == OLD_NCCL)
		setenv("STUB_NCCL", "version=22105", 1);
	if (ending == SHARING)
		setenv("NCCL_COMM_SPLIT_SHARE_RESOURCES", "1", 1);
	if (ending == NARROW)
		setenv("BELAY_WATCH", "allreduce", 1);
}

/* Rank 1 does not come to the last of them. */
static struct cpu_gpu_graph *make_calls(struct client *client, enum belay_op op)
{
	struct rank_seat *seat = client->seat;
	struct cpu_gpu_graph *graph = NULL;

	clear(client);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(client->stream, CPU_GPU_GLOBAL), 0);
	RANK_EXPECT_STATUS(seat, (int)make_kind(client, op), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(client->stream, &graph), 0);
	RANK_EXPECT_STATUS(seat, (int)make_kind(client, op), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client->stream), 0);
	if (seat->rank == 0)
		RANK_EXPECT_STATUS(seat, (int)make_kind(client, op), 0);
	return graph;
}

static void leave_a_call_out(struct rank_seat *seat)
{
	const enum ending *ending = seat->plan;
	struct cpu_gpu_graph *graph;
	struct twin *kept = NULL;
	struct client client;

	prepare(*ending);
	client_open(&client, seat);
	client.comm = *ending == NOT_BLOCKING ? client_join_by_config(&client, false)
					      : client_join(&client);
	if (*ending == KEPT)
		kept = twin_keep(client.comm);
	graph = make_calls(&client, *ending == NARROW ? BELAY_AVG : BELAY_ALL_GATHER);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
	/* The stub has none, but the program has gone on with the communicator. */
	if (*ending == SHRUNK)
		(void)ncclCommShrink(client.comm, NULL, 0, NULL, NULL, NCCL_SHRINK_ABORT);
#endif
	client_await_verdict(&client);
	if (*ending == KEPT) {
		RANK_EXPECT(seat, !twin_is_released(client.comm));
		twin_unkeep(kept, false);
	}
	if (*ending < SHRUNK)
		expect_released(&client, graph);
	else if (*ending != SHRUNK || seat->rank == 0) /* the other may be told before it shrinks */
		RANK_EXPECT(seat, !twin_is_released(client.comm));
	cpu_gpu_graph_free(graph);
	if (*ending == TAKEN_BACK) {
		kept = twin_keep(client.comm);
		twin_abandon_release(kept);
		twin_unkeep(kept, true);
	}
	if (*ending != LEAVE)
		end_comm(&client, *ending);
	client_close(&client);
}

START_TEST(a_verdict_ends_nccls_kernels_whatever_the_program_does)
{
	enum ending ending = (enum ending)_i;
	struct rank_group group;

	client_run(leave_a_call_out, &ending, &group);
}
END_TEST

/* Rank 0 destroys its communicator behind a gather that rank 1 does not come to. */
static void destroy_too_early(struct rank_seat *seat)
{
	struct client client;

	prepare(DESTROY);
	setenv("BELAY_DESTROY_MS", "5000", 1);
	client_open(&client, seat);
	client.comm = client_join(&client);
	clear(&client);
	RANK_EXPECT_STATUS(seat, (int)make_kind(&client, BELAY_ALL_GATHER), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	if (seat->rank == 0)
		RANK_EXPECT_STATUS(seat, (int)make_kind(&client, BELAY_ALL_GATHER), 0);
	else
		client_await_verdict(&client);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(a_communicator_that_is_destroyed_too_early_ends_too)
{
	struct rank_group group;

	client_run(destroy_too_early, NULL, &group);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("nccl_collectives");
	TCase *tests = tcase_create("nccl_collectives");

	tcase_set_timeout(tests, 40);
	tcase_add_test(tests, each_collective_is_recorded_as_what_it_is_eager_and_replayed);
	tcase_add_test(tests,
		       other_collectives_are_left_alone_where_only_allreduces_are_to_be_watched);
	tcase_add_test(tests, allreduces_that_belay_has_not_are_nccls_and_watched);
	tcase_add_loop_test(tests, calls_of_a_group_that_follow_one_another_go_as_one, 0, 2);
	tcase_add_test(tests, sends_and_receives_of_a_group_come_before_its_watched_calls);
	tcase_add_test(
		tests,
		watched_calls_of_two_communicators_in_one_group_are_in_one_order_on_all_ranks);
	tcase_add_test(tests, calls_on_two_streams_of_a_capture_are_all_served);
	tcase_add_test(tests, other_threads_may_ask_while_calls_are_made);
	tcase_add_test(tests, ranks_that_make_different_collectives_are_told_which);
	tcase_add_test(tests, a_collective_that_hangs_in_nccl_is_a_verdict_and_can_be_aborted);
	tcase_add_loop_test(tests, a_verdict_ends_nccls_kernels_whatever_the_program_does, 0,
			    ENDINGS);
	tcase_add_test(tests, a_communicator_that_is_destroyed_too_early_ends_too);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "tests/unit/check_main.h"
