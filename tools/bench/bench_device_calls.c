/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are launched one by one. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tools/bench/bench_device_run.h"
#include "tools/bench/bench_results.h"

/* Enqueues one call between its events and the comparison of its result; ret_ns: the host's time.
 */
static int issue(struct bench_run *run, uint32_t slot, int timed, uint64_t *ret_ns)
{
	struct device_run *device = run->device;
	uint32_t index = device->ncalls;
	uint64_t start_ns;
	int status;

	if (bench_event_record(device->begin[index], device->stream))
		return device_run_broken(run);
	start_ns = bench_now_ns();
	status = device_run_call(run, run->seq, slot);
	*ret_ns = bench_now_ns() - start_ns;
	if (status)
		return status;
	device_run_note(run, run->seq, slot, timed);
	run->seq++;
	if (bench_event_record(device->end[index], device->stream))
		return device_run_broken(run);
	return device_run_compare(run, index);
}

/* What was issued is settled, also behind a failure. */
static int settle_all(struct bench_run *run, int status)
{
	int settled = device_run_settle(run);

	return status ? status : settled;
}

/* How long a launch of a kernel with nothing in it takes the host, in the place of a call. */
static int time_launch(struct bench_run *run, uint64_t *ret_ns)
{
	struct device_run *device = run->device;
	uint64_t start_ns;

	if (bench_event_record(device->begin[0], device->stream))
		return device_run_broken(run);
	start_ns = bench_now_ns();
	if (bench_device_empty(device->stream))
		return device_run_broken(run);
	*ret_ns = bench_now_ns() - start_ns;
	return device_run_wait(run);
}

static int keep_host_time(struct bench_run *run, uint64_t host_ns)
{
	struct device_run *device = run->device;

	device->host_ns[device->ntimes] = host_ns;
	return time_launch(run, &device->launch_ns[device->ntimes++]);
}

/* All ranks begin the call together; the stream is empty. */
static int call_alone(struct bench_run *run, int timed)
{
	uint32_t slot = (uint32_t)(run->seq % run->device->nslots);
	uint64_t host_ns;
	int status = device_run_put_input(run, run->seq, slot);

	if (status == 0)
		status = device_run_wait(run);
	if (status)
		return status;
	if (bench_barrier_wait(&run->job->barrier, run->job->nranks))
		return bench_run_failed(run, BELAY_E_STATE, "another rank ended early");
	status = settle_all(run, issue(run, slot, timed, &host_ns));
	if (status == 0 && timed && run->device->host_ns)
		status = keep_host_time(run, host_ns);
	return status;
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t median(uint64_t *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare_numbers);
	return bench_percentile(values, n, 0.5);
}

int device_run_calls(struct bench_run *run)
{
	struct device_run *device = run->device;
	const struct bench_step *step = device->step;
	int status = 0;

	device->ntimes = 0;
	for (uint64_t i = 0; i < step->warmup && status == 0; i++)
		status = call_alone(run, 0);
	for (uint64_t i = 0; i < step->calls && status == 0; i++)
		status = call_alone(run, 1);
	if (device->ntimes) {
		device->result->host_ns = median(device->host_ns, device->ntimes);
		device->result->launch_ns = median(device->launch_ns, device->ntimes);
	}
	return status;
}

/* The calls of a pass, one behind the other; the host does not wait for them but for room. */
static int issue_pass(struct bench_run *run)
{
	struct device_run *device = run->device;
	uint64_t host_ns;
	int status = 0;

	for (uint64_t i = 0; i < device->step->calls && status == 0; i++) {
		uint32_t slot = (uint32_t)(run->seq % device->nslots);

		if (device->ncalls == DEVICE_TIMED_MAX)
			status = device_run_settle(run);
		if (status == 0)
			status = device_run_put_input(run, run->seq, slot);
		if (status)
			break;
		bench_run_compute(run, device->step);
		status = issue(run, slot, 1, &host_ns);
		run->ready_ns = bench_now_ns();
	}
	return status;
}

static int end_pass(struct bench_run *run, uint64_t number)
{
	int status = belay_pass_end(run->comm, run->device->stream);

	if (status == 0)
		status = belay_pass_wait(run->comm, NULL);
	if (status)
		return bench_run_failed(run, status, "commit of pass %" PRIu64 ": %s", number + 1,
					belay_status_text(status));
	return 0;
}

static int make_pass(struct bench_run *run, uint64_t number)
{
	uint64_t start_ns = bench_now_ns();
	uint64_t pass_ns;
	int status = belay_pass_begin(run->comm, run->device->stream);

	run->ready_ns = start_ns;
	if (status)
		return bench_run_failed(run, status, "beginning of pass %" PRIu64 ": %s",
					number + 1, belay_status_text(status));
	status = issue_pass(run);
	if (status == 0)
		status = end_pass(run, number);
	pass_ns = bench_now_ns() - start_ns;
	status = settle_all(run, status);
	if (status == 0)
		bench_run_keep_pass(run, number, pass_ns);
	return status;
}

int device_run_passes(struct bench_run *run)
{
	const struct bench_step *step = run->device->step;
	int status = 0;

	for (uint64_t i = 0; i < step->passes && status == 0; i++)
		status = make_pass(run, step->first_pass + i);
	return status;
}
