/* SPDX-License-Identifier: Apache-2.0 */
/* Built without CUDA: there is no device, so that nothing but the first function is ever called. */
#include "tools/bench/bench_device.h"

static const char why[] = "this belay is built without CUDA";

int bench_device_count(const char **ret_why)
{
	*ret_why = why;
	return 0;
}

int bench_device_linked(int one, int other)
{
	(void)one;
	(void)other;
	return 0;
}

const char *bench_device_error(void)
{
	return why;
}

int bench_device_use(int ordinal, struct CUstream_st **ret_stream)
{
	(void)ordinal;
	(void)ret_stream;
	return -1;
}

int bench_device_alloc(size_t bytes, void **ret_memory)
{
	(void)bytes;
	(void)ret_memory;
	return -1;
}

void bench_device_free(void *memory)
{
	(void)memory;
}

int bench_device_host_alloc(size_t bytes, void **ret_memory)
{
	(void)bytes;
	(void)ret_memory;
	return -1;
}

void bench_device_host_free(void *memory)
{
	(void)memory;
}

int bench_device_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
	(void)to;
	(void)from;
	(void)bytes;
	(void)stream;
	return -1;
}

int bench_device_done(struct CUstream_st *stream)
{
	(void)stream;
	return -1;
}

int bench_device_capture(struct CUstream_st *stream)
{
	(void)stream;
	return -1;
}

int bench_device_captured(struct CUstream_st *stream, struct bench_graph **ret_graph)
{
	(void)stream;
	(void)ret_graph;
	return -1;
}

int bench_graph_launch(struct bench_graph *graph, struct CUstream_st *stream)
{
	(void)graph;
	(void)stream;
	return -1;
}

void bench_graph_free(struct bench_graph *graph)
{
	(void)graph;
}

int bench_event_create(struct bench_event **ret_event)
{
	(void)ret_event;
	return -1;
}

void bench_event_free(struct bench_event *event)
{
	(void)event;
}

int bench_event_record(struct bench_event *event, struct CUstream_st *stream)
{
	(void)event;
	(void)stream;
	return -1;
}

int bench_event_elapsed(struct bench_event *begin, struct bench_event *end, uint64_t *ret_ns)
{
	(void)begin;
	(void)end;
	(void)ret_ns;
	return -1;
}

int bench_device_compare(const void *is, const void *should, size_t bytes, uint64_t *wrong,
			 struct CUstream_st *stream)
{
	(void)is;
	(void)should;
	(void)bytes;
	(void)wrong;
	(void)stream;
	return -1;
}

int bench_device_delay(uint64_t ns, struct CUstream_st *stream)
{
	(void)ns;
	(void)stream;
	return -1;
}

int bench_device_empty(struct CUstream_st *stream)
{
	(void)stream;
	return -1;
}
