/* SPDX-License-Identifier: Apache-2.0 */
/* The NCCL worker against an NCCL that goes wrong (tests/support/stub_nccl.c): whatever it does,
 * the worker's owner goes on within its bound, with one cause. */
#include <check.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/clock.h"
#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nccl_worker.h"

#define RANKS	    2
#define PART_BYTES  ((size_t)300000) /* more than one chunk of the stub's, and odd */
#define PART_STRIDE ((PART_BYTES + 15) / 16 * 16)
/* Far over every bound that a rank is given here, for machines that stand still. */
#define BOUND_NS (15 * NS_PER_SECOND)

static struct belay_comm *comms[RANKS];
static struct device devices[RANKS];
static int messages;
static char said[4096], why[400];

/* ---- ranks that have met -----------------------------------------------------------------------
 */

static void log_message(void *user, enum belay_log_level level, const char *message)
{
	(void)user;
	(void)level;
	messages++;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", message);
}

static const char *stub(void)
{
	static char path[PATH_MAX];
	const char *build = getenv("top_builddir");

	snprintf(path, sizeof(path), "%s/tests/support/.libs/libtest-nccl-stub.so",
		 build ? build : ".");
	return path;
}

static struct belay_comm *new_rank(unsigned rank, unsigned nranks, void *control,
				   const char *library, const char *fault)
{
	struct belay_comm *comm = aligned_alloc(LINE, (sizeof(*comm) + LINE - 1) / LINE * LINE);
	struct belay_config config = BELAY_CONFIG_INIT;
	struct cause_config causes = {
		.log = log_message, .level = BELAY_LOG_WARN, .rank = (int)rank};

	ck_assert_ptr_nonnull(comm);
	memset(comm, 0, sizeof(*comm));
	comm->causes = cause_chain_create(&causes);
	config.nccl_library = library;
	config.fault = fault;
	config.start_ms = "1200";
	config.destroy_ms = "400";
	config.give_up_ms = "1000";
	config.symm_max = "512K";
	ck_assert_int_eq(settings_load(&config, &comm->settings, comm->causes), 0);
	ck_assert_int_eq(
		faults_parse(comm->settings.text[SETTING_fault], &comm->faults, comm->causes), 0);
	control_segment_place(control, nranks, &comm->control);
	comm->rank = rank;
	comm->nranks = nranks;
	comm->own = &comm->control.rank[rank];
	comm->device = &devices[rank];
	return comm;
}

static void meet(unsigned nranks, const char *library, const char *fault)
{
	size_t bytes = control_segment_bytes(nranks);
	void *control = aligned_alloc(4096, bytes);

	ck_assert_ptr_nonnull(control);
	memset(control, 0, bytes);
	for (unsigned r = 0; r < nranks; r++)
		comms[r] = new_rank(r, nranks, control, library, fault);
	control_segment_fill(&comms[0]->control, nranks, "0123456789abcdef0123456789abcdef");
}

/* ---- creation ----------------------------------------------------------------------------------
 */

struct joining {
	pthread_t thread;
	unsigned rank;
	uint64_t deadline_ns;
	int status;
	struct nccl_worker *worker;
	char why[400];
};

static void *join_rank(void *argument)
{
	struct joining *j = argument;

	j->status = nccl_worker_join(comms[j->rank], j->deadline_ns, &j->worker, j->why,
				     sizeof(j->why));
	return NULL;
}

static void create(unsigned nranks)
{
	struct joining joining[RANKS] = {0};

	for (unsigned r = 0; r < nranks; r++)
		ck_assert_msg(nccl_worker_prepare(comms[r], why, sizeof(why)) == 0, "%s", why);
	for (unsigned r = 0; r < nranks; r++) {
		joining[r].rank = r;
		joining[r].deadline_ns = clock_now_ns() + BOUND_NS;
		ck_assert_int_eq(pthread_create(&joining[r].thread, NULL, join_rank, &joining[r]),
				 0);
	}
	for (unsigned r = 0; r < nranks; r++) {
		pthread_join(joining[r].thread, NULL);
		ck_assert_msg(joining[r].status == 0, "%s", joining[r].why);
		ck_assert_ptr_eq(joining[r].worker, devices[r].nccl);
	}
}

