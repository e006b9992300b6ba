/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_device_run.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/bench/bench_data.h"
#include "tools/command_line.h"

/* Buffers of a slot begin at multiples of this. */
#define SLOT_ALIGNMENT 256u
/* What the slots of a graph that makes a pass take at most, bytes in each direction. */
#define PASS_SLOTS_BYTES (UINT64_C(64) << 20)
/* Polls of the stream before a rank yields. */
#define SPINS 2000
/* How often a rank that waits asks for a verdict. */
#define ASK_NS UINT64_C(1000000)
/* Kernels leave at once when there is a verdict; a stream that is busy so long after it hangs. */
#define LEAVE_NS UINT64_C(10000000000)
/* Longest wait for the records of calls that have been made. */
#define RECORDS_NS UINT64_C(200000000)
/* Longest wait for the verdict that must follow when something is wrong. */
#define VERDICT_NS UINT64_C(3000000000)

/* ---- errors and verdicts --------------------------------------------------------------------- */

static int verdict_of(const struct bench_run *run, struct belay_verdict *verdict)
{
	*verdict = (struct belay_verdict){.size = sizeof(*verdict)};
	return belay_comm_verdict(run->comm, verdict) == 0;
}

/* The same, for when one is on its way: the watcher decides it in its own time. */
static int await_verdict(const struct bench_run *run, struct belay_verdict *verdict)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t until_ns = bench_now_ns() + VERDICT_NS;

	while (!verdict_of(run, verdict)) {
		if (bench_now_ns() > until_ns)
			return 0;
		(void)nanosleep(&pause, NULL); /* too short a sleep does no harm */
	}
	return 1;
}

int device_run_broken(struct bench_run *run)
{
	struct belay_verdict verdict;

	(void)bench_run_failed(run, BELAY_E_SYSTEM, "%s", bench_device_error());
	/* A context that is lost is soon the verdict of all ranks, and belongs into the results. */
	if (run->comm)
		(void)await_verdict(run, &verdict);
	return BELAY_E_SYSTEM;
}

/* ---- waiting --------------------------------------------------------------------------------- */

/* Looks for a verdict now and then; -1: the stream should have been empty long ago. */
static int look_for_verdict(const struct bench_run *run, uint64_t *asked_ns, uint64_t *verdict_ns)
{
	uint64_t now_ns = bench_now_ns();
	struct belay_verdict verdict;

	if (now_ns - *asked_ns < ASK_NS)
		return 0;
	*asked_ns = now_ns;
	if (!*verdict_ns && verdict_of(run, &verdict))
		*verdict_ns = now_ns;
	return *verdict_ns && now_ns - *verdict_ns > LEAVE_NS ? -1 : 0;
}

int device_run_wait(struct bench_run *run)
{
	uint64_t asked_ns = bench_now_ns(), verdict_ns = 0;

	for (unsigned polls = 0;; polls += polls < SPINS) {
		int done = bench_device_done(run->device->stream);

		if (done > 0)
			return 0;
		if (done < 0)
			return device_run_broken(run);
		if (run->comm && look_for_verdict(run, &asked_ns, &verdict_ns))
			return bench_run_failed(run, BELAY_E_TIMEOUT,
						"the stream is still busy 10 s after the verdict");
		if (polls >= SPINS)
			(void)sched_yield(); /* never fails on Linux */
	}
}

/* ---- enqueueing ------------------------------------------------------------------------------ */

int device_run_put_input(struct bench_run *run, uint64_t seq, uint32_t slot)
{
	struct device_run *device = run->device;
	const char *input = device->inputs[device->step->dtype] + bench_place_of(seq);

	if (bench_device_copy(device_send(device, slot), input, device_bytes(device->step),
			      device->stream))
		return device_run_broken(run);
	if (run->job->in_place)
		device->held[slot] = input;
	return 0;
}

int device_run_call(struct bench_run *run, uint64_t seq, uint32_t slot)
{
	struct device_run *device = run->device;
	int status = belay_allreduce(device_send(device, slot), device_recv(device, slot),
				     device->step->count, (enum belay_dtype)device->step->dtype,
				     (enum belay_op)run->job->op, run->comm, device->stream);

	if (status)
		return bench_run_failed(run, status, "seq %" PRIu64 ": %s", seq,
					belay_status_text(status));
	return 0;
}

