/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An NCCL communicator whose ranks are of several hosts, which BELAY_HOST_ID plays on one: each
 * host's ranks have a communicator of belay's that watches, and the program sees NCCL's results
 * and, when something is wrong, which rank of which host it was. As check_nccl_client.c on a GPU
 * that is played on the CPU, over a stub NCCL.
 */
#include "config.h"

#include <check.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/nccl/belay_nccl.h"
#include "tests/group/nccl_client.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/log_contents.h"

#define CALLS 6

/* Shared words, behind those of two meetings. */
#define LEAVING	 9
#define GOING_ON 10

/* How the ranks are dealt out: the host of each. */
struct hosts {
	const char *name;
	int nranks;
	const char *of; /* a letter for each rank */
};

static const struct hosts two_and_two = {"2+2", 4, "aabb"};
static const struct hosts layouts[] = {
	{"1+1", 2, "ab"},	    {"2+2", 4, "aabb"},	  {"3+1", 4, "aaab"},
	{"2+2 in turn", 4, "abab"}, {"1+1+2", 4, "abcc"}, {"4", 4, "aaaa"},
};
#define LAYOUTS ((int)(sizeof(layouts) / sizeof(layouts[0])))

static bool is_one_host(const struct hosts *hosts)
{
	return strspn(hosts->of, (char[]){hosts->of[0], '\0'}) == strlen(hosts->of);
}

/* ---- a program ------------------------------------------------------------------------------- */

static void open_client(struct client *client, struct rank_seat *seat, const struct hosts *hosts)
{
	setenv("BELAY_HOST_ID", (char[]){hosts->of[seat->rank], '\0'}, 1);
	client_open(client, seat);
	client->comm = client_join(client);
}

