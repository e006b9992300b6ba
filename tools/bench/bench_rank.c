/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_rank.h"

#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/bench/bench_data.h"
#include "tools/bench/bench_device_run.h"
#include "tools/bench/bench_run.h"
#include "tools/bench/bench_script_run.h"
#include "tools/command_line.h"

/* Wrong results that a rank tells one by one; the rest is counted. */
#define WRONG_TOLD	 5
#define BUFFER_ALIGNMENT 4096
/* Longest wait for the records of calls that have been made. */
#define RECORDS_NS UINT64_C(200000000)

uint64_t bench_now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* fails only for a clock that does not exist */
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Puts a failure into the job, as one line that does not name its own rank: the command puts the
 * ranks that failed alike before it. */
static void keep_error(struct bench_run *run, const char *text)
{
	char *to = run->out->error, *end = to + sizeof(run->out->error) - 3;
	char own[24];
	size_t length = (size_t)snprintf(own, sizeof(own), " [rank %" PRIu32 "]", run->rank);

	while (*text && to < end) {
		if (strncmp(text, own, length) == 0) {
			text += length;
		} else if (*text == '\n') {
			*to++ = ';';
			*to++ = ' ';
			text++;
		} else {
			*to++ = *text++;
		}
	}
	*to = 0;
}

int bench_run_failed(struct bench_run *run, int status, const char *format, ...)
{
	char text[sizeof(run->out->error)];
	va_list arguments;

	if (run->out->status)
		return status;
	run->out->status = status;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	keep_error(run, text);
	return status;
}

/* This rank to one of the processors that it may use. Without success it runs anywhere. */
static void pin(uint32_t rank)
{
	cpu_set_t allowed, one;
	int nth;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return;
	nth = (int)(rank % (uint32_t)CPU_COUNT(&allowed));
	for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &allowed) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

static int make_pools(struct bench_run *run)
{
	for (uint32_t dtype = BELAY_F32; dtype < BENCH_DTYPES; dtype++) {
		size_t count = run->job->pool_count[dtype];

		if (!count)
			continue;
		run->pool[dtype] = malloc(count * belay_dtype_bytes((enum belay_dtype)dtype));
		if (!run->pool[dtype])
			return bench_run_failed(run, BELAY_E_NO_MEMORY,
						"out of memory for the inputs");
		data_input((enum belay_dtype)dtype, run->job->seed, (int)run->rank, 0, count,
			   run->pool[dtype]);
	}
	return 0;
}

static int make_buffer(struct bench_run *run, char **ret_buffer)
{
	size_t bytes = (run->job->buffer_bytes / BUFFER_ALIGNMENT + 1) * BUFFER_ALIGNMENT;
	void *buffer;
	int status;

	if (run->job->region_buffers) {
		status = belay_buffer_alloc(run->comm, bytes, &buffer);
		if (status)
			return bench_run_failed(run, status, "belay_buffer_alloc of %zu bytes: %s",
						bytes, belay_status_text(status));
	} else {
		buffer = aligned_alloc(BUFFER_ALIGNMENT, bytes);
		if (!buffer)
			return bench_run_failed(run, BELAY_E_NO_MEMORY,
						"out of memory for the buffers");
		memset(buffer, 0, bytes);
	}
	*ret_buffer = buffer;
	return 0;
}

static int make_buffers(struct bench_run *run)
{
	int status = make_buffer(run, &run->send);

	if (status == 0 && run->job->in_place)
		run->recv = run->send;
	else if (status == 0)
		status = make_buffer(run, &run->recv);
	return status;
}

static void free_buffer(struct bench_run *run, void *buffer)
{
	/* After a verdict a refusal changes nothing: the communicator goes next. */
	if (run->job->region_buffers)
		(void)belay_buffer_free(run->comm, buffer);
	else
		free(buffer);
}

static void free_buffers(struct bench_run *run)
{
	if (run->recv != run->send)
		free_buffer(run, run->recv);
	free_buffer(run, run->send);
}