void device_run_note(struct bench_run *run, uint64_t seq, uint32_t slot, int timed)
{
	struct device_run *device = run->device;
	const char *should = device->expected[device->step->dtype] + bench_place_of(seq);

	device->call[device->ncalls++] = (struct device_call){.seq = seq,
							      .slot = slot,
							      .timed = timed,
							      .should = should,
							      .held = device->held[slot]};
	device->held[slot] = should;
}

int device_run_compare(struct bench_run *run, uint32_t index)
{
	struct device_run *device = run->device;
	const struct device_call *call = &device->call[index];

	if (bench_device_compare(device_recv(device, call->slot), call->should,
				 device_bytes(device->step), &device->wrong[index], device->stream))
		return device_run_broken(run);
	return 0;
}

/* ---- settling -------------------------------------------------------------------------------- */

/* Is what a slot holds still the output of that call? */
static int is_last_of_slot(const struct device_run *device, uint32_t index)
{
	for (uint32_t later = index + 1; later < device->ncalls; later++) {
		if (device->call[later].slot == device->call[index].slot)
			return 0;
	}
	return 1;
}

/* Fetches a result and, behind it, what it should be; the caller frees. NULL: it is there no more,
 * or cannot be had. */
static char *fetch(struct bench_run *run, uint32_t index)
{
	struct device_run *device = run->device;
	const struct device_call *call = &device->call[index];
	size_t bytes = device_bytes(device->step);
	char *texts = is_last_of_slot(device, index) ? malloc(2 * bytes) : NULL;

	if (!texts)
		return NULL;
	if (bench_device_copy(texts, device_recv(device, call->slot), bytes, device->stream) ||
	    bench_device_copy(texts + bytes, call->should, bytes, device->stream) ||
	    device_run_wait(run)) {
		free(texts);
		return NULL;
	}
	return texts;
}

/* Tells the first wrong element, where it can still be had. */
static void tell_wrong(struct bench_run *run, uint32_t index)
{
	struct device_run *device = run->device;
	uint64_t seq = device->call[index].seq;
	char *texts = fetch(run, index);

	if (texts)
		bench_run_tell_wrong(run, seq, device->step, texts,
				     texts + device_bytes(device->step));
	else
		command_error("rank %" PRIu32 ": seq %" PRIu64 ": wrong result: %" PRIu64 " bytes",
			      run->rank, seq, device->wrong[index]);
	free(texts);
}

static void count_wrong(struct bench_run *run, uint32_t index)
{
	if (bench_run_count_wrong(run, run->device->result))
		tell_wrong(run, index);
}

/* ---- results of NCCL ------------------------------------------------------------------------- */

static uint64_t nccl_calls(const struct bench_run *run)
{
	struct belay_statistics statistics = {.size = sizeof(statistics)};

	return belay_comm_statistics(run->comm, &statistics)
		       ? 0
		       : statistics.calls_by_path[BELAY_PATH_NCCL];
}

/* Do the calls of this step go on NCCL, which rounds in an order of its own? Known from their
 * records, which the watcher comes to in its time. */
static int goes_on_nccl(struct bench_run *run)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct device_run *device = run->device;
	uint64_t until_ns = bench_now_ns() + RECORDS_NS;

	while (!device->nccl_known) {
		device->nccl = nccl_calls(run) > device->nccl_before;
		device->nccl_known = device->nccl || bench_now_ns() > until_ns;
		if (!device->nccl_known)
			(void)nanosleep(&pause, NULL); /* too short a sleep does no harm */
	}
	return device->nccl;
}

/* Sum of the words, each mixed with its place: the same on ranks that have the same. */
static uint64_t digest_of(const char *text, size_t bytes)
{
	uint64_t digest = 0, word;

	for (size_t at = 0; at < bytes; at += sizeof(word)) {
		word = 0;
		memcpy(&word, text + at, bytes - at < sizeof(word) ? bytes - at : sizeof(word));
		digest += data_mix(word ^ data_mix(at));
	}
	return digest;
}