/* All ranks at once: one that has left is an error of NCCL's for the others. */
static void leave(struct client *client)
{
	rank_announce(client->seat, LEAVING);
	RANK_EXPECT(client->seat,
		    rank_await(client->seat, LEAVING, (uint64_t)client->seat->nranks));
	RANK_EXPECT_STATUS(client->seat, (int)ncclCommDestroy(client->comm), 0);
	client_close(client);
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

/* As belay-info sees it. */
static void expect_from_outside(struct rank_seat *seat, const struct belay_place *wanted, int rank)
{
	struct belay_process_comm comm = {.size = sizeof(comm)};
	struct belay_rank_health health = {.size = sizeof(health)};
	struct belay_process *process = NULL;

	RANK_EXPECT_STATUS(seat, belay_process_open((int)getpid(), &process), 0);
	RANK_EXPECT(seat, belay_process_comm_count(process) == 1);
	RANK_EXPECT_STATUS(seat, belay_process_comm(process, 0, &comm), 0);
	RANK_EXPECT(seat, comm.hosts == wanted->hosts && comm.host == wanted->host);
	RANK_EXPECT(seat, comm.world_nranks == wanted->nranks);
	RANK_EXPECT_STATUS(seat, belay_process_rank(process, 0, rank, &health), 0);
	RANK_EXPECT(seat, health.world_rank == wanted->rank);
	belay_process_close(process);
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
		expect_from_outside(seat, &wanted, rank);
		/* It reduces nothing, by accident or not. */
		if (!is_one_host(hosts))
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
	/* The ids of all hosts begin alike, and those of two hosts differ at the end. */
	for (int r = 1; r < hosts->nranks; r++) {
		const char *first = group.report[0].text, *other = group.report[r].text;

		ck_assert_msg(strlen(other) == 32 && strncmp(first, other, 24) == 0, "%s: %s, %s",
			      hosts->name, first, other);
		ck_assert_msg((strcmp(first, other) == 0) == (hosts->of[0] == hosts->of[r]),
			      "%s: %s, %s", hosts->name, first, other);
	}
}
END_TEST

/* Each rank's BELAY_LATE_MS, and what the ranks of each host are told then. */
static const struct {
	const char *late_ms[4];
	const char *text[2];
} disagreements[] = {
	{{"11", "11", "11", "17"}, {"rank 2 cannot join", "BELAY_LATE_MS: 11 against 17"}},
	{{"11", "11", "17", "17"},
	 {"ranks 0 and 2, on different hosts, differ in settings",
	  "ranks 0 and 2, on different hosts, differ in settings"}},
};

static void be_refused(struct rank_seat *seat)
{
	const char *const *late_ms = seat->plan;
	struct client client;

	setenv("BELAY_LATE_MS", late_ms[seat->rank], 1);
	open_client(&client, seat, &two_and_two);
	RANK_EXPECT(seat, belay_nccl_comm(0) == NULL);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	leave(&client);
}

START_TEST(where_one_host_cannot_all_hosts_leave_it_to_nccl)
{
	struct rank_group group;

	run(be_refused, &two_and_two, disagreements[_i].late_ms, &group);
	for (int r = 0; r < 4; r++)
		ck_assert_msg(strstr(group.report[r].text, disagreements[_i].text[r / 2]) != NULL,
			      "rank %d: %s", r, group.report[r].text);
}
END_TEST

/* By belay_comm_create_from_nccl() itself: what each of two ranks asks for, and is told. */
struct asking {
	uint32_t hosts[2];
	int status[2];
	const char *text[2];
};

static const struct asking askings[] = {
	{{BELAY_HOSTS_ONE, BELAY_HOSTS_ONE},
	 {BELAY_E_UNSUPPORTED, BELAY_E_UNSUPPORTED},
	 {"rank 1 of the NCCL communicator is on another host", "rank 0 of the NCCL communicator"}},
	{{BELAY_HOSTS_OWN, BELAY_HOSTS_ONE},
	 {BELAY_E_REFUSED, BELAY_E_REFUSED},
	 {"belay_config.hosts is 0 on rank 1 and 1 here", "belay_config.hosts is 1 on rank 0"}},
	{{BELAY_HOSTS_OWN, 2},
	 {BELAY_E_REFUSED, BELAY_E_ARGUMENT},
	 {"rank 1 cannot join: ", "belay_config.hosts is 2: expected"}},
};

static void ask_for_hosts(struct rank_seat *seat)
{
	const struct asking *asking = seat->plan;
	struct belay_config config = BELAY_CONFIG_INIT;
	struct belay_comm *comm = NULL;
	struct client client;

	setenv("BELAY_DISABLE", "1", 1);
	open_client(&client, seat, &layouts[0]);
	config.hosts = asking->hosts[seat->rank];
	RANK_EXPECT_STATUS(seat, belay_comm_create_from_nccl(&comm, client.comm, &config),
			   asking->status[seat->rank]);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	leave(&client);
}

START_TEST(several_hosts_are_an_error_unless_all_ranks_ask_for_them)
{
	struct rank_group group;

	run(ask_for_hosts, &layouts[0], &askings[_i], &group);
	for (int r = 0; r < 2; r++)
		ck_assert_msg(strstr(group.report[r].text, askings[_i].text[r]) != NULL,
			      "rank %d: %s", r, group.report[r].text);
}
END_TEST

/* Rank 1 is a program of another version, or no belay at all: it makes the gather by itself. */
static void greet_a_stranger(struct rank_seat *seat)
{
	struct belay_comm *comm = NULL;
	struct client client;

	setenv("BELAY_DISABLE", "1", 1);
	open_client(&client, seat, &layouts[0]);
	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, belay_comm_create_from_nccl(&comm, client.comm, NULL),
				   BELAY_E_REFUSED);
		snprintf(seat->report->text, sizeof(seat->report->text), "%s", belay_last_error());
	} else {
		memset(client.send, 0, 192);
		memcpy(client.send, seat->plan, 8);
		RANK_EXPECT_STATUS(seat,
				   (int)ncclAllGather(client.send, client.recv, 192, ncclUint8,
						      client.comm, client.stream),
				   0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	}
	leave(&client);
}

static const struct {
	char magic[9];
	const char *text;
} strangers[] = {
	{"belaync1", "rank 1 has another version of belay"},
	{"somebody", "rank 1 took part with something else than this function"},
};

START_TEST(a_rank_of_another_version_is_told_apart)
{
	struct rank_group group;

	run(greet_a_stranger, &layouts[0], strangers[_i].magic, &group);
	ck_assert_msg(strstr(group.report[0].text, strangers[_i].text) != NULL, "%s",
		      group.report[0].text);
}
END_TEST