static void free_pools(struct bench_run *run)
{
	for (uint32_t dtype = 0; dtype < BENCH_DTYPES; dtype++)
		free(run->pool[dtype]);
}

size_t bench_place_of(uint64_t seq)
{
	uint64_t place = data_mix(seq) % (BENCH_PLACES / 2) * 2 + (seq & 1);

	return (size_t)place * BENCH_PLACE_BYTES;
}

static void print_element(char *text, size_t size, const void *at, size_t bytes)
{
	size_t used = 0;

	/* The bits, highest byte first. */
	for (size_t i = bytes; i-- > 0 && used + 3 < size;)
		used += (size_t)snprintf(text + used, size - used, "%02x",
					 ((const unsigned char *)at)[i]);
}

void bench_run_tell_wrong(const struct bench_run *run, uint64_t seq, const struct bench_step *step,
			  const char *is, const char *should)
{
	size_t bytes = belay_dtype_bytes((enum belay_dtype)step->dtype);
	char is_text[20] = "", should_text[20] = "";
	size_t at = 0;

	while (at < step->count && !memcmp(is + at * bytes, should + at * bytes, bytes))
		at++;
	if (at < step->count) {
		print_element(is_text, sizeof(is_text), is + at * bytes, bytes);
		print_element(should_text, sizeof(should_text), should + at * bytes, bytes);
	}
	command_error("rank %" PRIu32 ": seq %" PRIu64
		      ": wrong result: element %zu of %zu is 0x%s, "
		      "the rank-order result is 0x%s",
		      run->rank, seq, at, (size_t)step->count, is_text, should_text);
}

int bench_run_count_wrong(struct bench_run *run, struct bench_step_result *result)
{
	result->wrong++;
	return run->out->wrong++ < WRONG_TOLD;
}

static void check_result(struct bench_run *run, const struct bench_step *step, const char *expected,
			 struct bench_step_result *result)
{
	size_t element = belay_dtype_bytes((enum belay_dtype)step->dtype);

	if (memcmp(run->recv, expected, step->count * element) == 0)
		return;
	if (bench_run_count_wrong(run, result))
		bench_run_tell_wrong(run, run->seq, step, run->recv, expected);
}

void bench_run_tell_touched(struct bench_run *run, uint64_t seq)
{
	run->out->output_touched = 1;
	command_error("rank %" PRIu32 ": seq %" PRIu64 ": the call was refused, yet its output was "
		      "written",
		      run->rank, seq);
}

/* Has a call that was refused for a mismatch left its output alone? */
static void check_untouched(struct bench_run *run, const void *input, size_t bytes)
{
	const void *held = run->job->in_place ? input : run->held;
	size_t held_bytes = run->job->in_place ? bytes : run->held_bytes;

	if (!held || memcmp(run->recv, held, held_bytes) == 0)
		return;
	bench_run_tell_touched(run, run->seq);
}

void bench_run_compute(const struct bench_run *run, const struct bench_step *step)
{
	if (step->gap_ns) {
		while (bench_now_ns() - run->ready_ns < step->gap_ns)
			;
	}
}

/* Makes one call and checks it. ret_ns: its duration. */
static int make_call(struct bench_run *run, const struct bench_step *step,
		     struct bench_step_result *result, uint64_t *ret_ns)
{
	size_t bytes = step->count * belay_dtype_bytes((enum belay_dtype)step->dtype);
	size_t place = bench_place_of(run->seq);
	const char *input = (char *)run->pool[step->dtype] + place;
	const char *expected = (char *)bench_at(run->job, run->job->pool_at[step->dtype]) + place;
	uint64_t start_ns;
	int status;

