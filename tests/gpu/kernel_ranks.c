/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/kernel_ranks.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/host_sum.h"
#include "kernels/sum_types.h"
#include "runtime/cuda/block_words.h"
#include "runtime/cuda/gpu.h"
#include "runtime/cuda/launch_shape.h"

#define PATTERN	     0xa5
#define WAIT_NS	     UINT64_C(20000000000)
#define LAST_NS	     UINT64_C(8000000000)
#define AFTERMATH_NS UINT64_C(3000000000)
#define REGION_UNIT  (UINT64_C(2) << 20) /* what regions are made of */

/* ---- the GPU ------------------------------------------------------------------------------ */

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void cuda_check(int code, const char *what)
{
	if (code == 0)
		return;
	printf("Bail out! %s: %s\n", what, cudaGetErrorString((cudaError_t)code));
	fflush(stdout);
	_exit(1);
}

bool kernel_ranks_possible(const char **ret_why)
{
	int devices = 0;
	cudaError_t error;

	/* A queue of the GPU for each rank: ranks that share one would wait for each other. */
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
	error = cudaGetDeviceCount(&devices);
	*ret_why = error ? cudaGetErrorString(error) : "no CUDA device";
	return error == cudaSuccess && devices > 0;
}

uint64_t word_now(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void word_set(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static void copy(struct kernel_ranks *ranks, void *to, const void *from, size_t bytes)
{
	CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, ranks->side));
	CUDA(cudaStreamSynchronize(ranks->side));
}

void fetch(struct kernel_ranks *ranks, void *to, const void *from, size_t bytes)
{
	copy(ranks, ranks->scratch, from, bytes);
	memcpy(to, ranks->scratch, bytes);
}

void store(struct kernel_ranks *ranks, void *to, const void *from, size_t bytes)
{
	memcpy(ranks->scratch, from, bytes);
	copy(ranks, to, ranks->scratch, bytes);
}

static size_t buffer_bytes(const struct kernel_ranks *ranks)
{
	return ranks->capacity + 2 * GUARD_BYTES;
}

static void *device_memory(size_t bytes)
{
	void *memory;

	CUDA(cudaMalloc(&memory, bytes));
	CUDA(cudaMemset(memory, 0, bytes));
	return memory;
}

static void *pinned_memory(size_t bytes)
{
	void *memory;

	CUDA(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped));
	memset(memory, 0, bytes);
	return memory;
}

/* ---- regions ------------------------------------------------------------------------------ */

static void gpu_check(int failed, const struct gpu_error *error)
{
	if (!failed)
		return;
	printf("Bail out! %s: %s\n", error->call, error->text);
	fflush(stdout);
	_exit(1);
}

/* Among devices regions are mapped as the runtime does it, in an address space of each rank. */
static void map_regions(struct kernel_ranks *ranks, const struct symm_layout *layout)
{
	struct gpu_error error;
	void *space;
	int fd;

	for (unsigned r = 0; r < ranks->nranks; r++) {
		(void)stream_of(ranks, r);
		gpu_check(gpu_region_create((int)(r % ranks->ndevices), layout->stride,
					    &ranks->region[r], &fd, &error),
			  &error);
		close(fd);
		gpu_check(gpu_space_reserve(ranks->nranks * layout->stride, &space, &error),
			  &error);
		ranks->space[r] = space;
	}
	for (unsigned r = 0; r < ranks->nranks; r++)
		for (unsigned q = 0; q < ranks->nranks; q++)
			gpu_check(gpu_region_map(
					  ranks->region[q], ranks->space[r] + q * layout->stride,
					  layout->stride, (int)(r % ranks->ndevices), &error),
				  &error);
	for (unsigned r = 0; r < ranks->nranks; r++) {
		(void)stream_of(ranks, r);
		CUDA(cudaMemset(ranks->space[r] + r * layout->stride, 0, layout->stride));
		CUDA(cudaDeviceSynchronize());
	}
}

static void make_regions(struct kernel_ranks *ranks, const struct symm_layout *layout)
{
	char *space;

	if (ranks->ndevices > 1) {
		map_regions(ranks, layout);
		return;
	}
	space = device_memory(ranks->nranks * layout->stride);
	for (unsigned r = 0; r < ranks->nranks; r++)
		ranks->space[r] = space;
}

