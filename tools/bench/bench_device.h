/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belay-bench asks of the GPU by itself, beside libbelay: buffers, streams, graphs, events,
 * and three small kernels. One file implements it over CUDA (bench_device_cuda.c), one says that
 * belay was built without (bench_device_none.c), and tests may bring one that plays a GPU on the
 * CPU.
 *
 * Functions return 0 or -1; then bench_device_error() tells. All work goes to the device that
 * bench_device_use() has chosen. Nothing waits without a bound but bench_device_use(), the
 * allocations, and copies from and to ordinary host memory, which wait for the copy.
 */
#ifndef BELAY_TOOLS_BENCH_DEVICE_H
#define BELAY_TOOLS_BENCH_DEVICE_H

#include <stddef.h>
#include <stdint.h>

struct CUstream_st;
struct bench_event;
struct bench_graph;

/* How many devices there are. 0: none can be used, and *ret_why (static) says what is missing.
 * Makes no context. */
int bench_device_count(const char **ret_why);

/* 1: the one can change the other's memory atomically, which is so over NVLink. Makes no context.
 */
int bench_device_linked(int one, int other);

/* What failed last in this thread: the foreign call and its code in words. */
const char *bench_device_error(void);

/* Takes a device for this thread: its context is there and the kernels below are loaded, so that no
 * later launch loads one beside a kernel that waits. *ret_stream is the thread's until its end. */
int bench_device_use(int ordinal, struct CUstream_st **ret_stream);

/* Device memory, zeroed on the stream of bench_device_use(), which is waited for. */
int bench_device_alloc(size_t bytes, void **ret_memory);
void bench_device_free(void *memory);
/* Host memory that the device can write, zeroed; the same address on both sides. */
int bench_device_host_alloc(size_t bytes, void **ret_memory);
void bench_device_host_free(void *memory);

/* Copies on the stream, between any kinds of memory. */
int bench_device_copy(void *to, const void *from, size_t bytes, struct CUstream_st *stream);

/* 1: all work on the stream is done; 0: not yet; -1: an error, an earlier kernel's too. */
int bench_device_done(struct CUstream_st *stream);

/* Calls between the two go into a graph; *ret_graph is ready to be launched and the caller's. After
 * a failure the capture is over all the same. */
int bench_device_capture(struct CUstream_st *stream);
int bench_device_captured(struct CUstream_st *stream, struct bench_graph **ret_graph);
int bench_graph_launch(struct bench_graph *graph, struct CUstream_st *stream);
void bench_graph_free(struct bench_graph *graph); /* NULL is allowed */

int bench_event_create(struct bench_event **ret_event);
void bench_event_free(struct bench_event *event); /* NULL is allowed */
int bench_event_record(struct bench_event *event, struct CUstream_st *stream);
/* Time between two events that have passed, nanoseconds. */
int bench_event_elapsed(struct bench_event *begin, struct bench_event *end, uint64_t *ret_ns);

/* Kernels. compare: *wrong (host memory of the above) = how many bytes differ. delay: one thread
 * waits so long. empty: does nothing, with the parameters of a call of belay's, near enough. */
int bench_device_compare(const void *is, const void *should, size_t bytes, uint64_t *wrong,
			 struct CUstream_st *stream);
int bench_device_delay(uint64_t ns, struct CUstream_st *stream);
int bench_device_empty(struct CUstream_st *stream);

#endif /* BELAY_TOOLS_BENCH_DEVICE_H */