/* Near enough, and, once all ranks' words are together, alike on all of them. */
static void check_rounded(struct bench_run *run, uint32_t index)
{
	struct device_run *device = run->device;
	const struct bench_step *step = device->step;
	const struct device_call *call = &device->call[index];
	enum belay_dtype dtype = (enum belay_dtype)step->dtype;
	size_t first = (size_t)(call->should - device->expected[dtype]) / belay_dtype_bytes(dtype);
	char *texts;

	if (!is_last_of_slot(device, index))
		return; /* another call has written there since */
	texts = fetch(run, index);
	if (!texts || !data_is_close(dtype, (enum belay_op)run->job->op, run->job->seed,
				     (int)run->job->nranks, first, step->count, texts))
		count_wrong(run, index);
	else
		device->result->digest += digest_of(texts, device_bytes(step));
	free(texts);
}

static int keep_time(struct bench_run *run, uint32_t index)
{
	struct device_run *device = run->device;
	uint64_t ns;

	if (bench_event_elapsed(device->begin[index], device->end[index], &ns))
		return device_run_broken(run);
	bench_run_keep(run, ns);
	return 0;
}

static int settle_call(struct bench_run *run, uint32_t index)
{
	struct device_run *device = run->device;

	if (device->wrong[index] && goes_on_nccl(run))
		check_rounded(run, index);
	else if (device->wrong[index])
		count_wrong(run, index);
	return device->call[index].timed ? keep_time(run, index) : 0;
}

/* Has the call that was refused for a mismatch left its output alone? */
static int check_untouched(struct bench_run *run, uint32_t index)
{
	struct device_run *device = run->device;
	const struct device_call *call = &device->call[index];
	int status;

	if (!call->held)
		return 0;
	if (bench_device_compare(device_recv(device, call->slot), call->held,
				 device_bytes(device->step), &device->wrong[index], device->stream))
		return device_run_broken(run);
	status = device_run_wait(run);
	if (status == 0 && device->wrong[index])
		bench_run_tell_touched(run, call->seq);
	return status;
}

static int any_wrong(const struct device_run *device)
{
	for (uint32_t i = 0; i < device->ncalls; i++) {
		if (device->wrong[i])
			return 1;
	}
	return 0;
}

/* Calls before the verdict's are as good as ever: their results count. */
static int settle_calls(struct bench_run *run, const struct belay_verdict *verdict)
{
	struct device_run *device = run->device;
	int status = 0;

	for (uint32_t i = 0; i < device->ncalls && status == 0; i++) {
		uint64_t seq = device->call[i].seq;

		if (!verdict || seq < verdict->seq)
			status = settle_call(run, i);
		else if (seq == verdict->seq && verdict->cause == BELAY_CAUSE_MISMATCH)
			status = check_untouched(run, i);
	}
	return status;
}