static void destroy(unsigned nranks)
{
	for (unsigned r = 0; r < nranks; r++)
		nccl_worker_free(devices[r].nccl);
}

static const struct rescue_room {
	bool shared;
	uint32_t multiprocessors;
	int blocks;
} rooms[] = {{true, 132, 2}, {false, 132, 8}, {false, 0, 1}};

/* A rescue's kernel finds room beside kernels that wait: no more blocks than multiprocessors that
 * are kept empty, no clusters. */
START_TEST(the_rescue_communicator_asks_for_few_blocks_and_no_clusters)
{
	const struct rescue_room *room = &rooms[_i];
	const ncclConfig_t *asked;
	void *library = dlopen(stub(), RTLD_NOW | RTLD_LOCAL);

	meet(RANKS, stub(), "");
	for (unsigned r = 0; r < RANKS; r++) {
		struct control_facts *facts = &comms[0]->control.device[r].facts;

		facts->multiprocessors = room->multiprocessors;
		facts->uuid[0] = room->shared ? 0 : (uint8_t)r;
	}
	create(RANKS);
	asked = dlsym(library, "stub_nccl_config");
	ck_assert_ptr_nonnull(asked);
	ck_assert_int_eq(asked[0].maxCTAs, room->blocks);
	ck_assert_int_eq(asked[0].cgaClusterSize, 0);
	ck_assert_int_eq(asked[1].maxCTAs, NCCL_CONFIG_UNDEF_INT);
	destroy(RANKS);
	dlclose(library);
}
END_TEST

/* ---- gathers -----------------------------------------------------------------------------------
 */

static enum nccl_progress wait_for_gather(unsigned rank)
{
	enum nccl_progress progress = NCCL_RUNNING;
	uint64_t deadline = clock_now_ns() + BOUND_NS;

	while (progress == NCCL_RUNNING && clock_now_ns() < deadline) {
		progress = nccl_worker_progress(devices[rank].nccl, clock_now_ns());
		usleep(100);
	}
	return progress;
}

START_TEST(gathers_the_parts_of_all_ranks)
{
	static char part[RANKS][PART_STRIDE], parts[RANKS][RANKS][PART_STRIDE];
	const char *file;

	meet(RANKS, stub(), "");
	create(RANKS);
	for (int round = 0; round < 3; round++) {
		for (unsigned r = 0; r < RANKS; r++)
			memset(part[r], 1 + (int)r + 10 * round, PART_STRIDE);
		for (unsigned r = 0; r < RANKS; r++) {
			ck_assert(nccl_worker_can_gather(devices[r].nccl));
			nccl_worker_gather(devices[r].nccl, part[r], PART_BYTES, parts[r]);
		}
		for (unsigned r = 0; r < RANKS; r++) {
			ck_assert_int_eq(wait_for_gather(r), NCCL_DONE);
			ck_assert_int_eq(nccl_worker_progress(devices[r].nccl, clock_now_ns()),
					 NCCL_IDLE);
			ck_assert_mem_eq(parts[r], part, sizeof(part));
		}
	}
	ck_assert_int_gt(nccl_worker_version(devices[0].nccl, &file), 21400);
	ck_assert_ptr_nonnull(strstr(file, "libtest-nccl-stub"));
	destroy(RANKS);
	ck_assert_msg(messages == 0, "%s", said);
}
END_TEST

/* ---- creations that fail -----------------------------------------------------------------------
 */

