/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tools/bench/bench_device.h"

#include <cuda_runtime_api.h>
#include <stdio.h>

#include "tools/bench/bench_device_kernels.h"

static _Thread_local char last_error[256] = "";
static _Thread_local cudaStream_t own_stream; /* of bench_device_use() */

/* 0, or -1 and the failure kept; the thread's own error word of CUDA is cleared. */
static int check(int code, const char *call)
{
	if (code == cudaSuccess)
		return 0;
	(void)cudaGetLastError(); /* cleared; what it says is `code` */
	snprintf(last_error, sizeof(last_error), "%s: error %d: %s", call, code,
		 cudaGetErrorString((cudaError_t)code));
	return -1;
}

int bench_device_linked(int one, int other)
{
	int native = 0;

	/* What cannot be asked is not linked. */
	return cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, one,
					 other) == cudaSuccess &&
	       native;
}

const char *bench_device_error(void)
{
	return last_error;
}

int bench_device_count(const char **ret_why)
{
	int count = 0;

	if (check(cudaGetDeviceCount(&count), "cudaGetDeviceCount")) {
		*ret_why = last_error;
		return 0;
	}
	*ret_why = "no CUDA device is visible";
	return count;
}

int bench_device_use(int ordinal, struct CUstream_st **ret_stream)
{
	cudaStream_t stream;

	/* cudaSetDevice() makes the context since CUDA 12. */
	if (check(cudaSetDevice(ordinal), "cudaSetDevice") || check(cudaFree(NULL), "cudaFree") ||
	    check(bench_kernels_load(), "loading the bench's kernels") ||
	    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
		  "cudaStreamCreateWithFlags"))
		return -1;
	own_stream = stream;
	*ret_stream = stream;
	return 0;
}

int bench_device_alloc(size_t bytes, void **ret_memory)
{
	void *memory;

	if (check(cudaMalloc(&memory, bytes), "cudaMalloc"))
		return -1;
	/* Not the whole device: kernels of ranks that are threads of this process may wait there.
	 */
	if (check(cudaMemsetAsync(memory, 0, bytes, own_stream), "cudaMemsetAsync") ||
	    check(cudaStreamSynchronize(own_stream), "cudaStreamSynchronize")) {
		(void)cudaFree(memory);
		return -1;
	}
	*ret_memory = memory;
	return 0;
}

void bench_device_free(void *memory)
{
	if (memory)
		(void)cudaFree(memory); /* at the end of a run; nothing could be done */
}

int bench_device_host_alloc(size_t bytes, void **ret_memory)
{
	unsigned char *memory;

	if (check(cudaHostAlloc((void **)&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc"))
		return -1;
	for (size_t i = 0; i < bytes; i++)
		memory[i] = 0;
	*ret_memory = memory;
	return 0;
}

void bench_device_host_free(void *memory)
{
	if (memory)
		(void)cudaFreeHost(memory); /* as above */
}

int bench_device_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream)
{
	return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream),
		     "cudaMemcpyAsync");
}

int bench_device_done(struct CUstream_st *stream)
{
	cudaError_t code = cudaStreamQuery(stream);

	if (code == cudaErrorNotReady) {
		(void)cudaGetLastError(); /* not an error */
		return 0;
	}
	return check(code, "cudaStreamQuery") ? -1 : 1;
}

int bench_device_capture(struct CUstream_st *stream)
{
	return check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
		     "cudaStreamBeginCapture");
}

int bench_device_captured(struct CUstream_st *stream, struct bench_graph **ret_graph)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	int status;

	if (check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"))
		return -1;
	status = check(cudaGraphInstantiate(&exec, graph, 0), "cudaGraphInstantiate");
	(void)cudaGraphDestroy(graph); /* what is launched is a copy */
	if (status)
		return -1;
	if (check(cudaGraphUpload(exec, stream), "cudaGraphUpload")) {
		(void)cudaGraphExecDestroy(exec);
		return -1;
	}
	*ret_graph = (struct bench_graph *)exec;
	return 0;
}

int bench_graph_launch(struct bench_graph *graph, struct CUstream_st *stream)
{
	return check(cudaGraphLaunch((cudaGraphExec_t)graph, stream), "cudaGraphLaunch");
}

void bench_graph_free(struct bench_graph *graph)
{
	if (graph)
		(void)cudaGraphExecDestroy((cudaGraphExec_t)graph); /* at the end of a step */
}

int bench_event_create(struct bench_event **ret_event)
{
	cudaEvent_t event;

	if (check(cudaEventCreate(&event), "cudaEventCreate"))
		return -1;
	*ret_event = (struct bench_event *)event;
	return 0;
}

void bench_event_free(struct bench_event *event)
{
	if (event)
		(void)cudaEventDestroy((cudaEvent_t)event); /* at the end of a run */
}

int bench_event_record(struct bench_event *event, struct CUstream_st *stream)
{
	return check(cudaEventRecord((cudaEvent_t)event, stream), "cudaEventRecord");
}

int bench_event_elapsed(struct bench_event *begin, struct bench_event *end, uint64_t *ret_ns)
{
	float ms;

	if (check(cudaEventElapsedTime(&ms, (cudaEvent_t)begin, (cudaEvent_t)end),
		  "cudaEventElapsedTime"))
		return -1;
	*ret_ns = (uint64_t)((double)ms * 1e6 + 0.5);
	return 0;
}

int bench_device_compare(const void *is, const void *should, size_t bytes, uint64_t *wrong,
			 struct CUstream_st *stream)
{
	return check(bench_launch_compare(is, should, bytes, wrong, stream), "compare kernel");
}

int bench_device_delay(uint64_t ns, struct CUstream_st *stream)
{
	return check(bench_launch_delay(ns, stream), "delay kernel");
}

int bench_device_empty(struct CUstream_st *stream)
{
	return check(bench_launch_empty(stream), "empty kernel");
}