static void free_regions(struct kernel_ranks *ranks)
{
	uint64_t stride = ranks->comm[0].layout.stride;

	if (ranks->ndevices == 1) {
		CUDA(cudaFree(ranks->space[0]));
		return;
	}
	for (unsigned r = 0; r < ranks->nranks; r++) {
		for (unsigned q = 0; q < ranks->nranks; q++)
			gpu_region_unmap(ranks->space[r] + q * stride, stride);
		gpu_space_free(ranks->space[r], ranks->nranks * stride);
	}
	for (unsigned r = 0; r < ranks->nranks; r++)
		gpu_region_free(ranks->region[r]);
}

/* ---- ranks -------------------------------------------------------------------------------- */

cudaStream_t stream_of(const struct kernel_ranks *ranks, unsigned rank)
{
	if (ranks->ndevices > 1)
		CUDA(cudaSetDevice((int)(rank % ranks->ndevices)));
	return ranks->stream[rank];
}

/* BELAY_GPU_DEVICES: ranks take turns on so many devices; 1 without. */
static unsigned devices_wanted(void)
{
	const char *text = getenv("BELAY_GPU_DEVICES");
	unsigned long wanted = text ? strtoul(text, NULL, 10) : 1;
	int there = 1;

	CUDA(cudaGetDeviceCount(&there));
	return wanted < 1 ? 1 : wanted > (unsigned)there ? (unsigned)there : (unsigned)wanted;
}

/* For faults and guards, which are plain memory of the first one. */
static void let_devices_see_each_other(unsigned ndevices)
{
	for (unsigned a = 0; a < ndevices; a++)
		for (unsigned b = 0; b < ndevices; b++) {
			CUDA(cudaSetDevice((int)a));
			if (a != b && cudaDeviceEnablePeerAccess((int)b, 0) != cudaSuccess)
				(void)cudaGetLastError(); /* it has been before */
		}
	CUDA(cudaSetDevice(0));
}

static void open_rank(struct kernel_ranks *ranks, unsigned r, const struct symm_layout *layout)
{
	struct symm_comm *comm = &ranks->comm[r];
	const char *why;

	(void)stream_of(ranks, r);
	cuda_check(symm_kernels_load(&why), "symm_kernels_load"); /* on this device too */
	*comm = (struct symm_comm){
		.layout = *layout,
		.region = ranks->space[r],
		.state = device_memory(sizeof(struct symm_state)),
		.steps = ranks->words[r].steps,
		.descriptions = ranks->words[r].descriptions,
		.posts = &ranks->words[r].posts,
		.orders = &ranks->words[r].orders,
		.rank = r,
		.nranks = ranks->nranks,
		.faults = ranks->faults + r,
	};
	for (unsigned q = 0; q < ranks->nranks; q++)
		comm->posts_of[q] = &ranks->words[q].posts;
	CUDA(cudaStreamCreateWithFlags(&ranks->stream[r], cudaStreamNonBlocking));
	ranks->send[r] = device_memory(buffer_bytes(ranks));
	ranks->recv[r] = device_memory(buffer_bytes(ranks));
	ranks->input[r] = pinned_memory(buffer_bytes(ranks));
	ranks->output[r] = pinned_memory(buffer_bytes(ranks));
}

void kernel_ranks_open(struct kernel_ranks *ranks, unsigned nranks, size_t symm_bytes,
		       size_t capacity)
{
	struct symm_layout layout;

	*ranks = (struct kernel_ranks){
		.nranks = nranks, .ndevices = devices_wanted(), .capacity = capacity};
	symm_layout_make(nranks, symm_bytes, &layout);
	layout.stride = (layout.stride + REGION_UNIT - 1) / REGION_UNIT * REGION_UNIT;
	let_devices_see_each_other(ranks->ndevices);
	CUDA(cudaDeviceGetAttribute(&ranks->multiprocessors, cudaDevAttrMultiProcessorCount, 0));
	CUDA(cudaStreamCreateWithFlags(&ranks->side, cudaStreamNonBlocking));
	ranks->words = pinned_memory(SYMM_RANKS_MAX * sizeof(struct rank_words));
	ranks->faults = device_memory(SYMM_RANKS_MAX * sizeof(struct symm_fault));
	make_regions(ranks, &layout);
	ranks->scratch = pinned_memory(FETCH_MAX);
	ranks->expected = pinned_memory(buffer_bytes(ranks));
	for (unsigned r = 0; r < nranks; r++)
		open_rank(ranks, r, &layout);
	kernel_ranks_reset(ranks, 0);
}

