/* SPDX-License-Identifier: Apache-2.0 */
/* host_sum's calls: choice of instruction set, floating-point mode, and the last, partial line. */
#include "kernels/host_sum.h"

#include <string.h>

#include "kernels/host_sum_kernels.h"

#ifdef __x86_64__
#include <xmmintrin.h>

/* Every exception masked, nearest-even, subnormals kept. */
#define MODE_DEFAULT 0x1f80u
#define MODE_STICKY  0x3fu

struct float_mode {
	unsigned mxcsr;
};

static struct float_mode float_mode_enter(void)
{
	struct float_mode caller = {_mm_getcsr()};

	if ((caller.mxcsr & ~MODE_STICKY) != MODE_DEFAULT)
		_mm_setcsr(MODE_DEFAULT);
	return caller;
}

static void float_mode_leave(struct float_mode caller)
{
	if (_mm_getcsr() != caller.mxcsr)
		_mm_setcsr(caller.mxcsr);
}

#elif defined(__aarch64__)

struct float_mode {
	uint64_t fpcr; /* 0: nearest-even, subnormals kept, IEEE halves, no trap */
	uint64_t fpsr;
};

static struct float_mode float_mode_enter(void)
{
	struct float_mode caller;

	__asm__ volatile("mrs %0, fpcr" : "=r"(caller.fpcr));
	__asm__ volatile("mrs %0, fpsr" : "=r"(caller.fpsr));
	if (caller.fpcr)
		__asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
	return caller;
}

static void float_mode_leave(struct float_mode caller)
{
	if (caller.fpcr)
		__asm__ volatile("msr fpcr, %0" : : "r"(caller.fpcr) : "memory");
	__asm__ volatile("msr fpsr, %0" : : "r"(caller.fpsr) : "memory");
}

#else
#error "host_sum must not depend on the caller's floating-point mode: say here how this CPU sets it"
#endif

/* Points at constants only, hence relaxed: no memory is published with it. NULL: not chosen yet. */
static _Atomic(const struct host_sum_kernels *) chosen;

static const struct host_sum_kernels *best_kernels(void)
{
	const struct host_sum_kernels *best = host_sum_avx512_kernels();

	if (!best)
		best = host_sum_avx2_kernels();
	return best ? best : host_sum_baseline_kernels();
}

static const struct host_sum_kernels *current_kernels(void)
{
	const struct host_sum_kernels *current =
		atomic_load_explicit(&chosen, memory_order_relaxed);

	if (__builtin_expect(!current, 0)) {
		/* Threads that meet here choose alike. */
		current = best_kernels();
		atomic_store_explicit(&chosen, current, memory_order_relaxed);
	}
	return current;
}

const char *host_sum_name(void)
{
	return current_kernels()->name;
}

int host_sum_force(const char *name)
{
	const struct host_sum_kernels *const sets[] = {
		host_sum_avx512_kernels(), host_sum_avx2_kernels(), host_sum_baseline_kernels()};

	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		if (!sets[i] || (name && strcmp(sets[i]->name, name) != 0))
			continue;
		atomic_store_explicit(&chosen, sets[i], memory_order_relaxed);
		return 0;
	}
	return -1;
}

static size_t bytes_of(const struct host_sum_job *job)
{
	static const unsigned char shift[HOST_SUM_DTYPES] = {
		[HOST_SUM_F32] = 2, [HOST_SUM_F64] = 3, [HOST_SUM_F16] = 1, [HOST_SUM_BF16] = 1,
		[HOST_SUM_I32] = 2, [HOST_SUM_I64] = 3, [HOST_SUM_U8] = 0,  [HOST_SUM_I8] = 0,
	};

	return job->count << shift[job->dtype];
}

/*
 * The last `bytes` (1 .. 63) at `at`, in lines of our own: nothing is read or written past the
 * caller's buffers. All ops make 0 of zeros, so that the padding of the inputs pads the digest.
 */
static uint64_t reduce_tail(host_sum_reduce *reduce, const struct host_sum_job *job, size_t at,
			    size_t bytes)
{
	_Alignas(HOST_SUM_LINE) unsigned char inputs[HOST_SUM_SOURCES_MAX][HOST_SUM_LINE];
	_Alignas(HOST_SUM_LINE) unsigned char result[HOST_SUM_LINE];
	const void *sources[HOST_SUM_SOURCES_MAX];
	void *const destination = result;
	const struct host_sum_job line = {.sources = sources,
					  .nsources = job->nsources,
					  .destinations = &destination,
					  .ndestinations = 1};
	uint64_t digest;

	for (unsigned s = 0; s < job->nsources; s++) {
		memset(inputs[s], 0, HOST_SUM_LINE);
		memcpy(inputs[s], (const unsigned char *)job->sources[s] + at, bytes);
		sources[s] = inputs[s];
	}
	digest = reduce(&line, 1);
	for (unsigned d = 0; d < job->ndestinations; d++)
		memcpy((unsigned char *)job->destinations[d] + at, result, bytes);
	/* A tail shorter than a word is not touched: the word is not all the caller's. */
	if (bytes >= sizeof(uint64_t))
		host_sum_touch_line(job, at, 0);
	return digest;
}

uint64_t host_sum(const struct host_sum_job *job)
{
	host_sum_reduce *reduce = current_kernels()->reduce[job->dtype][job->op];
	size_t bytes = bytes_of(job);
	size_t tail = bytes % HOST_SUM_LINE;
	struct float_mode caller = float_mode_enter();
	uint64_t digest = reduce(job, bytes / HOST_SUM_LINE);

	if (tail)
		digest += reduce_tail(reduce, job, bytes - tail, tail);
	float_mode_leave(caller);
	return digest;
}

uint64_t host_sum_copy(void *dst, const void *src, size_t bytes, int touch)
{
	size_t tail = bytes % HOST_SUM_LINE;
	size_t whole = bytes - tail;
	const unsigned char *last = (const unsigned char *)src + whole;
	uint64_t words[HOST_SUM_LINE / sizeof(uint64_t)] = {0};
	uint64_t digest = current_kernels()->copy(dst, src, whole / HOST_SUM_LINE, touch);

	if (tail) {
		memcpy(words, last, tail);
		memcpy((unsigned char *)dst + whole, words, tail);
		for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			digest += words[i];
		if (touch && tail >= sizeof(words[0]))
			host_sum_touch_word(last);
	}
	return digest;
}

void host_sum_stage(void *slot, const void *src, size_t bytes)
{
	/*
	 * From 1 KB to 2 MB, into a slot whose lines the reader had touched, neither a loop of
	 * vectors nor one with prefetchw nor rep movsb came out ahead of the C library (Zen 3,
	 * within 5 %); stores past the caches doubled the time.
	 */
	if (bytes) /* a call of nothing may have no buffer, which memcpy() must not be given */
		memcpy(slot, src, bytes);
}
