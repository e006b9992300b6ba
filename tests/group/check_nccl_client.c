/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libbelay-nccl under a program that knows NCCL only: its functions are linked before those of a
 * stub NCCL (tests/support/stub_nccl.c), on a GPU that is played on the CPU. What goes to belay,
 * what to NCCL, and what the program is told when a rank is gone.
 */
#include "config.h"

#include <check.h>
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/belay_nccl.h"
#include "runtime/nccl/twin.h"
#include "tests/group/nccl_client.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/rank_calls.h"

/* ---- what goes where ------------------------------------------------------------------------- */

static void reduce_all_kinds(struct rank_seat *seat)
{
	struct client client;
	ncclResult_t error = ncclInternalError;
	int device = -1;

	client_open(&client, seat);
	client.comm = client_join(&client);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 0) == 0);
	client_whole_call(&client, client.comm, client.stream);
	client_whole_call(&client, client.comm, NULL);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 2) == 2);
	/* Forwarded as they are. */
	RANK_EXPECT_STATUS(seat, (int)ncclCommCuDevice(client.comm, &device), 0);
	RANK_EXPECT(seat, device == 0);
	RANK_EXPECT_STATUS(seat,
			   (int)ncclAllGather(client.send, client.recv, 16, ncclFloat32,
					      client.comm, client.stream),
			   0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	RANK_EXPECT(seat, client.recv[16 * (1 - seat->rank)] != -1);
	/* What NCCL refuses is the program's to know, and no failure of the communicator. */
	RANK_EXPECT_STATUS(seat,
			   (int)ncclAllReduce(client.send, client.recv, 4, ncclFloat64, ncclAvg,
					      client.comm, client.stream),
			   (int)ncclInvalidArgument);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	client_whole_call(&client, client.comm, client.stream);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 5) == 5);
	RANK_EXPECT_STATUS(seat, (int)ncclCommGetAsyncError(client.comm, &error), 0);
	RANK_EXPECT_STATUS(seat, (int)error, 0);
	/* NCCL tells of a peer that has gone. */
	rank_announce(seat, 9);
	RANK_EXPECT(seat, rank_await(seat, 9, NRANKS));
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 0) == -1);
	client_close(&client);
}

START_TEST(an_allreduce_is_belays_where_it_can_and_all_else_nccls)
{
	struct rank_group group;

	client_run(reduce_all_kinds, NULL, &group);
}
END_TEST

static void reduce_unsigned(struct rank_seat *seat)
{
	struct client client;
	uint32_t *in, *out;

	client_open(&client, seat);
	client.comm = client_join(&client);
	in = (uint32_t *)(void *)client.send;
	out = (uint32_t *)(void *)client.recv;
	in[0] = 0xc0000000u + (uint32_t)seat->rank;
	RANK_EXPECT_STATUS(
		seat,
		(int)ncclAllReduce(in, out, 1, ncclUint32, ncclSum, client.comm, client.stream), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	RANK_EXPECT(seat, out[0] == 0x80000001u);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 1) == 1);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(unsigned_sums_wrap_as_they_do_in_nccl)
{
	struct rank_group group;

	client_run(reduce_unsigned, NULL, &group);
}
END_TEST

/* ---- groups ---------------------------------------------------------------------------------- */

/* Each rank asks for the two calls in an order of its own, as NCCL lets it. */
static void reduce_in_groups(struct rank_seat *seat)
{
	struct client client;
	ncclComm_t comms[2];
	float *second;

	client_open(&client, seat);
	comms[0] = client_join(&client);
	comms[1] = client_join(&client);
	second = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, sizeof(float));
	for (int i = 0; i < 5; i++) {
		client_fill(&client);
		*second = (float)(seat->rank + i);
		RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
		RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
		for (int k = 0; k < 2; k++) {
			bool first = (k + seat->rank) % 2 == 0;

			RANK_EXPECT_STATUS(
				seat,
				(int)(first ? client_all_reduce(&client, comms[0], client.stream)
					    : ncclAllReduce(second, second, 1, ncclFloat32, ncclMax,
							    comms[1], client.stream)),
				0);
		}
		RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
		RANK_EXPECT(seat, client.recv[0] == -1); /* nothing has begun */
		RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, client_has_sum(&client));
		RANK_EXPECT(seat, *second == (float)(NRANKS - 1 + i));
	}
	RANK_EXPECT(seat, client_belays_calls(comms[0], 5) == 5);
	RANK_EXPECT(seat, client_belays_calls(comms[1], 5) == 5);
	for (int k = 0; k < 2; k++)
		RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(comms[k]), 0);
	cpu_gpu_memory_free(second);
	client_close(&client);
}