void kernel_ranks_close(struct kernel_ranks *ranks)
{
	for (unsigned r = 0; r < ranks->nranks; r++) {
		(void)stream_of(ranks, r);
		CUDA(cudaFree(ranks->comm[r].state));
		CUDA(cudaFree(ranks->send[r]));
		CUDA(cudaFree(ranks->recv[r]));
		CUDA(cudaFreeHost(ranks->input[r]));
		CUDA(cudaFreeHost(ranks->output[r]));
		CUDA(cudaStreamDestroy(ranks->stream[r]));
	}
	free_regions(ranks);
	CUDA(cudaFree(ranks->faults));
	CUDA(cudaFreeHost(ranks->words));
	CUDA(cudaFreeHost(ranks->scratch));
	CUDA(cudaFreeHost(ranks->expected));
	CUDA(cudaStreamDestroy(ranks->side));
}

void kernel_ranks_reset(struct kernel_ranks *ranks, uint64_t turn_before)
{
	memset(ranks->words, 0, SYMM_RANKS_MAX * sizeof(struct rank_words));
	ranks->turn = turn_before;
	for (unsigned r = 0; r < ranks->nranks; r++) {
		ranks->comm[r].nfaults = 0;
		ranks->comm[r].late_ns = LAST_NS / 2;
		ranks->comm[r].last_ns = LAST_NS;
		CUDA(cudaMemsetAsync(ranks->comm[r].state, 0, sizeof(struct symm_state),
				     stream_of(ranks, r)));
		CUDA(symm_launch_init(&ranks->comm[r], turn_before, turn_before,
				      stream_of(ranks, r)));
	}
	kernel_ranks_wait(ranks, NULL, NULL);
}

void kernel_ranks_fault(struct kernel_ranks *ranks, unsigned rank, uint32_t kind, uint32_t at,
			uint64_t after)
{
	uint64_t seq = ranks->turn + after + 1;
	struct symm_fault fault = {.first = seq, .last = seq, .step = 1, .kind = kind, .at = at};

	store(ranks, ranks->faults + rank, &fault, sizeof(fault));
	ranks->comm[rank].nfaults = 1;
}

/* ---- waiting ------------------------------------------------------------------------------ */

bool rank_is_idle(const struct kernel_ranks *ranks, unsigned rank)
{
	cudaError_t error = cudaStreamQuery(stream_of(ranks, rank));

	if (error != cudaErrorNotReady)
		CUDA(error);
	return error == cudaSuccess;
}

static bool all_are_idle(const struct kernel_ranks *ranks)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (!rank_is_idle(ranks, r))
			return false;
	return true;
}

uint64_t kernel_ranks_staged(const struct kernel_ranks *ranks, unsigned rank)
{
	return block_words_reached(ranks->words[rank].posts.block, SYMM_BLOCK_STAGED);
}

static void tell_where(const struct kernel_ranks *ranks)
{
	for (unsigned r = 0; r < ranks->nranks; r++) {
		const struct rank_words *words = &ranks->words[r];
		uint64_t block = word_now(&words->posts.block[0]);
		uint64_t stuck = word_now(&words->posts.stuck);

		printf("# rank %u: %s, staged %" PRIu64 ", block 0: turn %" PRIu64
		       " state %u of %u blocks, stuck in turn %" PRIu64
		       " phase %u, missing 0x%" PRIx64 "\n",
		       r, rank_is_idle(ranks, r) ? "idle" : "busy", kernel_ranks_staged(ranks, r),
		       SYMM_BLOCK_TURN(block), SYMM_BLOCK_STATE(block), SYMM_BLOCK_BLOCKS(block),
		       stuck >> 3, (unsigned)(stuck & 7), word_now(&words->posts.missing));
	}
}

/* The kernels get a last chance to leave, so that the GPU is not left with them. */
static void give_up(struct kernel_ranks *ranks)
{
	uint64_t end = now_ns() + AFTERMATH_NS;

	printf("# the GPU has not come to an end in time; turn %" PRIu64 " was the last\n",
	       ranks->turn);
	tell_where(ranks);
	for (unsigned r = 0; r < ranks->nranks; r++)
		word_set(&ranks->words[r].orders.fail_from, 1);
	while (now_ns() < end && !all_are_idle(ranks))
		usleep(1000);
	printf("Bail out! the GPU hung; its kernels %s when told to\n",
	       all_are_idle(ranks) ? "left" : "did not leave");
	fflush(stdout);
	_exit(1);
}

