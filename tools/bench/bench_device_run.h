/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's run on device memory. Inputs and expected results stand in pools on the device, made
 * once; each call works on one of several pairs of buffers, and its result is compared there.
 *
 * A call is issued, then settled: once the stream is empty its result is looked at and its time
 * taken. No wait is for the stream alone: kernels of belay's leave by its deadlines or a verdict,
 * so that a stream which stays busy long after a verdict is told as a failure.
 */
#ifndef BELAY_TOOLS_BENCH_DEVICE_RUN_H
#define BELAY_TOOLS_BENCH_DEVICE_RUN_H

#include "tools/bench/bench_device.h"
#include "tools/bench/bench_run.h"

/* Calls that are timed one by one and issued before any is settled, at most. */
#define DEVICE_TIMED_MAX 256

/* A call that has been issued and not settled. */
struct device_call {
	uint64_t seq;
	uint32_t slot;
	int timed;	    /* 1: the events of the same index stand around it */
	const char *should; /* on the device */
	const char *held;   /* what its output held before, on the device; NULL: not known */
	size_t held_bytes;
};

struct device_run {
	struct CUstream_st *stream;
	char *inputs[BENCH_DTYPES], *expected[BENCH_DTYPES];
	char *sends, *recvs; /* the same in place */
	/* Of the running step. */
	const struct bench_step *step;
	struct bench_step_result *result;
	uint32_t nslots;      /* pairs of buffers */
	size_t stride;	      /* from one to the next, bytes */
	uint64_t nccl_before; /* calls on NCCL before it */
	int nccl, nccl_known; /* 1: its calls go on NCCL; 1: the former is known */
	const char **held;    /* by slot: what recv holds; NULL: not known */
	/* Issued, not settled; `wrong` is written by the device: bytes that differ. */
	struct device_call *call;
	uint64_t *wrong;
	uint32_t ncalls;
	struct bench_event *begin[DEVICE_TIMED_MAX], *end[DEVICE_TIMED_MAX];
	/* Host time of belay_allreduce() and of a bare launch, by timed call; NULL: not asked for.
	 */
	uint64_t *host_ns, *launch_ns;
	uint64_t ntimes;
};

/* Before the communicator: takes the rank's device and fits the environment to it; *ret_device is
 * the text for struct belay_config. 0, or a status, and what failed stands in the job. */
int device_run_open(struct bench_run *run, const char **ret_device);
/* After it: pools and buffers. */
int device_run_prepare(struct bench_run *run);
/* At any time after device_run_open(), whatever it returned. */
void device_run_close(struct bench_run *run);

/* For a rank that shares its GPU: NCCL joins such ranks only if each claims a host of its own, and
 * they talk over the loopback device. Changes the environment, unless it has NCCL_HOSTID: whoever
 * set that knows better. 0, or -1 without memory. */
int device_run_separate_hosts(uint32_t rank);

/* One step of the job. */
int device_run_step(struct bench_run *run, const struct bench_step *step,
		    struct bench_step_result *result);

/* ---- for bench_device_calls.c and bench_device_graph.c ----------------------------------------
 */

int device_run_calls(struct bench_run *run);
int device_run_passes(struct bench_run *run);
int device_run_graph(struct bench_run *run);
int device_run_graph_passes(struct bench_run *run);

static inline size_t device_bytes(const struct bench_step *step)
{
	return step->count * belay_dtype_bytes((enum belay_dtype)step->dtype);
}

static inline char *device_send(const struct device_run *device, uint32_t slot)
{
	return device->sends + slot * device->stride;
}

static inline char *device_recv(const struct device_run *device, uint32_t slot)
{
	return device->recvs + slot * device->stride;
}

/* A call of the bench's own to the device has failed: keeps its text. */
int device_run_broken(struct bench_run *run);

/* Enqueues: the input for `seq` into a slot; the call; the comparison of the output of the call
 * that was noted as the index-th. */
int device_run_put_input(struct bench_run *run, uint64_t seq, uint32_t slot);
int device_run_call(struct bench_run *run, uint64_t seq, uint32_t slot);
int device_run_compare(struct bench_run *run, uint32_t index);

/* Notes a call as issued, to be settled. */
void device_run_note(struct bench_run *run, uint64_t seq, uint32_t slot, int timed);

/* Waits until the stream is empty. */
int device_run_wait(struct bench_run *run);
/* The same, then looks at the results of all issued calls and keeps the times of the timed ones. */
int device_run_settle(struct bench_run *run);

#endif /* BELAY_TOOLS_BENCH_DEVICE_RUN_H */
