/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NCCL communicator whose ranks are of several hosts, which BELAY_HOST_ID plays on one: each
 * host's ranks have a communicator of belay's that watches, and the program sees NCCL's results
 * and, when something is wrong, which rank of which host it was. As check_nccl_client.c on a GPU
 * that is played on the CPU, over a stub NCCL.
 */
#include "config.h"

#include <check.h>
#include <limits.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/belay_nccl.h"
#include "runtime/nccl/twin.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/rank_calls.h"

#define COUNT 9000
#define ALL   4 /* ranks in the larger tests */

/* How the ranks are dealt out: the host of each. */
struct hosts {
	const char *name;
	int nranks;
	const char *of; /* a letter for each rank */
};

static const struct hosts two_and_two = {"2+2", 4, "aabb"};
static const struct hosts layouts[] = {
	{"1+1", 2, "ab"},	    {"2+2", 4, "aabb"},	  {"3+1", 4, "aaab"},
	{"2+2 in turn", 4, "abab"}, {"1+1+2", 4, "abcc"},
};

struct client {
	struct rank_seat *seat;
	ncclComm_t comm;
	cudaStream_t stream;
	float *send, *recv;
	unsigned made;
};

/* ---- a program ------------------------------------------------------------------------------- */

static void set_environment(const struct hosts *hosts, int rank)
{
	static char path[PATH_MAX];
	const char *build = getenv("top_builddir");

	snprintf(path, sizeof(path), "%s/tests/support/.libs/libtest-nccl-stub.so",
		 build ? build : ".");
	setenv("BELAY_NCCL_LIBRARY", path, 1);
	setenv("BELAY_LOG", "error", 1);
	setenv("BELAY_START_MS", "10000", 1);
	setenv("BELAY_DESTROY_MS", "500", 1);
	setenv("BELAY_HOST_ID", (char[]){hosts->of[rank], '\0'}, 1);
}

static ncclUniqueId share_id(struct rank_seat *seat)
{
	ncclUniqueId id = {{0}};
	uint64_t words[2]; /* a stub's id is two words long */

	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, (int)ncclGetUniqueId(&id), 0);
		memcpy(words, id.internal, sizeof(words));
		for (int i = 0; i < 2; i++)
			atomic_store_explicit(&seat->words[i], words[i], memory_order_release);
		rank_announce(seat, 2);
	}
	RANK_EXPECT(seat, rank_await(seat, 2, 1));
	for (int i = 0; i < 2; i++)
		words[i] = atomic_load_explicit(&seat->words[i], memory_order_acquire);
	memcpy(id.internal, words, sizeof(words));
	return id;
}

static void open_client(struct client *client, struct rank_seat *seat, const struct hosts *hosts)
{
	ncclUniqueId id;

	*client = (struct client){.seat = seat};
	set_environment(hosts, seat->rank);
	cpu_gpu_set_current(0);
	client->stream = cpu_gpu_stream_create();
	client->send = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, COUNT * sizeof(float));
	client->recv = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, COUNT * sizeof(float));
	id = share_id(seat);
	RANK_EXPECT_STATUS(seat, (int)ncclCommInitRank(&client->comm, seat->nranks, id, seat->rank),
			   0);
}

static void close_client(struct client *client)
{
	RANK_EXPECT_STATUS(client->seat, cpu_gpu_stream_sync(client->stream), 0);
	cpu_gpu_memory_free(client->send);
	cpu_gpu_memory_free(client->recv);
	cpu_gpu_stream_free(client->stream);
	cpu_gpu_end_default_stream();
}

/* All ranks at once: one that has left is an error of NCCL's for the others. */
static void leave(struct client *client)
{
	rank_announce(client->seat, 3);
	RANK_EXPECT(client->seat, rank_await(client->seat, 3, (uint64_t)client->seat->nranks));
	RANK_EXPECT_STATUS(client->seat, (int)ncclCommDestroy(client->comm), 0);
	close_client(client);
}

static void run(rank_scenario scenario, const struct hosts *hosts, const void *plan,
		struct rank_group *ret_group)
{
	rank_group_run(&(struct rank_spec){.nranks = hosts->nranks,
					   .scenario = scenario,
					   .plan = plan,
					   .cap_ms = 25000,
					   .gpu = true},
		       ret_group);
}

/* ---- creation -------------------------------------------------------------------------------- */

/* What each rank should find out, from the letters. */
static void expected_place(const struct hosts *hosts, int rank, struct belay_place *ret_place,
			   int *ret_rank, int *ret_nranks)
{
	*ret_place = (struct belay_place){.nranks = hosts->nranks, .rank = rank};
	*ret_rank = *ret_nranks = 0;
	for (int r = 0; r < hosts->nranks; r++) {
		bool same = hosts->of[r] == hosts->of[rank];

		ret_place->hosts += strchr(hosts->of, hosts->of[r]) == hosts->of + r;
		if (strchr(hosts->of, hosts->of[rank]) == hosts->of + r)
			ret_place->host = ret_place->hosts;
		*ret_rank += same && r < rank;
		*ret_nranks += same;
	}
}

