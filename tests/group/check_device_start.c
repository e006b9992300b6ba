/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Start and end of communicators on devices, between real processes on a GPU that is played on the
 * CPU: the ranks agree on the kind of memory and on the paths, whatever fails for one of them; and
 * nothing is left behind.
 */
#include "config.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/communicator.h"
#include "runtime/cuda/device.h"
#include "runtime/path/path.h"
#include "tests/support/cpu_gpu.h"
#include "tests/support/rank_calls.h"

/* What one rank does differently. */
struct start_plan {
	const char *device[2]; /* BELAY_DEVICE of rank 0 and of the others */
	const char *paths, *fault;
	int failing;	      /* the rank for which a function fails; -1: none */
	const char *function; /* of gpu.h or symm_kernels.h */
	unsigned nth;
	int code;
	int status;	      /* what creation returns */
	enum belay_path path; /* that is taken then */
	const char *reason;   /* part of the reasons why the others are not, or of the error */
};

static void expect_nothing_left(struct rank_seat *seat)
{
	struct cpu_gpu_objects left;

	cpu_gpu_end_default_stream();
	cpu_gpu_count(&left);
	RANK_EXPECT(seat, left.allocations == 0);
	RANK_EXPECT(seat, left.regions == 0);
	RANK_EXPECT(seat, left.spaces == 0);
	RANK_EXPECT(seat, left.mappings == 0);
	RANK_EXPECT(seat, left.registrations == 0);
	RANK_EXPECT(seat, left.streams == 0);
}

static void start_and_end(struct rank_seat *seat)
{
	const struct start_plan *plan = seat->plan;
	struct belay_comm *comm;

	seat->config.device = plan->device[seat->rank > 0];
	seat->config.paths = plan->paths;
	seat->config.fault = plan->fault;
	if (plan->function && plan->failing == seat->rank)
		cpu_gpu_fail(plan->function, plan->nth, plan->code, false);
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), plan->status);
	comm = seat->comm;
	snprintf(seat->report->text, sizeof(seat->report->text), "%s",
		 comm ? comm->reasons : belay_last_error());
	if (comm) {
		RANK_EXPECT(seat, comm->path->id == plan->path);
		seat->report->path = comm->path->id;
		RANK_EXPECT(seat, comm->device->table.nrows > 0);
		RANK_EXPECT(seat, comm->turn_bytes == comm->device->turn_bytes);
		rank_destroy(seat);
	}
	expect_nothing_left(seat);
}

static void run(const struct start_plan *plan, int nranks)
{
	struct rank_group group;

	rank_group_run(
		&(struct rank_spec){.nranks = nranks, .scenario = start_and_end, .plan = plan},
		&group);
	for (int r = 0; plan->reason && r < nranks; r++)
		ck_assert_msg(strstr(group.report[r].text, plan->reason), "rank %d: '%s', not '%s'",
			      r, group.report[r].text, plan->reason);
	for (int r = 0; !plan->reason && r < nranks; r++)
		ck_assert_msg(!strstr(group.report[r].text, "symm"), "rank %d: '%s'", r,
			      group.report[r].text);
}

#define NO_NCCL "symm,ring"
#define EVERY                                                                                      \
	{                                                                                          \
		"0", "0"                                                                           \
	}

