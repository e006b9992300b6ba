/* SPDX-License-Identifier: Apache-2.0 */
/* The table of an algorithm's kernels, [dtype][variant], as symm_kernel_list.h has it. */
#ifndef BELAY_KERNELS_CALL_TABLE_CUH
#define BELAY_KERNELS_CALL_TABLE_CUH

#include "kernels/dirty_turn.cuh"
#include "kernels/symm_kernel_list.h"

#define CALL_KERNEL(name, type, n)                                                                 \
	{                                                                                          \
		(const void *)name<HOST_SUM_##type, n>, #name "<" #type ", " #n ">"                \
	}
#define NO_CALL_KERNEL                                                                             \
	{                                                                                          \
		NULL, NULL                                                                         \
	}
#define NO_CALL_KERNELS NO_CALL_KERNEL, NO_CALL_KERNEL, NO_CALL_KERNEL, NO_CALL_KERNEL

/* Variants 0 .. 3. */
#define CALL_KERNELS_ANY(name, type)                                                               \
	CALL_KERNEL(name, type, 0), NO_CALL_KERNEL, NO_CALL_KERNEL, NO_CALL_KERNEL
#define CALL_KERNELS_248(name, type)                                                               \
	CALL_KERNEL(name, type, 0), CALL_KERNEL(name, type, 2), CALL_KERNEL(name, type, 4),        \
		CALL_KERNEL(name, type, 8)
#define CALL_KERNELS_48(name, type)                                                                \
	CALL_KERNEL(name, type, 0), NO_CALL_KERNEL, CALL_KERNEL(name, type, 4),                    \
		CALL_KERNEL(name, type, 8)
#define CALL_KERNELS_NONE(name, type) NO_CALL_KERNELS

/* In the order of sum_types.h; there is no type 0. `wired`: the types that the full wire carries.
 */
#define CALL_TABLE(name, wired, others)                                                            \
	{                                                                                          \
		NO_CALL_KERNELS, wired(name, F32), others(name, F64), wired(name, F16),            \
			wired(name, BF16), others(name, I32), others(name, I64), others(name, U8), \
			others(name, I8)                                                           \
	}

#endif /* BELAY_KERNELS_CALL_TABLE_CUH */
