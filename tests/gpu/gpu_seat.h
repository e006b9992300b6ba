/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of a scenario test on a GPU: rank_group.h gives it process, seat and report; this gives it
 * a device, a stream, and calls whose every result is compared on the device with the rank-order
 * sum.
 *
 * Each call works on one of a few slots of device memory: guard, send, guard, recv, guard. Behind
 * it stand the comparisons of its result, its input and its guards. Issued calls are settled
 * together: the stream is polled until it is empty (never waited for without an end), then all is
 * looked at.
 */
#ifndef BELAY_TESTS_GPU_SEAT_H
#define BELAY_TESTS_GPU_SEAT_H

#include <check.h>

#include "tests/support/rank_calls.h"
#include "tools/bench/bench_device.h"

#define GPU_SLOTS     4
#define GPU_BATCH     64 /* calls issued before they are settled, at most */
#define GPU_GRAPH_MAX 512
#define GPU_BYTES_MAX (UINT64_C(8) << 20)
#define GPU_DTYPES    (BELAY_I8 + 1)
#define GPU_OPS	      (BELAY_PROD + 1)

struct gpu_pool {
	char *input, *expected; /* on the device; NULL: not made yet */
};

struct gpu_seat {
	struct rank_seat *seat;
	struct CUstream_st *stream; /* calls go here; a test may change it */
	struct CUstream_st *own_stream;
	size_t bytes_max; /* of a call */
	char *slots;
	char *guard; /* what guards hold, on the device */
	struct gpu_pool pool[GPU_DTYPES][GPU_OPS];
	uint64_t seq;	 /* of the next call */
	uint64_t data;	 /* counts calls, and says where their data stands; the same on all ranks */
	uint64_t *wrong; /* GPU_BATCH times GPU_LOOKS */
	uint64_t meetings;
	uint32_t ncalls;     /* issued, not settled; numbered up to seq */
	uint64_t issued_ns;  /* when the first of them was */
	uint64_t verdict_ns; /* when a verdict was first seen; 0: not yet. gpu_wait() looks, too */
	_Atomic uint64_t *alive; /* gpu_wait() keeps the time there; NULL: nowhere */
	char device_text[12];
};

/* A call. Zero: f32, sum, out of place, aligned, the seat's own memory. */
struct gpu_call {
	size_t count;
	enum belay_dtype dtype;
	enum belay_op op;
	bool in_place;
	size_t send_shift, recv_shift; /* bytes off alignment */
	char *send, *recv;	       /* device memory of the caller's, no guards are looked at */
};

struct gpu_graph {
	struct bench_graph *graph;
	uint32_t ncalls;
	uint64_t *wrong;
};

/* The device for this rank, its stream and memory for calls up to bytes_max; seat->config names the
 * device. False: complained about. gpu_close() after either. */
bool gpu_open(struct rank_seat *seat, size_t bytes_max, struct gpu_seat *ret_gpu);
void gpu_close(struct gpu_seat *gpu);
/* seat->comm from ids[id_index]; numbers begin at the config's. */
bool gpu_create(struct gpu_seat *gpu, int id_index);

/* Makes the data of calls before they are made: no memory is asked for afterwards. */
bool gpu_prepare(struct gpu_seat *gpu, const struct gpu_call *calls, uint32_t ncalls);
/* Enqueues a checked call. False: belay has refused it; the report has the status. */
bool gpu_issue(struct gpu_seat *gpu, const struct gpu_call *call);
/* True: all issued calls were right and no verdict stands. */
bool gpu_settle(struct gpu_seat *gpu);
/* Both. */
bool gpu_call(struct gpu_seat *gpu, const struct gpu_call *call);
/* Calls in passes by a plan of rank_calls.h, f32; each settled before the next. */
bool gpu_work(struct gpu_seat *gpu, const struct work_plan *plan);

/* Captures checked calls into a graph; with marks: as one pass. False: complained about. */
bool gpu_capture(struct gpu_seat *gpu, const struct gpu_call *calls, uint32_t ncalls, bool marks,
		 struct gpu_graph *ret_graph);
/* Replays it and settles. */
bool gpu_replay(struct gpu_seat *gpu, struct gpu_graph *graph);
void gpu_graph_free(struct gpu_graph *graph);

/* All ranks come together with empty streams: ranks that are threads free and allocate only then,
 * for that may wait for every kernel of the process. */
void gpu_meet(struct gpu_seat *gpu);
/* Waits until the stream is empty, 20 s at most. */
bool gpu_wait(struct gpu_seat *gpu);
/* Counters of the communicator, once the watcher has come to the records of all calls, or after 2
 * s. */
void gpu_statistics(struct gpu_seat *gpu, struct belay_statistics *ret_statistics);
/* The context takes memory, copies and kernels as ever. */
void gpu_expect_healthy(struct gpu_seat *gpu);
/* The verdict stands, or comes within 5 s: notes it; later calls return it. */
void gpu_meet_verdict(struct gpu_seat *gpu);
/* Survivors' new communicator in the same process; leaves it destroyed. */
void gpu_live_on(struct gpu_seat *gpu);

/* A whole life by a struct work_plan, as rank_life(). */
void gpu_life(struct rank_seat *seat);

/* ---- the test's side ------------------------------------------------------------------------- */

/* Runs a scenario on ranks with GPUs: processes, or threads where BELAY_GPU_THREADS=1. */
void gpu_group_run(int nranks, rank_scenario scenario, const void *plan,
		   struct rank_group *ret_group);
/* A number from the environment. */
uint64_t gpu_number(const char *variable, uint64_t otherwise);
/* main() of a suite: 77 and a TAP line where no GPU is. */
int gpu_main(Suite *suite);

#endif /* BELAY_TESTS_GPU_SEAT_H */
