/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU played on the CPU, for tests: it implements runtime/cuda/gpu.h and kernels/symm_kernels.h,
 * so that everything which stands on those two runs with real rank processes where no GPU is. A
 * test links libtest-cpu-gpu.la in place of libbelay-gpu.la.
 *
 *   device memory   anonymous shared memory; a plain pointer, which host code may read and write
 *                   when the stream that works on it is done
 *   regions         memfds, whose descriptors travel as those of a GPU do
 *   host memory     has the same address on the device
 *   streams         a thread each, which carries out what is enqueued, in order; NULL, the legacy
 *                   default stream, is one more. It does not wait for the others, nor they for it
 *   kernels         cpu_gpu_call.c: blocks are state machines, stepped in a random order
 *
 * The GPU belongs to the process: killed, stopped and continued with it. It shows what the protocol
 * does, not what a GPU's weak memory order does: its stores are seen in the order they are made.
 *
 * Environment, read at the first use in a process:
 *   BELAY_TEST_GPU_DEVICES  the machine's devices that this process sees, by ordinal: "0,3" makes
 *                           device 3 of the machine ordinal 1 here; default "0,1,2,3,4,5,6,7"; "":
 *                           none
 *   BELAY_TEST_GPU_LINK     how two devices are joined: nvlink (default), pcie or none
 *   BELAY_TEST_GPU_FD       0: regions cannot be exported
 *   BELAY_TEST_GPU_STALL_US kernels stand still now and then, at most so long; default 0: never
 *   BELAY_TEST_SEED         seed of the schedules, default 1
 */
#ifndef BELAY_TESTS_CPU_GPU_H
#define BELAY_TESTS_CPU_GPU_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/cuda/gpu.h"

/* Error codes, with CUDA's numbers. Sticky: the context is lost. */
enum cpu_gpu_code {
	CPU_GPU_INVALID = 1,
	CPU_GPU_NO_MEMORY = 2,
	CPU_GPU_NO_DEVICE = 100,
	CPU_GPU_BAD_DEVICE = 101,
	CPU_GPU_NOT_READY = 600,
	CPU_GPU_ILLEGAL_ADDRESS = 700, /* sticky */
	CPU_GPU_LAUNCH_FAILURE = 719,  /* sticky */
	CPU_GPU_NOT_SUPPORTED = 801,
	CPU_GPU_CAPTURE_UNSUPPORTED = 900,
	CPU_GPU_CAPTURE_INVALIDATED = 901,
	CPU_GPU_CAPTURE_IMPLICIT = 906
};

/* ---- the application's side of CUDA: for the test itself, all codes 0 or enum cpu_gpu_code -- */

/* The device whose context is current in this thread, as an application's cudaSetDevice() would
 * make it; -1: none. */
void cpu_gpu_set_current(int ordinal);

/* A stream of the application's. cpu_gpu_stream_sync() aborts the process after a minute. Returns
 * 0, or the code of a lost context. */
struct CUstream_st *cpu_gpu_stream_create(void);
void cpu_gpu_stream_free(struct CUstream_st *stream);
int cpu_gpu_stream_sync(struct CUstream_st *stream);

/* As when memory is freed, of the device or pinned: returns when all work of the process's streams
 * is over, and launches and copies of other threads wait as long (seen in the CUDA driver, 13.0).
 * Seen by stub_nccl.c too. */
__attribute__((visibility("default"))) void cpu_gpu_wait_to_free(void);

/* Memory of a kind, zeroed: DEVICE and OTHER_DEVICE (ordinal: whose), MANAGED, HOST (pinned). NULL:
 * none left. Pointers into it are of its kind. */
void *cpu_gpu_memory(enum gpu_pointer kind, int ordinal, size_t bytes);
void cpu_gpu_memory_free(void *memory);

/* Holds a stream up: what is enqueued next waits until *word is at least `value`. The word lives
 * until then. May be captured. */
