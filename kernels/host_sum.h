/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rank-order reduction on the CPU: the one function that every path computes (invariant 1).
 * Plain C interface, no dependency on the rest of belay; dtype and op are the numbers of belay.h.
 */
#ifndef BELAY_KERNELS_HOST_SUM_H
#define BELAY_KERNELS_HOST_SUM_H

#include <stddef.h>
#include <stdint.h>

#define HOST_SUM_SOURCES_MAX 64

/*
 * One reduction. Sources are combined in the order 0 .. nsources - 1. Any alignment of any pointer is
 * right; 64-byte aligned ones are fast. A destination may be the same memory as a source (same address);
 * else they do not overlap.
 */
struct host_sum_job {
	const void *const *sources;
	unsigned nsources;             /* 1 .. HOST_SUM_SOURCES_MAX */
	void *const *destinations;     /* each gets the result */
	unsigned ndestinations;        /* 1 .. HOST_SUM_SOURCES_MAX */
	size_t count;                  /* elements */
	int dtype;                     /* enum belay_dtype */
	int op;                        /* enum belay_op */
	/* Bit i: write back to each line of source i an 8-byte word just read (its own value), so that the line
	 * migrates to this core and the source's next writer need not upgrade it (perf-anchors: the reader touches each
	 * line). Only for 64-byte aligned sources that are writable shared memory. */
	uint64_t touch;
};

/* Reduces. Returns the digest of the result: the sum mod 2^64 of its little-endian 64-bit words, the tail
 * zero-padded. Digests of slices add up when slices start at multiples of 8 bytes. Does not depend on, and does
 * not change, the caller's floating-point mode. */
uint64_t host_sum(const struct host_sum_job *job);

/* memcpy with the digest of what was copied; `touch`: write back a word a line of src (64-byte aligned then). */
uint64_t host_sum_copy(void *dst, const void *src, size_t bytes, int touch);

/* memcpy to a 64-byte aligned slot, as fast as this CPU does it. */
void host_sum_stage(void *slot, const void *src, size_t bytes);

/* The instruction set in use: "avx512", "avx2", "neon" or "baseline". BELAY has no setting for it; tests choose with
 * host_sum_force(), which returns 0 when this CPU has it and -1 otherwise. NULL: the best. */
const char *host_sum_name(void);
int host_sum_force(const char *name);

#endif /* BELAY_KERNELS_HOST_SUM_H */