static void find_place(struct rank_seat *seat)
{
	const struct hosts *hosts = seat->plan;
	struct belay_place place = {.size = sizeof(place)}, wanted;
	struct belay_rank_health health = {.size = sizeof(health)};
	struct belay_comm *comm;
	struct client client;
	int rank, nranks;

	open_client(&client, seat, hosts);
	expected_place(hosts, seat->rank, &wanted, &rank, &nranks);
	comm = belay_nccl_comm(0);
	RANK_EXPECT(seat, comm != NULL);
	if (comm) {
		RANK_EXPECT(seat, belay_comm_rank(comm) == rank);
		RANK_EXPECT(seat, belay_comm_nranks(comm) == nranks);
		RANK_EXPECT_STATUS(seat, belay_comm_place(comm, &place), 0);
		RANK_EXPECT(seat, place.hosts == wanted.hosts && place.host == wanted.host);
		RANK_EXPECT(seat, place.nranks == wanted.nranks && place.rank == wanted.rank);
		RANK_EXPECT_STATUS(seat, belay_comm_rank_health(comm, rank, &health), 0);
		RANK_EXPECT(seat, health.world_rank == seat->rank);
		/* It reduces nothing, by accident or not. */
		RANK_EXPECT_STATUS(seat,
				   belay_allreduce(client.send, client.recv, 1, BELAY_F32,
						   BELAY_SUM, comm, client.stream),
				   BELAY_E_UNSUPPORTED);
		snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_comm_id(comm));
	}
	leave(&client);
}

START_TEST(the_ranks_of_each_host_make_one_communicator_that_only_watches)
{
	const struct hosts *hosts = &layouts[_i];
	struct rank_group group;

	run(find_place, hosts, hosts, &group);
	/* The ids of all hosts begin alike, and those of two hosts differ. */
	for (int r = 1; r < hosts->nranks; r++) {
		const char *first = group.report[0].text, *other = group.report[r].text;

		ck_assert_msg(strlen(other) == 32 && strncmp(first, other, 24) == 0, "%s: %s, %s",
			      hosts->name, first, other);
		ck_assert_msg((strcmp(first, other) == 0) == (hosts->of[0] == hosts->of[r]),
			      "%s: %s, %s", hosts->name, first, other);
	}
}
END_TEST

static void be_refused(struct rank_seat *seat)
{
	struct client client;

	/* The two ranks of the second host do not agree with each other. */
	setenv("BELAY_LATE_MS", seat->rank == 3 ? "17" : "11", 1);
	open_client(&client, seat, &two_and_two);
	RANK_EXPECT(seat, belay_nccl_comm(0) == NULL);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	leave(&client);
}

START_TEST(where_one_host_cannot_all_hosts_leave_it_to_nccl)
{
	struct rank_group group;

	run(be_refused, &two_and_two, NULL, &group);
	for (int r = 0; r < 4; r++) {
		const char *wanted = r < 2 ? "rank 2 cannot join" : "BELAY_LATE_MS";

		ck_assert_msg(strstr(group.report[r].text, wanted) != NULL, "rank %d: %s", r,
			      group.report[r].text);
	}
}
END_TEST

/* By belay_comm_create_from_nccl() itself, with what each rank asks for. */
static void ask_for_hosts(struct rank_seat *seat)
{
	const uint32_t *asked = seat->plan;
	struct belay_config config = BELAY_CONFIG_INIT;
	struct belay_comm *comm = NULL;
	struct client client;

	setenv("BELAY_DISABLE", "1", 1);
	open_client(&client, seat, &layouts[0]);
	config.hosts = asked[seat->rank];
	RANK_EXPECT_STATUS(seat, belay_comm_create_from_nccl(&comm, client.comm, &config),
			   (int)asked[2 + seat->rank] - 1000);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	leave(&client);
}

/* What each of two ranks asks for, and the status + 1000 that it gets. */
static const struct {
	uint32_t asked[4];
	const char *text;
} askings[] = {
	{{BELAY_HOSTS_ONE, BELAY_HOSTS_ONE, 1000 + BELAY_E_UNSUPPORTED, 1000 + BELAY_E_UNSUPPORTED},
	 "on another host"},
	{{BELAY_HOSTS_OWN, BELAY_HOSTS_ONE, 1000 + BELAY_E_REFUSED, 1000 + BELAY_E_REFUSED},
	 "belay_config.hosts is "},
};

START_TEST(several_hosts_are_an_error_unless_all_ranks_ask_for_them)
{
	struct rank_group group;

	run(ask_for_hosts, &layouts[0], askings[_i].asked, &group);
	for (int r = 0; r < 2; r++)
		ck_assert_msg(strstr(group.report[r].text, askings[_i].text) != NULL, "rank %d: %s",
			      r, group.report[r].text);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("several_hosts");
	TCase *tests = tcase_create("several_hosts");

	tcase_set_timeout(tests, 40);
	tcase_add_loop_test(tests, the_ranks_of_each_host_make_one_communicator_that_only_watches,
			    0, (int)(sizeof(layouts) / sizeof(layouts[0])));
	tcase_add_test(tests, where_one_host_cannot_all_hosts_leave_it_to_nccl);
	tcase_add_loop_test(tests, several_hosts_are_an_error_unless_all_ranks_ask_for_them, 0,
			    (int)(sizeof(askings) / sizeof(askings[0])));
	suite_add_tcase(suite, tests);
	return suite;
}

#include "tests/unit/check_main.h"
