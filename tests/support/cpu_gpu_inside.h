/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the GPU played on the CPU share. See cpu_gpu.h. */
#ifndef BELAY_TESTS_CPU_GPU_INSIDE_H
#define BELAY_TESTS_CPU_GPU_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/symm_layout.h"
#include "tests/support/cpu_gpu.h"

/* ---- calls that are counted and may fail (cpu_gpu.c) ---------------------------------------- */

/* While held, launches, copies and allocations wait in cpu_gpu_enter(). */
void cpu_gpu_hold(bool held);
/* Notes the call of `function`. The code it is to fail with, 0: it is to go on. */
int cpu_gpu_enter(const char *function);
/* The same for what gives a gpu_error: 0 or -1. */
int cpu_gpu_enter_error(const char *function, struct gpu_error *ret_error);
/* Fills ret_error (may be NULL) and returns -1. */
int cpu_gpu_error(const char *function, int code, struct gpu_error *ret_error);
/* The code of the lost context; 0: it is healthy. Any thread. */
int cpu_gpu_lost(void);
uint64_t cpu_gpu_seed(void);
uint64_t cpu_gpu_stall_ns(void);

/* xorshift: the only source of chance here. */
static inline uint64_t cpu_gpu_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* ---- operations on streams (cpu_gpu_stream.c) ----------------------------------------------- */

enum cpu_gpu_step { CPU_GPU_ENDED, CPU_GPU_BUSY, CPU_GPU_WAITING };

/* A kind of operation. `arguments` are a copy made when it was enqueued; `run` is zeroed memory for
 * one execution. */
struct cpu_gpu_kernel {
	const char *name;
	size_t argument_bytes;
	size_t run_bytes;
	/* One step. Returns CPU_GPU_WAITING when nothing could be done, so that the thread may
	 * pause. */
	enum cpu_gpu_step (*step)(const void *arguments, void *run);
	/* After the last step, also when the context was lost; may be NULL. */
	void (*end)(void *run);
};

/* Enqueues on the stream, or records where it captures. 0 or a code. Seen by stub_nccl.c, where the
 * program is linked with -export-dynamic. */
__attribute__((visibility("default"))) int cpu_gpu_enqueue(struct CUstream_st *stream,
							   const struct cpu_gpu_kernel *kernel,
							   const void *arguments);

/* For functions that a capture forbids: breaks the captures that it concerns and returns
 * CPU_GPU_CAPTURE_UNSUPPORTED; else 0. */
int cpu_gpu_unsafe(const char *function);

/* Counts of cpu_gpu_count(). */
unsigned cpu_gpu_count_streams(void);
void cpu_gpu_count_memory(struct cpu_gpu_objects *ret_objects);

/* ---- words that others read meanwhile ------------------------------------------------------- */

/* A GPU's stores are relaxed where these release: see cpu_gpu.h. */
static inline uint64_t load_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void store_word(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* One 16-byte store on a GPU: whoever sees the ticket sees its turn. */
static inline void store_ticket(struct symm_posts *posts, uint64_t ticket, uint64_t turn)
{
	store_word(&posts->ticket_turn, turn);
	store_word(&posts->ticket, ticket);
}

/* As fence.acq_rel.sys. */
static inline void fence_all(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#endif /* BELAY_TESTS_CPU_GPU_INSIDE_H */