/* ---- calls ----------------------------------------------------------------------------------- */

static ncclResult_t begin_call(struct client *client)
{
	client_fill(client);
	return client_all_reduce(client, client->comm, client->stream);
}

static void whole_call(struct client *client)
{
	client_whole_call(client, client->comm, client->stream);
}

struct recording {
	const struct hosts *hosts;
	const char *folder;
};

/* The first by one, the others in a graph that is replayed. */
static void make_calls(struct rank_seat *seat)
{
	const struct recording *recording = seat->plan;
	struct cpu_gpu_graph *graph = NULL;
	struct client client;

	setenv("BELAY_LOG_DIR", recording->folder, 1);
	open_client(&client, seat, recording->hosts);
	snprintf(seat->report->text, sizeof(seat->report->text), "%s",
		 belay_comm_id(belay_nccl_comm(0)));
	whole_call(&client);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_begin(client.stream, CPU_GPU_GLOBAL), 0);
	RANK_EXPECT_STATUS(seat, (int)begin_call(&client), 0);
	RANK_EXPECT_STATUS(seat, cpu_gpu_capture_end(client.stream, &graph), 0);
	for (int i = 1; i < CALLS; i++) {
		RANK_EXPECT_STATUS(seat, cpu_gpu_graph_launch(graph, client.stream), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, client_has_sum(&client));
	}
	cpu_gpu_graph_free(graph);
	leave(&client);
}

static void expect_calls(const struct log_contents *log, bool watched)
{
	ck_assert_uint_eq(log->calls_count, CALLS);
	for (size_t i = 0; i < log->calls_count; i++) {
		const struct call_record *call = log_contents_call(log, i);

		ck_assert_uint_eq(call->seq, i + 1);
		ck_assert_uint_eq(call->count, COUNT);
		ck_assert_int_eq(call->op, BELAY_SUM);
		ck_assert_int_eq(call->status, 0);
		ck_assert_int_eq(call->path == BELAY_PATH_NCCL, watched);
	}
}

/* Its file is numbered as its host numbers it, and says who it is among all. */
static void expect_log(const struct hosts *hosts, int r, const char *folder, const char *id)
{
	struct belay_place place;
	const struct event_record *creation;
	struct log_contents log;
	char wanted[40];
	int rank, nranks;

	memset(&log, 0, sizeof(log));
	expected_place(hosts, r, &place, &rank, &nranks);
	ck_assert_int_eq(log_contents_read_rank(&log, folder, id, (uint32_t)rank), 1);
	ck_assert_int_eq((int)log.info.nranks, nranks);
	expect_calls(&log, !is_one_host(hosts));
	creation = log.events;
	while (creation < log.events + log.events_count && creation->kind != EVENT_COMM_CREATE)
		creation++;
	ck_assert_ptr_ne(creation, log.events + log.events_count);
	/* No path was wanted and not to be had. */
	for (size_t i = 0; i < log.events_count; i++)
		ck_assert_int_ne(log.events[i].kind, EVENT_PATH_SWITCH);
	ck_assert_int_eq(creation->peer, is_one_host(hosts) ? -1 : r);
	snprintf(wanted, sizeof(wanted), " of %d, host %d of %d", place.nranks, place.host,
		 place.hosts);
	ck_assert_msg(is_one_host(hosts) == !strstr(creation->text, wanted), "%s", creation->text);
	log_contents_free(&log);
}

START_TEST(every_call_is_recorded_on_every_host_and_the_values_are_nccls)
{
	struct recording recording = {.hosts = &layouts[_i]};
	struct rank_group group;
	char folder[512];

	make_folder(folder, sizeof(folder));
	recording.folder = folder;
	run(make_calls, recording.hosts, &recording, &group);
	for (int r = 0; r < recording.hosts->nranks; r++)
		expect_log(recording.hosts, r, folder, group.report[r].text);
	remove_folder(folder);
}
END_TEST

/* Two communicators of the same ranks, whose calls each rank asks for in an order of its own, with
 * another collective between. */