START_TEST(calls_of_a_group_begin_at_its_end_in_one_order_on_all_ranks)
{
	struct rank_group group;

	client_run(reduce_in_groups, NULL, &group);
}
END_TEST

static void abort_in_a_group(struct rank_seat *seat)
{
	struct client client;

	client_open(&client, seat);
	client.comm = client_join(&client);
	client_fill(&client);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
	RANK_EXPECT_STATUS(seat, (int)client_all_reduce(&client, client.comm, client.stream), 0);
	RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client.comm), 0);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
	RANK_EXPECT(seat, client.recv[0] == -1);
	client_close(&client);
}

START_TEST(an_abort_in_a_group_waits_for_none_of_its_calls)
{
	struct rank_group group;

	client_run(abort_in_a_group, NULL, &group);
}
END_TEST

static void *abort_it(void *comm)
{
	return (void *)(intptr_t)ncclCommAbort(comm);
}

/* As a watchdog does, whose program has left a group by an exception. */
static void abort_beside_a_group(struct rank_seat *seat)
{
	struct client client;
	pthread_t watchdog;
	void *result = &client;

	client_open(&client, seat);
	client.comm = client_join(&client);
	client_fill(&client);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
	RANK_EXPECT_STATUS(seat, (int)client_all_reduce(&client, client.comm, client.stream), 0);
	RANK_EXPECT(seat, pthread_create(&watchdog, NULL, abort_it, client.comm) == 0);
	RANK_EXPECT(seat, pthread_join(watchdog, &result) == 0);
	RANK_EXPECT(seat, result == NULL);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), (int)ncclInvalidArgument);
	RANK_EXPECT(seat, client.recv[0] == -1);
	client_close(&client);
}

START_TEST(an_abort_does_not_wait_for_ever_for_another_threads_group)
{
	struct rank_group group;

	client_run(abort_beside_a_group, NULL, &group);
}
END_TEST

static void create_in_a_group(struct rank_seat *seat)
{
	struct client client;
	ncclComm_t comms[2] = {NULL, NULL};
	ncclUniqueId ids[2];

	client_open(&client, seat);
	for (int k = 0; k < 2; k++)
		ids[k] = client_share_id(&client);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
	for (int k = 0; k < 2; k++)
		RANK_EXPECT_STATUS(seat,
				   (int)ncclCommInitRank(&comms[k], NRANKS, ids[k], seat->rank), 0);
	RANK_EXPECT(seat, client_belays_calls(comms[0], 0) == -1);
	RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
	for (int k = 0; k < 2; k++) {
		client_whole_call(&client, comms[k], client.stream);
		RANK_EXPECT(seat, client_belays_calls(comms[k], 1) == 1);
		RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(comms[k]), 0);
	}
	client_close(&client);
}

START_TEST(communicators_made_in_a_group_get_their_twins_at_its_end)
{
	struct rank_group group;

	client_run(create_in_a_group, NULL, &group);
}
END_TEST

static void create_without_blocking(struct rank_seat *seat)
{
	struct client client;

	client_open(&client, seat);
	client.comm = client_join_by_config(&client, false);
	client_whole_call(&client, client.comm, client.stream);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 1) == 1);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(a_communicator_that_does_not_block_is_in_progress_until_its_twin_is_there)
{
	struct rank_group group;

	client_run(create_without_blocking, NULL, &group);
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

/* Calls in turn on two streams, not waited for: NCCL has streams take turns. */
static void take_turns(struct rank_seat *seat)
{
	cudaStream_t streams[2];
	struct client client;

	client_open(&client, seat);
	client.comm = client_join(&client);
	streams[0] = client.stream;
	streams[1] = cpu_gpu_stream_create();
	client_fill(&client);
	for (int i = 0; i < 6; i++)
		RANK_EXPECT_STATUS(seat,
				   (int)client_all_reduce(&client, client.comm, streams[i % 2]), 0);
	for (int i = 0; i < 2; i++)
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(streams[i]), 0);
	RANK_EXPECT(seat, client_has_sum(&client));
	RANK_EXPECT(seat, client_belays_calls(client.comm, 6) == 6);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	cpu_gpu_stream_free(streams[1]);
	client_close(&client);
}