static const struct {
	const char *stub;
	bool prepared; /* it goes wrong in join */
	const char *reason;
} refusals[] = {
	/* clang-format off */
	{"version=21300",                      false, "version code 21300"},
	{"version=30000",                      false, "version code 30000"},
	{"error=GetVersion",                   false, "ncclGetVersion: unhandled cuda error (1)"},
	{"hang=GetVersion",                    false, "does not return"},
	{"error=GetUniqueId:2",                false, "ncclGetUniqueId: unhandled cuda error (1): stub"},
	{"hang=GetUniqueId",                   false, "ncclGetUniqueId does not return"},
	{"error=CommInitRankConfig",           true,  "ncclCommInitRankConfig: unhandled cuda error (1): stub"},
	{"error=CommInitRankConfig:2",         true,  "ncclCommInitRankConfig: unhandled cuda error (1): stub"},
	{"hang=CommInitRankConfig",            true,  "ncclCommInitRankConfig did not end"},
	{"hang=CommInitRankConfig:2",          true,  "ncclCommInitRankConfig did not end"},
	{"duplicate",                          true,  "NCCL_HOSTID"}, /* F91 */
	{"error=AllGather",                    true,  "ncclAllGather: unhandled cuda error (1): stub"},
	{"hang=AllGather:2",                   true,  "ncclAllGather did not end"},
	{"hang=AllGather,abort-hangs",         true,  "ncclAllGather did not end"},
	{"error=AllReduce:3",                  true,  "ncclAllReduce: unhandled cuda error (1): stub"},
	{"hang=AllReduce",                     true,  "ncclAllReduce did not end"}, /* F23 */
	{"hang=AllReduce,hang=CommAbort",      true,  "ncclAllReduce did not end"},
	{"hang=CommGetAsyncError",             true,  "did not end"},
	{"error=CommGetAsyncError",            true,  "unhandled cuda error (1): stub"},
	/* clang-format on */
};

START_TEST(a_creation_that_fails_is_a_reason_within_its_bound)
{
	uint64_t begin = clock_now_ns();
	struct nccl_worker *worker = NULL;

	setenv("STUB_NCCL", refusals[_i].stub, 1);
	meet(1, stub(), "");
	if (!refusals[_i].prepared) {
		ck_assert_int_eq(nccl_worker_prepare(comms[0], why, sizeof(why)), -1);
	} else {
		ck_assert_msg(nccl_worker_prepare(comms[0], why, sizeof(why)) == 0, "%s", why);
		ck_assert_int_eq(nccl_worker_join(comms[0], clock_now_ns() + 400 * NS_PER_MS,
						  &worker, why, sizeof(why)),
				 -1);
	}
	ck_assert_msg(strstr(why, refusals[_i].reason) != NULL, "%s: %s", refusals[_i].stub, why);
	ck_assert_ptr_null(worker);
	ck_assert_ptr_null(devices[0].nccl);
	ck_assert_uint_eq(atomic_load(&comms[0]->control.head->nccl.unready), 1);
	ck_assert_uint_lt(clock_now_ns() - begin, BOUND_NS);
	ck_assert_int_le(messages, 1); /* of a thread left behind */
}
END_TEST

static const struct {
	const char *library, *reason;
} libraries[] = {
	{"/nonexistent/libnccl.so.2", "BELAY_NCCL_LIBRARY=/nonexistent/libnccl.so.2: cannot load"},
	{"libm.so.6", "BELAY_NCCL_LIBRARY=libm.so.6: the NCCL found has no ncclGetVersion"},
};

START_TEST(a_library_that_is_given_and_unusable_is_named)
{
	meet(1, libraries[_i].library, "");
	ck_assert_int_eq(nccl_worker_prepare(comms[0], why, sizeof(why)), -1);
	ck_assert_msg(strstr(why, libraries[_i].reason) != NULL, "%s", why);
}
END_TEST

/* Under the name that every NCCL has, wherever it was loaded from. */
START_TEST(the_library_that_the_process_has_is_used_before_the_one_that_is_given)
{
	char folder[] = "/tmp/belay-nccl-XXXXXX", link[PATH_MAX], target[PATH_MAX];
	const char *file;

	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_ptr_nonnull(realpath(stub(), target));
	snprintf(link, sizeof(link), "%s/libnccl.so.2.28", folder);
	ck_assert_int_eq(symlink(target, link), 0);
	ck_assert_ptr_nonnull(dlopen(link, RTLD_NOW | RTLD_LOCAL));
	(void)unlink(link);
	(void)rmdir(folder);
	meet(1, "/nonexistent/other.so", "");
	ck_assert_msg(nccl_worker_prepare(comms[0], why, sizeof(why)) == 0, "%s", why);
	(void)nccl_worker_version(devices[0].nccl, &file);
	ck_assert_str_eq(file, link);
	destroy(1);
}
END_TEST