static void make_groups(struct rank_seat *seat)
{
	struct client client;
	ncclComm_t other;
	float *maximum;

	open_client(&client, seat, &two_and_two);
	other = client_join(&client);
	RANK_EXPECT(seat, belay_nccl_comm(1) != NULL);
	maximum = cpu_gpu_memory(GPU_POINTER_DEVICE, 0, sizeof(float));
	for (int i = 0; i < 3; i++) {
		*maximum = (float)(seat->rank + i);
		RANK_EXPECT_STATUS(seat, (int)ncclGroupStart(), 0);
		if (seat->rank % 2)
			RANK_EXPECT_STATUS(seat, (int)begin_call(&client), 0);
		RANK_EXPECT_STATUS(seat,
				   (int)ncclAllReduce(maximum, maximum, 1, ncclFloat32, ncclMax,
						      other, client.stream),
				   0);
		if (seat->rank % 2 == 0)
			RANK_EXPECT_STATUS(seat, (int)begin_call(&client), 0);
		RANK_EXPECT_STATUS(seat, (int)ncclGroupEnd(), 0);
		RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
		RANK_EXPECT(seat, client_has_sum(&client));
		RANK_EXPECT(seat, *maximum == (float)(3 + i));
	}
	cpu_gpu_memory_free(maximum);
	RANK_EXPECT_STATUS(seat, (int)ncclCommDestroy(other), 0);
	leave(&client);
}

START_TEST(calls_of_a_group_go_in_one_order_on_all_hosts)
{
	struct rank_group group;

	run(make_groups, &two_and_two, NULL, &group);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------- */

/* The last rank comes when its host has named it. */
static void come_late(struct rank_seat *seat)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};
	struct client client;
	uint64_t before;

	open_client(&client, seat, &two_and_two);
	whole_call(&client);
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(belay_nccl_comm(0), &statistics), 0);
	before = statistics.late_by_rank[1]; /* on a busy machine */
	if (seat->rank == 3)
		RANK_EXPECT(seat, rank_await(seat, GOING_ON, 1));
	RANK_EXPECT_STATUS(seat, (int)begin_call(&client), 0);
	for (int i = 0; seat->rank == 2 && i < 5000 && statistics.late_by_rank[1] == before; i++) {
		usleep(1000);
		RANK_EXPECT_STATUS(seat, belay_comm_statistics(belay_nccl_comm(0), &statistics), 0);
	}
	if (seat->rank == 2)
		rank_announce(seat, GOING_ON);
	RANK_EXPECT_STATUS(seat, cpu_gpu_stream_sync(client.stream), 0);
	RANK_EXPECT(seat, client_has_sum(&client));
	RANK_EXPECT_STATUS(seat, belay_comm_statistics(belay_nccl_comm(0), &statistics), 0);
	if (seat->rank == 2)
		RANK_EXPECT(seat, statistics.late_by_rank[1] > before);
	leave(&client);
}

START_TEST(a_late_rank_is_named_on_its_own_host)
{
	struct rank_group group;

	run(come_late, &two_and_two, NULL, &group);
}
END_TEST

static void note_verdict(struct rank_seat *seat)
{
	struct belay_verdict *verdict = &seat->report->verdict;

	*verdict = (struct belay_verdict){.size = sizeof(*verdict)};
	for (int i = 0; i < 10000 && belay_comm_verdict(belay_nccl_comm(0), verdict); i++)
		usleep(1000);
	RANK_EXPECT(seat, verdict->cause != BELAY_CAUSE_NONE);
}

/* As PyTorch does: asks NCCL, and aborts the communicator when told. */
static void poll_and_abort(struct client *client)
{
	client_await_verdict(client);
	snprintf(client->seat->report->text, sizeof(client->seat->report->text), "%s",
		 ncclGetLastError(client->comm));
	note_verdict(client->seat);
	RANK_EXPECT_STATUS(client->seat, (int)ncclCommAbort(client->comm), 0);
}

static void lose_a_rank(struct rank_seat *seat)
{
	struct client client;
	ncclResult_t result;

	open_client(&client, seat, &two_and_two);
	whole_call(&client);
	/* Else the first call that is not finished everywhere might be this one. */
	rank_announce(seat, GOING_ON);
	RANK_EXPECT(seat, rank_await(seat, GOING_ON, 4));
	if (seat->rank == 3)
		(void)raise(SIGKILL);
	result = begin_call(&client);
	/* Its host may know already. */
	RANK_EXPECT(seat, result == ncclSuccess || (seat->rank == 2 && result == ncclRemoteError));
	poll_and_abort(&client);
	client_close(&client);
}

