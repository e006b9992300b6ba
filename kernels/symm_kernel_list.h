/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of a source file, as the launching code finds them: each .cu says what it has, so
 * that symm_kernels_load() misses none. Inside of the kernels' library.
 */
#ifndef BELAY_KERNELS_SYMM_KERNEL_LIST_H
#define BELAY_KERNELS_SYMM_KERNEL_LIST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct symm_kernel {
	const void *function; /* as cudaLaunchKernelExC() takes it; NULL in places of a table that
				 nothing fills */
	const char *name;
};

/* Each file's kernels; the return is their number. */
size_t symm_service_kernels(const struct symm_kernel **ret_kernels); /* init, probe, marks, ... */
size_t symm_gate_kernels(const struct symm_kernel **ret_kernels);    /* gate, gate_end, parked */
size_t symm_reduce_kernels(const struct symm_kernel **ret_kernels);
size_t one_shot_packets_kernels(const struct symm_kernel **ret_kernels);
size_t one_shot_wire_kernels(const struct symm_kernel **ret_kernels);
size_t two_shot_wire_kernels(const struct symm_kernel **ret_kernels);
size_t two_shot_pull_kernels(const struct symm_kernel **ret_kernels);
size_t island_kernels(const struct symm_kernel **ret_kernels);

/*
 * The five call files list theirs as [dtype][variant]: variant 0 takes any op and any number of
 * ranks, the others sum for 2, 4 and 8 ranks and are NULL where they are not worth
 * their code.
 */
enum { SYMM_VARIANTS = 4 };

#ifdef __cplusplus
}
#endif

#endif /* BELAY_KERNELS_SYMM_KERNEL_LIST_H */
