/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of the symm path without the runtime: one process, one GPU, a region and a stream for each
 * rank, posts and orders in pinned memory. The tests launch kernels and play the watcher
 * themselves.
 *
 * Every wait is bounded: where the GPU does not come to an end, the program says how far each rank
 * is and ends. CUDA errors end it too.
 */
#ifndef BELAY_TESTS_GPU_KERNEL_RANKS_H
#define BELAY_TESTS_GPU_KERNEL_RANKS_H

#include <cuda_runtime_api.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/symm_kernels.h"

#define GUARD_BYTES 64
#define CALLS_MAX   128
#define FETCH_MAX   65536

/* What a rank's kernels and its host share: pinned. */
struct rank_words {
	alignas(64) uint64_t steps[8]; /* staged, pushed, results, done, ... */
	struct symm_description descriptions[2];
	alignas(64) struct symm_posts posts;
	alignas(64) struct symm_orders orders;
};

struct kernel_ranks {
	unsigned nranks;
	unsigned ndevices; /* rank r is on device r % ndevices */
	int multiprocessors;
	uint64_t turn;	 /* last turn launched */
	size_t capacity; /* bytes of each buffer that calls may use */
	struct symm_comm comm[SYMM_RANKS_MAX];
	cudaStream_t stream[SYMM_RANKS_MAX];
	cudaStream_t side; /* for copies beside kernels that wait */
	struct rank_words *words;
	struct symm_fault *faults;			   /* device; one for each rank */
	struct gpu_region *region[SYMM_RANKS_MAX];	   /* several devices only */
	char *space[SYMM_RANKS_MAX];			   /* all regions, as a rank sees them */
	char *send[SYMM_RANKS_MAX], *recv[SYMM_RANKS_MAX]; /* device */
	char *input[SYMM_RANKS_MAX];			   /* pinned: what is in `send` */
	char *output[SYMM_RANKS_MAX];			   /* pinned: as fetched */
	char *expected;
	char *scratch; /* pinned, for fetch() and store() */
};

/* A call, and where in the buffers its operands are. */
struct trial {
	int dtype, op;
	uint8_t algorithm; /* enum symm_algorithm */
	bool in_place;	   /* the output is at send_at in the send buffer */
	bool staged;	   /* one peer after the other is served */
	uint16_t blocks, threads;
	uint64_t count;
	size_t send_at, recv_at;
};

/* Is there a GPU? The reason when not. Call before anything else of CUDA. */
bool kernel_ranks_possible(const char **ret_why);

/* Ends the program when a CUDA call failed. */
void cuda_check(int code, const char *what);
#define CUDA(call) cuda_check((int)(call), #call)

void kernel_ranks_open(struct kernel_ranks *ranks, unsigned nranks, size_t symm_bytes,
		       size_t capacity);
void kernel_ranks_close(struct kernel_ranks *ranks);

/* The rank's stream; its device is the current one from here on. */
cudaStream_t stream_of(const struct kernel_ranks *ranks, unsigned rank);

/* A new communicator: numbers from turn_before, nothing posted, no fault, deadlines that no test
 * meets by chance. */
void kernel_ranks_reset(struct kernel_ranks *ranks, uint64_t turn_before);

/* A fault of `rank` in the call after the next `after` ones. */
void kernel_ranks_fault(struct kernel_ranks *ranks, unsigned rank, uint32_t kind, uint32_t at,
			uint64_t after);

size_t element_bytes(int dtype);
const char *algorithm_name(unsigned algorithm);
/* Whether an algorithm carries that many bytes of that type. */
bool algorithm_takes(const struct kernel_ranks *ranks, unsigned algorithm, int dtype, size_t bytes);
/* Blocks of a rank, with those of all ranks on the GPU at once. */
unsigned blocks_that_fit(const struct kernel_ranks *ranks);
/* A grid that is right for the bytes, and that the GPU holds beside the other ranks'. */
void choose_grid(const struct kernel_ranks *ranks, struct trial *trial, uint16_t threads);

/* Makes inputs of a type for all ranks, with all kinds of values: by `seed`. */
void kernel_ranks_invent(struct kernel_ranks *ranks, int dtype, uint64_t seed);

/* Takes the inputs to the GPU, as far as `bytes`; outputs are filled with a pattern. */
void kernel_ranks_put(struct kernel_ranks *ranks, const struct trial *trials, unsigned ntrials);

/* Enqueues one call on all ranks, or on one; a turn each. */
void kernel_ranks_call(struct kernel_ranks *ranks, const struct trial *trial);
void kernel_ranks_enqueue(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial,
			  cudaStream_t stream);
struct symm_launch launch_of(const struct kernel_ranks *ranks, unsigned rank,
			     const struct trial *trial);

/* Waits until all streams are empty, and plays the watcher meanwhile (NULL: nobody does). */
typedef void watcher_step(struct kernel_ranks *ranks, void *context);
void kernel_ranks_wait(struct kernel_ranks *ranks, watcher_step *watcher, void *context);
bool rank_is_idle(const struct kernel_ranks *ranks, unsigned rank);

/* The last turn that the rank's kernels say is staged. */
uint64_t kernel_ranks_staged(const struct kernel_ranks *ranks, unsigned rank);

/* The result of a call by host_sum() into ranks->expected; its digest. */
uint64_t kernel_ranks_expect(struct kernel_ranks *ranks, const struct trial *trial);

/* Fetches the outputs of calls, in ascending places, and compares all of them and the bytes around
 * them. False with a line that says where they differ. */
bool kernel_ranks_compare(struct kernel_ranks *ranks, const struct trial *trials, unsigned ntrials);
/* True when a rank's output is as kernel_ranks_put() left it. */
bool output_is_untouched(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial);

/* What stands in pinned or device memory; at most FETCH_MAX bytes. */
uint64_t word_now(const uint64_t *word);
void word_set(uint64_t *word, uint64_t value);
void fetch(struct kernel_ranks *ranks, void *to, const void *from, size_t bytes);
void store(struct kernel_ranks *ranks, void *to, const void *from, size_t bytes);

/* A number from a seed; the seed moves on. */
uint64_t next_random(uint64_t *seed);

uint64_t now_ns(void);

/* ---- the parts of check_kernels: each returns false with a line that says why ------------- */

/* TAP. */
void report(bool good, const char *format, ...) __attribute__((format(printf, 2, 3)));

void check_stuck_kernels(struct kernel_ranks *ranks);
void check_service_kernels(struct kernel_ranks *ranks);
int time_kernels(int argc, char **argv);

#endif /* BELAY_TESTS_GPU_KERNEL_RANKS_H */