int device_run_settle(struct bench_run *run)
{
	struct device_run *device = run->device;
	struct belay_verdict verdict;
	int stands;
	int status = device_run_wait(run);

	if (status)
		return status;
	stands = verdict_of(run, &verdict);
	/* A kernel that has given up may be ahead of the verdict. */
	if (!stands && any_wrong(device))
		stands = await_verdict(run, &verdict);
	status = settle_calls(run, stands ? &verdict : NULL);
	device->ncalls = 0;
	if (status == 0 && stands)
		status = bench_run_failed(run, verdict.status, "seq %" PRIu64 ": %s", verdict.seq,
					  belay_status_text(verdict.status));
	return status;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static size_t stride_of(const struct bench_step *step)
{
	return (device_bytes(step) / SLOT_ALIGNMENT + 1) * SLOT_ALIGNMENT;
}

/* How many pairs of buffers a step's calls go through. In place a graph's every call has one of its
 * own: the next call on it would work on a result. A pass in a graph is checked after its end, as
 * much of it as there are buffers for. */
static uint32_t slots_of(const struct bench_job *job, const struct bench_step *step)
{
	uint64_t slots = job->buffers;

	if (!job->graph)
		return job->buffers;
	if (job->in_place)
		return (uint32_t)step->per_sample;
	if (step->in_passes && slots < PASS_SLOTS_BYTES / stride_of(step))
		slots = PASS_SLOTS_BYTES / stride_of(step);
	return (uint32_t)(slots < step->per_sample ? slots : step->per_sample);
}

int device_run_step(struct bench_run *run, const struct bench_step *step,
		    struct bench_step_result *result)
{
	struct device_run *device = run->device;

	device->step = step;
	device->result = result;
	device->stride = stride_of(step);
	device->nslots = slots_of(run->job, step);
	device->nccl_before = nccl_calls(run);
	device->nccl_known = 0;
	for (uint32_t slot = 0; slot < device->nslots; slot++)
		device->held[slot] = NULL;
	if (run->job->graph)
		return step->in_passes ? device_run_graph_passes(run) : device_run_graph(run);
	return step->in_passes ? device_run_passes(run) : device_run_calls(run);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

int device_run_separate_hosts(uint32_t rank)
{
	static const char *const settings[][2] = {{"NCCL_SOCKET_IFNAME", "lo"},
						  {"NCCL_P2P_DISABLE", "1"},
						  {"NCCL_SHM_DISABLE", "1"},
						  {"NCCL_IB_DISABLE", "1"}};
	char host[32];
	int status;

	if (getenv("NCCL_HOSTID"))
		return 0;
	snprintf(host, sizeof(host), "belay-bench-%" PRIu32, rank);
	status = setenv("NCCL_HOSTID", host, 1);
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]) && status == 0; i++)
		status = setenv(settings[i][0], settings[i][1], 0);
	return status;
}

int device_run_open(struct bench_run *run, const char **ret_device)
{
	static char ordinal[12];
	const struct bench_job *job = run->job;
	uint32_t device = run->rank % job->devices;

	run->device = calloc(1, sizeof(*run->device));
	if (!run->device || (job->nranks > job->devices && device_run_separate_hosts(run->rank)))
		return bench_run_failed(run, BELAY_E_NO_MEMORY, "out of memory");
	if (bench_device_use((int)device, &run->device->stream))
		return device_run_broken(run);
	snprintf(ordinal, sizeof(ordinal), "%" PRIu32, device);
	*ret_device = ordinal;
	return 0;
}

static int upload(struct bench_run *run, const void *from, size_t bytes, char **ret_memory)
{
	void *memory;

	if (bench_device_alloc(bytes, &memory))
		return device_run_broken(run);
	*ret_memory = memory;
	if (bench_device_copy(memory, from, bytes, run->device->stream))
		return device_run_broken(run);
	return device_run_wait(run);
}

static int make_pools(struct bench_run *run)
{
	struct bench_job *job = run->job;
	int status = 0;

	for (uint32_t dtype = BELAY_F32; dtype < BENCH_DTYPES && status == 0; dtype++) {
		size_t bytes = job->pool_count[dtype] * belay_dtype_bytes((enum belay_dtype)dtype);

		if (!bytes)
			continue;
		status = upload(run, run->pool[dtype], bytes, &run->device->inputs[dtype]);
		if (status == 0)
			status = upload(run, bench_at(job, job->pool_at[dtype]), bytes,
					&run->device->expected[dtype]);
	}
	return status;
}

/* Room for the step that needs most of each. */
static void measure(const struct bench_run *run, size_t *ret_bytes, uint32_t *ret_slots,
		    uint32_t *ret_calls)
{
	/* A script has one pair of buffers, and no steps. */
	*ret_bytes = run->job->script_calls ? run->job->buffer_bytes : 0;
	*ret_slots = run->job->script_calls ? 1 : 0;
	*ret_calls = DEVICE_TIMED_MAX;
	for (uint32_t i = 0; i < run->job->nsteps; i++) {
		const struct bench_step *step = &bench_steps(run->job)[i];
		uint32_t slots = slots_of(run->job, step);

		if (slots * stride_of(step) > *ret_bytes)
			*ret_bytes = slots * stride_of(step);
		if (slots > *ret_slots)
			*ret_slots = slots;
		if (step->per_sample > *ret_calls)
			*ret_calls = (uint32_t)step->per_sample;
	}
}