	memcpy(run->send, input, bytes);
	if (step->in_passes)
		bench_run_compute(run, step);
	else if (bench_barrier_wait(&run->job->barrier, run->job->nranks))
		return bench_run_failed(run, BELAY_E_STATE, "another rank ended early");
	start_ns = bench_now_ns();
	status = belay_allreduce(run->send, run->recv, step->count, (enum belay_dtype)step->dtype,
				 (enum belay_op)run->job->op, run->comm, NULL);
	*ret_ns = bench_now_ns() - start_ns;
	run->ready_ns = start_ns + *ret_ns;
	if (status == BELAY_E_MISMATCH)
		check_untouched(run, input, bytes);
	if (status)
		return bench_run_failed(run, status, "seq %" PRIu64 ": %s", run->seq,
					belay_status_text(status));
	check_result(run, step, expected, result);
	run->held = expected;
	run->held_bytes = bytes;
	run->seq++;
	return 0;
}

void bench_run_keep(struct bench_run *run, uint64_t ns)
{
	bench_calls(run->job, run->rank)[run->calls_done++] = ns;
	/* Release: the command reads durations up to this number, also while we run. */
	atomic_store_explicit(&run->out->calls_done, run->calls_done, memory_order_release);
}

void bench_run_keep_pass(struct bench_run *run, uint64_t number, uint64_t ns)
{
	bench_passes(run->job, run->rank)[number] = ns;
	/* Release: as for calls. */
	atomic_store_explicit(&run->out->passes_done, number + 1, memory_order_release);
}

static int make_calls(struct bench_run *run, const struct bench_step *step,
		      struct bench_step_result *result, uint64_t calls, int timed)
{
	uint64_t ns = 0;
	int status = 0;

	for (uint64_t i = 0; i < calls && status == 0; i++) {
		status = make_call(run, step, result, &ns);
		if (status == 0 && timed)
			bench_run_keep(run, ns);
	}
	return status;
}

static int make_pass(struct bench_run *run, const struct bench_step *step,
		     struct bench_step_result *result, uint64_t number)
{
	uint64_t start_ns = bench_now_ns();
	int status = belay_pass_begin(run->comm, NULL);

	run->ready_ns = start_ns;
	if (status)
		return bench_run_failed(run, status, "beginning of pass %" PRIu64 ": %s",
					number + 1, belay_status_text(status));
	status = make_calls(run, step, result, step->calls, 1);
	if (status)
		return status;
	status = belay_pass_end(run->comm, NULL);
	if (status)
		return bench_run_failed(run, status, "commit of pass %" PRIu64 ": %s", number + 1,
					belay_status_text(status));
	bench_run_keep_pass(run, number, bench_now_ns() - start_ns);
	return 0;
}

static uint64_t calls_counted(const struct bench_run *run)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};

	return belay_comm_statistics(run->comm, &statistics) ? 0 : statistics.calls;
}

/* Calls on a device are counted by the watcher, as it comes to their records: soon. */
static void await_records(const struct bench_run *run, uint64_t calls)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t until_ns = bench_now_ns() + RECORDS_NS;

	while (calls_counted(run) < calls && bench_now_ns() < until_ns)
		(void)nanosleep(&pause, NULL); /* too short a sleep does no harm */
}

/* Adds to a step's result what has come to the statistics since `before`. */
static void note_paths(struct bench_run *run, const struct belay_statistics *before,
		       struct bench_step_result *result)
{
	struct belay_statistics after = {.size = sizeof(after)};
	struct belay_health health = {.size = sizeof(health)};

	if (belay_comm_statistics(run->comm, &after) || belay_comm_health(run->comm, &health))
		return; /* then the row names no path */
	for (int path = 0; path < 8; path++)
		result->calls_by_path[path] =
			after.calls_by_path[path] - before->calls_by_path[path];
	result->algorithm = health.last_algorithm;
}

static int make_host_step(struct bench_run *run, const struct bench_step *step,
			  struct bench_step_result *result)
{
	int status = 0;