void kernel_ranks_wait(struct kernel_ranks *ranks, watcher_step *watcher, void *context)
{
	uint64_t end = now_ns() + WAIT_NS;

	while (!all_are_idle(ranks)) {
		if (watcher)
			watcher(ranks, context);
		if (now_ns() > end)
			give_up(ranks);
	}
}

/* ---- inputs ------------------------------------------------------------------------------- */

uint64_t next_random(uint64_t *seed)
{
	uint64_t mixed = *seed += UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ mixed >> 31;
}

size_t element_bytes(int dtype)
{
	static const unsigned char bytes[HOST_SUM_DTYPES] = {
		[HOST_SUM_F32] = 4, [HOST_SUM_F64] = 8, [HOST_SUM_F16] = 2, [HOST_SUM_BF16] = 2,
		[HOST_SUM_I32] = 4, [HOST_SUM_I64] = 8, [HOST_SUM_U8] = 1,  [HOST_SUM_I8] = 1,
	};

	return bytes[dtype];
}

/* Bits of a float between 2^-4 and 2^4 with that many bits of exponent and mantissa. */
static uint64_t middling(uint64_t random, unsigned exponent, unsigned mantissa)
{
	uint64_t bias = (UINT64_C(1) << (exponent - 1)) - 1;
	uint64_t sign = random >> 63 << (exponent + mantissa);

	return sign | (bias - 4 + (random >> 56) % 8) << mantissa |
	       (random & ((UINT64_C(1) << mantissa) - 1));
}

static uint64_t invent_element(int dtype, uint64_t random)
{
	switch (dtype) {
	case HOST_SUM_F16:
		return middling(random, 5, 10);
	case HOST_SUM_BF16:
		return middling(random, 8, 7);
	case HOST_SUM_F32:
		return middling(random, 8, 23);
	case HOST_SUM_F64:
		return middling(random, 11, 52);
	default:
		return random;
	}
}

/* Eight bytes of elements. Of every sixteen: one of any bits (infinities, NaN, subnormals), one of
 * all ones (what the full wire cannot carry), one of zeros of both signs. */
static uint64_t invent_word(int dtype, uint64_t *seed)
{
	size_t bytes = element_bytes(dtype);
	uint64_t word = 0, kind = next_random(seed) % 16;

	if (kind == 0)
		return next_random(seed);
	if (kind == 1)
		return UINT64_MAX;
	if (kind == 2)
		return next_random(seed) & UINT64_C(0x8000800080008000);
	for (size_t at = 0; at < 8; at += bytes) {
		uint64_t element = invent_element(dtype, next_random(seed));
		uint64_t mask = UINT64_MAX >> (64 - 8 * bytes);

		word |= (element & mask) << 8 * at;
	}
	return word;
}

void kernel_ranks_invent(struct kernel_ranks *ranks, int dtype, uint64_t seed)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		for (size_t at = 0; at + 8 <= buffer_bytes(ranks); at += 8) {
			uint64_t word = invent_word(dtype, &seed);

			memcpy(ranks->input[r] + at, &word, sizeof(word));
		}
}

/* ---- calls -------------------------------------------------------------------------------- */

const char *algorithm_name(unsigned algorithm)
{
	static const char *const names[SYMM_ALGORITHMS] = {
		[SYMM_ONESHOT_PACKETS] = "oneshot-packets",
		[SYMM_ONESHOT_WIRE] = "oneshot-wire",
		[SYMM_TWOSHOT_WIRE] = "twoshot-wire",
		[SYMM_TWOSHOT_PULL] = "twoshot-pull",
		[SYMM_ISLAND] = "island",
	};

	return names[algorithm];
}

