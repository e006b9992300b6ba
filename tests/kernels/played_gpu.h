/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU that runs call kernels on the CPU, one thread at a time: each thread of each block of each
 * rank is a fiber. Which warp goes on next, and for how many of the compiler's basic blocks
 * (-fsanitize-coverage=trace-pc), a seeded generator decides; so a schedule can be run again. Some
 * warps it holds back for longer than all the others take.
 *
 * Stores wait in a queue of their block and reach memory in any order, as wholes of what the GPU
 * promises to store whole, until a fence. The block itself sees them at once.
 *
 * What a kernel does wrong (a store out of bounds, a misaligned access, warps that part in a
 * collective) is noted, once, and ends the run.
 */
#ifndef BELAY_TESTS_PLAYED_GPU_H
#define BELAY_TESTS_PLAYED_GPU_H

#include <cstddef>
#include <cstdint>
#include <functional>

/* What may be taken from the GPU, to see that it is missed. */
enum played_mutation {
	MUTATION_NONE,
	MUTATION_NO_FENCES,   /* fences order nothing */
	MUTATION_NO_BARRIERS, /* a named barrier lets everyone through, but for the entry's */
	MUTATION_TORN,	      /* stores of 8 bytes land in halves */
	MUTATION_NO_WAIT,     /* nothing waits for the kernel before */
	MUTATIONS
};

/* A kernel's one parameter and how to call it. */
struct played_kernel {
	const void *function;
	void (*call)(const void *function, const void *parameter);
	const void *parameter;
	size_t parameter_bytes;
	uint32_t blocks, threads;
};

/* ---- the GPU, for tests ------------------------------------------------------------------------
 */

/* Everything anew: no queue, no memory, time 1 s. */
void played_begin(uint64_t seed, uint32_t streams, enum played_mutation mutation);

/* Kernels may store to [at, at + bytes). */
void played_allow(void *at, size_t bytes);

/* The next store to that place gets lost, once. */
void played_lose(const void *at);

/* Copies the parameter. Kernels of a stream run one after another. */
void played_launch(uint32_t stream, const struct played_kernel &kernel);

/* Runs until all streams are empty: true. False: something went wrong, or it took too long.
 * `host` is called between the steps and plays the watchers. */
bool played_run(const std::function<void()> &host);

/* The first thing that went wrong, or "". */
const char *played_failure(void);
void played_fail(const char *what);

/* 0 .. below - 1. */
uint64_t played_random(uint64_t below);

/* ---- the GPU, for kernels ----------------------------------------------------------------------
 */

enum played_collective { PLAYED_VOTE = 1, PLAYED_SHUFFLE, PLAYED_ADD, PLAYED_SYNC };

uint32_t played_thread(void);
uint32_t played_block(void);
uint32_t played_threads(void);
uint32_t played_blocks(void);
uint64_t played_ticks(void);

/* All 32 lanes bring a value and get those of all; valid until the thread's next call. */
const uint64_t *played_collect(enum played_collective kind, uint64_t mine);
void played_wait_for_last(void);
void played_barrier(uint32_t barrier, uint32_t threads, bool wait);
void played_pause(void);
void played_fence(void);

/* `whole`: the bytes that arrive together. `bytes` is the access's width, and its alignment. */
void played_store(void *to, const void *from, uint32_t bytes, uint32_t whole);
void played_load(const void *from, void *ret_to, uint32_t bytes);
/* What is pending for the place has landed; nothing happens between this and the caller's access.
 */
void played_settle(const void *at, uint32_t bytes);

/* Shared memory of the block that runs. */
void played_shared(void *at, size_t bytes);

#endif /* BELAY_TESTS_PLAYED_GPU_H */