int cpu_gpu_enqueue_wait(struct CUstream_st *stream, const _Atomic uint64_t *word, uint64_t value);
/* Adds 1 to *word when the stream gets there. */
int cpu_gpu_enqueue_count(struct CUstream_st *stream, _Atomic uint64_t *word);

/*
 * Capture: what is enqueued on the stream is recorded in place of being carried out. What a capture
 * forbids breaks it; then cpu_gpu_capture_end() returns CPU_GPU_CAPTURE_INVALIDATED and no graph,
 * and cpu_gpu_capture_broken_by() names the call. Forbidden are
 *   - asking whether the capturing stream is done, in every mode and for every thread;
 *   - allocating, freeing, registering and asking for other streams: in GLOBAL mode for every
 *     thread, in THREAD_LOCAL mode for the thread that captures, in RELAXED mode for none; never
 *     for threads that said gpu_thread_is_background();
 *   - enqueueing on the legacy default stream (NULL), for whom the rule before this one counts.
 */
struct cpu_gpu_graph;
enum cpu_gpu_capture { CPU_GPU_GLOBAL = 0, CPU_GPU_THREAD_LOCAL = 1, CPU_GPU_RELAXED = 2 };
int cpu_gpu_capture_begin(struct CUstream_st *stream, enum cpu_gpu_capture mode);
int cpu_gpu_capture_end(struct CUstream_st *stream, struct cpu_gpu_graph **ret_graph);
const char *cpu_gpu_capture_broken_by(void);
/* By an event: `to` captures with `from`, behind what that has; and the other way: `from` no longer
 * captures, and `to` goes on behind both. */
void cpu_gpu_capture_fork(struct CUstream_st *from, struct CUstream_st *to);
void cpu_gpu_capture_join(struct CUstream_st *from, struct CUstream_st *to);
/* Enqueues what was recorded, with the arguments of then. A graph may be launched while an earlier
 * launch of it still runs. */
int cpu_gpu_graph_launch(const struct cpu_gpu_graph *graph, struct CUstream_st *stream);
size_t cpu_gpu_graph_nodes(const struct cpu_gpu_graph *graph);
void cpu_gpu_graph_free(struct cpu_gpu_graph *graph);

/* Turns launched since it was asked last that were said to follow another on the stream. */
unsigned cpu_gpu_followers(void);
/* Edges made since it was asked last, from one stream of a capture to another. */
unsigned cpu_gpu_edges(void);

/* ---- what goes wrong ------------------------------------------------------------------------ */

/* Makes the n-th call from now (from 1; 0: every call) of a function of gpu.h or symm_kernels.h
 * fail with that code; sticky: the context is lost with it. One failure for each name at a time. */
void cpu_gpu_fail(const char *function, unsigned nth, int code, bool sticky);
/* Takes all failures back that have not happened. */
void cpu_gpu_fail_nothing(void);
/* The context is lost now: kernels end where they are, and whatever is asked fails with `code`. */
void cpu_gpu_lose_context(int code);

/* ---- what a test may count ------------------------------------------------------------------ */

/* How often a function of gpu.h or symm_kernels.h was called in this process. */
uint64_t cpu_gpu_calls(const char *function);

/* What exists in this process. All zero when everything was given back. */
struct cpu_gpu_objects {
	unsigned allocations; /* gpu_alloc, gpu_host_alloc, cpu_gpu_memory */
	unsigned regions, spaces, mappings, registrations;
	unsigned streams; /* the legacy default stream counts once it was used */
};
void cpu_gpu_count(struct cpu_gpu_objects *ret_objects);

/* Ends the legacy default stream's thread, for tests that count threads and descriptors. */
void cpu_gpu_end_default_stream(void);

/* The GPU's clock, as ticks in records and in calibrations. */
uint64_t cpu_gpu_ticks(void);

#endif /* BELAY_TESTS_CPU_GPU_H */