bool algorithm_takes(const struct kernel_ranks *ranks, unsigned algorithm, int dtype, size_t bytes)
{
	const struct symm_layout *layout = &ranks->comm[0].layout;
	bool wire = dtype == HOST_SUM_BF16 || dtype == HOST_SUM_F16 || dtype == HOST_SUM_F32;

	switch (algorithm) {
	case SYMM_ONESHOT_PACKETS:
		return bytes <= layout->packets_bytes;
	case SYMM_ONESHOT_WIRE:
		return wire && bytes <= layout->wire_bytes;
	case SYMM_TWOSHOT_WIRE:
		return wire && bytes <= layout->symm_bytes;
	case SYMM_ISLAND:
		return wire && ranks->nranks >= 4 && ranks->nranks % 2 == 0 &&
		       bytes <= layout->symm_bytes;
	default:
		return bytes <= layout->symm_bytes;
	}
}

static uint32_t sharing(const struct kernel_ranks *ranks)
{
	return (ranks->nranks + ranks->ndevices - 1) / ranks->ndevices;
}

unsigned blocks_that_fit(const struct kernel_ranks *ranks)
{
	uint32_t blocks = launch_blocks_max((uint32_t)ranks->multiprocessors, sharing(ranks),
					    sharing(ranks) > 1 ? 1 : 2);

	return blocks ? blocks : 1;
}

/* Two calls of each rank stand on the device at once. */
static bool fits_twice(const struct kernel_ranks *ranks, uint32_t blocks)
{
	return blocks <= launch_blocks_max((uint32_t)ranks->multiprocessors, sharing(ranks), 2);
}

void choose_grid(const struct kernel_ranks *ranks, struct trial *trial, uint16_t threads)
{
	size_t bytes = trial->count * element_bytes(trial->dtype);
	size_t wanted = (bytes + 16u * threads - 1) / (16u * threads);
	unsigned fit = blocks_that_fit(ranks);

	if (wanted > 64)
		wanted = 64;
	if (wanted > fit)
		wanted = fit;
	trial->threads = threads;
	trial->blocks = wanted ? (uint16_t)wanted : 1;
}

void kernel_ranks_put(struct kernel_ranks *ranks, const struct trial *trials, unsigned ntrials)
{
	for (unsigned r = 0; r < ranks->nranks; r++) {
		CUDA(cudaMemsetAsync(ranks->send[r], PATTERN, buffer_bytes(ranks),
				     stream_of(ranks, r)));
		CUDA(cudaMemsetAsync(ranks->recv[r], PATTERN, buffer_bytes(ranks),
				     stream_of(ranks, r)));
		for (unsigned i = 0; i < ntrials; i++) {
			size_t at = GUARD_BYTES + trials[i].send_at;

			CUDA(cudaMemcpyAsync(ranks->send[r] + at, ranks->input[r] + at,
					     trials[i].count * element_bytes(trials[i].dtype),
					     cudaMemcpyDefault, stream_of(ranks, r)));
		}
	}
	kernel_ranks_wait(ranks, NULL, NULL);
}

static char *output_of(const struct kernel_ranks *ranks, unsigned rank, const struct trial *trial)
{
	return trial->in_place ? ranks->send[rank] + GUARD_BYTES + trial->send_at
			       : ranks->recv[rank] + GUARD_BYTES + trial->recv_at;
}

/* As the launch table has it where ranks make no islands. */
static uint8_t carried_out(const struct kernel_ranks *ranks, uint8_t algorithm)
{
	bool islands = ranks->nranks >= 4 && ranks->nranks % 2 == 0;

	return algorithm == SYMM_ISLAND && !islands ? SYMM_TWOSHOT_WIRE : algorithm;
}

struct symm_launch launch_of(const struct kernel_ranks *ranks, unsigned rank,
			     const struct trial *trial)
{
	return (struct symm_launch){
		.send = ranks->send[rank] + GUARD_BYTES + trial->send_at,
		.recv = output_of(ranks, rank, trial),
		.count = trial->count,
		.call_count = trial->count,
		.signature_base = symm_mix(trial->count, (uint64_t)(trial->dtype * 8 + trial->op)),
		.turns_of_call = 1,
		.dtype = (uint8_t)trial->dtype,
		.op = (uint8_t)trial->op,
		.algorithm = carried_out(ranks, trial->algorithm),
		.staged = trial->staged,
		.path = 1,
		.blocks = trial->blocks,
		.threads = trial->threads,
		.programmatic = fits_twice(ranks, trial->blocks),
		.follows = true,
	};
}

void kernel_ranks_enqueue(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial,
			  cudaStream_t stream)
{
	struct symm_launch launch = launch_of(ranks, rank, trial);

	CUDA(symm_launch_call(&ranks->comm[rank], &launch, stream));
}

