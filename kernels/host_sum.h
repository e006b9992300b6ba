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
 * Ordering contract [TOUCH]: why and when a reader stores to what it reads.
 *
 *   writer                                reader
 *   (1) store-release of its flag  --->   (2) load-acquire of the flag
 *                                         loads of the slot; touch: stores of the same words
 *   (4) load-acquire of `done`     <---   (3) store-release of `done`
 *   stores to the slot, anew
 *
 * The store moves the line to the reader's core, whole; else the writer must ask for it back line
 * by line, which is dearer than the copy itself. Between (2) and (3) nobody stores to the slot
 * anything else, so that the word stored is the word that stands there, and (4) keeps the writer's
 * next stores after it. A reader that may be overtaken by (4), as when it was given up, must not
 * touch. Others who only read the slot meanwhile get the same bytes from either store.
 */

/*
 * One reduction. Sources are combined in the order 0 .. nsources - 1. Any alignment of any pointer
 * is right; 64-byte aligned ones are fast. A destination may be the same memory as a source (same
 * address); else they do not overlap.
 */
struct host_sum_job {
	const void *const *sources;
	unsigned nsources;	   /* 1 .. HOST_SUM_SOURCES_MAX */
	void *const *destinations; /* each gets the result */
	unsigned ndestinations;	   /* 1 .. HOST_SUM_SOURCES_MAX */
	size_t count;		   /* elements */
	int dtype;		   /* enum belay_dtype */
	int op;			   /* enum belay_op */
	/* Bit i, below nsources: store to each line of source i a word just read from it (its own
	 * value), under contract [TOUCH]. A tail of less than 8 bytes is left alone. Only for
	 * 64-byte aligned sources in writable memory. */
	uint64_t touch;
};

/* Reduces. Returns the digest of the result: the sum mod 2^64 of its little-endian 64-bit words,
 * the tail zero-padded. Digests of slices add up when slices start at multiples of 8 bytes. Does
 * not depend on, and does not change, the caller's floating-point mode. */
uint64_t host_sum(const struct host_sum_job *job);

/* memcpy with the digest of what was copied. touch, not 0: of src, as in host_sum_job. */
uint64_t host_sum_copy(void *dst, const void *src, size_t bytes, int touch);

/* memcpy to a 64-byte aligned slot, as fast as this CPU does it. */
void host_sum_stage(void *slot, const void *src, size_t bytes);

/* The instruction set in use: "avx512", "avx2", "neon" or "baseline". BELAY has no setting for it;
 * tests choose with host_sum_force(), which returns 0 when this CPU has it and -1 otherwise. NULL:
 * the best. */
const char *host_sum_name(void);
int host_sum_force(const char *name);

#endif /* BELAY_KERNELS_HOST_SUM_H */