START_TEST(without_the_path_in_the_preferences_nothing_is_loaded)
{
	setenv("BELAY_PATHS", "symm,ring", 1);
	meet(1, stub(), "");
	ck_assert_int_eq(nccl_worker_prepare(comms[0], why, sizeof(why)), -1);
	ck_assert_msg(strstr(why, "BELAY_PATHS") != NULL, "%s", why);
	ck_assert_ptr_null(dlopen(stub(), RTLD_NOW | RTLD_NOLOAD));
}
END_TEST

START_TEST(nobody_joins_when_a_rank_cannot)
{
	struct nccl_worker *worker = NULL;

	meet(RANKS, stub(), "");
	ck_assert_int_eq(nccl_worker_prepare(comms[0], why, sizeof(why)), 0);
	atomic_store(&comms[0]->control.head->nccl.unready, 2);
	ck_assert_int_eq(nccl_worker_join(comms[0], clock_now_ns() + 600 * NS_PER_SECOND, &worker,
					  why, sizeof(why)),
			 -1);
	ck_assert_str_eq(why, "rank 1 cannot use it");
}
END_TEST

START_TEST(a_rank_that_never_comes_is_not_waited_for_past_the_deadline)
{
	struct nccl_worker *worker = NULL;

	meet(RANKS, stub(), "");
	ck_assert_int_eq(nccl_worker_prepare(comms[0], why, sizeof(why)), 0);
	ck_assert_int_eq(nccl_worker_join(comms[0], clock_now_ns() + 200 * NS_PER_MS, &worker, why,
					  sizeof(why)),
			 -1);
	ck_assert_msg(strstr(why, "ncclCommInitRankConfig did not end") != NULL, "%s", why);
	ck_assert_msg(messages == 0, "%s", said); /* it could be aborted */
}
END_TEST

START_TEST(ranks_with_different_versions_do_not_join)
{
	struct nccl_worker *worker = NULL;

	meet(RANKS, stub(), "");
	for (unsigned r = 0; r < RANKS; r++)
		ck_assert_int_eq(nccl_worker_prepare(comms[r], why, sizeof(why)), 0);
	comms[0]->control.head->nccl.version++;
	ck_assert_int_eq(nccl_worker_join(comms[1], clock_now_ns() + 600 * NS_PER_SECOND, &worker,
					  why, sizeof(why)),
			 -1);
	ck_assert_msg(strstr(why, "on rank 0") != NULL, "%s", why);
	destroy(RANKS);
}
END_TEST

/* ---- gathers that fail -------------------------------------------------------------------------
 */

static const struct {
	const char *stub, *fault, *reason;
} failures[] = {
	/* clang-format off */
	{"error=AllGather",               "", "ncclAllGather: unhandled cuda error (1): stub"},
	{"hang=AllGather",                "", "ncclAllGather did not end within 200 ms"},
	{"hang=AllGather,abort-hangs",    "", "ncclAllGather did not end within 200 ms"},
	{"async-error=1",                 "", "ncclAllGather: remote process exited"},
	{"hang=CommGetAsyncError",        "", "ncclAllGather did not end within 200 ms"},
	{"", "", "ncclAllGather did not end within 200 ms"}, /* the other rank does not come */
	{"", "rank=0,seq=7,kind=nccl-error", "error injected"},
	{"", "rank=0,seq=7,kind=nccl-error,at=rescue", "error injected"},
	{"", "rank=0,seq=7,kind=nccl-hang", "ncclAllGather (hang injected) did not end"},
	/* clang-format on */
};

static void name_rescue(uint64_t turn, uint64_t seq)
{
	comms[0]->own->call[turn & 1].seq = seq;
	atomic_store(&comms[0]->control.head->rescue, rescue_pack(turn, 0, 0));
}