START_TEST(a_killed_rank_is_a_verdict_on_its_host_at_once_and_on_others_when_nccl_tells)
{
	struct rank_group group;

	run(lose_a_rank, &two_and_two, NULL, &group);
	for (int r = 0; r < 3; r++) {
		const struct belay_verdict *verdict = &group.report[r].verdict;
		bool own = r == 2;

		ck_assert_int_eq(verdict->cause,
				 own ? BELAY_CAUSE_PEER_LOST : BELAY_CAUSE_NCCL_FAILED);
		ck_assert_uint_eq(verdict->seq, 2);
		ck_assert_msg(strstr(verdict->text, own ? "rank 3 (1 of this host) (pid "
							: "ncclRemoteError (6) while "
							  "ncclAllReduce ran"),
			      "rank %d: %s", r, verdict->text);
		/* The program is told the same. */
		ck_assert_msg(strstr(group.report[r].text, verdict->text) != NULL, "rank %d: %s", r,
			      group.report[r].text);
	}
}
END_TEST

/* The rank on the other host never makes the call, and NCCL says nothing of it. */
static void hang_elsewhere(struct rank_seat *seat)
{
	struct client client;

	setenv("BELAY_GIVE_UP_MS", "500", 1);
	setenv("BELAY_WARMUP_GIVE_UP_MS", "500", 1);
	open_client(&client, seat, &layouts[0]);
	whole_call(&client);
	if (seat->rank == 0) {
		RANK_EXPECT_STATUS(seat, (int)begin_call(&client), 0);
		note_verdict(seat);
		RANK_EXPECT(seat, begin_call(&client) == ncclRemoteError);
		rank_announce(seat, GOING_ON);
	}
	RANK_EXPECT(seat, rank_await(seat, GOING_ON, 1));
	RANK_EXPECT_STATUS(seat, (int)ncclCommAbort(client.comm), 0);
	client_close(&client);
}

START_TEST(a_rank_of_another_host_that_hangs_is_a_verdict_at_the_hard_deadline)
{
	const struct belay_verdict *verdict;
	struct rank_group group;

	run(hang_elsewhere, &layouts[0], NULL, &group);
	verdict = &group.report[0].verdict;
	ck_assert_int_eq(verdict->cause, BELAY_CAUSE_NCCL_FAILED);
	ck_assert_uint_eq(verdict->seq, 2);
	ck_assert_msg(strstr(verdict->text, "ncclAllReduce did not end within the hard deadline of "
					    "500 ms [rank 0 (0 of this host)") != NULL,
		      "%s", verdict->text);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("several_hosts");
	TCase *tests = tcase_create("several_hosts");

	tcase_set_timeout(tests, 40);
	tcase_add_loop_test(tests, the_ranks_of_each_host_make_one_communicator_that_only_watches,
			    0, LAYOUTS);
	tcase_add_loop_test(tests, where_one_host_cannot_all_hosts_leave_it_to_nccl, 0, 2);
	tcase_add_loop_test(tests, several_hosts_are_an_error_unless_all_ranks_ask_for_them, 0,
			    (int)(sizeof(askings) / sizeof(askings[0])));
	tcase_add_test(tests, calls_of_a_group_go_in_one_order_on_all_hosts);
	tcase_add_loop_test(tests, a_rank_of_another_version_is_told_apart, 0, 2);
	tcase_add_loop_test(tests, every_call_is_recorded_on_every_host_and_the_values_are_nccls, 0,
			    LAYOUTS);
	tcase_add_test(tests, a_late_rank_is_named_on_its_own_host);
	tcase_add_test(
		tests,
		a_killed_rank_is_a_verdict_on_its_host_at_once_and_on_others_when_nccl_tells);
	tcase_add_test(tests, a_rank_of_another_host_that_hangs_is_a_verdict_at_the_hard_deadline);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "tests/unit/check_main.h"
