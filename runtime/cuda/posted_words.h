/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that kernels and the host exchange through mapped host memory. They are plain in
 * kernels/symm_layout.h, which CUDA C reads too; here they are what they are: atomics.
 *
 * Ordering contract [POSTS]
 *
 *   block of a kernel                      watcher, any rank's for `block`
 *   plain stores: output, description
 *   system-scope fence, where R2 or R3
 *   needs one (abandoning, taking over)
 *   (1) relaxed system-scope store of  --> (2) load-acquire of the post
 *       a post                             what the post allows
 *
 * A post without the fence is a hint (P2): it says that something is so, not that its data can be
 * seen. With it, (2) that reads (1) also sees what stands before the fence: `output` before
 * `stuck`, a block's last output store before its ABANDONED.
 *
 * Ordering contract [ORDERS]
 *
 *   watcher                                block that is stuck
 *   output written: its stream was seen
 *   done, so the device has it
 *   (1) store-release of an order      --> (2) polling load, system scope, acquire
 *                                          leaves, or goes on
 *
 * (2) that reads `released` comes after the last write of the output, and the next kernel of the
 * stream after (2).
 */
#ifndef BELAY_RUNTIME_CUDA_POSTED_WORDS_H
#define BELAY_RUNTIME_CUDA_POSTED_WORDS_H

#include <stdatomic.h>
#include <stdint.h>

/* [POSTS] (2). */
static inline uint64_t post_load(const uint64_t *post)
{
	return atomic_load_explicit((const _Atomic uint64_t *)post, memory_order_acquire);
}

/* [ORDERS] (1). */
static inline void order_store(uint64_t *order, uint64_t value)
{
	atomic_store_explicit((_Atomic uint64_t *)order, value, memory_order_release);
}

#endif /* BELAY_RUNTIME_CUDA_POSTED_WORDS_H */