static const struct start_plan starts[] = {
	{EVERY, NO_NCCL, NULL, -1, NULL, 0, 0, 0, BELAY_PATH_SYMM, NULL},
	{{"0", "1"}, NO_NCCL, NULL, -1, NULL, 0, 0, 0, BELAY_PATH_SYMM, NULL},
	{EVERY, "ring", NULL, -1, NULL, 0, 0, 0, BELAY_PATH_RING, NULL},
	/* Host is for other memory, and left out without a word. */
	{EVERY, "host,ring", NULL, -1, NULL, 0, 0, 0, BELAY_PATH_RING, NULL},
	/* Faults and failures of one rank are vetoes of symm on all. */
	{EVERY, NO_NCCL, "rank=1,seq=*,kind=map-fail,at=handshake", -1, NULL, 0, 0, 0,
	 BELAY_PATH_RING, "mapping the regions failed (injected)"},
	{EVERY, NO_NCCL, "rank=1,seq=*,kind=selftest,at=handshake", -1, NULL, 0, 0, 0,
	 BELAY_PATH_RING, "self-test: what rank 1 stored is not here"},
	{EVERY, NO_NCCL, NULL, 1, "gpu_region_create", 1, CPU_GPU_NO_MEMORY, 0, BELAY_PATH_RING,
	 "region of rank 1: cannot be made: "},
	{EVERY, NO_NCCL, NULL, 0, "gpu_region_import", 1, CPU_GPU_INVALID, 0, BELAY_PATH_RING,
	 "region of rank 1: cannot be imported: "},
	{EVERY, NO_NCCL, NULL, 1, "gpu_space_reserve", 1, CPU_GPU_NO_MEMORY, 0, BELAY_PATH_RING,
	 "region of rank 1: no address space: "},
	{EVERY, NO_NCCL, NULL, 1, "gpu_region_map", 1, CPU_GPU_INVALID, 0, BELAY_PATH_RING,
	 "region of rank 0: cannot be mapped: "},
	{EVERY, NO_NCCL, NULL, 1, "symm_launch_selftest_write", 1, CPU_GPU_INVALID, 0,
	 BELAY_PATH_RING, "self-test: "},
	{EVERY, NO_NCCL, NULL, 0, "symm_launch_selftest_verify", 1, CPU_GPU_INVALID, 0,
	 BELAY_PATH_RING, "rank 0: symm: self-test: "},
	/* What no path can do without ends the creation, on all ranks with the same status. */
	{EVERY, NO_NCCL, NULL, 1, "gpu_facts", 1, CPU_GPU_BAD_DEVICE, BELAY_E_SYSTEM, 0,
	 "looking at the device: "},
	{EVERY, NO_NCCL, NULL, 0, "symm_kernels_load", 1, CPU_GPU_INVALID, BELAY_E_SYSTEM, 0,
	 "loading the kernels: "},
	{EVERY, NO_NCCL, NULL, 1, "gpu_host_register", 1, CPU_GPU_INVALID, BELAY_E_SYSTEM, 0,
	 "taking memory: "},
	{EVERY, NO_NCCL, NULL, 1, "gpu_alloc", 1, CPU_GPU_NO_MEMORY, BELAY_E_NO_MEMORY, 0,
	 "taking memory: "},
	{EVERY, NO_NCCL, NULL, 0, "symm_launch_init", 1, CPU_GPU_INVALID, BELAY_E_SYSTEM, 0,
	 "preparing device memory: "},
	{EVERY, NO_NCCL, NULL, 1, "gpu_alloc", 2, CPU_GPU_NO_MEMORY, BELAY_E_NO_MEMORY, 0,
	 "taking memory for rescues: "},
	/* The ranks agree on whose memory it is, and that there is a path. */
	{{"0", "host"}, NULL, NULL, -1, NULL, 0, 0, BELAY_E_REFUSED, 0, "memory of calls: "},
	{EVERY, "host", NULL, -1, NULL, 0, 0, BELAY_E_NO_PATH, 0, "for calls on device memory"},
	{{"99", "0"}, NULL, NULL, -1, NULL, 0, 0, BELAY_E_SETTING, 0, "there are 8 CUDA devices"},
};

FAULT_TEST(every_rank_takes_the_same_start, "25 F02 F07 F15 F79")
{
	run(&starts[_i], 2);
}
END_TEST

START_TEST(four_ranks_on_two_devices_share_all_regions)
{
	static const struct start_plan plan = {
		.device = {"0", "1"}, .paths = NO_NCCL, .failing = -1, .path = BELAY_PATH_SYMM};

	run(&plan, 4);
}
END_TEST

/* What the probe of the links has made of the launch table, the same on every rank. */
static void start_with_probe(struct rank_seat *seat)
{
	const char *fault = seat->plan;
	struct launch_shape shape;
	struct device *device;
	char text[80];

	seat->config.device = "0";
	seat->config.paths = NO_NCCL;
	seat->config.fault = fault;
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	device = seat->comm->device;
	shape = launch_shape_of(&device->table, &device->symm.layout, seat->comm->nranks,
				UINT64_C(1) << 20, BELAY_BF16);
	device_describe_links(seat->comm, text, sizeof(text));
	RANK_EXPECT(seat, device->table.pulls == (fault != NULL));
	RANK_EXPECT(seat, (strstr(text, ": twoshot-pull") != NULL) == (fault != NULL));
	RANK_EXPECT(seat, !fault || shape.algorithm == SYMM_TWOSHOT_PULL);
	RANK_EXPECT(seat, fault || text[0] == '\0');
	rank_destroy(seat);
}

START_TEST(pushes_that_one_rank_finds_slow_make_all_ranks_pull)
{
	static const char *const faults[] = {NULL, "rank=1,kind=slow-push"};
	struct rank_group group;

	rank_group_run(
		&(struct rank_spec){.nranks = 3, .scenario = start_with_probe, .plan = faults[_i]},
		&group);
}
END_TEST

/* With auto the calling thread's context decides, and nothing else. */
static void start_by_context(struct rank_seat *seat)
{
	seat->config.paths = "symm,ring,host";
	for (int i = 0; i < 2; i++) {
		cpu_gpu_set_current(i == 0 ? 3 : -1);
		RANK_EXPECT_STATUS(seat, rank_create(seat, i), 0);
		if (!seat->comm)
			return;
		RANK_EXPECT(seat, (seat->comm->device != NULL) == (i == 0));
		RANK_EXPECT(seat, i == 1 || seat->comm->device->ordinal == 3);
		rank_destroy(seat);
	}
	expect_nothing_left(seat);
}

START_TEST(auto_takes_the_device_of_the_current_context)
{
	struct rank_group group;

	rank_group_run(&(struct rank_spec){.nranks = 2, .scenario = start_by_context}, &group);
}
END_TEST