void kernel_ranks_call(struct kernel_ranks *ranks, const struct trial *trial)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		kernel_ranks_enqueue(ranks, r, trial, stream_of(ranks, r));
	ranks->turn++;
}

/* ---- results ------------------------------------------------------------------------------ */

uint64_t kernel_ranks_expect(struct kernel_ranks *ranks, const struct trial *trial)
{
	const void *sources[SYMM_RANKS_MAX];
	void *destination = ranks->expected;

	for (unsigned r = 0; r < ranks->nranks; r++)
		sources[r] = ranks->input[r] + GUARD_BYTES + trial->send_at;
	return host_sum(&(struct host_sum_job){
		.sources = sources,
		.nsources = ranks->nranks,
		.destinations = &destination,
		.ndestinations = 1,
		.count = trial->count,
		.dtype = trial->dtype,
		.op = trial->op,
	});
}

static bool is_pattern(const char *bytes, size_t from, size_t to)
{
	for (size_t at = from; at < to; at++)
		if ((unsigned char)bytes[at] != PATTERN)
			return false;
	return true;
}

static bool differs(const struct kernel_ranks *ranks, unsigned rank, const struct trial *trial,
		    const char *found)
{
	size_t bytes = trial->count * element_bytes(trial->dtype), at = 0;

	while (at < bytes && found[at] == ranks->expected[at])
		at++;
	if (at == bytes)
		return false;
	printf("# %u ranks, %s, dtype %d, op %d, %" PRIu64
	       " elements, %u blocks of %u, send + %zu, "
	       "recv + %zu%s: rank %u differs at byte %zu: 0x%02x instead of 0x%02x\n",
	       ranks->nranks, algorithm_name(trial->algorithm), trial->dtype, trial->op,
	       trial->count, trial->blocks, trial->threads, trial->send_at, trial->recv_at,
	       trial->in_place ? ", in place" : "", rank, at, (unsigned char)found[at],
	       (unsigned char)ranks->expected[at]);
	return true;
}

static bool guards_stand(unsigned rank, const char *output, size_t from, size_t to)
{
	if (is_pattern(output, from, to))
		return true;
	printf("# rank %u: bytes outside an output, between %zu and %zu, were written\n", rank,
	       from, to);
	return false;
}

static size_t place_of(const struct trial *trial)
{
	return GUARD_BYTES + (trial->in_place ? trial->send_at : trial->recv_at);
}

static size_t end_of(const struct trial *trial)
{
	return place_of(trial) + trial->count * element_bytes(trial->dtype);
}

static void fetch_outputs(struct kernel_ranks *ranks, const struct trial *last)
{
	for (unsigned r = 0; r < ranks->nranks; r++)
		CUDA(cudaMemcpyAsync(
			ranks->output[r], last->in_place ? ranks->send[r] : ranks->recv[r],
			end_of(last) + GUARD_BYTES, cudaMemcpyDefault, stream_of(ranks, r)));
	kernel_ranks_wait(ranks, NULL, NULL);
}

/* One call's outputs of all ranks, and the bytes before them from `before` on. */
static bool compare_call(struct kernel_ranks *ranks, const struct trial *trial, size_t before)
{
	size_t at = place_of(trial);

	kernel_ranks_expect(ranks, trial);
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (!guards_stand(r, ranks->output[r], before, at) ||
		    differs(ranks, r, trial, ranks->output[r] + at))
			return false;
	return true;
}

bool kernel_ranks_compare(struct kernel_ranks *ranks, const struct trial *trials, unsigned ntrials)
{
	size_t end = 0;

	fetch_outputs(ranks, &trials[ntrials - 1]);
	for (unsigned i = 0; i < ntrials; i++) {
		if (!compare_call(ranks, &trials[i], end))
			return false;
		end = end_of(&trials[i]);
	}
	for (unsigned r = 0; r < ranks->nranks; r++)
		if (!guards_stand(r, ranks->output[r], end, end + GUARD_BYTES))
			return false;
	return true;
}

bool output_is_untouched(struct kernel_ranks *ranks, unsigned rank, const struct trial *trial)
{
	size_t bytes = trial->count * element_bytes(trial->dtype);

	copy(ranks, ranks->output[rank], output_of(ranks, rank, trial), bytes);
	return is_pattern(ranks->output[rank], 0, bytes);
}
