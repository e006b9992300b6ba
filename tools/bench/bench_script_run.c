/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_script_run.h"

#include <inttypes.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "tools/bench/bench_device_run.h"
#include "tools/bench/bench_script.h"

/* Of a gap so much is spun: a sleep ends late. Ranks may be more than processors, so that the rest
 * is slept. */
#define SPIN_NS UINT64_C(80000)
/* Calls on the stream before the host waits for it. */
#define IN_FLIGHT_MAX 128
/* Shorter gaps are over before the kernel that waits has begun. */
#define DELAY_NS_MIN UINT64_C(1000)

/* What the next call is. */
struct script_place {
	const struct script_call *call;
	uint64_t gap_ns;
	size_t bytes;
	size_t data; /* where in the pools its data stands, bytes */
};

static struct script_place place_of(const struct bench_run *run, uint64_t i)
{
	struct bench_job *job = run->job;
	const struct script_call *call =
		(const struct script_call *)bench_at(job, job->script_at) + i;
	const uint64_t *gaps = bench_at(job, job->gaps_at);

	return (struct script_place){.call = call,
				     .gap_ns = gaps[i * job->nranks + run->rank],
				     .bytes = call->count *
					      belay_dtype_bytes((enum belay_dtype)call->dtype),
				     .data = bench_place_of(run->seq)};
}

static void note_call(struct bench_run *run)
{
	run->seq++;
	run->calls_done++;
	/* Relaxed: a number to show, and to see that it moves. */
	atomic_store_explicit(&run->out->calls_done, run->calls_done, memory_order_relaxed);
}

static int mark(struct bench_run *run, int ends, struct CUstream_st *stream)
{
	int status = ends ? belay_pass_end(run->comm, stream) : belay_pass_begin(run->comm, stream);

	if (status)
		return bench_run_failed(run, status, "%s of a pass at seq %" PRIu64 ": %s",
					ends ? "end" : "beginning", run->seq,
					belay_status_text(status));
	return 0;
}

static int call_failed(struct bench_run *run, int status)
{
	return bench_run_failed(run, status, "seq %" PRIu64 ": %s", run->seq,
				belay_status_text(status));
}

static int come_together(struct bench_run *run)
{
	if (bench_barrier_wait(&run->job->barrier, run->job->nranks))
		return bench_run_failed(run, BELAY_E_STATE, "another rank ended early");
	run->ready_ns = bench_now_ns();
	return 0;
}

/* Host memory ---------------------------------------------------------------------------------- */

/* Until the gap is over, counted from the end of the call before. */
static void compute(const struct bench_run *run, uint64_t gap_ns)
{
	uint64_t until_ns = run->ready_ns + gap_ns, now_ns;

	while ((now_ns = bench_now_ns()) < until_ns) {
		uint64_t left_ns = until_ns - now_ns;
		struct timespec pause;

		if (left_ns <= SPIN_NS)
			continue;
		left_ns -= SPIN_NS;
		pause = (struct timespec){.tv_sec = (time_t)(left_ns / 1000000000u),
					  .tv_nsec = (long)(left_ns % 1000000000u)};
		(void)nanosleep(&pause, NULL); /* too short a sleep does no harm */
	}
}

static void check(struct bench_run *run, const struct script_place *place, const char *is)
{
	struct bench_job *job = run->job;
	const char *should = (char *)bench_at(job, job->pool_at[place->call->dtype]) + place->data;
	const struct bench_step step = {.count = place->call->count, .dtype = place->call->dtype};
	struct bench_step_result result = {0};

	if (!job->script_checked || memcmp(is, should, place->bytes) == 0)
		return;
	if (bench_run_count_wrong(run, &result))
		bench_run_tell_wrong(run, run->seq, &step, is, should);
}

/* The time of a pass, on the host. */
struct pass_clock {
	uint64_t number; /* from 0 */
	uint64_t start_ns;
};

static int host_call(struct bench_run *run, const struct script_place *place,
		     struct pass_clock *pass)
{
	const struct script_call *call = place->call;
	char *recv = call->flags & SCRIPT_IN_PLACE ? run->send : run->recv;
	int status = 0;

	memcpy(run->send, (char *)run->pool[call->dtype] + place->data, place->bytes);
	compute(run, place->gap_ns);
	if (call->flags & SCRIPT_BEGINS_PASS) {
		pass->start_ns = bench_now_ns();
		status = mark(run, 0, NULL);
	}
	if (status)
		return status;
	status = belay_allreduce(run->send, recv, call->count, (enum belay_dtype)call->dtype,
				 (enum belay_op)call->op, run->comm, NULL);
	if (status)
		return call_failed(run, status);
	if (call->flags & SCRIPT_ENDS_PASS)
		status = mark(run, 1, NULL);
	run->ready_ns = bench_now_ns();
	if (status == 0 && call->flags & SCRIPT_ENDS_PASS)
		bench_run_keep_pass(run, pass->number++, run->ready_ns - pass->start_ns);
	check(run, place, recv);
	note_call(run);
	return status;
}

static int host_calls(struct bench_run *run)
{
	struct pass_clock pass = {0};
	int status;

	/* Timers as exact as can be had; else gaps are a little longer. */
	(void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
	status = come_together(run);
	for (uint64_t i = 0; i < run->job->script_calls && status == 0; i++) {
		struct script_place place = place_of(run, i);

		status = host_call(run, &place, &pass);
	}
	return status;
}

/* A device ------------------------------------------------------------------------------------ */

/* Gaps go by on the stream, as the calls do. */
static int device_call(struct bench_run *run, const struct script_place *place)
{
	const struct script_call *call = place->call;
	struct device_run *device = run->device;
	int in_place = (call->flags & SCRIPT_IN_PLACE) != 0;
	int status = 0;

	if (bench_device_copy(device->sends, device->inputs[call->dtype] + place->data,
			      place->bytes, device->stream))
		return device_run_broken(run);
	if (place->gap_ns >= DELAY_NS_MIN && bench_device_delay(place->gap_ns, device->stream))
		return device_run_broken(run);
	if (call->flags & SCRIPT_BEGINS_PASS)
		status = mark(run, 0, device->stream);
	if (status)
		return status;
	status = belay_allreduce(device->sends, in_place ? device->sends : device->recvs,
				 call->count, (enum belay_dtype)call->dtype,
				 (enum belay_op)call->op, run->comm, device->stream);
	if (status)
		return call_failed(run, status);
	if (call->flags & SCRIPT_ENDS_PASS)
		status = mark(run, 1, device->stream);
	note_call(run);
	return status;
}

/* Waits for the stream; a verdict ends the run. */
static int device_settle(struct bench_run *run)
{
	struct belay_verdict verdict = {.size = sizeof(verdict)};
	int status = device_run_wait(run);

	if (status == 0 && belay_comm_verdict(run->comm, &verdict) == 0)
		status = bench_run_failed(run, verdict.status, "seq %" PRIu64 ": %s", verdict.seq,
					  belay_status_text(verdict.status));
	return status;
}

static int device_calls(struct bench_run *run)
{
	int status = come_together(run);

	for (uint64_t i = 0; i < run->job->script_calls && status == 0; i++) {
		struct script_place place = place_of(run, i);

		status = device_call(run, &place);
		if (status == 0 && i % IN_FLIGHT_MAX == IN_FLIGHT_MAX - 1)
			status = device_settle(run);
	}
	return status == 0 ? device_settle(run) : status;
}

int bench_script_run(struct bench_run *run)
{
	return run->device ? device_calls(run) : host_calls(run);
}
