/* SPDX-License-Identifier: Apache-2.0 */
/* bench_device.h over the GPU that is played on the CPU (cpu_gpu.h): belay-bench and the tests in
 * tests/gpu then run where no GPU is. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/cpu_gpu_inside.h"
#include "tools/bench/bench_device.h"

struct bench_event {
	_Atomic uint64_t ns;
};

static _Thread_local char last_error[200];

static int check(int code, const char *call)
{
	if (code == 0)
		return 0;
	(void)snprintf(last_error, sizeof(last_error), "%s: error %d", call, code);
	return -1;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int bench_device_count(const char **ret_why)
{
	int devices = 0;

	return gpu_find(&devices, ret_why) ? devices : 0;
}

int bench_device_linked(int one, int other)
{
	bool access, native = false, nvlink;

	return gpu_peer_facts(one, other, &access, &native, &nvlink) && native;
}

const char *bench_device_error(void)
{
	return last_error;
}

static _Thread_local int current;

int bench_device_use(int ordinal, struct CUstream_st **ret_stream)
{
	struct CUstream_st *stream;

	cpu_gpu_set_current(ordinal);
	current = ordinal;
	stream = cpu_gpu_stream_create();
	if (!stream)
		return check(CPU_GPU_NO_MEMORY, "cpu_gpu_stream_create");
	*ret_stream = stream;
	return 0;
}

static int take(enum gpu_pointer kind, size_t bytes, void **ret_memory)
{
	void *memory = cpu_gpu_memory(kind, current, bytes);

	if (!memory)
		return check(CPU_GPU_NO_MEMORY, "cpu_gpu_memory");
	*ret_memory = memory;
	return 0;
}

int bench_device_alloc(size_t bytes, void **ret_memory)
{
	return take(GPU_POINTER_DEVICE, bytes, ret_memory);
}

void bench_device_free(void *memory)
{
	if (!memory)
		return;
	cpu_gpu_wait_to_free();
	cpu_gpu_memory_free(memory);
}

int bench_device_host_alloc(size_t bytes, void **ret_memory)
{
	return take(GPU_POINTER_HOST, bytes, ret_memory);
}

void bench_device_host_free(void *memory)
{
	bench_device_free(memory);
}

int bench_device_done(struct CUstream_st *stream)
{
	struct gpu_error error = {0};
	int done = gpu_stream_done(stream, &error);

	return done < 0 ? check(error.code ? error.code : -1, error.text) : done;
}

int bench_device_capture(struct CUstream_st *stream)
{
	return check(cpu_gpu_capture_begin(stream, CPU_GPU_THREAD_LOCAL), "cpu_gpu_capture_begin");
}

int bench_device_captured(struct CUstream_st *stream, struct bench_graph **ret_graph)
{
	struct cpu_gpu_graph *graph;

	if (check(cpu_gpu_capture_end(stream, &graph), "cpu_gpu_capture_end"))
		return -1;
	*ret_graph = (struct bench_graph *)graph;
	return 0;
}

int bench_graph_launch(struct bench_graph *graph, struct CUstream_st *stream)
{
	return check(cpu_gpu_graph_launch((const struct cpu_gpu_graph *)graph, stream),
		     "cpu_gpu_graph_launch");
}

void bench_graph_free(struct bench_graph *graph)
{
	if (graph)
		cpu_gpu_graph_free((struct cpu_gpu_graph *)graph);
}

/* ---- what the stream's thread carries out ---------------------------------------------------- */

struct copy {
	void *to;
	const void *from;
	size_t bytes;
};

static enum cpu_gpu_step copy(const void *arguments, void *run)
{
	const struct copy *copy = arguments;

	(void)run;
	if (copy->bytes)
		memcpy(copy->to, copy->from, copy->bytes);
	return CPU_GPU_ENDED;
}

int bench_device_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
	static const struct cpu_gpu_kernel kernel = {.name = "copy",
						     .argument_bytes = sizeof(struct copy),
						     .run_bytes = 8,
						     .step = copy};

	return check(cpu_gpu_enqueue(stream, &kernel,
				     &(struct copy){.to = to, .from = from, .bytes = bytes}),
		     "copy");
}

struct compare {
	const unsigned char *is, *should;
	size_t bytes;
	uint64_t *wrong;
};

static enum cpu_gpu_step compare(const void *arguments, void *run)
{
	const struct compare *compare = arguments;
	uint64_t wrong = 0;

	(void)run;
	for (size_t i = 0; i < compare->bytes; i++)
		wrong += compare->is[i] != compare->should[i];
	store_word(compare->wrong, wrong);
	return CPU_GPU_ENDED;
}

int bench_device_compare(const void *is, const void *should, size_t bytes, uint64_t *wrong,
			 struct CUstream_st *stream)
{
	static const struct cpu_gpu_kernel kernel = {.name = "compare",
						     .argument_bytes = sizeof(struct compare),
						     .run_bytes = 8,
						     .step = compare};

	return check(cpu_gpu_enqueue(
			     stream, &kernel,
			     &(struct compare){
				     .is = is, .should = should, .bytes = bytes, .wrong = wrong}),
		     "compare");
}

struct delay {
	uint64_t ns;
};

static enum cpu_gpu_step delay(const void *arguments, void *run)
{
	const struct delay *delay = arguments;
	uint64_t *start_ns = run;

	if (!*start_ns)
		*start_ns = now_ns();
	return now_ns() - *start_ns < delay->ns ? CPU_GPU_WAITING : CPU_GPU_ENDED;
}

int bench_device_delay(uint64_t ns, struct CUstream_st *stream)
{
	static const struct cpu_gpu_kernel kernel = {.name = "delay",
						     .argument_bytes = sizeof(struct delay),
						     .run_bytes = sizeof(uint64_t),
						     .step = delay};

	return check(cpu_gpu_enqueue(stream, &kernel, &(struct delay){.ns = ns}), "delay");
}

int bench_device_empty(struct CUstream_st *stream)
{
	return bench_device_delay(0, stream);
}

/* ---- events ---------------------------------------------------------------------------------- */

struct record {
	struct bench_event *event;
};

static enum cpu_gpu_step record(const void *arguments, void *run)
{
	const struct record *record = arguments;

	(void)run;
	atomic_store_explicit(&record->event->ns, now_ns(), memory_order_release);
	return CPU_GPU_ENDED;
}

int bench_event_create(struct bench_event **ret_event)
{
	struct bench_event *event = calloc(1, sizeof(*event));

	if (!event)
		return check(CPU_GPU_NO_MEMORY, "calloc");
	*ret_event = event;
	return 0;
}

void bench_event_free(struct bench_event *event)
{
	free(event);
}

int bench_event_record(struct bench_event *event, struct CUstream_st *stream)
{
	static const struct cpu_gpu_kernel kernel = {.name = "record",
						     .argument_bytes = sizeof(struct record),
						     .run_bytes = 8,
						     .step = record};

	return check(cpu_gpu_enqueue(stream, &kernel, &(struct record){.event = event}), "record");
}

int bench_event_elapsed(struct bench_event *begin, struct bench_event *end, uint64_t *ret_ns)
{
	*ret_ns = atomic_load_explicit(&end->ns, memory_order_acquire) -
		  atomic_load_explicit(&begin->ns, memory_order_acquire);
	return 0;
}