static int make_buffer(struct bench_run *run, size_t bytes, char **ret_buffer)
{
	void *buffer;
	int status;

	if (run->job->region_buffers) {
		status = belay_buffer_alloc(run->comm, bytes, &buffer);
		if (status)
			return bench_run_failed(run, status, "belay_buffer_alloc of %zu bytes: %s",
						bytes, belay_status_text(status));
	} else if (bench_device_alloc(bytes, &buffer)) {
		return device_run_broken(run);
	}
	*ret_buffer = buffer;
	return 0;
}

static int make_buffers(struct bench_run *run, size_t bytes)
{
	struct device_run *device = run->device;
	int status = make_buffer(run, bytes, &device->sends);

	if (status == 0 && run->job->in_place)
		device->recvs = device->sends;
	else if (status == 0)
		status = make_buffer(run, bytes, &device->recvs);
	return status;
}

static int make_words(struct bench_run *run, uint32_t slots, uint32_t calls)
{
	struct device_run *device = run->device;
	void *wrong;

	device->held = calloc(slots, sizeof(*device->held));
	device->call = calloc(calls, sizeof(*device->call));
	if (run->job->host_time) {
		device->host_ns = calloc(run->job->ncalls + 1, sizeof(*device->host_ns));
		device->launch_ns = calloc(run->job->ncalls + 1, sizeof(*device->launch_ns));
	}
	if (!device->held || !device->call ||
	    (run->job->host_time && (!device->host_ns || !device->launch_ns)))
		return bench_run_failed(run, BELAY_E_NO_MEMORY, "out of memory");
	if (bench_device_host_alloc(calls * sizeof(*device->wrong), &wrong))
		return device_run_broken(run);
	device->wrong = wrong;
	return 0;
}

static int make_events(struct bench_run *run)
{
	struct device_run *device = run->device;

	for (uint32_t i = 0; i < DEVICE_TIMED_MAX; i++) {
		if (bench_event_create(&device->begin[i]) || bench_event_create(&device->end[i]))
			return device_run_broken(run);
	}
	return 0;
}

int device_run_prepare(struct bench_run *run)
{
	size_t bytes;
	uint32_t slots, calls;
	int status;

	measure(run, &bytes, &slots, &calls);
	status = make_pools(run);
	if (status == 0)
		status = make_buffers(run, bytes);
	if (status == 0)
		status = make_words(run, slots, calls);
	if (status == 0)
		status = make_events(run);
	return status;
}

static void free_buffer(struct bench_run *run, char *buffer)
{
	/* After a verdict a refusal changes nothing: the communicator goes next. */
	if (run->job->region_buffers && run->comm)
		(void)belay_buffer_free(run->comm, buffer);
	else if (buffer)
		bench_device_free(buffer);
}

/* What CUDA gave. While a kernel is stuck freeing would wait for it: then it goes with the process.
 */
static void free_device_memory(struct bench_run *run)
{
	struct device_run *device = run->device;

	if (!device->stream || bench_device_done(device->stream) == 0)
		return;
	for (uint32_t i = 0; i < DEVICE_TIMED_MAX; i++) {
		bench_event_free(device->begin[i]);
		bench_event_free(device->end[i]);
	}
	if (device->recvs != device->sends)
		free_buffer(run, device->recvs);
	free_buffer(run, device->sends);
	for (uint32_t dtype = 0; dtype < BENCH_DTYPES; dtype++) {
		bench_device_free(device->inputs[dtype]);
		bench_device_free(device->expected[dtype]);
	}
	bench_device_host_free(device->wrong);
}

void device_run_close(struct bench_run *run)
{
	struct device_run *device = run->device;

	if (!device)
		return;
	free_device_memory(run);
	free(device->held);
	free(device->call);
	free(device->host_ns);
	free(device->launch_ns);
	free(device);
	run->device = NULL;
}