	if (step->in_passes) {
		for (uint64_t i = 0; i < step->passes && status == 0; i++)
			status = make_pass(run, step, result, step->first_pass + i);
	} else {
		status = make_calls(run, step, result, step->warmup, 0);
		if (status == 0)
			status = make_calls(run, step, result, step->calls, 1);
	}
	return status;
}

static int make_step(struct bench_run *run, const struct bench_step *step,
		     struct bench_step_result *result)
{
	struct belay_statistics before = {.size = sizeof(before)};
	uint64_t first_seq = run->seq;
	int status = belay_comm_statistics(run->comm, &before);

	if (status)
		return bench_run_failed(run, status, "statistics: %s", belay_status_text(status));
	if (run->device) {
		status = device_run_step(run, step, result);
		if (status == 0)
			await_records(run, before.calls + run->seq - first_seq);
	} else {
		status = make_host_step(run, step, result);
	}
	note_paths(run, &before, result);
	return status;
}

static int make_steps(struct bench_run *run)
{
	int status = run->job->script_calls ? bench_script_run(run) : 0;

	for (uint32_t i = 0; i < run->job->nsteps && status == 0; i++)
		status = make_step(run, &bench_steps(run->job)[i],
				   bench_result(run->job, run->rank, i));
	return status;
}

static void report_statistics(struct bench_run *run)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};

	if (belay_comm_statistics(run->comm, &statistics))
		return;
	run->out->rescued_seqs = statistics.rescued_seqs;
	run->out->faults_done = statistics.faults_done;
	run->out->has_statistics = 1;
}

static void report_verdict(struct bench_run *run)
{
	struct belay_verdict verdict = {.size = sizeof(verdict)};

	if (belay_comm_verdict(run->comm, &verdict))
		return;
	run->out->verdict_seq = verdict.seq;
	run->out->verdict_pass = verdict.pass;
	run->out->verdict_cause = verdict.cause;
	run->out->verdict_rank = verdict.rank;
	snprintf(run->out->verdict_text, sizeof(run->out->verdict_text), "%s", verdict.text);
	run->out->has_verdict = 1;
}

static int join(struct bench_run *run, const char *device)
{
	struct belay_config config = BELAY_CONFIG_INIT;
	int status;

	config.device = device;
	config.first_seq = run->job->first_seq;
	run->seq = config.first_seq ? config.first_seq : 1;
	status = belay_comm_create(&run->comm, &run->job->id, (int)run->rank, (int)run->job->nranks,
				   &config);
	if (status)
		return bench_run_failed(run, status, "cannot create the communicator: %s: %s",
					belay_status_text(status), belay_last_error());
	return 0;
}

static void leave(struct bench_run *run)
{
	int status = belay_comm_destroy(run->comm);

	if (status)
		bench_run_failed(run, status, "end of the communicator: %s",
				 belay_status_text(status));
}

static int open_device(struct bench_run *run, const char **ret_device)
{
	/* The job says which device, or none; the variable would win over the config. */
	if (unsetenv("BELAY_DEVICE"))
		return bench_run_failed(run, BELAY_E_NO_MEMORY, "out of memory");
	return run->job->devices ? device_run_open(run, ret_device) : 0;
}

int bench_rank_run(struct bench_job *job, uint32_t rank)
{
	struct bench_run run = {.job = job, .out = bench_rank(job, rank), .rank = rank};
	const char *device = "host";

	if (job->pin)
		pin(rank);
	if (make_pools(&run) || open_device(&run, &device) || join(&run, device))
		goto out;
	if ((run.device ? device_run_prepare(&run) : make_buffers(&run)) == 0)
		(void)make_steps(&run); /* what failed stands in the job */
	bench_barrier_break(&job->barrier);
	report_statistics(&run);
	report_verdict(&run);
	if (run.device)
		device_run_close(&run);
	else
		free_buffers(&run);
	leave(&run);
out:
	device_run_close(&run);
	free_pools(&run);
	bench_barrier_break(&job->barrier);
	return run.out->status ? 1 : 0;
}