START_TEST(streams_take_turns)
{
	struct rank_group group;

	client_run(take_turns, NULL, &group);
}
END_TEST

/* ---- passes ---------------------------------------------------------------------------------- */

/* The first communicator is made in the middle of a pass. */
static void mark_passes(struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct client client;

	client_open(&client, seat);
	RANK_EXPECT(seat, belay_nccl_comm(0) == NULL);
	RANK_EXPECT_STATUS(seat, belay_nccl_pass_begin(client.stream), 0);
	client.comm = client_join(&client);
	for (int i = 0; i < 4; i++) {
		if (i)
			RANK_EXPECT_STATUS(seat, belay_nccl_pass_begin(client.stream), 0);
		client_whole_call(&client, client.comm, client.stream);
		RANK_EXPECT_STATUS(seat, belay_nccl_pass_end(client.stream), 0);
	}
	RANK_EXPECT(seat, belay_nccl_comm(0) != NULL);
	RANK_EXPECT(seat, belay_nccl_comm(1) == NULL);
	RANK_EXPECT_STATUS(seat, belay_pass_wait(belay_nccl_comm(0), NULL), 0);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(belay_nccl_comm(0), &statistics), 0);
	RANK_EXPECT(seat, statistics.passes == 3);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(passes_are_marked_on_the_communicators_that_are_there)
{
	struct rank_group group;

	client_run(mark_passes, NULL, &group);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

static void lose_a_write(struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct client client;

	setenv("BELAY_FAULT", "rank=1,seq=3,kind=drop", 1);
	client_open(&client, seat);
	client.comm = client_join(&client);
	for (int i = 0; i < 5; i++)
		client_whole_call(&client, client.comm, client.stream);
	/* It is counted when the watchers are through, which may be after the calls. */
	for (int i = 0; i < 2000 && !statistics.rescued_seqs; i++) {
		RANK_EXPECT_STATUS(seat, belay_comm_statistics(belay_nccl_comm(0), &statistics), 0);
		usleep(1000);
	}
	RANK_EXPECT(seat, statistics.rescued_seqs >= 1);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(a_lost_write_is_rescued_and_the_program_sees_nothing)
{
	struct rank_group group;

	client_run(lose_a_write, NULL, &group);
}
END_TEST

/* What the survivor is told: by the next call, by NCCL's question for errors, in words. */
static void expect_peer_lost(struct client *client)
{
	ncclResult_t error = ncclSuccess;
	ncclResult_t result = ncclSuccess;

	for (int i = 0; i < 5000 && result == ncclSuccess; i++) {
		result = client_all_reduce(client, client->comm, client->stream);
		(void)cpu_gpu_stream_sync(client->stream);
		usleep(1000);
	}
	RANK_EXPECT_STATUS(client->seat, (int)result, (int)ncclRemoteError);
	snprintf(client->seat->report->text, sizeof(client->seat->report->text), "%s",
		 ncclGetLastError(NULL));
	RANK_EXPECT_STATUS(client->seat, (int)ncclCommGetAsyncError(client->comm, &error), 0);
	RANK_EXPECT(client->seat, error == ncclRemoteError);
}

static void lose_a_rank(struct rank_seat *seat)
{
	struct client client;

	client_open(&client, seat);
	client.comm = client_join(&client);
	client_whole_call(&client, client.comm, client.stream);
	if (seat->rank == 1)
		(void)raise(SIGKILL);
	client_fill(&client);
	expect_peer_lost(&client);
	RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client.comm), 0);
	client_close(&client);
}