/* Steps at which fault injection looks, after the five of the joining: facts, two barriers of the
 * self-test, the agreement, the end. */
#define STEP_FIRST 5
#define STEPS	   5

struct death {
	int rank, step;
};

static void start_beside_a_death(struct rank_seat *seat)
{
	const struct death *death = seat->plan;
	char fault[80];
	int status;

	snprintf(fault, sizeof(fault), "rank=%d,seq=%d,kind=kill,at=handshake", death->rank,
		 death->step);
	seat->config.device = "0";
	seat->config.paths = NO_NCCL;
	seat->config.fault = fault;
	status = rank_create(seat, 0);
	/* Who was released from the last barrier before rank 0 died has a communicator with a dead
	 * rank in it. */
	RANK_EXPECT(seat,
		    status == BELAY_E_START_TIMEOUT || (status == 0 && death->rank == 0 &&
							death->step == STEP_FIRST + STEPS - 1));
	if (seat->comm)
		rank_destroy(seat);
	expect_nothing_left(seat);
}

FAULT_TEST(a_rank_that_dies_in_the_start_ends_it_for_all, "1")
{
	struct death death = {.rank = _i / STEPS, .step = STEP_FIRST + _i % STEPS};
	struct rank_group group;

	rank_group_run(&(struct rank_spec){.nranks = 3,
					   .scenario = start_beside_a_death,
					   .plan = &death,
					   .cap_ms = 20000},
		       &group);
	ck_assert_uint_eq(rank_group_alive(&group), 7u & ~(1u << death.rank));
}
END_TEST

static void start_as_a_thread(struct rank_seat *seat)
{
	seat->config.device = "0";
	seat->config.paths = NO_NCCL;
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), 0);
	if (!seat->comm)
		return;
	RANK_EXPECT(seat, seat->comm->path->id == BELAY_PATH_SYMM);
	RANK_EXPECT(seat, seat->comm->device->sharing == 3);
	/* 16 multiprocessors, two kept for each rank, two calls of each. */
	RANK_EXPECT(seat, seat->comm->device->table.blocks_max == 3);
	RANK_EXPECT(seat, seat->comm->device->table.pair_blocks_max == 1);
	rank_destroy(seat);
	/* Whoever is last finds nothing. */
	rank_announce(seat, 0);
	RANK_EXPECT(seat, rank_await(seat, 0, 3));
	expect_nothing_left(seat);
}

START_TEST(ranks_may_be_threads_of_one_process)
{
	struct rank_group group;

	rank_group_run(
		&(struct rank_spec){.nranks = 3, .scenario = start_as_a_thread, .threads = true},
		&group);
}
END_TEST

#define CYCLES 25

static void start_again_and_again(struct rank_seat *seat)
{
	int before = 0;

	seat->config.device = "0";
	seat->config.paths = NO_NCCL;
	for (int i = 0; i < CYCLES; i++) {
		RANK_EXPECT_STATUS(seat, rank_create(seat, i), 0);
		if (!seat->comm)
			return;
		rank_destroy(seat);
		expect_nothing_left(seat);
		if (i == 1)
			before = rank_open_descriptors();
	}
	RANK_EXPECT(seat, rank_open_descriptors() == before);
}

FAULT_TEST(starting_again_and_again_leaves_nothing, "F74")
{
	struct rank_group group;

	rank_group_run(&(struct rank_spec){.nranks = 2,
					   .scenario = start_again_and_again,
					   .cap_ms = 60000},
		       &group);
}
END_TEST

static void too_many(struct rank_seat *seat)
{
	seat->config.device = "0";
	RANK_EXPECT_STATUS(seat, rank_create(seat, 0), BELAY_E_UNSUPPORTED);
	RANK_EXPECT(seat, strstr(belay_last_error(), "17 ranks") != NULL);
}

START_TEST(more_ranks_than_kernels_know_are_refused)
{
	struct rank_group group;

	rank_group_run(&(struct rank_spec){.nranks = 17, .scenario = too_many}, &group);
}
END_TEST

static Suite *suite(void)
{
	Suite *suite = suite_create("device_start");
	TCase *tests = tcase_create("start");

	tcase_set_timeout(tests, 90);
	tcase_add_loop_test(tests, every_rank_takes_the_same_start, 0,
			    (int)(sizeof(starts) / sizeof(starts[0])));
	tcase_add_loop_test(tests, pushes_that_one_rank_finds_slow_make_all_ranks_pull, 0, 2);
	tcase_add_test(tests, four_ranks_on_two_devices_share_all_regions);
	tcase_add_test(tests, auto_takes_the_device_of_the_current_context);
	tcase_add_loop_test(tests, a_rank_that_dies_in_the_start_ends_it_for_all, 0, 2 * STEPS);
	tcase_add_test(tests, ranks_may_be_threads_of_one_process);
	tcase_add_test(tests, starting_again_and_again_leaves_nothing);
	tcase_add_test(tests, more_ranks_than_kernels_know_are_refused);
	suite_add_tcase(suite, tests);
	return suite;
}

#include "tests/unit/check_main.h"
