/* SPDX-License-Identifier: Apache-2.0 */
/* See nccl_client.h. */
#include "config.h"

#include "tests/group/nccl_client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/twin.h"
#include "tests/support/cpu_gpu.h"

static void set_environment(void)
{
	static char path[PATH_MAX];
	const char *build = getenv("top_builddir");

	snprintf(path, sizeof(path), "%s/tests/support/.libs/libtest-nccl-stub.so",
		 build ? build : ".");
	setenv("BELAY_NCCL_LIBRARY", path, 1);
	setenv("BELAY_SYMM_MAX", "64K", 1);
	setenv("BELAY_PATHS", "symm,ring", 1);
	setenv("BELAY_LOG", "error", 1);
	setenv("BELAY_START_MS", "10000", 1);
	setenv("BELAY_DESTROY_MS", "500", 1);
}

void client_open(struct client *client, struct rank_seat *seat)
{
	*client = (struct client){.seat = seat};
	set_environment();
	cpu_gpu_set_current(0);
	client->stream = cpu_gpu_stream_create();
	client->send = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, COUNT * sizeof(float));
	client->recv = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, COUNT * sizeof(float));
}

void client_close(struct client *client)
{
	RANK_EXPECT_STATUS(client->seat, cpu_gpu_stream_sync(client->stream), 0);
	cpu_gpu_memory_free(client->send);
	cpu_gpu_memory_free(client->recv);
	cpu_gpu_stream_free(client->stream);
	cpu_gpu_end_default_stream();
}

/* An id of the stub's is two words long; three of the shared words for each. */
ncclUniqueId client_share_id(struct client *client)
{
	struct rank_seat *seat = client->seat;
	int first = 3 * client->meetings++;
	ncclUniqueId id = {{0}};
	uint64_t words[2];

	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, (int)ncclGetUniqueId(&id), 0);
		memcpy(words, id.internal, sizeof(words));
		for (int i = 0; i < 2; i++)
			atomic_store_explicit(&seat->words[first + i], words[i],
					      memory_order_release);
		rank_announce(seat, first + 2);
	}
	RANK_EXPECT(seat, rank_await(seat, first + 2, 1));
	for (int i = 0; i < 2; i++)
		words[i] = atomic_load_explicit(&seat->words[first + i], memory_order_acquire);
	memcpy(id.internal, words, sizeof(words));
	return id;
}

ncclComm_t client_join(struct client *client)
{
	ncclUniqueId id = client_share_id(client);
	ncclComm_t comm = NULL;

	RANK_EXPECT_STATUS(
		client->seat,
		(int)ncclCommInitRank(&comm, client->seat->nranks, id, client->seat->rank), 0);
	return comm;
}

ncclResult_t client_await_other(struct client *client, ncclComm_t comm, ncclResult_t told)
{
	ncclResult_t error = told;

	for (int i = 0; i < 10000 && error == told; i++) {
		usleep(1000);
		RANK_EXPECT_STATUS(client->seat, (int)ncclCommGetAsyncError(comm, &error), 0);
	}
	return error;
}

void client_await_verdict(struct client *client)
{
	RANK_EXPECT_STATUS(client->seat, (int)client_await_other(client, client->comm, ncclSuccess),
			   (int)ncclRemoteError);
}

ncclComm_t client_join_by_config(struct client *client, bool blocking)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id = client_share_id(client);
	ncclComm_t comm = NULL;

	config.blocking = blocking;
	RANK_EXPECT_STATUS(
		client->seat,
		(int)ncclCommInitRankConfig(&comm, NRANKS, id, client->seat->rank, &config),
		(int)(blocking ? ncclSuccess : ncclInProgress));
	RANK_EXPECT_STATUS(client->seat, (int)client_await_other(client, comm, ncclInProgress), 0);
	return comm;
}

void client_fill(struct client *client)
{
	client->made++;
	for (size_t i = 0; i < COUNT; i++) {
		client->send[i] =
			(float)((unsigned)client->seat->rank * 100 + client->made + i % 13);
		client->recv[i] = -1;
	}
}

bool client_has_sum(const struct client *client)
{
	unsigned n = (unsigned)client->seat->nranks;
	unsigned all = 100 * (n * (n - 1) / 2) + n * client->made;

	for (size_t i = 0; i < COUNT; i++)
		if (client->recv[i] != (float)(all + n * (unsigned)(i % 13)))
			return false;
	return true;
}

ncclResult_t client_all_reduce(struct client *client, ncclComm_t comm, cudaStream_t stream)
{
	return ncclAllReduce(client->send, client->recv, COUNT, ncclFloat32, ncclSum, comm, stream);
}

void client_whole_call(struct client *client, ncclComm_t comm, cudaStream_t stream)
{
	client_fill(client);
	RANK_EXPECT_STATUS(client->seat, (int)client_all_reduce(client, comm, stream), 0);
	RANK_EXPECT_STATUS(client->seat, cpu_gpu_stream_sync(stream), 0);
	RANK_EXPECT(client->seat, client_has_sum(client));
}

long client_belays_calls(ncclComm_t comm, long wanted)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct twin *twin = twin_get(comm);
	long calls = -1;

	if (!twin)
		return -1;
	/* Records come a little later. */
	for (int i = 0; twin->belay && i < 2000 && calls < wanted; i++) {
		if (i)
			usleep(1000);
		if (belay_comm_statistics(twin->belay, &statistics) == 0)
			calls = (long)statistics.calls;
	}
	twin_put(twin);
	return calls;
}

void client_run(rank_scenario scenario, const void *plan, struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = NRANKS,
					   .scenario = scenario,
					   .plan = plan,
					   .cap_ms = 25000,
					   .gpu = true},
		       ret_group);
}