START_TEST(a_gather_that_fails_is_one_cause_and_the_last_one)
{
	static char part[PART_STRIDE], parts[RANKS][PART_STRIDE];
	uint64_t begin = clock_now_ns();
	char causes[2000];

	meet(RANKS, stub(), failures[_i].fault);
	create(RANKS);
	name_rescue(4, 7);
	setenv("STUB_NCCL", failures[_i].stub, 1);
	nccl_worker_gather(devices[0].nccl, part, PART_BYTES, parts);
	ck_assert_int_eq(wait_for_gather(0), NCCL_FAILED);
	ck_assert_int_eq(nccl_worker_progress(devices[0].nccl, clock_now_ns()), NCCL_IDLE);
	(void)cause_text(comms[0]->causes, causes, sizeof(causes));
	ck_assert_msg(strstr(causes, failures[_i].reason) != NULL, "%s: %s", failures[_i].stub,
		      causes);
	ck_assert_ptr_nonnull(strstr(causes, "[rank 0, seq 7]"));
	ck_assert_ptr_null(strchr(causes, '\n')); /* one */
	ck_assert_msg(messages == 1, "%s", said);
	for (unsigned r = 0; r < RANKS; r++)
		ck_assert(!nccl_worker_can_gather(devices[r].nccl));
	destroy(RANKS);
	ck_assert_uint_lt(clock_now_ns() - begin, BOUND_NS);
}
END_TEST

START_TEST(a_gather_that_is_cancelled_is_no_cause)
{
	static char part[PART_STRIDE], parts[RANKS][PART_STRIDE];
	char causes[2000];

	meet(RANKS, stub(), "");
	create(RANKS);
	nccl_worker_cancel(devices[0].nccl);
	ck_assert(nccl_worker_can_gather(devices[0].nccl)); /* none was running */
	nccl_worker_gather(devices[0].nccl, part, PART_BYTES, parts);
	nccl_worker_cancel(devices[0].nccl);
	ck_assert_int_eq(nccl_worker_progress(devices[0].nccl, UINT64_MAX), NCCL_IDLE);
	ck_assert(!nccl_worker_can_gather(devices[0].nccl));
	(void)cause_text(comms[0]->causes, causes, sizeof(causes));
	ck_assert_str_eq(causes, "");
	destroy(RANKS);
	ck_assert_msg(messages == 0, "%s", said);
}
END_TEST

/* ---- whole calls -------------------------------------------------------------------------------
 */

/* In a call of rank 0's, on its own thread: rank 1 makes none. */
static void *call(void *ret_status)
{
	static float values[1024];

	*(int *)ret_status = nccl_worker_allreduce(devices[0].nccl, values, values, 1024, BELAY_F32,
						   BELAY_SUM, NULL);
	return NULL;
}

static int wait_for_error(void)
{
	uint64_t deadline = clock_now_ns() + BOUND_NS;
	int error = 0;

	while (!error && clock_now_ns() < deadline) {
		error = nccl_worker_calls_error(devices[0].nccl, why, sizeof(why));
		usleep(100);
	}
	return error;
}

START_TEST(a_call_that_fails_at_once_is_told)
{
	int status = 0;

	meet(1, stub(), "");
	create(1);
	ck_assert_int_eq(nccl_worker_calls_error(devices[0].nccl, why, sizeof(why)), 0);
	setenv("STUB_NCCL", "error=AllReduce", 1);
	(void)call(&status);
	ck_assert_int_eq(status, -1);
	ck_assert_int_eq(wait_for_error(), 1);
	ck_assert_msg(strstr(why, "ncclAllReduce: unhandled cuda error (1): stub") != NULL, "%s",
		      why);
	/* The first is kept. */
	nccl_worker_fail_calls(devices[0].nccl, "another");
	ck_assert_int_eq(wait_for_error(), 1);
	destroy(1);
}
END_TEST

START_TEST(an_asynchronous_error_is_told)
{
	int status = -1;

	meet(1, stub(), "");
	create(1);
	(void)call(&status);
	ck_assert_int_eq(status, 0);
	setenv("STUB_NCCL", "async-error=1", 1);
	ck_assert_int_eq(wait_for_error(), 6);
	ck_assert_msg(strstr(why, "ncclCommGetAsyncError: remote process exited") != NULL, "%s",
		      why);
	destroy(1);
}
END_TEST