START_TEST(a_killed_rank_is_an_error_that_names_rank_seq_and_cause)
{
	struct rank_group group;
	const char *text;

	client_run(lose_a_rank, NULL, &group);
	text = group.report[0].text;
	ck_assert_msg(strstr(text, "rank 1") != NULL, "%s", text);
	ck_assert_msg(strstr(text, "seq 2") != NULL, "%s", text);
	ck_assert_msg(strstr(text, "killed") != NULL || strstr(text, "gone") != NULL ||
			      strstr(text, "died") != NULL,
		      "%s", text);
}
END_TEST

static void abort_a_call(struct rank_seat *seat)
{
	struct client client;

	client_open(&client, seat);
	client.comm = client_join(&client);
	client_whole_call(&client, client.comm, client.stream);
	if (seat->rank == 0) {
		client_fill(&client);
		RANK_EXPECT_STATUS(seat,
				   (int)client_all_reduce(&client, client.comm, client.stream), 0);
		rank_announce(seat, 15);
		/* The other never makes the call: only the abort ends it. */
		RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client.comm), 0);
	} else {
		RANK_EXPECT(seat, rank_await(seat, 15, 1));
		RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client.comm), 0);
	}
	client_close(&client);
}

START_TEST(an_abort_ends_a_call_that_no_peer_makes)
{
	struct rank_group group;

	client_run(abort_a_call, NULL, &group);
}
END_TEST

/* ---- switched off, and without NCCL ---------------------------------------------------------- */

static void be_disabled(struct rank_seat *seat)
{
	struct client client;

	setenv("BELAY_DISABLE", "1", 1);
	client_open(&client, seat);
	client.comm = client_join(&client);
	client_whole_call(&client, client.comm, client.stream);
	RANK_EXPECT(seat, client_belays_calls(client.comm, 0) == -1);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(client.comm), 0);
	client_close(&client);
}

START_TEST(switched_off_it_is_nccl_alone)
{
	struct rank_group group;

	client_run(be_disabled, NULL, &group);
}
END_TEST

static void have_no_nccl(struct rank_seat *seat)
{
	ncclComm_t comm = NULL;
	int version;

	setenv("BELAY_NCCL_LIBRARY", "/nonexistent/libnccl.so.2", 1);
	RANK_EXPECT(seat, ncclGetVersion(&version) != ncclSuccess);
	RANK_EXPECT(seat, ncclCommAbort(comm) == ncclSystemError);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", ncclGetLastError(NULL));
}

START_TEST(without_nccl_every_function_says_so)
{
	struct rank_group group;

	client_run(have_no_nccl, NULL, &group);
	ck_assert_msg(strstr(group.report[0].text, "ncclCommAbort: ") != NULL, "%s",
		      group.report[0].text);
	ck_assert_msg(strstr(group.report[0].text, "/nonexistent/libnccl.so.2") != NULL, "%s",
		      group.report[0].text);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("nccl_client");
	TCase *tests = tcase_create("nccl_client");

	tcase_set_timeout(tests, 40);
	tcase_add_test(tests, an_allreduce_is_belays_where_it_can_and_all_else_nccls);
	tcase_add_test(tests, unsigned_sums_wrap_as_they_do_in_nccl);
	tcase_add_test(tests, calls_of_a_group_begin_at_its_end_in_one_order_on_all_ranks);
	tcase_add_test(tests, an_abort_in_a_group_waits_for_none_of_its_calls);
	tcase_add_test(tests, an_abort_does_not_wait_for_ever_for_another_threads_group);
	tcase_add_test(tests, communicators_made_in_a_group_get_their_twins_at_its_end);
	tcase_add_test(tests,
		       a_communicator_that_does_not_block_is_in_progress_until_its_twin_is_there);
	tcase_add_test(tests, streams_take_turns);
	tcase_add_test(tests, passes_are_marked_on_the_communicators_that_are_there);
	tcase_add_test(tests, a_lost_write_is_rescued_and_the_program_sees_nothing);
	tcase_add_test(tests, a_killed_rank_is_an_error_that_names_rank_seq_and_cause);
	tcase_add_test(tests, an_abort_ends_a_call_that_no_peer_makes);
	tcase_add_test(tests, switched_off_it_is_nccl_alone);
	tcase_add_test(tests, without_nccl_every_function_says_so);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "tests/unit/check_main.h"
