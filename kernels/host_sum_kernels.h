/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of host_sum: what host_sum.c and the files of one instruction set each share. */
#ifndef BELAY_KERNELS_HOST_SUM_KERNELS_H
#define BELAY_KERNELS_HOST_SUM_KERNELS_H

#include <stdatomic.h>

#include "kernels/host_sum.h"
#include "kernels/sum_types.h"

#ifdef __FAST_MATH__
#error "the rank-order sum needs IEEE arithmetic: build without -ffast-math"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "digests are defined on little-endian words"
#endif

#define HOST_SUM_INLINE inline __attribute__((always_inline))
/* Bytes: the kernels' step, and a cache line of every CPU that they are made for. */
#define HOST_SUM_LINE 64

/* Reduces the first `lines` whole lines of the job, whose count is not looked at. */
typedef uint64_t host_sum_reduce(const struct host_sum_job *job, size_t lines);

struct host_sum_kernels {
	const char *name;
	host_sum_reduce *reduce[HOST_SUM_DTYPES][HOST_SUM_OPS];
	/* host_sum_copy() of whole lines. */
	uint64_t (*copy)(unsigned char *dst, const unsigned char *src, size_t lines, int touch);
};

/* One table an instruction set; a CPU that cannot have it has no table, but NULL. */
const struct host_sum_kernels *host_sum_baseline_kernels(void);
const struct host_sum_kernels *host_sum_avx2_kernels(void);
const struct host_sum_kernels *host_sum_avx512_kernels(void);

/*
 * One touch. Relaxed, both: under contract [TOUCH] of host_sum.h the caller's acquire and release
 * order them, and they carry no news. Atomic, so that the compiler keeps a store that changes
 * nothing.
 */
static HOST_SUM_INLINE void host_sum_touch_word(const unsigned char *line)
{
	_Atomic uint64_t *word = (_Atomic uint64_t *)(uintptr_t)line;

	atomic_store_explicit(word, atomic_load_explicit(word, memory_order_relaxed),
			      memory_order_relaxed);
}

/* Touches the line at byte `at` of each source from `first` on that `touch` names. */
static HOST_SUM_INLINE void host_sum_touch_line(const struct host_sum_job *job, size_t at,
						unsigned first)
{
	for (uint64_t left = job->touch >> first << first; left; left &= left - 1)
		host_sum_touch_word((const unsigned char *)job->sources[__builtin_ctzll(left)] +
				    at);
}

#endif /* BELAY_KERNELS_HOST_SUM_KERNELS_H */