/* F30: whoever aborts does not wait, and the call comes back. */
START_TEST(a_call_that_hangs_is_ended_by_an_abort_from_another_thread)
{
	pthread_t thread;
	int status = 0;

	meet(1, stub(), "");
	create(1);
	setenv("STUB_NCCL", "hang=AllReduce", 1);
	ck_assert_int_eq(pthread_create(&thread, NULL, call, &status), 0);
	usleep(20000);
	nccl_worker_abort_calls(devices[0].nccl);
	nccl_worker_abort_calls(devices[0].nccl); /* twice does no harm */
	pthread_join(thread, NULL);
	ck_assert_int_eq(status, -1);
	destroy(1);
	ck_assert_msg(messages == 0, "%s", said);
}
END_TEST

START_TEST(an_abort_that_hangs_delays_nobody)
{
	uint64_t begin = clock_now_ns();

	meet(1, stub(), "");
	create(1);
	setenv("STUB_NCCL", "abort-hangs", 1);
	nccl_worker_abort_calls(devices[0].nccl);
	ck_assert_uint_lt(clock_now_ns() - begin, BOUND_NS);
	destroy(1);
	ck_assert_uint_lt(clock_now_ns() - begin, BOUND_NS);
	ck_assert_msg(strstr(said, "does not return") != NULL, "%s", said);
	ck_assert_msg(messages == 1, "%s", said);
}
END_TEST

START_TEST(after_an_abort_no_call_is_made)
{
	int status = 0;

	meet(1, stub(), "");
	create(1);
	nccl_worker_abort_calls(devices[0].nccl);
	(void)call(&status);
	ck_assert_int_eq(status, -1);
	ck_assert_int_ne(wait_for_error(), 0);
	ck_assert(nccl_worker_can_gather(devices[0].nccl)); /* that is the other communicator */
	destroy(1);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("nccl_worker");
	TCase *healthy = tcase_create("healthy"), *creation = tcase_create("creation");
	TCase *gather = tcase_create("gather"), *calls = tcase_create("calls");

	tcase_add_test(healthy, gathers_the_parts_of_all_ranks);
	suite_add_tcase(suite, healthy);
	tcase_add_loop_test(creation, the_rescue_communicator_asks_for_few_blocks_and_no_clusters,
			    0, (int)(sizeof(rooms) / sizeof(rooms[0])));
	tcase_add_loop_test(creation, a_creation_that_fails_is_a_reason_within_its_bound, 0,
			    (int)(sizeof(refusals) / sizeof(refusals[0])));
	tcase_add_loop_test(creation, a_library_that_is_given_and_unusable_is_named, 0,
			    (int)(sizeof(libraries) / sizeof(libraries[0])));
	tcase_add_test(creation,
		       the_library_that_the_process_has_is_used_before_the_one_that_is_given);
	tcase_add_test(creation, without_the_path_in_the_preferences_nothing_is_loaded);
	tcase_add_test(creation, nobody_joins_when_a_rank_cannot);
	tcase_add_test(creation, a_rank_that_never_comes_is_not_waited_for_past_the_deadline);
	tcase_add_test(creation, ranks_with_different_versions_do_not_join);
	suite_add_tcase(suite, creation);
	tcase_add_loop_test(gather, a_gather_that_fails_is_one_cause_and_the_last_one, 0,
			    (int)(sizeof(failures) / sizeof(failures[0])));
	tcase_add_test(gather, a_gather_that_is_cancelled_is_no_cause);
	suite_add_tcase(suite, gather);
	tcase_add_test(calls, a_call_that_fails_at_once_is_told);
	tcase_add_test(calls, an_asynchronous_error_is_told);
	tcase_add_test(calls, a_call_that_hangs_is_ended_by_an_abort_from_another_thread);
	tcase_add_test(calls, an_abort_that_hangs_delays_nobody);
	tcase_add_test(calls, after_an_abort_no_call_is_made);
	suite_add_tcase(suite, calls);
	return suite;
}

#include "tests/unit/check_main.h"
